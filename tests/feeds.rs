//! Feeds: seats come back on sale, and watchers see synced changes only (P14).

use std::sync::Arc;

use crate::common::{
    self, Answer, Encoding, Faults, Home, Port, Rng, Shopper, TIMEOUT, Theatre, eventually,
    fixture::{event, product, room},
    write_control,
};
use serde_json::{Value, json};

/// Reads the feed until `is_so` holds for its state. Returns the frame.
async fn wait_for(watcher: &Port, mut is_so: impl FnMut(&Value) -> bool) -> Value {
    loop {
        let frame = watcher.other().await;
        let news = frame.get("snapshot").or_else(|| frame.get("delta")).unwrap_or_else(|| panic!("{frame}"));
        if is_so(news) {
            return news.clone();
        }
    }
}

async fn watch(server: &common::Server, encoding: Encoding, entity: &str) -> Port {
    let watcher = server.port(encoding).await;
    watcher.read("watch", json!({"entity": entity})).await.ok();
    watcher
}

/// A sold-out product comes back on sale by expiry, release and refund. Watchers see each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_see_seats_come_back_on_sale() {
    let mut rng = Rng::of_test("watchers_see_seats_come_back_on_sale");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    for encoding in Encoding::BOTH {
        let (last, finals) = (format!("last-{encoding:?}"), format!("finals-{encoding:?}"));
        product(&port, &last, 1, Value::Null).await;
        event(&port, &finals, 1, Value::Null).await;
        let shelf = watch(&server, encoding, &format!("product/{last}")).await;
        let yard = watch(&server, encoding, &format!("session/{finals}")).await;
        let units = |free: u64, held: u64, sold: u64| {
            move |news: &Value| news["counts"] == json!({"free": free, "held": held, "sold": sold})
        };
        let area = |free: u64, held: u64, sold: u64| {
            let expected = json!([{"area": "yard", "free": free, "held": held, "sold": sold}]);
            move |news: &Value| news["areas"] == expected
        };
        wait_for(&shelf, units(1, 0, 0)).await;
        wait_for(&yard, area(1, 0, 0)).await;
        let take = async |buyer: &Shopper| {
            buyer.stock(&last, 1).await.ok();
            buyer.places(&finals, "yard", 1).await.ok();
            wait_for(&shelf, units(0, 1, 0)).await;
            wait_for(&yard, area(0, 1, 0)).await;
        };
        // Expired, released, bought and refunded.
        let forgetful = Shopper::new(&port, &mut rng);
        forgetful.ask("cart.open", json!({"ttl_ms": 3_000})).await.ok();
        take(&forgetful).await;
        wait_for(&shelf, units(1, 0, 0)).await;
        wait_for(&yard, area(1, 0, 0)).await;
        assert_eq!(forgetful.state().await, "expired");
        let other = Shopper::new(&port, &mut rng);
        take(&other).await;
        other.cancel().await.ok();
        wait_for(&shelf, units(1, 0, 0)).await;
        wait_for(&yard, area(1, 0, 0)).await;
        let buyer = Shopper::new(&port, &mut rng);
        take(&buyer).await;
        buyer.checkout().await.ok();
        wait_for(&shelf, units(0, 0, 1)).await;
        wait_for(&yard, area(0, 0, 1)).await;
        let refund = json!({"order": buyer.cart(), "reason": "ill"});
        port.ask("order.refund", &last, refund).await.ok();
        wait_for(&shelf, units(1, 0, 0)).await;
        wait_for(&yard, area(1, 0, 0)).await;
    }
}

/// The sync of a hold fails and the node ends. Neither the buyer nor a watcher has seen the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsynced_holds_reach_neither_buyer_nor_watcher() {
    let mut rng = Rng::of_test("unsynced_holds_reach_neither_buyer_nor_watcher");
    let home = Home::new().with_faults();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    product(&port, "pen", 10, Value::Null).await;
    room(&port, "court", Value::Null).await;
    let buyer = Shopper::new(&port, &mut rng);
    buyer.ask("cart.open", json!({"customer": "ann"})).await.ok();
    let mut watchers = Vec::new();
    for encoding in Encoding::BOTH {
        for entity in [format!("session/{}", theatre.session()), "product/pen".into(), "resource/court".into()] {
            let watcher = watch(&server, encoding, &entity).await;
            wait_for(&watcher, |_| true).await;
            watchers.push(watcher);
        }
    }
    write_control(&home.control_file(), Faults::SyncFails);
    let everything = json!({"lines": [
        {"session": theatre.session(), "seats": [[0, 0]]},
        {"product": "pen", "quantity": 1},
        {"resource": "court", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"},
    ]});
    let body = buyer.body(everything.clone());
    let answer = port.ask_within("cart.hold_all", "hold", body, TIMEOUT / 10).await;
    assert!(answer.is_unknown(), "answered before the sync: {answer:?}");
    let (_, output) = server.ended();
    assert!(output.contains("cannot sync"), "{output}");
    for watcher in &watchers {
        let shown: Vec<Value> =
            watcher.others().await.into_iter().filter(|frame| frame.get("feed").is_some()).collect();
        assert_eq!(shown, Vec::<Value>::new(), "shown before the sync");
    }
    // The repeat resolves the outcome.
    write_control(&home.control_file(), Faults::None);
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let again = Shopper::with(&port, buyer.token.clone());
    let held = again.ask_as("hold", "cart.hold_all", everything).await;
    assert!(matches!(held, Answer::Ok(..)), "{held:?}");
    let map = eventually("one seat is held", async || {
        let map = theatre.map(&port, theatre.session()).await;
        (map.held == 1).then_some(map)
    })
    .await;
    assert_eq!((map.free, common::fixture::stock(&port, "pen").await), (15, [9, 1, 0]));
}

/// A restored backup reuses versions for other states. Earlier watchers get the new state at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restore_watchers_get_the_new_state() {
    let mut rng = Rng::of_test("after_a_restore_watchers_get_the_new_state");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    product(&port, "last", 9, Value::Null).await;
    let mut buy = async |port: &Arc<Port>| {
        let buyer = Shopper::new(port, &mut rng);
        buyer.stock("last", 1).await.ok();
        buyer.checkout().await.ok();
    };
    buy(&port).await;
    server.stop();

    // A restart keeps the epoch.
    let epoch = async |server: &common::Server| {
        let watcher = watch(server, Encoding::Json, "product/last").await;
        let begun = wait_for(&watcher, |_| true).await;
        (begun["epoch"].clone(), begun["version"].as_u64().expect("a version"))
    };
    let server = home.start();
    let (before, saved) = epoch(&server).await;
    server.stop();
    let server = home.start();
    assert_eq!(epoch(&server).await, (before.clone(), saved));
    server.stop();

    let (data, backup) = (home.data_dir(), home.path().join("backup"));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
        assert!(done.success());
    };
    copy(&data, &backup);
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    buy(&port).await;
    buy(&port).await;
    let (_, lost) = epoch(&server).await;
    assert!(lost > saved);
    server.stop();
    std::fs::remove_dir_all(&data).expect("it is removed");
    copy(&backup, &data);

    let server = home.start();
    let watcher = server.port(Encoding::Json).await;
    let resume = json!({"epoch": before, "version": lost});
    watcher.read("watch", json!({"entity": "product/last", "resume": resume})).await.ok();
    let begun = wait_for(&watcher, |_| true).await;
    assert_eq!(begun["version"], json!(saved), "{begun}");
    assert_ne!(begun["epoch"], before);
    server.stop();
}

/// Pipelined changes of one cart on one connection happen in the order in which they were sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_cart_keep_their_order() {
    let mut rng = Rng::of_test("changes_of_a_cart_keep_their_order");
    let server = Home::new().start();
    for encoding in Encoding::BOTH {
        let port = server.port(encoding).await;
        let name = format!("rare-{encoding:?}");
        product(&port, &name, 9, Value::Null).await;
        let token = rng.token();
        let take = json!({"token": token, "product": name, "quantity": 2});
        let (take, less, cancel, late) = tokio::join!(
            port.ask("cart.hold_stock", "1", take.clone()),
            port.ask("cart.set_quantity", "2", json!({"token": token, "line": 1, "quantity": 1})),
            port.ask("cart.cancel", "3", json!({"token": token})),
            port.ask("cart.hold_stock", "4", take.clone()),
        );
        take.ok();
        assert_eq!(less.ok()["lines"][0]["quantity"], json!(1));
        assert_eq!(cancel.ok()["state"], json!("canceled"));
        late.no(301, "cart_not_active");
    }
}

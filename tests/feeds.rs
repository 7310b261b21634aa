//! What watchers are told, and when: seats that come back on sale, and nothing that is not on disk (P14).

use std::sync::Arc;

use crate::common::{
    self, Answer, Dice, Encoding, Faults, Home, PATIENCE, Port, Shopper, Theatre, eventually,
    town::{event, product, room},
    write_control,
};
use serde_json::{Value, json};

/// What a feed tells, once it is so.
async fn told(watcher: &Port, mut is_so: impl FnMut(&Value) -> bool) -> Value {
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

/// Sold out, and back on sale because a cart was forgotten, given back or paid back: who watches hears of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_it_hears_that_it_is_back() {
    let mut dice = Dice::of_test("who_waits_for_it_hears_that_it_is_back");
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
        told(&shelf, units(1, 0, 0)).await;
        told(&yard, area(1, 0, 0)).await;
        let take = async |buyer: &Shopper| {
            buyer.stock(&last, 1).await.ok();
            buyer.places(&finals, "yard", 1).await.ok();
            told(&shelf, units(0, 1, 0)).await;
            told(&yard, area(0, 1, 0)).await;
        };
        // Forgotten, given back, bought and paid back.
        let forgetful = Shopper::new(&port, &mut dice);
        forgetful.ask("cart.open", json!({"ttl_ms": 3_000})).await.ok();
        take(&forgetful).await;
        told(&shelf, units(1, 0, 0)).await;
        told(&yard, area(1, 0, 0)).await;
        assert_eq!(forgetful.state().await, "expired");
        let other = Shopper::new(&port, &mut dice);
        take(&other).await;
        other.cancel().await.ok();
        told(&shelf, units(1, 0, 0)).await;
        told(&yard, area(1, 0, 0)).await;
        let buyer = Shopper::new(&port, &mut dice);
        take(&buyer).await;
        buyer.checkout().await.ok();
        told(&shelf, units(0, 0, 1)).await;
        told(&yard, area(0, 0, 1)).await;
        let refund = json!({"order": buyer.cart(), "reason": "ill"});
        port.ask("order.refund", &last, refund).await.ok();
        told(&shelf, units(1, 0, 0)).await;
        told(&yard, area(1, 0, 0)).await;
    }
}

/// The sync of a hold fails, and the node ends: neither the buyer nor a watcher was told of the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_shown_what_is_not_on_disk() {
    let mut dice = Dice::of_test("nobody_is_shown_what_is_not_on_disk");
    let home = Home::new().with_faults();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    product(&port, "pen", 10, Value::Null).await;
    room(&port, "court", Value::Null).await;
    let buyer = Shopper::new(&port, &mut dice);
    buyer.ask("cart.open", json!({"customer": "ann"})).await.ok();
    let mut watchers = Vec::new();
    for encoding in Encoding::BOTH {
        for entity in [format!("session/{}", theatre.session()), "product/pen".into(), "resource/court".into()] {
            let watcher = watch(&server, encoding, &entity).await;
            told(&watcher, |_| true).await;
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
    let answer = port.ask_within("cart.hold_all", "hold", body, PATIENCE / 10).await;
    assert!(answer.is_unknown(), "answered before it was on disk: {answer:?}");
    let (_, said) = server.ended();
    assert!(said.contains("cannot sync"), "{said}");
    for watcher in &watchers {
        let shown: Vec<Value> =
            watcher.others().await.into_iter().filter(|frame| frame.get("feed").is_some()).collect();
        assert_eq!(shown, Vec::<Value>::new(), "shown before it was on disk");
    }
    // The repeat finds out how it ended.
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
    assert_eq!((map.free, common::town::stock(&port, "pen").await), (15, [9, 1, 0]));
}

/// A backup is put back: versions are used again for other states, and earlier watchers get the new state at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restore_watchers_begin_anew() {
    let mut dice = Dice::of_test("after_a_restore_watchers_begin_anew");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    product(&port, "last", 9, Value::Null).await;
    let mut buy = async |port: &Arc<Port>| {
        let buyer = Shopper::new(port, &mut dice);
        buyer.stock("last", 1).await.ok();
        buyer.checkout().await.ok();
    };
    buy(&port).await;
    server.stop();

    // A restart keeps the epoch.
    let epoch = async |server: &common::Server| {
        let watcher = watch(server, Encoding::Json, "product/last").await;
        let begun = told(&watcher, |_| true).await;
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
    let begun = told(&watcher, |_| true).await;
    assert_eq!(begun["version"], json!(saved), "{begun}");
    assert_ne!(begun["epoch"], before);
    server.stop();
}

/// What one connection sends for one cart happens in the order in which it was sent, without waiting for answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_cart_keep_their_order() {
    let mut dice = Dice::of_test("changes_of_a_cart_keep_their_order");
    let server = Home::new().start();
    for encoding in Encoding::BOTH {
        let port = server.port(encoding).await;
        let name = format!("rare-{encoding:?}");
        product(&port, &name, 9, Value::Null).await;
        let token = dice.token();
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

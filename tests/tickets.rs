//! Tickets without seats: areas by quantity, purchases of customers, canceled events.

use std::{collections::BTreeSet, sync::Arc};

use crate::common::{
    self, Answer, Encoding, Home, Map, Rng, Shopper, TIMEOUT, Theatre, eventually,
    fixture::{audit, event, places, places_are, product, purchases},
};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// Worked examples 8 and 9, in both encodings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_by_number() {
    let mut rng = Rng::of_test("places_by_number");
    let home = Home::new();
    let server = home.start();
    for encoding in Encoding::BOTH {
        let port = Arc::new(server.port(encoding).await);
        let finals = format!("finals-{encoding:?}");
        let session = event(&port, &finals, 495, Value::Null).await;
        assert_eq!(
            session["counts"],
            json!({"free": 0, "held": 0, "sold": 0, "blocked": 0}),
            "the session has no seats"
        );
        let map = port.read("session.map", json!({"id": finals})).await.ok();
        assert_eq!(Map::read(&map, 0).free, 0);
        assert_eq!(map["areas"], json!([{"area": "yard", "free": 495, "held": 0, "sold": 0}]));
        let buyer = Shopper::new(&port, &mut rng);
        let held = buyer.places(&finals, "yard", 5).await.ok();
        let line = json!({"line": 1, "session": finals, "area": "yard", "quantity": 5, "price": 1_000, "total": 5_000});
        assert_eq!(held["lines"], json!([line]));
        assert_eq!(places(&port, &finals).await, [490, 5, 0]);
        let no = buyer.places(&finals, "yard", 500).await.no(205, "not_enough_places");
        assert_eq!((&no["area"], &no["free"]), (&json!("yard"), &json!(490)));
        assert_eq!((places(&port, &finals).await, &buyer.get().await["lines"]), ([490, 5, 0], &json!([line])));
        buyer.places(&finals, "moat", 1).await.no(701, "not_found");
        for quantity in [0, -1, 1_000_001, i64::MAX] {
            buyer.places(&finals, "yard", quantity).await.no(402, "bad_quantity");
        }
        buyer.seats(&finals, json!([[0, 0]])).await.no(202, "no_such_seat");
        // Raised, raised too far, lowered, and half of it bought.
        assert_eq!(buyer.places(&finals, "yard", 490).await.ok()["lines"][0]["quantity"], 495);
        buyer.set(1, 496).await.no(205, "not_enough_places");
        assert_eq!(places(&port, &finals).await, [0, 495, 0]);
        buyer.set(1, 250).await.ok();
        places_are(&port, &finals, [245, 250, 0]).await;
        let order = buyer.checkout().await.ok();
        assert_eq!(order["total"], json!({"amount": 250_000, "currency": "EUR"}));
        assert_eq!(order["id"].as_str().map(str::len), Some(32), "an order's id has 128 bits");
        assert_eq!(places(&port, &finals).await, [245, 0, 250]);
    }
}

/// Two of three holds are left alone and expire, the third stays. Several belong to one customer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_places_expire() {
    let mut rng = Rng::of_test("abandoned_places_expire");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::MsgPack).await);
    event(&port, "heats", 500, json!({"hold_ttl_ms": 1_500})).await;
    let hold = async |buyer: &Shopper, quantity: u64| {
        let body = json!({"session": "heats", "area": "yard", "quantity": quantity, "customer": "ann"});
        buyer.ask("cart.hold_places", body).await.ok()
    };
    let [first, second, third] = [(); 3].map(|()| Shopper::new(&port, &mut rng));
    hold(&first, 7).await;
    hold(&second, 19).await;
    hold(&third, 4).await;
    assert_eq!(places(&port, "heats").await, [470, 30, 0]);
    let kept = eventually("the untouched ones are free", async || {
        // A change moves the cart's deadline.
        let kept = third.set(1, 5).await.ok();
        third.set(1, 4).await.ok();
        (places(&port, "heats").await[1] <= 5).then_some(kept)
    })
    .await;
    assert_eq!(kept["state"], "active");
    assert_eq!((first.state().await, second.state().await), ("expired".to_owned(), "expired".to_owned()));
    third.set(1, 5).await.ok();
    third.checkout().await.ok();
    places_are(&port, "heats", [495, 0, 5]).await;
    first.checkout().await.no(302, "cart_expired");
    audit(&port).await;
    assert_eq!(purchases(&port, "ann").await, [third.cart()]);
}

/// Purchases have cursors: page by page, and later again from a saved cursor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purchases_have_cursors() {
    let mut rng = Rng::of_test("purchases_have_cursors");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    event(&port, "finals", 1_000, Value::Null).await;
    let buyers: Vec<Shopper> = (0..25).map(|_| Shopper::new(&port, &mut rng)).collect();
    join_all(buyers.iter().map(async |buyer| {
        let body = json!({"session": "finals", "area": "yard", "quantity": 2, "customer": "ann"});
        buyer.ask("cart.hold_places", body).await.ok();
        buyer.checkout().await.ok();
    }))
    .await;
    audit(&port).await;
    let page = async |cursor: u64| {
        port.read("customer.purchases", json!({"customer": "ann", "limit": 10, "cursor": cursor})).await.ok()
    };
    let (mut cursor, mut seen) = (0, Vec::new());
    loop {
        let page = page(cursor).await;
        assert_eq!(page["newest"], 25);
        let purchases = page["purchases"].as_array().expect("purchases").clone();
        for purchase in &purchases {
            cursor += 1;
            assert_eq!(purchase["cursor"], cursor, "cursors have no gaps");
            assert_eq!(purchase["total"], json!({"amount": 2_000, "currency": "EUR"}));
            seen.push(purchase["order"].as_str().expect("an order").to_owned());
        }
        if purchases.len() < 10 {
            break;
        }
    }
    let expected: BTreeSet<String> = buyers.iter().map(Shopper::cart).collect();
    assert_eq!((seen.len(), seen.iter().cloned().collect()), (25, expected));
    // A cursor stays valid, and returns only later purchases.
    let later = Shopper::new(&port, &mut rng);
    let body = json!({"session": "finals", "area": "yard", "quantity": 1, "customer": "ann"});
    later.ask("cart.hold_places", body).await.ok();
    later.checkout().await.ok();
    audit(&port).await;
    let news = page(25).await;
    assert_eq!((&news["newest"], &news["purchases"][0]["order"]), (&json!(26), &json!(later.cart())));
    assert_eq!(news["purchases"].as_array().map(Vec::len), Some(1));
    // Orders of other customers are not listed. A customer without orders has none.
    assert_eq!(purchases(&port, "bob").await, Vec::<String>::new());
    // A cart belongs to one customer.
    let mixed = Shopper::new(&port, &mut rng);
    mixed.ask("cart.open", json!({"customer": "bob"})).await.ok();
    mixed.ask("cart.hold_places", body_of("ann")).await.no(101, "bad_request");
    mixed.ask("cart.hold_places", body_of("bob")).await.ok();
    let pay = json!({"payment": common::recorded(), "customer": "ann"});
    mixed.ask("cart.checkout", pay).await.no(101, "bad_request");
    mixed.checkout().await.ok();
    audit(&port).await;
    assert_eq!((purchases(&port, "ann").await.len(), purchases(&port, "bob").await), (26, vec![mixed.cart()]));
}

fn body_of(customer: &str) -> Value {
    json!({"session": "finals", "area": "yard", "quantity": 1, "customer": customer})
}

/// A watcher of a customer sees each order once, and after a pause the orders that it missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purchases_are_pushed_to_watchers() {
    let mut rng = Rng::of_test("purchases_are_pushed_to_watchers");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::MsgPack).await);
    event(&port, "finals", 1_000, Value::Null).await;
    let mut orders = Vec::new();
    let mut buy = async || {
        let buyer = Shopper::new(&port, &mut rng);
        buyer.ask("cart.hold_places", body_of("ann")).await.ok();
        buyer.checkout().await.ok();
        orders.push(buyer.cart());
        orders.clone()
    };
    // Reads frames until this many purchases after the cursor have arrived.
    let follow = async |watcher: &common::Port, mut cursor: u64, orders: &[String]| {
        while cursor < orders.len() as u64 {
            let frame = watcher.other().await;
            let news = frame.get("snapshot").or_else(|| frame.get("delta")).expect("a snapshot or a delta");
            assert_eq!(news["from"], cursor, "a gap: {frame}");
            for purchase in news["purchases"].as_array().expect("purchases") {
                assert_eq!(purchase["order"], orders[cursor as usize], "{frame}");
                cursor += 1;
                assert_eq!(purchase["cursor"], cursor, "{frame}");
            }
            assert_eq!(news["to"], cursor, "{frame}");
        }
        cursor
    };
    let orders = buy().await;
    audit(&port).await;
    for encoding in Encoding::BOTH {
        let watcher = server.port(encoding).await;
        watcher.read("watch", json!({"entity": "customer/ann", "resume": {"cursor": 0}})).await.ok();
        follow(&watcher, 0, &orders).await;
    }
    let watcher = server.port(Encoding::Json).await;
    watcher.read("watch", json!({"entity": "customer/ann", "resume": {"cursor": 1}})).await.ok();
    let mut cursor = 1;
    let mut last = orders;
    for _ in 0..5 {
        last = buy().await;
        cursor = follow(&watcher, cursor, &last).await;
    }
    // The watcher was away, and returns with its cursor.
    drop(watcher);
    for _ in 0..3 {
        last = buy().await;
    }
    let watcher = server.port(Encoding::MsgPack).await;
    watcher.read("watch", json!({"entity": "customer/ann", "resume": {"cursor": cursor}})).await.ok();
    follow(&watcher, cursor, &last).await;
}

/// The node is killed repeatedly while buyers buy. Each order is listed once among the purchases (P12), and nothing is oversold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_purchase_is_listed_once_across_kills() {
    const BUYERS: usize = 24;
    let mut rng = Rng::of_test("each_purchase_is_listed_once_across_kills");
    let home = Home::new();
    let mut server = home.start();
    let address = server.address();
    let mut port = Arc::new(server.port(Encoding::MsgPack).await);
    event(&port, "finals", 100_000, Value::Null).await;
    product(&port, "flag", 100_000, Value::Null).await;
    let mut carts: Vec<(String, String)> = Vec::new();
    for round in 0..4 {
        let tokens: Vec<(String, String)> =
            (0..BUYERS).map(|number| (rng.token(), format!("customer-{}", number % 3))).collect();
        let buyers = tokens.iter().map(async |(token, customer)| {
            // Buyers repeat unknown outcomes with the same request id once the node answers again.
            let buyer = Shopper::with(&port, token.clone());
            let hold = json!({"customer": customer, "lines": [
                {"session": "finals", "area": "yard", "quantity": 2}, {"product": "flag", "quantity": 1}]});
            let held = buyer.port.ask("cart.hold_all", "hold", buyer.body(hold)).await;
            if matches!(held, Answer::Ok(..)) {
                let pay = buyer.body(json!({"payment": common::recorded()}));
                drop(buyer.port.ask_within("cart.checkout", "pay", pay, TIMEOUT / 10).await);
            }
        });
        let wait_us = rng.below(40_000) as u64;
        let crash = async {
            tokio::time::sleep(std::time::Duration::from_micros(wait_us)).await;
            server.kill();
        };
        tokio::join!(join_all(buyers), crash);
        server = home.start_at(address);
        port = Arc::new(server.port(Encoding::MsgPack).await);
        for (token, customer) in &tokens {
            let buyer = Shopper::with(&port, token.clone());
            let hold = json!({"customer": customer, "lines": [
                {"session": "finals", "area": "yard", "quantity": 2}, {"product": "flag", "quantity": 1}]});
            buyer.port.ask("cart.hold_all", "hold", buyer.body(hold)).await.ok();
            let pay = buyer.body(json!({"payment": common::recorded()}));
            let order = buyer.port.ask("cart.checkout", "pay", pay).await.ok();
            assert_eq!(order["total"]["amount"], 2_350);
        }
        carts.extend(tokens.into_iter().map(|(token, customer)| (Shopper::with(&port, token).cart(), customer)));
        let audit = audit(&port).await;
        assert_eq!(audit["orders"], (round + 1) * BUYERS, "{audit}");
        assert_eq!(audit["purchases"], (round + 1) * BUYERS, "{audit}");
        for customer in ["customer-0", "customer-1", "customer-2"] {
            let mut expected: Vec<_> =
                carts.iter().filter(|(_, whose)| whose == customer).map(|(cart, _)| cart.clone()).collect();
            let mut posted = purchases(&port, customer).await;
            expected.sort();
            posted.sort();
            assert_eq!(posted, expected);
        }
        let sold = ((round + 1) * BUYERS * 2) as u64;
        places_are(&port, "finals", [100_000 - sold, 0, sold]).await;
    }
}

/// A canceled session releases its holds and refunds its sales, in every line that includes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canceled_session_releases_and_refunds_everything() {
    let mut rng = Rng::of_test("a_canceled_session_releases_and_refunds_everything");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 2, (4, 8), None).await;
    let [rained, played] = [0, 1].map(|number| theatre.sessions[number].as_str());
    product(&port, "programme", 10, Value::Null).await;
    let [holder, both, buyer] = [(); 3].map(|()| Shopper::new(&port, &mut rng));
    holder.seats(rained, json!([[0, 0], [0, 1]])).await.ok();
    holder.seats(played, json!([[0, 0]])).await.ok();
    both.seats(rained, json!([[1, 0]])).await.ok();
    both.seats(played, json!([[1, 0]])).await.ok();
    both.stock("programme", 2).await.ok();
    both.checkout().await.ok();
    buyer.seats(rained, json!([[2, 0], [2, 1], [2, 2]])).await.ok();
    buyer.checkout().await.ok();
    port.ask("session.cancel", "c", json!({"id": rained, "reason": "rain"})).await.ok();
    eventually("nothing of it is held or sold", async || {
        let map = theatre.map(&port, rained).await;
        (map.held + map.sold == 0).then_some(())
    })
    .await;
    // The rest of a cart is not affected.
    let cart = holder.get().await;
    assert_eq!(cart["state"], "active");
    let sessions: Vec<_> =
        cart["lines"].as_array().expect("lines").iter().map(|line| line["session"].as_str()).collect();
    assert_eq!(sessions, [Some(played)], "{cart}");
    holder.checkout().await.ok();
    for (shopper, lines, amount) in [(&both, json!([1]), 1_000), (&buyer, json!([1]), 3_000)] {
        let refunds = eventually("the refund is listed", async || {
            let order = shopper.order().await;
            order.get("refunds").cloned()
        })
        .await;
        assert_eq!(refunds.as_array().map(Vec::len), Some(1), "{refunds}");
        assert_eq!((&refunds[0]["lines"], &refunds[0]["amount"]["amount"]), (&lines, &json!(amount)), "{refunds}");
    }
    // The session sells nothing any more and says why. The cancellation is reported once.
    Shopper::new(&port, &mut rng).seats(rained, json!([[3, 3]])).await.no(207, "session_closed");
    assert_eq!(port.read("session.get", json!({"id": rained})).await.ok()["canceled"], "rain");
    port.ask("session.cancel", "c", json!({"id": rained, "reason": "rain"})).await.ok();
    port.ask("session.cancel", "d", json!({"id": rained, "reason": "snow"})).await.no(207, "session_closed");
    assert_eq!(theatre.map(&port, played).await.sold, 2);
    let audit = audit(&port).await;
    assert_eq!((audit["refunds"].as_u64(), audit["orders"].as_u64()), (Some(2), Some(3)));
    assert_eq!(audit["stock"], json!({"free": 8, "held": 0, "sold": 2}));
}

/// The histories of a session and of one seat, before and after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_survive_a_restart() {
    let mut rng = Rng::of_test("histories_survive_a_restart");
    let home = Home::new();
    let mut server = home.start();
    let mut port = Arc::new(server.port(Encoding::MsgPack).await);
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    let session = theatre.session();
    let [first, second] = [(); 2].map(|()| Shopper::new(&port, &mut rng));
    first.seats(session, json!([[0, 0], [0, 1]])).await.ok();
    first.release(1).await.ok();
    eventually("the seats are released", async || (theatre.map(&port, session).await.held == 0).then_some(())).await;
    second.seats(session, json!([[0, 1]])).await.ok();
    second.checkout().await.ok();
    audit(&port).await;
    let entity = format!("session/{session}");
    let events = async |port: &common::Port, body: Value| {
        let page = port.read("admin.history", body).await.ok();
        assert_eq!(page["complete"], true, "{page}");
        let entries = page["entries"].as_array().expect("entries").clone();
        let versions: Vec<_> = entries.iter().map(|entry| entry["version"].as_u64().expect("a version")).collect();
        assert!(versions.is_sorted(), "a page begins with its oldest entry: {page}");
        entries.iter().map(|entry| entry["event"].as_str().expect("a word").to_owned()).collect::<Vec<_>>()
    };
    let all = json!({"entity": entity});
    let of = |seat: u16| json!({"entity": entity, "seat": [0, seat]});
    let cart = json!({"entity": format!("cart/{}", second.cart())});
    let mut histories = Vec::new();
    for restarted in [false, true] {
        if restarted {
            server.kill();
            server = home.start();
            port = Arc::new(server.port(Encoding::MsgPack).await);
        }
        let now = [
            events(&port, all.clone()).await,
            events(&port, of(0)).await,
            events(&port, of(1)).await,
            events(&port, of(7)).await,
            events(&port, cart.clone()).await,
        ];
        assert!(now[0].len() > now[2].len() && now[2].len() > now[1].len(), "{now:?}");
        assert!(now[1].len() > now[3].len(), "{now:?}");
        if restarted {
            assert_eq!(now.to_vec(), histories);
        }
        histories = now.to_vec();
    }
    println!("{histories:#?}");
    // Page by page it is the same.
    let (mut cursor, mut paged) = (Value::Null, Vec::new());
    loop {
        let page = port.read("admin.history", json!({"entity": entity, "limit": 2, "before": cursor})).await.ok();
        let entries = page["entries"].as_array().expect("entries");
        // The newest page comes first.
        paged.splice(0..0, entries.iter().map(|entry| entry["event"].as_str().expect("a word").to_owned()));
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(paged, histories[0]);
    port.read("admin.history", json!({"entity": "session/nowhere"})).await.no(701, "not_found");
}

/// Five thousand finished carts leave memory and are still readable, before and after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finished_carts_leave_memory_and_still_answer() {
    const CARTS: usize = 5_000;
    const AT_ONCE: usize = 200;
    let mut rng = Rng::of_test("finished_carts_leave_memory_and_still_answer");
    let home = Home::with_config("[log]\nsegment_bytes = 1_048_576\n\n[node]\nshards = 4\n");
    let mut server = home.start();
    let mut port = Arc::new(server.port(Encoding::MsgPack).await);
    event(&port, "finals", 1_000_000, Value::Null).await;
    let tokens: Vec<String> = (0..CARTS).map(|_| rng.token()).collect();
    for tokens in tokens.chunks(AT_ONCE) {
        join_all(tokens.iter().map(async |token| {
            let buyer = Shopper::with(&port, token.clone());
            buyer.ask("cart.hold_places", body_of("ann")).await.ok();
            buyer.checkout().await.ok();
        }))
        .await;
    }
    for restarted in [false, true] {
        if restarted {
            server.kill();
            server = home.start();
            port = Arc::new(server.port(Encoding::MsgPack).await);
        }
        eventually("every cart has left memory", async || {
            let status = port.read("admin.status", json!({})).await.ok();
            let shards = status["shards"].as_array()?.iter();
            let kept: u64 = shards.map(|shard| shard["entities"].as_u64().expect("a number")).sum();
            (status["carts_archived"] == CARTS && kept < 100).then_some(())
        })
        .await;
        for tokens in tokens.chunks(AT_ONCE) {
            join_all(tokens.iter().map(async |token| {
                let buyer = Shopper::with(&port, token.clone());
                let (cart, order) = (buyer.get().await, buyer.order().await);
                assert_eq!((&cart["state"], &cart["lines"]), (&json!("done"), &order["lines"]));
                assert_eq!((&order["id"], &order["customer"]), (&json!(buyer.cart()), &json!("ann")));
            }))
            .await;
        }
        // A repeat finds its answer in the archive too, and another checkout its refusal.
        let buyer = Shopper::with(&port, tokens[0].clone());
        let first = buyer.ask("cart.hold_places", body_of("ann")).await.ok();
        assert_eq!(first["lines"][0]["quantity"], 1);
        buyer.checkout().await.ok();
        buyer.checkout().await.no(301, "cart_not_active");
        let audit = audit(&port).await;
        assert_eq!((audit["orders"].as_u64(), audit["purchases"].as_u64()), (Some(CARTS as u64), Some(CARTS as u64)));
        assert_eq!(audit["areas"], json!({"free": 1_000_000 - CARTS, "held": 0, "sold": CARTS}));
    }
    // A refund reloads a cart and changes it, and the cart leaves memory again.
    let buyer = Shopper::with(&port, tokens[1].clone());
    port.ask("order.refund", "r", json!({"order": buyer.cart(), "reason": "ill"})).await.ok();
    eventually("the refund is written", async || buyer.order().await.get("refunds").cloned()).await;
    places_are(&port, "finals", [1_000_000 - CARTS as u64 + 1, 0, CARTS as u64 - 1]).await;
    assert_eq!(audit(&port).await["refunds"], 1);
}

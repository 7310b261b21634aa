//! Races over real sockets: one winner for the last seat, limits that hold at every moment, one effect per request id.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::common::{
    self, Answer, Encoding, Home, No, Port, Rng, Shopper, Theatre, eventually,
    fixture::{audit, event, places, product, room, stock, stock_is},
    recorded,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// Five hundred connections, half of them in each encoding.
const CONNECTIONS: usize = 500;

/// 2030-01-01T12:00:00Z, in both encodings.
const NOON_MS: u64 = 1_893_499_200_000;
const NOON: &str = "2030-01-01T12:00:00Z";
const ONE: &str = "2030-01-01T13:00:00Z";

/// All send a request at once. Returns the token whose request was granted, and the answers of the others.
async fn race(ports: &[Arc<Port>], tokens: &[String], op: &str, body: impl Fn(&Port) -> Value) -> (String, Vec<No>) {
    let asks = ports.iter().zip(tokens).map(|(port, token)| {
        let mut body = body(port);
        body["token"] = token.as_str().into();
        port.ask(op, "race", body)
    });
    let (mut winners, mut refused) = (Vec::new(), Vec::new());
    for (answer, token) in join_all(asks).await.into_iter().zip(tokens) {
        match answer {
            Answer::Ok(..) => winners.push(token.clone()),
            Answer::No(no) => refused.push(no),
            other => panic!("{op}: {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1, "{op}: {} winners", winners.len());
    (winners.remove(0), refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_want_the_last_of_everything() {
    let mut rng = Rng::of_test("five_hundred_want_the_last_of_everything");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    let session = theatre.session();
    product(&port, "last", 1, Value::Null).await;
    event(&port, "finals", 1, Value::Null).await;
    room(&port, "court", Value::Null).await;
    let ports = server.ports(CONNECTIONS).await;
    let mut bought = Vec::new();

    let tokens: Vec<String> = ports.iter().map(|_| rng.token()).collect();
    let (winner, refused) =
        race(&ports, &tokens, "cart.hold_stock", |_| json!({"product": "last", "quantity": 1})).await;
    for no in refused {
        let gone = json!([{"product": "last", "wanted": 1, "free": 0, "held": 1}]);
        assert_eq!((no.code, &no.body["shortages"]), (401, &gone));
    }
    assert_eq!(stock(&port, "last").await, [0, 1, 0]);
    bought.push(winner);

    let tokens: Vec<String> = ports.iter().map(|_| rng.token()).collect();
    let (winner, refused) =
        race(&ports, &tokens, "cart.hold_places", |_| json!({"session": "finals", "area": "yard", "quantity": 1}))
            .await;
    for no in refused {
        assert_eq!((no.code, &no.body["area"], &no.body["free"]), (205, &json!("yard"), &json!(0)), "{}", no.body);
    }
    assert_eq!(places(&port, "finals").await, [0, 1, 0]);
    bought.push(winner);

    let tokens: Vec<String> = ports.iter().map(|_| rng.token()).collect();
    let slot = |port: &Port| match port.encoding() {
        Encoding::Json => json!({"resource": "court", "begin": NOON, "end": ONE}),
        Encoding::MsgPack => json!({"resource": "court", "begin": NOON_MS, "end": NOON_MS + 3_600_000}),
    };
    let (winner, refused) = race(&ports, &tokens, "cart.hold_slot", slot).await;
    for no in refused {
        assert_eq!((no.code, no.body["conflicts"].as_array().map(Vec::len)), (501, Some(1)), "{}", no.body);
    }
    bought.push(winner);

    let tokens: Vec<String> = ports.iter().map(|_| rng.token()).collect();
    let (winner, refused) =
        race(&ports, &tokens, "cart.hold_seats", |_| json!({"session": session, "seats": [[1, 3]]})).await;
    assert!(refused.iter().all(|no| no.code == 201 && no.body["seats"] == json!([[1, 3]])));
    bought.push(winner);

    // The same slot without a cart, each booking with its own id.
    let reserved = join_all(ports.iter().enumerate().map(|(number, port)| {
        let (begin, end) = match port.encoding() {
            Encoding::Json => (json!(ONE), json!("2030-01-01T14:00:00Z")),
            Encoding::MsgPack => (json!(NOON_MS + 3_600_000), json!(NOON_MS + 7_200_000)),
        };
        let body = json!({"resource": "court", "booking": format!("b{number}"), "begin": begin, "end": end});
        async move { port.ask("resource.reserve", &format!("b{number}"), body).await }
    }))
    .await;
    let granted = reserved.iter().filter(|answer| matches!(answer, Answer::Ok(..))).count();
    assert_eq!(granted, 1);
    for answer in reserved {
        if let Answer::No(no) = answer {
            assert_eq!(no.code, 501, "{}", no.body);
        }
    }
    for token in bought {
        Shopper::with(&port, token).ask_as("pay", "cart.checkout", json!({"payment": recorded()})).await.ok();
    }
    let audit = audit(&port).await;
    assert_eq!((audit["orders"].as_u64(), audit["bookings"].as_u64()), (Some(4), Some(2)), "{audit}");
    assert_eq!((&audit["sold_seats"], &audit["holds"]), (&json!(1), &json!(0)), "{audit}");
}

/// Checkouts race with expiry, ten thousand times. Each cart is a sale or an expiry, never both and never neither, and all counts
/// agree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_checkouts_at_the_last_moment() {
    const CARTS: usize = 10_000;
    const AT_ONCE: usize = 48;
    let rng = Rng::of_test("ten_thousand_checkouts_at_the_last_moment");
    let home = Home::new();
    let server = home.start();
    let ports = server.ports(4).await;
    for number in 0..8 {
        product(&ports[0], &format!("p{number}"), 1_000_000, Value::Null).await;
    }
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64() * 1_000.0;
    let (sold, expired, begun) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let (sold, expired, begun) = (&sold, &expired, &begun);
    let workers = (0..AT_ONCE).map(|worker| {
        let mut rng = rng.fork(worker as u64);
        // Deadlines are numbers in MessagePack.
        let port = &ports[1 + worker % 2 * 2];
        async move {
            while begun.fetch_add(1, Ordering::Relaxed) < CARTS {
                let buyer = Shopper::new(port, &mut rng);
                let ttl_ms = 4 + rng.below(60);
                buyer.ask("cart.open", json!({"ttl_ms": ttl_ms})).await.ok();
                let product = format!("p{}", rng.below(8));
                let asked_ms = now_ms();
                let held = match buyer.stock(&product, 1).await {
                    Answer::Ok(held, _) => held,
                    late => {
                        late.no(302, "cart_expired");
                        expired.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                };
                let deadline = held["deadline"].as_u64().expect("a time") as f64;
                // Within a millisecond of the deadline, before or after it. The request takes about half the time of the hold.
                let way_ms = (now_ms() - asked_ms) / 2.0;
                let wait_ms = deadline - now_ms() - way_ms - 1.0 + rng.below(2_000) as f64 / 1_000.0;
                if wait_ms > 0.0 {
                    tokio::time::sleep(Duration::from_secs_f64(wait_ms / 1_000.0)).await;
                }
                match buyer.checkout().await {
                    Answer::Ok(..) => {
                        sold.fetch_add(1, Ordering::Relaxed);
                    }
                    late => {
                        late.no(302, "cart_expired");
                        expired.fetch_add(1, Ordering::Relaxed);
                        if rng.percent(10) {
                            assert_eq!(buyer.state().await, "expired");
                            port.read("order.get", json!({"order": buyer.cart()})).await.no(701, "not_found");
                        }
                    }
                }
            }
        }
    });
    join_all(workers).await;
    let (sold, expired) = (sold.load(Ordering::Relaxed), expired.load(Ordering::Relaxed));
    println!("{sold} were sold, {expired} expired");
    assert_eq!(sold + expired, CARTS);
    assert!(sold > 0 && expired > 0, "both sides must win sometimes");
    let port = &ports[0];
    let audit = eventually("no hold is left", async || {
        let audit = audit(port).await;
        (audit["holds"] == 0 && audit["carts"]["active"] == 0).then_some(audit)
    })
    .await;
    assert_eq!((&audit["carts"]["done"], &audit["carts"]["expired"]), (&json!(sold), &json!(expired)), "{audit}");
    assert_eq!(audit["orders"], sold);
    assert_eq!(audit["stock"], json!({"free": 8_000_000 - sold, "held": 0, "sold": sold}));
}

/// A hundred concurrent requests with one id, over several connections and both encodings: one effect, a hundred equal answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_id_a_hundred_times() {
    const TIMES: usize = 100;
    let mut rng = Rng::of_test("one_request_id_a_hundred_times");
    let home = Home::new();
    let server = home.start();
    let ports = server.ports(8).await;
    let port = Arc::new(server.port(Encoding::MsgPack).await);
    let theatre = Theatre::open(&port, 1, (4, 8), None).await;
    let session = theatre.session();
    product(&port, "pen", 100, Value::Null).await;
    product(&port, "hot", 100, json!({"hold": "at_checkout"})).await;
    event(&port, "finals", 100, Value::Null).await;
    room(&port, "court", Value::Null).await;
    let buyer = Shopper::new(&port, &mut rng);
    let all = async |op: &str, body: Value, fields: &[&str]| {
        let mut body = body;
        if op.starts_with("cart.") {
            body["token"] = buyer.token.as_str().into();
        }
        let rid = format!("once-{op}");
        let asks = (0..TIMES).map(|number| ports[number % ports.len()].ask(op, &rid, body.clone()));
        let answers: Vec<Value> = join_all(asks).await.into_iter().map(Answer::ok).collect();
        for answer in &answers {
            for field in fields {
                assert_eq!(answer[*field], answers[0][*field], "{op}");
            }
        }
        // Another body under the same id.
        let mut other = body;
        let fields = other.as_object_mut().expect("fields");
        match op {
            "cart.checkout" => drop(fields.insert("shipping".into(), json!({"recipient": "Eve"}))),
            "order.refund" => drop(fields.insert("reason".into(), json!("another"))),
            "resource.reserve" => drop(fields.insert("details".into(), json!("another"))),
            "cart.hold_all" => drop(fields.insert("customer".into(), json!("eve"))),
            _ => drop(fields.insert("quantity".into(), json!(77))),
        }
        port.ask(op, &rid, other).await.no(105, "request_id_reused");
        answers[0].clone()
    };
    all("cart.hold_stock", json!({"product": "pen", "quantity": 3}), &["lines", "cart"]).await;
    assert_eq!(stock(&port, "pen").await, [97, 3, 0]);
    all("cart.set_quantity", json!({"line": 1, "quantity": 5}), &["lines", "total"]).await;
    assert_eq!(stock(&port, "pen").await, [95, 5, 0]);
    all("cart.hold_places", json!({"session": "finals", "area": "yard", "quantity": 2}), &["lines"]).await;
    let everything = json!({"lines": [
        {"session": session, "count": 2}, {"product": "pen", "quantity": 1}, {"product": "hot", "quantity": 4}]});
    all("cart.hold_all", everything, &["lines"]).await;
    assert_eq!((stock(&port, "pen").await, theatre.map(&port, session).await.held), ([94, 6, 0], 2));
    let reserved = json!({"resource": "court", "booking": "b", "details": "once",
        "local_begin": "2030-01-01T12:00", "local_end": "2030-01-01T13:00"});
    all("resource.reserve", reserved, &[]).await;
    let order =
        all("cart.checkout", json!({"payment": recorded(), "customer": "ann"}), &["id", "lines", "total"]).await;
    assert_eq!(order["total"]["amount"], 6 * 350 + 2 * 1_000 + 2 * 1_000 + 4 * 350);
    assert_eq!((stock(&port, "pen").await, stock(&port, "hot").await), ([94, 0, 6], [96, 0, 4]));
    let refund = all(
        "order.refund",
        json!({"order": buyer.cart(), "lines": [1], "reason": "once"}),
        &["number", "amount", "lines"],
    )
    .await;
    assert_eq!((&refund["number"], &refund["amount"]["amount"]), (&json!(1), &json!(6 * 350)));
    stock_is(&port, "pen", [100, 0, 0]).await;
    let audit = audit(&port).await;
    assert_eq!(
        (audit["orders"].as_u64(), audit["refunds"].as_u64(), audit["bookings"].as_u64()),
        (Some(1), Some(1), Some(1))
    );
    assert_eq!(common::fixture::purchases(&port, "ann").await, [buyer.cart()]);
}

/// Fifty clients of one customer hold, change, release and buy concurrently. They never exceed the customer's limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clients_share_a_quota() {
    const MAX: u64 = 10;
    let rng = Rng::of_test("fifty_clients_share_a_quota");
    let home = Home::new();
    let server = home.start();
    let ports = server.ports(5).await;
    let limits = json!({"limits": {"per_customer": {"quota": "finals", "max": MAX}}});
    product(&ports[0], "flag", 1_000, limits.clone()).await;
    event(&ports[0], "finals", 1_000, limits).await;
    let over = AtomicBool::new(false);
    let over = &over;
    let bought = AtomicUsize::new(0);
    let bought = &bought;
    let clients = (0..50).map(|number| {
        let mut rng = rng.fork(number as u64);
        let port = &ports[number % ports.len()];
        async move {
            for _ in 0..4 {
                let buyer = Shopper::new(port, &mut rng);
                let quantity = 1 + rng.below(4) as u64;
                let mut body = json!({"customer": "ann", "quantity": quantity});
                let op = if rng.percent(50) {
                    body["product"] = "flag".into();
                    "cart.hold_stock"
                } else {
                    (body["session"], body["area"]) = ("finals".into(), "yard".into());
                    "cart.hold_places"
                };
                let mut has = match buyer.ask(op, body).await {
                    Answer::Ok(..) => quantity,
                    no => {
                        let no = no.no(209, "limit_per_customer");
                        assert!(
                            no["taken"].as_u64().is_some_and(|taken| taken + quantity > MAX && taken <= MAX),
                            "{no}"
                        );
                        continue;
                    }
                };
                let wanted = 1 + rng.below(5) as u64;
                match buyer.set(1, wanted as i64).await {
                    Answer::Ok(..) => has = wanted,
                    no => drop(no.no(209, "limit_per_customer")),
                }
                // Most carts are released, so that the race continues. A few are bought.
                if rng.percent(6) {
                    buyer.checkout().await.ok();
                    bought.fetch_add(has as usize, Ordering::Relaxed);
                } else {
                    buyer.cancel().await.ok();
                }
            }
        }
    });
    let watch = async {
        let mut looked = 0;
        while !over.load(Ordering::Relaxed) {
            if let Answer::Ok(audit, _) = ports[0].read("admin.audit", json!({"entity": "customer/ann"})).await {
                assert_eq!(audit["violations"], json!([]), "{audit}");
                for quota in audit["quotas"].as_array().expect("quotas") {
                    let taken = quota["held"].as_u64().expect("a number") + quota["sold"].as_u64().expect("a number");
                    assert!(taken <= MAX, "{taken} are taken of {MAX}: {audit}");
                }
                looked += 1;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        looked
    };
    let clients = async {
        join_all(clients).await;
        over.store(true, Ordering::Relaxed);
    };
    let ((), looked) = tokio::join!(clients, watch);
    let bought = bought.load(Ordering::Relaxed) as u64;
    println!("{looked} audits; {bought} were bought");
    assert!(looked > 3 && bought <= MAX);
    let port = &ports[0];
    audit(port).await;
    let last = Shopper::new(port, &mut rng.fork(99));
    if bought < MAX {
        let rest = json!({"product": "flag", "quantity": MAX - bought, "customer": "ann"});
        eventually("released units can be held", async || {
            matches!(last.ask("cart.hold_stock", rest.clone()).await, Answer::Ok(..)).then_some(())
        })
        .await;
    }
    last.ask("cart.hold_stock", json!({"product": "flag", "quantity": 1, "customer": "ann"}))
        .await
        .no(209, "limit_per_customer");
    audit(port).await;
}

/// Fifty clients of each of two customers want seats under an offer with a limit per customer, in carts of their own, and give some back.
/// No customer ever has more of it, and in the end each has exactly that much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clients_of_a_customer_share_an_offer() {
    const MAX: usize = 5;
    let rng = Rng::of_test("fifty_clients_of_a_customer_share_an_offer");
    let home = Home::new();
    let server = home.start();
    let ports = server.ports(5).await;
    let theatre = Theatre::open(&ports[0], 1, (10, 20), None).await;
    let offers = json!([{"id": "friends", "per_customer": MAX, "set_price": 100}]);
    ports[0].ask("session.change", "offers", json!({"id": theatre.session(), "offers": offers})).await.ok();
    let had = [const { AtomicUsize::new(0) }; 2];
    let clients = (0..100).map(|number| {
        let (mut rng, had) = (rng.fork(number as u64), &had[number % 2]);
        let (port, session) = (&ports[number % ports.len()], theatre.session());
        async move {
            let customer = ["ann", "bob"][number % 2];
            for round in 0..4 {
                let seats: Vec<[usize; 2]> =
                    (0..1 + rng.below(2)).map(|seat| [number / 10, number % 10 * 2 + seat]).collect();
                let buyer = Shopper::new(port, &mut rng);
                // What is counted here is what was granted and not yet given back, so never more than the truth.
                let held = buyer
                    .ask("cart.hold_seats", json!({"session": session, "seats": seats, "customer": customer}))
                    .await;
                let Answer::Ok(held, _) = held else {
                    held.no(214, "price_sold_out");
                    continue;
                };
                assert_eq!(held["lines"][0]["prices"], json!(vec![100; seats.len()]));
                let now = had.fetch_add(seats.len(), Ordering::SeqCst) + seats.len();
                assert!(now <= MAX, "{customer} has {now}");
                if round < 3 && rng.percent(80) {
                    had.fetch_sub(seats.len(), Ordering::SeqCst);
                    buyer.cancel().await.ok();
                } else {
                    buyer.checkout().await.ok();
                    return;
                }
            }
        }
    });
    join_all(clients).await;
    let (port, mut rng) = (&ports[0], rng.fork(999));
    // Without a customer nobody has any, and each customer gets the rest of the limit and no more.
    let bare = json!({"session": theatre.session(), "count": 1});
    Shopper::new(port, &mut rng).ask("cart.hold_best", bare.clone()).await.no(219, "customer_needed");
    for (customer, had) in ["ann", "bob"].into_iter().zip(&had) {
        let mut one = bare.clone();
        one["customer"] = customer.into();
        for _ in had.load(Ordering::SeqCst)..MAX {
            let buyer = Shopper::new(port, &mut rng);
            eventually("what was given back is free", async || {
                matches!(buyer.ask("cart.hold_best", one.clone()).await, Answer::Ok(..)).then_some(())
            })
            .await;
        }
        Shopper::new(port, &mut rng).ask("cart.hold_best", one).await.no(214, "price_sold_out");
    }
    let told = port.read("admin.audit", json!({"entity": format!("session/{}", theatre.session())})).await.ok();
    let taken = told["counts"]["held"].as_u64().zip(told["counts"]["sold"].as_u64()).map(|(held, sold)| held + sold);
    assert_eq!((taken, &told["violations"]), (Some(2 * MAX as u64), &json!([])), "{told}");
    audit(port).await;
}

/// Stock under fifty clients that hold, change, release and buy: free, held and sold add up to the stock in every read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_stock_and_fifty_clients() {
    const STOCK: u64 = 20;
    let rng = Rng::of_test("a_small_stock_and_fifty_clients");
    let home = Home::new();
    let server = home.start();
    let ports = server.ports(5).await;
    product(&ports[0], "few", STOCK, Value::Null).await;
    product(&ports[0], "many", 100_000, Value::Null).await;
    let (over, bought) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (over, bought) = (&over, &bought);
    let clients = (0..50).map(|number| {
        let mut rng = rng.fork(number as u64);
        let port = &ports[number % ports.len()];
        async move {
            for _ in 0..6 {
                let buyer = Shopper::new(port, &mut rng);
                let quantity = 1 + rng.below(5) as i64;
                let lines = json!([{"product": "many", "quantity": 1}, {"product": "few", "quantity": quantity}]);
                let mut has = match buyer.ask("cart.hold_all", json!({"lines": lines})).await {
                    Answer::Ok(..) => quantity,
                    no => {
                        no.no(401, "out_of_stock");
                        continue;
                    }
                };
                let wanted = rng.below(7) as i64;
                match buyer.set(2, wanted).await {
                    Answer::Ok(..) => has = wanted,
                    no => drop(no.no(401, "out_of_stock")),
                }
                if rng.percent(8) {
                    buyer.checkout().await.ok();
                    bought.fetch_add(has as usize, Ordering::Relaxed);
                } else {
                    buyer.cancel().await.ok();
                }
            }
        }
    });
    let watch = async {
        while !over.load(Ordering::Relaxed) {
            let [free, held, sold] = stock(&ports[0], "few").await;
            assert_eq!(free + held + sold, STOCK, "free {free}, held {held}, sold {sold} (P1)");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let clients = async {
        join_all(clients).await;
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(clients, watch);
    let bought = bought.load(Ordering::Relaxed) as u64;
    stock_is(&ports[0], "few", [STOCK - bought, 0, bought]).await;
    let audit = audit(&ports[0]).await;
    assert_eq!(audit["holds"], 0, "{audit}");
}

//! Carts: one effect per request, all or nothing, release, and access by token only.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{CART, TOKEN, hold};
use crate::common::{Answer, Encoding, Home, Rng, Theatre, checkout, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_id_has_one_effect() {
    let home = Home::new();
    let server = home.start();
    let (port, other) = (server.port(Encoding::Json).await, server.port(Encoding::MsgPack).await);
    let theatre = Theatre::open(&port, 1, (10, 10), None).await;
    let session = theatre.session();
    let best = json!({"token": TOKEN, "session": session, "count": 2});
    let first = port.ask("cart.hold_best", "a", best.clone()).await.ok();
    assert_eq!(port.ask("cart.hold_best", "a", best.clone()).await.ok(), first);
    let elsewhere = other.ask("cart.hold_best", "a", best.clone()).await.ok();
    assert_eq!(elsewhere["lines"], first["lines"], "the same in the other encoding, on another connection");
    let another = json!({"token": TOKEN, "session": session, "count": 3});
    port.ask("cart.hold_best", "a", another.clone()).await.no(105, "request_id_reused");
    port.ask("cart.hold_seats", "a", hold(TOKEN, session, json!([[0, 0]]))).await.no(105, "request_id_reused");

    // A hundred concurrent requests over both connections: one effect, a hundred equal answers.
    let asks = (0..100).map(|number| [&port, &other][number % 2].ask("cart.hold_best", "b", another.clone()));
    let lines: Vec<Value> = join_all(asks).await.into_iter().map(|answer| answer.ok()["lines"].clone()).collect();
    assert!(lines.iter().all(|line| *line == lines[0]), "{lines:?}");
    let cart = port.read("cart.get", json!({"token": TOKEN})).await.ok();
    assert_eq!(cart["lines"].as_array().map(Vec::len), Some(2), "{cart}");
    let map = theatre.map(&port, session).await;
    assert_eq!((map.free, map.held), (95, 5));

    let asks = (0..100).map(|number| [&port, &other][number % 2].ask("cart.checkout", "c", checkout(TOKEN)));
    let totals: Vec<Value> = join_all(asks).await.into_iter().map(|answer| answer.ok()["total"].clone()).collect();
    assert!(totals.iter().all(|total| *total == json!({"amount": 5_000, "currency": "EUR"})), "{totals:?}");
    let audit = port.read("admin.audit", json!({})).await.ok();
    assert_eq!((audit["orders"].as_u64(), audit["sold_seats"].as_u64()), (Some(1), Some(5)), "{audit}");
    assert_eq!(audit["violations"], json!([]));
    // A refused request is decided again.
    let late = "11111111111111111111111111111111";
    let line = &lines[0][0]["seats"];
    port.ask("cart.hold_seats", "d", hold(late, session, line.clone())).await.no(201, "seats_taken");
    port.ask("cart.hold_seats", "d", hold(late, session, json!([[9, 9]]))).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_lines_are_held_all_or_none() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 3, (2, 8), None).await;
    let [one, two, three] = [0, 1, 2].map(|number| theatre.sessions[number].as_str());
    let rival = "22222222222222222222222222222222";
    port.ask("cart.hold_seats", "r", hold(rival, three, json!([[0, 0]]))).await.ok();
    let lines = |last: Value| {
        json!({"token": TOKEN, "lines": [
            {"session": one, "seats": [[0, 0], [0, 1]]},
            {"session": two, "count": 3},
            {"session": three, "seats": last},
        ]})
    };
    let no = port.ask("cart.hold_all", "1", lines(json!([[0, 0], [0, 1]]))).await.no(201, "seats_taken");
    assert_eq!(no["seats"], json!([[0, 0]]));
    // The granted part is released: only the other cart's seat is held.
    for (session, held) in [(one, 0), (two, 0), (three, 1)] {
        eventually("the granted lines are released", async || {
            (theatre.map(&port, session).await.held == held).then_some(())
        })
        .await;
    }
    let held = port.ask("cart.hold_all", "2", lines(json!([[0, 1], [1, 1]]))).await.ok();
    let counts: Vec<_> =
        held["lines"].as_array().expect("lines").iter().map(|line| line["seats"].as_array().map(Vec::len)).collect();
    assert_eq!(counts, [Some(2), Some(3), Some(2)], "{held}");
    let order = port.ask("cart.checkout", "3", checkout(TOKEN)).await.ok();
    assert_eq!(order["total"]["amount"], 7_000);
    let sold = [theatre.map(&port, one).await, theatre.map(&port, two).await, theatre.map(&port, three).await]
        .map(|map| map.sold);
    assert_eq!(sold, [2, 3, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn released_seats_can_be_held_again() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    let session = theatre.session();
    let shows = async |seats: &str| {
        eventually(seats, async || (theatre.map(&port, session).await.seats == seats).then_some(())).await;
    };
    port.ask("cart.hold_seats", "1", hold(TOKEN, session, json!([[0, 0], [0, 1], [0, 2]]))).await.ok();
    port.ask("cart.hold_seats", "2", hold(TOKEN, session, json!([[1, 0], [1, 1]]))).await.ok();
    shows("hhh.....hh......").await;
    let cart = port.ask("cart.release", "3", json!({"token": TOKEN, "line": 1, "seats": [[0, 1]]})).await.ok();
    assert_eq!(cart["lines"][0]["seats"], json!([[0, 0], [0, 2]]));
    assert_eq!(cart["total"]["amount"], 4_000);
    shows("h.h.....hh......").await;
    let cart = port.ask("cart.release", "4", json!({"token": TOKEN, "line": 2})).await.ok();
    assert_eq!(cart["lines"].as_array().map(Vec::len), Some(1));
    shows("h.h.............").await;
    port.ask("cart.release", "5", json!({"token": TOKEN, "line": 2})).await.no(303, "no_such_line");
    // The repeat of a release must not release a seat that another cart holds by now.
    let rival = "33333333333333333333333333333333";
    port.ask("cart.hold_seats", "6", hold(rival, session, json!([[0, 1]]))).await.ok();
    port.ask("cart.release", "3", json!({"token": TOKEN, "line": 1, "seats": [[0, 1]]})).await.ok();
    shows("hhh.............").await;
    let canceled = port.ask("cart.cancel", "7", json!({"token": TOKEN})).await.ok();
    assert_eq!(canceled["state"], "canceled");
    shows(".h..............").await;
    port.ask("cart.checkout", "8", checkout(TOKEN)).await.no(301, "cart_not_active");
    port.ask("cart.checkout", "9", checkout(rival)).await.ok();
    shows(".s..............").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_opens_to_its_token_alone() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    port.ask("cart.hold_seats", "1", hold(TOKEN, theatre.session(), json!([[0, 0]]))).await.ok();
    let thief = "55555555555555555555555555555555";
    port.read("cart.get", json!({"token": thief, "cart": CART})).await.no(305, "not_your_cart");
    port.ask("cart.release", "2", json!({"token": thief, "cart": CART, "line": 1})).await.no(305, "not_your_cart");
    port.ask("cart.cancel", "3", json!({"token": thief, "cart": CART})).await.no(305, "not_your_cart");
    let mut body = checkout(thief);
    body["cart"] = CART.into();
    port.ask("cart.checkout", "4", body).await.no(305, "not_your_cart");
    // Without the cart's id the token names another cart, which is not open.
    port.ask("cart.release", "5", json!({"token": thief, "line": 1})).await.no(701, "not_found");
    assert_eq!(theatre.map(&port, theatre.session()).await.held, 1);
}

/// Five hundred connections ask for one seat at once. One gets it, the others are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_want_one_seat() {
    let mut rng = Rng::of_test("five_hundred_want_one_seat");
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Arc::new(Theatre::open(&port, 1, (2, 8), None).await);
    let ports = server.ports(500).await;
    let tokens: Vec<String> = ports.iter().map(|_| rng.token()).collect();
    let asks = ports
        .iter()
        .zip(&tokens)
        .map(|(port, token)| port.ask("cart.hold_seats", "1", hold(token, theatre.session(), json!([[1, 3]]))));
    let answers = join_all(asks).await;
    let mut holders = Vec::new();
    for (answer, token) in answers.into_iter().zip(&tokens) {
        match answer {
            Answer::Ok(..) => holders.push(token),
            other => assert_eq!(other.no(201, "seats_taken")["seats"], json!([[1, 3]])),
        }
    }
    assert_eq!(holders.len(), 1);
    let map = theatre.map(&port, theatre.session()).await;
    assert_eq!((map.free, map.held), (15, 1));
    port.ask("cart.checkout", "2", checkout(holders[0])).await.ok();
    let audit = port.read("admin.audit", json!({})).await.ok();
    assert_eq!((audit["violations"].clone(), audit["sold_seats"].as_u64()), (json!([]), Some(1)));
}

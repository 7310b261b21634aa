//! Deadlines: untouched carts expire in time, and once.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::{TOKEN, hold};
use crate::common::{Answer, Encoding, Home, Rng, Theatre, checkout, eventually};

const HALF_AN_HOUR_MS: u64 = 30 * 60 * 1000;

/// Held until the deadline, free at most the grace after it. The cart stays readable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_untouched_cart_expires() {
    const GRACE_MS: u64 = 2_000;
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 1, (2, 8), Some(300)).await;
    let session = theatre.session();
    let held = port.ask("cart.hold_seats", "1", hold(TOKEN, session, json!([[0, 0], [0, 1]]))).await.ok();
    let deadline = held["deadline"].as_u64().expect("a time");
    let line = &held["lines"][0];
    let now_ms =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let freed = eventually("the seats are free", async || {
        let before = now_ms();
        let map = theatre.map(&port, session).await;
        // No hold ends early: earlier reads show it.
        assert!(map.held == 2 || before >= deadline || now_ms() >= deadline, "{} is free too early", session);
        (map.held == 0).then_some(before)
    })
    .await;
    assert!(freed < deadline + GRACE_MS, "free only {} ms after the deadline", freed - deadline);
    let map = theatre.map(&port, session).await;
    assert_eq!((map.free, map.held), (16, 0));
    let cart = port.read("cart.get", json!({"token": TOKEN})).await.ok();
    assert_eq!((&cart["state"], &cart["lines"][0]), (&json!("expired"), line));
    port.ask("cart.hold_seats", "2", hold(TOKEN, session, json!([[0, 5]]))).await.no(302, "cart_expired");
    port.ask("cart.checkout", "3", checkout(TOKEN)).await.no(302, "cart_expired");
    let again = "44444444444444444444444444444444";
    port.ask("cart.hold_seats", "4", hold(again, session, json!([[0, 0], [0, 1]]))).await.ok();
}

/// Checkouts within milliseconds of the deadline: each is a sale or an expiry, and the map agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkout_and_expiry_have_one_winner() {
    const TTL_MS: u64 = 300;
    let mut rng = Rng::of_test("checkout_and_expiry_have_one_winner");
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 1, (6, 10), Some(TTL_MS)).await;
    let session = theatre.session();
    let race = |number: usize, token: String, wait_ms: u64| {
        let port = &port;
        async move {
            let (row, seat) = (number / 10, number % 10);
            port.ask("cart.hold_seats", "1", hold(&token, session, json!([[row, seat]]))).await.ok();
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            match port.ask("cart.checkout", "2", checkout(&token)).await {
                Answer::Ok(order, _) => Some(order["id"].as_str().expect("an order").to_owned()),
                other => {
                    other.no(302, "cart_expired");
                    let cart = port.read("cart.get", json!({"token": token})).await.ok();
                    assert_eq!(cart["state"], "expired");
                    None
                }
            }
        }
    };
    let races: Vec<_> = (0..60).map(|number| race(number, rng.token(), TTL_MS - 12 + rng.below(16) as u64)).collect();
    let orders = join_all(races).await;
    let expected: String = orders.iter().map(|order| if order.is_some() { 's' } else { '.' }).collect();
    eventually(&format!("the map shows {expected} sold"), async || {
        (theatre.map(&port, session).await.seats == expected).then_some(())
    })
    .await;
    println!("{} of 60 carts were sold", orders.iter().flatten().count());
    for order in orders.into_iter().flatten() {
        port.read("order.get", json!({"order": order})).await.ok();
    }
    let audit = port.read("admin.audit", json!({})).await.ok();
    assert_eq!(audit["violations"], json!([]), "{audit}");
    assert_eq!(
        audit["carts"]["done"].as_u64().zip(audit["carts"]["expired"].as_u64()).map(|(done, expired)| done + expired),
        Some(60)
    );
}

/// Deadlines are instants, not durations: a cart whose deadline passed while the node was down is expired after the restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_survive_a_restart() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    let session = theatre.session();
    let (short, long) = (TOKEN, "66666666666666666666666666666666");
    port.ask("cart.open", "1", json!({"token": short, "ttl_ms": 600})).await.ok();
    port.ask("cart.hold_seats", "2", hold(short, session, json!([[0, 0]]))).await.ok();
    let held = port.ask("cart.hold_seats", "3", hold(long, session, json!([[0, 1]]))).await.ok();
    let deadline = held["deadline"].as_u64().expect("a time");
    drop(port);
    server.stop();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    eventually("the short one expires", async || {
        let map = theatre.map(&port, session).await;
        (map.seats == ".h..............").then_some(())
    })
    .await;
    assert_eq!(port.read("cart.get", json!({"token": short})).await.ok()["state"], "expired");
    let cart = port.read("cart.get", json!({"token": long})).await.ok();
    assert_eq!((cart["state"].as_str(), cart["deadline"].as_u64()), (Some("active"), Some(deadline)));
    assert_eq!(cart["opened_at"].as_u64().map(|opened| deadline - opened), Some(HALF_AN_HOUR_MS));
}

//! Halls of every shape, their sessions and blocked seats, and the node's health endpoints.

use serde_json::{Value, json};

use super::{TOKEN, hold};
use crate::common::{self, Encoding, Home, Map, Theatre, checkout, time};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_endpoints_report_the_node() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    port.ask("cart.hold_seats", "1", hold(TOKEN, theatre.session(), json!([[0, 0]]))).await.ok();
    assert_eq!(common::http::get(server.address(), "/healthz").await.0, 200);
    assert_eq!(common::http::get(server.address(), "/readyz").await.0, 200);
    let (status, metrics) = common::http::get(server.address(), "/metrics").await;
    assert_eq!(status, 200);
    assert!(metrics.lines().any(|line| line.contains("cart.hold_seats") && line.ends_with(" 1")), "{metrics}");
    assert_eq!(common::http::get(server.address(), "/v1/ws").await.0, 426);
    let status = port.read("admin.status", json!({})).await.ok();
    assert_eq!(status["state"], "ready", "{status}");
    assert!(status["shards"].as_array().expect("shards").iter().all(|shard| shard["role"] == "leader"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_may_differ_in_length() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    Theatre::open(&port, 1, (2, 8), None).await;
    let rows: Vec<Value> = ["A", "B", "C", "D", "E"]
        .iter()
        .zip(1..)
        .map(|(label, count)| json!({"label": label, "count": count}))
        .collect();
    port.ask("hall.put", "h2", json!({"venue": "royal", "id": "wedge", "name": "Wedge", "layout": {"rows": rows}}))
        .await
        .ok();
    let body = json!({"id": "wedge-1", "venue": "royal", "hall": "wedge", "title": "hamlet",
        "starts_at": 1_900_000_000_000u64, "ends_at": 1_900_010_000_000u64,
        "prices": {"standard": {"amount": 500, "currency": "EUR"}}});
    let session = port.ask("session.create", "s2", body).await.ok();
    assert_eq!(session["counts"]["free"], 15);
    let no = port.ask("cart.hold_seats", "1", hold(TOKEN, "wedge-1", json!([[0, 1], [4, 4], [5, 0]]))).await;
    assert_eq!(no.no(202, "no_such_seat")["seats"], json!([[0, 1], [5, 0]]));
    let held = port.ask("cart.hold_seats", "2", hold(TOKEN, "wedge-1", json!([[4, 4]]))).await.ok();
    assert_eq!(held["lines"][0]["prices"], json!([500]));
    let map = Map::read(&port.read("session.map", json!({"id": "wedge-1"})).await.ok(), 15);
    assert_eq!(map.seats, "..............h");
}

/// CN's row of five: locked, locked, both sold at once, and sold again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cinema_row_in_its_three_numbers() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 1, (4, 5), None).await;
    let row = async || {
        let map = port.read("session.map", json!({"id": theatre.session(), "view": "2,1,0"})).await.ok();
        map["states"].as_array().expect("states")[15..].to_vec()
    };
    assert_eq!(row().await, [2, 2, 2, 2, 2]);
    port.ask("cart.hold_seats", "1", hold(TOKEN, theatre.session(), json!([[3, 2]]))).await.ok();
    assert_eq!(row().await, [2, 2, 1, 2, 2]);
    port.ask("cart.hold_seats", "2", hold(TOKEN, theatre.session(), json!([[3, 1]]))).await.ok();
    assert_eq!(row().await, [2, 1, 1, 2, 2]);
    let order = port.ask("cart.checkout", "3", checkout(TOKEN)).await.ok();
    assert_eq!(row().await, [2, 0, 0, 2, 2]);
    assert_eq!(port.ask("cart.checkout", "3", checkout(TOKEN)).await.ok(), order, "a repeat gets the first answer");
    port.ask("cart.checkout", "4", checkout(TOKEN)).await.no(301, "cart_not_active");
    assert_eq!(row().await, [2, 0, 0, 2, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_seats_are_off_sale() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 1, (1, 8), None).await;
    let session = theatre.session();
    port.ask("cart.hold_seats", "1", hold(TOKEN, session, json!([[0, 7]]))).await.ok();
    port.ask("session.block", "2", json!({"id": session, "seats": [[0, 6], [0, 7]]})).await.no(201, "seats_taken");
    port.ask("session.block", "3", json!({"id": session, "seats": [[0, 0], [0, 1]]})).await.ok();
    assert_eq!(theatre.map(&port, session).await.seats, "bb.....h");
    let no =
        port.ask("cart.hold_seats", "4", hold(TOKEN, session, json!([[0, 1], [0, 2]]))).await.no(204, "seat_blocked");
    assert_eq!(no["seats"], json!([[0, 1]]));
    let best = port.ask("cart.hold_best", "5", json!({"token": TOKEN, "session": session, "count": 5})).await.ok();
    assert_eq!(best["lines"][0]["seats"], json!([[0, 2], [0, 3], [0, 4], [0, 5], [0, 6]]));
    port.ask("cart.hold_best", "6", json!({"token": TOKEN, "session": session, "count": 1}))
        .await
        .no(206, "no_adjacent_seats");
    port.ask("session.unblock", "7", json!({"id": session, "seats": [[0, 0], [0, 1]]})).await.ok();
    assert_eq!(theatre.map(&port, session).await.seats, "..hhhhhh");
}

/// An importer's batch: each item has its own answer, in order, and a repeat of the batch changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_house_is_imported_in_one_batch() {
    let home = Home::new();
    let server = home.start();
    for encoding in Encoding::BOTH {
        let port = server.port(encoding).await;
        let theatre = Theatre::open(&port, 40, (5, 16), None).await;
        let found = port.read("session.search", json!({"venue": "royal", "limit": 30})).await.ok();
        assert_eq!(found["sessions"].as_array().map(Vec::len), Some(30));
        let rest =
            port.read("session.search", json!({"venue": "royal", "limit": 30, "cursor": found["cursor"]})).await.ok();
        assert_eq!(rest["sessions"].as_array().map(Vec::len), Some(10), "{}", rest["cursor"]);
        assert!(rest["sessions"].as_array().expect("a list").iter().all(|session| session["open"] == true));
        let window =
            json!({"venue": "royal", "from": time(&port, 1_900_000_000_000), "to": time(&port, 1_900_000_000_001)});
        let first = port.read("session.search", window).await.ok();
        assert_eq!(first["sessions"][0]["id"], theatre.session());
        // One invalid item does not affect the others.
        let items = json!([
            {"op": "venue.get", "body": {"id": "nowhere"}},
            {"op": "session.block", "rid": "b1", "body": {"id": theatre.session(), "seats": [[0, 0]]}},
            {"op": "watch", "body": {"entity": "session/hamlet-0"}},
            {"op": "venue.put", "body": {"id": "royal", "name": "Royal"}},
            {"op": "no.such.op"},
        ]);
        let answers = port.read("batch", json!({"items": items})).await.ok();
        let codes: Vec<_> =
            answers["items"].as_array().expect("items").iter().map(|answer| answer["no"]["code"].as_u64()).collect();
        assert_eq!(codes, [Some(701), None, Some(101), Some(104), Some(102)], "{answers}");
        assert_eq!(theatre.map(&port, theatre.session()).await.blocked, 1);
    }
    let port = server.port(Encoding::Json).await;
    // The hall is booked for the time. Adjacent sessions are allowed.
    let session = |id: &str, starts_at: u64| {
        json!({"id": id, "venue": "royal", "hall": "main", "title": "lear", "starts_at": time(&port, starts_at),
            "ends_at": time(&port, starts_at + 1_000), "prices": {"standard": {"amount": 1, "currency": "EUR"}}})
    };
    let no = port.ask("session.create", "x0", session("lear-0", 1_899_999_999_000)).await.no(701, "not_found");
    assert_eq!(no["message"], "title lear is not known");
    for title in ["lear", "othello"] {
        port.ask("title.put", title, json!({"id": title, "name": title})).await.ok();
    }
    let no = port.ask("session.create", "x1", session("lear-1", 1_900_000_000_500)).await.no(208, "hall_occupied");
    assert_eq!(no["session"], "hamlet-0");
    port.ask("session.create", "x2", session("lear-2", 1_899_999_999_000)).await.ok();
    let mut other = session("lear-2", 1_899_999_999_000);
    other["title"] = "othello".into();
    port.ask("session.create", "x3", other).await.no(702, "already_exists_differently");
}

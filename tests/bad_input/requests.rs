//! Requests with unknown ids, malformed values, or ended carts.

use serde_json::{Value, json};

use super::{Stage, TOKEN};
use crate::common::{self, Encoding, checkout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_ids() {
    let mut stage = Stage::new("unknown_ids", Encoding::Json).await;
    let unknown = "99999999999999999999999999999999";
    let times = json!({"starts_at": "2031-01-01T20:00:00.000Z", "ends_at": "2031-01-01T22:00:00.000Z",
        "prices": {"standard": {"amount": 1, "currency": "EUR"}}, "id": "x", "title": "hamlet"});
    let session = |venue: &str, hall: &str| {
        let mut body = times.clone();
        (body["venue"], body["hall"]) = (venue.into(), hall.into());
        body
    };
    stage
        .refuses(vec![
            ("venue.get", json!({"id": "nowhere"}), 701, "not_found"),
            ("hall.get", json!({"venue": "royal", "id": "attic"}), 701, "not_found"),
            ("hall.get", json!({"venue": "nowhere", "id": "main"}), 701, "not_found"),
            (
                "hall.put",
                json!({"venue": "nowhere", "id": "main", "name": "M", "layout": {"rows": 1, "seats": 1}}),
                701,
                "not_found",
            ),
            ("session.create", session("nowhere", "main"), 701, "not_found"),
            ("session.create", session("royal", "attic"), 701, "not_found"),
            ("session.get", json!({"id": "nowhere"}), 701, "not_found"),
            ("session.map", json!({"id": "nowhere"}), 701, "not_found"),
            ("session.search", json!({"venue": "nowhere"}), 701, "not_found"),
            ("session.block", json!({"id": "nowhere", "seats": [[0, 0]]}), 701, "not_found"),
            ("cart.get", json!({"token": unknown}), 701, "not_found"),
            ("cart.cancel", json!({"token": unknown}), 701, "not_found"),
            ("cart.release", json!({"token": unknown, "line": 1}), 701, "not_found"),
            ("cart.checkout", checkout(unknown), 701, "not_found"),
            ("cart.hold_seats", json!({"token": unknown, "session": "nowhere", "seats": [[0, 0]]}), 701, "not_found"),
            ("cart.hold_best", json!({"token": unknown, "session": "nowhere", "count": 1}), 701, "not_found"),
            (
                "cart.hold_best",
                json!({"token": unknown, "session": "hamlet-0", "count": 1, "category": "royalty"}),
                701,
                "not_found",
            ),
            ("order.get", json!({"order": unknown}), 701, "not_found"),
            ("watch", json!({"entity": "session/nowhere"}), 701, "not_found"),
            ("unwatch", json!({"feed": 12_345}), 701, "not_found"),
            ("admin.audit", json!({"entity": "session/nowhere"}), 701, "not_found"),
            ("cart.explode", json!({}), 102, "unknown_op"),
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_lists() {
    let mut stage = Stage::new("malformed_lists", Encoding::MsgPack).await;
    let session = stage.session().to_owned();
    let hold = |seats: Value| json!({"token": TOKEN, "session": session, "seats": seats});
    let many = |count: usize| -> Value { (0..count).map(|number| json!([number / 20, number % 20])).collect() };
    let lines = |count: usize| -> Value { (0..count).map(|_| json!({"session": session, "count": 1})).collect() };
    stage
        .refuses(vec![
            ("cart.hold_seats", hold(json!([[10, 0], [0, 20], [65_535, 65_535], [0, 0]])), 202, "no_such_seat"),
            ("cart.hold_seats", hold(json!([[0, 0], [0, 1], [0, 0]])), 203, "duplicate_seat"),
            ("cart.hold_seats", hold(json!([])), 101, "bad_request"),
            ("cart.hold_seats", hold(many(21)), 103, "too_large"),
            ("cart.hold_seats", hold(json!([[0, -1]])), 101, "bad_request"),
            ("cart.hold_seats", hold(json!([[0, 70_000]])), 101, "bad_request"),
            ("cart.hold_seats", hold(json!([[0]])), 101, "bad_request"),
            ("cart.hold_seats", hold(json!([[0, 1, 2]])), 101, "bad_request"),
            ("cart.hold_seats", hold(json!("all")), 101, "bad_request"),
            ("cart.hold_seats", hold(json!(7)), 101, "bad_request"),
            ("cart.hold_seats", json!({"token": TOKEN, "session": session}), 101, "bad_request"),
            ("cart.hold_best", json!({"token": TOKEN, "session": session, "count": 0}), 101, "bad_request"),
            ("cart.hold_best", json!({"token": TOKEN, "session": session, "count": 21}), 103, "too_large"),
            ("cart.hold_best", json!({"token": TOKEN, "session": session, "count": 1_000_000}), 101, "bad_request"),
            ("cart.hold_best", json!({"token": TOKEN, "session": session, "count": -3}), 101, "bad_request"),
            ("cart.hold_best", json!({"token": TOKEN, "session": session, "count": 2, "accessible": 3}), 101, "bad_request"),
            ("cart.hold_all", json!({"token": TOKEN, "lines": []}), 101, "bad_request"),
            ("cart.hold_all", json!({"token": TOKEN, "lines": lines(51)}), 103, "too_large"),
            ("cart.hold_all", json!({"token": TOKEN, "lines": [{"session": session}]}), 101, "bad_request"),
            ("cart.hold_all", json!({"token": TOKEN, "lines": [{"session": session, "seats": [[0, 0]], "count": 1}]}), 101, "bad_request"),
            ("session.block", json!({"id": session, "seats": []}), 101, "bad_request"),
            ("session.block", json!({"id": session, "seats": [[0, 0], [0, 0]]}), 203, "duplicate_seat"),
            ("session.unblock", json!({"id": session, "seats": [[99, 0]]}), 202, "no_such_seat"),
            ("batch", json!({"items": []}), 101, "bad_request"),
            ("batch", json!({}), 101, "bad_request"),
            ("batch", json!({"items": (0..1_001).map(|_| json!({"op": "venue.get", "body": {"id": "royal"}})).collect::<Vec<_>>()}), 103, "too_large"),
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_out_of_range() {
    let mut stage = Stage::new("numbers_out_of_range", Encoding::MsgPack).await;
    let hall = |layout: Value| json!({"venue": "royal", "id": "big", "name": "Big", "layout": layout});
    let session = |change: Value| {
        let mut body = json!({"id": "x", "venue": "royal", "hall": "main", "title": "hamlet", "starts_at": 1_000_000,
            "ends_at": 2_000_000, "prices": {"standard": {"amount": 1, "currency": "EUR"}}});
        let fields = change.as_object().expect("fields").clone();
        body.as_object_mut().expect("fields").extend(fields);
        body
    };
    let price = |amount: Value| session(json!({"prices": {"standard": {"amount": amount, "currency": "EUR"}}}));
    let year_10_000 = 253_402_300_800_000u64;
    stage
        .refuses(vec![
            // A million seats.
            ("hall.put", hall(json!({"rows": 1_000, "seats": 1_000})), 101, "bad_request"),
            ("hall.put", hall(json!({"rows": 4_294_967_295u64, "seats": 65_535})), 101, "bad_request"),
            ("hall.put", hall(json!({"rows": 10, "seats": 0})), 101, "bad_request"),
            ("hall.put", hall(json!({"rows": [{"label": "A", "count": 10, "gaps": [10]}]})), 101, "bad_request"),
            ("hall.put", hall(json!({"rows": [{"label": "", "count": 10}]})), 101, "bad_request"),
            ("session.create", price(json!(1_000_000_000_001u64)), 101, "bad_request"),
            ("session.create", price(json!(u64::MAX)), 101, "bad_request"),
            ("session.create", price(json!(-1)), 101, "bad_request"),
            ("session.create", price(json!(9.99)), 101, "bad_request"),
            ("session.create", session(json!({"prices": {}})), 101, "bad_request"),
            (
                "session.create",
                session(json!({"prices": {"royalty": {"amount": 1, "currency": "EUR"}}})),
                101,
                "bad_request",
            ),
            (
                "session.create",
                session(json!({"prices": {"standard": {"amount": 1, "currency": "euro"}}})),
                101,
                "bad_request",
            ),
            ("session.create", session(json!({"hold_ttl_ms": 0})), 101, "bad_request"),
            ("session.create", session(json!({"hold_ttl_ms": u64::MAX})), 101, "bad_request"),
            ("session.create", session(json!({"starts_at": 2_000_000})), 101, "bad_request"),
            ("session.create", session(json!({"starts_at": 3_000_000})), 101, "bad_request"),
            ("session.create", session(json!({"ends_at": year_10_000})), 101, "bad_request"),
            ("session.create", session(json!({"starts_at": -1})), 101, "bad_request"),
            ("cart.open", json!({"token": TOKEN, "ttl_ms": 0}), 101, "bad_request"),
            ("cart.open", json!({"token": TOKEN, "ttl_ms": 86_400_001}), 101, "bad_request"),
            ("cart.open", json!({"token": TOKEN, "ttl_ms": u64::MAX}), 101, "bad_request"),
            ("cart.open", json!({"token": TOKEN, "ttl_ms": -1}), 101, "bad_request"),
            ("session.search", json!({"venue": "royal", "limit": 0}), 101, "bad_request"),
            ("session.search", json!({"venue": "royal", "limit": 1_001}), 101, "bad_request"),
            ("session.search", json!({"venue": "royal", "cursor": "somewhere"}), 101, "bad_request"),
            ("venue.put", json!({"id": "v", "name": "V", "position": {"lon": 181.0, "lat": 0.0}}), 101, "bad_request"),
            ("venue.put", json!({"id": "v", "name": "n".repeat(201)}), 103, "too_large"),
            ("venue.put", json!({"id": "v", "name": ""}), 101, "bad_request"),
            ("venue.put", json!({"id": "v".repeat(65), "name": "V"}), 101, "bad_request"),
            ("venue.put", json!({"id": "with a space", "name": "V"}), 101, "bad_request"),
            ("venue.put", json!({"id": "", "name": "V"}), 101, "bad_request"),
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_ended_carts() {
    let mut stage = Stage::new("tokens_and_ended_carts", Encoding::Json).await;
    let session = stage.session().to_owned();
    let (done, canceled, empty) = (stage.rng.token(), stage.rng.token(), stage.rng.token());
    let hold = |token: &str| json!({"token": token, "session": session, "count": 1});
    stage.port.ask("cart.hold_best", "1", hold(&done)).await.ok();
    let order = stage.port.ask("cart.checkout", "2", checkout(&done)).await.ok()["id"].clone();
    stage.port.ask("cart.hold_best", "1", hold(&canceled)).await.ok();
    stage.port.ask("cart.cancel", "2", json!({"token": canceled})).await.ok();
    stage.port.ask("cart.open", "1", json!({"token": empty})).await.ok();
    let released = async |stage: &Stage| stage.theatre.map(&stage.port, stage.session()).await.held == 0;
    common::eventually("the canceled cart's seat is free", async || released(&stage).await.then_some(())).await;
    let mut payment = checkout(&empty);
    payment["payment"] = json!({});
    let mut paid_by = checkout(&empty);
    paid_by["payment"]["recorded"]["method"] = "".into();
    stage
        .refuses(vec![
            ("cart.hold_best", hold(&done), 301, "cart_not_active"),
            ("cart.release", json!({"token": done, "line": 1}), 301, "cart_not_active"),
            ("cart.cancel", json!({"token": done}), 301, "cart_not_active"),
            ("cart.open", json!({"token": done}), 301, "cart_not_active"),
            ("cart.checkout", checkout(&done), 301, "cart_not_active"),
            ("cart.hold_best", hold(&canceled), 301, "cart_not_active"),
            ("cart.checkout", checkout(&canceled), 301, "cart_not_active"),
            ("cart.checkout", checkout(&empty), 304, "cart_empty"),
            ("cart.checkout", payment, 101, "bad_request"),
            ("cart.checkout", paid_by, 101, "bad_request"),
            ("cart.release", json!({"token": empty, "line": 1}), 303, "no_such_line"),
            ("cart.get", json!({"token": empty, "cart": order}), 305, "not_your_cart"),
            ("cart.get", json!({"token": "short"}), 101, "bad_request"),
            ("cart.get", json!({"token": "zz0102030405060708090a0b0c0d0e0f"}), 101, "bad_request"),
            ("cart.get", json!({"token": 12}), 101, "bad_request"),
            ("cart.get", json!({}), 101, "bad_request"),
        ])
        .await;
    // A repeat of a granted request succeeds, even after the cart has ended.
    assert_eq!(stage.port.ask("cart.checkout", "2", checkout(&done)).await.ok()["id"], order);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_request_ids() {
    let mut stage = Stage::new("malformed_request_ids", Encoding::Json).await;
    let body = json!({"token": TOKEN});
    stage.port.frame(json!({"op": "cart.open", "body": body})).await.no(104, "request_id_missing");
    stage.port.frame(json!({"op": "cart.open", "rid": null, "body": body})).await.no(104, "request_id_missing");
    for rid in [json!(""), json!("x".repeat(65)), json!("tab\there"), json!("é"), json!(7), json!(["a"])] {
        stage.port.frame(json!({"op": "cart.open", "rid": rid, "body": body})).await.no(101, "bad_request");
    }
    stage.port.ask("cart.open", "a", body).await.ok();
    stage.port.ask("cart.open", "a", json!({"token": TOKEN, "ttl_ms": 5_000})).await.no(105, "request_id_reused");
    stage.port.ask("cart.cancel", "a", json!({"token": TOKEN})).await.no(105, "request_id_reused");
    assert_eq!(stage.port.read("cart.get", json!({"token": TOKEN})).await.ok()["state"], "active");
    stage.sells().await;
}

//! A purchase frame by frame, as documented in the protocol.

use serde_json::{Value, json};

use super::{CART, TOKEN, hold};
use crate::common::{Encoding, Home, Map, Port, checkout, time};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_frame_by_frame_in_json() {
    frame_by_frame(Encoding::Json).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_frame_by_frame_in_messagepack() {
    frame_by_frame(Encoding::MsgPack).await;
}

/// The purchase of the first two examples in domain.md, frame by frame, in one encoding.
async fn frame_by_frame(encoding: Encoding) {
    let home = Home::new();
    let server = home.start();
    let port = server.port(encoding).await;
    let hello = &port.hello;
    assert_eq!(hello["protocol"], 1);
    assert_eq!(hello["durability"], json!({"replicas": 1, "fsync": "always"}));
    let limits = json!({
        "frame_bytes": 65_536, "import_frame_bytes": 1_048_576, "depth": 16, "hold_seats": 20, "cart_lines": 50,
        "batch_items": 1_000, "requests_under_way": 256, "feeds": 1_024, "first_frame_ms": 10_000, "whole_frame_ms": 10_000,
        "line_quantity": 1_000_000, "interval_ms": 31_622_400_000_u64, "page_entries": 1_000,
    });
    assert_eq!(hello["limits"], limits);
    let expect = async |frame: Value, expected: Value| {
        let answer = port.exchange_whole(frame.clone()).await;
        assert_eq!(steady(&port, answer), expected, "the answer to {frame}");
    };
    let at = |entities: &[&str]| -> Value {
        entities.iter().map(|entity| json!({"entity": entity, "version": "a number", "position": "a number"})).collect()
    };
    let session = "session/hamlet-tonight";
    let cart = format!("cart/{CART}");

    expect(json!({"id": 1, "op": "hello", "body": {"client": "a test"}}), json!({"id": 1, "ok": {}})).await;
    expect(
        json!({"id": 2, "op": "venue.put", "rid": "set-1", "body": {"id": "royal", "name": "Royal", "city": "Vienna",
            "position": {"lon": 16.37, "lat": 48.2}}}),
        json!({"id": 2, "ok": {}, "at": at(&["venue/royal"])}),
    )
    .await;
    expect(
        json!({"id": 3, "op": "hall.put", "rid": "set-2", "body": {"venue": "royal", "id": "main", "name": "Main",
            "layout": {"rows": 5, "seats": 16}}}),
        json!({"id": 3, "ok": {}, "at": at(&["venue/royal"])}),
    )
    .await;
    expect(
        json!({"id": 31, "op": "title.put", "rid": "set-2t", "body": {"id": "hamlet", "name": "Hamlet"}}),
        json!({"id": 31, "ok": {}, "at": at(&["directory"])}),
    )
    .await;
    let created = port
        .exchange_whole(json!({"id": 4, "op": "session.create", "rid": "set-3", "body": {
            "id": "hamlet-tonight", "venue": "royal", "hall": "main", "title": "hamlet",
            "starts_at": time(&port, 1_900_000_000_000), "ends_at": time(&port, 1_900_010_000_000),
            "prices": {"standard": {"amount": 1_000, "currency": "EUR"}},
        }}))
        .await;
    assert_eq!(created["ok"]["counts"], json!({"free": 80, "held": 0, "sold": 0, "blocked": 0}), "{created}");
    assert_eq!(created["ok"]["starts_at"], time(&port, 1_900_000_000_000));
    assert_eq!(created["ok"]["layout"]["rows"].as_array().map(Vec::len), Some(5));
    assert_eq!(created["ok"]["prices"], json!({"standard": {"amount": 1_000, "currency": "EUR"}}));

    expect(
        json!({"id": 5, "op": "cart.open", "rid": "c1-1", "body": {"token": TOKEN, "customer": "ann"}}),
        json!({"id": 5, "ok": {"id": CART, "state": "active", "customer": "ann", "opened_at": "a time",
            "modified_at": "a time", "deadline": "a time", "lines": [], "lines_version": 0}, "at": at(&[&cart])}),
    )
    .await;
    let line = json!({"line": 1, "session": "hamlet-tonight", "seats": [[1, 5], [1, 6], [1, 7]], "prices": [1_000, 1_000, 1_000], "total": 3_000});
    expect(
        json!({"id": 6, "op": "cart.hold_seats", "rid": "c1-2", "body": hold(TOKEN, "hamlet-tonight", json!([[1, 7], [1, 5], [1, 6]]))}),
        json!({"id": 6, "ok": {"cart": CART, "lines": [line], "currency": "EUR", "deadline": "a time", "lines_version": 2},
            "at": at(&[&cart, session])}),
    )
    .await;
    expect(
        json!({"id": 7, "op": "cart.get", "body": {"token": TOKEN, "cart": CART}}),
        json!({"id": 7, "ok": {"id": CART, "state": "active", "customer": "ann", "opened_at": "a time",
            "modified_at": "a time", "deadline": "a time", "lines": [line], "lines_version": 2, "total": {"amount": 3_000, "currency": "EUR"}},
            "at": at(&[&cart])}),
    )
    .await;
    // Another cart asks for two of them and one more.
    let other = "ffffffffffffffffffffffffffffffff";
    expect(
        json!({"id": 8, "op": "cart.hold_seats", "rid": "c2-1", "body": hold(other, "hamlet-tonight", json!([[1, 5], [1, 7], [1, 8]]))}),
        json!({"id": 8, "no": {"code": 201, "name": "seats_taken", "message": "2 of the seats are taken",
            "seats": [[1, 5], [1, 7]], "states": ["held", "held"]}}),
    )
    .await;
    let order = json!({"id": CART, "customer": "ann", "at": "a time", "lines": [line],
        "total": {"amount": 3_000, "currency": "EUR"},
        "payment": {"recorded": {"method": "card", "transaction_id": "4711"}}, "settling": false,
        "payment_status": {"state": "recorded"}});
    expect(
        json!({"id": 9, "op": "cart.checkout", "rid": "c1-3", "body": checkout(TOKEN)}),
        json!({"id": 9, "ok": order, "at": at(&[&cart, session])}),
    )
    .await;
    expect(
        json!({"id": 10, "op": "order.get", "body": {"order": CART}}),
        json!({"id": 10, "ok": order, "at": at(&[&cart])}),
    )
    .await;
    let map = port.read("session.map", json!({"id": "hamlet-tonight"})).await.ok();
    let map = Map::read(&map, 80);
    assert_eq!((map.free, map.held, map.sold), (77, 0, 3));
    assert_eq!(&map.seats[16..32], ".....sss........");
    let three = port.read("session.map", json!({"id": "hamlet-tonight", "view": "2,1,0"})).await.ok();
    assert_eq!(three["states"].as_array().expect("states")[20..25], [2, 0, 0, 0, 2]);
    // A bought seat is refused as sold.
    let no = port
        .ask("cart.hold_seats", "c2-2", hold(other, "hamlet-tonight", json!([[1, 6]])))
        .await
        .no(201, "seats_taken");
    assert_eq!((&no["seats"], &no["states"]), (&json!([[1, 6]]), &json!(["sold"])));
    let audit = port.read("admin.audit", json!({})).await.ok();
    assert_eq!(audit["violations"], json!([]));
    assert_eq!((audit["orders"].as_u64(), audit["sold_seats"].as_u64()), (Some(1), Some(3)), "{audit}");
    server.stop();
}

/// The frame without values that differ from run to run, whose types are checked.
fn steady(port: &Port, mut frame: Value) -> Value {
    fn walk(encoding: Encoding, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    match name.as_str() {
                        "deadline" | "opened_at" | "modified_at" | "at" if !value.is_array() => {
                            assert_eq!(value.is_u64(), encoding == Encoding::MsgPack, "{name} is {value}");
                            let rfc3339 =
                                |text: &str| text.len() == "2026-01-01T00:00:00.000Z".len() && text.ends_with('Z');
                            assert!(value.is_u64() || value.as_str().is_some_and(rfc3339), "{name} is {value}");
                            *value = "a time".into();
                        }
                        "version" | "position" => {
                            assert!(value.is_u64(), "{name} is {value}");
                            *value = "a number".into();
                        }
                        _ => walk(encoding, value),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| walk(encoding, value)),
            _ => {}
        }
    }
    walk(port.encoding(), &mut frame);
    frame
}

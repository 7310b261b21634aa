//! Seats are sold, end to end: the real program, its port, its disk.

mod common;

use std::{sync::Arc, time::Duration};

use boxoffice_client::{BestWish, Cart, Client, ClientConfig, Entity, Id, Seat, SeatState, Want, WantedLine, recorded};
use common::{Answer, Dice, Encoding, Home, Map, Port, Theatre, eventually, time};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A token and the id of the cart it opens: the first half of its BLAKE3 hash, for ever.
const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
const CART: &str = "a6a492965517a830cb75fdb713465aa4";

const HALF_AN_HOUR_MS: u64 = 30 * 60 * 1000;

fn checkout(token: &str) -> Value {
    json!({"token": token, "payment": {"recorded": {"method": "card", "transaction_id": "4711"}}})
}

fn hold(token: &str, session: &str, seats: Value) -> Value {
    json!({"token": token, "session": session, "seats": seats})
}

/// The frame without what differs from run to run; that is checked to be there, and to be what it should.
fn steady(port: &Port, mut frame: Value) -> Value {
    fn walk(encoding: Encoding, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    match name.as_str() {
                        "deadline" | "opened_at" | "at" if !value.is_array() => {
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

/// The purchase of domain.md's first two examples, frame by frame as the protocol has them, in one encoding.
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
    let session = "session/hamlet-0412";
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
    let created = port
        .exchange_whole(json!({"id": 4, "op": "session.create", "rid": "set-3", "body": {
            "id": "hamlet-0412", "venue": "royal", "hall": "main", "title": "hamlet",
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
            "deadline": "a time", "lines": []}, "at": at(&[&cart])}),
    )
    .await;
    let line = json!({"line": 1, "session": "hamlet-0412", "seats": [[1, 5], [1, 6], [1, 7]], "prices": [1_000, 1_000, 1_000]});
    expect(
        json!({"id": 6, "op": "cart.hold_seats", "rid": "c1-2", "body": hold(TOKEN, "hamlet-0412", json!([[1, 7], [1, 5], [1, 6]]))}),
        json!({"id": 6, "ok": {"cart": CART, "lines": [line], "currency": "EUR", "deadline": "a time"},
            "at": at(&[&cart, session])}),
    )
    .await;
    expect(
        json!({"id": 7, "op": "cart.get", "body": {"token": TOKEN, "cart": CART}}),
        json!({"id": 7, "ok": {"id": CART, "state": "active", "customer": "ann", "opened_at": "a time",
            "deadline": "a time", "lines": [line], "total": {"amount": 3_000, "currency": "EUR"}}, "at": at(&[&cart])}),
    )
    .await;
    // Another cart asks for two of them and one more.
    let other = "ffffffffffffffffffffffffffffffff";
    expect(
        json!({"id": 8, "op": "cart.hold_seats", "rid": "c2-1", "body": hold(other, "hamlet-0412", json!([[1, 5], [1, 7], [1, 8]]))}),
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
    let map = port.read("session.map", json!({"id": "hamlet-0412"})).await.ok();
    let map = Map::read(&map, 80);
    assert_eq!((map.free, map.held, map.sold), (77, 0, 3));
    assert_eq!(&map.seats[16..32], ".....sss........");
    let three = port.read("session.map", json!({"id": "hamlet-0412", "view": "2,1,0"})).await.ok();
    assert_eq!(three["states"].as_array().expect("states")[20..25], [2, 0, 0, 0, 2]);
    // A bought seat is refused as one.
    let no =
        port.ask("cart.hold_seats", "c2-2", hold(other, "hamlet-0412", json!([[1, 6]]))).await.no(201, "seats_taken");
    assert_eq!((&no["seats"], &no["states"]), (&json!([[1, 6]]), &json!(["sold"])));
    let audit = port.read("admin.audit", json!({})).await.ok();
    assert_eq!(audit["violations"], json!([]));
    assert_eq!((audit["orders"].as_u64(), audit["sold_seats"].as_u64()), (Some(1), Some(3)), "{audit}");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_frame_by_frame_in_json() {
    frame_by_frame(Encoding::Json).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_frame_by_frame_in_messagepack() {
    frame_by_frame(Encoding::MsgPack).await;
}

/// What HTTP says beside the WebSocket.
async fn http(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_port_says_how_the_node_is() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 1, (2, 8), None).await;
    port.ask("cart.hold_seats", "1", hold(TOKEN, theatre.session(), json!([[0, 0]]))).await.ok();
    assert_eq!(http(server.address(), "/healthz").await.0, 200);
    assert_eq!(http(server.address(), "/readyz").await.0, 200);
    let (status, metrics) = http(server.address(), "/metrics").await;
    assert_eq!(status, 200);
    assert!(metrics.lines().any(|line| line.contains("cart.hold_seats") && line.ends_with(" 1")), "{metrics}");
    assert_eq!(http(server.address(), "/v1/ws").await.0, 426);
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
    assert_eq!(
        port.ask("cart.checkout", "3", checkout(TOKEN)).await.ok(),
        order,
        "the repeat answers as the first did"
    );
    port.ask("cart.checkout", "4", checkout(TOKEN)).await.no(301, "cart_not_active");
    assert_eq!(row().await, [2, 0, 0, 2, 2]);
}

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
    assert_eq!(elsewhere["lines"], first["lines"], "also in the other encoding, on another connection");
    let another = json!({"token": TOKEN, "session": session, "count": 3});
    port.ask("cart.hold_best", "a", another.clone()).await.no(105, "request_id_reused");
    port.ask("cart.hold_seats", "a", hold(TOKEN, session, json!([[0, 0]]))).await.no(105, "request_id_reused");

    // A hundred at once, over both connections: one effect, a hundred equal answers.
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
    // A refused one is decided afresh.
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
    // What was granted is given back: nothing but the rival's seat is held anywhere.
    for (session, held) in [(one, 0), (two, 0), (three, 1)] {
        eventually("the granted lines are given back", async || {
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
async fn what_is_given_back_can_be_had_again() {
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
    // The repeat of a release whose seat somebody else holds by now changes nothing.
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

/// Held until the deadline, free at most the grace after it; the cart stays as history.
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
        // Nobody's hold ends early: what was read before the deadline shows it.
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

/// Checkouts a few milliseconds around the deadline: each is a sale or an expiry, and the map agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkout_and_expiry_have_one_winner() {
    const TTL_MS: u64 = 300;
    let mut dice = Dice::of_test("checkout_and_expiry_have_one_winner");
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
    let races: Vec<_> = (0..60).map(|number| race(number, dice.token(), TTL_MS - 12 + dice.below(16) as u64)).collect();
    let orders = join_all(races).await;
    let expected: String = orders.iter().map(|order| if order.is_some() { 's' } else { '.' }).collect();
    eventually(&format!("sold is what was sold: {expected}"), async || {
        (theatre.map(&port, session).await.seats == expected).then_some(())
    })
    .await;
    println!("{} of 60 were sold", orders.iter().flatten().count());
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
    // Without naming the cart it is just another one, which nobody has opened.
    port.ask("cart.release", "5", json!({"token": thief, "line": 1})).await.no(701, "not_found");
    assert_eq!(theatre.map(&port, theatre.session()).await.held, 1);
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

/// The next frames of a feed, applied until the map is at this version or later.
async fn follow(port: &Port, map: &mut Map, feed: u64, version: u64) {
    while map.version < version {
        let frame = port.other().await;
        assert_eq!(frame["feed"], feed);
        match frame.get("snapshot") {
            Some(snapshot) => *map = Map::read(snapshot, map.seats.len()),
            None => map.apply(&frame["delta"]),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_see_every_version_and_each_other() {
    let mut dice = Dice::of_test("watchers_see_every_version_and_each_other");
    let home = Home::new();
    let server = home.start();
    let buyer = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&buyer, 2, (4, 8), None).await;
    let session = theatre.session();
    let entity = format!("session/{session}");
    let watchers = [server.port(Encoding::Json).await, server.port(Encoding::MsgPack).await];
    let mut maps = Vec::new();
    let mut feeds = Vec::new();
    for port in &watchers {
        let feed = port.read("watch", json!({"entity": entity})).await.ok()["feed"].as_u64().expect("a feed");
        let frame = port.other().await;
        assert_eq!((frame["feed"].as_u64(), &frame["snapshot"]["entity"]), (Some(feed), &json!(entity)));
        maps.push(Map::read(&frame["snapshot"], 32));
        feeds.push(feed);
    }
    assert_eq!(feeds[0], feeds[1], "a feed's number is the node's");
    assert_eq!(maps[0], maps[1]);
    // One of the watchers buys; the other sees it.
    watchers[0].ask("cart.hold_seats", "1", hold(TOKEN, session, json!([[0, 0], [0, 1]]))).await.ok();
    let version = theatre.map(&buyer, session).await.version;
    for (port, map) in watchers.iter().zip(&mut maps) {
        follow(port, map, feeds[0], version).await;
        assert_eq!(&map.seats[..4], "hh..");
    }
    // A crowd; every version that is shown is the sum of what was shown before.
    let crowd = (0..60).map(|_| {
        let (token, row, seat) = (dice.token(), dice.below(4), dice.below(7));
        let (buyer, buys) = (&buyer, dice.percent(50));
        async move {
            let held =
                buyer.ask("cart.hold_seats", "1", hold(&token, session, json!([[row, seat], [row, seat + 1]]))).await;
            if matches!(held, Answer::Ok(..)) {
                let op = if buys { "cart.checkout" } else { "cart.cancel" };
                let body = if buys { checkout(&token) } else { json!({"token": token}) };
                buyer.ask(op, "2", body).await.ok();
            }
        }
    });
    join_all(crowd.collect::<Vec<_>>()).await;
    let last = eventually("nothing but one cart is held", async || {
        let map = theatre.map(&buyer, session).await;
        (map.held == 2).then_some(map)
    })
    .await;
    for (port, map) in watchers.iter().zip(&mut maps) {
        follow(port, map, feeds[0], last.version).await;
        assert_eq!((&map.seats, map.free, map.sold), (&last.seats, last.free, last.sold));
        port.read("unwatch", json!({"feed": feeds[0]})).await.ok();
        port.read("unwatch", json!({"feed": feeds[0]})).await.no(701, "not_found");
    }
    buyer.read("watch", json!({"entity": "session/nowhere"})).await.no(701, "not_found");
}

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

async fn client(address: std::net::SocketAddr) -> Client {
    Client::connect(ClientConfig::new([address.to_string()])).await.expect("a connection")
}

/// The library: the same sale, typed, with a watch of its own; carts and their deadlines survive an orderly restart, and
/// neither a buyer nor a watcher notices more than a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_library_rides_over_a_restart() {
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 2, (4, 8), None).await;
    drop(port);
    let (session, other) = (id(&theatre.sessions[0]), id(&theatre.sessions[1]));
    let client = client(address).await;
    let mut watch = client.watch(&session);
    let map = watch.next().await.expect("a snapshot");
    assert_eq!(map.counts().free, 32);

    let cart = Cart::new(&client);
    let held =
        cart.hold_seats(&session, [Seat { row: 0, seat: 0 }, Seat { row: 0, seat: 1 }]).await.expect("held").value;
    let lines = [
        WantedLine {
            entity: Entity::Session(session.clone()),
            want: Want::Best(BestWish { count: 2, category: None, section: None, accessible: 0, split: false }),
        },
        WantedLine {
            entity: Entity::Session(other.clone()),
            want: Want::Best(BestWish { count: 4, category: None, section: None, accessible: 0, split: false }),
        },
    ];
    let more = cart.hold_all(lines).await.expect("held").value;
    assert_eq!((held.lines.len(), more.lines.len()), (1, 2));
    let before = cart.get().await.expect("a cart").value;
    assert_eq!(before.total.map(|total| total.amount), Some(8_000));
    let done = Cart::new(&client);
    done.hold_seats(&session, [Seat { row: 3, seat: 7 }]).await.expect("held");
    let order = done.checkout(recorded("cash", "1"), Some(id("bob"))).await.expect("an order").value.order;

    server.stop();
    let server = home.start_at(address);
    let after = cart.get().await.expect("the cart").value;
    assert_eq!(after, before, "its lines and its deadline are what they were");
    assert_eq!(client.order_get(order.id).await.expect("the order").value.order, order);
    let no = Cart::new(&client).hold_seats(&session, [Seat { row: 0, seat: 1 }]).await.expect_err("it is held");
    assert_eq!(no.refusal().map(|no| (no.code, no.states.clone())), Some((201, vec![SeatState::Held])));
    let bought = cart.checkout(recorded("card", "2"), None).await.expect("an order").value;
    assert_eq!(bought.order.total.amount, 8_000);
    // The watch goes on by itself, to the same map.
    let there = client.session_map(&session).await.expect("a map").value;
    assert_eq!((there.counts.sold, there.counts.held), (5, 0));
    let deadline = tokio::time::Instant::now() + common::PATIENCE;
    while watch.map().is_none_or(|map| map.counts() != there.counts) {
        tokio::time::timeout_at(deadline, watch.next()).await.expect("the map in time").expect("a map");
    }
    server.stop();
}

/// Deadlines are instants, not spans: a cart whose deadline passed while nobody was there is expired when somebody is.
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

/// An importer's batch: each item has its own answer, in order, and a repeat of the whole changes nothing.
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
        // One wrong item does not touch the others.
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
    // The hall is booked for the time; back to back is allowed.
    let session = |id: &str, starts_at: u64| {
        json!({"id": id, "venue": "royal", "hall": "main", "title": "lear", "starts_at": time(&port, starts_at),
            "ends_at": time(&port, starts_at + 1_000), "prices": {"standard": {"amount": 1, "currency": "EUR"}}})
    };
    let no = port.ask("session.create", "x1", session("lear-1", 1_900_000_000_500)).await.no(208, "hall_occupied");
    assert_eq!(no["session"], "hamlet-0");
    port.ask("session.create", "x2", session("lear-2", 1_899_999_999_000)).await.ok();
    let mut other = session("lear-2", 1_899_999_999_000);
    other["title"] = "othello".into();
    port.ask("session.create", "x3", other).await.no(702, "already_exists_differently");
}

/// Five hundred connections ask for one seat at once: one holder, everybody else is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_want_one_seat() {
    let mut dice = Dice::of_test("five_hundred_want_one_seat");
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Arc::new(Theatre::open(&port, 1, (2, 8), None).await);
    let ports = join_all((0..500).map(|number| server.port(Encoding::BOTH[number % 2]))).await;
    let tokens: Vec<String> = ports.iter().map(|_| dice.token()).collect();
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

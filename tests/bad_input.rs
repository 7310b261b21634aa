//! Whatever is sent or configured wrongly gets its name, changes nothing, and the node goes on.

mod common;

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::Command,
    time::{Duration, Instant},
};

use common::{Answer, Dice, Encoding, Home, PATIENCE, Port, Server, Theatre};
use serde_json::{Value, json};

const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";

/// Exit codes of the program.
const USAGE: i32 = 2;
const NODE: i32 = 4;

fn checkout(token: &str) -> Value {
    json!({"token": token, "payment": {"recorded": {"method": "card", "transaction_id": "4711"}}})
}

/// A node with a theatre, what it held at first, and dice for the purchases that show that it goes on.
struct Stage {
    server: Server,
    port: Port,
    theatre: Theatre,
    dice: Dice,
    home: Home,
}

impl Stage {
    async fn new(test: &str, encoding: Encoding) -> Stage {
        let home = Home::new();
        let server = home.start();
        let port = server.port(encoding).await;
        let theatre = Theatre::open(&port, 2, (10, 20), None).await;
        Stage { server, port, theatre, dice: Dice::of_test(test), home }
    }

    fn session(&self) -> &str {
        self.theatre.session()
    }

    /// A purchase on a new connection.
    async fn sells(&mut self) {
        let port = self.server.port(self.port.encoding()).await;
        let token = self.dice.token();
        let body = json!({"token": token, "session": self.session(), "count": 1});
        port.ask("cart.hold_best", "1", body).await.ok();
        port.ask("cart.checkout", "2", checkout(&token)).await.ok();
    }

    /// What must not change, as the node counts it.
    async fn counts(&self) -> Value {
        let audit = self.port.read("admin.audit", json!({})).await.ok();
        assert_eq!(audit["violations"], json!([]), "{audit}");
        json!([audit["seats"], audit["holds"], audit["orders"], audit["sessions"], audit["venues"]])
    }

    /// Each of these is refused with this code and name, and nothing changes.
    async fn refuses(&mut self, wrong: Vec<(&str, Value, u64, &str)>) {
        let before = self.counts().await;
        for (number, (op, body, code, name)) in wrong.into_iter().enumerate() {
            let text = body.to_string();
            let shown = &text[..text.len().min(200)];
            match self.port.ask(op, &format!("wrong-{number}"), body).await {
                Answer::No(no) => assert_eq!((no.code, no.name.as_str()), (code, name), "{op} {shown}: {}", no.body),
                other => panic!("{op} {shown} is to be refused with {code} {name}: {other:?}"),
            }
        }
        assert_eq!(self.counts().await, before, "a refusal changed something");
        self.sells().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_nobody_knows() {
    let mut stage = Stage::new("ids_nobody_knows", Encoding::Json).await;
    let nobody = "99999999999999999999999999999999";
    let times = json!({"starts_at": "2031-01-01T20:00:00.000Z", "ends_at": "2031-01-01T22:00:00.000Z",
        "prices": {"standard": {"amount": 1, "currency": "EUR"}}, "id": "x", "title": "t"});
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
            ("cart.get", json!({"token": nobody}), 701, "not_found"),
            ("cart.cancel", json!({"token": nobody}), 701, "not_found"),
            ("cart.release", json!({"token": nobody, "line": 1}), 701, "not_found"),
            ("cart.checkout", checkout(nobody), 701, "not_found"),
            ("cart.hold_seats", json!({"token": nobody, "session": "nowhere", "seats": [[0, 0]]}), 701, "not_found"),
            ("cart.hold_best", json!({"token": nobody, "session": "nowhere", "count": 1}), 701, "not_found"),
            (
                "cart.hold_best",
                json!({"token": nobody, "session": "hamlet-0", "count": 1, "category": "royalty"}),
                701,
                "not_found",
            ),
            ("order.get", json!({"order": nobody}), 701, "not_found"),
            ("watch", json!({"entity": "session/nowhere"}), 701, "not_found"),
            ("unwatch", json!({"feed": 12_345}), 701, "not_found"),
            ("admin.audit", json!({"entity": "session/nowhere"}), 701, "not_found"),
            ("cart.explode", json!({}), 102, "unknown_op"),
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_that_are_none() {
    let mut stage = Stage::new("lists_that_are_none", Encoding::MsgPack).await;
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
async fn numbers_that_are_too_much() {
    let mut stage = Stage::new("numbers_that_are_too_much", Encoding::MsgPack).await;
    let hall = |layout: Value| json!({"venue": "royal", "id": "big", "name": "Big", "layout": layout});
    let session = |change: Value| {
        let mut body = json!({"id": "x", "venue": "royal", "hall": "main", "title": "t", "starts_at": 1_000_000,
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
async fn tokens_and_carts_that_are_over() {
    let mut stage = Stage::new("tokens_and_carts_that_are_over", Encoding::Json).await;
    let session = stage.session().to_owned();
    let (done, canceled, empty) = (stage.dice.token(), stage.dice.token(), stage.dice.token());
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
    // A repeat of what succeeded is no mistake, also when the cart is over.
    assert_eq!(stage.port.ask("cart.checkout", "2", checkout(&done)).await.ok()["id"], order);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_ids_that_are_none() {
    let mut stage = Stage::new("request_ids_that_are_none", Encoding::Json).await;
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

/// Frames that are no requests are answered without a number as far as they can be; the connection goes on, until it is
/// clear that the client speaks something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_are_no_requests() {
    let deep_json = "[".repeat(100_000);
    let inside = format!(r#"{{"id":1,"op":"cart.get","body":{}{}}}"#, "[".repeat(20), "]".repeat(20));
    let json: Vec<Vec<u8>> = [
        "",
        "{",
        "null",
        "7",
        "\"text\"",
        "[]",
        "{}",
        "{\"id\":1}garbage",
        "{\"id\":-1,\"op\":\"hello\"}",
        "{\"id\":1.5,\"op\":\"hello\"}",
        &deep_json,
        &inside,
    ]
    .iter()
    .map(|text| text.as_bytes().to_owned())
    .collect();
    let deep_pack = [0x91u8].repeat(60_000);
    let pack: Vec<Vec<u8>> = vec![
        vec![],
        vec![0xc1],
        vec![0x80],
        vec![0x81],
        b"\x82\xa2id\x01".to_vec(),
        // Lengths that claim four gigabytes.
        b"\xdf\xff\xff\xff\xff".to_vec(),
        b"\x81\xa2id\xdb\xff\xff\xff\xff".to_vec(),
        b"\x81\xa2id\xc6\xff\xff\xff\xff".to_vec(),
        b"\xdd\xff\xff\xff\xff".to_vec(),
        deep_pack,
        // Text that is not UTF-8, as a name and as a value.
        b"\x82\xa2id\x01\xa2\xff\xfe\x01".to_vec(),
        b"\x82\xa2id\x01\xa2op\xa2\xff\xfe".to_vec(),
        // Bytes follow the end.
        b"\x82\xa2id\x01\xa2op\xa5hello\x00".to_vec(),
    ];
    for (encoding, frames) in [(Encoding::Json, json), (Encoding::MsgPack, pack)] {
        let mut stage = Stage::new("frames_that_are_no_requests", encoding).await;
        let before = stage.counts().await;
        for frame in frames {
            let port = stage.server.port(encoding).await;
            port.send(encoding.raw(&frame));
            let answer = port.refusal_of_a_frame().await;
            let shown = String::from_utf8_lossy(&frame[..frame.len().min(60)]).into_owned();
            assert_eq!(answer["no"]["code"], 101, "{shown:?}: {answer}");
            assert_eq!(answer["no"]["name"], "bad_request", "{shown:?}: {answer}");
            // The same connection goes on.
            port.read("hello", json!({})).await.ok();
        }
        let port = stage.server.port(encoding).await;
        for _ in 0..100 {
            port.send(encoding.raw(if encoding == Encoding::Json { b"x" } else { &[0xc1] }));
        }
        assert_eq!(port.closed().await, 4000);
        // The other kind of frame has a code of its own.
        let port = stage.server.port(encoding).await;
        port.send(if encoding == Encoding::Json { Encoding::MsgPack } else { Encoding::Json }.raw(b"{}"));
        assert_eq!(port.closed().await, 4003);
        assert_eq!(stage.counts().await, before);
        stage.sells().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_are_too_long() {
    for encoding in Encoding::BOTH {
        let mut stage = Stage::new("frames_that_are_too_long", encoding).await;
        let before = stage.counts().await;
        let long = "x".repeat(70_000);
        // Longer than frames of this op may be: refused, the connection goes on.
        stage.port.ask("venue.get", "1", json!({"id": long})).await.no(103, "too_large");
        let seats: Vec<_> = (0..20_000).map(|seat| json!([0, seat])).collect();
        stage
            .port
            .ask("cart.hold_seats", "2", json!({"token": TOKEN, "session": stage.session(), "seats": seats}))
            .await
            .no(103, "too_large");
        // Longer than any frame may be: closed before it is read.
        let port = stage.server.port(encoding).await;
        let huge = "x".repeat(2 << 20);
        port.send(encoding.message(&json!({"id": 1, "op": "venue.get", "body": {"id": huge}})));
        assert_eq!(port.closed().await, 1009);
        assert_eq!(stage.counts().await, before);
        stage.sells().await;
    }
}

/// A WebSocket with nothing in between: bytes as they are.
struct Wire(TcpStream);

impl Wire {
    fn connect(address: SocketAddr, encoding: Encoding) -> Wire {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let protocol = if encoding == Encoding::Json { "json" } else { "msgpack" };
        let request = format!(
            "GET /v1/ws HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: boxoffice.v1.{protocol}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("written");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        let mut wire = Wire(stream);
        let (first, hello) = wire.frame();
        assert_eq!(first & 0x0f, if encoding == Encoding::Json { 1 } else { 2 });
        assert!(hello.windows(5).any(|word| word == b"hello"));
        wire
    }

    /// Writes a head (length and mask) and as much of the payload as is given.
    fn write(&mut self, first: u8, claimed: u64, payload: &[u8]) {
        let mut frame = vec![first];
        match claimed {
            0..=125 => frame.push(0x80 | claimed as u8),
            126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((claimed as u16).to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend(claimed.to_be_bytes());
            }
        }
        // A mask of zeros changes nothing.
        frame.extend([0; 4]);
        frame.extend(payload);
        // The server may have closed already; then reading says how.
        let _ = self.0.write_all(&frame);
    }

    /// The next frame: its first byte and its payload.
    fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a frame");
        let mut digits = [0; 8];
        let length = match head[1] {
            126 => {
                self.0.read_exact(&mut digits[6..]).expect("a length");
                u64::from_be_bytes(digits)
            }
            127 => {
                self.0.read_exact(&mut digits).expect("a length");
                u64::from_be_bytes(digits)
            }
            short => short.into(),
        };
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).expect("a payload");
        (head[0], payload)
    }

    /// The code it is closed with.
    fn closed(&mut self) -> u16 {
        loop {
            let (first, payload) = self.frame();
            if first & 0x0f == 8 {
                return u16::from_be_bytes([payload[0], payload[1]]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_frames() {
    const TEXT: u8 = 0x81;
    const BINARY: u8 = 0x82;
    let mut stage = Stage::new("bytes_that_are_no_frames", Encoding::Json).await;
    let address = stage.server.address();
    let closed = |encoding: Encoding, first: u8, claimed: u64, payload: &[u8]| {
        let mut wire = Wire::connect(address, encoding);
        wire.write(first, claimed, payload);
        wire.closed()
    };
    assert_eq!(closed(Encoding::Json, TEXT, 4, b"\xff\xfe\xfd\xfc"), 1007, "text that is not UTF-8");
    assert_eq!(closed(Encoding::MsgPack, BINARY, 64 << 20, &[0; 1024]), 1009, "64 MiB, claimed");
    assert_eq!(closed(Encoding::Json, TEXT, 4 << 30, b"{"), 1009, "4 GiB, claimed");
    assert_eq!(closed(Encoding::Json, TEXT, 1 << 62, b"{"), 1009, "all the memory there is, claimed");
    assert_eq!(closed(Encoding::Json, TEXT | 0x40, 2, b"{}"), 1002, "a reserved bit");
    assert_eq!(closed(Encoding::Json, 0x83, 2, b"{}"), 1002, "a reserved kind of frame");
    // What is not HTTP is told so, or nothing at all.
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 what is this\r\n\r\n").expect("written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("closed");
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    stage.sells().await;
}

/// Half a frame and silence; half a head and silence; no frame at all. Each connection is closed in its time, and nobody
/// else waits meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_frame_and_silence() {
    const LIMIT: Duration = Duration::from_secs(10);
    let mut stage = Stage::new("half_a_frame_and_silence", Encoding::Json).await;
    let address = stage.server.address();
    let begun = Instant::now();
    let waiting: Vec<_> = [Some(&b"{\"id\":1"[..]), Some(&b""[..]), None]
        .into_iter()
        .map(|part| {
            std::thread::spawn(move || {
                let mut wire = Wire::connect(address, Encoding::Json);
                if let Some(part) = part {
                    wire.write(0x81, 200, part);
                }
                (wire.closed(), begun.elapsed())
            })
        })
        .collect();
    let mut half = TcpStream::connect(address).expect("a connection");
    half.write_all(b"GET /v1/ws HTTP/1.1\r\nhost: a").expect("written");
    stage.sells().await;
    assert!(begun.elapsed() < LIMIT, "a purchase waits for others' silence");
    let ended: Vec<_> =
        tokio::task::block_in_place(|| waiting.into_iter().map(|waiting| waiting.join().expect("a wire")).collect());
    for (code, after) in ended {
        assert!((4000..4200).contains(&code), "closed with {code}");
        assert!(
            after >= LIMIT - Duration::from_secs(1) && after < 2 * LIMIT + Duration::from_secs(5),
            "closed after {after:?}"
        );
    }
    half.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut rest = Vec::new();
    tokio::task::block_in_place(|| half.read_to_end(&mut rest)).expect("half a head is closed");
    stage.sells().await;
}

/// A configuration that is wrong: file, line and key are named, and no data directory is made.
#[test]
fn configurations_that_are_wrong() {
    let wrong = [
        ("[node]\nid = 1\nshard = 4\n", 3, "shard"),
        ("[nodes]\nid = 1\n", 1, "nodes"),
        ("\n\n[log]\nfsync = \"sometimes\"\n", 4, "log.fsync"),
        ("[log]\nsegment_bytes = 1_000\n", 2, "log.segment_bytes"),
        ("[log]\nsegment_bytes = 262_145\n", 2, "log.segment_bytes"),
        ("[node]\nshards = 0\n", 2, "node.shards"),
        ("[node]\nshards = 70_000\n", 2, "shards"),
        ("[carts]\n# a comment\nhold_ttl_ms = -5\n", 3, "hold_ttl_ms"),
        ("[carts]\nhold_ttl_ms = \"long\"\n", 2, "hold_ttl_ms"),
        ("[listen]\naddress = \"somewhere\"\n", 2, "listen.address"),
        ("[listen]\nadmin_token = \"short\"\n", 2, "listen.admin_token"),
        ("[listen]\ncustomer_secret = \"short\"\n", 2, "listen.customer_secret"),
        ("[node\n", 1, ""),
    ];
    for (config, line, key) in wrong {
        let home = Home::with_config(config);
        let refused = home.refused();
        assert_eq!(refused.code, Some(USAGE), "{config}: {}", refused.stderr);
        let named = format!("{}: line {line}: ", home.config_file().display());
        assert!(refused.stderr.contains(&named), "{config}: {}", refused.stderr);
        assert!(refused.stderr.contains(key), "{config}: {}", refused.stderr);
        assert!(!home.data_dir().exists(), "{config}: a data directory was made");
    }
    let home = Home::new();
    fs::remove_file(home.config_file()).expect("removed");
    let refused = home.refused();
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    assert!(refused.stderr.contains(home.config_file().to_str().expect("a path")), "{}", refused.stderr);
    let home = Home::new().with_args(&["--no-such-flag"]);
    let refused = home.refused();
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    assert!(refused.stderr.contains("--no-such-flag"), "{}", refused.stderr);
}

#[test]
fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let home = Home::new();
    let Err(refused) = Server::spawn(home.command_at(&address)) else { panic!("the port is taken") };
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    assert!(refused.stderr.contains(&address) && refused.stderr.contains("in use"), "{}", refused.stderr);
    drop(taken);
    home.start().stop();
}

#[test]
fn an_open_door_needs_a_token() {
    let home = Home::new();
    home.write_config("[listen]\naddress = \"0.0.0.0:0\"\n\n[log]\nsegment_bytes = 262_144\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
    command.arg("serve").arg("--data-dir").arg(home.data_dir()).arg("--config").arg(home.config_file());
    let Err(refused) = Server::spawn(command) else { panic!("anybody could administer") };
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    assert!(refused.stderr.contains("admin token"), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_that_is_in_use() {
    let mut stage = Stage::new("a_data_directory_that_is_in_use", Encoding::Json).await;
    let refused = stage.home.refused();
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    let named = format!("{} is in use by another process", stage.home.data_dir().display());
    assert!(refused.stderr.contains(&named), "{}", refused.stderr);
    stage.sells().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_of_somebody_else() {
    let mut stage = Stage::new("a_data_directory_of_somebody_else", Encoding::Json).await;
    stage.sells().await;
    let before = stage.counts().await;
    let Stage { server, port, theatre, dice, home } = stage;
    drop(port);
    server.stop();
    let identity = home.data_dir().join("identity.toml");
    let good = fs::read_to_string(&identity).expect("an identity");
    let refuses = |words: &str| {
        let refused = home.refused();
        assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
        assert!(refused.stderr.contains(home.data_dir().to_str().expect("a path")), "{}", refused.stderr);
        assert!(refused.stderr.contains(words), "{words:?} is not said: {}", refused.stderr);
    };
    let edited = |from: &str, to: &str| {
        assert!(good.contains(from), "{good}");
        fs::write(&identity, good.replace(from, to)).expect("written");
    };
    edited("format = 1", "format = 2");
    refuses("has format 2, this program uses 1");
    edited("shards = 32", "shards = 33");
    refuses("the checksum in identity.toml does not match");
    fs::write(&identity, "who am I?").expect("written");
    refuses("identity.toml is malformed");
    fs::remove_file(&identity).expect("removed");
    refuses("identity.toml is missing");
    fs::write(&identity, &good).expect("written");

    home.write_config("[node]\nshards = 16\n");
    refuses("was made for 32 shards, 16 are configured");
    home.write_config("[node]\nid = 2\n");
    refuses("belongs to node 1, this is to be node 2");

    // Nothing was changed by all of that.
    home.write_config("[log]\nsegment_bytes = 1_048_576\n");
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let mut stage = Stage { server, port, theatre, dice, home };
    assert_eq!(stage.counts().await, before);
    stage.sells().await;
}

#[test]
fn a_data_directory_that_cannot_be_written() {
    let home = Home::new();
    fs::write(home.data_dir(), "a file stands in the way").expect("written");
    let refused = home.refused();
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    assert!(refused.stderr.contains(home.data_dir().to_str().expect("a path")), "{}", refused.stderr);
    fs::remove_file(home.data_dir()).expect("removed");

    // Root may write everywhere, so a user without rights is tried where one can be had.
    fs::create_dir(home.data_dir()).expect("made");
    fs::set_permissions(home.data_dir(), fs::Permissions::from_mode(0o555)).expect("set");
    let is_root = rustix::process::geteuid().is_root();
    let spawned = if is_root {
        let served = home.command();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("set");
        command.arg(served.get_program()).args(served.get_args());
        let may = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(served.get_program())
            .arg("--version")
            .output();
        match may {
            Ok(output) if output.status.success() => Server::spawn(command),
            _ => return println!("skipped: root cannot become nobody here"),
        }
    } else {
        Server::spawn(home.command())
    };
    let Err(refused) = spawned else { panic!("the directory cannot be written") };
    fs::set_permissions(home.data_dir(), fs::Permissions::from_mode(0o755)).expect("set");
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    assert!(refused.stderr.contains(home.data_dir().to_str().expect("a path")), "{}", refused.stderr);
    assert!(refused.stderr.contains("Permission denied"), "{}", refused.stderr);
    home.start().stop();
}

/// Everything but seats: products, areas, resources, orders, purchases, by both doors. What is refused has a name, and the
/// whole audit is what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_sold_or_booked() {
    let mut stage = Stage::new("what_cannot_be_sold_or_booked", Encoding::Json).await;
    let port = std::sync::Arc::new(stage.server.port(Encoding::Json).await);
    common::town::product(&port, "pen", 10, json!({"hold": "at_checkout"})).await;
    common::town::product(&port, "ink", 10, Value::Null).await;
    common::town::product(&port, "dollar", 10, json!({"price": {"amount": 100, "currency": "USD"}})).await;
    common::town::event(&port, "finals", 10, Value::Null).await;
    common::town::room(&port, "court", Value::Null).await;
    let anns = common::Shopper::new(&port, &mut stage.dice);
    anns.ask("cart.hold_stock", json!({"product": "ink", "quantity": 2, "customer": "ann"})).await.ok();
    anns.checkout().await.ok();
    let mine = common::Shopper::new(&port, &mut stage.dice);
    mine.ask("cart.hold_stock", json!({"product": "ink", "quantity": 1, "customer": "bob"})).await.ok();
    port.ask(
        "resource.reserve",
        "b",
        json!({"resource": "court", "booking": "taken",
        "begin": "2030-01-01T10:00:00Z", "end": "2030-01-01T11:00:00Z"}),
    )
    .await
    .ok();
    let nobody = "99999999999999999999999999999999";
    let (anns_cart, anns_order) = (anns.cart(), anns.cart());
    let changed = |base: &Value, change: Value| {
        let mut body = base.clone();
        body.as_object_mut().expect("fields").extend(change.as_object().expect("fields").clone());
        body
    };
    let product = json!({"id": "new", "name": "New", "price": {"amount": 1, "currency": "EUR"}, "stock": 1});
    let product = |change: Value| ("product.put", changed(&product, change));
    let resource =
        json!({"id": "new", "name": "New", "zone": "Europe/Berlin", "rate": {"amount": 1, "currency": "EUR"}});
    let resource = |change: Value| ("resource.put", changed(&resource, change));
    let session = json!({"id": "new", "venue": "arena", "hall": "finals", "title": "t",
        "starts_at": "2031-01-01T20:00:00Z", "ends_at": "2031-01-01T22:00:00Z",
        "areas": [{"id": "yard", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}}]});
    let session = |change: Value| ("session.create", changed(&session, change));
    let area = |change: Value| {
        let area = json!({"id": "yard", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}});
        session(json!({"areas": [changed(&area, change)]}))
    };
    let slot =
        json!({"resource": "court", "booking": "new", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"});
    let reserve = |change: Value| ("resource.reserve", changed(&slot, change));
    let again = |repeat: Value| reserve(json!({"repeat": repeat}));
    let bobs = |change: Value| changed(&json!({"token": mine.token}), change);
    let stock = |quantity: Value| ("cart.hold_stock", bobs(json!({"product": "ink", "quantity": quantity})));
    let places = |quantity: Value| {
        ("cart.hold_places", bobs(json!({"session": "finals", "area": "yard", "quantity": quantity})))
    };
    let time =
        |begin: &str, end: &str| ("cart.hold_slot", bobs(json!({"resource": "court", "begin": begin, "end": end})));
    let pay = |payment: Value| ("cart.checkout", bobs(json!({"payment": payment})));
    let refund = |change: Value| ("order.refund", changed(&json!({"order": anns_order, "reason": "why"}), change));
    let (huge, control) = ("x".repeat(5_000), "a\u{7}b");
    let bad = [
        // Products.
        product(json!({"price": {"amount": -1, "currency": "EUR"}})),
        product(json!({"price": {"amount": 1_000_000_000_001u64, "currency": "EUR"}})),
        product(json!({"price": {"amount": i64::MAX, "currency": "EUR"}})),
        product(json!({"price": {"amount": 1.5, "currency": "EUR"}})),
        product(json!({"price": {"amount": 1, "currency": "euro"}})),
        product(json!({"price": 1})),
        product(json!({"name": ""})),
        product(json!({"name": control})),
        product(json!({"id": "no id"})),
        product(json!({"hold": "never"})),
        product(json!({"hold_ttl_ms": 0})),
        product(json!({"hold_ttl_ms": u64::MAX})),
        product(json!({"blob": "no base64!"})),
        product(json!({"properties": {"": "x"}})),
        product(json!({"properties": ["x"]})),
        ("product.get", json!({})),
        // Areas.
        session(json!({"areas": []})),
        area(json!({"price": {"amount": -1, "currency": "EUR"}})),
        session(json!({"areas": [
            {"id": "a", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}},
            {"id": "b", "capacity": 1, "price": {"amount": 1, "currency": "USD"}}]})),
        session(json!({"areas": [
            {"id": "a", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}},
            {"id": "a", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}}]})),
        session(json!({"starts_at": "2031-01-01T22:00:00Z"})),
        // Resources.
        resource(json!({"zone": "Europe/Atlantis"})),
        resource(json!({"zone": ""})),
        resource(json!({"rate": {"amount": -1, "currency": "EUR"}})),
        resource(json!({"rate": {"amount": 1, "currency": "EUR", "per_ms": 0}})),
        resource(json!({"before_ms": -1})),
        resource(json!({"after_ms": u64::MAX})),
        resource(json!({"horizon_ms": 0})),
        resource(json!({"hours": {"week": [[], [], []]}})),
        resource(json!({"hours": {"week": [[[600, 540]], [], [], [], [], [], []]}})),
        resource(json!({"hours": {"week": [[[600, 1_441]], [], [], [], [], [], []]}})),
        resource(json!({"hours": {"week": [[[0, 600], [540, 700]], [], [], [], [], [], []]}})),
        resource(json!({"hours": {"week": [[], [], [], [], [], [], []], "exceptions": {"2030-02-30": []}}})),
        reserve(json!({"begin": null})),
        reserve(json!({"local_begin": "2030-01-01T12:00", "local_end": "2030-01-01T13:00"})),
        reserve(json!({"begin": "yesterday"})),
        again(json!({"every": "year", "count": 2})),
        again(json!({"every": "day"})),
        again(json!({"every": "day", "count": 2, "until": "2030-02-01"})),
        again(json!({"every": "day", "count": 0})),
        again(json!({"every": "day", "count": 1_000_000})),
        again(json!({"every": "day", "count": 2, "interval": 0})),
        again(json!({"every": "day", "count": 2, "weekdays": [1]})),
        again(json!({"every": "week", "count": 2, "weekdays": [0]})),
        again(json!({"every": "week", "count": 2, "weekdays": [8]})),
        again(json!({"every": "day", "until": "2030-02-30"})),
        (
            "resource.free_slots",
            json!({"resource": "court", "from": "2030-01-01T00:00:00Z", "to": "2030-01-02T00:00:00Z", "length_ms": 1, "count": 0}),
        ),
        // Carts and orders.
        ("cart.hold_stock", bobs(json!({"product": "dollar", "quantity": 1}))),
        ("cart.hold_stock", bobs(json!({"product": "ink", "quantity": 1, "customer": "ann"}))),
        (
            "cart.checkout",
            bobs(json!({"customer": "ann", "payment": {"recorded": {"method": "card", "transaction_id": "1"}}})),
        ),
        ("cart.hold_all", bobs(json!({"lines": [{"product": "ink"}]}))),
        ("cart.hold_all", bobs(json!({"lines": [{"product": "ink", "session": "finals", "quantity": 1}]}))),
        ("cart.hold_all", bobs(json!({"lines": [{"resource": "court", "begin": "2030-01-01T12:00:00Z"}]}))),
        pay(json!({})),
        pay(json!({"recorded": {"method": "card", "transaction_id": "1"}, "gateway": {"source": "ok"}})),
        pay(json!({"recorded": {"method": "", "transaction_id": "1"}})),
        pay(json!({"gateway": {"source": ""}})),
        // No gateway is configured.
        pay(json!({"gateway": {"source": "ok"}})),
        pay(json!({"gateway": {"source": "ok", "on_decline": "perhaps"}})),
        refund(json!({"reason": ""})),
        refund(json!({"lines": []})),
        refund(json!({"lines": [1, 1]})),
        refund(json!({"lines": [-1]})),
        refund(json!({"order": "abc"})),
        ("customer.purchases", json!({"customer": "ann", "limit": 0})),
        ("customer.purchases", json!({"customer": "ann", "cursor": -1})),
        ("admin.settle", json!({"cart": anns_cart, "attempt": 1, "outcome": "perhaps"})),
        ("admin.audit", json!({"entity": "planet/mars"})),
        ("admin.history", json!({"entity": "product/ink", "seat": [0, 0]})),
    ];
    let quantities = [
        product(json!({"stock": -1})),
        product(json!({"stock": 1.5})),
        product(json!({"stock": 1u64 << 53})),
        product(json!({"stock": u64::MAX})),
        product(json!({"limits": {"per_order": 0}})),
        product(json!({"limits": {"per_customer": {"quota": "q", "max": -5}}})),
        product(json!({"id": "ink", "name": "ink", "price": {"amount": 350, "currency": "EUR"}, "stock": 2})),
        area(json!({"capacity": 0})),
        area(json!({"capacity": -1})),
        area(json!({"capacity": 10_000_001})),
        area(json!({"capacity": u64::MAX})),
        resource(json!({"capacity": 0})),
        resource(json!({"capacity": 1_000_000_000_000u64})),
        stock(json!(0)),
        stock(json!(-3)),
        stock(json!(0.5)),
        stock(json!(1_000_001)),
        stock(json!(u64::MAX)),
        stock(json!(i64::MIN)),
        stock(json!(1e300)),
        places(json!(0)),
        places(json!(-1)),
        places(json!(4_294_967_297u64)),
        (
            "cart.hold_all",
            bobs(json!({"lines": [{"product": "ink", "quantity": 1}, {"product": "ink", "quantity": -1}]})),
        ),
        (
            "cart.hold_all",
            bobs(json!({"lines": [{"product": "pen", "quantity": 1_000_000}, {"product": "pen", "quantity": 1}]})),
        ),
        ("cart.set_quantity", bobs(json!({"line": 1, "quantity": -1}))),
        ("cart.set_quantity", bobs(json!({"line": 1, "quantity": 1_000_001}))),
    ];
    let intervals = [
        reserve(json!({"end": "2030-01-01T12:00:00Z"})),
        reserve(json!({"end": "2030-01-01T11:00:00Z"})),
        reserve(json!({"end": "2130-01-01T13:00:00Z"})),
        (
            "resource.reserve",
            json!({"resource": "court", "booking": "new", "local_begin": "2030-01-01T12:00", "local_end": "2030-01-01T11:00"}),
        ),
        (
            "resource.reserve",
            json!({"resource": "court", "booking": "new", "local_begin": "noon", "local_end": "2030-01-01T11:00"}),
        ),
        (
            "resource.reserve",
            json!({"resource": "court", "booking": "new", "local_begin": "2030-01-01T12:00", "local_end": "2130-01-01T12:00"}),
        ),
        (
            "resource.move",
            json!({"resource": "court", "booking": "taken", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T12:00:00Z"}),
        ),
        (
            "resource.is_available",
            json!({"resource": "court", "begin": "2030-01-01T12:00:00Z", "end": "2130-01-01T12:00:00Z"}),
        ),
        (
            "resource.bookings",
            json!({"resource": "court", "from": "2030-01-01T12:00:00Z", "to": "2130-01-01T12:00:00Z"}),
        ),
        (
            "resource.free_slots",
            json!({"resource": "court", "from": "2030-01-01T12:00:00Z", "to": "2030-01-01T11:00:00Z", "length_ms": 1}),
        ),
        (
            "resource.free_slots",
            json!({"resource": "court", "from": "2030-01-01T12:00:00Z", "to": "2030-01-02T11:00:00Z", "length_ms": 0}),
        ),
        time("2030-01-01T12:00:00Z", "2030-01-01T12:00:00Z"),
        time("2030-01-01T12:00:00Z", "2030-01-01T11:00:00Z"),
        time("2030-01-01T12:00:00Z", "2130-01-01T12:00:00Z"),
    ];
    let too_large = [
        product(json!({"name": huge})),
        product(json!({"blob": "AAAA".repeat(342)})),
        product(json!({"properties": {"p": huge}})),
        product(json!({"properties": {"p".repeat(65): "x"}})),
        product(
            json!({"properties": (0..65).map(|number| (format!("p{number}"), json!("x"))).collect::<serde_json::Map<_, _>>()}),
        ),
        area(json!({"name": huge})),
        resource(json!({"name": huge})),
        reserve(json!({"details": huge})),
        ("cart.checkout", bobs(json!({"payment": {"recorded": {"method": huge, "transaction_id": "1"}}}))),
        ("cart.checkout", bobs(json!({"payment": {"gateway": {"source": huge}}}))),
        (
            "cart.checkout",
            bobs(
                json!({"payment": {"recorded": {"method": "card", "transaction_id": "1"}}, "shipping": {"address": huge}}),
            ),
        ),
        refund(json!({"reason": huge})),
        refund(json!({"lines": (1..=51).collect::<Vec<_>>()})),
        ("session.cancel", json!({"id": "finals", "reason": huge})),
        (
            "cart.hold_all",
            bobs(json!({"lines": (0..51).map(|_| json!({"product": "ink", "quantity": 1})).collect::<Vec<_>>()})),
        ),
    ];
    let others = vec![
        // What a thing is sold in never changes.
        (
            product(json!({"id": "ink", "price": {"amount": 350, "currency": "USD"}, "stock": 10})),
            703,
            "currency_fixed",
        ),
        (resource(json!({"id": "court", "rate": {"amount": 1, "currency": "USD"}})), 703, "currency_fixed"),
        (("cart.hold_stock", bobs(json!({"product": "pencil", "quantity": 1}))), 403, "no_such_product"),
        (("product.get", json!({"id": "pencil"})), 403, "no_such_product"),
        (("resource.get", json!({"id": "attic"})), 701, "not_found"),
        (
            (
                "resource.reserve",
                json!({"resource": "attic", "booking": "b", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"}),
            ),
            701,
            "not_found",
        ),
        (
            (
                "cart.hold_slot",
                bobs(json!({"resource": "attic", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"})),
            ),
            701,
            "not_found",
        ),
        (("cart.hold_places", bobs(json!({"session": "finals", "area": "moat", "quantity": 1}))), 701, "not_found"),
        (("cart.hold_places", bobs(json!({"session": "nowhere", "area": "yard", "quantity": 1}))), 701, "not_found"),
        (("cart.set_quantity", bobs(json!({"line": 9, "quantity": 1}))), 303, "no_such_line"),
        (("cart.set_quantity", json!({"token": nobody, "line": 1, "quantity": 1})), 701, "not_found"),
        // Somebody else's cart and order: only the token opens a cart, and only operators refund.
        (("cart.set_quantity", bobs(json!({"cart": anns_cart, "line": 1, "quantity": 1}))), 305, "not_your_cart"),
        (
            (
                "cart.checkout",
                bobs(json!({"cart": anns_cart, "payment": {"recorded": {"method": "card", "transaction_id": "1"}}})),
            ),
            305,
            "not_your_cart",
        ),
        (("order.refund", json!({"order": nobody, "reason": "why"})), 701, "not_found"),
        (("order.refund", json!({"order": mine.cart(), "reason": "not an order yet"})), 701, "not_found"),
        (("order.get", json!({"order": mine.cart()})), 701, "not_found"),
        (refund(json!({"lines": [9]})), 303, "no_such_line"),
        (reserve(json!({"booking": "taken"})), 503, "id_in_use"),
        (reserve(json!({"begin": "2030-01-01T10:59:59.999Z"})), 501, "slot_taken"),
        (("resource.cancel", json!({"resource": "court", "booking": "nobody"})), 505, "no_such_booking"),
        (("resource.cancel", json!({"resource": "court", "booking": "taken", "series": true})), 505, "no_such_booking"),
        (("admin.settle", json!({"cart": anns_cart, "attempt": 1, "outcome": "declined"})), 701, "not_found"),
        (("admin.settle", json!({"cart": nobody, "attempt": 1, "outcome": "declined"})), 701, "not_found"),
        (("admin.release", json!({"cart": nobody, "line": 1})), 701, "not_found"),
        (("admin.release", json!({"cart": mine.cart(), "line": 7})), 303, "no_such_line"),
        (("admin.history", json!({"entity": "product/pencil"})), 701, "not_found"),
        (("session.cancel", json!({"id": "nowhere", "reason": "why"})), 701, "not_found"),
    ];
    let named = |code: u64, name: &'static str| move |(op, body)| ((op, body), code, name);
    let wrong = bad.into_iter().map(named(101, "bad_request"));
    let wrong = wrong.chain(quantities.into_iter().map(named(402, "bad_quantity")));
    let wrong = wrong.chain(intervals.into_iter().map(named(502, "bad_interval")));
    let wrong = wrong.chain(too_large.into_iter().map(named(103, "too_large"))).chain(others);
    // Carts that are over leave memory whenever it suits.
    let counts = async || {
        let mut audit = common::town::audit(&port).await;
        audit["carts_archived"] = Value::Null;
        audit
    };
    let before = counts().await;
    let mut told = Vec::new();
    for (number, ((op, body), code, name)) in wrong.enumerate() {
        let text = body.to_string();
        let shown: String = text.chars().take(200).collect();
        let rid = format!("wrong-{number}");
        let answers = [
            port.ask(op, &rid, body.clone()).await,
            common::http::ask(stage.server.address(), op, Some(&rid), &body).await,
        ];
        for answer in answers {
            match answer {
                Answer::No(no) if (no.code, no.name.as_str()) == (code, name) => {}
                other => told.push(format!("{op} {shown} is to be refused with {code} {name}: {other:?}")),
            }
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
    assert_eq!(counts().await, before, "a refusal changed something");
    assert_eq!(mine.checkout().await.ok()["total"]["amount"], 350);
    stage.sells().await;
}

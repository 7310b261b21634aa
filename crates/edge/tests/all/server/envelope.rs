//! Frames that are not valid requests are refused and change nothing.

use crate::server::common::{Client, Received, TestServer, in_both, token};
use boxoffice_edge::{EdgeConfig, Limits};
use boxoffice_wire::{
    Encoding, Op,
    limits::{self, close},
};
use futures_util::SinkExt;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_frame_names_the_server_and_its_limits() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits { feeds_max: 17, ..Limits::default() });
        let mut client = Client::connect(server.address, encoding).await;
        assert_eq!((client.hello.node.as_str(), client.hello.protocol), ("n1", 1));
        assert_eq!((client.hello.limits.feeds, client.hello.limits.requests_under_way), (17, 256));
        client.send(1, Op::Hello, json!({"client": "test"})).await;
        assert_eq!(client.code().await, (Some(1), 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_envelopes_are_answered_by_their_number() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        let token = token(1);
        for (frame, id, code) in [
            (json!({"op": "cart.open"}), None, 101),
            (json!({"id": 1}), Some(1), 101),
            (json!({"id": -1, "op": "cart.open"}), None, 101),
            (json!([1, 2, 3]), None, 101),
            (json!({"id": 2, "op": "cart.explode"}), Some(2), 102),
            (json!({"id": 3, "op": "cart.open", "body": {"token": token}}), Some(3), 104),
            (json!({"id": 4, "op": "cart.open", "rid": "r", "body": {"token": "short"}}), Some(4), 101),
            (json!({"id": 5, "op": "cart.open", "rid": "r"}), Some(5), 101),
            (json!({"id": 6, "op": "session.map", "body": {"id": "no spaces"}}), Some(6), 101),
            (json!({"id": 7, "op": "session.map", "body": {"id": "unknown"}}), Some(7), 701),
            (json!({"id": 8, "op": "unwatch", "body": {"feed": 5}}), Some(8), 701),
            (json!({"id": 9, "op": "watch", "body": {"entity": "session/unknown"}}), Some(9), 701),
            (json!({"id": 10, "op": "cart.open", "rid": "r", "body": {"token": token, "new": true}}), Some(10), 101),
            (json!({"id": 11, "op": "cart.open", "rid": "r", "body": {"token": token}, "x": 1}), Some(11), 101),
            (json!({"id": 12, "op": "cart.open", "rid": "r", "body": {"token": token, "new": null}}), Some(12), 0),
        ] {
            let frame_bytes = client.encoded(&frame);
            client.send_frame(&frame_bytes).await;
            assert_eq!(client.code().await, (id, code), "{frame}");
        }
        assert_eq!(server.metric("boxoffice_edge_malformed_frames_total").await, 3.0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_frames_are_tolerated_for_a_while() {
    for (encoding, frame) in [
        (Encoding::Json, &b"{\"op\":\"cart.open\",\"id\":"[..]),
        (Encoding::Json, b"GET / HTTP/1.1"),
        (Encoding::Json, b""),
        (Encoding::MsgPack, b"\xc1"),
        (Encoding::MsgPack, b""),
        // A map that claims four billion fields, and a text that claims four billion bytes.
        (Encoding::MsgPack, b"\xdf\xff\xff\xff\xff"),
        (Encoding::MsgPack, b"\x81\xdb\xff\xff\xff\xff"),
    ] {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        let mut answered = 0;
        let code = loop {
            client.send_frame(frame).await;
            match client.next().await {
                Received::Frame(_) => answered += 1,
                Received::Closed(code, _) => break code,
                Received::Broken => panic!("broken after {answered}"),
            }
            assert!(answered <= 16, "{encoding:?} {frame:?} is tolerated for ever");
            if answered < 16 {
                client.is_alive().await;
            }
        };
        assert_eq!((code, answered), (4000, 16), "{encoding:?} {frame:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_too_long_for_its_op_is_refused_and_the_connection_stays_open() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        let long = "x".repeat(limits::FRAME_BYTES_MAX);
        let frame = client.encoded(&json!({"id": 1, "op": "session.map", "body": {"id": "hamlet", "view": long}}));
        client.send_frame(&frame).await;
        assert_eq!(client.code().await, (Some(1), 103));
        client.is_alive().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_may_not_import_sends_short_frames() {
    let key = "open sesame, please, and quickly!";
    in_both(|encoding| async move {
        let server = TestServer::with(EdgeConfig { admin_token: Some(key.into()), ..EdgeConfig::default() });
        let long = "x".repeat(limits::FRAME_BYTES_MAX);
        let body = json!({"id": 1, "op": "session.map", "body": {"id": "hamlet", "view": long}});
        let mut guest = Client::connect(server.address, encoding).await;
        guest.is_alive().await;
        guest.send_frame(&guest.encoded(&body)).await;
        assert_eq!(guest.close_code().await, close::TOO_BIG);
        // For a client with a key, the frame is too long for its op only, and the connection stays open.
        let mut operator = Client::connect(server.address, encoding).await;
        operator.send(0, Op::Hello, json!({"token": key})).await;
        operator.send_frame(&operator.encoded(&body)).await;
        assert_eq!((operator.code().await, operator.code().await), ((Some(0), 0), (Some(1), 103)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_too_long_for_any_op_closes_the_connection() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        let frame = vec![b'x'; limits::HALL_FRAME_BYTES_MAX + 1];
        client.send_frame(&frame).await;
        assert_eq!(client.close_code().await, 1009);
        // The same in pieces.
        let mut client = Client::connect(server.address, encoding).await;
        let mut data = if encoding == Encoding::Json { Data::Text } else { Data::Binary };
        for _ in 0..=limits::HALL_FRAME_BYTES_MAX / (64 * 1024) {
            let piece = Frame::message(vec![b'x'; 64 * 1024], OpCode::Data(data), false);
            if client.socket.send(Message::Frame(piece)).await.is_err() {
                break;
            }
            data = Data::Continue;
        }
        assert_eq!(client.close_code().await, 1009);
        server.metric_is("boxoffice_edge_sockets", 0.0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_nesting_is_refused() {
    let server = TestServer::open(Limits::default());
    let mut client = Client::connect(server.address, Encoding::Json).await;
    let deep = format!("{{\"id\":1,\"op\":\"cart.open\",\"body\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    client.send_frame(deep.as_bytes()).await;
    assert_eq!(client.code().await.1, 101);
    client.is_alive().await;
    let mut client = Client::connect(server.address, Encoding::MsgPack).await;
    let mut deep = b"\x83\xa2id\x01\xa2op\xa9cart.open\xa4body".to_vec();
    deep.extend(std::iter::repeat_n(0x91, 50_000));
    deep.push(0xc0);
    client.send_frame(&deep).await;
    assert_eq!(client.code().await.1, 101);
    client.is_alive().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn violations_of_the_subprotocol_close_the_connection() {
    let server = TestServer::open(Limits::default());
    // Text that is not UTF-8.
    let mut client = Client::connect(server.address, Encoding::Json).await;
    let frame = Frame::message(&b"{\"id\":1,\"op\":\"\xff\xfe\"}"[..], OpCode::Data(Data::Text), true);
    client.socket.send(Message::Frame(frame)).await.expect("sent");
    assert_eq!(client.close_code().await, 1007);
    // Names in MessagePack that are not UTF-8.
    let mut client = Client::connect(server.address, Encoding::MsgPack).await;
    client.send_frame(b"\x82\xa2id\x01\xa2op\xa2\xff\xfe").await;
    assert_eq!(client.code().await.1, 101);
    drop(client);
    // Text where bytes belong, and the other way round.
    let mut client = Client::connect(server.address, Encoding::MsgPack).await;
    client.socket.send(Message::Text("{}".into())).await.expect("sent");
    assert_eq!(client.close_code().await, 4003);
    let mut client = Client::connect(server.address, Encoding::Json).await;
    client.socket.send(Message::Binary(vec![0x80].into())).await.expect("sent");
    assert_eq!(client.close_code().await, 4003);
    // A frame without a mask, and one with a reserved bit.
    for bytes in [&b"\x81\x02{}"[..], b"\xc1\x82\0\0\0\0{}"] {
        let mut client = Client::connect(server.address, Encoding::Json).await;
        client.stream().write_all(bytes).await.expect("sent");
        assert_eq!(client.close_code().await, 1002);
    }
    server.metric_is("boxoffice_edge_sockets", 0.0).await;
}

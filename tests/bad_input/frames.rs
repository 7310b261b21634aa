//! Frames with invalid requests, invalid frames, and silent connections.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Stage, TOKEN};
use crate::common::{ADMIN, Encoding, TIMEOUT};

/// A malformed request is refused, with its number if it can be read. The connection stays open until the client clearly speaks
/// another protocol.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_refused_and_the_connection_stays_open() {
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
        // Invalid UTF-8, as a name and as a value.
        b"\x82\xa2id\x01\xa2\xff\xfe\x01".to_vec(),
        b"\x82\xa2id\x01\xa2op\xa2\xff\xfe".to_vec(),
        // Trailing bytes.
        b"\x82\xa2id\x01\xa2op\xa5hello\x00".to_vec(),
    ];
    for (encoding, frames) in [(Encoding::Json, json), (Encoding::MsgPack, pack)] {
        let mut stage = Stage::new("malformed_requests_are_refused_and_the_connection_stays_open", encoding).await;
        let before = stage.counts().await;
        for frame in frames {
            let port = stage.server.port(encoding).await;
            port.send(encoding.raw(&frame));
            let answer = port.refusal_of_a_frame().await;
            let shown = String::from_utf8_lossy(&frame[..frame.len().min(60)]).into_owned();
            assert_eq!(answer["no"]["code"], 101, "{shown:?}: {answer}");
            assert_eq!(answer["no"]["name"], "bad_request", "{shown:?}: {answer}");
            // The same connection still works.
            port.read("hello", json!({})).await.ok();
        }
        let port = stage.server.port(encoding).await;
        for _ in 0..100 {
            port.send(encoding.raw(if encoding == Encoding::Json { b"x" } else { &[0xc1] }));
        }
        assert_eq!(port.closed().await, 4000);
        // A frame of the other encoding has a code of its own.
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
        // Above the limit of this op: refused, and the connection stays open.
        stage.port.ask("venue.get", "1", json!({"id": long})).await.no(103, "too_large");
        let seats: Vec<_> = (0..20_000).map(|seat| json!([0, seat])).collect();
        stage
            .port
            .ask("cart.hold_seats", "2", json!({"token": TOKEN, "session": stage.session(), "seats": seats}))
            .await
            .no(103, "too_large");
        // Above the limit of any frame: closed before it is read.
        let port = stage.server.port(encoding).await;
        let huge = "x".repeat(9 << 20);
        port.send(encoding.message(&json!({"id": 1, "op": "venue.get", "body": {"id": huge}})));
        assert_eq!(port.closed().await, 1009);
        assert_eq!(stage.counts().await, before);
        stage.sells().await;
    }
}

/// A WebSocket without a client library, for raw bytes.
struct Wire(TcpStream);

impl Wire {
    fn connect(address: SocketAddr, encoding: Encoding) -> Wire {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
        let protocol = if encoding == Encoding::Json { "json" } else { "msgpack" };
        let request = format!(
            "GET /v1/ws HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nauthorization: Bearer {ADMIN}\r\n\
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

    /// Writes a header (length and mask) and the given part of the payload.
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
        // The server may have closed already. The next read returns the close code.
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

    /// The close code of the connection.
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
async fn malformed_websocket_frames_close_the_connection() {
    const TEXT: u8 = 0x81;
    const BINARY: u8 = 0x82;
    let mut stage = Stage::new("malformed_websocket_frames_close_the_connection", Encoding::Json).await;
    let address = stage.server.address();
    let closed = |encoding: Encoding, first: u8, claimed: u64, payload: &[u8]| {
        let mut wire = Wire::connect(address, encoding);
        wire.write(first, claimed, payload);
        wire.closed()
    };
    assert_eq!(closed(Encoding::Json, TEXT, 4, b"\xff\xfe\xfd\xfc"), 1007, "text that is not UTF-8");
    assert_eq!(closed(Encoding::MsgPack, BINARY, 64 << 20, &[0; 1024]), 1009, "64 MiB, claimed");
    assert_eq!(closed(Encoding::Json, TEXT, 4 << 30, b"{"), 1009, "4 GiB, claimed");
    assert_eq!(closed(Encoding::Json, TEXT, 1 << 62, b"{"), 1009, "a length beyond all memory");
    assert_eq!(closed(Encoding::Json, TEXT | 0x40, 2, b"{}"), 1002, "a reserved bit");
    assert_eq!(closed(Encoding::Json, 0x83, 2, b"{}"), 1002, "a reserved kind of frame");
    // Input that is not HTTP gets an HTTP error or no answer.
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 what is this\r\n\r\n").expect("written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("closed");
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    stage.sells().await;
}

/// Half a frame, half a head, or nothing, then silence. The node closes each connection in time, and delays no other.
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
    assert!(begun.elapsed() < LIMIT, "a purchase waits for silent connections");
    let ended: Vec<_> =
        tokio::task::block_in_place(|| waiting.into_iter().map(|waiting| waiting.join().expect("a wire")).collect());
    for (code, after) in ended {
        assert!((4000..4200).contains(&code), "closed with {code}");
        assert!(
            after >= LIMIT - Duration::from_secs(1) && after < 2 * LIMIT + Duration::from_secs(5),
            "closed after {after:?}"
        );
    }
    half.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
    let mut rest = Vec::new();
    tokio::task::block_in_place(|| half.read_to_end(&mut rest)).expect("half a head is closed");
    stage.sells().await;
}

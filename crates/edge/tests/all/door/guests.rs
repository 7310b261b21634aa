//! Who is let in, who is shown out, and that nobody is left behind.

use std::time::Duration;

use crate::door::common::{Client, Door, PATIENCE, Sent, cart, get, http, in_both, opened, refused, request, token};
use boxoffice_edge::{Edge, EdgeConfig, EdgeError, Limits, Runtimes};
use boxoffice_env::secret::Secret;
use boxoffice_wire::{
    Encoding, Op,
    reply::{Event, ServerFrame},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Handle,
};

const MSGPACK: &str = "boxoffice.v1.msgpack";

/// Time-outs that a test can wait for.
fn short() -> Limits {
    Limits {
        header_timeout: Duration::from_millis(200),
        first_frame_timeout: Duration::from_millis(200),
        whole_frame_timeout: Duration::from_millis(200),
        stall_timeout: Duration::from_millis(300),
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_say_how_the_node_is() {
    let door = Door::open(Limits::default());
    assert_eq!(get(door.address, "/healthz").await, (200, "alive\n".into()));
    assert_eq!(get(door.address, "/readyz").await, (200, "ready\n".into()));
    *door.node.not_ready.lock() = Some("shard 3 has no leader".into());
    assert_eq!(get(door.address, "/readyz").await, (503, "shard 3 has no leader\n".into()));
    let (status, metrics) = get(door.address, "/metrics").await;
    assert!(status == 200 && metrics.starts_with("boxoffice_node_tested 1\n"), "{metrics}");
    assert_eq!(get(door.address, "/nowhere").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_needs_a_subprotocol_in_common() {
    let mut config = EdgeConfig::default();
    config.origins.push("https://tickets.example".into());
    let door = Door::with(config);
    assert_eq!(refused(request(door.address, "chat", &[])).await, 400);
    assert_eq!(refused(request(door.address, "boxoffice.v2.json", &[])).await, 400);
    let several = request(door.address, "chat, boxoffice.v1.json, boxoffice.v1.msgpack", &[]);
    Client::connect_with(several, Encoding::MsgPack).await.is_alive().await;
    assert_eq!(refused(request(door.address, MSGPACK, &[("origin", "https://evil.example")])).await, 403);
    let welcome = request(door.address, MSGPACK, &[("origin", "https://tickets.example")]);
    Client::connect_with(welcome, Encoding::MsgPack).await.is_alive().await;
    assert_eq!(get(door.address, "/v1/ws").await.0, 426);
    let old = "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
               sec-websocket-version: 8\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_eq!(http(door.address, old).await.0, 426);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_have_a_token() {
    let config = EdgeConfig { admin_token: Some("open sesame, please".into()), ..EdgeConfig::default() };
    let door = Door::with(config);
    let address = door.address;
    // Without it: buying, but no administration.
    let mut client = Client::connect(address, Encoding::Json).await;
    client.is_alive().await;
    for op in [Op::AdminStatus, Op::AdminAudit] {
        client.send(1, op, json!({})).await;
        assert_eq!(client.code().await, (Some(1), 107));
    }
    client.send(2, Op::VenuePut, json!({"id": "v", "name": "V"})).await;
    assert_eq!(client.code().await, (Some(2), 107));
    client
        .send(3, Op::Batch, json!({"items": [{"op": "venue.put", "rid": "r", "body": {"id": "v", "name": "V"}}]}))
        .await;
    assert_eq!(client.code().await, (Some(3), 107));
    assert!(door.node.diary.lock().is_empty(), "nothing reached the node");
    // With it, at the upgrade or in the hello.
    client.send(4, Op::Hello, json!({"token": "open sesame, please"})).await;
    assert_eq!(client.code().await, (Some(4), 0));
    client.send(5, Op::AdminStatus, json!({})).await;
    assert_eq!(client.code().await, (Some(5), 0));
    let with_header = request(address, MSGPACK, &[("authorization", "Bearer open sesame, please")]);
    let mut client = Client::connect_with(with_header, Encoding::MsgPack).await;
    client.send(1, Op::AdminStatus, json!({})).await;
    assert_eq!(client.code().await, (Some(1), 0));
    // With another.
    for wrong in ["Bearer open sesame", "Bearer ", "Basic open sesame, please", "open sesame, please"] {
        assert_eq!(refused(request(address, MSGPACK, &[("authorization", wrong)])).await, 401, "{wrong}");
    }
    let mut client = Client::connect(address, Encoding::MsgPack).await;
    client.send(1, Op::Hello, json!({"token": "open sesame, pleasf"})).await;
    assert_eq!(client.code().await, (Some(1), 107));
    assert_eq!(client.close_code().await, 4001);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_that_cannot_open_says_why() {
    let door = Door::open(Limits::default());
    let bind = |config: EdgeConfig| {
        let runtimes = Runtimes { selling: Handle::current(), watching: Handle::current() };
        let node = std::sync::Arc::clone(&door.node);
        Edge::bind(config, node, runtimes).map(|_| ()).expect_err("it does not open")
    };
    let occupied = bind(EdgeConfig { listen: door.address, ..EdgeConfig::default() });
    assert!(matches!(occupied, EdgeError::Occupied { .. }));
    let words = occupied.to_string();
    assert!(words.contains(&door.address.to_string()) && words.contains("another port"), "{words}");
    let operators = Some("0.0.0.0:0".parse().expect("an address"));
    let everywhere = EdgeConfig { operators, ..EdgeConfig::default() };
    let words = bind(everywhere.clone()).to_string();
    assert!(words.contains("0.0.0.0:0") && words.contains("admin_token"), "{words}");
    let empty = EdgeConfig { admin_token: Some(String::new()), ..everywhere };
    assert!(matches!(bind(empty), EdgeError::EmptyToken));
    let guessable = EdgeConfig { customer_secret: Some(Secret("fifteen letters".into())), ..EdgeConfig::default() };
    assert!(matches!(bind(guessable.clone()), EdgeError::ShortCustomerSecret));
    assert!(!format!("{guessable:?}").contains("fifteen"), "it stands in no log");
    let elsewhere = EdgeConfig {
        listen: "192.0.2.1:1".parse().expect("an address"),
        admin_token: Some("a token".into()),
        ..EdgeConfig::default()
    };
    assert!(matches!(bind(elsewhere), EdgeError::NotHere { .. }));
}

/// Unfinished messages of all connections share a bound; short ones are never in the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_frames_share_their_memory() {
    let limits = Limits { frame_bytes_max: 100_000, ..Limits::default() };
    let door = Door::open(limits);
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(door.address, Encoding::MsgPack).await;
        client.is_alive().await;
        clients.push(client);
    }
    // The heads of frames of 50 000 bytes and one of 1 000.
    let long = b"\x82\xfe\xc3\x50\x01\x02\x03\x04";
    let [first, second, third, short] = &mut clients[..] else { panic!("four") };
    short.stream().write_all(b"\x82\xfe\x03\xe8\x01\x02\x03\x04").await.expect("sent");
    first.stream().write_all(long).await.expect("sent");
    door.metric_is("boxoffice_edge_frame_bytes", 51_000.0).await;
    second.stream().write_all(long).await.expect("sent");
    assert_eq!(second.close_code().await, 4104);
    door.metric_is("boxoffice_edge_frame_bytes", 51_000.0).await;
    // What is whole makes room again.
    first.stream().write_all(&[0x55; 50_000]).await.expect("sent");
    door.metric_is("boxoffice_edge_frame_bytes", 1_000.0).await;
    third.stream().write_all(long).await.expect("sent");
    door.metric_is("boxoffice_edge_frame_bytes", 51_000.0).await;
    drop(clients);
    door.metric_is("boxoffice_edge_frame_bytes", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_nothing_is_shown_out() {
    in_both(|encoding| async move {
        let door = Door::open(short());
        // No frame at all.
        let mut silent = Client::connect(door.address, encoding).await;
        // Half a frame, after a whole one; and the head of one.
        let mut half = Client::connect(door.address, encoding).await;
        half.is_alive().await;
        half.stream().write_all(b"\x82\xfe\x01\x00\x01\x02\x03\x04some of it").await.expect("sent");
        let mut head = Client::connect(door.address, encoding).await;
        head.is_alive().await;
        head.stream().write_all(b"\x81").await.expect("sent");
        // A message in fragments whose last one never comes.
        let mut fragment = Client::connect(door.address, encoding).await;
        fragment.is_alive().await;
        let first: &[u8] = if encoding == Encoding::Json { b"\x01\x81\0\0\0\0{" } else { b"\x02\x81\0\0\0\0\x80" };
        fragment.stream().write_all(first).await.expect("sent");
        for client in [&mut silent, &mut half, &mut head, &mut fragment] {
            assert_eq!(client.close_code().await, 4102);
        }
        // Who has said something whole may be silent.
        let mut quiet = Client::connect(door.address, encoding).await;
        quiet.is_alive().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        quiet.is_alive().await;
        // An HTTP head that does not come.
        let mut slow = TcpStream::connect(door.address).await.expect("connected");
        slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.expect("sent");
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, slow.read_to_end(&mut answer)).await.expect("it ends");
        assert!(ended.is_err() || answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
        drop(quiet);
        door.metric_is("boxoffice_edge_connections", 1.0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_trickles_a_frame_in_has_only_so_long() {
    let door = Door::open(short());
    let mut client = Client::connect(door.address, Encoding::MsgPack).await;
    client.is_alive().await;
    client.stream().write_all(b"\x82\xfe\x10\x00\0\0\0\0").await.expect("sent");
    let begun = tokio::time::Instant::now();
    // Bytes that keep coming do not help.
    while begun.elapsed() < Duration::from_millis(600) {
        if client.stream().write_all(b"x").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(client.next().await, Sent::Closed(4102, _) | Sent::Broken));
    door.metric_is("boxoffice_edge_sockets", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_answer_a_ping_is_shown_out() {
    let limits = Limits {
        ping_every: Duration::from_millis(100),
        pong_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let door = Door::open(limits);
    let mut dead = Client::connect(door.address, Encoding::Json).await;
    dead.is_alive().await;
    let mut alive = Client::connect(door.address, Encoding::Json).await;
    alive.is_alive().await;
    // Reading is what answers pings.
    let idle = tokio::time::timeout(Duration::from_millis(1_000), alive.next()).await;
    assert!(idle.is_err(), "{idle:?}");
    alive.is_alive().await;
    assert_eq!(dead.close_code().await, 4103);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_is_cut() {
    in_both(|encoding| async move {
        let door = Door::open(Limits { requests_under_way_max: 100_000, ..short() });
        let mut slow = Client::connect(door.address, encoding).await;
        let mut watcher = Client::connect(door.address, encoding).await;
        watcher.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
        watcher.code().await;
        assert!(matches!(watcher.event().await.1, Event::Snapshot(_)));
        // Asks for megabytes and reads none of them.
        let frame = slow.request(1, Op::SessionMap, None, None, &json!({"id": "hamlet"}));
        let asking = tokio::spawn(async move {
            for _ in 0..100_000 {
                let message = slow.message(&frame);
                if futures_util::SinkExt::send(&mut slow.socket, message).await.is_err() {
                    break;
                }
            }
            slow
        });
        door.metric_is("boxoffice_edge_slow_readers_total", 1.0).await;
        door.metric_is("boxoffice_edge_sockets", 1.0).await;
        door.metric_is("boxoffice_edge_requests_under_way", 0.0).await;
        // Others notice nothing.
        watcher.is_alive().await;
        asking.abort();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closing_door_lets_everybody_finish() {
    in_both(|encoding| async move {
        let mut door = Door::open(Limits::default());
        let mut idle = Client::connect(door.address, encoding).await;
        idle.is_alive().await;
        let mut watching = Client::connect(door.address, encoding).await;
        watching.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
        watching.code().await;
        assert!(matches!(watching.event().await.1, Event::Snapshot(_)));
        let mut busy = Client::connect(door.address, encoding).await;
        busy.send(1, Op::CartGet, json!({"token": token(1)})).await;
        while door.node.waiting.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        door.close();
        for client in [&mut idle, &mut watching, &mut busy] {
            let frame = client.frame().await;
            let Ok(ServerFrame::Notice(notice)) = ServerFrame::read(client.encoding, &frame) else {
                panic!("{frame:?}")
            };
            assert_eq!(notice.name, "draining");
            assert!(notice.reconnect_ms.is_some_and(|ms| ms <= 5_000), "{notice:?}");
        }
        assert_eq!(idle.close_code().await, 4200);
        assert_eq!(watching.close_code().await, 4200);
        // Nothing new is begun; what was begun is answered.
        busy.send(2, Op::CartOpen, json!({"token": token(1)})).await;
        assert_eq!(busy.code().await, (Some(2), 904));
        let reply = door.node.waiting.lock().pop().expect("it waits");
        reply.answer(Ok(Ok(opened(cart(1)))));
        assert_eq!(busy.code().await, (Some(1), 0));
        assert_eq!(busy.close_code().await, 4200);
        door.closed().await;
        assert!(TcpStream::connect(door.address).await.is_err(), "nobody listens any more");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closing_door_does_not_wait_for_ever() {
    let limits = Limits { drain_timeout: Duration::from_millis(300), ..Limits::default() };
    let mut door = Door::open(limits);
    let mut busy = Client::connect(door.address, Encoding::Json).await;
    busy.send(1, Op::CartGet, json!({"token": token(1)})).await;
    busy.is_alive().await;
    door.close();
    door.closed().await;
    let notice = busy.frame().await;
    assert!(matches!(ServerFrame::read(Encoding::Json, &notice), Ok(ServerFrame::Notice(_))));
    assert_eq!(busy.close_code().await, 4200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_room_for_so_many() {
    let door = Door::open(Limits { connections_max: 3, ..Limits::default() });
    let mut first = Client::connect(door.address, Encoding::Json).await;
    let second = Client::connect(door.address, Encoding::Json).await;
    let third = Client::connect(door.address, Encoding::Json).await;
    let (status, why) = get(door.address, "/readyz").await;
    assert!(status == 503 && why.contains("limits.connections"), "{why}");
    assert_eq!(get(door.address, "/healthz").await, (200, "alive\n".into()), "a full node is alive");
    assert_eq!(refused(request(door.address, MSGPACK, &[])).await, 503, "nor by WebSocket");
    first.is_alive().await;
    drop((second, third));
    let begun = tokio::time::Instant::now();
    while get(door.address, "/readyz").await.0 != 200 {
        assert!(begun.elapsed() < PATIENCE, "room is made again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(door.metric("boxoffice_edge_turned_away_total").await >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_come_and_go_and_nothing_is_left() {
    let door = Door::open(Limits::default());
    for round in 0..10 {
        let mut clients = Vec::new();
        for number in 0..100 {
            let mut client = Client::connect(door.address, Encoding::ALL[number % 2]).await;
            match number % 5 {
                0 => client.is_alive().await,
                1 => client.send(1, Op::CartGet, json!({"token": token(1)})).await,
                2 => client.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await,
                3 => client.send_frame(b"{").await,
                _ => {}
            }
            clients.push(client);
        }
        assert_eq!(door.metric("boxoffice_edge_sockets").await, 100.0, "round {round}");
        // Some say farewell, most just go.
        for (number, client) in clients.iter_mut().enumerate() {
            if number % 3 == 0 {
                let _ = client.socket.close(None).await;
            }
        }
        drop(clients);
        door.metric_is("boxoffice_edge_sockets", 0.0).await;
        door.metric_is("boxoffice_edge_connections", 1.0).await;
    }
    let waiting = std::mem::take(&mut *door.node.waiting.lock());
    assert_eq!(waiting.len(), 200);
    for reply in waiting {
        reply.answer(Ok(Ok(opened(cart(1)))));
    }
    door.metric_is("boxoffice_edge_requests_under_way", 0.0).await;
    door.metric_is("boxoffice_edge_watchers", 0.0).await;
}

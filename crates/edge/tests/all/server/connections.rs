//! How connections begin and end.

use std::time::Duration;

use crate::server::common::{
    Client, Received, TIMEOUT, TestServer, cart, get, http, in_both, opened, refused, request, token,
};
use boxoffice_edge::{Edge, EdgeConfig, EdgeError, Limits};
use boxoffice_env::secret::Secret;
use boxoffice_node::node::Runtimes;
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

/// Short timeouts.
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
async fn health_pages_show_the_state_of_the_node() {
    let server = TestServer::open(Limits::default());
    assert_eq!(get(server.address, "/healthz").await, (200, "alive\n".into()));
    assert_eq!(get(server.address, "/readyz").await, (200, "ready\n".into()));
    *server.node.not_ready.lock() = Some("shard 3 has no leader".into());
    assert_eq!(get(server.address, "/readyz").await, (503, "shard 3 has no leader\n".into()));
    let (status, metrics) = get(server.address, "/metrics").await;
    assert!(status == 200 && metrics.starts_with("boxoffice_node_tested 1\n"), "{metrics}");
    assert_eq!(get(server.address, "/nowhere").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_needs_a_subprotocol_in_common() {
    let mut config = EdgeConfig::default();
    config.origins.push("https://tickets.example".into());
    let server = TestServer::with(config);
    assert_eq!(refused(request(server.address, "chat", &[])).await, 400);
    assert_eq!(refused(request(server.address, "boxoffice.v2.json", &[])).await, 400);
    let several = request(server.address, "chat, boxoffice.v1.json, boxoffice.v1.msgpack", &[]);
    Client::connect_with(several, Encoding::MsgPack).await.is_alive().await;
    assert_eq!(refused(request(server.address, MSGPACK, &[("origin", "https://evil.example")])).await, 403);
    let allowed = request(server.address, MSGPACK, &[("origin", "https://tickets.example")]);
    Client::connect_with(allowed, Encoding::MsgPack).await.is_alive().await;
    assert_eq!(get(server.address, "/v1/ws").await.0, 426);
    let old = "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
               sec-websocket-version: 8\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_eq!(http(server.address, old).await.0, 426);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_have_a_token() {
    let config = EdgeConfig { admin_token: Some("open sesame, please, and quickly!".into()), ..EdgeConfig::default() };
    let server = TestServer::with(config);
    let address = server.address;
    // Without the token: buying, but no administration.
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
    assert!(server.node.log.lock().is_empty(), "nothing reached the node");
    // With the token, in the upgrade or in the hello.
    client.send(4, Op::Hello, json!({"token": "open sesame, please, and quickly!"})).await;
    assert_eq!(client.code().await, (Some(4), 0));
    client.send(5, Op::AdminStatus, json!({})).await;
    assert_eq!(client.code().await, (Some(5), 0));
    let with_header = request(address, MSGPACK, &[("authorization", "Bearer open sesame, please, and quickly!")]);
    let mut client = Client::connect_with(with_header, Encoding::MsgPack).await;
    client.send(1, Op::AdminStatus, json!({})).await;
    assert_eq!(client.code().await, (Some(1), 0));
    // With another token.
    for wrong in [
        "Bearer open sesame",
        "Bearer ",
        "Basic open sesame, please, and quickly!",
        "open sesame, please, and quickly!",
    ] {
        assert_eq!(refused(request(address, MSGPACK, &[("authorization", wrong)])).await, 401, "{wrong}");
    }
    let mut client = Client::connect(address, Encoding::MsgPack).await;
    client.send(1, Op::Hello, json!({"token": "open sesame, pleasf"})).await;
    assert_eq!(client.code().await, (Some(1), 107));
    assert_eq!(client.close_code().await, 4001);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_cannot_open_reports_the_reason() {
    let server = TestServer::open(Limits::default());
    let bind = |config: EdgeConfig| {
        let runtimes = Runtimes { selling: Handle::current(), watching: Handle::current() };
        let node = std::sync::Arc::clone(&server.node);
        Edge::bind(config, node, runtimes).map(|_| ()).expect_err("the port does not open")
    };
    let occupied = bind(EdgeConfig { listen: server.address, ..EdgeConfig::default() });
    assert!(matches!(occupied, EdgeError::Occupied { .. }));
    let words = occupied.to_string();
    assert!(words.contains(&server.address.to_string()) && words.contains("another port"), "{words}");
    let operators = Some("0.0.0.0:0".parse().expect("an address"));
    let everywhere = EdgeConfig { operators, ..EdgeConfig::default() };
    let words = bind(everywhere.clone()).to_string();
    assert!(words.contains("0.0.0.0:0") && words.contains("admin_token"), "{words}");
    let empty = EdgeConfig { admin_token: Some(String::new()), ..everywhere };
    assert!(matches!(bind(empty), EdgeError::ShortAdminToken));
    let short = EdgeConfig { admin_token: Some("thirty-one characters and a dot".into()), ..EdgeConfig::default() };
    let words = bind(short).to_string();
    assert!(words.contains("32") && words.contains("boxoffice admin token"), "{words}");
    let guessable = EdgeConfig { customer_secret: Some(Secret("fifteen letters".into())), ..EdgeConfig::default() };
    assert!(matches!(bind(guessable.clone()), EdgeError::ShortCustomerSecret));
    assert!(!format!("{guessable:?}").contains("fifteen"), "the secret is not logged");
    let elsewhere = EdgeConfig {
        listen: "192.0.2.1:1".parse().expect("an address"),
        admin_token: Some("a token of thirty-two characters".into()),
        ..EdgeConfig::default()
    };
    assert!(matches!(bind(elsewhere), EdgeError::NotHere { .. }));
}

/// Incomplete messages of all connections share a limit. Short ones are always read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_frames_share_their_memory() {
    let limits = Limits { frame_bytes_max: 100_000, ..Limits::default() };
    let server = TestServer::open(limits);
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(server.address, Encoding::MsgPack).await;
        client.is_alive().await;
        clients.push(client);
    }
    // Headers of frames of 50 000 bytes, and of one of 1 000.
    let long = b"\x82\xfe\xc3\x50\x01\x02\x03\x04";
    let [first, second, third, short] = &mut clients[..] else { panic!("four") };
    short.stream().write_all(b"\x82\xfe\x03\xe8\x01\x02\x03\x04").await.expect("sent");
    first.stream().write_all(long).await.expect("sent");
    server.metric_is("boxoffice_edge_frame_bytes", 51_000.0).await;
    second.stream().write_all(long).await.expect("sent");
    assert_eq!(second.close_code().await, 4104);
    server.metric_is("boxoffice_edge_frame_bytes", 51_000.0).await;
    // A complete message frees its memory.
    first.stream().write_all(&[0x55; 50_000]).await.expect("sent");
    server.metric_is("boxoffice_edge_frame_bytes", 1_000.0).await;
    third.stream().write_all(long).await.expect("sent");
    server.metric_is("boxoffice_edge_frame_bytes", 51_000.0).await;
    drop(clients);
    server.metric_is("boxoffice_edge_frame_bytes", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_client_is_disconnected() {
    in_both(|encoding| async move {
        let server = TestServer::open(short());
        // No frame at all.
        let mut silent = Client::connect(server.address, encoding).await;
        // Half a frame after a whole one, and only the head of one.
        let mut half = Client::connect(server.address, encoding).await;
        half.is_alive().await;
        half.stream().write_all(b"\x82\xfe\x01\x00\x01\x02\x03\x04some of it").await.expect("sent");
        let mut head = Client::connect(server.address, encoding).await;
        head.is_alive().await;
        head.stream().write_all(b"\x81").await.expect("sent");
        // A message in fragments whose last one never comes.
        let mut fragment = Client::connect(server.address, encoding).await;
        fragment.is_alive().await;
        let first: &[u8] = if encoding == Encoding::Json { b"\x01\x81\0\0\0\0{" } else { b"\x02\x81\0\0\0\0\x80" };
        fragment.stream().write_all(first).await.expect("sent");
        for client in [&mut silent, &mut half, &mut head, &mut fragment] {
            assert_eq!(client.close_code().await, 4102);
        }
        // A client that has sent a complete frame may be silent.
        let mut quiet = Client::connect(server.address, encoding).await;
        quiet.is_alive().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        quiet.is_alive().await;
        // An HTTP head that does not arrive.
        let mut slow = TcpStream::connect(server.address).await.expect("connected");
        slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.expect("sent");
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(TIMEOUT, slow.read_to_end(&mut answer)).await.expect("it ends");
        assert!(ended.is_err() || answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
        drop(quiet);
        server.metric_is("boxoffice_edge_connections", 1.0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_trickles_in_times_out() {
    let server = TestServer::open(short());
    let mut client = Client::connect(server.address, Encoding::MsgPack).await;
    client.is_alive().await;
    client.stream().write_all(b"\x82\xfe\x10\x00\0\0\0\0").await.expect("sent");
    let begun = tokio::time::Instant::now();
    // More bytes do not extend the time.
    while begun.elapsed() < Duration::from_millis(600) {
        if client.stream().write_all(b"x").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(client.next().await, Received::Closed(4102, _) | Received::Broken));
    server.metric_is("boxoffice_edge_sockets", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_answer_a_ping_is_disconnected() {
    let limits = Limits {
        ping_every: Duration::from_millis(100),
        pong_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let server = TestServer::open(limits);
    let mut dead = Client::connect(server.address, Encoding::Json).await;
    dead.is_alive().await;
    let mut alive = Client::connect(server.address, Encoding::Json).await;
    alive.is_alive().await;
    // A client answers pings while it reads.
    let idle = tokio::time::timeout(Duration::from_millis(1_000), alive.next()).await;
    assert!(idle.is_err(), "{idle:?}");
    alive.is_alive().await;
    assert_eq!(dead.close_code().await, 4103);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_disconnected() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits { requests_under_way_max: 100_000, ..short() });
        let mut slow = Client::connect(server.address, encoding).await;
        let mut watcher = Client::connect(server.address, encoding).await;
        watcher.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
        watcher.code().await;
        assert!(matches!(watcher.event().await.1, Event::Snapshot(_)));
        // Requests megabytes and reads none of them.
        let frame = slow.request(1, Op::SessionMap, None, None, &json!({"id": "hamlet"}));
        let http_client = tokio::spawn(async move {
            for _ in 0..100_000 {
                let message = slow.message(&frame);
                if futures_util::SinkExt::send(&mut slow.socket, message).await.is_err() {
                    break;
                }
            }
            slow
        });
        server.metric_is("boxoffice_edge_slow_readers_total", 1.0).await;
        server.metric_is("boxoffice_edge_sockets", 1.0).await;
        server.metric_is("boxoffice_edge_requests_under_way", 0.0).await;
        // Other clients are not affected.
        watcher.is_alive().await;
        http_client.abort();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_server_lets_clients_finish() {
    in_both(|encoding| async move {
        let mut server = TestServer::open(Limits::default());
        let mut idle = Client::connect(server.address, encoding).await;
        idle.is_alive().await;
        let mut watching = Client::connect(server.address, encoding).await;
        watching.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
        watching.code().await;
        assert!(matches!(watching.event().await.1, Event::Snapshot(_)));
        let mut busy = Client::connect(server.address, encoding).await;
        busy.send(1, Op::CartGet, json!({"token": token(1)})).await;
        while server.node.waiting.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.close();
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
        // New requests are refused. Requests under way are answered.
        busy.send(2, Op::CartOpen, json!({"token": token(1)})).await;
        assert_eq!(busy.code().await, (Some(2), 904));
        let reply = server.node.waiting.lock().pop().expect("it waits");
        reply.answer(Ok(Ok(opened(cart(1)))));
        assert_eq!(busy.code().await, (Some(1), 0));
        assert_eq!(busy.close_code().await, 4200);
        server.closed().await;
        assert!(TcpStream::connect(server.address).await.is_err(), "the port is closed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_server_does_not_wait_for_ever() {
    let limits = Limits { drain_timeout: Duration::from_millis(300), ..Limits::default() };
    let mut server = TestServer::open(limits);
    let mut busy = Client::connect(server.address, Encoding::Json).await;
    busy.send(1, Op::CartGet, json!({"token": token(1)})).await;
    busy.is_alive().await;
    server.close();
    server.closed().await;
    let notice = busy.frame().await;
    assert!(matches!(ServerFrame::read(Encoding::Json, &notice), Ok(ServerFrame::Notice(_))));
    assert_eq!(busy.close_code().await, 4200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_limited() {
    let server = TestServer::open(Limits { connections_max: 3, ..Limits::default() });
    let mut first = Client::connect(server.clients, Encoding::Json).await;
    let second = Client::connect(server.clients, Encoding::Json).await;
    let third = Client::connect(server.clients, Encoding::Json).await;
    let (status, why) = get(server.clients, "/readyz").await;
    assert!(status == 503 && why.contains("limits.connections"), "{why}");
    assert_eq!(get(server.clients, "/healthz").await, (200, "alive\n".into()), "a full node is alive");
    assert_eq!(refused(request(server.clients, MSGPACK, &[])).await, 503, "nor by WebSocket");
    first.is_alive().await;
    // At the operators' port a probe finds a place of its own.
    assert_eq!(get(server.operators, "/readyz").await.0, 200);
    drop((second, third));
    let begun = tokio::time::Instant::now();
    while get(server.clients, "/readyz").await.0 != 200 {
        assert!(begun.elapsed() < TIMEOUT, "a slot is free again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(server.metric("boxoffice_edge_turned_away_total").await >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_leave_nothing_behind() {
    let server = TestServer::open(Limits::default());
    for round in 0..10 {
        let mut clients = Vec::new();
        for number in 0..100 {
            let mut client = Client::connect(server.address, Encoding::ALL[number % 2]).await;
            match number % 5 {
                0 => client.is_alive().await,
                1 => client.send(1, Op::CartGet, json!({"token": token(1)})).await,
                2 => client.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await,
                3 => client.send_frame(b"{").await,
                _ => {}
            }
            clients.push(client);
        }
        assert_eq!(server.metric("boxoffice_edge_sockets").await, 100.0, "round {round}");
        // Some close properly, most just disappear.
        for (number, client) in clients.iter_mut().enumerate() {
            if number % 3 == 0 {
                let _ = client.socket.close(None).await;
            }
        }
        drop(clients);
        server.metric_is("boxoffice_edge_sockets", 0.0).await;
        server.metric_is("boxoffice_edge_connections", 1.0).await;
    }
    let waiting = std::mem::take(&mut *server.node.waiting.lock());
    assert_eq!(waiting.len(), 200);
    for reply in waiting {
        reply.answer(Ok(Ok(opened(cart(1)))));
    }
    server.metric_is("boxoffice_edge_requests_under_way", 0.0).await;
    server.metric_is("boxoffice_edge_watchers", 0.0).await;
}

//! Ports that are full: who ends for whom, and the places of probes.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use boxoffice_core::access::{Role, Roles};
use boxoffice_edge::{EdgeConfig, Limits, Proxies, WebConfig};
use boxoffice_wire::{Encoding, Op, reply::Event};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, sleep, timeout},
};

use crate::{
    http_client::HttpClient,
    server::common::{
        Client, Received, TIMEOUT, TestServer, add_key, cart, get, opened, planted, refused, request, token,
    },
};

const MSGPACK: &str = "boxoffice.v1.msgpack";

/// The address of an attacker or a buyer, each a network of its own.
fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, number)
}

async fn connect(from: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((address(from), 0))).expect("a loopback address");
    timeout(TIMEOUT, socket.connect(to)).await.expect("in time").expect("a connection")
}

/// A client at this address that follows the session, if it is let in.
async fn watcher(from: u8, to: SocketAddr) -> Option<Client> {
    let stream = connect(from, to).await;
    let mut client = Client::over(stream, request(to, MSGPACK, &[]), Encoding::MsgPack).await?;
    client.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
    client.code().await;
    assert!(matches!(client.event().await.1, Event::Snapshot(_)));
    Some(client)
}

/// Whether the server has closed this stream.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 1024];
    loop {
        match timeout(Duration::from_millis(5), stream.read(&mut bytes)).await {
            Err(_) => return false,
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => {}
        }
    }
}

/// Two networks that fill the port with silent connections leave a third of it to others, as fast as they come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_leave_their_places() {
    let server = TestServer::open(Limits { connections_max: 30, ..Limits::default() });
    let mut attackers = Vec::new();
    for number in 0..30 {
        attackers.push(connect(1 + number % 2, server.clients).await);
    }
    server.metric_is("boxoffice_edge_connections", 31.0).await;
    let again = server.clients;
    let flood = tokio::spawn(async move {
        let mut kept = Vec::new();
        for number in 0.. {
            kept.push(connect(1 + number % 2, again).await);
            sleep(Duration::from_millis(10)).await;
        }
        kept
    });
    let mut buyers = Vec::new();
    for number in 0..10 {
        // On a machine where its request takes seconds to be read, a buyer is silent as well, and comes again.
        let mut buyer = None;
        for _ in 0..5 {
            buyer = watcher(10 + number % 3, server.clients).await;
            if buyer.is_some() {
                break;
            }
        }
        buyers.push(buyer.expect("a place"));
    }
    sleep(Duration::from_millis(500)).await;
    for buyer in &mut buyers {
        buyer.is_alive().await;
    }
    flood.abort();
    assert!(server.metric("boxoffice_edge_made_room_total{kind=\"silent\"}").await >= 10.0);
    assert_eq!(server.metric("boxoffice_edge_made_room_total{kind=\"kept\"}").await, 0.0);
}

/// One network fills the port with feeds that answer and with open carts. It keeps half of the port, and others get the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_keeps_its_share_of_a_full_port() {
    let limits = Limits { connections_max: 20, ping_every: Duration::from_millis(200), ..Limits::default() };
    let server = TestServer::open(limits);
    let mut attackers = Vec::new();
    for _ in 0..20 {
        attackers.push(watcher(1, server.clients).await.expect("there is room"));
    }
    let mut buyers = Vec::new();
    for number in 0..10 {
        buyers.push(watcher(10 + number, server.clients).await.expect("a place above the attacker's share"));
    }
    // The attacker has its share, and nothing of that ends for anybody.
    for number in 0..5 {
        assert!(watcher(100 + number, server.clients).await.is_none(), "the port is full");
    }
    assert_eq!(server.metric("boxoffice_edge_made_room_total{kind=\"kept\"}").await, 10.0);
    let mut alive = 0;
    for attacker in &mut attackers {
        alive += usize::from(attacker.still_answers().await);
    }
    assert_eq!(alive, 10);
    for buyer in &mut buyers {
        buyer.is_alive().await;
    }
    // Staff is let in only if there is room, but stays then.
    let key = add_key(&server, "till", Roles::of(Role::Desk));
    drop(buyers.pop());
    sleep(Duration::from_millis(100)).await;
    let till = connect(50, server.clients).await;
    let shown = request(server.clients, MSGPACK, &[("authorization", &format!("Bearer {key}"))]);
    let mut till = Client::over(till, shown, Encoding::MsgPack).await.expect("a place");
    for number in 0..5 {
        let _ = watcher(200 + number, server.clients).await;
    }
    till.is_alive().await;
}

/// A connection without a feed goes, and one of the same network with an open cart stays, over HTTP and WebSocket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_cart_keeps_its_connection() {
    let server = TestServer::with(EdgeConfig {
        limits: Limits { connections_max: 8, ..Limits::default() },
        ..EdgeConfig::default()
    });
    // The clock of the answers' deadlines.
    server.node.wall.lock().0 = 0;
    let mut shoppers = Vec::new();
    for number in 0..2 {
        let mut client =
            Client::over(connect(1, server.clients).await, request(server.clients, MSGPACK, &[]), Encoding::MsgPack)
                .await
                .expect("there is room");
        client.send(1, Op::CartOpen, json!({"token": token(20 + number)})).await;
        assert_eq!(client.code().await, (Some(1), 0));
        shoppers.push(client);
    }
    let mut by_http = HttpClient::over(connect(1, server.clients).await);
    assert_eq!(by_http.command("cart.open", "r", &json!({"token": token(30)})).await.status, 200);
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut stream = connect(1, server.clients).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("written");
        assert!(!is_closed(&mut stream).await);
        idle.push(stream);
    }
    let mut buyers = Vec::new();
    for number in 0..4 {
        buyers.push(watcher(10 + number, server.clients).await.expect("a place"));
    }
    sleep(Duration::from_millis(50)).await;
    let mut closed = 0;
    for stream in &mut idle {
        closed += usize::from(is_closed(stream).await);
    }
    assert_eq!(closed, 4, "those without a cart, and no more");
    for client in &mut shoppers {
        client.is_alive().await;
    }
    assert_eq!(by_http.get("/healthz", &[]).await.status, 200);
}

/// Behind a proxy that sends the PROXY protocol, connections count for the client's network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_port_behind_a_proxy_counts_clients() {
    let proxies = Proxies {
        networks: vec!["127.0.0.0/8".parse().expect("a network")],
        way: boxoffice_edge::ProxyWay::ProxyProtocol,
    };
    let limits = Limits { connections_max: 20, ..Limits::default() };
    let web = WebConfig { proxies, ..WebConfig::default() };
    let server = TestServer::with(EdgeConfig { limits, web, ..EdgeConfig::default() });
    let through = async |client: [u8; 4]| {
        let mut stream = connect(1, server.clients).await;
        stream.write_all(&proxy_header(client)).await.expect("written");
        stream
    };
    let mut attackers = Vec::new();
    for _ in 0..20 {
        attackers.push(through([192, 0, 2, 1]).await);
    }
    server.metric_is("boxoffice_edge_connections", 21.0).await;
    sleep(Duration::from_millis(2_100)).await;
    for number in 0..10 {
        let stream = through([198, 51, 100, number]).await;
        let client = Client::over(stream, request(server.clients, MSGPACK, &[]), Encoding::MsgPack).await;
        client.unwrap_or_else(|| panic!("client {number} has no place")).is_alive().await;
    }
}

/// A header of the PROXY protocol, version 2: TCP over IPv4 from this client.
pub(crate) fn proxy_header(client: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(client);
    header.extend([10, 0, 0, 1, 0x12, 0x34, 0, 80]);
    header
}

/// Whatever fills the operators' port, two places are left to probes, one request each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_places_of_the_operators_port_are_for_probes() {
    let server = TestServer::open(Limits { connections_max: 4, ..Limits::default() });
    let mut operators = Vec::new();
    for _ in 0..4 {
        operators.push(Client::connect(server.operators, Encoding::Json).await);
    }
    for _ in 0..3 {
        assert_eq!(refused(request(server.operators, MSGPACK, &[])).await, 503, "no probe");
        assert_eq!(get(server.operators, "/v1/admin.status").await.0, 503);
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(get(server.operators, path).await.0, 200, "{path}");
        }
    }
    // A probe has one request, and nobody waits in its place.
    let mut probe = HttpClient::connect(server.operators).await;
    assert_eq!(probe.get("/readyz", &[]).await.status, 200);
    assert!(probe.is_closed().await);
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(server.operators).await.expect("a connection"));
        assert_eq!(get(server.operators, "/readyz").await.0, 200);
    }
    for operator in &mut operators {
        operator.is_alive().await;
    }
}

/// The operators' port is for callers with a role. Others have a moment for each request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_role_ends_at_the_operators_port() {
    let secret = "open sesame, please, and quickly!";
    let limits = Limits { connections_max: 6, no_role_timeout: Duration::from_millis(400), ..Limits::default() };
    let admin_token = Some(secret.to_owned());
    let server = TestServer::with(EdgeConfig { admin_token, limits, ..EdgeConfig::default() });
    let bearer = format!("Bearer {secret}");
    let shown = [("authorization", bearer.as_str())];
    let mut admin = Client::connect_with(request(server.operators, MSGPACK, &shown), Encoding::MsgPack).await;
    let mut by_http = HttpClient::connect(server.operators).await;
    assert_eq!(by_http.post("/v1/admin.status", &shown, "{}").await.status, 200);
    let begun = Instant::now();
    // With a feed, with nothing, and with a request under way.
    let mut watching = watcher_at(server.operators).await;
    let mut idle = Client::connect(server.operators, Encoding::MsgPack).await;
    let mut busy = Client::connect(server.operators, Encoding::MsgPack).await;
    busy.send(1, Op::CartGet, json!({"token": token(1)})).await;
    let mut silent = TcpStream::connect(server.operators).await.expect("a connection");
    for client in [&mut watching, &mut idle] {
        assert_eq!(client.close_code().await, 4001);
    }
    assert!(begun.elapsed() >= Duration::from_millis(400));
    sleep(Duration::from_millis(300)).await;
    assert!(is_closed(&mut silent).await);
    let reply = server.node.waiting.lock().pop().expect("it waits");
    reply.answer(Ok(Ok(opened(cart(1)))));
    assert_eq!(busy.code().await, (Some(1), 0), "a request under way is answered");
    assert_eq!(busy.close_code().await, 4001);
    sleep(Duration::from_millis(600)).await;
    admin.is_alive().await;
    assert_eq!(by_http.post("/v1/admin.status", &shown, "{}").await.status, 200, "it is kept");
    let mut probe = HttpClient::connect(server.operators).await;
    assert_eq!(probe.get("/healthz", &[]).await.status, 200);
    assert!(probe.is_closed().await, "no role, and nothing is asked");
    // Strangers cannot lock operators out for longer than that.
    let mut strangers = Vec::new();
    for _ in 0..4 {
        strangers.push(Client::connect(server.operators, Encoding::MsgPack).await);
    }
    sleep(Duration::from_millis(600)).await;
    let mut other = Client::connect_with(request(server.operators, MSGPACK, &shown), Encoding::MsgPack).await;
    other.is_alive().await;
}

async fn watcher_at(to: SocketAddr) -> Client {
    let mut client = Client::connect(to, Encoding::MsgPack).await;
    client.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
    client.code().await;
    assert!(matches!(client.next().await, Received::Frame(_)));
    client
}

#[test]
fn planted_faults_are_found() {
    planted::are_found(
        "server::full_port",
        &[
            ("a probe's place taken", "two_places_of_the_operators_port_are_for_probes"),
            ("a full port makes no room", "a_network_keeps_its_share_of_a_full_port"),
        ],
    );
}

//! Answers that nobody reads.

use std::{net::SocketAddr, time::Duration};

use boxoffice_edge::Limits;
use boxoffice_wire::{Encoding, Op, reply::Event};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, sleep, timeout},
};

use crate::server::{
    common::{Client, TIMEOUT, TestServer, get, id, planted},
    slow_client::SlowClient,
};

/// Bytes of the map of `huge` as JSON, or a little more.
const MAP_BYTES: f64 = 140_000.0;

const BOUND: u64 = 1 << 20;

/// A node with a session whose map is long. Clients may be slow.
fn server() -> TestServer {
    let server = TestServer::open(Limits { unsent_bytes_max: BOUND, ..Limits::default() });
    let mut map = server.node.theatre.sessions.lock()[&id("hamlet")].clone();
    map.counts.free = 400_000;
    map.seats = vec![0; 100_000];
    server.node.theatre.sessions.lock().insert(id("huge"), map);
    server
}

/// The map changes.
fn change(server: &TestServer) {
    server.node.theatre.sessions.lock().get_mut(&id("huge")).expect("it is there").version += 1;
}

/// A connection that asks for the map over HTTP and does not read.
async fn by_http(to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small buffer");
    let mut stream = socket.connect(to).await.expect("a connection");
    let get = b"GET /v1/session.map?id=huge HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(get).await.expect("written");
    stream
}

/// The same over WebSocket, so many times.
async fn by_socket(to: SocketAddr, times: u64) -> SlowClient {
    let mut client = SlowClient::connect(to, "").await;
    let ask = |number: u64| format!(r#"{{"id":{number},"op":"session.map","body":{{"id":"huge"}}}}"#);
    client.send_all(&(1..=times).map(ask).collect::<Vec<_>>()).await;
    client
}

async fn unsent(server: &TestServer) -> f64 {
    server.metric("boxoffice_edge_unsent_bytes").await
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Each connection waits for another version of the map. The node cuts those with most, and keeps the bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_have_a_bound() {
    let server = server();
    let mut reader = Client::connect(server.clients, Encoding::Json).await;
    reader.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
    reader.code().await;
    assert!(matches!(reader.event().await.1, Event::Snapshot(_)));
    // A client whose feed is in flight, and that answers pings as it reads them.
    let mut behind = SlowClient::connect(server.clients, "").await;
    behind.watch(1, "huge").await;
    let (mut streams, mut sockets) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        change(&server);
        streams.push(by_http(server.clients).await);
        change(&server);
        sockets.push(by_socket(server.clients, 3).await);
        sleep(Duration::from_millis(20)).await;
        let bytes = unsent(&server).await;
        assert!(bytes <= BOUND as f64 + MAP_BYTES, "{bytes} wait");
        server.node.sell(&[streams.len() as u32 * 2]);
        assert!(matches!(reader.event().await.1, Event::Delta(_)), "others are served");
    }
    eventually("the first were cut", async || server.metric("boxoffice_edge_unread_cut_total").await >= 20.0).await;
    // What is left is read whole.
    reader.is_alive().await;
    let snapshot = behind.frame().await;
    assert!(snapshot.text.len() > 100_000, "the slow watcher's frame arrives whole");
    drop((streams, sockets));
    eventually("everything is given back", async || unsent(&server).await == 0.0).await;
    // The next reader of a long answer is not cut for those that have gone.
    let (status, map) = get(server.clients, "/v1/session.map?id=huge").await;
    assert!(status == 200 && map.len() > 100_000);
}

/// Many that wait for the same bytes take no more memory than one, and none of them is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_answers_are_counted_once() {
    let server = server();
    let (mut streams, mut sockets) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        streams.push(by_http(server.clients).await);
        sockets.push(by_socket(server.clients, 1).await);
    }
    eventually("they wait", async || unsent(&server).await >= MAP_BYTES * 0.9).await;
    sleep(Duration::from_millis(200)).await;
    let bytes = unsent(&server).await;
    // The first that ask at the same moment may have copies of their own.
    assert!(bytes < MAP_BYTES * 4.5, "{bytes} wait");
    assert_eq!(server.metric("boxoffice_edge_unread_cut_total").await, 0.0);
    for socket in &mut sockets {
        socket.answer(1).await;
    }
    for stream in &mut streams {
        let mut read = Vec::new();
        while !read.ends_with(b"}") {
            let more = timeout(TIMEOUT, stream.read_buf(&mut read)).await.expect("in time").expect("bytes");
            assert!(more > 0, "the connection stays");
        }
    }
    eventually("everything is given back", async || unsent(&server).await == 0.0).await;
}

#[test]
fn planted_faults_are_found() {
    planted::are_found(
        "server::unread",
        &[
            ("unread answers cut nobody", "unread_answers_have_a_bound"),
            ("unsent bytes not given back", "unread_answers_have_a_bound"),
            ("unsent bytes not given back", "shared_answers_are_counted_once"),
        ],
    );
}

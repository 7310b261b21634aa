//! Watchers whose links are slower than their feeds. All judgements are by the order of frames and events.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use boxoffice_core::{
    access::{Role, Roles},
    id::Entity,
    seat::SeatState,
};
use boxoffice_edge::{Limits, WebConfig};
use boxoffice_feeds::FeedUpdate;
use boxoffice_wire::{
    Encoding,
    reply::{Event, ServerFrame},
};
use tokio::{net::TcpStream, task::JoinHandle};

use crate::server::{
    common::{Node, TIMEOUT, TestServer, add_key, id, planted, token},
    slow_client::{Frame, Message, SlowClient},
    web::Pem,
};

/// The longest frame of a feed for a watcher that is behind, in bytes. Snapshots may be longer.
const FRAME_BYTES_MAX: usize = 4_096;

/// Bytes that are made at once for a watcher that keeps up, without the last frame.
const FIRST_BYTES_MAX: u64 = 16 * 1_024;

/// The seats of `hamlet`.
const SEATS: u32 = 1_000;

/// Sessions that change as `hamlet` does, so that frames of several feeds wait.
const OTHERS: [&str; 8] = ["h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"];

/// Changes seats of `hamlet` and the others without end, so that their feeds are always due.
struct Changes {
    stop: Arc<AtomicBool>,
    /// Returns the last version, and the seats at it.
    task: JoinHandle<(u64, Vec<SeatState>)>,
}

impl Changes {
    /// Each change has this many seats.
    fn start(node: &Arc<Node>, seats_per_change: u32) -> Changes {
        let stop = Arc::new(AtomicBool::new(false));
        let (node, stopped) = (Arc::clone(node), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut seats = vec![SeatState::Free; SEATS as usize];
            let (mut version, mut next) = (5, 0);
            while !stopped.load(Ordering::Relaxed) {
                let state = [SeatState::Held, SeatState::Sold, SeatState::Free][version as usize % 3];
                let changed: Vec<(u32, SeatState)> =
                    (next..next + seats_per_change).map(|seat| (seat % SEATS, state)).collect();
                next = (next + seats_per_change) % SEATS;
                changed.iter().for_each(|(seat, state)| seats[*seat as usize] = *state);
                let update = FeedUpdate::Session { seats: changed, areas: Vec::new(), sale: None };
                for session in OTHERS {
                    node.publish(Entity::Session(id(session)), version, update.clone());
                }
                node.publish(Entity::Session(id("hamlet")), version, update);
                version += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            (version, seats)
        });
        Changes { stop, task }
    }

    async fn stop(self) -> (u64, Vec<SeatState>) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("no panic")
    }
}

/// The map of a watcher.
#[derive(Default)]
struct Map {
    feed: u64,
    version: u64,
    seats: Vec<SeatState>,
}

impl Map {
    /// Takes in a frame if it is of the feed. Returns whether it was a snapshot of any feed.
    fn take(&mut self, frame: &Frame) -> bool {
        match frame.event() {
            Some((feed, event)) if feed != self.feed => matches!(event, Event::Snapshot(_)),
            Some((_, Event::Snapshot(snapshot))) => {
                assert!(snapshot.version >= self.version, "a snapshot of an older version");
                let packed = |seat: usize| snapshot.seats[seat / 4] >> (seat % 4 * 2) & 3;
                let state = |seat| [SeatState::Free, SeatState::Held, SeatState::Sold][usize::from(packed(seat))];
                *self =
                    Map { feed: self.feed, version: snapshot.version, seats: (0..SEATS as usize).map(state).collect() };
                true
            }
            Some((_, Event::Delta(delta))) => {
                assert!(delta.from <= self.version && self.version < delta.to, "a gap, or nothing new");
                delta.changes.iter().for_each(|(seat, state)| self.seats[*seat as usize] = *state);
                self.version = delta.to;
                let free = self.seats.iter().filter(|state| **state == SeatState::Free).count();
                assert_eq!(delta.counts.free as usize, free, "the counts are those of the seats");
                false
            }
            Some((_, other)) => panic!("{other:?}"),
            None => false,
        }
    }
}

/// Waits until the kernel takes nothing more of what the node writes to its WebSockets. Returns the bytes that it has taken.
async fn blocked(server: &TestServer) -> u64 {
    let mut before = 0.0;
    let mut same = 0;
    let begun = tokio::time::Instant::now();
    while same < 5 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        let now = server.metric("boxoffice_edge_sent_bytes_total").await;
        same = if now == before { same + 1 } else { 0 };
        before = now;
        assert!(begun.elapsed() < TIMEOUT, "the peer takes everything");
    }
    before as u64
}

/// Waits until something is true.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = tokio::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A watcher that has stopped to read, and whose feeds are always due. Its map is that of `hamlet`.
async fn stuck(server: &TestServer, address: SocketAddr, seats_per_change: u32) -> (SlowClient, u64, Map, Changes) {
    let mut client = SlowClient::connect(address, "").await;
    let feed = client.watch(1, "hamlet").await;
    let mut map = Map { feed, ..Map::default() };
    map.take(&client.frame().await);
    let hamlet = server.node.theatre.sessions.lock()[&id("hamlet")].clone();
    for (number, session) in (2..).zip(OTHERS) {
        server.node.theatre.sessions.lock().insert(id(session), hamlet.clone());
        client.watch(number, session).await;
    }
    let changes = Changes::start(&server.node, seats_per_change);
    blocked(server).await;
    (client, feed, map, changes)
}

/// Reads until a frame is as wanted. All frames before it must have begun before the place `given`.
async fn next_given(client: &mut SlowClient, map: &mut Map, given: u64, wanted: impl Fn(&Frame) -> bool) -> Frame {
    loop {
        let frame = client.frame().await;
        if wanted(&frame) {
            return frame;
        }
        assert!(frame.begin < given, "a frame was given to the socket before it: {}", frame.text);
        map.take(&frame);
    }
}

/// The answer to a command is the next frame that the socket gets, and so are those to an `unwatch` and to a query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_the_next_frame_given_to_the_socket() {
    let server = TestServer::open(Limits::default());
    let (mut client, feed, mut map, changes) = stuck(&server, server.address, 100).await;
    for round in 0..3 {
        let opened = server.node.keys.lock().len();
        let id = 10 + round;
        client
            .send(&format!(r#"{{"id":{id},"op":"cart.open","rid":"r{id}","body":{{"token":"{}"}}}}"#, token(9)))
            .await;
        until("the command is decided while the feed is behind", || server.node.keys.lock().len() > opened).await;
        let given = blocked(&server).await;
        next_given(&mut client, &mut map, given, |frame| frame.answers() == Some(id)).await;
        blocked(&server).await;
    }
    // A query ends by itself, after 300 ms here.
    client.send(r#"{"id":20,"op":"admin.audit","body":{}}"#).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let given = blocked(&server).await;
    next_given(&mut client, &mut map, given, |frame| frame.answers() == Some(20)).await;
    let given = blocked(&server).await;
    client.send(&format!(r#"{{"id":21,"op":"unwatch","body":{{"feed":{feed}}}}}"#)).await;
    server.metric_is("boxoffice_edge_watchers", OTHERS.len() as f64).await;
    next_given(&mut client, &mut map, given, |frame| frame.answers() == Some(21)).await;
    client.send(r#"{"id":22,"op":"cart.open","rid":"r22","body":{"token":"00000000000000000000000000000009"}}"#).await;
    loop {
        let frame = client.frame().await;
        if frame.answers() == Some(22) {
            break;
        }
        assert!(
            frame.event().is_some_and(|(other, _)| other != feed),
            "the feed goes on after its end: {}",
            frame.text
        );
    }
    changes.stop().await;
}

/// A node that drains says so before any further frame of a feed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_of_a_drain_is_the_next_frame_given_to_the_socket() {
    let mut server = TestServer::open(Limits::default());
    let (mut client, _, mut map, changes) = stuck(&server, server.address, 100).await;
    let given = blocked(&server).await;
    server.close();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let is_notice =
        |frame: &Frame| matches!(ServerFrame::read(Encoding::Json, frame.text.as_bytes()), Ok(ServerFrame::Notice(_)));
    next_given(&mut client, &mut map, given, is_notice).await;
    changes.stop().await;
}

/// Many pings are sent. The time for an answer is short for a client and long for a thread that waits for a processor.
fn hasty() -> Limits {
    Limits { ping_every: Duration::from_millis(300), pong_timeout: Duration::from_millis(2_500), ..Limits::default() }
}

/// Lets a watcher of a feed that is always due read slowly until it has answered some pings. Then its map must become right.
async fn stays_behind(server: &TestServer, address: SocketAddr, seats_per_change: u32) {
    let (mut client, _, mut map, changes) = stuck(server, address, seats_per_change).await;
    let given = blocked(server).await;
    client.bytes_per_second = Some(20_000);
    let (mut frames, mut snapshots) = (0, 0);
    // The frames of the beginning are not judged, so something must come behind them.
    while client.pongs < 6 || frames < 100 {
        let Message::Frame(frame) = client.message().await else { continue };
        frames += 1;
        let is_snapshot = map.take(&frame);
        snapshots += usize::from(is_snapshot);
        // Frames before were made when the node did not know yet that the watcher is behind.
        if frame.begin > given + 2 * FIRST_BYTES_MAX && !is_snapshot {
            let length = frame.text.len();
            assert!(length <= FRAME_BYTES_MAX, "{seats_per_change} seats: a frame has {length} bytes");
        }
    }
    let (version, seats) = changes.stop().await;
    client.bytes_per_second = None;
    while map.version < version {
        map.take(&client.frame().await);
    }
    assert!(map.seats == seats, "{seats_per_change} seats: the map is wrong");
    println!("{seats_per_change} seats a change: {frames} frames, {snapshots} snapshots for {version} versions");
    assert_eq!(server.metric("boxoffice_edge_sockets").await, 1.0);
    assert_eq!(server.metric("boxoffice_edge_slow_readers_total").await, 0.0);
}

/// A watcher that is always behind answers its pings and stays. Its frames are short, and its map is right in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_is_always_behind_stays_as_long_as_it_answers_pings() {
    for seats_per_change in [20, 100, SEATS] {
        let server = TestServer::open(hasty());
        stays_behind(&server, server.address, seats_per_change).await;
    }
}

/// A watcher that reads nothing for a while is as far behind as one that reads slowly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_has_read_nothing_for_long_gets_short_frames() {
    let server = TestServer::open(Limits::default());
    let (mut client, _, mut map, changes) = stuck(&server, server.address, SEATS).await;
    let given = blocked(&server).await + 2 * FIRST_BYTES_MAX;
    let mut end = 0;
    while end < given {
        let frame = client.frame().await;
        map.take(&frame);
        end = frame.begin;
    }
    blocked(&server).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let given = blocked(&server).await + 4 * FIRST_BYTES_MAX;
    while end < given {
        let frame = client.frame().await;
        let is_short = frame.text.len() <= FRAME_BYTES_MAX;
        assert!(map.take(&frame) || is_short, "a frame has {} bytes", frame.text.len());
        end = frame.begin;
    }
    changes.stop().await;
}

/// A watcher that is always behind, over TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_over_tls_that_is_always_behind_stays() {
    let pem = Arc::new(Pem::new());
    let (server, _) = pem.server(WebConfig::default(), hasty());
    let address = pem.tunnel(server.clients).await;
    stays_behind(&server, address, 100).await;
}

/// Whole sessions, counts and purchases on one connection. No feed keeps the others from coming.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_feed_of_a_watcher_that_is_behind_goes_on() {
    let server = TestServer::open(Limits::default());
    let hamlet = server.node.theatre.sessions.lock()[&id("hamlet")].clone();
    for number in 0..64 {
        let name = id(&format!("play{number}"));
        server.node.theatre.sessions.lock().insert(name, hamlet.clone());
    }
    let (mut client, hot, _, changes) = stuck(&server, server.address, 100).await;
    client.bytes_per_second = Some(40_000);
    let mut feeds = BTreeMap::new();
    for number in 0..64_u64 {
        let body = format!(r#"{{"id":{},"op":"watch","body":{{"entity":"session/play{number}"}}}}"#, 100 + number);
        client.send(&body).await;
    }
    while feeds.len() < 64 {
        if let Some((feed, Event::Snapshot(snapshot))) = client.frame().await.event()
            && feed != hot
        {
            feeds.insert(feed, snapshot.version);
        }
    }
    for number in 0..64 {
        let update = FeedUpdate::Session { seats: vec![(number, SeatState::Held)], areas: Vec::new(), sale: None };
        server.node.publish(Entity::Session(id(&format!("play{number}"))), 5, update);
    }
    while feeds.values().any(|version| *version < 6) {
        match client.frame().await.event() {
            Some((feed, Event::Delta(delta))) if feed != hot => _ = feeds.insert(feed, delta.to),
            Some((feed, Event::Snapshot(snapshot))) if feed != hot => _ = feeds.insert(feed, snapshot.version),
            _ => {}
        }
    }
    changes.stop().await;
}

/// The node makes a page of its status for each request. The first leaves before the second is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_made_while_frames_are_read_leaves_before_the_next_is_made() {
    let server = TestServer::open(Limits::default());
    let mut client = SlowClient::connect(server.address, "").await;
    let (go_on, gate) = std::sync::mpsc::channel();
    *server.node.status_gate.lock() = Some(gate);
    let requests: Vec<String> = (1..=3).map(|id| format!(r#"{{"id":{id},"op":"admin.status","body":{{}}}}"#)).collect();
    client.send_all(&requests).await;
    for id in 1..=3 {
        assert_eq!(client.frame().await.answers(), Some(id));
        let _ = go_on.send(());
    }
    assert!(!server.node.status_gate_missed.load(Ordering::Relaxed), "an answer waited for the one after it");
}

/// A client that asks and does not read has only so many answers made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_read_are_bounded() {
    let server = TestServer::open(Limits::default());
    let mut client = SlowClient::connect(server.address, "").await;
    client.send(r#"{"id":1,"op":"admin.status","body":{}}"#).await;
    let length = client.frame().await.text.len() as u64;
    let requests: Vec<String> =
        (2..400).map(|id| format!(r#"{{"id":{id},"op":"admin.status","body":{{}}}}"#)).collect();
    client.send_all(&requests).await;
    let given = blocked(&server).await;
    let made = server.node.statuses_made.load(Ordering::Relaxed);
    let waiting = (made * length).saturating_sub(given);
    assert!(waiting < 32 * 1_024, "{made} answers were made, and {waiting} bytes of them wait");
    for id in 2..400 {
        assert_eq!(client.frame().await.answers(), Some(id));
    }
    // Answers of the node are not made either, and all come in the end.
    let maps: Vec<String> =
        (400..650).map(|id| format!(r#"{{"id":{id},"op":"session.map","body":{{"id":"hamlet"}}}}"#)).collect();
    client.send_all(&maps).await;
    blocked(&server).await;
    for id in 400..650 {
        assert_eq!(client.frame().await.answers(), Some(id));
    }
}

/// Waits until the connection was reset, while its peer reads a byte now and then.
async fn reset_while_trickling(stream: &mut TcpStream) {
    let begun = tokio::time::Instant::now();
    let mut byte = [0];
    loop {
        match stream.try_read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(1) => {}
            Ok(_) | Err(_) => return,
        }
        if stream.take_error().expect("it can be asked").is_some() {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "the connection is kept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A peer that takes a byte now and then is not cut for that.
fn patient() -> Limits {
    let (drain_timeout, stall_timeout) = (Duration::from_millis(300), 10 * TIMEOUT);
    Limits { drain_timeout, stall_timeout, ..Limits::default() }
}

fn revoke_all(node: &Node) {
    node.access_keys.lock().clear();
    let mut ring = node.key_ring.lock();
    (ring.version, ring.copy_version) = (ring.version + 1, ring.copy_version + 1);
}

/// A peer that takes a byte now and then keeps no connection from a drain or from the end of its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trickling_peer_is_no_excuse() {
    let limits = patient();
    // By WebSocket, as a reader of answers and as a watcher.
    for watches in [false, true] {
        let mut server = TestServer::open(limits.clone());
        let mut client = SlowClient::connect(server.address, "").await;
        let mut changes = None;
        if watches {
            client.watch(1, "hamlet").await;
            changes = Some(Changes::start(&server.node, 100));
        } else {
            let read = |id: u64| format!(r#"{{"id":{id},"op":"session.map","body":{{"id":"hamlet"}}}}"#);
            client.send_all(&(1..250).map(read).collect::<Vec<_>>()).await;
        }
        blocked(&server).await;
        server.close();
        let closed = server.closed();
        tokio::join!(closed, reset_while_trickling(&mut client.stream));
        if let Some(changes) = changes {
            changes.stop().await;
        }
    }
    // A watcher whose key is revoked.
    let server = TestServer::open(limits);
    let key = add_key(&server, "screen", Roles::of(Role::Watch));
    let mut client = SlowClient::connect(server.address, &format!("authorization: Bearer {key}\r\n")).await;
    client.watch(1, "hamlet").await;
    let changes = Changes::start(&server.node, 100);
    blocked(&server).await;
    revoke_all(&server.node);
    reset_while_trickling(&mut client.stream).await;
    changes.stop().await;
}

/// An HTTP client that trickles through a long answer is cut when the time of the drain is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_client_that_trickles_is_no_excuse() {
    let mut server = TestServer::open(patient());
    let mut map = server.node.theatre.sessions.lock()[&id("hamlet")].clone();
    map.counts.free = 4_000_000;
    map.seats = vec![0; 1_000_000];
    server.node.theatre.sessions.lock().insert(id("huge"), map);
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small buffer");
    let mut stream = socket.connect(server.address).await.expect("a connection");
    let get = "GET /v1/sessions/huge/map HTTP/1.1\r\nhost: localhost\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, get.as_bytes()).await.expect("written");
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.close();
    let closed = server.closed();
    tokio::join!(closed, reset_while_trickling(&mut stream));
}

/// The tests of this file find the faults that a debug build can have.
#[test]
fn planted_faults_are_found() {
    planted::are_found(
        "server::slow_watchers",
        &[
            ("an answer behind a feed", "an_answer_is_the_next_frame_given_to_the_socket"),
            ("a busy watcher is not read", "a_watcher_that_is_always_behind_stays_as_long_as_it_answers_pings"),
            (
                "a blocked watcher is forgotten to be behind",
                "a_watcher_that_has_read_nothing_for_long_gets_short_frames",
            ),
            (
                "an answer waits for the frames behind it",
                "an_answer_that_is_made_while_frames_are_read_leaves_before_the_next_is_made",
            ),
        ],
    );
}

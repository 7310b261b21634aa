//! Connections end when what let them in is gone, whatever they are doing.

use std::{io, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use boxoffice_core::{
    access::{AccessKey, Role, Roles},
    answer::{MapView, SeatCounts},
    time::Timestamp,
};
use boxoffice_edge::{
    EdgeConfig,
    budgets::BudgetConfig,
    token::{TokenKey, TokenKeys},
};
use boxoffice_wire::{Encoding, Op};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::Instant,
};

use crate::{
    http_client::HttpClient,
    server::common::{Client, Received, TIMEOUT, TestServer, add_key, id, request, token},
};

/// The promised 200 ms after the node knows it, and as much as a busy machine may need besides.
const ENDS_WITHIN: Duration = Duration::from_millis(900);

const SHARED: &str = "a secret of the shop with more than thirty-two bytes";

/// What lets a caller in, and how that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Its key is revoked.
    Revoked,
    /// Its key is revoked, and another one is made under the same name.
    MadeAgain,
    /// Its token expires.
    Expired,
    /// The clock is set to a time at which its token has expired.
    ClockSet,
    /// The operators' port needed nothing before the first admin key.
    FirstAdminKey,
}

impl Cause {
    const ALL: [Cause; 5] = [Cause::Revoked, Cause::MadeAgain, Cause::Expired, Cause::ClockSet, Cause::FirstAdminKey];

    fn close_code(self) -> u16 {
        match self {
            Cause::Expired | Cause::ClockSet => 4101,
            Cause::Revoked | Cause::MadeAgain | Cause::FirstAdminKey => 4001,
        }
    }
}

/// A node, and the credentials of a caller that will lose them.
struct House {
    server: TestServer,
    address: SocketAddr,
    shown: Option<String>,
    cause: Cause,
}

impl House {
    fn new(cause: Cause) -> House {
        let shop = TokenKey::hs256(None, SHARED.as_bytes()).expect("it is long enough");
        let server = TestServer::with(EdgeConfig {
            token_keys: TokenKeys::new(vec![shop], None),
            budgets: BudgetConfig::default(),
            ..EdgeConfig::default()
        });
        let seats: u32 = 4_000_000;
        let map = MapView {
            session: id("huge"),
            epoch: 0,
            version: 5,
            counts: SeatCounts { free: seats, ..SeatCounts::default() },
            areas: Vec::new(),
            seats: vec![0; seats as usize / 4],
            sale: None,
        };
        server.node.theatre.sessions.lock().insert(id("huge"), map);
        let shown = match cause {
            Cause::Revoked | Cause::MadeAgain => Some(add_key(&server, "till", Roles::of(Role::Desk))),
            // Accepted for five seconds more than it says.
            Cause::Expired | Cause::ClockSet => Some(jwt(&json!({"sub": "ada", "exp": 100}))),
            Cause::FirstAdminKey => None,
        };
        let address = if cause == Cause::FirstAdminKey { server.operators } else { server.clients };
        House { server, address, shown, cause }
    }

    fn header(&self) -> String {
        self.shown.as_ref().map(|shown| format!("authorization: Bearer {shown}\r\n")).unwrap_or_default()
    }

    async fn socket(&self) -> Client {
        let shown = self.shown.as_ref().map(|shown| format!("Bearer {shown}"));
        let headers: Vec<(&str, &str)> = shown.iter().map(|shown| ("authorization", shown.as_str())).collect();
        Client::connect_with(request(self.address, Encoding::Json.subprotocol(), &headers), Encoding::Json).await
    }

    /// Ends the credentials. Returns when they were gone.
    async fn end(&self) -> Instant {
        let node = &self.server.node;
        let change_keys = |has_admin: bool| {
            let mut ring = node.key_ring.lock();
            (ring.version, ring.copy_version) = (ring.version + 1, ring.copy_version + 1);
            ring.has_admin |= has_admin;
        };
        match self.cause {
            Cause::Revoked => {
                node.access_keys.lock().remove(&id("till"));
                change_keys(false);
            }
            Cause::MadeAgain => {
                let mut keys = node.access_keys.lock();
                let key = keys.get_mut(&id("till")).expect("it is there");
                *key = AccessKey { created_at: Timestamp(9), ..AccessKey::clone(key) }.into();
                drop(keys);
                change_keys(false);
            }
            Cause::Expired => {
                *node.wall.lock() = (104_900, Some(Instant::now()));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Cause::ClockSet => *node.wall.lock() = (200_000, None),
            Cause::FirstAdminKey => change_keys(true),
        }
        Instant::now()
    }

    fn ended(&self, what: &str, since: Instant) {
        let after = since.elapsed();
        println!("{:?}: {what} ended after {after:?}", self.cause);
        assert!(after < ENDS_WITHIN, "{:?}: {what} ended after {after:?}", self.cause);
    }
}

fn jwt(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({"alg": "HS256"})), part(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(SHARED.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

/// A connection whose peer takes little before it reads.
async fn narrow(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small buffer");
    socket.connect(address).await.expect("a connection")
}

/// Waits until the connection was reset, without reading from it.
async fn reset(stream: &TcpStream) {
    let begun = Instant::now();
    loop {
        match stream.take_error().expect("it can be asked") {
            Some(error) => return assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
        assert!(begun.elapsed() < TIMEOUT, "the connection is never reset");
    }
}

/// A masked text frame of at most 125 bytes.
fn frame(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("it is short");
    assert!(length < 126);
    [&[0x81, 0x80 | length, 0, 0, 0, 0], text.as_bytes()].concat()
}

/// A WebSocket whose peer reads nothing after the upgrade.
async fn silent_socket(house: &House, frames: &[String]) -> TcpStream {
    let mut stream = narrow(house.address).await;
    let upgrade = format!(
        "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: boxoffice.v1.json\r\n{}\r\n",
        house.header()
    );
    stream.write_all(upgrade.as_bytes()).await.expect("written");
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 101");
    for text in frames {
        stream.write_all(&frame(text)).await.expect("written");
    }
    // Time to fill all buffers.
    tokio::time::sleep(Duration::from_millis(300)).await;
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_ends() {
    for cause in Cause::ALL {
        let house = House::new(cause);
        let mut idle = house.socket().await;
        idle.is_alive().await;
        let mut watcher = house.socket().await;
        watcher.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
        watcher.frame().await;
        watcher.frame().await;
        // Of no use to others.
        let mut guest = Client::connect(house.server.clients, Encoding::Json).await;
        guest.is_alive().await;
        let gone = house.end().await;
        for (what, client) in [("an idle connection", &mut idle), ("a watcher", &mut watcher)] {
            let code = tokio::time::timeout(TIMEOUT, client.close_code()).await;
            assert_eq!(code.ok(), Some(cause.close_code()), "{cause:?}");
            house.ended(what, gone);
        }
        guest.is_alive().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_peer_does_not_read_ends() {
    for cause in Cause::ALL {
        let house = House::new(cause);
        let watch = json!({"id": 1, "op": "watch", "body": {"entity": "session/huge"}}).to_string();
        let read = |id: u64| json!({"id": id, "op": "session.map", "body": {"id": "huge"}}).to_string();
        let watcher = silent_socket(&house, &[watch]).await;
        let reads: Vec<String> = (1..6).map(read).collect();
        let reader = silent_socket(&house, &reads).await;
        let gone = house.end().await;
        for (what, stream) in [("a watcher that does not read", &watcher), ("a reader of answers", &reader)] {
            reset(stream).await;
            house.ended(what, gone);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_connection_ends() {
    for cause in Cause::ALL {
        let house = House::new(cause);
        let authorization = house.shown.as_ref().map(|shown| format!("Bearer {shown}"));
        let headers: Vec<(&str, &str)> = authorization.iter().map(|shown| ("authorization", shown.as_str())).collect();
        let mut idle = HttpClient::connect(house.address).await;
        assert_eq!(idle.get("/v1/session.map?id=hamlet", &headers).await.status, 200);
        // The answer is longer than all buffers, and the peer does not read it.
        let mut slow = narrow(house.address).await;
        let get = format!("GET /v1/sessions/huge/map HTTP/1.1\r\nhost: localhost\r\n{}\r\n", house.header());
        slow.write_all(get.as_bytes()).await.expect("written");
        // The node never answers this one.
        let mut waiting = HttpClient::connect(house.address).await;
        let body = json!({"token": token(1)}).to_string();
        waiting
            .write(
                format!(
                    "POST /v1/cart.get HTTP/1.1\r\nhost: localhost\r\n{}content-type: application/json\r\n\
                     content-length: {}\r\n\r\n{body}",
                    house.header(),
                    body.len()
                )
                .as_bytes(),
            )
            .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let gone = house.end().await;
        assert!(idle.is_closed().await, "{cause:?}");
        house.ended("an idle HTTP connection", gone);
        reset(&slow).await;
        house.ended("an HTTP answer that is not read", gone);
        assert!(waiting.is_closed().await, "{cause:?}");
        house.ended("an HTTP request under way", gone);
        // The same credentials are refused from then on. The new key of this name has the same secret here, and is another key.
        let mut again = HttpClient::connect(house.address).await;
        let answer = again.get("/v1/admin.status", &headers).await;
        let refused = if cause == Cause::MadeAgain { 403 } else { 401 };
        assert_eq!(answer.status, refused, "{cause:?}: {answer:?}");
    }
}

/// Guests are not woken by a change of the keys, and nobody is woken without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_callers_with_keys_are_woken_by_a_change_of_the_keys() {
    let house = House::new(Cause::Revoked);
    let node = &house.server.node;
    let mut connections = Vec::new();
    for _ in 0..20 {
        let mut guest = Client::connect(house.server.clients, Encoding::Json).await;
        guest.is_alive().await;
        let mut till = house.socket().await;
        till.is_alive().await;
        connections.extend([guest, till]);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let looked_up = || node.keys_looked_up.load(Ordering::Relaxed);
    let before = looked_up();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(looked_up(), before, "nobody is woken without a change");
    node.key_ring.lock().version += 1;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let woken = looked_up() - before;
    assert!((20..=40).contains(&woken), "20 connections with a key looked it up {woken} times");
}

/// A connection that a key took out of its network's budget is counted again when a stranger goes on over it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_exempt_from_the_budget_as_long_as_it_shows_a_key() {
    let budgets = BudgetConfig { connections: 2, ..BudgetConfig::default() };
    let server = TestServer::strict(EdgeConfig { budgets, ..EdgeConfig::default() });
    let key = add_key(&server, "till", Roles::of(Role::Desk));
    let authorization = format!("Bearer {key}");
    let mut guests = Vec::new();
    for _ in 0..2 {
        let mut guest = HttpClient::connect(server.clients).await;
        assert_eq!(guest.get("/v1/session.map?id=hamlet", &[]).await.status, 200);
        guests.push(guest);
    }
    let mut third = HttpClient::connect(server.clients).await;
    let till: [(&str, &str); 1] = [("authorization", &authorization)];
    for _ in 0..2 {
        assert_eq!(third.get("/v1/session.map?id=hamlet", &till).await.status, 200, "a key lets it be");
    }
    assert_eq!(third.get("/v1/session.map?id=hamlet", &[]).await.status, 429, "a stranger's third connection");
    // Over a WebSocket as well: a customer's token takes the place of the key.
    let house = House::new(Cause::Expired);
    let key = add_key(&house.server, "till", Roles::of(Role::Desk));
    let mut client = Client::connect(house.server.clients, Encoding::Json).await;
    client.send(1, Op::Hello, json!({"token": key})).await;
    assert_eq!(client.code().await, (Some(1), 0));
    client.send(2, Op::Hello, json!({"token": house.shown})).await;
    assert_eq!(client.code().await, (Some(2), 0), "there is room for it");
    let gone = house.end().await;
    let Received::Closed(code, _) = client.next().await else { panic!("it is closed") };
    assert_eq!(code, 4101, "it ends with the token, not with the key");
    house.ended("a connection with a key before", gone);
}

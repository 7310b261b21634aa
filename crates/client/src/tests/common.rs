//! A server that the test controls.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::time::Duration;

use boxoffice_core::answer::{self, Answer, Answered};
use boxoffice_wire::{
    Call, Encoding, Fail, FailKind, Op, Rejection, Request,
    call::{Shape, Since},
    cluster::ShardMap,
    encode,
    feed::{Delta, Notice, Snapshot},
    hello::{Durability, Hello, Limits},
    version::PROTOCOL_MINOR,
};
use bytes::BytesMut;
use futures_util::{SinkExt, StreamExt};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message, Utf8Bytes,
        handshake::server::{ErrorResponse, Request as Upgrade, Response},
        protocol::CloseFrame,
    },
};

use crate::{CartId, Client, ClientConfig, Currency, Entity, Id, SeatCounts, SeatState, Timestamp};

/// How long a test waits for something that must arrive.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a test waits for something that must not arrive.
pub const QUIET: Duration = Duration::from_millis(300);

pub struct Server {
    listener: TcpListener,
    encoding: Encoding,
}

impl Server {
    pub async fn new(encoding: Encoding) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Server { listener, encoding }
    }

    pub fn config(&self) -> ClientConfig {
        let address = self.listener.local_addr().expect("an address").to_string();
        ClientConfig { encoding: self.encoding, ..ClientConfig::new([address]) }
    }

    /// A connected client, and the server's end of its connection.
    pub async fn connected(&self, config: ClientConfig) -> (Client, Peer) {
        let (client, peer) = tokio::join!(Client::connect(config), self.accept());
        (client.expect("a connection"), peer)
    }

    /// The same, with a server that speaks the first version of the protocol.
    pub async fn connected_as_first_version(&self, config: ClientConfig) -> (Client, Peer) {
        let (client, peer) = tokio::join!(Client::connect(config), self.accept_with(Hello { minor: 0, ..hello() }));
        (client.expect("a connection"), peer)
    }

    /// The same, with a server that is this node.
    pub async fn connected_as(&self, node: &str, config: ClientConfig) -> (Client, Peer) {
        let (client, peer) = tokio::join!(Client::connect(config), self.accept_as(node));
        (client.expect("a connection"), peer)
    }

    /// Accepts the next connection as this node and exchanges hellos.
    pub async fn accept_as(&self, node: &str) -> Peer {
        self.accept_with(Hello { node: node.into(), ..hello() }).await
    }

    /// Accepts the next connection and exchanges hellos.
    pub async fn accept(&self) -> Peer {
        self.accept_with(hello()).await
    }

    /// Accepts the next connection as this node of this cluster and sends a hello. Reads nothing.
    pub async fn accept_and_send_hello(&self, node: &str, cluster: &str) -> Peer {
        let mut peer = self.accept_without_hello().await;
        peer.send_hello(node, cluster).await;
        peer
    }

    /// Accepts the next connection and sends nothing.
    pub async fn accept_without_hello(&self) -> Peer {
        timeout(TIMEOUT, self.accept_upgrade()).await.expect("the client connects")
    }

    /// Accepts the next connection as this node, which speaks the first version of the protocol, and exchanges hellos.
    pub async fn accept_as_first_version(&self, node: &str) -> Peer {
        self.accept_with(Hello { node: node.into(), minor: 0, ..hello() }).await
    }

    async fn accept_with(&self, hello: Hello) -> Peer {
        let mut peer = timeout(TIMEOUT, self.accept_upgrade()).await.expect("the client connects");
        peer.send(|encoding, out| encode::hello(encoding, out, &hello)).await;
        let client_hello = peer.request().await;
        assert_eq!(client_hello.op, Op::Hello);
        peer.send(|encoding, out| encode::done(encoding, out, client_hello.id)).await;
        peer.client_hello = Some(client_hello.call);
        peer
    }

    async fn accept_upgrade(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        // Nagle's algorithm could delay the second of two frames by 40 ms.
        stream.set_nodelay(true).expect("a socket");
        let encoding = self.encoding;
        #[expect(clippy::result_large_err, reason = "tungstenite defines the type of the callback")]
        let choose = |upgrade: &Upgrade, mut response: Response| -> Result<Response, ErrorResponse> {
            assert_eq!(upgrade.uri().path(), "/v1/ws");
            let asked = upgrade.headers().get("Sec-WebSocket-Protocol").expect("the client asks for a subprotocol");
            assert_eq!(asked, encoding.subprotocol());
            response.headers_mut().insert("Sec-WebSocket-Protocol", asked.clone());
            Ok(response)
        };
        let socket = accept_hdr_async(stream, choose).await.expect("an upgrade");
        Peer { socket, encoding, client_hello: None }
    }

    /// Asserts that no client connects for a while.
    pub async fn expect_no_connection(&self) {
        assert!(timeout(QUIET, self.listener.accept()).await.is_err(), "a client connects");
    }
}

/// The server's end of a connection.
pub struct Peer {
    socket: WebSocketStream<TcpStream>,
    encoding: Encoding,
    pub client_hello: Option<Call>,
}

impl Peer {
    /// The next request.
    pub async fn request(&mut self) -> Request {
        let frame = timeout(TIMEOUT, self.socket.next()).await.expect("a request arrives").expect("it is open");
        let request = match (frame.expect("a frame"), self.encoding) {
            (Message::Binary(frame), Encoding::MsgPack) => Request::read(Encoding::MsgPack, &frame),
            (Message::Text(frame), Encoding::Json) => Request::read(Encoding::Json, frame.as_bytes()),
            (other, _) => panic!("{other:?} is not a request"),
        };
        request.expect("a valid request")
    }

    /// Sends a hello as this node of this cluster.
    pub async fn send_hello(&mut self, node: &str, cluster: &str) {
        let hello = Hello { node: node.into(), cluster: cluster.into(), ..hello() };
        self.send(|encoding, out| encode::hello(encoding, out, &hello)).await;
    }

    /// Asserts that no request arrives for a while.
    pub async fn expect_no_request(&mut self) {
        let next = timeout(QUIET, self.socket.next()).await;
        assert!(next.is_err(), "{next:?} arrives");
    }

    /// Asserts that the client closes the connection.
    pub async fn expect_close(&mut self) {
        let next = timeout(TIMEOUT, self.socket.next()).await.expect("the client closes the connection");
        assert!(matches!(next, None | Some(Ok(Message::Close(_)) | Err(_))), "{next:?} arrives");
    }

    pub async fn send(&mut self, write: impl Fn(Encoding, &mut BytesMut)) {
        let mut out = BytesMut::new();
        write(self.encoding, &mut out);
        let message = match self.encoding {
            Encoding::MsgPack => Message::Binary(out.freeze()),
            Encoding::Json => Message::Text(Utf8Bytes::try_from(out.freeze()).expect("JSON is UTF-8")),
        };
        self.socket.send(message).await.expect("an open connection");
    }

    pub async fn ok(&mut self, request: &Request, answer: Answer) {
        let outcome = Ok(Answered { answer, at: Vec::new() });
        self.send(|encoding, out| encode::outcome(encoding, out, request.id, &outcome, Shape::Plain, None)).await;
    }

    pub async fn shards(&mut self, request: &Request, map: &ShardMap) {
        self.send(|encoding, out| encode::ok(encoding, out, request.id, map)).await;
    }

    pub async fn no(&mut self, request: &Request, refusal: boxoffice_core::refusal::Refusal) {
        let outcome = Err(refusal);
        self.send(|encoding, out| encode::outcome(encoding, out, request.id, &outcome, Shape::Plain, None)).await;
    }

    pub async fn reject(&mut self, request: &Request, rejection: &Rejection) {
        self.send(|encoding, out| encode::rejection(encoding, out, Some(request.id), rejection)).await;
    }

    pub async fn fail(&mut self, request: &Request, kind: FailKind) {
        let fail = Fail { retry_after_ms: Some(10), ..Fail::new(kind) };
        self.send(|encoding, out| encode::fail(encoding, out, request.id, &fail)).await;
    }

    pub async fn watching(&mut self, request: &Request, feed: u64) {
        self.send(|encoding, out| encode::watching(encoding, out, request.id, feed)).await;
    }

    pub async fn snapshot(&mut self, feed: u64, snapshot: Snapshot) {
        self.send(|encoding, out| encode::snapshot(encoding, out, feed, &snapshot)).await;
    }

    pub async fn delta(&mut self, feed: u64, delta: Delta) {
        self.send(|encoding, out| encode::delta(encoding, out, feed, &delta)).await;
    }

    pub async fn notice(&mut self, reconnect_ms: u64) {
        let notice = Notice { name: "draining".into(), reconnect_ms: Some(reconnect_ms) };
        self.send(|encoding, out| encode::notice(encoding, out, &notice)).await;
    }

    pub async fn ping(&mut self) {
        self.socket.send(Message::Ping("are you there".into())).await.expect("an open connection");
        let next = timeout(TIMEOUT, self.socket.next()).await.expect("a pong arrives");
        assert!(matches!(next, Some(Ok(Message::Pong(_)))), "{next:?} is not a pong");
    }

    pub async fn close(mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "because".into() };
        self.socket.close(Some(frame)).await.expect("an open connection");
        while let Some(Ok(_)) = self.socket.next().await {}
    }

    /// Resets the TCP connection without a close frame.
    pub fn reset(self) {
        let stream = self.socket.into_inner();
        stream.set_zero_linger().expect("a socket");
    }
}

/// Advances the clock. The peers send pings meanwhile, so that the client does not take their connections for dead.
pub async fn advance_time(time: Duration, peers: &mut [&mut Peer]) {
    const STEP: Duration = Duration::from_secs(20);
    let mut left = time;
    while !left.is_zero() {
        let step = left.min(STEP);
        left -= step;
        tokio::time::pause();
        tokio::time::advance(step).await;
        tokio::time::resume();
        for peer in &mut *peers {
            peer.ping().await;
        }
    }
}

pub fn id(text: &str) -> Id {
    Id::new(text).expect("a valid id")
}

pub fn held(cart: CartId) -> Answer {
    let currency = Currency::new("EUR").expect("a currency");
    Answer::Held(answer::Held { cart, lines: Vec::new(), currency, deadline: Timestamp(1), lines_version: 1 })
}

/// The session of a `watch` request, and the epoch and version to resume from.
pub fn watched(request: &Request) -> (String, Option<(u64, u64)>) {
    let Call::Watch { entity: Entity::Session(session), since, .. } = &request.call else {
        panic!("{:?} does not watch a session", request.call)
    };
    let version = |since: &Since| match since {
        Since::Version(resume) => (resume.epoch, resume.version),
        Since::Cursor(cursor) => panic!("{cursor:?} is not a version"),
    };
    (session.to_string(), since.as_ref().map(version))
}

/// A snapshot of four seats, of which the first `held` are held.
pub fn snapshot(version: u64, held: u32) -> Snapshot {
    let counts = SeatCounts { free: 4 - held, held, ..SeatCounts::default() };
    let seats = (0..held).fold(0, |byte, seat| byte | 1 << (seat * 2));
    Snapshot {
        entity: Entity::Session(id("hamlet")),
        epoch: 1,
        version,
        counts,
        areas: Vec::new(),
        seats: vec![seats],
        sale: None,
    }
}

/// A delta from version `from`, at which `from` of four seats are held, to the next version, at which one more is held.
pub fn delta(from: u32) -> Delta {
    let counts = SeatCounts { free: 3 - from, held: from + 1, ..SeatCounts::default() };
    Delta {
        from: from.into(),
        to: u64::from(from) + 1,
        changes: vec![(from, SeatState::Held)],
        counts,
        areas: Vec::new(),
        sale: None,
    }
}

fn hello() -> Hello {
    Hello {
        cluster: "c".into(),
        node: "n".into(),
        version: "0".into(),
        protocol: 1,
        minor: PROTOCOL_MINOR,
        durability: Durability { replicas: 1, fsync: "always".into() },
        limits: Limits::default(),
        time: Timestamp(0),
    }
}

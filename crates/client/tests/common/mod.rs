//! A server that says what the test tells it to.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::time::Duration;

use boxoffice_client::{CartId, Client, ClientConfig, Currency, Entity, Held, Id, SeatCounts, SeatState, Timestamp};
use boxoffice_core::answer::{Answer, Answered};
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

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long a test waits for what must not come.
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

    /// A client that is connected, and the server's end of it.
    pub async fn connected(&self, config: ClientConfig) -> (Client, Peer) {
        let (client, peer) = tokio::join!(Client::connect(config), self.accept());
        (client.expect("a connection"), peer)
    }

    /// The same where the server speaks the first version of the protocol.
    pub async fn connected_as_first_version(&self, config: ClientConfig) -> (Client, Peer) {
        let (client, peer) = tokio::join!(Client::connect(config), self.accept_with(Hello { minor: 0, ..hello() }));
        (client.expect("a connection"), peer)
    }

    /// The same where the server is this node.
    pub async fn connected_as(&self, node: &str, config: ClientConfig) -> (Client, Peer) {
        let (client, peer) = tokio::join!(Client::connect(config), self.accept_as(node));
        (client.expect("a connection"), peer)
    }

    /// The next connection to this node, with its hellos behind it.
    pub async fn accept_as(&self, node: &str) -> Peer {
        self.accept_with(Hello { node: node.into(), ..hello() }).await
    }

    /// The next connection, with its hellos behind it.
    pub async fn accept(&self) -> Peer {
        self.accept_with(hello()).await
    }

    /// The next connection, to a node of a cluster that says no word but its hello, and reads none.
    pub async fn accept_saying(&self, node: &str, cluster: &str) -> Peer {
        let mut peer = self.accept_silently().await;
        peer.say_hello(node, cluster).await;
        peer
    }

    /// The next connection, to a node that says nothing.
    pub async fn accept_silently(&self) -> Peer {
        timeout(PATIENCE, self.raw_accept()).await.expect("the client connects")
    }

    /// The next connection to this node, which speaks the first version of the protocol, with its hellos behind it.
    pub async fn accept_as_first_version(&self, node: &str) -> Peer {
        self.accept_with(Hello { node: node.into(), minor: 0, ..hello() }).await
    }

    async fn accept_with(&self, hello: Hello) -> Peer {
        let mut peer = timeout(PATIENCE, self.raw_accept()).await.expect("the client connects");
        peer.send(|encoding, out| encode::hello(encoding, out, &hello)).await;
        let greeting = peer.request().await;
        assert_eq!(greeting.op, Op::Hello);
        peer.send(|encoding, out| encode::done(encoding, out, greeting.id)).await;
        peer.greeting = Some(greeting.call);
        peer
    }

    async fn raw_accept(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        // Without it the second of two frames may be 40 ms late.
        stream.set_nodelay(true).expect("a socket");
        let encoding = self.encoding;
        #[expect(clippy::result_large_err, reason = "the shape of the callback is not ours")]
        let choose = |upgrade: &Upgrade, mut response: Response| -> Result<Response, ErrorResponse> {
            assert_eq!(upgrade.uri().path(), "/v1/ws");
            let asked = upgrade.headers().get("Sec-WebSocket-Protocol").expect("a protocol is asked for");
            assert_eq!(asked, encoding.subprotocol());
            response.headers_mut().insert("Sec-WebSocket-Protocol", asked.clone());
            Ok(response)
        };
        let socket = accept_hdr_async(stream, choose).await.expect("an upgrade");
        Peer { socket, encoding, greeting: None }
    }

    /// Nobody connects for a while.
    pub async fn nobody_comes(&self) {
        assert!(timeout(QUIET, self.listener.accept()).await.is_err(), "somebody connects");
    }
}

/// The server's end of a connection.
pub struct Peer {
    socket: WebSocketStream<TcpStream>,
    encoding: Encoding,
    /// The client's hello.
    pub greeting: Option<Call>,
}

impl Peer {
    /// The next request.
    pub async fn request(&mut self) -> Request {
        let frame = timeout(PATIENCE, self.socket.next()).await.expect("no request comes").expect("it is open");
        let request = match (frame.expect("a frame"), self.encoding) {
            (Message::Binary(frame), Encoding::MsgPack) => Request::read(Encoding::MsgPack, &frame),
            (Message::Text(frame), Encoding::Json) => Request::read(Encoding::Json, frame.as_bytes()),
            (other, _) => panic!("{other:?} is no request"),
        };
        request.expect("a good request")
    }

    /// Says hello as this node of this cluster.
    pub async fn say_hello(&mut self, node: &str, cluster: &str) {
        let hello = Hello { node: node.into(), cluster: cluster.into(), ..hello() };
        self.send(|encoding, out| encode::hello(encoding, out, &hello)).await;
    }

    /// No request comes for a while.
    pub async fn is_quiet(&mut self) {
        let next = timeout(QUIET, self.socket.next()).await;
        assert!(next.is_err(), "{next:?} comes");
    }

    /// The client closes the connection.
    pub async fn is_left(&mut self) {
        let next = timeout(PATIENCE, self.socket.next()).await.expect("it stays open");
        assert!(matches!(next, None | Some(Ok(Message::Close(_)) | Err(_))), "{next:?} comes");
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
        self.send(|encoding, out| encode::shards(encoding, out, request.id, map)).await;
    }

    pub async fn no(&mut self, request: &Request, refusal: boxoffice_core::refusal::Refusal) {
        let outcome = Err(refusal);
        self.send(|encoding, out| encode::outcome(encoding, out, request.id, &outcome, Shape::Plain, None)).await;
    }

    pub async fn reject(&mut self, request: &Request, why: &Rejection) {
        self.send(|encoding, out| encode::rejection(encoding, out, Some(request.id), why)).await;
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
        let next = timeout(PATIENCE, self.socket.next()).await.expect("no pong comes");
        assert!(matches!(next, Some(Ok(Message::Pong(_)))), "{next:?} is no pong");
    }

    pub async fn close(mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "because".into() };
        self.socket.close(Some(frame)).await.expect("an open connection");
        while let Some(Ok(_)) = self.socket.next().await {}
    }

    /// Breaks the connection in the middle of everything.
    pub fn break_off(self) {
        let stream = self.socket.into_inner();
        stream.set_zero_linger().expect("a socket");
    }
}

/// Time passes. What is connected is heard meanwhile, so that it stays connected.
pub async fn pass(time: Duration, peers: &mut [&mut Peer]) {
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
    Id::new(text).expect("a good id")
}

pub fn held(cart: CartId) -> Answer {
    let currency = Currency::new("EUR").expect("a currency");
    Answer::Held(Held { cart, lines: Vec::new(), currency, deadline: Timestamp(1), lines_version: 1 })
}

/// What is to be followed, and from where.
pub fn watched(request: &Request) -> (String, Option<(u64, u64)>) {
    let Call::Watch { entity: Entity::Session(session), since } = &request.call else {
        panic!("{:?} watches no session", request.call)
    };
    let version = |since: &Since| match since {
        Since::Version(resume) => (resume.epoch, resume.version),
        Since::Cursor(cursor) => panic!("{cursor} is no version"),
    };
    (session.to_string(), since.as_ref().map(version))
}

/// Four seats, so many of them held.
pub fn snapshot(version: u64, held: u32) -> Snapshot {
    let counts = SeatCounts { free: 4 - held, held, ..SeatCounts::default() };
    let seats = (0..held).fold(0, |byte, seat| byte | 1 << (seat * 2));
    Snapshot { entity: Entity::Session(id("hamlet")), epoch: 1, version, counts, areas: Vec::new(), seats: vec![seats] }
}

/// One more of four seats is held after this version than before, which has as many held as its number.
pub fn delta(from: u32) -> Delta {
    let counts = SeatCounts { free: 3 - from, held: from + 1, ..SeatCounts::default() };
    Delta {
        from: from.into(),
        to: u64::from(from) + 1,
        changes: vec![(from, SeatState::Held)],
        counts,
        areas: Vec::new(),
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

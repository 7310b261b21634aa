//! Clients over real sockets.

use std::net::SocketAddr;

use boxoffice_core::time::Timestamp;
use boxoffice_wire::{
    Encoding, Op,
    feed::{Snapshot, SnapshotBody},
    hello::{Durability, Hello},
    reply::{self, Event, FromBody, Leader, Reply, ServerFrame},
};
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        handshake::client::Request as HttpRequest,
        http::{HeaderName, HeaderValue},
    },
};

use crate::server::common::{TIMEOUT, token};

/// A message to a client.
#[derive(Debug, PartialEq)]
pub(crate) enum Received {
    /// A frame of the protocol.
    Frame(Bytes),
    /// A close with this code.
    Closed(u16, String),
    /// The end of the stream without a close.
    Broken,
}

/// A client over a real socket.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) encoding: Encoding,
    pub(crate) hello: Hello,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, encoding: Encoding) -> Client {
        Client::connect_with(request(address, encoding.subprotocol(), &[]), encoding).await
    }

    pub(crate) async fn connect_with(request: HttpRequest, encoding: Encoding) -> Client {
        let (socket, answer) = tokio_tungstenite::connect_async(request).await.expect("an upgrade");
        let agreed = answer.headers().get("sec-websocket-protocol").expect("a subprotocol");
        assert_eq!(agreed, encoding.subprotocol());
        Client::upgraded(socket, encoding).await
    }

    /// A client over this stream. `None` if it is not let in.
    pub(crate) async fn over(stream: TcpStream, request: HttpRequest, encoding: Encoding) -> Option<Client> {
        let stream = MaybeTlsStream::Plain(stream);
        let upgraded = tokio_tungstenite::client_async(request, stream);
        let (socket, _) = tokio::time::timeout(TIMEOUT, upgraded).await.expect("in time").ok()?;
        Some(Client::upgraded(socket, encoding).await)
    }

    async fn upgraded(socket: WebSocketStream<MaybeTlsStream<TcpStream>>, encoding: Encoding) -> Client {
        let hello = Hello {
            cluster: "".into(),
            node: "".into(),
            version: "".into(),
            protocol: 0,
            minor: 0,
            durability: Durability { replicas: 0, fsync: "".into() },
            limits: Default::default(),
            time: Timestamp(0),
        };
        let mut client = Client { socket, encoding, hello };
        let first = client.frame().await;
        match ServerFrame::read(encoding, &first).expect("readable") {
            ServerFrame::Hello(hello) => client.hello = *hello,
            other => panic!("the first frame is {other:?}"),
        }
        client
    }

    /// Sends a request.
    pub(crate) async fn send(&mut self, id: u64, op: Op, body: Value) {
        let rid = op.changes().then(|| format!("r{id}"));
        self.send_frame(&self.request(id, op, rid.as_deref(), None, &body)).await;
    }

    /// A request's frame.
    pub(crate) fn request(
        &self,
        id: u64,
        op: Op,
        rid: Option<&str>,
        deadline_ms: Option<u64>,
        body: &Value,
    ) -> Vec<u8> {
        let mut out = BytesMut::new();
        reply::request(self.encoding, &mut out, id, op, rid, deadline_ms, body);
        out.to_vec()
    }

    /// A value as a frame.
    pub(crate) fn encoded(&self, value: &Value) -> Vec<u8> {
        match self.encoding {
            Encoding::Json => serde_json::to_vec(value).expect("JSON"),
            Encoding::MsgPack => rmp_serde::to_vec_named(value).expect("MessagePack"),
        }
    }

    /// Sends these bytes as a frame of the right type.
    pub(crate) async fn send_frame(&mut self, frame: &[u8]) {
        let message = self.message(frame);
        self.socket.send(message).await.expect("sent");
    }

    pub(crate) fn message(&self, frame: &[u8]) -> Message {
        match self.encoding {
            Encoding::Json => Message::Text(str::from_utf8(frame).expect("UTF-8").into()),
            Encoding::MsgPack => Message::Binary(Bytes::copy_from_slice(frame)),
        }
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Received {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.socket.next()).await.expect("something comes");
            return match next {
                Some(Ok(Message::Text(frame))) => Received::Frame(frame.into()),
                Some(Ok(Message::Binary(frame))) => Received::Frame(frame),
                Some(Ok(Message::Close(Some(close)))) => Received::Closed(close.code.into(), close.reason.to_string()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(None) | Message::Frame(_))) | Some(Err(_)) | None => Received::Broken,
            };
        }
    }

    /// The next frame.
    pub(crate) async fn frame(&mut self) -> Bytes {
        match self.next().await {
            Received::Frame(frame) => frame,
            other => panic!("not a frame: {other:?}"),
        }
    }

    /// The code of the next close.
    pub(crate) async fn close_code(&mut self) -> u16 {
        match self.next().await {
            Received::Closed(code, _) => code,
            other => panic!("not a close: {other:?}"),
        }
    }

    /// The next answer.
    pub(crate) async fn answer<T: FromBody>(&mut self) -> (Option<u64>, Reply<T>) {
        let frame = self.frame().await;
        match ServerFrame::read(self.encoding, &frame).expect("readable") {
            ServerFrame::Answer(id, verdict, _) => (id, verdict.read(self.encoding).expect("readable")),
            other => panic!("not an answer: {other:?}"),
        }
    }

    /// The leader in the next answer.
    pub(crate) async fn leader(&mut self) -> Leader {
        let frame = self.frame().await;
        match ServerFrame::read(self.encoding, &frame).expect("readable") {
            ServerFrame::Answer(_, _, leader) => leader,
            other => panic!("not an answer: {other:?}"),
        }
    }

    /// The id and code of the next refusal or failure. 0 for an ok.
    pub(crate) async fn code(&mut self) -> (Option<u64>, u16) {
        let (id, reply) = self.answer::<()>().await;
        match reply {
            Reply::Ok((), _) => (id, 0),
            Reply::No(no) => (id, no.code),
            Reply::Fail(fail) => (id, fail.kind.code()),
        }
    }

    /// The next event of a session's feed.
    pub(crate) async fn event(&mut self) -> (u64, Event) {
        self.event_of::<Snapshot>().await
    }

    /// The next event of another entity's feed.
    pub(crate) async fn event_of<S: SnapshotBody>(&mut self) -> (u64, Event<S>) {
        let frame = self.frame().await;
        match ServerFrame::read(self.encoding, &frame).expect("readable") {
            ServerFrame::Feed(feed, event) => (feed, event.read(self.encoding).expect("readable")),
            other => panic!("not of a feed: {other:?}"),
        }
    }

    /// Sends a request that is answered at once.
    pub(crate) async fn is_alive(&mut self) {
        self.send(999, Op::CartOpen, json!({"token": token(9)})).await;
        assert_eq!(self.code().await, (Some(999), 0));
    }

    /// Whether the connection is still there.
    pub(crate) async fn still_answers(&mut self) -> bool {
        let rid = Some("alive");
        let frame = self.request(998, Op::CartOpen, rid, None, &json!({"token": token(9)}));
        let message = self.message(&frame);
        if self.socket.send(message).await.is_err() {
            return false;
        }
        loop {
            match self.next().await {
                Received::Frame(frame) => {
                    let read = ServerFrame::read(self.encoding, &frame).expect("readable");
                    if matches!(read, ServerFrame::Answer(Some(998), ..)) {
                        return true;
                    }
                }
                Received::Closed(..) | Received::Broken => return false,
            }
        }
    }

    /// The stream below the WebSocket.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        match self.socket.get_mut() {
            MaybeTlsStream::Plain(stream) => stream,
            _ => panic!("no TLS here"),
        }
    }
}

/// An upgrade request.
pub(crate) fn request(address: SocketAddr, subprotocol: &str, headers: &[(&str, &str)]) -> HttpRequest {
    let mut request = format!("ws://{address}/v1/ws").into_client_request().expect("a request");
    let subprotocol = HeaderValue::from_str(subprotocol).expect("a header");
    request.headers_mut().insert("sec-websocket-protocol", subprotocol);
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        request.headers_mut().insert(name, HeaderValue::from_str(value).expect("a header"));
    }
    request
}

/// The status with which an upgrade is refused.
pub(crate) async fn refused(request: HttpRequest) -> u16 {
    match tokio_tungstenite::connect_async(request).await {
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Ok(_) => panic!("the upgrade was accepted"),
        Err(error) => panic!("{error}"),
    }
}

/// Runs a test for each encoding.
pub(crate) async fn in_both<F: Future<Output = ()>>(mut test: impl FnMut(Encoding) -> F) {
    for encoding in Encoding::ALL {
        test(encoding).await;
    }
}

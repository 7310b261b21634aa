//! A client of the WebSocket protocol, independent of the client library.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::{Mutex, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::{
    client_async_with_config,
    tungstenite::{ClientRequestBuilder, Message, protocol::WebSocketConfig},
};

use super::{
    ADMIN, TIMEOUT,
    pack::{pack, unpack},
};

/// The code of a node that has too much to do.
const BUSY: u64 = 901;

/// The encoding of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    MsgPack,
}

impl Encoding {
    pub(crate) const BOTH: [Encoding; 2] = [Encoding::Json, Encoding::MsgPack];

    fn subprotocol(self) -> &'static str {
        match self {
            Encoding::Json => "boxoffice.v1.json",
            Encoding::MsgPack => "boxoffice.v1.msgpack",
        }
    }

    pub(crate) fn message(self, frame: &Value) -> Message {
        match self {
            Encoding::Json => Message::text(frame.to_string()),
            Encoding::MsgPack => Message::binary(pack(frame)),
        }
    }

    /// A message with these raw bytes.
    pub(crate) fn raw(self, bytes: &[u8]) -> Message {
        match self {
            Encoding::Json => Message::text(String::from_utf8(bytes.to_owned()).expect("text frames are UTF-8")),
            Encoding::MsgPack => Message::binary(bytes.to_owned()),
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Granted: the body, and versions by entity.
    Ok(Value, BTreeMap<String, u64>),
    No(No),
    /// Failed: the code.
    Fail(u64),
    /// The connection broke or no answer came. The outcome is unknown.
    Gone,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct No {
    pub(crate) code: u64,
    pub(crate) name: String,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn read(frame: &Value) -> Answer {
        if let Some(body) = frame.get("ok") {
            let versions = frame["at"].as_array().into_iter().flatten();
            let version = |at: &Value| {
                (at["entity"].as_str().expect("an entity").to_owned(), at["version"].as_u64().expect("a version"))
            };
            return Answer::Ok(body.clone(), versions.map(version).collect());
        }
        if let Some(no) = frame.get("no") {
            let code = no["code"].as_u64().expect("a refusal has a code");
            let name = no["name"].as_str().expect("a refusal has a name").to_owned();
            assert!(
                no["message"].as_str().is_some_and(|message| !message.is_empty()),
                "a refusal without a message: {no}"
            );
            return Answer::No(No { code, name, body: no.clone() });
        }
        let fail = frame.get("fail").unwrap_or_else(|| panic!("an answer is ok, no or fail: {frame}"));
        Answer::Fail(fail["code"].as_u64().expect("a failure has a code"))
    }

    /// The body of an ok.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        match self {
            Answer::Ok(body, _) => body,
            Answer::No(no) => panic!("refused: {}", no.body),
            Answer::Fail(code) => panic!("failed with {code}"),
            Answer::Gone => panic!("the connection is gone"),
        }
    }

    /// The body of a refusal with this code and name.
    #[track_caller]
    pub(crate) fn no(self, code: u64, name: &str) -> Value {
        match self {
            Answer::No(no) => {
                assert_eq!((no.code, no.name.as_str()), (code, name), "{}", no.body);
                no.body
            }
            other => panic!("expected a refusal with {code} {name}: {other:?}"),
        }
    }

    /// Whether the outcome is unknown.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Answer::Gone | Answer::Fail(902 | 906))
    }
}

/// Pending answers, by request number.
type Waiting = Arc<Mutex<BTreeMap<u64, oneshot::Sender<Value>>>>;

/// One connection. It supports concurrent requests.
pub(crate) struct Port {
    encoding: Encoding,
    out: mpsc::UnboundedSender<Message>,
    waiting: Waiting,
    next: AtomicU64,
    pub(crate) hello: Value,
    /// Frames that answer no request: feeds, notices, and refusals of unreadable frames.
    others: Mutex<mpsc::UnboundedReceiver<Value>>,
    /// The close code once the connection is closed. 0 if there was none.
    closed: watch::Receiver<Option<u16>>,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
    }
}

impl Port {
    /// Connects as an operator.
    pub(crate) async fn connect(address: SocketAddr, encoding: Encoding) -> Port {
        Port::try_connect(address, encoding)
            .await
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// The same, with an error if the connection fails.
    pub(crate) async fn try_connect(address: SocketAddr, encoding: Encoding) -> Result<Port, String> {
        Port::show(address, encoding, Some(ADMIN)).await
    }

    /// Connects without credentials.
    pub(crate) async fn guest(address: SocketAddr, encoding: Encoding) -> Port {
        let connected = Port::show(address, encoding, None).await;
        connected.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// Connects with this key or token. Fails if there is no node or the node refuses the token.
    pub(crate) async fn show(address: SocketAddr, encoding: Encoding, token: Option<&str>) -> Result<Port, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        Port::over(stream, encoding, token).await
    }

    /// The same over an open stream.
    pub(crate) async fn over(stream: TcpStream, encoding: Encoding, token: Option<&str>) -> Result<Port, String> {
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let address = stream.peer_addr().map_err(|error| error.to_string())?;
        let uri = format!("ws://{address}/v1/ws").parse().expect("a good address");
        let mut request = ClientRequestBuilder::new(uri).with_sub_protocol(encoding.subprotocol());
        if let Some(token) = token {
            request = request.with_header("authorization", format!("Bearer {token}"));
        }
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let handshake = client_async_with_config(request, stream, Some(config));
        let (socket, response) = timeout(TIMEOUT, handshake)
            .await
            .map_err(|_| "no handshake in time".to_owned())?
            .map_err(|error| error.to_string())?;
        let chosen = response.headers().get("sec-websocket-protocol").map(|chosen| chosen.as_bytes());
        assert_eq!(chosen, Some(encoding.subprotocol().as_bytes()));

        let (mut sink, mut frames) = socket.split();
        let (out, mut out_queue) = mpsc::unbounded_channel::<Message>();
        let (other, others) = mpsc::unbounded_channel();
        let (close, closed) = watch::channel(None);
        let waiting = Waiting::default();
        let writer = tokio::spawn(async move {
            while let Some(message) = out_queue.recv().await {
                // The reader notices a closed connection.
                if sink.feed(message).await.is_err() || (out_queue.is_empty() && sink.flush().await.is_err()) {
                    break;
                }
            }
        });
        let answers = Arc::clone(&waiting);
        let (greet, greeting) = oneshot::channel();
        let reader = tokio::spawn(async move {
            let mut greet = Some(greet);
            let mut code = 0;
            while let Some(Ok(message)) = frames.next().await {
                let frame = match message {
                    Message::Text(text) => {
                        assert_eq!(encoding, Encoding::Json, "a text frame in MessagePack");
                        serde_json::from_str(&text).expect("the server's JSON is JSON")
                    }
                    Message::Binary(bytes) => {
                        assert_eq!(encoding, Encoding::MsgPack, "a binary frame in JSON");
                        unpack(&bytes)
                    }
                    Message::Close(farewell) => {
                        code = farewell.map_or(0, |farewell| farewell.code.into());
                        break;
                    }
                    Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
                };
                if let Some(greet) = greet.take() {
                    // The connecting task may have given up.
                    let _ = greet.send(frame);
                    continue;
                }
                let asker = match frame["id"].as_u64() {
                    Some(id) => answers.lock().await.remove(&id),
                    None => None,
                };
                match asker {
                    Some(asker) => drop(asker.send(frame)),
                    None => drop(other.send(frame)),
                }
            }
            close.send_replace(Some(code));
            answers.lock().await.clear();
        });
        let greeted = timeout(TIMEOUT, greeting).await.map_err(|_| "no hello in time".to_owned())?;
        let hello = greeted.map_err(|_| "closed before the hello".to_owned())?;
        let others = Mutex::new(others);
        let next = AtomicU64::new(1);
        Ok(Port { encoding, out, waiting, next, hello: hello["hello"].clone(), others, closed, reader, writer })
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Sends a request, and waits for the answer. Asks again while the node is busy, as clients do, since tests share a machine.
    pub(crate) async fn ask(&self, op: &str, rid: &str, body: Value) -> Answer {
        self.unless_busy(json!({"op": op, "rid": rid, "deadline_ms": TIMEOUT.as_millis() as u64, "body": body})).await
    }

    /// Sends a frame until the node is not busy.
    async fn unless_busy(&self, frame: Value) -> Answer {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let answer = self.frame(frame.clone()).await;
            if answer != Answer::Fail(BUSY) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{} was busy for {TIMEOUT:?}", frame["op"]);
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends a request once, even if the node is busy.
    pub(crate) async fn ask_once(&self, op: &str, rid: &str, body: Value) -> Answer {
        self.ask_within(op, rid, body, TIMEOUT).await
    }

    /// Sends a read. Asks again while the node is busy.
    pub(crate) async fn read(&self, op: &str, body: Value) -> Answer {
        self.unless_busy(json!({"op": op, "body": body})).await
    }

    /// Sends a read once, even if the node is busy.
    pub(crate) async fn read_once(&self, op: &str, body: Value) -> Answer {
        self.frame(json!({"op": op, "body": body})).await
    }

    /// Sends a request, and waits for the answer for this long.
    pub(crate) async fn ask_within(&self, op: &str, rid: &str, body: Value, limit: Duration) -> Answer {
        let deadline_ms = limit.as_millis() as u64;
        self.exchange(json!({"op": op, "rid": rid, "deadline_ms": deadline_ms, "body": body}), limit).await
    }

    /// Sends a frame, with a number if it has none, and waits for its answer.
    pub(crate) async fn frame(&self, frame: Value) -> Answer {
        self.exchange(frame, TIMEOUT).await
    }

    /// Sends a frame and waits for the whole frame that answers it.
    pub(crate) async fn exchange_whole(&self, frame: Value) -> Value {
        self.answer_to(frame, TIMEOUT).await.expect("an answer")
    }

    /// The same. `None` if there is no answer.
    pub(crate) async fn try_exchange(&self, frame: Value) -> Option<Value> {
        self.answer_to(frame, TIMEOUT).await
    }

    /// Sends a frame and waits for its answer for this long.
    pub(crate) async fn exchange(&self, frame: Value, limit: Duration) -> Answer {
        self.answer_to(frame, limit).await.map_or(Answer::Gone, |answer| Answer::read(&answer))
    }

    async fn answer_to(&self, mut frame: Value, limit: Duration) -> Option<Value> {
        let id = frame["id"].as_u64().unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
        frame["id"] = id.into();
        let (sender, mut receiver) = oneshot::channel();
        self.waiting.lock().await.insert(id, sender);
        self.send(self.encoding.message(&frame));
        if self.closed.borrow().is_some() {
            // The answer may have come before the close.
            println!("{} {id}: the connection was closed before with {:?}", frame["op"], *self.closed.borrow());
            return receiver.try_recv().ok();
        }
        match timeout(limit, &mut receiver).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(_)) => {
                println!("{} {id}: the connection was closed with {:?}", frame["op"], *self.closed.borrow());
                None
            }
            Err(_) => {
                println!("{} {id}: no answer within {limit:?}", frame["op"]);
                self.waiting.lock().await.remove(&id);
                None
            }
        }
    }

    /// Sends a raw message.
    pub(crate) fn send(&self, message: Message) {
        // If the connection is closed, the tasks that wait for an answer notice.
        let _ = self.out.send(message);
    }

    /// The next frame that answers no request.
    pub(crate) async fn other(&self) -> Value {
        let mut others = self.others.lock().await;
        let frame = timeout(TIMEOUT, others.recv()).await.expect("a frame in time");
        frame.unwrap_or_else(|| panic!("the connection was closed with {:?}", *self.closed.borrow()))
    }

    /// The next frame that answers no request, without a time limit. `None` once the connection is closed.
    pub(crate) async fn next_other(&self) -> Option<Value> {
        self.others.lock().await.recv().await
    }

    /// Every frame that answered no request, until the connection was closed.
    pub(crate) async fn others(&self) -> Vec<Value> {
        let mut others = self.others.lock().await;
        let mut frames = Vec::new();
        while let Some(frame) = timeout(TIMEOUT, others.recv()).await.expect("the server closes in time") {
            frames.push(frame);
        }
        frames
    }

    /// The refusal of an invalid frame: without a number, or with the frame's own.
    pub(crate) async fn refusal_of_a_frame(&self) -> Value {
        let frame = self.other().await;
        assert!(frame.get("no").is_some(), "{frame}");
        frame
    }

    /// The close code of this connection. 0 if it ended without one.
    pub(crate) async fn closed(&self) -> u16 {
        let mut closed = self.closed.clone();
        let code = timeout(TIMEOUT, closed.wait_for(Option::is_some)).await.expect("the server closes in time");
        code.expect("the reader says how it ended").expect("closed")
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }
}

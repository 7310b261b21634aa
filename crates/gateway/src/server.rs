//! The door: requests in, and out whatever the plan says, which may be nothing.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_core::payment::{PaymentKey, PaymentStep, SOURCE_BYTES_MAX};
use boxoffice_wire::payment::{GATEWAY_BODY_BYTES_MAX, IDEMPOTENCY_KEY, StepKey};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use crate::{
    ledger::{Ledger, LedgerView, Reply, Shares, Turn, Wish},
    plan::Rubbish,
    webhooks::Teller,
};

/// Connections at the same time; those that come then wait to be accepted.
const CONNECTIONS_MAX: usize = 4_096;

/// How long a head may take to arrive.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait when the process has no descriptors left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How the gateway is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What must be shown as `Authorization: Bearer`, if anything.
    pub api_key: Option<String>,
    /// Who is told of what was decided late.
    pub webhook: Option<Webhook>,
    /// How it misbehaves towards charges whose source is `ok`.
    pub shares: Shares,
    /// How long every answer waits, in milliseconds.
    pub delay_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            api_key: None,
            webhook: None,
            shares: Shares::default(),
            delay_ms: 0,
        }
    }
}

/// Who is told, and the secret that proves who tells.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Where it is posted to; `http` only.
    pub url: Uri,
    /// What it is signed with.
    pub secret: String,
}

/// The gateway, bound to its address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A look into a gateway's ledger.
#[derive(Clone)]
pub struct LedgerHandle(Arc<Shared>);

impl LedgerHandle {
    /// As it stands.
    pub fn view(&self) -> LedgerView {
        self.0.view()
    }
}

struct Shared {
    settings: Settings,
    ledger: Mutex<Ledger>,
    teller: Teller,
    connections: AtomicU64,
}

/// The connection is to be dropped without an answer.
#[derive(Debug, thiserror::Error)]
#[error("dropped as asked")]
struct Dropped;

type Answer = Response<Full<Bytes>>;

impl Server {
    /// Binds the address; nobody is answered before [`Server::run`].
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn bind(settings: Settings) -> io::Result<Server> {
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let shared = Shared {
            ledger: Mutex::new(Ledger::new(settings.shares)),
            teller: Teller::new(settings.webhook.clone()),
            connections: AtomicU64::new(0),
            settings,
        };
        Ok(Server { listener, address, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A look into its ledger, also while it runs and after.
    pub fn ledger(&self) -> LedgerHandle {
        LedgerHandle(Arc::clone(&self.shared))
    }

    /// Answers until `stop` is ready; whoever is connected then is dropped.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
                (place, self.listener.accept().await)
            };
            tokio::select! {
                () = &mut stop => return,
                // What is over is forgotten at once.
                Some(_) = connections.join_next() => {}
                (place, accepted) = accepted => match accepted {
                    Ok((stream, _)) => {
                        let shared = Arc::clone(&self.shared);
                        connections.spawn(async move {
                            serve(shared, stream).await;
                            drop(place);
                        });
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
                },
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    shared.connections.fetch_add(1, Ordering::Relaxed);
    // Without it an answer only waits longer.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { shared.answer(request).await }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
    // A connection that breaks, or is dropped as asked, is nobody's news.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    fn view(&self) -> LedgerView {
        self.ledger.lock().view(self.connections.load(Ordering::Relaxed))
    }

    async fn answer(self: &Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Dropped> {
        if !self.is_welcome(&request) {
            return Ok(refusal(StatusCode::UNAUTHORIZED, "this is not the key"));
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/ledger") => Ok(json(StatusCode::OK, &self.view())),
            (&Method::GET, path) => Ok(self.authorization(path)),
            (&Method::POST, _) => match wish(request).await {
                Ok(wish) => self.turn(wish).await,
                Err(refusal) => Ok(*refusal),
            },
            (_, _) => Ok(refusal(StatusCode::METHOD_NOT_ALLOWED, "GET or POST")),
        }
    }

    fn is_welcome<T>(&self, request: &Request<T>) -> bool {
        self.settings.api_key.as_ref().is_none_or(|key| {
            request
                .headers()
                .get(AUTHORIZATION)
                .is_some_and(|shown| shown.as_bytes() == format!("Bearer {key}").as_bytes())
        })
    }

    fn authorization(&self, path: &str) -> Answer {
        let key = path.strip_prefix("/authorizations/").and_then(|key| key.parse::<PaymentKey>().ok());
        match key.and_then(|key| self.ledger.lock().authorization(key)) {
            Some(Reply::Answer(answer)) => json(StatusCode::OK, &answer),
            Some(_) => json(StatusCode::ACCEPTED, &serde_json::json!({"status": "pending"})),
            None => refusal(StatusCode::NOT_FOUND, "it was never asked for"),
        }
    }

    async fn turn(self: &Arc<Shared>, wish: Wish) -> Result<Answer, Dropped> {
        let key = wish.key();
        let Turn { reply, delay_ms, decide_in_ms, tell } = self.ledger.lock().ask(wish);
        if let Some(late_ms) = decide_in_ms {
            tokio::spawn(Arc::clone(self).decide_later(key, late_ms));
        }
        if let Some(answer) = tell {
            let shared = Arc::clone(self);
            tokio::spawn(async move { shared.teller.tell(key, answer, 2).await });
        }
        let delay_ms = delay_ms.saturating_add(self.settings.delay_ms);
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        match reply {
            Reply::Answer(answer) => Ok(json(StatusCode::OK, &answer)),
            Reply::Pending => Ok(json(StatusCode::ACCEPTED, &serde_json::json!({"status": "pending"}))),
            Reply::Error => Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, "as asked")),
            Reply::Conflict => Ok(refusal(StatusCode::CONFLICT, "this key was used for something else")),
            Reply::Full => Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, "the ledger is full")),
            Reply::Rubbish(kind) => Ok(rubbish(kind)),
            Reply::Nothing => Err(Dropped),
            Reply::Never => Ok(std::future::pending::<Answer>().await),
        }
    }

    async fn decide_later(self: Arc<Shared>, key: StepKey, late_ms: u64) {
        tokio::time::sleep(Duration::from_millis(late_ms)).await;
        let text = key.to_string();
        let (answer, times) = {
            let mut ledger = self.ledger.lock();
            (ledger.decide(&text), 1 + u32::from(ledger.is_told_twice(&text)))
        };
        self.teller.tell(key, answer, times).await;
    }
}

/// What a request asks for, or what is wrong with it.
async fn wish(request: Request<Incoming>) -> Result<Wish, Box<Answer>> {
    let (head, body) = request.into_parts();
    let bad = |why: String| Box::new(refusal(StatusCode::BAD_REQUEST, &why));
    if !head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        return Err(Box::new(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is application/json")));
    }
    let body = Limited::new(body, GATEWAY_BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Box::new(refusal(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string())))?.to_bytes();
    let wish = match head.uri.path() {
        "/authorizations" => Wish::Authorize(read(&body)?),
        "/captures" => Wish::Capture(read(&body)?),
        "/voids" => Wish::Void(read(&body)?),
        "/refunds" => Wish::Refund(read(&body)?),
        _ => return Err(Box::new(refusal(StatusCode::NOT_FOUND, "there is nothing here"))),
    };
    let key = wish.key();
    let (fits, authorization) = match &wish {
        Wish::Authorize(body) => {
            if body.amount.amount <= 0 || body.source.len() > SOURCE_BYTES_MAX {
                return Err(bad(format!("amount is positive, and source has at most {SOURCE_BYTES_MAX} bytes")));
            }
            (key.step == PaymentStep::Authorize, key.attempt)
        }
        Wish::Capture(body) => (key.step == PaymentStep::Capture, body.authorization),
        Wish::Void(body) => (key.step == PaymentStep::Void, body.authorization),
        Wish::Refund(body) => (matches!(key.step, PaymentStep::Refund(_)), body.authorization),
    };
    if !fits || authorization != key.attempt {
        return Err(bad(format!("the key {key} does not belong to this")));
    }
    let shown = head.headers.get(IDEMPOTENCY_KEY).and_then(|shown| shown.to_str().ok());
    if shown != Some(key.to_string().as_str()) {
        return Err(bad("the header Idempotency-Key is not the key of the body".to_owned()));
    }
    Ok(wish)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Box<Answer>> {
    serde_json::from_slice(body).map_err(|error| Box::new(refusal(StatusCode::BAD_REQUEST, &error.to_string())))
}

fn rubbish(kind: Rubbish) -> Answer {
    let body = match kind {
        Rubbish::Garbage => Bytes::from_static(b"<html>It works!</html>"),
        Rubbish::Huge => {
            let padding = "x".repeat(4 * GATEWAY_BODY_BYTES_MAX);
            Bytes::from(format!(r#"{{"status":"declined","reason":"{padding}"}}"#))
        }
    };
    written(StatusCode::OK, body)
}

fn refusal(status: StatusCode, why: &str) -> Answer {
    json(status, &serde_json::json!({ "error": why }))
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    written(status, Bytes::from(serde_json::to_vec(value).expect("what we answer is JSON")))
}

fn written(status: StatusCode, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    response
}

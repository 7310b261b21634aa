//! The HTTP server. It answers each request as the charge's plan says. That may be no answer at all.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use boxoffice_core::payment::{PaymentKey, PaymentStep, SOURCE_BYTES_MAX};
use boxoffice_wire::{
    payment::{GATEWAY_BODY_BYTES_MAX, IDEMPOTENCY_KEY, LIST_PAGE_MAX, LIST_PATH, StepBody, StepKey},
    repr::timestamp,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    ledger::{Effects, FaultRates, Ledger, LedgerView, Reply},
    plan::MalformedBody,
    webhooks::{Webhook, WebhookSender},
};

/// Concurrent connections. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 4_096;

/// How long the head of a request may take to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after a failed accept, when the process has no file descriptors left.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

/// The configuration of the gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on. Port 0 takes a free port.
    pub listen: SocketAddr,
    /// The key that clients must send as `Authorization: Bearer`, if any.
    pub api_key: Option<String>,
    /// The receiver of webhooks, which report late answers.
    pub webhook: Option<Webhook>,
    pub rates: FaultRates,
    /// The delay of every answer, in milliseconds.
    pub delay_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            api_key: None,
            webhook: None,
            rates: FaultRates::default(),
            delay_ms: 0,
        }
    }
}

/// A gateway that is bound to its address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A handle to read a gateway's ledger.
#[derive(Clone)]
pub struct LedgerHandle(Arc<Shared>);

impl LedgerHandle {
    /// The current contents of the ledger.
    pub fn view(&self) -> LedgerView {
        self.0.view()
    }
}

struct Shared {
    settings: Settings,
    ledger: Mutex<Ledger>,
    webhooks: WebhookSender,
    connections: AtomicU64,
}

/// The connection is dropped without an answer.
#[derive(Debug, thiserror::Error)]
#[error("dropped as asked")]
struct Dropped;

type Answer = Response<Full<Bytes>>;

impl Server {
    /// Binds the address. No request is answered before [`Server::run`].
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind(settings: Settings) -> io::Result<Server> {
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let shared = Shared {
            ledger: Mutex::new(Ledger::new(settings.rates)),
            webhooks: WebhookSender::new(settings.webhook.clone()),
            connections: AtomicU64::new(0),
            settings,
        };
        Ok(Server { listener, address, shared: Arc::new(shared) })
    }

    /// The address on which the gateway listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle to the ledger. It also works while the gateway runs and after.
    pub fn ledger(&self) -> LedgerHandle {
        LedgerHandle(Arc::clone(&self.shared))
    }

    /// Answers requests until `stop` is ready. Then it drops all connections.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let accepted = async {
                let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
                (permit, self.listener.accept().await)
            };
            tokio::select! {
                () = &mut stop => return,
                // Removes finished tasks.
                Some(_) = connections.join_next() => {}
                (permit, accepted) = accepted => match accepted {
                    Ok((stream, _)) => {
                        let shared = Arc::clone(&self.shared);
                        connections.spawn(async move {
                            serve(shared, stream).await;
                            drop(permit);
                        });
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY_AFTER).await,
                },
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    shared.connections.fetch_add(1, Ordering::Relaxed);
    // If this fails, answers are only slower.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { shared.handle(request).await }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    // A connection that breaks or is dropped as planned is not an error of the gateway.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    fn view(&self) -> LedgerView {
        self.ledger.lock().view(self.connections.load(Ordering::Relaxed))
    }

    async fn handle(self: &Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Dropped> {
        if !self.is_authorized(&request) {
            return Ok(error(StatusCode::UNAUTHORIZED, "the API key is missing or wrong"));
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/ledger") => Ok(json(StatusCode::OK, &self.view())),
            (&Method::GET, LIST_PATH) => Ok(self.list(request.uri().query().unwrap_or_default())),
            (&Method::GET, path) => Ok(self.authorization(path)),
            (&Method::POST, _) => match parse_operation(request).await {
                Ok(operation) => self.handle_operation(operation).await,
                Err(error) => Ok(*error),
            },
            (_, _) => Ok(error(StatusCode::METHOD_NOT_ALLOWED, "use GET or POST")),
        }
    }

    fn is_authorized<T>(&self, request: &Request<T>) -> bool {
        self.settings.api_key.as_ref().is_none_or(|key| {
            request
                .headers()
                .get(AUTHORIZATION)
                .is_some_and(|sent| sent.as_bytes() == format!("Bearer {key}").as_bytes())
        })
    }

    /// A page of the list of authorizations.
    fn list(&self, query: &str) -> Answer {
        let (mut since_ms, mut after, mut limit) = (0, None, LIST_PAGE_MAX);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let is_known = match &*name {
                "since" => timestamp(&value).map(|at| since_ms = at.0),
                "after" => value.parse::<PaymentKey>().ok().map(|key| after = Some(key)),
                "limit" => value.parse::<usize>().ok().map(|number| limit = number.clamp(1, LIST_PAGE_MAX)),
                _ => None,
            };
            if is_known.is_none() {
                return error(StatusCode::BAD_REQUEST, "the list has `since`, a time, `after`, a key, and `limit`");
            }
        }
        json(StatusCode::OK, &self.ledger.lock().page(since_ms, after, limit))
    }

    fn authorization(&self, path: &str) -> Answer {
        let key = path.strip_prefix("/authorizations/").and_then(|key| key.parse::<PaymentKey>().ok());
        match key.and_then(|key| self.ledger.lock().authorization(key)) {
            Some(Reply::Answer(answer)) => json(StatusCode::OK, &answer),
            Some(_) => json(StatusCode::ACCEPTED, &serde_json::json!({"status": "pending"})),
            None => error(StatusCode::NOT_FOUND, "this authorization was never requested"),
        }
    }

    async fn handle_operation(self: &Arc<Shared>, operation: StepBody) -> Result<Answer, Dropped> {
        let key = operation.key();
        let Effects { reply, delay_ms, decide_in_ms, notify_twice } = self.ledger.lock().handle(operation, now_ms());
        if let Some(late_ms) = decide_in_ms {
            tokio::spawn(Arc::clone(self).decide_later(key, late_ms));
        }
        if let Some(answer) = notify_twice {
            let shared = Arc::clone(self);
            tokio::spawn(async move { shared.webhooks.notify(key, answer, 2).await });
        }
        let delay_ms = delay_ms.saturating_add(self.settings.delay_ms);
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        match reply {
            Reply::Answer(answer) => Ok(json(StatusCode::OK, &answer)),
            Reply::Pending => Ok(json(StatusCode::ACCEPTED, &serde_json::json!({"status": "pending"}))),
            Reply::Error => Ok(error(StatusCode::INTERNAL_SERVER_ERROR, "the source asked for this error")),
            Reply::Conflict => Ok(error(StatusCode::CONFLICT, "the key was used before with another body")),
            Reply::LedgerFull => Ok(error(StatusCode::SERVICE_UNAVAILABLE, "the ledger is full; restart the gateway")),
            Reply::Malformed(body) => Ok(malformed(body)),
            Reply::Disconnect => Err(Dropped),
            Reply::Hang => Ok(std::future::pending::<Answer>().await),
        }
    }

    async fn decide_later(self: Arc<Shared>, key: StepKey, late_ms: u64) {
        tokio::time::sleep(Duration::from_millis(late_ms)).await;
        let text = key.to_string();
        let (answer, times) = {
            let mut ledger = self.ledger.lock();
            (ledger.decide(&text), 1 + u32::from(ledger.notifies_twice(&text)))
        };
        self.webhooks.notify(key, answer, times).await;
    }
}

/// Reads and checks a request. The error is the answer to an invalid one.
async fn parse_operation(request: Request<Incoming>) -> Result<StepBody, Box<Answer>> {
    let (head, body) = request.into_parts();
    let bad_request = |message: String| Box::new(error(StatusCode::BAD_REQUEST, &message));
    if !head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        return Err(Box::new(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")));
    }
    let body = Limited::new(body, GATEWAY_BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|source| Box::new(error(StatusCode::PAYLOAD_TOO_LARGE, &source.to_string())))?.to_bytes();
    let operation = match head.uri.path() {
        "/authorizations" => StepBody::Authorize(parse(&body)?),
        "/captures" => StepBody::Capture(parse(&body)?),
        "/voids" => StepBody::Void(parse(&body)?),
        "/refunds" => StepBody::Refund(parse(&body)?),
        _ => return Err(Box::new(error(StatusCode::NOT_FOUND, "there is no such path"))),
    };
    let key = operation.key();
    let (is_right_step, authorization) = match &operation {
        StepBody::Authorize(body) => {
            if body.amount.amount <= 0 || body.source.len() > SOURCE_BYTES_MAX {
                return Err(bad_request(format!(
                    "the amount must be positive, and the source at most {SOURCE_BYTES_MAX} bytes long"
                )));
            }
            (key.step == PaymentStep::Authorize, key.attempt)
        }
        StepBody::Capture(body) => (key.step == PaymentStep::Capture, body.authorization),
        StepBody::Void(body) => (key.step == PaymentStep::Void, body.authorization),
        StepBody::Refund(body) => (matches!(key.step, PaymentStep::Refund(_)), body.authorization),
    };
    if !is_right_step || authorization != key.attempt {
        return Err(bad_request(format!("the key {key} does not belong to this operation")));
    }
    let header = head.headers.get(IDEMPOTENCY_KEY).and_then(|header| header.to_str().ok());
    if header != Some(key.to_string().as_str()) {
        return Err(bad_request("the header Idempotency-Key differs from the key in the body".to_owned()));
    }
    Ok(operation)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Box<Answer>> {
    serde_json::from_slice(body).map_err(|source| Box::new(error(StatusCode::BAD_REQUEST, &source.to_string())))
}

fn malformed(body: MalformedBody) -> Answer {
    let body = match body {
        MalformedBody::NotJson => Bytes::from_static(b"<html>It works!</html>"),
        MalformedBody::Huge => {
            let padding = "x".repeat(4 * GATEWAY_BODY_BYTES_MAX);
            Bytes::from(format!(r#"{{"status":"declined","reason":"{padding}"}}"#))
        }
    };
    response(StatusCode::OK, body)
}

/// Now, in milliseconds since 1970.
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn error(status: StatusCode, message: &str) -> Answer {
    json(status, &serde_json::json!({ "error": message }))
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    response(status, Bytes::from(serde_json::to_vec(value).expect("answers can be written as JSON")))
}

fn response(status: StatusCode, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    response
}

//! A client of several nodes. A request without an answer is repeated at another node, under the same request id.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use crate::common::{ADMIN, Answer, BuyerConnection, Encoding, Port, Rng, written};

/// Time limit of a connection attempt.
const CONNECT: Duration = Duration::from_millis(700);

/// Time limit of one node's answer before the client asks another node.
const TRY: Duration = Duration::from_millis(1_500);

/// How much later than its deadline an answer may come before the node counts as lost.
const LATE: Duration = Duration::from_millis(500);

/// Time limit of a buyer's request. Longer than elections take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// The pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(15);

/// The pause of a buyer between two carts. It leaves processor time for the rest.
const THINK_TIME: Duration = Duration::from_millis(20);

/// The addresses of the nodes, and statistics of requests.
pub(crate) struct Endpoints {
    addresses: Vec<SocketAddr>,
    /// Requests that were repeated because their outcome was unknown.
    repeated: AtomicU64,
    /// Requests whose outcome stays unknown.
    unknown: AtomicU64,
}

impl Endpoints {
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Arc<Endpoints> {
        Arc::new(Endpoints { addresses, repeated: AtomicU64::new(0), unknown: AtomicU64::new(0) })
    }

    pub(crate) fn repeated(&self) -> u64 {
        self.repeated.load(Relaxed)
    }
}

/// A client of all nodes. It stays with one node until that fails.
pub(crate) struct FailoverClient {
    endpoints: Arc<Endpoints>,
    encoding: Encoding,
    /// What it shows when it connects.
    token: Option<&'static str>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    at: usize,
    port: Option<Arc<Port>>,
}

impl FailoverClient {
    pub(crate) fn new(endpoints: &Arc<Endpoints>, encoding: Encoding, seed: u64) -> FailoverClient {
        let mut rng = Rng::new(seed);
        let at = rng.below(endpoints.addresses.len());
        let state = Mutex::new(State { rng, at, port: None });
        FailoverClient { endpoints: Arc::clone(endpoints), encoding, token: Some(ADMIN), state }
    }

    /// The same as a guest.
    pub(crate) fn without_credentials(self) -> FailoverClient {
        FailoverClient { token: None, ..self }
    }

    /// Switches to another node.
    pub(crate) async fn move_on(&self) {
        let mut state = self.state.lock().await;
        state.leave(self.endpoints.addresses.len());
    }

    /// Asks one node after the other until one answers.
    ///
    /// A refusal of a repeat is not final: an earlier attempt may still be running, so the outcome is unknown ([`Answer::Gone`]).
    pub(crate) async fn ask_within(&self, op: &str, rid: &str, body: Value, limit: Duration) -> Answer {
        let deadline = Instant::now() + limit;
        let mut may_have_happened = false;
        let mut last = Answer::Fail(903);
        while Instant::now() < deadline {
            let answer = self.ask_once(op, rid, &body, TRY.min(deadline - Instant::now())).await;
            match answer {
                Answer::Ok(..) => return answer,
                // The request is still running, at the node or at the gateway.
                Answer::No(ref no) if matches!(no.code, 106 | 602) => may_have_happened = true,
                // The outcome of a payment is kept under its request id, so it is final.
                Answer::No(ref no) if matches!(no.code, 601 | 603) => return answer,
                Answer::No(_) if may_have_happened => break,
                Answer::No(_) => return answer,
                Answer::Gone | Answer::Fail(902 | 906) => may_have_happened = true,
                Answer::Fail(_) => last = answer,
            }
            self.endpoints.repeated.fetch_add(u64::from(may_have_happened), Relaxed);
            self.move_on().await;
            sleep(PAUSE).await;
        }
        if may_have_happened {
            self.endpoints.unknown.fetch_add(1, Relaxed);
            return Answer::Gone;
        }
        last
    }

    /// Asks one node once. If the connection fails, the node has not received the request.
    async fn ask_once(&self, op: &str, rid: &str, body: &Value, limit: Duration) -> Answer {
        let Some(port) = self.port().await else { return Answer::Fail(903) };
        let deadline_ms = limit.as_millis().max(1) as u64;
        let frame = json!({"op": op, "rid": rid, "deadline_ms": deadline_ms, "body": written(self.encoding, body)});
        port.exchange(frame, limit + LATE).await
    }

    async fn port(&self) -> Option<Arc<Port>> {
        let mut state = self.state.lock().await;
        if let Some(port) = state.port.as_ref().filter(|port| !port.is_closed()) {
            return Some(Arc::clone(port));
        }
        let address = self.endpoints.addresses[state.at];
        let port = timeout(CONNECT, Port::show(address, self.encoding, self.token)).await.ok()?.ok()?;
        let port = Arc::new(port);
        state.port = Some(Arc::clone(&port));
        Some(port)
    }
}

impl BuyerConnection for FailoverClient {
    fn ask<'a>(
        &'a self,
        op: &'a str,
        rid: &'a str,
        body: Value,
        limit: Duration,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move {
            // Some buyers switch nodes without a fault.
            if self.state.lock().await.rng.percent(5) {
                self.move_on().await;
            }
            self.ask_within(op, rid, body, limit.min(REQUEST_TIMEOUT)).await
        })
    }

    fn is_closed(&self) -> bool {
        false
    }

    fn pause(&self) -> Duration {
        THINK_TIME
    }
}

impl State {
    fn leave(&mut self, nodes: usize) {
        self.port = None;
        self.at = (self.at + 1 + self.rng.below(nodes.max(2) - 1)) % nodes;
    }
}

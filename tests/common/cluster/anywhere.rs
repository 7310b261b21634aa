//! A way in at any of several nodes: what one does not answer is repeated at another, under the same request id.

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

use crate::common::{Answer, Dice, Encoding, Port, Till, written};

/// How long a node may take to let one in.
const KNOCK: Duration = Duration::from_millis(700);

/// How long a node may take to answer before another is asked.
const TRY: Duration = Duration::from_millis(1_500);

/// How much later than its deadline an answer may come before the node counts as lost.
const LATE: Duration = Duration::from_millis(500);

/// How long a buyer of several nodes asks for one thing: longer than elections take.
const LONG_ENOUGH: Duration = Duration::from_secs(4);

/// The pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(15);

/// How long a buyer thinks between two carts: the machine is to have time for everything else.
const THOUGHT: Duration = Duration::from_millis(20);

/// Where the nodes are, and what was heard at them.
pub(crate) struct Doors {
    addresses: Vec<SocketAddr>,
    /// Requests that were repeated because their outcome was unknown.
    repeated: AtomicU64,
    /// Requests whose outcome stays unknown.
    unknown: AtomicU64,
}

impl Doors {
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Arc<Doors> {
        Arc::new(Doors { addresses, repeated: AtomicU64::new(0), unknown: AtomicU64::new(0) })
    }

    pub(crate) fn repeated(&self) -> u64 {
        self.repeated.load(Relaxed)
    }
}

/// A customer of all nodes: at one of them, until it fails.
pub(crate) struct Anywhere {
    doors: Arc<Doors>,
    encoding: Encoding,
    state: Mutex<State>,
}

struct State {
    dice: Dice,
    at: usize,
    port: Option<Arc<Port>>,
}

impl Anywhere {
    pub(crate) fn new(doors: &Arc<Doors>, encoding: Encoding, seed: u64) -> Anywhere {
        let mut dice = Dice::new(seed);
        let at = dice.below(doors.addresses.len());
        Anywhere { doors: Arc::clone(doors), encoding, state: Mutex::new(State { dice, at, port: None }) }
    }

    /// Goes to another node from now on.
    pub(crate) async fn move_on(&self) {
        let mut state = self.state.lock().await;
        state.leave(self.doors.addresses.len());
    }

    /// Asks one node after the other until one answers.
    ///
    /// A refusal of a repeat is no answer: an earlier attempt may still be under way, so the outcome is unknown ([`Answer::Gone`]).
    pub(crate) async fn ask_within(&self, op: &str, rid: &str, body: Value, patience: Duration) -> Answer {
        let deadline = Instant::now() + patience;
        let mut may_have_happened = false;
        let mut last = Answer::Fail(903);
        while Instant::now() < deadline {
            let answer = self.ask_once(op, rid, &body, TRY.min(deadline - Instant::now())).await;
            match answer {
                Answer::Ok(..) => return answer,
                // It is under way, here or at the gateway.
                Answer::No(ref no) if matches!(no.code, 106 | 602) => may_have_happened = true,
                // What came of a payment is remembered under its request id: nothing else can come of it.
                Answer::No(ref no) if matches!(no.code, 601 | 603) => return answer,
                Answer::No(_) if may_have_happened => break,
                Answer::No(_) => return answer,
                Answer::Gone | Answer::Fail(902 | 906) => may_have_happened = true,
                Answer::Fail(_) => last = answer,
            }
            self.doors.repeated.fetch_add(u64::from(may_have_happened), Relaxed);
            self.move_on().await;
            sleep(PAUSE).await;
        }
        if may_have_happened {
            self.doors.unknown.fetch_add(1, Relaxed);
            return Answer::Gone;
        }
        last
    }

    /// Asks one node once; a node that does not let one in has not heard it.
    async fn ask_once(&self, op: &str, rid: &str, body: &Value, patience: Duration) -> Answer {
        let Some(port) = self.port().await else { return Answer::Fail(903) };
        let deadline_ms = patience.as_millis().max(1) as u64;
        let frame = json!({"op": op, "rid": rid, "deadline_ms": deadline_ms, "body": written(self.encoding, body)});
        port.exchange(frame, patience + LATE).await
    }

    async fn port(&self) -> Option<Arc<Port>> {
        let mut state = self.state.lock().await;
        if let Some(port) = state.port.as_ref().filter(|port| !port.is_closed()) {
            return Some(Arc::clone(port));
        }
        let address = self.doors.addresses[state.at];
        let port = timeout(KNOCK, Port::try_connect(address, self.encoding)).await.ok()?.ok()?;
        let port = Arc::new(port);
        state.port = Some(Arc::clone(&port));
        Some(port)
    }
}

impl Till for Anywhere {
    fn ask<'a>(
        &'a self,
        op: &'a str,
        rid: &'a str,
        body: Value,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move {
            // Some go on at another node although nothing is wrong.
            if self.state.lock().await.dice.percent(5) {
                self.move_on().await;
            }
            self.ask_within(op, rid, body, patience.min(LONG_ENOUGH)).await
        })
    }

    fn is_closed(&self) -> bool {
        false
    }

    fn pause(&self) -> Duration {
        THOUGHT
    }
}

impl State {
    fn leave(&mut self, nodes: usize) {
        self.port = None;
        self.at = (self.at + 1 + self.dice.below(nodes.max(2) - 1)) % nodes;
    }
}

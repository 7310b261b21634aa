//! What all connections share.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use boxoffice_core::id::Id;
use boxoffice_env::secret::Secret;
use boxoffice_wire::{Rejection, customer, status::NodeStatus};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{
    Backend, EdgeConfig, Runtimes,
    budgets::{Budgets, Over},
    denials::{Denial, Denials},
    guesses::Guesses,
    key_ring::Ring,
    metrics::Metrics,
    rates::Readings,
    veil::Veil,
};

/// Reconnects a second that a draining node asks its clients to spread themselves to.
const RECONNECTS_PER_SECOND: u64 = 1_000;

/// The longest a client is asked to wait before it reconnects, in milliseconds.
const RECONNECT_MS_MAX: u64 = 5_000;

/// The door, seen from its connections.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) config: EdgeConfig,
    pub(crate) metrics: Metrics,
    pub(crate) runtimes: Runtimes,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) connections: AtomicU64,
    /// Permits of HTTP requests.
    pub(crate) asking: Arc<Semaphore>,
    /// Permits to tell a client why its connection is closed.
    pub(crate) dismissing: Semaphore,
    pub(crate) readings: Readings,
    pub(crate) veil: Veil,
    /// How the cluster's keys stood a moment ago.
    pub(crate) ring: Ring,
    pub(crate) denials: Denials,
    pub(crate) guesses: Guesses,
    pub(crate) budgets: Budgets,
    /// The venues of sessions that keys limited to venues have asked about. `venues` bounds their number.
    pub(crate) venues_of_sessions: Mutex<BTreeMap<Id, Id>>,
}

/// A port of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The clients' port, which anybody may reach.
    Clients,
    /// The operators' port.
    Operators,
}

/// Whether the door is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It is.
    Open,
    /// It is still, but says that it is not ready: load balancers are to send clients elsewhere.
    Leaving,
    /// Connections finish what they have begun.
    Draining,
    /// They end now.
    Closed,
}

impl Shared {
    /// When a connection is to reconnect while this node drains: each at another time, so that they do not all come to
    /// the next node at once.
    pub(crate) fn reconnect_ms(&self) -> u64 {
        let sockets = u64::try_from(self.metrics.sockets.load(Ordering::Relaxed)).unwrap_or(0);
        let spread_ms = (sockets * 1_000 / RECONNECTS_PER_SECOND).min(RECONNECT_MS_MAX);
        // Multiples of the golden ratio fill an interval evenly, however many there are.
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let fraction = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (spread_ms * fraction) >> 32
    }

    /// Whether customers have tokens.
    pub(crate) fn knows_customers(&self) -> bool {
        self.has_customer_secret() || !self.config.token_keys.is_empty()
    }

    /// Whether there is a secret that tokens of customers are made with.
    pub(crate) fn has_customer_secret(&self) -> bool {
        self.config.customer_secret.is_some()
    }

    /// Whether this token is that customer's.
    pub(crate) fn is_customer_token(&self, customer: &Id, token: &str) -> bool {
        let secret = self.config.customer_secret.as_ref();
        secret.is_some_and(|Secret(secret)| customer::is_token(secret.as_bytes(), customer, token))
    }

    /// How the node is, with what only the door knows.
    pub(crate) fn status(&self) -> NodeStatus {
        let mut status = self.backend.status();
        self.metrics.show_in(&mut status);
        self.readings.show_in(&self.metrics, &mut status.rates);
        status
    }

    /// Somebody has shown a key or a token that does not fit: counts it, and keeps the answer back for a while where many such
    /// come from.
    pub(crate) async fn guessed(&self, guest: &Guest, why: &Rejection) {
        if let Some(wait) = self.wait_after_guess(guest, why) {
            tokio::time::sleep(wait).await;
        }
    }

    /// The same; how long the answer is to be kept back, if it is.
    pub(crate) fn wait_after_guess(&self, guest: &Guest, why: &Rejection) -> Option<Duration> {
        if !matches!(why, Rejection::Unauthenticated(_)) {
            return None;
        }
        self.denials.note(Denial::Token, Some(&guest.address().to_string()), &why.to_string());
        let wait = self.guesses.note(guest.address(), tokio::time::Instant::now(), self.config.limits.guess_step);
        (!wait.is_zero()).then_some(wait)
    }

    /// Whether the operators' port asks for nothing: as long as there is nothing that could be shown.
    pub(crate) fn is_operators_port_open(&self) -> bool {
        self.config.admin_token.is_none() && !self.ring.has_admin()
    }

    /// Whether the directory's leader was not heard for so long that a key may have been revoked meanwhile.
    pub(crate) fn is_directory_silent(&self) -> bool {
        self.ring.silent_for() > self.config.limits.directory_silence_max
    }

    /// Whether a port speaks TLS.
    pub(crate) fn speaks_tls(&self, port: Port) -> bool {
        port == Port::Clients && self.config.web.certificate.is_some()
    }
}

/// Compares in a time that tells nothing but the length.
pub(crate) fn same_secret(expected: &[u8], given: &[u8]) -> bool {
    let difference = expected.iter().zip(given).fold(0, |difference, (a, b)| difference | (a ^ b));
    expected.len() == given.len() && std::hint::black_box(difference) == 0
}

/// One open connection: its permit, and its place among the counted ones.
pub(crate) struct Guest {
    /// Where it came in.
    pub(crate) port: Port,
    /// The client's address: the peer's, or what a proxy says of it.
    address: Mutex<IpAddr>,
    shared: Arc<Shared>,
    /// Commands that came over it by HTTP and that the node has not answered.
    pub(crate) under_way: Arc<AtomicUsize>,
    /// The address under which the connection is counted against its network's budget.
    counted: Mutex<Option<IpAddr>>,
    /// It is beyond that budget, and must show a key.
    is_over: AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl Guest {
    pub(crate) fn new(port: Port, peer: IpAddr, shared: Arc<Shared>, permit: OwnedSemaphorePermit) -> Guest {
        shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
        let address = Mutex::new(peer.to_canonical());
        Guest {
            port,
            address,
            shared,
            under_way: Arc::default(),
            counted: Mutex::default(),
            is_over: AtomicBool::new(false),
            _permit: permit,
        }
    }

    /// The client's address. Behind a proxy that names it with each request, it is that of the last request.
    pub(crate) fn address(&self) -> IpAddr {
        *self.address.lock()
    }

    /// Counts the connection against the budget of its client's network, once.
    pub(crate) fn count(&self) -> Result<(), Over> {
        let mut counted = self.counted.lock();
        if counted.is_none() && self.port == Port::Clients {
            let address = self.address();
            let is_within = self.shared.budgets.connect(address, tokio::time::Instant::now())?;
            self.is_over.store(!is_within, Ordering::Relaxed);
            *counted = Some(address);
        }
        Ok(())
    }

    /// Whether the connection is beyond the budget of its client's network.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The connection is no stranger's: it is counted no longer.
    pub(crate) fn lift(&self) {
        self.is_over.store(false, Ordering::Relaxed);
        if let Some(address) = self.counted.lock().take() {
            self.shared.budgets.disconnect(address);
        }
    }

    /// A proxy has said whose the connection, or its next request, is.
    pub(crate) fn comes_from(&self, client: IpAddr) {
        *self.address.lock() = client;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.lift();
        self.shared.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of a gauge: what it adds is taken away again when it is dropped.
pub(crate) struct Share {
    shared: Arc<Shared>,
    gauge: fn(&Metrics) -> &AtomicI64,
    amount: i64,
}

impl Share {
    pub(crate) fn new(shared: &Arc<Shared>, gauge: fn(&Metrics) -> &AtomicI64, amount: usize) -> Share {
        let mut share = Share { shared: Arc::clone(shared), gauge, amount: 0 };
        share.set(amount);
        share
    }

    pub(crate) fn set(&mut self, amount: usize) {
        let amount = i64::try_from(amount).expect("a count fits");
        if amount != self.amount {
            (self.gauge)(&self.shared.metrics).fetch_add(amount - self.amount, Ordering::Relaxed);
            self.amount = amount;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Waits until the phase is another one than `known`; for ever if it will not be.
pub(crate) async fn phase_after(mut phase: watch::Receiver<Phase>, known: Phase) -> Phase {
    match phase.wait_for(|phase| *phase != known).await {
        Ok(phase) => *phase,
        // The door is gone without having closed: its runtime goes down.
        Err(_) => Phase::Closed,
    }
}

/// Waits until connections are to end.
pub(crate) async fn draining(mut phase: watch::Receiver<Phase>) {
    // A door that is gone says the same.
    let _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
}

/// A time-out that is not yet over.
pub(crate) async fn within<F: Future>(time: Duration, what: F) -> Option<F::Output> {
    tokio::time::timeout(time, what).await.ok()
}

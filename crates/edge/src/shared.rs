//! State that all connections share.

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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    Backend, EdgeConfig, Runtimes,
    auth_failures::AuthFailures,
    budgets::{Budgets, OverBudget},
    denials::{Denial, Denials},
    key_ring::KeyRingState,
    metrics::Metrics,
    rates::Readings,
};

/// A draining node spreads its clients' reconnects to this many a second.
const RECONNECTS_PER_SECOND: u64 = 1_000;

/// The longest time that a client is asked to wait before it reconnects, in milliseconds.
const RECONNECT_MS_MAX: u64 = 5_000;

/// State that all connections share.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) config: EdgeConfig,
    pub(crate) metrics: Metrics,
    pub(crate) runtimes: Runtimes,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) connections: AtomicU64,
    /// Slots for HTTP requests under way.
    pub(crate) http_requests: Arc<Semaphore>,
    /// Slots for clients that are being told why their connection is closed.
    pub(crate) closing_notices: Semaphore,
    pub(crate) readings: Readings,
    pub(crate) key_ring: KeyRingState,
    pub(crate) denials: Denials,
    pub(crate) auth_failures: AuthFailures,
    pub(crate) budgets: Budgets,
    /// The venues of sessions that keys limited to venues have asked about. `venues` bounds their number.
    pub(crate) venues_of_sessions: Mutex<BTreeMap<Id, Id>>,
}

/// A port of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The clients' port, which strangers can reach.
    Clients,
    Operators,
}

/// The phases of the client port, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Open,
    /// Everything goes on, but `/readyz` fails, so that load balancers send clients elsewhere.
    Leaving,
    /// Connections finish their requests and end.
    Draining,
    /// Connections end now.
    Closed,
}

impl Shared {
    /// After how many milliseconds a connection should reconnect while this node drains. Each gets another time, so that
    /// not all come to the next node at once.
    pub(crate) fn reconnect_ms(&self) -> u64 {
        let sockets = u64::try_from(self.metrics.sockets.load(Ordering::Relaxed)).unwrap_or(0);
        let spread_ms = (sockets * 1_000 / RECONNECTS_PER_SECOND).min(RECONNECT_MS_MAX);
        // Any number of multiples of the golden ratio fills an interval evenly.
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let fraction = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (spread_ms * fraction) >> 32
    }

    /// Whether customers have tokens.
    pub(crate) fn knows_customers(&self) -> bool {
        self.has_customer_secret() || !self.config.token_keys.is_empty()
    }

    pub(crate) fn has_customer_secret(&self) -> bool {
        self.config.customer_secret.is_some()
    }

    /// Whether this token is that customer's.
    pub(crate) fn is_customer_token(&self, customer: &Id, token: &str) -> bool {
        let secret = self.config.customer_secret.as_ref();
        secret.is_some_and(|Secret(secret)| customer::is_token(secret.as_bytes(), customer, token))
    }

    /// The node's status with the counters of the client port.
    pub(crate) fn status(&self) -> NodeStatus {
        let mut status = self.backend.status();
        self.metrics.show_in(&mut status);
        self.readings.show_in(&self.metrics, &mut status.rates);
        status
    }

    /// Counts an invalid key or token. Waits if many came from the same network.
    pub(crate) async fn delay_auth_failure(&self, permit: &ConnectionPermit, why: &Rejection) {
        if let Some(wait) = self.note_auth_failure(permit, why) {
            tokio::time::sleep(wait).await;
        }
    }

    /// Counts an invalid key or token. Returns how long to delay the answer, if at all.
    pub(crate) fn note_auth_failure(&self, permit: &ConnectionPermit, why: &Rejection) -> Option<Duration> {
        if !matches!(why, Rejection::Unauthenticated(_)) {
            return None;
        }
        self.denials.note(Denial::Token, Some(&permit.address().to_string()), &why.to_string());
        let wait = self.auth_failures.note(
            permit.address(),
            tokio::time::Instant::now(),
            self.config.limits.auth_failure_step,
        );
        (!wait.is_zero()).then_some(wait)
    }

    /// Whether the operators' port needs no credentials. That is so while there are none.
    pub(crate) fn is_operators_port_open(&self) -> bool {
        self.config.admin_token.is_none() && !self.key_ring.has_admin()
    }

    /// Whether this node has not heard the directory's leader for so long that it may have missed the end of a key.
    pub(crate) fn is_directory_silent(&self) -> bool {
        self.key_ring.silent_for() > self.config.limits.directory_silence_max
    }

    /// Whether a port speaks TLS.
    pub(crate) fn speaks_tls(&self, port: Port) -> bool {
        port == Port::Clients && self.config.web.certificate.is_some()
    }
}

/// Compares in a time that depends on the length only.
pub(crate) fn same_secret(expected: &[u8], given: &[u8]) -> bool {
    let difference = expected.iter().zip(given).fold(0, |difference, (a, b)| difference | (a ^ b));
    expected.len() == given.len() && std::hint::black_box(difference) == 0
}

/// A connection's slot at its port, and its share of its network's budget.
pub(crate) struct ConnectionPermit {
    pub(crate) port: Port,
    /// The client's address, the peer's or the one that a proxy tells.
    address: Mutex<IpAddr>,
    shared: Arc<Shared>,
    /// Commands that came over this connection by HTTP and that the node has not answered.
    pub(crate) under_way: Arc<AtomicUsize>,
    /// The address whose network's budget the connection is counted against.
    counted: Mutex<Option<IpAddr>>,
    /// The connection exceeds that budget and must show a key.
    is_over: AtomicBool,
    _slot: OwnedSemaphorePermit,
}

impl ConnectionPermit {
    pub(crate) fn new(port: Port, peer: IpAddr, shared: Arc<Shared>, slot: OwnedSemaphorePermit) -> ConnectionPermit {
        shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
        let address = Mutex::new(peer.to_canonical());
        ConnectionPermit {
            port,
            address,
            shared,
            under_way: Arc::default(),
            counted: Mutex::default(),
            is_over: AtomicBool::new(false),
            _slot: slot,
        }
    }

    /// The client's address. Behind a proxy that tells it with each request, the address of the last request.
    pub(crate) fn address(&self) -> IpAddr {
        *self.address.lock()
    }

    /// Counts the connection against the budget of its client's network, once.
    pub(crate) fn count(&self) -> Result<(), OverBudget> {
        let mut counted = self.counted.lock();
        if counted.is_none() && self.port == Port::Clients {
            let address = self.address();
            let is_within = self.shared.budgets.connect(address, tokio::time::Instant::now())?;
            self.is_over.store(!is_within, Ordering::Relaxed);
            *counted = Some(address);
        }
        Ok(())
    }

    /// Whether the connection exceeds the budget of its client's network.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Takes the connection out of the network's budget, because it is not a stranger's, or has ended.
    pub(crate) fn exempt(&self) {
        self.is_over.store(false, Ordering::Relaxed);
        if let Some(address) = self.counted.lock().take() {
            self.shared.budgets.disconnect(address);
        }
    }

    /// Sets the client's address of the connection, or of its next request, that a proxy has reported.
    pub(crate) fn set_address(&self, client: IpAddr) {
        *self.address.lock() = client;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.exempt();
        self.shared.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of a gauge, subtracted again when this is dropped.
pub(crate) struct GaugeGuard {
    shared: Arc<Shared>,
    gauge: fn(&Metrics) -> &AtomicI64,
    amount: i64,
}

impl GaugeGuard {
    pub(crate) fn new(shared: &Arc<Shared>, gauge: fn(&Metrics) -> &AtomicI64, amount: usize) -> GaugeGuard {
        let mut share = GaugeGuard { shared: Arc::clone(shared), gauge, amount: 0 };
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

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Waits until the phase is not `known` any more. Returns the new one.
pub(crate) async fn phase_after(mut phase: watch::Receiver<Phase>, known: Phase) -> Phase {
    match phase.wait_for(|phase| *phase != known).await {
        Ok(phase) => *phase,
        // The port is gone without having closed, because its runtime shuts down.
        Err(_) => Phase::Closed,
    }
}

/// Waits until connections are to end.
pub(crate) async fn draining(mut phase: watch::Receiver<Phase>) {
    // An error means that the port is gone, which is the same.
    let _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
}

/// The future's output, if it is ready in time.
pub(crate) async fn within<F: Future>(time: Duration, what: F) -> Option<F::Output> {
    tokio::time::timeout(time, what).await.ok()
}

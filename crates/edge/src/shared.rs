//! What all connections share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use boxoffice_core::id::Id;
use boxoffice_node::config::Secret;
use boxoffice_wire::{customer, status::NodeStatus};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{Backend, EdgeConfig, Runtimes, metrics::Metrics, rates::Readings, veil::Veil};

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
    pub(crate) readings: Readings,
    pub(crate) veil: Veil,
}

/// Whether the door is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is.
    Open,
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

    /// Whether this token is the operators'.
    pub(crate) fn is_admin_token(&self, token: &str) -> bool {
        self.config.admin_token.as_deref().is_some_and(|expected| same_secret(expected.as_bytes(), token.as_bytes()))
    }

    /// Whether customers have tokens.
    pub(crate) fn knows_customers(&self) -> bool {
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

    /// Whether everybody may administer.
    pub(crate) fn is_unguarded(&self) -> bool {
        self.config.admin_token.is_none()
    }
}

/// Compares in a time that tells nothing but the length.
fn same_secret(expected: &[u8], given: &[u8]) -> bool {
    let difference = expected.iter().zip(given).fold(0, |difference, (a, b)| difference | (a ^ b));
    expected.len() == given.len() && std::hint::black_box(difference) == 0
}

/// One open connection: its permit, and its place among the counted ones.
pub(crate) struct Guest {
    shared: Arc<Shared>,
    /// Commands that came over it by HTTP and that the node has not answered.
    pub(crate) under_way: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Guest {
    pub(crate) fn new(shared: Arc<Shared>, permit: OwnedSemaphorePermit) -> Guest {
        shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
        Guest { shared, under_way: Arc::default(), _permit: permit }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
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

/// A time-out that is not yet over.
pub(crate) async fn within<F: Future>(time: Duration, what: F) -> Option<F::Output> {
    tokio::time::timeout(time, what).await.ok()
}

//! State that all connections share.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use boxoffice_core::id::Id;
use boxoffice_env::secret::Secret;
use boxoffice_node::node::Runtimes;
use boxoffice_wire::{customer, path::Price, status::NodeStatus, weight};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    Backend, EdgeConfig,
    access_end::{AccessEnd, Ended, EndsWith, ended},
    auth_failures::AuthFailures,
    budgets::{Budgets, OverBudget},
    codes::Codes,
    denials::Denials,
    handshakes::HandshakeTime,
    holders::Holders,
    key_questions::KeyQuestions,
    key_ring::KeyRingState,
    metrics::Metrics,
    network::ClientNetwork,
    packed_layouts::PackedLayouts,
    planted,
    rates::Readings,
    read_delay::ReadDelay,
    roster::{Place, Roster},
    unsent::{UnsentAnswers, UnsentShare},
};

/// A draining node spreads its clients' reconnects to this many a second.
const RECONNECTS_PER_SECOND: u64 = 1_000;

/// The longest time that a client is asked to wait before it reconnects, in milliseconds.
const RECONNECT_MS_MAX: u64 = 5_000;

/// Requests refused for a budget that one connection may send over HTTP. Refusing them takes time as well, and new connections
/// have a budget of their own.
const OVER_RATE_MAX: u32 = 100;

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
    pub(crate) key_questions: Arc<KeyQuestions>,
    pub(crate) denials: Denials,
    pub(crate) auth_failures: AuthFailures,
    pub(crate) budgets: Budgets,
    pub(crate) holders: Holders,
    pub(crate) codes: Codes,
    /// The connections of the clients' port.
    pub(crate) roster: Arc<Roster>,
    pub(crate) unsent: Arc<UnsentAnswers>,
    pub(crate) packed_layouts: PackedLayouts,
    pub(crate) handshakes: HandshakeTime,
    /// How late the runtime for watching reads.
    pub(crate) watching_delay: ReadDelay,
    /// Whether the log has said what the operators' port refuses.
    pub(crate) operators_port_explained: Once,
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

    /// Whether there are no credentials of operators yet. As long as that is so, the operators' port needs none, and machines
    /// that know the secret of the nodes need no invitation.
    pub(crate) fn has_no_operators(&self) -> bool {
        self.config.admin_token.is_none() && !self.key_ring.has_admin()
    }

    /// Says once in the log why the operators' port refuses what comes through a proxy or by another name.
    pub(crate) fn explain_operators_port(&self) {
        self.operators_port_explained.call_once(|| {
            tracing::warn!(
                "the operators' port has no credentials, so it serves only requests of programs on this machine: with a \
                 loopback address or localhost as their `Host`, and without headers of a proxy. Set an admin token \
                 (listen.admin_token_file, BOXOFFICE_ADMIN_TOKEN) to reach it otherwise"
            );
        });
    }

    /// Whether this node has not heard the directory's leader for so long that it may have missed the end of a key.
    pub(crate) fn is_directory_silent(&self) -> bool {
        self.key_ring.silent_for() > self.config.limits.directory_silence_max
    }

    /// Whether what comes from this address is not counted where only the address is known: it is a proxy's, behind which are many
    /// clients, or one of this machine.
    pub(crate) fn is_uncounted(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.config.web.proxies.trusts(address)
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
    /// The connection was taken out of that budget, because its last caller was no stranger.
    is_exempt: AtomicBool,
    /// What ends the credentials of the last request over HTTP.
    ends_with: Mutex<EndsWith>,
    /// Their end, until somebody waits for it.
    access_end: Mutex<Option<AccessEnd>>,
    access_changed: Notify,
    /// Nothing more is written.
    is_cut: Arc<AtomicBool>,
    /// Which of the connections end when the port is full.
    pub(crate) place: Arc<Place>,
    /// The answers that its client has not read.
    pub(crate) unsent: Arc<UnsentShare>,
    /// The connection has a place of the operators' port that is kept for probes.
    pub(crate) is_for_probes: bool,
    /// At the operators' port: what the connection does over HTTP.
    use_of_operators: Mutex<OperatorsUse>,
    /// Requests over HTTP that were refused for a budget.
    over_rate: AtomicU32,
    _slot: OwnedSemaphorePermit,
}

/// What a connection does at the operators' port over HTTP.
#[derive(Debug)]
struct OperatorsUse {
    requests_under_way: u32,
    idle_since: Instant,
    /// Whether its last caller had a role.
    has_role: bool,
}

/// A slot of a port, and the place in its roster.
pub(crate) struct PortSlot {
    pub(crate) permit: OwnedSemaphorePermit,
    pub(crate) place: Place,
    pub(crate) is_for_probes: bool,
}

/// A request under way at the operators' port.
pub(crate) struct OperatorsRequest(Arc<ConnectionPermit>);

impl Drop for OperatorsRequest {
    fn drop(&mut self) {
        let mut used = self.0.use_of_operators.lock();
        used.requests_under_way -= 1;
        used.idle_since = Instant::now();
    }
}

impl ConnectionPermit {
    pub(crate) fn new(port: Port, peer: IpAddr, shared: Arc<Shared>, slot: PortSlot) -> ConnectionPermit {
        let PortSlot { permit, place, is_for_probes } = slot;
        shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
        let address = Mutex::new(peer.to_canonical());
        let unsent = shared.unsent.share(place.end_handle());
        ConnectionPermit {
            port,
            address,
            shared,
            under_way: Arc::default(),
            counted: Mutex::default(),
            is_over: AtomicBool::new(false),
            is_exempt: AtomicBool::new(false),
            ends_with: Mutex::default(),
            access_end: Mutex::default(),
            access_changed: Notify::new(),
            is_cut: Arc::default(),
            place: Arc::new(place),
            unsent,
            is_for_probes,
            over_rate: AtomicU32::new(0),
            use_of_operators: Mutex::new(OperatorsUse {
                requests_under_way: 0,
                idle_since: Instant::now(),
                has_role: false,
            }),
            _slot: permit,
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
            let is_within = self.shared.budgets.connect(address, Instant::now())?;
            self.is_over.store(!is_within, Ordering::Relaxed);
            *counted = Some(address);
        }
        Ok(())
    }

    /// Whether the connection exceeds the budget of its client's network.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether the connection was taken out of the network's budget. The next caller over it may be a stranger.
    pub(crate) fn is_exempt(&self) -> bool {
        self.is_exempt.load(Ordering::Relaxed)
    }

    /// Charges a request of this price to the client's network at the clients' port, where no caller is known.
    ///
    /// # Errors
    /// The network has asked too much. Its connection should be closed.
    pub(crate) fn charge(&self, price: Price) -> Result<(), OverBudget> {
        let address = self.address();
        if self.port == Port::Operators || self.is_exempt() || self.shared.is_uncounted(address) {
            return Ok(());
        }
        let (budgets, now) = (&self.shared.budgets, Instant::now());
        match price {
            Price::OfOp | Price::OfUpgrade | Price::Refused => Ok(()),
            Price::Probe => budgets.probe(address, now),
            Price::Requests(count) => budgets.request_of(address, count * weight::REQUEST, now),
        }
    }

    /// Takes the connection out of the network's budget, because it is not a stranger's.
    pub(crate) fn exempt(&self) {
        self.is_exempt.store(true, Ordering::Relaxed);
        self.place.set_network(None);
        self.discount();
    }

    /// Counts a connection again that was exempt, because its caller is a stranger now.
    ///
    /// # Errors
    /// The network has too many connections.
    pub(crate) fn count_again(&self) -> Result<(), OverBudget> {
        self.is_exempt.store(false, Ordering::Relaxed);
        self.place.set_network(Some(ClientNetwork::of(self.address())));
        self.count()?;
        if self.is_over() { Err(self.shared.budgets.too_many_connections()) } else { Ok(()) }
    }

    fn discount(&self) {
        self.is_over.store(false, Ordering::Relaxed);
        if let Some(address) = self.counted.lock().take() {
            self.shared.budgets.disconnect(address);
        }
    }

    /// The connection serves a caller with other credentials now, over HTTP.
    pub(crate) fn serves(&self, ends_with: EndsWith, end: impl FnOnce() -> Option<AccessEnd>) {
        let mut known = self.ends_with.lock();
        if *known != ends_with {
            *known = ends_with;
            *self.access_end.lock() = end();
            self.access_changed.notify_one();
        }
    }

    /// Waits until the credentials of the last request are no longer valid. Costs nothing while they cannot end. Called once.
    pub(crate) async fn access_ended(&self) -> Ended {
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                () = self.access_changed.notified() => end = self.access_end.lock().take(),
                ended = ended(&mut end), if !planted::is("an HTTP connection is not looked at") => return ended,
            }
        }
    }

    /// Nothing more is written, not even what is in the buffers of the kernel.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Set when nothing more may be written.
    pub(crate) fn cut_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_cut)
    }

    /// Counts a request over HTTP that was refused for a budget. Returns whether the connection should be closed, because its
    /// client does not wait.
    pub(crate) fn is_far_over_rate(&self) -> bool {
        self.over_rate.fetch_add(1, Ordering::Relaxed) >= OVER_RATE_MAX
    }

    /// The caller of a request at the operators' port was looked at.
    pub(crate) fn note_role(&self, has_role: bool) {
        if self.port == Port::Operators {
            self.use_of_operators.lock().has_role = has_role;
        }
    }

    /// Counts a request as under way until the result is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<OperatorsRequest> {
        if self.port != Port::Operators {
            return None;
        }
        self.use_of_operators.lock().requests_under_way += 1;
        Some(OperatorsRequest(Arc::clone(self)))
    }

    /// Waits until the connection has been idle at the operators' port for too long without a role. For ever at the clients'
    /// port.
    pub(crate) async fn idle_without_role(&self) {
        if self.port != Port::Operators {
            return std::future::pending().await;
        }
        let timeout = self.shared.config.limits.no_role_timeout;
        loop {
            let until = {
                let used = self.use_of_operators.lock();
                let is_idle = used.requests_under_way == 0 && !used.has_role;
                let since = if is_idle { used.idle_since } else { Instant::now() };
                since + timeout
            };
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Sets the client's address of the connection, or of its next request, that a proxy has reported.
    pub(crate) fn set_address(&self, client: IpAddr) {
        *self.address.lock() = client;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.discount();
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

/// Waits until connections are to end now.
pub(crate) async fn closed(mut phase: watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase >= Phase::Closed).await;
}

/// The future's output, if it is ready in time.
pub(crate) async fn within<F: Future>(time: Duration, what: F) -> Option<F::Output> {
    tokio::time::timeout(time, what).await.ok()
}

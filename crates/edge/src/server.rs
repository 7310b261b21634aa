//! The ports: how they open, accept connections, and close.

use std::{
    io,
    net::SocketAddr,
    os::fd::AsRawFd,
    sync::{Arc, Once, atomic::AtomicU64},
    time::Duration,
};

use boxoffice_env::secret::Secret;
use boxoffice_node::node::Runtimes;
use boxoffice_wire::customer::SECRET_BYTES_MIN;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    Backend, EdgeConfig, EdgeError, Limits,
    auth_failures::AuthFailures,
    budgets::Budgets,
    codes::Codes,
    config::ADMIN_TOKEN_CHARS_MIN,
    denials::Denials,
    handshakes::HandshakeTime,
    holders::Holders,
    http::{self, ALIVE},
    http_connection::{self, DISMISS_TIMEOUT},
    key_ring::KeyRingState,
    metrics::Metrics,
    network::ClientNetwork,
    packed_layouts::PackedLayouts,
    planted,
    rates::Readings,
    read_delay::ReadDelay,
    roster::{Roster, Silence},
    shared::{ConnectionPermit, Phase, Port, PortSlot, Shared, draining, within},
    unsent::UnsentAnswers,
};

/// Connections that the kernel keeps until they are accepted. A rush of ten thousand comes in waves.
const BACKLOG: i32 = 4_096;

/// Unsent bytes with which a socket is not writable any more. Without this limit, a client that does not read pins
/// megabytes of the kernel's memory.
const NOT_SENT_BYTES_MAX: u32 = 16 * 1024;

/// The answer to connections beyond the limit.
const NO_ROOM: &str =
    "this node has as many connections as it may have (limits.connections): try another node, or again later\n";

/// How long a newcomer waits for the place of a connection that ends for it.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the port accepts nothing when no file descriptor is left for clients.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often the counters are read.
const READING_EVERY: Duration = Duration::from_secs(1);

/// How often the state of the keys is updated. Connections are promised to end 200 ms after this node has learned that what
/// let them in is gone, and the other half is for a busy machine.
const KEYS_EVERY: Duration = Duration::from_millis(100);

/// The ports of a node, bound to their addresses.
pub struct Edge {
    clients: BoundPort,
    operators: Option<BoundPort>,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
}

struct BoundPort {
    port: Port,
    listener: TcpListener,
    address: SocketAddr,
}

impl BoundPort {
    fn bind(port: Port, wanted: SocketAddr) -> Result<BoundPort, EdgeError> {
        let bound = listen(wanted).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| EdgeError::listening(wanted, error))?;
        Ok(BoundPort { port, listener, address })
    }

    /// The maximum of connections, and the file descriptor from which on none is accepted.
    fn limits(&self, limits: &Limits) -> (usize, u64) {
        match self.port {
            Port::Clients => (limits.connections_max, limits.descriptors_end),
            Port::Operators => (limits.operator_connections_max, limits.operator_descriptors_end),
        }
    }
}

impl Edge {
    /// Binds the ports. No connection is accepted before [`Edge::run`].
    ///
    /// # Errors
    /// [`EdgeError`] if an address cannot be bound, or would let anyone administer.
    pub fn bind(mut config: EdgeConfig, backend: Arc<dyn Backend>, runtimes: Runtimes) -> Result<Edge, EdgeError> {
        if config.admin_token.as_ref().is_some_and(|token| token.chars().count() < ADMIN_TOKEN_CHARS_MIN) {
            return Err(EdgeError::ShortAdminToken);
        }
        if config.customer_secret.as_ref().is_some_and(|Secret(secret)| secret.len() < SECRET_BYTES_MIN) {
            return Err(EdgeError::ShortCustomerSecret);
        }
        if config.code_secret.as_ref().is_some_and(|Secret(secret)| secret.len() < SECRET_BYTES_MIN) {
            return Err(EdgeError::ShortCodeSecret);
        }
        if let Some(address) = config.operators
            && config.admin_token.is_none()
            && !address.ip().is_loopback()
        {
            return Err(EdgeError::Unguarded { address });
        }
        let entered = runtimes.selling.enter();
        let clients = BoundPort::bind(Port::Clients, config.listen)?;
        let operators = config.operators.map(|address| BoundPort::bind(Port::Operators, address)).transpose()?;
        drop(entered);
        config.listen = clients.address;
        let budgets = Budgets::new(config.budgets.clone());
        let holders = Holders::new(config.holder_secret.as_ref());
        let codes = Codes::new(config.code_secret.as_ref(), config.limits.auth_failure_step);
        let key_ring = KeyRingState::default();
        key_ring.update(backend.key_ring());
        let (phase, phases) = watch::channel(Phase::Open);
        let http_requests = Arc::new(Semaphore::new(config.limits.http_requests_max));
        let closing_notices = Semaphore::new(config.limits.turned_away_max);
        let handshakes = HandshakeTime::new(config.limits.handshake_percent);
        let unsent = Arc::new(UnsentAnswers::new(config.limits.unsent_bytes_max));
        let roster = Arc::new(Roster::new(config.limits.connections_max));
        let shared = Arc::new(Shared {
            backend,
            config,
            metrics: Metrics::default(),
            runtimes,
            phase: phases,
            connections: AtomicU64::new(0),
            http_requests,
            closing_notices,
            readings: Readings::default(),
            key_ring,
            key_questions: Arc::default(),
            denials: Denials::default(),
            auth_failures: AuthFailures::default(),
            budgets,
            holders,
            codes,
            roster,
            unsent,
            packed_layouts: PackedLayouts::default(),
            handshakes,
            watching_delay: ReadDelay::default(),
            operators_port_explained: Once::new(),
            venues_of_sessions: Mutex::default(),
        });
        Ok(Edge { clients, operators, shared, phase })
    }

    /// The address of the clients' port.
    pub fn local_addr(&self) -> SocketAddr {
        self.clients.address
    }

    /// The address of the operators' port, if there is one.
    pub fn operators_addr(&self) -> Option<SocketAddr> {
        self.operators.as_ref().map(|bound| bound.address)
    }

    /// A handle to announce that the node is about to stop.
    pub fn notice(&self) -> Notice {
        Notice(self.phase.clone())
    }

    /// Accepts connections until `shutdown` is done. Then lets them finish, and returns when all have ended or their time
    /// is over.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Edge { clients, operators, shared, phase } = self;
        let limits = &shared.config.limits;
        let mut opened: Vec<OpenPort> =
            [Some(clients), operators].into_iter().flatten().map(|port| OpenPort::begin(port, &shared)).collect();
        let reading = shared.runtimes.selling.spawn(take_readings(Arc::clone(&shared)));
        let following = shared.runtimes.selling.spawn(follow_keys(Arc::clone(&shared)));
        let measured = Arc::clone(&shared);
        let measuring = shared.runtimes.watching.spawn(async move { measured.watching_delay.measure().await });
        shutdown.await;
        reading.abort();
        let _ = phase.send(Phase::Draining);
        for open in &mut opened {
            // It returns by itself. Its panic must not keep the other port from closing.
            let _ = (&mut open.accepting).await;
        }
        let left = close(&opened, limits.drain_timeout).await;
        if left > 0 {
            tracing::warn!(connections = left, "connections are cut: they did not end in time");
            let _ = phase.send(Phase::Closed);
            let _ = close(&opened, limits.close_timeout).await;
        }
        following.abort();
        measuring.abort();
    }
}

/// Announces that a node is about to stop.
pub struct Notice(watch::Sender<Phase>);

impl Notice {
    /// `/readyz` answers 503 from now on. Everything else goes on.
    pub fn give(&self) {
        self.0.send_if_modified(|phase| {
            *phase == Phase::Open && {
                *phase = Phase::Leaving;
                true
            }
        });
    }
}

struct OpenPort {
    accepting: tokio::task::JoinHandle<()>,
    slots: Slots,
}

/// The slots of a port for all connections, and further ones for probes.
#[derive(Clone)]
struct Slots {
    all: Arc<Semaphore>,
    probes: Arc<Semaphore>,
    /// How many there are of both.
    counts: [usize; 2],
}

impl Slots {
    fn new(connections: usize, probes: usize) -> Slots {
        let [all, kept] = [connections, probes].map(|count| Arc::new(Semaphore::new(count)));
        Slots { all, probes: kept, counts: [connections, probes] }
    }

    /// A free slot, and whether it is one for probes.
    fn take(&self) -> Option<(OwnedSemaphorePermit, bool)> {
        if let Ok(permit) = Arc::clone(&self.all).try_acquire_owned() {
            return Some((permit, false));
        }
        let permit = Arc::clone(&self.probes).try_acquire_owned().ok()?;
        Some((permit, !planted::is("a probe's place taken")))
    }

    /// Waits for a slot.
    async fn wait(&self) -> Option<(OwnedSemaphorePermit, bool)> {
        let waited = async {
            tokio::select! {
                biased;
                permit = Arc::clone(&self.all).acquire_owned() => (permit, false),
                permit = Arc::clone(&self.probes).acquire_owned() => (permit, true),
            }
        };
        let (permit, is_for_probes) = within(ROOM_TIMEOUT, waited).await?;
        Some((permit.ok()?, is_for_probes))
    }

    /// Waits until all are free.
    async fn all_free(&self) {
        for (slots, count) in [&self.all, &self.probes].into_iter().zip(self.counts) {
            let count = u32::try_from(count).expect("checked by the semaphore");
            let _ = slots.acquire_many(count).await;
        }
    }

    fn in_use(&self) -> usize {
        let free = self.all.available_permits() + self.probes.available_permits();
        self.counts.iter().sum::<usize>() - free
    }
}

impl OpenPort {
    fn begin(bound: BoundPort, shared: &Arc<Shared>) -> OpenPort {
        let (connections_max, _) = bound.limits(&shared.config.limits);
        let probes = match bound.port {
            Port::Clients => 0,
            Port::Operators => shared.config.limits.probe_places,
        };
        let slots = Slots::new(connections_max, probes);
        let accepting = accept(bound, Arc::clone(shared), slots.clone());
        OpenPort { accepting: shared.runtimes.selling.spawn(accepting), slots }
    }
}

/// Waits until every connection has ended, but not longer than this. Returns how many have not.
async fn close(opened: &[OpenPort], time: Duration) -> usize {
    let all_ended = async {
        for open in opened {
            open.slots.all_free().await;
        }
    };
    if within(time, all_ended).await.is_some() {
        return 0;
    }
    opened.iter().map(|open| open.slots.in_use()).sum()
}

/// Reads the counters once a second.
async fn take_readings(shared: Arc<Shared>) {
    let mut every = tokio::time::interval(READING_EVERY);
    loop {
        every.tick().await;
        shared.readings.take(&shared.metrics);
    }
}

/// Keeps the state of the cluster's keys up to date.
async fn follow_keys(shared: Arc<Shared>) {
    let mut every = tokio::time::interval(KEYS_EVERY);
    loop {
        every.tick().await;
        shared.key_ring.update(shared.backend.key_ring());
        shared.key_ring.check_clock(Instant::now(), shared.backend.now());
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    // Old connections must not keep the next start from binding the port.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts the connections of a port until the node drains. Each gets a task of its own, or is turned away.
async fn accept(bound: BoundPort, shared: Arc<Shared>, slots: Slots) {
    let (connections_max, descriptors_end) = bound.limits(&shared.config.limits);
    let BoundPort { port, listener, .. } = bound;
    let router = TowerToHyperService::new(http::router(Arc::clone(&shared)));
    let mut ends = std::pin::pin!(draining(shared.phase.clone()));
    let roster = match port {
        Port::Clients => Arc::clone(&shared.roster),
        Port::Operators => Arc::new(Roster::new(connections_max)),
    };
    let rejecting = Arc::new(Semaphore::new(shared.config.limits.turned_away_max));
    let entering = Arc::new(Semaphore::new(shared.config.limits.turned_away_max));
    loop {
        let accepted = tokio::select! {
            biased;
            () = ends.as_mut() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The process is out of descriptors, or the peer has gone already.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // The system uses the lowest free number, so at least this many are in use.
        if stream.as_raw_fd() as u64 >= descriptors_end {
            shared.metrics.turned_away.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            drop(stream);
            tracing::warn!("there is no file descriptor for another client, so none is accepted for a moment");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        }
        let address = peer.ip().to_canonical();
        if port == Port::Clients
            && !shared.is_uncounted(address)
            && shared.budgets.new_connection(address, Instant::now()).is_err()
        {
            // An answer would cost more than the connection.
            continue;
        }
        let newcomer = Newcomer { stream, peer, port, roster: Arc::clone(&roster), router: router.clone() };
        if let Some(slot) = slots.take() {
            newcomer.enter(slot, &shared);
            continue;
        }
        // Somebody else's place is taken, if that is fair. It is free in a moment.
        if let Ok(room) = Arc::clone(&entering).try_acquire_owned()
            && roster.make_room(newcomer.network(&shared), silence(port), Instant::now())
        {
            let (slots, shared, rejecting) = (slots.clone(), Arc::clone(&shared), Arc::clone(&rejecting));
            tokio::spawn(async move {
                let _room = room;
                match slots.wait().await {
                    Some(slot) => newcomer.enter(slot, &shared),
                    None => newcomer.turn_away(&shared, &rejecting),
                }
            });
            continue;
        }
        newcomer.turn_away(&shared, &rejecting);
    }
}

/// Which silent connections of a port go for a newcomer. Probes of the operators' port say at once what they want.
fn silence(port: Port) -> Silence {
    match port {
        Port::Clients => Silence::Long,
        Port::Operators => Silence::Any,
    }
}

/// A connection that was just accepted.
struct Newcomer {
    stream: TcpStream,
    peer: SocketAddr,
    port: Port,
    roster: Arc<Roster>,
    router: http_connection::Router,
}

impl Newcomer {
    /// The network that the connection counts for. `None` as long as only a proxy knows it.
    fn network(&self, shared: &Shared) -> Option<ClientNetwork> {
        let address = self.peer.ip().to_canonical();
        let is_proxy = self.port == Port::Clients && shared.config.web.proxies.trusts(address);
        (!is_proxy).then(|| ClientNetwork::of(address))
    }

    /// Serves the connection with this slot, in a task of its own.
    fn enter(self, (permit, is_for_probes): (OwnedSemaphorePermit, bool), shared: &Arc<Shared>) {
        let place = self.roster.enter(self.network(shared), Instant::now());
        let slot = PortSlot { permit, place, is_for_probes };
        let permit = Arc::new(ConnectionPermit::new(self.port, self.peer.ip(), Arc::clone(shared), slot));
        if let Err(error) = set_up(&self.stream) {
            return tracing::debug!(peer = %self.peer, %error, "a connection ended before it began");
        }
        tokio::spawn(http_connection::serve(self.stream, self.router, permit, Arc::clone(shared)));
    }

    /// Closes the connection, and tells the client why if that is cheap.
    fn turn_away(self, shared: &Shared, rejecting: &Arc<Semaphore>) {
        shared.metrics.turned_away.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // If too many are being answered, the rest is closed without an answer. A TLS handshake would cost too much.
        if !shared.speaks_tls(self.port)
            && let Ok(room) = Arc::clone(rejecting).try_acquire_owned()
        {
            tokio::spawn(reject(self.stream, room));
        }
    }
}

fn set_up(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    // There is no time-out of the kernel (`TCP_USER_TIMEOUT`). It ends connections whose peers read slowly and have their windows shut for
    // most of the time. Pings and the time without progress find the dead.
    socket.set_tcp_notsent_lowat(NOT_SENT_BYTES_MAX)
}

/// Answers a connection beyond the limit, in a few bytes that the kernel takes at once. A full node is alive all the same.
async fn reject(mut stream: TcpStream, _room: OwnedSemaphorePermit) {
    let mut asked = [0; 1024];
    let read = within(DISMISS_TIMEOUT, stream.read(&mut asked)).await;
    let asked = &asked[..read.and_then(Result::ok).unwrap_or(0)];
    let (status, text) = match asked.starts_with(b"GET /healthz ") {
        true => ("200 OK", ALIVE),
        false => ("503 Service Unavailable", NO_ROOM),
    };
    let answer = http_connection::raw_answer(status, Some(1), text);
    http_connection::dismiss(stream, answer.as_bytes()).await;
}

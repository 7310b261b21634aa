//! The port: opened, guarded, and closed with everybody let out.

use std::{
    io,
    net::SocketAddr,
    os::fd::AsRawFd,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use boxoffice_env::secret::Secret;
use boxoffice_wire::customer::SECRET_BYTES_MIN;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use socket2::SockRef;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};

use crate::{
    Backend, EdgeConfig, EdgeError, Limits,
    budgets::Budgets,
    denials::Denials,
    guesses::Guesses,
    http::{self, ALIVE},
    key_ring::Ring,
    metrics::Metrics,
    rates::Readings,
    serving::{self, FAREWELL},
    shared::{Guest, Phase, Port, Shared, draining, within},
    veil::Veil,
};

/// Connections the kernel keeps for us until they are accepted: a rush of ten thousand comes in waves.
const BACKLOG: i32 = 4_096;

/// Bytes written and not sent yet that a socket may have before it is not writable: without it, a reader that stands still
/// pins megabytes of the kernel's memory.
const NOT_SENT_BYTES_MAX: u32 = 16 * 1024;

/// How long sent bytes may stay unacknowledged before the kernel gives the peer up.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// What they are told.
const NO_ROOM: &str =
    "this node has as many connections as it may have (limits.connections): try another node, or again later\n";

/// How long to wait when the process has no file descriptors left for clients.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How often the counters are read.
const READING_EVERY: Duration = Duration::from_secs(1);

/// How often the cluster's keys are looked at: a key is refused so long after this node has heard that it was revoked.
const KEYS_EVERY: Duration = Duration::from_millis(200);

/// Where connections run.
#[derive(Clone, Debug)]
pub struct Runtimes {
    /// Those that buy and sell.
    pub selling: Handle,
    /// Those that watch: a round of changes for thousands of them delays nobody else.
    pub watching: Handle,
}

/// The ports of a node, bound to their addresses.
pub struct Edge {
    clients: Listening,
    operators: Option<Listening>,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
}

/// A port that is bound.
struct Listening {
    port: Port,
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
    fn bind(port: Port, wanted: SocketAddr) -> Result<Listening, EdgeError> {
        let bound = listen(wanted).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| EdgeError::listening(wanted, error))?;
        Ok(Listening { port, listener, address })
    }

    /// How many connections it may have, and the descriptor from which on it accepts none.
    fn room(&self, limits: &Limits) -> (usize, u64) {
        match self.port {
            Port::Clients => (limits.connections_max, limits.descriptors_end),
            Port::Operators => (limits.operator_connections_max, limits.operator_descriptors_end),
        }
    }
}

impl Edge {
    /// Binds the door's address; nobody is let in before [`Edge::run`].
    ///
    /// # Errors
    /// [`EdgeError`] if the address cannot be had, or would let everybody administer.
    pub fn bind(mut config: EdgeConfig, backend: Arc<dyn Backend>, runtimes: Runtimes) -> Result<Edge, EdgeError> {
        if config.admin_token.as_deref().is_some_and(str::is_empty) {
            return Err(EdgeError::EmptyToken);
        }
        if config.customer_secret.as_ref().is_some_and(|Secret(secret)| secret.len() < SECRET_BYTES_MIN) {
            return Err(EdgeError::ShortCustomerSecret);
        }
        if let Some(address) = config.operators
            && config.admin_token.is_none()
            && !address.ip().is_loopback()
        {
            return Err(EdgeError::Unguarded { address });
        }
        let entered = runtimes.selling.enter();
        let clients = Listening::bind(Port::Clients, config.listen)?;
        let operators = config.operators.map(|address| Listening::bind(Port::Operators, address)).transpose()?;
        drop(entered);
        config.listen = clients.address;
        let budgets = Budgets::new(config.budgets.clone());
        let ring = Ring::default();
        ring.note(backend.key_ring());
        let (phase, phases) = watch::channel(Phase::Open);
        let asking = Arc::new(Semaphore::new(config.limits.http_requests_max));
        let dismissing = Semaphore::new(config.limits.turned_away_max);
        let shared = Arc::new(Shared {
            backend,
            config,
            metrics: Metrics::default(),
            runtimes,
            phase: phases,
            connections: AtomicU64::new(0),
            asking,
            dismissing,
            readings: Readings::default(),
            veil: Veil::new(),
            ring,
            denials: Denials::default(),
            guesses: Guesses::default(),
            budgets,
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
        self.operators.as_ref().map(|listening| listening.address)
    }

    /// What tells the world that the node is about to stop.
    pub fn notice(&self) -> Notice {
        Notice(self.phase.clone())
    }

    /// Lets clients in until `shutdown` is done; then lets everybody finish, and returns when all are gone or their time
    /// is over.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Edge { clients, operators, shared, phase } = self;
        let limits = &shared.config.limits;
        let mut opened: Vec<Open> =
            [Some(clients), operators].into_iter().flatten().map(|port| Open::begin(port, &shared)).collect();
        let reading = shared.runtimes.selling.spawn(take_readings(Arc::clone(&shared)));
        let following = shared.runtimes.selling.spawn(follow_keys(Arc::clone(&shared)));
        shutdown.await;
        reading.abort();
        let _ = phase.send(Phase::Draining);
        for open in &mut opened {
            // It returns by itself; a panic of it must not keep the others from being told.
            let _ = (&mut open.accepting).await;
        }
        let left = close(&opened, limits.drain_timeout).await;
        if left > 0 {
            tracing::warn!(connections = left, "connections are cut: they did not end in time");
            let _ = phase.send(Phase::Closed);
            let _ = close(&opened, limits.close_timeout).await;
        }
        following.abort();
    }
}

/// Tells the world that a node is about to stop, before it does.
pub struct Notice(watch::Sender<Phase>);

impl Notice {
    /// `/readyz` says 503 from now on; everything else goes on.
    pub fn give(&self) {
        self.0.send_if_modified(|phase| {
            *phase == Phase::Open && {
                *phase = Phase::Leaving;
                true
            }
        });
    }
}

/// A port that accepts connections.
struct Open {
    accepting: tokio::task::JoinHandle<()>,
    seats: Arc<Semaphore>,
    connections_max: usize,
}

impl Open {
    fn begin(listening: Listening, shared: &Arc<Shared>) -> Open {
        let (connections_max, _) = listening.room(&shared.config.limits);
        let seats = Arc::new(Semaphore::new(connections_max));
        let accepting = accept(listening, Arc::clone(shared), Arc::clone(&seats));
        Open { accepting: shared.runtimes.selling.spawn(accepting), seats, connections_max }
    }
}

/// Waits until every connection has ended, at most so long; how many have not.
async fn close(opened: &[Open], time: Duration) -> usize {
    let all_ended = async {
        for Open { seats, connections_max, .. } in opened {
            let all = u32::try_from(*connections_max).expect("checked by the semaphore");
            let _ = seats.acquire_many(all).await;
        }
    };
    if within(time, all_ended).await.is_some() {
        return 0;
    }
    opened.iter().map(|open| open.connections_max - open.seats.available_permits()).sum()
}

/// Reads the counters once a second, for what the door did in the last seconds.
async fn take_readings(shared: Arc<Shared>) {
    let mut every = tokio::time::interval(READING_EVERY);
    loop {
        every.tick().await;
        shared.readings.take(&shared.metrics);
    }
}

/// Looks again and again how the cluster's keys stand.
async fn follow_keys(shared: Arc<Shared>) {
    let mut every = tokio::time::interval(KEYS_EVERY);
    loop {
        every.tick().await;
        shared.ring.note(shared.backend.key_ring());
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    // Connections that are over must not keep the next start from having the port.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

async fn accept(listening: Listening, shared: Arc<Shared>, seats: Arc<Semaphore>) {
    let (_, descriptors_end) = listening.room(&shared.config.limits);
    let Listening { port, listener, .. } = listening;
    let router = TowerToHyperService::new(http::router(Arc::clone(&shared)));
    let mut ends = std::pin::pin!(draining(shared.phase.clone()));
    let leaving = Arc::new(Semaphore::new(shared.config.limits.turned_away_max));
    loop {
        let accepted = tokio::select! {
            biased;
            () = ends.as_mut() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or the peer went away between its knock and our opening.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        // The system gives out the lowest number that is free, so at least as many are in use.
        if stream.as_raw_fd() as u64 >= descriptors_end {
            shared.metrics.turned_away.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            drop(stream);
            tracing::warn!("there is no file descriptor for another client; none is let in for a moment");
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        }
        let Ok(permit) = Arc::clone(&seats).try_acquire_owned() else {
            shared.metrics.turned_away.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // With too many of them at once the rest is closed without a word; a handshake would cost too much.
            if !shared.speaks_tls(port)
                && let Ok(room) = Arc::clone(&leaving).try_acquire_owned()
            {
                tokio::spawn(turn_away(stream, room));
            }
            continue;
        };
        let guest = Arc::new(Guest::new(port, peer.ip(), Arc::clone(&shared), permit));
        if let Err(error) = set_up(&stream) {
            tracing::debug!(%peer, %error, "a connection ended before it began");
            continue;
        }
        tokio::spawn(serving::serve(stream, router.clone(), guest, Arc::clone(&shared)));
    }
}

fn set_up(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOT_SENT_BYTES_MAX)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))
}

/// There is no room: says so in the few bytes the kernel takes at once. A node that has no room is alive all the same.
async fn turn_away(mut stream: TcpStream, _room: OwnedSemaphorePermit) {
    let mut asked = [0; 1024];
    let read = within(FAREWELL, stream.read(&mut asked)).await;
    let asked = &asked[..read.and_then(Result::ok).unwrap_or(0)];
    let (status, text) = match asked.starts_with(b"GET /healthz ") {
        true => ("200 OK", ALIVE),
        false => ("503 Service Unavailable", NO_ROOM),
    };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: text/plain\r\n\
         content-length: {length}\r\n\r\n{text}"
    );
    serving::dismiss(stream, answer.as_bytes()).await;
}

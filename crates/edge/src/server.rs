//! The port: opened, guarded, and closed with everybody let out.

use std::{
    io,
    net::SocketAddr,
    os::fd::AsRawFd,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use boxoffice_node::config::Secret;
use boxoffice_wire::customer::SECRET_BYTES_MIN;
use hyper::{body::Incoming, server::conn::http1, service::Service as _};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};

use crate::{
    Backend, EdgeConfig, EdgeError, http,
    metrics::Metrics,
    rates::Readings,
    shared::{Guest, Phase, Shared, phase_after, within},
    veil::Veil,
};

/// Connections the kernel keeps for us until they are accepted: a rush of ten thousand comes in waves.
const BACKLOG: i32 = 4_096;

/// Bytes written and not sent yet that a socket may have before it is not writable: without it, a reader that stands still
/// pins megabytes of the kernel's memory.
const NOT_SENT_BYTES_MAX: u32 = 16 * 1024;

/// How long sent bytes may stay unacknowledged before the kernel gives the peer up.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// The most an HTTP head may have, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// How long one who is turned away may take to read that.
const TURN_AWAY: Duration = Duration::from_millis(500);

/// What they are told.
const NO_ROOM: &str =
    "this node has as many connections as it may have (limits.connections): try another node, or again later\n";

/// How long to wait when the process has no file descriptors left for clients.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How often the counters are read.
const READING_EVERY: Duration = Duration::from_secs(1);

/// Where connections run.
#[derive(Clone, Debug)]
pub struct Runtimes {
    /// Those that buy and sell.
    pub selling: Handle,
    /// Those that watch: a round of changes for thousands of them delays nobody else.
    pub watching: Handle,
}

/// The client door of a node, bound to its address.
pub struct Edge {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
}

impl Edge {
    /// Binds the door's address; nobody is let in before [`Edge::run`].
    ///
    /// # Errors
    /// [`EdgeError`] if the address cannot be had, or would let everybody administer.
    pub fn bind(mut config: EdgeConfig, backend: Arc<dyn Backend>, runtimes: Runtimes) -> Result<Edge, EdgeError> {
        let address = config.listen;
        if config.admin_token.as_deref().is_some_and(str::is_empty) {
            return Err(EdgeError::EmptyToken);
        }
        if config.customer_secret.as_ref().is_some_and(|Secret(secret)| secret.len() < SECRET_BYTES_MIN) {
            return Err(EdgeError::ShortCustomerSecret);
        }
        if config.admin_token.is_none() && !address.ip().is_loopback() {
            return Err(EdgeError::Unguarded { address });
        }
        let entered = runtimes.selling.enter();
        let listener = listen(address).map_err(|error| EdgeError::listening(address, error))?;
        let address = listener.local_addr().map_err(|error| EdgeError::listening(address, error))?;
        drop(entered);
        config.listen = address;
        let (phase, phases) = watch::channel(Phase::Open);
        let asking = Arc::new(Semaphore::new(config.limits.http_requests_max));
        let shared = Arc::new(Shared {
            backend,
            config,
            metrics: Metrics::default(),
            runtimes,
            phase: phases,
            connections: AtomicU64::new(0),
            asking,
            readings: Readings::default(),
            veil: Veil::new(),
        });
        Ok(Edge { listener, address, shared, phase })
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Lets clients in until `shutdown` is done; then lets everybody finish, and returns when all are gone or their time
    /// is over.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Edge { listener, shared, phase, .. } = self;
        let seats = Arc::new(Semaphore::new(shared.config.limits.connections_max));
        let accepting = shared.runtimes.selling.spawn(accept(listener, Arc::clone(&shared), Arc::clone(&seats)));
        let reading = shared.runtimes.selling.spawn(take_readings(Arc::clone(&shared)));
        shutdown.await;
        reading.abort();
        let _ = phase.send(Phase::Draining);
        // It returns by itself; a panic of it must not keep the others from being told.
        let _ = accepting.await;
        let everybody = u32::try_from(shared.config.limits.connections_max).expect("checked by the semaphore");
        if within(shared.config.limits.drain_timeout, seats.acquire_many(everybody)).await.is_none() {
            let left = shared.config.limits.connections_max - seats.available_permits();
            tracing::warn!(connections = left, "connections are cut: they did not end in time");
            let _ = phase.send(Phase::Closed);
            let _ = within(shared.config.limits.close_timeout, seats.acquire_many(everybody)).await;
        }
    }
}

/// Reads the counters once a second, for what the door did in the last seconds.
async fn take_readings(shared: Arc<Shared>) {
    let mut every = tokio::time::interval(READING_EVERY);
    loop {
        every.tick().await;
        shared.readings.take(&shared.metrics);
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

async fn accept(listener: TcpListener, shared: Arc<Shared>, seats: Arc<Semaphore>) {
    let router = TowerToHyperService::new(http::router(Arc::clone(&shared)));
    let mut next_phase = std::pin::pin!(phase_after(shared.phase.clone(), Phase::Open));
    let leaving = Arc::new(Semaphore::new(shared.config.limits.turned_away_max));
    loop {
        let accepted = tokio::select! {
            biased;
            _ = next_phase.as_mut() => return,
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
        if stream.as_raw_fd() as u64 >= shared.config.limits.descriptors_end {
            shared.metrics.turned_away.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            drop(stream);
            tracing::warn!("there is no file descriptor for another client; none is let in for a moment");
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        }
        let Ok(permit) = Arc::clone(&seats).try_acquire_owned() else {
            shared.metrics.turned_away.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // With too many of them at once the rest is closed without a word.
            if let Ok(room) = Arc::clone(&leaving).try_acquire_owned() {
                tokio::spawn(turn_away(stream, room));
            }
            continue;
        };
        let guest = Arc::new(Guest::new(Arc::clone(&shared), permit));
        if let Err(error) = set_up(&stream) {
            tracing::debug!(%peer, %error, "a connection ended before it began");
            continue;
        }
        tokio::spawn(serve(stream, router.clone(), guest, Arc::clone(&shared)));
    }
}

fn set_up(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOT_SENT_BYTES_MAX)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))
}

/// There is no room: says so in the few bytes the kernel takes at once.
async fn turn_away(mut stream: TcpStream, _room: OwnedSemaphorePermit) {
    let length = NO_ROOM.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: text/plain\r\n\
         content-length: {length}\r\n\r\n{NO_ROOM}"
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    // What the client has sent is read: a socket that is closed with bytes unread resets the connection, and the answer
    // may be lost with it.
    let mut asked = [0; 1024];
    let listen = async { while stream.read(&mut asked).await.is_ok_and(|read| read > 0) {} };
    let _ = within(TURN_AWAY, listen).await;
}

type Router = TowerToHyperService<axum::Router>;

/// Speaks HTTP until the connection is over or becomes a WebSocket.
async fn serve(stream: TcpStream, router: Router, guest: Arc<Guest>, shared: Arc<Shared>) {
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&guest));
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.config.limits.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = phase_after(shared.phase.clone(), Phase::Open) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

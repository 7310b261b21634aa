//! The port for other nodes.

use std::{
    io,
    net::SocketAddr,
    os::fd::AsRawFd,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use boxoffice_env::NodeId;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    Inner,
    handshake::{self, Caller},
    link::Connection,
    refusal::{Failure, Refusal},
    transport::{Transport, set_up},
};

/// Connections that the kernel queues until they are accepted.
const BACKLOG: i32 = 256;

/// The pause when the process has no file descriptor left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Opens the port.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    // Ended connections must not block the port at the next start.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts connections until it is dropped.
pub(super) async fn accept(inner: Arc<Inner>, listener: TcpListener) {
    let permits = Arc::new(Semaphore::new(inner.config.handshakes_max));
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // The process is out of descriptors, or the caller has gone.
                tracing::warn!(%error, "a node's connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        // The system assigns the lowest free number, so at least as many are in use.
        if stream.as_raw_fd() as u64 >= inner.config.descriptors_end {
            inner.counts.turned_away.fetch_add(1, Relaxed);
            drop(stream);
            tracing::warn!("there is no file descriptor for another node; none is let in for a moment");
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        }
        inner.counts.accepted.fetch_add(1, Relaxed);
        match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => {
                inner.spawn(serve(Arc::clone(&inner), stream, address, permit));
            }
            Err(_) => {
                inner.counts.turned_away.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Does the handshake with a caller, and starts its connection.
async fn serve(inner: Arc<Inner>, stream: TcpStream, address: SocketAddr, permit: OwnedSemaphorePermit) {
    let mut claimed = None;
    let time = inner.config.handshake();
    let done = timeout(time, handshake_with(&inner, stream, &mut claimed)).await;
    let (transport, caller) = match done.unwrap_or(Err((None, Failure::Slow(time)))) {
        Ok(done) => done,
        Err((transport, failure)) => {
            // Both nodes dialed at the same time. That is no failure.
            if !matches!(failure, Failure::Refusal(Refusal::Linked { .. })) {
                inner.handshake_failed(address, claimed, &failure);
            }
            if let (Some(transport), Failure::Refusal(refusal)) = (transport, failure) {
                transport.refuse(&refusal).await;
            }
            return;
        }
    };
    let Caller { claims, link_kind, peer } = caller;
    let connection = Connection::new(link_kind, claims.incarnation, claims.node, &inner.config);
    if let Err(refusal) = peer.install(Arc::clone(&connection), claims.peer_hello().program) {
        // As above, or the node was just removed from the table.
        return transport.refuse(&refusal).await;
    }
    drop(permit);
    inner.spawn_connection(connection, peer, transport, Vec::new());
}

/// The handshake. A failure comes with the transport for the refusal, if there is one.
async fn handshake_with(
    inner: &Arc<Inner>,
    stream: TcpStream,
    claimed: &mut Option<NodeId>,
) -> Result<(Transport, Caller), (Option<Transport>, Failure)> {
    set_up(&stream, &inner.config).map_err(|error| (None, error.into()))?;
    let mut transport = match &inner.tls {
        None => Transport::plain(stream).map_err(|error| (None, error.into()))?,
        Some(tls) => tls.accept(stream).await.map_err(|error| (None, error.into()))?,
    };
    match handshake::accept(inner, &mut transport, claimed).await {
        Ok(caller) => Ok((transport, caller)),
        Err(failure) => Err((Some(transport), failure)),
    }
}

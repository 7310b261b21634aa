//! A WebSocket connection. Its task waits for the first event, takes in everything that has arrived, and flushes once.

// In reading order: the stream, frames over it, the commands under way, timers, the state, its requests, and the task.
mod boundary;
mod encryption;
mod outgoing;
mod socket;

mod frames;

mod cart_queues;
mod under_way;

mod timers;

mod awaited;
mod state;

mod requests;
mod watching;

mod task;

use std::{sync::Arc, time::Duration};

use boxoffice_wire::{Encoding, limits::close};
use bytes::Bytes;
use rustls::ServerConnection;
use tokio::net::TcpStream;

use self::{frames::End, state::Connection, task::MoveToWatching};
use crate::{
    access_end::{ACCESS_END_TIMEOUT, Ended},
    caller::Caller,
    planted,
    shared::{ConnectionPermit, Shared},
};

/// How long a connection with too many requests is not read before it is closed. Otherwise its client would come back at
/// once.
const PENALTY: Duration = Duration::from_secs(2);

/// A connection that has just become a WebSocket.
pub(crate) struct AcceptedSocket {
    pub(crate) stream: TcpStream,
    /// The TLS session, if there is one.
    pub(crate) session: Option<Box<ServerConnection>>,
    /// Bytes that were read already.
    pub(crate) read: Bytes,
    /// The encoding of the subprotocol.
    pub(crate) encoding: Encoding,
    pub(crate) caller: Caller,
    pub(crate) permit: Arc<ConnectionPermit>,
}

/// Serves a connection to its end. With its first `watch` it moves to the runtime for watching.
pub(crate) async fn serve(accepted: AcceptedSocket, shared: Arc<Shared>) {
    let mut connection = Box::new(Connection::new(accepted, Arc::clone(&shared)));
    match connection.hello_and_run().await {
        Ok(MoveToWatching) => {
            let watching = shared.runtimes.watching.clone();
            watching.spawn(async move {
                let ended = connection.run().await;
                let end = ended.expect_err("a connection moves once");
                Box::pin(finish(connection, end, &shared)).await;
            });
        }
        // Boxed, so that a task does not keep room for its end all its life.
        Err(end) => Box::pin(finish(connection, end, &shared)).await,
    }
}

async fn finish(connection: Box<Connection>, end: End, shared: &Shared) {
    let limits = &shared.config.limits;
    match end {
        End::Gone => {}
        End::ClosedByPeer if planted::is("a close without an answer") => {}
        End::ClosedByPeer => connection.into_frames().end(limits, limits.close_timeout).await,
        End::Cut => {
            tracing::debug!("a connection is cut");
            connection.into_frames().cut();
        }
        End::Stalled => {
            shared.metrics.slow_readers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let frames = connection.into_frames();
            frames.close(close::SLOW_READER, "frames are not read fast enough", limits, limits.close_timeout).await;
        }
        End::Close(code, reason) => {
            tracing::debug!(code, %reason, "a connection is closed");
            if code == close::TOO_MANY_REQUESTS {
                tokio::time::sleep(PENALTY).await;
            }
            connection.into_frames().close(code, &reason, limits, limits.close_timeout).await;
        }
        End::Access(ended) => {
            let code = match ended {
                Ended::Revoked | Ended::Guarded => close::UNAUTHENTICATED,
                Ended::Expired => close::TOKEN_EXPIRED,
            };
            let reason = ended.words();
            tracing::debug!(code, reason, "a connection is closed");
            connection.into_frames().close(code, reason, limits, ACCESS_END_TIMEOUT).await;
        }
    }
}

//! One WebSocket connection: a task that waits for whatever comes first, takes in all there is, and flushes once.

// In reading order: the stream, frames over it, what is under way, what the node answered, the task, its requests.
mod boundary;
mod sealed;
mod socket;

mod frames;

mod turns;
mod under_way;
mod watching;

mod clocks;
mod requests;
mod task;

use std::{sync::Arc, time::Duration};

use boxoffice_wire::{Encoding, limits::close};
use bytes::Bytes;
use rustls::ServerConnection;
use tokio::net::TcpStream;

use self::{
    frames::End,
    task::{Connection, Turn},
};
use crate::{
    caller::Caller,
    shared::{Guest, Shared},
};

/// How long a connection with too many requests is not read before it is closed: its client would come again at once.
const PENALTY: Duration = Duration::from_secs(2);

/// A connection that has just become a WebSocket.
pub(crate) struct Newcomer {
    /// The stream.
    pub(crate) stream: TcpStream,
    /// What encrypts it, if it is encrypted.
    pub(crate) session: Option<Box<ServerConnection>>,
    /// What was read of it already.
    pub(crate) read: Bytes,
    /// The subprotocol agreed upon.
    pub(crate) encoding: Encoding,
    /// What it came with.
    pub(crate) caller: Caller,
    /// Its place.
    pub(crate) guest: Arc<Guest>,
}

/// Serves a connection to its end: here as long as it buys and sells, on the runtime of the watchers once it watches.
pub(crate) async fn serve(newcomer: Newcomer, shared: Arc<Shared>) {
    let mut connection = Box::new(Connection::new(newcomer, Arc::clone(&shared)));
    match connection.greet_and_run().await {
        Ok(Turn::Watch) => {
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
        End::Stalled => {
            shared.metrics.slow_readers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            connection.into_frames().close(close::SLOW_READER, "frames are not read fast enough", limits).await;
        }
        End::Close(code, reason) => {
            tracing::debug!(code, %reason, "a connection is closed");
            if code == close::TOO_MANY_REQUESTS {
                tokio::time::sleep(PENALTY).await;
            }
            connection.into_frames().close(code, &reason, limits).await;
        }
    }
}

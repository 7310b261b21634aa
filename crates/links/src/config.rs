//! What may be set about the links to other nodes.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use super::{frame::FRAME_OVERHEAD, queues::QueueBounds};
use boxoffice_env::secret::Secret;

/// The shortest secret of a cluster, in bytes: whoever reaches the port has a hello to try guesses on, so a shorter one could be
/// found.
pub const CLUSTER_SECRET_BYTES_MIN: usize = 16;

/// The settings of a node's links. [`PeerConfig::new`] has those that serve.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Where other nodes connect.
    pub listen: SocketAddr,
    /// What every node of the cluster knows and nobody else; at least [`CLUSTER_SECRET_BYTES_MIN`] bytes.
    pub secret: Secret,
    /// Certificates, if the links are encrypted; either all nodes of a cluster have them or none.
    pub tls: Option<PeerTls>,
    /// A connection that has nothing to say says so each so many milliseconds.
    pub heartbeat_ms: u64,
    /// A connection on which nothing came for so many milliseconds is closed.
    pub silence_ms: u64,
    /// A connection whose other side takes nothing for so many milliseconds is closed, though it may still send.
    pub stall_ms: u64,
    /// How long connecting, and then each side's introduction, may take, in milliseconds.
    pub handshake_ms: u64,
    /// The pause before a node is dialed again the first time, in milliseconds; it doubles each time.
    pub back_off_ms: u64,
    /// … up to this.
    pub back_off_max_ms: u64,
    /// The node with the larger number dials only when it has not been dialed for so many milliseconds.
    pub dial_late_ms: u64,
    /// The longest frame, in bytes.
    pub frame_bytes_max: usize,
    /// How much may wait for one node.
    pub queues: QueueBounds,
    /// Callers that have not introduced themselves yet, at the same time: some kilobytes and a file descriptor each, for as
    /// long as an introduction may take.
    pub handshakes_max: usize,
    /// A caller whose file descriptor has this number or a higher one is closed, and none is accepted for a moment: the rest
    /// is for the node's own files.
    pub descriptors_end: u64,
}

/// The files of an encrypted link, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTls {
    /// This node's certificate, with those that lead to the authority. Its names must have `node-<id>`, and it must serve for
    /// both sides of a connection.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificates of the authority that all nodes' certificates come from.
    pub authority: PathBuf,
}

impl PeerConfig {
    /// Links by this address and secret, everything else as it serves most.
    pub fn new(listen: SocketAddr, secret: Secret) -> PeerConfig {
        PeerConfig {
            listen,
            secret,
            tls: None,
            heartbeat_ms: 500,
            silence_ms: 2_000,
            stall_ms: 10_000,
            handshake_ms: 3_000,
            back_off_ms: 50,
            back_off_max_ms: 2_000,
            dial_late_ms: 1_000,
            frame_bytes_max: 64 << 20,
            queues: QueueBounds::default(),
            handshakes_max: 256,
            descriptors_end: u64::MAX,
        }
    }

    /// Refuses what could not work.
    pub(super) fn check(&self) -> Result<(), PeersError> {
        let wrong = |what: &str| Err(PeersError::Setting(what.to_owned()));
        if self.secret.0.len() < CLUSTER_SECRET_BYTES_MIN {
            return Err(PeersError::ShortSecret);
        }
        if self.heartbeat_ms == 0 || self.silence_ms < self.heartbeat_ms.saturating_mul(2) {
            return wrong(
                "silence_ms must be at least twice heartbeat_ms, or links are closed that only had nothing to say",
            );
        }
        if self.back_off_ms == 0 || self.back_off_max_ms < self.back_off_ms {
            return wrong("back_off_ms must be at least 1 and at most back_off_max_ms");
        }
        if u32::try_from(self.frame_bytes_max.saturating_add(FRAME_OVERHEAD)).is_err() {
            return wrong("frame_bytes_max must be below 4 GiB");
        }
        Ok(())
    }

    pub(super) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    pub(super) fn silence(&self) -> Duration {
        Duration::from_millis(self.silence_ms)
    }

    pub(super) fn stall(&self) -> Duration {
        Duration::from_millis(self.stall_ms)
    }

    pub(super) fn handshake(&self) -> Duration {
        Duration::from_millis(self.handshake_ms)
    }
}

/// Why a node cannot be linked with others.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// The address cannot be had.
    #[error("cannot listen for other nodes on {address}: {error}; is another node running there? (peers.listen)")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The secret could be guessed.
    #[error("the cluster's secret is shorter than {CLUSTER_SECRET_BYTES_MIN} bytes (peers.secret)")]
    ShortSecret,
    /// Settings that do not fit together.
    #[error("{0}")]
    Setting(String),
    /// A file of the certificates cannot be used.
    #[error("{}: {what}", .file.display())]
    Tls {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

//! The configuration of the links to other nodes.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use super::{frame::FRAME_OVERHEAD, queues::QueueBounds};
use boxoffice_env::secret::Secret;

/// The shortest secret of a cluster, in bytes. A stranger at the address of a member can try guesses against the proof of a node
/// that dials it, so a shorter one could be found.
pub const CLUSTER_SECRET_BYTES_MIN: usize = 16;

/// The secrets that a node accepts at the same time.
pub(super) const SECRETS_MAX: usize = 2;

/// The settings of a node's links. [`PeerConfig::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// The address for other nodes.
    pub listen: SocketAddr,
    /// The secret of the cluster's nodes, and another one that is accepted as well while the secret is changed. Each has at least
    /// [`CLUSTER_SECRET_BYTES_MIN`] bytes. Nodes are linked if they share one.
    pub secrets: Vec<Secret>,
    /// The certificates of encrypted links. Either all nodes of a cluster have them or none.
    pub tls: Option<PeerTls>,
    /// Milliseconds between heartbeats of an idle connection.
    pub heartbeat_ms: u64,
    /// A connection without received bytes for this many milliseconds is closed.
    pub silence_ms: u64,
    /// A connection whose other side takes no bytes for this many milliseconds is closed, even if it sends.
    pub stall_ms: u64,
    /// The limit for connecting, and then for the handshake, in milliseconds.
    pub handshake_ms: u64,
    /// The pause before the second dial, in milliseconds. It doubles with each further one.
    pub back_off_ms: u64,
    /// The longest pause between dials, in milliseconds.
    pub back_off_max_ms: u64,
    /// The node with the larger number dials after it was not dialed for this many milliseconds.
    pub dial_late_ms: u64,
    /// The longest frame, in bytes.
    pub frame_bytes_max: usize,
    /// The bounds of the queues to one node.
    pub queues: QueueBounds,
    /// Handshakes of callers at the same time. Each takes some kilobytes and a file descriptor.
    pub handshakes_max: usize,
    /// A caller with this file descriptor number or a higher one is closed, and none is accepted for a moment. Higher
    /// numbers are for the node's own files.
    pub descriptors_end: u64,
}

/// The files of encrypted links, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTls {
    /// This node's certificate chain. It must have the name `node-<id>` and be valid for both sides of a connection.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificates of the authority of all nodes.
    pub authority: PathBuf,
}

impl PeerConfig {
    /// The defaults with this address and this secret alone.
    pub fn new(listen: SocketAddr, secret: Secret) -> PeerConfig {
        PeerConfig {
            listen,
            secrets: vec![secret],
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

    pub(super) fn check(&self) -> Result<(), PeersError> {
        let wrong = |what: &str| Err(PeersError::Setting(what.to_owned()));
        if self.secrets.iter().any(|Secret(secret)| secret.len() < CLUSTER_SECRET_BYTES_MIN) {
            return Err(PeersError::ShortSecret);
        }
        if !(1..=SECRETS_MAX).contains(&self.secrets.len()) {
            return wrong("a node has one secret of the cluster, or two while it is changed (peers.secret)");
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

/// A node's links cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// The address is not available.
    #[error("cannot listen for other nodes on {address}: {error}; is another node running there? (peers.listen)")]
    Listen { address: SocketAddr, error: io::Error },
    /// The secret could be guessed.
    #[error("the cluster's secret is shorter than {CLUSTER_SECRET_BYTES_MIN} bytes (peers.secret)")]
    ShortSecret,
    /// Settings contradict each other.
    #[error("{0}")]
    Setting(String),
    /// A file of the certificates cannot be used.
    #[error("{}: {what}", .file.display())]
    Tls { file: PathBuf, what: String },
}

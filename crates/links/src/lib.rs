//! Links to other nodes over TCP. Each pair of nodes keeps two connections. Frames arrive in order and unchanged, and
//! all queues are bounded.
//!
//! [`TcpNet`] is the [`Net`] of a cluster of processes. It dials and accepts connections, verifies the other node, and
//! carries frames without knowing their content.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use boxoffice_env::{Clock, Lane, LinkStatus, Local, Net, NodeId, NotSent, PeerAddress, PeerInbox, Rng};
use bytes::Bytes;
use tokio::{net::TcpListener, runtime::Handle, sync::watch};
use tracing_mutex::parkinglot::{Mutex, RwLock};

mod config;
mod counts;
#[doc(hidden)]
pub mod decoders;
mod dial;
mod encrypted;
mod frame;
mod frame_writer;
mod handshake;
mod hello;
mod link;
mod listen;
mod peer;
mod proof;
mod queues;
mod refusal;
mod tls;
mod transport;

#[cfg(test)]
mod tests;

pub use config::{CLUSTER_SECRET_BYTES_MIN, PeerConfig, PeerTls, PeersError};
pub use queues::{LaneBound, QueueBounds};

use self::{
    link::Connection,
    peer::Peer,
    queues::LinkKind,
    refusal::{Failure, Refusal},
    tls::Tls,
    transport::Transport,
};

/// The net of a cluster of processes. Dropping it, or [`TcpNet::close`], ends every link and closes the port.
///
/// It keeps the inbox given to [`Net::start`] until then, so the inbox must not keep this net alive.
pub struct TcpNet(Arc<Inner>);

/// The state that all tasks of the links share.
struct Inner {
    config: PeerConfig,
    tls: Option<Tls>,
    runtime: Handle,
    /// The runtime that carries consensus, if it is another one.
    replication: OnceLock<Handle>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    /// A random number that tells this process from earlier ones of this node.
    incarnation: u64,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    started: OnceLock<Started>,
    peers: RwLock<BTreeMap<NodeId, Arc<Peer>>>,
    counts: PortCounters,
    stop: watch::Sender<bool>,
    /// The last warning about an unknown caller, so that a repeated attempt does not fill the log.
    last_warning: Mutex<String>,
}

struct Started {
    local: Local,
    inbox: Arc<dyn PeerInbox>,
}

#[derive(Default)]
struct PortCounters {
    accepted: AtomicU64,
    turned_away: AtomicU64,
    aborted: AtomicU64,
    refused: AtomicU64,
    corrupt: AtomicU64,
}

/// Connections to the port since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Accepted connections.
    pub accepted: u64,
    /// Of these, closed at once because too many handshakes were under way.
    pub turned_away: u64,
    /// Of these, ended before the caller was known to be a node.
    pub aborted: u64,
    /// Of these, refused nodes, and callers without the secret.
    pub refused: u64,
    /// Connections of links that were closed because of damaged frames.
    pub corrupt: u64,
}

impl TcpNet {
    /// Opens the port. No node is let in before [`Net::start`]. All tasks run on `runtime`, except those that
    /// [`Net::start`] moves to another one.
    ///
    /// # Errors
    /// [`PeersError`] if a setting or a file is wrong or the address is not available.
    pub fn new(
        config: PeerConfig,
        runtime: Handle,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
    ) -> Result<TcpNet, PeersError> {
        config.check()?;
        let tls = config.tls.as_ref().map(Tls::load).transpose()?;
        let failed = |error| PeersError::Listen { address: config.listen, error };
        let entered = runtime.enter();
        let listener = listen::bind(config.listen).map_err(failed)?;
        drop(entered);
        let address = listener.local_addr().map_err(failed)?;
        let incarnation = rng.u64();
        Ok(TcpNet(Arc::new(Inner {
            config,
            tls,
            runtime,
            replication: OnceLock::new(),
            clock,
            rng,
            incarnation,
            address,
            listener: Mutex::new(Some(listener)),
            started: OnceLock::new(),
            peers: RwLock::default(),
            counts: PortCounters::default(),
            stop: watch::Sender::new(false),
            last_warning: Mutex::default(),
        })))
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.address
    }

    /// Whether links are encrypted.
    pub fn has_certificates(&self) -> bool {
        self.0.tls.is_some()
    }

    /// Reads the certificates again for new links, and returns whether they have changed. Existing links keep theirs.
    ///
    /// # Errors
    /// They have changed and are not valid. Then the old ones stay in use.
    pub fn reload_certificates(&self) -> Result<bool, PeersError> {
        self.0.tls.as_ref().map_or(Ok(false), Tls::reload)
    }

    /// Connections to the port since the start.
    pub fn port_counts(&self) -> PortCounts {
        let counts = &self.0.counts;
        PortCounts {
            accepted: counts.accepted.load(Relaxed),
            turned_away: counts.turned_away.load(Relaxed),
            aborted: counts.aborted.load(Relaxed),
            refused: counts.refused.load(Relaxed),
            corrupt: counts.corrupt.load(Relaxed),
        }
    }

    /// Ends every link and closes the port. From now on nothing is reported and nothing can be sent.
    pub fn close(&self) {
        self.0.stop.send_replace(true);
        *self.0.listener.lock() = None;
        for peer in self.0.peers.read().values() {
            peer.disallow("this node goes away");
        }
    }
}

impl Drop for TcpNet {
    fn drop(&mut self) {
        self.close();
    }
}

impl Net for TcpNet {
    /// # Panics
    /// If called a second time.
    fn start(&self, local: Local, inbox: Arc<dyn PeerInbox>, replication: Option<&Handle>) {
        let inner = &self.0;
        if let Some(replication) = replication {
            inner.replication.get_or_init(|| replication.clone());
        }
        let peers = inner.peers.write();
        assert!(inner.started.set(Started { local, inbox }).is_ok(), "a node's net is started once");
        if let Some(listener) = inner.listener.lock().take() {
            inner.spawn(listen::accept(Arc::clone(inner), listener));
        }
        for peer in peers.values() {
            inner.spawn_peer_tasks(peer);
        }
    }

    fn set_peers(&self, listed: &[PeerAddress]) {
        let inner = &self.0;
        let mut peers = inner.peers.write();
        for peer in peers.values() {
            if !listed.iter().any(|entry| entry.node == peer.node) {
                peer.disallow("the node was taken out of the table");
            }
        }
        for entry in listed {
            let peer = peers.entry(entry.node).or_insert_with(|| inner.add_peer(entry.node));
            peer.set_listed(&entry.address);
        }
    }

    fn send(&self, to: NodeId, lane: Lane, frame: Bytes) -> Result<u64, NotSent> {
        if frame.len() > self.0.config.frame_bytes_max {
            return Err(NotSent::TooLong { node: to, bytes: frame.len() });
        }
        match self.0.peers.read().get(&to) {
            Some(peer) => peer.send(lane, frame),
            None => Err(NotSent::Unreachable(to)),
        }
    }

    fn links(&self) -> Vec<LinkStatus> {
        let me = self.0.started.get().map(|started| started.local.node);
        let peers = self.0.peers.read();
        let others = peers.values().filter(|peer| peer.is_listed() && Some(peer.node) != me);
        others.map(|peer| peer.status()).collect()
    }

    fn damaged(&self) -> u64 {
        self.port_counts().corrupt
    }
}

impl Inner {
    fn started(&self) -> &Started {
        self.started.get().expect("nothing runs before the start")
    }

    fn inbox(&self) -> &dyn PeerInbox {
        &*self.started().inbox
    }

    fn peer(&self, node: NodeId) -> Option<Arc<Peer>> {
        self.peers.read().get(&node).cloned()
    }

    /// Allows a link with a node that the table does not list. It is not dialed.
    fn admit_unlisted(self: &Arc<Inner>, node: NodeId) -> Arc<Peer> {
        let mut peers = self.peers.write();
        let peer = peers.entry(node).or_insert_with(|| self.add_peer(node));
        peer.allow_unlisted();
        Arc::clone(peer)
    }

    fn add_peer(self: &Arc<Inner>, node: NodeId) -> Arc<Peer> {
        let peer = Arc::new(Peer::new(node, Arc::clone(&self.clock)));
        self.spawn_peer_tasks(&peer);
        peer
    }

    /// Runs a task until it is done or the net is closed.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(&self.runtime, task);
    }

    fn spawn_on(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        let mut stop = self.stop.subscribe();
        runtime.spawn(async move {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stopped| *stopped) => {}
                () = task => {}
            }
        });
    }

    /// Carries the frames of an established connection until it ends. `first` is written before anything else.
    fn spawn_connection(
        self: &Arc<Inner>,
        connection: Arc<Connection>,
        peer: Arc<Peer>,
        transport: Transport,
        first: Vec<u8>,
    ) {
        let replication = self.replication.get();
        let direct = replication.filter(|_| connection.link_kind == LinkKind::Consensus);
        if direct.is_some() {
            self.spawn(Arc::clone(&connection).send_heartbeats(self.config.heartbeat()));
        }
        let (inner, is_direct) = (Arc::clone(self), direct.is_some());
        self.spawn_on(direct.unwrap_or(&self.runtime), async move {
            let lost = match transport.moved_to_this_runtime() {
                Ok(transport) => connection.run(&inner, (peer.node, &peer.counts), transport, (is_direct, first)).await,
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = lost {
                peer.on_lost(&connection, &why);
            }
        });
    }

    /// Dials a peer and reports its link, from the start on. Does nothing for this node itself.
    fn spawn_peer_tasks(self: &Arc<Inner>, peer: &Arc<Peer>) {
        if self.started.get().is_none_or(|started| started.local.node == peer.node) {
            return;
        }
        let (inner, peer) = (Arc::clone(self), Arc::clone(peer));
        self.spawn(async move {
            tokio::join!(
                peer.report_changes(inner.inbox()),
                dial::keep(Arc::clone(&inner), Arc::clone(&peer), LinkKind::Consensus),
                dial::keep(Arc::clone(&inner), Arc::clone(&peer), LinkKind::Common),
            );
        });
    }

    /// Counts a caller that did not become a link, and logs the reason.
    fn handshake_failed(&self, address: SocketAddr, claimed: Option<NodeId>, failure: &Failure) {
        let refused = match failure {
            Failure::Refusal(Refusal::CallerWithoutSecret { .. }) => true,
            Failure::Refusal(_) | Failure::Refused(_) => claimed.is_some(),
            Failure::Io(_)
            | Failure::Ended
            | Failure::Slow(_)
            | Failure::Corrupt(_)
            | Failure::OutOfTurn(_)
            | Failure::UnverifiedRemoval(_)
            | Failure::Removed(_) => false,
        };
        let count = if refused { &self.counts.refused } else { &self.counts.aborted };
        count.fetch_add(1, Relaxed);
        let what = format!("a caller from {}: {failure}", address.ip());
        let me = self.started().local.node;
        match claimed.filter(|node| *node != me).and_then(|node| self.peer(node)) {
            Some(peer) => peer.record_error(&what),
            None if std::mem::replace(&mut *self.last_warning.lock(), what.clone()) != what => tracing::warn!("{what}"),
            None => tracing::debug!("{what}"),
        }
    }
}

//! Links to other nodes over TCP: two connections a pair, kept standing; frames in order, unchanged, bounded.
//!
//! [`TcpNet`] is the [`Net`] of a cluster of processes. It dials and accepts, proves and checks who is at the other end, and carries
//! frames; what is in them it does not know.

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
use parking_lot::{Mutex, RwLock};
use tokio::{net::TcpListener, runtime::Handle, sync::watch};

mod config;
mod counts;
#[doc(hidden)]
pub mod decoders;
mod dial;
mod frame;
mod frame_writer;
mod handshake;
mod hello;
mod link;
mod listen;
mod peer;
mod queues;
mod refusal;
mod tls;
mod transport;

pub use config::{CLUSTER_SECRET_BYTES_MIN, PeerConfig, PeerTls, PeersError};
pub use queues::{LaneBound, QueueBounds};

use self::{link::Connection, peer::Peer, queues::LinkKind, refusal::Failure, tls::Tls, transport::Transport};

/// The net of a cluster of processes. Dropping it, or [`TcpNet::close`], ends every link and closes the port.
///
/// What is given to [`Net::start`] is kept until then: an inbox that leads back to this net must not keep it alive.
pub struct TcpNet(Arc<Inner>);

/// What the tasks of the links share.
struct Inner {
    config: PeerConfig,
    tls: Option<Tls>,
    runtime: Handle,
    /// Where consensus is carried, if not there.
    replication: OnceLock<Handle>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    /// Drawn at the start: tells this process from the one that was this node before.
    incarnation: u64,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    started: OnceLock<Started>,
    peers: RwLock<BTreeMap<NodeId, Arc<Peer>>>,
    counts: PortCounters,
    stop: watch::Sender<bool>,
    /// What was last said of a caller who is nobody's neighbour, so that one who tries on does not fill the log.
    last_warning: Mutex<String>,
}

/// What is known from the start on.
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

/// What came to the port since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Connections accepted.
    pub accepted: u64,
    /// … closed at once, for too many others had not introduced themselves yet.
    pub turned_away: u64,
    /// … that came to nothing: what was said was no node's, or nothing, or the connection broke.
    pub aborted: u64,
    /// … of nodes that were refused.
    pub refused: u64,
    /// Links' connections closed because what came was damaged.
    pub corrupt: u64,
}

impl TcpNet {
    /// Opens the port; nobody is let in before [`Net::start`]. All work is done on `runtime`, but for what [`Net::start`] says.
    ///
    /// # Errors
    /// [`PeersError`] when a setting or a file is wrong or the address cannot be had.
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

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.address
    }

    /// Whether links are encrypted.
    pub fn has_certificates(&self) -> bool {
        self.0.tls.is_some()
    }

    /// Reads the certificates again: links that begin from now on are encrypted with them, others go on. Says whether they
    /// are others than before.
    ///
    /// # Errors
    /// They have changed and cannot be used: those before stay.
    pub fn reload_certificates(&self) -> Result<bool, PeersError> {
        self.0.tls.as_ref().map_or(Ok(false), Tls::reload)
    }

    /// What came to the port.
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

    /// Ends every link and closes the port; nothing is told any more, and nothing can be sent.
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
    /// When called a second time.
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

    /// A node that may be linked with although it is not in the table; it is not dialed.
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

    /// Runs this until it is done or the net is closed.
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

    /// Carries frames over a connection that stands, until it ends. `first` is written before anything else.
    fn spawn_connection(
        self: &Arc<Inner>,
        connection: Arc<Connection>,
        peer: Arc<Peer>,
        transport: Transport,
        first: Vec<u8>,
    ) {
        let replication = self.replication.get();
        let direct = replication.filter(|_| connection.link_kind == LinkKind::Consensus && transport.is_plain());
        let (inner, carried, may_write) = (Arc::clone(self), Arc::clone(&connection), direct.is_some());
        let carrying = async move {
            match transport.moved_to_this_runtime(may_write) {
                Ok(transport) => {
                    let (node, counts) = (peer.node, &peer.counts);
                    if let Some(why) = carried.run(&inner, (node, counts), transport, first).await {
                        peer.on_lost(&carried, &why);
                    }
                }
                Err(error) => peer.on_lost(&carried, &error.to_string()),
            }
        };
        match direct {
            Some(replication) => {
                self.spawn(connection.send_heartbeats(self.config.heartbeat()));
                self.spawn_on(replication, carrying);
            }
            None => self.spawn(carrying),
        }
    }

    /// Has a neighbour dialed, and told of, from the start on. Not this node itself.
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

    /// A caller did not become a link: it is counted, and said where somebody looks for it.
    fn handshake_failed(&self, address: SocketAddr, claimed: Option<NodeId>, failure: &Failure) {
        let refused = matches!(failure, Failure::Refusal(_) | Failure::Refused(_));
        let count = if refused && claimed.is_some() { &self.counts.refused } else { &self.counts.aborted };
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

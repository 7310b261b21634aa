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

use boxoffice_env::{Clock, Lane, LinkStatus, Local, Net, NodeId, NotSent, Peer, PeerInbox, Rng};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::{net::TcpListener, runtime::Handle, sync::watch};

mod config;
mod counts;
#[doc(hidden)]
pub mod decoders;
mod dial;
mod ends;
mod frame;
mod hello;
mod introduction;
mod link;
mod listen;
mod neighbour;
mod pen;
mod queues;
mod refusal;
mod tls;

pub use config::{CLUSTER_SECRET_BYTES_MIN, PeerConfig, PeerTls, PeersError};
pub use queues::{LaneBound, QueueBounds};

use self::{ends::Ends, link::Connection, neighbour::Neighbour, queues::Road, refusal::Failure, tls::Tls};

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
    life: u64,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    began: OnceLock<Began>,
    neighbours: RwLock<BTreeMap<NodeId, Arc<Neighbour>>>,
    counts: Counts,
    stop: watch::Sender<bool>,
    /// What was last said of a caller who is nobody's neighbour, so that one who tries on does not fill the log.
    said: Mutex<String>,
}

/// What is known from the start on.
struct Began {
    local: Local,
    inbox: Arc<dyn PeerInbox>,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    turned_away: AtomicU64,
    strangers: AtomicU64,
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
    pub strangers: u64,
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
        let life = rng.u64();
        Ok(TcpNet(Arc::new(Inner {
            config,
            tls,
            runtime,
            replication: OnceLock::new(),
            clock,
            rng,
            life,
            address,
            listener: Mutex::new(Some(listener)),
            began: OnceLock::new(),
            neighbours: RwLock::default(),
            counts: Counts::default(),
            stop: watch::Sender::new(false),
            said: Mutex::default(),
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
            strangers: counts.strangers.load(Relaxed),
            refused: counts.refused.load(Relaxed),
            corrupt: counts.corrupt.load(Relaxed),
        }
    }

    /// Ends every link and closes the port; nothing is told any more, and nothing can be sent.
    pub fn close(&self) {
        self.0.stop.send_replace(true);
        *self.0.listener.lock() = None;
        for neighbour in self.0.neighbours.read().values() {
            neighbour.leave("this node goes away");
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
        let neighbours = inner.neighbours.write();
        assert!(inner.began.set(Began { local, inbox }).is_ok(), "a node's net is started once");
        if let Some(listener) = inner.listener.lock().take() {
            inner.spawn(listen::accept(Arc::clone(inner), listener));
        }
        for neighbour in neighbours.values() {
            inner.attend(neighbour);
        }
    }

    fn set_peers(&self, peers: &[Peer]) {
        let inner = &self.0;
        let mut neighbours = inner.neighbours.write();
        for neighbour in neighbours.values() {
            if !peers.iter().any(|peer| peer.node == neighbour.node) {
                neighbour.leave("the node was taken out of the table");
            }
        }
        for peer in peers {
            let neighbour = neighbours.entry(peer.node).or_insert_with(|| inner.meet(peer.node));
            neighbour.enter(&peer.address);
        }
    }

    fn send(&self, to: NodeId, lane: Lane, frame: Bytes) -> Result<u64, NotSent> {
        if frame.len() > self.0.config.frame_bytes_max {
            return Err(NotSent::TooLong { node: to, bytes: frame.len() });
        }
        match self.0.neighbours.read().get(&to) {
            Some(neighbour) => neighbour.send(lane, frame),
            None => Err(NotSent::Unreachable(to)),
        }
    }

    fn links(&self) -> Vec<LinkStatus> {
        let me = self.0.began.get().map(|began| began.local.node);
        let neighbours = self.0.neighbours.read();
        let others = neighbours.values().filter(|neighbour| neighbour.is_member() && Some(neighbour.node) != me);
        others.map(|neighbour| neighbour.status()).collect()
    }

    fn damaged(&self) -> u64 {
        self.port_counts().corrupt
    }
}

impl Inner {
    fn began(&self) -> &Began {
        self.began.get().expect("nothing runs before the start")
    }

    fn inbox(&self) -> &dyn PeerInbox {
        &*self.began().inbox
    }

    fn neighbour(&self, node: NodeId) -> Option<Arc<Neighbour>> {
        self.neighbours.read().get(&node).cloned()
    }

    /// A node that may be linked with although it is not in the table; it is not dialed.
    fn guest(self: &Arc<Inner>, node: NodeId) -> Arc<Neighbour> {
        let mut neighbours = self.neighbours.write();
        let neighbour = neighbours.entry(node).or_insert_with(|| self.meet(node));
        neighbour.welcome();
        Arc::clone(neighbour)
    }

    fn meet(self: &Arc<Inner>, node: NodeId) -> Arc<Neighbour> {
        let neighbour = Arc::new(Neighbour::new(node, Arc::clone(&self.clock)));
        self.attend(&neighbour);
        neighbour
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
    fn carry(self: &Arc<Inner>, connection: Arc<Connection>, neighbour: Arc<Neighbour>, ends: Ends, first: Vec<u8>) {
        let replication = self.replication.get();
        let direct = replication.filter(|_| connection.road == Road::Consensus && ends.is_plain());
        let (inner, carried, may_write) = (Arc::clone(self), Arc::clone(&connection), direct.is_some());
        let carrying = async move {
            match ends.moved_here(may_write) {
                Ok(ends) => {
                    let (node, counts) = (neighbour.node, &neighbour.counts);
                    if let Some(why) = carried.run(&inner, (node, counts), ends, first).await {
                        neighbour.lost(&carried, &why);
                    }
                }
                Err(error) => neighbour.lost(&carried, &error.to_string()),
            }
        };
        match direct {
            Some(replication) => {
                self.spawn(connection.beat(self.config.heartbeat()));
                self.spawn_on(replication, carrying);
            }
            None => self.spawn(carrying),
        }
    }

    /// Has a neighbour dialed, and told of, from the start on. Not this node itself.
    fn attend(self: &Arc<Inner>, neighbour: &Arc<Neighbour>) {
        if self.began.get().is_none_or(|began| began.local.node == neighbour.node) {
            return;
        }
        let (inner, neighbour) = (Arc::clone(self), Arc::clone(neighbour));
        self.spawn(async move {
            tokio::join!(
                neighbour.tell(inner.inbox()),
                dial::keep(Arc::clone(&inner), Arc::clone(&neighbour), Road::Consensus),
                dial::keep(Arc::clone(&inner), Arc::clone(&neighbour), Road::Common),
            );
        });
    }

    /// A caller did not become a link: it is counted, and said where somebody looks for it.
    fn not_introduced(&self, address: SocketAddr, claimed: Option<NodeId>, failure: &Failure) {
        let refused = matches!(failure, Failure::Refusal(_) | Failure::Refused(_));
        let count = if refused && claimed.is_some() { &self.counts.refused } else { &self.counts.strangers };
        count.fetch_add(1, Relaxed);
        let what = format!("a caller from {}: {failure}", address.ip());
        let me = self.began().local.node;
        match claimed.filter(|node| *node != me).and_then(|node| self.neighbour(node)) {
            Some(neighbour) => neighbour.note(&what),
            None if std::mem::replace(&mut *self.said.lock(), what.clone()) != what => tracing::warn!("{what}"),
            None => tracing::debug!("{what}"),
        }
    }
}

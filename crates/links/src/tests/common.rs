//! Nodes that only have links, and record what they receive.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering::Relaxed},
    time::Duration,
};

use boxoffice_core::version::NodeVersions;
use boxoffice_env::{
    Lane, LinkStatus, Local, Net, NodeId, NotSent, OsClock, OsRng, PeerAddress, PeerAdmission, PeerHello, PeerInbox,
    PeerRejection, secret::Secret,
};
use bytes::Bytes;
use tokio::runtime::Handle;
use tracing_mutex::parkinglot::Mutex;

use crate::{PeerConfig, PeersError, TcpNet};

pub(crate) const SECRET: &str = "the secret of the cluster";
pub(crate) const CLUSTER: u128 = 0xc1;
pub(crate) const LANES: [Lane; 4] = [Lane::Consensus, Lane::Calls, Lane::Feeds, Lane::Bulk];

/// Time limit of expected events. Only a broken link takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The version of every node's table.
pub(crate) const TABLE: u64 = 12;

/// The calls that a node received.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) frames: Mutex<Vec<(NodeId, Lane, Bytes)>>,
    pub(crate) links: Mutex<Vec<(NodeId, bool)>>,
    pub(crate) offered: Mutex<Vec<PeerHello>>,
    /// It admits unlisted nodes.
    pub(crate) open: AtomicBool,
    /// It rejects every node.
    pub(crate) strict: AtomicBool,
    /// Its rejections are permanent.
    pub(crate) permanent: AtomicBool,
    pub(crate) removals: Mutex<Vec<(NodeId, String)>>,
}

impl PeerInbox for Seen {
    fn frame(&self, from: NodeId, lane: Lane, frame: Bytes) {
        self.frames.lock().push((from, lane, frame));
    }

    fn link(&self, node: NodeId, up: bool) {
        self.links.lock().push((node, up));
    }

    fn table(&self) -> u64 {
        TABLE
    }

    fn versions(&self) -> NodeVersions {
        NodeVersions::newest()
    }

    fn admit(&self, hello: &PeerHello) -> Result<PeerAdmission, PeerRejection> {
        self.offered.lock().push(hello.clone());
        if !self.strict.load(Relaxed) {
            return Ok(if self.open.load(Relaxed) { PeerAdmission::Unlisted } else { PeerAdmission::AsListed });
        }
        let why = format!("disk {:x} was removed", hello.disk);
        Err(PeerRejection { why, permanent: self.permanent.load(Relaxed) })
    }

    fn removed(&self, by: NodeId, why: &str) {
        self.removals.lock().push((by, why.to_owned()));
    }
}

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) net: TcpNet,
    pub(crate) seen: Arc<Seen>,
}

/// Settings with short timeouts. Only the smaller number dials.
pub(crate) fn config() -> PeerConfig {
    PeerConfig {
        heartbeat_ms: 100,
        silence_ms: 5_000,
        back_off_ms: 10,
        back_off_max_ms: 100,
        dial_late_ms: 3_600_000,
        handshake_ms: 10_000,
        ..PeerConfig::new("127.0.0.1:0".parse().expect("an address"), Secret(SECRET.into()))
    }
}

pub(crate) fn open(config: PeerConfig) -> Result<TcpNet, PeersError> {
    TcpNet::new(config, Handle::current(), Arc::new(OsClock::new()), Arc::new(OsRng))
}

impl Node {
    /// A started node with an empty table.
    pub(crate) fn new(id: NodeId) -> Node {
        Node::with(id, config())
    }

    pub(crate) fn with(id: NodeId, config: PeerConfig) -> Node {
        Node::of_cluster(CLUSTER, id, config)
    }

    pub(crate) fn of_cluster(cluster: u128, id: NodeId, config: PeerConfig) -> Node {
        Node::around_cluster(cluster, id, open(config).expect("a port"))
    }

    /// A node with this net.
    pub(crate) fn around(id: NodeId, net: TcpNet) -> Node {
        Node::around_cluster(CLUSTER, id, net)
    }

    fn around_cluster(cluster: u128, id: NodeId, net: TcpNet) -> Node {
        Node::start(cluster, id, net, &Handle::current())
    }

    /// A node that replicates on a runtime of its own.
    pub(crate) fn replicating_on(runtime: &Handle, id: NodeId, config: PeerConfig) -> Node {
        Node::start(CLUSTER, id, open(config).expect("a port"), runtime)
    }

    fn start(cluster: u128, id: NodeId, net: TcpNet, replication: &Handle) -> Node {
        let seen = Arc::new(Seen::default());
        let local = Local { cluster, node: id, disk: 0xd0 + u128::from(id) };
        net.start(local, Arc::clone(&seen) as Arc<dyn PeerInbox>, Some(replication));
        Node { id, net, seen }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.net.local_addr()
    }

    pub(crate) fn knows(&self, others: &[(NodeId, SocketAddr)]) {
        let peers: Vec<_> =
            others.iter().map(|(node, address)| PeerAddress { node: *node, address: address.to_string() }).collect();
        self.net.set_peers(&peers);
    }

    pub(crate) fn link(&self, node: NodeId) -> LinkStatus {
        self.net.links().into_iter().find(|link| link.node == node).expect("it is in the table")
    }

    /// Waits until the last report says that the link is up.
    pub(crate) async fn linked(&self, node: NodeId) {
        until(&format!("node {} is linked with {node}", self.id), || self.link_changes(node).last() == Some(&true))
            .await;
    }

    pub(crate) async fn lost(&self, node: NodeId) {
        until(&format!("node {} has lost {node}", self.id), || self.link_changes(node).last() == Some(&false)).await;
    }

    /// The reports about this link so far.
    pub(crate) fn link_changes(&self, node: NodeId) -> Vec<bool> {
        self.seen.links.lock().iter().filter(|(of, _)| *of == node).map(|(_, up)| *up).collect()
    }

    /// Waits for these words in the last error of a link.
    pub(crate) async fn reports(&self, node: NodeId, words: &str) {
        let last_error = || self.link(node).last_error.unwrap_or_default();
        let what = format!("node {} reports for {node}: {words}", self.id);
        until_else(&what, || last_error().contains(words), last_error).await;
    }

    /// The frames from `node` on this lane, in order.
    pub(crate) fn received(&self, node: NodeId, lane: Lane) -> Vec<Bytes> {
        let frames = self.seen.frames.lock();
        frames.iter().filter(|(from, by, _)| (*from, *by) == (node, lane)).map(|(_, _, frame)| frame.clone()).collect()
    }

    /// Sends a frame, and again while the queue is full or the link is down.
    pub(crate) async fn send(&self, to: NodeId, lane: Lane, frame: Bytes) {
        let full = || match self.net.send(to, lane, frame.clone()) {
            Ok(_) => true,
            Err(NotSent::Full(_) | NotSent::Unreachable(_)) => false,
            Err(NotSent::TooLong { .. }) => panic!("the frame is too long"),
        };
        until("the queue has room", full).await;
    }

    /// Sends one frame and waits until it has arrived. It is sent again only if the link was lost since.
    pub(crate) async fn reaches(&self, other: &Node, lane: Lane, frame: &'static [u8]) {
        let what = format!("{frame:?} has arrived at {}", other.id);
        let wait = async {
            loop {
                let changes = self.link_changes(other.id).len();
                self.send(other.id, lane, Bytes::from_static(frame)).await;
                let came = || other.received(self.id, lane).iter().any(|came| came == frame);
                until(&what, || came() || self.link_changes(other.id).len() > changes).await;
                if came() {
                    break;
                }
            }
        };
        assert!(tokio::time::timeout(TIMEOUT, wait).await.is_ok(), "timed out: {what}");
    }
}

/// Links these with each other.
pub(crate) async fn link_all(nodes: &[&Node]) {
    for node in nodes {
        let others: Vec<_> = nodes.iter().map(|other| (other.id, other.address())).collect();
        node.knows(&others);
    }
    for node in nodes {
        for other in nodes.iter().filter(|other| other.id != node.id) {
            node.linked(other.id).await;
        }
    }
}

pub(crate) async fn until(what: &str, done: impl FnMut() -> bool) {
    until_else(what, done, String::new).await;
}

async fn until_else(what: &str, mut done: impl FnMut() -> bool, instead: impl Fn() -> String) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if tokio::time::timeout(TIMEOUT, wait).await.is_err() {
        panic!("timed out: {what}; instead: {}", instead());
    }
}

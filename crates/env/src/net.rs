//! Frames between nodes.

use std::sync::Arc;

use boxoffice_core::{stored::Stored, version::NodeVersions};
use bytes::{Buf, BufMut, Bytes};
use smol_str::SmolStr;
use tokio::runtime::Handle;

/// A node's number in its cluster. It is never reused.
pub type NodeId = u64;

/// The purpose of a frame. Two connections join a pair of nodes. One is for [`Lane::Consensus`]. The other three lanes
/// share the second one by fair turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Raft messages. They are small and urgent. They may be dropped, because raft sends again.
    Consensus,
    /// Commands and their answers.
    Calls,
    /// Live feeds of entities that another node has.
    Feeds,
    /// Snapshots, in frames of at most 256 KiB. A larger frame would delay calls until it is written.
    Bulk,
}

/// Another node, as listed in the cluster's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress {
    pub node: NodeId,
    /// `host:port` for other nodes. A host name is resolved at each dial.
    pub address: String,
}

/// This node's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    pub cluster: u128,
    pub node: NodeId,
    /// The identity of its data directory.
    pub disk: u128,
}

/// The claims of another node about itself, which has proved that it knows the cluster's secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerHello {
    /// The cluster's identity. It is ours, because other clusters are refused earlier.
    pub cluster: u128,
    pub node: NodeId,
    /// The identity of its data directory.
    pub disk: u128,
    /// The version of its link protocol.
    pub version: u16,
    /// The program it runs, with its version.
    pub program: SmolStr,
    /// The version of its copy of the cluster's table, 0 without one.
    pub table: u64,
    /// The durable end of its log.
    pub durable_position: DurablePosition,
    /// The versions of the cluster that it reads, and the one under which it writes.
    pub versions: NodeVersions,
}

/// How another node is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAdmission {
    /// Only if the table given to [`Net::set_peers`] lists it.
    AsListed,
    /// Even if that table does not list it, because its hello names a later table. A node that missed changes of the members may
    /// learn of them only from members that joined since.
    Unlisted,
}

/// Receives frames and reports from the links. Their threads call it, so it must be quick and never block.
pub trait PeerInbox: Send + Sync {
    /// `from` sent this frame on `lane`. It is whole, unchanged and in the order of its lane. It may come shortly before
    /// [`PeerInbox::link`] reports the link as up.
    fn frame(&self, from: NodeId, lane: Lane, frame: Bytes);

    /// The link to `node` is up (both connections stand) or lost (one of them is). Frames that were not answered before a
    /// loss may never have arrived. The same holds for frames sent before the link was up. The two reports alternate,
    /// beginning with up.
    fn link(&self, node: NodeId, up: bool);

    /// The version of this node's table, as in [`PeerHello::table`].
    fn table(&self) -> u64;

    /// The durable end of this node's log, as in [`PeerHello::durable_position`].
    fn durable_position(&self) -> DurablePosition {
        DurablePosition::default()
    }

    /// The versions of this node, as in [`PeerHello::versions`].
    fn versions(&self) -> NodeVersions;

    /// Decides about a node with this hello. Called for each new connection, after the proof.
    ///
    /// # Errors
    /// The reason for a rejection, such as a removed node or another disk than before.
    fn admit(&self, hello: &PeerHello) -> Result<PeerAdmission, PeerRejection>;

    /// Another node, which has proved that it knows the cluster's secret, rejects this one permanently.
    fn removed(&self, by: NodeId, why: &str);
}

/// A node refuses to link with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRejection {
    /// The reason, for the operator of the other node.
    pub why: String,
    /// No later attempt will succeed, so the other node may end.
    pub permanent: bool,
}

impl From<String> for PeerRejection {
    /// A temporary rejection.
    fn from(why: String) -> PeerRejection {
        PeerRejection { why, permanent: false }
    }
}

/// The frame was dropped before it was queued. The caller decides whether to send it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The queue to that node has reached its bound.
    #[error("the queue to node {0} is full; send again later")]
    Full(NodeId),
    /// That node is unknown or not linked.
    #[error("node {0} cannot be reached; is it running, and in the cluster's table?")]
    Unreachable(NodeId),
    /// The frame exceeds the limit, so sending it again does not help.
    #[error("a frame of {bytes} bytes to node {node} is longer than a frame may be")]
    TooLong { node: NodeId, bytes: usize },
}

/// The state of one link, for operators. Counters are since the node's start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// The other node.
    pub node: NodeId,
    /// Its address in the table.
    pub address: String,
    /// Whether both connections stand.
    pub up: bool,
    /// The last change of `up`, in milliseconds since 1970.
    pub since_ms: u64,
    /// The program of the other node, once it was linked.
    pub program: Option<SmolStr>,
    /// The last error. It stays when the link is up again.
    pub last_error: Option<String>,
    /// The reason of a refusal by either side, if the last attempt to link ended with one.
    pub refused: Option<String>,
    pub frames_sent: u64,
    /// Bytes of the sent frames' bodies.
    pub bytes_sent: u64,
    pub frames_received: u64,
    /// Bytes of the received frames' bodies.
    pub bytes_received: u64,
    /// Frames dropped because a queue was full, and frames in the queues of connections that ended.
    pub dropped: u64,
    /// Frames that wait to be written.
    pub queued: u64,
}

/// Frames to other nodes.
///
/// A frame is delivered whole and at most once. Frames of one lane to one node stay in order while its connection
/// stands. A queued frame may still be lost with the connection.
pub trait Net: Send + Sync {
    /// Starts the links. Called once, at the node's start. No node is dialed or let in before.
    ///
    /// `replication` is the runtime of the thread that replicates, if it has one. Consensus is best carried there. That runtime
    /// runs nothing before the node has started, and nothing while it waits for the disk.
    fn start(&self, local: Local, inbox: Arc<dyn PeerInbox>, replication: Option<&Handle>);

    /// Replaces the table of nodes to link with. Links to other nodes are closed, and their calls are refused unless
    /// [`PeerAdmission::Unlisted`] lets them in. The table may list this node itself.
    fn set_peers(&self, peers: &[PeerAddress]);

    /// Queues `frame` for node `to` without blocking, and returns the number of the connection that took it. Frames of
    /// one lane with the same number arrive in the order of sending. A node sends nothing to itself.
    ///
    /// # Errors
    /// [`NotSent`] when the frame was dropped here.
    fn send(&self, to: NodeId, lane: Lane, frame: Bytes) -> Result<u64, NotSent>;

    /// The state of each link of the table, by node.
    fn links(&self) -> Vec<LinkStatus>;

    /// Connections closed because of damaged frames, since the start.
    fn damaged(&self) -> u64;
}

/// The net of a cluster of one.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPeers;

impl Net for NoPeers {
    fn start(&self, _local: Local, _inbox: Arc<dyn PeerInbox>, _replication: Option<&Handle>) {}

    fn set_peers(&self, _peers: &[PeerAddress]) {}

    fn send(&self, to: NodeId, _lane: Lane, _frame: Bytes) -> Result<u64, NotSent> {
        Err(NotSent::Unreachable(to))
    }

    fn links(&self) -> Vec<LinkStatus> {
        Vec::new()
    }

    fn damaged(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_of_one_reaches_no_other_node() {
        let refused = NoPeers.send(2, Lane::Calls, Bytes::from_static(b"hello"));
        assert_eq!(refused, Err(NotSent::Unreachable(2)));
        assert_eq!(NoPeers.links(), []);
    }
}

/// Bytes of a [`DurablePosition`].
pub const DURABLE_POSITION_BYTES: usize = 24;

/// The durable end of a node's log, which the node attaches to its hellos and frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct DurablePosition {
    /// The lower half of its data directory's number.
    #[n(0)]
    pub disk: u64,
    /// A random number of its process.
    #[n(1)]
    pub run: u64,
    /// The last durable record of its log.
    #[n(2)]
    pub durable: u64,
}

impl DurablePosition {
    /// Appends it to the beginning of a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        [self.disk, self.run, self.durable].into_iter().for_each(|word| out.put_u64_le(word));
    }

    /// Takes it from the front of a frame. `None` if the frame is too short.
    pub fn decode(frame: &mut Bytes) -> Option<DurablePosition> {
        (frame.len() >= DURABLE_POSITION_BYTES).then(|| DurablePosition {
            disk: frame.get_u64_le(),
            run: frame.get_u64_le(),
            durable: frame.get_u64_le(),
        })
    }
}

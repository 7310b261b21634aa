//! Frames between nodes.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use tokio::runtime::Handle;

/// A node's number in its cluster; never given twice.
pub type NodeId = u64;

/// What a frame is for. Two connections join a pair of nodes: one for [`Lane::Consensus`], one that the other three share by
/// fair turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Consensus: small, urgent, and may be dropped, for it is sent again.
    Consensus,
    /// Commands and their answers.
    Calls,
    /// What watchers of another node's entities are told.
    Feeds,
    /// Snapshots, in frames of at most 256 KiB: a larger one keeps calls waiting for as long as it takes.
    Bulk,
}

/// Another node, as the cluster's table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its number.
    pub node: NodeId,
    /// Where its peers reach it: `host:port`. A host's name is looked up each time it is dialed.
    pub address: String,
}

/// Who this node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// The cluster's identity.
    pub cluster: u128,
    /// This node's number in it.
    pub node: NodeId,
    /// The identity of its data directory.
    pub disk: u128,
}

/// Who another node says it is. By the time frames of it come, it has proved that it knows the cluster's secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerHello {
    /// The cluster's identity: the same as ours, others are refused before they are judged.
    pub cluster: u128,
    /// Its number.
    pub node: NodeId,
    /// The identity of its data directory.
    pub disk: u128,
    /// The version of the link's protocol it speaks.
    pub version: u16,
    /// The program it runs, with its version.
    pub program: SmolStr,
    /// How new its copy of the cluster's table is: the table's version; 0 if it has none.
    pub table: u64,
    /// How far its disk is.
    pub durable_position: DurablePosition,
}

/// How another node is dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAdmission {
    /// As the table given to [`Net::set_peers`] says.
    AsListed,
    /// As a member, whatever that table says: it knows a later one. Whoever missed the end of an election, or of a node, may
    /// hear of it only from nodes that came since.
    Unlisted,
}

/// Who is told what comes from other nodes. All of it is called on the threads of the links: it must be quick and never wait.
pub trait PeerInbox: Send + Sync {
    /// `from` sent this on `lane`: whole, unchanged, and in the order it was sent on that lane. It may come shortly before
    /// [`PeerInbox::link`] says that the link is up.
    fn frame(&self, from: NodeId, lane: Lane, frame: Bytes);

    /// The link to `node` is up (both its connections stand), or was lost (one of them was). What was sent and not answered
    /// before a loss may never have come; nor may what was sent by one of the connections before the link was up. The two are
    /// told by turns, beginning with up.
    fn link(&self, node: NodeId, up: bool);

    /// How new the cluster's table is here, as in [`PeerHello::table`].
    fn table(&self) -> u64;

    /// How far this node's disk is, as in [`PeerHello::durable_position`].
    fn durable_position(&self) -> DurablePosition {
        DurablePosition::default()
    }

    /// How this node deals with whoever says this of itself; asked each time, before or after the proof.
    ///
    /// # Errors
    /// Why it does not: it may have been removed, or have another disk than before.
    fn admit(&self, hello: &PeerHello) -> Result<PeerAdmission, PeerRejection>;

    /// Another node, which has proved that it knows the cluster's secret, says that it will never deal with this one again,
    /// and why in words.
    fn removed(&self, by: NodeId, why: &str);
}

/// Why a node does not deal with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRejection {
    /// In words for the operator of the other node.
    pub why: String,
    /// It never will again: the other node may end.
    pub permanent: bool,
}

impl From<String> for PeerRejection {
    /// It may be otherwise in a moment.
    fn from(why: String) -> PeerRejection {
        PeerRejection { why, permanent: false }
    }
}

/// Why a frame was not taken. The frame is dropped; the caller decides whether to send it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The queue to that node has reached its bound.
    #[error("the queue to node {0} is full; send again later")]
    Full(NodeId),
    /// No link to that node is known or standing.
    #[error("node {0} cannot be reached; is it running, and in the cluster's table?")]
    Unreachable(NodeId),
    /// No frame may be so long: sending it again does not help.
    #[error("a frame of {bytes} bytes to node {node} is longer than a frame may be")]
    TooLong {
        /// For whom it was.
        node: NodeId,
        /// How long it is.
        bytes: usize,
    },
}

/// How one link is, for whoever looks after the cluster. Counters are since the node's start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// The other node.
    pub node: NodeId,
    /// Where it is dialed.
    pub address: String,
    /// Whether both connections stand.
    pub up: bool,
    /// Since when it is up or down, in milliseconds since 1970.
    pub since_ms: u64,
    /// The program the other node runs, when it has been linked once.
    pub program: Option<SmolStr>,
    /// The last thing that went wrong with it, in words; it stays when the link is up again.
    pub last_error: Option<String>,
    /// The words of a refusal, by either side, if the last attempt to link ended with one.
    pub refused: Option<String>,
    /// Frames written to the connections.
    pub frames_sent: u64,
    /// Their bytes, without what frames them.
    pub bytes_sent: u64,
    /// Frames that came.
    pub frames_received: u64,
    /// Their bytes, without what frames them.
    pub bytes_received: u64,
    /// Frames not taken because a queue was full, and frames lost in the queues of connections that ended.
    pub dropped: u64,
    /// Frames that wait to be written.
    pub queued: u64,
}

/// The way to the other nodes.
///
/// A frame is delivered whole and at most once, and frames of one lane to one node stay in order as
/// long as its connection stands; a frame that was taken may still be lost with the connection.
pub trait Net: Send + Sync {
    /// Says who this node is and who is told what comes. Called once, at the node's start; before it, nobody is dialed and
    /// nobody is let in. `replication` is the runtime of the thread that replicates, if it has one: consensus is best
    /// carried there. It runs nothing before the node has started, and nothing while it waits for the disk.
    fn start(&self, local: Local, inbox: Arc<dyn PeerInbox>, replication: Option<&Handle>);

    /// The whole table of nodes to be linked with; links to others are closed, and their calls refused unless they are
    /// [`PeerAdmission::Unlisted`]s, who may link anew. This node itself may be in it.
    fn set_peers(&self, peers: &[PeerAddress]);

    /// Queues `frame` for node `to` and returns at once: the number of the connection that took it. Frames of one lane with
    /// the same number come in the order in which they were sent. Nothing is ever sent to oneself.
    ///
    /// # Errors
    /// [`NotSent`] when the frame was dropped here.
    fn send(&self, to: NodeId, lane: Lane, frame: Bytes) -> Result<u64, NotSent>;

    /// How each link of the table is, in the order of the nodes' numbers.
    fn links(&self) -> Vec<LinkStatus>;

    /// Connections of links that were closed because what came was damaged, since the start.
    fn damaged(&self) -> u64;
}

/// The net of a cluster of one: there is nobody to reach.
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
    fn a_cluster_of_one_reaches_nobody() {
        let refused = NoPeers.send(2, Lane::Calls, Bytes::from_static(b"hello"));
        assert_eq!(refused, Err(NotSent::Unreachable(2)));
        assert_eq!(NoPeers.links(), []);
    }
}

/// Bytes of a [`DurablePosition`].
pub const DURABLE_POSITION_BYTES: usize = 24;

/// What a node says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurablePosition {
    /// Of its data directory's number, the lower half.
    pub disk: u64,
    /// Drawn when its process began.
    pub run: u64,
    /// Up to which record its log is durable.
    pub durable: u64,
}

impl DurablePosition {
    /// Puts it before a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        [self.disk, self.run, self.durable].into_iter().for_each(|word| out.put_u64_le(word));
    }

    /// Takes it from the front of a frame; `None` for one that is too short.
    pub fn decode(frame: &mut Bytes) -> Option<DurablePosition> {
        (frame.len() >= DURABLE_POSITION_BYTES).then(|| DurablePosition {
            disk: frame.get_u64_le(),
            run: frame.get_u64_le(),
            durable: frame.get_u64_le(),
        })
    }
}

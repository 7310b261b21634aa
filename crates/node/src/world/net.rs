//! Frames between nodes.

use bytes::Bytes;
use tokio::sync::mpsc;

/// A node's number in its cluster; never given twice.
pub type NodeId = u64;

/// Which of the two connections between a pair of nodes a frame takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Consensus: small, urgent, and may be dropped, for it is sent again.
    Consensus,
    /// Commands, feeds and snapshots: in order, and pushes back when full.
    Calls,
}

/// A frame that another node sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerFrame {
    /// The sender, whose identity the link has verified.
    pub from: NodeId,
    /// The connection it came by.
    pub lane: Lane,
    /// What it says, whole and with its checksum verified.
    pub frame: Bytes,
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
}

/// The way to the other nodes.
///
/// A frame is delivered whole and at most once, and frames of one lane to one node stay in order as
/// long as its connection stands; a frame that was taken may still be lost with the connection.
pub trait Net: Send + Sync {
    /// Gives the channel into which the frames of other nodes are put from now on. Called once, at
    /// the node's start; a full channel makes the links wait.
    fn start(&self, inbox: mpsc::Sender<PeerFrame>);

    /// Queues `frame` for node `to` and returns at once.
    ///
    /// # Errors
    /// [`NotSent`] when the frame was dropped here.
    fn send(&self, to: NodeId, lane: Lane, frame: Bytes) -> Result<(), NotSent>;
}

/// The net of a cluster of one: there is nobody to reach.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPeers;

impl Net for NoPeers {
    fn start(&self, _inbox: mpsc::Sender<PeerFrame>) {}

    fn send(&self, to: NodeId, _lane: Lane, _frame: Bytes) -> Result<(), NotSent> {
        Err(NotSent::Unreachable(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_of_one_reaches_nobody() {
        let refused = NoPeers.send(2, Lane::Calls, Bytes::from_static(b"hello"));
        assert_eq!(refused, Err(NotSent::Unreachable(2)));
    }
}

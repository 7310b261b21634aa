//! Refusals and other failures of a handshake. The text of a refusal is sent to the other side, so it names both nodes.

use std::{io, time::Duration};

use boxoffice_env::{Local, NodeId};
use bytes::Bytes;

use super::{
    frame::{Corrupt, Kind},
    hello::{BadHello, Hello, PROOF_BYTES},
};

/// This node refuses another one.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{0}")]
    BadHello(BadHello),
    #[error(
        "node {node} is of cluster {theirs:032x}, node {me} of cluster {ours:032x}: only nodes of one cluster are linked"
    )]
    OtherCluster { node: NodeId, theirs: u128, me: NodeId, ours: u128 },
    #[error("the address of node {dialed} leads to node {answered}; correct the address in the table")]
    OtherNode { dialed: NodeId, answered: NodeId },
    #[error("the address of node {dialed} leads back to node {me} itself; correct the address in the table")]
    Myself { dialed: NodeId, me: NodeId },
    #[error("two processes run as node {0}: stop one of them, or give it a number of its own")]
    SameNode(NodeId),
    #[error(
        "node {node} does not know the secret that node {me} has; give all nodes of a cluster the same (peers.secret)"
    )]
    WrongSecret { node: NodeId, me: NodeId },
    #[error("node {node} has no certificate for the name node-{node}: {what}")]
    Certificate { node: NodeId, what: String },
    #[error("node {node} is not in the table of the node it calls")]
    NotInTable { node: NodeId },
    #[error("node {me} does not take node {node}: {reason}")]
    Rejected { node: NodeId, me: NodeId, reason: String },
    #[error("{reason}")]
    Removed { reason: String, proof: [u8; PROOF_BYTES] },
    #[error("the connection that node {by} dialed stands already")]
    Linked { by: NodeId },
}

impl Refusal {
    /// Checks a hello before the other side has proved anything. `dialed` is the node that this side dialed, if it did.
    pub(super) fn of(hello: &Hello, local: &Local, incarnation: u64, dialed: Option<NodeId>) -> Result<(), Refusal> {
        if hello.cluster != local.cluster {
            let (node, theirs) = (hello.node, hello.cluster);
            return Err(Refusal::OtherCluster { node, theirs, me: local.node, ours: local.cluster });
        }
        if hello.node == local.node {
            let dialed = dialed.unwrap_or(hello.to);
            let itself = hello.incarnation == incarnation;
            return Err(if itself {
                Refusal::Myself { dialed, me: local.node }
            } else {
                Refusal::SameNode(local.node)
            });
        }
        let (meant, answered) = dialed.map_or((hello.to, local.node), |dialed| (dialed, hello.node));
        if meant != answered {
            return Err(Refusal::OtherNode { dialed: meant, answered });
        }
        Ok(())
    }

    /// The kind and body of its frame.
    pub(super) fn as_frame(&self) -> (Kind, Vec<u8>) {
        match self {
            Refusal::Removed { reason, proof } => (Kind::Removed, [&proof[..], reason.as_bytes()].concat()),
            refusal => (Kind::Refusal, refusal.to_string().into_bytes()),
        }
    }
}

/// A handshake failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(
        "the other side closed in the middle of the handshake; is its port the one for nodes, and is it encrypted on one side only?"
    )]
    Ended,
    #[error("the handshake took longer than {} ms", .0.as_millis())]
    Slow(Duration),
    #[error("no node of this protocol speaks there ({0}); is it encrypted on one side only?")]
    Corrupt(#[from] Corrupt),
    #[error("the other side spoke out of turn ({0:?})")]
    OutOfTurn(Kind),
    /// The other side refused.
    #[error("refused by the other side: {0}")]
    Refused(String),
    /// The other side claims a permanent removal, with a proof and the reason.
    #[error("refused by the other side for good, out of turn")]
    UnverifiedRemoval(Bytes),
    /// The other side removed this node, with a valid proof.
    #[error("refused by the other side for good: {0}")]
    Removed(String),
    /// This side refused.
    #[error("refused: {0}")]
    Refusal(#[from] Refusal),
}

impl Failure {
    /// The reason of a refusal by either side, except for a connection that exists already.
    pub(super) fn refusal(&self) -> Option<String> {
        match self {
            Failure::Refusal(Refusal::Linked { .. }) => None,
            Failure::Refused(_) | Failure::Removed(_) | Failure::Refusal(_) => Some(self.to_string()),
            Failure::Io(_)
            | Failure::Ended
            | Failure::Slow(_)
            | Failure::Corrupt(_)
            | Failure::OutOfTurn(_)
            | Failure::UnverifiedRemoval(_) => None,
        }
    }
}

//! Refusals and other failures of a handshake. The other side is told the text of a refusal, which names both nodes, once it has
//! proved that it knows a secret.

use std::{io, time::Duration};

use boxoffice_env::{Local, NodeId};
use bytes::Bytes;

use super::{
    frame::{Corrupt, Kind},
    hello::{BadHello, Claims},
};

/// The way out where secrets differ.
const SAME_SECRET: &str = "give all nodes of a cluster the same (peers.secret)";

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
    #[error("it does not know the secret that node {me} has; {SAME_SECRET}")]
    CallerWithoutSecret { me: NodeId },
    #[error("node {node} does not know the secret that node {me} has; {SAME_SECRET}")]
    AcceptorWithoutSecret { node: NodeId, me: NodeId },
    #[error("node {node} has no certificate for the name node-{node}: {what}")]
    Certificate { node: NodeId, what: String },
    #[error("node {node} is not in the table of the node it calls")]
    NotInTable { node: NodeId },
    #[error("node {me} does not take node {node}: {reason}")]
    Rejected { node: NodeId, me: NodeId, reason: String },
    #[error("{reason}")]
    Removed { reason: String, body: Vec<u8> },
    #[error("the connection that node {by} dialed stands already")]
    Linked { by: NodeId },
}

impl Refusal {
    /// Checks the claims of a node that knows a secret. `dialed` is the node that this side dialed, if it did.
    pub(super) fn of(claims: &Claims, local: &Local, incarnation: u64, dialed: Option<NodeId>) -> Result<(), Refusal> {
        if claims.cluster != local.cluster {
            let (node, theirs) = (claims.node, claims.cluster);
            return Err(Refusal::OtherCluster { node, theirs, me: local.node, ours: local.cluster });
        }
        if claims.node == local.node {
            let dialed = dialed.unwrap_or(claims.to);
            let itself = claims.incarnation == incarnation;
            return Err(if itself {
                Refusal::Myself { dialed, me: local.node }
            } else {
                Refusal::SameNode(local.node)
            });
        }
        let (meant, answered) = dialed.map_or((claims.to, local.node), |dialed| (dialed, claims.node));
        if meant != answered {
            return Err(Refusal::OtherNode { dialed: meant, answered });
        }
        Ok(())
    }

    /// The text for the other side. A stranger is told nothing of this node but the version of its protocol.
    fn told(&self) -> String {
        match self {
            Refusal::CallerWithoutSecret { .. } => {
                format!("the node that dials does not know the secret of the node that it dials; {SAME_SECRET}")
            }
            Refusal::AcceptorWithoutSecret { .. } => {
                format!("the node that was dialed does not know the secret of the node that dials it; {SAME_SECRET}")
            }
            // A stranger may be told these because they say only what it said itself, and the version of the protocol.
            Refusal::BadHello(_) => self.to_string(),
            // These follow a proof.
            Refusal::OtherCluster { .. }
            | Refusal::OtherNode { .. }
            | Refusal::Myself { .. }
            | Refusal::SameNode(_)
            | Refusal::Certificate { .. }
            | Refusal::NotInTable { .. }
            | Refusal::Rejected { .. }
            | Refusal::Removed { .. }
            | Refusal::Linked { .. } => self.to_string(),
        }
    }

    /// The kind and body of its frame.
    pub(super) fn as_frame(&self) -> (Kind, Vec<u8>) {
        match self {
            Refusal::Removed { body, .. } => (Kind::Removed, body.clone()),
            refusal => (Kind::Refusal, refusal.told().into_bytes()),
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

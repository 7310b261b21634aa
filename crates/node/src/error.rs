//! Errors of a node, with what the operator should do.

use boxoffice_replication::error::ReplicationError;

/// Why a node does not serve.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The replication failed, or its data on disk is unusable.
    #[error(transparent)]
    Replication(ReplicationError),
    /// The cluster does not know this node, or not any more.
    #[error("node {node} is no member of its cluster: {why}")]
    NotAMember { node: u64, why: String },
    /// Another node knows that this one's disk has forgotten what it promised.
    #[error("{0}")]
    OldCopy(String),
    /// The cluster has granted this node another disk in place of a damaged one.
    #[error("{0}")]
    Damaged(String),
    /// An operator removed this node permanently.
    #[error("{0}")]
    Removed(String),
    /// This node was drained, and ends as intended.
    #[error(
        "node {node} was drained: everything it had is on other nodes, and it is no member of its cluster any more"
    )]
    Drained { node: u64 },
}

/// Why a node cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// In words for its operator.
    pub why: String,
    /// Whether its data directory is damaged, so that the node replaces it.
    pub is_damage: bool,
}

impl NodeError {
    /// Whether the data directory has lost or changed something that it had. A node of a cluster then replaces its own disk.
    pub fn is_damage(&self) -> bool {
        match self {
            NodeError::Replication(error) => error.is_damage(),
            NodeError::OldCopy(_) | NodeError::Damaged(_) => true,
            NodeError::NotAMember { .. } | NodeError::Removed(_) | NodeError::Drained { .. } => false,
        }
    }
}

impl From<ReplicationError> for NodeError {
    fn from(error: ReplicationError) -> NodeError {
        match error {
            // The node ended it.
            ReplicationError::Owner(why) => *why.downcast().expect("the node gives its own errors"),
            error => NodeError::Replication(error),
        }
    }
}

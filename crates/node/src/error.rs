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
    /// An operator removed this node permanently.
    #[error("{0}")]
    Removed(String),
    /// This node was drained, and ends as intended.
    #[error(
        "node {node} was drained: everything it had is on other nodes, and it is no member of its cluster any more"
    )]
    Drained { node: u64 },
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

//! Why a node cannot start, or cannot go on. For the operator: reason and remedy.

use boxoffice_replication::error::ReplicationError;

/// Why a node does not serve.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The replication, or what it keeps on disk.
    #[error(transparent)]
    Replication(ReplicationError),
    /// The cluster does not know this node, or not any more.
    #[error("node {node} is no member of its cluster: {why}")]
    NotAMember {
        node: u64,
        /// Why not.
        why: String,
    },
    /// An operator removed this node for good.
    #[error("{0}")]
    Removed(String),
    /// This node was drained: that is how it was to end.
    #[error(
        "node {node} was drained: everything it had is on other nodes, and it is no member of its cluster any more"
    )]
    Drained { node: u64 },
}

impl From<ReplicationError> for NodeError {
    fn from(error: ReplicationError) -> NodeError {
        match error {
            // The node had it end.
            ReplicationError::Owner(why) => *why.downcast().expect("the node gives its own errors"),
            error => NodeError::Replication(error),
        }
    }
}

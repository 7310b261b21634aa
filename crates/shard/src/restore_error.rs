//! Why an engine cannot start from its disk.

use crate::codec::Malformed;
use crate::name::{NodeId, ReplicaId, ShardId};

/// Why an engine cannot start from its disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The disk holds a shard that the configuration does not name.
    #[error("the disk holds shard {shard}, which this node is not configured for; was the number of shards changed?")]
    UnknownShard { shard: ShardId },
    /// There are snapshots, but the log is empty.
    #[error(
        "there is a snapshot of shard {shard} and the log is empty; the log was removed: rejoin the cluster as a new node"
    )]
    LogMissing { shard: ShardId },
    /// The log has records of a shard before the one that names the replica.
    #[error(
        "the log tells of shard {shard} without saying of which replica; a part of the log was removed or is damaged"
    )]
    NoReplica { shard: ShardId },
    /// The log is another node's.
    #[error(
        "shard {shard}: the log is of replica {replica}, which is not on node {node}; was the data of another node copied?"
    )]
    Foreign {
        shard: ShardId,
        /// The replica in the log.
        replica: ReplicaId,
        /// This node.
        node: NodeId,
    },
    /// A generation in the log is not higher than the one before it.
    #[error("shard {shard}: the log tells of generation {found} after generation {known}; the log is damaged")]
    Generation {
        shard: ShardId,
        found: u64,
        /// The previous one.
        known: u64,
    },
    /// Entries between the snapshot and the log are missing.
    #[error(
        "shard {shard}: the snapshot ends at entry {snapshot} and the log begins at {log}; a snapshot or a part of the \
         log was removed: rejoin the cluster as a new node"
    )]
    Gap {
        shard: ShardId,
        /// The last entry in the snapshot, 0 without one.
        snapshot: u64,
        /// The first entry in the log.
        log: u64,
    },
    /// The log names a later snapshot than the one found.
    #[error(
        "shard {shard}: the log names a snapshot up to entry {named}, the newest one found ends at {found}; a snapshot \
         was removed: rejoin the cluster as a new node"
    )]
    SnapshotMissing {
        shard: ShardId,
        /// The last entry of the snapshot that the log names.
        named: u64,
        /// The last entry of the snapshot found, 0 without one.
        found: u64,
    },
    /// Committed entries are neither in the snapshot nor in the log.
    #[error(
        "shard {shard}: entries up to {commit} are committed, and this disk has them only up to {found}; a snapshot or a part \
         of the log is damaged or was removed: rejoin the cluster as a new node"
    )]
    CommittedMissing {
        shard: ShardId,
        /// The last entry that the log says is committed.
        commit: u64,
        /// The last entry found.
        found: u64,
    },
    /// An entry of the log cannot be read, most likely because a later program wrote it.
    #[error("shard {shard}, entry {index}: {why}")]
    Entry { shard: ShardId, index: u64, why: Malformed },
    /// The configuration cannot work.
    #[error("the configuration cannot work: {0}")]
    Config(String),
}

impl RestoreError {
    /// Whether a part of what the disk had is missing.
    pub fn is_damage(&self) -> bool {
        match self {
            RestoreError::LogMissing { .. }
            | RestoreError::NoReplica { .. }
            | RestoreError::Generation { .. }
            | RestoreError::Gap { .. }
            | RestoreError::SnapshotMissing { .. }
            | RestoreError::CommittedMissing { .. } => true,
            RestoreError::UnknownShard { .. }
            | RestoreError::Foreign { .. }
            | RestoreError::Entry { .. }
            | RestoreError::Config(_) => false,
        }
    }
}

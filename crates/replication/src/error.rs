//! Errors of the replication, with what the operator should do.

use std::path::PathBuf;

use boxoffice_core::{id::Entity, version::ClusterVersion};
use boxoffice_shard::{FatalError, RestoreError, ShardId};
use boxoffice_storage::{
    archive_files::ArchiveError, history::HistoryStoreError, identity::IdentityError, log::LogError,
    snapshot_files::SnapshotError,
};

/// Why a node does not replicate.
#[derive(Debug, thiserror::Error)]
pub enum ReplicationError {
    /// The data directory is not this node's to use.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The log cannot be read, written or synced.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A snapshot cannot be read or written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The store of ended entities cannot be read or written, or does not fit the rest.
    #[error(transparent)]
    HistoryStore(#[from] HistoryStoreError),
    /// The directory of old segments cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Other nodes write under a version that this program does not read. Nothing of it was stored.
    #[error(
        "other nodes write under version {version}, and this program reads up to {reads_up_to}: start a newer release"
    )]
    Newer {
        version: ClusterVersion,
        /// The highest version that this program reads.
        reads_up_to: ClusterVersion,
    },
    /// The data on disk does not fit together.
    #[error("the data directory does not fit together: {0}")]
    Restore(#[from] RestoreError),
    /// A snapshot with a valid checksum cannot be decoded.
    #[error("the snapshot of shard {shard} cannot be understood: {why}; was it written by a newer version?")]
    BadSnapshot { shard: ShardId, why: String },
    /// There is no data directory to inspect.
    #[error("{} is no data directory; start a node with `boxoffice serve --data-dir` to make one", .dir.display())]
    NoDataDirectory {
        /// The directory that was given.
        dir: PathBuf,
    },
    /// A record of the log with a valid checksum cannot be decoded.
    #[error("record {seq} of the log cannot be understood: {why}; was it written by a newer version?")]
    UndecodableRecord {
        /// The record.
        seq: u64,
        why: String,
    },
    /// A committed entry cannot be understood.
    #[error("entry {index} of shard {shard} cannot be understood: {why}; was it written by a newer version?")]
    Undecodable {
        shard: ShardId,
        /// The entry.
        index: u64,
        why: String,
    },
    /// The log led to another version than the leader had decided for.
    #[error(
        "entry {index} of shard {shard} leaves {entity} at version {found} and was decided for version {decided}; this node stops before it could answer wrongly: keep its data directory and report this"
    )]
    Diverged {
        shard: ShardId,
        /// The entry.
        index: u64,
        /// The entity that the turn changed.
        entity: Entity,
        /// The version of the committed state.
        found: u64,
        /// The version that its actor decided for.
        decided: u64,
    },
    /// A majority of a shard's voters has another state than the replica here.
    #[error(
        "entry {index} of shard {shard} left a state with checksum {own:016x} here and {voted:016x} on a majority of the replicas; this node stops before it could answer wrongly; report this, and keep what it sets aside"
    )]
    Outvoted {
        shard: ShardId,
        /// The entry.
        index: u64,
        /// The checksum of the entities that it changed here.
        own: u64,
        /// The checksum that the majority has.
        voted: u64,
    },
    /// An invariant of replication does not hold.
    #[error(
        "shard {shard} is broken: {why}; this node stops before it could answer wrongly: keep its data directory and report this"
    )]
    Broken { shard: ShardId, why: FatalError },
    /// A thread or runtime could not be started.
    #[error("the operating system gives no {0}; raise the limits of threads and files")]
    Resources(String),
    /// The directory's replica was removed from this node, which is no longer a member of its cluster.
    #[error("the directory of the cluster was removed from this node")]
    DirectoryRemoved,
    /// The owner ended the replication, for a reason of its own.
    #[error("{0}")]
    Owner(Box<dyn std::error::Error + Send + Sync>),
}

impl ReplicationError {
    /// Whether the data directory has lost or changed something that it had, so that its node must not use it any more. A failure of
    /// the system, and bytes of another version, are none.
    pub fn is_damage(&self) -> bool {
        match self {
            ReplicationError::Log(error) => error.is_damage(),
            ReplicationError::Snapshot(error) => matches!(error, SnapshotError::AllBad { .. }),
            ReplicationError::HistoryStore(error) => error.is_damage(),
            ReplicationError::Restore(error) => error.is_damage(),
            ReplicationError::Outvoted { .. } => true,
            ReplicationError::Identity(_)
            | ReplicationError::Archive(_)
            | ReplicationError::Newer { .. }
            | ReplicationError::BadSnapshot { .. }
            | ReplicationError::NoDataDirectory { .. }
            | ReplicationError::UndecodableRecord { .. }
            | ReplicationError::Undecodable { .. }
            | ReplicationError::Diverged { .. }
            | ReplicationError::Broken { .. }
            | ReplicationError::Resources(_)
            | ReplicationError::DirectoryRemoved
            | ReplicationError::Owner(_) => false,
        }
    }
}

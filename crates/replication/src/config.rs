//! The settings of the replication.

use std::path::PathBuf;

use boxoffice_core::{
    planted,
    version::{ClusterVersion, newest},
};
use boxoffice_env::StoreSettings;
use boxoffice_shard::{NodeId, TURN_BYTES_MAX};
use boxoffice_storage::{fsync::Fsync, identity::Joining, snapshot_files::KeepRule};

/// The data directory, the node's identity in its cluster, and how much is written and kept. Every setting has a default that
/// serves.
#[derive(Clone, Debug)]
pub struct ReplicationConfig {
    /// The directory of everything durable.
    pub data_dir: PathBuf,
    /// This node's number in its cluster, from 1.
    pub node_id: NodeId,
    /// The highest version of the cluster that this node's program reads and writes.
    pub reads_up_to: ClusterVersion,
    /// No other node is in the cluster. The node sets this at its start.
    pub is_alone: bool,
    /// The cluster to join if the data directory is made at this start.
    pub joining: Option<Joining>,
    /// Shards of the cluster, besides the directory. The number is fixed when the data directory is made.
    pub shards: u16,
    /// Replicators, each with a thread and a part of the shards; at least one.
    pub replicators: usize,
    /// When changes are made durable.
    pub fsync: Fsync,
    /// The size of a segment of the log, in bytes.
    pub log_segment_bytes: u64,
    /// A snapshot of a shard is due after this number of entries …
    pub snapshot_entries: u64,
    /// … or of bytes in them.
    pub snapshot_bytes: u64,
    /// Replicas compare a checksum of what every nth entry of a shard changed; 0 = of none.
    pub checksum_entries: u64,
    /// How much memory the store of ended entities may use.
    pub history_store: StoreSettings,
    /// How long after it was read everything on the disk is read again, in milliseconds. `None`: never.
    pub scrub_ms: Option<u64>,
    /// Old segments of the log are kept, compressed, up to this number of bytes in all; 0 = they are removed.
    pub history_archive_bytes: u64,
    /// Which snapshots are kept beside the archives. They take at most half of that number of bytes, and without archives none is kept.
    pub kept_snapshots: KeepRule,
}

/// The share of a segment that a turn may take. An entry may have two turns, and shares its record with other entries.
const TURN_SHARE: u64 = 4;

/// The share of the longest turn that a command may take. The turn may repeat what another entity was told before: the opening of a
/// session repeats the hall.
const COMMAND_SHARE: usize = 2;

impl ReplicationConfig {
    /// The longest turn that fits into the log, in bytes.
    pub fn turn_bytes_max(&self) -> usize {
        if planted::is("a turn may be larger than a segment") {
            return TURN_BYTES_MAX;
        }
        usize::try_from(self.log_segment_bytes / TURN_SHARE).map_or(TURN_BYTES_MAX, |share| share.min(TURN_BYTES_MAX))
    }

    /// The longest command that makes no longer turn, in bytes.
    pub fn command_bytes_max(&self) -> usize {
        self.turn_bytes_max() / COMMAND_SHARE
    }
}

impl Default for ReplicationConfig {
    fn default() -> ReplicationConfig {
        ReplicationConfig {
            data_dir: PathBuf::from("boxoffice-data"),
            node_id: 1,
            reads_up_to: newest(),
            is_alone: true,
            joining: None,
            shards: 32,
            replicators: 1,
            fsync: Fsync::Always,
            log_segment_bytes: 64 << 20,
            snapshot_entries: 10_000,
            snapshot_bytes: 64 << 20,
            checksum_entries: 256,
            history_store: StoreSettings::default(),
            scrub_ms: None,
            history_archive_bytes: 4 << 30,
            kept_snapshots: KeepRule { every_ms: 24 * 3_600_000, count_max: 30 },
        }
    }
}

//! The settings of the replication.

use std::path::PathBuf;

use boxoffice_env::StoreSettings;
use boxoffice_shard::NodeId;
use boxoffice_storage::{fsync::Fsync, identity::Joining};

/// What the replication is told about its node. The node's own settings say what each of them means to an operator.
#[derive(Clone, Debug)]
pub struct ReplicationConfig {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The node's number, from 1.
    pub node_id: NodeId,
    /// No other node is in the cluster.
    pub is_alone: bool,
    /// The cluster to join if the data directory is made at this start.
    pub joining: Option<Joining>,
    /// Shards of the cluster, besides the directory.
    pub shards: u16,
    /// Replicators, each with a part of the shards; at least one.
    pub replicators: usize,
    /// When records are made durable.
    pub fsync: Fsync,
    /// The size of a segment of the log, in bytes.
    pub log_segment_bytes: u64,
    /// A snapshot of a shard is due after this number of entries …
    pub snapshot_entries: u64,
    /// … or of bytes in them.
    pub snapshot_bytes: u64,
    /// Replicas compare a checksum at every nth entry of a shard; 0 means never.
    pub checksum_entries: u64,
    /// Memory of the store of ended entities.
    pub history_store: StoreSettings,
    /// Bytes of archived segments that are kept; 0 means that segments are removed and not archived.
    pub history_archive_bytes: u64,
}

//! What an operator may set about a node.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use boxoffice_core::rules::Rules;
use boxoffice_env::{StoreSettings, secret::Secret};
use boxoffice_storage::{fsync::Fsync, identity::Joining};

use crate::admission::OverloadSettings;

/// The settings of a node. Every one has a default that serves.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Where everything durable lives.
    pub data_dir: PathBuf,
    /// This node's number in its cluster; from 1.
    pub node_id: u64,
    /// Where other nodes reach this one's links, `host:port`; empty for a cluster of one.
    pub peer_address: String,
    /// Where clients reach this node, `host:port`, as the cluster's table says it.
    pub client_address: String,
    /// Nodes that are reached from here at another address than the cluster's table says, as behind a gateway.
    pub peer_routes: BTreeMap<u64, String>,
    /// The secret that nodes show each other. A node must know it to join. `None` asks for no secret.
    pub peer_secret: Option<Secret>,
    /// The cluster to join, if the data directory is made at this start.
    pub joining: Option<Joining>,
    /// How many copies each shard is to have, in a cluster that this node founds.
    pub replicas: u8,
    /// How many shards the cluster has; fixed when its data directory is made.
    pub shards: u16,
    /// How many threads replicate, each with a part of the shards.
    pub replicating: usize,
    /// When changes are made durable.
    pub fsync: Fsync,
    /// Size of one segment of the log, in bytes.
    pub log_segment_bytes: u64,
    /// A snapshot of a shard is due after this number of entries …
    pub snapshot_entries: u64,
    /// … or of bytes in them.
    pub snapshot_bytes: u64,
    /// Replicas compare a checksum of what every nth entry of a shard changed; 0 = of none.
    pub checksum_entries: u64,
    /// How much memory the store of what has left memory may use.
    pub history_store: StoreSettings,
    /// Old segments of the log are kept, compressed, up to this number of bytes in all; 0 = they are removed.
    pub history_archive_bytes: u64,
    /// When and what the node sheds.
    pub overload: OverloadSettings,
    /// An actor with nothing to do for so long is dropped, in milliseconds.
    pub actor_idle_ms: u64,
    /// Commits of one session within these milliseconds make one delta of its feed; 0 = one delta a commit.
    pub feed_tick_ms: u64,
    /// Deltas of a watched entity that are kept for watchers that are behind or come back.
    pub feed_depth: usize,
    /// Terms of time of carts and holds.
    pub rules: Arc<Rules>,
}

impl Default for NodeConfig {
    fn default() -> NodeConfig {
        NodeConfig {
            data_dir: PathBuf::from("boxoffice-data"),
            node_id: 1,
            peer_address: String::new(),
            client_address: String::new(),
            peer_routes: BTreeMap::new(),
            peer_secret: None,
            joining: None,
            replicas: 3,
            shards: 32,
            replicating: 1,
            fsync: Fsync::Always,
            log_segment_bytes: 64 << 20,
            snapshot_entries: 10_000,
            snapshot_bytes: 64 << 20,
            checksum_entries: 256,
            history_store: StoreSettings::default(),
            history_archive_bytes: 4 << 30,
            overload: OverloadSettings::default(),
            actor_idle_ms: 5_000,
            feed_tick_ms: 20,
            feed_depth: 256,
            rules: Arc::new(Rules::default()),
        }
    }
}

//! What an operator may set about a node.

use std::{collections::BTreeMap, sync::Arc};

use boxoffice_core::rules::Rules;
use boxoffice_env::secret::Secret;
pub use boxoffice_replication::config::ReplicationConfig;
use smol_str::SmolStr;

use crate::admission::OverloadSettings;

/// The settings of a node. Every one has a default that serves.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The data directory, the identity in the cluster, the log, snapshots and the history.
    pub replication: ReplicationConfig,
    /// Where other nodes reach this one's links, `host:port`; empty for a cluster of one.
    pub peer_address: String,
    /// Where clients reach this node, `host:port`, as the cluster's table says it.
    pub client_address: String,
    /// The version of the program, as the cluster's table says it.
    pub program: SmolStr,
    /// Nodes that are reached from here at another address than the cluster's table says, as behind a gateway.
    pub peer_routes: BTreeMap<u64, String>,
    /// The secrets that nodes prove to each other, the current one first. A machine must know one of them to join. Without
    /// any, none is asked for.
    pub peer_secrets: Vec<Secret>,
    /// How many copies each shard is to have, in a cluster that this node founds.
    pub replicas: u8,
    /// How long every member must have had a program that reads a higher version of the cluster, and been linked to the leader of the
    /// directory, until that leader raises the version by itself, in milliseconds of running time. `None`: only an operator does.
    pub upgrade_settle_ms: Option<u64>,
    /// How far apart marks are, in milliseconds, to which a backup can be restored; 0 = only backups make marks.
    pub mark_ms: u64,
    /// Megabytes a second that a backup reads of this node at most.
    pub backup_mb_s: u64,
    /// Whether the node asks for another disk when it finds a part of its own unreadable. Its owner then begins it anew on that disk.
    pub renews_itself: bool,
    /// How long after a node of the cluster has replaced its damaged disk none may do so, in milliseconds. What the leader of the
    /// directory has counts.
    pub repair_rest_ms: u64,
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
            replication: ReplicationConfig::default(),
            peer_address: String::new(),
            client_address: String::new(),
            program: SmolStr::new(env!("CARGO_PKG_VERSION")),
            peer_routes: BTreeMap::new(),
            peer_secrets: Vec::new(),
            replicas: 3,
            upgrade_settle_ms: Some(24 * 60 * 60 * 1000),
            mark_ms: 10_000,
            backup_mb_s: 50,
            renews_itself: false,
            repair_rest_ms: 24 * 60 * 60 * 1000,
            overload: OverloadSettings::default(),
            actor_idle_ms: 5_000,
            feed_tick_ms: 20,
            feed_depth: 256,
            rules: Arc::new(Rules::default()),
        }
    }
}

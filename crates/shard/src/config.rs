//! The configuration of an engine.

use std::collections::{BTreeMap, BTreeSet};

use boxoffice_core::version::{WriteVersion, newest};

use crate::mark::KnownMark;
use crate::name::{FOUNDING, NodeId, ReplicaId, ShardId};

/// The time between two ticks of an engine, in milliseconds.
pub const TICK_MS: u64 = 100;

/// Turns queued for a shard in one pass become one entry of at most this many bytes, then a second one.
pub const ENTRY_BYTES: usize = 256 * 1024;

/// The largest turn that is accepted, in bytes. A larger one is refused and ends the epoch.
pub const TURN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How much a leader appends to one shard before it is committed, in bytes. Raft refuses more.
pub const UNCOMMITTED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Entries of one shard after which a snapshot is due.
pub const SNAPSHOT_ENTRIES: u64 = 10_000;

/// Bytes of one shard's entries after which a snapshot is due.
pub const SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;

/// Entries kept in memory behind a snapshot, for followers that lag a little. A single node keeps none.
pub const TAIL_ENTRIES: u64 = 1_000;

/// Bytes of applied entries that a shard keeps in memory at most. A follower that lags further gets a snapshot.
pub const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// The same for all shards of a node together. Each may keep an equal part of it, and at least [`TAIL_BYTES_MIN`].
pub const NODE_TAIL_BYTES: u64 = 64 * 1024 * 1024;

/// The least that each shard may keep. With less, a follower that is one large entry behind would need a snapshot.
pub const TAIL_BYTES_MIN: u64 = 256 * 1024;

/// How long followers may not know that an entry is committed, in milliseconds. Usually the next entry tells them
/// sooner.
pub const COMMIT_BROADCAST_MS: u64 = 15;

/// The configuration of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// The version under which entries are written. What was decided under a version is proposed after this has reached it.
    pub version: WriteVersion,
    /// The highest mark that this node knows.
    pub mark: KnownMark,
    /// The seed of the election timeouts, in which campaigns of several shards are spread.
    pub seed: u64,
    /// The number of data shards. They are 1..=`shards`. The directory is shard 0.
    pub shards: u16,
    /// The shards of which this node has a replica at first, each with its voters. A disk that is not empty outranks
    /// them.
    pub groups: BTreeMap<ShardId, Vec<ReplicaId>>,
    /// Replicas of this node below this generation are gone, even if the disk does not say so, because they were on a lost disk.
    /// 0 for a node that never lost one. Otherwise any generation that the directory gave out after the loss and before the first
    /// replica on the new disk.
    pub generation_min: u64,
    /// Nodes that should not lead while others can, because they are shutting down or unhealthy.
    /// [`Input::AvoidLeadership`](crate::Input::AvoidLeadership) changes them while the engine runs.
    pub avoid_leadership: BTreeSet<NodeId>,
    /// The same for some shards of a node. [`Input::AvoidShards`](crate::Input::AvoidShards) changes them.
    pub avoid_shards: BTreeMap<NodeId, BTreeSet<ShardId>>,
    /// The longest interval between two messages of a leader, ticks.
    pub heartbeat_ticks: usize,
    /// The lease of a leader, ticks. For so long after a message of a leader no replica campaigns or votes for another one.
    pub election_ticks: usize,
    /// See [`ENTRY_BYTES`].
    pub entry_bytes: usize,
    /// See [`TURN_BYTES_MAX`].
    pub turn_bytes_max: usize,
    /// See [`UNCOMMITTED_BYTES_MAX`].
    pub uncommitted_bytes_max: u64,
    /// See [`SNAPSHOT_ENTRIES`].
    pub snapshot_entries: u64,
    /// See [`SNAPSHOT_BYTES`].
    pub snapshot_bytes: u64,
    /// See [`TAIL_ENTRIES`].
    pub tail_entries: u64,
    /// See [`TAIL_BYTES`] and [`NODE_TAIL_BYTES`].
    pub tail_bytes: u64,
    /// See [`COMMIT_BROADCAST_MS`].
    pub commit_broadcast_ms: u64,
}

impl Config {
    /// The node that founds a cluster: the only voter of every shard.
    pub fn founding(node: NodeId, seed: u64, shards: u16) -> Config {
        Config::born(node, seed, shards, &[node])
    }

    /// A node that joins a cluster. It has no replica until a leader sends it something.
    pub fn joining(node: NodeId, seed: u64, shards: u16) -> Config {
        Config {
            node,
            version: WriteVersion::new(newest()),
            mark: KnownMark::default(),
            seed,
            shards,
            groups: BTreeMap::new(),
            generation_min: 0,
            avoid_leadership: BTreeSet::new(),
            avoid_shards: BTreeMap::new(),
            heartbeat_ticks: 2,
            election_ticks: 5,
            entry_bytes: ENTRY_BYTES,
            turn_bytes_max: TURN_BYTES_MAX,
            uncommitted_bytes_max: UNCOMMITTED_BYTES_MAX,
            snapshot_entries: SNAPSHOT_ENTRIES,
            snapshot_bytes: SNAPSHOT_BYTES,
            tail_entries: TAIL_ENTRIES,
            tail_bytes: (NODE_TAIL_BYTES / (u64::from(shards) + 1)).clamp(TAIL_BYTES_MIN, TAIL_BYTES),
            commit_broadcast_ms: COMMIT_BROADCAST_MS,
        }
    }

    /// One of several nodes that found a cluster together. All are voters of every shard, and all must get the same
    /// list.
    pub fn born(node: NodeId, seed: u64, shards: u16, nodes: &[NodeId]) -> Config {
        let voters: Vec<_> = nodes.iter().map(|node| ReplicaId::new(*node, FOUNDING)).collect();
        let groups = (0..=shards).map(|shard| (shard, voters.clone())).collect();
        Config { groups, ..Config::joining(node, seed, shards) }
    }

    /// A number that is drawn for this node, a shard and a term, the same each time.
    pub(crate) fn drawn(&self, shard: ShardId, term: u64) -> u64 {
        [self.node, u64::from(shard), term].into_iter().fold(self.seed, |drawn, part| scramble(drawn ^ part))
    }

    /// Whether this node should not lead a shard.
    pub(crate) fn avoids_leadership(&self, shard: ShardId) -> bool {
        self.should_avoid(self.node, shard)
    }

    /// Whether a node should not lead a shard.
    pub(crate) fn should_avoid(&self, node: NodeId, shard: ShardId) -> bool {
        self.avoid_leadership.contains(&node)
            || self.avoid_shards.get(&node).is_some_and(|shards| shards.contains(&shard))
    }
}

/// One step of SplitMix64: every input bit affects every output bit.
pub(crate) fn scramble(input: u64) -> u64 {
    let mut mixed = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_kept_for_followers_are_bounded() {
        let of_node = |shards: u16| Config::joining(1, 9, shards).tail_bytes * (u64::from(shards) + 1);
        assert_eq!(of_node(1), 2 * TAIL_BYTES);
        assert!((16..=255).all(|shards| of_node(shards) <= NODE_TAIL_BYTES));
        assert_eq!(Config::joining(1, 9, 4_096).tail_bytes, TAIL_BYTES_MIN);
    }
}

//! What an engine is told at its start.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::{FOUNDING, NodeId, ReplicaId, ShardId};

/// Turns queued for a shard in one pass become one entry of at most this many bytes, then a second one.
pub const ENTRY_BYTES: usize = 256 * 1024;

/// The largest turn that is taken; a bigger one is refused and ends the epoch. Bytes.
pub const TURN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a leader appends to one shard before it is committed; beyond this raft refuses. Bytes.
pub const UNCOMMITTED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Entries of one shard after which a snapshot is due.
pub const SNAPSHOT_ENTRIES: u64 = 10_000;

/// Bytes of one shard's entries after which a snapshot is due.
pub const SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;

/// Entries kept in memory behind a snapshot, for followers that lag a little. A node that is alone keeps none.
pub const TAIL_ENTRIES: u64 = 1_000;

/// Bytes of applied entries that a shard keeps in memory at most, with a snapshot or without. A follower that lags
/// further gets a snapshot.
pub const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// The same of all shards of a node together: each may keep an equal part of it …
pub const NODE_TAIL_BYTES: u64 = 64 * 1024 * 1024;

/// … but so much in any case, or a follower that is one large entry behind would need a snapshot.
pub const TAIL_BYTES_MIN: u64 = 256 * 1024;

/// How long followers may not know that an entry is committed: most hear of it with the next one before. Milliseconds.
pub const COMMIT_BROADCAST_MS: u64 = 15;

/// What an engine is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// From this the election time-outs are drawn.
    pub seed: u64,
    /// How many data shards the cluster has: 1..=`shards`, beside the directory.
    pub shards: u16,
    /// The shards this node has a replica of at its birth, each with its voters. What is on disk outranks it: once
    /// there is anything, the groups of a node are those it tells of.
    pub groups: BTreeMap<ShardId, Vec<ReplicaId>>,
    /// Replicas of this node below this generation are gone, also if the disk does not say so: they were on a disk
    /// that was lost. 0 for a node that never lost one; otherwise any generation that the directory gave out after
    /// the loss and before the first replica on the new disk.
    pub generation_min: u64,
    /// Nodes that should not lead while others can: they are going down, or something is wrong with them. May change
    /// while an engine runs: [`Input::AvoidLeadership`](crate::Input::AvoidLeadership).
    pub avoid_leadership: BTreeSet<NodeId>,
    /// A leader is heard at least this often, ticks.
    pub heartbeat_ticks: usize,
    /// The shortest silence of a leader that starts an election, ticks.
    pub election_ticks_min: usize,
    /// Every silence of this length has started an election, ticks.
    pub election_ticks_max: usize,
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

    /// A node that joins a cluster: it has nothing until a leader sends it something.
    pub fn joining(node: NodeId, seed: u64, shards: u16) -> Config {
        Config {
            node,
            seed,
            shards,
            groups: BTreeMap::new(),
            generation_min: 0,
            avoid_leadership: BTreeSet::new(),
            heartbeat_ticks: 2,
            election_ticks_min: 5,
            election_ticks_max: 10,
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

    /// One of several nodes that found a cluster together: all are voters of every shard, and all must be told the
    /// same.
    pub fn born(node: NodeId, seed: u64, shards: u16, nodes: &[NodeId]) -> Config {
        let voters: Vec<_> = nodes.iter().map(|node| ReplicaId::new(*node, FOUNDING)).collect();
        let groups = (0..=shards).map(|shard| (shard, voters.clone())).collect();
        Config { groups, ..Config::joining(node, seed, shards) }
    }

    /// The election time-out of this node for a shard and a term, ticks: the same every time it is asked,
    /// different from node to node, so that elections do not stay split.
    pub(crate) fn election_ticks(&self, shard: ShardId, term: u64) -> usize {
        let drawn =
            [self.node, u64::from(shard), term].into_iter().fold(self.seed, |drawn, part| scramble(drawn ^ part));
        let span = (self.election_ticks_max - self.election_ticks_min) as u64;
        let extra = usize::try_from(drawn % span).expect("a span of ticks is small");
        let patience = if self.avoids_leadership() { self.election_ticks_max } else { 0 };
        self.election_ticks_min + extra + patience
    }

    /// Whether this node should not lead.
    pub(crate) fn avoids_leadership(&self) -> bool {
        self.avoid_leadership.contains(&self.node)
    }
}

/// One step of SplitMix64: every bit of the input moves every bit of the output.
fn scramble(input: u64) -> u64 {
    let mut mixed = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn election_timeouts_are_repeatable_and_spread() {
        let ticks = |node, term| Config::born(node, 9, 1, &[1, 2, 3]).election_ticks(1, term);
        let mut seen = [0; 10];
        for term in 0..1_000 {
            assert_eq!(ticks(1, term), ticks(1, term));
            seen[ticks(1, term)] += 1;
        }
        assert!(seen[5..].iter().all(|count| *count > 120), "{seen:?}");
        let equal = (0..1_000).filter(|term| ticks(1, *term) == ticks(2, *term)).count();
        assert!((120..280).contains(&equal), "{equal}");
    }

    #[test]
    fn what_all_shards_keep_for_followers_is_bounded() {
        let of_node = |shards: u16| Config::joining(1, 9, shards).tail_bytes * (u64::from(shards) + 1);
        assert_eq!(of_node(1), 2 * TAIL_BYTES);
        assert!((16..=255).all(|shards| of_node(shards) <= NODE_TAIL_BYTES));
        assert_eq!(Config::joining(1, 9, 4_096).tail_bytes, TAIL_BYTES_MIN);
    }
}

//! The names of things: shards, nodes, epochs and places in a shard's log.

/// A shard of the cluster: 0 is the directory, 1..=N hold data.
pub type ShardId = u16;

/// A member of the cluster, never 0. A node whose disk was wiped is a new node with a new id: an old id
/// that comes back empty could be counted for entries it no longer has.
pub type NodeId = u64;

/// The shard every node has a copy of: members and placement.
pub const DIRECTORY: ShardId = 0;

/// One leadership of a shard: the raft term in which this node leads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A place in a shard's log. Index 0 is the place before the first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The entry's number, counted from 1 without gaps.
    pub index: u64,
    /// The raft term in which the entry was proposed.
    pub term: u64,
}

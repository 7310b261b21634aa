//! The names of things: shards, nodes, replicas, epochs and places in a shard's log.

use std::fmt;

/// A shard of the cluster: 0 is the directory, 1..=N hold data.
pub type ShardId = u16;

/// A member of the cluster, 1 to [`NODE_MAX`].
pub type NodeId = u64;

/// The highest id of a node.
pub const NODE_MAX: NodeId = 65_535;

/// The generation of the replicas with which a cluster begins. No other replica has it.
pub const FOUNDING: u64 = 1;

const GENERATION_BITS: u32 = 40;

/// One copy of one shard, as raft knows it: the node, and the copy's generation. The directory counts the generations and never
/// gives one out twice. A copy that was removed and comes back, or whose disk was lost, is another replica. Under its old id it
/// could be counted for entries that it no longer has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(u64);

impl ReplicaId {
    /// The replica of this generation on this node.
    ///
    /// # Panics
    ///
    /// When the node is not one of 1 to [`NODE_MAX`], or the generation not one of 1 to 2^40 - 1.
    pub fn new(node: NodeId, generation: u64) -> ReplicaId {
        let id = ReplicaId::checked(node, generation);
        id.unwrap_or_else(|| panic!("there is no replica {node}.{generation}"))
    }

    fn checked(node: NodeId, generation: u64) -> Option<ReplicaId> {
        let known = (1..=NODE_MAX).contains(&node) && (1..1 << GENERATION_BITS).contains(&generation);
        known.then_some(ReplicaId(node << GENERATION_BITS | generation))
    }

    /// The replica with this number, if there can be one.
    pub fn from_bits(bits: u64) -> Option<ReplicaId> {
        ReplicaId::checked(bits >> GENERATION_BITS, bits & ((1 << GENERATION_BITS) - 1))
    }

    /// As a number: the node in the upper 24 bits, the generation in the lower 40.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The node it is on.
    pub fn node(self) -> NodeId {
        self.0 >> GENERATION_BITS
    }

    /// The generation of the copy, counted over all shards and nodes.
    pub fn generation(self) -> u64 {
        self.0 & ((1 << GENERATION_BITS) - 1)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.node(), self.generation())
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The shard with members and placement. Every node has a copy of it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_a_node_and_a_generation() {
        let replica = ReplicaId::new(2, 17);
        assert_eq!((replica.node(), replica.generation(), replica.to_string()), (2, 17, "2.17".to_owned()));
        assert_eq!(replica.bits(), 0x0200_0000_0011);
        assert_eq!(ReplicaId::from_bits(replica.bits()), Some(replica));
    }

    #[test]
    fn numbers_without_a_node_or_a_generation_are_no_replicas() {
        let highest = ReplicaId::new(NODE_MAX, (1 << 40) - 1);
        assert_eq!(ReplicaId::from_bits(highest.bits()), Some(highest));
        for bits in [0, 1, 7 << 40, highest.bits() + 2, u64::MAX] {
            assert_eq!(ReplicaId::from_bits(bits), None, "{bits:x}");
        }
    }
}

//! Maps keys to shards, and shards to nodes.

use std::hash::{Hash, Hasher};

use hashring::HashRing;

use crate::name::{NodeId, ShardId};

/// Points of each node on the ring. More would spread better and take longer to walk.
const VNODES: u16 = 16;

/// The data shard, 1..=`shards`, of keys whose hash begins with these 16 bits. It never changes, because keys are not moved.
///
/// Each shard has one range of prefixes, so entities with the same prefix share a shard for every number of shards. The
/// ranges differ by one prefix at most.
///
/// # Panics
///
/// When `shards` is 0.
pub fn shard_of(prefix: u16, shards: u16) -> ShardId {
    assert!(shards > 0, "a cluster has at least one data shard");
    let place = (u32::from(prefix) * u32::from(shards)) >> u16::BITS;
    1 + u16::try_from(place).expect("less than the number of shards")
}

/// A point on the ring: one of a node, or that of a shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Node(NodeId, u16),
    Shard(ShardId),
}

impl Hash for Place {
    // The bytes are explicit, because `derive` may hash differently in another version of Rust.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Place::Node(node, vnode) => {
                state.write(b"node");
                state.write(&node.to_le_bytes());
                state.write(&vnode.to_le_bytes());
            }
            Place::Shard(shard) => {
                state.write(b"shard");
                state.write(&shard.to_le_bytes());
            }
        }
    }
}

/// The nodes of a cluster, on a hash ring.
pub(crate) struct Ring {
    ring: HashRing<Place>,
    order: Vec<Place>,
    nodes: usize,
}

impl Ring {
    pub(crate) fn new(nodes: &[NodeId]) -> Ring {
        let mut ring = HashRing::new();
        let places = nodes.iter().flat_map(|node| (0..VNODES).map(|vnode| Place::Node(*node, vnode)));
        ring.batch_add(places.collect());
        Ring { order: ring.clone().into_iter().collect(), ring, nodes: nodes.len() }
    }

    /// All nodes in ring order from a shard's point on.
    pub(crate) fn walk(&self, shard: ShardId) -> Vec<NodeId> {
        let start = self.ring.get(&Place::Shard(shard));
        let start = self.order.iter().position(|place| Some(place) == start);
        let start = start.expect("the ring has nodes");
        let mut nodes = Vec::with_capacity(self.nodes);
        for place in self.order[start..].iter().chain(&self.order[..start]) {
            match place {
                Place::Node(node, _) if !nodes.contains(node) => nodes.push(*node),
                Place::Node(..) | Place::Shard(_) => (),
            }
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_shards_are_pinned() {
        let of = |shards| [0, 1, 0x07ff, 0x0800, 0x7fff, 0x8000, 0xffff].map(|prefix| shard_of(prefix, shards));
        assert_eq!(of(1), [1; 7]);
        assert_eq!(of(32), [1, 1, 1, 2, 16, 17, 32]);
        assert_eq!(of(7), [1, 1, 1, 1, 4, 4, 7]);
        assert_eq!(of(u16::MAX), [1, 1, 2_047, 2_048, 32_767, 32_768, 65_535]);
    }

    #[test]
    fn each_shard_has_one_range_of_prefixes_of_equal_length() {
        for shards in (1..=100).chain([1_000, 4_096]) {
            let mut counts = vec![0_u32; usize::from(shards) + 1];
            let mut last = 1;
            for prefix in 0..=u16::MAX {
                let shard = shard_of(prefix, shards);
                assert!(shard == last || shard == last + 1, "prefix {prefix} of {shards}");
                last = shard;
                counts[usize::from(shard)] += 1;
            }
            assert_eq!((counts[0], last), (0, shards), "the directory holds no keys, and every shard some");
            let least = (1 << 16) / u32::from(shards);
            assert!(counts[1..].iter().all(|count| (least..=least + 1).contains(count)), "{shards}: {counts:?}");
        }
    }

    #[test]
    fn the_order_of_nodes_is_pinned() {
        let walks = |nodes: &[NodeId]| (1..=5).map(|shard| Ring::new(nodes).walk(shard)).collect::<Vec<_>>();
        assert_eq!(walks(&[1, 2, 3, 4]), [[1, 4, 2, 3], [1, 4, 2, 3], [1, 4, 3, 2], [1, 3, 2, 4], [1, 4, 2, 3]],);
        assert_eq!(walks(&[4, 2, 1, 3]), walks(&[1, 2, 3, 4]), "the order in which they are named does not matter");
    }
}

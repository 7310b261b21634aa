//! Maps keys to shards, and shards to nodes.

use std::collections::BTreeMap;
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

/// Where a shard should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub shard: ShardId,
    /// The nodes that should have a copy, in the ring's order.
    pub replicas: Vec<NodeId>,
    /// The one of them that should lead.
    pub leader: NodeId,
}

/// Where the data shards 1..=`shards` should be. Each is on `replicas` distinct nodes, or on all if there are fewer, in the order
/// of the ring from the shard's point on. No node gets more than ⌈shards × replicas / nodes⌉ copies or leads more than ⌈shards /
/// nodes⌉ shards. This is a goal. The committed placement counts.
///
/// # Panics
///
/// When there are no nodes, a node is named twice, or `replicas` is 0.
pub fn place(nodes: &[NodeId], shards: u16, replicas: usize) -> Vec<Placement> {
    let mut distinct = nodes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(!nodes.is_empty() && distinct.len() == nodes.len(), "nodes are distinct and some: {nodes:?}");
    assert!(replicas > 0, "a shard has at least one replica");
    let mut table = Table::new(distinct, shards, replicas);
    for shard in 1..=shards {
        table.add(shard);
    }
    let leaders = table.leaders();
    let placed = (1..=shards).zip(table.chosen).zip(leaders);
    placed.map(|((shard, replicas), leader)| Placement { shard, replicas, leader }).collect()
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

/// The assignment in progress.
struct Table {
    ring: Ring,
    copies: usize,
    copies_max: usize,
    leads_max: usize,
    held: BTreeMap<NodeId, usize>,
    // By shard, from shard 1 on.
    chosen: Vec<Vec<NodeId>>,
}

impl Table {
    fn new(nodes: Vec<NodeId>, shards: u16, replicas: usize) -> Table {
        let copies = replicas.min(nodes.len());
        let shards = usize::from(shards);
        Table {
            ring: Ring::new(&nodes),
            copies,
            copies_max: (shards * copies).div_ceil(nodes.len()),
            leads_max: shards.div_ceil(nodes.len()),
            held: nodes.into_iter().map(|node| (node, 0)).collect(),
            chosen: Vec::with_capacity(shards),
        }
    }

    fn has_room(&self, node: NodeId) -> bool {
        self.held[&node] < self.copies_max
    }

    fn add(&mut self, shard: ShardId) {
        let walk = self.ring.walk(shard);
        let room = walk.iter().copied().filter(|node| self.has_room(*node));
        let mut replicas: Vec<NodeId> = room.take(self.copies).collect();
        for node in &replicas {
            *self.held.get_mut(node).expect("a node of the ring") += 1;
        }
        // The last shards may find room only on nodes that they are on already.
        while replicas.len() < self.copies {
            let freed = self.swap(&walk, &replicas);
            replicas.push(freed);
        }
        self.chosen.push(replicas);
    }

    /// Moves an earlier shard's copy from a full node to a node with room, and returns the full node. There are fewer
    /// copies than places, so some node has room. It has fewer shards than the full one, so the full one has a shard
    /// that it lacks.
    fn swap(&mut self, walk: &[NodeId], replicas: &[NodeId]) -> NodeId {
        let full = || walk.iter().filter(|node| !replicas.contains(node));
        let roomy = || walk.iter().filter(|node| self.has_room(**node));
        let can_move =
            |chosen: &Vec<NodeId>, full: &NodeId, roomy: &NodeId| chosen.contains(full) && !chosen.contains(roomy);
        let (full, roomy, earlier) = full()
            .flat_map(|full| roomy().map(move |roomy| (*full, *roomy)))
            .find_map(|(full, roomy)| {
                let chosen = &self.chosen;
                let earlier = chosen.iter().rposition(|chosen| can_move(chosen, &full, &roomy));
                Some((full, roomy, earlier?))
            })
            .expect("while there is room, a copy can be moved to it");
        let place = self.chosen[earlier].iter_mut().find(|node| **node == full);
        *place.expect("it was looked at") = roomy;
        *self.held.get_mut(&roomy).expect("a node of the ring") += 1;
        full
    }

    /// One leader for each shard, if the bound allows it the first of its replicas. With such bounds every set of
    /// shards has enough nodes to lead them, so moving other leaders always succeeds.
    fn leaders(&self) -> Vec<NodeId> {
        let mut led: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for shard in 0..self.chosen.len() {
            let found = self.give(shard, &mut led, &mut Vec::new());
            assert!(found, "no leader for shard {}", shard + 1);
        }
        let mut leaders = vec![0; self.chosen.len()];
        for (node, shards) in led {
            shards.into_iter().for_each(|shard| leaders[shard] = node);
        }
        leaders
    }

    fn give(&self, shard: usize, led: &mut BTreeMap<NodeId, Vec<usize>>, asked: &mut Vec<NodeId>) -> bool {
        for node in &self.chosen[shard] {
            if led.entry(*node).or_default().len() < self.leads_max {
                led.entry(*node).or_default().push(shard);
                return true;
            }
        }
        for node in &self.chosen[shard] {
            if asked.contains(node) {
                continue;
            }
            asked.push(*node);
            for other in led[node].clone() {
                if self.give(other, led, asked) {
                    let shards = led.entry(*node).or_default();
                    shards.retain(|led| *led != other);
                    shards.push(shard);
                    return true;
                }
            }
        }
        false
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

    fn check_bounds(nodes: &[NodeId], shards: u16, replicas: usize) {
        let table = place(nodes, shards, replicas);
        let copies = replicas.min(nodes.len());
        let mut held: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut led: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (placement, shard) in table.iter().zip(1..) {
            let mut distinct = placement.replicas.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!((placement.shard, distinct.len()), (shard, copies), "{placement:?}");
            assert!(placement.replicas.contains(&placement.leader), "{placement:?}");
            placement.replicas.iter().for_each(|node| *held.entry(*node).or_default() += 1);
            *led.entry(placement.leader).or_default() += 1;
        }
        let shards = usize::from(shards);
        assert_eq!(table.len(), shards);
        let copies_max = (shards * copies).div_ceil(nodes.len());
        assert!(held.values().all(|count| *count <= copies_max), "{nodes:?} {shards} {replicas}: {held:?}");
        let leads_max = shards.div_ceil(nodes.len());
        assert!(led.values().all(|count| *count <= leads_max), "{nodes:?} {shards} {replicas}: {led:?}");
    }

    #[test]
    fn no_node_has_more_than_its_share() {
        for count in 1..=9 {
            for first in [1, 100, 7_777] {
                let nodes: Vec<NodeId> = (0..count).map(|n| first + n * 13).collect();
                for shards in [1, 2, 3, 5, 8, 13, 32, 100] {
                    for replicas in 1..=5 {
                        check_bounds(&nodes, shards, replicas);
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_of_nodes_does_not_matter() {
        assert_eq!(place(&[1, 2, 3, 4], 32, 3), place(&[4, 2, 1, 3], 32, 3));
    }

    #[test]
    fn the_placement_of_a_small_cluster_is_pinned() {
        let drawn: Vec<String> = place(&[1, 2, 3, 4], 6, 3)
            .iter()
            .map(|p| format!("{}: {:?} led by {}", p.shard, p.replicas, p.leader))
            .collect();
        assert_eq!(
            drawn,
            [
                "1: [1, 4, 2] led by 1",
                "2: [1, 4, 2] led by 1",
                "3: [1, 4, 3] led by 4",
                "4: [1, 3, 2] led by 3",
                "5: [1, 4, 2] led by 4",
                "6: [3, 4, 2] led by 3",
            ]
        );
    }
}

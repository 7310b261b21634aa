//! The simulated directory: target configurations with versions, unique replica ids, and the replicas known to be dead.

use std::collections::{BTreeMap, BTreeSet};

use super::rng::Rng;
use crate::{FOUNDING, NodeId, ReplicaId, ShardId, TargetConfig};

/// The target configurations of a cluster.
pub(crate) struct Directory {
    nodes: Vec<NodeId>,
    generation: u64,
    shards: BTreeMap<ShardId, Placed>,
}

#[derive(Default)]
struct Placed {
    // By version, from 1.
    targets: Vec<TargetConfig>,
    // The highest version that was reached.
    reached: u64,
    // Nodes that are leaving, with the first version without them. Until that is reached, their replica may be needed, and
    // another replica on the same node would end it.
    leaving: BTreeMap<NodeId, u64>,
}

impl Directory {
    /// A cluster that node 1 founds.
    pub(crate) fn new(nodes: u64, shards: u16) -> Directory {
        let founder = ReplicaId::new(1, FOUNDING);
        let first = TargetConfig { version: 1, voters: vec![founder], learners: vec![], leader: None };
        let placed = |shard| (shard, Placed { targets: vec![first.clone()], ..Placed::default() });
        Directory { nodes: (1..=nodes).collect(), generation: FOUNDING, shards: (0..=shards).map(placed).collect() }
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.shards.keys().copied()
    }

    pub(crate) fn latest(&self, shard: ShardId) -> &TargetConfig {
        self.shards[&shard].targets.last().unwrap()
    }

    /// Any target configuration so far.
    pub(crate) fn any(&self, shard: ShardId, rng: &mut Rng) -> &TargetConfig {
        rng.pick(&self.shards[&shard].targets)
    }

    /// Changes the target configuration of a shard: one, two or three voters anywhere. The others are learners or have no copy.
    pub(crate) fn change(&mut self, shard: ShardId, rng: &mut Rng) {
        let placed = &self.shards[&shard];
        let mut free: Vec<_> = self.nodes.iter().copied().filter(|node| !placed.leaving.contains_key(node)).collect();
        let wanted = *rng.pick(&[1, 2, 3, 3, 3]);
        let mut voters = Vec::new();
        while voters.len() < wanted && !free.is_empty() {
            let place = usize::try_from(rng.below(free.len() as u64)).unwrap();
            voters.push(free.swap_remove(place));
        }
        let learners: Vec<_> = free.into_iter().filter(|_| rng.chance(300)).collect();
        let leader = rng.chance(700).then(|| *rng.pick(&voters));
        self.target(shard, &voters, &learners, leader);
    }

    /// Sets a target configuration.
    pub(crate) fn target(&mut self, shard: ShardId, voters: &[NodeId], learners: &[NodeId], leader: Option<NodeId>) {
        let before = self.latest(shard).clone();
        let mut replica = |node: &NodeId| {
            let known = before.voters.iter().chain(&before.learners).find(|replica| replica.node() == *node);
            known.copied().unwrap_or_else(|| {
                self.generation += 1;
                ReplicaId::new(*node, self.generation)
            })
        };
        let voters: Vec<_> = voters.iter().map(&mut replica).collect();
        let learners: Vec<_> = learners.iter().map(&mut replica).collect();
        let leader = leader.and_then(|leader| voters.iter().copied().find(|replica| replica.node() == leader));
        self.push(shard, TargetConfig { version: before.version + 1, voters, learners, leader });
    }

    fn push(&mut self, shard: ShardId, target: TargetConfig) {
        let placed = self.shards.get_mut(&shard).unwrap();
        let before = placed.targets.last().unwrap();
        for replica in before.voters.iter().chain(&before.learners) {
            let node = replica.node();
            if !nodes_of(&target).any(|other| other == node) {
                placed.leaving.insert(node, target.version);
            }
        }
        placed.targets.push(target);
    }

    pub(crate) fn reached(&mut self, shard: ShardId, version: u64) {
        let placed = self.shards.get_mut(&shard).unwrap();
        placed.reached = placed.reached.max(version);
        placed.leaving.retain(|_, without| *without > version);
    }

    pub(crate) fn is_reconciled(&self) -> bool {
        self.shards.values().all(|placed| placed.reached == placed.targets.last().unwrap().version)
    }

    /// Whether a replica will never be a member again.
    pub(crate) fn is_dead(&self, shard: ShardId, replica: ReplicaId) -> bool {
        let placed = &self.shards[&shard];
        let (past, later) = placed.targets.split_at(usize::try_from(placed.reached).unwrap());
        let wanted = |target: &TargetConfig| target.voters.contains(&replica) || target.learners.contains(&replica);
        past.iter().any(wanted) && !past.last().is_some_and(wanted) && !later.iter().any(wanted)
    }

    /// Whether the cluster can lose this node's disk.
    pub(crate) fn can_lose(&self, node: NodeId) -> bool {
        let votes = |target: &TargetConfig| target.voters.iter().any(|voter| voter.node() == node);
        self.is_reconciled()
            && self.shards().all(|shard| !votes(self.latest(shard)) || self.latest(shard).voters.len() > 2)
    }

    /// A node loses its disk and gets other replicas. Returns a generation above those that it had.
    pub(crate) fn lose(&mut self, node: NodeId) -> u64 {
        self.generation += 1;
        let lowest = self.generation;
        for shard in self.shards().collect::<Vec<_>>() {
            let mut target = self.latest(shard).clone();
            if !nodes_of(&target).any(|other| other == node) {
                continue;
            }
            self.generation += 1;
            let another = ReplicaId::new(node, self.generation);
            let replicas = target.voters.iter_mut().chain(&mut target.learners).chain(&mut target.leader);
            replicas.filter(|replica| replica.node() == node).for_each(|replica| *replica = another);
            target.version += 1;
            self.push(shard, target);
        }
        lowest
    }

    /// The replicas of all target configurations.
    pub(crate) fn target_replicas(&self) -> BTreeSet<(ShardId, ReplicaId)> {
        let targets = self.shards().map(|shard| (shard, self.latest(shard)));
        targets
            .flat_map(|(shard, target)| {
                target.voters.iter().chain(&target.learners).map(move |replica| (shard, *replica))
            })
            .collect()
    }
}

fn nodes_of(target: &TargetConfig) -> impl Iterator<Item = NodeId> {
    target.voters.iter().chain(&target.learners).map(|replica| replica.node())
}

//! The goal: the committed table with the fewest moves that give every node its share.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{DIRECTORY_VOTERS_MAX, MemberState, Place, Situation};
use crate::{
    name::{DIRECTORY, NodeId, ShardId},
    ring::Ring,
};

/// The nodes a shard should be on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Ascending.
    pub(super) voters: Vec<NodeId>,
    /// Ascending.
    pub(super) learners: Vec<NodeId>,
}

impl Target {
    /// The committed target of a shard.
    pub(super) fn of(place: &Place) -> Target {
        let nodes = |replicas: &[super::Replica]| replicas.iter().map(|replica| replica.node).collect();
        Target::new(nodes(&place.voters), nodes(&place.learners))
    }

    fn new(mut voters: Vec<NodeId>, mut learners: Vec<NodeId>) -> Target {
        voters.sort_unstable();
        learners.sort_unstable();
        Target { voters, learners }
    }

    /// The target of every shard, in the order of the places.
    pub(super) fn all(situation: &Situation) -> Vec<Target> {
        let mut table = ShardAssignment::new(situation);
        table.fill();
        table.balance();
        situation.places.iter().map(|place| table.target(place)).collect()
    }
}

/// How many of this many copies vote. An even number tolerates no more failures than one voter less. Two voters tolerate none.
fn voters_of(copies: usize) -> usize {
    copies - usize::from(copies.is_multiple_of(2) && copies > 0)
}

/// The assignment of data shards in progress.
struct ShardAssignment<'a> {
    situation: &'a Situation,
    ring: Ring,
    /// Nodes that may have copies: those that serve, and those that will serve again under the same id.
    nodes: Vec<NodeId>,
    copies: usize,
    copies_max: usize,
    held: BTreeMap<NodeId, usize>,
    /// By data shard.
    chosen: BTreeMap<ShardId, Vec<NodeId>>,
}

impl<'a> ShardAssignment<'a> {
    fn new(situation: &'a Situation) -> ShardAssignment<'a> {
        let stays = |node: NodeId| match situation.state(node) {
            MemberState::Serving => true,
            MemberState::Joining => situation.places.iter().any(|place| place.has(node)),
            MemberState::Draining | MemberState::Gone => false,
        };
        let mut nodes: Vec<NodeId> = situation.members.iter().map(|member| member.node).collect();
        nodes.retain(|node| stays(*node));
        nodes.sort_unstable();
        let places = || situation.places.iter().filter(|place| place.shard != DIRECTORY);
        let copies = situation.replicas.min(nodes.len());
        let mut table = ShardAssignment {
            situation,
            ring: Ring::new(&nodes),
            copies,
            copies_max: (places().count() * copies).div_ceil(nodes.len()),
            held: nodes.iter().map(|node| (*node, 0)).collect(),
            nodes,
            chosen: BTreeMap::new(),
        };
        for place in places() {
            let fixed = situation.is_fixed(place);
            let mut chosen: Vec<NodeId> = place.all().map(|replica| replica.node).collect();
            chosen.retain(|node| fixed || table.nodes.contains(node));
            for node in &chosen {
                table.hold(*node, 1);
            }
            table.chosen.insert(place.shard, chosen);
        }
        table
    }

    fn hold(&mut self, node: NodeId, more: isize) {
        // Nodes that are not in the table get nothing and are not counted.
        if let Some(held) = self.held.get_mut(&node) {
            *held = held.checked_add_signed(more).expect("a node has no less than nothing");
        }
    }

    /// Gives every shard as many copies as it should have.
    fn fill(&mut self) {
        for place in self.free_places() {
            let walk = self.ring.walk(place.shard);
            let mut chosen = self.chosen[&place.shard].clone();
            while chosen.len() > self.copies {
                // Voters come first. The last node with most copies gives up its copy, but the leader never does.
                let spare =
                    (1..chosen.len()).max_by_key(|at| (chosen[*at] != place.leader, self.held[&chosen[*at]], *at));
                let node = chosen.remove(spare.expect("more than one is chosen"));
                self.hold(node, -1);
            }
            while chosen.len() < self.copies {
                let open = || walk.iter().filter(|node| self.takes(**node) && !chosen.contains(node));
                let roomy = open().find(|node| self.held[*node] < self.copies_max);
                let Some(node) = roomy.or_else(|| open().min_by_key(|node| self.held[*node])).copied() else { break };
                chosen.push(node);
                self.hold(node, 1);
            }
            self.chosen.insert(place.shard, chosen);
        }
    }

    /// Takes copies from nodes with more than their share, one move each. Such a node has a shard that a node with room
    /// lacks, so each move takes one copy from it, and fewer moves are impossible.
    fn balance(&mut self) {
        while let Some((shard, from, to)) = self.next_move() {
            let chosen = self.chosen.get_mut(&shard).expect("a data shard");
            let place = chosen.iter_mut().find(|node| **node == from).expect("it was found there");
            *place = to;
            self.hold(from, -1);
            self.hold(to, 1);
        }
    }

    fn next_move(&self) -> Option<(ShardId, NodeId, NodeId)> {
        let mut full: Vec<NodeId> =
            self.nodes.iter().copied().filter(|node| self.held[node] > self.copies_max).collect();
        full.sort_by_key(|node| Reverse(self.held[node]));
        full.into_iter().find_map(|from| {
            let places = self.free_places().into_iter().filter(|place| self.chosen[&place.shard].contains(&from));
            let moves = places.filter_map(|place| {
                let walk = self.ring.walk(place.shard);
                let rank = |node: NodeId| walk.iter().position(|other| *other == node);
                let chosen = &self.chosen[&place.shard];
                let to = walk
                    .iter()
                    .copied()
                    .find(|to| self.takes(*to) && self.held[to] < self.copies_max && !chosen.contains(to))?;
                // The nearest node is added, the farthest is removed, and the leader is removed last.
                Some(((rank(to), place.leader == from, Reverse(rank(from)), place.shard), to))
            });
            let ((.., shard), to) = moves.min()?;
            Some((shard, from, to))
        })
    }

    /// Whether a node may get new copies.
    fn takes(&self, node: NodeId) -> bool {
        self.situation.state(node) == MemberState::Serving
    }

    /// Data shards that may be moved.
    fn free_places(&self) -> Vec<&'a Place> {
        let places = self.situation.places.iter();
        places.filter(|place| place.shard != DIRECTORY && !self.situation.is_fixed(place)).collect()
    }

    fn target(&self, place: &Place) -> Target {
        if self.situation.is_fixed(place) {
            return Target::of(place);
        }
        if place.shard == DIRECTORY {
            return self.directory(place);
        }
        let chosen = &self.chosen[&place.shard];
        // A shard that lacks copies must not lose one.
        if chosen.len() < self.copies {
            return Target::of(place);
        }
        self.split(place, chosen, voters_of(self.copies))
    }

    /// Every member has a copy of the directory. A drained node keeps it until it has no other copy, since it reads its
    /// state there.
    fn directory(&self, place: &Place) -> Target {
        let stays = |node: &NodeId| self.takes(*node) || place.has(*node);
        let chosen: Vec<NodeId> = self.nodes.iter().copied().filter(stays).collect();
        let has_more = |node: NodeId| {
            let others = self.situation.places.iter().filter(|other| other.shard != DIRECTORY);
            others.into_iter().any(|other| other.has(node) || other.leaving.contains(&node))
        };
        let drained = self.situation.members.iter().filter(|member| member.state == MemberState::Draining);
        let drained = drained.map(|member| member.node).filter(|node| place.has(*node) && has_more(*node));
        let voters = voters_of(chosen.len().min(DIRECTORY_VOTERS_MAX));
        let Target { voters, mut learners } = self.split(place, &chosen, voters);
        learners.extend(drained);
        Target::new(voters, learners)
    }

    /// The chosen nodes that vote: existing voters first.
    fn split(&self, place: &Place, chosen: &[NodeId], voters: usize) -> Target {
        let walk = self.ring.walk(place.shard);
        let votes = |node: NodeId| place.voters.iter().any(|voter| voter.node == node);
        let lost = |node: NodeId| {
            let replica = place.all().find(|replica| replica.node == node);
            replica.is_some_and(|replica| !self.situation.has_its_disk(replica))
        };
        let mut ranked = chosen.to_vec();
        ranked.sort_by_key(|node| {
            let rank = walk.iter().position(|other| other == node);
            (!votes(*node), lost(*node), *node != place.leader, rank)
        });
        let learners = ranked.split_off(voters.min(ranked.len()));
        Target::new(ranked, learners)
    }
}

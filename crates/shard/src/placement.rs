//! Where shards should go next: policy, and nothing but. What comes of it is committed by the directory, and Raft alone
//! decides who votes.
//!
//! A plan is the committed table with the fewest moves that give every node its share, a few shards at a time; the
//! ring's order chooses among nodes with room. The same table always gives the same plan.

mod leaders;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::name::{DIRECTORY, NodeId, ShardId};

use target::Target;

/// Shards that are moved at once, if nothing else is wished: each costs a snapshot to another disk.
pub const MOVING_MAX: usize = 4;

/// The most voters of the directory's shard: more would make every change of it slower and nothing safer.
pub const DIRECTORY_VOTERS_MAX: usize = 5;

/// What is known of a cluster when its next moves are thought out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Its members, each once.
    pub members: Vec<Member>,
    /// How many copies each data shard is to have; at least 1.
    pub replicas: usize,
    /// The place of every shard: the directory's first, the others in order.
    pub places: Vec<Place>,
    /// How many shards may be under way at once; leaders change besides.
    pub moving_max: usize,
}

/// A member of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub node: NodeId,
    /// What may be expected of it.
    pub state: MemberState,
    /// Its replicas with a lower generation were on a disk that was lost.
    pub first_generation: u64,
}

/// What may be expected of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has not started yet, or not since its disk was lost: it gets nothing, and keeps its places.
    Joining,
    /// It has copies, and gets more.
    Serving,
    /// What it has is moved away from it.
    Draining,
    /// It does not come back.
    Gone,
}

/// Where a shard should be, as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which shard.
    pub shard: ShardId,
    /// The replicas that should vote.
    pub voters: Vec<Replica>,
    /// The replicas that should not.
    pub learners: Vec<Replica>,
    /// The node that should lead.
    pub leader: NodeId,
    /// Whether it is still on its way there.
    pub moving: bool,
    /// Nodes that may have a replica besides: where it comes from.
    pub leaving: Vec<NodeId>,
}

/// A replica of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// On which node.
    pub node: NodeId,
    /// Its generation.
    pub generation: u64,
}

/// Where a shard should go. A node that has no live replica there gets a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which shard.
    pub shard: ShardId,
    /// Nodes with a copy that votes, ascending.
    pub voters: Vec<NodeId>,
    /// Nodes with a copy that does not, ascending.
    pub learners: Vec<NodeId>,
    /// The voter that should lead.
    pub leader: NodeId,
}

/// The next moves: the directory's first, then away from nodes that are gone, then onto new disks, then the rest, as
/// many as may be under way at once; and leaders wherever they should change. Empty when nothing is to be done now.
///
/// # Panics
/// If a member is there twice, a place has no voters, or no copies are wanted.
pub fn plan(situation: &Situation) -> Vec<Move> {
    let nodes: BTreeSet<NodeId> = situation.members.iter().map(|member| member.node).collect();
    assert_eq!(nodes.len(), situation.members.len(), "every member is there once");
    assert!(situation.replicas > 0 && situation.places.iter().all(|place| !place.voters.is_empty()), "{situation:?}");
    if !situation.members.iter().any(|member| member.state == MemberState::Serving) {
        return Vec::new();
    }
    let targets = Target::all(situation);
    let mut wanted: Vec<(Urgency, &Place, &Target)> = situation
        .places
        .iter()
        .zip(&targets)
        .filter_map(|(place, target)| Some((situation.urgency(place, target)?, place, target)))
        .collect();
    wanted.sort_by_key(|(urgency, place, _)| (*urgency, place.shard));
    let under_way = situation.places.iter().filter(|place| place.moving).count();
    let mut room = situation.moving_max.saturating_sub(under_way);
    let mut taken: Vec<Target> = situation.places.iter().map(Target::of).collect();
    let mut changed = BTreeSet::new();
    for (_, place, target) in wanted {
        // What is under way already only gets another target configuration.
        if !place.moving {
            if room == 0 {
                continue;
            }
            room -= 1;
        }
        taken[situation.index(place)] = target.clone();
        changed.insert(place.shard);
    }
    let led = leaders::choose(situation, &taken, &changed);
    let places = situation.places.iter().zip(taken).zip(led);
    places
        .filter(|((place, _), leader)| changed.contains(&place.shard) || *leader != place.leader)
        .map(|((place, Target { voters, learners }), leader)| Move { shard: place.shard, voters, learners, leader })
        .collect()
}

/// Which move comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// Where everything else is kept.
    Directory,
    /// A replica is gone for good.
    Gone,
    /// A replica was lost with its disk, and there is another one for it.
    Remade,
    /// There are not enough copies, or too many, or on the wrong nodes.
    Other,
}

impl Situation {
    /// Why a shard is to be moved; `None` if it is where it should be.
    fn urgency(&self, place: &Place, target: &Target) -> Option<Urgency> {
        let remade = place.all().any(|replica| self.is_to_be_remade(replica));
        if !remade && *target == Target::of(place) {
            return None;
        }
        Some(if place.shard == DIRECTORY {
            Urgency::Directory
        } else if place.all().any(|replica| self.state(replica.node) == MemberState::Gone) {
            Urgency::Gone
        } else if remade {
            Urgency::Remade
        } else {
            Urgency::Other
        })
    }

    /// Whether a shard stays as it is because it is still on its way; one whose target configuration has become out of
    /// reach does not.
    fn is_fixed(&self, place: &Place) -> bool {
        let unreachable =
            |replica: Replica| self.state(replica.node) == MemberState::Gone || self.is_to_be_remade(replica);
        place.moving && !place.all().any(unreachable)
    }

    /// Whether a replica's disk was lost and its node serves again with another one.
    fn is_to_be_remade(&self, replica: Replica) -> bool {
        self.state(replica.node) == MemberState::Serving && !self.is_whole(replica)
    }

    /// Whether a replica's disk was not lost.
    fn is_whole(&self, replica: Replica) -> bool {
        self.member(replica.node).is_some_and(|member| replica.generation >= member.first_generation)
    }

    /// What may be expected of a node; nothing of one that is no member.
    fn state(&self, node: NodeId) -> MemberState {
        self.member(node).map_or(MemberState::Gone, |member| member.state)
    }

    fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.iter().find(|member| member.node == node)
    }

    fn index(&self, place: &Place) -> usize {
        self.places.iter().position(|other| other.shard == place.shard).expect("a place of the situation")
    }
}

impl Place {
    /// All replicas, voters first.
    fn all(&self) -> impl Iterator<Item = Replica> {
        self.voters.iter().chain(&self.learners).copied()
    }

    fn has(&self, node: NodeId) -> bool {
        self.all().any(|replica| replica.node == node)
    }
}

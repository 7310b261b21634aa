//! The next moves of shards. This is policy only: the directory commits it, and Raft alone decides which replicas
//! vote.
//!
//! A plan takes the committed table and the fewest moves that give every node its share, a few shards at a time. Among
//! nodes with room, the order of the ring decides. The same table always gives the same plan.

mod leaders;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::name::{DIRECTORY, NodeId, ShardId};

use target::Target;

/// Shards moved at once by default. Each costs a snapshot to another disk.
pub const MOVING_MAX: usize = 4;

/// The most voters of the directory's shard. More would make every change slower and nothing safer.
pub const DIRECTORY_VOTERS_MAX: usize = 5;

/// The state of a cluster from which its next moves are planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Its members, each once.
    pub members: Vec<Member>,
    /// Copies of each data shard, at least 1.
    pub replicas: usize,
    /// The place of every shard: the directory's first, the others in order.
    pub places: Vec<Place>,
    /// Shards that may move at once. Changes of leaders do not count.
    pub moving_max: usize,
}

/// A member of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub node: NodeId,
    pub state: MemberState,
    /// Replicas of lower generations were on a lost disk.
    pub first_generation: u64,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has not started yet, or not since its disk was lost. It gets nothing and keeps its places.
    Joining,
    /// It has copies and can get more.
    Serving,
    /// Its copies are being moved away.
    Draining,
    /// It does not come back.
    Gone,
}

/// Where a shard should be, as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub shard: ShardId,
    /// The replicas that should vote.
    pub voters: Vec<Replica>,
    /// The replicas that should be learners.
    pub learners: Vec<Replica>,
    /// The node that should lead.
    pub leader: NodeId,
    /// Whether the move is not finished.
    pub moving: bool,
    /// Nodes that may still have an old replica.
    pub leaving: Vec<NodeId>,
}

/// A replica of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    pub node: NodeId,
    pub generation: u64,
}

/// Where a shard should go. A node without a live replica there gets a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub shard: ShardId,
    /// Nodes whose copies vote, ascending.
    pub voters: Vec<NodeId>,
    /// Nodes whose copies are learners, ascending.
    pub learners: Vec<NodeId>,
    /// The voter that should lead.
    pub leader: NodeId,
}

/// The next moves, within the limit of concurrent moves. The directory comes first, then shards on nodes that are gone, then on
/// new disks, then the rest. All changes of leaders are added. Empty when there is nothing to do.
///
/// # Panics
/// If a member is there twice, a place has no voters, or `replicas` is 0.
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
        // A shard that moves already only gets another target configuration.
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

/// The order of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// The directory.
    Directory,
    /// A replica is on a node that does not come back.
    Gone,
    /// A replica was lost with its disk, and its node has a new disk.
    DiskLost,
    /// There are not enough copies, or too many, or on the wrong nodes.
    Other,
}

impl Situation {
    /// Why a shard must be moved. `None` if it is where it should be.
    fn urgency(&self, place: &Place, target: &Target) -> Option<Urgency> {
        let disk_lost = place.all().any(|replica| self.lost_its_disk(replica));
        if !disk_lost && *target == Target::of(place) {
            return None;
        }
        Some(if place.shard == DIRECTORY {
            Urgency::Directory
        } else if place.all().any(|replica| self.state(replica.node) == MemberState::Gone) {
            Urgency::Gone
        } else if disk_lost {
            Urgency::DiskLost
        } else {
            Urgency::Other
        })
    }

    /// Whether a shard stays as it is because it is still moving. It does not stay if its target configuration has
    /// become unreachable.
    fn is_fixed(&self, place: &Place) -> bool {
        let unreachable =
            |replica: Replica| self.state(replica.node) == MemberState::Gone || self.lost_its_disk(replica);
        place.moving && !place.all().any(unreachable)
    }

    /// Whether a replica's disk was lost and its node serves again with another one.
    fn lost_its_disk(&self, replica: Replica) -> bool {
        self.state(replica.node) == MemberState::Serving && !self.has_its_disk(replica)
    }

    /// Whether a replica's disk was not lost.
    fn has_its_disk(&self, replica: Replica) -> bool {
        self.member(replica.node).is_some_and(|member| replica.generation >= member.first_generation)
    }

    /// The state of a node. A node that is not a member counts as gone.
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

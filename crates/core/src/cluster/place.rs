//! Where a shard's replicas are and should be.

use alloc::vec::Vec;
use core::fmt;

use boxoffice_declare::Stored;

/// Bits of a replica's id that count generations.
const GENERATION_BITS: u32 = 40;

/// How many generations there are. The id of a replica has no room for more beside its node.
pub(crate) const GENERATIONS: u64 = 1 << GENERATION_BITS;

/// One copy of a shard on one node. A new copy after a removal or a lost disk is another replica, so an acknowledgement of the
/// earlier one never counts for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
pub struct Replica {
    #[n(0)]
    pub node: u64,
    /// The number of the replica in the cluster, below 2^40.
    #[n(1)]
    pub generation: u64,
}

impl Replica {
    /// Its id in its raft group.
    pub fn id(self) -> u64 {
        self.node << GENERATION_BITS | self.generation
    }

    /// The replica with this id.
    pub fn of(id: u64) -> Replica {
        Replica { node: id >> GENERATION_BITS, generation: id & ((1 << GENERATION_BITS) - 1) }
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.generation)
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The replicas of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Copies {
    #[n(0)]
    pub voters: Vec<Replica>,
    #[n(1)]
    pub learners: Vec<Replica>,
}

impl Copies {
    /// All of them, voters first.
    pub fn all(&self) -> impl Iterator<Item = Replica> {
        self.voters.iter().chain(&self.learners).copied()
    }

    /// Whether a node has one of the replicas.
    pub fn has(&self, node: u64) -> bool {
        self.all().any(|replica| replica.node == node)
    }
}

/// The target of a shard, and the last target that it reached.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Place {
    /// How many targets the shard has had.
    #[n(0)]
    pub version: u64,
    /// The replicas that it should have.
    #[n(1)]
    pub target: Copies,
    /// The voter that should lead.
    #[n(2)]
    pub leader: Replica,
    /// The version that its leader last reported as reached.
    #[n(3)]
    pub reached: u64,
    /// The replicas that it had then.
    #[n(4)]
    pub last_reached: Copies,
    /// Targets since then that the shard was not seen to reach. It may have been there, or be on its way there.
    #[n(5)]
    pub given_up: Vec<Copies>,
}

impl Place {
    /// The first target of a shard, which it has reached.
    pub(crate) fn founding(target: Copies, leader: Replica) -> Place {
        Place { version: 1, last_reached: target.clone(), target, leader, reached: 1, given_up: Vec::new() }
    }

    /// Whether its members are changing to another target.
    pub fn moving(&self) -> bool {
        self.reached != self.version
    }

    /// The next target. If only the leader differs, no member has to change, and it is reached at once.
    pub(crate) fn next(&self, target: Copies, leader: Replica) -> Place {
        let version = self.version + 1;
        let is_there = !self.moving() && target == self.target;
        let reached = if is_there { version } else { self.reached };
        let mut given_up = self.given_up.clone();
        if self.moving() && target != self.target {
            given_up.push(self.target.clone());
        }
        Place { version, target, leader, reached, last_reached: self.last_reached.clone(), given_up }
    }

    /// Every set of replicas that the shard may have now. While it moves there are several.
    pub(crate) fn possible(&self) -> impl Iterator<Item = &Copies> {
        let on_its_way = self.given_up.iter().chain(self.moving().then_some(&self.target));
        [&self.last_reached].into_iter().chain(on_its_way)
    }

    /// Whether a node may have a replica of it.
    pub fn involves(&self, node: u64) -> bool {
        self.possible().any(|copies| copies.has(node))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::Replica;

    #[test]
    fn a_replica_has_an_id_of_its_own() {
        let replica = Replica { node: 2, generation: 17 };
        assert_eq!((replica.id(), format!("{replica}")), (2 << 40 | 17, "2.17".into()));
        for replica in [replica, Replica { node: 65_535, generation: (1 << 40) - 1 }] {
            assert_eq!(Replica::of(replica.id()), replica);
        }
    }
}

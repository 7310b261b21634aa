//! Checksums of the states that the replicas of one shard have after the same entries. They find a replica whose state differs
//! from the others.
//!
//! Ended carts leave memory at different moments on each node. So a checksum covers only the entities that one entry changed, as
//! they are right after it. Such an entity is in memory on every replica, and its bytes follow from the log alone. The checksum also
//! covers the chain of all entries up to this one.

use std::collections::BTreeMap;

use boxoffice_core::stored::Stored;
use boxoffice_core::{id::hash64, state_map::Cut, stored};
use boxoffice_shard::{Members, NodeId, ReplicaId, ShardId};

/// Checksums of one replica that are kept. Older ones are forgotten. Replicas are hardly ever more sampled entries apart.
const KEPT_MAX: usize = 256;

/// The checksum of a replica's state after one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Checksum {
    #[n(0)]
    pub shard: ShardId,
    /// The entry.
    #[n(1)]
    pub index: u64,
    /// The checksum of all entities that it changed.
    #[n(2)]
    pub sum: u64,
}

/// The checksum of these entities and of the chain of entries so far. `scratch` is memory to write them into.
pub(crate) fn sum(cut: &Cut, chain: Option<u128>, scratch: &mut Vec<u8>) -> u64 {
    let mut bytes = stored::append(cut, std::mem::take(scratch));
    chain.iter().for_each(|chain| bytes.extend(chain.to_le_bytes()));
    let sum = hash64(&bytes);
    *scratch = bytes;
    scratch.clear();
    sum
}

/// All nodes that have a replica of a shard.
pub(crate) fn nodes(members: &Members) -> impl Iterator<Item = NodeId> {
    let lists = [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next];
    let mut nodes: Vec<_> = lists.into_iter().flatten().map(|replica| replica.node()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into_iter()
}

/// The result of comparing this replica with others at one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// The number of others that it was compared with.
    pub(crate) pairs: u64,
    /// The others with another checksum, and that checksum.
    pub(crate) different: Vec<(NodeId, u64)>,
    /// This replica's checksum and that of a majority of the voters, if they differ. Then this replica is wrong.
    pub(crate) outvoted: Option<(u64, u64)>,
}

/// The last checksums of one shard, of this replica and of the others.
#[derive(Debug, Default)]
pub(crate) struct ShardChecksums {
    own: BTreeMap<u64, u64>,
    others: BTreeMap<NodeId, BTreeMap<u64, u64>>,
    /// A difference was logged. Once is enough.
    pub(crate) is_told: bool,
}

impl ShardChecksums {
    /// This replica has applied an entry. Others may have done so before.
    pub(crate) fn applied(&mut self, index: u64, sum: u64, members: &Members) -> Compared {
        self.others.retain(|node, _| nodes(members).any(|member| member == *node));
        self.own.insert(index, sum);
        let compared = self.compare(index, |_| true, members);
        trim(&mut self.own);
        compared
    }

    /// Another node has applied an entry. This replica may have done so before. A node without a replica is ignored.
    pub(crate) fn heard(&mut self, from: NodeId, index: u64, sum: u64, members: &Members) -> Compared {
        if nodes(members).all(|member| member != from) {
            return Compared::default();
        }
        self.others.entry(from).or_default().insert(index, sum);
        let compared = self.compare(index, |node| node == from, members);
        self.others.get_mut(&from).into_iter().for_each(trim);
        compared
    }

    /// This replica's checksum, if it is kept.
    pub(crate) fn own(&self, index: u64) -> Option<u64> {
        self.own.get(&index).copied()
    }

    /// Compares with the nodes for which `is_new` is true. The vote counts all nodes.
    fn compare(&self, index: u64, is_new: impl Fn(NodeId) -> bool, members: &Members) -> Compared {
        let Some(&own) = self.own.get(&index) else { return Compared::default() };
        let sums = || self.others.iter().filter_map(|(node, sums)| Some((*node, *sums.get(&index)?)));
        let new = || sums().filter(|(node, _)| is_new(*node));
        let different: Vec<_> = new().filter(|(_, sum)| *sum != own).collect();
        let agree_on = |sum: u64| {
            let agrees = |replica: &ReplicaId| sums().any(|(node, other)| node == replica.node() && other == sum);
            let is_majority =
                |voters: &[ReplicaId]| voters.iter().filter(|voter| agrees(voter)).count() > voters.len() / 2;
            is_majority(&members.voters) && (!members.is_joint() || is_majority(&members.voters_outgoing))
        };
        let outvoted = different.iter().map(|(_, sum)| *sum).find(|sum| agree_on(*sum)).map(|sum| (own, sum));
        Compared { pairs: new().count() as u64, different, outvoted }
    }
}

fn trim(sums: &mut BTreeMap<u64, u64>) {
    while sums.len() > KEPT_MAX {
        sums.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: u64 = 7;
    const BAD: u64 = 8;

    fn replicas(nodes: &[NodeId]) -> Vec<ReplicaId> {
        nodes.iter().map(|node| ReplicaId::new(*node, 1)).collect()
    }

    fn voters(nodes: &[NodeId]) -> Members {
        Members::born(replicas(nodes))
    }

    fn found(pairs: u64, different: &[(NodeId, u64)], outvoted: Option<(u64, u64)>) -> Compared {
        Compared { pairs, different: different.to_vec(), outvoted }
    }

    #[test]
    fn equal_replicas_have_no_difference_in_any_order() {
        let (mut shard, members) = (ShardChecksums::default(), voters(&[1, 2, 3]));
        assert_eq!(shard.heard(2, 5, GOOD, &members), Compared::default());
        assert_eq!(shard.applied(5, GOOD, &members), found(1, &[], None));
        assert_eq!(shard.heard(3, 5, GOOD, &members), found(1, &[], None));
        assert_eq!(shard.heard(3, 6, BAD, &members), Compared::default(), "this replica has not reported yet");
    }

    #[test]
    fn a_replica_that_differs_from_the_majority_is_reported() {
        let members = voters(&[1, 2, 3]);
        let mut wrong = ShardChecksums::default();
        wrong.applied(5, BAD, &members);
        assert_eq!(wrong.heard(2, 5, GOOD, &members), found(1, &[(2, GOOD)], None), "this voter has not reported yet");
        assert_eq!(wrong.heard(3, 5, GOOD, &members), found(1, &[(3, GOOD)], Some((BAD, GOOD))));

        let mut late = ShardChecksums::default();
        late.heard(2, 5, GOOD, &members);
        late.heard(3, 5, GOOD, &members);
        assert_eq!(late.applied(5, BAD, &members), found(2, &[(2, GOOD), (3, GOOD)], Some((BAD, GOOD))));

        let mut right = ShardChecksums::default();
        right.applied(5, GOOD, &members);
        right.heard(2, 5, GOOD, &members);
        assert_eq!(right.heard(3, 5, BAD, &members), found(1, &[(3, BAD)], None));
    }

    #[test]
    fn without_a_majority_no_replica_is_reported() {
        let two = voters(&[1, 2]);
        let mut shard = ShardChecksums::default();
        shard.applied(5, GOOD, &two);
        assert_eq!(shard.heard(2, 5, BAD, &two), found(1, &[(2, BAD)], None));

        let three = voters(&[1, 2, 3]);
        let mut shard = ShardChecksums::default();
        shard.applied(5, GOOD, &three);
        shard.heard(2, 5, BAD, &three);
        assert_eq!(shard.heard(3, 5, BAD + 1, &three), found(1, &[(3, BAD + 1)], None));
    }

    #[test]
    fn learners_have_no_vote_and_are_outvoted_by_voters() {
        let members = Members { learners: replicas(&[2, 3]), ..voters(&[1]) };
        let mut voter = ShardChecksums::default();
        voter.applied(5, GOOD, &members);
        voter.heard(2, 5, BAD, &members);
        assert_eq!(voter.heard(3, 5, BAD, &members), found(1, &[(3, BAD)], None));

        let mut learner = ShardChecksums::default();
        learner.applied(5, BAD, &members);
        assert_eq!(learner.heard(1, 5, GOOD, &members), found(1, &[(1, GOOD)], Some((BAD, GOOD))));
    }

    #[test]
    fn in_a_joint_change_both_majorities_must_agree() {
        let members = Members { voters_outgoing: replicas(&[1, 4, 5]), ..voters(&[1, 2, 3]) };
        let mut shard = ShardChecksums::default();
        shard.applied(5, BAD, &members);
        for node in [2, 3, 4] {
            assert_eq!(shard.heard(node, 5, GOOD, &members).outvoted, None);
        }
        assert_eq!(shard.heard(5, 5, GOOD, &members).outvoted, Some((BAD, GOOD)));
    }

    #[test]
    fn nodes_without_a_replica_are_ignored() {
        let mut shard = ShardChecksums::default();
        shard.applied(5, BAD, &voters(&[1, 2, 3]));
        assert_eq!(shard.heard(9, 5, GOOD, &voters(&[1, 2, 3])), Compared::default());
        shard.heard(2, 6, GOOD, &voters(&[1, 2, 3]));
        shard.heard(3, 6, GOOD, &voters(&[1, 2, 3]));
        assert_eq!(shard.applied(6, BAD, &voters(&[1, 4, 5])), Compared::default());
    }

    #[test]
    fn the_newest_checksums_are_kept_in_bounded_memory() {
        let (mut shard, members) = (ShardChecksums::default(), voters(&[1, 2, 3]));
        let last = 3 * KEPT_MAX as u64;
        for index in 1..=last {
            shard.applied(index, GOOD, &members);
            shard.heard(2, index, GOOD, &members);
        }
        assert_eq!((shard.own.len(), shard.others[&2].len()), (KEPT_MAX, KEPT_MAX));
        assert_eq!(shard.heard(3, 1, BAD, &members), Compared::default(), "the old checksum is forgotten");
        assert_eq!(shard.heard(3, last, GOOD, &members), found(1, &[], None));
    }

    #[test]
    fn a_repeated_checksum_of_a_restarted_node_is_compared_again() {
        let (mut shard, members) = (ShardChecksums::default(), voters(&[1, 2, 3]));
        for index in 1..=KEPT_MAX as u64 {
            shard.applied(index, GOOD, &members);
            shard.heard(2, index + 1, GOOD, &members);
        }
        assert_eq!(shard.heard(2, 1, BAD, &members), found(1, &[(2, BAD)], None), "older than all kept checksums");
    }
}

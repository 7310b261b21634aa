//! The members that a shard should have, and the next change towards them.

use crate::name::ReplicaId;
use crate::snapshot::Members;

/// The members that a shard should have, as the directory has committed them. Raft decides whether a change is safe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetConfig {
    /// Counted by the directory for each shard. A higher version outranks all lower ones.
    pub version: u64,
    /// The replicas that should vote. A target configuration without voters is ignored.
    pub voters: Vec<ReplicaId>,
    /// The replicas that should receive everything without a vote.
    pub learners: Vec<ReplicaId>,
    /// The preferred leader among the voters. `None` leaves it to elections.
    pub leader: Option<ReplicaId>,
}

/// One part of a membership change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigChange {
    Voter(ReplicaId),
    Learner(ReplicaId),
    Remove(ReplicaId),
}

/// The next step of a leader towards a target configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something else must happen first.
    Wait,
    /// The members match.
    Reached,
    /// Apply all of these at once.
    Change(Vec<ConfigChange>),
    /// Transfer the leadership, since another leader must continue.
    Transfer(ReplicaId),
}

impl TargetConfig {
    /// The same target configuration in the form in which members are kept.
    pub(crate) fn sorted(mut self) -> TargetConfig {
        let voters = &mut self.voters;
        voters.sort_unstable();
        voters.dedup();
        self.learners.retain(|learner| !voters.contains(learner));
        self.learners.sort_unstable();
        self.learners.dedup();
        self
    }

    pub(crate) fn wants(&self, replica: ReplicaId) -> bool {
        self.voters.contains(&replica) || self.learners.contains(&replica)
    }

    pub(crate) fn is_reconciled(&self, members: &Members) -> bool {
        !members.is_joint() && members.voters == self.voters && members.learners == self.learners
    }

    /// The next step of the leader `me`. `fit` says which replicas have caught up and are active.
    pub(crate) fn next(&self, members: &Members, me: ReplicaId, fit: impl Fn(ReplicaId) -> bool) -> Step {
        if self.voters.is_empty() || members.is_joint() {
            return Step::Wait;
        }
        if self.is_reconciled(members) {
            return Step::Reached;
        }
        let learner_changes = self.learner_changes(members, me);
        if !learner_changes.is_empty() {
            return Step::Change(learner_changes);
        }
        let fit = |replica| replica == me || fit(replica);
        if !members.voters.contains(&me) {
            return self.transfer(members, me, fit);
        }
        // A leader goes last, because it must be there to commit the change, and its successor removes it.
        let mut target = self.voters.clone();
        if !target.contains(&me) {
            target.push(me);
            target.sort_unstable();
        }
        if target != members.voters {
            self.exchange(members, &target, fit)
        } else if target != self.voters {
            self.transfer(members, me, fit)
        } else {
            Step::Wait
        }
    }

    /// Missing replicas are added as learners first. Learners that the target does not contain are removed. A second replica on
    /// the leader's own node must wait, because its first message would end the leader.
    fn learner_changes(&self, members: &Members, me: ReplicaId) -> Vec<ConfigChange> {
        let wanted = self.voters.iter().chain(&self.learners);
        let missing = wanted.filter(|replica| !members.contains(**replica) && replica.node() != me.node());
        let unwanted = members.learners.iter().filter(|learner| !self.wants(**learner));
        let missing = missing.map(|replica| ConfigChange::Learner(*replica));
        missing.chain(unwanted.map(|learner| ConfigChange::Remove(*learner))).collect()
    }

    /// One joint change to the voters of `target`, as soon as it cannot stop the shard. The replicas that get a vote must have
    /// caught up, and a majority must be able to serve at once.
    fn exchange(&self, members: &Members, target: &[ReplicaId], fit: impl Fn(ReplicaId) -> bool) -> Step {
        let is_new = |replica: &&ReplicaId| !members.voters.contains(replica);
        let serving = target.iter().filter(|replica| fit(**replica)).count();
        if !target.iter().filter(is_new).all(|replica| fit(*replica)) || serving * 2 <= target.len() {
            return Step::Wait;
        }
        let new = target.iter().filter(is_new).map(|replica| ConfigChange::Voter(*replica));
        let leaving = members.voters.iter().filter(|voter| !target.contains(voter));
        let leaving = leaving.map(|voter| match self.learners.contains(voter) {
            true => ConfigChange::Learner(*voter),
            false => ConfigChange::Remove(*voter),
        });
        Step::Change(new.chain(leaving).collect())
    }

    fn transfer(&self, members: &Members, me: ReplicaId, fit: impl Fn(ReplicaId) -> bool) -> Step {
        let can = |replica: &ReplicaId| *replica != me && members.voters.contains(replica) && fit(*replica);
        let preferred = self.leader.filter(|leader| self.voters.contains(leader));
        let mut candidates = preferred.into_iter().chain(self.voters.iter().copied());
        // A leader that is not a voter can only be succeeded by a voter.
        let others = members.voters.iter().copied().filter(|_| !members.voters.contains(&me));
        candidates.find(can).or_else(|| others.into_iter().find(can)).map_or(Step::Wait, Step::Transfer)
    }
}

#[cfg(test)]
mod tests {
    use super::ConfigChange::{Learner, Remove, Voter};
    use super::*;

    fn one(node: u64) -> ReplicaId {
        ReplicaId::new(node, node)
    }

    fn all(nodes: &[u64]) -> Vec<ReplicaId> {
        nodes.iter().map(|node| one(*node)).collect()
    }

    fn members(voters: &[u64], learners: &[u64]) -> Members {
        Members { voters: all(voters), learners: all(learners), ..Members::default() }
    }

    fn target(voters: &[u64], learners: &[u64]) -> TargetConfig {
        TargetConfig { version: 7, voters: all(voters), learners: all(learners), leader: None }.sorted()
    }

    /// The next step of leader 1 once the replicas in `fit` have caught up.
    fn step(target: &TargetConfig, members: &Members, fit: &[u64]) -> Step {
        target.next(members, one(1), |replica| fit.contains(&replica.node()))
    }

    #[test]
    fn one_voter_becomes_three() {
        let target = target(&[1, 2, 3], &[]);
        assert_eq!(step(&target, &members(&[1], &[2]), &[2]), Step::Change(vec![Learner(one(3))]));
        let caught_up = members(&[1], &[2, 3]);
        assert_eq!(step(&target, &caught_up, &[2]), Step::Wait, "3 has not caught up");
        assert_eq!(step(&target, &caught_up, &[2, 3]), Step::Change(vec![Voter(one(2)), Voter(one(3))]));
        let joint = Members { voters_outgoing: all(&[1]), ..members(&[1, 2, 3], &[]) };
        assert_eq!(step(&target, &joint, &[2, 3]), Step::Wait);
        assert_eq!(step(&target, &members(&[1, 2, 3], &[]), &[]), Step::Reached);
    }

    #[test]
    fn a_voter_is_replaced_once_the_new_one_has_caught_up() {
        let target = target(&[1, 2, 4], &[]);
        let joining = members(&[1, 2, 3], &[4]);
        assert_eq!(step(&target, &joining, &[2]), Step::Wait);
        assert_eq!(step(&target, &joining, &[2, 4]), Step::Change(vec![Voter(one(4)), Remove(one(3))]));
        assert_eq!(step(&target, &joining, &[4]), Step::Change(vec![Voter(one(4)), Remove(one(3))]), "1 and 4 serve");
    }

    #[test]
    fn no_change_leaves_a_shard_without_a_serving_majority() {
        let three = members(&[1, 2, 3], &[]);
        assert_eq!(step(&target(&[1, 3], &[]), &three, &[2]), Step::Wait, "3 is dead");
        assert_eq!(step(&target(&[1, 3], &[]), &three, &[3]), Step::Change(vec![Remove(one(2))]));
    }

    #[test]
    fn a_leader_outside_the_target_is_removed_last() {
        let target = target(&[2, 3, 4], &[]);
        let joining = members(&[1, 2, 3], &[4]);
        assert_eq!(step(&target, &joining, &[2, 3, 4]), Step::Change(vec![Voter(one(4))]));
        let together = members(&[1, 2, 3, 4], &[]);
        assert_eq!(step(&target, &together, &[3]), Step::Transfer(one(3)));
        assert_eq!(step(&target, &together, &[]), Step::Wait);
        let preferring = TargetConfig { leader: Some(one(4)), ..target };
        assert_eq!(step(&preferring, &together, &[2, 3, 4]), Step::Transfer(one(4)));
    }

    #[test]
    fn a_learner_outside_the_target_is_removed() {
        let expected = vec![Learner(one(5)), Remove(one(4))];
        assert_eq!(step(&target(&[1, 2, 5], &[]), &members(&[1, 2, 3], &[4]), &[2]), Step::Change(expected));
        assert_eq!(step(&target(&[1], &[]), &members(&[1], &[4]), &[]), Step::Change(vec![Remove(one(4))]));
    }

    #[test]
    fn a_voter_becomes_a_learner() {
        let expected = vec![Remove(one(2)), Learner(one(3))];
        assert_eq!(step(&target(&[1], &[3]), &members(&[1, 2, 3], &[]), &[]), Step::Change(expected));
    }

    #[test]
    fn a_leader_without_a_vote_transfers_leadership_to_a_voter() {
        assert_eq!(step(&target(&[3], &[1]), &members(&[2], &[1, 3]), &[2, 3]), Step::Transfer(one(2)));
    }

    #[test]
    fn a_leader_does_not_add_another_replica_of_its_own_node() {
        let successor = ReplicaId::new(1, 9);
        let target = TargetConfig { version: 7, voters: vec![successor], ..TargetConfig::default() };
        assert_eq!(step(&target, &members(&[1], &[]), &[]), Step::Wait);
    }

    #[test]
    fn a_target_without_voters_is_ignored() {
        assert_eq!(step(&target(&[], &[2]), &members(&[1], &[]), &[]), Step::Wait);
    }
}

//! How a leader changes the members to match the target configuration of the directory.

use raft::ProgressState;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2};

use super::Group;
use crate::config::Config;
use crate::name::{NodeId, ReplicaId};
use crate::now::Now;
use crate::output::Output;
use crate::target_config::{ConfigChange, Step, TargetConfig};

/// A replica that lacks fewer entries than this has caught up. It receives them while the change is being agreed on.
const CAUGHT_UP_ENTRIES: u64 = 128;

/// Ticks between two transfers of leadership, also after a failed one, and between an election and a transfer to the
/// preferred leader. The shard pauses at each transfer.
const COOLDOWN_TICKS: u32 = 30;

/// The same on a node that avoids leadership.
const AVOIDANCE_COOLDOWN_TICKS: u32 = 10;

impl<T> Group<T> {
    /// Sets the target configuration. The caller ensures that it is not older than the last one.
    pub(crate) fn target(&mut self, target: &TargetConfig) {
        if self.target.as_ref() != Some(target) {
            self.target = Some(target.clone());
            self.reached = None;
            self.needs_reconcile = true;
        }
    }

    /// Whether this node leads and the members do not match the target configuration yet.
    pub(super) fn is_behind_target(&self, config: &Config) -> bool {
        let (Some(target), Some(epoch)) = (&self.target, self.epoch()) else { return false };
        // An older one would undo a newer one, and add removed replicas again.
        if target.version < self.meta().placed {
            return false;
        }
        self.reached != Some(epoch) || self.preferred(target, config).is_some()
    }

    /// The leader that the target configuration prefers, if it is another one and the cooldown is over.
    fn preferred(&self, target: &TargetConfig, config: &Config) -> Option<ReplicaId> {
        let rested = self.cooldown_ticks == 0 && self.follower_activity.ticks() >= COOLDOWN_TICKS;
        let willing = |leader: &ReplicaId| !config.should_avoid(leader.node(), self.shard);
        target
            .leader
            .filter(|leader| rested && *leader != self.replica && target.voters.contains(leader) && willing(leader))
    }

    /// Takes the next possible step towards the target configuration.
    pub(super) fn reconcile(&mut self, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        self.needs_reconcile = false;
        if !self.is_behind_target(config)
            || self.raft.raft.has_pending_conf()
            || self.raft.raft.lead_transferee.is_some()
        {
            return;
        }
        let target = self.target.take().expect("it was found open");
        match target.next(&self.meta().members, self.replica, |replica| self.is_fit(replica, config)) {
            Step::Wait => (),
            Step::Reached if self.meta().placed < target.version => self.note(target.version),
            Step::Reached => self.arrive(&target, now, config, out),
            Step::Change(changes) => self.propose_members(&changes, target.version),
            // Raft does not let it campaign before it has applied them.
            Step::Transfer(to) if self.cooldown_ticks == 0 && self.knows_members(to) => {
                self.hand_over(now, config, to, out)
            }
            Step::Transfer(_) => (),
        }
        self.target = Some(target);
    }

    /// The members match this target configuration already. The log must record it all the same. Otherwise a later leader that
    /// knows only the previous one could still apply that one.
    fn note(&mut self, version: u64) {
        let own = match self.meta().members.voters.contains(&self.replica) {
            true => ConfigChange::Voter(self.replica),
            false => ConfigChange::Learner(self.replica),
        };
        self.propose_members(&[own], version);
    }

    fn arrive(&mut self, target: &TargetConfig, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        let epoch = self.epoch();
        if !self.is_removal_known(&target.voters) {
            return;
        }
        if self.reached != epoch {
            self.reached = epoch;
            out.push(Output::TargetReached { shard: self.shard, version: target.version });
        }
        let preferred = self.preferred(target, config);
        if let Some(leader) = preferred.filter(|leader| self.is_fit(*leader, config) && self.knows_members(*leader)) {
            self.hand_over(now, config, leader, out);
        }
    }

    /// Whether this node leads, should avoid it, and may try a transfer again.
    pub(super) fn must_transfer(&self, config: &Config) -> bool {
        config.avoids_leadership(self.shard) && self.leads() && self.cooldown_ticks == 0
    }

    /// This or another node avoids leadership, or does no more. Returns whether there is something to do.
    pub(crate) fn avoidance_changed(&mut self, config: &Config) -> bool {
        if config.avoids_leadership(self.shard) {
            self.cooldown_ticks = 0;
        }
        self.must_transfer(config)
    }

    /// Transfers the leadership to a caught-up voter that does not avoid it, if this node does.
    pub(super) fn transfer_leadership(&mut self, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        if !self.must_transfer(config) || self.raft.raft.lead_transferee.is_some() {
            return;
        }
        let can = |voter: &ReplicaId| {
            let willing = !config.should_avoid(voter.node(), self.shard);
            let stays = self.is_to_stay(voter.bits());
            *voter != self.replica && willing && stays && self.is_fit(*voter, config) && self.knows_members(*voter)
        };
        if let Some(to) = self.meta().members.voters.iter().copied().find(can) {
            self.hand_over(now, config, to, out);
            self.cooldown_ticks = AVOIDANCE_COOLDOWN_TICKS;
        }
    }

    /// Whether a replica is a voter of the target configuration. `true` if there is no target.
    pub(super) fn is_to_stay(&self, replica: u64) -> bool {
        self.target.as_ref().is_none_or(|target| target.voters.iter().any(|voter| voter.bits() == replica))
    }

    /// Whether a majority of the members knows durably that the removed replicas are not members any more.
    fn is_removal_known(&self, voters: &[ReplicaId]) -> bool {
        let knows = |voter: &&ReplicaId| match **voter == self.replica {
            true => self.changes.is_empty(),
            false => self.knows_members(**voter),
        };
        voters.iter().filter(knows).count() * 2 > voters.len()
    }

    /// Whether a follower knows that the last membership change is committed. The entries that it reports are on its disk.
    fn knows_members(&self, replica: ReplicaId) -> bool {
        let progress = self.raft.raft.prs().get(replica.bits());
        progress.is_some_and(|progress| progress.committed_index >= self.changed)
    }

    /// Whether a replica is active and has all but the newest entries.
    fn is_fit(&self, replica: ReplicaId, config: &Config) -> bool {
        let raft = &self.raft.raft;
        let last = raft.raft_log.last_index();
        // While nothing is appended, raft keeps probing a replica that has everything. A replica that has not reported
        // its log yet may have none.
        let caught_up = raft.prs().get(replica.bits()).is_some_and(|progress| {
            let probed = progress.state != ProgressState::Snapshot && progress.matched > 0;
            probed && progress.matched + CAUGHT_UP_ENTRIES > last
        });
        caught_up && self.follower_activity.within(replica, config.election_ticks)
    }

    fn propose_members(&mut self, changes: &[ConfigChange], version: u64) {
        let mut change = ConfChangeV2::default();
        change.set_context(version.to_le_bytes().to_vec().into());
        change.set_changes(changes.iter().map(single).collect());
        // If raft refuses because too much is pending, the next tick tries again.
        let _ = self.raft.propose_conf_change(Vec::new(), change);
    }

    /// Transfers the leadership to the replica of a node that is a voter.
    pub(crate) fn transfer_to_node(&mut self, now: Now, config: &Config, to: NodeId, out: &mut Vec<Output<T>>) {
        let voters = self.meta().members.voters.iter();
        if let Some(replica) = voters.copied().filter(|voter| voter.node() == to).max() {
            self.hand_over(now, config, replica, out);
        }
    }

    fn hand_over(&mut self, now: Now, config: &Config, to: ReplicaId, out: &mut Vec<Output<T>>) {
        if !self.leads() || to == self.replica {
            return;
        }
        // Proposals that were accepted before can still be appended.
        self.append_turns(now, config, out);
        self.begin_reads();
        self.raft.transfer_leader(to.bits());
        if self.raft.raft.lead_transferee.is_some() {
            self.cooldown_ticks = COOLDOWN_TICKS;
            self.poison_term();
        }
        self.watch(out);
    }
}

fn single(change: &ConfigChange) -> ConfChangeSingle {
    let (kind, replica) = match change {
        ConfigChange::Voter(replica) => (ConfChangeType::AddNode, replica),
        ConfigChange::Learner(replica) => (ConfChangeType::AddLearnerNode, replica),
        ConfigChange::Remove(replica) => (ConfChangeType::RemoveNode, replica),
    };
    let mut single = ConfChangeSingle { node_id: replica.bits(), ..ConfChangeSingle::default() };
    single.set_change_type(kind);
    single
}

//! How a leader brings the members to what the directory aims at.

use raft::ProgressState;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2};

use super::Group;
use crate::aim::{Aim, Change, Step};
use crate::config::Config;
use crate::name::{NodeId, ReplicaId};
use crate::output::Output;
use crate::time::Now;

/// A replica that lacks fewer entries than this has caught up: it makes up for them while a change is agreed on.
const CAUGHT_UP_ENTRIES: u64 = 128;

/// After a leadership was handed over, or an attempt failed, nothing is handed over for this long; the same after
/// an election until the preferred leader gets its turn. Each time it costs the shard a moment.
const REST_TICKS: u32 = 30;

/// The same where this node should not lead at all.
const RELUCTANT_REST_TICKS: u32 = 10;

impl<T> Group<T> {
    /// The aim that is to be followed from now on; the caller knows that it is not older than the last one.
    pub(crate) fn aim(&mut self, aim: &Aim) {
        if self.aim.as_ref() != Some(aim) {
            self.aim = Some(aim.clone());
            self.reached = None;
            self.restless = true;
        }
    }

    /// Whether this node leads and has something left to do for the aim.
    pub(super) fn has_aim_open(&self, config: &Config) -> bool {
        let (Some(aim), Some(epoch)) = (&self.aim, self.epoch()) else { return false };
        // An older one would undo what a newer one did, and let in again who was removed.
        if aim.version < self.meta().placed {
            return false;
        }
        self.reached != Some(epoch) || self.preferred(aim, config).is_some()
    }

    /// The leader that the aim prefers, if it is another one and it is time to ask it.
    fn preferred(&self, aim: &Aim, config: &Config) -> Option<ReplicaId> {
        let rested = self.rest == 0 && self.heard.ticks() >= REST_TICKS;
        let willing = |leader: &ReplicaId| !config.reluctant.contains(&leader.node());
        aim.leader.filter(|leader| rested && *leader != self.replica && aim.voters.contains(leader) && willing(leader))
    }

    /// Does what can be done now for the aim.
    pub(super) fn pursue(&mut self, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        self.restless = false;
        if !self.has_aim_open(config) || self.raft.raft.has_pending_conf() || self.raft.raft.lead_transferee.is_some() {
            return;
        }
        let aim = self.aim.take().expect("it was found open");
        match aim.next(&self.meta().members, self.replica, |replica| self.is_fit(replica, config)) {
            Step::Wait => (),
            Step::Arrived if self.meta().placed < aim.version => self.note(aim.version),
            Step::Arrived => self.arrive(&aim, now, config, out),
            Step::Change(changes) => self.propose_members(&changes, aim.version),
            // Before it has applied them, raft would not let it stand for election.
            Step::HandOver(to) if self.rest == 0 && self.knows_members(to) => self.hand_over(now, config, to, out),
            Step::HandOver(_) => (),
        }
        self.aim = Some(aim);
    }

    /// Nothing has to change for this aim. The log must know of it all the same: otherwise a later leader that has
    /// only heard of the aim before could still follow that one.
    fn note(&mut self, version: u64) {
        let own = match self.meta().members.voters.contains(&self.replica) {
            true => Change::Voter(self.replica),
            false => Change::Learner(self.replica),
        };
        self.propose_members(&[own], version);
    }

    fn arrive(&mut self, aim: &Aim, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        let epoch = self.epoch();
        if !self.is_settled(&aim.voters) {
            return;
        }
        if self.reached != epoch {
            self.reached = epoch;
            out.push(Output::Reached { shard: self.shard, version: aim.version });
        }
        let preferred = self.preferred(aim, config);
        if let Some(leader) = preferred.filter(|leader| self.is_fit(*leader, config) && self.knows_members(*leader)) {
            self.hand_over(now, config, leader, out);
        }
    }

    /// Whether this node leads, should not, and may try again to hand over.
    pub(super) fn is_to_hand_over(&self, config: &Config) -> bool {
        config.is_reluctant() && self.leads() && self.rest == 0
    }

    /// The time-outs are drawn anew; says whether there is something to do.
    pub(crate) fn mood_changed(&mut self, config: &Config) -> bool {
        self.steady(config);
        if config.is_reluctant() {
            self.rest = 0;
        }
        self.is_to_hand_over(config)
    }

    /// Hands the leadership to a voter that is fit and willing, if this node should not lead.
    pub(super) fn step_aside(&mut self, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        if !self.is_to_hand_over(config) || self.raft.raft.lead_transferee.is_some() {
            return;
        }
        let can = |voter: &ReplicaId| {
            let willing = !config.reluctant.contains(&voter.node());
            *voter != self.replica && willing && self.is_fit(*voter, config) && self.knows_members(*voter)
        };
        if let Some(to) = self.meta().members.voters.iter().copied().find(can) {
            self.hand_over(now, config, to, out);
            self.rest = RELUCTANT_REST_TICKS;
        }
    }

    /// Whether a majority knows, also after a crash, that it decides without those who were removed.
    fn is_settled(&self, voters: &[ReplicaId]) -> bool {
        let knows = |voter: &&ReplicaId| match **voter == self.replica {
            true => self.changes.is_empty(),
            false => self.knows_members(**voter),
        };
        voters.iter().filter(knows).count() * 2 > voters.len()
    }

    /// Whether a follower knows that the last change of members is committed. What it says about itself is on its disk.
    fn knows_members(&self, replica: ReplicaId) -> bool {
        let progress = self.raft.raft.prs().get(replica.bits());
        progress.is_some_and(|progress| progress.committed_index >= self.changed)
    }

    /// Whether a replica has all but the newest entries and was heard of lately.
    fn is_fit(&self, replica: ReplicaId, config: &Config) -> bool {
        let raft = &self.raft.raft;
        let last = raft.raft_log.last_index();
        // Where nothing is appended, raft goes on probing a replica that has everything. One that has said nothing yet
        // about its log may have none.
        let caught_up = raft.prs().get(replica.bits()).is_some_and(|progress| {
            let probed = progress.state != ProgressState::Snapshot && progress.matched > 0;
            probed && progress.matched + CAUGHT_UP_ENTRIES > last
        });
        caught_up && self.heard.within(replica, config.election_ticks_min)
    }

    fn propose_members(&mut self, changes: &[Change], version: u64) {
        let mut change = ConfChangeV2::default();
        change.set_context(version.to_le_bytes().to_vec().into());
        change.set_changes(changes.iter().map(single).collect());
        // Where raft refuses, because too much is under way, the next tick tries again.
        let _ = self.raft.propose_conf_change(Vec::new(), change);
    }

    /// Hands the leadership to whichever replica of a node has a vote.
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
        // What was taken before can still be appended.
        self.append_turns(now, config, out);
        self.begin_reads();
        self.raft.transfer_leader(to.bits());
        if self.raft.raft.lead_transferee.is_some() {
            self.rest = REST_TICKS;
            self.spend();
        }
        self.watch(config, out);
    }
}

fn single(change: &Change) -> ConfChangeSingle {
    let (kind, replica) = match change {
        Change::Voter(replica) => (ConfChangeType::AddNode, replica),
        Change::Learner(replica) => (ConfChangeType::AddLearnerNode, replica),
        Change::Remove(replica) => (ConfChangeType::RemoveNode, replica),
    };
    let mut single = ConfChangeSingle { node_id: replica.bits(), ..ConfChangeSingle::default() };
    single.set_change_type(kind);
    single
}

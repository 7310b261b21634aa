//! Elections, and the leaderships that they begin and end.

use super::Group;
use crate::clocks::{Clocks, TrueTime};
use crate::config::Config;
use crate::follower_activity::FollowerActivity;
use crate::leadership::Leadership;
use crate::name::Epoch;
use crate::now::Now;
use crate::output::Output;
use crate::planted;
use crate::time::{RunningTime, ShardTime};

/// How many ticks a new leader waits at most for the clocks of its voters.
pub(super) const CLOCKS_TICKS: u32 = 20;

impl<T> Group<T> {
    /// A single voter campaigns without waiting for an election timeout. Raft refuses while a committed membership
    /// change is not applied.
    pub(super) fn campaign(&mut self) {
        if self.meta().members.decides_alone(self.replica) && self.raft.raft.leader_id == raft::INVALID_ID {
            // If raft refuses, the replica stays a follower and is elected after its election timeout.
            let _ = self.raft.campaign();
        }
    }

    /// Announces what the last call changed about the leadership.
    pub(super) fn watch(&mut self, out: &mut Vec<Output<T>>) {
        let leading = self.leads();
        let term = self.raft.raft.term;
        if !leading && self.raft.raft.election_elapsed == 0 {
            self.election.restart();
            self.set_elapsed();
        }
        let leader = self.raft.raft.leader_id;
        if leader != raft::INVALID_ID && self.election.follow(leader, term) {
            self.set_order();
        }
        let same = |leadership: &mut Leadership<T>| !leading || leadership.epoch.0 != term;
        if let Some(over) = self.leadership.take_if(same) {
            over.end(out);
        }
        if !leading {
            self.clocks_awaited = None;
        }
        let (leader, term) = self.leader();
        if !leading && self.announced_leader != Some((leader, term)) {
            self.announced_leader = Some((leader, term));
            out.push(Output::BecameFollower { shard: self.shard, leader, term });
        }
    }

    /// Finds the place of this replica in the order in which the voters campaign.
    pub(super) fn set_order(&mut self) {
        self.election.set_order(self.shard, self.replica, &self.applied_state.meta().members);
    }

    /// Tells raft how long ago the last message of a leader was. It grants no vote while the leader's lease lasts.
    pub(super) fn set_elapsed(&mut self) {
        if !self.leads() {
            self.raft.raft.election_elapsed = self.election.elapsed_ticks();
        }
    }

    /// The node has run for this long, in milliseconds.
    pub(crate) fn set_awake(&mut self, awake_ms: u64) {
        self.election.awake_ms = awake_ms;
    }

    /// When the replica campaigns if nothing happens before, by the time in which the node ran. `None` if it leads or is no
    /// voter.
    pub(crate) fn campaign_due_ms(&self, config: &Config) -> Option<u64> {
        let raft = &self.raft.raft;
        let may = !self.leads() && raft.promotable();
        may.then(|| self.election.due_ms(config, (self.shard, raft.term, raft.state)))
    }

    /// Campaigns if it is time. Returns whether there is something to do.
    pub(crate) fn campaign_if_due(&mut self, config: &Config, out: &mut Vec<Output<T>>) -> bool {
        if self.campaign_due_ms(config).is_none_or(|due_ms| due_ms > self.election.awake_ms) {
            return false;
        }
        self.raft.raft.election_elapsed = self.raft.raft.randomized_election_timeout();
        let moved = self.raft.tick();
        self.election.restart();
        self.watch(out);
        moved && self.raft.has_ready()
    }

    /// Begins the leadership once the leader has applied an entry of its own term, and so everything before it, and the
    /// clocks of a majority of the voters are known. Returns whether it began.
    pub(crate) fn begin_when_clocks_are_known(&mut self, now: Now, clocks: &Clocks, out: &mut Vec<Output<T>>) -> bool {
        let Some(ticks) = self.clocks_awaited else { return false };
        if self.leadership.is_some() || !self.leads() || self.is_spent() {
            self.clocks_awaited = None;
            return false;
        }
        let (own, members) = (self.replica.node(), &self.meta().members);
        let truth = match clocks.true_time(own, now, members) {
            _ if planted::is("a term that begins with the last stamp and stays there") => {
                let last_ms = self.meta().stamp_ms.saturating_add_signed(self.meta().distance_ms);
                TrueTime::Unconfirmed(if last_ms > 0 { last_ms } else { now.wall_ms })
            }
            None if ticks > 0 => return false,
            // The voters are alive, since they have voted. Selling does not stop because their clocks are unknown.
            None => clocks.best_time(own, now, members),
            Some(truth) => truth,
        };
        self.clocks_awaited = None;
        self.begin_leadership(now, truth, out);
        true
    }

    /// Compares the shard's time with the clocks of its voters, once a tick. Returns whether there is something to do.
    pub(super) fn tick_time(&mut self, now: Now, clocks: &Clocks, out: &mut Vec<Output<T>>) -> bool {
        if let Some(ticks) = &mut self.clocks_awaited {
            *ticks = ticks.saturating_sub(1);
            return self.begin_when_clocks_are_known(now, clocks, out);
        }
        if self.is_spent() || self.raft.raft.lead_transferee.is_some() {
            return false;
        }
        let truth = clocks.best_time(self.replica.node(), now, &self.applied_state.meta().members);
        self.leadership.as_mut().is_some_and(|leadership| leadership.compare_time(truth, now.mono_ms))
    }

    /// The running time of the shard, if this node knows it.
    pub(super) fn running_ms(&self, mono_ms: u64) -> Option<u64> {
        match &self.leadership {
            Some(leadership) => Some(leadership.running_ms(mono_ms)),
            None => self.running.filter(RunningTime::is_known).map(|running| running.at(mono_ms)),
        }
    }

    /// Whether this node knows the running time of the shard.
    pub(crate) fn knows_running(&self) -> bool {
        self.leadership.is_some() || self.running.is_some_and(|running| running.is_known())
    }

    /// True time as the shard has it, if this node leads it.
    pub(crate) fn true_ms(&self, mono_ms: u64) -> Option<u64> {
        self.leadership.as_ref().map(|leadership| leadership.true_ms(mono_ms))
    }

    /// Records the running time that a message of another replica carries.
    pub(super) fn record_running_time(&mut self, running_ms: u64, mono_ms: u64, truth: Option<TrueTime>) {
        let received = RunningTime::received(running_ms, mono_ms, truth, self.meta().distance_ms);
        match &mut self.running {
            Some(running) => running.update(received),
            None => self.running = Some(received),
        }
    }

    fn begin_leadership(&mut self, now: Now, truth: TrueTime, out: &mut Vec<Output<T>>) {
        let epoch = Epoch(self.raft.raft.term);
        let (stamp_ms, distance_ms) = (self.meta().stamp_ms, self.meta().distance_ms);
        let time = ShardTime::begin(now, (stamp_ms, distance_ms), self.running, truth);
        self.running = Some(RunningTime::known(time.base_ms, now.mono_ms));
        let (confirmed, mark) = (truth.is_confirmed(), self.meta().mark.unwrap_or(0));
        let leadership = self.leadership.insert(Leadership::new((self.shard, epoch), time, confirmed, mark));
        if time.distance_ms != distance_ms {
            leadership.require_time();
        }
        self.announced_leader = None;
        self.follower_activity = FollowerActivity::default();
        self.changed = self.meta().position.index;
        self.needs_reconcile = true;
        out.push(Output::BecameLeader { shard: self.shard, epoch, time, confirmed });
    }

    /// A leader that was removed from the group steps down.
    pub(super) fn step_down(&mut self) {
        if self.leads() && self.is_retired() {
            let term = self.raft.raft.term;
            self.raft.raft.become_follower(term, raft::INVALID_ID);
        }
    }

    pub(super) fn end_leadership(&mut self, out: &mut Vec<Output<T>>) {
        if let Some(over) = self.leadership.take() {
            over.end(out);
        }
    }
}

//! Elections, and the epochs they begin and end.

use super::Group;
use crate::clocks::{Clocks, TrueTime};
use crate::config::Config;
use crate::heard::Heard;
use crate::name::Epoch;
use crate::output::Output;
use crate::planted;
use crate::reign::Reign;
use crate::time::{Now, RunningTime, ShardTime};

/// How long a term waits for the clocks of those who voted for it at most, ticks.
pub(super) const CLOCKS_TICKS: u32 = 20;

impl<T> Group<T> {
    /// A voter that is alone need not wait for anybody. Raft refuses as long as members that it knows to be committed
    /// are not applied.
    pub(super) fn stand(&mut self) {
        if self.meta().members.decides_alone(self.replica) && self.raft.raft.leader_id == raft::INVALID_ID {
            // A refusal leaves a follower, whose time-out elects it in the usual way.
            let _ = self.raft.campaign();
        }
    }

    /// Looks at what the last call did to the leadership.
    pub(super) fn watch(&mut self, config: &Config, out: &mut Vec<Output<T>>) {
        self.steady(config);
        let leading = self.leads();
        let term = self.raft.raft.term;
        let same = |reign: &mut Reign<T>| !leading || reign.epoch.0 != term;
        if let Some(over) = self.reign.take_if(same) {
            over.end(out);
        }
        if !leading {
            self.clocks_awaited = None;
        }
        let (leader, term) = self.leader();
        if !leading && self.told != Some((leader, term)) {
            self.told = Some((leader, term));
            out.push(Output::Follow { shard: self.shard, leader, term });
        }
    }

    /// Raft draws election time-outs from the thread's generator; ours are repeatable.
    pub(super) fn steady(&mut self, config: &Config) {
        let ticks = config.election_ticks(self.shard, self.raft.raft.term);
        self.raft.raft.set_randomized_election_timeout(ticks);
    }

    /// Begins the epoch of a leader that has applied an entry of its own term, and so everything before it, once a majority
    /// of the voters has shown its clock; whether it began.
    pub(crate) fn begin_when_clocks_are_known(&mut self, now: Now, clocks: &Clocks, out: &mut Vec<Output<T>>) -> bool {
        let Some(ticks) = self.clocks_awaited else { return false };
        if self.reign.is_some() || !self.leads() || self.is_spent() {
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
            // They have voted, so they are there; selling does not stop because they do not tell the time.
            None => clocks.best_time(own, now, members),
            Some(truth) => truth,
        };
        self.clocks_awaited = None;
        self.begin_reign(now, truth, out);
        true
    }

    /// Once a tick: compares the time of the shard with what its voters' clocks show; whether there is something to do.
    pub(super) fn tick_time(&mut self, now: Now, clocks: &Clocks, out: &mut Vec<Output<T>>) -> bool {
        if let Some(ticks) = &mut self.clocks_awaited {
            *ticks = ticks.saturating_sub(1);
            return self.begin_when_clocks_are_known(now, clocks, out);
        }
        if self.is_spent() || self.raft.raft.lead_transferee.is_some() {
            return false;
        }
        let truth = clocks.best_time(self.replica.node(), now, &self.folded.meta().members);
        self.reign.as_mut().is_some_and(|reign| reign.look_at(truth, now.mono_ms))
    }

    /// The running time of the shard, if this node knows it.
    pub(super) fn running_ms(&self, mono_ms: u64) -> Option<u64> {
        match &self.reign {
            Some(reign) => Some(reign.running_ms(mono_ms)),
            None => self.running.filter(RunningTime::is_known).map(|running| running.at(mono_ms)),
        }
    }

    /// Whether this node knows the running time of the shard.
    pub(crate) fn knows_running(&self) -> bool {
        self.reign.is_some() || self.running.is_some_and(|running| running.is_known())
    }

    /// True time as the shard has it, if this node leads it.
    pub(crate) fn true_ms(&self, mono_ms: u64) -> Option<u64> {
        self.reign.as_ref().map(|reign| reign.true_ms(mono_ms))
    }

    /// A message of another replica says the shard's running time.
    pub(super) fn hear_running(&mut self, running_ms: u64, mono_ms: u64, truth: Option<TrueTime>) {
        let heard = RunningTime::heard(running_ms, mono_ms, truth, self.meta().distance_ms);
        match &mut self.running {
            Some(running) => running.hear(heard),
            None => self.running = Some(heard),
        }
    }

    fn begin_reign(&mut self, now: Now, truth: TrueTime, out: &mut Vec<Output<T>>) {
        let epoch = Epoch(self.raft.raft.term);
        let (stamp_ms, distance_ms) = (self.meta().stamp_ms, self.meta().distance_ms);
        let time = ShardTime::begin(now, (stamp_ms, distance_ms), self.running, truth);
        self.running = Some(RunningTime::known(time.base_ms, now.mono_ms));
        let confirmed = truth.is_confirmed();
        let reign = self.reign.insert(Reign::new(self.shard, epoch, time, confirmed));
        if time.distance_ms != distance_ms {
            reign.owe_time();
        }
        self.told = None;
        self.heard = Heard::default();
        self.changed = self.meta().position.index;
        self.restless = true;
        out.push(Output::Lead { shard: self.shard, epoch, time, confirmed });
    }

    /// A leader that is not a member any more leads no more.
    pub(super) fn retire(&mut self) {
        if self.leads() && self.is_retired() {
            let term = self.raft.raft.term;
            self.raft.raft.become_follower(term, raft::INVALID_ID);
        }
    }

    pub(super) fn end_reign(&mut self, out: &mut Vec<Output<T>>) {
        if let Some(over) = self.reign.take() {
            over.end(out);
        }
    }
}

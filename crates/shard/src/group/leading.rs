//! Elections, and the epochs they begin and end.

use super::Group;
use crate::config::Config;
use crate::heard::Heard;
use crate::name::Epoch;
use crate::output::Output;
use crate::reign::Reign;
use crate::time::{Now, ShardTime};

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

    /// An entry of this node's own term is applied, and so is everything before it.
    pub(super) fn begin_reign(&mut self, now: Now, out: &mut Vec<Output<T>>) {
        let epoch = Epoch(self.raft.raft.term);
        let time = ShardTime::elected(now, self.meta().stamp_ms);
        self.reign = Some(Reign::new(self.shard, epoch, time));
        self.told = None;
        self.heard = Heard::default();
        self.changed = self.meta().position.index;
        self.restless = true;
        out.push(Output::Lead { shard: self.shard, epoch, time });
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

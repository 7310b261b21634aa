//! What is taken for the log and for reads, and the end of an epoch that can take nothing more.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::Group;
use crate::config::Config;
use crate::name::Epoch;
use crate::output::{Output, Why};
use crate::reign::{Proposed, Reign, lost};
use crate::time::Now;

impl<T> Group<T> {
    pub(crate) fn propose(
        &mut self,
        now: Now,
        config: &Config,
        (epoch, proposed): (Epoch, Proposed<T>),
        out: &mut Vec<Output<T>>,
    ) {
        if self.epoch() != Some(epoch) {
            return out.push(lost(self.shard, proposed.ticket, Why::NotLeader));
        }
        if proposed.turns().all(|turn| turn.len() <= config.turn_bytes_max) {
            return self.lead(|reign| reign.take(proposed));
        }
        // What was taken before does not rest on this one.
        self.append_turns(now, config, out);
        self.spend();
        out.push(lost(self.shard, proposed.ticket, Why::Refused));
    }

    pub(crate) fn read(&mut self, epoch: Epoch, ticket: T, out: &mut Vec<Output<T>>) {
        if self.epoch() != Some(epoch) {
            return out.push(lost(self.shard, ticket, Why::NotLeader));
        }
        self.lead(|reign| reign.ask(ticket));
    }

    fn lead(&mut self, act: impl FnOnce(&mut Reign<T>)) {
        act(self.reign.as_mut().expect("an epoch was just found"));
    }

    pub(super) fn append_turns(&mut self, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        let Some(reign) = &mut self.reign else { return };
        loop {
            let count = reign.next_entry(config);
            if count == 0 && !reign.owes_time() {
                return;
            }
            let payload = reign.seal(count, now.mono_ms);
            if self.raft.propose(Vec::new(), payload).is_err() {
                // Nothing may be proposed after a lost proposal in the same epoch.
                reign.refuse_open(Why::Refused, out);
                return self.spend();
            }
            reign.appended(count, self.raft.raft.raft_log.last_index());
            reign.time_appended();
        }
    }

    pub(super) fn begin_reads(&mut self) {
        let Some(reign) = &mut self.reign else { return };
        if reign.has_asked() {
            self.context += 1;
            reign.begin_reading(self.context, self.raft.raft.raft_log.last_index());
            self.raft.read_index(self.context.to_le_bytes().to_vec());
        }
    }

    /// The term takes nothing more from now on.
    pub(super) fn spend(&mut self) {
        self.spent = self.raft.raft.term;
    }

    pub(super) fn is_spent(&self) -> bool {
        let raft = &self.raft.raft;
        raft.state == StateRole::Leader && raft.term == self.spent
    }

    /// When a spent term has nothing under way, and nobody takes it over, it is given up for a new one.
    pub(super) fn settle(&mut self, config: &Config, out: &mut Vec<Output<T>>) {
        let raft = &mut self.raft.raft;
        let idle = self.reign.as_ref().is_none_or(Reign::is_idle);
        let written = raft.raft_log.unstable_entries().is_empty();
        let (term, node) = (raft.term, raft.id);
        if !self.is_spent() || !idle || !written || self.raft.raft.lead_transferee.is_some() {
            return;
        }
        self.raft.raft.become_follower(term, raft::INVALID_ID);
        self.watch(config, out);
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgTimeoutNow);
        (message.from, message.to, message.term) = (node, node, term);
        // A refusal leaves a follower, whose time-out elects a leader in the usual way.
        let _ = self.raft.step(message);
        self.watch(config, out);
    }
}

//! Accepting proposals and reads, and ending a term that can accept no more.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::Group;
use crate::config::Config;
use crate::leadership::{Leadership, Proposed, lost};
use crate::name::Epoch;
use crate::now::Now;
use crate::output::{Output, RejectReason};

impl<T> Group<T> {
    /// Accepts a proposal for the next entry if it was decided in the epoch in which this node leads. Otherwise its completion is
    /// lost, and so it is if a turn is too long for the log.
    pub(crate) fn propose(
        &mut self,
        now: Now,
        config: &Config,
        (epoch, proposed): (Epoch, Proposed<T>),
        out: &mut Vec<Output<T>>,
    ) {
        if self.epoch() != Some(epoch) {
            return out.push(lost(self.shard, proposed.completion, RejectReason::NotLeader));
        }
        if proposed.turns().all(|turn| turn.len() <= config.turn_bytes_max) {
            return self.lead(|leadership| leadership.take(proposed));
        }
        // Proposals that were accepted before do not depend on this one.
        self.append_turns(now, config, out);
        self.poison_term();
        out.push(lost(self.shard, proposed.completion, RejectReason::Refused));
    }

    /// Accepts a read, which is completed when it is safe and everything proposed before it is applied.
    pub(crate) fn read(&mut self, epoch: Epoch, completion: T, out: &mut Vec<Output<T>>) {
        if self.epoch() != Some(epoch) {
            return out.push(lost(self.shard, completion, RejectReason::NotLeader));
        }
        self.lead(|leadership| leadership.request_read(completion));
    }

    fn lead(&mut self, act: impl FnOnce(&mut Leadership<T>)) {
        act(self.leadership.as_mut().expect("an epoch was just found"));
    }

    /// Appends the accepted proposals to raft's log, as one entry if they fit.
    pub(super) fn append_turns(&mut self, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        let Some(leadership) = &mut self.leadership else { return };
        loop {
            let count = leadership.next_entry(config);
            if count == 0 && !leadership.time_is_due() && leadership.due_mark(config).is_none() {
                return;
            }
            let payload = leadership.seal(config, count, now.mono_ms);
            if self.raft.propose(Vec::new(), payload).is_err() {
                // After a dropped proposal the epoch accepts no more, since later ones may depend on it.
                leadership.refuse_open(RejectReason::Refused, out);
                return self.poison_term();
            }
            leadership.appended(count, self.raft.raft.raft_log.last_index());
            leadership.time_appended();
        }
    }

    /// Asks raft for one read index for all reads that were accepted in this pass.
    pub(super) fn begin_reads(&mut self) {
        let Some(leadership) = &mut self.leadership else { return };
        if leadership.has_requested_reads() {
            self.context += 1;
            leadership.begin_reading(self.context, self.raft.raft.raft_log.last_index());
            self.raft.read_index(self.context.to_le_bytes().to_vec());
        }
    }

    /// Makes the term accept no more proposals.
    pub(super) fn poison_term(&mut self) {
        self.poisoned_term = self.raft.raft.term;
    }

    pub(super) fn is_spent(&self) -> bool {
        let raft = &self.raft.raft;
        raft.state == StateRole::Leader && raft.term == self.poisoned_term
    }

    /// Ends a poisoned term that has nothing pending, if no other node takes over, and campaigns for a new one.
    pub(super) fn end_poisoned_term(&mut self, out: &mut Vec<Output<T>>) {
        let raft = &mut self.raft.raft;
        let idle = self.leadership.as_ref().is_none_or(Leadership::is_idle);
        let written = raft.raft_log.unstable_entries().is_empty();
        let (term, node) = (raft.term, raft.id);
        if !self.is_spent() || !idle || !written || self.raft.raft.lead_transferee.is_some() {
            return;
        }
        self.raft.raft.become_follower(term, raft::INVALID_ID);
        self.watch(out);
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgTimeoutNow);
        (message.from, message.to, message.term) = (node, node, term);
        // If raft refuses, the replica stays a follower, and an election follows after the election timeout.
        let _ = self.raft.step(message);
        self.watch(out);
    }
}

//! One shard on this node: its raft group, its applied state, and the leadership if this node leads.

mod appending;
mod applying;
mod leading;
mod moving;
mod writing;

pub(crate) use applying::read_members_change;
use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot};
use raft::{INVALID_INDEX, ProgressState, RawNode, Ready, SnapshotStatus, StateRole};

use crate::applied_state::AppliedState;
use crate::clocks::{Clocks, TrueTime};
use crate::commit_broadcast::CommitBroadcast;
use crate::config::Config;
use crate::consensus::{is_from_leader, raft_config};
use crate::election::Election;
use crate::follower_activity::FollowerActivity;
use crate::leadership::Leadership;
use crate::name::{Epoch, NodeId, Position, ReplicaId, ShardId};
use crate::now::Now;
use crate::output::{FatalError, Output, Received, Write};
use crate::record::Record;
use crate::replay::Revived;
use crate::restore_error::RestoreError;
use crate::snapshot::{self, SnapshotMeta};
use crate::snapshot_progress::SnapshotProgress;
use crate::status::{FollowerStatus, GroupStatus, Role};
use crate::tail::Tail;
use crate::target_config::TargetConfig;
use crate::time::RunningTime;

/// One shard on this node.
pub(crate) struct Group<T> {
    shard: ShardId,
    replica: ReplicaId,
    raft: RawNode<Tail>,
    applied_state: AppliedState,
    // The term and vote that are on disk, or that this pass writes.
    written: (u64, u64),
    // The leader and term that were announced last.
    announced_leader: Option<(Option<NodeId>, u64)>,
    leadership: Option<Leadership<T>>,
    // When the replica campaigns.
    election: Election,
    // Ticks until the leader starts its term without the clocks of its voters.
    clocks_awaited: Option<u32>,
    // The shard's running time, from the last message and the monotonic clock. `None` until a message brings one.
    running: Option<RunningTime>,
    // When the last message from a leader of the current or a later term arrived, in monotonic milliseconds.
    leader_heard_ms: Option<u64>,
    // The last term that this node led and that accepts no more proposals.
    poisoned_term: u64,
    // The last context of a read request.
    context: u64,
    // The last entry in the last durable snapshot.
    saved: u64,
    snapshot_progress: SnapshotProgress,
    follower_activity: FollowerActivity,
    // The target configuration, and the epoch in which the members last matched it.
    target: Option<TargetConfig>,
    reached: Option<Epoch>,
    // The members must be compared with the target configuration before the next tick.
    needs_reconcile: bool,
    // Ticks until the leadership may be transferred again.
    cooldown_ticks: u32,
    // Nothing is on disk yet. A record that names the replica must precede the first records.
    replica_due: bool,
    // The entries on disk are void. A record that says so must precede the next ones.
    reset_due: bool,
    // Membership changes in the log, by index, whose commit is not on disk yet.
    changes: Vec<u64>,
    // The last membership change that was applied, or the start of the epoch.
    changed: u64,
    // The commit index that followers know, and when the leader must broadcast a newer one.
    commit_broadcast: CommitBroadcast,
    // Between the two halves of a pass.
    ready: Option<Ready>,
    received: Option<Received>,
}

impl<T> Group<T> {
    /// Restores a replica from disk when the node has run for `awake_ms`. A single voter campaigns at once.
    pub(crate) fn new(
        (config, awake_ms): (&Config, u64),
        revived: Revived,
        logger: &slog::Logger,
    ) -> Result<Group<T>, RestoreError> {
        let meta = revived.meta;
        let broken = |error: raft::Error| RestoreError::Config(error.to_string());
        let raft_config = raft_config(config, meta.replica, meta.position.index);
        let raft = RawNode::new(&raft_config, revived.tail, logger).map_err(broken)?;
        let mut group = Group {
            shard: meta.shard,
            replica: meta.replica,
            raft,
            saved: meta.position.index,
            written: (revived.term, revived.vote.map_or(0, ReplicaId::bits)),
            announced_leader: None,
            leadership: None,
            election: Election::new(revived.term, awake_ms),
            clocks_awaited: None,
            running: None,
            leader_heard_ms: None,
            poisoned_term: 0,
            context: 0,
            snapshot_progress: SnapshotProgress::default(),
            follower_activity: FollowerActivity::default(),
            target: None,
            reached: None,
            needs_reconcile: false,
            cooldown_ticks: 0,
            replica_due: revived.replica_due,
            reset_due: revived.reset_due,
            changes: revived.changes,
            changed: 0,
            commit_broadcast: CommitBroadcast::default(),
            ready: None,
            received: None,
            applied_state: AppliedState::new(meta),
        };
        if group.is_blank() {
            // The entries alone are not enough, because they do not contain the members at the start of the log.
            group.raft.raft.pending_request_snapshot = 1;
        }
        group.tell_mark(config);
        group.set_order();
        group.campaign();
        Ok(group)
    }

    pub(crate) fn meta(&self) -> &SnapshotMeta {
        self.applied_state.meta()
    }

    pub(crate) fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Whether the replica was removed from the group. It does nothing on its own then. After a crash the remaining
    /// members may not know yet that it was removed, and may need its vote. So it stays until the directory drops it.
    fn is_retired(&self) -> bool {
        !self.is_blank() && !self.meta().members.contains(self.replica)
    }

    /// Whether the replica is empty and waits for its first snapshot.
    fn is_blank(&self) -> bool {
        self.meta().members.voters.is_empty()
    }

    pub(crate) fn leads(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    /// The epoch in which this node accepts proposals. `None` if it does not lead.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        let leadership = self.leadership.as_ref()?;
        (leadership.epoch.0 > self.poisoned_term).then_some(leadership.epoch)
    }

    /// The leader and the term that this node knows of.
    pub(crate) fn leader(&self) -> (Option<NodeId>, u64) {
        let leader = ReplicaId::from_bits(self.raft.raft.leader_id);
        (leader.map(ReplicaId::node), self.raft.raft.term)
    }

    /// When the last message from a leader arrived, in monotonic milliseconds. `None` before the first one.
    pub(crate) fn leader_heard_ms(&self) -> Option<u64> {
        self.leader_heard_ms
    }

    /// The first entry that a restart needs from the log.
    pub(crate) fn first_needed(&self) -> u64 {
        self.saved + 1
    }

    /// The records that a log must start with when its older part is removed.
    pub(crate) fn checkpoint(&self) -> [Record; 3] {
        let (shard, replica) = (self.shard, self.replica);
        let snapshot = Record::Snapshot { shard, index: self.saved };
        [Record::Replica { shard, replica }, self.state(), snapshot]
    }

    fn state(&self) -> Record {
        let raft = &self.raft.raft;
        let vote = ReplicaId::from_bits(raft.vote);
        Record::State { shard: self.shard, term: raft.term, vote, commit: raft.raft_log.committed }
    }

    pub(crate) fn status(&self, config: &Config) -> GroupStatus {
        let raft = &self.raft.raft;
        let (leader, term) = self.leader();
        let members = self.meta().members.clone();
        let votes = members.voters.contains(&self.replica) || members.voters_outgoing.contains(&self.replica);
        GroupStatus {
            replica: self.replica,
            role: match raft.state {
                StateRole::Leader => Role::Leader,
                _ if self.is_retired() => Role::Retired,
                StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
                StateRole::Follower if votes => Role::Follower,
                StateRole::Follower => Role::Learner,
            },
            term,
            leader,
            last_index: raft.raft_log.last_index(),
            committed: raft.raft_log.committed,
            applied: self.meta().position.index,
            members,
            target_version: self.target.as_ref().map_or(0, |target| target.version),
            distance_ms: self.meta().distance_ms,
            confirmed: self.leadership.as_ref().map(|leadership| leadership.confirmed),
            followers: self.followers(config),
        }
    }

    fn followers(&self, config: &Config) -> Vec<FollowerStatus> {
        if !self.leads() {
            return Vec::new();
        }
        let others = self.raft.raft.prs().iter().filter(|(id, _)| **id != self.replica.bits());
        let mut followers: Vec<_> = others
            .filter_map(|(id, progress)| {
                let replica = ReplicaId::from_bits(*id)?;
                let active = self.follower_activity.within(replica, 2 * config.election_ticks);
                Some(FollowerStatus { replica, matched: progress.matched, active })
            })
            .collect();
        followers.sort_unstable_by_key(|follower| follower.replica);
        followers
    }

    /// Handles a message. Returns whether it was for this replica. `truth` is true time, if this replica does not know
    /// the running time.
    pub(crate) fn message(
        &mut self,
        (now, config, truth): (Now, &Config, Option<TrueTime>),
        (running_ms, message): (Option<u64>, Message),
        out: &mut Vec<Output<T>>,
    ) -> bool {
        // A leader knows the time better. A message of an older term may come from a leader that was paused.
        if let Some(running_ms) =
            running_ms.filter(|_| self.leadership.is_none() && message.term >= self.raft.raft.term)
        {
            self.record_running_time(running_ms, now.mono_ms, truth);
        }
        let kind = message.get_msg_type();
        if self.is_blank() && !is_from_leader(kind) {
            return false;
        }
        if is_from_leader(kind) && message.term >= self.raft.raft.term {
            self.leader_heard_ms = Some(now.mono_ms);
        }
        // A leader that must go needs a successor, even one that avoids leadership.
        if kind == MessageType::MsgTimeoutNow && config.avoids_leadership(self.shard) && self.is_to_stay(message.from) {
            return true;
        }
        if self.leads() {
            self.on_message(&message);
        }
        self.set_elapsed();
        let taken = self.raft.step(message).is_ok();
        self.watch(out);
        taken
    }

    fn on_message(&mut self, message: &Message) {
        if let Some(sender) = ReplicaId::from_bits(message.from) {
            self.follower_activity.record(sender);
        }
        // A follower that accepts entries has the snapshot it asked for. Raft would send another one.
        if message.get_msg_type() == MessageType::MsgAppendResponse
            && !message.reject
            && let Some(progress) = self.raft.raft.mut_prs().get_mut(message.from)
        {
            progress.pending_request_snapshot = INVALID_INDEX;
        }
    }

    pub(crate) fn unreachable(&mut self, node: NodeId) {
        let members = &self.applied_state.meta().members;
        let lists = [&members.voters, &members.learners, &members.voters_outgoing];
        let lost: Vec<_> = lists.into_iter().flatten().filter(|replica| replica.node() == node).copied().collect();
        for replica in lost {
            self.raft.report_unreachable(replica.bits());
            self.snapshot_lost(replica);
        }
    }

    fn snapshot_lost(&mut self, replica: ReplicaId) {
        let progress = self.raft.raft.prs().get(replica.bits());
        if progress.is_some_and(|progress| progress.state == ProgressState::Snapshot) {
            self.raft.report_snapshot(replica.bits(), SnapshotStatus::Failure);
        }
    }

    /// Counts a tick. Returns whether there is anything to do.
    pub(crate) fn tick(&mut self, now: Now, config: &Config, clocks: &Clocks, out: &mut Vec<Output<T>>) -> bool {
        // A replica that does not lead campaigns when its own timeout says so.
        let moved = self.leads() && self.raft.tick();
        if moved {
            self.watch(out);
        }
        if !self.snapshot_progress.is_idle() {
            let (free, unheard) = self.snapshot_progress.tick();
            if free {
                self.raft.mut_store().prepare(None);
            }
            unheard.into_iter().for_each(|replica| self.snapshot_lost(replica));
        }
        self.follower_activity.tick();
        self.cooldown_ticks = self.cooldown_ticks.saturating_sub(1);
        let timely = self.tick_time(now, clocks, out);
        timely
            || (moved && self.raft.has_ready())
            || self.is_spent()
            || self.leadership.as_ref().is_some_and(|leadership| leadership.due_mark(config).is_some())
            || self.is_behind_target(config)
            || self.must_transfer(config)
    }

    pub(crate) fn snapshot_saved(&mut self, config: &Config, replica: ReplicaId, index: u64) {
        if replica != self.replica {
            return;
        }
        let applied = self.meta().position.index;
        assert!(index <= applied, "a snapshot up to {index} of what is applied up to {applied}");
        if index <= self.saved {
            return;
        }
        let tail = self.raft.mut_store();
        tail.forget_behind(index, config.tail_entries, config.tail_bytes);
        self.saved = index;
    }

    /// A snapshot to a node is still being sent.
    pub(crate) fn snapshot_moves(&mut self, to: NodeId) {
        let members = &self.applied_state.meta().members;
        let lists = [&members.voters, &members.learners];
        for replica in lists.into_iter().flatten().filter(|replica| replica.node() == to) {
            self.snapshot_progress.moves(*replica);
        }
    }

    pub(crate) fn snapshot_cut(&mut self, meta: &SnapshotMeta, state: &[u8]) {
        if meta.replica != self.replica {
            return;
        }
        self.snapshot_progress.keep();
        let mut cut = Snapshot::default();
        cut.set_data(snapshot::pack(meta, state));
        cut.mut_metadata().index = meta.position.index;
        cut.mut_metadata().term = meta.position.term;
        cut.mut_metadata().set_conf_state(meta.members.conf_state());
        self.raft.mut_store().prepare(Some(cut));
        if self.leads() {
            // Raft probes the follower that waits for it and finds that it needs one.
            self.raft.raft.bcast_append();
        }
    }

    /// Plans a broadcast if more is committed than followers know.
    fn note_commit(&mut self, now: Now, config: &Config) {
        let raft = &self.raft.raft;
        if self.leads() && raft.prs().iter().count() > 1 {
            self.commit_broadcast.committed(raft.raft_log.committed, now.mono_ms + config.commit_broadcast_ms);
        }
    }

    /// When the leader must broadcast the commit index, in monotonic milliseconds.
    pub(crate) fn broadcast_due_ms(&self) -> Option<u64> {
        self.commit_broadcast.due_ms.filter(|_| self.leads())
    }

    /// Broadcasts the commit index if it is due. Returns whether there is something to send.
    pub(crate) fn broadcast_commit(&mut self, now: Now) -> bool {
        let is_due = self.broadcast_due_ms().is_some_and(|due_ms| due_ms <= now.mono_ms);
        if is_due {
            self.raft.raft.bcast_append();
            self.commit_broadcast.sent(self.raft.raft.raft_log.committed);
        }
        is_due
    }

    /// The first half of a pass: appends the accepted proposals, and collects what must be sent and written.
    pub(crate) fn prepare(
        &mut self,
        (now, clocks): (Now, &Clocks),
        config: &Config,
        write: &mut Write,
        (early, out): (&mut Vec<Output<T>>, &mut Vec<Output<T>>),
    ) -> Result<(), FatalError> {
        self.append_turns(now, config, out);
        self.begin_reads();
        self.reconcile(now, config, out);
        self.transfer_leadership(now, config, out);
        self.write_replica(write);
        if !self.raft.has_ready() {
            self.write_state(write);
            return Ok(());
        }
        let mut ready = self.raft.ready();
        let messages = ready.take_messages();
        if messages.iter().any(|message| message.get_msg_type() == MessageType::MsgAppend) {
            self.commit_broadcast.sent(self.raft.raft.raft_log.committed);
        }
        write.messages.extend(messages.iter().map(|message| self.outgoing(message, now)));
        if !ready.snapshot().is_empty() {
            self.receive(ready.snapshot(), write)?;
        }
        if self.may_apply_early(&ready) {
            self.apply_all(ready.take_committed_entries(), early)?;
            self.tell_mark(config);
            self.begin_when_clocks_are_known(now, clocks, out);
        }
        self.write_entries(ready.entries(), write)?;
        self.write_state(write);
        self.ready = Some(ready);
        Ok(())
    }

    /// Committed entries were written in an earlier pass, on this node too. So they need not wait for the write of this
    /// pass. Two things must be on disk first: a membership change, and a snapshot.
    fn may_apply_early(&self, ready: &Ready) -> bool {
        let changes = ready.committed_entries().iter().any(|entry| entry.get_entry_type() != EntryType::EntryNormal);
        ready.snapshot().is_empty() && !changes && (self.leadership.is_some() || !self.leads())
    }

    /// The second half of a pass, after the write is durable.
    pub(crate) fn finish(
        &mut self,
        (now, clocks): (Now, &Clocks),
        config: &Config,
        out: &mut Vec<Output<T>>,
    ) -> Result<(), FatalError> {
        if let Some(mut ready) = self.ready.take() {
            let messages = ready.take_persisted_messages();
            out.extend(messages.iter().map(|message| Output::Message(self.outgoing(message, now))));
            if let Some(received) = self.received.take() {
                self.applied_state = AppliedState::new(received.meta.clone());
                self.set_order();
                self.saved = received.meta.position.index;
                out.push(Output::Restore(received));
            }
            let committed = ready.take_committed_entries();
            let safe = ready.take_read_states();
            let mut light = self.raft.advance_append(ready);
            let messages = light.take_messages();
            out.extend(messages.iter().map(|message| Output::Message(self.outgoing(message, now))));
            self.apply_all(committed, out)?;
            self.apply_all(light.take_committed_entries(), out)?;
            self.tell_mark(config);
            self.begin_when_clocks_are_known(now, clocks, out);
            self.raft.advance_apply();
            self.forget_applied(config);
            self.finish_reads(&safe, out);
            self.note_commit(now, config);
            self.campaign();
            self.step_down();
        }
        self.ask_for_snapshots(config, out);
        self.watch(out);
        self.end_poisoned_term(out);
        Ok(())
    }

    /// The node knows the newest mark of the applied entries before anything comes of them.
    fn tell_mark(&self, config: &Config) {
        self.meta().mark.iter().for_each(|mark| config.mark.raise(*mark));
    }

    /// Whether another pass has something to do.
    pub(crate) fn has_ready(&self) -> bool {
        self.raft.has_ready()
            || self.replica_due
            || self.state_is_due()
            || (!self.is_spent() && self.leadership.as_ref().is_some_and(Leadership::time_is_due))
            || (self.needs_reconcile && self.target.is_some() && self.leads())
    }

    /// The replica is gone. Everything pending is answered.
    pub(crate) fn end(mut self: Box<Self>, out: &mut Vec<Output<T>>) {
        self.end_leadership(out);
    }
}

fn position(entry: &Entry) -> Position {
    Position { index: entry.index, term: entry.term }
}

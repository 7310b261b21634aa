//! One shard on this node: its raft group, what is applied of it, and the epoch if this node leads.

mod appending;
mod applying;
mod leading;
mod moving;
mod writing;

pub(crate) use applying::read_members_change;
use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot};
use raft::{INVALID_INDEX, ProgressState, RawNode, Ready, SnapshotStatus, StateRole};

use crate::aim::Aim;
use crate::clocks::{Clocks, TrueTime};
use crate::config::Config;
use crate::consensus::{is_from_leader, raft_config};
use crate::folded::Folded;
use crate::heard::Heard;
use crate::lagging::Lagging;
use crate::name::{Epoch, NodeId, Position, ReplicaId, ShardId};
use crate::news::News;
use crate::output::{Broken, Output, Received, Write};
use crate::record::Record;
use crate::reign::Reign;
use crate::replay::Revived;
use crate::restore_error::RestoreError;
use crate::snapshot::{self, SnapshotMeta};
use crate::status::{FollowerStatus, GroupStatus, Role};
use crate::tail::Tail;
use crate::time::{Now, RunningTime};

/// One shard on this node.
pub(crate) struct Group<T> {
    shard: ShardId,
    replica: ReplicaId,
    raft: RawNode<Tail>,
    folded: Folded,
    // The term and vote that are on disk, or on their way to it in this pass.
    written: (u64, u64),
    // The leader and term last put out.
    told: Option<(Option<NodeId>, u64)>,
    reign: Option<Reign<T>>,
    // Ticks until a term begins whose voters have not shown their clocks.
    clocks_awaited: Option<u32>,
    // The shard's running time as it was last heard, carried on by the monotonic clock; `None` in a process that has heard
    // of none.
    running: Option<RunningTime>,
    // When a message of the leader of the present term, or a later one, came last; monotonic milliseconds.
    leader_heard_ms: Option<u64>,
    // The last term in which this node leads, or led, without taking anything more.
    spent: u64,
    // The last name given to reads.
    context: u64,
    // The last entry in the last durable snapshot.
    saved: u64,
    lagging: Lagging,
    heard: Heard,
    // What the members are to become, and the epoch in which they last were what the aim asks for.
    aim: Option<Aim>,
    reached: Option<Epoch>,
    // Something happened after which the aim must be looked at, without waiting for the next tick.
    restless: bool,
    // Ticks until the leadership may be handed over again.
    rest: u32,
    // Nothing is on disk yet; the first records must be preceded by one that says which replica they are of.
    replica_due: bool,
    // The entries on disk are void; the next ones must be preceded by a record that says so.
    reset_due: bool,
    // Changes of members in the log, by index, of which it is not on disk yet that they are committed.
    changes: Vec<u64>,
    // The last of them that was applied; or where the epoch began.
    changed: u64,
    // What followers have been told is committed, and when they are told more at the latest.
    news: News,
    // Between the two halves of a pass.
    ready: Option<Ready>,
    received: Option<Received>,
}

impl<T> Group<T> {
    /// Takes up a replica as it is on disk. A voter that is alone stands for election at once.
    pub(crate) fn new(config: &Config, revived: Revived, logger: &slog::Logger) -> Result<Group<T>, RestoreError> {
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
            told: None,
            reign: None,
            clocks_awaited: None,
            running: None,
            leader_heard_ms: None,
            spent: 0,
            context: 0,
            lagging: Lagging::default(),
            heard: Heard::default(),
            aim: None,
            reached: None,
            restless: false,
            rest: 0,
            replica_due: revived.replica_due,
            reset_due: revived.reset_due,
            changes: revived.changes,
            changed: 0,
            news: News::default(),
            ready: None,
            received: None,
            folded: Folded::new(meta),
        };
        if group.is_blank() {
            // The log's entries alone would not do: the members at its beginning are not among them.
            group.raft.raft.pending_request_snapshot = 1;
        }
        group.stand();
        group.steady(config);
        Ok(group)
    }

    pub(crate) fn meta(&self) -> &SnapshotMeta {
        self.folded.meta()
    }

    pub(crate) fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Whether the replica was a member and is none any more. It does nothing by itself then. But those that are left
    /// may still have to learn that, after a crash, and could then need its vote: it stays until it is dropped.
    fn is_retired(&self) -> bool {
        !self.is_blank() && !self.meta().members.contains(self.replica)
    }

    /// Whether the replica has had nothing yet and waits for a first snapshot.
    fn is_blank(&self) -> bool {
        self.meta().members.voters.is_empty()
    }

    pub(crate) fn leads(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    /// The epoch in which proposals are taken, if this node leads.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        let reign = self.reign.as_ref()?;
        (reign.epoch.0 > self.spent).then_some(reign.epoch)
    }

    /// The leader and the term, as far as this node knows.
    pub(crate) fn leader(&self) -> (Option<NodeId>, u64) {
        let leader = ReplicaId::from_bits(self.raft.raft.leader_id);
        (leader.map(ReplicaId::node), self.raft.raft.term)
    }

    /// When the leader was heard last, in monotonic milliseconds; `None` if this process has not heard one.
    pub(crate) fn leader_heard_ms(&self) -> Option<u64> {
        self.leader_heard_ms
    }

    /// The first entry that a restart needs from the log.
    pub(crate) fn first_needed(&self) -> u64 {
        self.saved + 1
    }

    /// What the log must know when everything before is removed from it.
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
            aim_version: self.aim.as_ref().map_or(0, |aim| aim.version),
            distance_ms: self.meta().distance_ms,
            confirmed: self.reign.as_ref().map(|reign| reign.confirmed),
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
                let active = self.heard.within(replica, config.election_ticks_max);
                Some(FollowerStatus { replica, matched: progress.matched, active })
            })
            .collect();
        followers.sort_unstable_by_key(|follower| follower.replica);
        followers
    }

    /// Whether the message was one for this replica. `truth` is true time, if this replica does not know the running time.
    pub(crate) fn message(
        &mut self,
        (now, config, truth): (Now, &Config, Option<TrueTime>),
        (running_ms, message): (Option<u64>, Message),
        out: &mut Vec<Output<T>>,
    ) -> bool {
        // One that leads knows better, and what an older term says may come from a leader that stood still.
        if let Some(running_ms) = running_ms.filter(|_| self.reign.is_none() && message.term >= self.raft.raft.term) {
            self.hear_running(running_ms, now.mono_ms, truth);
        }
        let kind = message.get_msg_type();
        if self.is_blank() && !is_from_leader(kind) {
            return false;
        }
        if is_from_leader(kind) && message.term >= self.raft.raft.term {
            self.leader_heard_ms = Some(now.mono_ms);
        }
        // A leader that is to go must be followed by somebody, willing or not.
        if kind == MessageType::MsgTimeoutNow && config.is_reluctant() && self.is_to_stay(message.from) {
            return true;
        }
        if self.leads() {
            self.hear(&message);
        }
        let taken = self.raft.step(message).is_ok();
        self.watch(config, out);
        taken
    }

    fn hear(&mut self, message: &Message) {
        if let Some(sender) = ReplicaId::from_bits(message.from) {
            self.heard.hear(sender);
        }
        // Who takes entries has had the snapshot it asked for; raft would send it another one.
        if message.get_msg_type() == MessageType::MsgAppendResponse
            && !message.reject
            && let Some(progress) = self.raft.raft.mut_prs().get_mut(message.from)
        {
            progress.pending_request_snapshot = INVALID_INDEX;
        }
    }

    pub(crate) fn unreachable(&mut self, node: NodeId) {
        let members = &self.folded.meta().members;
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

    /// Whether there is anything to do after the tick.
    pub(crate) fn tick(&mut self, now: Now, config: &Config, clocks: &Clocks, out: &mut Vec<Output<T>>) -> bool {
        let moved = self.raft.tick();
        if moved {
            self.watch(config, out);
        }
        if !self.lagging.is_idle() {
            let (free, unheard) = self.lagging.tick();
            if free {
                self.raft.mut_store().prepare(None);
            }
            unheard.into_iter().for_each(|replica| self.snapshot_lost(replica));
        }
        self.heard.tick();
        self.rest = self.rest.saturating_sub(1);
        let timely = self.tick_time(now, clocks, out);
        timely
            || (moved && self.raft.has_ready())
            || self.is_spent()
            || self.has_aim_open(config)
            || self.is_to_hand_over(config)
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

    /// A snapshot is still on its way to a node.
    pub(crate) fn snapshot_moves(&mut self, to: NodeId) {
        let members = &self.folded.meta().members;
        let lists = [&members.voters, &members.learners];
        for replica in lists.into_iter().flatten().filter(|replica| replica.node() == to) {
            self.lagging.moves(*replica);
        }
    }

    pub(crate) fn snapshot_cut(&mut self, meta: &SnapshotMeta, state: &[u8]) {
        if meta.replica != self.replica {
            return;
        }
        self.lagging.keep();
        let mut cut = Snapshot::default();
        cut.set_data(snapshot::pack(meta, state));
        cut.mut_metadata().index = meta.position.index;
        cut.mut_metadata().term = meta.position.term;
        cut.mut_metadata().set_conf_state(meta.members.conf_state());
        self.raft.mut_store().prepare(Some(cut));
        if self.leads() {
            // Whoever waits for it is probed, and found to need it.
            self.raft.raft.bcast_append();
        }
    }

    /// Something may be committed that followers have not heard of.
    fn has_news(&mut self, now: Now, config: &Config) {
        let raft = &self.raft.raft;
        if self.leads() && raft.prs().iter().count() > 1 {
            self.news.committed(raft.raft_log.committed, now.mono_ms + config.commit_news_ms);
        }
    }

    /// When followers must be told what is committed, monotonic milliseconds.
    pub(crate) fn news_due_ms(&self) -> Option<u64> {
        self.news.due_ms.filter(|_| self.leads())
    }

    /// Tells followers what is committed if it is time; whether there is something to send.
    pub(crate) fn tell_news(&mut self, now: Now) -> bool {
        let is_due = self.news_due_ms().is_some_and(|due_ms| due_ms <= now.mono_ms);
        if is_due {
            self.raft.raft.bcast_append();
            self.news.told(self.raft.raft.raft_log.committed);
        }
        is_due
    }

    /// The first half of a pass: appends what was taken, and says what must be sent and written.
    pub(crate) fn prepare(
        &mut self,
        (now, clocks): (Now, &Clocks),
        config: &Config,
        write: &mut Write,
        (early, out): (&mut Vec<Output<T>>, &mut Vec<Output<T>>),
    ) -> Result<(), Broken> {
        self.append_turns(now, config, out);
        self.begin_reads();
        self.pursue(now, config, out);
        self.step_aside(now, config, out);
        self.write_replica(write);
        if !self.raft.has_ready() {
            self.write_state(write);
            return Ok(());
        }
        let mut ready = self.raft.ready();
        let messages = ready.take_messages();
        if messages.iter().any(|message| message.get_msg_type() == MessageType::MsgAppend) {
            self.news.told(self.raft.raft.raft_log.committed);
        }
        write.messages.extend(messages.iter().map(|message| self.outgoing(message, now)));
        if !ready.snapshot().is_empty() {
            self.receive(ready.snapshot(), write)?;
        }
        if self.may_apply_early(&ready) {
            self.apply_all(ready.take_committed_entries(), early)?;
            self.begin_when_clocks_are_known(now, clocks, out);
        }
        self.write_entries(ready.entries(), write);
        self.write_state(write);
        self.ready = Some(ready);
        Ok(())
    }

    /// What is committed was written in an earlier pass, here too: it need not wait for what is written in this one. But
    /// that the members changed must be on disk first, and so must a snapshot.
    fn may_apply_early(&self, ready: &Ready) -> bool {
        let changes = ready.committed_entries().iter().any(|entry| entry.get_entry_type() != EntryType::EntryNormal);
        ready.snapshot().is_empty() && !changes && (self.reign.is_some() || !self.leads())
    }

    /// The second half, after the write is durable.
    pub(crate) fn finish(
        &mut self,
        (now, clocks): (Now, &Clocks),
        config: &Config,
        out: &mut Vec<Output<T>>,
    ) -> Result<(), Broken> {
        if let Some(mut ready) = self.ready.take() {
            let messages = ready.take_persisted_messages();
            out.extend(messages.iter().map(|message| Output::Message(self.outgoing(message, now))));
            if let Some(received) = self.received.take() {
                self.folded = Folded::new(received.meta.clone());
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
            self.begin_when_clocks_are_known(now, clocks, out);
            self.raft.advance_apply();
            self.forget_applied(config);
            self.finish_reads(&safe, out);
            self.has_news(now, config);
            self.stand();
            self.retire();
        }
        self.ask_for_snapshots(config, out);
        self.watch(config, out);
        self.settle(config, out);
        Ok(())
    }

    /// Whether another pass has something to do.
    pub(crate) fn has_ready(&self) -> bool {
        self.raft.has_ready()
            || self.replica_due
            || self.owes_state()
            || (!self.is_spent() && self.reign.as_ref().is_some_and(Reign::owes_time))
            || (self.restless && self.aim.is_some() && self.leads())
    }

    /// The replica is gone: whatever is still under way is answered.
    pub(crate) fn end(mut self: Box<Self>, out: &mut Vec<Output<T>>) {
        self.end_reign(out);
    }
}

fn position(entry: &Entry) -> Position {
    Position { index: entry.index, term: entry.term }
}

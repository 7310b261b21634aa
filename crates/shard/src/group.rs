//! One shard on this node: its raft group, what is applied of it, and the epoch if this node leads.

use bytes::Bytes;
use protobuf::Message as _;
use raft::eraftpb::{ConfChangeV2, Entry, EntryType, Message, MessageType, Snapshot};
use raft::{ProgressState, RawNode, ReadState, Ready, SnapshotStatus, StateRole};

use crate::batch;
use crate::config::Config;
use crate::consensus::{raft_config, travels};
use crate::folded::Folded;
use crate::lagging::Lagging;
use crate::name::{Epoch, NodeId, Position, ShardId};
use crate::output::{Broken, Outgoing, Output, Received, Why, Write};
use crate::record::{self, EntryKind, Record};
use crate::reign::{Reign, lost};
use crate::replay::{RestoreError, Revived};
use crate::snapshot::{self, Members, SnapshotMeta};
use crate::tail::Tail;
use crate::time::{Now, ShardTime};

/// One shard on this node.
pub(crate) struct Group<T> {
    shard: ShardId,
    raft: RawNode<Tail>,
    folded: Folded,
    // The term and vote that are on disk, or on their way to it in this pass.
    written: (u64, NodeId),
    // The leader and term last put out.
    told: Option<(Option<NodeId>, u64)>,
    reign: Option<Reign<T>>,
    // The last term in which this node leads, or led, without taking anything more.
    spent: u64,
    // The last name given to reads.
    context: u64,
    // The last entry in the last durable snapshot.
    saved: u64,
    lagging: Lagging,
    // The entries on disk are void; the next ones must be preceded by a record that says so.
    reset_due: bool,
    // Between the two halves of a pass.
    ready: Option<Ready>,
    received: Option<Received>,
}

impl<T> Group<T> {
    /// Takes up a shard as it is on disk. A voter that is alone stands for election at once.
    pub(crate) fn new(config: &Config, revived: Revived, logger: &slog::Logger) -> Result<Group<T>, RestoreError> {
        let meta = revived.meta;
        let broken = |error: raft::Error| RestoreError::Config(error.to_string());
        let raft_config = raft_config(config, meta.position.index);
        let raft = RawNode::new(&raft_config, revived.tail, logger).map_err(broken)?;
        let mut group = Group {
            shard: meta.shard,
            raft,
            saved: meta.position.index,
            written: (revived.term, revived.vote),
            told: None,
            reign: None,
            spent: 0,
            context: 0,
            lagging: Lagging::default(),
            reset_due: revived.reset_due,
            ready: None,
            received: None,
            folded: Folded::new(meta),
        };
        if group.meta().members.voters == [config.node] {
            group.raft.campaign().map_err(broken)?;
        }
        group.steady(config);
        Ok(group)
    }

    pub(crate) fn meta(&self) -> &SnapshotMeta {
        self.folded.meta()
    }

    /// The epoch in which proposals are taken, if this node leads.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        let reign = self.reign.as_ref()?;
        (reign.epoch.0 > self.spent).then_some(reign.epoch)
    }

    /// The leader and the term, as far as this node knows.
    pub(crate) fn leader(&self) -> (Option<NodeId>, u64) {
        let leader = self.raft.raft.leader_id;
        ((leader != 0).then_some(leader), self.raft.raft.term)
    }

    /// The first entry that a restart needs from the log.
    pub(crate) fn first_needed(&self) -> u64 {
        self.saved + 1
    }

    /// What the log must know when everything before is removed from it.
    pub(crate) fn checkpoint(&self) -> [Record; 2] {
        let shard = self.shard;
        let raft = &self.raft.raft;
        let state = Record::State { shard, term: raft.term, vote: raft.vote, commit: raft.raft_log.committed };
        let snapshot = Record::Snapshot { shard, index: self.saved };
        [state, snapshot]
    }

    // Inputs.

    pub(crate) fn propose(
        &mut self,
        now: Now,
        config: &Config,
        (epoch, events, ticket): (Epoch, Vec<u8>, T),
        out: &mut Vec<Output<T>>,
    ) {
        if self.epoch() != Some(epoch) {
            return out.push(lost(self.shard, ticket, Why::NotLeader));
        }
        if events.len() <= config.turn_bytes_max {
            return self.lead(|reign| reign.take(events, ticket));
        }
        // What was taken before does not rest on this one.
        self.append_turns(now, config, out);
        self.spend();
        out.push(lost(self.shard, ticket, Why::Refused));
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

    /// Whether the message was one for this node.
    pub(crate) fn message(&mut self, config: &Config, from: NodeId, bytes: &Bytes, out: &mut Vec<Output<T>>) -> bool {
        let Ok(message) = Message::parse_from_bytes(bytes) else {
            return false;
        };
        let expected = message.from == from && message.to == config.node && travels(message.get_msg_type());
        let taken = expected && self.raft.step(message).is_ok();
        self.watch(config, out);
        taken
    }

    pub(crate) fn unreachable(&mut self, node: NodeId) {
        self.raft.report_unreachable(node);
        self.snapshot_lost(node);
    }

    fn snapshot_lost(&mut self, node: NodeId) {
        let progress = self.raft.raft.prs().get(node);
        if progress.is_some_and(|progress| progress.state == ProgressState::Snapshot) {
            self.raft.report_snapshot(node, SnapshotStatus::Failure);
        }
    }

    /// Whether there is anything to do after the tick.
    pub(crate) fn tick(&mut self, config: &Config, out: &mut Vec<Output<T>>) -> bool {
        let moved = self.raft.tick();
        if moved {
            self.watch(config, out);
        }
        if !self.lagging.is_idle() {
            let (free, unheard) = self.lagging.tick();
            if free {
                self.raft.mut_store().prepare(None);
            }
            unheard.into_iter().for_each(|node| self.snapshot_lost(node));
        }
        (moved && self.raft.has_ready()) || self.is_spent()
    }

    pub(crate) fn snapshot_saved(&mut self, config: &Config, index: u64) {
        let applied = self.meta().position.index;
        assert!(index <= applied, "a snapshot up to {index} of what is applied up to {applied}");
        if index <= self.saved {
            return;
        }
        let tail = self.raft.mut_store();
        tail.forget_behind(index, config.tail_entries, config.tail_bytes);
        self.saved = index;
    }

    pub(crate) fn snapshot_cut(&mut self, meta: &SnapshotMeta, state: &[u8]) {
        self.lagging.keep();
        let mut cut = Snapshot::default();
        cut.set_data(snapshot::pack(meta, state));
        cut.mut_metadata().index = meta.position.index;
        cut.mut_metadata().term = meta.position.term;
        cut.mut_metadata().set_conf_state(meta.members.conf_state());
        self.raft.mut_store().prepare(Some(cut));
        if self.raft.raft.state == StateRole::Leader {
            // Whoever waits for it is probed, and found to need it.
            self.raft.raft.bcast_append();
        }
    }

    pub(crate) fn transfer_leader(&mut self, now: Now, config: &Config, to: NodeId, out: &mut Vec<Output<T>>) {
        if self.raft.raft.state != StateRole::Leader {
            return;
        }
        // What was taken before can still be appended.
        self.append_turns(now, config, out);
        self.begin_reads();
        self.raft.transfer_leader(to);
        if self.raft.raft.lead_transferee.is_some() {
            self.spend();
        }
        self.watch(config, out);
    }

    // The two halves of a pass.

    /// The first half: appends what was taken, and says what must be sent and written.
    pub(crate) fn prepare(
        &mut self,
        now: Now,
        config: &Config,
        write: &mut Write,
        out: &mut Vec<Output<T>>,
    ) -> Result<(), Broken> {
        self.append_turns(now, config, out);
        self.begin_reads();
        if !self.raft.has_ready() {
            return Ok(());
        }
        let mut ready = self.raft.ready();
        let messages = ready.take_messages();
        write.messages.extend(messages.iter().map(|message| self.outgoing(message)));
        if !ready.snapshot().is_empty() {
            self.receive(ready.snapshot(), write)?;
        }
        self.write_entries(ready.entries(), write);
        self.write_state(write);
        self.ready = Some(ready);
        Ok(())
    }

    /// The second half, after the write is durable.
    pub(crate) fn finish(&mut self, now: Now, config: &Config, out: &mut Vec<Output<T>>) -> Result<(), Broken> {
        if let Some(mut ready) = self.ready.take() {
            let messages = ready.take_persisted_messages();
            out.extend(messages.iter().map(|message| Output::Message(self.outgoing(message))));
            if let Some(received) = self.received.take() {
                self.folded = Folded::new(received.meta.clone());
                self.saved = received.meta.position.index;
                out.push(Output::Restore(received));
            }
            let committed = ready.take_committed_entries();
            let safe = ready.take_read_states();
            let mut light = self.raft.advance_append(ready);
            let messages = light.take_messages();
            out.extend(messages.iter().map(|message| Output::Message(self.outgoing(message))));
            self.apply_all(committed, now, out)?;
            self.apply_all(light.take_committed_entries(), now, out)?;
            self.raft.advance_apply();
            self.forget_applied();
            self.finish_reads(&safe, out);
        }
        self.ask_for_snapshots(config, out);
        self.watch(config, out);
        self.settle(config, out);
        Ok(())
    }

    /// Whether another pass has something to do.
    pub(crate) fn has_ready(&self) -> bool {
        self.raft.has_ready()
    }

    // Proposing.

    fn append_turns(&mut self, now: Now, config: &Config, out: &mut Vec<Output<T>>) {
        let Some(reign) = &mut self.reign else { return };
        loop {
            let count = reign.next_entry(config);
            if count == 0 {
                return;
            }
            let payload = reign.seal(count, now.mono_ms);
            if self.raft.propose(Vec::new(), payload).is_err() {
                // Nothing may be proposed after a lost proposal in the same epoch.
                reign.refuse_open(Why::Refused, out);
                return self.spend();
            }
            reign.appended(count, self.raft.raft.raft_log.last_index());
        }
    }

    fn begin_reads(&mut self) {
        let Some(reign) = &mut self.reign else { return };
        if reign.has_asked() {
            self.context += 1;
            reign.begin_reading(self.context, self.raft.raft.raft_log.last_index());
            self.raft.read_index(self.context.to_le_bytes().to_vec());
        }
    }

    /// The term takes nothing more from now on.
    fn spend(&mut self) {
        self.spent = self.raft.raft.term;
    }

    fn is_spent(&self) -> bool {
        let raft = &self.raft.raft;
        raft.state == StateRole::Leader && raft.term == self.spent
    }

    /// When a spent term has nothing under way, and nobody takes it over, it is given up for a new one.
    fn settle(&mut self, config: &Config, out: &mut Vec<Output<T>>) {
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

    // Leadership.

    /// Looks at what the last call did to the leadership.
    fn watch(&mut self, config: &Config, out: &mut Vec<Output<T>>) {
        self.steady(config);
        let leading = self.raft.raft.state == StateRole::Leader;
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
    fn steady(&mut self, config: &Config) {
        let ticks = config.election_ticks(self.shard, self.raft.raft.term);
        self.raft.raft.set_randomized_election_timeout(ticks);
    }

    /// An entry of this node's own term is applied, and so is everything before it.
    fn begin_reign(&mut self, now: Now, out: &mut Vec<Output<T>>) {
        let epoch = Epoch(self.raft.raft.term);
        let time = ShardTime::elected(now, self.meta().stamp_ms);
        self.reign = Some(Reign::new(self.shard, epoch, time));
        self.told = None;
        out.push(Output::Lead { shard: self.shard, epoch, time });
    }

    // Writing.

    fn receive(&mut self, found: &Snapshot, write: &mut Write) -> Result<(), Broken> {
        let (meta, state) = snapshot::unpack(found.data.clone())?;
        let position = Position { index: found.get_metadata().index, term: found.get_metadata().term };
        if meta.position != position || meta.shard != self.shard {
            return Err(Broken::Snapshot { said: meta.position.index, found: position.index });
        }
        self.raft.mut_store().reset(position);
        self.write_reset(position.index, write);
        let received = Received { meta, state };
        write.snapshots.push(received.clone());
        self.received = Some(received);
        Ok(())
    }

    fn write_reset(&mut self, index: u64, write: &mut Write) {
        self.reset_due = false;
        let shard = self.shard;
        Record::Reset { shard, index }.encode(&mut write.records);
    }

    fn write_entries(&mut self, entries: &[Entry], write: &mut Write) {
        let Some(last) = entries.last() else { return };
        if self.reset_due {
            self.write_reset(self.saved, write);
        }
        for entry in entries {
            let kind = match entry.get_entry_type() {
                EntryType::EntryNormal => EntryKind::Turns,
                EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => EntryKind::Members,
            };
            record::put_entry(&mut write.records, self.shard, position(entry), kind, &entry.data);
        }
        write.marks.push((self.shard, last.index));
        self.raft.mut_store().append(entries);
    }

    /// Only the term and the vote must not be forgotten. The commit index is learnt again: from the leader,
    /// from the snapshot, or by being elected.
    fn write_state(&mut self, write: &mut Write) {
        let raft = &self.raft.raft;
        if self.written == (raft.term, raft.vote) {
            return;
        }
        self.written = (raft.term, raft.vote);
        let record =
            Record::State { shard: self.shard, term: raft.term, vote: raft.vote, commit: raft.raft_log.committed };
        record.encode(&mut write.records);
    }

    fn outgoing(&mut self, message: &Message) -> Outgoing {
        let snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
        if snapshot {
            self.lagging.send(message.to);
        }
        let bytes = message.write_to_bytes().expect("a message fits into memory");
        Outgoing { to: message.to, shard: self.shard, snapshot, bytes: bytes.into() }
    }

    // Applying.

    fn apply_all(&mut self, entries: Vec<Entry>, now: Now, out: &mut Vec<Output<T>>) -> Result<(), Broken> {
        for entry in entries {
            self.apply(entry, now, out)?;
        }
        Ok(())
    }

    fn apply(&mut self, entry: Entry, now: Now, out: &mut Vec<Output<T>>) -> Result<(), Broken> {
        let position = position(&entry);
        self.folded.take(position, entry.data.len())?;
        match entry.get_entry_type() {
            EntryType::EntryNormal if entry.data.is_empty() => (),
            EntryType::EntryNormal => self.apply_turns(position, entry.data, out)?,
            EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                self.change_members(&entry.data)?;
            }
        }
        let raft = &self.raft.raft;
        let leading = raft.state == StateRole::Leader && raft.term == position.term;
        let begins = leading && !self.is_spent();
        match &mut self.reign {
            Some(reign) => reign.applied(position.index, out),
            None if begins => self.begin_reign(now, out),
            None => (),
        }
        Ok(())
    }

    fn apply_turns(&mut self, position: Position, payload: Bytes, out: &mut Vec<Output<T>>) -> Result<(), Broken> {
        let (header, turns) = batch::open(payload)?;
        self.folded.follow(position, header)?;
        out.push(Output::Apply { shard: self.shard, position, stamp_ms: header.stamp_ms, turns });
        Ok(())
    }

    fn change_members(&mut self, payload: &[u8]) -> Result<(), Broken> {
        let change = ConfChangeV2::parse_from_bytes(payload).map_err(|error| Broken::Members(error.to_string()))?;
        let state = self.raft.apply_conf_change(&change).map_err(|error| Broken::Members(error.to_string()))?;
        self.folded.change_members(Members::of(&state));
        Ok(())
    }

    fn finish_reads(&mut self, safe: &[ReadState], out: &mut Vec<Output<T>>) {
        let Some(reign) = &mut self.reign else { return };
        for read in safe {
            // Only this engine names reads, with eight bytes.
            if let Ok(context) = read.request_ctx.as_slice().try_into() {
                reign.safe(u64::from_le_bytes(context), read.index);
            }
        }
        reign.finish_readings(self.folded.meta().position.index, out);
    }

    // Snapshots.

    /// A node that is alone needs nothing in memory for followers; a first one begins with a snapshot. A
    /// restart reads the log, not this.
    fn forget_applied(&mut self) {
        let members = &self.meta().members;
        if members.voters == [self.raft.raft.id] && members.learners.is_empty() {
            let applied = self.meta().position.index;
            self.raft.mut_store().forget(applied);
        }
    }

    fn ask_for_snapshots(&mut self, config: &Config, out: &mut Vec<Output<T>>) {
        if self.folded.is_snapshot_due(config) {
            out.push(Output::SnapshotDue { meta: self.meta().clone() });
        }
        for to in self.raft.store().take_wanted() {
            if self.lagging.ask() {
                out.push(Output::CutSnapshot { to, meta: self.meta().clone() });
            }
        }
    }
}

fn position(entry: &Entry) -> Position {
    Position { index: entry.index, term: entry.term }
}

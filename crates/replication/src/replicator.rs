//! A replicator is one loop, a thread or a task, for all shards of the node or a part of them. Each turn takes every input, steps
//! the engine, appends one record to the log, syncs it once, applies committed entries and reports the results.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use boxoffice_core::{planted, time::Timestamp};
use boxoffice_env::{Clock, Lane, no_wait};
use boxoffice_shard::{Engine, Input as EngineInput, NodeId, Now, Outgoing, Output, ShardId, TICK_MS, grows_log};
use boxoffice_storage::{chain_file::ChainPlace, history::Replay, log::LogWriter};
use bytes::Bytes;
use waiting::Waiting;

use crate::{
    checksums::{Checksum, ShardChecksums},
    error::ReplicationError,
    history_writer::HistoryWriter,
    inbox::wait_for_disk,
    owner::{Event, Owner},
    peer_frame::{self, Outbox},
    replication::Replication,
    replicators::{Division, Input},
    shard_state::{Leadership, ShardState},
    snapshot_writer::{SnapshotWriter, SnapshotsKept},
    transfer::Transfers,
};

mod applying;
mod comparing;
mod housekeeping;
mod log_writing;
mod replicas;
mod waiting;

/// On a node that is alone with at least this many commands under way, a turn with few inputs waits for more. With fewer
/// commands, buyers would rather have their answers. On a node with followers, their frames come by the same thread, and it does
/// not wait.
const COMPANY_MIN: usize = 32;
/// Few inputs are less than this share of the commands under way.
const COMPANY_SHARE: usize = 4;
/// How long it waits, about as long as a sync takes. Half of it and twice as much gave fewer purchases a second.
const COMPANY_WAIT: Duration = Duration::from_micros(200);
/// Deadlines handed to actors in one pass. The rest follow in the next one, so that an expiry storm does not stop selling.
const DUE_MAX: usize = 256;

/// Why a replicator does not wait for the store.
const LOOP: &str = "a replicator carries votes and heartbeats";

/// One turn of the loop, which has one or more passes of the engine.
struct Pass {
    now: Now,
    /// The node stops after it.
    is_last: bool,
}

/// The loop and what it owns.
pub(crate) struct Replicator<O: Owner> {
    owner: O,
    replication: Arc<Replication<O::Completion>>,
    transfers: Arc<Transfers>,
    /// The number of this replicator. The first one also does the node's common tasks.
    number: usize,
    division: Division,
    engine: Engine<O::Completion>,
    log: LogWriter,
    snapshots: Arc<SnapshotWriter>,
    history: Arc<HistoryWriter>,
    inputs: Vec<EngineInput<O::Completion>>,
    outputs: Vec<Output<O::Completion>>,
    changes: Vec<O::Change>,
    completed: Vec<(O::Completion, u64)>,
    /// By shard: leadership, and the monotonic millisecond at which the next of its deadlines is due.
    leaderships: Vec<Option<Leadership>>,
    due_ms: Vec<Option<u64>>,
    next_tick_ms: u64,
    synced_ms: u64,
    unsynced: bool,
    /// When the sync of this pass began, in monotonic nanoseconds, if there was one.
    sync_began_ns: Option<u64>,
    /// The log's last record, and when it became the last one.
    log_rests: (u64, u64),
    /// By shard: the last entries of its snapshots on disk.
    snapshots_kept: Vec<SnapshotsKept>,
    /// By shard: which entities had left memory before the node started.
    replays: Vec<Replay>,
    /// A segment was begun while there were too many. Snapshots are cut after this pass.
    cut_for_release: bool,
    /// Messages of other leaders were dropped for lack of room since the last tick.
    left: bool,
    /// The operator was informed of that.
    leaves: bool,
    /// The position of the shard whose members were checked last.
    noted: usize,
    /// Messages of this half of a pass, by node.
    outbox: Outbox,
    /// When this process began. `None` once the node takes part.
    waits_since_ms: Option<u64>,
    neighbours_ms: u64,
    /// By shard: the entry that waits for records of the store, with everything behind it.
    waiting: Vec<Option<Box<Waiting<O::Completion>>>>,
    /// How many of them there are.
    waiting_shards: usize,
    /// The number of the next wait.
    next_wait: u64,
    /// Snapshots from other nodes that are durable here and not restored yet, by shard and last entry, each with the number of
    /// store batches that it depends on.
    restoring: BTreeMap<(ShardId, u64), (Bytes, u64)>,
    /// By shard: checksums of this replica and of others.
    checksums: Vec<ShardChecksums>,
    /// Checksums of this node that the others do not have yet.
    own_checksums: Vec<Checksum>,
    /// Places of the chains to be kept when the log is synced.
    chain_places: Vec<ChainPlace>,
    /// Memory to write entities into for their checksum.
    scratch: Vec<u8>,
}

/// The initial state of a replicator.
pub(crate) struct ReplicatorParts<T> {
    pub(crate) number: usize,
    /// Restored from disk, with this replicator's shards.
    pub(crate) engine: Engine<T>,
    pub(crate) log: LogWriter,
    pub(crate) snapshots: Arc<SnapshotWriter>,
    pub(crate) history: Arc<HistoryWriter>,
    /// By shard: the last entries of its snapshots on disk.
    pub(crate) snapshots_kept: Vec<SnapshotsKept>,
    /// By shard: which entities had left memory before the node started.
    pub(crate) replays: Vec<Replay>,
}

impl<O: Owner> Replicator<O> {
    /// The loop of one replicator.
    pub(crate) fn new(
        owner: O,
        replication: Arc<Replication<O::Completion>>,
        transfers: Arc<Transfers>,
        parts: ReplicatorParts<O::Completion>,
    ) -> Replicator<O> {
        let ReplicatorParts { number, engine, log, snapshots, history, snapshots_kept, replays } = parts;
        let now_ms = replication.world.clock.monotonic_ms();
        let shards = replication.shards.len();
        // A node that has written nothing but its start has forgotten nothing.
        let last_seq = log.last_seq();
        let waits = !replication.config.is_alone && last_seq > 1;
        Replicator {
            number,
            division: replication.replicators.division(),
            owner,
            replication,
            transfers,
            engine,
            log,
            snapshots,
            history,
            inputs: Vec::new(),
            outputs: Vec::new(),
            changes: Vec::new(),
            completed: Vec::new(),
            leaderships: vec![None; shards],
            due_ms: vec![None; shards],
            next_tick_ms: now_ms,
            synced_ms: now_ms,
            unsynced: false,
            sync_began_ns: None,
            log_rests: (last_seq, now_ms),
            snapshots_kept,
            replays,
            cut_for_release: false,
            left: false,
            leaves: false,
            noted: 0,
            outbox: Outbox::default(),
            waits_since_ms: waits.then_some(now_ms),
            neighbours_ms: now_ms,
            waiting: (0..shards).map(|_| None).collect(),
            waiting_shards: 0,
            next_wait: 0,
            restoring: BTreeMap::new(),
            checksums: (0..shards).map(|_| ShardChecksums::default()).collect(),
            own_checksums: Vec::new(),
            chain_places: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Runs as a thread until [`Input::Stop`].
    ///
    /// # Errors
    /// When the node cannot go on: a failed write or sync, a damaged entry, a gap.
    pub(crate) fn run(mut self) -> Result<(), ReplicationError> {
        let replication = Arc::clone(&self.replication);
        let inbox = replication.replicators.inbox(self.number);
        let mut taken = Vec::new();
        loop {
            inbox.take(&mut taken, self.wait());
            if self.expects_company(&taken) {
                thread::sleep(COMPANY_WAIT);
                inbox.take_now(&mut taken);
            }
            let turn = self.begin(&mut taken)?;
            self.step(&turn)?;
            while self.persisted()? {
                self.step(&turn)?;
            }
            self.end(&turn);
            if turn.is_last {
                return Ok(self.log.end()?);
            }
        }
    }

    /// Whether more inputs are to come soon that would fit into this turn. A turn costs a sync and several wake-ups, whatever its
    /// size, and the actors need that processor time.
    fn expects_company(&self, taken: &[Input<O::Completion>]) -> bool {
        let under_way = self.owner.under_way() / self.division.replicators();
        self.replication.config.is_alone
            && under_way >= COMPANY_MIN
            && !taken.is_empty()
            && taken.len() < under_way / COMPANY_SHARE
    }

    /// Runs as a task until [`Input::Stop`]. It waits for a simulated disk where a thread would have been blocked, before any
    /// caller learns that something is durable.
    ///
    /// # Errors
    /// As [`Replicator::run`].
    pub(crate) async fn run_as_task(mut self) -> Result<(), ReplicationError> {
        let replication = Arc::clone(&self.replication);
        let inbox = replication.replicators.inbox(self.number);
        let mut taken = Vec::new();
        loop {
            inbox.taken(&mut taken, self.wait()).await;
            let turn = self.begin(&mut taken)?;
            loop {
                self.step(&turn)?;
                wait_for_disk(&*replication.world.disk).await;
                if !self.persisted()? {
                    break;
                }
            }
            self.end(&turn);
            if turn.is_last {
                self.log.end()?;
                wait_for_disk(&*replication.world.disk).await;
                return Ok(());
            }
        }
    }

    /// Begins a turn with the received inputs, and does the housekeeping if it is due.
    fn begin(&mut self, taken: &mut Vec<Input<O::Completion>>) -> Result<Pass, ReplicationError> {
        let _no_wait = no_wait::begin(LOOP);
        let mut is_last = false;
        let mut room = self.room_for_others();
        for input in taken.drain(..) {
            match input {
                // A snapshot that came from another node while there was room for it. It is offered again.
                Input::Engine(EngineInput::Message { .. }) if room.is_some() => self.left = true,
                Input::Engine(EngineInput::Message { .. }) if self.waits_since_ms.is_some() => {}
                Input::Engine(input) => {
                    self.note(&input);
                    self.inputs.push(input);
                }
                Input::Consensus { from, frame } => {
                    self.replication.replicators.taken();
                    if self.waits_since_ms.is_some() {
                        continue;
                    }
                    let (number, division, waiting) = (self.number, self.division, &self.waiting);
                    let whole = peer_frame::each(frame, |shard, bytes| {
                        if division.of(shard) != number {
                            return;
                        }
                        let waiting = waiting[usize::from(shard)].as_ref();
                        if waiting.is_some_and(|waiting| waiting.is_full()) && grows_log(&bytes) {
                            return;
                        }
                        match room.as_mut().is_none_or(|room| room.takes(&bytes)) {
                            true => self.inputs.push(EngineInput::Message { from, shard, bytes }),
                            false => self.left = true,
                        }
                    });
                    if let Err(why) = whole {
                        self.replication.not_understood(from, why);
                    }
                }
                Input::Checksums { from, checksums } => {
                    self.replication.replicators.taken();
                    self.hear_checksums(from, &checksums)?;
                }
                Input::Imported { shard, upto } => self.replays[usize::from(shard)].imported(upto),
                Input::Read { shard, wait, entity, found } => self.read(shard, wait, entity, found)?,
                Input::Archived(number) => self.log.discard(number),
                Input::Fail(error) => return Err(error),
                Input::Stop => is_last = true,
            }
        }
        let now = now(&*self.replication.world.clock);
        if now.mono_ms >= self.next_tick_ms {
            self.next_tick_ms = now.mono_ms + TICK_MS;
            self.tick(now.mono_ms)?;
            if self.waits_since_ms.is_none() {
                self.inputs.push(EngineInput::Tick);
            }
        }
        Ok(Pass { now, is_last })
    }

    fn note(&mut self, input: &EngineInput<O::Completion>) {
        if let EngineInput::SnapshotSaved { shard, replica, index } = input
            && self.engine.group(*shard).is_some_and(|group| group.replica == *replica)
        {
            self.snapshots_kept[usize::from(*shard)].add(*index);
        }
    }

    /// How long to wait for inputs.
    fn wait(&self) -> Duration {
        let until = match self.replication.is_read_only() {
            // On a read-only node no deadlines are handed out, even if they are due.
            true => self.next_tick_ms,
            false => self.due_ms.iter().flatten().copied().fold(self.next_tick_ms, u64::min),
        };
        let until = self.engine.due_ms().map_or(until, |due_ms| due_ms.min(until));
        Duration::from_millis(until.saturating_sub(self.replication.world.clock.monotonic_ms()))
    }

    /// The shards of this replicator.
    fn own_shards(&self) -> impl Iterator<Item = &Arc<ShardState>> + Clone {
        self.replication.shards.iter().filter(|state| self.division.of(state.id) == self.number)
    }

    /// The first half of a pass: inputs and log. [`Replicator::persisted`] is the second half, once the write is durable.
    fn step(&mut self, turn: &Pass) -> Result<(), ReplicationError> {
        let _no_wait = no_wait::begin(LOOP);
        let mut write = self.engine.step(turn.now, self.inputs.drain(..));
        for message in std::mem::take(&mut write.messages) {
            self.send(message);
        }
        self.flush();
        self.engine.decided(&mut self.outputs);
        self.take_outputs()?;
        self.hand_on();
        if write.must_sync() {
            self.write(&write, turn.now.mono_ms)?;
        }
        self.engine.recycle(write.records);
        Ok(())
    }

    /// The second half of a pass: outputs. `true` if the engine has something ready for another pass in this turn.
    fn persisted(&mut self) -> Result<bool, ReplicationError> {
        if let Some(began_ns) = self.sync_began_ns.take() {
            let now_ns = self.replication.world.clock.monotonic_ns();
            self.replication.sync_times.record(now_ns / 1_000_000, (now_ns - began_ns) / 1_000);
        }
        let _no_wait = no_wait::begin(LOOP);
        self.engine.persisted(&mut self.outputs);
        self.take_outputs()?;
        self.flush();
        Ok(self.engine.has_ready())
    }

    /// Reports the results of the turn, and hands out deadlines that have come.
    fn end(&mut self, turn: &Pass) {
        let _no_wait = no_wait::begin(LOOP);
        self.hand_on();
        self.hand_out_deadlines(turn.now.mono_ms);
    }

    /// Reports committed turns to the owner.
    fn hand_on(&mut self) {
        if !self.changes.is_empty() || !self.completed.is_empty() {
            let (changes, completed) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.completed));
            self.owner.on(Event::Committed { changes, completed });
        }
    }

    /// Handles all outputs of the engine in order. The completions of an entry are taken together with it, because it is applied with
    /// the events that they have.
    fn take_outputs(&mut self) -> Result<(), ReplicationError> {
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut rest = outputs.drain(..).peekable();
        while let Some(output) = rest.next() {
            let Some(output) = self.put_off(output) else { continue };
            match output {
                Output::Apply { shard, position, stamp, turns, chain } => {
                    // The completions that wait for it are handed out when all outputs are taken.
                    let first = self.completed.len();
                    while let Some(Output::Completed { completion, index, .. }) = rest.next_if(
                        |next| matches!(next, Output::Completed { shard: of, index, .. } if (*of, *index) == (shard, position.index)),
                    ) {
                        self.completed.push((completion, index));
                    }
                    self.apply_or_wait((shard, position, chain), stamp, turns, first)?;
                }
                other => self.take_output(other)?,
            }
        }
        drop(rest);
        self.outputs = outputs;
        Ok(())
    }

    /// Handles one output of the engine.
    fn take_output(&mut self, output: Output<O::Completion>) -> Result<(), ReplicationError> {
        match output {
            Output::Apply { shard, position, stamp, turns, chain } => {
                let first = self.completed.len();
                self.apply_or_wait((shard, position, chain), stamp, turns, first)?;
            }
            Output::Completed { completion, index, .. } => self.completed.push((completion, index)),
            Output::ProposalDropped { completion, shard, why } => {
                self.owner.on(Event::Dropped { shard, completion, why })
            }
            Output::BecameLeader { shard, epoch, time, confirmed } => {
                if !confirmed {
                    tracing::warn!(
                        shard,
                        "no majority of the voters agrees what time it is: the shard begins with the earlier clock"
                    );
                }
                self.lead(shard, Leadership { epoch, time });
            }
            Output::BecameFollower { shard, term, leader } => self.follow(shard, term, leader),
            Output::Restore(received) => self.restore(received)?,
            Output::SnapshotDue { meta } => self.cut(meta),
            Output::CutSnapshot { meta, .. } => {
                let state = self.cut_for_peer(meta.shard);
                self.replication.replicators.push(meta.shard, EngineInput::SnapshotCut { meta, state });
            }
            Output::Message(message) => self.send(message),
            Output::TargetReached { shard, version } => {
                self.note_group(shard);
                self.owner.on(Event::TargetReached { shard, version });
            }
            Output::Removed { shard, replica } => self.removed(shard, replica)?,
            Output::Fatal { shard, why } => return Err(ReplicationError::Broken { shard, why }),
        }
        Ok(())
    }

    /// Sets true time less the shard's running time, from here on.
    fn set_distance(&self, shard: ShardId, distance_ms: i64) {
        if planted::is("a correction of the time that is not sent") {
            return;
        }
        let was_ms = self.replication.shard(shard).distance_ms.swap(distance_ms, Ordering::Relaxed);
        if was_ms != distance_ms {
            tracing::info!(shard, was_ms, distance_ms, "the shard's distance from true time is another one");
        }
    }

    /// Nothing of a shard that waits for the store is due.
    fn set_due(&mut self, shard: ShardId, deadline: Option<Timestamp>) {
        let at = usize::from(shard);
        self.due_ms[at] = self.leaderships[at].and_then(|leadership| Some(leadership.mono_ms_of(deadline?)));
    }

    /// Wakes entities whose deadline has come.
    fn hand_out_deadlines(&mut self, now_ms: u64) {
        if self.replication.is_read_only() {
            return;
        }
        let mut due = Vec::new();
        for shard in 0..self.due_ms.len() {
            let (Some(due_ms), Some(leadership)) = (self.due_ms[shard], self.leaderships[shard]) else { continue };
            if due_ms > now_ms {
                continue;
            }
            let next = {
                let kept = &mut self.replication.shards[shard].replica.lock().kept;
                kept.due(Timestamp(leadership.time.at(now_ms)), DUE_MAX, &mut due);
                kept.next_deadline()
            };
            self.due_ms[shard] = next.map(|next| leadership.mono_ms_of(next));
            for entity in due.drain(..) {
                self.owner.on(Event::Due(entity));
            }
        }
    }

    /// Adds a message to the frame for its node.
    fn send(&mut self, message: Outgoing) {
        let Outgoing { to, shard, snapshot: Some(token), bytes } = message else {
            return self.outbox.add(message);
        };
        if !self.transfers.announce(&self.replication, to, shard, &token, bytes) {
            self.unreachable(to);
        }
    }

    /// Sends each node its messages, in one frame.
    fn flush(&mut self) {
        self.replication.durable.fetch_max(self.log.synced_seq(), Ordering::Relaxed);
        for (to, frame) in self.outbox.take(self.replication.durable_position()) {
            // A frame that is not sent is lost as on a broken link. Raft sends its messages again.
            if let Err(reason) = self.replication.world.net.send(to, Lane::Consensus, frame) {
                tracing::debug!(%reason, "messages were dropped");
                self.unreachable(to);
            }
        }
        self.tell_checksums();
    }

    fn unreachable(&self, node: NodeId) {
        self.replication.replicators.inbox(self.number).push(Input::Engine(EngineInput::Unreachable { node }));
    }
}

/// The node's clocks now.
fn now(clock: &dyn Clock) -> Now {
    if planted::is("the wall clock is read late") {
        let mono_ms = clock.monotonic_ms();
        return Now { wall_ms: clock.wall_ms(), mono_ms };
    }
    let (wall_ms, mono_ms) = clock.both_ms();
    Now { wall_ms, mono_ms }
}

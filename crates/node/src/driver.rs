//! The replication thread: one loop for all shards of the node. Each pass takes every input, steps the engine, appends
//! one record to the log, syncs it once, applies what is committed and hands on what was waiting for it.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::{host::Input, id::Entity, keep::Kept, time::Timestamp};
use boxoffice_shard::{
    Engine, Input as EngineInput, Now, Outgoing, Output, Position, Received, ShardId, SnapshotMeta, Turns, Write,
};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    actor::Ticket,
    cell::Reign,
    codec,
    config::Fsync,
    door::Failure,
    error::NodeError,
    feeds::Commit,
    log::{Kind, Log, LogError, Mark},
    past::{Brought, Keeper, Order, Replay},
    shared::Shared,
    snapshots::{self, Snapshot},
    watched::Before,
    world::Lane,
};

/// The engine's clock tick.
const TICK_MS: u64 = 100;
/// Deadlines handed to actors in one pass; the rest follow in the next, so that an expiry storm does not stop selling.
const DUE_MAX: usize = 256;
/// With more segments than this, shards that keep the oldest from being released are made to cut a snapshot.
const LOG_SEGMENTS_MAX: usize = 4;
/// The share of a segment that must be left for what is decided already, when the disk has no room for another one.
const HEADROOM_SHARE: u64 = 2;

/// What comes into the replication thread.
pub(crate) enum DriverInput {
    /// For the engine.
    Engine(EngineInput<Ticket>),
    /// This segment of the log is archived.
    Archived(u64),
    /// The node cannot go on.
    Fail(NodeError),
    /// Write what is under way, then end.
    Stop,
}

/// What was committed in one pass: tickets with the index of their entry.
pub(crate) type Settled = Vec<(Ticket, u64)>;

/// The last entries of the two newest snapshots of a shard; 0 for none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SnapshotsKept {
    older: u64,
    newest: u64,
}

impl SnapshotsKept {
    /// One more snapshot is on disk; only two are kept. In a shard where nothing happens it is the same one, written anew: it
    /// has no older one behind it then, and does not keep the whole log from being released.
    pub(crate) fn add(&mut self, index: u64) {
        if index >= self.newest {
            self.older = self.newest;
            self.newest = index;
        }
    }
}

/// The loop and what it owns.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    engine: Engine<Ticket>,
    log: Log,
    settle: mpsc::UnboundedSender<Settled>,
    snapshots: snapshots::Writer,
    keeper: Keeper,
    outputs: Vec<Output<Ticket>>,
    commits: Vec<Commit>,
    settled: Settled,
    /// By shard: leadership, and the monotonic millisecond at which the next of its deadlines is due.
    reigns: Vec<Option<Reign>>,
    due_ms: Vec<Option<u64>>,
    next_tick_ms: u64,
    synced_ms: u64,
    unsynced: bool,
    /// By shard: what its snapshots on disk go up to.
    snapshots_kept: Vec<SnapshotsKept>,
    /// By shard: who had left before the node started.
    replays: Vec<Replay>,
    /// A segment was begun while there were too many: cut snapshots after this pass.
    cut_for_release: bool,
}

impl Driver {
    /// The loop over what was restored from disk.
    pub(crate) fn new(
        shared: Arc<Shared>,
        engine: Engine<Ticket>,
        log: Log,
        settle: mpsc::UnboundedSender<Settled>,
        (snapshots, snapshots_kept): (snapshots::Writer, Vec<SnapshotsKept>),
        (keeper, replays): (Keeper, Vec<Replay>),
    ) -> Driver {
        let now_ms = shared.world.clock.monotonic_ms();
        let cells = shared.cells.len();
        Driver {
            shared,
            engine,
            log,
            settle,
            snapshots,
            keeper,
            outputs: Vec::new(),
            commits: Vec::new(),
            settled: Vec::new(),
            reigns: vec![None; cells],
            due_ms: vec![None; cells],
            next_tick_ms: now_ms,
            synced_ms: now_ms,
            unsynced: false,
            snapshots_kept,
            replays,
            cut_for_release: false,
        }
    }

    /// Runs until told to stop.
    ///
    /// # Errors
    /// When the node cannot go on: a failed write or sync, a damaged entry, a gap.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        let shared = Arc::clone(&self.shared);
        let (mut taken, mut inputs) = (Vec::new(), Vec::new());
        loop {
            shared.inbox.take(&mut taken, self.wait());
            let mut stop = false;
            for input in taken.drain(..) {
                match input {
                    DriverInput::Engine(input) => {
                        self.note(&input);
                        inputs.push(input);
                    }
                    DriverInput::Archived(number) => self.log.discard(number),
                    DriverInput::Fail(error) => return Err(error),
                    DriverInput::Stop => stop = true,
                }
            }
            let now_ms = shared.world.clock.monotonic_ms();
            if now_ms >= self.next_tick_ms {
                self.next_tick_ms = now_ms + TICK_MS;
                inputs.push(EngineInput::Tick);
                self.tick(now_ms)?;
            }
            self.pass(&mut inputs)?;
            self.hand_out_deadlines(now_ms);
            if stop {
                return Ok(self.log.seal()?);
            }
        }
    }

    fn note(&mut self, input: &EngineInput<Ticket>) {
        if let EngineInput::SnapshotSaved { shard, index, .. } = input {
            self.snapshots_kept[usize::from(*shard)].add(*index);
        }
    }

    /// How long there is nothing to do if nothing comes in.
    fn wait(&self) -> Duration {
        let until = self.due_ms.iter().flatten().copied().fold(self.next_tick_ms, u64::min);
        Duration::from_millis(until.saturating_sub(self.shared.world.clock.monotonic_ms()))
    }

    /// What is done ten times a second: housekeeping of the log and of memory.
    fn tick(&mut self, now_ms: u64) -> Result<(), NodeError> {
        if let Fsync::Interval(interval_ms) = self.shared.config.fsync
            && self.unsynced
            && now_ms.saturating_sub(self.synced_ms) >= interval_ms
        {
            self.sync(now_ms)?;
        }
        let headroom = self.log.headroom();
        let low = headroom.no_space && headroom.bytes < self.shared.config.log_segment_bytes / HEADROOM_SHARE;
        self.set_read_only(low || self.shared.history_full.load(Ordering::Relaxed));
        self.release_log();
        self.hand_over();
        Ok(())
    }

    /// Gives what may leave memory to the thread that writes it to the store. Only when the log is synced: a store that is
    /// ahead of what the log has after a power cut would take other events at the same places for its own.
    fn hand_over(&mut self) {
        if self.unsynced {
            return;
        }
        for cell in &self.shared.cells {
            let leaving = cell.replica.lock().kept.take_leaving();
            if !leaving.is_empty() {
                self.keeper.order(Order::Leave(cell.id, leaving));
            }
        }
    }

    fn set_read_only(&self, now: bool) {
        let was = self.shared.read_only.swap(now, Ordering::Relaxed);
        if now && !was {
            tracing::error!("the disk is full: only reads are served until there is space again");
        } else if was && !now {
            tracing::warn!("there is space on the disk again: selling goes on");
        }
    }

    /// One pass: in, log, out; again while the engine has something ready.
    fn pass(&mut self, inputs: &mut Vec<EngineInput<Ticket>>) -> Result<(), NodeError> {
        let clock = Arc::clone(&self.shared.world.clock);
        let now = Now { wall_ms: clock.wall_ms(), mono_ms: clock.monotonic_ms() };
        let mut write = self.engine.step(now, inputs.drain(..));
        loop {
            for message in std::mem::take(&mut write.messages) {
                send(&self.shared, message);
            }
            if write.must_sync() {
                self.write(&write, now.mono_ms)?;
            }
            self.engine.persisted(&mut self.outputs);
            self.take_outputs()?;
            if !self.engine.has_ready() {
                break;
            }
            write = self.engine.step(now, std::iter::empty());
        }
        if !self.commits.is_empty() {
            self.shared.feeds.commit(std::mem::take(&mut self.commits));
        }
        if !self.settled.is_empty() {
            // The relay ends only after this thread.
            let _ = self.settle.send(std::mem::take(&mut self.settled));
        }
        Ok(())
    }

    fn write(&mut self, write: &Write, now_ms: u64) -> Result<(), NodeError> {
        for received in &write.snapshots {
            self.snapshots.save_now(received)?;
        }
        let marks: Vec<Mark> = write.marks.iter().map(|&(shard, last_index)| Mark { shard, last_index }).collect();
        match self.log.append(Kind::Ordinary, &[&write.records], &marks) {
            Ok(_) => {}
            // What is decided already may use the reserve; nothing new is decided from now on.
            Err(LogError::Full { .. }) => {
                self.set_read_only(true);
                self.log.append(Kind::Vital, &[&write.records], &marks)?;
            }
            Err(error) => return Err(error.into()),
        }
        let metrics = &self.shared.metrics;
        metrics.passes.fetch_add(1, Ordering::Relaxed);
        metrics.log_bytes.fetch_add(write.records.len() as u64, Ordering::Relaxed);
        self.unsynced = true;
        if self.shared.config.fsync == Fsync::Always {
            self.sync(now_ms)?;
        }
        if self.log.wants_checkpoint() {
            self.begin_segment()?;
        }
        Ok(())
    }

    fn sync(&mut self, now_ms: u64) -> Result<(), NodeError> {
        let clock = &self.shared.world.clock;
        let began_ns = clock.monotonic_ns();
        self.log.sync()?;
        let took_us = (clock.monotonic_ns() - began_ns) / 1_000;
        self.shared.metrics.syncs.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.sync_us.fetch_add(took_us, Ordering::Relaxed);
        self.synced_ms = now_ms;
        self.unsynced = false;
        Ok(())
    }

    fn take_outputs(&mut self) -> Result<(), NodeError> {
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Apply { shard, position, turns, .. } => self.apply(shard, position, &turns)?,
                Output::Done { ticket, index, .. } => self.settled.push((ticket, index)),
                Output::Lost { ticket, shard, why } => {
                    if why.unknown() {
                        tracing::debug!(shard, ?why, "a proposal was lost; its callers hear unknown");
                        drop(ticket);
                    } else {
                        ticket.refuse(Failure::NotReady);
                    }
                }
                Output::Lead { shard, epoch, time } => self.lead(shard, Reign { epoch, time }),
                Output::Follow { shard, term, .. } => self.follow(shard, term),
                Output::Restore(received) => self.restore(received)?,
                Output::SnapshotDue { meta } => self.cut(meta),
                Output::CutSnapshot { meta, .. } => {
                    let state = self.cut_for_peer(meta.shard)?;
                    self.shared.inbox.push(DriverInput::Engine(EngineInput::SnapshotCut { meta, state }));
                }
                Output::Message(message) => send(&self.shared, message),
                Output::Reached { shard, version } => tracing::info!(shard, version, "the members are as wanted"),
                Output::Removed { shard, replica } => tracing::info!(shard, %replica, "a replica was dropped"),
                Output::Fatal { shard, why } => return Err(NodeError::Broken { shard, why }),
            }
        }
        self.outputs = outputs;
        Ok(())
    }

    fn apply(&mut self, shard: ShardId, position: Position, turns: &Turns) -> Result<(), NodeError> {
        let cell = &self.shared.cells[usize::from(shard)];
        let mut replica = cell.replica.lock();
        replica.kept.advance(position.index);
        let mut count = 0;
        for turn in turns.iter() {
            count += 1;
            let (entity, mut events) =
                codec::decode(turn).map_err(|why| NodeError::Undecodable { shard, index: position.index, why })?;
            let is_watched = !replica.watched.is_empty() && replica.watched.contains(&entity);
            if !is_watched {
                match replica.kept.apply_in_memory(&entity, events) {
                    Some(back) => events = back,
                    None => continue,
                }
            }
            let in_memory = replica.kept.contains(&entity);
            if !in_memory {
                let (replay, past) = (&mut self.replays[usize::from(shard)], &self.shared.past);
                match replay.bring_back(past, &mut replica.kept, position.index, (&entity, &events))? {
                    Brought::New => {}
                    Brought::Already => continue,
                    Brought::Back => _ = self.shared.metrics.put_back.fetch_add(1, Ordering::Relaxed),
                }
            }
            let before = if is_watched { Before::of(&replica.kept, &entity, &events) } else { None };
            replica.kept.apply(&entity, events);
            self.commits.extend(before.and_then(|before| before.commit(&replica.kept, entity)));
        }
        let deadline = replica.kept.next_deadline();
        drop(replica);
        self.set_due(shard, deadline);
        let cell = &self.shared.cells[usize::from(shard)];
        cell.applied.store(position.index, Ordering::Relaxed);
        self.shared.metrics.entries.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.turns.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    fn set_due(&mut self, shard: ShardId, deadline: Option<Timestamp>) {
        let at = usize::from(shard);
        self.due_ms[at] = self.reigns[at].and_then(|reign| Some(mono_ms_of(reign, deadline?)));
    }

    fn lead(&mut self, shard: ShardId, reign: Reign) {
        let cell = Arc::clone(&self.shared.cells[usize::from(shard)]);
        self.reigns[usize::from(shard)] = Some(reign);
        cell.term.store(reign.epoch.0, Ordering::Relaxed);
        cell.lead.lock().reign = Some(reign);
        let (unfinished, deadline) = {
            let replica = cell.replica.lock();
            (replica.kept.unfinished().cloned().collect::<Vec<_>>(), replica.kept.next_deadline())
        };
        self.set_due(shard, deadline);
        if !unfinished.is_empty() {
            tracing::info!(shard, entities = unfinished.len(), "going on with what was under way");
        }
        for entity in unfinished {
            // This node leads the shard as of the line above.
            let _ = self.shared.send(&entity, Input::Wake);
        }
    }

    fn follow(&mut self, shard: ShardId, term: u64) {
        let cell = &self.shared.cells[usize::from(shard)];
        self.reigns[usize::from(shard)] = None;
        self.due_ms[usize::from(shard)] = None;
        cell.term.store(term, Ordering::Relaxed);
        let mut lead = cell.lead.lock();
        lead.reign = None;
        // Their state was speculation on a leadership that is over; whoever waits for them hears `unknown`.
        for (_, served) in lead.actors.drain() {
            served.actor.stop(None);
        }
    }

    /// Gives entities whose deadline has come a wake-up.
    fn hand_out_deadlines(&mut self, now_ms: u64) {
        if self.shared.read_only.load(Ordering::Relaxed) {
            return;
        }
        let mut due = Vec::new();
        for shard in 0..self.due_ms.len() {
            let (Some(due_ms), Some(reign)) = (self.due_ms[shard], self.reigns[shard]) else { continue };
            if due_ms > now_ms {
                continue;
            }
            let next = {
                let kept = &mut self.shared.cells[shard].replica.lock().kept;
                kept.due(Timestamp(reign.time.at(now_ms)), DUE_MAX, &mut due);
                kept.next_deadline()
            };
            self.due_ms[shard] = next.map(|next| mono_ms_of(reign, next));
            for entity in due.drain(..) {
                // This thread has not said yet that the leadership is over, so the entity's actor is here.
                let _ = self.shared.send(&entity, Input::Wake);
            }
        }
    }

    /// A new segment of the log begins with everything that is not in entries, so that older ones can go; shards that
    /// still need old entries are told to make a snapshot.
    fn begin_segment(&mut self) -> Result<(), NodeError> {
        let mut checkpoint = Vec::new();
        for record in self.engine.checkpoint() {
            record.encode(&mut checkpoint);
        }
        self.log.append(Kind::Checkpoint, &[&checkpoint], &[])?;
        self.log.sync()?;
        self.unsynced = false;
        self.cut_for_release = self.log.segments() > LOG_SEGMENTS_MAX;
        Ok(())
    }

    /// Lets old segments go, and, when there are too many, makes the shards that need them cut snapshots.
    fn release_log(&mut self) {
        let kept = &self.snapshots_kept;
        // From the older of the two snapshots on, so that a damaged newest one can be done without.
        let first_needed = |shard: u16| kept.get(usize::from(shard)).map_or(u64::MAX, |kept| kept.older + 1);
        match self.shared.config.history_archive_bytes {
            0 => _ = self.log.release(&first_needed),
            _ => {
                self.log.retire(&first_needed).into_iter().for_each(|number| self.keeper.order(Order::Archive(number)))
            }
        }
        if std::mem::take(&mut self.cut_for_release) {
            let metas: Vec<SnapshotMeta> =
                self.shared.cells.iter().filter_map(|cell| self.engine.snapshot_meta(cell.id).cloned()).collect();
            for meta in metas {
                self.cut(meta);
            }
        }
    }

    fn restore(&mut self, received: Received) -> Result<(), NodeError> {
        let shard = received.meta.shard;
        let cut = snapshots::decode_state(&received.state).map_err(|why| NodeError::BadSnapshot { shard, why })?;
        let kept = Kept::restore(cut);
        let deadline = kept.next_deadline();
        let mut replica = self.shared.cells[usize::from(shard)].replica.lock();
        replica.kept = kept;
        // What happened in between is not known here.
        self.commits.extend(replica.watched.iter().cloned().map(Commit::lost));
        drop(replica);
        self.set_due(shard, deadline);
        Ok(())
    }

    fn cut(&mut self, meta: SnapshotMeta) {
        let replica = self.shared.cells[usize::from(meta.shard)].replica.lock();
        let (rests_on, cut) = (replica.rests_on, replica.kept.cut());
        drop(replica);
        self.snapshots.write(Snapshot { meta, rests_on, cut });
    }

    /// A shard's state for another node, which does not have this one's store: with everything that has left memory here;
    /// there it leaves again.
    fn cut_for_peer(&self, shard: ShardId) -> Result<Bytes, NodeError> {
        let mut cut = self.shared.cells[usize::from(shard)].replica.lock().kept.cut();
        let here: BTreeSet<Entity> = cut.entities().map(|(entity, _)| entity.clone()).collect();
        self.shared.past.each(shard, |stored| {
            if !here.contains(&stored.entity) {
                cut.add(stored.entity, stored.state);
            }
        })?;
        Ok(Bytes::from(snapshots::state(&cut)))
    }
}

fn send(shared: &Shared, message: Outgoing) {
    let lane = if message.snapshot { Lane::Calls } else { Lane::Consensus };
    let mut frame = Vec::with_capacity(2 + message.bytes.len());
    frame.extend_from_slice(&message.shard.to_be_bytes());
    frame.extend_from_slice(&message.bytes);
    // What is not sent is lost like on a broken link: raft sends it again.
    if let Err(reason) = shared.world.net.send(message.to, lane, frame.into()) {
        shared.inbox.push(DriverInput::Engine(EngineInput::Unreachable { node: message.to }));
        tracing::debug!(%reason, "a message was dropped");
    }
}

/// When a shard's clock shows `at`, in milliseconds of the monotonic clock.
fn mono_ms_of(reign: Reign, at: Timestamp) -> u64 {
    reign.time.mono_base_ms + at.0.saturating_sub(reign.time.base_ms)
}

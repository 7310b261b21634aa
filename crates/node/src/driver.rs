//! A replicator: one loop for all shards of the node or a part of them, a thread or a task. Each turn takes every input, steps
//! the engine, appends one record to the log, syncs it once, applies what is committed and hands on what was waiting for it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use boxoffice_core::{host::Input, id::Entity, planted, time::Timestamp};
use boxoffice_env::{Disk, Lane};
use boxoffice_feeds::Commit;
use boxoffice_shard::{
    DIRECTORY, Engine, Input as EngineInput, NodeId, Now, Outgoing, Output, Position, ShardId, Turns,
};
use boxoffice_storage::{
    codec,
    history::{HistoryStoreError, Replay, ReplayOutcome},
    log::LogWriter,
};
use bytes::Bytes;
use parking_lot::MutexGuard;
use tokio::{sync::mpsc, time::sleep};

use crate::{
    cell::{Reign, ShardCell},
    checksums::{Checksum, ShardChecksums},
    door::Failure,
    error::NodeError,
    keeper::Keeper,
    peer_frame::{self, Outbox},
    replicators::Division,
    routing::not_understood,
    shared::Shared,
    snapshots::{self, SnapshotsKept},
    ticket::{ProposedTurn, Ticket},
    watched::Before,
};

mod comparing;
mod housekeeping;
mod log_writing;
mod replicas;

/// The engine's clock tick.
const TICK_MS: u64 = 100;
/// Where so many commands are under way on a node that is alone, a turn with few inputs waits for more: fewer buyers would rather
/// have their answers. Where other nodes follow, their frames come by the same thread, and it does not wait.
const COMPANY_MIN: usize = 32;
/// Few inputs are less than this share of the commands under way.
const COMPANY_SHARE: usize = 4;
/// How long it waits: about as long as a sync takes. Half of it and twice as much gave fewer purchases a second.
const COMPANY_WAIT: Duration = Duration::from_micros(200);
/// Deadlines handed to actors in one pass; the rest follow in the next, so that an expiry storm does not stop selling.
const DUE_MAX: usize = 256;

/// What comes into a replicator.
pub(crate) enum DriverInput {
    /// For the engine.
    Engine(EngineInput<Ticket>),
    /// Messages of another node's engine, as that node sent them in one pass.
    Consensus { from: NodeId, frame: Bytes },
    /// What another node's replicas have after some entries.
    Checksums { from: NodeId, checksums: Vec<Checksum> },
    /// Records of a shard's history came from another node, which tell up to here.
    Imported { shard: ShardId, upto: u64 },
    /// This segment of the log is archived.
    Archived(u64),
    /// The node cannot go on.
    Fail(NodeError),
    /// Write what is under way, then end.
    Stop,
}

/// What was committed in one pass: tickets with the index of their entry.
pub(crate) type Settled = Vec<(Ticket, u64)>;

/// One time round.
struct Turn {
    now: Now,
    /// The node stops after it.
    is_last: bool,
}

/// The loop and what it owns.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    /// Which replicator it is. The first one does what is to be done once a node.
    number: usize,
    division: Division,
    engine: Engine<Ticket>,
    log: LogWriter,
    settle: mpsc::UnboundedSender<Settled>,
    snapshots: Arc<snapshots::Writer>,
    keeper: Arc<Keeper>,
    inputs: Vec<EngineInput<Ticket>>,
    outputs: Vec<Output<Ticket>>,
    commits: Vec<Commit>,
    settled: Settled,
    /// By shard: leadership, and the monotonic millisecond at which the next of its deadlines is due.
    reigns: Vec<Option<Reign>>,
    due_ms: Vec<Option<u64>>,
    next_tick_ms: u64,
    synced_ms: u64,
    unsynced: bool,
    /// The log's last record, and since when it is the last one.
    log_rests: (u64, u64),
    /// By shard: what its snapshots on disk go up to.
    snapshots_kept: Vec<SnapshotsKept>,
    /// By shard: who had left before the node started.
    replays: Vec<Replay>,
    /// A segment was begun while there were too many: cut snapshots after this pass.
    cut_for_release: bool,
    /// What others lead was left for want of room since the last tick; it is, since that was told.
    left: bool,
    leaves: bool,
    /// The shard whose members were looked at last.
    noted: usize,
    /// Messages of this half of a pass, by node.
    outbox: Outbox,
    /// When this process began, as long as it takes no part yet.
    waits_since_ms: Option<u64>,
    neighbours_ms: u64,
    /// Snapshots that came from other nodes and are durable here, until the engine says what they replace.
    restoring: BTreeMap<ShardId, Bytes>,
    /// By shard: checksums of this replica and of others.
    checksums: Vec<ShardChecksums>,
    /// Checksums of this node that the others do not have yet.
    own_checksums: Vec<Checksum>,
    /// Memory to write entities into for their checksum.
    scratch: Vec<u8>,
}

impl Driver {
    /// The loop of one replicator over what was restored from disk of its shards.
    pub(crate) fn new(
        shared: Arc<Shared>,
        (number, engine, log): (usize, Engine<Ticket>, LogWriter),
        settle: mpsc::UnboundedSender<Settled>,
        (snapshots, snapshots_kept): (Arc<snapshots::Writer>, Vec<SnapshotsKept>),
        (keeper, replays): (Arc<Keeper>, Vec<Replay>),
    ) -> Driver {
        let now_ms = shared.world.clock.monotonic_ms();
        let cells = shared.cells.len();
        // Who has written nothing but its start has forgotten nothing.
        let last_seq = log.last_seq();
        let waits = !shared.is_alone() && last_seq > 1;
        Driver {
            number,
            division: shared.replicators.division(),
            shared,
            engine,
            log,
            settle,
            snapshots,
            keeper,
            inputs: Vec::new(),
            outputs: Vec::new(),
            commits: Vec::new(),
            settled: Vec::new(),
            reigns: vec![None; cells],
            due_ms: vec![None; cells],
            next_tick_ms: now_ms,
            synced_ms: now_ms,
            unsynced: false,
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
            restoring: BTreeMap::new(),
            checksums: (0..cells).map(|_| ShardChecksums::default()).collect(),
            own_checksums: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Runs as a thread until told to stop.
    ///
    /// # Errors
    /// When the node cannot go on: a failed write or sync, a damaged entry, a gap.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        let shared = Arc::clone(&self.shared);
        let inbox = shared.replicators.inbox(self.number);
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

    /// Whether more is to come soon of what would fit into this turn. A turn costs a sync and several wake-ups, however much is in
    /// it, and their processor time is what those lack who decide.
    fn expects_company(&self, taken: &[DriverInput]) -> bool {
        let under_way = self.shared.admission.under_way() / self.division.replicators();
        self.shared.is_alone()
            && under_way >= COMPANY_MIN
            && !taken.is_empty()
            && taken.len() < under_way / COMPANY_SHARE
    }

    /// Runs as a task until told to stop. What the disk owes is waited for where a thread would have been blocked: before
    /// anybody hears that something is durable.
    ///
    /// # Errors
    /// As [`Driver::run`].
    pub(crate) async fn run_as_task(mut self) -> Result<(), NodeError> {
        let shared = Arc::clone(&self.shared);
        let inbox = shared.replicators.inbox(self.number);
        let mut taken = Vec::new();
        loop {
            inbox.taken(&mut taken, self.wait()).await;
            let turn = self.begin(&mut taken)?;
            loop {
                self.step(&turn)?;
                pay_disk(&*shared.world.disk).await;
                if !self.persisted()? {
                    break;
                }
            }
            self.end(&turn);
            if turn.is_last {
                self.log.end()?;
                pay_disk(&*shared.world.disk).await;
                return Ok(());
            }
        }
    }

    /// Begins a turn with what came in, and the housekeeping if it is time for it.
    fn begin(&mut self, taken: &mut Vec<DriverInput>) -> Result<Turn, NodeError> {
        let mut is_last = false;
        let mut room = self.room_for_others();
        for input in taken.drain(..) {
            match input {
                // A snapshot that came from another node while there was room for it: it is offered again.
                DriverInput::Engine(EngineInput::Message { .. }) if room.is_some() => self.left = true,
                DriverInput::Engine(EngineInput::Message { .. }) if self.waits_since_ms.is_some() => {}
                DriverInput::Engine(input) => {
                    self.note(&input);
                    self.inputs.push(input);
                }
                DriverInput::Consensus { from, frame } => {
                    self.shared.replicators.taken();
                    if self.waits_since_ms.is_some() {
                        continue;
                    }
                    let (number, division) = (self.number, self.division);
                    let whole = peer_frame::each(frame, |shard, bytes| {
                        if division.of(shard) != number {
                            return;
                        }
                        match room.as_mut().is_none_or(|room| room.takes(&bytes)) {
                            true => self.inputs.push(EngineInput::Message { from, shard, bytes }),
                            false => self.left = true,
                        }
                    });
                    if let Err(why) = whole {
                        not_understood(&self.shared, from, why);
                    }
                }
                DriverInput::Checksums { from, checksums } => {
                    self.shared.replicators.taken();
                    self.hear_checksums(from, &checksums)?;
                }
                DriverInput::Imported { shard, upto } => self.replays[usize::from(shard)].imported(upto),
                DriverInput::Archived(number) => self.log.discard(number),
                DriverInput::Fail(error) => return Err(error),
                DriverInput::Stop => is_last = true,
            }
        }
        let clock = &self.shared.world.clock;
        let mono_ms = clock.monotonic_ms();
        let now = Now { wall_ms: clock.wall_ms(), mono_ms };
        if now.mono_ms >= self.next_tick_ms {
            self.next_tick_ms = now.mono_ms + TICK_MS;
            self.tick(now.mono_ms)?;
            if self.waits_since_ms.is_none() {
                self.inputs.push(EngineInput::Tick);
            }
        }
        Ok(Turn { now, is_last })
    }

    fn note(&mut self, input: &EngineInput<Ticket>) {
        if let EngineInput::SnapshotSaved { shard, replica, index } = input
            && self.engine.group(*shard).is_some_and(|group| group.replica == *replica)
        {
            self.snapshots_kept[usize::from(*shard)].add(*index);
        }
    }

    /// How long there is nothing to do if nothing comes in.
    fn wait(&self) -> Duration {
        let until = match self.shared.read_only.load(Ordering::Relaxed) {
            // Deadlines are not handed out then, however long they are due.
            true => self.next_tick_ms,
            false => self.due_ms.iter().flatten().copied().fold(self.next_tick_ms, u64::min),
        };
        let until = self.engine.due_ms().map_or(until, |due_ms| due_ms.min(until));
        Duration::from_millis(until.saturating_sub(self.shared.world.clock.monotonic_ms()))
    }

    /// The shards of this replicator.
    fn own_cells(&self) -> impl Iterator<Item = &Arc<ShardCell>> + Clone {
        self.shared.cells.iter().filter(|cell| self.division.of(cell.id) == self.number)
    }

    /// The first half of a pass: in, and log. When it is durable, [`Driver::persisted`] is the other half.
    fn step(&mut self, turn: &Turn) -> Result<(), NodeError> {
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

    /// The other half: out. `true` if the engine has something ready for another pass in this turn.
    fn persisted(&mut self) -> Result<bool, NodeError> {
        self.engine.persisted(&mut self.outputs);
        self.take_outputs()?;
        self.flush();
        Ok(self.engine.has_ready())
    }

    /// Hands on what came of the turn, and what its time has come for.
    fn end(&mut self, turn: &Turn) {
        self.hand_on();
        self.hand_out_deadlines(turn.now.mono_ms);
    }

    /// Hands on what was carried out to those who wait for it.
    fn hand_on(&mut self) {
        if !self.commits.is_empty() {
            self.shared.far_feeds.commit(&self.shared, &self.commits);
            self.shared.feeds.commit(std::mem::take(&mut self.commits));
        }
        if !self.settled.is_empty() {
            // The relay ends only after this loop.
            let _ = self.settle.send(std::mem::take(&mut self.settled));
        }
    }

    fn take_outputs(&mut self) -> Result<(), NodeError> {
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut rest = outputs.drain(..).peekable();
        while let Some(output) = rest.next() {
            match output {
                Output::Apply { shard, position, stamp, turns } => {
                    self.set_distance(shard, stamp.distance_ms);
                    // Who waits for it is told when all outputs are taken.
                    let mut settled = std::mem::take(&mut self.settled);
                    let first = settled.len();
                    while let Some(Output::Completed { ticket, index, .. }) = rest.next_if(
                        |next| matches!(next, Output::Completed { shard: of, index, .. } if (*of, *index) == (shard, position.index)),
                    ) {
                        settled.push((ticket, index));
                    }
                    let applied = self.apply(shard, position, &turns, &mut settled[first..]);
                    self.settled = settled;
                    applied?;
                }
                Output::Completed { ticket, index, .. } => self.settled.push((ticket, index)),
                Output::ProposalDropped { ticket, shard, why } => {
                    // A turn that was never appended may be the last one of a request of several: what inventories have
                    // granted for it in between stands until they hear otherwise.
                    let changed = why.is_unknown() || ticket.served.is_some();
                    if changed && !planted::is("an unknown outcome told as none") {
                        tracing::debug!(shard, ?why, "a proposal was lost; its callers hear unknown");
                        drop(ticket);
                    } else {
                        ticket.refuse(Failure::NotReady);
                    }
                }
                Output::BecameLeader { shard, epoch, time, confirmed } => {
                    if !confirmed {
                        tracing::warn!(
                            shard,
                            "no majority of the voters agrees what time it is: the shard begins with the earlier clock"
                        );
                    }
                    self.lead(shard, Reign { epoch, time });
                }
                Output::BecameFollower { shard, term, leader } => self.follow(shard, term, leader),
                Output::Restore(received) => self.restore(received)?,
                Output::SnapshotDue { meta } => self.cut(meta),
                Output::CutSnapshot { meta, .. } => {
                    let state = self.cut_for_peer(meta.shard);
                    self.shared.replicators.push(meta.shard, EngineInput::SnapshotCut { meta, state });
                }
                Output::Message(message) => self.send(message),
                Output::TargetReached { shard, version } => {
                    self.note_group(shard);
                    self.shared.reached.lock().insert(shard, version);
                    self.shared.placing.notify_one();
                }
                Output::Removed { shard, replica } => self.removed(shard, replica)?,
                Output::Fatal { shard, why } => return Err(NodeError::Broken { shard, why }),
            }
        }
        drop(rest);
        self.outputs = outputs;
        Ok(())
    }

    /// Applies a committed entry. `own` is who waits for it, if this node proposed it: what their actors decided is not read
    /// from the entry again.
    fn apply(
        &mut self,
        shard: ShardId,
        position: Position,
        turns: &Turns,
        own: &mut [(Ticket, u64)],
    ) -> Result<(), NodeError> {
        let is_own = own.iter_mut().flat_map(|(ticket, _)| ticket.proposed()).count() == turns.len();
        let mut proposed = own.iter_mut().flat_map(|(ticket, _)| ticket.proposed());
        let cell = &self.shared.cells[usize::from(shard)];
        let mut replica = cell.replica.lock();
        replica.kept.advance(position.index);
        let mut count = 0;
        // None: not compared with other replicas.
        let mut changed = self.compares(position.index).then(BTreeSet::new);
        for turn in turns.iter() {
            count += 1;
            let read =
                || codec::decode(turn).map_err(|why| NodeError::Undecodable { shard, index: position.index, why });
            let (entity, mut events, until) = match proposed.next().filter(|_| is_own) {
                Some(ProposedTurn { entity, until, events }) => {
                    #[cfg(debug_assertions)]
                    assert_eq!(
                        read().map(|(entity, _, events)| (entity, events)).ok(),
                        Some((entity.clone(), events.clone()))
                    );
                    if planted::is("a leader that applies less than it proposed") && events.len() > 1 {
                        events.pop();
                    }
                    (Cow::Borrowed(entity), std::mem::take(events), Some(until))
                }
                None => {
                    let (entity, _, mut events) = read()?;
                    let forgets = planted::is("a follower that forgets an event of a turn");
                    if forgets && self.shared.config.node_id == 2 && events.len() > 1 {
                        events.pop();
                    }
                    (Cow::Owned(entity), events, None)
                }
            };
            if let Some(changed) = &mut changed {
                changed.insert(Entity::clone(&entity));
            }
            // The log is what other nodes have: if the actor decided on anything else, nothing of it may be told to anybody.
            let check = |entity: &Entity, found: u64| match until {
                Some(decided) if decided != found => {
                    let (index, entity) = (position.index, entity.clone());
                    Err(NodeError::Diverged { shard, index, entity, found, decided })
                }
                Some(_) | None => Ok(()),
            };
            let is_watched = !replica.watched.is_empty() && replica.watched.contains(&entity);
            if !is_watched {
                match replica.kept.apply_in_memory(&entity, events) {
                    Ok(version) => {
                        check(&entity, version)?;
                        continue;
                    }
                    Err(back) => events = back,
                }
            }
            let in_memory = replica.kept.contains(&entity);
            if !in_memory {
                let (replay, history) = (&mut self.replays[usize::from(shard)], &self.shared.history);
                let brought = loop {
                    match replay.reload(history, &mut replica.kept, position.index, (&entity, &events)) {
                        Err(HistoryStoreError::Store(error)) if error.is_full() => {
                            MutexGuard::unlocked(&mut replica, || self.shared.wait_for_store(&error));
                        }
                        brought => break brought?,
                    }
                };
                match brought {
                    ReplayOutcome::New => {}
                    ReplayOutcome::Already => {
                        // It is not as it was right after this entry.
                        changed = None;
                        continue;
                    }
                    ReplayOutcome::Back => _ = self.shared.metrics.put_back.fetch_add(1, Ordering::Relaxed),
                }
            }
            // Somebody may have begun to watch it while the store was waited for.
            let is_watched = is_watched || replica.watched.contains(&entity);
            let before = if is_watched { Before::of(&replica.kept, &entity, &events) } else { None };
            check(&entity, replica.kept.apply(&entity, events))?;
            self.commits.extend(before.and_then(|before| before.commit(&replica.kept, entity.into_owned())));
        }
        let deadline = replica.kept.next_deadline();
        let changed = changed.and_then(|changed| replica.kept.cut_of(&changed));
        drop(replica);
        if let Some(changed) = changed {
            self.compare(shard, &changed)?;
        }
        self.set_due(shard, deadline);
        if shard == DIRECTORY {
            self.shared.placing.notify_one();
        }
        let cell = &self.shared.cells[usize::from(shard)];
        cell.applied.store(position.index, Ordering::Relaxed);
        self.shared.metrics.entries.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.turns.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// True time less the shard's running time is this from here on.
    fn set_distance(&self, shard: ShardId, distance_ms: i64) {
        if planted::is("a correction of the time that is not sent") {
            return;
        }
        let was_ms = self.shared.cells[usize::from(shard)].distance_ms.swap(distance_ms, Ordering::Relaxed);
        if was_ms != distance_ms {
            tracing::info!(shard, was_ms, distance_ms, "the shard's distance from true time is another one");
        }
    }

    fn set_due(&mut self, shard: ShardId, deadline: Option<Timestamp>) {
        let at = usize::from(shard);
        self.due_ms[at] = self.reigns[at].and_then(|reign| Some(mono_ms_of(reign, deadline?)));
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
                // This loop has not said yet that the leadership is over, so the entity's actor is here.
                let _ = self.shared.send(&entity, Input::Wake);
            }
        }
    }

    /// Puts a message with the others for its node.
    fn send(&mut self, message: Outgoing) {
        let Outgoing { to, shard, snapshot: Some(token), bytes } = message else {
            return self.outbox.add(message);
        };
        if !self.shared.streams.announce(&self.shared, to, shard, &token, bytes) {
            self.unreachable(to);
        }
    }

    /// Sends every node its messages, in one frame.
    fn flush(&mut self) {
        self.shared.durable.fetch_max(self.log.synced_seq(), Ordering::Relaxed);
        for (to, frame) in self.outbox.take(self.shared.durable_position()) {
            // What is not sent is lost like on a broken link: raft sends it again.
            if let Err(reason) = self.shared.world.net.send(to, Lane::Consensus, frame) {
                tracing::debug!(%reason, "messages were dropped");
                self.unreachable(to);
            }
        }
        self.tell_checksums();
    }

    fn unreachable(&self, node: NodeId) {
        self.shared.replicators.inbox(self.number).push(DriverInput::Engine(EngineInput::Unreachable { node }));
    }
}

/// Waits as long as a simulated disk says that it would have taken.
pub(crate) async fn pay_disk(disk: &dyn Disk) {
    let owed = disk.take_delay();
    if !owed.is_zero() {
        sleep(owed).await;
    }
}

/// When a shard's clock shows `at`, in milliseconds of the monotonic clock.
fn mono_ms_of(reign: Reign, at: Timestamp) -> u64 {
    reign.time.mono_base_ms + at.0.saturating_sub(reign.time.base_ms)
}

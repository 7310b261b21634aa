//! A node from start to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use boxoffice_core::{command::Command, id::Request, planted, state_map::StateMap};
use boxoffice_env::{Local, World};
use boxoffice_feeds::{FeedSettings, Feeds};
use boxoffice_shard::{Config, Engine, Record, ShardId, SnapshotMeta};
use boxoffice_storage::{
    archive_files::ArchiveFiles,
    identity::{DataDirectory, Identity, Wanted},
    lineage::Lineages,
    log::{self, GroupCommit, Log, LogConfig, Maker, Start},
    past::{Past, Replay},
    snapshot::{self, Snapshot},
    snapshot_files::SnapshotFiles,
};
use boxoffice_wire::FirstCommand;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    runtime::{self, Handle, Runtime},
    sync::{Notify, mpsc, oneshot},
};

use crate::{
    admission::Admission,
    cell::{Replica, ShardCell},
    clocks::Clocks,
    config::NodeConfig,
    contain::PanicLog,
    door::ReplyTo,
    driver::{Driver, Settled},
    error::NodeError,
    far_feeds::FarFeeds,
    history::HISTORIES_MAX,
    keeper::{Keeper, Order},
    metrics::Metrics,
    placing,
    pool::Pool,
    replicators::{Division, Replicators},
    routing::{self, Histories, Parked, PeerDoor},
    shared::Shared,
    snapshots::{self, SnapshotsKept},
    status::Samples,
    streams,
    tasks::{Gate, Tasks},
    ticket::Ticket,
    timers::{self, Timers},
    watched::Watched,
};

/// How long a node that is told to stop waits for others to take its leaderships over, in milliseconds.
const HAND_OVER_MS: u64 = 2_000;

/// The two runtimes of a node: selling is not to wait for watching.
#[derive(Clone)]
pub struct Runtimes {
    /// Actors and the connections that sell.
    pub selling: Handle,
    /// Feeds and the connections that watch.
    pub watching: Handle,
}

/// A running node. [`Node::stop`] ends it in good order; dropping it is a crash.
pub struct Node {
    handle: NodeHandle,
    drivers: Vec<Driving>,
}

/// How a replicator runs, and where its end is heard of.
enum Driving {
    Thread(JoinHandle<Result<(), NodeError>>),
    Task(oneshot::Receiver<Result<(), NodeError>>),
}

impl Driving {
    /// How it ended.
    async fn ended(self) -> Result<(), NodeError> {
        let result = match self {
            Driving::Thread(thread) => {
                tokio::task::spawn_blocking(move || thread.join()).await.ok().and_then(Result::ok)
            }
            Driving::Task(ended) => ended.await.ok(),
        };
        // A panic has been reported by the panic hook already.
        result.unwrap_or_else(|| Err(NodeError::Resources("orderly end: the replication panicked".into())))
    }
}

/// The way to a node, for as many users as like.
#[derive(Clone)]
pub struct NodeHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) identity: Identity,
}

impl Node {
    /// Starts a node from its data directory, which is made if it is not there. It serves as soon as its shards have
    /// leaders: [`NodeHandle::ready`].
    ///
    /// # Errors
    /// [`NodeError`]: the directory is in use, another node's, damaged or cannot be written.
    pub fn start(config: NodeConfig, world: World, runtimes: &Runtimes) -> Result<Node, NodeError> {
        Node::start_with(config, world, runtimes, None)
    }

    /// As [`Node::start`], without any thread: all of the node are tasks of one runtime, and while the gate is shut none of
    /// them goes on. If the runtime has one thread and its time is paused, and the world is simulated, everything happens
    /// in one order. Dropping the node ends its tasks and actors.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_as_tasks(config: NodeConfig, world: World, runtime: &Handle, gate: Gate) -> Result<Node, NodeError> {
        let runtimes = Runtimes { selling: runtime.clone(), watching: runtime.clone() };
        Node::start_with(config, world, &runtimes, Some(gate))
    }

    fn start_with(
        mut config: NodeConfig,
        world: World,
        runtimes: &Runtimes,
        gate: Option<Gate>,
    ) -> Result<Node, NodeError> {
        let maker = if gate.is_some() { Maker::Caller } else { Maker::Thread };
        Arc::make_mut(&mut config.rules).gateway = world.gateway.is_configured();
        let joining = config.joining.clone();
        let wanted = Wanted { cluster: None, node: config.node_id, shards: config.shards, joining };
        let mut directory = DataDirectory::open(&world, &config.data_dir, &wanted)?;
        let files = SnapshotFiles::open(Arc::clone(&world.disk), &directory.snapshot_dir())?;

        let mut cells = Vec::new();
        let (mut metas, mut rests) = (Vec::new(), Vec::new());
        let mut snapshots_kept = vec![SnapshotsKept::default(); usize::from(config.shards) + 1];
        for name in files.list()? {
            if let Some(kept) = snapshots_kept.get_mut(usize::from(name.shard)) {
                kept.add(name.index);
            }
        }
        let admission = Arc::new(Admission::new(config.overload, world.clock.monotonic_ms()));
        for shard in 0..=config.shards {
            let cell = ShardCell::new(shard, Arc::clone(&admission), Arc::clone(&world.clock));
            if let Some(newest) = files.load_newest(shard)? {
                for warning in &newest.warnings {
                    tracing::warn!(shard, "{warning}");
                }
                let Snapshot { meta, rests_on, cut } =
                    snapshot::decode(&newest.payload).map_err(|why| NodeError::BadSnapshot { shard, why })?;
                cell.replica.lock().kept = StateMap::restore(cut);
                cell.applied.store(meta.position.index, Ordering::Relaxed);
                rests.push((shard, rests_on));
                metas.push(meta);
            }
            cells.push(Arc::new(cell));
        }
        let owner = directory.identity().disk;
        let past = Past::open(&*world.stores, &directory.history_dir(), &config.history_store, owner, &rests)?;
        let archives = ArchiveFiles::open(Arc::clone(&world.disk), &directory.archive_dir())?;

        let witness = directory.neighbours(&*world.disk)?;
        let division = Division::new(config.replicating);
        let (log, mut records) = open_log(&config, &world, &directory, (maker, division.replicators()))?;
        let replays = check_past(&past, &cells, &metas, &records)?;
        forget_bad_snapshots(&metas, &mut records);
        let lineages = Lineages::open(&world, &directory, config.fsync);
        directory.note_log(&*world.disk)?;
        let identity = directory.identity().clone();

        let seed = world.rng.u64();
        let mut engine_config = match identity.peers.is_empty() {
            true => Config::founding(config.node_id, seed, config.shards),
            false => Config::joining(config.node_id, seed, config.shards),
        };
        engine_config.generation_min = identity.generation_min;
        // An entry must fit into a segment of the log.
        let entry_bytes = usize::try_from(config.log_segment_bytes / 4).unwrap_or(usize::MAX);
        engine_config.entry_bytes = engine_config.entry_bytes.min(entry_bytes);
        engine_config.snapshot_entries = config.snapshot_entries;
        engine_config.snapshot_bytes = config.snapshot_bytes;
        let engines = restore(&engine_config, division, &metas, records)?;
        let engine_of = |shard: ShardId| &engines[division.of(shard)];
        for meta in metas.iter().filter(|meta| engine_of(meta.shard).snapshot_meta(meta.shard) != Some(*meta)) {
            // It is of a replica that is gone.
            let cell = &cells[usize::from(meta.shard)];
            *cell.replica.lock() = Replica::default();
            cell.applied.store(0, Ordering::Relaxed);
        }
        for (shard, engine) in engines.iter().flat_map(|engine| engine.shards().map(move |shard| (shard, engine))) {
            let group = engine.group(shard).expect("a shard that the engine has");
            cells[usize::from(shard)].group_id.store(group.replica.bits(), Ordering::Relaxed);
            if group.members.contains(group.replica) {
                cells[usize::from(shard)].replica_id.store(group.replica.bits(), Ordering::Relaxed);
            }
        }

        let leftover: Vec<_> = (0..=config.shards).filter(|shard| engine_of(*shard).group(*shard).is_none()).collect();
        leftover.iter().for_each(|shard| past.give_up(*shard));

        let epoch = lineages.epoch();
        let (coalesce_ms, depth) = (config.feed_tick_ms, config.feed_depth);
        let feed_settings = FeedSettings { coalesce_ms, depth, epoch, ..FeedSettings::default() };
        let shared = Arc::new_cyclic(|weak: &std::sync::Weak<Shared>| Shared {
            feeds: Feeds::new(Arc::new(Watched(weak.clone())), feed_settings, Arc::clone(&world.clock)),
            replicators: Replicators::new(division),
            timers: Timers::default(),
            pool: Pool::default(),
            tasks: Tasks::new(runtimes.selling.clone(), runtimes.watching.clone(), gate),
            metrics: Metrics::default(),
            admission,
            panic_log: PanicLog::default(),
            samples: Samples::default(),
            draining: AtomicBool::new(false),
            read_only: AtomicBool::new(false),
            history_full: AtomicBool::new(false),
            past,
            archives,
            alone: AtomicBool::new(config.peer_address.is_empty()),
            far_histories: Histories::default(),
            calls: Arc::default(),
            parked: Parked::default(),
            asked: Arc::default(),
            streams: Arc::default(),
            far_feeds: FarFeeds::default(),
            clocks: Clocks::new(&*world.clock),
            lineages,
            placing: Notify::new(),
            reached: Mutex::default(),
            witness,
            run: world.rng.u64(),
            directory_heard_ms: AtomicU64::new(0),
            durable: AtomicU64::new(log.synced_seq()),
            turn: AtomicU16::new(0),
            log_dir: directory.log_dir(),
            snapshot_files: files.clone(),
            histories: tokio::sync::Semaphore::new(HISTORIES_MAX),
            failed: tokio::sync::watch::Sender::new(None),
            started_ms: world.clock.monotonic_ms(),
            cluster: identity.cluster,
            config,
            world,
            cells,
            _directory: directory,
        });
        let snapshots = Arc::new(snapshots::Writer::start(&shared, files)?);
        let (settle, settled) = mpsc::unbounded_channel();
        shared.tasks.sell(relay(Arc::clone(&shared), settled));
        let feeds = shared.feeds.clone();
        shared.tasks.watch(async move { feeds.run().await });
        shared.tasks.sell(timers::run(Arc::downgrade(&shared)));
        let local = Local { cluster: identity.cluster.0, node: identity.node, disk: identity.disk };
        let mut replication = replication(&shared)?;
        let handle = replication.as_ref().map(Runtime::handle);
        shared.world.net.start(local, Arc::new(PeerDoor(Arc::downgrade(&shared))), handle);
        shared.tasks.sell(routing::run(Arc::downgrade(&shared)));
        shared.tasks.sell(routing::ask_again(Arc::downgrade(&shared)));
        shared.tasks.sell(streams::run(Arc::downgrade(&shared), !shared.tasks.only()));
        // A node that no other can reach founds nothing; once it is given an address it does.
        if !shared.is_alone() {
            shared.tasks.sell(placing::run(Arc::downgrade(&shared), identity.clone()));
        }
        let keeper = Arc::new(Keeper::start(&shared)?);
        // What was left of replicas that had ended when the process before did.
        leftover.into_iter().for_each(|shard| keeper.order(Order::Clear(shard)));
        let mut drivers = Vec::new();
        for (number, (engine, log)) in engines.into_iter().zip(GroupCommit::writers(log)).enumerate() {
            let snapshots = (Arc::clone(&snapshots), snapshots_kept.clone());
            let past = (Arc::clone(&keeper), replays.clone());
            let driver = Driver::new(Arc::clone(&shared), (number, engine, log), settle.clone(), snapshots, past);
            drivers.push(drive(&shared, driver, number, replication.take())?);
        }
        Ok(Node { handle: NodeHandle { shared, identity }, drivers })
    }

    /// The way to this node.
    pub fn handle(&self) -> &NodeHandle {
        &self.handle
    }

    /// Ends the node in good order: takes no new commands, waits up to `patience_ms` for the answers under way, writes
    /// what is decided, and stops.
    ///
    /// # Errors
    /// Why the replication had ended before, or could not write the rest.
    pub async fn stop(mut self, patience_ms: u64) -> Result<(), NodeError> {
        let shared = Arc::clone(&self.handle.shared);
        shared.draining.store(true, Ordering::Relaxed);
        shared.placing.notify_one();
        let began_ms = shared.world.clock.monotonic_ms();
        let until_ms = began_ms + patience_ms;
        // Others lead what this node led before it goes, if there are others.
        while shared.leads_for_others() && shared.world.clock.monotonic_ms() < began_ms + patience_ms.min(HAND_OVER_MS)
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        while shared.cells.iter().any(|cell| cell.under_way() > 0) && shared.world.clock.monotonic_ms() < until_ms {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        shared.replicators.stop();
        let mut result = Ok(());
        for driver in std::mem::take(&mut self.drivers) {
            result = result.and(driver.ended().await);
        }
        for cell in &shared.cells {
            let ended = cell.lead.lock().end(|served| {
                served.actor.stop(None);
                true
            });
            drop(ended);
        }
        shared.pool.stop();
        result
    }
}

impl Drop for Node {
    /// Only what runs as tasks can be ended where it stands; a process with threads ends as a whole.
    fn drop(&mut self) {
        let shared = &self.handle.shared;
        if !shared.tasks.only() {
            // A simulation sees every panic itself.
            #[cfg(debug_assertions)]
            crate::contain::planted::check(&shared.metrics);
            return;
        }
        shared.draining.store(true, Ordering::Relaxed);
        shared.tasks.abort();
        for cell in &shared.cells {
            let ended = cell.lead.lock().end(|served| {
                served.actor.kill();
                true
            });
            drop(ended);
        }
        shared.pool.kill();
        // Whoever waits for something in here hears `unknown`.
        shared.replicators.clear();
    }
}

/// Starts a replicator; if it fails, the others end as well, and the node takes no more commands and says why.
fn drive(
    shared: &Arc<Shared>,
    driver: Driver,
    number: usize,
    replication: Option<Runtime>,
) -> Result<Driving, NodeError> {
    let ended = {
        let shared = Arc::clone(shared);
        move |result: &Result<(), NodeError>| {
            if let Err(error) = result {
                shared.draining.store(true, Ordering::Relaxed);
                shared.failed.send_if_modified(|why| {
                    let is_first = why.is_none();
                    why.get_or_insert_with(|| error.to_string());
                    is_first
                });
                shared.replicators.stop();
            }
        }
    };
    if shared.tasks.only() {
        let (sender, receiver) = oneshot::channel();
        shared.tasks.sell(async move {
            let result = driver.run_as_task().await;
            ended(&result);
            // Nobody may be waiting for its end.
            let _ = sender.send(result);
        });
        return Ok(Driving::Task(receiver));
    }
    let run = move || {
        let result = match replication {
            Some(runtime) => runtime.block_on(driver.run_as_task()),
            None => driver.run(),
        };
        ended(&result);
        result
    };
    let name = if number == 0 { "replication".to_owned() } else { format!("replication-{number}") };
    let thread = thread::Builder::new().name(name).spawn(run);
    let thread = thread.map_err(|error| NodeError::Resources(format!("thread for replication ({error})")))?;
    Ok(Driving::Thread(thread))
}

/// What the replication's thread runs on where there are other nodes: their consensus comes and goes by it, without a way
/// through another thread.
fn replication(shared: &Shared) -> Result<Option<Runtime>, NodeError> {
    if shared.tasks.only() || shared.is_alone() {
        return Ok(None);
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    Ok(Some(runtime.map_err(|error| NodeError::Resources(format!("what replication runs on ({error})")))?))
}

/// Opens the log and reads back what the engine had written.
fn open_log(
    config: &NodeConfig,
    world: &World,
    directory: &DataDirectory,
    (maker, writers): (Maker, usize),
) -> Result<(Log, Vec<Record>), NodeError> {
    let identity = directory.identity();
    let start = if identity.has_log { Start::Existing } else { Start::New };
    let mut records = Vec::new();
    let mut undecodable = None;
    let mut replay = |record: log::Record<'_>| match Record::decode_all(Bytes::copy_from_slice(record.payload)) {
        Ok(decoded) => records.extend(decoded),
        Err(error) => undecodable = undecodable.take().or(Some((record.seq, error.to_string()))),
    };
    let (disk, rng) = (Arc::clone(&world.disk), Arc::clone(&world.rng));
    let log_config = LogConfig { maker, writers, ..LogConfig::new(identity.disk, config.log_segment_bytes) };
    let (mut log, recovery) = Log::open(disk, rng, &directory.log_dir(), log_config, start, &mut replay)?;
    if let Some((seq, why)) = undecodable {
        return Err(NodeError::UndecodableRecord { seq, why });
    }
    records.retain(|record| !(planted::is("a vote forgotten") && matches!(record, Record::State { .. })));
    if let Some(cut) = &recovery.cut {
        tracing::warn!(file = %cut.file.display(), offset = cut.offset, bytes = cut.bytes, why = cut.why,
            "the end of the log was not written whole and was cut off; it was never acknowledged");
    }
    log.note_start()?;
    Ok((log, records))
}

/// The engines of the replicators, each with what was kept of its shards.
fn restore(
    config: &Config,
    division: Division,
    metas: &[SnapshotMeta],
    records: Vec<Record>,
) -> Result<Vec<Engine<Ticket>>, NodeError> {
    let mut parts: Vec<Vec<Record>> = (0..division.replicators()).map(|_| Vec::new()).collect();
    records.into_iter().for_each(|record| parts[division.of(record.shard())].push(record));
    let engines = parts.into_iter().enumerate().map(|(number, records)| {
        let mut config = config.clone();
        config.seed = config.seed.wrapping_add(number as u64);
        config.groups.retain(|shard, _| division.of(*shard) == number);
        let metas = metas.iter().filter(|meta| division.of(meta.shard) == number).cloned();
        Ok(Engine::restore(config, metas, records)?)
    });
    engines.collect()
}

/// Looks whether the store is of the same moment as snapshots and log; returns for each shard up to where it tells. What
/// snapshots cut from now on rest on is what the store has now: it was read from there.
fn check_past(
    past: &Past,
    cells: &[Arc<ShardCell>],
    metas: &[SnapshotMeta],
    records: &[Record],
) -> Result<Vec<Replay>, NodeError> {
    let mut ends = vec![0; cells.len()];
    for meta in metas {
        ends[usize::from(meta.shard)] = meta.position.index;
    }
    let mut logs = vec![0; cells.len()];
    let mut replicas = vec![None; cells.len()];
    for record in records {
        let Some(end) = logs.get_mut(usize::from(record.shard())) else { continue };
        match record {
            // An entry replaces what was written at its place and after it before.
            Record::Entry { position, .. } => *end = position.index,
            Record::Reset { index, .. } => *end = *index,
            // What was kept of it here tells of a log that is elsewhere now; if it comes back it brings its history along.
            Record::Gone { .. } => *end = u64::MAX,
            // Every part of the log begins with it again; another one begins with nothing.
            Record::Replica { shard, replica } => {
                if replicas[usize::from(*shard)].replace(*replica) != Some(*replica) {
                    *end = 0;
                }
            }
            Record::State { .. } | Record::Snapshot { .. } => {}
        }
    }
    let mut replays = Vec::with_capacity(cells.len());
    for cell in cells {
        let at = usize::from(cell.id);
        let last = ends[at].max(logs[at]);
        // Without snapshot and entries the replica has no state yet, and the store what is left of an earlier one.
        if last > 0 {
            past.check_ends(cell.id, last)?;
        }
        let shard = past.shard(cell.id)?;
        cell.replica.lock().rests_on = shard.batches;
        replays.push(Replay::new(cell.id, shard.upto));
    }
    Ok(replays)
}

/// Where a damaged snapshot was passed over for an older one, the log must not insist on the newer: it is kept from the
/// older one on. If entries are missing all the same, the engine says so.
fn forget_bad_snapshots(metas: &[SnapshotMeta], records: &mut Vec<Record>) {
    records.retain(|record| match record {
        Record::Snapshot { shard, index } => {
            metas.iter().all(|meta| meta.shard != *shard || *index <= meta.position.index)
        }
        _ => true,
    });
}

/// Carries out what was held back until it was committed, on the selling runtime.
async fn relay(shared: Arc<Shared>, mut settled: mpsc::UnboundedReceiver<Settled>) {
    while let Some(batch) = settled.recv().await {
        for (ticket, index) in batch {
            shared.settle(ticket, index);
        }
    }
}

impl NodeHandle {
    /// Takes a command; its answer goes to `reply`. Never blocks.
    pub fn submit(&self, command: Command, request: Option<Request>, reply: ReplyTo) {
        self.shared.submit(command, request, reply);
    }

    /// Whether a command that comes now is shed because of overload, and then after how many milliseconds its client should
    /// try again. Such a command is counted, and is not to be submitted. To ask costs less than to submit.
    pub fn sheds(&self, command: &Command, request: Option<Request>) -> Option<u32> {
        self.shared.sheds(command, request)
    }

    /// The same for a command of which only the head was read: `command` says which, if that must be known. Where this says `None` the whole command may still be shed.
    pub fn sheds_first(&self, command: &dyn Fn() -> Option<FirstCommand>) -> Option<u32> {
        self.shared.sheds_first(command)
    }

    /// Whether the node refuses commands because of overload.
    pub fn is_shedding(&self) -> bool {
        self.shared.admission.is_shedding()
    }

    /// The live feeds of this node.
    pub fn feeds(&self) -> &Feeds {
        &self.shared.feeds
    }

    /// The node's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The wall clock of this node, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.shared.world.clock.wall_ms()
    }

    /// Who this node is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How the node is set.
    pub fn config(&self) -> &NodeConfig {
        &self.shared.config
    }

    /// Whether every shard can be sold from.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self) -> Result<(), String> {
        if self.shared.draining.load(Ordering::Relaxed) {
            return Err("draining".into());
        }
        self.shared.all_led().map_err(|without| format!("{without} shards have no leader yet"))?;
        if self.shared.read_only.load(Ordering::Relaxed) {
            return Err("read-only: the disk is full".into());
        }
        Ok(())
    }

    /// Resolves with the reason when the node cannot go on.
    pub async fn failed(&self) -> String {
        let mut failed = self.shared.failed.subscribe();
        let reason = failed.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // The sender lives in what this handle holds.
            None => std::future::pending().await,
        }
    }
}

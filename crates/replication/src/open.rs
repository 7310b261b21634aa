//! Reads the data directory back at the start.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use boxoffice_core::{planted, state_map::StateMap, version::WriteVersion};
use boxoffice_env::World;
use boxoffice_shard::{Config, Engine, EntryKind, Record, ShardId, SnapshotMeta, Turns};
use boxoffice_storage::{
    archive_files::ArchiveFiles,
    chain_file::ChainFile,
    data_epoch::EpochTracker,
    history::{HistoryStore, Replay},
    identity::{DataDirectory, Wanted},
    log::{self, Log, LogConfig, Preallocation, Start},
    snapshot::{self, Snapshot},
    snapshot_files::{KeptSnapshots, SnapshotFiles, SnapshotName},
};
use bytes::Bytes;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    config::ReplicationConfig,
    error::ReplicationError,
    history_reads::HistoryReads,
    metrics::Metrics,
    replication::Replication,
    replicators::{Division, Replicators},
    shard_state::{NodeLayouts, Replica, ShardState},
    snapshot_writer::SnapshotsKept,
    sync_times::SyncTimes,
};

/// A data directory as it was found, with an engine for each replicator.
pub(crate) struct Restored<T> {
    pub(crate) replication: Arc<Replication<T>>,
    pub(crate) engines: Vec<Engine<T>>,
    pub(crate) log: Log,
    pub(crate) replays: Vec<Replay>,
    pub(crate) snapshots_kept: Vec<SnapshotsKept>,
    /// Shards without a replica here. Their records in the store are removed.
    pub(crate) leftover: Vec<ShardId>,
    pub(crate) epochs: Arc<EpochTracker>,
}

/// Reads a data directory back, and creates it if it does not exist.
///
/// # Errors
/// The directory is in use, another node's, damaged or cannot be written.
pub(crate) fn restored<T>(
    config: ReplicationConfig,
    world: &World,
    preallocation: Preallocation,
) -> Result<Restored<T>, ReplicationError> {
    let wanted = Wanted {
        cluster: None,
        node: config.node_id,
        shards: config.shards,
        joining: config.joining.clone(),
        reads_up_to: config.reads_up_to,
    };
    let mut directory = DataDirectory::open(world, &config.data_dir, &wanted)?;
    let version = WriteVersion::new(directory.version());
    let mut snapshot_files = SnapshotFiles::open(Arc::clone(&world.disk), &directory.snapshot_dir())?;
    let mut snapshots_kept = vec![SnapshotsKept::default(); usize::from(config.shards) + 1];
    let layouts = Arc::new(NodeLayouts::default());
    let mut shards = Vec::new();
    let (mut metas, mut rests, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    for shard in 0..=config.shards {
        let state = ShardState::new(shard);
        state.replica.lock().kept = StateMap::sharing(layouts.clone());
        if let Some(newest) = snapshot_files.load_newest(shard)? {
            newest.warnings.iter().for_each(|warning| tracing::error!(shard, "{warning}"));
            damaged.extend(newest.damaged.iter().map(|index| SnapshotName { shard, index: *index }));
            let Snapshot { meta, store_batches, cut } =
                snapshot::decode(&newest.payload).map_err(|why| ReplicationError::BadSnapshot { shard, why })?;
            state.replica.lock().kept = StateMap::sharing(layouts.clone()).restored(cut);
            state.applied.store(meta.position.index, Ordering::Relaxed);
            state.payment_epoch.store(meta.payment_epoch.unwrap_or(0), Ordering::Relaxed);
            rests.push((shard, store_batches));
            metas.push(meta);
        }
        shards.push(Arc::new(state));
    }
    let owner = directory.identity().disk;
    let history =
        HistoryStore::open(&*world.stores, &directory.history_dir(), &config.history_store, owner, &rests, &version)?
            .measured_by(Arc::clone(&world.clock));
    let archives = ArchiveFiles::open(Arc::clone(&world.disk), &directory.archive_dir(), &version)?;
    let kept_snapshots = KeptSnapshots::new(Arc::clone(&world.disk), &directory.archive_dir(), config.kept_snapshots);
    if config.history_archive_bytes > 0 {
        snapshot_files = snapshot_files.keeping(kept_snapshots.clone());
    }
    let chain = ChainFile::new(Arc::clone(&world.disk), &directory.archive_dir(), &version);
    let peer_positions = directory.load_peer_positions(&*world.disk)?;
    let division = Division::new(config.replicators);
    let (log, mut records) = open_log(&config, world, (&directory, &version), (preallocation, division.replicators()))?;
    let replays = check_history(&history, &shards, &metas, &records)?;
    forget_bad_snapshots(&metas, &mut records);
    // Only a directory that has no log yet may have no epoch.
    let epochs = Arc::new(EpochTracker::open(world, &directory, config.fsync));
    directory.record_log_created(&*world.disk)?;

    let engine_config = engine_config(&config, world, (&directory, &version));
    let mark = engine_config.mark.clone();
    // The store may have records of entries that are not applied again yet.
    records.iter().filter_map(mark_of).for_each(|found| mark.raise(found));
    let engines = engines(&engine_config, division, &metas, records)?;
    let engine_of = |shard: ShardId| &engines[division.of(shard)];
    // The log goes on from the older ones. Another snapshot takes the place of a damaged one as soon as the state is as new.
    for name in &damaged {
        snapshot_files.remove(*name)?;
        tracing::error!(
            file = name.file_name(),
            "a damaged snapshot is removed; the one before it and the log are whole"
        );
    }
    for name in snapshot_files.list()? {
        if let Some(kept) = snapshots_kept.get_mut(usize::from(name.shard)) {
            kept.add(name.index);
        }
    }
    for meta in metas.iter().filter(|meta| engine_of(meta.shard).snapshot_meta(meta.shard) != Some(*meta)) {
        // The snapshot is of a replica that is gone.
        let state = &shards[usize::from(meta.shard)];
        *state.replica.lock() = Replica { kept: StateMap::sharing(layouts.clone()), ..Replica::default() };
        state.applied.store(0, Ordering::Relaxed);
    }
    for (shard, engine) in engines.iter().flat_map(|engine| engine.shards().map(move |shard| (shard, engine))) {
        let group = engine.group(shard).expect("a shard that the engine has");
        let state = &shards[usize::from(shard)];
        state.group_id.store(group.replica.bits(), Ordering::Relaxed);
        if group.members.contains(group.replica) {
            state.replica_id.store(group.replica.bits(), Ordering::Relaxed);
        }
    }
    let leftover: Vec<_> = (0..=config.shards).filter(|shard| engine_of(*shard).group(*shard).is_none()).collect();
    leftover.iter().for_each(|shard| history.mark_dropped(*shard));
    let replication = Arc::new(Replication {
        replicators: Replicators::new(division),
        metrics: Metrics::default(),
        sync_times: SyncTimes::default(),
        read_only: AtomicBool::new(false),
        directory_heard_ms: AtomicU64::new(0),
        history,
        reads: HistoryReads::new(),
        archives,
        kept_snapshots,
        chain,
        log_dir: directory.log_dir(),
        snapshot_files,
        history_full: AtomicBool::new(false),
        found: Mutex::default(),
        damaged_snapshots: Mutex::new(damaged),
        peer_positions,
        run: world.rng.u64(),
        durable: AtomicU64::new(log.synced_seq()),
        version,
        mark,
        directory,
        shards,
        layouts,
        world: world.clone(),
        config,
    });
    Ok(Restored { replication, engines, log, replays, snapshots_kept, leftover, epochs })
}

/// The mark that an entry carries.
fn mark_of(record: &Record) -> Option<u64> {
    match record {
        // A leader's first entry has no payload. What cannot be read is found by the engine, with its reason.
        Record::Entry { kind: EntryKind::Turns, payload, .. } => Turns::mark(payload.clone()).ok()?.1,
        _ => None,
    }
}

fn engine_config(
    config: &ReplicationConfig,
    world: &World,
    (directory, version): (&DataDirectory, &WriteVersion),
) -> Config {
    let identity = directory.identity();
    let seed = world.rng.u64();
    let mut engine = match identity.peers.is_empty() {
        true => Config::founding(config.node_id, seed, config.shards),
        false => Config::joining(config.node_id, seed, config.shards),
    };
    engine.version = version.clone();
    engine.generation_min = identity.generation_min;
    // An entry must fit into a segment of the log.
    let entry_bytes = usize::try_from(config.log_segment_bytes / 4).unwrap_or(usize::MAX);
    engine.entry_bytes = engine.entry_bytes.min(entry_bytes);
    engine.turn_bytes_max = config.turn_bytes_max();
    engine.snapshot_entries = config.snapshot_entries;
    engine.snapshot_bytes = config.snapshot_bytes;
    engine
}

/// Opens the log and reads the engine's records back.
fn open_log(
    config: &ReplicationConfig,
    world: &World,
    (directory, version): (&DataDirectory, &WriteVersion),
    (preallocation, writers): (Preallocation, usize),
) -> Result<(Log, Vec<Record>), ReplicationError> {
    let identity = directory.identity();
    let start = if identity.has_log { Start::Existing } else { Start::New };
    let mut records = Vec::new();
    let mut undecodable = None;
    let mut replay = |record: log::Record<'_>| match Record::decode_all(Bytes::copy_from_slice(record.payload)) {
        Ok(decoded) => records.extend(decoded),
        Err(error) => undecodable = undecodable.take().or(Some((record.seq, error.to_string()))),
    };
    let (disk, rng) = (Arc::clone(&world.disk), Arc::clone(&world.rng));
    let version = version.clone();
    let log_config =
        LogConfig { preallocation, writers, version, ..LogConfig::new(identity.disk, config.log_segment_bytes) };
    let (mut log, recovery) = Log::open(disk, rng, &directory.log_dir(), log_config, start, &mut replay)?;
    if let Some((seq, why)) = undecodable {
        return Err(ReplicationError::UndecodableRecord { seq, why });
    }
    records.retain(|record| !(planted::is("a vote forgotten") && matches!(record, Record::State { .. })));
    if let Some(cut) = &recovery.torn_end {
        tracing::warn!(file = %cut.file.display(), offset = cut.offset, bytes = cut.bytes, why = cut.why,
            "the end of the log was not written whole and was cut off; it was never acknowledged");
    }
    log.note_start()?;
    Ok((log, records))
}

/// The engines of the replicators, each with the snapshots and records of its shards.
fn engines<T>(
    config: &Config,
    division: Division,
    metas: &[SnapshotMeta],
    records: Vec<Record>,
) -> Result<Vec<Engine<T>>, ReplicationError> {
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

/// Checks that the store is of the same moment as the snapshots and the log. Returns the replay of each shard, with the store's
/// last log index. Snapshots cut from now on depend on all batches that the store has now.
fn check_history(
    history: &HistoryStore,
    shards: &[Arc<ShardState>],
    metas: &[SnapshotMeta],
    records: &[Record],
) -> Result<Vec<Replay>, ReplicationError> {
    let mut ends = vec![0; shards.len()];
    for meta in metas {
        ends[usize::from(meta.shard)] = meta.position.index;
    }
    let mut logs = vec![0; shards.len()];
    let mut replicas = vec![None; shards.len()];
    for record in records {
        let Some(end) = logs.get_mut(usize::from(record.shard())) else { continue };
        match record {
            // An entry replaces everything that was written before at its place and after it.
            Record::Entry { position, .. } => *end = position.index,
            Record::Reset { index, .. } => *end = *index,
            // The store's records are of a log that is elsewhere now. If the shard comes back, it brings its history along.
            Record::Gone { .. } => *end = u64::MAX,
            // Every part of the log begins with this record again. Another replica begins with nothing.
            Record::Replica { shard, replica } => {
                if replicas[usize::from(*shard)].replace(*replica) != Some(*replica) {
                    *end = 0;
                }
            }
            Record::State { .. } | Record::Snapshot { .. } => {}
        }
    }
    let mut replays = Vec::with_capacity(shards.len());
    for state in shards {
        let at = usize::from(state.id);
        let last = ends[at].max(logs[at]);
        // Without snapshot and entries the replica has no state yet, and the store's records are left from an earlier one.
        if last > 0 {
            history.check_not_ahead(state.id, last)?;
        }
        let shard = history.shard(state.id)?;
        state.replica.lock().store_batches = shard.batches;
        replays.push(Replay::new(state.id, shard.upto));
    }
    Ok(replays)
}

/// If a damaged snapshot was skipped for an older one, the log must not insist on the newer one. The log has the entries from the
/// older one on. If entries are missing all the same, the engine says so.
fn forget_bad_snapshots(metas: &[SnapshotMeta], records: &mut Vec<Record>) {
    records.retain(|record| match record {
        Record::Snapshot { shard, index } => {
            metas.iter().all(|meta| meta.shard != *shard || *index <= meta.position.index)
        }
        _ => true,
    });
}

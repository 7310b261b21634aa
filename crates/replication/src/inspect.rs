//! Inspects a data directory that no node has open. Nothing that a node keeps in it is changed. The store of ended entities is
//! opened for it, and may tidy its own files.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use boxoffice_core::{
    event::Event,
    id::Entity,
    state_map::{ShardAudit, StateMap},
    time::Timestamp,
    version::{NEWEST, WriteVersion},
};
use boxoffice_env::{StoreSettings, World};
use boxoffice_shard::{EntryKind, Position, Record, ReplicaId, ShardId, Turns};
use boxoffice_storage::{
    codec,
    history::{HistoryStore, Replay, ReplayOutcome, Totals},
    identity::{self, Identity},
    log::{self, Recovery},
    snapshot::{self, Snapshot},
    snapshot_files::SnapshotFiles,
};
use bytes::Bytes;

use crate::error::ReplicationError;

/// The content of a data directory.
pub struct Inspection {
    /// The owner of the directory.
    pub identity: Identity,
    /// The result of reading the log.
    pub recovery: Recovery,
    /// By shard.
    pub shards: Vec<InspectedShard>,
    /// Damaged snapshots that were skipped, and why.
    pub warnings: Vec<String>,
}

/// A data directory with every entry of its log applied.
pub struct DirectoryContent {
    pub identity: Identity,
    pub recovery: Recovery,
    pub warnings: Vec<String>,
    /// By shard.
    pub shards: Vec<ShardContent>,
    /// The store of entities that have left memory, if there is one.
    pub history: Option<HistoryStore>,
}

/// One shard of it.
pub struct ShardContent {
    pub shard: ShardId,
    /// The last entry in its newest snapshot. 0 without one.
    pub snapshot: u64,
    /// The last entry in the log, or the snapshot's if there is none.
    pub last: u64,
    /// Its entities outside the store.
    pub kept: StateMap,
}

/// One shard on disk.
pub struct InspectedShard {
    pub shard: ShardId,
    /// The last entry in its newest snapshot. 0 without one.
    pub snapshot: u64,
    /// The last entry in the log, or the snapshot's if there is none.
    pub last: u64,
    /// The sums of its entities outside the store, with every entry of the log applied. A cluster's last entries may not be
    /// committed. An entity that left after the snapshot is in both sums.
    pub audit: ShardAudit,
    /// The sums of its entities in the store.
    pub left: Totals,
}

/// One turn of the log.
pub struct InspectedTurn {
    pub shard: ShardId,
    /// The place of its entry.
    pub position: Position,
    pub at: Timestamp,
    pub entity: Entity,
    pub events: Vec<Event>,
}

/// Reads the data directory at `dir` and passes every turn that is still in the log to `see`, shard by shard.
///
/// # Errors
/// As a node that would start from it, or that there is no data directory.
pub fn inspect(world: &World, dir: &Path, see: impl FnMut(&InspectedTurn)) -> Result<Inspection, ReplicationError> {
    let DirectoryContent { identity, recovery, warnings, shards, history } = read(world, dir, see)?;
    let inspected = |content: ShardContent| {
        let ShardContent { shard, snapshot, last, kept } = content;
        let left = match &history {
            Some(history) => history.shard(shard)?.totals,
            None => Totals::default(),
        };
        Ok(InspectedShard { shard, snapshot, last, audit: kept.audit(), left })
    };
    let shards = shards.into_iter().map(inspected).collect::<Result<_, ReplicationError>>()?;
    Ok(Inspection { identity, recovery, shards, warnings })
}

/// The same, with everything that it has.
///
/// # Errors
/// As [`inspect`].
pub fn read(
    world: &World,
    dir: &Path,
    mut see: impl FnMut(&InspectedTurn),
) -> Result<DirectoryContent, ReplicationError> {
    let disk = Arc::clone(&world.disk);
    let identity =
        identity::read(&*disk, dir)?.ok_or_else(|| ReplicationError::NoDataDirectory { dir: dir.to_owned() })?;
    let mut entries: BTreeMap<(ShardId, u64), (Position, Bytes)> = BTreeMap::new();
    let mut replicas = LoggedReplicas::default();
    let mut undecodable = None;
    let recovery = log::inspect(&*disk, &dir.join("log"), &mut |record| match Record::decode_all(
        Bytes::copy_from_slice(record.payload),
    ) {
        Ok(records) => records.into_iter().for_each(|record| {
            if replicas.begins_anew(&record) {
                entries.retain(|(shard, _), _| *shard != record.shard());
            }
            keep_entry(&mut entries, record);
        }),
        Err(error) => undecodable = undecodable.take().or(Some((record.seq, error.to_string()))),
    })?;
    if let Some((seq, why)) = undecodable {
        return Err(ReplicationError::UndecodableRecord { seq, why });
    }
    entries.retain(|(shard, _), _| !replicas.is_gone(*shard));
    let files = SnapshotFiles::open(disk, &dir.join("snapshots"))?;
    let history = open_history(world, dir, &identity)?;
    let mut warnings = Vec::new();
    let mut shards = Vec::new();
    for shard in 0..=identity.shards {
        let (mut kept, mut snapshot) = (StateMap::new(), 0);
        if let Some(newest) = files.load_newest(shard)? {
            warnings.extend(newest.warnings);
            let Snapshot { meta, cut, .. } =
                snapshot::decode(&newest.payload).map_err(|why| ReplicationError::BadSnapshot { shard, why })?;
            kept = StateMap::restore(cut);
            snapshot = meta.position.index;
        }
        let mut last = snapshot;
        let mut replay = match &history {
            Some(history) => Some((Replay::new(shard, history.shard(shard)?.upto), history)),
            None => None,
        };
        for (position, payload) in entries.range((shard, snapshot + 1)..=(shard, u64::MAX)).map(|(_, entry)| entry) {
            last = position.index;
            if !payload.is_empty() {
                apply(shard, *position, payload, (&mut kept, replay.as_mut()), &mut see)?;
            }
        }
        shards.push(ShardContent { shard, snapshot, last, kept });
    }
    Ok(DirectoryContent { identity, recovery, warnings, shards, history })
}

fn open_history(world: &World, dir: &Path, identity: &Identity) -> Result<Option<HistoryStore>, ReplicationError> {
    let store = identity::history_dir(dir);
    if !world.stores.exists(&store) {
        return Ok(None);
    }
    Ok(Some(HistoryStore::open(
        &*world.stores,
        &store,
        &StoreSettings::default(),
        identity.disk,
        &[],
        &WriteVersion::new(NEWEST),
    )?))
}

/// Entries of a shard at the end of its log that later ones may still replace. A leader appends no more before they are committed.
pub(crate) const REPLACED_MAX: usize = 16_384;

/// Of which replicas the records of a log are, as far as it has said so. What was written before the first word is of the replica that it
/// names.
#[derive(Default)]
pub(crate) struct LoggedReplicas(BTreeMap<ShardId, LoggedReplica>);

#[derive(Default)]
struct LoggedReplica {
    replica: Option<ReplicaId>,
    /// The shard has no replica here any more, unless the log still names one.
    is_gone: bool,
}

impl LoggedReplicas {
    /// Whether the entries that follow continue a snapshot or are those of another replica, and not those before. Each segment begins
    /// with what is known of its replicas, so most words say nothing new.
    pub(crate) fn begins_anew(&mut self, record: &Record) -> bool {
        let of_shard = self.0.entry(record.shard()).or_default();
        match *record {
            Record::Reset { .. } => true,
            // Another replica that has begun without a snapshot.
            Record::Entry { position, .. } => position.index == 1,
            Record::Replica { replica, .. } => {
                of_shard.is_gone = false;
                of_shard.replica.replace(replica).is_some_and(|before| before != replica)
            }
            Record::Gone { generation, .. } => {
                of_shard.is_gone = of_shard.replica.is_none_or(|replica| replica.generation() <= generation);
                of_shard.is_gone && of_shard.replica.is_some()
            }
            Record::State { .. } | Record::Snapshot { .. } => false,
        }
    }

    /// Whether the shard has no replica here any more.
    pub(crate) fn is_gone(&self, shard: ShardId) -> bool {
        self.0.get(&shard).is_some_and(|of_shard| of_shard.is_gone)
    }
}

/// An entry replaces everything that was written before at its place and after it.
fn keep_entry(entries: &mut BTreeMap<(ShardId, u64), (Position, Bytes)>, record: Record) {
    if let Record::Entry { shard, position, kind, payload } = record {
        let replaced: Vec<_> =
            entries.range((shard, position.index)..=(shard, u64::MAX)).map(|(place, _)| *place).collect();
        for place in replaced {
            entries.remove(&place);
        }
        let payload = if kind == EntryKind::Turns { payload } else { Bytes::new() };
        entries.insert((shard, position.index), (position, payload));
    }
}

fn apply(
    shard: ShardId,
    position: Position,
    payload: &Bytes,
    (kept, mut replay): (&mut StateMap, Option<&mut (Replay, &HistoryStore)>),
    see: &mut impl FnMut(&InspectedTurn),
) -> Result<(), ReplicationError> {
    let undecodable = |why| ReplicationError::Undecodable { shard, index: position.index, why };
    let (stamp, turns) = Turns::read(payload.clone()).map_err(|error| undecodable(error.to_string()))?;
    for turn in turns.iter() {
        let (entity, _, events) = codec::decode(turn).map_err(undecodable)?;
        let turn = InspectedTurn { shard, position, at: Timestamp(stamp.true_ms()), entity, events };
        see(&turn);
        // As at the start of a node (see `history`).
        if !kept.contains(&turn.entity)
            && let Some((replay, history)) = &mut replay
            && replay.reload(history, kept, position.index, (&turn.entity, &turn.events))? == ReplayOutcome::Already
        {
            continue;
        }
        kept.apply(&turn.entity, turn.events);
    }
    Ok(())
}

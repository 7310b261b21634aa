//! Makes a data directory from a backup: that of the only node of a new cluster, at a cut through all shards.
//!
//! The entities of each shard are those of its snapshot, with every entry up to the cut applied, and its records of ended entities are
//! put into the new store. The entities may go to another number of shards. The new logs begin behind every place of the old ones, so a
//! position that a client kept is never ahead of them. The table of the members is left out, so the node founds a cluster at its start.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use boxoffice_core::{
    id::Entity,
    payment::PAYMENT_EPOCH_MAX,
    planted,
    state_map::{Cut, StateMap},
    version::{ClusterVersion, NEWEST, WriteVersion},
};
use boxoffice_env::{NodeId, StoreSettings, World};
use boxoffice_shard::{
    DIRECTORY, EntryKind, Epoch, FOUNDING, FatalError, Position, Record, ReplicaId, ShardId, SnapshotMeta, Turns, ring,
};
use boxoffice_storage::{
    codec,
    history::{HistoryStore, HistoryStoreError, StoredEntity, record},
    identity::{ClusterId, DataDirectory, Wanted},
    log::{Kind, Log, LogConfig, Preallocation, Start},
    snapshot::{self, Snapshot},
    snapshot_files::SnapshotFiles,
};
use bytes::Bytes;

use crate::{error::ReplicationError, shard_state::NodeLayouts};

/// Records that are put into the store at a time.
const BATCH: usize = 512;

/// The size of the segments of the new log, which only has what is known of its replicas. The node goes on with its own size.
const SEGMENT_BYTES: u64 = 4 << 20;

/// A backup, as it is read.
pub trait BackupSource {
    /// The number of shards besides the directory.
    fn shards(&self) -> u16;

    /// The snapshot of a shard. `None` if its entries begin with the first one.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    fn snapshot(&self, shard: ShardId) -> Result<Option<Bytes>, String>;

    /// Calls `see` with every record of a shard's ended entities.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    fn records(
        &self,
        shard: ShardId,
        see: &mut dyn FnMut(Bytes) -> Result<(), RestoreError>,
    ) -> Result<(), RestoreError>;

    /// Calls `see` with every entry of the log, those of a shard in order.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    fn entries(&self, see: &mut dyn FnMut(Record) -> Result<(), RestoreError>) -> Result<(), RestoreError>;
}

/// The cut to which a backup is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkCut {
    pub mark: u64,
    /// By shard: the first entry that is not in it.
    pub ends: BTreeMap<ShardId, u64>,
}

/// The new data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    pub dir: &'a Path,
    pub node: NodeId,
    /// Shards besides the directory.
    pub shards: u16,
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub cluster: ClusterId,
    /// Entities in memory, and those that have ended.
    pub entities: u64,
    pub ended: u64,
    /// Entries that were applied to the snapshots.
    pub entries: u64,
    /// The true time of the newest of them, in milliseconds since 1970. 0 if there is none.
    pub upto_ms: u64,
}

/// Why a backup is not restored. The data directory may be begun then, and no node starts in it.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is incomplete or damaged.
    #[error("{0}")]
    Source(String),
    /// A part of it is not what a node had.
    #[error("shard {shard} of the backup: {why}")]
    Shard { shard: ShardId, why: String },
    /// An entry is missing, or is not the one that follows.
    #[error("shard {shard} of the backup: {why}")]
    Entry { shard: ShardId, why: FatalError },
    /// The data directory cannot be made.
    #[error(transparent)]
    Target(#[from] ReplicationError),
}

impl From<HistoryStoreError> for RestoreError {
    fn from(error: HistoryStoreError) -> RestoreError {
        RestoreError::Target(error.into())
    }
}

/// A shard of the backup while its entries are applied.
struct Folded {
    /// The last entry in its snapshot.
    snapshot: u64,
    /// The description after the last entry.
    meta: SnapshotMeta,
    kept: StateMap,
    /// Entities outside memory that an entry is about.
    touched: BTreeSet<Entity>,
    /// The records of those, and of entities in memory.
    records: BTreeMap<Entity, StoredEntity>,
}

/// Makes the data directory from the backup, at the cut.
///
/// # Errors
/// [`RestoreError`].
pub fn restore(
    world: &World,
    source: &dyn BackupSource,
    cut: &MarkCut,
    target: Target<'_>,
) -> Result<Restored, RestoreError> {
    let layouts = Arc::new(NodeLayouts::default());
    let mut folded = BTreeMap::new();
    for shard in 0..=source.shards() {
        folded.insert(shard, snapshot_of(source, shard, &layouts)?);
    }
    // An entity that an entry is about may be in the records, which are too many to be kept in memory.
    each_entry(source, cut, &mut folded, |shard, folded, position, kind, payload| {
        let after = folded.meta.clone().after(position, kind, payload);
        let (meta, turns) = after.map_err(|why| RestoreError::Entry { shard, why })?;
        folded.meta = meta;
        for turn in turns.iter().flat_map(|(_, turns)| turns.iter()) {
            let entity = codec::entity(turn).map_err(|why| RestoreError::Shard { shard, why })?;
            if !folded.kept.contains(&entity) {
                folded.touched.insert(entity);
            }
        }
        Ok(())
    })?;
    for (shard, end) in &cut.ends {
        let last = folded.get(shard).map_or(0, |folded| folded.meta.position.index);
        if last + 1 != *end {
            let why = format!("its entries end at {last}, and the cut is at entry {end}");
            return Err(RestoreError::Shard { shard: *shard, why });
        }
    }
    let mut making = Making::begin(world, target)?;
    let last = making.last(&folded, source.shards());
    for shard in 0..=source.shards() {
        let of_shard = folded.get_mut(&shard).expect("every shard is folded");
        source.records(shard, &mut |bytes| {
            let stored = record::decode(&bytes).map_err(|why| RestoreError::Shard { shard, why })?;
            if of_shard.touched.contains(&stored.entity) || of_shard.kept.contains(&stored.entity) {
                of_shard.records.insert(stored.entity.clone(), stored);
                return Ok(());
            }
            making.ended(stored.entity, bytes)
        })?;
    }
    let (mut entries, mut upto_ms) = (0, 0);
    each_entry(source, cut, &mut folded, |shard, folded, position, kind, payload| {
        entries += 1;
        if kind == EntryKind::Members || payload.is_empty() {
            return Ok(());
        }
        let malformed = |why: String| RestoreError::Shard { shard, why };
        let (stamp, turns) = Turns::read(payload).map_err(|why| malformed(why.to_string()))?;
        upto_ms = stamp.true_ms().max(upto_ms);
        folded.kept.advance(position.index);
        turns.iter().try_for_each(|turn| folded.apply(position.index, turn)).map_err(malformed)
    })?;
    for folded in folded.values_mut() {
        let records = std::mem::take(&mut folded.records);
        for stored in records.into_values().filter(|stored| !folded.kept.contains(&stored.entity)) {
            making.ended_state(stored)?;
        }
    }
    let (cluster, entities, ended) = making.finish(&folded, last, &layouts)?;
    Ok(Restored { cluster, entities, ended, entries, upto_ms })
}

fn snapshot_of(source: &dyn BackupSource, shard: ShardId, layouts: &Arc<NodeLayouts>) -> Result<Folded, RestoreError> {
    let mut kept = StateMap::sharing(layouts.clone());
    let own = ReplicaId::new(1, FOUNDING);
    let mut meta = SnapshotMeta::born(shard, own, vec![own]);
    if let Some(payload) = source.snapshot(shard).map_err(RestoreError::Source)? {
        let read = snapshot::decode(&payload).map_err(|why| RestoreError::Shard { shard, why })?;
        let Snapshot { meta: found, cut, .. } = read;
        if found.shard != shard {
            let why = format!("its snapshot is that of shard {}", found.shard);
            return Err(RestoreError::Shard { shard, why });
        }
        meta = found;
        kept = kept.restored(cut);
    }
    Ok(Folded { snapshot: meta.position.index, meta, kept, touched: BTreeSet::new(), records: BTreeMap::new() })
}

/// Calls `see` with each entry of the backup that is in the cut and not in a snapshot.
fn each_entry(
    source: &dyn BackupSource,
    cut: &MarkCut,
    folded: &mut BTreeMap<ShardId, Folded>,
    mut see: impl FnMut(ShardId, &mut Folded, Position, EntryKind, Bytes) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    source.entries(&mut |record| {
        let Record::Entry { shard, position, kind, payload } = record else { return Ok(()) };
        let end = cut.ends.get(&shard).copied().unwrap_or(0);
        let Some(folded) = folded.get_mut(&shard) else { return Ok(()) };
        match position.index < end && position.index > folded.snapshot {
            true => see(shard, folded, position, kind, payload),
            false => Ok(()),
        }
    })
}

impl Folded {
    /// Applies a turn, as a node does at its start: what a record contains already is passed over.
    fn apply(&mut self, index: u64, turn: &[u8]) -> Result<(), String> {
        let (entity, _, events) = codec::decode(turn)?;
        if !self.kept.contains(&entity)
            && let Some(stored) = self.records.get(&entity)
        {
            if stored.index >= index {
                return Ok(());
            }
            let stored = self.records.remove(&entity).expect("it was just found");
            self.kept.reload(stored.entity, stored.state);
        }
        self.kept.apply(&entity, events);
        Ok(())
    }
}

/// The place of the new log's beginning.
#[derive(Clone, Copy)]
struct Last {
    position: Position,
    stamp_ms: u64,
    distance_ms: i64,
    mark: Option<u64>,
}

/// The data directory while it is made.
struct Making<'a> {
    world: &'a World,
    target: Target<'a>,
    directory: DataDirectory,
    version: WriteVersion,
    history: HistoryStore,
    /// Records to be put into the store, by shard.
    batches: BTreeMap<ShardId, Vec<Bytes>>,
    ended: u64,
}

impl<'a> Making<'a> {
    fn begin(world: &'a World, target: Target<'a>) -> Result<Making<'a>, RestoreError> {
        let Target { dir, node, shards } = target;
        let wanted = Wanted { cluster: None, node, shards, joining: None, reads_up_to: NEWEST };
        let directory = DataDirectory::open(world, dir, &wanted).map_err(ReplicationError::from)?;
        if directory.identity().has_log {
            let why = format!("{} has the data of a node; restore into an empty directory", dir.display());
            return Err(RestoreError::Source(why));
        }
        let version = WriteVersion::new(directory.version());
        let (stores, owner) = (&*world.stores, directory.identity().disk);
        let settings = StoreSettings::default();
        let history = HistoryStore::open(stores, &directory.history_dir(), &settings, owner, &[], &version)?;
        Ok(Making { world, target, directory, version, history, batches: BTreeMap::new(), ended: 0 })
    }

    fn shard_of(&self, entity: &Entity) -> ShardId {
        match entity {
            Entity::Directory | Entity::Cluster => DIRECTORY,
            _ => ring::shard_of(entity.hash_prefix(), self.target.shards),
        }
    }

    /// Where each new log begins: with the same number of shards where the old one ends, else behind all old ones.
    fn last(&self, folded: &BTreeMap<ShardId, Folded>, shards: u16) -> impl Fn(ShardId) -> Last + use<> {
        let of = |folded: &Folded| {
            let SnapshotMeta { position, stamp_ms, distance_ms, mark, .. } = folded.meta;
            let position = Position { index: position.index.max(1), term: position.term.max(1) };
            Last { position, stamp_ms, distance_ms, mark }
        };
        let own: BTreeMap<ShardId, Last> = folded.iter().map(|(shard, folded)| (*shard, of(folded))).collect();
        let latest = own.values().max_by_key(|last| last.stamp_ms).copied().expect("the directory is a shard");
        let index = own.values().map(|last| last.position.index).max().unwrap_or(1);
        let term = own.values().map(|last| last.position.term).max().unwrap_or(1);
        let mark = own.values().filter_map(|last| last.mark).max();
        let common = Last { position: Position { index, term }, mark, ..latest };
        let is_same = self.target.shards == shards;
        move |shard| if is_same { own[&shard] } else { common }
    }

    fn ended(&mut self, entity: Entity, record: Bytes) -> Result<(), RestoreError> {
        let shard = self.shard_of(&entity);
        self.ended += 1;
        let batch = self.batches.entry(shard).or_default();
        batch.push(record);
        if batch.len() < BATCH {
            return Ok(());
        }
        let batch = std::mem::take(batch);
        self.history.import(shard, &batch)?;
        Ok(())
    }

    fn ended_state(&mut self, stored: StoredEntity) -> Result<(), RestoreError> {
        let StoredEntity { index, entity, state } = stored;
        let record = record::encode_checked(self.version.get(), &Cut::one(entity.clone(), state, index));
        self.ended(entity, record)
    }

    /// Writes the snapshots and the log, and everything is durable.
    fn finish(
        mut self,
        folded: &BTreeMap<ShardId, Folded>,
        last: impl Fn(ShardId) -> Last,
        layouts: &Arc<NodeLayouts>,
    ) -> Result<(ClusterId, u64, u64), RestoreError> {
        for (shard, batch) in std::mem::take(&mut self.batches) {
            self.history.import(shard, &batch)?;
        }
        self.history.sync()?;
        let new_map = || StateMap::sharing(layouts.clone());
        let mut maps: BTreeMap<ShardId, StateMap> = (0..=self.target.shards).map(|shard| (shard, new_map())).collect();
        let mut entities = 0;
        for (entity, state) in folded.values().flat_map(|folded| folded.kept.entities()) {
            // The members were those of another cluster.
            if *entity != Entity::Cluster {
                entities += 1;
                let map = maps.get_mut(&self.shard_of(entity)).expect("placement is within the shards");
                let state = match planted::is("a request id forgotten by a restore") {
                    true => Arc::new(state.without_requests()),
                    false => Arc::clone(state),
                };
                map.reload(entity.clone(), state);
            }
        }
        let disk = Arc::clone(&self.world.disk);
        let files =
            SnapshotFiles::open(Arc::clone(&disk), &self.directory.snapshot_dir()).map_err(ReplicationError::from)?;
        let own = ReplicaId::new(self.target.node, FOUNDING);
        let version: ClusterVersion = self.version.get();
        let is_same = folded.len() == maps.len();
        // The keys of attempts that begin here differ from those of the other cluster, even for carts that are opened again.
        let payment_epoch = Some((self.directory.identity().cluster.0 as u32 & PAYMENT_EPOCH_MAX).max(1));
        let mut records = Vec::new();
        for (shard, map) in &mut maps {
            let Last { position, stamp_ms, distance_ms, mark } = last(*shard);
            map.advance(position.index);
            let chain = folded.get(shard).filter(|_| is_same).and_then(|folded| folded.meta.chain);
            let (epoch, born) = (Epoch(position.term), SnapshotMeta::born(*shard, own, vec![own]));
            let meta = SnapshotMeta {
                version,
                position,
                stamp_ms,
                distance_ms,
                epoch,
                sequence: 1,
                mark,
                chain,
                payment_epoch,
                ..born
            };
            let batches = self.history.shard(*shard)?.batches;
            let payload = snapshot::encode(&meta, batches, &snapshot::encode_state(&map.cut()));
            files.save(version, *shard, position.index, &payload).map_err(ReplicationError::from)?;
            let Position { index, term } = position;
            Record::Replica { shard: *shard, replica: own }.encode(&mut records);
            Record::State { shard: *shard, term, vote: None, commit: index }.encode(&mut records);
            Record::Snapshot { shard: *shard, index }.encode(&mut records);
        }
        self.write_log(&records)?;
        let cluster = self.directory.identity().cluster;
        self.directory.record_log_created(&*disk).map_err(ReplicationError::from)?;
        Ok((cluster, entities, self.ended))
    }

    fn write_log(&self, records: &[u8]) -> Result<(), RestoreError> {
        let identity = self.directory.identity();
        let config = LogConfig {
            preallocation: Preallocation::Inline,
            version: self.version.clone(),
            ..LogConfig::new(identity.disk, SEGMENT_BYTES)
        };
        let (disk, rng) = (Arc::clone(&self.world.disk), Arc::clone(&self.world.rng));
        let written = Log::open(disk, rng, &self.directory.log_dir(), config, Start::New, &mut |_| {}).and_then(
            |(mut log, _)| {
                log.append(Kind::Checkpoint, &[records], &[])?;
                log.seal()
            },
        );
        Ok(written.map_err(ReplicationError::from)?)
    }
}

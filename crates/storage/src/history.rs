//! The history store: entities that have left memory, by shard and key.
//!
//! **Why nothing is lost or doubled.** An entity leaves memory only when its record is durable in the store. So memory and
//! the durable store together are always complete. A snapshot contains memory only and names the last batch of the store that it
//! needs. A start without that batch is refused. What came behind it may be lost, because the log has its entries again.
//!
//! A record contains every event of its entity up to a log index. After a crash the log is replayed from the snapshot
//! on, and the store may be ahead of it. Events that the record contains are skipped. Later events apply to the
//! record's state, which is reloaded into memory first. An entity that the snapshot has in memory goes through its
//! events again and leaves again. An older record never replaces a newer one.
//!
//! The store is never ahead of the durable log, because only entities whose entries are synced are written to it.
//!
//! Nearly every lookup is for an entity that never left. A Bloom filter in memory answers it without the store.
//! `filter.rs` says why the filter never hides a record.
//!
//! A read may wait for the disk for seconds, so it belongs on a thread that nothing else waits for. [`HistoryStore::look_up`] says
//! what is known without one. A read that fails makes one record or one block unreadable, and nothing else (`damage.rs`).

mod damage;
mod filter;
pub mod record;
mod replay;
mod totals;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use boxoffice_core::{
    id::Entity,
    planted,
    state_map::EvictionCandidate,
    stored::{Decode, Schema, Stored},
    version::WriteVersion,
};
use boxoffice_env::{Clock, KeyValue, Store, StoreError, StoreSettings, Stores, no_wait};
use boxoffice_shard::ShardId;
use bytes::{BufMut, Bytes, BytesMut};
use tracing_mutex::parkinglot::{Mutex, MutexGuard};

pub use damage::Damage;
use damage::{Damages, Gap, Scanned};
use filter::Filter;
pub use record::StoredEntity;
pub use replay::{Replay, ReplayLookup, ReplayOutcome};
pub use totals::Totals;

const OWNER_KEY: &[u8] = b"owner";
/// The prefix of record keys. The shard's number follows, then the entity's key.
const RECORDS: &[u8] = b"e";
const SHARD_BYTES: usize = size_of::<ShardId>();
/// Records read at a time in a scan.
const SCAN: usize = 256;

/// A node's store of entities that have left memory.
pub struct HistoryStore {
    store: Arc<dyn Store>,
    dir: PathBuf,
    /// The version under which records are written.
    version: WriteVersion,
    /// Locked by each batch, and while an audit compares the totals with the records.
    writing: Mutex<WriterState>,
    /// Shards without a replica here, whose records are to be removed.
    dropped_shards: Mutex<BTreeSet<ShardId>>,
    filter: Filter,
    /// The last key that the scan at the start has added to the filter.
    filled: Mutex<Option<Bytes>>,
    lookups: LookupCounts,
    reads: ReadCounts,
    /// Measures reads. `None` if nobody asks.
    clock: Option<Arc<dyn Clock>>,
    /// The shards' summaries as they were last read or written, for statistics.
    summaries: Mutex<BTreeMap<ShardId, ShardHistory>>,
    damages: Damages,
}

/// What is known of an entity's record without reading the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It has none.
    None,
    /// It is damaged and lacks events, so it is of no use.
    Behind,
    /// Only the store knows.
    Unread,
}

/// Reads of the store since the start.
#[derive(Debug, Default)]
pub struct ReadCounts {
    /// Reads, of one key or of a part of a scan.
    pub reads: AtomicU64,
    /// Time spent in them, in microseconds.
    pub us: AtomicU64,
    /// The longest of them, in microseconds.
    pub us_max: AtomicU64,
    /// Those that failed for another reason than a lack of room.
    pub failed: AtomicU64,
}

/// Lookups of entities without a record.
#[derive(Debug, Default)]
pub struct LookupCounts {
    /// Answered by the filter.
    pub filtered: AtomicU64,
    /// Answered by the store.
    pub missed: AtomicU64,
}

/// A writer's knowledge of the store.
#[derive(Default)]
pub struct WriterState {
    /// The shards' summaries as last written. Empty after a failure, because only the store knows then what it has.
    shards: BTreeMap<ShardId, ShardHistory>,
    /// By shard: the last log index of records that this process did not write itself, or may have written without
    /// success.
    found: BTreeMap<ShardId, u64>,
    /// Batches that failed.
    failures: u64,
}

impl WriterState {
    /// Whether the store may have a record of a leaving entity. It has none if the entity leaves for the first time and began
    /// behind every record that was found.
    fn may_have(&self, shard: ShardId, leaving: &EvictionCandidate) -> bool {
        if planted::is("a record that is not looked up") {
            return false;
        }
        let found = self.found.get(&shard).copied().unwrap_or(u64::MAX);
        leaving.began.is_none_or(|began| began <= found)
    }
}

/// Adds what the store keeps besides the records of entities.
#[doc(hidden)]
pub fn schema(schema: &mut Schema) {
    ShardHistory::shape(schema);
    damage::schema(schema);
}

/// The store's summary of a shard, written with every batch of its records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct ShardHistory {
    /// The last log index of any record.
    #[n(0)]
    pub upto: u64,
    /// How many batches the store had with the last one of this shard.
    #[n(1)]
    pub batches: u64,
    /// The sums of the records.
    #[n(2)]
    pub totals: Totals,
    /// The last log index of records imported from another node. They are committed, and may be ahead of the log here.
    #[n(3)]
    pub imported_upto: u64,
}

/// The store cannot be used with this data directory, or failed.
#[derive(Debug, thiserror::Error)]
pub enum HistoryStoreError {
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A snapshot needs the store, and it does not exist.
    #[error(
        "the history in {} is gone: the snapshot of shard {shard} needs it; put the directory back as it was, or restore the \
         whole data directory from one backup; in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    Missing {
        dir: PathBuf,
        /// A shard that needs it.
        shard: ShardId,
    },
    /// It lacks batches that a snapshot needs.
    #[error(
        "the history in {} is older than the snapshot of shard {shard}: its last batch of it is {found}, and {needed} is needed; it was \
         damaged or comes from another backup: restore the whole data directory from one backup, or in a cluster empty it and let \
         the node join anew",
        .dir.display()
    )]
    Older {
        dir: PathBuf,
        shard: ShardId,
        /// The last batch of the shard that it has.
        found: u64,
        /// The batch that the snapshot needs.
        needed: u64,
    },
    /// It is ahead of the log.
    #[error(
        "the history in {} tells of shard {shard} up to entry {upto}, the log and snapshots end at {last}: they are not of the \
         same moment; restore the whole data directory from one backup, or in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    Newer {
        dir: PathBuf,
        shard: ShardId,
        /// The last log index in the store.
        upto: u64,
        /// The last entry of the log.
        last: u64,
    },
    /// It was made for another data directory.
    #[error("the history in {} belongs to another data directory; put it back where it came from", .dir.display())]
    Foreign { dir: PathBuf },
    /// A record cannot be decoded.
    #[error(
        "the record of {what} in {} cannot be understood: {why}; it is damaged, or was written by a newer version: restore the \
         whole data directory from one backup, or in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    BadRecord {
        dir: PathBuf,
        /// The entity or key.
        what: String,
        why: String,
    },
    /// A part of it is damaged. The rest can be used.
    #[error(
        "{what} of shard {shard} in {} cannot be read: {why}; the store is damaged: in a cluster replace this node's data \
         directory, or restore the whole of it from one backup",
        .dir.display()
    )]
    Damaged {
        dir: PathBuf,
        shard: ShardId,
        /// The record, or the records.
        what: String,
        why: String,
    },
}

impl HistoryStore {
    /// Opens the store in `dir` for the data directory `owner`. `snapshots` has the last batch that each shard's snapshot needs.
    /// Records are written under `version`.
    ///
    /// # Errors
    /// [`HistoryStoreError`].
    pub fn open(
        stores: &dyn Stores,
        dir: &Path,
        settings: &StoreSettings,
        owner: u128,
        snapshots: &[(ShardId, u64)],
        version: &WriteVersion,
    ) -> Result<HistoryStore, HistoryStoreError> {
        let needs = snapshots.iter().find(|(_, batches)| *batches > 0);
        if let Some(&(shard, _)) = needs
            && !stores.exists(dir)
        {
            return Err(HistoryStoreError::Missing { dir: dir.to_owned(), shard });
        }
        let needed = snapshots.iter().map(|(_, batches)| *batches).max().unwrap_or(0);
        let store = stores.open(dir, settings, needed)?;
        let history = HistoryStore {
            store,
            dir: dir.to_owned(),
            version: version.clone(),
            writing: Mutex::default(),
            dropped_shards: Mutex::default(),

            filter: Filter::new(),
            filled: Mutex::default(),
            lookups: LookupCounts::default(),
            reads: ReadCounts::default(),
            clock: None,
            summaries: Mutex::default(),
            damages: Damages::default(),
        };
        let owner = Bytes::copy_from_slice(&owner.to_be_bytes());
        match history.read(|store| store.get(OWNER_KEY))? {
            Some(found) if found != owner => return Err(HistoryStoreError::Foreign { dir: history.dir }),
            Some(_) => {}
            None => history.store.write(&[(Bytes::from_static(OWNER_KEY), owner)])?,
        }
        // The process before may have ended between a batch and its sync. From now on its batches are read, so they
        // must not be lost.
        history.store.sync()?;
        history.load_marks()?;
        for &(shard, needed) in snapshots {
            let found = history.shard(shard)?.batches;
            if found < needed {
                return Err(HistoryStoreError::Older { dir: history.dir, shard, found, needed });
            }
        }
        Ok(history)
    }

    /// Measures its reads by this clock from now on.
    #[must_use]
    pub fn measured_by(mut self, clock: Arc<dyn Clock>) -> HistoryStore {
        self.clock = Some(clock);
        self
    }

    /// Reads of the store so far.
    pub fn reads(&self) -> &ReadCounts {
        &self.reads
    }

    /// Every read of the store goes through here. It may wait for the disk.
    fn read<T>(&self, read: impl FnOnce(&dyn Store) -> Result<T, StoreError>) -> Result<T, HistoryStoreError> {
        may_wait();
        let now_ns = || self.clock.as_ref().map_or(0, |clock| clock.monotonic_ns());
        let began_ns = now_ns();
        let found = read(&*self.store);
        let us = now_ns().saturating_sub(began_ns) / 1_000;
        self.reads.reads.fetch_add(1, Ordering::Relaxed);
        self.reads.us.fetch_add(us, Ordering::Relaxed);
        self.reads.us_max.fetch_max(us, Ordering::Relaxed);
        if found.as_ref().is_err_and(|error| !error.is_full()) {
            self.reads.failed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(found?)
    }

    /// Refuses a store that has entries which the log does not have, because other events would get their indices.
    ///
    /// # Errors
    /// [`HistoryStoreError::Newer`].
    pub fn check_not_ahead(&self, shard: ShardId, last: u64) -> Result<(), HistoryStoreError> {
        let ShardHistory { upto, imported_upto, .. } = self.shard(shard)?;
        match upto > last.max(imported_upto) {
            true => Err(HistoryStoreError::Newer { dir: self.dir.clone(), shard, upto, last }),
            false => Ok(()),
        }
    }

    /// The summary of a shard.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`], [`HistoryStoreError::BadRecord`].
    pub fn shard(&self, shard: ShardId) -> Result<ShardHistory, HistoryStoreError> {
        let summary = match self.read(|store| store.get(&shard_key(shard)))? {
            Some(bytes) => record::decode_checked(&bytes).map_err(|why| self.bad(format!("shard {shard}"), why))?,
            None => ShardHistory::default(),
        };
        self.summaries.lock().insert(shard, summary.clone());
        Ok(summary)
    }

    /// The summary of a shard as it was last read or written by this process, without reading the store. For statistics, since
    /// batches may be lost.
    pub fn summary(&self, shard: ShardId) -> ShardHistory {
        self.summaries.lock().get(&shard).cloned().unwrap_or_default()
    }

    /// What is known of an entity's record without reading the store. Never waits.
    pub fn look_up(&self, shard: ShardId, entity: &Entity) -> Lookup {
        if self.filter.excludes(shard, entity) {
            self.lookups.filtered.fetch_add(1, Ordering::Relaxed);
            return Lookup::None;
        }
        match self.is_behind(shard, entity) {
            true => Lookup::Behind,
            false => Lookup::Unread,
        }
    }

    /// The record of an entity, if it has left memory. May wait for the disk, unless [`HistoryStore::look_up`] knows the answer. A
    /// record that cannot be read is noted as damaged.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`] if there is no room to open the store. [`HistoryStoreError::Damaged`].
    pub fn get(&self, shard: ShardId, entity: &Entity) -> Result<Option<StoredEntity>, HistoryStoreError> {
        if self.filter.excludes(shard, entity) {
            self.lookups.filtered.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        if self.is_behind(shard, entity) {
            return Err(self.damaged(shard, entity, "it lacks events that could not be applied to it"));
        }
        let why = match self.read(|store| store.get(&entity_key(shard, entity))) {
            Ok(None) => {
                self.lookups.missed.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
            Ok(Some(bytes)) => match record::decode(&bytes) {
                Ok(stored) if stored.entity == *entity => {
                    self.note_readable(shard, entity);
                    return Ok(Some(stored));
                }
                Ok(stored) => format!("it is of {}", stored.entity),
                Err(why) => why,
            },
            Err(error) if error.is_full() => return Err(error),
            Err(error) => error.to_string(),
        };
        self.note_damage(shard, Some(entity), &why);
        Err(self.damaged(shard, entity, &why))
    }

    /// Lookups without a result so far.
    pub fn lookups(&self) -> &LookupCounts {
        &self.lookups
    }

    /// Adds some of the records that the store had at the start to the filter, and returns whether there may be more.
    /// Until all records of a shard are added, its lookups go to the store.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`].
    pub fn fill_filter(&self) -> Result<bool, HistoryStoreError> {
        let mut filled = self.filled.lock();
        let Scanned { found, gap } = self.scan_past_damage(RECORDS, filled.as_deref(), SCAN)?;
        if let Some(Gap { after, why }) = gap {
            // Whatever is in the gap may have a record.
            let next = found.first().map(|(key, _)| key.clone());
            let shard = shard_part(&after).or_else(|| shard_part(next.as_ref()?)).unwrap_or_default();
            self.note_damage(shard, None, &why);
            self.filter.doubt(after, next);
        }
        let Some((last, _)) = found.last() else {
            self.filter.fill_to(u32::MAX);
            return Ok(false);
        };
        self.filter.add(found.iter().map(|(key, _)| key));
        // Keys are ordered by shard, so all shards before this one are complete.
        if let Some(shard) = shard_part(last) {
            self.filter.fill_to(u32::from(shard));
        }
        *filled = Some(last.clone());
        Ok(true)
    }

    /// Reads some records behind the key `after`, of all shards, and notes what cannot be read. Returns how many bytes they have, and
    /// the key behind which there may be more.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`] if there is no room to open the store.
    pub fn read_on(&self, after: Option<&[u8]>) -> Result<(u64, Option<Bytes>), HistoryStoreError> {
        let Scanned { found, gap } = self.scan_past_damage(RECORDS, after, SCAN)?;
        if let Some(Gap { after, why }) = gap {
            let next = found.first().map(|(key, _)| key);
            let shard = shard_part(&after).or_else(|| shard_part(next?)).unwrap_or_default();
            self.note_damage(shard, None, &why);
        }
        for (key, bytes) in &found {
            if let Err(why) = record::decode(bytes) {
                self.note_damage(shard_part(key).unwrap_or_default(), None, &format!("the record at {key:?}: {why}"));
            }
        }
        let bytes = found.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        Ok((bytes, found.last().map(|(key, _)| key.clone())))
    }

    /// Whether a lookup may find a record of this entity. Audits check that it is `true` for every record.
    pub fn may_find(&self, shard: ShardId, entity: &Entity) -> bool {
        !self.filter.excludes(shard, entity)
    }

    /// Calls `visit` with every record of a shard that can be read. The others are noted as damaged.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`] if there is no room to open the store.
    pub fn for_each_record(&self, shard: ShardId, visit: impl FnMut(StoredEntity)) -> Result<(), HistoryStoreError> {
        self.scan_records(shard, visit, |why| self.note_damage(shard, None, why))
    }

    /// Calls `visit` with every record of a shard that can be read, and `damaged` with the reason of each that cannot.
    fn scan_records(
        &self,
        shard: ShardId,
        mut visit: impl FnMut(StoredEntity),
        mut damaged: impl FnMut(&str),
    ) -> Result<(), HistoryStoreError> {
        let prefix = records_prefix(shard);
        let mut after: Option<Bytes> = None;
        loop {
            let Scanned { found, gap } = self.scan_past_damage(&prefix, after.as_deref(), SCAN)?;
            if let Some(gap) = gap {
                damaged(&gap.why);
            }
            let Some((last, _)) = found.last() else { return Ok(()) };
            after = Some(last.clone());
            for (key, bytes) in &found {
                match record::decode(bytes) {
                    Ok(stored) => visit(stored),
                    Err(why) => damaged(&format!("the record at {key:?}: {why}")),
                }
            }
        }
    }

    /// Reads every record of a shard and counts it. Returns what cannot be read, and whether the totals are other ones, in words.
    /// Notes nothing.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`] if there is no room to open the store.
    pub fn recount(&self, shard: ShardId) -> Result<Vec<String>, HistoryStoreError> {
        let (mut findings, mut counted) = (Vec::new(), Totals::default());
        self.scan_records(
            shard,
            |stored| counted.add(&Totals::of(&stored.state)),
            |why| findings.push(format!("the store of shard {shard} cannot be read in a place: {why}")),
        )?;
        let said = self.shard(shard)?.totals;
        if findings.is_empty() && said != counted && self.has_exact_totals(shard) {
            findings.push(format!("the store's totals of shard {shard} are {said:?}, its records {counted:?}"));
        }
        Ok(findings)
    }

    /// Writes entities that leave memory, and the new totals, in one batch. Readers see it when this returns, and it is
    /// durable after [`HistoryStore::sync`]. Call [`HistoryStore::will_rewrite`] before writing the same entities
    /// again.
    ///
    /// # Errors
    /// As [`Store::write`], and [`HistoryStoreError::BadRecord`].
    pub fn write(&self, leaving: &[(ShardId, Vec<EvictionCandidate>)]) -> Result<(), HistoryStoreError> {
        let mut shards: BTreeMap<ShardId, Vec<&EvictionCandidate>> = BTreeMap::new();
        for (shard, leaving) in leaving {
            shards.entry(*shard).or_default().extend(leaving);
        }
        self.write_batch(&shards, 0)
    }

    /// Announces that batches since the last sync will be written again. From now on their records are looked up.
    pub fn will_rewrite(&self) {
        self.writing.lock().shards.clear();
    }

    fn write_batch(
        &self,
        shards: &BTreeMap<ShardId, Vec<&EvictionCandidate>>,
        imported_upto: u64,
    ) -> Result<(), HistoryStoreError> {
        for shard in shards.keys() {
            // Leftovers of the previous replica go first, so that their removal cannot take records of the next one.
            while self.remove_some(*shard)? {}
        }
        may_wait();
        let mut writing = self.writing.lock();
        // Without this, the totals could miss a batch that failed and is in the journal all the same.
        let number = self.store.begin()?;
        let mut pairs = Vec::new();
        let mut changed = Vec::with_capacity(shards.len());
        for (&shard, leaving) in shards {
            let mut history = self.shard_for_write(&mut writing, shard)?;
            let mut batch: BTreeMap<Bytes, &EvictionCandidate> = BTreeMap::new();
            for leaving in leaving {
                let known = batch.entry(entity_key(shard, &leaving.entity)).or_insert(leaving);
                if known.index < leaving.index {
                    *known = leaving;
                }
            }
            for (key, leaving) in batch {
                let before = match writing.may_have(shard, leaving).then(|| self.get(shard, &leaving.entity)) {
                    // The new record takes its place. What it had added to the totals is not known.
                    Some(Err(HistoryStoreError::Damaged { .. })) => {
                        pairs.extend(self.mark_inexact(shard));
                        None
                    }
                    Some(before) => before?,
                    None => None,
                };
                if let Some(before) = before {
                    // The record is from before a crash, and replay has not reached its index yet.
                    if before.index >= leaving.index {
                        continue;
                    }
                    history.totals.subtract(&Totals::of(&before.state));
                }
                history.totals.add(&Totals::of(&leaving.state));
                history.upto = history.upto.max(leaving.index);
                pairs.push((key, record::encode(self.version.get(), leaving)));
            }
            history.batches = number;
            history.imported_upto = history.imported_upto.max(imported_upto);
            pairs.push((shard_key(shard), record::encode_checked(self.version.get(), &history)));
            changed.push((shard, history));
        }
        self.write_pairs(&mut writing, (&pairs, &[]), changed)
    }

    /// The summary of a shard, read from the store once.
    fn shard_for_write(&self, writing: &mut WriterState, shard: ShardId) -> Result<ShardHistory, HistoryStoreError> {
        if let Some(known) = writing.shards.get(&shard) {
            return Ok(known.clone());
        }
        let history = self.shard(shard)?;
        let found = writing.found.entry(shard).or_default();
        *found = (*found).max(history.upto).max(history.imported_upto);
        Ok(history)
    }

    /// Writes a batch that contains the new summaries `changed`.
    fn write_pairs(
        &self,
        writing: &mut WriterState,
        (pairs, gone): (&[KeyValue], &[Bytes]),
        changed: Vec<(ShardId, ShardHistory)>,
    ) -> Result<(), HistoryStoreError> {
        // This comes before the write, even if the write fails, because the batch may be in the journal all the same. Removed
        // keys are added too, because their records come back if the store is reopened without this batch.
        self.filter.add(pairs.iter().map(|(key, _)| key).chain(gone));
        if let Err(error) = self.store.change(pairs, gone) {
            writing.failures += 1;
            writing.shards.clear();
            return Err(error.into());
        }
        for (shard, history) in changed {
            self.summaries.lock().insert(shard, history.clone());
            let found = writing.found.entry(shard).or_default();
            *found = (*found).max(history.imported_upto);
            writing.shards.insert(shard, history);
        }
        Ok(())
    }

    /// Batches that failed. Each may have lost the unsynced batches before it.
    pub fn failures(&self) -> u64 {
        self.writing.lock().failures
    }

    /// About `bytes` of a shard's encoded records behind the key `after`, with the key of the last one. The key is `None` if
    /// there are no more.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`] if there is no room to open the store. [`HistoryStoreError::Damaged`]: another replica has to
    /// export them.
    pub fn export(
        &self,
        shard: ShardId,
        after: Option<&[u8]>,
        bytes: usize,
    ) -> Result<(Vec<Bytes>, Option<Bytes>), HistoryStoreError> {
        if self.is_damaged(shard) {
            return Err(self.damaged(shard, "a part of the history", "as an earlier read has shown"));
        }
        let (mut records, mut length) = (Vec::new(), 0);
        let mut last: Option<Bytes> = None;
        while length < bytes {
            let from = last.as_deref().or(after);
            let prefix = records_prefix(shard);
            let found = match self.read(|store| store.scan(&prefix, from, SCAN)) {
                Err(error) if !error.is_full() => {
                    self.note_damage(shard, None, &error.to_string());
                    return Err(self.damaged(shard, "a part of the history", error));
                }
                found => found?,
            };
            if found.is_empty() {
                return Ok((records, None));
            }
            for (key, record) in found {
                if let Err(why) = record::check(&record) {
                    self.note_damage(shard, None, &format!("the record at {key:?}: {why}"));
                    return Err(self.damaged(shard, "a part of the history", why));
                }
                length += record.len();
                records.push(record);
                last = Some(key);
                if length >= bytes {
                    break;
                }
            }
        }
        Ok((records, last))
    }

    /// Marks the records of a shard without a replica here for removal by [`HistoryStore::remove_some`].
    pub fn mark_dropped(&self, shard: ShardId) {
        self.dropped_shards.lock().insert(shard);
    }

    /// Removes some records of a dropped shard and returns whether there may be more. The totals stay exact, so the
    /// removal can be interrupted. The number of batches stays, because snapshots of a later replica need at least as
    /// many.
    ///
    /// # Errors
    /// As [`Store::write`], and [`HistoryStoreError::BadRecord`].
    pub fn remove_some(&self, shard: ShardId) -> Result<bool, HistoryStoreError> {
        let mut writing = self.writing.lock();
        // Checked under the lock, because a writer that had it may have written records of the next replica.
        if !self.dropped_shards.lock().contains(&shard) {
            return Ok(false);
        }
        let number = self.store.begin()?;
        // What is in a damaged block stays. A later replica of the shard writes newer records.
        let Scanned { found, gap: _ } = self.scan_past_damage(&records_prefix(shard), None, SCAN)?;
        let mut history = self.shard_for_write(&mut writing, shard)?;
        if found.is_empty() {
            self.dropped_shards.lock().remove(&shard);
            let left = ShardHistory { batches: history.batches, ..ShardHistory::default() };
            let mut pairs = Vec::from_iter(self.clear_damage(shard));
            if history != left || !pairs.is_empty() {
                pairs.push((shard_key(shard), record::encode_checked(self.version.get(), &left)));
                self.write_pairs(&mut writing, (&pairs, &[]), vec![(shard, left)])?;
            }
            return Ok(false);
        }
        for (_, bytes) in &found {
            // An unreadable record goes as well. The totals are reset when none is left.
            if let Ok(stored) = record::decode(bytes) {
                history.totals.subtract(&Totals::of(&stored.state));
            }
        }
        history.batches = number;
        let gone: Vec<Bytes> = found.into_iter().map(|(key, _)| key).collect();
        let pairs = [(shard_key(shard), record::encode_checked(self.version.get(), &history))];
        self.write_pairs(&mut writing, (&pairs, &gone), vec![(shard, history)])?;
        Ok(true)
    }

    /// Imports records that another node exported, and returns their last log index. Older records than those here are
    /// ignored.
    ///
    /// # Errors
    /// As [`Store::write`], and [`HistoryStoreError::BadRecord`].
    pub fn import(&self, shard: ShardId, records: &[Bytes]) -> Result<u64, HistoryStoreError> {
        let mut taken = Vec::with_capacity(records.len());
        for bytes in records {
            let stored =
                record::decode(bytes).map_err(|why| self.bad(format!("another node, of shard {shard}"), why))?;
            let StoredEntity { index, entity, state } = stored;
            taken.push(EvictionCandidate { entity, state, index, began: None });
        }
        let upto = taken.iter().map(|leaving| leaving.index).max().unwrap_or(0);
        self.write_batch(&BTreeMap::from([(shard, taken.iter().collect())]), upto)?;
        Ok(upto)
    }

    /// Makes everything written durable.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn sync(&self) -> Result<(), HistoryStoreError> {
        may_wait();
        // A failing sync must not come between the reads and the write of a batch.
        let mut writing = self.writing.lock();
        self.store.sync().map_err(|error| {
            writing.shards.clear();
            error.into()
        })
    }

    /// Blocks writers while the guard is held, so that totals and records match.
    pub fn pause_writes(&self) -> MutexGuard<'_, WriterState> {
        self.writing.lock()
    }

    /// Approximate bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.store.disk_bytes()
    }

    fn damaged(&self, shard: ShardId, what: impl fmt::Display, why: impl fmt::Display) -> HistoryStoreError {
        HistoryStoreError::Damaged { dir: self.dir.clone(), shard, what: what.to_string(), why: why.to_string() }
    }

    fn bad(&self, what: impl ToString, why: String) -> HistoryStoreError {
        HistoryStoreError::BadRecord { dir: self.dir.clone(), what: what.to_string(), why }
    }
}

/// This thread may wait for the disk.
fn may_wait() {
    if let Some(why) = no_wait::why() {
        debug_assert!(false, "a store is waited for where nothing may wait: {why}");
    }
}

fn shard_key(shard: ShardId) -> Bytes {
    let mut key = BytesMut::from(&b"shard/"[..]);
    key.put_u16(shard);
    key.freeze()
}

fn records_prefix(shard: ShardId) -> BytesMut {
    let mut key = BytesMut::from(RECORDS);
    key.put_u16(shard);
    key
}

/// The shard in the key of a record.
fn shard_part(key: &[u8]) -> Option<ShardId> {
    Some(ShardId::from_be_bytes(*key.strip_prefix(RECORDS)?.first_chunk()?))
}

/// The entity in the key of a record.
fn entity_part(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(RECORDS)?.get(SHARD_BYTES..)
}

fn entity_key(shard: ShardId, entity: &Entity) -> Bytes {
    let mut key = records_prefix(shard);
    entity.with_key(|bytes| key.extend_from_slice(bytes));
    key.freeze()
}

#[cfg(test)]
mod tests;

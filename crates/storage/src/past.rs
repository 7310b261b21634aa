//! Entities that have left memory: the store they are in, by shard and key.
//!
//! **Why nothing is lost or doubled.** An entity is forgotten in memory only when its record is durable in the store; so
//! at every moment memory and the durable store together have everything, and a snapshot of memory is whole as long as
//! the store is what it was or newer: it says how many batches the store had, and a start with fewer is refused.
//!
//! A record says up to which place of its shard's log it tells. After a crash the log is applied again from the snapshot
//! on, over a store that may be ahead of it: events of an entity that is not in memory and whose record tells up to their
//! place or further are in the record already and are passed over. Events beyond it happen to the record's state, which
//! is put back into memory first. An entity that the snapshot still has in memory simply lives through its events again
//! and leaves again; its record is never replaced by an older one. The store is not ahead of what the log is sure to
//! have: it is handed only what was applied from entries that are synced.
//!
//! Nearly every lookup is of an entity that never left. A Bloom filter in memory answers those without the store: `filter.rs` says
//! why it never hides a record. The keeper fills it after the start.

mod filter;
pub mod record;
mod replay;
mod totals;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use boxoffice_core::{id::Entity, planted, state_map::EvictionCandidate};
use boxoffice_env::{Pair, Store, StoreError, StoreSettings, Stores};
use boxoffice_shard::ShardId;
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use filter::Filter;
pub use record::Stored;
pub use replay::{Brought, Replay};
pub use totals::Totals;

const OWNER_KEY: &[u8] = b"owner";
/// What the keys of all records begin with; the number of the shard follows, then the entity.
const RECORDS: &[u8] = b"e";
const SHARD_BYTES: usize = size_of::<ShardId>();
/// Records read at a time when all are looked at.
const SCAN: usize = 256;

/// The store of a node, understood.
pub struct Past {
    store: Arc<dyn Store>,
    dir: PathBuf,
    /// One batch at a time, and none while the totals are held against the records.
    writing: Mutex<Writing>,
    /// Shards that have no replica here any more, whose records go.
    given_up: Mutex<BTreeSet<ShardId>>,
    failures: AtomicU64,
    filter: Filter,
    /// The last key that was added to the filter of those that the store had at the start.
    filled: Mutex<Option<Bytes>>,
    lookups: Lookups,
}

/// Lookups of entities that have no record.
#[derive(Debug, Default)]
pub struct Lookups {
    /// Answered by the filter.
    pub filtered: AtomicU64,
    /// Answered by the store.
    pub missed: AtomicU64,
}

/// What is known of the store by whoever writes to it.
#[derive(Default)]
pub struct Writing {
    /// What the store says of shards, as it was written last. Empty after a failure: what the store has then, only it knows. What
    /// is read anew is also what may be found.
    shards: BTreeMap<ShardId, ShardPast>,
    /// By shard: what this process has not written itself, or may have written without success, tells up to here at most.
    found: BTreeMap<ShardId, u64>,
}

impl Writing {
    /// Whether the store may have a record of an entity that leaves. One that began behind everything that was found there, and
    /// leaves for the first time, has none.
    fn may_have(&self, shard: ShardId, leaving: &EvictionCandidate) -> bool {
        if planted::is("a record that nobody looks for") {
            return false;
        }
        let found = self.found.get(&shard).copied().unwrap_or(u64::MAX);
        leaving.began.is_none_or(|began| began <= found)
    }
}

/// What the store says of a shard, changed with every batch of its records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardPast {
    /// The last place in the shard's log that any record tells up to.
    pub upto: u64,
    /// How many batches there were.
    pub batches: u64,
    /// What the records add up to.
    pub totals: Totals,
    /// Records that another node handed over tell up to here at most: they are committed, and may be ahead of the log here.
    pub ahead: u64,
}

/// Why the store cannot be used with this data directory.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is none, and there must be.
    #[error(
        "the history in {} is gone: the snapshot of shard {shard} rests on it; put the directory back as it was, or restore the \
         whole data directory from one backup; in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    Missing {
        /// Where it should be.
        dir: PathBuf,
        /// A shard that needs it.
        shard: ShardId,
    },
    /// It lacks what a snapshot needs.
    #[error(
        "the history in {} is older than the snapshot of shard {shard}: it has {found} batches of it, {needed} are needed; it was \
         damaged or comes from another backup: restore the whole data directory from one backup, or in a cluster empty it and let \
         the node join anew",
        .dir.display()
    )]
    Older {
        /// The store's directory.
        dir: PathBuf,
        /// The shard.
        shard: ShardId,
        /// Batches it has.
        found: u64,
        /// Batches that the snapshot rests on.
        needed: u64,
    },
    /// It knows more than the log.
    #[error(
        "the history in {} tells of shard {shard} up to entry {upto}, the log and snapshots end at {last}: they are not of the \
         same moment; restore the whole data directory from one backup, or in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    Newer {
        /// The store's directory.
        dir: PathBuf,
        /// The shard.
        shard: ShardId,
        /// Up to where the store tells.
        upto: u64,
        /// The last entry.
        last: u64,
    },
    /// It was made for another data directory.
    #[error("the history in {} belongs to another data directory; put it back where it came from", .dir.display())]
    Foreign {
        /// The store's directory.
        dir: PathBuf,
    },
    /// A record cannot be understood.
    #[error(
        "the record of {what} in {} cannot be understood: {why}; it is damaged, or was written by a newer version: restore the \
         whole data directory from one backup, or in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    BadRecord {
        /// The store's directory.
        dir: PathBuf,
        /// Of whom.
        what: String,
        /// What is wrong.
        why: String,
    },
}

impl Past {
    /// Opens the store in `dir`, which belongs to the data directory `owner`. `rests` says for each shard's snapshot how
    /// many batches of the store it rests on.
    ///
    /// # Errors
    /// [`PastError`].
    pub fn open(
        stores: &dyn Stores,
        dir: &Path,
        settings: &StoreSettings,
        owner: u128,
        rests: &[(ShardId, u64)],
    ) -> Result<Past, PastError> {
        let needs = rests.iter().find(|(_, batches)| *batches > 0);
        if let Some(&(shard, _)) = needs
            && !stores.exists(dir)
        {
            return Err(PastError::Missing { dir: dir.to_owned(), shard });
        }
        let store = stores.open(dir, settings)?;
        let past = Past {
            store,
            dir: dir.to_owned(),
            writing: Mutex::default(),
            given_up: Mutex::default(),
            failures: AtomicU64::new(0),
            filter: Filter::new(),
            filled: Mutex::default(),
            lookups: Lookups::default(),
        };
        let owner = Bytes::copy_from_slice(&owner.to_be_bytes());
        match past.store.get(OWNER_KEY)? {
            Some(found) if found != owner => return Err(PastError::Foreign { dir: past.dir }),
            Some(_) => {}
            None => past.store.write(&[(Bytes::from_static(OWNER_KEY), owner)])?,
        }
        // The process before may have ended between a batch and its sync: what is read from now on must not be lost.
        past.store.sync()?;
        for &(shard, needed) in rests {
            let found = past.shard(shard)?.batches;
            if found < needed {
                return Err(PastError::Older { dir: past.dir, shard, found, needed });
            }
        }
        Ok(past)
    }

    /// Refuses a store that tells of entries the log does not have: they would be given to other events.
    ///
    /// # Errors
    /// [`PastError::Newer`].
    pub fn check_ends(&self, shard: ShardId, last: u64) -> Result<(), PastError> {
        let ShardPast { upto, ahead, .. } = self.shard(shard)?;
        match upto > last.max(ahead) {
            true => Err(PastError::Newer { dir: self.dir.clone(), shard, upto, last }),
            false => Ok(()),
        }
    }

    /// What the store says of a shard.
    ///
    /// # Errors
    /// [`PastError::Store`], [`PastError::BadRecord`].
    pub fn shard(&self, shard: ShardId) -> Result<ShardPast, PastError> {
        match self.store.get(&shard_key(shard))? {
            Some(bytes) => record::open(&bytes).map_err(|why| self.bad(format!("shard {shard}"), why)),
            None => Ok(ShardPast::default()),
        }
    }

    /// An entity of a shard as it was when it left, if it did.
    ///
    /// # Errors
    /// [`PastError::Store`], [`PastError::BadRecord`].
    pub fn get(&self, shard: ShardId, entity: &Entity) -> Result<Option<Stored>, PastError> {
        if self.filter.excludes(shard, entity) {
            self.lookups.filtered.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let Some(bytes) = self.store.get(&entity_key(shard, entity))? else {
            self.lookups.missed.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        let stored = record::decode(&bytes).map_err(|why| self.bad(entity, why))?;
        match stored.entity == *entity {
            true => Ok(Some(stored)),
            false => Err(self.bad(entity, format!("it is of {}", stored.entity))),
        }
    }

    /// Lookups that found nothing so far.
    pub fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// Adds some of the records that the store had at the start to the filter; whether there may be more. Lookups in shards
    /// whose records are not all added go to the store.
    ///
    /// # Errors
    /// [`PastError::Store`].
    pub fn fill_some(&self) -> Result<bool, PastError> {
        let mut filled = self.filled.lock();
        let found = self.store.scan(RECORDS, filled.as_deref(), SCAN)?;
        let Some((last, _)) = found.last() else {
            self.filter.fill_to(u32::MAX);
            return Ok(false);
        };
        self.filter.add(found.iter().map(|(key, _)| key));
        // Keys are in the order of shards: those before the last one's are whole.
        if let Some(shard) = shard_part(last) {
            self.filter.fill_to(u32::from(shard));
        }
        *filled = Some(last.clone());
        Ok(true)
    }

    /// Whether a lookup of this entity may find a record. It is `true` for every record of the store: audits check that.
    pub fn is_findable(&self, shard: ShardId, entity: &Entity) -> bool {
        !self.filter.excludes(shard, entity)
    }

    /// Hands every record of a shard to `see`, some at a time.
    ///
    /// # Errors
    /// [`PastError::Store`], [`PastError::BadRecord`].
    pub fn each(&self, shard: ShardId, mut see: impl FnMut(Stored)) -> Result<(), PastError> {
        let prefix = records_of(shard);
        let mut after: Option<Bytes> = None;
        loop {
            let found = self.store.scan(&prefix, after.as_deref(), SCAN)?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            after = Some(last.clone());
            for (key, bytes) in &found {
                see(record::decode(bytes).map_err(|why| self.bad(format!("{key:?}"), why))?);
            }
        }
    }

    /// Keeps entities that leave their shards, with what they add to the totals, in one batch of the store; readers see them when
    /// this returns, and they are durable after [`Past::sync`]. Before anything is handed in once more that was handed in already, say
    /// [`Past::write_again`].
    ///
    /// # Errors
    /// As [`Store::write`]; [`PastError::BadRecord`].
    pub fn write(&self, leaving: &[(ShardId, Vec<EvictionCandidate>)]) -> Result<(), PastError> {
        let mut shards: BTreeMap<ShardId, Vec<&EvictionCandidate>> = BTreeMap::new();
        for (shard, leaving) in leaving {
            shards.entry(*shard).or_default().extend(leaving);
        }
        self.write_batch(&shards, 0)
    }

    /// What was written since the last sync, with or without success, is going to be written again: from now on it is looked for.
    pub fn write_again(&self) {
        self.writing.lock().shards.clear();
    }

    fn write_batch(&self, shards: &BTreeMap<ShardId, Vec<&EvictionCandidate>>, ahead: u64) -> Result<(), PastError> {
        for shard in shards.keys() {
            // What is of the next replica must not go with what was left of the one before.
            while self.clear_some(*shard)? {}
        }
        let mut writing = self.writing.lock();
        // The totals would be those without a batch that was refused and is there.
        self.store.begin()?;
        let mut pairs = Vec::new();
        let mut changed = Vec::with_capacity(shards.len());
        for (&shard, leaving) in shards {
            let mut past = self.shard_of(&mut writing, shard)?;
            let mut batch: BTreeMap<Bytes, &EvictionCandidate> = BTreeMap::new();
            for leaving in leaving {
                let known = batch.entry(entity_key(shard, &leaving.entity)).or_insert(leaving);
                if known.index < leaving.index {
                    *known = leaving;
                }
            }
            for (key, leaving) in batch {
                let before = if writing.may_have(shard, leaving) { self.get(shard, &leaving.entity)? } else { None };
                if let Some(before) = before {
                    // It left at a later place before the crash that made it live through the earlier one again.
                    if before.index >= leaving.index {
                        continue;
                    }
                    past.totals.subtract(&Totals::of(&before.state));
                }
                past.totals.add(&Totals::of(&leaving.state));
                past.upto = past.upto.max(leaving.index);
                pairs.push((key, record::encode(leaving)));
            }
            past.batches += 1;
            past.ahead = past.ahead.max(ahead);
            pairs.push((shard_key(shard), record::seal(&past)));
            changed.push((shard, past));
        }
        self.write_pairs(&mut writing, (&pairs, &[]), changed)
    }

    /// What the store says of a shard, read from it once.
    fn shard_of(&self, writing: &mut Writing, shard: ShardId) -> Result<ShardPast, PastError> {
        if let Some(known) = writing.shards.get(&shard) {
            return Ok(known.clone());
        }
        let past = self.shard(shard)?;
        let found = writing.found.entry(shard).or_default();
        *found = (*found).max(past.upto).max(past.ahead);
        Ok(past)
    }

    /// Writes a batch after which the store says this of shards.
    fn write_pairs(
        &self,
        writing: &mut Writing,
        (pairs, gone): (&[Pair], &[Bytes]),
        changed: Vec<(ShardId, ShardPast)>,
    ) -> Result<(), PastError> {
        // Before the store has it, also where it refuses it: it may be there all the same. What goes comes back if the store is opened
        // anew without this batch.
        self.filter.add(pairs.iter().map(|(key, _)| key).chain(gone));
        if let Err(error) = self.store.change(pairs, gone) {
            // Counted before anybody else writes: see `failures`.
            self.failures.fetch_add(1, Ordering::Relaxed);
            writing.shards.clear();
            return Err(error.into());
        }
        for (shard, past) in changed {
            let found = writing.found.entry(shard).or_default();
            *found = (*found).max(past.ahead);
            writing.shards.insert(shard, past);
        }
        Ok(())
    }

    /// How many batches could not be written. Each may have taken along what was written before and not synced.
    pub fn failures(&self) -> u64 {
        let _one = self.writing.lock();
        self.failures.load(Ordering::Relaxed)
    }

    /// Some records of a shard as they are kept, from behind this key on, of about so many bytes; and the key of the last of
    /// them, `None` if there are no more.
    ///
    /// # Errors
    /// [`PastError::Store`].
    pub fn export(
        &self,
        shard: ShardId,
        after: Option<&[u8]>,
        bytes: usize,
    ) -> Result<(Vec<Bytes>, Option<Bytes>), PastError> {
        let (mut records, mut length) = (Vec::new(), 0);
        let mut last: Option<Bytes> = None;
        while length < bytes {
            let from = last.as_deref().or(after);
            let found = self.store.scan(&records_of(shard), from, SCAN)?;
            if found.is_empty() {
                return Ok((records, None));
            }
            for (key, record) in found {
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

    /// The shard has no replica here any more: its records may go. They are only marked; [`Past::clear_some`] removes them.
    pub fn give_up(&self, shard: ShardId) {
        self.given_up.lock().insert(shard);
    }

    /// Removes some records of a shard that was given up; whether there may be more. Those that are left still add up to the
    /// totals, so it may end at any moment and begin again. The count of batches stays: snapshots of a later replica rest on
    /// as many.
    ///
    /// # Errors
    /// As [`Store::write`]; [`PastError::BadRecord`].
    pub fn clear_some(&self, shard: ShardId) -> Result<bool, PastError> {
        let mut writing = self.writing.lock();
        // Looked at under the lock: whoever waited for it would take records of the next replica for those of the one before.
        if !self.given_up.lock().contains(&shard) {
            return Ok(false);
        }
        self.store.begin()?;
        let found = self.store.scan(&records_of(shard), None, SCAN)?;
        let mut past = self.shard_of(&mut writing, shard)?;
        if found.is_empty() {
            self.given_up.lock().remove(&shard);
            let left = ShardPast { batches: past.batches, ..ShardPast::default() };
            if past != left {
                let pairs = [(shard_key(shard), record::seal(&left))];
                self.write_pairs(&mut writing, (&pairs, &[]), vec![(shard, left)])?;
            }
            return Ok(false);
        }
        for (_, bytes) in &found {
            // What cannot be read is not missed.
            if let Ok(stored) = record::decode(bytes) {
                past.totals.subtract(&Totals::of(&stored.state));
            }
        }
        past.batches += 1;
        let gone: Vec<Bytes> = found.into_iter().map(|(key, _)| key).collect();
        let pairs = [(shard_key(shard), record::seal(&past))];
        self.write_pairs(&mut writing, (&pairs, &gone), vec![(shard, past)])?;
        Ok(true)
    }

    /// Takes over records that another node exported; older ones than those here change nothing. Up to where they tell.
    ///
    /// # Errors
    /// As [`Store::write`]; [`PastError::BadRecord`].
    pub fn import(&self, shard: ShardId, records: &[Bytes]) -> Result<u64, PastError> {
        let mut taken = Vec::with_capacity(records.len());
        for bytes in records {
            let stored =
                record::decode(bytes).map_err(|why| self.bad(format!("another node, of shard {shard}"), why))?;
            let Stored { index, entity, state } = stored;
            taken.push(EvictionCandidate { entity, state, index, began: None });
        }
        let upto = taken.iter().map(|leaving| leaving.index).max().unwrap_or(0);
        self.write_batch(&BTreeMap::from([(shard, taken.iter().collect())]), upto)?;
        Ok(upto)
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn sync(&self) -> Result<(), PastError> {
        // One that fails must not come between what a batch reads and its writing.
        let mut writing = self.writing.lock();
        self.store.sync().map_err(|error| {
            writing.shards.clear();
            error.into()
        })
    }

    /// Keeps batches from being written as long as it is held: totals and records then fit together.
    pub fn still(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock()
    }

    /// Bytes on disk, about.
    pub fn disk_bytes(&self) -> u64 {
        self.store.disk_bytes()
    }

    fn bad(&self, what: impl ToString, why: String) -> PastError {
        PastError::BadRecord { dir: self.dir.clone(), what: what.to_string(), why }
    }
}

fn shard_key(shard: ShardId) -> Bytes {
    let mut key = BytesMut::from(&b"shard/"[..]);
    key.put_u16(shard);
    key.freeze()
}

fn records_of(shard: ShardId) -> BytesMut {
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
    let mut key = records_of(shard);
    entity.with_key(|bytes| key.extend_from_slice(bytes));
    key.freeze()
}

#[cfg(test)]
mod tests;

//! What of the store cannot be read.
//!
//! A damaged block of a table hides the records in it, and each read of one of them fails. The process notes what it meets in
//! memory. A replica that cannot apply an entry to such a record leaves its events out. From then on the record is behind for good,
//! even if a later read of it succeeds, so this is noted durably before the entry counts as applied.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use boxoffice_core::{
    id::Entity,
    stored::{Decode, Schema, Stored},
    version::ClusterVersion,
};
use boxoffice_env::{KeyValue, StoreError};
use boxoffice_shard::ShardId;
use bytes::Bytes;
use tracing_mutex::parkinglot::Mutex;

use super::{HistoryStore, HistoryStoreError, RECORDS, record, shard_part};

/// The key of [`Marks`]. It is one value, because a scan for several would enter the blocks of its neighbours.
const MARKS_KEY: &[u8] = b"damage";
/// Damaged records that are listed by name. The rest are counted.
const LISTED_MAX: usize = 1_000;
/// Bytes of keys behind their prefix in which the end of a damaged block is searched.
const SEARCH_BYTES: usize = 40;

/// Something of the store that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub shard: ShardId,
    /// Its record cannot be read. `None` if the records of a whole block are missing from a scan.
    pub entity: Option<Entity>,
    pub why: String,
}

/// The durable notes about damage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
#[stored(name = "DamageMarks")]
struct Marks {
    /// Entities whose records lack events that the replica could not apply.
    #[n(0)]
    behind: BTreeSet<(ShardId, Entity)>,
    /// Shards whose totals contain records that were replaced without being read.
    #[n(1)]
    inexact: BTreeSet<ShardId>,
}

pub(super) fn schema(schema: &mut Schema) {
    Marks::shape(schema);
}

/// What of the store cannot be read, as far as it is known.
#[derive(Default)]
pub(super) struct Damages {
    /// Whether there is any, so that lookups in a good store take no lock.
    some: AtomicBool,
    known: Mutex<Known>,
    /// How many damaged tables of the store are noted.
    tables: Mutex<usize>,
}

#[derive(Default)]
struct Known {
    entities: BTreeMap<(ShardId, Entity), String>,
    scans: BTreeMap<ShardId, String>,
    /// Damaged records beyond [`LISTED_MAX`], by shard.
    more: BTreeMap<ShardId, u64>,
    marks: Marks,
}

impl Known {
    fn is_empty(&self) -> bool {
        self.entities.is_empty() && self.scans.is_empty() && self.more.is_empty() && self.marks == Marks::default()
    }
}

/// Some records of a scan.
pub(super) struct Scanned {
    pub(super) found: Vec<KeyValue>,
    /// The records behind this key, up to the first one found, cannot be read.
    pub(super) gap: Option<Gap>,
}

/// A part of the store that cannot be read.
pub(super) struct Gap {
    pub(super) after: Bytes,
    pub(super) why: String,
}

impl HistoryStore {
    /// Loads the durable notes.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`], [`HistoryStoreError::BadRecord`].
    pub(super) fn load_marks(&self) -> Result<(), HistoryStoreError> {
        let Some(bytes) = self.read(|store| store.get(MARKS_KEY))? else { return Ok(()) };
        let marks: Marks = record::decode_checked(&bytes).map_err(|why| self.bad("the notes of damage", why))?;
        for (shard, entity) in &marks.behind {
            tracing::error!(shard, %entity, "its record is damaged, and lacks what happened to it since: it is not served here");
        }
        let mut known = self.damages.known.lock();
        known.marks = marks;
        self.damages.some.store(!known.is_empty(), Ordering::Release);
        Ok(())
    }

    /// Whether something of a shard cannot be read.
    pub fn is_damaged(&self, shard: ShardId) -> bool {
        if !self.damages.some.load(Ordering::Acquire) {
            return false;
        }
        let known = self.damages.known.lock();
        let of_shard = |(of, _): &(ShardId, Entity)| *of == shard;
        known.scans.contains_key(&shard)
            || known.marks.behind.iter().any(of_shard)
            || known.entities.keys().any(of_shard)
    }

    /// Everything that cannot be read, as far as it is known, up to a bound, and how much there is.
    pub fn damages(&self) -> (Vec<Damage>, u64) {
        if !self.damages.some.load(Ordering::Acquire) {
            return (Vec::new(), 0);
        }
        let known = self.damages.known.lock();
        let mut all = Vec::new();
        let behind = known.marks.behind.iter().filter(|at| !known.entities.contains_key(at));
        for (shard, entity) in behind {
            let why = "it lacks events that could not be applied to it".to_owned();
            all.push(Damage { shard: *shard, entity: Some(entity.clone()), why });
        }
        for ((shard, entity), why) in &known.entities {
            all.push(Damage { shard: *shard, entity: Some(entity.clone()), why: why.clone() });
        }
        for (shard, why) in &known.scans {
            all.push(Damage { shard: *shard, entity: None, why: why.clone() });
        }
        let count = all.len() as u64 + known.more.values().sum::<u64>();
        (all, count)
    }

    /// Whether it is noted durably that the record of an entity lacks events.
    pub fn is_behind(&self, shard: ShardId, entity: &Entity) -> bool {
        self.damages.some.load(Ordering::Acquire)
            && self.damages.known.lock().marks.behind.contains(&(shard, entity.clone()))
    }

    /// Whether the totals of a shard are the sums of its records, as far as it is known.
    pub fn has_exact_totals(&self, shard: ShardId) -> bool {
        !self.is_damaged(shard) && !self.damages.known.lock().marks.inexact.contains(&shard)
    }

    /// Notes what the store has found damaged in its tables since the last call. Never waits.
    pub fn note_damaged_tables(&self) {
        let mut tables = self.damages.tables.lock();
        for table in self.store.damaged(*tables) {
            *tables += 1;
            for shard in self.shards_between(table.after.as_deref(), table.before.as_deref()) {
                self.note_damage(shard, None, &format!("the file {} is damaged: {}", table.file, table.why));
            }
        }
    }

    /// The shards that may have records between these keys, at least one.
    fn shards_between(&self, after: Option<&[u8]>, before: Option<&[u8]>) -> BTreeSet<ShardId> {
        // Keys of other things come before those of records, or behind them.
        let shard = |key: &[u8], otherwise| shard_part(key).unwrap_or(if key < RECORDS { 0 } else { otherwise });
        let first = after.map_or(0, |key| shard(key, ShardId::MAX));
        let last = before.map_or(ShardId::MAX, |key| shard(key, ShardId::MAX));
        let summaries = self.summaries.lock();
        let mut shards: BTreeSet<ShardId> =
            summaries.keys().copied().filter(|at| (first..=last).contains(at)).collect();
        if shards.is_empty() {
            shards.extend(summaries.keys().next().copied().or(Some(0)));
        }
        shards
    }

    /// Notes that a record cannot be read, and reports it once.
    pub(super) fn note_damage(&self, shard: ShardId, entity: Option<&Entity>, why: &str) {
        let mut known = self.damages.known.lock();
        let is_new = match entity {
            Some(entity) if known.entities.len() < LISTED_MAX => {
                known.entities.insert((shard, entity.clone()), why.to_owned()).is_none()
            }
            Some(entity) => {
                let is_new = !known.entities.contains_key(&(shard, entity.clone()));
                *known.more.entry(shard).or_default() += u64::from(is_new);
                is_new
            }
            None => known.scans.insert(shard, why.to_owned()).is_none(),
        };
        self.damages.some.store(true, Ordering::Release);
        drop(known);
        if is_new {
            let (what, dir) = (entity.map_or("records of a block".to_owned(), Entity::to_string), self.dir.display());
            tracing::error!(
                shard,
                what,
                why,
                dir = %dir,
                "the store is damaged: this cannot be read here, and everything else goes on; in a cluster replace this node's \
                 data directory, or restore it from a backup"
            );
        }
    }

    /// The record was read after all, as after a passing fault of the device.
    pub(super) fn note_readable(&self, shard: ShardId, entity: &Entity) {
        if !self.damages.some.load(Ordering::Acquire) {
            return;
        }
        let mut known = self.damages.known.lock();
        known.entities.remove(&(shard, entity.clone()));
        self.damages.some.store(!known.is_empty(), Ordering::Release);
    }

    /// Notes durably that the record of an entity lacks events from now on.
    ///
    /// # Errors
    /// As [`boxoffice_env::Store::write`].
    pub fn mark_behind(&self, shard: ShardId, entity: &Entity) -> Result<(), HistoryStoreError> {
        let _writing = self.writing.lock();
        self.store.begin()?;
        let mut marks = self.damages.known.lock().marks.clone();
        if !marks.behind.insert((shard, entity.clone())) {
            return Ok(());
        }
        self.store.write(&[marks.pair(self.version.get())])?;
        self.store.sync()?;
        self.damages.known.lock().marks = marks;
        self.damages.some.store(true, Ordering::Release);
        Ok(())
    }

    /// The durable note that a shard's totals are not exact from now on, to be written with the batch. `None` if it is there.
    pub(super) fn mark_inexact(&self, shard: ShardId) -> Option<KeyValue> {
        let mut known = self.damages.known.lock();
        let is_new = known.marks.inexact.insert(shard);
        self.damages.some.store(true, Ordering::Release);
        is_new.then(|| known.marks.pair(self.version.get()))
    }

    /// Forgets the damage of a shard whose records are removed. Returns the notes that are left, to be written, if they have changed.
    pub(super) fn clear_damage(&self, shard: ShardId) -> Option<KeyValue> {
        if !self.damages.some.load(Ordering::Acquire) {
            return None;
        }
        let mut known = self.damages.known.lock();
        known.entities.retain(|(of, _), _| *of != shard);
        known.scans.remove(&shard);
        known.more.remove(&shard);
        let before = known.marks.clone();
        known.marks.behind.retain(|(of, _)| *of != shard);
        known.marks.inexact.remove(&shard);
        self.damages.some.store(!known.is_empty(), Ordering::Release);
        (known.marks != before).then(|| known.marks.pair(self.version.get()))
    }

    /// As [`boxoffice_env::Store::scan`], but goes on behind a damaged block. Fewer records than there are may be found before one.
    /// Records that can be looked up may be missing: those of other tables among the keys of the block, and those between two
    /// damaged blocks.
    ///
    /// # Errors
    /// [`HistoryStoreError::Store`] if there is no room to open the store.
    pub(super) fn scan_past_damage(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Scanned, HistoryStoreError> {
        let mut limit = limit;
        let error = loop {
            match self.read(|store| store.scan(prefix, after, limit)) {
                Ok(found) => return Ok(Scanned { found, gap: None }),
                Err(error) if error.is_full() => return Err(error),
                Err(_) if limit > 1 => limit /= 2,
                Err(error) => break error,
            }
        };
        // The very next record cannot be read.
        let after = after.unwrap_or(prefix);
        let probe = |from: &[u8]| match self.read(|store| store.scan(prefix, Some(from), 1)) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_full() => Err(error),
            Err(_) => Ok(None),
        };
        let mut low = Number::of(prefix, after);
        let mut high = None;
        for bit in 0..SEARCH_BYTES * 8 {
            let Some(next) = low.plus(bit) else { break };
            if let Some(found) = probe(&next.key(prefix))? {
                high = Some((next, found));
                break;
            }
            low = next;
        }
        let gap = Some(Gap { after: Bytes::copy_from_slice(after), why: error.to_string() });
        let Some((mut high, mut found)) = high else { return Ok(Scanned { found: Vec::new(), gap }) };
        while let Some(middle) = low.middle(&high) {
            match probe(&middle.key(prefix))? {
                Some(more) => (high, found) = (middle, more),
                None => low = middle,
            }
        }
        Ok(Scanned { found, gap })
    }
}

impl Marks {
    fn pair(&self, version: ClusterVersion) -> KeyValue {
        (Bytes::from_static(MARKS_KEY), record::encode_checked(version, self))
    }
}

/// The bytes of a key behind its prefix, as a number of [`SEARCH_BYTES`] bytes, the highest first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Number([u8; SEARCH_BYTES]);

impl Number {
    fn of(prefix: &[u8], key: &[u8]) -> Number {
        let rest = key.strip_prefix(prefix).unwrap_or_default();
        let mut bytes = [0; SEARCH_BYTES];
        let length = rest.len().min(SEARCH_BYTES);
        bytes[..length].copy_from_slice(&rest[..length]);
        Number(bytes)
    }

    fn key(&self, prefix: &[u8]) -> Vec<u8> {
        [prefix, &self.0].concat()
    }

    /// This and 2 to the power of `bit`. `None` if that is too large.
    fn plus(&self, bit: usize) -> Option<Number> {
        let mut sum = self.clone();
        let mut carry = 1u16 << (bit % 8);
        for byte in sum.0[..SEARCH_BYTES - bit / 8].iter_mut().rev() {
            carry += u16::from(*byte);
            *byte = carry as u8;
            carry >>= 8;
        }
        (carry == 0).then_some(sum)
    }

    /// The number in the middle. `None` if there is none between them.
    fn middle(&self, other: &Number) -> Option<Number> {
        let mut sum = [0u8; SEARCH_BYTES];
        let mut carry = 0u16;
        for at in (0..SEARCH_BYTES).rev() {
            carry += u16::from(self.0[at]) + u16::from(other.0[at]);
            sum[at] = carry as u8;
            carry >>= 8;
        }
        for byte in &mut sum {
            let whole = carry << 8 | u16::from(*byte);
            (*byte, carry) = ((whole / 2) as u8, whole % 2);
        }
        let middle = Number(sum);
        (middle != *self && middle != *other).then_some(middle)
    }
}

impl HistoryStoreError {
    /// Whether the store has lost something that was durable, or does not fit the rest of the data directory.
    pub fn is_damage(&self) -> bool {
        match self {
            HistoryStoreError::Store(error) => error.is_damage(),
            HistoryStoreError::Foreign { .. } => false,
            HistoryStoreError::Missing { .. }
            | HistoryStoreError::Older { .. }
            | HistoryStoreError::Newer { .. }
            | HistoryStoreError::BadRecord { .. }
            | HistoryStoreError::Damaged { .. } => true,
        }
    }

    /// Whether a retry helps once a resource is free again, such as room on the disk.
    pub fn is_full(&self) -> bool {
        matches!(self, HistoryStoreError::Store(error) if StoreError::is_full(error))
    }
}

#[cfg(test)]
mod tests;

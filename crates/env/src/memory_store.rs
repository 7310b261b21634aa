//! Stores in memory that lose unsynced batches at a power cut, for tests and the simulation. Each may be lost by itself, or a part
//! of it, and the store is then left with those before the first such batch. A failed sync marks its batches as clean, as in
//! [`MemoryDisk`](super::MemoryDisk). No later sync writes them before the store is reopened.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxoffice_core::planted;
use bytes::Bytes;
use tracing_mutex::parkinglot::{Mutex, MutexGuard};

use super::store::{KeyValue, Store, StoreError, StoreSettings, Stores};

/// The reason of a read in a damaged block.
const DAMAGED_BLOCK: &str = "a block of a table is damaged";

/// The stores of one machine, by directory. Clones share them.
#[derive(Clone, Default)]
pub struct MemoryStores {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    stores: BTreeMap<PathBuf, Content>,
    /// Counts crashes. Stores that were opened in an earlier epoch are dead.
    epoch: u64,
    capacity_bytes: Option<u64>,
    syncs_fail: bool,
    keeps_refused: bool,
    changes_left: Option<u64>,
    changes: u64,
}

/// The values that a batch has replaced.
type Replaced = Vec<(Bytes, Option<Bytes>)>;

#[derive(Clone, Default)]
struct Content {
    pairs: BTreeMap<Bytes, Bytes>,
    /// The number of the last batch.
    last: u64,
    /// What each batch since the last sync has replaced, and the last one before it.
    unsynced: Vec<Replaced>,
    synced: Option<Replaced>,
    /// Whether the last power cut has taken batches, and a part of one.
    was_cut: bool,
    is_torn: bool,
    /// A failed sync has marked the first of them as clean, and the later ones are useless without them.
    has_hole: bool,
    bytes: u64,
    /// Keys in damaged blocks. What is written later is in other blocks.
    unreadable: BTreeSet<Bytes>,
    /// A batch that failed with `Full` and is in the journal all the same. It shows when the store is reopened.
    refused: Option<(Vec<KeyValue>, Vec<Bytes>)>,
}

impl MemoryStores {
    /// No store, and no capacity.
    pub fn new() -> MemoryStores {
        MemoryStores::default()
    }

    /// Other stores with the same content that no process uses.
    pub fn copy(&self) -> MemoryStores {
        let mut state = self.state.lock().clone();
        state.epoch += 1;
        MemoryStores { state: Arc::new(Mutex::new(state)) }
    }

    /// Limits the total bytes of keys and values. More is refused as full.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity_bytes = bytes;
    }

    /// Makes every sync fail, or succeed again.
    pub fn fail_syncs(&self, fail: bool) {
        self.state.lock().syncs_fail = fail;
    }

    /// From now on a batch that is refused as full shows up when the store is reopened for the next batch.
    pub fn keep_refused(&self) {
        self.state.lock().keeps_refused = true;
    }

    /// Makes everything after `changes` more batches and syncs fail, until [`MemoryStores::power_cut`] or
    /// [`MemoryStores::process_end`].
    pub fn stop_after(&self, changes: u64) {
        self.state.lock().changes_left = Some(changes);
    }

    /// The number of batches and syncs so far.
    pub fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Ends the process that uses the stores. No data is lost.
    pub fn process_end(&self) {
        let mut state = self.state.lock();
        state.epoch += 1;
        state.changes_left = None;
    }

    /// Cuts the power. `keeps` decides for both halves of each batch since the last sync, in order, whether it reached the disk.
    pub fn power_cut(&self, keeps: &mut dyn FnMut() -> bool) {
        self.process_end();
        for content in self.state.lock().stores.values_mut() {
            let reached: Vec<[bool; 2]> = content.unsynced.iter().map(|_| [keeps(), keeps()]).collect();
            content.is_torn = reached.iter().any(|[first, second]| first != second);
            let kept = reached.iter().take_while(|reached| **reached == [true, true]).count();
            let lost = content.unsynced.split_off(kept);
            content.was_cut = !lost.is_empty();
            lost.into_iter().rev().for_each(|batch| content.undo(batch));
            content.synced = content.unsynced.pop().or(content.synced.take());
            content.unsynced.clear();
            (content.has_hole, content.refused) = (false, None);
        }
    }

    /// Bytes of keys and values of all stores.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// Removes the store in `dir`, as an operator might by mistake.
    pub fn remove(&self, dir: &Path) {
        self.state.lock().stores.remove(dir);
    }

    /// Changes one byte of the value of `key`, as a bad disk might.
    ///
    /// # Panics
    /// If there is no such store or key.
    pub fn damage(&self, dir: &Path, key: &[u8]) {
        self.flip(dir, key, &mut |bits| bits / 16 * 8);
    }

    /// Changes one bit of the value of `key`. `draw` gets the number of bits and returns the one to change.
    ///
    /// # Panics
    /// If there is no such store, key or bit.
    pub fn flip(&self, dir: &Path, key: &[u8], draw: &mut dyn FnMut(usize) -> usize) {
        let mut state = self.state.lock();
        let content = state.stores.get_mut(dir).expect("a store");
        let value = content.pairs.get_mut(key).expect("a key");
        let mut bytes = value.to_vec();
        let bit = draw(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        *value = Bytes::from(bytes);
    }

    /// Makes the keys from `first` to `last` unreadable, as a damaged block does. Returns how many there are.
    pub fn damage_block(&self, dir: &Path, first: &[u8], last: &[u8]) -> usize {
        let mut state = self.state.lock();
        let Some(content) = state.stores.get_mut(dir) else { return 0 };
        let keys = content.pairs.range::<[u8], _>((Bound::Included(first), Bound::Included(last)));
        let keys: Vec<Bytes> = keys.map(|(key, _)| key.clone()).collect();
        let count = keys.len();
        content.unreadable.extend(keys);
        count
    }

    /// The keys of the store in `dir`, in order.
    pub fn keys(&self, dir: &Path) -> Vec<Bytes> {
        self.state.lock().stores.get(dir).map(|content| content.pairs.keys().cloned().collect()).unwrap_or_default()
    }
}

impl State {
    fn change(&mut self, dir: &Path) -> Result<(), StoreError> {
        match &mut self.changes_left {
            Some(0) => return Err(StoreError::failed(dir, "the power is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        self.changes += 1;
        Ok(())
    }

    fn used_bytes(&self) -> u64 {
        self.stores.values().map(|content| content.bytes).sum()
    }
}

fn bytes_of(batch: &[KeyValue]) -> u64 {
    batch.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

impl Content {
    fn apply(&mut self, batch: &[KeyValue], gone: &[Bytes]) {
        if !self.unreadable.is_empty() {
            batch.iter().map(|(key, _)| key).chain(gone).for_each(|key| _ = self.unreadable.remove(key));
        }
        let replaced = batch.iter().map(|(key, value)| (key.clone(), self.pairs.insert(key.clone(), value.clone())));
        let mut replaced: Vec<_> = replaced.collect();
        replaced.extend(gone.iter().map(|key| (key.clone(), self.pairs.remove(key))));
        self.unsynced.push(replaced);
        self.last += 1;
        self.bytes += bytes_of(batch);
    }

    fn undo(&mut self, batch: Replaced) {
        self.last -= 1;
        for (key, before) in batch.into_iter().rev() {
            match before {
                Some(value) => _ = self.pairs.insert(key, value),
                None => _ = self.pairs.remove(&key),
            }
        }
    }
}

impl Stores for MemoryStores {
    fn open(&self, dir: &Path, _settings: &StoreSettings, needed: u64) -> Result<Arc<dyn Store>, StoreError> {
        let mut state = self.state.lock();
        let epoch = state.epoch;
        let content = state.stores.entry(dir.to_owned()).or_default();
        if content.is_torn && planted::is("a journal's end is trusted") {
            return Err(StoreError::broken(dir, "a batch of its journal is torn"));
        }
        if content.was_cut && planted::is("a synced batch is dropped in silence") {
            content.synced.take().into_iter().for_each(|batch| content.undo(batch));
        } else if content.last < needed {
            let (journal, last) = ("the journal".to_owned(), content.last);
            return Err(StoreError::Damaged { dir: dir.to_owned(), journal, at: 0, last, needed });
        }
        if !planted::is("a store believed as it is read") {
            // Opening rewrites the journal.
            content.has_hole = false;
        }
        if let Some((batch, gone)) = content.refused.take() {
            content.apply(&batch, &gone);
        }
        Ok(Arc::new(MemoryStore { state: Arc::clone(&self.state), dir: dir.to_owned(), epoch }))
    }

    fn exists(&self, dir: &Path) -> bool {
        self.state.lock().stores.contains_key(dir)
    }
}

struct MemoryStore {
    state: Arc<Mutex<State>>,
    dir: PathBuf,
    epoch: u64,
}

impl MemoryStore {
    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.state.lock();
        match state.epoch == self.epoch && state.stores.contains_key(&self.dir) {
            true => Ok(state),
            false => Err(StoreError::failed(&self.dir, "it was open before the power cut")),
        }
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let state = self.state()?;
        let content = &state.stores[&self.dir];
        match content.unreadable.contains(key) {
            true => Err(StoreError::broken(&self.dir, DAMAGED_BLOCK)),
            false => Ok(content.pairs.get(key).cloned()),
        }
    }

    fn begin(&self) -> Result<u64, StoreError> {
        let mut state = self.state()?;
        let (used, capacity) = (state.used_bytes(), state.capacity_bytes);
        let content = state.stores.get_mut(&self.dir).expect("looked at above");
        let needed = content.refused.as_ref().map_or(0, |(batch, _)| bytes_of(batch));
        if needed > 0 && capacity.is_some_and(|capacity| used + needed > capacity) {
            return Err(StoreError::full(&self.dir, "there is no room to open it anew"));
        }
        if capacity.is_some_and(|capacity| used >= capacity) {
            return Err(StoreError::full(&self.dir, "there is no room at all"));
        }
        if let Some((batch, gone)) = content.refused.take() {
            content.apply(&batch, &gone);
        }
        Ok(content.last + 1)
    }

    fn change(&self, batch: &[KeyValue], gone: &[Bytes]) -> Result<(), StoreError> {
        if batch.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let mut state = self.state()?;
        state.change(&self.dir)?;
        let used = state.used_bytes();
        let is_full = state.capacity_bytes.is_some_and(|capacity| used + bytes_of(batch) > capacity);
        let keeps_refused = state.keeps_refused;
        let content = state.stores.get_mut(&self.dir).expect("looked at above");
        if is_full {
            if keeps_refused {
                content.refused.get_or_insert_with(|| (batch.to_vec(), gone.to_vec()));
            }
            return Err(StoreError::full(&self.dir, "the disk is full"));
        }
        if let Some((batch, gone)) = content.refused.take() {
            content.apply(&batch, &gone);
        }
        content.apply(batch, gone);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut state = self.state()?;
        state.change(&self.dir)?;
        let fails = state.syncs_fail;
        let content = state.stores.get_mut(&self.dir).expect("looked at above");
        if fails {
            content.has_hole |= !content.unsynced.is_empty();
            return Err(StoreError::failed(&self.dir, "the disk does not sync"));
        }
        if !content.has_hole {
            content.synced = content.unsynced.pop().or(content.synced.take());
            content.unsynced.clear();
            (content.was_cut, content.is_torn) = (false, false);
        }
        Ok(())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
        let state = self.state()?;
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let content = &state.stores[&self.dir];
        let found = content.pairs.range::<[u8], _>((from, Bound::Unbounded));
        let found = found.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        let readable = |key: &Bytes| match content.unreadable.contains(key) {
            true => Err(StoreError::broken(&self.dir, DAMAGED_BLOCK)),
            false => Ok(()),
        };
        found.map(|(key, value)| readable(key).map(|()| (key.clone(), value.clone()))).collect()
    }

    fn disk_bytes(&self) -> u64 {
        self.state().map_or(0, |state| state.stores[&self.dir].bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::contract;
    use super::*;

    #[test]
    fn it_meets_the_contract_of_a_store() {
        contract::check(&MemoryStores::new(), Path::new("/data/history"));
    }

    #[test]
    fn a_power_cut_takes_unsynced_batches_and_all_behind_them() {
        let stores = MemoryStores::new();
        let dir = Path::new("/data/history");
        let store = stores.open(dir, &StoreSettings::default(), 0).unwrap();
        let put =
            |value: &'static str| store.write(&[(Bytes::from_static(b"key"), Bytes::from_static(value.as_bytes()))]);
        put("one").unwrap();
        store.sync().unwrap();
        ["two", "three", "four"].into_iter().for_each(|value| put(value).unwrap());
        let mut answers = [true, true, false, true, true, true].into_iter();
        stores.power_cut(&mut || answers.next().unwrap());
        assert!(store.get(b"key").is_err(), "opened before the power cut");
        let refused = stores.open(dir, &StoreSettings::default(), 3).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("leaves the batches up to 2, and snapshots need 3"), "{refused}");
        let store = stores.open(dir, &StoreSettings::default(), 2).unwrap();
        assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"two"[..]));
        stores.set_capacity(Some(0));
        assert!(store.write(&[(Bytes::from_static(b"key"), Bytes::from_static(b"five"))]).unwrap_err().is_full());
        stores.fail_syncs(true);
        assert!(!store.sync().unwrap_err().is_full());
    }

    #[test]
    fn data_of_a_failed_sync_is_durable_after_a_reopen() {
        let dir = Path::new("/data/history");
        for reopened in [false, true] {
            let stores = MemoryStores::new();
            let store = stores.open(dir, &StoreSettings::default(), 0).unwrap();
            store.write(&[(Bytes::from_static(b"key"), Bytes::from_static(b"one"))]).unwrap();
            stores.fail_syncs(true);
            assert!(store.sync().is_err());
            stores.fail_syncs(false);
            let store = if reopened { stores.open(dir, &StoreSettings::default(), 0).unwrap() } else { store };
            store.sync().unwrap();
            stores.power_cut(&mut || false);
            let store = stores.open(dir, &StoreSettings::default(), 0).unwrap();
            assert_eq!(store.get(b"key").unwrap().is_some(), reopened);
        }
    }
}

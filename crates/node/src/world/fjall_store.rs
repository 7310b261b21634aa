//! Stores on the real disk: one log-structured tree of the crate `fjall` each.
//!
//! It is made small: one thread, a cache and a memtable of the sizes that the settings say. A batch goes to the
//! operating system at once and to the disk with a sync. When the disk is full its journal refuses everything from then
//! on; what was open is then closed and opened anew before the next write, which drops what was not synced.

#![allow(clippy::disallowed_methods, reason = "this is a door to the system's files")]

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::{RwLock, RwLockReadGuard};

use super::store::{Pair, Store, StoreError, StoreSettings, Stores, is_no_space};

/// The journal may take so much before memtables are written to files: the least that fjall takes.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Files kept open.
const FILES_MAX: usize = 64;
/// Beside what is written, room is left for the files that memtables are sorted into.
const MEMTABLES_SPARE: u64 = 4;
/// The name of its one tree.
const TREE: &str = "all";

/// The stores of the real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct FjallStores;

impl Stores for FjallStores {
    fn open(&self, dir: &Path, settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
        let open = Open::new(dir, settings)?;
        Ok(Arc::new(FjallStore { dir: dir.to_owned(), settings: *settings, open: RwLock::new(Some(open)) }))
    }

    fn exists(&self, dir: &Path) -> bool {
        // What was begun and has no version yet holds nothing.
        dir.join("version").exists()
    }
}

struct FjallStore {
    dir: PathBuf,
    settings: StoreSettings,
    /// `None` after a write that found the disk full.
    open: RwLock<Option<Open>>,
}

struct Open {
    tree: Keyspace,
    // Closed last.
    database: Database,
}

impl Open {
    fn new(dir: &Path, settings: &StoreSettings) -> Result<Open, StoreError> {
        let database = Database::builder(dir)
            .worker_threads(1)
            .cache_size(settings.cache_bytes)
            .max_journaling_size(JOURNAL_BYTES)
            .max_cached_files(Some(FILES_MAX))
            .open();
        let database = database.map_err(|error| told(dir, &error))?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(settings.memtable_bytes);
        let tree = database.keyspace(TREE, options).map_err(|error| told(dir, &error))?;
        Ok(Open { tree, database })
    }
}

/// What fjall's error means for whoever keeps something in a store.
fn told(dir: &Path, error: &fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(io) if is_no_space(io) => StoreError::full(dir, io),
        fjall::Error::Locked => StoreError::broken(dir, "another process has it open"),
        other => StoreError::broken(dir, other),
    }
}

impl FjallStore {
    fn reading<T>(&self, read: impl FnOnce(&Open) -> Result<T, fjall::Error>) -> Result<T, StoreError> {
        let open: RwLockReadGuard<'_, _> = match self.open.read() {
            open if open.is_some() => open,
            closed => {
                drop(closed);
                self.reopen()?;
                self.open.read()
            }
        };
        let open = open.as_ref().ok_or_else(|| StoreError::full(&self.dir, "it is closed until there is room"))?;
        read(open).map_err(|error| told(&self.dir, &error))
    }

    fn reopen(&self) -> Result<(), StoreError> {
        let mut open = self.open.write();
        if open.is_none() {
            *open = Some(Open::new(&self.dir, &self.settings)?);
        }
        Ok(())
    }

    /// Room for a batch is looked for before it is written: what runs full in the middle must be opened anew.
    fn check_room(&self, bytes: u64) -> Result<(), StoreError> {
        let space = rustix::fs::statvfs(&self.dir).map_err(|error| StoreError::broken(&self.dir, error))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let needed = bytes + MEMTABLES_SPARE * self.settings.memtable_bytes;
        match free >= needed {
            true => Ok(()),
            false => Err(StoreError::full(&self.dir, format!("{free} bytes are free, {needed} are needed"))),
        }
    }
}

impl Store for FjallStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.reading(|open| Ok(open.tree.get(key)?.map(|value| Bytes::copy_from_slice(&value))))
    }

    fn change(&self, batch: &[Pair], gone: &[Bytes]) -> Result<(), StoreError> {
        if batch.is_empty() && gone.is_empty() {
            return Ok(());
        }
        self.check_room(batch.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum())?;
        let written = self.reading(|open| {
            let mut all = open.database.batch().durability(Some(PersistMode::Buffer));
            for (key, value) in batch {
                all.insert(&open.tree, &key[..], &value[..]);
            }
            for key in gone {
                all.remove(&open.tree, &key[..]);
            }
            Ok(all.commit())
        })?;
        let Err(error) = written else { return Ok(()) };
        // Its own thread may have met the full disk before this one: then it only says that it is poisoned.
        let is_full = match &error {
            fjall::Error::Poisoned => self.check_room(JOURNAL_BYTES).is_err(),
            other => told(&self.dir, other).is_full(),
        };
        *self.open.write() = None;
        match is_full {
            true => Err(StoreError::full(&self.dir, error)),
            false => Err(told(&self.dir, &error)),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        let synced = self.reading(|open| open.database.persist(PersistMode::SyncData));
        // Even a full disk: what the journal lost in the middle takes everything after it along at the next start.
        synced.map_err(|error| StoreError::broken(&self.dir, format!("it does not sync: {error}")))
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        self.reading(|open| {
            let mut found = Vec::new();
            for guard in open.tree.range::<&[u8], _>((from, Bound::Unbounded)).take(limit) {
                let (key, value) = guard.into_inner()?;
                if !key.starts_with(prefix) {
                    break;
                }
                found.push((Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&value)));
            }
            Ok(found)
        })
    }

    fn disk_bytes(&self) -> u64 {
        self.reading(|open| open.database.disk_space()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::promises;
    use super::*;

    #[test]
    fn it_keeps_the_promises_of_a_store() {
        let dir = tempfile::tempdir().unwrap();
        promises::check(&FjallStores, &dir.path().join("data/history"));
    }

    #[test]
    fn it_is_closed_when_it_is_dropped_and_refused_when_it_is_open_or_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let settings = StoreSettings::default();
        let store = FjallStores.open(dir.path(), &settings).unwrap();
        let refused = FjallStores.open(dir.path(), &settings).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("another process has it open"), "{refused}");
        store.write(&[(Bytes::from_static(b"key"), Bytes::from_static(b"value"))]).unwrap();
        store.sync().unwrap();
        drop(store);
        std::fs::write(dir.path().join("version"), b"something else").unwrap();
        let refused = FjallStores.open(dir.path(), &settings).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(" cannot be used: "), "{refused}");
    }
}

//! Stores on the real disk. Each is one log-structured tree of the crate `fjall`.
//!
//! A store is small: one thread, and a cache and a memtable of the configured sizes. A batch goes to the operating
//! system at once and to the disk with a sync. On a full disk fjall's journal fails and refuses every later write.
//! Reads go on. Before the next write the store is closed and reopened, as soon as there is room. That drops unsynced
//! batches.
//!
//! Before fjall opens its journals, they are rewritten with the same bytes. After a failed sync the system keeps their
//! pages as if they were written, so fjall would otherwise trust data that is not on the disk.

#![allow(clippy::disallowed_methods, reason = "this is a door to the system's files")]

use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use tracing_mutex::parkinglot::{RwLock, RwLockReadGuard};

use super::disk::{Disk, OpenMode};
use super::os_disk::{OsDisk, is_out_of_descriptors, with_descriptor};
use super::store::{KeyValue, Store, StoreError, StoreSettings, Stores, is_no_space};

/// The journal's size before memtables are written to files. It is fjall's minimum.
const JOURNAL_BYTES: u64 = 64 << 20;
const FILES_MAX: usize = 32;
/// Free room that a batch leaves for sorted files, in memtables.
const MEMTABLES_SPARE: u64 = 4;
/// The unit in which journals are rewritten. Pieces of zeros are skipped, because preallocated journals consist of
/// them.
const PIECE: usize = 256 << 10;
/// The suffix of fjall's journals, its first file and its lock.
const JOURNALS: &str = ".jnl";
const VERSION: &str = "version";
const LOCK: &str = "lock";
/// How often fjall may fail without naming a cause between two syncs. Its thread may have met a full disk, so the store is
/// reopened. More failures than this are permanent.
const POISONED_MAX: u32 = 3;
const TREE: &str = "all";

/// The stores of the real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct FjallStores;

impl Stores for FjallStores {
    fn open(&self, dir: &Path, settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
        let open = Open::new(dir, settings)?;
        let open = RwLock::new(Some(open));
        Ok(Arc::new(FjallStore { dir: dir.to_owned(), settings: *settings, open, poisoned: AtomicU32::new(0) }))
    }

    fn exists(&self, dir: &Path) -> bool {
        // A store that was not made completely has no version and no data.
        dir.join(VERSION).exists()
    }
}

struct FjallStore {
    dir: PathBuf,
    settings: StoreSettings,
    /// `None` if it could not be reopened after it failed.
    open: RwLock<Option<Open>>,
    /// Failures without a named cause since the last sync.
    poisoned: AtomicU32,
}

struct Open {
    /// It refuses writes until it is reopened.
    is_failed: bool,
    tree: Keyspace,
    // Dropped last.
    database: Database,
}

impl Open {
    fn new(dir: &Path, settings: &StoreSettings) -> Result<Open, StoreError> {
        if FjallStores.exists(dir) {
            rewrite_journals(&OsDisk, dir).map_err(|error| match is_no_space(&error) {
                true => StoreError::full(dir, error),
                false => StoreError::broken(dir, format!("its journal cannot be written again: {error}")),
            })?;
        }
        let database = || {
            Database::builder(dir)
                .worker_threads(1)
                .cache_size(settings.cache_bytes)
                .max_journaling_size(JOURNAL_BYTES)
                .max_cached_files(Some(FILES_MAX))
                .open()
        };
        let database = when_descriptors_allow(dir, database).map_err(|error| store_error(dir, &error))?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(settings.memtable_bytes);
        let tree = when_descriptors_allow(dir, || database.keyspace(TREE, options))
            .map_err(|error| store_error(dir, &error))?;
        Ok(Open { is_failed: false, tree, database })
    }
}

/// Rewrites the journals in `dir` with the same bytes and syncs them. Tables need no rewriting, because fjall never
/// uses a table whose sync failed.
fn rewrite_journals(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let Some(_lock) = disk.lock(&dir.join(LOCK))? else {
        // fjall reports it.
        return Ok(());
    };
    let names = disk.list(dir)?;
    let mut piece = vec![0; PIECE];
    for name in names.iter().filter(|name| name.ends_with(JOURNALS) || *name == VERSION) {
        let file = disk.open(&dir.join(name), OpenMode::Write)?;
        let (length, mut at) = (file.length()?, 0);
        while at < length {
            let piece = &mut piece[..PIECE.min((length - at) as usize)];
            file.read_exact_at(piece, at)?;
            if piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(piece, at)?;
            }
            at += piece.len() as u64;
        }
        file.sync_data()?;
    }
    disk.sync_dir(dir)
}

/// The operating system's error behind fjall's error.
fn io_error(error: &fjall::Error) -> Option<&io::Error> {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => Some(error),
        _ => None,
    }
}

fn store_error(dir: &Path, error: &fjall::Error) -> StoreError {
    match (error, io_error(error)) {
        (_, Some(io)) if is_no_space(io) => StoreError::full(dir, io),
        (_, Some(io)) if is_out_of_descriptors(io) => {
            StoreError::NoDescriptor { dir: dir.to_owned(), why: io.to_string() }
        }
        (fjall::Error::Locked, _) => StoreError::broken(dir, "another process has it open"),
        (other, _) => StoreError::broken(dir, other),
    }
}

/// Repeats a read until the process has a file descriptor for it.
fn when_descriptors_allow<T>(dir: &Path, mut ask: impl FnMut() -> Result<T, fjall::Error>) -> Result<T, fjall::Error> {
    let mut last = None;
    let asked = with_descriptor(dir, || match ask() {
        Ok(done) => Ok(done),
        Err(error) => {
            let kind = io_error(&error).filter(|io| is_out_of_descriptors(io)).and_then(io::Error::raw_os_error);
            last = Some(error);
            Err(kind.map_or_else(|| io::ErrorKind::Other.into(), io::Error::from_raw_os_error))
        }
    });
    asked.map_err(|_| last.expect("it failed"))
}

impl FjallStore {
    fn reading<T>(&self, read: impl Fn(&Open) -> Result<T, fjall::Error>) -> Result<T, StoreError> {
        let open: RwLockReadGuard<'_, _> = match self.open.read() {
            open if open.is_some() => open,
            closed => {
                drop(closed);
                self.reopen()?;
                self.open.read()
            }
        };
        let open = open.as_ref().ok_or_else(|| StoreError::full(&self.dir, "it is closed until there is room"))?;
        when_descriptors_allow(&self.dir, || read(open)).map_err(|error| store_error(&self.dir, &error))
    }

    /// Reopens a failed store. Until there is room for that, the failed one serves reads.
    fn reopen(&self) -> Result<(), StoreError> {
        let mut open = self.open.write();
        if open.as_ref().is_some_and(|open| !open.is_failed) {
            return Ok(());
        }
        // fjall must not have the same directory open twice.
        *open = None;
        *open = Some(Open::new(&self.dir, &self.settings)?);
        Ok(())
    }

    /// Marks the store as failed after a write or sync.
    fn fail_open(&self, error: &fjall::Error) -> StoreError {
        if let Some(open) = &mut *self.open.write() {
            open.is_failed = true;
        }
        match error {
            // fjall's thread may have been the first to meet the full disk or a lack of descriptors. Then the cause is not named.
            fjall::Error::Poisoned if self.poisoned.fetch_add(1, Ordering::Relaxed) < POISONED_MAX => {
                StoreError::full(&self.dir, error)
            }
            other => store_error(&self.dir, other),
        }
    }

    /// Checked before a batch, because a store that runs full in the middle of one must be reopened.
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

    fn begin(&self) -> Result<(), StoreError> {
        // Without room for a reopen the failed store goes on serving reads.
        self.check_room(0)?;
        self.reopen()
    }

    fn change(&self, batch: &[KeyValue], gone: &[Bytes]) -> Result<(), StoreError> {
        if batch.is_empty() && gone.is_empty() {
            return Ok(());
        }
        self.check_room(batch.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum())?;
        self.reopen()?;
        let written = self.reading(|open| {
            let all = OwnedWriteBatch::with_capacity(open.database.clone(), batch.len() + gone.len());
            let mut all = all.durability(Some(PersistMode::Buffer));
            for (key, value) in batch {
                all.insert(&open.tree, &key[..], &value[..]);
            }
            for key in gone {
                all.remove(&open.tree, &key[..]);
            }
            Ok(all.commit())
        })?;
        written.map_err(|error| self.fail_open(&error))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.reopen()?;
        match self.reading(|open| Ok(open.database.persist(PersistMode::SyncData)))? {
            Ok(()) => {
                self.poisoned.store(0, Ordering::Relaxed);
                Ok(())
            }
            // fjall's thread has failed, so everything unsynced is in doubt.
            Err(error @ fjall::Error::Poisoned) => Err(self.fail_open(&error)),
            // A full disk is no exception, because after a hole in the journal the next start drops everything behind it.
            Err(error) => Err(StoreError::broken(&self.dir, format!("it does not sync: {error}"))),
        }
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
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
    use super::super::memory_disk::MemoryDisk;
    use super::super::store::contract;
    use super::*;

    #[test]
    fn it_meets_the_contract_of_a_store() {
        let dir = tempfile::tempdir().unwrap();
        contract::check(&FjallStores, &dir.path().join("data/history"));
    }

    #[test]
    fn data_of_a_failed_sync_is_durable_before_it_is_read() {
        let (disk, dir) = (MemoryDisk::new(), Path::new("/data/history"));
        disk.create_dir_all(dir).unwrap();
        let journal = disk.open(&dir.join("7.jnl"), OpenMode::Create).unwrap();
        journal.set_length(3 * PIECE as u64).unwrap();
        journal.sync_data().unwrap();
        disk.sync_dir(dir).unwrap();
        journal.write_all_at(b"a batch", 100).unwrap();
        journal.write_all_at(b"another", 2 * PIECE as u64).unwrap();
        disk.fail_next_sync();
        assert!(journal.sync_data().is_err());
        disk.process_end();
        rewrite_journals(&disk, dir).unwrap();
        disk.power_cut(&mut || false);
        let journal = disk.open(&dir.join("7.jnl"), OpenMode::Read).unwrap();
        let mut read = [0; 7];
        for (at, written) in [(100, b"a batch"), (2 * PIECE as u64, b"another")] {
            journal.read_exact_at(&mut read, at).unwrap();
            assert_eq!(&read, written);
        }
        // A journal that another process writes is not touched.
        let held = disk.lock(&dir.join(LOCK)).unwrap();
        let before = disk.changes();
        rewrite_journals(&disk, dir).unwrap();
        assert_eq!(disk.changes(), before);
        drop(held);
    }

    #[test]
    fn a_failed_store_serves_reads_until_there_is_room_to_reopen_it() {
        let dir = tempfile::tempdir().unwrap();
        let settings = StoreSettings::default();
        let open = RwLock::new(Some(Open::new(dir.path(), &settings).unwrap()));
        let mut store = FjallStore { dir: dir.path().to_owned(), settings, open, poisoned: AtomicU32::new(0) };
        let pair = |value: &'static str| [(Bytes::from_static(b"key"), Bytes::from_static(value.as_bytes()))];
        let found = |store: &FjallStore| store.get(b"key").unwrap().unwrap();
        store.write(&pair("one")).unwrap();
        store.sync().unwrap();
        assert!(store.fail_open(&fjall::Error::Poisoned).is_full());
        // There is no room.
        store.settings.memtable_bytes = u64::MAX / 8;
        assert!(store.write(&pair("two")).unwrap_err().is_full());
        assert_eq!(found(&store), "one");
        store.settings = settings;
        store.write(&pair("two")).unwrap();
        store.sync().unwrap();
        assert_eq!(found(&store), "two");
        // A repeated failure is permanent.
        let last = (0..=POISONED_MAX).map(|_| store.fail_open(&fjall::Error::Poisoned)).last().unwrap();
        assert!(!last.is_full(), "{last}");
    }

    #[test]
    fn a_store_closes_when_dropped_and_is_refused_when_open_or_damaged() {
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

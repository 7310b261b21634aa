//! Stores on the real disk. Each is one log-structured tree of the crate `fjall`.
//!
//! A store is small: one thread, and a cache and a memtable of the configured sizes. A batch goes to the operating
//! system at once and to the disk with a sync. On a full disk fjall's journal fails and refuses every later write.
//! Reads go on. Before the next write the store is closed and reopened, as soon as there is room. That drops unsynced
//! batches.
//!
//! Tables are merged by a thread of ours, because a damaged block must not end the store (`merges.rs`).
//!
//! Before fjall opens its journals, their ends are cut off behind the first batch that a power cut has taken, and what is left is
//! rewritten with the same bytes. After a failed sync the system keeps their pages as if they were written, so fjall would
//! otherwise trust data that is not on the disk.

#![allow(clippy::disallowed_methods, reason = "this is a door to the system's files")]

mod journals;
mod merges;
#[cfg(test)]
mod power_cuts;

use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use lsm_tree::{AbstractTree, SeqNo, SequenceNumberCounter};
use tracing_mutex::parkinglot::{RwLock, RwLockReadGuard};

use journals::{JournalError, Numbers};
use merges::{DamagedTables, Merges};

use super::disk::{Disk, OpenMode};
use super::os_disk::{OsDisk, is_out_of_descriptors, with_descriptor};
use super::store::{DamagedTable, KeyValue, Store, StoreError, StoreSettings, Stores, is_no_space};

/// The journal's size before memtables are written to files. It is fjall's minimum.
const JOURNAL_BYTES: u64 = 64 << 20;
const FILES_MAX: usize = 32;
/// Free room that a batch leaves for sorted files, in memtables.
const MEMTABLES_SPARE: u64 = 4;
/// fjall's first file and its lock.
const VERSION: &str = "version";
const LOCK: &str = "lock";
/// How often fjall may fail without naming a cause between two syncs. Its thread may have met a full disk, so the store is
/// reopened. More failures than this are permanent.
const POISONED_MAX: u32 = 3;
/// With this many tables over one another a write waits for merges, at most this often and for this long each time. fjall would let
/// it wait without an end from 30 on.
const TABLES_MAX: usize = 22;
const MERGE_WAITS: u32 = 100;
const MERGE_WAIT: Duration = Duration::from_millis(50);
const TREE: &str = "all";
/// The key of the last batch's [`Numbers`]. Every batch writes it, and no caller sees it.
const NUMBER_KEY: &[u8] = b"\0number";
/// The directory of the trees, and the file that a tree has once it is made.
const TREES: &str = "keyspaces";
const MADE: &str = "current";
/// What fjall's own tree has once it is made.
const FIRST_TREE: &str = "keyspaces/0/current";

/// The stores of the real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct FjallStores;

impl Stores for FjallStores {
    fn open(&self, dir: &Path, settings: &StoreSettings, needed: u64) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(FjallStore::new(dir, settings, needed)?))
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
    /// The last batch that is known to be synced.
    synced: AtomicU64,
    /// Failures without a named cause since the last sync.
    poisoned: AtomicU32,
    damaged: Arc<DamagedTables>,
}

struct Open {
    /// It refuses writes until it is reopened.
    is_failed: bool,
    /// The number of the last batch.
    last: AtomicU64,
    // Dropped before what it merges.
    _merges: Merges,
    tree: Keyspace,
    // Dropped last.
    database: Database,
}

impl Open {
    /// `needed` is the batch that snapshots need.
    fn new(
        dir: &Path,
        settings: &StoreSettings,
        needed: u64,
        damaged: &Arc<DamagedTables>,
    ) -> Result<Open, StoreError> {
        remove_unfinished(&OsDisk, dir).map_err(|error| StoreError::failed(dir, error))?;
        if FjallStores.exists(dir) {
            prepare_journals(&OsDisk, dir, needed, || in_tables(dir)).map_err(|error| match error {
                JournalError::Damaged { journal, at, last } => {
                    StoreError::Damaged { dir: dir.to_owned(), journal, at, last, needed }
                }
                JournalError::Io(error) if is_no_space(&error) => StoreError::full(dir, error),
                JournalError::Io(error) => {
                    StoreError::failed(dir, format!("its journal cannot be written again: {error}"))
                }
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
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(settings.memtable_bytes)
                .compaction_strategy(merges::never())
        };
        let tree = when_descriptors_allow(dir, || database.keyspace(TREE, options))
            .map_err(|error| store_error(dir, &error))?;
        // fjall syncs what is in its trees' directories, and not their names.
        OsDisk.sync_dir(&dir.join(TREES)).map_err(|error| StoreError::failed(dir, error))?;
        when_descriptors_allow(dir, || Ok(merges::begin(&tree)?)).map_err(|error| store_error(dir, &error))?;
        let numbers = when_descriptors_allow(dir, || tree.get(NUMBER_KEY)).map_err(|error| store_error(dir, &error))?;
        let numbers = numbers.and_then(|numbers| Numbers::decode(&numbers)).unwrap_or_default();
        let merges = with_descriptor(dir, || Merges::start(dir, settings, (&database, &tree), damaged))
            .map_err(|error| StoreError::failed(dir, error))?;
        Ok(Open { is_failed: false, last: AtomicU64::new(numbers.batch), _merges: merges, tree, database })
    }
}

/// Makes the directory of a store durable, and removes what a power cut has left of one that was not made completely. fjall makes its
/// trees last, and refuses to make anything again.
fn remove_unfinished(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    disk.create_dir_all(dir)?;
    let is_written = |name: &str| -> io::Result<bool> {
        let file = disk.open(&dir.join(name), OpenMode::Read)?;
        let mut bytes = vec![0; file.length()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes.iter().any(|byte| *byte != 0))
    };
    let names = disk.list(dir)?;
    if names.iter().any(|name| name == VERSION) && is_written(VERSION)?
        || disk.open(&dir.join(FIRST_TREE), OpenMode::Read).is_ok()
    {
        return Ok(());
    }
    let Some(_lock) = disk.lock(&dir.join(LOCK))? else { return Ok(()) };
    for name in names.iter().filter(|name| *name == VERSION || journals::is_journal(name)) {
        disk.remove(&dir.join(name))?;
    }
    disk.sync_dir(dir)
}

/// The last batch in the store's tables, without its journals.
fn in_tables(dir: &Path) -> io::Result<u64> {
    let mut last = 0;
    for tree in std::fs::read_dir(dir.join(TREES))? {
        let path = tree?.path();
        // fjall removes a tree that was not made completely, and keeps its own in number 0.
        if path.ends_with("0") || !path.join(MADE).exists() {
            continue;
        }
        let (next, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
        let tree = lsm_tree::Config::new(path, next, visible).open().map_err(io::Error::other)?;
        let numbers = tree.get(NUMBER_KEY, SeqNo::MAX).map_err(io::Error::other)?;
        last = last.max(numbers.and_then(|numbers| Numbers::decode(&numbers)).unwrap_or_default().batch);
    }
    Ok(last)
}

/// Cuts off what the journals in `dir` have behind the first missing batch, rewrites the rest with the same bytes, and syncs them.
/// Tables need no rewriting, because fjall never uses a table whose sync failed.
fn prepare_journals(
    disk: &dyn Disk,
    dir: &Path,
    needed: u64,
    in_tables: impl Fn() -> io::Result<u64>,
) -> Result<(), JournalError> {
    let Some(_lock) = disk.lock(&dir.join(LOCK))? else {
        // fjall reports it.
        return Ok(());
    };
    journals::prepare(disk, dir, needed, in_tables)?;
    let version = disk.open(&dir.join(VERSION), OpenMode::Write)?;
    journals::rewrite(&*version, version.length()?)?;
    Ok(disk.sync_dir(dir)?)
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
        (_, Some(io)) if io.kind() == io::ErrorKind::PermissionDenied => StoreError::failed(dir, io),
        (fjall::Error::Locked, _) => StoreError::failed(dir, "another process has it open"),
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
    fn new(dir: &Path, settings: &StoreSettings, needed: u64) -> Result<FjallStore, StoreError> {
        let damaged = Arc::default();
        Ok(FjallStore {
            dir: dir.to_owned(),
            settings: *settings,
            open: RwLock::new(Some(Open::new(dir, settings, needed, &damaged)?)),
            synced: AtomicU64::new(needed),
            poisoned: AtomicU32::new(0),
            damaged,
        })
    }

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
        // What is synced must be there, because memory has it no more. The rest will be written again.
        *open = Some(Open::new(&self.dir, &self.settings, self.synced.load(Ordering::Relaxed), &self.damaged)?);
        Ok(())
    }

    /// Waits for merges, so that fjall never does.
    fn wait_for_merges(&self) -> Result<(), StoreError> {
        for _ in 0..MERGE_WAITS {
            if self.reading(|open| Ok(open.tree.tree.l0_run_count()))? < TABLES_MAX {
                return Ok(());
            }
            thread::sleep(MERGE_WAIT);
        }
        Err(StoreError::full(&self.dir, "its tables wait to be merged"))
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
        let space = rustix::fs::statvfs(&self.dir).map_err(|error| StoreError::failed(&self.dir, error))?;
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

    fn begin(&self) -> Result<u64, StoreError> {
        // Without room for a reopen the failed store goes on serving reads.
        self.check_room(0)?;
        self.reopen()?;
        self.reading(|open| Ok(open.last.load(Ordering::Relaxed) + 1))
    }

    fn change(&self, batch: &[KeyValue], gone: &[Bytes]) -> Result<(), StoreError> {
        if batch.is_empty() && gone.is_empty() {
            return Ok(());
        }
        self.check_room(batch.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum())?;
        self.reopen()?;
        self.wait_for_merges()?;
        let written = self.reading(|open| {
            let all = OwnedWriteBatch::with_capacity(open.database.clone(), 1 + batch.len() + gone.len());
            let mut all = all.durability(Some(PersistMode::Buffer));
            let number = open.last.load(Ordering::Relaxed) + 1;
            let numbers = Numbers { batch: number, synced: self.synced.load(Ordering::Relaxed) };
            all.insert(&open.tree, NUMBER_KEY, numbers.encode());
            for (key, value) in batch {
                all.insert(&open.tree, &key[..], &value[..]);
            }
            for key in gone {
                all.remove(&open.tree, &key[..]);
            }
            Ok(all.commit().map(|()| open.last.store(number, Ordering::Relaxed)))
        })?;
        written.map_err(|error| self.fail_open(&error))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.reopen()?;
        let synced = self.reading(|open| {
            let last = open.last.load(Ordering::Relaxed);
            Ok(open.database.persist(PersistMode::SyncData).map(|()| self.synced.fetch_max(last, Ordering::Relaxed)))
        })?;
        match synced {
            Ok(_) => {
                self.poisoned.store(0, Ordering::Relaxed);
                Ok(())
            }
            // fjall's thread has failed, so everything unsynced is in doubt.
            Err(error @ fjall::Error::Poisoned) => Err(self.fail_open(&error)),
            // A full disk is no exception, because after a hole in the journal the next start drops everything behind it.
            Err(error) => Err(StoreError::failed(&self.dir, format!("it does not sync: {error}"))),
        }
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        self.reading(|open| {
            let mut found = Vec::new();
            for guard in open.tree.range::<&[u8], _>((from, Bound::Unbounded)) {
                let (key, value) = guard.into_inner()?;
                if !key.starts_with(prefix) || found.len() == limit {
                    break;
                }
                if key == NUMBER_KEY {
                    continue;
                }
                found.push((Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&value)));
            }
            Ok(found)
        })
    }

    fn damaged(&self, known: usize) -> Vec<DamagedTable> {
        self.damaged.after(known)
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
        drop(disk.open(&dir.join(VERSION), OpenMode::Create).unwrap());
        journal.set_length(1 << 20).unwrap();
        journal.sync_data().unwrap();
        disk.sync_dir(dir).unwrap();
        // The second piece of the journal has some of it as well.
        let batches = [journals::encoded(1, 0, b"small"), journals::encoded(2, 1, &[7; 300 << 10])].concat();
        journal.write_all_at(&batches, 0).unwrap();
        disk.fail_next_sync();
        assert!(journal.sync_data().is_err());
        disk.process_end();
        let prepare = || prepare_journals(&disk, dir, 2, || Ok(0)).unwrap_or_else(|_| panic!("a good disk"));
        prepare();
        disk.power_cut(&mut || false);
        let journal = disk.open(&dir.join("7.jnl"), OpenMode::Read).unwrap();
        let mut read = vec![0; batches.len()];
        journal.read_exact_at(&mut read, 0).unwrap();
        assert!(read == batches);
        // A journal that another process writes is not touched.
        let held = disk.lock(&dir.join(LOCK)).unwrap();
        let before = disk.changes();
        prepare();
        assert_eq!(disk.changes(), before);
        drop(held);
    }

    #[test]
    fn a_failed_store_serves_reads_until_there_is_room_to_reopen_it() {
        let dir = tempfile::tempdir().unwrap();
        let settings = StoreSettings::default();
        let mut store = FjallStore::new(dir.path(), &settings, 0).unwrap();
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
    fn a_store_that_was_not_made_completely_is_made_again() {
        for left in [&["0.jnl"][..], &["0.jnl", "version"], &["lock"]] {
            let dir = tempfile::tempdir().unwrap();
            left.iter().for_each(|name| std::fs::write(dir.path().join(name), b"").unwrap());
            let store = FjallStores.open(dir.path(), &StoreSettings::default(), 0).unwrap();
            assert_eq!(store.begin().unwrap(), 1, "{left:?}");
            drop(store);
            // Its version may not get lost later.
            std::fs::write(dir.path().join(VERSION), b"").unwrap();
            let refused =
                FjallStores.open(dir.path(), &StoreSettings::default(), 0).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains(" cannot be used: "), "{refused}");
        }
    }

    /// Memory has nothing of it any more.
    #[test]
    fn a_store_that_has_lost_a_synced_batch_is_not_reopened() {
        let (dir, settings) = (tempfile::tempdir().unwrap(), StoreSettings::default());
        let store = FjallStore::new(dir.path(), &settings, 0).unwrap();
        store.write(&[(Bytes::from_static(b"key"), Bytes::from_static(b"one"))]).unwrap();
        store.sync().unwrap();
        store.fail_open(&fjall::Error::Poisoned);
        let journal = std::fs::File::options().write(true).open(dir.path().join("0.jnl")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&journal, b"?", 20).unwrap();
        let refused = store.begin().unwrap_err().to_string();
        assert!(refused.contains("0.jnl cannot be read from byte 0 on, which leaves the batches up to 0"), "{refused}");
    }

    #[test]
    fn a_store_closes_when_dropped_and_is_refused_when_open_or_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let settings = StoreSettings::default();
        let store = FjallStores.open(dir.path(), &settings, 0).unwrap();
        let refused = FjallStores.open(dir.path(), &settings, 0).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("another process has it open"), "{refused}");
        store.write(&[(Bytes::from_static(b"key"), Bytes::from_static(b"value"))]).unwrap();
        store.sync().unwrap();
        drop(store);
        std::fs::write(dir.path().join("version"), b"something else").unwrap();
        let refused = FjallStores.open(dir.path(), &settings, 0).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(" cannot be used: "), "{refused}");
    }
}

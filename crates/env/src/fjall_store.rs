//! Stores on the real disk: one log-structured tree of the crate `fjall` each.
//!
//! It is made small: one thread, a cache and a memtable of the sizes that the settings say. A batch goes to the
//! operating system at once and to the disk with a sync. When the disk is full its journal refuses everything from then
//! on; what is open is then still read, and closed and opened anew before the next write, as soon as there is room: that
//! drops what was not synced.
//!
//! Before fjall opens its journals they are written again with the same bytes: after a failed sync the system keeps their
//! pages as if they were written, so fjall would read, believe and sync what is not on the disk.

#![allow(clippy::disallowed_methods, reason = "this is a door to the system's files")]

use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use parking_lot::{RwLock, RwLockReadGuard};

use super::disk::{Disk, OpenMode};
use super::os_disk::{OsDisk, is_out_of_descriptors, with_descriptor};
use super::store::{KeyValue, Store, StoreError, StoreSettings, Stores, is_no_space};

/// The journal may take so much before memtables are written to files: the least that fjall takes.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Files kept open.
const FILES_MAX: usize = 32;
/// Beside what is written, room is left for the files that memtables are sorted into.
const MEMTABLES_SPARE: u64 = 4;
/// Journals are written again in pieces of so many bytes; pieces of zeros, which they are made of, are left.
const PIECE: usize = 256 << 10;
/// What fjall calls its journals, and the file that it looks at before anything else.
const JOURNALS: &str = ".jnl";
const VERSION: &str = "version";
/// What it locks while it has them open.
const LOCK: &str = "lock";
/// fjall's own thread says of what it met only that it does not go on. It is opened anew then, so often without a sync in
/// between; more is no passing trouble.
const POISONED_MAX: u32 = 3;
/// The name of its one tree.
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
        // What was begun and has no version yet holds nothing.
        dir.join(VERSION).exists()
    }
}

struct FjallStore {
    dir: PathBuf,
    settings: StoreSettings,
    /// `None` where it could not be opened anew after a write that found the disk full.
    open: RwLock<Option<Open>>,
    /// How often it did not go on since the last sync, for a reason that it does not say.
    poisoned: AtomicU32,
}

struct Open {
    /// It takes no more writes.
    is_failed: bool,
    tree: Keyspace,
    // Closed last.
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

/// Writes the journals in `dir` again, with the same bytes, and syncs them. Tables are not concerned: one whose sync failed
/// was never counted among them.
fn rewrite_journals(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let Some(_lock) = disk.lock(&dir.join(LOCK))? else {
        // fjall says so.
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

/// What the system said, where fjall's error is about that.
fn io_error(error: &fjall::Error) -> Option<&io::Error> {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => Some(error),
        _ => None,
    }
}

/// What fjall's error means for whoever keeps something in a store.
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

/// Asks fjall for what changes nothing, again as long as there is no file descriptor for it.
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

    /// Opens it anew if it takes no more writes. Until there is room for that, what is open is read.
    fn reopen(&self) -> Result<(), StoreError> {
        let mut open = self.open.write();
        if open.as_ref().is_some_and(|open| !open.is_failed) {
            return Ok(());
        }
        // Two of them side by side would spoil each other.
        *open = None;
        *open = Some(Open::new(&self.dir, &self.settings)?);
        Ok(())
    }

    /// What is to become of a store that did not take a write or a sync.
    fn fail_open(&self, error: &fjall::Error) -> StoreError {
        if let Some(open) = &mut *self.open.write() {
            open.is_failed = true;
        }
        match error {
            // Its own thread may have met the full disk before this one, or a want of descriptors: then it only says this.
            fjall::Error::Poisoned if self.poisoned.fetch_add(1, Ordering::Relaxed) < POISONED_MAX => {
                StoreError::full(&self.dir, error)
            }
            other => store_error(&self.dir, other),
        }
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

    fn begin(&self) -> Result<(), StoreError> {
        // What is open is read until there is room to open it anew.
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
            // Its own thread has failed: nothing that was not synced counts.
            Err(error @ fjall::Error::Poisoned) => Err(self.fail_open(&error)),
            // Even a full disk: what the journal lost in the middle takes everything after it along at the next start.
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
    fn what_a_failed_sync_left_in_a_journal_is_durable_before_it_is_read() {
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
        // Whoever has it open goes on writing it: it is not touched then.
        let held = disk.lock(&dir.join(LOCK)).unwrap();
        let before = disk.changes();
        rewrite_journals(&disk, dir).unwrap();
        assert_eq!(disk.changes(), before);
        drop(held);
    }

    #[test]
    fn what_takes_no_write_is_still_read_until_there_is_room_to_open_it_anew() {
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
        // What happens again and again does not pass.
        let last = (0..=POISONED_MAX).map(|_| store.fail_open(&fjall::Error::Poisoned)).last().unwrap();
        assert!(!last.is_full(), "{last}");
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

//! A key-value store on disk, for data that is not needed in memory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

/// A key with its value.
pub type KeyValue = (Bytes, Bytes);

/// A key-value store, ordered by key. All calls block. Any thread may read.
pub trait Store: Send + Sync {
    /// The value of `key`.
    ///
    /// # Errors
    /// [`StoreError::Broken`].
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Prepares the next batch and returns its number. Batches are numbered from 1 without a gap. From now on reads see exactly the
    /// state that the batch will change. Call it before any read that the batch depends on. A batch that failed with `Full` may be
    /// in the journal all the same, which shows only when the store is reopened.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn begin(&self) -> Result<u64, StoreError>;

    /// Writes all of `batch` or nothing. Readers see it when this returns, and it is durable after the next
    /// [`Store::sync`]. A power cut takes batches from the end only.
    ///
    /// # Errors
    /// [`StoreError::Full`]: this batch and all batches since the last sync may be lost. Write all of them again.
    /// [`StoreError::Broken`].
    fn write(&self, batch: &[KeyValue]) -> Result<(), StoreError> {
        self.change(batch, &[])
    }

    /// As [`Store::write`], and removes the keys `gone` in the same batch.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn change(&self, batch: &[KeyValue], gone: &[Bytes]) -> Result<(), StoreError>;

    /// Makes everything written durable.
    ///
    /// # Errors
    /// [`StoreError::Broken`]: everything written since the last success is in doubt, and a later success proves
    /// nothing. The node must end.
    fn sync(&self) -> Result<(), StoreError>;

    /// Up to `limit` pairs whose keys begin with `prefix`, in order, behind the key `after`.
    ///
    /// # Errors
    /// [`StoreError::Broken`].
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError>;

    /// The files of the store that were found damaged while it merged them, without the first `known` of them. What they have
    /// cannot be read in part, and everything else can. Never waits.
    fn damaged(&self, known: usize) -> Vec<DamagedTable> {
        let _ = known;
        Vec::new()
    }

    /// Approximate bytes on disk.
    fn disk_bytes(&self) -> u64;
}

/// A file of sorted pairs, a part of which cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedTable {
    /// Its name, below the directory of the store.
    pub file: String,
    /// Only keys behind this one are damaged. `None`: from the first one on.
    pub after: Option<Bytes>,
    /// Only keys before this one are damaged. `None`: to the last one.
    pub before: Option<Bytes>,
    pub why: String,
}

/// Opens stores.
pub trait Stores: Send + Sync {
    /// Opens the store in `dir`, and makes it if it does not exist. Everything that can be read then is durable after
    /// the next [`Store::sync`], even if a sync failed in an earlier process.
    ///
    /// `needed` is the number of a batch that was synced and must be there, 0 for none. Whatever came behind it may be damaged: the
    /// store has every batch before the first damaged one, and none behind it.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the batch `needed` or one before it is damaged, [`StoreError::Broken`] if something else is,
    /// [`StoreError::Full`] if there is no room to make it.
    fn open(&self, dir: &Path, settings: &StoreSettings, needed: u64) -> Result<Arc<dyn Store>, StoreError>;

    /// Whether `dir` has a store.
    fn exists(&self, dir: &Path) -> bool;

    /// How long the next read of a simulated store blocks. Its calls return at once, and the reader waits for this long beforehand.
    /// Zero for a real store.
    fn read_delay(&self) -> Duration {
        Duration::ZERO
    }
}

/// How much memory a store may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Bytes of the block cache.
    pub cache_bytes: u64,
    /// Bytes of the memtable, which holds writes until they are sorted into files.
    pub memtable_bytes: u64,
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings { cache_bytes: 16 << 20, memtable_bytes: 8 << 20 }
    }
}

/// A failure of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("no room in the store {}: {why}; free space on its disk, writing then resumes by itself within seconds", .dir.display())]
    Full { dir: PathBuf, why: String },
    /// The process has no file descriptor left.
    #[error("the store {} waits for a file descriptor: {why}; raise the limit of them, or lower limits.connections", .dir.display())]
    NoDescriptor { dir: PathBuf, why: String },
    /// A batch that is needed is damaged. Nothing was changed.
    #[error(
        "the store {} is damaged: {journal} cannot be read from byte {at} on, which leaves the batches up to {last}, and snapshots need \
         {needed}; nothing was changed; check the disk and keep the directory, then restore the whole data directory from one backup, \
         or in a cluster let the node join anew with an empty one",
        .dir.display()
    )]
    Damaged {
        dir: PathBuf,
        /// The name of the file.
        journal: String,
        /// The byte from which it cannot be read.
        at: u64,
        /// The last batch that is left.
        last: u64,
        /// The batch that snapshots need.
        needed: u64,
    },
    /// The system does not let it be used, for example because another process has it open or the disk does not sync. Nothing is known
    /// to be damaged.
    #[error(
        "the store {} cannot be used: {why}; check the disk; if it is damaged, restore the whole data directory from one backup, \
         or in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    Failed { dir: PathBuf, why: String },
    /// The store or the disk is damaged.
    #[error(
        "the store {} cannot be used: {why}; check the disk; if it is damaged, restore the whole data directory from one backup, \
         or in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    Broken { dir: PathBuf, why: String },
}

impl StoreError {
    /// Whether a retry helps once a resource is free again, such as room on the disk.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Full { .. } | StoreError::NoDescriptor { .. } => true,
            StoreError::Damaged { .. } | StoreError::Failed { .. } | StoreError::Broken { .. } => false,
        }
    }

    /// Whether something that the store has cannot be read any more.
    pub fn is_damage(&self) -> bool {
        matches!(self, StoreError::Damaged { .. } | StoreError::Broken { .. })
    }

    pub(crate) fn failed(dir: &Path, why: impl fmt::Display) -> StoreError {
        StoreError::Failed { dir: dir.to_owned(), why: why.to_string() }
    }

    pub(crate) fn broken(dir: &Path, why: impl fmt::Display) -> StoreError {
        StoreError::Broken { dir: dir.to_owned(), why: why.to_string() }
    }

    pub(crate) fn full(dir: &Path, why: impl fmt::Display) -> StoreError {
        StoreError::Full { dir: dir.to_owned(), why: why.to_string() }
    }
}

/// Whether the file system is full.
pub fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

#[cfg(test)]
pub(super) mod contract {
    //! The contract of every store, checked for the real one and for the one in memory.

    use super::*;

    fn pair(key: &str, value: &str) -> KeyValue {
        (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
    }

    fn keys(pairs: Vec<KeyValue>) -> Vec<String> {
        pairs.into_iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    pub(crate) fn check(stores: &dyn Stores, dir: &Path) {
        assert!(!stores.exists(dir));
        let store = stores.open(dir, &StoreSettings::default(), 0).unwrap();
        assert!(stores.exists(dir));
        assert_eq!(store.get(b"a").unwrap(), None);
        store.write(&[]).unwrap();
        assert_eq!(store.begin().unwrap(), 1);
        store.write(&[pair("a/1", "one"), pair("b/1", "other"), pair("a/2", "two")]).unwrap();
        store.write(&[pair("a/3", "three"), pair("a/1", "new"), pair("a", "prefix")]).unwrap();
        assert_eq!(store.get(b"a/1").unwrap().as_deref(), Some(&b"new"[..]));
        store.sync().unwrap();
        store.change(&[pair("c/1", "kept")], &[Bytes::from_static(b"b/1"), Bytes::from_static(b"missing")]).unwrap();
        assert_eq!(store.get(b"b/1").unwrap(), None);
        store.sync().unwrap();
        drop(store);
        let store = stores.open(dir, &StoreSettings::default(), 3).unwrap();
        assert_eq!(store.begin().unwrap(), 4);
        assert_eq!((store.get(b"b/1").unwrap(), keys(store.scan(b"c/", None, 2).unwrap())), (None, vec!["c/1".into()]));
        assert_eq!(store.get(b"a/1").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(keys(store.scan(b"a/", None, 10).unwrap()), ["a/1", "a/2", "a/3"]);
        assert_eq!(keys(store.scan(b"a/", Some(b"a/1"), 1).unwrap()), ["a/2"]);
        assert_eq!(keys(store.scan(b"a/", Some(b"a/3"), 1).unwrap()), [""; 0]);
        assert_eq!(keys(store.scan(b"", None, 2).unwrap()), ["a", "a/1"]);
        assert_eq!(keys(store.scan(b"d", None, 2).unwrap()), [""; 0]);
        let many: Vec<_> = (0..5_000).map(|number| pair(&format!("m/{number:05}"), &"x".repeat(300))).collect();
        many.chunks(100).for_each(|batch| store.write(batch).unwrap());
        store.sync().unwrap();
        assert_eq!(store.scan(b"m/", Some(b"m/00099"), 5_000).unwrap().len(), 4_900);
        assert!(store.disk_bytes() > 0);
    }
}

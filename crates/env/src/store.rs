//! A store of keys and values on disk, for what is not needed in memory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

/// A key with its value.
pub type KeyValue = (Bytes, Bytes);

/// A store of keys and values, ordered by key. All calls block; reads may come from any thread.
pub trait Store: Send + Sync {
    /// What is kept under `key`.
    ///
    /// # Errors
    /// [`StoreError::Broken`].
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// What is read from now on is what the next batch is written over. To be called before anything is read that a batch
    /// depends on: a batch that was refused as full may be there or not, which shows only when the store is opened anew for
    /// the next one.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn begin(&self) -> Result<(), StoreError>;

    /// Keeps all of these or none. Readers see them when this returns; they are durable after the next
    /// [`Store::sync`]. After a power cut there are all batches up to some one, and none after it.
    ///
    /// # Errors
    /// [`StoreError::Full`]: nothing of it may count as written, nor of any batch since the last sync; write
    /// all of them again. [`StoreError::Broken`].
    fn write(&self, batch: &[KeyValue]) -> Result<(), StoreError> {
        self.change(batch, &[])
    }

    /// As [`Store::write`], and in the same batch forgets what is kept under the keys `gone`.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn change(&self, batch: &[KeyValue], gone: &[Bytes]) -> Result<(), StoreError>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// [`StoreError::Broken`]: what was written since the last success is in doubt, and a later success proves
    /// nothing. The node must end.
    fn sync(&self) -> Result<(), StoreError>;

    /// Pairs whose keys begin with `prefix`, in order, from the first key after `after` on, `limit` at most.
    ///
    /// # Errors
    /// [`StoreError::Broken`].
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError>;

    /// Bytes on disk, about.
    fn disk_bytes(&self) -> u64;
}

/// Where stores are opened.
pub trait Stores: Send + Sync {
    /// Opens the store in `dir`, making it where there is none. What can be read then is durable after the next
    /// [`Store::sync`], also where a sync has failed in an earlier process.
    ///
    /// # Errors
    /// [`StoreError::Broken`] when it is damaged, [`StoreError::Full`] when there is no room to make it.
    fn open(&self, dir: &Path, settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError>;

    /// Whether there is one in `dir`.
    fn exists(&self, dir: &Path) -> bool;
}

/// How much memory a store may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// For what was read, in bytes.
    pub cache_bytes: u64,
    /// For what was written and is not sorted into files yet, in bytes.
    pub memtable_bytes: u64,
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings { cache_bytes: 16 << 20, memtable_bytes: 8 << 20 }
    }
}

/// Why a store does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("no room in the store {}: {why}; free space on its disk, writing then resumes by itself within seconds", .dir.display())]
    Full {
        /// The store's directory.
        dir: PathBuf,
        /// What it says.
        why: String,
    },
    /// The process has no file descriptor left for it.
    #[error("the store {} waits for a file descriptor: {why}; raise the limit of them, or lower limits.connections", .dir.display())]
    NoDescriptor {
        /// The store's directory.
        dir: PathBuf,
        /// What the system says.
        why: String,
    },
    /// It is damaged, or the disk is.
    #[error(
        "the store {} cannot be used: {why}; check the disk; if it is damaged, restore the whole data directory from one backup, \
         or in a cluster empty it and let the node join anew",
        .dir.display()
    )]
    Broken {
        /// The store's directory.
        dir: PathBuf,
        /// What it says.
        why: String,
    },
}

impl StoreError {
    /// Whether something has run out that comes back, such as room on the disk: it is to be tried again then.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Full { .. } | StoreError::NoDescriptor { .. } => true,
            StoreError::Broken { .. } => false,
        }
    }

    pub(crate) fn broken(dir: &Path, why: impl fmt::Display) -> StoreError {
        StoreError::Broken { dir: dir.to_owned(), why: why.to_string() }
    }

    pub(crate) fn full(dir: &Path, why: impl fmt::Display) -> StoreError {
        StoreError::Full { dir: dir.to_owned(), why: why.to_string() }
    }
}

/// Whether this answer of a file system says that it is full.
pub fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

#[cfg(test)]
pub(super) mod contract {
    //! What every store must do, checked for the real one and for the one in memory alike.

    use super::*;

    fn pair(key: &str, value: &str) -> KeyValue {
        (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
    }

    fn keys(pairs: Vec<KeyValue>) -> Vec<String> {
        pairs.into_iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    pub(crate) fn check(stores: &dyn Stores, dir: &Path) {
        assert!(!stores.exists(dir));
        let store = stores.open(dir, &StoreSettings::default()).unwrap();
        assert!(stores.exists(dir));
        assert_eq!(store.get(b"a").unwrap(), None);
        store.write(&[]).unwrap();
        store.write(&[pair("a/1", "one"), pair("b/1", "other"), pair("a/2", "two")]).unwrap();
        store.write(&[pair("a/3", "three"), pair("a/1", "new"), pair("a", "prefix")]).unwrap();
        assert_eq!(store.get(b"a/1").unwrap().as_deref(), Some(&b"new"[..]));
        store.sync().unwrap();
        store.change(&[pair("c/1", "kept")], &[Bytes::from_static(b"b/1"), Bytes::from_static(b"nobody")]).unwrap();
        assert_eq!(store.get(b"b/1").unwrap(), None);
        store.sync().unwrap();
        drop(store);
        let store = stores.open(dir, &StoreSettings::default()).unwrap();
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

//! Stores whose reads can be made to stand still, for tests: as on a disk that answers after seconds.

use std::{path::Path, sync::Arc};

use bytes::Bytes;

use super::{
    read_gate::ReadGate,
    store::{DamagedTable, KeyValue, Store, StoreError, StoreSettings, Stores},
};

/// Stores over other ones. Clones share the stall.
#[derive(Clone)]
pub struct StallingStores {
    inner: Arc<dyn Stores>,
    gate: Arc<ReadGate>,
}

impl StallingStores {
    /// Stores over these, whose reads go on.
    pub fn new(inner: Arc<dyn Stores>) -> StallingStores {
        StallingStores { inner, gate: Arc::default() }
    }

    /// What lets reads wait.
    pub fn gate(&self) -> &ReadGate {
        &self.gate
    }
}

impl Stores for StallingStores {
    fn open(&self, dir: &Path, settings: &StoreSettings, needed: u64) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(StallingStore { inner: self.inner.open(dir, settings, needed)?, gate: Arc::clone(&self.gate) }))
    }

    fn exists(&self, dir: &Path) -> bool {
        self.inner.exists(dir)
    }
}

struct StallingStore {
    inner: Arc<dyn Store>,
    gate: Arc<ReadGate>,
}

impl Store for StallingStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.gate.pass();
        self.inner.get(key)
    }

    fn begin(&self) -> Result<u64, StoreError> {
        self.inner.begin()
    }

    fn change(&self, batch: &[KeyValue], gone: &[Bytes]) -> Result<(), StoreError> {
        self.inner.change(batch, gone)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
        self.gate.pass();
        self.inner.scan(prefix, after, limit)
    }

    fn damaged(&self, known: usize) -> Vec<DamagedTable> {
        self.inner.damaged(known)
    }

    fn disk_bytes(&self) -> u64 {
        self.inner.disk_bytes()
    }
}

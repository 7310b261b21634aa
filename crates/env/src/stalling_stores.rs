//! Stores whose reads can be made to stand still, for tests: as on a disk that answers after seconds.

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use bytes::Bytes;

use super::store::{DamagedTable, KeyValue, Store, StoreError, StoreSettings, Stores};

/// Stores over other ones. Clones share the stall.
#[derive(Clone)]
pub struct StallingStores {
    inner: Arc<dyn Stores>,
    gate: Arc<Gate>,
}

/// Whether reads go on.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    waiting: usize,
}

impl StallingStores {
    /// Stores over these, whose reads go on.
    pub fn new(inner: Arc<dyn Stores>) -> StallingStores {
        StallingStores { inner, gate: Arc::default() }
    }

    /// Every read from now on waits, and its thread with it.
    pub fn stall(&self) {
        self.gate.shut(true);
    }

    /// Reads go on.
    pub fn go_on(&self) {
        self.gate.shut(false);
    }

    /// Reads that wait.
    pub fn waiting(&self) -> usize {
        self.gate.waiting()
    }
}

impl Gate {
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting
    }

    pub(super) fn shut(&self, is_shut: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_shut = is_shut;
        self.changed.notify_all();
    }

    pub(super) fn pass(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        while state.is_shut {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
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
    gate: Arc<Gate>,
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

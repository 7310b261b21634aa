//! One log for several threads ("group commit"). While one of them syncs, the others append, and the next sync covers
//! all of their records.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use boxoffice_core::planted;
use tracing_mutex::parkinglot::{Mutex, MutexGuard};

use super::{Headroom, Kind, LastEntry, Log, LogError};

/// A log with several writers, each a [`LogWriter`].
///
/// A thread that holds both locks took `syncing` first.
pub struct GroupCommit {
    log: Mutex<Log>,
    /// Held during a sync.
    syncing: Mutex<()>,
    /// The last durable record.
    synced: AtomicU64,
    /// Writers that have not ended.
    writers: AtomicUsize,
}

/// One of the writers of a log. Its calls block.
pub struct LogWriter {
    group: Arc<GroupCommit>,
    writer: usize,
    /// The last record that it appended.
    appended: u64,
}

impl GroupCommit {
    /// The writers of a log, [`LogConfig::writers`](super::LogConfig::writers) of them.
    pub fn writers(log: Log) -> Vec<LogWriter> {
        let (count, appended) = (log.config.writers, log.last_seq());
        let group = Arc::new(GroupCommit {
            synced: AtomicU64::new(log.synced_seq()),
            log: Mutex::new(log),
            syncing: Mutex::default(),
            writers: AtomicUsize::new(count),
        });
        (0..count).map(|writer| LogWriter { group: Arc::clone(&group), writer, appended }).collect()
    }

    /// Makes the records up to `seq` durable, by its own sync (`true`) or by another one that began after they were
    /// appended.
    fn sync(&self, seq: u64) -> Result<bool, LogError> {
        if self.synced.load(Ordering::Acquire) >= seq {
            return Ok(false);
        }
        if planted::is("a sync that began before taken for one's own") && self.syncing.is_locked() {
            drop(self.syncing.lock());
            return Ok(false);
        }
        let _syncing = self.syncing.lock();
        if self.synced.load(Ordering::Acquire) >= seq {
            return Ok(false);
        }
        let Some(sync) = self.log.lock().begin_sync()? else { return Ok(false) };
        let result = sync.file.sync_data();
        let mut log = self.log.lock();
        log.end_sync(sync.seq, result)?;
        self.synced.store(log.synced_seq(), Ordering::Release);
        Ok(true)
    }

    /// Runs an action that may sync the log.
    fn exclusively<T>(&self, act: impl FnOnce(&mut Log) -> Result<T, LogError>) -> Result<T, LogError> {
        let _syncing = self.syncing.lock();
        let mut log = self.log.lock();
        let done = act(&mut log);
        self.synced.store(log.synced_seq(), Ordering::Release);
        done
    }

    /// Locks the log for an append, and syncs too if the append would begin a segment.
    fn lock_for_append(
        &self,
        payload_bytes: usize,
        last_entries: usize,
    ) -> (MutexGuard<'_, Log>, Option<MutexGuard<'_, ()>>) {
        let log = self.log.lock();
        if !log.needs_next_segment(payload_bytes, last_entries) {
            return (log, None);
        }
        drop(log);
        let syncing = self.syncing.lock();
        (self.log.lock(), Some(syncing))
    }
}

impl LogWriter {
    /// As [`Log::append`].
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append(&mut self, kind: Kind, payload: &[u8], last_entries: &[LastEntry]) -> Result<(), LogError> {
        self.append_with(payload.len(), last_entries.len(), |log| log.append(kind, &[payload], last_entries))
    }

    /// As [`Log::append_checkpoint`].
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_checkpoint(&mut self, payload: &[u8]) -> Result<(), LogError> {
        let writer = self.writer;
        self.append_with(payload.len(), 0, |log| log.append_checkpoint(writer, payload))
    }

    fn append_with(
        &mut self,
        payload_bytes: usize,
        last_entries: usize,
        append: impl FnOnce(&mut Log) -> Result<u64, LogError>,
    ) -> Result<(), LogError> {
        let (mut log, syncing) = self.group.lock_for_append(payload_bytes, last_entries);
        let appended = append(&mut log);
        if syncing.is_some() {
            self.group.synced.store(log.synced_seq(), Ordering::Release);
        }
        self.appended = appended?;
        Ok(())
    }

    /// Makes everything that this writer appended durable. `false` if another writer's sync covered it.
    ///
    /// # Errors
    /// As [`Log::sync`].
    pub fn sync(&self) -> Result<bool, LogError> {
        self.group.sync(self.appended)
    }

    /// As [`Log::seal`].
    ///
    /// # Errors
    /// As [`Log::append`] and [`Log::sync`].
    pub fn seal(&self) -> Result<(), LogError> {
        self.group.exclusively(Log::seal)
    }

    /// Ends the writer in an orderly way. The last one seals the log, the others sync it.
    ///
    /// # Errors
    /// As [`Log::append`] and [`Log::sync`].
    pub fn end(self) -> Result<(), LogError> {
        self.sync()?;
        match self.group.writers.fetch_sub(1, Ordering::AcqRel) {
            1 => self.seal(),
            _ => Ok(()),
        }
    }

    /// As [`Log::wants_checkpoint`].
    pub fn wants_checkpoint(&self) -> bool {
        self.group.log.lock().wants_checkpoint(self.writer)
    }

    /// As [`Log::release`].
    pub fn release(&self, first_needed: &dyn Fn(u16) -> u64) -> usize {
        self.group.log.lock().release(first_needed)
    }

    /// As [`Log::retire`].
    pub fn retire(&self, first_needed: &dyn Fn(u16) -> u64) -> Vec<u64> {
        self.group.log.lock().retire(first_needed)
    }

    /// As [`Log::discard`].
    pub fn discard(&self, number: u64) {
        self.group.log.lock().discard(number);
    }

    /// As [`Log::maintain`].
    pub fn maintain(&self) {
        self.group.log.lock().maintain();
    }

    /// As [`Log::headroom`].
    pub fn headroom(&self) -> Headroom {
        self.group.log.lock().headroom()
    }

    /// As [`Log::segments`].
    pub fn segments(&self) -> usize {
        self.group.log.lock().segments()
    }

    /// The last record of any writer.
    pub fn last_seq(&self) -> u64 {
        self.group.log.lock().last_seq()
    }

    /// The last durable record.
    pub fn synced_seq(&self) -> u64 {
        self.group.synced.load(Ordering::Acquire)
    }
}

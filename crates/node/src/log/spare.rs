//! Makes segments ahead of time and removes released ones.
//!
//! A spare is filled with zeros and synced before it is needed: writing into it then costs a sync of
//! what is written and nothing for the file's growth, and a full disk is noticed one whole segment
//! early. Released segments are removed, oldest first, each made durable before the next, so that a power
//! cut never leaves a gap.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::segment::{self, Segment};
use super::{LogConfig, LogError};
use crate::world::{Disk, Rng};

/// Who makes the spare segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// A thread of the log's own.
    Thread,
    /// The log's caller, in [`Log::tend`](super::Log::tend) and when one is needed: all in one
    /// order, as a simulation wants it.
    Caller,
}

/// Segments made ahead.
const SPARES: usize = 1;

pub(super) struct Workshop {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    disk: Arc<dyn Disk>,
    rng: Arc<dyn Rng>,
    dir: PathBuf,
    config: LogConfig,
    stop: AtomicBool,
    bench: Mutex<Bench>,
    changed: Condvar,
}

/// What is ready and what is to be done.
struct Bench {
    ready: VecDeque<Segment>,
    next_number: u64,
    released: VecDeque<PathBuf>,
    /// Why the last attempt failed; cleared by the next success.
    trouble: Option<io::Error>,
}

/// What the workshop can give.
pub(super) struct Stock {
    /// Bytes of the segments that are ready.
    pub(super) ready_bytes: u64,
    /// The disk has no room for another.
    pub(super) no_space: bool,
}

impl Workshop {
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        rng: Arc<dyn Rng>,
        dir: &Path,
        config: LogConfig,
        ready: VecDeque<Segment>,
        next_number: u64,
    ) -> io::Result<Workshop> {
        let bench = Bench {
            ready,
            next_number,
            released: VecDeque::new(),
            trouble: None,
        };
        let shared = Arc::new(Shared {
            disk,
            rng,
            dir: dir.to_owned(),
            config,
            stop: AtomicBool::new(false),
            bench: Mutex::new(bench),
            changed: Condvar::new(),
        });
        let thread = match shared.config.maker {
            Maker::Caller => None,
            Maker::Thread => {
                let shared = shared.clone();
                let name = std::thread::Builder::new().name("log-spares".to_owned());
                Some(name.spawn(move || shared.work())?)
            }
        };
        Ok(Workshop { shared, thread })
    }

    /// Does what is to be done, if that is the caller's part. Trouble is kept for [`Workshop::stock`].
    pub(super) fn tend(&self) {
        if self.thread.is_none() {
            let mut bench = self.shared.bench.lock();
            while self.shared.step(&mut bench) {}
        }
    }

    pub(super) fn stock(&self) -> Stock {
        let bench = self.shared.bench.lock();
        Stock {
            ready_bytes: bench.ready.iter().map(|segment| segment.bytes).sum(),
            no_space: bench.trouble.as_ref().is_some_and(is_no_space),
        }
    }

    /// Whether [`Workshop::take`] would give a segment, waiting for the one being made. `Ok(false)`:
    /// the disk has no room.
    pub(super) fn wait(&self) -> Result<bool, LogError> {
        self.tend();
        let mut bench = self.shared.bench.lock();
        while bench.ready.is_empty() {
            match &bench.trouble {
                Some(error) if is_no_space(error) => return Ok(false),
                Some(error) => {
                    let source = io::Error::new(error.kind(), error.to_string());
                    return Err(LogError::io("make a segment in", &self.shared.dir)(source));
                }
                None => {}
            }
            let thread = self.thread.as_ref();
            assert!(
                thread.is_some_and(|thread| !thread.is_finished()),
                "nobody makes the segment that is waited for"
            );
            // Woken by the maker; the time-out only notices that the maker has died.
            self.shared
                .changed
                .wait_for(&mut bench, Duration::from_millis(100));
        }
        Ok(true)
    }

    /// Takes the segment that [`Workshop::wait`] found.
    pub(super) fn take(&self) -> Segment {
        let segment = self.shared.bench.lock().ready.pop_front();
        self.shared.changed.notify_all();
        segment.expect("a segment is taken only after it was waited for")
    }

    /// Queues the file of a released segment for removal. There are never more of them than segments.
    pub(super) fn release(&self, path: PathBuf) {
        self.shared.bench.lock().released.push_back(path);
        self.shared.changed.notify_all();
    }

    /// Removals that are still to be made.
    pub(super) fn removals(&self) -> usize {
        self.shared.bench.lock().released.len()
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // The lock makes sure that the thread is either waiting or will see the flag.
        drop(self.shared.bench.lock());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its panic was reported when it happened; nothing of it is needed any more.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let retry = Duration::from_millis(self.config.retry_ms);
        let mut bench = self.bench.lock();
        while !self.stop.load(Ordering::Relaxed) {
            if self.step(&mut bench) {
                self.changed.notify_all();
            } else if bench.trouble.is_some() {
                self.changed.notify_all();
                self.changed.wait_for(&mut bench, retry);
            } else {
                self.changed.wait(&mut bench);
            }
        }
    }

    /// Does one thing; `false` when there is nothing to do or it failed. The bench is free meanwhile.
    fn step(&self, bench: &mut MutexGuard<'_, Bench>) -> bool {
        if let Some(path) = bench.released.front().cloned() {
            let removed = MutexGuard::unlocked(bench, || self.remove(&path));
            if removed.is_ok() {
                bench.released.pop_front();
            }
            return Self::note(bench, removed, &path);
        }
        if bench.ready.len() >= SPARES {
            return false;
        }
        let number = bench.next_number;
        let made = MutexGuard::unlocked(bench, || {
            let (disk, rng) = (&*self.disk, &*self.rng);
            segment::make(disk, rng, &self.dir, &self.config, number, &self.stop)
        });
        let made = made.map(|segment| {
            bench.ready.push_back(segment);
            bench.next_number += 1;
        });
        Self::note(bench, made, &self.dir)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        segment::remove_if_there(&*self.disk, path)?;
        self.disk.sync_dir(&self.dir)
    }

    fn note(bench: &mut Bench, done: io::Result<()>, place: &Path) -> bool {
        match done {
            Ok(()) => {
                if bench.trouble.take().is_some() {
                    tracing::info!("the log has room again");
                }
                true
            }
            Err(error) => {
                if bench.trouble.is_none() && error.kind() != io::ErrorKind::Interrupted {
                    tracing::warn!(place = %place.display(), %error, "no spare segment for the log");
                }
                bench.trouble = Some(error);
                false
            }
        }
    }
}

pub(super) fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

//! Preallocates segments and removes released ones.
//!
//! A segment is filled with zeros and synced before it is needed. A later sync then covers records only and no growth
//! of the file, and a full disk is noticed one whole segment early. One released segment is recycled as the next one,
//! which needs no space and no change to the file system's metadata. Others are removed. Both go oldest first, each
//! durably before the next, so that a power cut never leaves a gap.
//!
//! The zeros are written at a limited pace, at least twice as fast as the active segment fills up. So a record's sync
//! meets few of them.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use boxoffice_env::{Disk, Rng, store::is_no_space};
use tracing_mutex::parkinglot::raw::{Condvar, Mutex, MutexGuard};

use super::segment::{self, Segment};
use super::{LogConfig, LogError, Preallocation};

const PREALLOCATED_SEGMENTS: usize = 1;
/// The pause between two pieces of a segment that is not urgent. 64 MiB take about a second.
const PIECE_PAUSE: Duration = Duration::from_millis(4);

pub(super) struct SegmentAllocator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    disk: Arc<dyn Disk>,
    rng: Arc<dyn Rng>,
    dir: PathBuf,
    config: LogConfig,
    stop: AtomicBool,
    /// The log waits for a segment.
    is_urgent: AtomicBool,
    /// Written bytes of the active segment.
    used_bytes: AtomicU64,
    state: Mutex<AllocatorState>,
    changed: Condvar,
}

struct AllocatorState {
    ready: VecDeque<Segment>,
    next_number: u64,
    released: VecDeque<Segment>,
    /// A released segment has become [`segment::UNFINISHED`].
    has_recycled: bool,
    /// The error of the last attempt, cleared by the next success.
    last_error: Option<io::Error>,
}

/// The segments that the allocator has ready.
pub(super) struct Preallocated {
    pub(super) ready_bytes: u64,
    /// The disk has no room for another segment.
    pub(super) no_space: bool,
}

impl SegmentAllocator {
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        rng: Arc<dyn Rng>,
        dir: &Path,
        config: LogConfig,
        ready: VecDeque<Segment>,
        next_number: u64,
    ) -> io::Result<SegmentAllocator> {
        let state =
            AllocatorState { ready, next_number, released: VecDeque::new(), has_recycled: false, last_error: None };
        let shared = Arc::new(Shared {
            disk,
            rng,
            dir: dir.to_owned(),
            config,
            stop: AtomicBool::new(false),
            is_urgent: AtomicBool::new(false),
            used_bytes: AtomicU64::new(0),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let thread = match shared.config.preallocation {
            Preallocation::Inline => None,
            Preallocation::Background => {
                let shared = shared.clone();
                let name = std::thread::Builder::new().name("log-spares".to_owned());
                Some(name.spawn(move || shared.work())?)
            }
        };
        Ok(SegmentAllocator { shared, thread })
    }

    /// Does all pending work if there is no thread for it. An error shows in [`SegmentAllocator::preallocated`].
    pub(super) fn maintain(&self) {
        if self.thread.is_none() {
            let mut state = self.shared.state.lock();
            while self.shared.step(&mut state) {}
        }
    }

    pub(super) fn preallocated(&self) -> Preallocated {
        let state = self.shared.state.lock();
        Preallocated {
            ready_bytes: state.ready.iter().map(|segment| segment.bytes).sum(),
            no_space: state.last_error.as_ref().is_some_and(is_no_space),
        }
    }

    /// Waits until [`SegmentAllocator::take`] has a segment. `Ok(false)` if the disk has no room for one.
    pub(super) fn wait(&self) -> Result<bool, LogError> {
        self.maintain();
        let mut state = self.shared.state.lock();
        // On a full disk the thread retries at its own pace.
        if state.ready.is_empty() && state.last_error.is_none() {
            self.shared.is_urgent.store(true, Ordering::Relaxed);
            self.shared.changed.notify_all();
        }
        let waited = self.wait_at(&mut state);
        self.shared.is_urgent.store(false, Ordering::Relaxed);
        waited
    }

    fn wait_at(&self, state: &mut MutexGuard<'_, AllocatorState>) -> Result<bool, LogError> {
        while state.ready.is_empty() {
            match &state.last_error {
                Some(error) if is_no_space(error) => return Ok(false),
                Some(error) => {
                    let source = io::Error::new(error.kind(), error.to_string());
                    return Err(LogError::io("make a segment in", &self.shared.dir)(source));
                }
                None => {}
            }
            let thread = self.thread.as_ref();
            assert!(thread.is_some_and(|thread| !thread.is_finished()), "the thread that makes segments has ended");
            // The thread wakes this. The time-out only notices that it has died.
            self.shared.changed.wait_for(state, Duration::from_millis(100));
        }
        Ok(true)
    }

    /// Takes a segment after [`SegmentAllocator::wait`].
    pub(super) fn take(&self) -> Segment {
        let segment = self.shared.state.lock().ready.pop_front();
        self.shared.changed.notify_all();
        segment.expect("a segment is taken only after it was waited for")
    }

    /// Queues a released segment for removal.
    pub(super) fn release(&self, segment: Segment) {
        self.shared.state.lock().released.push_back(segment);
        self.shared.changed.notify_all();
    }

    /// Sets the written bytes of the active segment, which determine the pace.
    pub(super) fn set_used_bytes(&self, bytes: u64) {
        self.shared.used_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn pending_removals(&self) -> usize {
        self.shared.state.lock().released.len()
    }
}

impl Drop for SegmentAllocator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // The lock makes sure that the thread is either waiting or will see the flag.
        drop(self.shared.state.lock());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let retry = Duration::from_millis(self.config.retry_ms);
        let mut state = self.state.lock();
        while !self.stop.load(Ordering::Relaxed) {
            if self.step(&mut state) {
                self.changed.notify_all();
            } else if state.last_error.is_some() {
                self.changed.notify_all();
                self.changed.wait_for(&mut state, retry);
            } else {
                self.changed.wait(&mut state);
            }
        }
    }

    /// Does one piece of work with the state unlocked. `false` if there was none or it failed.
    fn step(&self, state: &mut MutexGuard<'_, AllocatorState>) -> bool {
        if let Some(oldest) = state.released.front().cloned() {
            let keeps = !state.has_recycled && oldest.bytes == self.config.segment_bytes;
            let gone = MutexGuard::unlocked(state, || self.unlink(&oldest.path, keeps));
            let gone = gone.map(|is_kept| {
                state.released.pop_front();
                state.has_recycled |= is_kept;
            });
            return Self::record_result(state, gone, &oldest.path);
        }
        if state.ready.len() >= PREALLOCATED_SEGMENTS {
            return false;
        }
        let number = state.next_number;
        // Success uses the recycled file, and a failure removes it.
        let is_recycled = std::mem::take(&mut state.has_recycled);
        let made = MutexGuard::unlocked(state, || {
            let new = segment::NewSegment { number, is_recycled, pace: &|done| self.pace(done) };
            segment::make(&*self.disk, &*self.rng, &self.dir, &self.config, &new)
        });
        let made = made.map(|segment| {
            state.ready.push_back(segment);
            state.next_number += 1;
        });
        Self::record_result(state, made, &self.dir)
    }

    /// Durably removes the oldest segment's name before any other segment or its content is touched. Returns whether
    /// the file was recycled.
    fn unlink(&self, path: &Path, keeps: bool) -> io::Result<bool> {
        let kept = match keeps {
            true => self.disk.rename(path, &self.dir.join(segment::UNFINISHED)),
            false => self.disk.remove(path),
        };
        let is_gone_already = match kept {
            // An earlier attempt failed at the sync.
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            other => other.map(|()| false)?,
        };
        self.disk.sync_dir(&self.dir)?;
        Ok(keeps && !is_gone_already)
    }

    /// Pauses before the next piece of a segment with `done` written bytes, if there is time, and returns the piece's
    /// size.
    fn pace(&self, done: u64) -> io::Result<usize> {
        let is_urgent = || self.is_urgent.load(Ordering::Relaxed);
        let is_stopped = || self.stop.load(Ordering::Relaxed);
        let used = self.used_bytes.load(Ordering::Relaxed);
        let next = done + segment::PIECE as u64;
        let has_time = self.config.preallocation == Preallocation::Background && next >= 2 * used;
        if has_time {
            let mut state = self.state.lock();
            if !is_stopped() && !is_urgent() {
                self.changed.wait_for(&mut state, PIECE_PAUSE);
            }
        }
        // The segment is needed when the active one is full, and small pieces do not catch up.
        let is_late = is_urgent() || next < used;
        match (is_stopped(), is_late) {
            (true, _) => Err(io::ErrorKind::Interrupted.into()),
            (false, true) => Ok(segment::LARGE_PIECE),
            (false, false) => Ok(segment::PIECE),
        }
    }

    fn record_result(state: &mut AllocatorState, done: io::Result<()>, place: &Path) -> bool {
        match done {
            Ok(()) => {
                if state.last_error.take().is_some() {
                    tracing::info!("the log has room again");
                }
                true
            }
            Err(error) => {
                if state.last_error.is_none() && error.kind() != io::ErrorKind::Interrupted {
                    tracing::warn!(place = %place.display(), %error, "the log's segments cannot be made or removed");
                }
                state.last_error = Some(error);
                false
            }
        }
    }
}

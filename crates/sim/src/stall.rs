//! Notices a run that stands still. One of its tasks loops, or waits for a lock that the same thread holds. Simulated time does
//! not go on then, so no simulated timeout ends the run.

use std::{
    convert::Infallible,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::time::sleep;

/// How often the run is looked at, in real time.
const LOOK: Duration = Duration::from_secs(5);
/// A run that has not moved in this number of looks stands still. Looks are counted instead of time, because a paused
/// process does not look.
const LOOKS_MAX: u32 = 12;
/// A beat of a run, in simulated time.
const BEAT: Duration = Duration::from_millis(100);

/// Looks after one run until it is dropped.
pub(crate) struct StallWatch {
    beats: Arc<AtomicU64>,
    /// Tells the thread that the run has ended.
    ended: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StallWatch {
    /// Ends the whole process with this line on stderr if the run stands still, since nothing can end a thread that waits for
    /// ever.
    pub(crate) fn start(replay: String) -> StallWatch {
        StallWatch::look(LOOK, LOOKS_MAX, move || {
            let why = "this run stands still; a task loops, or waits for a lock that its own thread holds";
            // Not `eprintln!`, whose lines a test keeps to itself until its end.
            let _ = writeln!(std::io::stderr(), "{why}: {replay}");
            std::process::abort();
        })
    }

    fn look(every: Duration, looks_max: u32, on_stall: impl FnOnce() + Send + 'static) -> StallWatch {
        let (ended, end) = mpsc::channel();
        let beats = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&beats);
        let watching = move || {
            let (mut known, mut looks) = (0, 0);
            while looks < looks_max {
                if end.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                let now = counted.load(Ordering::Relaxed);
                (known, looks) = if now == known { (known, looks + 1) } else { (now, 0) };
            }
            on_stall();
        };
        StallWatch { beats, ended: Some(ended), thread: Some(thread::spawn(watching)) }
    }

    /// Shows for ever that simulated time goes on. The run polls it beside everything else.
    pub(crate) async fn beat(&self) -> Infallible {
        loop {
            sleep(BEAT).await;
            self.beats.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.ended = None;
        if let Some(thread) = self.thread.take() {
            // Its panic would be in the output already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{runtime::Builder, time::timeout};

    use super::*;

    const SOON: Duration = Duration::from_millis(5);

    #[test]
    fn a_run_that_stands_still_is_noticed() {
        let (stalled, is_stalled) = mpsc::channel();
        let _watch = StallWatch::look(SOON, 3, move || stalled.send(()).expect("the test waits"));
        assert_eq!(is_stalled.recv_timeout(Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn a_run_that_goes_on_is_left_alone() {
        let (stalled, is_stalled) = mpsc::channel();
        let watch = StallWatch::look(SOON, 3, move || stalled.send(()).expect("the test waits"));
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let beaten = runtime.block_on(async { timeout(BEAT * 21 / 2, watch.beat()).await });
        assert!(beaten.is_err() && watch.beats.load(Ordering::Relaxed) == 10, "{beaten:?}");
        drop(watch);
        // It ended without a stall, so nothing was sent, and nothing will be.
        assert_eq!(is_stalled.recv(), Err(mpsc::RecvError));
    }
}

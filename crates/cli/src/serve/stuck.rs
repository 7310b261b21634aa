//! Ends a node if one of its threads is stuck in a task. The task waits for a lock that is never free, or loops. Replication has its own
//! threads, so such a node would keep leading its shards without answering requests. When it has ended, other nodes take over.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::runtime::{Handle, RuntimeMetrics};

/// A thread counts as stuck after this many looks. Looks are counted, not time, because a paused process has not
/// looked.
const LOOKS: u32 = 6;

/// Looks at the threads of runtimes until it is dropped.
pub(super) struct StuckWatch {
    /// Tells its thread to end.
    ended: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A runtime's counts for one of its threads: how often it began and ended to wait, and for how long it has worked.
/// Both stay the same while it works at one task.
type Counts = (u64, Duration);

/// A thread of a runtime.
struct Worker {
    runtime: &'static str,
    metrics: RuntimeMetrics,
    number: usize,
    known: Option<Counts>,
    /// Looks at which it was found at work with the same counts.
    looks: u32,
}

impl StuckWatch {
    /// Ends the process if a thread of these runtimes is stuck for this long.
    ///
    /// # Errors
    /// The thread that looks cannot be started.
    pub(super) fn start(runtimes: &[(&'static str, &Handle)], limit: Duration) -> std::io::Result<StuckWatch> {
        StuckWatch::look(runtimes, limit / LOOKS, move |runtime| {
            crate::log::say(&format!(
                "a thread for {runtime} has been stuck in one task for {limit:?}; the node stops, so that others take over; \
                 please report it"
            ));
            std::process::abort();
        })
    }

    fn look(
        runtimes: &[(&'static str, &Handle)],
        every: Duration,
        on_stuck: impl FnOnce(&'static str) + Send + 'static,
    ) -> std::io::Result<StuckWatch> {
        let (ended, end) = mpsc::channel();
        let of = |&(runtime, handle): &(&'static str, &Handle)| {
            let metrics = handle.metrics();
            let worker = |number| Worker { runtime, metrics: metrics.clone(), number, known: None, looks: 0 };
            (0..metrics.num_workers()).map(worker).collect::<Vec<_>>()
        };
        let mut workers: Vec<Worker> = runtimes.iter().flat_map(of).collect();
        let watching = move || {
            while end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if let Some(stuck) = workers.iter_mut().find_map(|worker| worker.is_stuck().then_some(worker.runtime)) {
                    return on_stuck(stuck);
                }
            }
        };
        let thread = thread::Builder::new().name("stuck-watch".into()).spawn(watching)?;
        Ok(StuckWatch { ended: Some(ended), thread: Some(thread) })
    }
}

impl Drop for StuckWatch {
    fn drop(&mut self) {
        self.ended = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

impl Worker {
    /// Looks at the thread once more.
    fn is_stuck(&mut self) -> bool {
        let waits = self.metrics.worker_park_unpark_count(self.number);
        let counts = (waits, self.metrics.worker_total_busy_duration(self.number));
        // An odd number means that it waits for work.
        let is_working = waits.is_multiple_of(2);
        self.looks = if is_working && self.known == Some(counts) { self.looks + 1 } else { 0 };
        self.known = Some(counts);
        self.looks >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// Long enough for a thread to get a processor in between, beside other tests.
    const EVERY: Duration = Duration::from_millis(100);

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    }

    fn watch(runtime: &Runtime) -> (StuckWatch, mpsc::Receiver<&'static str>) {
        let (tell, told) = mpsc::channel();
        let on_stuck = move |name| tell.send(name).expect("the test waits");
        (StuckWatch::look(&[("tests", runtime.handle())], EVERY, on_stuck).expect("a thread"), told)
    }

    #[test]
    fn one_of_two_threads_that_is_stuck_is_noticed() {
        let runtime = runtime();
        let (go_on, wait) = mpsc::channel::<()>();
        runtime.spawn(async move { wait.recv() });
        let (_watch, told) = watch(&runtime);
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok("tests"));
        drop(go_on);
    }

    #[test]
    fn threads_that_wait_or_have_many_tasks_are_left_alone() {
        let runtime = runtime();
        let (watch, told) = watch(&runtime);
        // Both wait at first. Then one of them always has a task.
        thread::sleep(EVERY * LOOKS * 2);
        let busy = runtime.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        thread::sleep(EVERY * LOOKS * 2);
        busy.abort();
        drop(watch);
        assert_eq!(told.recv(), Err(mpsc::RecvError), "neither was stuck");
    }
}

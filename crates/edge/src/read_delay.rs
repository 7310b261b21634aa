//! How late a runtime reads what has arrived at its connections.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// The delay is measured this often.
const EVERY: Duration = Duration::from_millis(20);

/// Timers of the runtime are no more precise than this, in milliseconds.
const PRECISION_MS: u64 = 2;

/// How late a runtime does what is due. A frame that arrives waits for its connection's turn as long as a timer does: in the queue of
/// tasks, and with its thread for a processor.
#[derive(Debug, Default)]
pub(crate) struct ReadDelay(AtomicU64);

impl ReadDelay {
    /// The delay as it was measured last, in milliseconds. 0 if it is not longer than timers are precise.
    pub(crate) fn ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Measures the delay of the runtime that runs this, for ever.
    pub(crate) async fn measure(&self) {
        loop {
            let due = Instant::now() + EVERY;
            sleep_until(due).await;
            let late_ms = due.elapsed().as_millis() as u64;
            self.0.store(late_ms.saturating_sub(PRECISION_MS), Ordering::Relaxed);
        }
    }
}

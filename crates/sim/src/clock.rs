//! A node's clocks: simulated time with the drift of the machine's clock and its wrong settings.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use boxoffice_env::Clock;
use tokio::time::Instant;

/// The tolerance for deadlines by different clocks, in milliseconds.
pub(crate) const CLOCKS_MS: u64 = 2_000;

/// Wall time at the beginning of a run, in September 2026.
pub(crate) const BEGIN_MS: u64 = 1_790_000_000_000;

/// The error of a machine's wall clock in milliseconds. It outlives the machine's processes. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skew(Arc<AtomicI64>);

impl Skew {
    pub(crate) fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The clocks of one process.
pub(crate) struct SimClock {
    /// The beginning of the run.
    begun: Instant,
    /// The start of the process.
    started: Instant,
    /// The drift of the monotonic clock, in millionths.
    drift_ppm: i64,
    /// The errors of this wall clock and of all wall clocks.
    skews: [Skew; 2],
}

impl SimClock {
    /// The clocks of a process that starts now, of a run that began at `begun`.
    pub(crate) fn new(begun: Instant, drift_ppm: i64, skews: [Skew; 2]) -> SimClock {
        SimClock { begun, started: Instant::now(), drift_ppm, skews }
    }
}

impl Clock for SimClock {
    fn wall_ms(&self) -> u64 {
        let true_ms = BEGIN_MS + self.begun.elapsed().as_millis() as u64;
        true_ms.saturating_add_signed(self.skews.iter().map(Skew::get).sum())
    }

    fn monotonic_ns(&self) -> u64 {
        let ns = self.started.elapsed().as_nanos() as i64;
        (ns + ns / 1_000_000 * self.drift_ppm) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_jump_moves_the_wall_only() {
        let skew = Skew::default();
        let clock = SimClock::new(Instant::now(), 100, [skew.clone(), Skew::default()]);
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        assert_eq!(clock.wall_ms(), BEGIN_MS + 1_000_000);
        assert_eq!(clock.monotonic_ms(), 1_000_100);
        skew.set(-60_000);
        assert_eq!(clock.wall_ms(), BEGIN_MS + 940_000);
        assert_eq!(clock.monotonic_ms(), 1_000_100);
    }
}

//! Wall time and monotonic time.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A node's source of time.
///
/// Wall time may jump and is written to events. Monotonic time never goes back and is for time-outs. The two must not
/// be mixed.
pub trait Clock: Send + Sync {
    /// Wall time in milliseconds since 1970 (UTC).
    fn wall_ms(&self) -> u64;

    /// Nanoseconds since an arbitrary moment. It never goes back. It includes the machine's sleep, so that a promise until
    /// 20:00 ends at 20:00.
    fn monotonic_ns(&self) -> u64;

    /// Milliseconds since the same point as [`Clock::monotonic_ns`].
    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }

    /// Wall time and monotonic time of the same moment, both in milliseconds. A thread may be stopped between two readings, so a
    /// pair that took long is read again. The wall clock is read first, so what is left of such a stop makes wall time seem
    /// earlier, and a life that is reckoned from it longer, never shorter.
    fn both_ms(&self) -> (u64, u64) {
        let mut best = None;
        for _ in 0..READINGS_MAX {
            let before_ms = self.monotonic_ms();
            let (wall_ms, mono_ms) = (self.wall_ms(), self.monotonic_ms());
            let took_ms = mono_ms.saturating_sub(before_ms);
            if best.is_none_or(|(least_ms, _)| took_ms < least_ms) {
                best = Some((took_ms, (wall_ms, mono_ms)));
            }
            if took_ms <= READING_MS {
                break;
            }
        }
        best.expect("it was read at least once").1
    }
}

/// A pair of readings that took no longer than this is of the same moment, in milliseconds.
const READING_MS: u64 = 1;

/// How often a pair is read at most.
const READINGS_MAX: usize = 4;

/// The operating system's clock.
#[derive(Debug, Clone)]
pub struct OsClock {
    started_ns: u64,
}

/// It includes the time in which the machine is suspended.
const MONOTONIC: ClockId = ClockId::Boottime;

fn monotonic_ns() -> u64 {
    let now = clock_gettime(MONOTONIC);
    // Neither is negative, because it counts from the machine's start.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl OsClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> OsClock {
        OsClock { started_ns: monotonic_ns() }
    }
}

impl Default for OsClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for OsClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one door to the system's clock")]
    fn wall_ms(&self) -> u64 {
        // A clock before 1970 reads as 0.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.started_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Clocks that show the same. Some readings of the wall clock take 300 ms, before or after the clock is read.
    struct StallingClock {
        now_ms: AtomicU64,
        readings: AtomicU64,
        /// Of so many readings one takes long.
        one_in: u64,
    }

    const STALL_MS: u64 = 300;

    impl Clock for StallingClock {
        fn wall_ms(&self) -> u64 {
            let reading = self.readings.fetch_add(1, Ordering::Relaxed);
            let stall_ms = if reading.is_multiple_of(self.one_in) { STALL_MS } else { 0 };
            let is_before = (reading / self.one_in).is_multiple_of(2);
            let before = self.now_ms.fetch_add(stall_ms, Ordering::Relaxed);
            if is_before { before + stall_ms } else { before }
        }

        fn monotonic_ns(&self) -> u64 {
            self.now_ms.load(Ordering::Relaxed) * 1_000_000
        }
    }

    #[test]
    fn a_stop_between_two_readings_never_makes_wall_time_later() {
        for one_in in [1, 2, 30] {
            let clock = StallingClock { now_ms: AtomicU64::new(5_000), readings: AtomicU64::new(0), one_in };
            for _ in 0..300 {
                let (wall_ms, mono_ms) = clock.both_ms();
                let is_exact = one_in > 1;
                assert!(wall_ms == mono_ms || (wall_ms < mono_ms && !is_exact), "one reading in {one_in} takes long");
            }
        }
    }

    #[test]
    fn wall_time_is_of_this_century_and_monotonic_time_advances() {
        let clock = OsClock::new();
        let year_2020_ms = 1_577_836_800_000;
        assert!(clock.wall_ms() > year_2020_ms);
        let first = clock.monotonic_ns();
        while clock.monotonic_ms() < 2 {}
        assert!(clock.monotonic_ns() >= first + 1_000_000);
    }
}

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
}

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
    use super::*;

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

//! Time: what the wall says, and what has gone by.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where a node reads the time.
///
/// Wall time may jump and goes into events; monotonic time never goes back and is for time-outs.
/// The two must not be mixed.
pub trait Clock: Send + Sync {
    /// Wall time in milliseconds since 1970 (UTC).
    fn wall_ms(&self) -> u64;

    /// Nanoseconds since a point of this clock's own choosing; never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Milliseconds since the same point as [`Clock::monotonic_ns`].
    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }
}

/// The operating system's clock.
#[derive(Debug, Clone)]
pub struct OsClock {
    started: Instant,
}

impl OsClock {
    /// A clock whose monotonic time starts now.
    #[allow(clippy::disallowed_methods, reason = "this is the one door to the system's clock")]
    pub fn new() -> OsClock {
        OsClock { started: Instant::now() }
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
        // A machine whose clock stands before 1970 is told apart from no real time: it reads 0.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    #[allow(clippy::disallowed_methods, reason = "this is the one door to the system's clock")]
    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_is_of_this_century_and_monotonic_time_goes_on() {
        let clock = OsClock::new();
        let year_2020_ms = 1_577_836_800_000;
        assert!(clock.wall_ms() > year_2020_ms);
        let first = clock.monotonic_ns();
        while clock.monotonic_ms() < 2 {}
        assert!(clock.monotonic_ns() >= first + 1_000_000);
    }
}

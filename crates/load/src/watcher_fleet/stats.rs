//! The statistics of a fleet.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// What the watchers received since counting began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FleetStats {
    /// Deltas that moved a watcher to a newer version.
    pub deltas: u64,
    /// Snapshots for watchers that had a map already, because they were behind or reconnected.
    pub snapshots: u64,
    /// Versions by which deltas and snapshots moved watchers forward.
    pub versions: u64,
    /// Deltas that begin after their watcher's version: a version was never sent.
    pub skipped: u64,
    /// Frames without a newer version.
    pub stale: u64,
    /// Snapshots of an older version, and deltas that do not fit their watcher's map.
    pub wrong: u64,
    /// Feeds that ended.
    pub ended: u64,
    /// Connections that were lost.
    pub lost: u64,
    /// Slow watchers whose connection was lost.
    #[serde(default)]
    pub slow_lost: u64,
    /// Carts that slow watchers opened.
    #[serde(default)]
    pub slow_commands: u64,
    /// Those that were refused or failed, without those that the node answered `busy`.
    #[serde(default)]
    pub slow_refused: u64,
    /// The longest time from sending such a command until the node had decided it, by the clocks of both, in milliseconds.
    #[serde(default)]
    pub slow_decided_ms_max: u64,
    /// Bytes of all frames, including pings.
    pub bytes: u64,
    /// The latencies from a change to its receipt, for each change and each watcher.
    pub latencies: Latencies,
}

impl FleetStats {
    /// Frames that moved a watcher to a newer version.
    pub fn deliveries(&self) -> u64 {
        self.deltas + self.snapshots
    }

    /// Adds the statistics of another fleet.
    pub fn add(&mut self, other: &FleetStats) {
        let FleetStats { deltas, snapshots, versions, skipped, stale, wrong, ended, lost, bytes, latencies, .. } =
            other;
        self.deltas += deltas;
        self.snapshots += snapshots;
        self.versions += versions;
        self.skipped += skipped;
        self.stale += stale;
        self.wrong += wrong;
        self.ended += ended;
        self.lost += lost;
        self.slow_lost += other.slow_lost;
        self.slow_commands += other.slow_commands;
        self.slow_refused += other.slow_refused;
        self.slow_decided_ms_max = self.slow_decided_ms_max.max(other.slow_decided_ms_max);
        self.bytes += bytes;
        self.latencies.0.extend_from_slice(&latencies.0);
    }
}

/// Latencies in microseconds, each with its count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies(Vec<(u64, u64)>);

impl Latencies {
    pub(super) fn of(histogram: &Histogram<u64>) -> Latencies {
        let bars = histogram.iter_recorded();
        Latencies(bars.map(|bar| (bar.value_iterated_to(), bar.count_at_value())).collect())
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The latencies as a histogram.
    ///
    /// # Panics
    /// Never: the number of digits is valid, and the histogram resizes itself.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = histogram();
        for (us, count) in &self.0 {
            histogram.record_n(*us, *count).expect("the histogram resizes itself");
        }
        histogram
    }
}

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("the number of digits is valid")
}

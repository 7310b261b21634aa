//! What a gallery counts.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// What watchers received since counting began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Deltas that brought a watcher forward.
    pub deltas: u64,
    /// Snapshots that brought one forward who had a map already: it was behind, or came back.
    pub snapshots: u64,
    /// Versions that deltas and snapshots brought watchers forward by.
    pub versions: u64,
    /// Deltas that begin behind what their watcher has: something was never sent.
    pub skipped: u64,
    /// Frames with nothing new in them.
    pub stale: u64,
    /// Snapshots and deltas that would take a watcher back, or that do not fit its map.
    pub wrong: u64,
    /// Feeds that ended.
    pub ended: u64,
    /// Connections that were lost.
    pub lost: u64,
    /// Bytes of all frames, with those of pings.
    pub bytes: u64,
    /// From a change until it was received: each change with each watcher.
    pub latencies: Latencies,
}

impl Tally {
    /// Frames that brought a watcher forward.
    pub fn deliveries(&self) -> u64 {
        self.deltas + self.snapshots
    }

    /// Adds what another gallery counted.
    pub fn add(&mut self, other: &Tally) {
        let Tally { deltas, snapshots, versions, skipped, stale, wrong, ended, lost, bytes, latencies } = other;
        self.deltas += deltas;
        self.snapshots += snapshots;
        self.versions += versions;
        self.skipped += skipped;
        self.stale += stale;
        self.wrong += wrong;
        self.ended += ended;
        self.lost += lost;
        self.bytes += bytes;
        self.latencies.0.extend_from_slice(&latencies.0);
    }
}

/// Latencies in microseconds, each with how often it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies(Vec<(u64, u64)>);

impl Latencies {
    pub(super) fn of(histogram: &Histogram<u64>) -> Latencies {
        let bars = histogram.iter_recorded();
        Latencies(bars.map(|bar| (bar.value_iterated_to(), bar.count_at_value())).collect())
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// As a histogram.
    ///
    /// # Panics
    /// Never: its digits are few, and it grows.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = histogram();
        for (us, count) in &self.0 {
            histogram.record_n(*us, *count).expect("a histogram that grows");
        }
        histogram
    }
}

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("a good number of digits")
}

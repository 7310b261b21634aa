//! How long syncs of the log have taken lately.

use std::collections::VecDeque;

use tracing_mutex::parkinglot::Mutex;

/// Syncs are remembered for this long, in milliseconds.
const RECENT_MS: u64 = 1_000;

/// The last sync counts for this long if there was none since, in milliseconds.
const LAST_MS: u64 = 5_000;

/// Syncs that are remembered at most.
const RECENT_MAX: usize = 64;

/// The last syncs of a node's log, with or without a shard that the node leads.
#[derive(Debug, Default)]
pub struct SyncTimes {
    /// When each ended, in monotonic milliseconds, and how long it took, in microseconds.
    recent: Mutex<VecDeque<(u64, u64)>>,
}

impl SyncTimes {
    /// A sync has ended.
    pub(crate) fn record(&self, now_ms: u64, took_us: u64) {
        let mut recent = self.recent.lock();
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back((now_ms, took_us));
    }

    /// The median of the last second, in microseconds, since one sync in many takes long on any disk. `None` if there was no sync
    /// for some seconds.
    pub fn median_us(&self, now_ms: u64) -> Option<u64> {
        let recent = self.recent.lock();
        let (last_ms, last_us) = recent.back().copied()?;
        if now_ms.saturating_sub(last_ms) > LAST_MS {
            return None;
        }
        let fresh = recent.iter().filter(|(at_ms, _)| now_ms.saturating_sub(*at_ms) <= RECENT_MS);
        let mut took_us: Vec<u64> = fresh.map(|(_, took_us)| *took_us).collect();
        if took_us.is_empty() {
            return Some(last_us);
        }
        took_us.sort_unstable();
        Some(took_us[took_us.len() / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_last_second_and_forgets() {
        let times = SyncTimes::default();
        assert_eq!(times.median_us(1_000), None);
        (0..200).for_each(|sync| times.record(1_000 + sync, if sync % 5 == 0 { 90_000 } else { 300 }));
        assert_eq!(times.median_us(1_200), Some(300), "one sync in five takes long");
        (0..4).for_each(|sync| times.record(1_500 + 300 * sync, 300_000));
        assert_eq!(times.median_us(2_400), Some(300_000), "those before are older than a second");
        assert_eq!(times.median_us(7_400), Some(300_000), "the last one");
        assert_eq!(times.median_us(7_401), None);
        assert_eq!(times.recent.lock().len(), RECENT_MAX);
    }
}

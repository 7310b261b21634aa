//! Whether this node's disk is clearly slower than those of the other nodes.
//!
//! A shard is as slow as its leader's disk, but only as slow as the quickest of its followers' disks that make a majority with it. So
//! a node whose disk is slow hands its leaderships over, as long as others are clearly quicker.

use std::collections::BTreeMap;

use boxoffice_core::planted;
use boxoffice_shard::NodeId;
use tracing_mutex::parkinglot::Mutex;

/// A quicker disk is never slow, in microseconds for a sync.
const SLOW_US: u64 = 50_000;

/// A disk is slow if its syncs take this many times as long as those of the others, and quick again below the second number.
const SLOW_TIMES: u64 = 4;
const QUICK_TIMES: u64 = 2;

/// A disk is slow after this long, and quick again after this long, in milliseconds. The second is longer, because each change of
/// leaders costs a pause.
const SLOW_AFTER_MS: u64 = 1_500;
const QUICK_AFTER_MS: u64 = 10_000;

/// How long the word of another node counts, in milliseconds.
const FRESH_MS: u64 = 5_000;

/// How long syncs take here and elsewhere.
#[derive(Debug, Default)]
pub(crate) struct DiskPace {
    /// By node: how long a sync takes, in microseconds, and when it said so.
    others: Mutex<BTreeMap<NodeId, (u64, u64)>>,
    judged: Mutex<Judged>,
}

#[derive(Debug, Default)]
struct Judged {
    is_slow: bool,
    /// Since when the opposite has been true without a break.
    other_since_ms: Option<u64>,
}

impl DiskPace {
    /// Another node says how long a sync takes there. `None` if it has none.
    pub(crate) fn heard(&self, node: NodeId, sync_us: Option<u64>, now_ms: u64) {
        let mut others = self.others.lock();
        match sync_us {
            Some(sync_us) => _ = others.insert(node, (sync_us, now_ms)),
            None => _ = others.remove(&node),
        }
    }

    /// Whether the disk here is clearly slower than the others'.
    pub(crate) fn is_slow(&self) -> bool {
        self.judged.lock().is_slow
    }

    /// Judges anew by how long a sync takes here. Returns whether the disk is slow now, if that has changed.
    pub(crate) fn judge(&self, sync_us: Option<u64>, now_ms: u64) -> Option<bool> {
        if planted::is("a slow leader is kept") {
            return None;
        }
        // Without a sync nothing is known, and nobody waits.
        let sync_us = sync_us?;
        let mut judged = self.judged.lock();
        let seems_other = match self.others_us(now_ms) {
            Some(others_us) if judged.is_slow => sync_us < SLOW_US / 2 || sync_us < QUICK_TIMES * others_us,
            Some(others_us) => sync_us >= SLOW_US && sync_us >= SLOW_TIMES * others_us,
            // Nobody else could lead.
            None => judged.is_slow,
        };
        if !seems_other {
            judged.other_since_ms = None;
            return None;
        }
        let after_ms = if judged.is_slow { QUICK_AFTER_MS } else { SLOW_AFTER_MS };
        if now_ms.saturating_sub(*judged.other_since_ms.get_or_insert(now_ms)) < after_ms {
            return None;
        }
        *judged = Judged { is_slow: !judged.is_slow, other_since_ms: None };
        Some(judged.is_slow)
    }

    /// How long a sync takes at the other nodes: the median, with an even number the slower one. With two slow disks of three
    /// nobody is clearly slower.
    fn others_us(&self, now_ms: u64) -> Option<u64> {
        let mut others = self.others.lock();
        others.retain(|_, (_, said_ms)| now_ms.saturating_sub(*said_ms) < FRESH_MS);
        let mut all: Vec<u64> = others.values().map(|(sync_us, _)| *sync_us).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: u64 = 300_000;
    const QUICK: u64 = 2_000;
    const NONE: [bool; 0] = [];

    /// Judges every 250 ms, for so many milliseconds, while a sync takes so long here and there. Returns the changes.
    fn run(pace: &DiskPace, now_ms: &mut u64, for_ms: u64, own_us: u64, others_us: &[u64]) -> Vec<bool> {
        let end_ms = *now_ms + for_ms;
        let mut changes = Vec::new();
        while *now_ms < end_ms {
            (2..).zip(others_us).for_each(|(node, sync_us)| pace.heard(node, Some(*sync_us), *now_ms));
            changes.extend(pace.judge(Some(own_us), *now_ms));
            *now_ms += 250;
        }
        changes
    }

    #[test]
    fn a_disk_is_slow_after_a_while_and_quick_again_after_a_longer_one() {
        let (pace, mut now_ms) = (DiskPace::default(), 1_000);
        assert_eq!(run(&pace, &mut now_ms, 10_000, QUICK, &[QUICK, QUICK]), NONE);
        assert_eq!(run(&pace, &mut now_ms, 1_250, SLOW, &[QUICK, QUICK]), NONE, "a moment");
        assert_eq!(run(&pace, &mut now_ms, 250, QUICK, &[QUICK, QUICK]), NONE);
        assert_eq!(run(&pace, &mut now_ms, 2_000, SLOW, &[QUICK, QUICK]), [true]);
        assert!(pace.is_slow());
        assert_eq!(run(&pace, &mut now_ms, 9_000, QUICK, &[QUICK, QUICK]), NONE, "it may come back");
        assert_eq!(run(&pace, &mut now_ms, 250, SLOW, &[QUICK, QUICK]), NONE);
        assert_eq!(run(&pace, &mut now_ms, 10_500, QUICK, &[QUICK, QUICK]), [false]);
    }

    #[test]
    fn no_disk_is_slow_where_others_are_hardly_quicker() {
        let (pace, mut now_ms) = (DiskPace::default(), 1_000);
        assert_eq!(run(&pace, &mut now_ms, 20_000, SLOW, &[SLOW, QUICK]), NONE, "two slow disks of three");
        assert_eq!(run(&pace, &mut now_ms, 20_000, SLOW, &[SLOW / 3, SLOW / 3]), NONE, "three times as slow");
        assert_eq!(run(&pace, &mut now_ms, 20_000, SLOW_US - 1, &[QUICK, QUICK]), NONE, "quick enough");
        now_ms += FRESH_MS;
        assert_eq!(run(&pace, &mut now_ms, 20_000, SLOW, &[]), NONE, "there is no other node");
        assert_eq!(run(&pace, &mut now_ms, 20_000, SLOW, &[QUICK, QUICK, SLOW, QUICK]), [true]);
        assert_eq!(run(&pace, &mut now_ms, 20_000, SLOW, &[SLOW, SLOW, SLOW, QUICK]), [false], "the others got slow");
    }

    #[test]
    fn a_node_without_syncs_stays_as_it_is() {
        let (pace, mut now_ms) = (DiskPace::default(), 1_000);
        assert_eq!(run(&pace, &mut now_ms, 3_000, SLOW, &[QUICK]), [true]);
        assert_eq!(pace.judge(None, now_ms + 60_000), None);
        assert!(pace.is_slow());
    }
}

//! Whether this machine's wall clock is right by those of the other nodes.
//!
//! The engine uses the clocks for the shards. It takes the reading of each machine's clock, and the time that a majority of a
//! shard's voters confirms. Here a node detects that its own clock is wrong, so that it leads nothing.

use std::collections::BTreeMap;

use boxoffice_env::Clock;
use boxoffice_shard::{ClockReading, NodeId};
use tracing_mutex::parkinglot::Mutex;

/// A clock that is further off than this from the median of all is off, in milliseconds.
const OFF_MS: i64 = 500;
/// How long a reading of another node's clock counts, in milliseconds.
const FRESH_MS: u64 = 10_000;
/// Readings with a longer round trip are ignored, in milliseconds.
const ROUND_MAX_MS: u64 = 300;

/// The known wall clocks, each as wall time less this node's monotonic time, in milliseconds. That changes only when a clock
/// is set.
pub(crate) struct Clocks {
    /// This machine's clock, when it was last read.
    own_ms: Mutex<i64>,
    /// By node: its clock, and when it was read.
    others: Mutex<BTreeMap<NodeId, (i64, u64)>>,
}

impl Clocks {
    pub(crate) fn new(clock: &dyn Clock) -> Clocks {
        Clocks { own_ms: Mutex::new(shift(clock)), others: Mutex::default() }
    }

    /// Records a reading of another node's clock.
    pub(crate) fn heard(&self, node: NodeId, read: ClockReading) {
        let round_ms = read.answered_ms.saturating_sub(read.asked_ms);
        if round_ms <= ROUND_MAX_MS {
            let shift_ms = read.wall_ms as i64 - (read.asked_ms + round_ms / 2) as i64;
            self.others.lock().insert(node, (shift_ms, read.answered_ms));
        }
    }

    /// Whether this machine's clock was set since the last call. Then the others' may have been set as well.
    pub(crate) fn was_set(&self, clock: &dyn Clock) -> bool {
        let now_ms = shift(clock);
        let was_ms = std::mem::replace(&mut *self.own_ms.lock(), now_ms);
        (now_ms - was_ms).abs() > OFF_MS
    }

    /// Whether one of these nodes lacks a recent reading of its clock.
    pub(crate) fn lacks(&self, mut nodes: impl Iterator<Item = NodeId>, mono_ms: u64) -> bool {
        let others = self.others.lock();
        let is_fresh = |(_, said_ms): &(i64, u64)| mono_ms.saturating_sub(*said_ms) < FRESH_MS;
        nodes.any(|node| !others.get(&node).is_some_and(is_fresh))
    }

    /// How far this machine's clock is ahead of the median of all, if that is too far. With only one other node, either clock may
    /// be off.
    pub(crate) fn off_ms(&self, clock: &dyn Clock) -> Option<i64> {
        let mono_ms = clock.monotonic_ms();
        let mut others = self.others.lock();
        others.retain(|_, (_, said_ms)| mono_ms.saturating_sub(*said_ms) < FRESH_MS);
        if others.len() < 2 {
            return None;
        }
        let own_ms = shift(clock);
        let mut all: Vec<i64> = others.values().map(|(shift_ms, _)| *shift_ms).chain([own_ms]).collect();
        all.sort_unstable();
        // With an even number, the one that is nearer to ours.
        let middle = [all[(all.len() - 1) / 2], all[all.len() / 2]];
        let off = middle.map(|median| own_ms - median).into_iter().min_by_key(|off| off.abs())?;
        (off.abs() > OFF_MS).then_some(off)
    }
}

fn shift(clock: &dyn Clock) -> i64 {
    let (wall_ms, mono_ms) = clock.both_ms();
    wall_ms as i64 - mono_ms as i64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Watch {
        wall_ms: AtomicU64,
        mono_ms: AtomicU64,
    }

    impl Clock for Watch {
        fn wall_ms(&self) -> u64 {
            self.wall_ms.load(Ordering::Relaxed)
        }

        fn monotonic_ns(&self) -> u64 {
            self.mono_ms.load(Ordering::Relaxed) * 1_000_000
        }
    }

    fn watch() -> Watch {
        Watch { wall_ms: AtomicU64::new(1_000_000), mono_ms: AtomicU64::new(50) }
    }

    impl Watch {
        fn pass(&self, wall_ms: i64, mono_ms: u64) -> u64 {
            self.wall_ms.store(self.wall_ms().saturating_add_signed(wall_ms), Ordering::Relaxed);
            self.mono_ms.fetch_add(mono_ms, Ordering::Relaxed) + mono_ms
        }
    }

    fn read(now_ms: u64, round_ms: u64, wall_ms: u64) -> ClockReading {
        ClockReading { asked_ms: now_ms - round_ms, answered_ms: now_ms, wall_ms }
    }

    #[test]
    fn a_clock_that_two_others_contradict_is_off_and_one_other_says_nothing() {
        let watch = watch();
        let clocks = Clocks::new(&watch);
        let now = watch.pass(1_000, 1_000);
        clocks.heard(2, read(now, 0, 1_001_000 + 60_000));
        assert_eq!(clocks.off_ms(&watch), None, "it may be the other one that is off");
        clocks.heard(3, read(now, 20, 1_001_000 + 60_030));
        assert_eq!(clocks.off_ms(&watch), Some(-60_000));
        clocks.heard(3, read(now, 0, 1_001_004));
        assert_eq!(clocks.off_ms(&watch), None, "one of them is");
        clocks.heard(3, read(now, ROUND_MAX_MS + 1, 1_001_000 + 60_000));
        assert_eq!(clocks.off_ms(&watch), None, "a slow answer says nothing");
    }

    #[test]
    fn clocks_that_are_all_set_are_right() {
        let watch = watch();
        let clocks = Clocks::new(&watch);
        assert!(clocks.lacks([2, 3].into_iter(), watch.monotonic_ms()));
        let now = watch.pass(1_000, 1_000);
        clocks.heard(2, read(now, 0, 1_001_000));
        clocks.heard(3, read(now, 0, 1_001_000));
        assert!(!clocks.was_set(&watch) && !clocks.lacks([2, 3].into_iter(), now));
        watch.pass(3_600_000, 100);
        assert!(clocks.was_set(&watch) && !clocks.was_set(&watch), "the others are asked at once");
        assert_eq!(clocks.off_ms(&watch), Some(3_599_900));
        let now = watch.pass(10, 10);
        clocks.heard(2, read(now, 0, watch.wall_ms()));
        assert_eq!(clocks.off_ms(&watch), None);
    }
}

//! The wall clock as the cluster has it: a step of this machine's clock moves nothing, and a clock that the others contradict
//! is not believed.
//!
//! What is handed to the shards is monotonic time plus a shift. The shift follows the machine's clock as long as that is
//! only adjusted a little; a jump is not followed. When the other nodes agree among themselves that this node's time is
//! off by more than [`OFF_MS`], the shift is mended by what they say.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
};

use boxoffice_shard::NodeId;
use parking_lot::Mutex;

use crate::world::Clock;

/// A clock that is further off is not believed, in milliseconds.
const OFF_MS: i64 = 500;
/// What another node said of its time counts for so long, in milliseconds.
const FRESH_MS: u64 = 10_000;
/// An answer that took longer says too little, in milliseconds.
const ROUND_MAX_MS: u64 = 300;

/// This node's idea of the time.
pub(crate) struct Clocks {
    /// Wall time less monotonic time, in milliseconds, as it is handed on.
    shift_ms: AtomicI64,
    /// A majority of the members agrees with it.
    confirmed: AtomicBool,
    /// The same as `shift_ms`, as it was when a majority agreed with it last, or as stamps in the log have it.
    vouched_ms: AtomicI64,
    /// By node: how far its time is ahead of ours, and when it said so.
    others: Mutex<BTreeMap<NodeId, (i64, u64)>>,
}

impl Clocks {
    /// The machine's clock is believed at the start.
    pub(crate) fn new(clock: &dyn Clock) -> Clocks {
        Clocks {
            shift_ms: AtomicI64::new(shift(clock)),
            confirmed: AtomicBool::new(true),
            vouched_ms: AtomicI64::new(i64::MIN),
            others: Mutex::default(),
        }
    }

    /// The time, in milliseconds since 1970.
    pub(crate) fn wall_ms(&self, mono_ms: u64) -> u64 {
        mono_ms.saturating_add_signed(self.shift_ms.load(Ordering::Relaxed))
    }

    /// What a shard's time may begin with: the time, or as long as no majority of the members agrees with it what was vouched
    /// for last and the time since, so that holds end late rather than early; nothing if nobody ever did.
    pub(crate) fn for_shards_ms(&self, mono_ms: u64) -> u64 {
        if self.confirmed.load(Ordering::Relaxed) {
            return self.wall_ms(mono_ms);
        }
        mono_ms.saturating_add_signed(self.vouched_ms.load(Ordering::Relaxed))
    }

    /// An entry is committed that was stamped with this time.
    pub(crate) fn stamped(&self, stamp_ms: u64, mono_ms: u64) {
        self.vouched_ms.fetch_max(stamp_ms as i64 - mono_ms as i64, Ordering::Relaxed);
    }

    /// Another node answered, at `mono_ms`, what was asked at `asked_ms`, that its time was `wall_ms`.
    pub(crate) fn heard(&self, node: NodeId, asked_ms: u64, mono_ms: u64, wall_ms: u64) {
        let round_ms = mono_ms.saturating_sub(asked_ms);
        if round_ms <= ROUND_MAX_MS {
            let ahead = wall_ms as i64 - self.wall_ms(asked_ms + round_ms / 2) as i64;
            self.others.lock().insert(node, (ahead, mono_ms));
        }
    }

    /// Follows the machine's clock or the others, in a cluster of so many members. How far the machine's clock is off, if it
    /// is.
    pub(crate) fn look(&self, clock: &dyn Clock, members: usize) -> Option<i64> {
        let mono_ms = clock.monotonic_ms();
        let mut others = self.others.lock();
        others.retain(|_, (_, said_ms)| mono_ms.saturating_sub(*said_ms) < FRESH_MS);
        let mut ahead: Vec<i64> = others.values().map(|(ahead, _)| *ahead).collect();
        let agree = 1 + ahead.iter().filter(|ahead| ahead.abs() <= OFF_MS).count();
        let confirmed = 2 * agree > members;
        self.confirmed.store(confirmed, Ordering::Relaxed);
        // Alone, as a node is before it knows the others, it confirms only itself.
        if confirmed && members > 1 {
            self.vouched_ms.store(self.shift_ms.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let machine = shift(clock);
        // One other node may as well be the one that is off.
        if ahead.len() >= 2 {
            ahead.push(0);
            ahead.sort_unstable();
            let median = ahead[ahead.len() / 2];
            if median.abs() > OFF_MS {
                self.shift_ms.fetch_add(median, Ordering::Relaxed);
                others.clear();
            }
        }
        let shift = self.shift_ms.load(Ordering::Relaxed);
        let off = machine - shift;
        if off.abs() <= OFF_MS {
            self.shift_ms.store(machine, Ordering::Relaxed);
            return None;
        }
        Some(off)
    }
}

fn shift(clock: &dyn Clock) -> i64 {
    clock.wall_ms() as i64 - clock.monotonic_ms() as i64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

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

    #[test]
    fn a_small_adjustment_is_followed_and_a_jump_is_not() {
        let watch = watch();
        let clocks = Clocks::new(&watch);
        let now = watch.pass(1_300, 1_000);
        assert_eq!(clocks.look(&watch, 3), None);
        assert_eq!(clocks.wall_ms(now), 1_001_300);
        let now = watch.pass(3_600_000, 1_000);
        assert_eq!(clocks.look(&watch, 3), Some(3_599_000));
        assert_eq!(clocks.wall_ms(now), 1_002_300);
        let now = watch.pass(-3_600_000 + 2_000, 1_000);
        assert_eq!(clocks.look(&watch, 3), None);
        assert_eq!(clocks.wall_ms(now), 1_003_300);
    }

    #[test]
    fn two_others_that_agree_are_believed_and_one_is_not() {
        let watch = watch();
        let clocks = Clocks::new(&watch);
        let now = watch.pass(1_000, 1_000);
        clocks.heard(2, now, now, 1_001_000 + 60_000);
        assert_eq!(clocks.look(&watch, 3), None, "it may be the other one that is off");
        clocks.heard(3, now - 20, now, 1_001_000 + 60_030);
        assert_eq!(clocks.look(&watch, 3), Some(-60_000));
        assert_eq!(clocks.wall_ms(now), 1_061_000);
    }

    #[test]
    fn without_a_majority_that_agrees_shards_are_told_what_was_vouched_for() {
        let watch = watch();
        let clocks = Clocks::new(&watch);
        let now = watch.pass(1_000, 1_000);
        assert_eq!(clocks.for_shards_ms(now), 1_001_000, "nobody was asked yet");
        clocks.look(&watch, 3);
        assert_eq!(clocks.for_shards_ms(now), 0, "one of three");
        clocks.heard(2, now, now, 1_001_000 + 60_000);
        clocks.look(&watch, 3);
        assert_eq!(clocks.for_shards_ms(now), 0, "one of the two is wrong");
        clocks.heard(2, now, now, 1_001_020);
        clocks.look(&watch, 3);
        assert_eq!(clocks.for_shards_ms(now), 1_001_000);
        let now = watch.pass(3_600_000, 20_000);
        clocks.look(&watch, 3);
        assert_eq!(clocks.for_shards_ms(now), 1_021_000, "a majority agreed before the clock was set");
        clocks.look(&watch, 1);
        assert_eq!(clocks.for_shards_ms(now), 1_021_000, "alone");
    }

    #[test]
    fn what_was_stamped_is_vouched_for() {
        let watch = watch();
        let clocks = Clocks::new(&watch);
        let now = watch.pass(1_000, 1_000);
        clocks.look(&watch, 3);
        clocks.stamped(900_000, now - 10);
        clocks.stamped(800_000, now);
        assert_eq!(clocks.for_shards_ms(now), 900_010, "it is that late at least");
    }

    #[test]
    fn one_of_two_others_that_is_off_moves_nothing_and_slow_answers_say_nothing() {
        let watch = watch();
        let clocks = Clocks::new(&watch);
        let now = watch.pass(1_000, 1_000);
        clocks.heard(2, now, now, 1_001_000 + 60_000);
        clocks.heard(3, now, now, 1_001_004);
        assert_eq!(clocks.look(&watch, 3), None);
        clocks.heard(3, now - ROUND_MAX_MS - 1, now, 1_001_000 + 60_000);
        assert_eq!(clocks.look(&watch, 3), None);
        assert_eq!(clocks.wall_ms(now), 1_001_000);
    }
}

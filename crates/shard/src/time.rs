//! The time of a shard.
//!
//! A shard's time has two parts. Its *running time* is stamped into every entry. It never steps, it orders everything, and all
//! deadlines use it. Its *distance* is true time less running time, one number that entries commit.
//!
//! Within a leadership, running time follows the monotonic clock. A step of the wall clock changes only the distance,
//! so a hold of 30 minutes lasts 30 minutes. Between two leaderships, running time follows the monotonic clock of any
//! replica that knows it.
//!
//! If no such replica takes part in the election (all nodes were down), running time follows the true time that a
//! majority of the voters confirms. A hold until 20:00 then ends at 20:00.
//!
//! A replica knows the running time once a reading fits confirmed true time and the shard's distance. A reading alone proves only
//! a lower bound, because the message may have waited in a link or in a stopped process.

use crate::clocks::{AGREE_MS, TrueTime};
use crate::now::Now;
use crate::planted;

/// A shard whose time differs from confirmed true time by more than this is corrected, in milliseconds.
pub(crate) const CORRECT_MS: i64 = 100;

/// The time of a shard during one epoch. Running time is a base plus the monotonic time since. True time is running
/// time plus the committed distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardTime {
    /// The shard's running time at the election, milliseconds.
    pub base_ms: u64,
    /// The monotonic clock at the election, milliseconds.
    pub mono_base_ms: u64,
    /// True time less running time, milliseconds, as entries of the epoch commit it.
    pub distance_ms: i64,
}

impl ShardTime {
    /// The time of an epoch that begins `now`, after an entry with this stamp and distance. `received` is the running
    /// time that this node received, if any.
    pub(crate) fn begin(
        now: Now,
        (stamp_ms, distance_ms): (u64, i64),
        received: Option<RunningTime>,
        truth: TrueTime,
    ) -> ShardTime {
        let by_wall_ms = shifted(truth.ms(), distance_ms.saturating_neg());
        let base_ms = match received {
            Some(received) if received.is_known || !truth.is_confirmed() => received.at(now.mono_ms),
            Some(received) => received.at(now.mono_ms).max(by_wall_ms),
            None => by_wall_ms,
        };
        let base_ms = base_ms.max(stamp_ms);
        let mut time = ShardTime { base_ms, mono_base_ms: now.mono_ms, distance_ms };
        time.correct(now.mono_ms, truth);
        time
    }

    /// The shard's running time, milliseconds, when the monotonic clock shows `mono_ms`.
    pub fn at(&self, mono_ms: u64) -> u64 {
        self.base_ms.saturating_add(mono_ms.saturating_sub(self.mono_base_ms))
    }

    /// True time in the shard, milliseconds since 1970, when the monotonic clock shows `mono_ms`.
    pub fn true_ms(&self, mono_ms: u64) -> u64 {
        shifted(self.at(mono_ms), self.distance_ms)
    }

    /// Corrects the distance if confirmed true time is too far off. Returns whether it changed. Running time stays.
    pub(crate) fn correct(&mut self, mono_ms: u64, truth: TrueTime) -> bool {
        let TrueTime::Confirmed(true_ms) = truth else { return false };
        let ahead_ms = (true_ms as i64).saturating_sub(self.true_ms(mono_ms) as i64);
        if ahead_ms.unsigned_abs() <= CORRECT_MS.unsigned_abs() {
            return false;
        }
        if ahead_ms.abs() > AGREE_MS && planted::is("clocks set together are never believed") {
            return false;
        }
        self.distance_ms = (true_ms as i64).saturating_sub(self.at(mono_ms) as i64);
        true
    }
}

/// `ms` shifted by `ahead_ms`, not before 1970.
fn shifted(ms: u64, ahead_ms: i64) -> u64 {
    ms.saturating_add_signed(ahead_ms)
}

/// The last received running time of a shard that this node does not lead, continued by this node's monotonic clock. It
/// is ahead of the leader's by at most the drift of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningTime {
    running_ms: u64,
    mono_ms: u64,
    /// The reading fitted true time, so it was not delayed. Otherwise it is a lower bound.
    is_known: bool,
}

impl RunningTime {
    /// The running time of a leader, now.
    pub(crate) fn known(running_ms: u64, mono_ms: u64) -> RunningTime {
        RunningTime { running_ms, mono_ms, is_known: true }
    }

    /// A reading that has just arrived, with true time. It is known if confirmed true time less `distance_ms` matches.
    pub(crate) fn received(running_ms: u64, mono_ms: u64, truth: Option<TrueTime>, distance_ms: i64) -> RunningTime {
        let fits = |true_ms: u64| true_ms.abs_diff(shifted(running_ms, distance_ms)) <= AGREE_MS.unsigned_abs();
        let is_known = matches!(truth, Some(TrueTime::Confirmed(true_ms)) if fits(true_ms));
        // Both clocks are read in whole milliseconds, so the sender's may seem nearly one further than it is. With each change of the
        // leader all lives would be shorter by that.
        let rounding_ms = if planted::is("a reading of time that is rounded up") { 0 } else { 1 };
        RunningTime {
            running_ms: running_ms.saturating_sub(rounding_ms),
            mono_ms,
            is_known: is_known || planted::is("a reading of time that waited is believed"),
        }
    }

    /// Whether it is not earlier than the shard's, apart from clock drift.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The running time now.
    pub(crate) fn at(&self, mono_ms: u64) -> u64 {
        self.running_ms.saturating_add(mono_ms.saturating_sub(self.mono_ms))
    }

    /// Takes a newer reading, unless a delay makes it less exact than the old one.
    pub(crate) fn update(&mut self, newer: RunningTime) {
        // Both are lower bounds. So the later one is known if one of them is.
        let is_known = self.is_known || newer.is_known;
        // A thousandth for the drift between clocks.
        let drift_ms = newer.mono_ms.saturating_sub(self.mono_ms) / 1_000;
        if newer.running_ms >= self.at(newer.mono_ms).saturating_sub(drift_ms) {
            *self = newer;
        }
        self.is_known = is_known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn now(wall_ms: u64) -> Now {
        Now { wall_ms, mono_ms: 7 }
    }

    /// Running time and true time at once, and an hour later.
    fn begun(last: (u64, i64), lived_ms: Option<u64>, truth: TrueTime) -> (u64, u64) {
        begun_by(last, lived_ms.map(|lived_ms| RunningTime::known(lived_ms, 7)), truth)
    }

    fn begun_by(last: (u64, i64), received: Option<RunningTime>, truth: TrueTime) -> (u64, u64) {
        let time = ShardTime::begin(now(truth.ms()), last, received, truth);
        assert_eq!((time.at(7 + HOUR), time.true_ms(7 + HOUR)), (time.at(0) + HOUR, time.true_ms(0) + HOUR));
        (time.at(7), time.true_ms(7))
    }

    #[test]
    fn a_first_epoch_begins_with_true_time() {
        assert_eq!(begun((0, 0), None, TrueTime::Confirmed(5_000_000)), (5_000_000, 5_000_000));
    }

    #[test]
    fn downtime_does_not_shift_deadlines() {
        // 90 s after the last stamp, whatever the distance.
        assert_eq!(begun((5_000_000, 0), None, TrueTime::Confirmed(5_090_000)), (5_090_000, 5_090_000));
        let away = (2_000_000, 3_000_000);
        assert_eq!(begun(away, None, TrueTime::Confirmed(5_090_000)), (2_090_000, 5_090_000));
    }

    #[test]
    fn clocks_set_back_during_downtime_change_only_the_distance() {
        assert_eq!(begun((5_000_000, 0), None, TrueTime::Confirmed(1_000_000)), (5_000_000, 1_000_000));
    }

    #[test]
    fn a_running_replica_outranks_clocks_that_were_set() {
        let lived = Some(5_002_000);
        assert_eq!(begun((5_000_000, 0), lived, TrueTime::Confirmed(5_002_030)), (5_002_000, 5_002_000));
        assert_eq!(begun((5_000_000, 0), lived, TrueTime::Confirmed(8_602_000)), (5_002_000, 8_602_000));
        assert_eq!(begun((5_000_000, 0), lived, TrueTime::Confirmed(1_402_000)), (5_002_000, 1_402_000));
        assert_eq!(begun((5_000_000, 0), Some(4_000_000), TrueTime::Confirmed(5_000_000)), (5_000_000, 5_000_000));
    }

    #[test]
    fn a_delayed_reading_is_only_a_lower_bound() {
        // The message was delayed by 20 seconds. The distance is 100 ms.
        let late = |truth| RunningTime::received(5_000_000, 7, Some(truth), 100);
        let truth = TrueTime::Confirmed(5_020_100);
        assert!(!late(truth).is_known());
        assert_eq!(begun_by((4_990_000, 100), Some(late(truth)), truth), (5_020_000, 5_020_100));
        // The clocks were set back, but the shard cannot be that early.
        let early = TrueTime::Confirmed(4_000_000);
        assert_eq!(begun_by((3_990_000, 100), Some(late(early)), early), (4_999_999, 4_000_000));
        // A message outranks clocks that disagree.
        let doubtful = TrueTime::Unconfirmed(5_020_100);
        assert_eq!(begun_by((4_990_000, 100), Some(late(doubtful)), doubtful), (4_999_999, 5_000_099));
        assert!(late(TrueTime::Confirmed(5_000_400)).is_known() && !RunningTime::received(5, 7, None, 0).is_known());
    }

    #[test]
    fn a_known_running_time_stays_known() {
        let mut received = RunningTime::received(5_000, 100, None, 0);
        received.update(RunningTime::received(5_300, 600, Some(TrueTime::Confirmed(5_600)), 0));
        assert_eq!(
            (received.at(600), received.is_known()),
            (5_499, true),
            "the first message was faster, and one fits true time"
        );
        received.update(RunningTime::received(7_500, 1_600, Some(TrueTime::Confirmed(90_000)), 0));
        assert_eq!(
            (received.at(1_600), received.is_known()),
            (7_499, true),
            "the clocks were set, and this message was even faster"
        );
    }

    #[test]
    fn disagreeing_voters_begin_with_the_earliest_clock_but_not_before_the_last_stamp() {
        assert_eq!(begun((5_000_000, 0), None, TrueTime::Unconfirmed(5_080_000)), (5_080_000, 5_080_000));
        assert_eq!(begun((5_000_000, 0), None, TrueTime::Unconfirmed(1_000_000)), (5_000_000, 5_000_000));
    }

    #[test]
    fn a_correction_moves_true_time_and_not_running_time() {
        let mut time = ShardTime { base_ms: 5_000, mono_base_ms: 0, distance_ms: 0 };
        assert!(!time.correct(1_000, TrueTime::Confirmed(6_100)), "close enough");
        assert!(!time.correct(1_000, TrueTime::Unconfirmed(9_000)), "unconfirmed");
        assert!(time.correct(1_000, TrueTime::Confirmed(9_000)));
        assert_eq!((time.at(1_000), time.true_ms(1_000)), (6_000, 9_000));
        assert!(time.correct(1_000, TrueTime::Confirmed(2_000)));
        assert_eq!((time.at(1_000), time.true_ms(1_000)), (6_000, 2_000));
    }

    #[test]
    fn running_time_continues_and_a_late_message_does_not_turn_it_back() {
        let mut received = RunningTime::known(5_000, 100);
        assert_eq!(received.at(1_100), 6_000);
        received.update(RunningTime::known(5_500, 1_100));
        assert_eq!(received.at(1_100), 6_000, "half a second in transit");
        received.update(RunningTime::known(6_400, 1_100));
        assert_eq!(received.at(1_200), 6_500, "this message was faster");
        received.update(RunningTime::known(1_006_000, 1_001_100));
        assert_eq!(received.at(1_001_100), 1_006_000, "this node's clock is a little too fast");
    }
}

//! How long something has needed lately. A client measures it to give up what can no longer be finished, and a node to refuse what
//! its buyer would not see finished.

/// How many buckets of times there are: the last one ends beyond twenty minutes.
const BUCKETS: usize = 80;

/// Times below this number of milliseconds have a bucket each. Above it, each doubling is divided into four.
const EXACT_MS: u64 = 8;

/// Each time counts as much as this, so that it fades in several steps.
const WEIGHT: u32 = 16;

/// After this time a measured time counts half as much, in milliseconds.
const HALF_LIFE_MS: u64 = 2_000;

/// With fewer times than this nothing is known.
const TIMES_MIN: u32 = 8;

/// The share of the times that were not longer than what is said to be needed, in percent.
const PERCENT: u32 = 99;

/// The 99th percentile of the times that were measured lately. Times are whole milliseconds, and the caller passes the time in.
#[derive(Clone, Debug)]
pub struct NeededTime {
    counts: [u32; BUCKETS],
    halved_ms: u64,
}

impl Default for NeededTime {
    fn default() -> NeededTime {
        NeededTime { counts: [0; BUCKETS], halved_ms: 0 }
    }
}

impl NeededTime {
    /// It took this long.
    pub fn note(&mut self, took_ms: u64, now_ms: u64) {
        self.fade(now_ms);
        let count = &mut self.counts[bucket(took_ms)];
        *count = count.saturating_add(WEIGHT);
    }

    /// How long it takes, in milliseconds, rounded up by a quarter at most. 0 if that is not known.
    pub fn ms(&mut self, now_ms: u64) -> u64 {
        self.fade(now_ms);
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        if total < u64::from(TIMES_MIN * WEIGHT) {
            return 0;
        }
        let longer = total * u64::from(100 - PERCENT) / 100;
        let mut above = 0;
        let place = self.counts.iter().rposition(|count| {
            above += u64::from(*count);
            above > longer
        });
        place.map_or(0, end_of)
    }

    fn fade(&mut self, now_ms: u64) {
        let halvings = now_ms.saturating_sub(self.halved_ms) / HALF_LIFE_MS;
        if halvings == 0 {
            return;
        }
        self.halved_ms += halvings * HALF_LIFE_MS;
        let halvings = halvings.min(31) as u32;
        self.counts.iter_mut().for_each(|count| *count >>= halvings);
    }
}

/// The bucket of a time.
fn bucket(ms: u64) -> usize {
    if ms < EXACT_MS {
        return ms as usize;
    }
    let doublings = ms.ilog2();
    let quarter = (ms >> (doublings - 2)) & 3;
    let place = EXACT_MS as usize + 4 * (doublings - EXACT_MS.ilog2()) as usize + quarter as usize;
    place.min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn end_of(bucket: usize) -> u64 {
    if bucket < EXACT_MS as usize {
        return bucket as u64;
    }
    let place = bucket as u64 - EXACT_MS;
    let (doublings, quarter) = (place / 4 + u64::from(EXACT_MS.ilog2()), place % 4);
    ((5 + quarter) << (doublings - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_ends_next() {
        for ms in (0..5_000).chain([60_000, 600_000]) {
            let end = end_of(bucket(ms));
            assert!((ms..=ms + ms / 4).contains(&end), "{ms} ms is in the bucket that ends at {end} ms");
            assert!(bucket(ms) == 0 || end_of(bucket(ms) - 1) < ms, "{ms} ms");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_hundredth_of_the_times_may_be_longer() {
        let mut needed = NeededTime::default();
        assert_eq!(needed.ms(0), 0, "nothing was measured");
        (0..200).for_each(|_| needed.note(5, 100));
        needed.note(3_000, 100);
        assert_eq!(needed.ms(100), 5);
        (0..3).for_each(|_| needed.note(3_000, 100));
        assert_eq!(needed.ms(100), end_of(bucket(3_000)));
    }

    #[test]
    fn what_was_measured_is_forgotten() {
        let mut needed = NeededTime::default();
        (0..200).for_each(|_| needed.note(900, 1_000));
        assert_eq!(needed.ms(1_000), 1_023);
        (0..200).for_each(|_| needed.note(7, 9_000));
        assert_eq!(needed.ms(9_000), 1_023, "a sixteenth of the slow ones is left");
        (0..200).for_each(|_| needed.note(7, 17_000));
        assert_eq!(needed.ms(17_000), 7);
        assert_eq!(needed.ms(60_000), 0, "nothing was measured for a long time");
        needed.note(9, u64::MAX);
    }
}

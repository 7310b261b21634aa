//! The seeds' statistics, by the seeds' own rules, so that tables can be laid side by side.

use serde::{Deserialize, Serialize};

/// What the seeds print of a list of durations. All in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedStatistics {
    /// How many durations.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the population (divided by n).
    pub deviation: f64,
    /// Mean of the two elements around 0.75 (n − 1) of the sorted list.
    pub p75: f64,
    /// Element ⌊n · 95 / 100⌋ of the sorted list.
    pub p95: f64,
    /// Element ⌊n · 99 / 100⌋ of the sorted list.
    pub p99: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl SeedStatistics {
    /// The statistics of these durations in microseconds, which are put in order; `None` of none.
    pub fn of(durations_us: &mut [u64]) -> Option<SeedStatistics> {
        if durations_us.is_empty() {
            return None;
        }
        durations_us.sort_unstable();
        let sorted: &[u64] = durations_us;
        let count = sorted.len();
        let n = count as f64;
        let mean = sorted.iter().map(|&us| us as f64).sum::<f64>() / n;
        let variance = sorted.iter().map(|&us| (us as f64 - mean).powi(2)).sum::<f64>() / n;
        let around = 3 * (count - 1);
        let below = sorted[around / 4] as f64;
        let above = sorted[around.div_ceil(4)] as f64;
        let ms = |us: f64| us / 1_000.0;
        Some(SeedStatistics {
            count: count as u64,
            mean: ms(mean),
            deviation: ms(variance.sqrt()),
            p75: ms((below + above) / 2.0),
            p95: ms(sorted[count * 95 / 100] as f64),
            p99: ms(sorted[count * 99 / 100] as f64),
            min: ms(sorted[0] as f64),
            max: ms(sorted[count - 1] as f64),
        })
    }
}

/// The middle one of these figures, the mean of the middle two of an even number; `None` of none.
pub fn median(figures: &mut [f64]) -> Option<f64> {
    if figures.is_empty() {
        return None;
    }
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    Some(if figures.len() % 2 == 1 { figures[middle] } else { (figures[middle - 1] + figures[middle]) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_numbers_by_hand() {
        // 2 4 4 4 5 5 7 9 ms: the textbook example with mean 5 and deviation 2. 0.75 × 7 = 5.25 lies between 5 and 7.
        let mut us = [9_000, 4_000, 2_000, 5_000, 4_000, 7_000, 5_000, 4_000];
        let got = SeedStatistics::of(&mut us).expect("eight");
        assert_eq!(
            got,
            SeedStatistics { count: 8, mean: 5.0, deviation: 2.0, p75: 6.0, p95: 9.0, p99: 9.0, min: 2.0, max: 9.0 }
        );
    }

    #[test]
    fn a_hundred_numbers_by_hand() {
        // 1 … 100 ms: the 95th percentile is element 95 of a list that starts at 0, which is 96; 0.75 × 99 = 74.25.
        let mut us: Vec<u64> = (1..=100).rev().map(|ms| ms * 1_000).collect();
        let got = SeedStatistics::of(&mut us).expect("a hundred");
        assert_eq!((got.mean, got.p75, got.p95, got.p99), (50.5, 75.5, 96.0, 100.0));
        assert!((got.deviation - 28.866_070).abs() < 1e-6, "{}", got.deviation);
    }

    #[test]
    fn where_three_quarters_is_an_element_it_is_that_element() {
        // 0.75 × 4 = 3: both neighbours are element 3.
        let got = SeedStatistics::of(&mut [1_000, 2_000, 3_000, 10_000, 50_000]).expect("five");
        assert_eq!(got.p75, 10.0);
    }

    #[test]
    fn one_number_is_everything() {
        let got = SeedStatistics::of(&mut [1_234]).expect("one");
        assert_eq!(
            got,
            SeedStatistics {
                count: 1,
                mean: 1.234,
                deviation: 0.0,
                p75: 1.234,
                p95: 1.234,
                p99: 1.234,
                min: 1.234,
                max: 1.234
            }
        );
        assert_eq!(SeedStatistics::of(&mut []), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }
}

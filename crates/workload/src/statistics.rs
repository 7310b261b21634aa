//! Statistics of latencies, computed by the rules of the seed programs, so that their tables and ours can be compared.

use serde::{Deserialize, Serialize};

/// The statistics that the seed programs print for a list of durations. All durations are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyStatistics {
    /// The number of durations.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the population (divided by n).
    pub deviation: f64,
    /// Mean of the two elements of the sorted list around index 0.75 (n − 1).
    pub p75: f64,
    /// Element ⌊n · 95 / 100⌋ of the sorted list.
    pub p95: f64,
    /// Element ⌊n · 99 / 100⌋ of the sorted list.
    pub p99: f64,
    pub min: f64,
    pub max: f64,
}

impl LatencyStatistics {
    /// The statistics of these durations in microseconds. Sorts the durations. `None` if there are none.
    pub fn of(durations_us: &mut [u64]) -> Option<LatencyStatistics> {
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
        Some(LatencyStatistics {
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

/// The median of these figures: the middle one, or the mean of the middle two. Sorts the figures. `None` if there are
/// none.
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
    fn statistics_of_eight_durations() {
        // 2 4 4 4 5 5 7 9 ms: the textbook example with mean 5 and deviation 2. 0.75 × 7 = 5.25 lies between 5 and 7.
        let mut us = [9_000, 4_000, 2_000, 5_000, 4_000, 7_000, 5_000, 4_000];
        let got = LatencyStatistics::of(&mut us).expect("eight");
        assert_eq!(
            got,
            LatencyStatistics { count: 8, mean: 5.0, deviation: 2.0, p75: 6.0, p95: 9.0, p99: 9.0, min: 2.0, max: 9.0 }
        );
    }

    #[test]
    fn statistics_of_a_hundred_durations() {
        // 1 … 100 ms: the 95th percentile is element 95 of a list that starts at 0, which is 96. And 0.75 × 99 = 74.25.
        let mut us: Vec<u64> = (1..=100).rev().map(|ms| ms * 1_000).collect();
        let got = LatencyStatistics::of(&mut us).expect("a hundred");
        assert_eq!((got.mean, got.p75, got.p95, got.p99), (50.5, 75.5, 96.0, 100.0));
        assert!((got.deviation - 28.866_070).abs() < 1e-6, "{}", got.deviation);
    }

    #[test]
    fn p75_is_one_element_if_its_index_is_whole() {
        // 0.75 × 4 = 3: both neighbours are element 3.
        let got = LatencyStatistics::of(&mut [1_000, 2_000, 3_000, 10_000, 50_000]).expect("five");
        assert_eq!(got.p75, 10.0);
    }

    #[test]
    fn one_duration_is_every_statistic() {
        let got = LatencyStatistics::of(&mut [1_234]).expect("one");
        assert_eq!(
            got,
            LatencyStatistics {
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
        assert_eq!(LatencyStatistics::of(&mut []), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }
}

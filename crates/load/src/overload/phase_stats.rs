//! The statistics of one phase.

use crate::report::{OverloadPhase, Percentiles};

/// The length of the slices in which refusals and latencies are examined, in microseconds.
const SLICE_US: u64 = 100_000;

/// How many calm slices in a row mean that the node has recovered.
const CALM_SLICES: u64 = 3;

/// The longest latency in a calm slice, in microseconds.
const CALM_US: u32 = 100_000;

/// The statistics of one phase.
#[derive(Default)]
pub(super) struct PhaseStats {
    /// The counts of the report. Its other figures are not known yet.
    pub(super) counts: OverloadPhase,
    /// Times of the answers to admitted holds, each with its latency. In microseconds.
    holds: Vec<(u64, u32)>,
    checkouts: Vec<(u64, u32)>,
    refusals: Vec<(u64, u32)>,
    /// How long after its buyer came each purchase was begun, in microseconds.
    ages: Vec<(u64, u32)>,
}

impl PhaseStats {
    /// The hold of a purchase was granted. Its buyer came at `came_us`.
    pub(super) fn held(&mut self, came_us: u64, called_us: u64, now_us: u64) {
        self.holds.push((now_us, short(now_us - called_us)));
        self.ages.push((now_us, short(called_us - came_us)));
    }

    pub(super) fn checked_out(&mut self, called_us: u64, now_us: u64) {
        self.counts.bought += 1;
        self.checkouts.push((now_us, short(now_us - called_us)));
    }

    pub(super) fn busy(&mut self, called_us: u64, now_us: u64) {
        self.counts.refused += 1;
        self.refusals.push((now_us, short(now_us - called_us)));
    }

    /// Adds what another generator has counted at the same time.
    pub(super) fn add(&mut self, other: &PhaseStats) {
        self.holds.extend_from_slice(&other.holds);
        self.checkouts.extend_from_slice(&other.checkouts);
        self.refusals.extend_from_slice(&other.refusals);
        self.ages.extend_from_slice(&other.ages);
        let (counts, more) = (&mut self.counts, &other.counts);
        counts.offered += more.offered;
        counts.bought += more.bought;
        counts.refused += more.refused;
        counts.checkouts_refused += more.checkouts_refused;
        counts.unknown += more.unknown;
        counts.not_sent += more.not_sent;
        counts.given_up += more.given_up;
        for (name, count) in &more.other {
            *counts.other.entry(name.clone()).or_default() += count;
        }
    }

    /// The phase for the report, which took `took_s`.
    pub(super) fn phase(&self, took_s: f64) -> OverloadPhase {
        OverloadPhase {
            seconds: took_s,
            goodput: self.counts.bought as f64 / took_s,
            hold: percentiles(&self.holds),
            checkout: percentiles(&self.checkouts),
            refusal: percentiles(&self.refusals),
            age: percentiles(&self.ages),
            ..self.counts.clone()
        }
    }

    /// The time from `from_us` until the node had recovered, in milliseconds. `None` if it did not recover.
    pub(super) fn recovered_ms(&self, from_us: u64) -> Option<u64> {
        let slice = |at_us: u64| at_us.saturating_sub(from_us) / SLICE_US;
        let slow = self.holds.iter().chain(&self.checkouts).filter(|(_, took_us)| *took_us > CALM_US);
        let restless =
            slow.chain(&self.refusals).filter(|(at_us, _)| *at_us >= from_us).map(|(at_us, _)| slice(*at_us));
        let calm_from = restless.max().map_or(0, |last| last + 1);
        let ends = self.checkouts.iter().map(|(at_us, _)| slice(*at_us)).max()?;
        (calm_from + CALM_SLICES <= ends).then_some(calm_from * SLICE_US / 1_000)
    }
}

fn short(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}

fn percentiles(latencies: &[(u64, u32)]) -> Option<Percentiles> {
    let mut us: Vec<u32> = latencies.iter().map(|(_, us)| *us).collect();
    us.sort_unstable();
    let ms =
        |of: usize, all: usize| us.get((us.len() * of / all).min(us.len() - 1)).map_or(0.0, |us| f64::from(*us) / 1e3);
    (!us.is_empty()).then(|| Percentiles {
        p50: ms(50, 100),
        p90: ms(90, 100),
        p99: ms(99, 100),
        p99_9: ms(999, 1_000),
        p99_99: ms(9_999, 10_000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_are_counted_together() {
        let (mut stats, mut other) = (PhaseStats::default(), PhaseStats::default());
        stats.held(0, 1_000, 3_000);
        other.held(0, 9_000, 10_000);
        stats.checked_out(3_000, 5_000);
        other.checked_out(3_000, 4_000);
        other.busy(3_000, 4_000);
        stats.add(&other);
        let phase = stats.phase(2.0);
        assert_eq!((phase.bought, phase.refused, phase.goodput), (2, 1, 1.0));
        let age = phase.age.expect("two were begun");
        assert_eq!((age.p50, age.p99, phase.checkout.expect("two").p99), (9.0, 9.0, 2.0));
    }

    #[test]
    fn a_phase_has_recovered_when_nothing_is_slow_or_refused_any_more() {
        let mut stats = PhaseStats::default();
        let purchase = |stats: &mut PhaseStats, at_us: u64, took_us: u64| stats.checked_out(at_us - took_us, at_us);
        (10..30).for_each(|slice| purchase(&mut stats, slice * SLICE_US, 1_000));
        assert_eq!(stats.recovered_ms(1_000_000), Some(0));
        stats.busy(1_249_000, 1_250_000);
        assert_eq!(stats.recovered_ms(1_000_000), Some(300));
        stats.held(1_000_000, 1_400_000, 1_560_000);
        assert_eq!(stats.recovered_ms(1_000_000), Some(600), "a slow answer is not calm either");
        stats.busy(2_899_000, 2_900_000);
        assert_eq!(stats.recovered_ms(1_000_000), None, "it was not calm for long enough");
    }
}

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
    pub(super) began_us: u64,
    /// The counts of the report. Its other figures are not known yet.
    pub(super) counts: OverloadPhase,
    /// Times of the answers to admitted holds, each with its latency. In microseconds.
    holds: Vec<(u64, u32)>,
    checkouts: Vec<(u64, u32)>,
    refusals: Vec<(u64, u32)>,
}

impl PhaseStats {
    pub(super) fn since(began_us: u64) -> PhaseStats {
        PhaseStats { began_us, ..PhaseStats::default() }
    }

    pub(super) fn held(&mut self, called_us: u64, now_us: u64) {
        self.holds.push((now_us, short(now_us - called_us)));
    }

    pub(super) fn checked_out(&mut self, called_us: u64, now_us: u64) {
        self.counts.bought += 1;
        self.checkouts.push((now_us, short(now_us - called_us)));
    }

    pub(super) fn busy(&mut self, called_us: u64, now_us: u64) {
        self.counts.refused += 1;
        self.refusals.push((now_us, short(now_us - called_us)));
    }

    /// The phase for the report. Latencies are those after `settle_ms`.
    pub(super) fn phase(
        &self,
        name: &str,
        took_s: f64,
        settle_ms: u64,
        used: (Option<f64>, Option<u64>),
    ) -> OverloadPhase {
        let from_us = self.began_us + settle_ms * 1_000;
        let (cpu_s, memory) = used;
        OverloadPhase {
            name: name.to_owned(),
            seconds: took_s,
            goodput: self.counts.bought as f64 / took_s,
            hold: percentiles(&self.holds, from_us),
            checkout: percentiles(&self.checkouts, from_us),
            refusal: percentiles(&self.refusals, from_us),
            cpu_s,
            memory,
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
        let ends = self.checkouts.last().map(|(at_us, _)| slice(*at_us))?;
        (calm_from + CALM_SLICES <= ends).then_some(calm_from * SLICE_US / 1_000)
    }
}

fn short(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}

fn percentiles(latencies: &[(u64, u32)], from_us: u64) -> Option<Percentiles> {
    let mut us: Vec<u32> = latencies.iter().filter(|(at_us, _)| *at_us >= from_us).map(|(_, us)| *us).collect();
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
    fn a_phase_has_recovered_when_nothing_is_slow_or_refused_any_more() {
        let mut stats = PhaseStats::since(0);
        let purchase = |stats: &mut PhaseStats, at_us: u64, took_us: u64| stats.checked_out(at_us - took_us, at_us);
        (10..30).for_each(|slice| purchase(&mut stats, slice * SLICE_US, 1_000));
        assert_eq!(stats.recovered_ms(1_000_000), Some(0));
        stats.busy(1_249_000, 1_250_000);
        assert_eq!(stats.recovered_ms(1_000_000), Some(300));
        stats.held(1_400_000, 1_560_000);
        assert_eq!(stats.recovered_ms(1_000_000), Some(600), "a slow answer is not calm either");
        stats.busy(2_899_000, 2_900_000);
        assert_eq!(stats.recovered_ms(1_000_000), None, "it was not calm for long enough");
    }
}

//! The behaviour under overload: goodput, delays, refusals, memory and recovery, phase by phase.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Percentiles, grouped};
use crate::scenario::OverloadSpec;

/// The required goodput, as a share of the best phase's, with clients that ignore `retry_after_ms`. Each pair is the
/// offered percentage and the share.
const GOODPUT_IGNORING: [(u32, f64); 3] = [(200, 0.9), (300, 0.8), (1_000, 0.5)];
/// The same with clients that obey it.
const GOODPUT_OBEYING: [(u32, f64); 1] = [(1_000, 0.9)];
/// The longest time until the node has recovered, in milliseconds.
const RECOVERY_MAX_MS: u64 = 2_000;
/// The most processor time of a refusal, in microseconds.
const REFUSAL_MAX_US: f64 = 4.0;
/// The memory growth that a phase may add besides [`MEMORY_PER_PURCHASE`] for each purchase, in bytes.
const MEMORY_SLACK: u64 = 64 << 20;
/// The memory growth per purchase, in bytes. Sold seats stay in memory for good, and the cart until it is archived.
const MEMORY_PER_PURCHASE: u64 = 2_048;

/// The behaviour under overload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// The measured capacity, in purchases per second.
    pub capacity: f64,
    /// All phases, in order.
    pub phases: Vec<OverloadPhase>,
    /// Purchases that got their seats and, as far as their clients know, did not buy them.
    pub left_holding: u64,
    /// The readiness of the first node during the phases.
    pub ready: Readiness,
    /// The problems. They fail the run.
    pub problems: Vec<String>,
}

/// One phase. Latencies are those of admitted requests, in milliseconds from their sending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverloadPhase {
    pub name: String,
    /// The offered load in percent of the capacity. 0 in the phases that measure the capacity.
    pub percent: u32,
    /// The clients obeyed `retry_after_ms`.
    pub obeys: bool,
    /// The duration of the phase.
    pub seconds: f64,
    pub offered: u64,
    /// Purchases that bought their seats.
    pub bought: u64,
    /// Purchases per second that bought their seats.
    pub goodput: f64,
    /// Requests refused as `busy`.
    pub refused: u64,
    /// Checkouts among them.
    pub checkouts_refused: u64,
    /// Requests whose outcome stayed unknown.
    pub unknown: u64,
    /// Purchases that were not sent because the node did not read.
    pub not_sent: u64,
    /// Other refusals and failures, by name.
    pub other: BTreeMap<String, u64>,
    /// Latency of holds.
    pub hold: Option<Percentiles>,
    /// Latency of checkouts.
    pub checkout: Option<Percentiles>,
    /// Latency of refusals.
    pub refusal: Option<Percentiles>,
    /// Processor time of the first node, in seconds.
    pub cpu_s: Option<f64>,
    /// Processor time of a refusal, in microseconds, if a purchase cost as much as in the capacity phase.
    pub refusal_cpu_us: Option<f64>,
    /// Memory of the first node at the end of the phase, in bytes.
    pub memory: Option<u64>,
    /// The time after the phase until the node had recovered, in milliseconds.
    pub recovery_ms: Option<u64>,
}

/// The answers of a node's `/readyz`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Readiness {
    /// The number of probes.
    pub asked: u64,
    /// Probes that were not answered with "ready".
    pub not_ready: u64,
    /// The slowest answer, in milliseconds.
    pub slowest_ms: f64,
}

impl OverloadPhase {
    fn p99_ms(&self) -> f64 {
        let of = |latency: &Option<Percentiles>| latency.map_or(0.0, |latency| latency.p99);
        of(&self.hold).max(of(&self.checkout))
    }
}

impl Overload {
    /// Sets the problems.
    pub(crate) fn judge(&mut self, spec: &OverloadSpec) {
        let mut problems = Vec::new();
        if self.left_holding > 0 {
            let count = grouped(self.left_holding);
            problems.push(format!("{count} purchases got their seats and could not buy them before their deadline"));
        }
        if self.phases.iter().any(|phase| phase.bought == 0) {
            problems.push("in at least one phase nothing was bought".to_owned());
        }
        if self.ready.not_ready > 0 {
            problems.push(format!("/readyz was not ready {} of {} times", self.ready.not_ready, self.ready.asked));
        }
        if spec.judged {
            self.judge_figures(spec, &mut problems);
        }
        self.problems = problems;
    }

    fn judge_figures(&self, spec: &OverloadSpec, problems: &mut Vec<String>) {
        let best = self.phases.iter().map(|phase| phase.goodput).fold(0.0, f64::max);
        let ignoring = GOODPUT_IGNORING.map(|(percent, share)| (percent, false, share));
        let obeying = GOODPUT_OBEYING.map(|(percent, share)| (percent, true, share));
        for (percent, obeys, share) in ignoring.into_iter().chain(obeying) {
            let phases = self.phases.iter().filter(|phase| (phase.percent, phase.obeys) == (percent, obeys));
            for phase in phases.filter(|phase| phase.goodput < share * best) {
                let got = phase.goodput / best;
                problems.push(format!("{}: goodput {got:.2} of the best, at least {share} is promised", phase.name));
            }
        }
        let calm = self.phases.iter().find(|phase| (1..100).contains(&phase.percent));
        for (before, phase) in
            self.phases.iter().zip(self.phases.iter().skip(1)).filter(|(_, phase)| phase.percent > 100)
        {
            let most_ms = calm.map(|calm| spec.target_ms as f64 + 2.0 * calm.p99_ms());
            if let Some(most_ms) = most_ms.filter(|most_ms| phase.p99_ms() > *most_ms) {
                let p99_ms = phase.p99_ms();
                problems.push(format!("{}: p99 {p99_ms:.1} ms, at most {most_ms:.1} is promised", phase.name));
            }
            if phase.recovery_ms.is_none_or(|ms| ms > RECOVERY_MAX_MS) {
                problems.push(format!("{}: not recovered within {RECOVERY_MAX_MS} ms", phase.name));
            }
            if let Some(us) = phase.refusal_cpu_us.filter(|us| *us > REFUSAL_MAX_US && !phase.obeys) {
                problems
                    .push(format!("{}: a refusal took {us:.1} µs, at most {REFUSAL_MAX_US} is promised", phase.name));
            }
            if let Some((now, then)) = phase.memory.zip(before.memory)
                && now > then + MEMORY_SLACK + MEMORY_PER_PURCHASE * phase.bought
            {
                let (now, then) = (now >> 20, then >> 20);
                problems.push(format!("{}: memory rose from {then} to {now} MiB", phase.name));
            }
        }
    }

    /// The table header and one row per phase, for the human reports.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "phase",
            "offered/s",
            "bought/s",
            "of best",
            "busy/s",
            "hold p50",
            "hold p99",
            "buy p99",
            "busy p99",
            "µs/busy",
            "MiB",
            "calm, ms",
        ];
        let best = self.phases.iter().map(|phase| phase.goodput).fold(f64::MIN_POSITIVE, f64::max);
        let ms = |latency: Option<f64>| latency.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
        let row = |phase: &OverloadPhase| {
            vec![
                phase.name.clone(),
                format!("{:.0}", phase.offered as f64 / phase.seconds),
                format!("{:.0}", phase.goodput),
                format!("{:.2}", phase.goodput / best),
                format!("{:.0}", phase.refused as f64 / phase.seconds),
                ms(phase.hold.map(|hold| hold.p50)),
                ms(phase.hold.map(|hold| hold.p99)),
                ms(phase.checkout.map(|checkout| checkout.p99)),
                ms(phase.refusal.map(|refusal| refusal.p99)),
                ms(phase.refusal_cpu_us),
                phase.memory.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
                phase.recovery_ms.map_or("-".to_owned(), |ms| ms.to_string()),
            ]
        };
        [head.map(str::to_owned).to_vec()].into_iter().chain(self.phases.iter().map(row)).collect()
    }

    /// Figures beside the table.
    pub(super) fn extra_lines(&self) -> Vec<String> {
        let Readiness { asked, not_ready, slowest_ms } = self.ready;
        let sum = |of: fn(&OverloadPhase) -> u64| grouped(self.phases.iter().map(of).sum::<u64>());
        let mut lines = vec![
            format!("unknown {}, not sent {}", sum(|phase| phase.unknown), sum(|phase| phase.not_sent)),
            format!("left holding seats {}", grouped(self.left_holding)),
            format!("/readyz: asked {asked} times, not ready {not_ready} times, slowest answer {slowest_ms:.0} ms"),
        ];
        let mut other: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in self.phases.iter().flat_map(|phase| &phase.other) {
            *other.entry(name).or_default() += count;
        }
        lines.extend(other.into_iter().map(|(name, count)| format!("{name} {}", grouped(count))));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> OverloadSpec {
        OverloadSpec {
            clients: 1,
            capacity_ms: 1,
            percents: Vec::new(),
            phase_ms: 1,
            settle_ms: 1,
            recovery_ms: 1,
            connections: 1,
            target_ms: 50,
            judged: true,
        }
    }

    fn phase(percent: u32, obeys: bool, goodput: f64, p99: f64) -> OverloadPhase {
        let hold = Some(Percentiles { p99, ..Percentiles::default() });
        let (recovery_ms, memory) = (Some(100), Some(100 << 20));
        OverloadPhase { percent, obeys, goodput, bought: 1, hold, recovery_ms, memory, ..OverloadPhase::default() }
    }

    fn judged(phases: Vec<OverloadPhase>) -> Vec<String> {
        let mut overload = Overload { phases, ..Overload::default() };
        overload.judge(&spec());
        overload.problems
    }

    #[test]
    fn each_phase_is_judged_by_the_promised_figures() {
        let calm = phase(80, false, 80.0, 10.0);
        assert_eq!(judged(vec![calm.clone(), phase(100, false, 100.0, 20.0), phase(200, false, 90.0, 70.0)]), [""; 0]);
        let problems = judged(vec![
            calm,
            phase(100, false, 100.0, 20.0),
            phase(200, false, 89.0, 70.0),
            phase(1_000, false, 50.0, 71.0),
            phase(1_000, true, 80.0, 70.0),
            OverloadPhase { recovery_ms: Some(2_001), ..phase(300, true, 90.0, 70.0) },
            OverloadPhase { memory: Some(300 << 20), ..phase(500, true, 90.0, 70.0) },
            OverloadPhase { refusal_cpu_us: Some(4.1), ..phase(500, false, 90.0, 70.0) },
        ]);
        assert_eq!(problems.len(), 6, "{problems:?}");
    }

    #[test]
    fn a_purchase_left_holding_seats_fails_the_run_whatever_the_figures() {
        let mut overload = Overload { left_holding: 1, ..Overload::default() };
        overload.judge(&OverloadSpec { judged: false, ..spec() });
        assert_eq!(overload.problems.len(), 1);
    }
}

//! What overload did: goodput, delays, refusals, memory and recovery, phase by phase.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Percentiles, grouped};
use crate::scenario::OverloadSpec;

/// Goodput of the best phase that must be reached with clients that ignore when to try again: percent offered, share.
const GOODPUT_IGNORING: [(u32, f64); 3] = [(200, 0.9), (300, 0.8), (1_000, 0.5)];
/// The same with clients that obey.
const GOODPUT_OBEYING: [(u32, f64); 1] = [(1_000, 0.9)];
/// The longest time until everything is as before, in milliseconds.
const RECOVERY_MAX_MS: u64 = 2_000;
/// The most processor time a refusal may take, in microseconds.
const REFUSAL_MAX_US: f64 = 4.0;
/// Memory may grow by so much in a phase, in bytes; besides, for each purchase, by [`MEMORY_A_SALE`].
const MEMORY_SLACK: u64 = 64 << 20;
/// What is sold stays in memory: the seats for good, the cart until it is in the store.
const MEMORY_A_SALE: u64 = 2_048;

/// A run under overload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// Purchases a second that were measured as the capacity.
    pub capacity: f64,
    /// Every phase, in order.
    pub phases: Vec<OverloadPhase>,
    /// Purchases that got their seats and, as far as their clients know, did not buy them.
    pub left_holding: u64,
    /// What the first node said of itself meanwhile.
    pub ready: Readiness,
    /// What did not go as it should; the run is bad then.
    pub problems: Vec<String>,
}

/// One phase. Latencies are of requests that were admitted, in milliseconds from their sending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverloadPhase {
    /// What it is called.
    pub name: String,
    /// What was offered, in percent of the capacity; 0 where it was measured.
    pub percent: u32,
    /// Clients waited as long as they were told.
    pub obeys: bool,
    /// How long it took.
    pub seconds: f64,
    /// Purchases that were begun, or were to be.
    pub offered: u64,
    /// Purchases that ended well.
    pub bought: u64,
    /// The same a second.
    pub goodput: f64,
    /// Requests refused as `busy`.
    pub refused: u64,
    /// Those of them that were checkouts.
    pub checkouts_refused: u64,
    /// Requests whose outcome stayed unknown.
    pub unknown: u64,
    /// Purchases that were not begun, for the node did not read.
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
    /// What a refusal took of it, in microseconds, if a purchase took what it took at capacity.
    pub refusal_cpu_us: Option<f64>,
    /// Memory of the first node at its end, in bytes.
    pub memory: Option<u64>,
    /// How long after it everything was as before, in milliseconds.
    pub recovery_ms: Option<u64>,
}

/// What a node says of itself at `/readyz`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Readiness {
    /// How often it was asked.
    pub asked: u64,
    /// How often it did not say yes.
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
    /// Notes what did not go as it should.
    pub(crate) fn judge(&mut self, spec: &OverloadSpec) {
        let mut problems = Vec::new();
        if self.left_holding > 0 {
            let count = grouped(self.left_holding);
            problems.push(format!("{count} purchases got their seats and could not buy them before their deadline"));
        }
        if self.phases.iter().any(|phase| phase.bought == 0) {
            problems.push("in one of the phases nothing was bought".to_owned());
        }
        if self.ready.not_ready > 0 {
            problems.push(format!("/readyz did not say yes {} of {} times", self.ready.not_ready, self.ready.asked));
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
                problems.push(format!("{}: not as before within {RECOVERY_MAX_MS} ms", phase.name));
            }
            if let Some(us) = phase.refusal_cpu_us.filter(|us| *us > REFUSAL_MAX_US && !phase.obeys) {
                problems
                    .push(format!("{}: a refusal took {us:.1} µs, at most {REFUSAL_MAX_US} is promised", phase.name));
            }
            if let Some((now, then)) = phase.memory.zip(before.memory)
                && now > then + MEMORY_SLACK + MEMORY_A_SALE * phase.bought
            {
                let (now, then) = (now >> 20, then >> 20);
                problems.push(format!("{}: memory rose from {then} to {now} MiB", phase.name));
            }
        }
    }

    /// Its head and one row a phase, for people.
    pub(super) fn rows(&self) -> Vec<[String; 12]> {
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
            [
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
        [head.map(str::to_owned)].into_iter().chain(self.phases.iter().map(row)).collect()
    }

    /// What does not fit into the rows.
    pub(super) fn beside(&self) -> Vec<String> {
        let Readiness { asked, not_ready, slowest_ms } = self.ready;
        let sum = |of: fn(&OverloadPhase) -> u64| grouped(self.phases.iter().map(of).sum::<u64>());
        let mut lines = vec![
            format!("unknown {}, not sent {}", sum(|phase| phase.unknown), sum(|phase| phase.not_sent)),
            format!("left holding seats {}", grouped(self.left_holding)),
            format!("/readyz: asked {asked} times, no {not_ready} times, slowest answer {slowest_ms:.0} ms"),
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
    fn what_is_promised_is_held_against_each_phase() {
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
    fn who_is_left_with_seats_fails_it_whatever_the_figures() {
        let mut overload = Overload { left_holding: 1, ..Overload::default() };
        overload.judge(&OverloadSpec { judged: false, ..spec() });
        assert_eq!(overload.problems.len(), 1);
    }
}

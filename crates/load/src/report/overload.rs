//! The behaviour under overload: goodput, delays, refusals, memory and recovery, phase by phase, and what is promised about them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Percentiles, grouped};
use crate::scenario::OverloadSpec;

/// A promise about the goodput, as a share of the capacity.
struct Promised {
    percent: u32,
    obeys: bool,
    crowded: bool,
    share: f64,
}

/// The promises about the goodput.
const GOODPUT: [Promised; 10] = [
    Promised { percent: 200, obeys: false, crowded: false, share: 0.95 },
    Promised { percent: 300, obeys: false, crowded: false, share: 0.9 },
    Promised { percent: 100, obeys: true, crowded: false, share: 0.95 },
    Promised { percent: 200, obeys: true, crowded: false, share: 0.95 },
    Promised { percent: 300, obeys: true, crowded: false, share: 0.95 },
    Promised { percent: 1_000, obeys: true, crowded: false, share: 0.95 },
    Promised { percent: 200, obeys: false, crowded: true, share: 0.85 },
    Promised { percent: 200, obeys: true, crowded: true, share: 0.85 },
    Promised { percent: 300, obeys: false, crowded: true, share: 0.85 },
    Promised { percent: 300, obeys: true, crowded: true, share: 0.85 },
];
/// The longest time until the node has recovered, in milliseconds.
const RECOVERY_MAX_MS: u64 = 1_000;
/// The largest share of the purchases that got their seats and did not buy them.
const NOT_BOUGHT_MAX: f64 = 0.000_5;
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
    /// A purchase also watched its cart, as the page does.
    #[serde(default)]
    pub watches: bool,
    /// All phases, in order, with those that were drawn anew.
    pub phases: Vec<OverloadPhase>,
    /// Purchases that got their seats and, as far as their clients know, did not buy them.
    pub left_holding: u64,
    /// There were no seats left to try.
    #[serde(default)]
    pub sold_out: bool,
    /// The promises and what was measured, over this run and the earlier rounds that it was given.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// The readiness of the first node during the phases.
    pub ready: Readiness,
    /// The problems. They fail the run.
    pub problems: Vec<String>,
}

/// A promise, and what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// What was measured, with its phase.
    pub what: String,
    /// How many rounds were measured.
    pub rounds: usize,
    pub promised: String,
    pub measured: String,
    pub is_kept: bool,
}

/// Why a phase says nothing about the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    /// The capacities before and after it differ by this share of the larger one.
    Capacity(f64),
    /// It offered this share of the wanted rate.
    Offered(f64),
}

impl Unfit {
    fn words(&self) -> String {
        match self {
            Unfit::Capacity(share) => format!("the capacity changed by {:.1} %", share * 100.0),
            Unfit::Offered(share) => format!("{:.1} % of the wanted rate were offered", share * 100.0),
        }
    }
}

/// One phase. Latencies are those of admitted requests, in milliseconds from their sending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverloadPhase {
    pub name: String,
    /// The offered load in percent of the capacity. 0 in the phases that measure the capacity.
    pub percent: u32,
    /// The clients obeyed `retry_after_ms`.
    pub obeys: bool,
    /// Other processes kept the processors of the first node busy.
    #[serde(default)]
    pub crowded: bool,
    /// Purchases per second in a closed loop, before the phase and after it.
    #[serde(default)]
    pub capacity_before: f64,
    #[serde(default)]
    pub capacity_after: f64,
    /// Why it says nothing about the node.
    #[serde(default)]
    pub unfit: Option<Unfit>,
    /// It was unfit, and the next phase took its place.
    #[serde(default)]
    pub is_drawn_anew: bool,
    /// The duration of the phase, without its beginning, which does not count.
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
    /// Purchases that were not sent because the node did not read, or because no seats were left to try.
    pub not_sent: u64,
    /// Purchases of obeying clients that were given up before their hold was granted, because they could not be finished
    /// any more.
    #[serde(default)]
    pub given_up: u64,
    /// Purchases of buyers who came in this phase, also in its beginning, that got their seats.
    #[serde(default)]
    pub granted: u64,
    /// Those of them that did not buy the seats, as far as their clients know.
    #[serde(default)]
    pub not_bought: u64,
    /// Other refusals and failures, by name.
    pub other: BTreeMap<String, u64>,
    /// How long after its buyer came each purchase was begun, from the buyer's arrival to the sending of the hold that was
    /// granted.
    #[serde(default)]
    pub age: Option<Percentiles>,
    /// Latency of holds.
    pub hold: Option<Percentiles>,
    /// Latency of checkouts.
    pub checkout: Option<Percentiles>,
    /// Latency of refusals.
    pub refusal: Option<Percentiles>,
    /// Processor time of the first node, in seconds.
    pub cpu_s: Option<f64>,
    /// The share of the time of the first node's processors that it did not use.
    #[serde(default)]
    pub idle: Option<f64>,
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

    /// The goodput as a share of the capacity that was measured before and after.
    fn of_capacity(&self) -> f64 {
        let capacity = f64::midpoint(self.capacity_before, self.capacity_after);
        if capacity > 0.0 { self.goodput / capacity } else { 0.0 }
    }
}

/// The phases of one kind, one of each round.
struct Rounds<'a> {
    name: String,
    percent: u32,
    obeys: bool,
    crowded: bool,
    watches: bool,
    phases: Vec<&'a OverloadPhase>,
}

impl<'a> Rounds<'a> {
    /// The phases of all rounds, by their kind. Those that were drawn anew are left out.
    fn of(rounds: &[&'a Overload]) -> Vec<Rounds<'a>> {
        let mut all: Vec<Rounds<'a>> = Vec::new();
        for overload in rounds {
            for phase in overload.phases.iter().filter(|phase| !phase.is_drawn_anew) {
                let kind = (phase.percent, phase.obeys, phase.crowded, overload.watches);
                let known = all.iter_mut().find(|of| (of.percent, of.obeys, of.crowded, of.watches) == kind);
                match known {
                    Some(of) => of.phases.push(phase),
                    None => {
                        let mix = if overload.watches { "three requests" } else { "two requests" };
                        let (percent, obeys, crowded, watches) = kind;
                        let name = format!("{}, {mix}", phase.name);
                        all.push(Rounds { name, percent, obeys, crowded, watches, phases: vec![phase] });
                    }
                }
            }
        }
        all
    }

    fn median(&self, of: impl Fn(&OverloadPhase) -> f64) -> f64 {
        let mut values: Vec<f64> = self.phases.iter().map(|phase| of(phase)).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
    }

    fn sum(&self, of: impl Fn(&OverloadPhase) -> u64) -> u64 {
        self.phases.iter().map(|phase| of(phase)).sum()
    }

    /// The share of the purchases that got their seats and did not buy them.
    fn not_bought(&self) -> f64 {
        self.sum(|phase| phase.not_bought) as f64 / self.sum(|phase| phase.granted).max(1) as f64
    }

    fn mark(&self, what: &str, promised: String, measured: String, is_kept: bool) -> Mark {
        Mark { what: format!("{}: {what}", self.name), rounds: self.phases.len(), promised, measured, is_kept }
    }

    /// What is promised about these phases. `calm_ms` is the p99 of the same purchases below the capacity.
    fn marks(&self, target_ms: u64, calm_ms: Option<f64>) -> Vec<Mark> {
        let mut marks = Vec::new();
        let kind = (self.percent, self.obeys, self.crowded);
        let promised = GOODPUT.iter().find(|promised| (promised.percent, promised.obeys, promised.crowded) == kind);
        if let Some(Promised { share, .. }) = promised {
            let measured = self.median(OverloadPhase::of_capacity);
            let words = (format!("at least {share:.2}"), format!("{measured:.3}"));
            marks.push(self.mark("goodput / capacity", words.0, words.1, measured >= *share));
        }
        if self.percent < 100 {
            return marks;
        }
        let not_bought = self.not_bought();
        let words = (format!("at most {:.2} %", NOT_BOUGHT_MAX * 100.0), format!("{:.3} %", not_bought * 100.0));
        marks.push(self.mark("granted and not bought", words.0, words.1, not_bought <= NOT_BOUGHT_MAX));
        // Beside another process the node's own time is not its own to promise.
        if self.crowded {
            return marks;
        }
        if let Some(calm_ms) = calm_ms {
            let (most_ms, p99_ms) = (target_ms as f64 + 2.0 * calm_ms, self.median(OverloadPhase::p99_ms));
            let words = (format!("at most {most_ms:.1} ms"), format!("{p99_ms:.1} ms"));
            marks.push(self.mark("p99 of admitted requests", words.0, words.1, p99_ms <= most_ms));
        }
        // A phase after which the node did not recover took longer than every other one.
        let recovery_ms = self.median(|phase| phase.recovery_ms.map_or(f64::INFINITY, |ms| ms as f64));
        let words = (format!("within {RECOVERY_MAX_MS} ms"), format!("{recovery_ms:.0} ms"));
        marks.push(self.mark("recovered", words.0, words.1, recovery_ms <= RECOVERY_MAX_MS as f64));
        marks
    }
}

impl Overload {
    /// Sets the marks and the problems. `earlier` are the other rounds.
    pub(crate) fn judge(&mut self, spec: &OverloadSpec, earlier: &[Overload]) {
        let rounds: Vec<&Overload> = earlier.iter().chain([&*self]).collect();
        let marks = marks(&rounds, spec.target_ms);
        let mut problems = Vec::new();
        let (granted, not_bought) = self
            .phases
            .iter()
            .fold((0, 0), |(granted, not_bought), phase| (granted + phase.granted, not_bought + phase.not_bought));
        if self.left_holding as f64 > NOT_BOUGHT_MAX * granted.max(1) as f64 {
            let (left, bound) = (grouped(self.left_holding), NOT_BOUGHT_MAX * 100.0);
            problems.push(format!(
                "{left} purchases got their seats and could not buy them before their deadline, of {} in the phases, where {} \
                 could not; at most {bound:.2} % is promised",
                grouped(granted),
                grouped(not_bought)
            ));
        }
        if self.sold_out {
            problems.push("there were no seats left to try; give the house more sessions".to_owned());
        }
        if self.phases.iter().any(|phase| phase.bought == 0) {
            problems.push("in at least one phase nothing was bought".to_owned());
        }
        if self.ready.not_ready > 0 {
            problems.push(format!("/readyz was not ready {} of {} times", self.ready.not_ready, self.ready.asked));
        }
        if spec.judged {
            let broken = marks.iter().filter(|mark| !mark.is_kept);
            problems
                .extend(broken.map(|Mark { what, promised, measured, .. }| {
                    format!("{what}: {measured}, {promised} is promised")
                }));
            self.judge_refusals_and_memory(&mut problems);
            let unfit = rounds.iter().flat_map(|round| &round.phases).filter(|phase| !phase.is_drawn_anew);
            for (phase, unfit) in unfit.filter_map(|phase| Some((phase, phase.unfit.as_ref()?))) {
                problems.push(format!("{} was not drawn anew often enough: {}", phase.name, unfit.words()));
            }
        }
        self.marks = marks;
        self.problems = problems;
    }

    fn judge_refusals_and_memory(&self, problems: &mut Vec<String>) {
        for (before, phase) in
            self.phases.iter().zip(self.phases.iter().skip(1)).filter(|(_, phase)| phase.percent > 100)
        {
            if let Some(us) = phase.refusal_cpu_us.filter(|us| *us > REFUSAL_MAX_US && !phase.obeys && !phase.crowded) {
                problems
                    .push(format!("{}: a refusal took {us:.1} µs, at most {REFUSAL_MAX_US} is promised", phase.name));
            }
            // Between the ends of two phases the capacity was measured and the beginning of the phase went by.
            let bought = phase.bought + (phase.capacity_before * (phase.seconds + 10.0)) as u64;
            if let Some((now, then)) = phase.memory.zip(before.memory)
                && now > then + MEMORY_SLACK + MEMORY_PER_PURCHASE * bought
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
            "capacity",
            "share",
            "busy/s",
            "age p50",
            "age p99",
            "hold p50",
            "hold p99",
            "buy p99",
            "idle",
            "not bought",
            "µs/busy",
            "MiB",
            "calm, ms",
        ];
        let ms = |latency: Option<f64>| latency.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
        let percent = |share: Option<f64>, digits: usize| {
            share.map_or("-".to_owned(), |share| format!("{:.digits$} %", share * 100.0))
        };
        let row = |phase: &OverloadPhase| {
            let not_bought = (phase.granted > 0).then(|| phase.not_bought as f64 / phase.granted as f64);
            vec![
                format!("{}{}", phase.name, if phase.is_drawn_anew { " (drawn anew)" } else { "" }),
                format!("{:.0}", phase.offered as f64 / phase.seconds),
                format!("{:.0}", phase.goodput),
                format!("{:.0}, {:.0}", phase.capacity_before, phase.capacity_after),
                format!("{:.2}", phase.of_capacity()),
                format!("{:.0}", phase.refused as f64 / phase.seconds),
                ms(phase.age.map(|age| age.p50)),
                ms(phase.age.map(|age| age.p99)),
                ms(phase.hold.map(|hold| hold.p50)),
                ms(phase.hold.map(|hold| hold.p99)),
                ms(phase.checkout.map(|checkout| checkout.p99)),
                percent(phase.idle, 1),
                percent(not_bought, 3),
                ms(phase.refusal_cpu_us),
                phase.memory.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
                phase.recovery_ms.map_or("-".to_owned(), |ms| ms.to_string()),
            ]
        };
        [head.map(str::to_owned).to_vec()].into_iter().chain(self.phases.iter().map(row)).collect()
    }

    /// Figures beside the table: the promises first.
    pub(super) fn extra_lines(&self) -> Vec<String> {
        let Readiness { asked, not_ready, slowest_ms } = self.ready;
        let sum = |of: fn(&OverloadPhase) -> u64| grouped(self.phases.iter().map(of).sum::<u64>());
        let mark = |Mark { what, rounds, promised, measured, is_kept }: &Mark| {
            let (kept, of) =
                (if *is_kept { "kept" } else { "NOT KEPT" }, if *rounds == 1 { "round" } else { "rounds" });
            format!("{kept}: {what}: {measured} ({promised}; {rounds} {of})")
        };
        let mut lines: Vec<String> = self.marks.iter().map(mark).collect();
        let unfit = self.phases.iter().filter_map(|phase| Some((phase, phase.unfit.as_ref()?)));
        lines.extend(unfit.map(|(phase, unfit)| {
            let anew = if phase.is_drawn_anew { "drawn anew" } else { "not drawn anew again" };
            format!("{}: {anew}, because {}", phase.name, unfit.words())
        }));
        lines.extend([
            format!("unknown {}, not sent {}", sum(|phase| phase.unknown), sum(|phase| phase.not_sent)),
            format!("given up before the hold was granted {}", sum(|phase| phase.given_up)),
            format!("checkouts refused {}", sum(|phase| phase.checkouts_refused)),
            format!("left holding seats {}", grouped(self.left_holding)),
            format!("/readyz: asked {asked} times, not ready {not_ready} times, slowest answer {slowest_ms:.0} ms"),
        ]);
        let mut other: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in self.phases.iter().flat_map(|phase| &phase.other) {
            *other.entry(name).or_default() += count;
        }
        lines.extend(other.into_iter().map(|(name, count)| format!("{name} {}", grouped(count))));
        lines
    }
}

/// All promises, over these rounds.
fn marks(rounds: &[&Overload], target_ms: u64) -> Vec<Mark> {
    let all = Rounds::of(rounds);
    let calm_ms = |of: &Rounds<'_>| {
        let calm =
            all.iter().find(|calm| (1..100).contains(&calm.percent) && calm.watches == of.watches && !calm.crowded)?;
        Some(calm.median(OverloadPhase::p99_ms))
    };
    all.iter().flat_map(|of| of.marks(target_ms, calm_ms(of))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> OverloadSpec {
        OverloadSpec {
            clients: 1,
            capacity_ms: 1,
            percents: Vec::new(),
            obeying: Vec::new(),
            crowded: Vec::new(),
            phase_ms: 1,
            settle_ms: 1,
            recovery_ms: 1,
            connections: 1,
            generators: 1,
            redraws: 0,
            watches: false,
            earlier: Vec::new(),
            target_ms: 50,
            judged: true,
        }
    }

    /// A phase of a node with a capacity of 100 purchases a second.
    fn phase(percent: u32, obeys: bool, goodput: f64, p99: f64) -> OverloadPhase {
        let hold = Some(Percentiles { p99, ..Percentiles::default() });
        let (recovery_ms, memory) = (Some(100), Some(100 << 20));
        let (capacity_before, capacity_after, granted) = (98.0, 102.0, 10_000);
        let phase =
            OverloadPhase { percent, obeys, goodput, bought: 1, hold, recovery_ms, memory, ..OverloadPhase::default() };
        OverloadPhase { capacity_before, capacity_after, granted, name: format!("{percent} %"), ..phase }
    }

    fn round(phases: Vec<OverloadPhase>) -> Overload {
        let left_holding = phases.iter().map(|phase| phase.not_bought).sum();
        Overload { phases, left_holding, ..Overload::default() }
    }

    fn judged(phases: Vec<OverloadPhase>) -> Vec<String> {
        let mut overload = round(phases);
        overload.judge(&spec(), &[]);
        overload.problems
    }

    #[test]
    fn each_phase_is_judged_by_the_promised_figures() {
        let calm = phase(80, false, 80.0, 10.0);
        let crowded = |goodput| OverloadPhase { crowded: true, ..phase(200, true, goodput, 900.0) };
        let kept = [
            phase(100, true, 95.0, 70.0),
            phase(200, false, 95.0, 70.0),
            phase(300, false, 90.0, 70.0),
            phase(1_000, true, 95.0, 70.0),
            OverloadPhase { not_bought: 5, recovery_ms: Some(1_000), ..phase(300, true, 95.0, 70.0) },
            crowded(85.0),
        ];
        assert_eq!(judged([std::slice::from_ref(&calm), &kept[..]].concat()), [""; 0]);
        let broken = [
            phase(100, true, 94.0, 70.0),
            phase(200, false, 94.0, 70.0),
            phase(300, false, 89.0, 70.0),
            phase(1_000, true, 94.0, 70.0),
            phase(200, false, 95.0, 70.1),
            OverloadPhase { not_bought: 6, ..phase(300, true, 95.0, 70.0) },
            OverloadPhase { recovery_ms: Some(1_001), ..phase(300, true, 95.0, 70.0) },
            OverloadPhase { recovery_ms: None, ..phase(300, true, 95.0, 70.0) },
            OverloadPhase { memory: Some(300 << 20), ..phase(500, true, 90.0, 70.0) },
            OverloadPhase { refusal_cpu_us: Some(4.1), ..phase(500, false, 90.0, 70.0) },
            OverloadPhase { unfit: Some(Unfit::Capacity(0.06)), ..phase(500, false, 90.0, 70.0) },
            OverloadPhase { unfit: Some(Unfit::Offered(0.9)), ..phase(500, false, 90.0, 70.0) },
            crowded(84.0),
        ];
        for phase in broken {
            // With one round of one phase, more than that one's share of a promise may be broken.
            let problems = judged(vec![calm.clone(), phase.clone()]);
            assert!(!problems.is_empty(), "{phase:?}");
        }
    }

    #[test]
    fn promises_are_about_medians_of_all_rounds_of_the_same_purchases() {
        let rounds = [80.0, 96.0, 97.0, 99.0].map(|goodput| round(vec![phase(200, false, goodput, 10.0)]));
        let mut overload = round(vec![phase(200, false, 40.0, 10.0)]);
        overload.judge(&spec(), &rounds);
        assert_eq!(overload.problems, [""; 0], "{:?}", overload.marks);
        assert_eq!((overload.marks[0].measured.as_str(), overload.marks[0].rounds), ("0.960", 5));
        // Purchases of three requests are judged apart.
        let mut watching = Overload { watches: true, ..round(vec![phase(200, false, 40.0, 10.0)]) };
        watching.judge(&spec(), &rounds);
        assert_eq!(watching.problems.len(), 1, "{:?}", watching.problems);
        // A phase that was drawn anew does not count.
        let anew =
            OverloadPhase { is_drawn_anew: true, unfit: Some(Unfit::Capacity(0.1)), ..phase(200, false, 9.0, 900.0) };
        assert_eq!(judged(vec![anew, phase(200, false, 95.0, 10.0)]), [""; 0]);
    }

    #[test]
    fn purchases_left_holding_seats_fail_the_run_whatever_the_figures() {
        let not_bought = |not_bought| {
            let mut overload = round(vec![OverloadPhase { not_bought, ..phase(200, false, 10.0, 10.0) }]);
            overload.judge(&OverloadSpec { judged: false, ..spec() }, &[]);
            overload.problems.len()
        };
        assert_eq!((not_bought(5), not_bought(6)), (0, 1));
    }
}

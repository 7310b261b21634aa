//! Many runs, and the sum of their results.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use tracing_mutex::parkinglot::Mutex;

use crate::{
    run::{Report, run},
    settings::Settings,
    swarm::Fault,
    tally::Tally,
};

/// The sum of many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub runs: u64,
    /// Simulated time in milliseconds.
    pub simulated_ms: u64,
    /// Injected faults by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Granted changes.
    pub changes: u64,
    /// Answered reads.
    pub reads: u64,
    /// States that watchers have seen.
    pub sights: u64,
    /// Attempts with an unknown outcome.
    pub unknown: u64,
    /// Attempts that were turned away.
    pub turned_away: u64,
    /// Carts at the end.
    pub carts: u64,
    /// Orders at the end.
    pub orders: u64,
    pub tally: Tally,
    /// The longest time until a node with a changed bit was whole again, in milliseconds, and the place of the bit.
    pub longest_repair: (u64, String),
    /// The sum of the runs' hashes, which does not depend on their order.
    pub hash: u64,
    /// Runs with violations, by seed.
    pub failed: BTreeMap<u64, Report>,
}

impl Summary {
    fn add(&mut self, report: Report) {
        self.runs += 1;
        self.hash = self.hash.wrapping_add(report.hash);
        self.simulated_ms += report.simulated_ms;
        for (fault, times) in &report.faults {
            *self.faults.entry(*fault).or_default() += times;
        }
        self.changes += report.changes;
        self.reads += report.reads;
        self.sights += report.sights;
        self.unknown += report.unknown;
        self.turned_away += report.turned_away;
        self.carts += report.seen.carts;
        self.orders += report.seen.orders;
        self.tally.append(&report.tally);
        if report.longest_repair.0 > self.longest_repair.0 {
            self.longest_repair.clone_from(&report.longest_repair);
        }
        if !report.violations.is_empty() {
            self.failed.insert(report.settings.seed, report);
        }
    }

    /// Whether no run has a violation.
    pub fn clean(&self) -> bool {
        self.failed.is_empty()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated_ms as f64 / 3_600_000.0;
        writeln!(f, "{} runs, {hours:.1} simulated hours", self.runs)?;
        let faults: Vec<String> =
            self.faults.iter().map(|(fault, times)| format!("{} {times}", fault.as_str())).collect();
        writeln!(f, "faults: {}", if faults.is_empty() { "none".into() } else { faults.join(", ") })?;
        writeln!(f, "operations: {} changes, {} reads; {} sights of watchers", self.changes, self.reads, self.sights)?;
        writeln!(f, "unknown outcomes: {}; turned away: {}", self.unknown, self.turned_away)?;
        let tally: Vec<String> = self.tally.iter().map(|(what, times)| format!("{what} {times}")).collect();
        writeln!(f, "among them: {}", tally.join(", "))?;
        writeln!(f, "in the end: {} carts, {} orders", self.carts, self.orders)?;
        let (ms, place) = &self.longest_repair;
        if *ms > 0 {
            writeln!(f, "the longest time until a node with a wrong bit was whole: {ms} ms ({place})")?;
        }
        writeln!(f, "trace: {:016x}", self.hash)?;
        writeln!(f, "violations: {} runs", self.failed.len())?;
        for report in self.failed.values() {
            writeln!(f, "  {}", report.settings.replay())?;
            report.violations.iter().try_for_each(|violation| writeln!(f, "    {violation}"))?;
        }
        Ok(())
    }
}

/// Runs these seeds with the same settings on several threads.
///
/// # Errors
/// The settings cannot be simulated.
pub fn run_many(settings: Settings, seeds: Range<u64>, threads: usize) -> Result<Summary, String> {
    let next = AtomicU64::new(seeds.start);
    let done = Mutex::new(Ok(Summary::default()));
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let report = run(Settings { seed, ..settings });
                    let mut done = done.lock();
                    match (report, &mut *done) {
                        (Ok(report), Ok(summary)) => summary.add(report),
                        (Err(error), Ok(_)) => *done = Err(error),
                        (_, Err(_)) => return,
                    }
                }
            });
        }
    });
    done.into_inner()
}

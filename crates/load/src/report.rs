//! The report of a run: one value that is printed as a table, written as JSON, drawn as HTML and compared with an
//! earlier one.

mod hoarders;
mod html;
mod onsale;
mod outages;
mod overload;
mod plot;
mod sections;
mod table;
mod watchers;

use std::{collections::BTreeMap, fs, io, path::Path};

use boxoffice_workload::{check::Findings, statistics::LatencyStatistics};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{
    machine::{CpuShare, DiskFloor},
    scenario::Scenario,
};

pub use hoarders::{Came, HoardMinute, Hoarders};
pub use onsale::{Onsale, OnsalePhase};
pub use outages::{Added, Distribution, Kill, Outages};
pub use overload::{Mark, Overload, OverloadPhase, Readiness, Unfit};
pub use watchers::Watchers;

/// The version of the JSON. A file of another version cannot be a baseline.
pub const FORMAT: u32 = 1;

/// The longest latency that a histogram distinguishes, in microseconds: ten minutes.
const LATENCY_MAX_US: u64 = 600_000_000;

/// Significant digits of histograms.
const DIGITS: u8 = 3;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format: [`FORMAT`].
    pub format: u32,
    /// The scenario, with all its settings.
    pub scenario: Scenario,
    /// The start of the run, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// The prefix of all ids of the run.
    pub prefix: String,
    /// The seed of the run's random choices.
    pub seed: u64,
    pub server: Server,
    pub times: Times,
    pub flows: Flows,
    /// Latencies of flows that bought.
    pub done: Option<Latencies>,
    /// Latencies of flows that were refused.
    pub refused: Option<Latencies>,
    /// Latencies of the requests, by op.
    pub steps: BTreeMap<String, Latency>,
    pub timeline: Vec<Slice>,
    /// A histogram of the latencies of flows that bought, from their intended start.
    pub histogram: Vec<Bar>,
    pub machine: Machine,
    /// The memory of the server process, if it runs on this machine.
    #[serde(default)]
    pub memory: Option<Memory>,
    #[serde(default)]
    pub storm: Option<ExpiryBurst>,
    #[serde(default)]
    pub overload: Option<Overload>,
    #[serde(default)]
    pub hoarders: Option<Hoarders>,
    #[serde(default)]
    pub onsale: Option<Onsale>,
    #[serde(default)]
    pub reads: Option<Reads>,
    #[serde(default)]
    pub watchers: Option<Watchers>,
    #[serde(default)]
    pub outages: Option<Outages>,
    pub audit: Audit,
    pub verdict: Verdict,
}

/// What the servers reported about themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    pub addresses: Vec<String>,
    /// The cluster's id.
    pub cluster: String,
    pub version: String,
    /// The ids of the nodes.
    pub nodes: Vec<String>,
    /// The number of copies of each shard.
    pub replicas: u32,
    /// When changes become durable: `always`, `interval` or `never`.
    pub fsync: String,
}

/// The durations of a run's parts, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Creating venues, halls and sessions.
    pub setup_s: f64,
    /// From the first flow's start to the last one's end.
    pub run_s: f64,
    pub audit_s: f64,
}

/// The outcomes of the flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flows {
    pub offered: u64,
    /// Flows that bought.
    pub done: u64,
    /// Flows whose last request was refused, by reason.
    pub refused: BTreeMap<String, u64>,
    pub abandoned: u64,
    /// Flows that failed, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Holds that were repeated with other seats.
    pub retried: u64,
    /// Seats in the orders that clients know of.
    pub seats_sold: u64,
    /// Units, places and slots in those orders.
    #[serde(default)]
    pub units_sold: u64,
    /// Sum of the totals that clients know of, in minor units.
    pub total: i64,
}

impl Flows {
    /// Refused flows of all reasons.
    pub fn refused_all(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Failed flows of all reasons.
    pub fn failed_all(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Whether no flow was dropped: every offered flow ended in exactly one way.
    pub fn adds_up(&self) -> bool {
        self.offered == self.done + self.refused_all() + self.abandoned + self.failed_all()
    }
}

/// Latencies of flows, measured from both starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the scheduled start. This is what waiting customers see, and the figure to quote.
    pub intended: Latency,
    /// From the actual start, as the seeds measure it.
    pub actual: Latency,
}

/// One kind of latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// By the seeds' rules, in milliseconds.
    pub seed: LatencyStatistics,
    /// From a histogram of three significant digits, in milliseconds.
    pub percentiles: Percentiles,
}

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
}

impl Latency {
    /// The latency of these durations in microseconds, which it sorts. `None` if there are none.
    pub fn of(durations_us: &mut [u64]) -> Option<Latency> {
        let seed = LatencyStatistics::of(durations_us)?;
        let mut histogram = Histogram::<u64>::new_with_max(LATENCY_MAX_US, DIGITS).expect("the bounds are right");
        for &us in durations_us.iter() {
            histogram.saturating_record(us);
        }
        let ms = |quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
        let percentiles =
            Percentiles { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), p99_9: ms(0.999), p99_99: ms(0.9999) };
        Some(Latency { seed, percentiles })
    }

    /// All figures with their names, in milliseconds.
    fn rows(&self) -> [(&'static str, f64); 12] {
        let Latency { seed, percentiles } = self;
        [
            ("mean", seed.mean),
            ("standard deviation", seed.deviation),
            ("75 percentile", seed.p75),
            ("95 percentile", seed.p95),
            ("99 percentile", seed.p99),
            ("minimum", seed.min),
            ("maximum", seed.max),
            ("p50 (histogram)", percentiles.p50),
            ("p90", percentiles.p90),
            ("p99", percentiles.p99),
            ("p99.9", percentiles.p99_9),
            ("p99.99", percentiles.p99_99),
        ]
    }
}

/// A slice of the run, with the flows that ended in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its beginning, in seconds since the run's start.
    pub at_s: f64,
    pub length_s: f64,
    /// Flows that bought.
    pub done: u64,
    pub refused: u64,
    pub abandoned: u64,
    pub failed: u64,
    /// Median latency of the flows that ended, from the intended start, in milliseconds.
    pub p50_ms: f64,
    /// Their 99th percentile.
    pub p99_ms: f64,
    /// The slowest of them.
    pub max_ms: f64,
}

/// A bar of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// The lower edge, in milliseconds.
    pub from_ms: f64,
    /// The upper edge, in milliseconds.
    pub to_ms: f64,
    /// The number of flows in the bar.
    pub count: u64,
}

/// The load generator's machine during the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub processors: u32,
    /// The cost of a raw `fdatasync` before the run, if it could be measured.
    pub floor_before: Option<DiskFloor>,
    /// The same after the run.
    pub floor_after: Option<DiskFloor>,
    /// How the load generator's machine spent the run.
    pub cpu: Option<CpuShare>,
    /// Processors that the load generator used on average.
    pub client_processors: f64,
}

/// Memory of the server process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub pid: u32,
    /// Before the run created anything.
    pub before: u64,
    /// After the run created what it sells.
    pub set_up: u64,
    /// After the run.
    pub after: u64,
}

/// The reads of seat maps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    pub offered: u64,
    /// Reads that were answered.
    pub done: u64,
    /// Failed reads, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Answered reads per second.
    pub a_second: f64,
    /// Latency from the intended start.
    pub latency: Option<Latency>,
}

impl Reads {
    /// Whether no read was dropped.
    pub fn adds_up(&self) -> bool {
        self.offered == self.done + self.failed.values().sum::<u64>()
    }

    /// One line for the human reports.
    fn summary(&self) -> String {
        let failed = if self.failed.is_empty() { "0".into() } else { by_reason(&self.failed) };
        let latency = self.latency.map_or(String::new(), |latency| {
            let Percentiles { p50, p99, p99_9, .. } = latency.percentiles;
            format!("; from the intended start p50 {p50:.3}, p99 {p99:.3}, p99.9 {p99_9:.3} ms")
        });
        format!(
            "{} of {} seat maps read, {:.0} a second, failed {failed}{latency}",
            grouped(self.done),
            grouped(self.offered),
            self.a_second
        )
    }
}

/// How the abandoned carts of an expiry burst expired.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpiryBurst {
    /// Carts that were opened.
    pub carts: u64,
    /// How long opening them took, in seconds.
    pub opened_s: f64,
    /// The delay from each hold's deadline until a client observed it free. The hold was free at that time or earlier.
    pub late: Option<Latency>,
    /// Holds that were left after the run.
    pub left: u64,
    /// Latency of the purchases that ended between the first deadline and the last hold's end, from their intended
    /// start.
    pub buying_meanwhile: Option<Latency>,
}

/// The results of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The comparison of sessions and carts with each other and with the clients' records.
    pub findings: Findings,
    /// Sessions that flows used.
    pub sessions_used: u64,
    /// Nodes that were audited.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Seats sold on all nodes since before the run, by the nodes' own counts. `None` if they cannot count them.
    pub node_seats_sold: Option<u64>,
    /// Orders since before the run, by the nodes' own counts.
    pub node_orders: Option<u64>,
    /// Products, sessions without seats, resources and customers that flows used.
    #[serde(default)]
    pub others_used: u64,
    /// Carts with a request whose outcome no client knows, by the state that the server reports.
    pub unknown: BTreeMap<String, u64>,
}

impl Audit {
    /// The audited entities besides sessions with seats, as a part of a sentence. `None` if there are none.
    fn other_entities_text(&self) -> Option<String> {
        let Findings { others, units_sold, units_held, units_free, bookings, purchases, charges, .. } = &self.findings;
        (*others > 0).then(|| {
            format!(
                "{} of {} used products, arenas, resources and customers: {} sold, {} held, {} free; {} bookings, \
                 {} purchases, {} charges",
                grouped(*others),
                grouped(self.others_used),
                grouped(*units_sold),
                grouped(*units_held),
                grouped(*units_free),
                grouped(*bookings),
                grouped(*purchases),
                grouped(*charges)
            )
        })
    }

    /// The nodes' own counts, as a part of a sentence. `None` if they cannot count.
    fn node_counts_text(&self) -> Option<String> {
        let (seats, orders) = self.node_seats_sold.zip(self.node_orders)?;
        Some(format!("{} more seats sold and {} more orders", grouped(seats), grouped(orders)))
    }
}

/// Whether a run passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub passed: bool,
    /// The result in one line.
    pub line: String,
    /// The reasons if the run failed.
    pub reasons: Vec<String>,
}

impl Report {
    /// The report as JSON.
    ///
    /// # Panics
    /// Never: JSON can represent every field.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("JSON can represent every field")
    }

    /// Reads the report of an earlier run.
    ///
    /// # Errors
    /// If the file cannot be read or is not a report of this version.
    pub fn read(path: &Path) -> io::Result<Report> {
        let text = fs::read(path)?;
        let other = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        let report: Report = serde_json::from_slice(&text).map_err(|error| other(format!("not a report: {error}")))?;
        if report.format != FORMAT {
            return Err(other(format!("a report of version {}, not {FORMAT}", report.format)));
        }
        Ok(report)
    }

    /// The report as a self-contained HTML page, with the figures of an earlier one if there is one.
    pub fn to_html(&self, baseline: Option<&Report>) -> String {
        html::page(self, baseline)
    }

    /// The report as a table for a terminal, with the figures of an earlier one if there is one.
    pub fn to_table(&self, baseline: Option<&Report>) -> String {
        table::table(self, baseline)
    }
}

/// A number with grouped thousands: 25 000.
pub(crate) fn grouped(number: impl Into<i128>) -> String {
    let number: i128 = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    if number < 0 { format!("−{text}") } else { text }
}

/// Counts with their reasons: `busy 1, unknown 2`.
fn by_reason(counts: &BTreeMap<String, u64>) -> String {
    let each: Vec<String> = counts.iter().map(|(reason, count)| format!("{reason} {}", grouped(*count))).collect();
    each.join(", ")
}

/// The same as an addition to their sum. Empty if there are none.
fn by_reason_in_parentheses(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() { String::new() } else { format!(" ({})", by_reason(counts)) }
}

/// Minor units as an amount of money: 1 250 000.00.
pub(crate) fn money(minor: i64) -> String {
    let sign = if minor < 0 { "−" } else { "" };
    format!("{sign}{}.{:02}", grouped(minor.unsigned_abs() / 100), minor.unsigned_abs() % 100)
}

#[cfg(test)]
pub(crate) mod tests;

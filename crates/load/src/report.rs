//! What a run comes to: one value that is printed as a table, written as JSON, drawn as HTML and compared with an earlier one.

mod html;
mod outages;
mod overload;
mod plot;
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

pub use outages::{Added, Kill, Outages, Spread};
pub use overload::{Overload, OverloadPhase, Readiness};
pub use watchers::{Lag, Watchers};

/// Version of the JSON; a file of another version is no baseline.
pub const FORMAT: u32 = 1;

/// The longest latency a histogram tells apart, in microseconds: ten minutes.
const LATENCY_MAX_US: u64 = 600_000_000;

/// Significant digits of histograms.
const DIGITS: u8 = 3;

/// Everything a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this shape: [`FORMAT`].
    pub format: u32,
    /// What was run, with all its settings.
    pub scenario: Scenario,
    /// When, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// What all ids of the run start with.
    pub prefix: String,
    /// What the run's choices were drawn from.
    pub seed: u64,
    /// Who served it.
    pub server: Server,
    /// How long its parts took.
    pub times: Times,
    /// What became of the flows.
    pub flows: Flows,
    /// Latencies of flows that bought.
    pub done: Option<Latencies>,
    /// Latencies of flows that were refused.
    pub refused: Option<Latencies>,
    /// Latencies of the requests, by op.
    pub steps: BTreeMap<String, Latency>,
    /// The run in slices of time.
    pub timeline: Vec<Slice>,
    /// How many flows that bought took how long from their intended start.
    pub histogram: Vec<Bar>,
    /// The machine beside it.
    pub machine: Machine,
    /// What the server's process had in memory, where it runs on this machine.
    #[serde(default)]
    pub memory: Option<Memory>,
    /// How a storm of abandoned carts went.
    #[serde(default)]
    pub storm: Option<Storm>,
    /// What overload did.
    #[serde(default)]
    pub overload: Option<Overload>,
    /// How reading seat maps went.
    #[serde(default)]
    pub reads: Option<Reads>,
    /// How watching seat maps went.
    #[serde(default)]
    pub watchers: Option<Watchers>,
    /// How long shards of a cluster did nothing, and what was done to its nodes.
    #[serde(default)]
    pub outages: Option<Outages>,
    /// What the audits found.
    pub audit: Audit,
    /// Whether it was good.
    pub verdict: Verdict,
}

/// Who served the run, as it said itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Where.
    pub addresses: Vec<String>,
    /// The cluster's id.
    pub cluster: String,
    /// The program's version.
    pub version: String,
    /// Its nodes, by id.
    pub nodes: Vec<String>,
    /// How many nodes keep each thing.
    pub replicas: u32,
    /// When they write it to disk: `always`, `interval` or `never`.
    pub fsync: String,
}

/// How long the parts of a run took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Making venues, halls and sessions.
    pub setup_s: f64,
    /// From the first flow's start to the last one's end.
    pub run_s: f64,
    /// Looking at everything afterwards.
    pub audit_s: f64,
}

/// What became of the flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flows {
    /// Flows there were to be.
    pub offered: u64,
    /// Flows that bought.
    pub done: u64,
    /// Flows that were refused in the end, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Flows that went away without buying.
    pub abandoned: u64,
    /// Flows that failed, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Holds that were tried again with other seats.
    pub retried: u64,
    /// Seats in the orders clients were told of.
    pub seats_sold: u64,
    /// Units, places and slots in those orders.
    #[serde(default)]
    pub units_sold: u64,
    /// Sum of the totals clients were told, in minor units.
    pub total: i64,
}

impl Flows {
    /// All that were refused.
    pub fn refused_all(&self) -> u64 {
        self.refused.values().sum()
    }

    /// All that failed.
    pub fn failed_all(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Whether nothing was dropped: every flow that was offered ended in exactly one way.
    pub fn add_up(&self) -> bool {
        self.offered == self.done + self.refused_all() + self.abandoned + self.failed_all()
    }
}

/// Latencies of flows, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the start the schedule meant: what waiting customers see, and the figure to quote.
    pub intended: Latency,
    /// From the start that came to be: the seeds' way.
    pub actual: Latency,
}

/// One kind of latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// By the seeds' rules, in milliseconds.
    pub seed: LatencyStatistics,
    /// From a histogram of three digits, in milliseconds.
    pub percentiles: Percentiles,
}

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1 000.
    pub p99_9: f64,
    /// 9 999 of 10 000.
    pub p99_99: f64,
}

impl Latency {
    /// The latency of these durations in microseconds, which are put in order; `None` of none.
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
}

/// A slice of the run: the flows that ended in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its begin, in seconds since the run's start.
    pub at_s: f64,
    /// Its length, in seconds.
    pub length_s: f64,
    /// Flows that bought.
    pub done: u64,
    /// Flows that were refused.
    pub refused: u64,
    /// Flows that went away.
    pub abandoned: u64,
    /// Flows that failed.
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
    /// Above this, in milliseconds.
    pub from_ms: f64,
    /// Up to this.
    pub to_ms: f64,
    /// So many.
    pub count: u64,
}

/// The machine beside the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors of the client's machine.
    pub processors: u32,
    /// Raw `fdatasync` before the run, where it could be measured.
    pub floor_before: Option<DiskFloor>,
    /// And after.
    pub floor_after: Option<DiskFloor>,
    /// How the client's machine spent the run.
    pub cpu: Option<CpuShare>,
    /// Processors that the load generator used itself, on average.
    pub client_processors: f64,
}

/// Memory of the server's process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Which process.
    pub pid: u32,
    /// Before anything was made.
    pub before: u64,
    /// When everything was made.
    pub set_up: u64,
    /// After the run.
    pub after: u64,
}

/// How reading seat maps went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// Reads there were to be.
    pub offered: u64,
    /// Maps that came.
    pub done: u64,
    /// Reads that failed, by why.
    pub failed: BTreeMap<String, u64>,
    /// Maps a second.
    pub a_second: f64,
    /// From the intended start.
    pub latency: Option<Latency>,
}

impl Reads {
    /// Whether nothing was dropped.
    pub fn add_up(&self) -> bool {
        self.offered == self.done + self.failed.values().sum::<u64>()
    }

    /// In a line for people.
    fn in_words(&self) -> String {
        let each: Vec<String> = self.failed.iter().map(|(why, count)| format!("{why} {}", grouped(*count))).collect();
        let failed = if each.is_empty() { "0".into() } else { each.join(", ") };
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

/// How a storm of abandoned carts went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Storm {
    /// Carts that were opened.
    pub carts: u64,
    /// How long that took, in seconds.
    pub opened_s: f64,
    /// How long after its deadline each hold was seen free again, looked at from outside: it was free at the latest then.
    pub late: Option<Latency>,
    /// Holds that were still there in the end.
    pub left: u64,
    /// Latency of the purchases that ended between the first deadline and the last hold's end, from their intended start.
    pub buying_meanwhile: Option<Latency>,
}

/// What the audits found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Sessions and carts against each other and the clients' books.
    pub findings: Findings,
    /// Sessions that flows used.
    pub sessions_used: u64,
    /// Nodes that were asked, each of which said the same.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Seats sold on all nodes since before the run, as their own audits count; absent if they cannot.
    pub node_seats_sold: Option<u64>,
    /// Orders since before the run.
    pub node_orders: Option<u64>,
    /// Products, sessions without seats, resources and customers that flows used.
    #[serde(default)]
    pub others_used: u64,
    /// Requests whose outcome no client knows, and what the server says of their carts: by state.
    pub unknown: BTreeMap<String, u64>,
}

impl Audit {
    /// What was looked at besides sessions with seats, as a part of a sentence; nothing if there was nothing.
    fn others_in_words(&self) -> Option<String> {
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

    /// What the nodes count themselves, as a part of a sentence; nothing if they cannot.
    fn counted_in_words(&self) -> Option<String> {
        let (seats, orders) = self.node_seats_sold.zip(self.node_orders)?;
        Some(format!("{} more seats sold and {} more orders", grouped(seats), grouped(orders)))
    }
}

/// Whether a run was good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it was.
    pub passed: bool,
    /// In one line, for everybody.
    pub line: String,
    /// Why it was not.
    pub reasons: Vec<String>,
}

impl Report {
    /// The report as JSON.
    ///
    /// # Panics
    /// Never: everything in it can be written.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has only what JSON can say")
    }

    /// The report of an earlier run, from its file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a report of this version.
    pub fn read(path: &Path) -> io::Result<Report> {
        let text = fs::read(path)?;
        let other = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        let report: Report = serde_json::from_slice(&text).map_err(|error| other(format!("no report: {error}")))?;
        if report.format != FORMAT {
            return Err(other(format!("a report of version {}, not {FORMAT}", report.format)));
        }
        Ok(report)
    }

    /// The report as a page that needs nothing else, beside an earlier one if there is one.
    pub fn to_html(&self, baseline: Option<&Report>) -> String {
        html::page(self, baseline)
    }

    /// The report as a table for a terminal, beside an earlier one if there is one.
    pub fn to_table(&self, baseline: Option<&Report>) -> String {
        table::table(self, baseline)
    }
}

/// A number with its thousands apart: 25 000.
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

/// Minor units as people write money: 1 250 000.00.
pub(crate) fn money(minor: i64) -> String {
    let sign = if minor < 0 { "−" } else { "" };
    format!("{sign}{}.{:02}", grouped(minor.unsigned_abs() / 100), minor.unsigned_abs() % 100)
}

#[cfg(test)]
pub(crate) mod tests;

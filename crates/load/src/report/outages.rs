//! The effect of faults, as the clients saw it: how long each shard granted nothing.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{Latency, by_reason, by_reason_in_parentheses, grouped};
use crate::watcher_fleet::Latencies;

/// The outages of the cluster's shards and the faults of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outages {
    /// The number of data shards.
    pub shards: u16,
    /// The longest time without a success of each shard, over the whole run.
    pub gaps: Option<Distribution>,
    /// How often clients repeated requests, by reason.
    pub repeats: BTreeMap<String, u64>,
    pub kills: Vec<Kill>,
    /// Over all kills: the time from the kill to the next success of each shard that the killed node led, of requests
    /// sent after the kill.
    pub led_next: Option<Distribution>,
    /// Over all kills: the longest time without a success of each of these shards, around the kill.
    pub led_gap: Option<Distribution>,
    /// The same for the other shards.
    pub others_next: Option<Distribution>,
    /// The same for the other shards.
    pub others_gap: Option<Distribution>,
    pub added: Option<Added>,
    /// The problems. They fail the run.
    pub problems: Vec<String>,
}

/// One kill. Times are milliseconds since the kill.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kill {
    /// The node's id.
    pub node: String,
    /// The time of the kill, in seconds since the run's start.
    pub at_s: f64,
    /// The number of shards that the node led.
    pub led: u32,
    /// The time from the kill to the next success of each of them, of requests sent after the kill.
    pub led_next: Option<Distribution>,
    /// The longest time without a success of each of them.
    pub led_gap: Option<Distribution>,
    /// The same for the other shards.
    pub others_next: Option<Distribution>,
    /// The same for the other shards.
    pub others_gap: Option<Distribution>,
    /// Until every shard granted a request again.
    pub whole_ms: Option<f64>,
    /// Until the node served again.
    pub up_ms: Option<f64>,
    /// Until the node had caught up with the state that the other nodes had when it began to serve.
    pub caught_up_ms: Option<f64>,
    /// Latency from the intended start of the flows that bought and were meant to start in the seconds after the kill.
    pub around: Option<Latency>,
    /// Refused flows that were meant to start then.
    pub refused: u64,
    /// Failed flows that were meant to start then, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Failed flows that used no shard which the killed node led.
    pub failed_elsewhere: u64,
    /// Flows that were under way at the kill and whose clients gave up without knowing the outcome. The audit finds out
    /// what became of them.
    #[serde(default)]
    pub in_doubt: u64,
}

/// A node that was added. Times are milliseconds since it was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Added {
    pub address: String,
    /// When it was started, in seconds since the run's start.
    pub at_s: f64,
    /// Until it served.
    pub up_ms: f64,
    /// Until no shard was moving any more.
    pub settled_ms: Option<f64>,
    /// The number of shards in which it votes after that.
    pub votes: u32,
}

/// The distribution of some times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub count: u64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Distribution {
    /// The distribution of these times in microseconds. `None` if there are none.
    pub fn of(mut us: Vec<u64>) -> Option<Distribution> {
        us.sort_unstable();
        let max = *us.last()?;
        // The smallest time that is not exceeded by `percent` percent of the times.
        let at = |percent: usize| us[(us.len() * percent).div_ceil(100) - 1] as f64 / 1_000.0;
        Some(Distribution { count: us.len() as u64, p50: at(50), p99: at(99), max: max as f64 / 1_000.0 })
    }

    /// The distribution of a fleet's latencies.
    pub(crate) fn of_fleet(latencies: &Latencies) -> Distribution {
        let histogram = latencies.histogram();
        let ms = |us: u64| us as f64 / 1_000.0;
        Distribution {
            count: histogram.len(),
            p50: ms(histogram.value_at_quantile(0.5)),
            p99: ms(histogram.value_at_quantile(0.99)),
            max: ms(histogram.max()),
        }
    }
}

/// With as many decimals as the format asks for, by default none.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(0);
        write!(f, "p50 {:.digits$}, p99 {:.digits$}, max {:.digits$} ms", self.p50, self.p99, self.max)
    }
}

impl Outages {
    /// Flows that a kill left in doubt.
    pub fn in_doubt(&self) -> u64 {
        self.kills.iter().map(|kill| kill.in_doubt).sum()
    }

    /// Lines for the human reports.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(gaps) = &self.gaps {
            lines.push(format!("longest time without a success of each of {} shards: {gaps}", self.shards));
        }
        if !self.repeats.is_empty() {
            lines.push(format!("requests sent again: {}", by_reason(&self.repeats)));
        }
        for kill in &self.kills {
            kill.lines(&mut lines);
        }
        if self.kills.len() > 1 {
            lines.push(format!("over all {} kills:", self.kills.len()));
            let distributions = [
                ("led shards, kill to next success", &self.led_next),
                ("led shards, longest time without one", &self.led_gap),
                ("other shards, kill to next success", &self.others_next),
                ("other shards, longest time without one", &self.others_gap),
            ];
            let distributions = distributions.into_iter().filter_map(|(what, spread)| Some((what, spread.as_ref()?)));
            lines.extend(distributions.map(|(what, spread)| format!("  {what}: {spread} ({} times)", spread.count)));
        }
        if let Some(added) = &self.added {
            let settled = added.settled_ms.map_or("not yet".into(), |ms| format!("after {ms:.0} ms"));
            lines.push(format!(
                "{} was added at {:.1} s: serves after {:.0} ms, no shard moves any more {settled}, votes in {} shards",
                added.address, added.at_s, added.up_ms, added.votes
            ));
        }
        lines.extend(self.problems.iter().map(|problem| format!("PROBLEM: {problem}")));
        lines
    }
}

impl Kill {
    fn lines(&self, lines: &mut Vec<String>) {
        let ms = |ms: Option<f64>| ms.map_or("never".into(), |ms| format!("{ms:.0} ms"));
        lines.push(format!(
            "node {} was killed at {:.1} s, which led {} shards; every shard granted a request again after {}, \
             it served again after {} and had caught up after {}",
            self.node,
            self.at_s,
            self.led,
            ms(self.whole_ms),
            ms(self.up_ms),
            ms(self.caught_up_ms)
        ));
        for (whose, next, gap) in
            [("led", &self.led_next, &self.led_gap), ("other", &self.others_next, &self.others_gap)]
        {
            if let (Some(next), Some(gap)) = (next, gap) {
                lines.push(format!("  {whose} shards: next success {next}; longest time without one {gap}"));
            }
        }
        if let Some(around) = &self.around {
            lines.push(format!(
                "  flows of these seconds that bought: p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} ms",
                around.percentiles.p50, around.percentiles.p99, around.percentiles.p99_9, around.seed.max
            ));
        }
        let failed: u64 = self.failed.values().sum();
        lines.push(format!(
            "  refused {}, failed {}{}, of which {} used other shards only",
            grouped(self.refused),
            grouped(failed),
            by_reason_in_parentheses(&self.failed),
            grouped(self.failed_elsewhere)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_has_only_times_that_occurred() {
        let distribution = Distribution::of((1..=200).rev().map(|ms| ms * 1_000).collect()).expect("some");
        assert_eq!(distribution, Distribution { count: 200, p50: 100.0, p99: 198.0, max: 200.0 });
        assert_eq!(Distribution::of(vec![7_000]).map(|one| [one.p50, one.p99, one.max]), Some([7.0; 3]));
        assert_eq!(Distribution::of(Vec::new()), None);
    }
}

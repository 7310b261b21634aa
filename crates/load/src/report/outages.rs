//! What faults cost, as seen by the clients: how long each shard did nothing.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{Latency, grouped};

/// What the run saw of the cluster's shards and of what was done to its nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outages {
    /// Data shards.
    pub shards: u16,
    /// The longest time each shard did nothing that was asked, over the whole run.
    pub gaps: Option<Spread>,
    /// How often requests were sent again, by why.
    pub repeats: BTreeMap<String, u64>,
    /// Nodes that were killed.
    pub kills: Vec<Kill>,
    /// Over all kills: from the kill to the next success of each shard that the killed node led, of requests sent after it.
    pub led_next: Option<Spread>,
    /// Over all kills: the longest time each of these shards did nothing, around the kill.
    pub led_gap: Option<Spread>,
    /// The same of the other shards.
    pub others_next: Option<Spread>,
    /// The same of the other shards.
    pub others_gap: Option<Spread>,
    /// The node that was added.
    pub added: Option<Added>,
    /// What did not go as it should; the run is bad then.
    pub problems: Vec<String>,
}

/// One kill. Times are milliseconds since it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kill {
    /// Which node, as it calls itself.
    pub node: String,
    /// When, in seconds since the run's start.
    pub at_s: f64,
    /// Shards that it led.
    pub led: u32,
    /// From the kill to the next success of each of them, of requests sent after it.
    pub led_next: Option<Spread>,
    /// The longest time each of them did nothing.
    pub led_gap: Option<Spread>,
    /// The same of the other shards.
    pub others_next: Option<Spread>,
    /// The same of the other shards.
    pub others_gap: Option<Spread>,
    /// Until every shard did something again.
    pub whole_ms: Option<f64>,
    /// Until the node served again.
    pub up_ms: Option<f64>,
    /// Until it had what the others had when it began to serve.
    pub caught_up_ms: Option<f64>,
    /// Latency from the intended start of flows meant to start in the seconds after the kill, and that bought.
    pub around: Option<Latency>,
    /// Flows meant to start then that were refused.
    pub refused: u64,
    /// Flows meant to start then that failed, by why.
    pub failed: BTreeMap<String, u64>,
    /// Of those, flows that had nothing to do with shards which the killed node led.
    pub failed_elsewhere: u64,
    /// Flows that were under way at the kill and whose clients gave up without knowing the outcome. The audit looks at what
    /// became of them.
    #[serde(default)]
    pub in_doubt: u64,
}

/// A node that was added. Times are milliseconds since it was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Added {
    /// Where.
    pub address: String,
    /// When it was started, in seconds since the run's start.
    pub at_s: f64,
    /// Until it served.
    pub up_ms: f64,
    /// Until nothing was moving any more.
    pub settled_ms: Option<f64>,
    /// Shards it votes in then.
    pub votes: u32,
}

/// How some times are spread, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Half of them are at most this.
    pub p50: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// All are at most this.
    pub max: f64,
}

impl Spread {
    /// Of these times in microseconds; `None` of none.
    pub fn of(mut us: Vec<u64>) -> Option<Spread> {
        us.sort_unstable();
        let max = *us.last()?;
        // The smallest that so many of a hundred do not exceed.
        let at = |percent: usize| us[(us.len() * percent).div_ceil(100) - 1] as f64 / 1_000.0;
        Some(Spread { count: us.len() as u64, p50: at(50), p99: at(99), max: max as f64 / 1_000.0 })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.0}, p99 {:.0}, max {:.0} ms", self.p50, self.p99, self.max)
    }
}

impl Outages {
    /// Flows that a kill left in doubt until their deadline.
    pub fn in_doubt(&self) -> u64 {
        self.kills.iter().map(|kill| kill.in_doubt).sum()
    }

    /// All of it in lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(gaps) = &self.gaps {
            lines.push(format!("longest time without a success of each of {} shards: {gaps}", self.shards));
        }
        if !self.repeats.is_empty() {
            let each: Vec<String> =
                self.repeats.iter().map(|(why, count)| format!("{why} {}", grouped(*count))).collect();
            lines.push(format!("requests sent again: {}", each.join(", ")));
        }
        for kill in &self.kills {
            kill.lines(&mut lines);
        }
        if self.kills.len() > 1 {
            lines.push(format!("over all {} kills:", self.kills.len()));
            let said = [
                ("led shards, kill to next success", &self.led_next),
                ("led shards, longest time without one", &self.led_gap),
                ("other shards, kill to next success", &self.others_next),
                ("other shards, longest time without one", &self.others_gap),
            ];
            let said = said.into_iter().filter_map(|(what, spread)| Some((what, spread.as_ref()?)));
            lines.extend(said.map(|(what, spread)| format!("  {what}: {spread} ({} times)", spread.count)));
        }
        if let Some(added) = &self.added {
            let settled = added.settled_ms.map_or("not yet".into(), |ms| format!("after {ms:.0} ms"));
            lines.push(format!(
                "{} was added at {:.1} s: serves after {:.0} ms, nothing moves any more {settled}, votes in {} shards",
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
            "node {} was killed at {:.1} s, which led {} shards; every shard did something again after {}, it served again \
             after {} and had caught up after {}",
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
        let each: Vec<String> = self.failed.iter().map(|(why, count)| format!("{why} {}", grouped(*count))).collect();
        let each = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
        lines.push(format!(
            "  refused {}, failed {}{each}, of which with other shards only {}",
            grouped(self.refused),
            grouped(failed),
            grouped(self.failed_elsewhere)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_names_times_that_were() {
        let spread = Spread::of((1..=200).rev().map(|ms| ms * 1_000).collect()).expect("some");
        assert_eq!(spread, Spread { count: 200, p50: 100.0, p99: 198.0, max: 200.0 });
        assert_eq!(Spread::of(vec![7_000]).map(|one| [one.p50, one.p99, one.max]), Some([7.0; 3]));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}

//! What the watchers of a run received.

use serde::{Deserialize, Serialize};

use super::{Distribution, grouped};
use crate::watcher_fleet::FleetStats;

/// The watchers of seat maps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watchers {
    /// The number of watchers, each with a connection.
    pub count: u32,
    /// The number of watched sessions.
    pub sessions: u32,
    /// The time until all watchers had a map, in seconds.
    pub came_in_s: f64,
    /// Deltas that moved a watcher to a newer version.
    pub deltas: u64,
    /// Snapshots that did so for watchers that had a map already.
    pub snapshots: u64,
    /// Deltas that began after their watcher's version.
    pub skipped: u64,
    /// Snapshots of an older version, and deltas that did not fit their watcher's map.
    pub wrong: u64,
    /// Connections that were lost and reopened.
    pub lost: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Deltas and snapshots per second while flows were under way.
    pub deliveries_a_second: f64,
    /// Processor time of the nodes per delivery, including all else they did, in microseconds. `None` if the nodes run
    /// on other machines.
    pub server_cpu_us: Option<f64>,
    /// From a hold's request to its receipt by a watcher. It counts each hold with each watcher.
    pub from_request: Distribution,
    /// From a hold's answer to its receipt by a watcher. 0 if the watcher received it before the answer.
    pub from_answer: Distribution,
    /// From the end of the last flow until the last watcher had the last version, in milliseconds.
    pub converged_ms: f64,
    /// Watchers whose map equals the server's after the run.
    pub same: u64,
    /// Watchers with another map.
    pub different: u64,
    /// Watchers that read 5 kB a second and send commands.
    #[serde(default)]
    pub slow: u32,
    /// Slow watchers whose connection was lost.
    #[serde(default)]
    pub slow_lost: u64,
    /// Carts that slow watchers opened.
    #[serde(default)]
    pub slow_commands: u64,
    /// Those that were refused or failed, without those that the node answered `busy`.
    #[serde(default)]
    pub slow_refused: u64,
    /// The longest time from sending such a command until it was decided, in milliseconds.
    #[serde(default)]
    pub slow_decided_ms_max: u64,
    /// How long that may be.
    #[serde(default)]
    pub slow_decided_ms_limit: u64,
    /// One of those, or the first other error.
    pub example: Option<String>,
}

impl Watchers {
    /// Takes over the statistics of the fleet.
    pub(crate) fn add_stats(&mut self, stats: &FleetStats) {
        self.deltas = stats.deltas;
        self.snapshots = stats.snapshots;
        self.skipped = stats.skipped;
        self.wrong = stats.wrong;
        self.lost = stats.lost;
        self.slow_lost = stats.slow_lost;
        self.slow_commands = stats.slow_commands;
        self.slow_refused = stats.slow_refused;
        self.slow_decided_ms_max = stats.slow_decided_ms_max;
        self.bytes = stats.bytes;
    }

    /// The problems that fail the run.
    pub(crate) fn problems(&self) -> Vec<String> {
        let example = self.example.as_deref().unwrap_or("no example");
        [
            (self.different, "watchers have another map than the server"),
            (self.skipped, "deltas begin after their watcher's version"),
            (self.wrong, "frames do not fit their watcher's map"),
            (self.slow_lost, "connections of slow watchers were lost"),
            (self.slow_refused, "commands of slow watchers were refused or failed"),
            (
                self.slow_decided_ms_max.saturating_sub(self.slow_decided_ms_limit),
                "milliseconds too late a command of a slow watcher was decided",
            ),
            (u64::from(self.slow > 0 && self.slow_commands == 0), "fleet of slow watchers has sent no command"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}: {example}", grouped(count)))
        .collect()
    }

    /// Lines for the human reports.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Watchers { count, sessions, came_in_s, deltas, snapshots, lost, bytes, .. } = self;
        let cpu = self.server_cpu_us.map_or(String::new(), |us| format!(", {us:.1} µs of the nodes each"));
        let mut lines = vec![
            format!(
                "{} watchers of {} connected in {came_in_s:.1} s; {} of them have the server's map in the end, \
                 the last one {:.0} ms after the last flow",
                grouped(u64::from(*count)),
                if *sessions == 1 { "one session".into() } else { format!("{sessions} sessions") },
                grouped(self.same),
                self.converged_ms
            ),
            format!(
                "{} deltas and {} snapshots, {:.0} a second{cpu}; {} MB, {} connections lost, {} versions skipped",
                grouped(*deltas),
                grouped(*snapshots),
                self.deliveries_a_second,
                grouped(bytes / 1_000_000),
                grouped(*lost),
                grouped(self.skipped)
            ),
            format!(
                "a hold was seen: from its request {:.1}; from its answer {:.1}",
                self.from_request, self.from_answer
            ),
        ];
        if self.slow > 0 {
            lines.push(format!(
                "{} of the watchers read 5 kB a second: {} connections lost, {} carts opened, each decided within {} ms",
                grouped(self.slow),
                grouped(self.slow_lost),
                grouped(self.slow_commands),
                grouped(self.slow_decided_ms_max)
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_with_another_map_is_a_problem() {
        let mut watchers = Watchers { count: 5_000, sessions: 1, same: 5_000, ..Watchers::default() };
        assert_eq!(watchers.problems(), Vec::<String>::new());
        assert!(watchers.lines()[0].starts_with("5 000 watchers of one session connected in 0.0 s; 5 000 of them"));
        watchers.different = 2;
        watchers.example = Some("watcher 7 is behind".into());
        assert_eq!(watchers.problems(), ["2 watchers have another map than the server: watcher 7 is behind"]);
    }

    #[test]
    fn a_slow_watcher_that_is_cut_or_waits_is_a_problem() {
        let mut watchers = Watchers { count: 5_000, slow: 2_000, slow_commands: 10, ..Watchers::default() };
        (watchers.slow_decided_ms_limit, watchers.slow_decided_ms_max) = (1_000, 1_000);
        assert_eq!(watchers.problems(), Vec::<String>::new());
        watchers.slow_lost = 3;
        watchers.slow_decided_ms_max += 7;
        let problems = watchers.problems();
        assert_eq!(problems[0], "3 connections of slow watchers were lost: no example");
        assert!(problems[1].starts_with("7 milliseconds too late"), "{problems:?}");
        watchers = Watchers { slow: 1, ..Watchers::default() };
        assert_eq!(watchers.problems().len(), 1, "a fleet that sends nothing shows nothing");
    }
}

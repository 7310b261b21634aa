//! What watchers saw of a run.

use serde::{Deserialize, Serialize};

use super::grouped;
use crate::gallery::{Latencies, Tally};

/// How watching seat maps went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watchers {
    /// Connections.
    pub count: u32,
    /// Sessions that were watched.
    pub sessions: u32,
    /// Until all had their first map, in seconds.
    pub came_in_s: f64,
    /// Deltas that brought a watcher forward.
    pub deltas: u64,
    /// Snapshots that did, of watchers who had a map already.
    pub snapshots: u64,
    /// Deltas that begin behind what their watcher had.
    pub skipped: u64,
    /// Frames that would have taken a watcher back, or did not fit its map.
    pub wrong: u64,
    /// Connections that were lost, and opened again.
    pub lost: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Deltas and snapshots a second, while flows were under way.
    pub deliveries_a_second: f64,
    /// Processor time of the nodes a delivery, with all else they did, in microseconds; `None` where they are not here.
    pub server_cpu_us: Option<f64>,
    /// From a hold's sending until a watcher saw it.
    pub from_request: Lag,
    /// From a hold's answer until a watcher saw it; 0 for one who saw it first.
    pub from_answer: Lag,
    /// From the end of the last flow until the last watcher had the last version, in milliseconds.
    pub converged_ms: f64,
    /// Watchers whose map in the end is the server's.
    pub same: u64,
    /// Watchers whose map is another one.
    pub different: u64,
    /// One of those, or what else went wrong first.
    pub example: Option<String>,
}

/// How late watchers were, in milliseconds: each change with each watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    /// How many.
    pub count: u64,
    /// Half of them were at most so late.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// The latest.
    pub max: f64,
}

impl Lag {
    pub(crate) fn of(latencies: &Latencies) -> Lag {
        let histogram = latencies.histogram();
        let ms = |us: u64| us as f64 / 1e3;
        Lag {
            count: histogram.len(),
            p50: ms(histogram.value_at_quantile(0.5)),
            p99: ms(histogram.value_at_quantile(0.99)),
            max: ms(histogram.max()),
        }
    }
}

impl Watchers {
    /// Takes over what was counted.
    pub(crate) fn counted(&mut self, tally: &Tally) {
        self.deltas = tally.deltas;
        self.snapshots = tally.snapshots;
        self.skipped = tally.skipped;
        self.wrong = tally.wrong;
        self.lost = tally.lost;
        self.bytes = tally.bytes;
    }

    /// What was not as it must be.
    pub(crate) fn problems(&self) -> Vec<String> {
        let example = self.example.as_deref().unwrap_or("nobody knows why");
        [
            (self.different, "watchers have another map than the server"),
            (self.skipped, "deltas begin behind what their watcher has"),
            (self.wrong, "frames do not fit what their watcher has"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}: {example}", grouped(count)))
        .collect()
    }

    /// In lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Watchers { count, sessions, came_in_s, deltas, snapshots, lost, bytes, .. } = self;
        let lag = |Lag { p50, p99, max, .. }: Lag| format!("p50 {p50:.1}, p99 {p99:.1}, max {max:.1} ms");
        let cpu = self.server_cpu_us.map_or(String::new(), |us| format!(", {us:.1} µs of the nodes each"));
        vec![
            format!(
                "{} watchers of {} came in in {came_in_s:.1} s; {} of them have the server's map in the end, the last one \
                 {:.0} ms after the last flow",
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
                "a hold was seen: from its request {}; from its answer {}",
                lag(self.from_request),
                lag(self.from_answer)
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_with_another_map_is_a_problem() {
        let mut watchers = Watchers { count: 5_000, sessions: 1, same: 5_000, ..Watchers::default() };
        assert_eq!(watchers.problems(), Vec::<String>::new());
        assert!(watchers.lines()[0].starts_with("5 000 watchers of one session came in in 0.0 s; 5 000 of them"));
        watchers.different = 2;
        watchers.example = Some("watcher 7 is behind".into());
        assert_eq!(watchers.problems(), ["2 watchers have another map than the server: watcher 7 is behind"]);
    }
}

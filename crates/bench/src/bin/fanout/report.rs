//! The figures of all turns, as a table and as JSON.

use std::fmt;

use boxoffice_load::machine::DiskFloor;
use boxoffice_workload::statistics::median;
use serde::Serialize;

use crate::turn::Round;

/// The limit for the 99th percentile, in milliseconds.
const BAR_MS: f64 = 150.0;

/// The memory that the connections of watchers take.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Memory {
    pub(crate) system: &'static str,
    pub(crate) watchers: u32,
    /// Memory of the server's processes before the first watcher came, in bytes.
    pub(crate) before: u64,
    /// The same when all watchers were there.
    pub(crate) connected: u64,
    /// The same after all turns.
    pub(crate) after: u64,
    /// How long the watchers took to connect and get their first state, in seconds.
    pub(crate) came_in_s: f64,
}

/// The figures of all turns.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) nodes: usize,
    pub(crate) seconds: f64,
    pub(crate) rounds: u32,
    pub(crate) floor_before: DiskFloor,
    pub(crate) floor_after: DiskFloor,
    pub(crate) memory: Vec<Memory>,
    pub(crate) turns: Vec<Round>,
}

/// Medians of the turns of one system at one rate.
struct Row {
    system: &'static str,
    a_second: u32,
    deliveries: f64,
    versions: f64,
    p50: f64,
    p99: f64,
    cpu_us: f64,
    bytes: f64,
    converged_ms: f64,
    snapshots: u64,
    wrong: u64,
}

impl Report {
    fn rows(&self) -> Vec<Row> {
        let mut keys: Vec<(u32, &'static str)> = Vec::new();
        for turn in &self.turns {
            if !keys.contains(&(turn.a_second, turn.system)) {
                keys.push((turn.a_second, turn.system));
            }
        }
        keys.sort_unstable_by_key(|(a_second, _)| *a_second);
        keys.into_iter().map(|(a_second, system)| self.row(a_second, system)).collect()
    }

    fn row(&self, a_second: u32, system: &'static str) -> Row {
        let turns = || self.turns.iter().filter(|turn| turn.a_second == a_second && turn.system == system);
        let figure =
            |figure: fn(&Round) -> f64| median(&mut turns().map(figure).collect::<Vec<f64>>()).unwrap_or(f64::NAN);
        Row {
            system,
            a_second,
            deliveries: figure(|turn| turn.deliveries_a_second),
            versions: figure(|turn| turn.versions_a_second),
            p50: figure(|turn| turn.p50_ms),
            p99: figure(|turn| turn.p99_ms),
            cpu_us: figure(|turn| turn.cpu_us),
            bytes: figure(|turn| turn.bytes),
            converged_ms: figure(|turn| turn.converged_ms),
            snapshots: turns().map(|turn| turn.snapshots).sum(),
            wrong: turns().map(|turn| turn.skipped + turn.wrong + turn.lost + turn.behind).sum(),
        }
    }

    /// Deliveries a second at which the 99th percentile is `p99_ms`, interpolated between two measured rates.
    fn at(&self, system: &str, p99_ms: f64) -> Option<f64> {
        let rows: Vec<Row> = self.rows().into_iter().filter(|row| row.system == system).collect();
        rows.windows(2).find(|pair| pair[0].p99 <= p99_ms && pair[1].p99 > p99_ms).map(|pair| {
            let share = (p99_ms - pair[0].p99) / (pair[1].p99 - pair[0].p99);
            pair[0].deliveries + share * (pair[1].deliveries - pair[0].deliveries)
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        writeln!(
            f,
            "One session, {} s a turn, medians of {} rounds; latency from a change's sending to its receipt.",
            self.seconds, self.rounds
        )?;
        writeln!(
            f,
            "{:>9}  {:10} {:>12} {:>10} {:>8} {:>8} {:>8} {:>6} {:>9} {:>9} {:>6} {:>8}",
            "changes/s",
            "system",
            "deliveries/s",
            "versions/s",
            "p50 ms",
            "p99 ms",
            "CPU µs",
            "bytes",
            "all by ms",
            "snapshots",
            "wrong",
            "× floor"
        )?;
        let rows = self.rows();
        for row in &rows {
            let floor = rows.iter().find(|other| other.system == "floor" && other.a_second == row.a_second);
            let ratio = match floor {
                Some(floor) if row.system != "floor" => format!("{:.2}", row.versions / floor.versions),
                _ => "-".to_owned(),
            };
            writeln!(
                f,
                "{:>9}  {:10} {:>12.0} {:>10.0} {:>8.1} {:>8.1} {:>8.2} {:>6.0} {:>9.0} {:>9} {:>6} {:>8}",
                row.a_second,
                row.system,
                row.deliveries,
                row.versions,
                row.p50,
                row.p99,
                row.cpu_us,
                row.bytes,
                row.converged_ms,
                row.snapshots,
                row.wrong,
                ratio
            )?;
        }
        if let (Some(ours), Some(floor)) = (self.at("boxoffice", BAR_MS), self.at("floor", BAR_MS)) {
            let ratio = ours / floor;
            writeln!(f, "At p99 {BAR_MS} ms: {ours:.0} deliveries/s, the floor {floor:.0}: {ratio:.2} × the floor.")?;
        }
        for Memory { system, watchers, before, connected, after, came_in_s } in &self.memory {
            let each = |bytes: u64| bytes.saturating_sub(*before) as f64 / 1024.0 / f64::from(*watchers);
            writeln!(
                f,
                "{system}: {watchers} watchers came in in {came_in_s:.1} s; {:.2} KiB a connection, {:.2} after the turns.",
                each(*connected),
                each(*after)
            )?;
        }
        let steal = self.turns.iter().map(|turn| turn.steal_percent).fold(0.0, f64::max);
        writeln!(
            f,
            "Versions/s are changes brought to watchers, in frames of one or several, and what × floor compares. Wrong: skipped versions, connections lost, watchers not at the last version in the end. Raw fdatasync p50/p99 \
             {:.0}/{:.0} µs before, {:.0}/{:.0} µs after; CPU steal at most {steal:.1} %.",
            self.floor_before.p50_us, self.floor_before.p99_us, self.floor_after.p50_us, self.floor_after.p99_us
        )
    }
}

//! The figures of all turns, as a table and as JSON.

use std::fmt;

use boxoffice_load::machine::DiskFloor;
use boxoffice_workload::statistics::median;
use serde::Serialize;

use crate::{Flow, Nodes};

/// One turn of one system.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) system: &'static str,
    pub(crate) clients: usize,
    pub(crate) connections: usize,
    pub(crate) flows_per_second: f64,
    pub(crate) mean_ms: f64,
    pub(crate) p99_ms: f64,
    /// As [`Measured::slowest`](crate::drive::Measured::slowest).
    pub(crate) slowest: Option<f64>,
    /// Processor time of all the system's server processes for each purchase, in microseconds.
    pub(crate) server_cpu_us: f64,
    pub(crate) steal_percent: f64,
}

/// The figures of all turns.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) what: &'static str,
    /// The servers of each system.
    pub(crate) setting: &'static str,
    pub(crate) flows: u32,
    pub(crate) rounds: u32,
    /// Raw `fdatasync` before the turns.
    pub(crate) floor_before: DiskFloor,
    pub(crate) floor_after: DiskFloor,
    pub(crate) turns: Vec<Round>,
}

impl Report {
    pub(crate) fn new(flow: Flow, nodes: Nodes, flows: u32, rounds: u32, floor: DiskFloor) -> Report {
        let what = match flow {
            Flow::Theatre => "open a cart, hold 5 named seats of 80 all or none, check out",
            Flow::TwoSteps => "hold 5 named seats of 80 all or none in a new cart, check out",
            Flow::Cart => "put 5 of 1 000 products into a new cart one after the other, order",
        };
        let setting = match nodes {
            Nodes::One => "One server each",
            Nodes::Three => "Three Boxoffice nodes; Redis and PostgreSQL with a replica that every step waits for",
        };
        Report { what, setting, flows, rounds, floor_before: floor, floor_after: floor, turns: Vec::new() }
    }

    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// A figure in all rounds of a system with this number of clients and connections, in the order of the rounds.
    fn rounds(&self, system: &str, shape: (usize, usize), figure: impl Fn(&Round) -> f64) -> Vec<f64> {
        let turns = self.turns.iter().filter(|turn| turn.system == system && (turn.clients, turn.connections) == shape);
        turns.map(figure).collect()
    }

    /// The flows a second of a system by those of another one: the quotient of the medians, and the lowest and highest quotient of one
    /// round.
    fn ratio(&self, system: &str, other: &str, shape: (usize, usize)) -> Option<String> {
        let mut rates = self.rounds(system, shape, |turn| turn.flows_per_second);
        let mut others = self.rounds(other, shape, |turn| turn.flows_per_second);
        let (lowest, highest) = spread(rates.iter().zip(&others).map(|(rate, other)| rate / other))?;
        let ratio = median(&mut rates)? / median(&mut others)?;
        Some(format!("{ratio:.2} ({lowest:.2}-{highest:.2})"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut systems: Vec<&str> = Vec::new();
        let mut shapes: Vec<(usize, usize)> = Vec::new();
        for turn in &self.turns {
            if !systems.contains(&turn.system) {
                systems.push(turn.system);
            }
            let shape = (turn.clients, turn.connections);
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        let named = |peer: &str| systems.iter().copied().find(|system| system.starts_with(peer));
        writeln!(f)?;
        writeln!(f, "One purchase: {}. {} purchases a turn.", self.what, self.flows)?;
        writeln!(f, "Medians of {} rounds, with the lowest and highest round.", self.rounds)?;
        writeln!(f, "{}. CPU is that of all server processes of a system.", self.setting)?;
        writeln!(
            f,
            "{:>7} {:>11}  {:18} {:>8} {:>13} {:>9} {:>8} {:>7} {:>18} {:>18}",
            "clients", "connections", "system", "flows/s", "", "mean ms", "p99 ms", "CPU µs", "× PostgreSQL", "× Redis"
        )?;
        for &shape in &shapes {
            for system in &systems {
                let figure =
                    |figure: fn(&Round) -> f64| median(&mut self.rounds(system, shape, figure)).unwrap_or(f64::NAN);
                let rates = self.rounds(system, shape, |turn| turn.flows_per_second);
                let rate_spread = spread(rates).map(|(lowest, highest)| format!("{lowest:.0}-{highest:.0}"));
                let ratio = |peer: &str| named(peer).and_then(|peer| self.ratio(system, peer, shape));
                writeln!(
                    f,
                    "{:>7} {:>11}  {system:18} {:>8.0} {:>13} {:>9.2} {:>8.2} {:>7.0} {:>18} {:>18}",
                    shape.0,
                    shape.1,
                    figure(|turn| turn.flows_per_second),
                    rate_spread.as_deref().unwrap_or("-"),
                    figure(|turn| turn.mean_ms),
                    figure(|turn| turn.p99_ms),
                    figure(|turn| turn.server_cpu_us),
                    ratio("PostgreSQL").as_deref().unwrap_or("-"),
                    ratio("Redis").as_deref().unwrap_or("-"),
                )?;
            }
        }
        let steal = self.turns.iter().map(|turn| turn.steal_percent).fold(0.0, f64::max);
        writeln!(
            f,
            "Raw fdatasync p50/p99 {:.0}/{:.0} µs before, {:.0}/{:.0} µs after; CPU steal at most {steal:.1} %.",
            self.floor_before.p50_us, self.floor_before.p99_us, self.floor_after.p50_us, self.floor_after.p99_us
        )?;
        writeln!(
            f,
            "Checked after every turn: each order is there with what was bought, nothing sold twice or uncounted."
        )
    }
}

/// The lowest and the highest of some figures.
fn spread(figures: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    figures.into_iter().fold(None, |spread, figure| {
        let (lowest, highest) = spread.unwrap_or((figure, figure));
        Some((figure.min(lowest), figure.max(highest)))
    })
}

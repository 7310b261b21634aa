//! A scenario that offers more than the nodes can take.

use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, positive, source::ScenarioSource};

/// `[overload]`: the run offers multiples of the capacity, which it measures before and after each phase. This replaces the loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverloadSpec {
    /// The number of clients that measure the capacity, each with one purchase at a time.
    pub clients: u32,
    /// The duration of that measurement, in milliseconds, after a quarter of it that does not count.
    pub capacity_ms: u64,
    /// The offered load of each phase with clients that ignore `retry_after_ms`, in percent of the capacity.
    pub percents: Vec<u32>,
    /// The same with clients that obey it.
    #[serde(default)]
    pub obeying: Vec<u32>,
    /// The same with clients of both kinds, while other processes keep the processors of the first node busy. The node must run on
    /// this machine.
    #[serde(default)]
    pub crowded: Vec<u32>,
    /// The duration of a phase, in milliseconds.
    pub phase_ms: u64,
    /// The beginning of a phase, which does not count, in milliseconds. A node sheds nothing before the delay has lasted.
    pub settle_ms: u64,
    /// How long half of the capacity is offered after each phase, in milliseconds.
    pub recovery_ms: u64,
    /// The number of connections of a generator, spread over the nodes.
    pub connections: u32,
    /// The most generators. A second one begins when a phase offered less than 97 % of the wanted rate. Each is a thread.
    #[serde(default = "one")]
    pub generators: u32,
    /// How often a phase is drawn anew at most. It is, if the capacities before and after it differ by more than 5 %, or it offered
    /// less than 97 % of the wanted rate.
    #[serde(default)]
    pub redraws: u32,
    /// Whether a purchase has three requests, as the page's: a hold, the watch of its cart, and the checkout. Otherwise it has no watch.
    #[serde(default)]
    pub watches: bool,
    /// Reports of earlier rounds (`report.json`). The verdict is about the medians of all rounds.
    #[serde(default)]
    pub earlier: Vec<String>,
    /// The nodes' target delay, in milliseconds. The verdict compares latencies with it.
    pub target_ms: u64,
    /// Whether the verdict compares goodput, latencies, memory and recovery with the promised figures.
    #[serde(default = "super::default_true")]
    pub judged: bool,
}

fn one() -> u32 {
    1
}

impl Scenario {
    pub(super) fn check_overload(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        let Some(overload) = &self.overload else { return Ok(()) };
        positive(source, "overload.clients", overload.clients.into(), 10_000)?;
        positive(source, "overload.capacity_ms", overload.capacity_ms, 600_000)?;
        positive(source, "overload.phase_ms", overload.phase_ms, 600_000)?;
        positive(source, "overload.recovery_ms", overload.recovery_ms, 600_000)?;
        positive(source, "overload.connections", overload.connections.into(), 1_000)?;
        positive(source, "overload.generators", overload.generators.into(), 64)?;
        for &percent in overload.percents.iter().chain(&overload.obeying).chain(&overload.crowded) {
            positive(source, "overload.percents", percent.into(), 10_000)?;
        }
        source.require(
            self.house.is_some() && self.flow.is_some() && self.mix.is_none(),
            "overload.clients",
            overload.clients,
            "it needs a [house], a [flow] that buys its seats, and no [mix]",
        )
    }
}

//! A scenario that offers more than the nodes can take.

use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, positive, source::ScenarioSource};

/// `[overload]`: the run measures the capacity, and then offers multiples of it. This replaces the loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverloadSpec {
    /// The number of clients that measure the capacity, each with one purchase at a time.
    pub clients: u32,
    /// The duration of that measurement, in milliseconds.
    pub capacity_ms: u64,
    /// The offered load of each phase, in percent of the capacity. The phases run first with clients that ignore
    /// `retry_after_ms`, then with clients that obey it.
    pub percents: Vec<u32>,
    /// The duration of a phase, in milliseconds.
    pub phase_ms: u64,
    /// The beginning of a phase whose latencies do not count, in milliseconds. A node sheds nothing before the delay
    /// has lasted.
    pub settle_ms: u64,
    /// How long half of the capacity is offered after each phase, in milliseconds.
    pub recovery_ms: u64,
    /// The number of connections, spread over the nodes.
    pub connections: u32,
    /// The nodes' target delay, in milliseconds. The verdict compares latencies with it.
    pub target_ms: u64,
    /// Whether the verdict compares goodput, latencies, memory and recovery with the promised figures.
    #[serde(default = "super::default_true")]
    pub judged: bool,
}

impl Scenario {
    pub(super) fn check_overload(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        let Some(overload) = &self.overload else { return Ok(()) };
        positive(source, "overload.clients", overload.clients.into(), 10_000)?;
        positive(source, "overload.capacity_ms", overload.capacity_ms, 600_000)?;
        positive(source, "overload.phase_ms", overload.phase_ms, 600_000)?;
        positive(source, "overload.recovery_ms", overload.recovery_ms, 600_000)?;
        positive(source, "overload.connections", overload.connections.into(), 1_000)?;
        for &percent in &overload.percents {
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

//! A scenario that offers more than the nodes can take.

use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, place::Place, positive};

/// `[overload]`: the capacity is measured, then buyers come at multiples of it. It takes the place of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverloadSpec {
    /// Clients that measure the capacity, each with one purchase at a time.
    pub clients: u32,
    /// How long that takes, in milliseconds.
    pub capacity_ms: u64,
    /// What is offered then, in percent of the capacity; with clients that ignore when to try again, then with clients that
    /// obey.
    pub percents: Vec<u32>,
    /// How long each of these phases takes, in milliseconds.
    pub phase_ms: u64,
    /// Latencies are of the time after so many milliseconds of a phase: a node sheds nothing before the delay has lasted.
    pub settle_ms: u64,
    /// How long half of the capacity is offered after each phase, in milliseconds.
    pub recovery_ms: u64,
    /// Connections, spread over the nodes.
    pub connections: u32,
    /// The delay that the nodes aim at, in milliseconds; latencies are held against it.
    pub target_ms: u64,
    /// Whether goodput, latencies, memory and recovery are held against what is promised.
    #[serde(default = "yes")]
    pub judged: bool,
}

impl Scenario {
    pub(super) fn check_overload(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        let Some(overload) = &self.overload else { return Ok(()) };
        positive(place, "overload.clients", overload.clients.into(), 10_000)?;
        positive(place, "overload.capacity_ms", overload.capacity_ms, 600_000)?;
        positive(place, "overload.phase_ms", overload.phase_ms, 600_000)?;
        positive(place, "overload.recovery_ms", overload.recovery_ms, 600_000)?;
        positive(place, "overload.connections", overload.connections.into(), 1_000)?;
        for &percent in &overload.percents {
            positive(place, "overload.percents", percent.into(), 10_000)?;
        }
        place.require(
            self.house.is_some() && self.flow.is_some() && self.mix.is_none(),
            "overload.clients",
            overload.clients,
            "it needs a [house] and a [flow] that buys its seats, and no [mix]",
        )
    }
}

fn yes() -> bool {
    true
}

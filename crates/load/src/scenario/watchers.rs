//! The watchers of a scenario: who looks at the seat maps while flows buy.

use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, place::Place, positive};

/// The most watchers of one run: its process has other files open, too.
const WATCHERS_MAX: u32 = 18_000;

/// `[watchers]`: connections that watch seat maps from before the first flow until everything is audited. Each keeps the map it
/// sees, and in the end every one must be the server's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchersSpec {
    /// How many.
    pub count: u32,
    /// They are spread over the first so many sessions of the house.
    #[serde(default = "one")]
    pub sessions: u32,
    /// How long they may take to come to the last version, in milliseconds.
    #[serde(default = "converge")]
    pub converge_ms: u64,
}

impl Scenario {
    pub(super) fn check_watchers(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        let Some(watchers) = &self.watchers else { return Ok(()) };
        positive(place, "watchers.count", watchers.count.into(), WATCHERS_MAX.into())?;
        positive(place, "watchers.converge_ms", watchers.converge_ms, 600_000)?;
        let there = self.house.as_ref().map_or(0, |house| house.groups * house.venues * house.sessions);
        place.require(
            (1..=there).contains(&watchers.sessions),
            "watchers.sessions",
            watchers.sessions,
            format!("the house has {there}"),
        )
    }
}

fn one() -> u32 {
    1
}

fn converge() -> u64 {
    10_000
}

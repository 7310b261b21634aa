//! The watchers of a scenario, which watch seat maps while flows buy.

use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, positive, source::ScenarioSource};

/// The most watchers of one run. Its process has other files open, too.
const WATCHERS_MAX: u32 = 18_000;

/// `[watchers]`: connections that watch seat maps from before the first flow until the end of the audit. Each keeps its
/// map, and after the run every map must equal the server's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchersSpec {
    pub count: u32,
    /// The watchers are spread over this many sessions of the house, beginning with the first.
    #[serde(default = "super::default_one")]
    pub sessions: u32,
    /// How long the watchers may take to receive the last version, in milliseconds.
    #[serde(default = "default_converge_ms")]
    pub converge_ms: u64,
    /// How many of the watchers read 5 kB a second and send commands. None of them may lose its connection.
    #[serde(default)]
    pub slow: u32,
    /// How long a command of a slow watcher may take until it is decided, in milliseconds.
    #[serde(default = "default_decided_ms")]
    pub decided_ms: u64,
}

impl Scenario {
    pub(super) fn check_watchers(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        let Some(watchers) = &self.watchers else { return Ok(()) };
        positive(source, "watchers.count", watchers.count.into(), WATCHERS_MAX.into())?;
        source.require(
            watchers.slow <= watchers.count,
            "watchers.slow",
            watchers.slow,
            format!("there are {} watchers", watchers.count),
        )?;
        positive(source, "watchers.decided_ms", watchers.decided_ms, 60_000)?;
        positive(source, "watchers.converge_ms", watchers.converge_ms, 600_000)?;
        let there = self.house.as_ref().map_or(0, |house| house.groups * house.venues * house.sessions);
        source.require(
            (1..=there).contains(&watchers.sessions),
            "watchers.sessions",
            watchers.sessions,
            format!("the house has {there}"),
        )
    }
}

fn default_decided_ms() -> u64 {
    1_000
}

fn default_converge_ms() -> u64 {
    10_000
}

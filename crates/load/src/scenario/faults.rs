//! The parts of a scenario that happen while flows buy: seat map reads and node faults.

use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, positive, source::ScenarioSource};

/// The most reads per second.
const READS_MAX: u64 = 1_000_000;

/// The latest time of a fault, in milliseconds: a day.
const AT_MS_MAX: u64 = 86_400_000;

/// The most kills of one run.
const KILLS_MAX: u64 = 1_000;

/// `[reads]`: reads of random seat maps on a schedule, while flows buy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadsSpec {
    pub per_second: u32,
}

/// `[faults]`: faults of the nodes while flows buy. The run must have started the nodes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSpec {
    /// The time of a kill after the start, in milliseconds. No node is killed if absent.
    pub kill_at_ms: Option<u64>,
    /// The time from the kill until the node is started again, in milliseconds.
    pub restart_after_ms: u64,
    /// The time at which a node joins after the start, in milliseconds. No node is added if absent.
    pub add_at_ms: Option<u64>,
    /// The number of repeated kills. Each kill hits a random node, which is started again when all shards take writes.
    /// The next kill comes when the node has caught up. Flows go on until the last node has caught up.
    pub kills: u32,
    /// Nodes are told to stop (SIGTERM) instead of being killed. They hand over their leadership first.
    pub gently: bool,
    /// The time from a node's catching up to the next kill, in milliseconds.
    pub pause_ms: u64,
    /// How long shards may take no writes, or a node may take to catch up, before the run fails, in milliseconds.
    pub patience_ms: u64,
}

impl Default for FaultSpec {
    fn default() -> FaultSpec {
        FaultSpec {
            kill_at_ms: None,
            restart_after_ms: 5_000,
            add_at_ms: None,
            kills: 0,
            gently: false,
            pause_ms: 2_000,
            patience_ms: 60_000,
        }
    }
}

impl FaultSpec {
    /// Whether the scenario kills or stops nodes.
    pub(crate) fn kills_nodes(&self) -> bool {
        self.kill_at_ms.is_some() || self.kills > 0
    }

    /// Whether the scenario has any fault.
    pub fn any(&self) -> bool {
        self.kill_at_ms.is_some() || self.add_at_ms.is_some() || self.kills > 0
    }
}

impl Scenario {
    pub(super) fn check_faults(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        if let Some(reads) = &self.reads {
            positive(source, "reads.per_second", reads.per_second.into(), READS_MAX)?;
            source.require(self.house.is_some(), "reads.per_second", reads.per_second, "reads need a [house]")?;
        }
        let faults = &self.faults;
        let fits = |key: &str, ms: u64| source.require(ms <= AT_MS_MAX, key, ms, "give at most a day");
        fits("faults.kill_at_ms", faults.kill_at_ms.unwrap_or(0))?;
        fits("faults.add_at_ms", faults.add_at_ms.unwrap_or(0))?;
        fits("faults.restart_after_ms", faults.restart_after_ms)?;
        fits("faults.pause_ms", faults.pause_ms)?;
        fits("faults.patience_ms", faults.patience_ms)?;
        let kills = u64::from(faults.kills);
        source.require(kills <= KILLS_MAX, "faults.kills", kills, format!("give at most {KILLS_MAX}"))?;
        source.require(
            kills == 0 || (self.open_loop.is_some() && faults.kill_at_ms.is_none() && faults.add_at_ms.is_none()),
            "faults.kills",
            kills,
            "repeated kills need an [open_loop] and allow no other fault",
        )
    }
}

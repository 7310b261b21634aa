//! The parts of a scenario that happen beside its flows: seat maps that are read, nodes that are killed and added.

use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, place::Place, positive};

/// The most reads a second.
const READS_MAX: u64 = 1_000_000;

/// The latest instant of a fault, in milliseconds: a day.
const AT_MS_MAX: u64 = 86_400_000;

/// The most kills of one run.
const KILLS_MAX: u64 = 1_000;

/// `[reads]`: seat maps of any session, read by the clock while flows buy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadsSpec {
    /// So many a second.
    pub per_second: u32,
}

/// `[faults]`: what is done to the nodes while flows buy. Only to nodes that the run started itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSpec {
    /// A node is killed so long after the start, in milliseconds; none if absent.
    pub kill_at_ms: Option<u64>,
    /// It is started again so long after that, in milliseconds.
    pub restart_after_ms: u64,
    /// A node is added so long after the start, in milliseconds; none if absent.
    pub add_at_ms: Option<u64>,
    /// So many kills, one after the other: each time any node, which is started again when all shards take writes, and the
    /// next one when it has caught up. Flows go on until the last one is through.
    pub kills: u32,
    /// Nodes are told to stop (SIGTERM) instead of killed: they hand over what they lead first.
    pub gently: bool,
    /// Between a node that has caught up and the next kill, in milliseconds.
    pub pause_ms: u64,
    /// How long shards may take no writes, or a node may need to catch up, before the run is bad, in milliseconds.
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
    /// Whether nodes are killed or stopped.
    pub(crate) fn kills_nodes(&self) -> bool {
        self.kill_at_ms.is_some() || self.kills > 0
    }

    /// Whether anything is done to nodes.
    pub fn any(&self) -> bool {
        self.kill_at_ms.is_some() || self.add_at_ms.is_some() || self.kills > 0
    }
}

impl Scenario {
    pub(super) fn check_faults(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        if let Some(reads) = &self.reads {
            positive(place, "reads.per_second", reads.per_second.into(), READS_MAX)?;
            place.require(
                self.house.is_some(),
                "reads.per_second",
                reads.per_second,
                "there is no [house] to read of",
            )?;
        }
        let faults = &self.faults;
        let fits = |key: &str, ms: u64| place.require(ms <= AT_MS_MAX, key, ms, "give at most a day");
        fits("faults.kill_at_ms", faults.kill_at_ms.unwrap_or(0))?;
        fits("faults.add_at_ms", faults.add_at_ms.unwrap_or(0))?;
        fits("faults.restart_after_ms", faults.restart_after_ms)?;
        fits("faults.pause_ms", faults.pause_ms)?;
        fits("faults.patience_ms", faults.patience_ms)?;
        let kills = u64::from(faults.kills);
        place.require(kills <= KILLS_MAX, "faults.kills", kills, format!("give at most {KILLS_MAX}"))?;
        place.require(
            kills == 0 || (self.open_loop.is_some() && faults.kill_at_ms.is_none() && faults.add_at_ms.is_none()),
            "faults.kills",
            kills,
            "kills in a row need an [open_loop], and no other fault beside them",
        )
    }
}

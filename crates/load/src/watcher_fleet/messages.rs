//! The commands to a fleet, and its replies.

use serde::{Deserialize, Serialize};

use super::stats::FleetStats;

/// Which watchers a fleet has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FleetSpec {
    /// Nodes, as `ip:port`. The watchers are spread over them.
    pub addresses: Vec<String>,
    /// The number of connections.
    pub watchers: u32,
    /// The watched sessions. Watcher `n` watches [`FleetSpec::feeds`] of them, beginning with session `n × feeds`.
    pub sessions: Vec<String>,
    /// The number of sessions that each connection watches.
    pub feeds: u32,
    /// The watchers watch only the counts of their sessions, as one list.
    pub counts: bool,
    /// Each watcher keeps its current map.
    pub keep_maps: bool,
    /// How many of the watchers are slow, spread evenly. They read [`SLOW_BYTES_PER_SECOND`](super::SLOW_BYTES_PER_SECOND) and
    /// open a cart every ten seconds.
    #[serde(default)]
    pub slow: u32,
}

impl FleetSpec {
    /// Whether the watcher with this number is slow.
    pub fn is_slow(&self, number: u32) -> bool {
        let before = |number: u32| u64::from(number) * u64::from(self.slow) / u64::from(self.watchers.max(1));
        before(number) != before(number + 1)
    }
}

/// A change of a session.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ChangeTime {
    /// The index in [`FleetSpec::sessions`].
    pub session: u32,
    /// The session's version after the change.
    pub version: u64,
    /// The time of the change by [`now_us`](crate::clock::now_us).
    pub at_us: u64,
}

/// A command to a fleet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FleetCommand {
    /// How many connections are open and how many feeds have begun?
    GetStatus,
    /// Reset the statistics.
    StartCounting,
    /// How many feeds do not have these versions of these sessions yet?
    GetProgress(Vec<(u32, u64)>),
    /// Return the statistics, with the latency from each of these changes to its receipt.
    GetStats(Vec<ChangeTime>),
    /// How many watchers have this map of a session at this version?
    CompareMaps {
        /// The index in [`FleetSpec::sessions`].
        session: u32,
        version: u64,
        /// The packed map, two bits a seat.
        seats: Vec<u8>,
    },
}

/// A fleet's reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FleetReply {
    /// To [`FleetCommand::GetStatus`].
    Status(FleetStatus),
    /// To [`FleetCommand::StartCounting`].
    CountingStarted,
    /// To [`FleetCommand::GetProgress`].
    Progress {
        /// The number of feeds that are behind.
        behind: u64,
        /// When the last of the other feeds received its version. 0 if all had their versions before counting began.
        last_us: u64,
    },
    /// To [`FleetCommand::GetStats`].
    Stats(Box<FleetStats>),
    /// To [`FleetCommand::CompareMaps`].
    MapsCompared {
        /// Watchers of the session with the same map.
        same: u64,
        /// Watchers of the session with another map.
        different: u64,
        /// One of those with another map, as text.
        example: Option<String>,
    },
}

/// The connections and feeds of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetStatus {
    /// Connections that are open.
    pub connected: u32,
    /// Feeds that have begun.
    pub synced: u64,
    /// All feeds of the fleet.
    pub expected: u64,
    pub first_error: Option<String>,
}

impl FleetStatus {
    /// Whether all feeds have begun.
    pub fn is_complete(&self) -> bool {
        self.synced == self.expected
    }
}

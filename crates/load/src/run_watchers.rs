//! The watchers of a run. They connect before the first flow. After the last flow their maps are compared with the
//! server's.

use std::time::{Duration, Instant};

use boxoffice_workload::{history::HoldRecord, house::House};

use crate::{
    LoadError,
    clock::now_us,
    connection_pool::ConnectionPool,
    flow::Flow,
    machine::{listening_pid, process_cpu},
    progress::Progress,
    report::{Distribution, Watchers},
    scenario::WatchersSpec,
    watcher_fleet::{ChangeTime, FleetCommand, FleetReply, FleetSpec, FleetStats, FleetStatus, WatcherFleet},
};

/// How long all watchers together may take until each has a map.
const CONNECT_LIMIT: Duration = Duration::from_secs(120);

/// The pause between two questions to the fleet.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Watchers that are connected and have a map each.
pub(crate) struct RunWatchers {
    fleet: WatcherFleet,
    spec: WatchersSpec,
    connected_after: Duration,
    /// The nodes that run on this machine.
    pids: Vec<u32>,
    cpu_before: Vec<Option<Duration>>,
}

/// What the watchers received until the last flow ended.
pub(crate) struct FleetTraffic {
    deliveries: u64,
    cpu: Option<Duration>,
    ended_us: u64,
}

/// A session's map as the server answers it, with its version.
struct ServerMap {
    session: u32,
    version: u64,
    seats: Vec<u8>,
}

impl RunWatchers {
    /// Connects the watchers, and waits until each has a map.
    pub(crate) async fn connect(
        connections: &ConnectionPool,
        house: &House,
        spec: &WatchersSpec,
        progress: &Progress,
    ) -> Result<RunWatchers, LoadError> {
        let addresses = connections.addresses();
        let pids = addresses.iter().filter_map(|address| listening_pid(address)).collect();
        progress.begin("watchers", spec.count.into());
        let start = Instant::now();
        let fleet = WatcherFleet::start(FleetSpec {
            addresses,
            watchers: spec.count,
            sessions: (0..spec.sessions).map(|session| house.session_id(session).to_string()).collect(),
            feeds: 1,
            counts: false,
            keep_maps: true,
            slow: spec.slow,
        });
        let fleet = fleet.map_err(|error| LoadError::System { what: "start the watcher fleet", error })?;
        let mut watchers =
            RunWatchers { fleet, spec: spec.clone(), connected_after: Duration::ZERO, pids, cpu_before: Vec::new() };
        loop {
            let status = watchers.status().await?;
            if status.is_complete() {
                break;
            }
            if start.elapsed() > CONNECT_LIMIT {
                let why = status.first_error.unwrap_or_else(|| format!("only {} have a map", status.synced));
                return Err(LoadError::Setup { what: "watchers", why });
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        watchers.connected_after = start.elapsed();
        Ok(watchers)
    }

    /// Starts the statistics when the flows begin.
    pub(crate) async fn start_counting(&mut self) -> Result<(), LoadError> {
        self.cpu_before = self.cpu();
        self.ask(FleetCommand::StartCounting).await.map(drop)
    }

    /// What the watchers received so far. The run calls this when its flows have ended.
    pub(crate) async fn traffic_so_far(&self) -> Result<FleetTraffic, LoadError> {
        let ended_us = now_us();
        let stats = self.stats(Vec::new()).await?;
        let used = |(before, after): (&Option<Duration>, Option<Duration>)| Some(after?.saturating_sub((*before)?));
        let used = self.cpu_before.iter().zip(self.cpu()).filter_map(used);
        let cpu = (!self.pids.is_empty()).then(|| used.sum());
        Ok(FleetTraffic { deliveries: stats.deliveries(), cpu, ended_us })
    }

    /// Compares the watchers' maps with the server's, after all changes have arrived.
    pub(crate) async fn finish(
        self,
        connections: &ConnectionPool,
        house: &House,
        traffic: FleetTraffic,
        hold_times: HoldTimes,
        run_s: f64,
    ) -> Result<Watchers, LoadError> {
        let maps = self.server_maps(connections, house).await?;
        let last_us = self.converge(maps.iter().map(|map| (map.session, map.version)).collect()).await?;
        let mut watchers = Watchers {
            count: self.spec.count,
            sessions: self.spec.sessions,
            slow: self.spec.slow,
            slow_decided_ms_limit: self.spec.decided_ms,
            came_in_s: self.connected_after.as_secs_f64(),
            deliveries_a_second: traffic.deliveries as f64 / run_s,
            server_cpu_us: traffic.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / traffic.deliveries.max(1) as f64),
            converged_ms: last_us.saturating_sub(traffic.ended_us) as f64 / 1e3,
            ..Watchers::default()
        };
        for ServerMap { session, version, seats } in maps {
            let compare = FleetCommand::CompareMaps { session, version, seats };
            let FleetReply::MapsCompared { same, different, example } = self.ask(compare).await? else {
                return Err(wrong_reply());
            };
            watchers.same += same;
            watchers.different += different;
            watchers.example = watchers.example.or(example);
        }
        let stats = self.stats(hold_times.requested).await?;
        watchers.from_request = Distribution::of_fleet(&stats.latencies);
        let stats = self.stats(hold_times.answered).await?;
        watchers.from_answer = Distribution::of_fleet(&stats.latencies);
        watchers.add_stats(&stats);
        watchers.example = watchers.example.or(self.status().await?.first_error);
        Ok(watchers)
    }

    async fn server_maps(&self, connections: &ConnectionPool, house: &House) -> Result<Vec<ServerMap>, LoadError> {
        let mut maps = Vec::new();
        for session in 0..self.spec.sessions {
            let map = connections.client().session_map(&house.session_id(session)).await;
            let map = map.map_err(|error| LoadError::Query { what: "a session's map", error })?.value;
            maps.push(ServerMap { session, version: map.version, seats: map.seats.to_vec() });
        }
        Ok(maps)
    }

    /// Waits until all watchers have these versions or their time is over. Returns when the last one received its
    /// version.
    async fn converge(&self, versions: Vec<(u32, u64)>) -> Result<u64, LoadError> {
        let start = Instant::now();
        loop {
            let progress = self.ask(FleetCommand::GetProgress(versions.clone())).await?;
            let FleetReply::Progress { behind, last_us } = progress else { return Err(wrong_reply()) };
            if behind == 0 || start.elapsed() > Duration::from_millis(self.spec.converge_ms) {
                return Ok(last_us);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    async fn status(&self) -> Result<FleetStatus, LoadError> {
        match self.ask(FleetCommand::GetStatus).await? {
            FleetReply::Status(status) => Ok(status),
            _ => Err(wrong_reply()),
        }
    }

    async fn stats(&self, changes: Vec<ChangeTime>) -> Result<FleetStats, LoadError> {
        match self.ask(FleetCommand::GetStats(changes)).await? {
            FleetReply::Stats(stats) => Ok(*stats),
            _ => Err(wrong_reply()),
        }
    }

    async fn ask(&self, command: FleetCommand) -> Result<FleetReply, LoadError> {
        let reply = self.fleet.ask(command).await;
        reply.map_err(|error| LoadError::System { what: "reach the watcher fleet", error })
    }

    fn cpu(&self) -> Vec<Option<Duration>> {
        // A node that was killed meanwhile has no processor time to read.
        self.pids.iter().map(|pid| process_cpu(*pid).ok()).collect()
    }
}

/// The times of the run's holds whose version is known.
#[derive(Default)]
pub(crate) struct HoldTimes {
    requested: Vec<ChangeTime>,
    answered: Vec<ChangeTime>,
}

impl HoldTimes {
    /// The times of these flows' holds. `start_us` is the run's start by [`now_us`].
    pub(crate) fn of(flows: &[Flow], start_us: u64) -> HoldTimes {
        let mut times = HoldTimes::default();
        for HoldRecord { session, span, outcome, .. } in flows.iter().flat_map(|flow| &flow.record.holds) {
            if let Some(version) = outcome.granted().and_then(|held| held.session_version) {
                let change = |at_us: u64| ChangeTime { session: *session, version, at_us: start_us + at_us };
                times.requested.push(change(span.called_us));
                times.answered.push(change(span.returned_us));
            }
        }
        times
    }
}

fn wrong_reply() -> LoadError {
    LoadError::Internal("the watcher fleet sent another reply than expected")
}

//! Many sessions: the cost of many subscriptions in time and memory, and the cost of changes in all sessions.

use std::{fmt, path::Path};

use boxoffice_load::watcher_fleet::FleetSpec;
use serde::Serialize;

use crate::{
    Failed, Options,
    boxoffice::{Boxoffice, Seller, sessions, theatre},
    floor::Publish,
    turn::{Round, cpu, memory, turn},
    watchers::Watchers,
};

/// Feeds of one connection, below the 1 024 that a node allows.
const FEEDS_MAX: u32 = 1_000;

/// The results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Subscriptions {
    subscriptions: u32,
    sessions: u32,
    connections: u32,
    counts: bool,
    /// Memory of the server for each subscription.
    bytes: f64,
    cpu_us: f64,
    /// Until all subscriptions had their first state, in seconds.
    seconds: f64,
    /// The turn in which each session changes once a second.
    changing: Round,
    /// Processor time of the server in that turn, in percent of one processor.
    changing_cpu_percent: f64,
}

/// Measures this many subscriptions.
pub(crate) async fn measure(options: &Options, subscriptions: u32, program: &Path) -> Result<Subscriptions, Failed> {
    let feeds = options.sessions.min(FEEDS_MAX);
    let connections = subscriptions.div_ceil(feeds);
    let boxoffice = Boxoffice::start(program, options.nodes, connections).await?;
    let house = theatre("fanout", options.sessions);
    boxoffice.prepare(&house).await?;
    let mut seller = Seller::new(&boxoffice.addresses(), &house).await?;
    let pids = boxoffice.pids();
    let spec = FleetSpec {
        addresses: boxoffice.addresses(),
        watchers: connections,
        sessions: sessions(&house),
        feeds,
        counts: options.counts,
        keep_maps: false,
        slow: 0,
    };
    let (memory_before, cpu_before) = (memory(&pids), cpu(&pids)?);
    let (mut watchers, came_in) = Watchers::come_in(&spec).await?;
    let (memory_after, cpu_after) = (memory(&pids), cpu(&pids)?);
    let all = f64::from(connections * feeds);
    let publish = Publish { a_second: options.sessions, seconds: options.seconds };
    let changing = turn("boxoffice", &pids, &mut watchers, connections, &mut seller, publish).await?;
    let used = cpu(&pids)?.saturating_sub(cpu_after);
    Ok(Subscriptions {
        subscriptions: connections * feeds,
        sessions: options.sessions,
        connections,
        counts: options.counts,
        bytes: memory_after.saturating_sub(memory_before) as f64 / all,
        cpu_us: cpu_after.saturating_sub(cpu_before).as_secs_f64() * 1e6 / all,
        seconds: came_in.as_secs_f64(),
        changing_cpu_percent: used.as_secs_f64() * 100.0 / options.seconds,
        changing,
    })
}

impl fmt::Display for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subscriptions { subscriptions, sessions, connections, seconds, bytes, cpu_us, .. } = self;
        let what = if self.counts { "counts" } else { "maps" };
        writeln!(f)?;
        writeln!(
            f,
            "{subscriptions} subscriptions to the {what} of {sessions} sessions on {connections} connections: {seconds:.1} s, \
             {bytes:.0} bytes and {cpu_us:.1} µs of the server each."
        )?;
        let Round { a_second, deliveries_a_second, p50_ms, p99_ms, cpu_us, .. } = &self.changing;
        writeln!(
            f,
            "{a_second} changes/s over all sessions: {deliveries_a_second:.0} deliveries/s, p50 {p50_ms:.1}, p99 {p99_ms:.1} \
             ms, {cpu_us:.2} µs a delivery, {:.0} % of a processor.",
            self.changing_cpu_percent
        )?;
        let Round { skipped, wrong, lost, behind, snapshots, converged_ms, .. } = &self.changing;
        writeln!(
            f,
            "Skipped versions {skipped}, snapshots {snapshots}, wrong {wrong}, lost {lost}, behind in the end {behind}, all by \
             {converged_ms:.0} ms after the last change."
        )
    }
}

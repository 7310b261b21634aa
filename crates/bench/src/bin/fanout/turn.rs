//! One turn: changes at some rate, and how the watchers received them.

use std::time::Duration;

use boxoffice_load::{
    clock::now_us,
    machine::{CpuTimes, process_cpu, process_memory},
    watcher_fleet::{ChangeTime, FleetStats},
};
use serde::Serialize;

use crate::{Failed, floor::Publish, watchers::Watchers};

/// How long watchers may take to reach the last version.
const CONVERGE: Duration = Duration::from_secs(30);

/// How long a session may still change after the answer to a release, which the cart passes on later.
const COME_TO_REST: Duration = Duration::from_millis(100);

/// The figures of one turn of one system.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) system: &'static str,
    pub(crate) watchers: u32,
    /// Requested changes a second.
    pub(crate) a_second: u32,
    /// Received frames a second that advanced a watcher, until the last watcher had the last version.
    pub(crate) deliveries_a_second: f64,
    /// Versions a second by which those frames advanced watchers. A frame may have several.
    pub(crate) versions_a_second: f64,
    /// Time from sending a change until a watcher received it, in milliseconds.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    /// Processor time of the server for each delivery, in microseconds.
    pub(crate) cpu_us: f64,
    /// Bytes of each delivery, with the frame's head.
    pub(crate) bytes: f64,
    pub(crate) snapshots: u64,
    pub(crate) skipped: u64,
    pub(crate) wrong: u64,
    pub(crate) lost: u64,
    /// Watchers that did not reach the last version in time.
    pub(crate) behind: u64,
    /// Time from the last change until the last watcher had it, in milliseconds.
    pub(crate) converged_ms: f64,
    pub(crate) steal_percent: f64,
}

/// A source of changes.
pub(crate) trait Changes {
    /// Makes changes by the clock. Returns the times of those whose version is known.
    async fn publish(&mut self, publish: Publish) -> Result<Vec<ChangeTime>, Failed>;

    /// The version of each session now.
    async fn versions(&mut self) -> Result<Vec<(u32, u64)>, Failed>;
}

/// Processor time of these processes.
pub(crate) fn cpu(pids: &[u32]) -> Result<Duration, Failed> {
    Ok(pids.iter().map(|pid| process_cpu(*pid)).sum::<std::io::Result<Duration>>()?)
}

/// Memory of these processes in RAM, in bytes.
pub(crate) fn memory(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| process_memory(*pid)).sum()
}

/// Takes a turn.
pub(crate) async fn turn(
    system: &'static str,
    pids: &[u32],
    watchers: &mut Watchers,
    count: u32,
    changes: &mut impl Changes,
    publish: Publish,
) -> Result<Round, Failed> {
    watchers.begin()?;
    let (cpu_before, times_before) = (cpu(pids)?, CpuTimes::now());
    let start_us = now_us();
    let change_times = changes.publish(publish).await?;
    let over_us = now_us();
    tokio::time::sleep(COME_TO_REST).await;
    let last = changes.versions().await?;
    let (behind, last_us) = watchers.reached(&last, CONVERGE).await?;
    let used = cpu(pids)?.saturating_sub(cpu_before);
    let steal = times_before.and_then(|before| Some(CpuTimes::now()?.since(before).steal_percent));
    let stats: FleetStats = watchers.stats(&change_times)?;
    let deliveries = stats.deliveries().max(1) as f64;
    let seconds = (last_us.max(over_us) - start_us) as f64 / 1e6;
    let latencies = stats.latencies.histogram();
    let ms = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Round {
        system,
        watchers: count,
        a_second: publish.a_second,
        deliveries_a_second: stats.deliveries() as f64 / seconds,
        versions_a_second: stats.versions as f64 / seconds,
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        p999_ms: ms(0.999),
        cpu_us: used.as_secs_f64() * 1e6 / deliveries,
        bytes: stats.bytes as f64 / deliveries,
        snapshots: stats.snapshots,
        skipped: stats.skipped,
        wrong: stats.wrong,
        lost: stats.lost,
        behind,
        converged_ms: last_us.saturating_sub(over_us) as f64 / 1e3,
        steal_percent: steal.unwrap_or(0.0),
    })
}

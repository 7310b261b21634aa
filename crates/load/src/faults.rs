//! Faults: the run kills nodes, starts them again and adds nodes while flows buy, and measures the effect.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_client::{Client, ClusterStatus, NodeStatus, PlaceStatus};
use boxoffice_wire::cluster::node_of;
use boxoffice_workload::history::Span;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::{
    LoadError,
    connection_pool::ConnectionPool,
    flow::{Flow, FlowOutcome, OUTCOME_UNKNOWN},
    measure,
    node_controller::NodeController,
    report::{Added, Distribution, Kill, Latency, Outages},
    run_context::RunContext,
    scenario::FaultSpec,
};

/// The pause between two checks of a condition.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// The deadline of a node's answer about its status.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// How long after a kill the report looks at flows, in microseconds.
const AFTERMATH_US: u64 = 5_000_000;
/// Clients may send requests to a killed node this long after the kill, in microseconds.
const NOTICE_US: u64 = 250_000;

/// The fewest nodes that have a majority without one of them.
const NODES_MIN: usize = 3;

/// The faults that were injected. Times are microseconds since the run's start.
#[derive(Default)]
pub(crate) struct FaultLog {
    kills: Vec<KillRecord>,
    added: Option<Added>,
    problems: Vec<String>,
}

struct KillRecord {
    node: String,
    at_us: u64,
    led: BTreeSet<u16>,
    recovered_us: Option<u64>,
    up_us: Option<u64>,
    caught_up_us: Option<u64>,
}

/// Injects the scenario's faults.
pub(crate) struct FaultInjector<'a> {
    pub(crate) connections: &'a ConnectionPool,
    pub(crate) context: &'a RunContext,
    pub(crate) node_controller: Arc<dyn NodeController>,
    pub(crate) spec: &'a FaultSpec,
}

impl FaultInjector<'_> {
    /// Injects all faults of the scenario.
    pub(crate) async fn run(&self) -> Result<FaultLog, LoadError> {
        let addresses = self.connections.addresses();
        let mut log = FaultLog::default();
        if addresses.len() < NODES_MIN {
            let why = format!("a cluster of {} nodes cannot lose a node; start at least {NODES_MIN}", addresses.len());
            return Err(LoadError::Setup { what: "faults", why });
        }
        let nodes = self.connections.connect_each_node().await?;
        if self.spec.kills > 0 {
            self.kill_repeatedly(&nodes, &mut log).await;
            self.context.stop_arrivals.store(true, Ordering::Relaxed);
            return Ok(log);
        }
        let kill = async {
            let mut log = FaultLog::default();
            if let Some(at_ms) = self.spec.kill_at_ms {
                self.kill_once(&nodes, at_ms, &mut log).await;
            }
            log
        };
        let add = async {
            match self.spec.add_at_ms {
                Some(at_ms) => self.add(at_ms).await.map(Some),
                None => Ok(None),
            }
        };
        let (killed, added) = tokio::join!(kill, add);
        log = killed;
        match added {
            Ok(added) => log.added = added,
            Err(problem) => log.problems.push(problem),
        }
        Ok(log)
    }

    async fn kill_once(&self, nodes: &[Client], at_ms: u64, log: &mut FaultLog) {
        if !self.wait_until(at_ms).await {
            log.problems.push("the flows ended before the time of the kill".into());
            return;
        }
        let victim = SmallRng::seed_from_u64(self.context.run_seed.seed).random_range(0..nodes.len());
        let Some(mut killed) = self.kill(nodes, victim, log).await else { return };
        let restart = killed.at_us + self.spec.restart_after_ms * 1_000;
        let started = async {
            self.wait_until(restart / 1_000).await;
            self.start(nodes, victim).await
        };
        let (recovered_us, started) = tokio::join!(self.wait_until_recovered(killed.at_us), started);
        killed.recovered_us = recovered_us;
        self.note_start(&mut killed, started, log);
        if recovered_us.is_none() && !self.context.flows_ended.load(Ordering::Relaxed) {
            log.problems.push(format!("a shard granted nothing after node {} was killed", killed.node));
        }
        log.kills.push(killed);
    }

    async fn kill_repeatedly(&self, nodes: &[Client], log: &mut FaultLog) {
        let mut random = SmallRng::seed_from_u64(self.context.run_seed.seed);
        // The load starts before the first kill.
        tokio::time::sleep(Duration::from_millis(self.spec.pause_ms)).await;
        for number in 1..=self.spec.kills {
            let victim = random.random_range(0..nodes.len());
            let Some(mut killed) = self.kill(nodes, victim, log).await else { return };
            killed.recovered_us = self.wait_until_recovered(killed.at_us).await;
            if killed.recovered_us.is_none() {
                log.problems
                    .push(format!("kill {number}: a shard granted nothing after node {} was killed", killed.node));
            }
            let started = self.start(nodes, victim).await;
            self.note_start(&mut killed, started, log);
            log.kills.push(killed);
            if !log.problems.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(self.spec.pause_ms)).await;
            if self.context.flows_ended.load(Ordering::Relaxed) && number < self.spec.kills {
                log.problems.push(format!("the flows ended after {number} kills"));
                return;
            }
        }
    }

    /// Kills a node or tells it to stop. Before that, it asks the node which shards it leads.
    async fn kill(&self, nodes: &[Client], victim: usize, log: &mut FaultLog) -> Option<KillRecord> {
        let Some(status) = status(&nodes[victim]).await else {
            log.problems.push(format!("node {} did not report which shards it leads before its kill", victim + 1));
            return None;
        };
        let led = status.shards.iter().filter(|shard| shard.role == "leader" && shard.shard > 0);
        let led = led.filter_map(|shard| u16::try_from(shard.shard).ok()).collect();
        let at_us = self.context.now_us();
        let (node_controller, gently) = (Arc::clone(&self.node_controller), self.spec.gently);
        let ended = tokio::task::spawn_blocking(move || {
            if gently { node_controller.stop(victim) } else { node_controller.kill(victim) }
        });
        if let Err(problem) = ended.await.unwrap_or_else(|_| Err("the node controller panicked".to_owned())) {
            log.problems.push(problem);
            return None;
        }
        let node = status.node.to_string();
        Some(KillRecord { node, at_us, led, recovered_us: None, up_us: None, caught_up_us: None })
    }

    /// Waits until every shard granted a request that was sent after `from_us`, and returns that time. `None` if this
    /// did not happen.
    async fn wait_until_recovered(&self, from_us: u64) -> Option<u64> {
        let recovered = self.poll_until_some(|| async {
            match self.context.live_stats.every_shard_succeeded_since(from_us) {
                true => Some(Some(self.context.now_us())),
                // All flows have ended, so no shard gets a request any more.
                false => self.context.flows_ended.load(Ordering::Relaxed).then_some(None),
            }
        });
        recovered.await.flatten()
    }

    /// Starts a node again. Returns when it served, and when it had caught up with the other nodes' state at that time.
    async fn start(&self, nodes: &[Client], victim: usize) -> Result<(u64, Option<u64>), String> {
        let node_controller = Arc::clone(&self.node_controller);
        let started = tokio::task::spawn_blocking(move || node_controller.start(victim)).await;
        started.map_err(|_| "the node controller panicked".to_owned())??;
        let up_us = self.context.now_us();
        // The highest applied index of each shard on the other nodes.
        let mut targets: BTreeMap<u32, u64> = BTreeMap::new();
        for (number, node) in nodes.iter().enumerate() {
            if number == victim {
                continue;
            }
            for shard in status(node).await.into_iter().flat_map(|status| status.shards) {
                let furthest = targets.entry(shard.shard).or_default();
                *furthest = shard.applied.max(*furthest);
            }
        }
        let caught_up = self.poll_until_some(|| async {
            let status = status(&nodes[victim]).await?;
            let behind = status.shards.iter().filter(|shard| shard.role != "none");
            let behind =
                behind.filter(|shard| targets.get(&shard.shard).is_some_and(|target| shard.applied < *target)).count();
            (behind == 0 && status.state == "ready").then(|| self.context.now_us())
        });
        Ok((up_us, caught_up.await))
    }

    fn note_start(&self, killed: &mut KillRecord, started: Result<(u64, Option<u64>), String>, log: &mut FaultLog) {
        match started {
            Ok((up_us, caught_up_us)) => (killed.up_us, killed.caught_up_us) = (Some(up_us), caught_up_us),
            Err(problem) => log.problems.push(format!("node {} did not start again: {problem}", killed.node)),
        }
        if killed.up_us.is_some() && killed.caught_up_us.is_none() {
            log.problems.push(format!("node {} did not catch up with the others", killed.node));
        }
    }

    /// Adds a node, and waits until no shard moves any more.
    async fn add(&self, at_ms: u64) -> Result<Added, String> {
        if !self.wait_until(at_ms).await {
            return Err("the flows ended before the time at which a node joins".into());
        }
        let at_us = self.context.now_us();
        let node_controller = Arc::clone(&self.node_controller);
        let added = tokio::task::spawn_blocking(move || node_controller.add()).await;
        let address = added.map_err(|_| "the node controller panicked".to_owned())??;
        let up_us = self.context.now_us();
        self.connections.add_address(address.clone());
        let placed = self.poll_until_some(|| async {
            let cluster = self.connections.client().with_deadline(ASK_LIMIT).nodes().await.ok()?.value;
            let own = cluster.members.iter().find(|member| member.client == address)?.node;
            let votes = cluster.places.iter().filter(|place| place.shard > 0 && is_voter(place, own)).count() as u32;
            (votes > 0 && has_no_moves(&cluster)).then(|| (self.context.now_us(), votes))
        });
        let placed = placed.await;
        let since = |us: u64| us.saturating_sub(at_us) as f64 / 1_000.0;
        Ok(Added {
            address,
            at_s: at_us as f64 / 1e6,
            up_ms: since(up_us),
            settled_ms: placed.map(|(us, _)| since(us)),
            votes: placed.map_or(0, |(_, votes)| votes),
        })
    }

    /// Waits for this time of the run. Returns whether flows are still under way then.
    async fn wait_until(&self, at_ms: u64) -> bool {
        while self.context.now_us() < at_ms * 1_000 {
            if self.context.flows_ended.load(Ordering::Relaxed) {
                return false;
            }
            tokio::time::sleep(POLL_EVERY.min(Duration::from_millis(5))).await;
        }
        !self.context.flows_ended.load(Ordering::Relaxed)
    }

    /// Polls until there is a result or the scenario's patience ends.
    async fn poll_until_some<T, F: Future<Output = Option<T>>>(&self, look: impl Fn() -> F) -> Option<T> {
        let patience = Duration::from_millis(self.spec.patience_ms);
        let looking = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(POLL_EVERY).await;
            }
        };
        tokio::time::timeout(patience, looking).await.ok()
    }
}

async fn status(node: &Client) -> Option<NodeStatus> {
    node.with_deadline(ASK_LIMIT).status().await.ok().map(|reply| reply.value)
}

/// Whether no shard is moving to another node.
fn has_no_moves(cluster: &ClusterStatus) -> bool {
    cluster.places.iter().all(|place| place.from.is_none())
}

fn is_voter(place: &PlaceStatus, node: u64) -> bool {
    place.voters.iter().any(|replica| node_of(replica) == Some(node))
}

/// The effect of the faults on the flows.
pub(crate) fn report(log: FaultLog, connections: &ConnectionPool, context: &RunContext, flows: &[Flow]) -> Outages {
    let successes = context.live_stats.take();
    let end_us = flows.iter().map(|flow| flow.ended_us).max().unwrap_or(0);
    let begins: Vec<u64> = log.kills.iter().map(|kill| kill.at_us).collect();
    let mut all = OutageTimes::default();
    let mut kills = Vec::new();
    for (number, killed) in log.kills.iter().enumerate() {
        let next = begins.get(number + 1).copied().unwrap_or(u64::MAX);
        let last = number.checked_sub(1).map_or(0, |last| begins[last] + NOTICE_US);
        let until_us = killed
            .recovered_us
            .map_or(end_us, |recovered| recovered.max(killed.at_us + AFTERMATH_US))
            .min(next)
            .min(end_us);
        let mut times = OutageTimes::default();
        for (shard, successes) in (1..).zip(&successes) {
            times.add(killed.led.contains(&shard), successes, killed.at_us, until_us);
        }
        let in_doubt = in_doubt(flows, last, killed.at_us);
        kills.push(Kill { in_doubt, ..kill(killed, &times, context, flows, until_us) });
        all.led_next.extend(times.led_next);
        all.led_gap.extend(times.led_gap);
        all.others_next.extend(times.others_next);
        all.others_gap.extend(times.others_gap);
    }
    Outages {
        shards: context.live_stats.shards(),
        gaps: Distribution::of(successes.iter().map(|successes| longest_gap(successes, 0, end_us)).collect()),
        repeats: connections.repeats(),
        kills,
        led_next: Distribution::of(all.led_next),
        led_gap: Distribution::of(all.led_gap),
        others_next: Distribution::of(all.others_next),
        others_gap: Distribution::of(all.others_gap),
        added: log.added,
        problems: log.problems,
    }
}

/// How long shards granted nothing around one kill, in microseconds.
#[derive(Default)]
struct OutageTimes {
    led_next: Vec<u64>,
    led_gap: Vec<u64>,
    others_next: Vec<u64>,
    others_gap: Vec<u64>,
}

impl OutageTimes {
    fn add(&mut self, led: bool, successes: &[Span], at_us: u64, until_us: u64) {
        let (next, gap) = match led {
            true => (&mut self.led_next, &mut self.led_gap),
            false => (&mut self.others_next, &mut self.others_gap),
        };
        let first =
            successes.iter().find(|success| success.called_us >= at_us).map_or(until_us, |success| success.returned_us);
        next.push(first.saturating_sub(at_us));
        gap.push(longest_gap(successes, at_us, until_us));
    }
}

/// The longest time between two successes. It counts intervals that overlap the window. An end of the window counts as
/// a success where there is none beyond it.
fn longest_gap(successes: &[Span], from_us: u64, until_us: u64) -> u64 {
    let first = successes.partition_point(|success| success.returned_us <= from_us);
    let mut last_us = first.checked_sub(1).map_or(from_us, |before| successes[before].returned_us);
    let mut longest = 0;
    for success in &successes[first..] {
        longest = longest.max(success.returned_us - last_us);
        last_us = success.returned_us;
        if last_us >= until_us {
            return longest;
        }
    }
    longest.max(until_us.saturating_sub(last_us))
}

/// Flows that were under way at this kill, but not yet at the last one, and ended without a known outcome. A refused
/// repeat does not prove that the first request failed, because the killed node may have passed it on.
fn in_doubt(flows: &[Flow], last_us: u64, at_us: u64) -> u64 {
    let under_way = |flow: &&Flow| (last_us..at_us + NOTICE_US).contains(&flow.started_us) && flow.ended_us >= at_us;
    let unknown = |flow: &&Flow| matches!(&flow.outcome, FlowOutcome::Failed(why) if **why == *OUTCOME_UNKNOWN);
    flows.iter().filter(under_way).filter(unknown).count() as u64
}

fn kill(killed: &KillRecord, times: &OutageTimes, context: &RunContext, flows: &[Flow], until_us: u64) -> Kill {
    let since = |us: Option<u64>| us.map(|us| us.saturating_sub(killed.at_us) as f64 / 1_000.0);
    // Flows that were under way at the kill count as well.
    let around_kill = |flow: &&Flow| flow.intended_us <= until_us && flow.ended_us >= killed.at_us;
    let around: Vec<&Flow> = flows.iter().filter(around_kill).collect();
    let counts = measure::flows(around.len() as u64, around.iter().copied());
    let bought = around.iter().filter(|flow| flow.outcome == FlowOutcome::Done);
    let mut bought_us: Vec<u64> = bought.map(|flow| flow.latency_us()).collect();
    let used_led = |flow: &Flow| flow.shards(context).iter().any(|shard| killed.led.contains(shard));
    let failed = around.iter().filter(|flow| matches!(flow.outcome, FlowOutcome::Failed(_)));
    let failed_elsewhere = failed.filter(|flow| !used_led(flow)).count() as u64;
    Kill {
        node: killed.node.clone(),
        at_s: killed.at_us as f64 / 1e6,
        led: killed.led.len() as u32,
        led_next: Distribution::of(times.led_next.clone()),
        led_gap: Distribution::of(times.led_gap.clone()),
        others_next: Distribution::of(times.others_next.clone()),
        others_gap: Distribution::of(times.others_gap.clone()),
        whole_ms: since(killed.recovered_us),
        up_ms: since(killed.up_us),
        caught_up_ms: since(killed.caught_up_us),
        around: Latency::of(&mut bought_us),
        refused: counts.refused_all(),
        failed: counts.failed,
        failed_elsewhere,
        in_doubt: 0,
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::CartId;
    use boxoffice_workload::history::CartRecord;

    use super::*;

    fn successes(returned_ms: &[u64]) -> Vec<Span> {
        returned_ms.iter().map(|ms| Span { called_us: ms * 1_000 - 500, returned_us: ms * 1_000 }).collect()
    }

    #[test]
    fn a_gap_counts_if_it_overlaps_the_window() {
        let successes = successes(&[10, 90, 100, 700, 710, 2_000]);
        assert_eq!(longest_gap(&successes, 105_000, 720_000), 1_290_000, "the last one reaches beyond the end");
        assert_eq!(longest_gap(&successes, 105_000, 705_000), 600_000);
        assert_eq!(longest_gap(&successes, 2_000_000, 2_500_000), 500_000, "there is no later success");
        assert_eq!(longest_gap(&[], 5, 25), 20);
    }

    #[test]
    fn the_next_success_was_requested_after_the_kill() {
        let mut times = OutageTimes::default();
        // The first success was requested before the kill at 100 ms and answered after it. The second one was requested
        // later.
        let spans =
            [Span { called_us: 90_000, returned_us: 101_000 }, Span { called_us: 300_000, returned_us: 800_000 }];
        times.add(true, &spans, 100_000, 2_000_000);
        assert_eq!((times.led_next, times.led_gap), (vec![700_000], vec![1_200_000]));
        assert!(times.others_next.is_empty());
    }

    #[test]
    fn a_kill_leaves_only_flows_under_way_in_doubt() {
        let flow = |started_us, ended_us, why: &str| {
            let flow = Flow::new(started_us, started_us, CartRecord::new(CartId(1)));
            Flow { ended_us, outcome: FlowOutcome::Failed(why.into()), ..flow }
        };
        let kill_us = 1_000_000;
        let count = |flow| in_doubt(&[flow], 0, kill_us);
        assert_eq!(count(flow(999_000, 11_000_000, OUTCOME_UNKNOWN)), 1);
        assert_eq!(count(flow(kill_us + NOTICE_US - 1, 11_000_000, OUTCOME_UNKNOWN)), 1);
        assert_eq!(count(flow(kill_us + NOTICE_US, 11_000_000, OUTCOME_UNKNOWN)), 0, "it began too late");
        assert_eq!(count(flow(1_000, 999_000, OUTCOME_UNKNOWN)), 0, "it had ended before the kill");
        assert_eq!(count(flow(999_000, 11_000_000, "busy")), 0, "its failure is certain");
        let flow = flow(999_000, 11_000_000, OUTCOME_UNKNOWN);
        assert_eq!(in_doubt(&[flow], kill_us + NOTICE_US, 5_000_000), 0, "it counts for the first kill");
    }
}

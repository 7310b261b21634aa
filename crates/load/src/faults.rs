//! Faults: nodes that are killed, started again and added while flows buy, and what that cost.

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
    counter::Counter,
    flow::{End, Flow, UNKNOWN},
    keeper::Keeper,
    plan::Plan,
    report::{Added, Kill, Latency, Outages, Spread},
    scenario::FaultSpec,
};

/// How often it is looked whether something has come about.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a node may take to say how it is.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// How long after a kill flows are looked at, in microseconds.
const AROUND_US: u64 = 5_000_000;
/// What begins so many microseconds after a kill may still be sent to the killed node.
const NOTICED_US: u64 = 250_000;

/// Fewer nodes have no majority without one.
const NODES_MIN: usize = 3;

/// What was done, and when; times are microseconds since the run's start.
#[derive(Default)]
pub(crate) struct Done {
    kills: Vec<Killed>,
    added: Option<Added>,
    problems: Vec<String>,
}

/// One kill.
struct Killed {
    node: String,
    at_us: u64,
    led: BTreeSet<u16>,
    whole_us: Option<u64>,
    up_us: Option<u64>,
    caught_up_us: Option<u64>,
}

/// Whoever does it all.
pub(crate) struct Faults<'a> {
    pub(crate) counter: &'a Counter,
    pub(crate) plan: &'a Plan,
    pub(crate) keeper: Arc<dyn Keeper>,
    pub(crate) spec: &'a FaultSpec,
}

impl Faults<'_> {
    /// Does everything the scenario wants, and says what became of it.
    pub(crate) async fn run(&self) -> Result<Done, LoadError> {
        let addresses = self.counter.addresses();
        let mut done = Done::default();
        if addresses.len() < NODES_MIN {
            let why = format!("{} nodes are no cluster that can lose one; take at least {NODES_MIN}", addresses.len());
            return Err(LoadError::Setup { what: "faults", why });
        }
        let nodes = self.counter.each_node().await?;
        if self.spec.kills > 0 {
            self.kill_in_a_row(&nodes, &mut done).await;
            self.plan.stop.store(true, Ordering::Relaxed);
            return Ok(done);
        }
        let kill = async {
            let mut done = Done::default();
            if let Some(at_ms) = self.spec.kill_at_ms {
                self.kill_once(&nodes, at_ms, &mut done).await;
            }
            done
        };
        let add = async {
            match self.spec.add_at_ms {
                Some(at_ms) => self.add(at_ms).await.map(Some),
                None => Ok(None),
            }
        };
        let (killed, added) = tokio::join!(kill, add);
        done = killed;
        match added {
            Ok(added) => done.added = added,
            Err(problem) => done.problems.push(problem),
        }
        Ok(done)
    }

    async fn kill_once(&self, nodes: &[Client], at_ms: u64, done: &mut Done) {
        if !self.until(at_ms).await {
            done.problems.push("the flows ended before the node was to be killed".into());
            return;
        }
        let victim = SmallRng::seed_from_u64(self.plan.run_seed.seed).random_range(0..nodes.len());
        let Some(mut killed) = self.kill(nodes, victim, done).await else { return };
        let restart = killed.at_us + self.spec.restart_after_ms * 1_000;
        let started = async {
            self.until(restart / 1_000).await;
            self.start(nodes, victim).await
        };
        let (whole_us, started) = tokio::join!(self.whole(killed.at_us), started);
        killed.whole_us = whole_us;
        self.note_start(&mut killed, started, done);
        if whole_us.is_none() && !self.plan.over.load(Ordering::Relaxed) {
            done.problems.push(format!("some shard did nothing any more after node {} was killed", killed.node));
        }
        done.kills.push(killed);
    }

    async fn kill_in_a_row(&self, nodes: &[Client], done: &mut Done) {
        let mut random = SmallRng::seed_from_u64(self.plan.run_seed.seed);
        // The load gets going before the first one.
        tokio::time::sleep(Duration::from_millis(self.spec.pause_ms)).await;
        for number in 1..=self.spec.kills {
            let victim = random.random_range(0..nodes.len());
            let Some(mut killed) = self.kill(nodes, victim, done).await else { return };
            killed.whole_us = self.whole(killed.at_us).await;
            if killed.whole_us.is_none() {
                done.problems
                    .push(format!("kill {number}: some shard did nothing any more after node {}", killed.node));
            }
            let started = self.start(nodes, victim).await;
            self.note_start(&mut killed, started, done);
            done.kills.push(killed);
            if !done.problems.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(self.spec.pause_ms)).await;
            if self.plan.over.load(Ordering::Relaxed) && number < self.spec.kills {
                done.problems.push(format!("there were no more flows after {number} kills"));
                return;
            }
        }
    }

    /// Kills a node, or tells it to stop, having asked it what it leads.
    async fn kill(&self, nodes: &[Client], victim: usize, done: &mut Done) -> Option<Killed> {
        let Some(status) = status(&nodes[victim]).await else {
            done.problems.push(format!("node {} did not say what it leads before it was to be killed", victim + 1));
            return None;
        };
        let led = status.shards.iter().filter(|shard| shard.role == "leader" && shard.shard > 0);
        let led = led.filter_map(|shard| u16::try_from(shard.shard).ok()).collect();
        let at_us = self.plan.now_us();
        let (keeper, gently) = (Arc::clone(&self.keeper), self.spec.gently);
        let ended = tokio::task::spawn_blocking(move || if gently { keeper.stop(victim) } else { keeper.kill(victim) });
        if let Err(problem) = ended.await.unwrap_or_else(|_| Err("whoever ends nodes panicked".to_owned())) {
            done.problems.push(problem);
            return None;
        }
        let node = status.node.to_string();
        Some(Killed { node, at_us, led, whole_us: None, up_us: None, caught_up_us: None })
    }

    /// When every shard has done something that was asked for after this; `None` if that never came.
    async fn whole(&self, from_us: u64) -> Option<u64> {
        let whole = self.patiently(|| async {
            match self.plan.pulse.all_since(from_us) {
                true => Some(Some(self.plan.now_us())),
                // Nobody asks any more.
                false => self.plan.over.load(Ordering::Relaxed).then_some(None),
            }
        });
        whole.await.flatten()
    }

    /// Starts a node again; when it served, and when it had what the others had by then.
    async fn start(&self, nodes: &[Client], victim: usize) -> Result<(u64, Option<u64>), String> {
        let keeper = Arc::clone(&self.keeper);
        let started = tokio::task::spawn_blocking(move || keeper.start(victim)).await;
        started.map_err(|_| "whoever starts nodes panicked".to_owned())??;
        let up_us = self.plan.now_us();
        // How far every shard is where it is furthest.
        let mut aim: BTreeMap<u32, u64> = BTreeMap::new();
        for (number, node) in nodes.iter().enumerate() {
            if number == victim {
                continue;
            }
            for shard in status(node).await.into_iter().flat_map(|status| status.shards) {
                let furthest = aim.entry(shard.shard).or_default();
                *furthest = shard.applied.max(*furthest);
            }
        }
        let caught_up = self.patiently(|| async {
            let status = status(&nodes[victim]).await?;
            let behind = status.shards.iter().filter(|shard| shard.role != "none");
            let behind = behind.filter(|shard| aim.get(&shard.shard).is_some_and(|aim| shard.applied < *aim)).count();
            (behind == 0 && status.state == "ready").then(|| self.plan.now_us())
        });
        Ok((up_us, caught_up.await))
    }

    fn note_start(&self, killed: &mut Killed, started: Result<(u64, Option<u64>), String>, done: &mut Done) {
        match started {
            Ok((up_us, caught_up_us)) => (killed.up_us, killed.caught_up_us) = (Some(up_us), caught_up_us),
            Err(problem) => done.problems.push(format!("node {} did not start again: {problem}", killed.node)),
        }
        if killed.up_us.is_some() && killed.caught_up_us.is_none() {
            done.problems.push(format!("node {} did not catch up with the others", killed.node));
        }
    }

    /// Adds a node, and waits until nothing moves any more.
    async fn add(&self, at_ms: u64) -> Result<Added, String> {
        if !self.until(at_ms).await {
            return Err("the flows ended before the node was to be added".into());
        }
        let at_us = self.plan.now_us();
        let keeper = Arc::clone(&self.keeper);
        let added = tokio::task::spawn_blocking(move || keeper.add()).await;
        let address = added.map_err(|_| "whoever starts nodes panicked".to_owned())??;
        let up_us = self.plan.now_us();
        self.counter.add(address.clone());
        let settled = self.patiently(|| async {
            let cluster = self.counter.client().with_deadline(ASK_LIMIT).nodes().await.ok()?.value;
            let own = cluster.members.iter().find(|member| member.client == address)?.node;
            let votes = cluster.places.iter().filter(|place| place.shard > 0 && votes(place, own)).count() as u32;
            (votes > 0 && settled(&cluster)).then(|| (self.plan.now_us(), votes))
        });
        let settled = settled.await;
        let since = |us: u64| us.saturating_sub(at_us) as f64 / 1_000.0;
        Ok(Added {
            address,
            at_s: at_us as f64 / 1e6,
            up_ms: since(up_us),
            settled_ms: settled.map(|(us, _)| since(us)),
            votes: settled.map_or(0, |(_, votes)| votes),
        })
    }

    /// Waits for this time of the run; whether flows still begin or go on then.
    async fn until(&self, at_ms: u64) -> bool {
        while self.plan.now_us() < at_ms * 1_000 {
            if self.plan.over.load(Ordering::Relaxed) {
                return false;
            }
            tokio::time::sleep(LOOK_EVERY.min(Duration::from_millis(5))).await;
        }
        !self.plan.over.load(Ordering::Relaxed)
    }

    /// Looks again and again until there is something, or patience is over.
    async fn patiently<T, F: Future<Output = Option<T>>>(&self, look: impl Fn() -> F) -> Option<T> {
        let patience = Duration::from_millis(self.spec.patience_ms);
        let looking = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(patience, looking).await.ok()
    }
}

async fn status(node: &Client) -> Option<NodeStatus> {
    node.with_deadline(ASK_LIMIT).status().await.ok().map(|reply| reply.value)
}

/// Whether nothing is on its way to another place.
pub(crate) fn settled(cluster: &ClusterStatus) -> bool {
    cluster.places.iter().all(|place| place.from.is_none())
}

fn votes(place: &PlaceStatus, node: u64) -> bool {
    place.voters.iter().any(|replica| node_of(replica) == Some(node))
}

/// What all of that cost the flows.
pub(crate) fn report(done: Done, counter: &Counter, plan: &Plan, flows: &[Flow]) -> Outages {
    let beats = plan.pulse.take();
    let end_us = flows.iter().map(|flow| flow.ended_us).max().unwrap_or(0);
    let begins: Vec<u64> = done.kills.iter().map(|kill| kill.at_us).collect();
    let mut all = Times::default();
    let mut kills = Vec::new();
    for (number, killed) in done.kills.iter().enumerate() {
        let next = begins.get(number + 1).copied().unwrap_or(u64::MAX);
        let last = number.checked_sub(1).map_or(0, |last| begins[last] + NOTICED_US);
        let until_us =
            killed.whole_us.map_or(end_us, |whole| whole.max(killed.at_us + AROUND_US)).min(next).min(end_us);
        let mut times = Times::default();
        for (shard, beats) in (1..).zip(&beats) {
            times.add(killed.led.contains(&shard), beats, killed.at_us, until_us);
        }
        let in_doubt = in_doubt(flows, last, killed.at_us);
        kills.push(Kill { in_doubt, ..kill(killed, &times, plan, flows, until_us) });
        all.led_next.extend(times.led_next);
        all.led_gap.extend(times.led_gap);
        all.others_next.extend(times.others_next);
        all.others_gap.extend(times.others_gap);
    }
    Outages {
        shards: plan.pulse.shards(),
        gaps: Spread::of(beats.iter().map(|beats| longest_gap(beats, 0, end_us)).collect()),
        repeats: counter.repeats(),
        kills,
        led_next: Spread::of(all.led_next),
        led_gap: Spread::of(all.led_gap),
        others_next: Spread::of(all.others_next),
        others_gap: Spread::of(all.others_gap),
        added: done.added,
        problems: done.problems,
    }
}

/// How long shards did nothing around one kill, in microseconds.
#[derive(Default)]
struct Times {
    led_next: Vec<u64>,
    led_gap: Vec<u64>,
    others_next: Vec<u64>,
    others_gap: Vec<u64>,
}

impl Times {
    fn add(&mut self, led: bool, beats: &[Span], at_us: u64, until_us: u64) {
        let (next, gap) = match led {
            true => (&mut self.led_next, &mut self.led_gap),
            false => (&mut self.others_next, &mut self.others_gap),
        };
        let first = beats.iter().find(|beat| beat.called_us >= at_us).map_or(until_us, |beat| beat.returned_us);
        next.push(first.saturating_sub(at_us));
        gap.push(longest_gap(beats, at_us, until_us));
    }
}

/// The longest time between two successes, of those that reach into this time; its ends count as successes where there is
/// none beyond them.
fn longest_gap(beats: &[Span], from_us: u64, until_us: u64) -> u64 {
    let first = beats.partition_point(|beat| beat.returned_us <= from_us);
    let mut last_us = first.checked_sub(1).map_or(from_us, |before| beats[before].returned_us);
    let mut longest = 0;
    for beat in &beats[first..] {
        longest = longest.max(beat.returned_us - last_us);
        last_us = beat.returned_us;
        if last_us >= until_us {
            return longest;
        }
    }
    longest.max(until_us.saturating_sub(last_us))
}

/// Flows that were under way at this kill and not yet at the last one, and ended without anybody knowing their outcome: a
/// refused repeat is not the last word on a request that the killed node may have passed on.
fn in_doubt(flows: &[Flow], last_us: u64, at_us: u64) -> u64 {
    let under_way = |flow: &&Flow| (last_us..at_us + NOTICED_US).contains(&flow.started_us) && flow.ended_us >= at_us;
    let unknown = |flow: &&Flow| matches!(&flow.end, End::Failed(why) if **why == *UNKNOWN);
    flows.iter().filter(under_way).filter(unknown).count() as u64
}

fn kill(killed: &Killed, times: &Times, plan: &Plan, flows: &[Flow], until_us: u64) -> Kill {
    let since = |us: Option<u64>| us.map(|us| us.saturating_sub(killed.at_us) as f64 / 1_000.0);
    // What was under way when it happened counts as well.
    let meant = |flow: &&Flow| flow.intended_us <= until_us && flow.ended_us >= killed.at_us;
    let mut bought: Vec<u64> = flows
        .iter()
        .filter(meant)
        .filter(|flow| flow.end == End::Done)
        .map(|flow| flow.ended_us.saturating_sub(flow.intended_us))
        .collect();
    let (mut refused, mut failed, mut failed_elsewhere) = (0, BTreeMap::new(), 0);
    for flow in flows.iter().filter(meant) {
        match &flow.end {
            End::Done | End::Abandoned => {}
            End::Refused(_) => refused += 1,
            End::Failed(why) => {
                *failed.entry(why.to_string()).or_default() += 1;
                let touched = plan.pulse.shards_of(plan, flow);
                failed_elsewhere += u64::from(!touched.iter().any(|shard| killed.led.contains(shard)));
            }
        }
    }
    Kill {
        node: killed.node.clone(),
        at_s: killed.at_us as f64 / 1e6,
        led: killed.led.len() as u32,
        led_next: Spread::of(times.led_next.clone()),
        led_gap: Spread::of(times.led_gap.clone()),
        others_next: Spread::of(times.others_next.clone()),
        others_gap: Spread::of(times.others_gap.clone()),
        whole_ms: since(killed.whole_us),
        up_ms: since(killed.up_us),
        caught_up_ms: since(killed.caught_up_us),
        around: Latency::of(&mut bought),
        refused,
        failed,
        failed_elsewhere,
        in_doubt: 0,
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::CartId;
    use boxoffice_workload::history::CartRecord;

    use super::*;

    fn beats(returned_ms: &[u64]) -> Vec<Span> {
        returned_ms.iter().map(|ms| Span { called_us: ms * 1_000 - 500, returned_us: ms * 1_000 }).collect()
    }

    #[test]
    fn a_gap_reaches_into_the_time_that_is_looked_at() {
        let beats = beats(&[10, 90, 100, 700, 710, 2_000]);
        assert_eq!(longest_gap(&beats, 105_000, 720_000), 1_290_000, "the last one reaches beyond the end");
        assert_eq!(longest_gap(&beats, 105_000, 705_000), 600_000);
        assert_eq!(longest_gap(&beats, 2_000_000, 2_500_000), 500_000, "nothing came any more");
        assert_eq!(longest_gap(&[], 5, 25), 20);
    }

    #[test]
    fn the_next_success_is_one_that_was_asked_for_after_the_kill() {
        let mut times = Times::default();
        // Asked for before the kill at 100 ms and answered after it; then one that was asked for later.
        let spans =
            [Span { called_us: 90_000, returned_us: 101_000 }, Span { called_us: 300_000, returned_us: 800_000 }];
        times.add(true, &spans, 100_000, 2_000_000);
        assert_eq!((times.led_next, times.led_gap), (vec![700_000], vec![1_200_000]));
        assert!(times.others_next.is_empty());
    }

    #[test]
    fn only_what_was_under_way_at_a_kill_is_left_in_doubt_by_it() {
        let flow = |started_us, ended_us, why: &str| {
            let flow = Flow::new(started_us, started_us, CartRecord::new(CartId(1)));
            Flow { ended_us, end: End::Failed(why.into()), ..flow }
        };
        let kill_us = 1_000_000;
        let count = |flow| in_doubt(&[flow], 0, kill_us);
        assert_eq!(count(flow(999_000, 11_000_000, UNKNOWN)), 1);
        assert_eq!(count(flow(kill_us + NOTICED_US - 1, 11_000_000, UNKNOWN)), 1);
        assert_eq!(count(flow(kill_us + NOTICED_US, 11_000_000, UNKNOWN)), 0, "it began too late");
        assert_eq!(count(flow(1_000, 999_000, UNKNOWN)), 0, "it had ended");
        assert_eq!(count(flow(999_000, 11_000_000, "busy")), 0, "it knows that it failed");
        let flow = flow(999_000, 11_000_000, UNKNOWN);
        assert_eq!(in_doubt(&[flow], kill_us + NOTICED_US, 5_000_000), 0, "it counts for the first kill");
    }
}

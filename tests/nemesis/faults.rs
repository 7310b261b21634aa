//! The faults of a run, and their ends.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    cluster::{Cluster, LinkFault},
    common::{Buyers, Faults as Disk, Gateway, Rng},
};

/// The name of the clock fault.
pub(crate) const CLOCK: &str = "wrong clock";

/// A fault. With the fault library a kill is a power cut.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A node loses power.
    PowerCut(u64),
    /// All nodes lose power.
    AllPowerCut,
    /// A node loses power within a record, after this many bytes.
    TornRecord(u64, u32),
    /// A node receives SIGTERM.
    Restart(u64),
    /// A node is paused and resumed.
    Pause(u64),
    /// A node's disk is full.
    FullDisk(u64),
    /// A node's syncs take this many milliseconds longer.
    SlowDisk(u64, u32),
    /// One direction of a link between two nodes is faulty.
    OneWay(u64, u64, LinkFault),
    /// Both directions of a link between two nodes are faulty.
    Between(u64, u64, LinkFault),
    /// All links of a node are faulty.
    Alone(u64, LinkFault),
    /// All links are faulty.
    AllAlone(LinkFault),
    /// Connections between two nodes are reset after this many more bytes.
    Torn(u64, u64, u64),
    /// A byte between two nodes is corrupted.
    Corrupt(u64, u64),
    /// All nodes hear this one. The other nodes hear only nodes on their own side.
    Bridge(u64),
    /// A node's syncs fail.
    FailedSync(u64),
    /// A node's clock is this many seconds off.
    Clock(u64, i64),
    /// A node's disk is lost and replaced.
    LostDisk(u64),
    /// A new node joins, and this one is drained.
    Relief(u64),
    /// The payment gateway is paused.
    Gateway,
    /// A node's disk is copied while the node is off. Later the copy replaces the disk.
    OldCopy(u64),
}

/// Offsets of a wrong clock, in seconds. One clock is wrong at a time. A hold lives for half an hour, and none may expire because
/// of a wrong clock, even if no other node is left to contradict it.
const CLOCKS: [i64; 6] = [-3_600, -300, -2, 2, 60, 300];

impl Fault {
    /// Draws a fault. `all` should be running. Long faults only with `long`.
    fn drawn(rng: &mut Rng, running: &[u64], all: &[u64], long: bool) -> Fault {
        let node = running[rng.below(running.len())];
        let place = rng.below(all.len());
        let from = all[place];
        let to = all[(place + 1 + rng.below(all.len() - 1)) % all.len()];
        let delay = if rng.percent(15) { 5_000 } else { 20 + small_number(rng, 4_000) };
        let slow = LinkFault::Slow(Duration::from_millis(delay));
        let quiet = if rng.percent(50) { LinkFault::Silent } else { LinkFault::Cut };
        let bad = [quiet, quiet, slow, LinkFault::Trickle][rng.below(4)];
        let whole = if long { 150 } else { 132 };
        match rng.below(whole) {
            0..12 => Fault::PowerCut(node),
            12..16 => Fault::AllPowerCut,
            16..21 => Fault::TornRecord(node, rng.below(200) as u32),
            21..27 => Fault::Restart(node),
            27..38 => Fault::Pause(node),
            38..43 => Fault::FullDisk(node),
            43..48 => Fault::SlowDisk(node, 50 + rng.below(400) as u32),
            48..60 => Fault::OneWay(from, to, bad),
            60..72 => Fault::Between(from, to, bad),
            72..84 => Fault::Alone(from, bad),
            84..87 => Fault::AllAlone(quiet),
            87..94 => Fault::Torn(from, to, 1 + rng.below(2_000) as u64),
            94..100 => Fault::Corrupt(from, to),
            100..108 => Fault::Bridge(from),
            108..114 => Fault::FailedSync(node),
            114..125 => Fault::Clock(node, CLOCKS[rng.below(CLOCKS.len())]),
            125..132 => Fault::Gateway,
            132..138 => Fault::LostDisk(node),
            138..145 => Fault::OldCopy(node),
            _ => Fault::Relief(node),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Fault::PowerCut(_) => "power cut",
            Fault::AllPowerCut => "power cut of all",
            Fault::TornRecord(..) => "torn record",
            Fault::Restart(_) => "restart",
            Fault::Pause(_) => "pause",
            Fault::FullDisk(_) => "full disk",
            Fault::SlowDisk(..) => "slow disk",
            Fault::OneWay(..) => "bad way",
            Fault::Between(..) => "bad link",
            Fault::Alone(..) => "bad links of a node",
            Fault::AllAlone(_) => "bad links everywhere",
            Fault::Torn(..) => "torn connection",
            Fault::Corrupt(..) => "changed byte",
            Fault::Bridge(_) => "bridge",
            Fault::FailedSync(_) => "failed sync",
            Fault::Clock(..) => CLOCK,
            Fault::LostDisk(_) => "lost disk",
            Fault::Relief(_) => "relief",
            Fault::Gateway => "paused gateway",
            Fault::OldCopy(_) => "old copy",
        }
    }

    async fn strike(self, cluster: &mut Cluster) {
        let all = cluster.expected_nodes();
        match self {
            Fault::PowerCut(node) => cluster.kill(node),
            Fault::AllPowerCut => cluster.running().into_iter().for_each(|node| cluster.kill(node)),
            Fault::TornRecord(node, bytes) => cluster.fault(node, Disk::Torn(bytes)),
            Fault::Restart(node) => cluster.terminate_or_lose_power(node),
            Fault::Pause(node) => cluster.pause(node),
            Fault::FullDisk(node) => cluster.fault(node, Disk::NoSpace),
            Fault::SlowDisk(node, ms) => cluster.fault(node, Disk::SlowSync(ms)),
            Fault::OneWay(from, to, fault) => cluster.links.set(from, to, fault),
            Fault::Between(one, other, fault) => cluster.links.both(one, other, fault),
            Fault::Alone(node, fault) => cluster.links.around(node, fault),
            Fault::AllAlone(fault) => cluster.links.everywhere(fault),
            Fault::Torn(from, to, bytes) => cluster.links.tear(from, to, bytes),
            Fault::Corrupt(from, to) => cluster.links.corrupt(from, to),
            Fault::Bridge(middle) => {
                let sides: Vec<u64> = all.into_iter().filter(|node| *node != middle).collect();
                let (one, other) = sides.split_at(sides.len() / 2);
                for (one, other) in one.iter().flat_map(|one| other.iter().map(move |other| (*one, *other))) {
                    cluster.links.both(one, other, LinkFault::Cut);
                }
            }
            Fault::FailedSync(node) => cluster.fault(node, Disk::SyncFails),
            Fault::Clock(node, seconds) => {
                all.into_iter().for_each(|node| cluster.set_clock(node, 0));
                cluster.set_clock(node, seconds);
            }
            Fault::LostDisk(node) => lose_disk(cluster, node).await,
            Fault::Relief(node) => replace_node(cluster, node).await,
            Fault::Gateway => cluster.gateway.iter().for_each(Gateway::pause),
            Fault::OldCopy(node) => copy_or_put_back(cluster, node).await,
        }
    }
}

/// The settings of the faults of a round.
pub(crate) struct Faults {
    pub(crate) time: Duration,
    /// Whether long faults may be drawn.
    pub(crate) long: bool,
    /// Whether clocks may be set.
    pub(crate) clocks: bool,
}

impl Faults {
    /// Injects faults, some of them concurrently, then heals all. Returns how often each happened.
    pub(crate) async fn strike(
        self,
        cluster: &mut Cluster,
        buyers: &mut Buyers,
        rng: &mut Rng,
    ) -> BTreeMap<&'static str, u64> {
        let (began, mut struck) = (Instant::now(), BTreeMap::new());
        while began.elapsed() < self.time {
            // A node that lost power by itself no longer runs.
            cluster.down();
            let running = cluster.running();
            if !running.is_empty() {
                let fault = self.drawn(rng, &running, &cluster.expected_nodes());
                let orders = buyers.count();
                println!("{:>6} ms: {fault:?} with {running:?} running, {orders} orders", began.elapsed().as_millis());
                *struck.entry(fault.name()).or_default() += 1;
                fault.strike(cluster).await;
            }
            sleep(Duration::from_millis(100 + small_number(rng, 2_500))).await;
            buyers.check();
            // Some faults are healed before the next one, others overlap it.
            if rng.percent(60) {
                heal(cluster).await;
            }
        }
        heal(cluster).await;
        // A node whose disk failed may end only now.
        cluster.all_answer().await;
        struck
    }

    fn drawn(&self, rng: &mut Rng, running: &[u64], all: &[u64]) -> Fault {
        loop {
            let fault = Fault::drawn(rng, running, all, self.long);
            if self.clocks || !matches!(fault, Fault::Clock(..)) {
                return fault;
            }
        }
    }
}

/// Cuts the power of single nodes and of all of them under load, until this many disks have lost it. All nodes must start again.
pub(crate) async fn cut_power(cluster: &mut Cluster, buyers: &mut Buyers, rng: &mut Rng, cuts: usize) {
    let (mut cut, began) = (0, Instant::now());
    while cut < cuts {
        buyers.orders(1 + rng.below(20)).await;
        let running = cluster.running();
        let dark = if rng.percent(40) { running } else { vec![running[rng.below(running.len())]] };
        dark.iter().for_each(|node| cluster.kill(*node));
        cut += dark.len();
        cluster.start_nodes(&dark).await;
    }
    println!("{cut} disks lost power in {:?}, and all nodes started again", began.elapsed());
}

/// Ends every fault, and starts every node that is down.
async fn heal(cluster: &mut Cluster) {
    cluster.links.heal();
    for node in cluster.expected_nodes() {
        cluster.fault(node, Disk::None);
        cluster.set_clock(node, 0);
    }
    cluster.resume_all();
    cluster.gateway.iter().for_each(Gateway::resume);
    cluster.start_down().await;
}

/// A node loses its disk while all others are healthy. Surviving the loss of more than one copy is not promised.
async fn lose_disk(cluster: &mut Cluster, node: u64) {
    heal(cluster).await;
    cluster.all_answer().await;
    cluster.ready().await;
    cluster.kill(node);
    cluster.lose_disk(node);
    cluster.admin("admin.replace", json!({"node": node})).await;
    cluster.start_node(node).await;
}

/// Copies a node's disk, or replaces the disk with the copy. The cluster must refuse the node then, and it replaces its disk.
async fn copy_or_put_back(cluster: &mut Cluster, node: u64) {
    heal(cluster).await;
    cluster.all_answer().await;
    cluster.ready().await;
    let Some(copied) = cluster.copied() else {
        // The node loses power or is stopped. Both leave a disk that it may start from.
        cluster.terminate_or_lose_power(node);
        cluster.copy_disk(node);
        return cluster.start_node(node).await;
    };
    cluster.kill(copied);
    cluster.put_copy_back(copied);
    cluster.start_node(copied).await;
    let output = cluster.stderr(copied);
    for words in ["an old copy of its disk", "has another disk"] {
        assert!(output.contains(words), "node {copied} has an old disk, and {words:?} is missing: {output}");
    }
    println!("node {copied} was refused with an old copy of its disk, and replaced it");
}

/// A new node joins, if one is left, and another one is drained.
async fn replace_node(cluster: &mut Cluster, node: u64) {
    let Some(new_node) = cluster.unstarted_node() else { return };
    heal(cluster).await;
    cluster.all_answer().await;
    cluster.ready().await;
    cluster.start_node(new_node).await;
    cluster.ready().await;
    cluster.admin("admin.drain", json!({"node": node})).await;
    cluster.wait_drained(node);
}

/// A number below this. Smaller ones are likelier.
fn small_number(rng: &mut Rng, end: usize) -> u64 {
    let end = 1 + rng.below(end);
    rng.below(end) as u64
}

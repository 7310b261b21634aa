//! The faults there are, and what ends them.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    cluster::{Cluster, Weather},
    common::{Buyers, Dice, Faults as Disk, Gateway},
};

/// The name of clocks that are set.
pub(crate) const CLOCK: &str = "wrong clock";

/// How a node ends that is refused by others.
const REFUSED: i32 = 1;

/// What may happen. With the fault library a kill is a power cut.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The power of a node goes.
    PowerCut(u64),
    /// The power of all nodes goes.
    AllPowerCut,
    /// The power goes within a record of this many bytes.
    TornRecord(u64, u32),
    /// A node is told to stop.
    Restart(u64),
    /// A node is stopped, and goes on.
    Pause(u64),
    /// A node's disk is full.
    FullDisk(u64),
    /// A node's syncs take this many milliseconds longer.
    SlowDisk(u64, u32),
    /// A way between two nodes.
    OneWay(u64, u64, Weather),
    /// Both ways between two nodes.
    Between(u64, u64, Weather),
    /// All ways of a node.
    Alone(u64, Weather),
    /// All ways.
    AllAlone(Weather),
    /// Connections between two nodes are reset after this many more bytes.
    Torn(u64, u64, u64),
    /// A byte between two nodes is changed.
    Corrupt(u64, u64),
    /// Nodes hear this one, and of the others those on their own side.
    Bridge(u64),
    /// A node's syncs fail.
    FailedSync(u64),
    /// A node's clock is this many seconds off.
    Clock(u64, i64),
    /// A node's disk is lost: it is replaced.
    LostDisk(u64),
    /// A node comes, and this one is drained.
    Relief(u64),
    /// The payment gateway stands still.
    Gateway,
    /// A node's disk is copied while the node is off; a later time the copy takes the disk's place.
    OldCopy(u64),
}

/// Seconds by which a clock is off, one at a time. A hold lives for half an hour, and none may end because of it even if no other
/// node is left to contradict.
const CLOCKS: [i64; 6] = [-3_600, -300, -2, 2, 60, 300];

impl Fault {
    /// `all` are to run. Long ones only if there is time for them.
    fn drawn(dice: &mut Dice, running: &[u64], all: &[u64], long: bool) -> Fault {
        let node = running[dice.below(running.len())];
        let place = dice.below(all.len());
        let from = all[place];
        let to = all[(place + 1 + dice.below(all.len() - 1)) % all.len()];
        let delay = if dice.percent(15) { 5_000 } else { 20 + mostly_little(dice, 4_000) };
        let slow = Weather::Slow(Duration::from_millis(delay));
        let quiet = if dice.percent(50) { Weather::Silent } else { Weather::Cut };
        let bad = [quiet, quiet, slow, Weather::Trickle][dice.below(4)];
        let whole = if long { 150 } else { 132 };
        match dice.below(whole) {
            0..12 => Fault::PowerCut(node),
            12..16 => Fault::AllPowerCut,
            16..21 => Fault::TornRecord(node, dice.below(200) as u32),
            21..27 => Fault::Restart(node),
            27..38 => Fault::Pause(node),
            38..43 => Fault::FullDisk(node),
            43..48 => Fault::SlowDisk(node, 50 + dice.below(400) as u32),
            48..60 => Fault::OneWay(from, to, bad),
            60..72 => Fault::Between(from, to, bad),
            72..84 => Fault::Alone(from, bad),
            84..87 => Fault::AllAlone(quiet),
            87..94 => Fault::Torn(from, to, 1 + dice.below(2_000) as u64),
            94..100 => Fault::Corrupt(from, to),
            100..108 => Fault::Bridge(from),
            108..114 => Fault::FailedSync(node),
            114..125 => Fault::Clock(node, CLOCKS[dice.below(CLOCKS.len())]),
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
            Fault::Gateway => "gateway stands still",
            Fault::OldCopy(_) => "old copy",
        }
    }

    async fn strike(self, cluster: &mut Cluster) {
        let all = cluster.wanted();
        match self {
            Fault::PowerCut(node) => cluster.kill(node),
            Fault::AllPowerCut => cluster.running().into_iter().for_each(|node| cluster.kill(node)),
            Fault::TornRecord(node, bytes) => cluster.fault(node, Disk::Torn(bytes)),
            Fault::Restart(node) => cluster.terminate_anyhow(node),
            Fault::Pause(node) => cluster.pause(node),
            Fault::FullDisk(node) => cluster.fault(node, Disk::NoSpace),
            Fault::SlowDisk(node, ms) => cluster.fault(node, Disk::SlowSync(ms)),
            Fault::OneWay(from, to, weather) => cluster.links.set(from, to, weather),
            Fault::Between(one, other, weather) => cluster.links.both(one, other, weather),
            Fault::Alone(node, weather) => cluster.links.around(node, weather),
            Fault::AllAlone(weather) => cluster.links.everywhere(weather),
            Fault::Torn(from, to, bytes) => cluster.links.tear(from, to, bytes),
            Fault::Corrupt(from, to) => cluster.links.corrupt(from, to),
            Fault::Bridge(middle) => {
                let sides: Vec<u64> = all.into_iter().filter(|node| *node != middle).collect();
                let (one, other) = sides.split_at(sides.len() / 2);
                for (one, other) in one.iter().flat_map(|one| other.iter().map(move |other| (*one, *other))) {
                    cluster.links.both(one, other, Weather::Cut);
                }
            }
            Fault::FailedSync(node) => cluster.fault(node, Disk::SyncFails),
            Fault::Clock(node, seconds) => {
                all.into_iter().for_each(|node| cluster.set_clock(node, 0));
                cluster.set_clock(node, seconds);
            }
            Fault::LostDisk(node) => lose_disk(cluster, node).await,
            Fault::Relief(node) => relieve(cluster, node).await,
            Fault::Gateway => cluster.gateway.iter().for_each(Gateway::pause),
            Fault::OldCopy(node) => copy_or_put_back(cluster, node).await,
        }
    }
}

/// How faults befall in a round.
pub(crate) struct Faults {
    /// How long.
    pub(crate) time: Duration,
    /// Whether there is time for those that take some.
    pub(crate) long: bool,
    /// Whether clocks may be set.
    pub(crate) clocks: bool,
}

impl Faults {
    /// Faults, some at the same time as others; then all of it is healed. How often what happened.
    pub(crate) async fn strike(
        self,
        cluster: &mut Cluster,
        buyers: &mut Buyers,
        dice: &mut Dice,
    ) -> BTreeMap<&'static str, u64> {
        let (began, mut struck) = (Instant::now(), BTreeMap::new());
        while began.elapsed() < self.time {
            // Who lost power by itself does not run any more.
            cluster.down();
            let running = cluster.running();
            if !running.is_empty() {
                let fault = self.drawn(dice, &running, &cluster.wanted());
                let orders = buyers.count();
                println!("{:>6} ms: {fault:?} with {running:?} running, {orders} orders", began.elapsed().as_millis());
                *struck.entry(fault.name()).or_default() += 1;
                fault.strike(cluster).await;
            }
            sleep(Duration::from_millis(100 + mostly_little(dice, 2_500))).await;
            buyers.check();
            // Some faults end, others meet the next one.
            if dice.percent(60) {
                heal(cluster).await;
            }
        }
        heal(cluster).await;
        // Whose disk did not sync may only end now.
        cluster.all_answer().await;
        struck
    }

    fn drawn(&self, dice: &mut Dice, running: &[u64], all: &[u64]) -> Fault {
        loop {
            let fault = Fault::drawn(dice, running, all, self.long);
            if self.clocks || !matches!(fault, Fault::Clock(..)) {
                return fault;
            }
        }
    }
}

/// Ends every fault, and starts every node that is down.
async fn heal(cluster: &mut Cluster) {
    cluster.links.heal();
    for node in cluster.wanted() {
        cluster.fault(node, Disk::None);
        cluster.set_clock(node, 0);
    }
    cluster.resume_all();
    cluster.gateway.iter().for_each(Gateway::resume);
    cluster.start_down().await;
}

/// A node loses its disk while all others are well: more than one copy less is not promised to be survived.
async fn lose_disk(cluster: &mut Cluster, node: u64) {
    heal(cluster).await;
    cluster.all_answer().await;
    cluster.ready().await;
    cluster.kill(node);
    cluster.lose_disk(node);
    cluster.admin("admin.replace", json!({"node": node})).await;
    cluster.start_node(node).await;
}

/// Copies a node's disk, or puts the copy in its place: the node must not be let in with it, and says what to do.
async fn copy_or_put_back(cluster: &mut Cluster, node: u64) {
    heal(cluster).await;
    cluster.all_answer().await;
    cluster.ready().await;
    let Some(copied) = cluster.copied() else {
        // Its power goes, or it is told to stop: both leave a disk that it may start from.
        cluster.terminate_anyhow(node);
        cluster.copy_disk(node);
        return cluster.start_node(node).await;
    };
    cluster.kill(copied);
    cluster.put_copy_back(copied);
    let refused = cluster.refused(cluster.command(copied)).await;
    assert_eq!(refused.code, Some(REFUSED), "node {copied} has an old disk: {}", refused.stderr);
    for said in ["an old copy of its disk", &format!("admin replace {copied}")] {
        assert!(refused.stderr.contains(said), "{said:?} is not said: {}", refused.stderr);
    }
    println!("node {copied} was refused with an old copy of its disk");
    cluster.lose_disk(copied);
    cluster.admin("admin.replace", json!({"node": copied})).await;
    cluster.start_node(copied).await;
}

/// A node comes, if there is one left that may, and another one goes.
async fn relieve(cluster: &mut Cluster, node: u64) {
    let Some(newcomer) = cluster.newcomer() else { return };
    heal(cluster).await;
    cluster.all_answer().await;
    cluster.ready().await;
    cluster.start_node(newcomer).await;
    cluster.ready().await;
    cluster.admin("admin.drain", json!({"node": node})).await;
    cluster.gone(node);
}

/// A number below this, the smaller the likelier.
fn mostly_little(dice: &mut Dice, end: usize) -> u64 {
    let end = 1 + dice.below(end);
    dice.below(end) as u64
}

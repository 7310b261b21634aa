//! The faults there are, and what ends them.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    cluster::{Cluster, Weather},
    common::{Buyers, Dice, Faults},
};

/// What may happen. With the fault library a kill is a power cut.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The power of a node goes.
    PowerCut(u64),
    /// The power of all nodes goes.
    AllPowerCut,
    /// The power goes within a record of so many bytes.
    TornRecord(u64, u32),
    /// A node is told to stop.
    Restart(u64),
    /// A node is stopped, and goes on.
    Pause(u64),
    /// A node's disk is full.
    FullDisk(u64),
    /// A node's syncs take so many milliseconds longer.
    SlowDisk(u64, u32),
    /// A way between two nodes.
    OneWay(u64, u64, Weather),
    /// Both ways between two nodes.
    Between(u64, u64, Weather),
    /// All ways of a node.
    Alone(u64, Weather),
    /// All ways.
    AllAlone(Weather),
    /// Connections between two nodes are reset after so many bytes more.
    Torn(u64, u64, u64),
    /// A byte between two nodes is changed.
    Corrupt(u64, u64),
}

impl Fault {
    fn drawn(dice: &mut Dice, running: &[u64], all: u64) -> Fault {
        let node = running[dice.below(running.len())];
        let from = 1 + dice.below(all as usize) as u64;
        let to = 1 + (from + dice.below(all as usize - 1) as u64) % all;
        let slow = Weather::Slow(Duration::from_millis(20 + mostly_little(dice, 4_000)));
        let quiet = if dice.percent(50) { Weather::Silent } else { Weather::Cut };
        let bad = [quiet, quiet, slow, Weather::Trickle][dice.below(4)];
        match dice.below(100) {
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
            _ => Fault::Corrupt(from, to),
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
        }
    }

    async fn strike(self, cluster: &mut Cluster) {
        match self {
            Fault::PowerCut(node) => cluster.kill(node),
            Fault::AllPowerCut => cluster.running().into_iter().for_each(|node| cluster.kill(node)),
            Fault::TornRecord(node, bytes) => cluster.fault(node, Faults::Torn(bytes)),
            Fault::Restart(node) => cluster.terminate_anyhow(node),
            Fault::Pause(node) => cluster.pause(node),
            Fault::FullDisk(node) => cluster.fault(node, Faults::NoSpace),
            Fault::SlowDisk(node, ms) => cluster.fault(node, Faults::SlowSync(ms)),
            Fault::OneWay(from, to, weather) => cluster.links.set(from, to, weather),
            Fault::Between(one, other, weather) => cluster.links.both(one, other, weather),
            Fault::Alone(node, weather) => cluster.links.around(node, weather),
            Fault::AllAlone(weather) => cluster.links.everywhere(weather),
            Fault::Torn(from, to, bytes) => cluster.links.tear(from, to, bytes),
            Fault::Corrupt(from, to) => cluster.links.corrupt(from, to),
        }
    }
}

/// Faults for so long, some at the same time as others; then all of it is healed. How often what happened.
pub(crate) async fn strike(
    cluster: &mut Cluster,
    buyers: &mut Buyers,
    dice: &mut Dice,
    time: Duration,
) -> BTreeMap<&'static str, u64> {
    let (began, mut struck) = (Instant::now(), BTreeMap::new());
    let all = cluster.running().len() as u64;
    while began.elapsed() < time {
        // Who lost power by itself does not run any more.
        cluster.down();
        let running = cluster.running();
        if !running.is_empty() {
            let fault = Fault::drawn(dice, &running, all);
            let orders = buyers.count();
            println!("{:>6} ms: {fault:?} with {running:?} running, {orders} orders", began.elapsed().as_millis());
            *struck.entry(fault.name()).or_default() += 1;
            fault.strike(cluster).await;
        }
        sleep(Duration::from_millis(100 + mostly_little(dice, 2_500))).await;
        buyers.check();
        // Some faults end, others meet the next one.
        if dice.percent(60) {
            heal(cluster, all).await;
        }
    }
    heal(cluster, all).await;
    struck
}

/// Ends every fault, and starts whoever is down.
async fn heal(cluster: &mut Cluster, all: u64) {
    cluster.links.heal();
    for node in 1..=all {
        cluster.fault(node, Faults::None);
    }
    cluster.resume_all();
    let down = cluster.down();
    cluster.start_nodes(&down).await;
}

/// A number below this, the smaller the likelier.
fn mostly_little(dice: &mut Dice, end: usize) -> u64 {
    let end = 1 + dice.below(end);
    dice.below(end) as u64
}

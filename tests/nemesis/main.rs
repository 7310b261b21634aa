//! Random faults, drawn from a seed, under load, in rounds. After each round everything is healed and checked.
//!
//! `cargo test -p boxoffice --test nemesis -- --minutes 30 --seed 7 --nodes 5`. Without arguments it runs one short round. With
//! `--hold` the nodes keep running after a failure, until the program is ended. With `--failover 100` it measures instead how long
//! sessions pause when a node is killed or stopped, 100 times each.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/cluster/mod.rs"]
mod cluster;

mod failover;
mod faults;
mod guests;
mod settings;
mod staff;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use cluster::{Plan, Stage};
use common::Rng;
use faults::{CLOCK, Faults, cut_power};
use guests::Guests;
use settings::RunSettings;
use staff::Staff;
use tokio::time::Instant;

/// New nodes that may join in a run. Each replaces another node.
const SPARE_NODES: usize = 2;

/// Disks that lose power at the end of a run, besides those in its rounds.
const POWER_CUTS: usize = 30;

fn main() {
    let Some(settings) = RunSettings::read(std::env::args().skip(1)) else { return };
    println!("nemesis: {}", settings.command());
    if settings.hold {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            default_hook(panic);
            println!("--hold: the nodes keep running");
            loop {
                std::thread::park();
            }
        }));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    if catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            match settings.failovers {
                Some(rounds) => failover::run(settings, rounds).await,
                None => run(settings).await,
            }
        })
    }))
    .is_err()
    {
        println!("nemesis failed; to replay it: {}", settings.command());
        std::process::exit(1);
    }
}

async fn run(settings: RunSettings) {
    let began = Instant::now();
    let plan =
        Plan { nodes: settings.nodes, places: settings.nodes + SPARE_NODES, faults: true, clocks: true, gateway: true };
    let mut stage = Stage::new(Rng::new(settings.seed), plan).await;
    stage.sells_everything = true;
    let mut struck: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut rounds, mut longest_ms) = (0, 0);
    while rounds == 0 || began.elapsed() < settings.time {
        rounds += 1;
        let round = Instant::now();
        let mut buyers = stage.begin().await;
        let (staff, guests) = (Staff::begin(&mut stage, rounds).await, Guests::begin(&mut stage, rounds).await);
        buyers.orders(10).await;
        let faulty = Instant::now();
        // Deadlines are compared with true time where no clock is wrong.
        let faults = Faults { time: settings.round, long: settings.is_long(), clocks: stage.rng.percent(50) };
        let counts = faults.strike(&mut stage.cluster, &mut buyers, &mut stage.rng).await;
        let clocks_were_set = counts.contains_key(CLOCK);
        for (name, count) in counts {
            *struck.entry(name).or_default() += count;
        }
        let healed = Instant::now();
        staff.stop();
        guests.stop();
        stage.cluster.ready().await;
        let ready = healed.elapsed();
        buyers.orders(10).await;
        stage
            .end_with(buyers, async |stage| {
                for own in [guests.end(stage, clocks_were_set).await, staff.end().await] {
                    stage.record.add(own);
                }
            })
            .await;
        let gap_ms = stage.record.longest_gap_ms(faulty);
        longest_ms = longest_ms.max(gap_ms);
        println!(
            "round {rounds}: {:?}, ready {ready:?} after healing, longest gap {gap_ms} ms, {} granted in all",
            round.elapsed(),
            stage.record.granted.len(),
        );
    }
    let mut buyers = stage.begin().await;
    cut_power(&mut stage.cluster, &mut buyers, &mut stage.rng, POWER_CUTS).await;
    stage.cluster.ready().await;
    stage.end(buyers).await;
    stage.check_everything().await;
    let unknown = stage.record.refused.get(&0).copied().unwrap_or_default();
    println!(
        "nemesis: {rounds} rounds in {:?} with {} nodes, seed {}\n  faults {struck:?}\n  {} carts, {} granted, {} orders, \
         {unknown} unknown at first, {} repeats\n  longest gap {longest_ms} ms, 0 violations",
        began.elapsed().max(Duration::from_secs(1)),
        settings.nodes,
        settings.seed,
        stage.record.carts.len(),
        stage.record.granted.len(),
        stage.record.orders(),
        stage.cluster.endpoints.repeated(),
    );
    stage.cluster.stop();
}

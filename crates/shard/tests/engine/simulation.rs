//! Clusters from many seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::member::Habit;
use crate::world::{Tally, World};

const STEPS: u64 = 2_000;

fn run(seed: u64, nodes: u64) -> (u64, Tally) {
    let world = || World::new(seed, nodes, Habit::Correct).run(STEPS);
    catch_unwind(AssertUnwindSafe(world))
        .unwrap_or_else(|_| panic!("seed {seed} with {nodes} nodes failed; see the message above"))
}

fn run_all(seeds: std::ops::Range<u64>, nodes: u64) -> Tally {
    let mut sum = Tally::default();
    for seed in seeds {
        let (_, tally) = run(seed, nodes);
        sum.acknowledged += tally.acknowledged;
        sum.never += tally.never;
        sum.unknown += tally.unknown;
        sum.reads += tally.reads;
        sum.crashes += tally.crashes;
        sum.leads += tally.leads;
        sum.restores += tally.restores;
        sum.snapshots += tally.snapshots;
    }
    println!("{nodes} nodes: {sum:?}");
    sum
}

#[test]
fn one_node_loses_nothing() {
    let sum = run_all(0..120, 1);
    assert!(sum.acknowledged > 100_000 && sum.crashes > 500 && sum.snapshots > 1_000, "{sum:?}");
}

#[test]
fn three_nodes_lose_nothing() {
    let sum = run_all(0..120, 3);
    assert!(sum.acknowledged > 100_000 && sum.crashes > 500 && sum.restores > 100, "{sum:?}");
    assert!(sum.never > 100 && sum.unknown > 100 && sum.leads > 1_000, "{sum:?}");
}

#[test]
fn five_nodes_lose_nothing() {
    let sum = run_all(0..20, 5);
    assert!(sum.acknowledged > 10_000 && sum.crashes > 100, "{sum:?}");
}

#[test]
fn a_seed_runs_the_same_way_twice() {
    for seed in 1_000..1_010 {
        assert_eq!(run(seed, 3).0, run(seed, 3).0, "seed {seed} with 3 nodes");
        assert_eq!(run(seed, 1).0, run(seed, 1).0, "seed {seed} with 1 node");
    }
    assert_ne!(run(1_000, 3).0, run(1_001, 3).0);
}

/// The test of the test: an engine that is told too early that a write is durable must be found out.
#[test]
fn done_before_persisted_is_caught() {
    for nodes in [1, 3] {
        let broken = |seed: &u64| {
            let world = || World::new(*seed, nodes, Habit::PersistedTooEarly).run(STEPS);
            catch_unwind(AssertUnwindSafe(world)).is_err()
        };
        let caught = (0..30).filter(broken).count();
        println!("{nodes} nodes: caught in {caught} of 30 seeds");
        assert!(caught >= 10, "caught in {caught} of 30 seeds with {nodes} nodes");
    }
}

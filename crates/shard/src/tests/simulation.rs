//! Clusters from many seeds. `SHARD_SEEDS=111..112` runs other seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{
    member::Habit,
    world::{Tally, World},
};

const STEPS: u64 = 2_000;

/// The kind of cluster.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// All nodes have all shards from the beginning.
    Fixed,
    /// One node founds the cluster, and all shards move.
    Moving,
}

impl Kind {
    fn world(self, seed: u64, nodes: u64, habit: Habit) -> World {
        match self {
            Kind::Fixed => World::new(seed, nodes, habit),
            Kind::Moving => World::moving(seed, nodes, habit),
        }
    }
}

fn run(kind: Kind, seed: u64, nodes: u64) -> (u64, Tally) {
    let world = || kind.world(seed, nodes, Habit::Correct).run(STEPS);
    catch_unwind(AssertUnwindSafe(world)).unwrap_or_else(|_| {
        let again = format!("SHARD_SEEDS={seed}..{} cargo test -p boxoffice-shard --lib", seed + 1);
        panic!("seed {seed} with {nodes} nodes ({kind:?}) failed, see above; to replay: {again}")
    })
}

/// This count times `BOXOFFICE_RANDOM`, the factor of all random tests. It is 1 if not set.
fn scaled(count: u64) -> u64 {
    count * std::env::var("BOXOFFICE_RANDOM").map_or(1, |text| text.parse().expect("a number"))
}

/// Seeds chosen by hand, if any.
fn chosen() -> Option<std::ops::Range<u64>> {
    let given = std::env::var("SHARD_SEEDS").ok()?;
    let (from, to) = given.split_once("..").expect("SHARD_SEEDS is like 5..9");
    Some(from.parse().expect("a number")..to.parse().expect("a number"))
}

fn run_all(kind: Kind, seeds: u64, nodes: u64, enough: impl Fn(&Tally) -> bool) {
    let hand_picked = chosen();
    let usual = hand_picked.is_none();
    let seeds = hand_picked.unwrap_or(0..scaled(seeds));
    let mut sum = Tally::default();
    for seed in seeds {
        let (_, tally) = run(kind, seed, nodes);
        sum.acknowledged += tally.acknowledged;
        sum.never += tally.never;
        sum.unknown += tally.unknown;
        sum.reads += tally.reads;
        sum.crashes += tally.crashes;
        sum.leads += tally.leads;
        sum.restores += tally.restores;
        sum.snapshots += tally.snapshots;
        sum.targets += tally.targets;
        sum.reached += tally.reached;
        sum.removed += tally.removed;
        sum.lost_disks += tally.lost_disks;
        sum.drops += tally.drops;
        sum.converged_steps = sum.converged_steps.max(tally.converged_steps);
    }
    println!("{nodes} nodes: {sum:?}");
    // A simulation without progress proves nothing.
    assert!(!usual || enough(&sum), "{nodes} nodes reached only {sum:?}");
}

#[test]
fn one_node_loses_nothing() {
    run_all(Kind::Fixed, 50, 1, |sum| {
        sum.acknowledged > 60_000 && sum.crashes > 150 && sum.snapshots > 300 && sum.never > 30
    });
}

#[test]
fn three_nodes_lose_nothing() {
    run_all(Kind::Fixed, 70, 3, |sum| {
        let answers = sum.acknowledged > 60_000 && sum.never > 300 && sum.unknown > 300;
        answers && sum.crashes > 300 && sum.restores > 150 && sum.leads > 300
    });
}

#[test]
fn five_nodes_lose_nothing() {
    run_all(Kind::Fixed, 10, 5, |sum| sum.acknowledged > 6_000 && sum.crashes > 30 && sum.restores > 15);
}

#[test]
fn shards_move_among_three_nodes_and_lose_nothing() {
    run_all(Kind::Moving, 30, 3, |sum| {
        let moves = sum.targets > 500 && sum.reached > 250 && sum.removed > 60 && sum.drops > 60;
        moves && sum.acknowledged > 50_000 && sum.crashes > 220 && sum.lost_disks > 100
    });
}

#[test]
fn shards_move_among_five_nodes_and_lose_nothing() {
    run_all(Kind::Moving, 30, 5, |sum| {
        let moves = sum.targets > 500 && sum.reached > 220 && sum.removed > 120 && sum.drops > 120;
        moves && sum.acknowledged > 50_000 && sum.crashes > 300 && sum.lost_disks > 150
    });
}

#[test]
fn a_seed_runs_the_same_way_twice() {
    for seed in 1_000..1_010 {
        assert_eq!(run(Kind::Fixed, seed, 3).0, run(Kind::Fixed, seed, 3).0, "seed {seed} with 3 nodes");
        assert_eq!(run(Kind::Fixed, seed, 1).0, run(Kind::Fixed, seed, 1).0, "seed {seed} with 1 node");
    }
    for seed in 1_000..1_005 {
        assert_eq!(run(Kind::Moving, seed, 4).0, run(Kind::Moving, seed, 4).0, "seed {seed}, moving");
    }
    assert_ne!(run(Kind::Fixed, 1_000, 3).0, run(Kind::Fixed, 1_001, 3).0);
}

/// Tests the test. An engine that learns too early that a write is durable must be detected.
#[test]
fn completion_before_the_sync_is_caught() {
    for nodes in [1, 3] {
        let broken = |seed: &u64| {
            let world = || World::new(*seed, nodes, Habit::PersistedTooEarly).run(STEPS);
            catch_unwind(AssertUnwindSafe(world)).is_err()
        };
        let caught = (0..30).filter(broken).take(10).count();
        assert_eq!(caught, 10, "caught in {caught} of 30 seeds with {nodes} nodes");
    }
}

#[test]
fn a_read_without_a_quorum_is_caught() {
    let broken = |seed: &u64| {
        let world = || World::new(*seed, 3, Habit::ReadsWithoutQuorum).run(STEPS);
        catch_unwind(AssertUnwindSafe(world)).is_err()
    };
    let caught = (0..100).filter(broken).take(4).count();
    assert_eq!(caught, 4, "caught in {caught} of 100 seeds");
}

/// Asserts that this bug is detected in enough of 40 moving clusters of five nodes.
fn assert_caught_moving(habit: Habit, enough: usize) {
    let broken = |seed: &u64| {
        let world = || World::moving(*seed, 5, habit).run(STEPS);
        catch_unwind(AssertUnwindSafe(world)).is_err()
    };
    let caught = (0..40).filter(broken).take(enough).count();
    assert_eq!(caught, enough, "{habit:?}: caught in {caught} of 40 seeds");
}

#[test]
fn a_replica_id_that_outlives_its_disk_is_caught() {
    assert_caught_moving(Habit::KeepsReplicaIds, 3);
}

#[test]
fn following_an_old_target_is_caught() {
    assert_caught_moving(Habit::FollowsOldTargets, 5);
}

#[test]
fn a_forgotten_vote_is_caught() {
    assert_caught_moving(Habit::ForgetsVotes, 3);
}

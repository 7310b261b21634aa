//! How long a shard has no leader after its leader has died, in many clusters whose nodes tick at moments of their own.

use std::collections::BTreeMap;

use super::network::Network;
use crate::NodeId;

/// The pauses of many shards after the deaths of their leaders, and the elections in which votes were split.
#[derive(Default)]
struct Pauses {
    ms: Vec<u64>,
    split: usize,
}

impl Pauses {
    /// Kills the leader of most shards of a cluster, `deaths` times. A message takes this long.
    fn of(nodes: u64, deaths: u64, delay_ms: (u64, u64)) -> Pauses {
        let mut pauses = Pauses::default();
        for seed in 0..deaths {
            let mut network = Network::new(seed, nodes, delay_ms);
            assert!(network.run(20_000_000, Network::is_led), "seed {seed}: no leaders");
            let dies_us = network.now_us + 1_000_000 + network.rng.below(1_000_000);
            network.run(dies_us, |_| false);
            let before = network.leaders();
            let mut led: BTreeMap<NodeId, usize> = BTreeMap::new();
            before.values().for_each(|(_, leader)| *led.entry(*leader).or_default() += 1);
            let (dies, _) = led.into_iter().max_by_key(|(_, count)| *count).unwrap();
            network.dead.push(dies);
            network.begun.clear();
            assert!(network.run(dies_us + 60_000_000, Network::is_led), "seed {seed}: no leaders after a death");
            for (shard, (term, leader)) in before {
                if leader == dies {
                    let first = network.begun.iter().find(|begun| begun.1 == shard).unwrap();
                    pauses.ms.push((first.0 - dies_us) / 1_000);
                    pauses.split += usize::from(first.2 > term + 1);
                }
            }
        }
        pauses.ms.sort_unstable();
        println!("{nodes} voters, messages of {delay_ms:?} ms: {}", pauses.drawn());
        pauses
    }

    fn worst_ms(&self) -> u64 {
        *self.ms.last().unwrap()
    }

    fn drawn(&self) -> String {
        let at = |per_mille: usize| self.ms[(self.ms.len() - 1) * per_mille / 1_000];
        format!(
            "{} pauses, median {} ms, p99 {} ms, worst {} ms; {} elections with split votes",
            self.ms.len(),
            at(500),
            at(990),
            self.worst_ms(),
            self.split
        )
    }
}

/// The longest pause where messages are quicker than the slots of the voters, in milliseconds.
const PAUSE_MS_MAX: u64 = 800;

#[test]
fn a_dead_leader_is_replaced_without_a_split_vote() {
    for nodes in [3, 5] {
        for delay_ms in [(0, 2), (1, 12), (10, 30)] {
            let pauses = Pauses::of(nodes, 50, delay_ms);
            assert!(pauses.worst_ms() <= PAUSE_MS_MAX && pauses.split == 0, "{}", pauses.drawn());
        }
    }
}

#[test]
fn votes_that_take_longer_than_a_slot_have_a_winner_too() {
    for nodes in [3, 5] {
        let pauses = Pauses::of(nodes, 15, (150, 250));
        assert!(pauses.worst_ms() <= 20 * PAUSE_MS_MAX, "{}", pauses.drawn());
    }
}

/// Tests the test.
#[cfg(feature = "planted")]
#[test]
fn timeouts_that_are_drawn_are_caught() {
    crate::planted::plant(Some("election timeouts are drawn"));
    let pauses = Pauses::of(3, 50, (1, 12));
    assert!(pauses.worst_ms() > PAUSE_MS_MAX && pauses.split > 0, "{}", pauses.drawn());
}

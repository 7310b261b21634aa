//! Several nodes as one cluster, linked over loopback: they join, sell at any node, lose a leader, grow and shrink. The tests of
//! the program use real processes.

#![allow(clippy::disallowed_methods, reason = "a test reaches the clock as it likes")]

mod machines;
mod outcomes;
mod stores;

use std::time::Duration;

use boxoffice_core::{
    answer::{Answer, StockCounts},
    cluster::MemberState,
    command::{CartCommand, ClusterCommand, Command, ProductCommand},
    id::Entity,
    time::Timestamp,
};
use boxoffice_node::as_of::AsOfError;
use machines::{Machines, buy, hold, product, stock_of};

#[test]
fn three_nodes_become_a_cluster_and_any_of_them_sells() {
    let mut machines = Machines::new();
    machines.found(1);
    machines.must(1, Command::Product(product(0), ProductCommand::Put(stock_of(100))), 1);
    machines.join(2);
    machines
        .settled("two nodes: one voter", |cluster| cluster.places.iter().all(|place| place.target.learners.len() == 1));
    machines.join(3);
    machines.settled("three voters each", |cluster| cluster.places.iter().all(|place| place.target.voters.len() == 3));
    for shelf in 1..8 {
        machines.must(1 + shelf % 3, Command::Product(product(shelf), ProductCommand::Put(stock_of(100))), shelf);
    }
    for buyer in 0..30 {
        buy(&machines, 1 + buyer % 3, buyer, buyer % 8);
    }
    for node in 1..=3 {
        let Answer::Product(view) = machines.must(node, Command::Product(product(0), ProductCommand::Get), 0) else {
            panic!("a product");
        };
        assert_eq!(view.counts, StockCounts { free: 96, held: 0, sold: 4 }, "at node {node}");
    }
    machines.audited();
}

#[test]
fn a_lost_node_loses_nothing_acknowledged() {
    let mut machines = Machines::of_three();
    for shelf in 0..8 {
        machines.must(1, Command::Product(product(shelf), ProductCommand::Put(stock_of(1_000))), shelf + 1);
    }
    for round in 0..3 {
        let dead = 1 + round;
        for buyer in 0..8 {
            buy(&machines, dead, 100 * round + buyer, buyer);
        }
        hold(&machines, dead, 100 * round + 50, 3);
        machines.crash(dead);
        let alive = 1 + (round + 1) % 3;
        for buyer in 8..16 {
            buy(&machines, alive, 100 * round + buyer, buyer % 8);
        }
        // A hold made through the dead node still exists, and can be bought at another node.
        machines.cart(alive, 100 * round + 50, machines::checkout(), 2);
        machines.restart(dead);
        machines.all_ready();
        let order = machines.cart(dead, 100 * round + 50, CartCommand::Get, 0);
        assert!(matches!(order, Answer::Cart(_)), "{order:?}");
        machines.applied_alike();
    }
    machines.audited();
}

#[test]
fn a_fourth_node_takes_its_share_and_drains() {
    let mut machines = Machines::of_three();
    for shelf in 0..8 {
        machines.must(1, Command::Product(product(shelf), ProductCommand::Put(stock_of(1_000))), shelf + 1);
    }
    machines.join(4);
    machines.settled("the fourth has its share", |cluster| {
        let held = cluster.places[1..].iter().filter(|place| place.target.has(4)).count();
        held >= 2 && cluster.places[0].target.has(4)
    });
    for buyer in 0..24 {
        buy(&machines, 1 + buyer % 4, buyer, buyer % 8);
    }
    machines.must(1, Command::Cluster(ClusterCommand::Drain { node: 2, force: false }), 77);
    machines.until("the second has left", Duration::from_secs(30), |machines| {
        machines.view(1).members[&2].state == MemberState::Gone
    });
    machines.ended(2);
    for buyer in 24..48 {
        buy(&machines, [1, 3, 4][buyer as usize % 3], buyer, buyer % 8);
    }
    machines.audited();
}

#[test]
fn a_lost_disk_is_replaced_under_the_same_id() {
    let mut machines = Machines::of_three();
    for shelf in 0..4 {
        machines.must(1, Command::Product(product(shelf), ProductCommand::Put(stock_of(1_000))), shelf + 1);
    }
    for buyer in 0..8 {
        buy(&machines, 1, buyer, buyer % 4);
    }
    machines.crash(3);
    machines.lose_disk(3);
    machines.must(1, Command::Cluster(ClusterCommand::Replace { node: 3 }), 78);
    machines.join(3);
    machines.settled("three voters each, with new replicas", |cluster| {
        let first = cluster.members[&3].first_generation;
        cluster.places.iter().all(|place| {
            let mut third = place.target.voters.iter().filter(|replica| replica.node == 3);
            third.all(|replica| replica.generation >= first) && place.target.voters.len() == 3
        })
    });
    machines.crash(1);
    for buyer in 8..16 {
        buy(&machines, 3, buyer, buyer % 4);
    }
    machines.restart(1);
    machines.all_ready();
    machines.audited();
}

#[test]
fn entities_without_a_replica_here_are_watched_as_well() {
    let mut machines = Machines::of_three();
    for shelf in 0..12 {
        machines.must(1, Command::Product(product(shelf), ProductCommand::Put(stock_of(100))), shelf + 1);
    }
    machines.join(4);
    machines.settled("the fourth has its share", |cluster| cluster.places[1..].iter().any(|place| place.target.has(4)));
    let remote: Vec<(u64, u64)> = (0..12)
        .flat_map(|shelf| (1..=4).map(move |node| (node, shelf)))
        .filter(|(node, shelf)| machines.is_remote(*node, *shelf))
        .collect();
    assert!(!remote.is_empty(), "with three copies on four nodes each node lacks some shard");
    for (cart, (node, shelf)) in (0..).zip(&remote) {
        let mut watched = machines.watch(*node, *shelf);
        let (version, before) = watched.next();
        buy(&machines, 1 + cart % 4, cart, *shelf);
        let mut at = version;
        loop {
            let (to, counts) = watched.next();
            assert!(to > at, "versions rise");
            at = to;
            if counts.sold == before.sold + 1 {
                break;
            }
        }
    }
    let entity = boxoffice_core::id::Entity::Product(boxoffice_core::id::Id::new("nobody").unwrap());
    let (node, _) = remote[0];
    assert!(machines.watch_entity(node, &entity).is_err());
}

#[test]
fn every_node_returns_the_history_of_any_entity() {
    let mut machines = Machines::of_three();
    for shelf in 0..8 {
        machines.must(1, Command::Product(product(shelf), ProductCommand::Put(stock_of(1_000))), shelf + 1);
    }
    for buyer in 0..16 {
        buy(&machines, 1, buyer, buyer % 8);
    }
    // The fourth node receives snapshots, so its own log lacks the earlier entries.
    machines.join(4);
    machines.settled("the fourth has its share", |cluster| cluster.places[1..].iter().any(|place| place.target.has(4)));
    for buyer in 16..24 {
        buy(&machines, 1 + buyer % 4, buyer, buyer % 8);
    }
    machines.until("all nodes have applied everything", Duration::from_secs(30), |machines| {
        (0..8).all(|shelf| {
            let mut versions = (1..=4).map(|node| machines.history(node, shelf, 1, None).version);
            // Put once, then held and sold three times.
            versions.all(|version| version == 7)
        })
    });
    let (mut remote, mut young) = (0, 0);
    for shelf in 0..8 {
        let whole = machines.history(1, shelf, 1_000, None);
        for node in 1..=4 {
            let found = machines.history(node, shelf, 1_000, None);
            let versions: Vec<u64> = found.entries.iter().map(|entry| entry.version).collect();
            assert_eq!(versions, (1..=found.version).collect::<Vec<_>>(), "shelf {shelf} at node {node}");
            assert_eq!((found.from, found.version), (1, whole.version));
            assert_eq!(found.entries, whole.entries, "at node {node}");
            // Page by page it is the same.
            let newest = machines.history(node, shelf, 3, None);
            assert_eq!((newest.entries.len(), newest.is_full), (3, true));
            let older = machines.history(node, shelf, 1_000, Some(newest.from));
            assert_eq!([older.entries, newest.entries].concat(), whole.entries);
            remote += u64::from(machines.is_remote(node, shelf));
            young += u64::from(node == 4 && !machines.is_remote(node, shelf));
        }
    }
    assert!(remote > 0 && young > 0, "{remote} remote ones, {young} at the fourth");
    let unknown = machines.history(4, 99, 10, None);
    assert_eq!((unknown.version, unknown.entries.len()), (0, 0));
}

/// Everything at an instant is the same at every node: after a leader was lost and came back, and at a node that joined later.
#[test]
fn a_cluster_knows_how_things_were() {
    const SHELVES: u64 = 6;
    let mut machines = Machines::of_three();
    for shelf in 0..SHELVES {
        machines.must(1, Command::Product(product(shelf), ProductCommand::Put(stock_of(1_000))), shelf + 1);
    }
    let counts = |machines: &Machines, shelf: u64| {
        let node = machines.running()[0];
        match machines.must(node, Command::Product(product(shelf), ProductCommand::Get), 0) {
            Answer::Product(view) => view.counts,
            other => panic!("{other:?}"),
        }
    };
    let mut known = Vec::new();
    for round in 0..3 {
        for shelf in 0..SHELVES {
            buy(&machines, machines.running()[shelf as usize % 2], round * 100 + shelf, shelf);
        }
        let sold = StockCounts { free: 999 - round, held: 0, sold: round + 1 };
        machines.until("everything is settled", Duration::from_secs(30), |machines| {
            (0..SHELVES).all(|shelf| counts(machines, shelf) == sold)
        });
        // Nothing happens in this millisecond.
        std::thread::sleep(Duration::from_millis(5));
        known.push((machines.now(1 + round % 3), sold));
        std::thread::sleep(Duration::from_millis(5));
        match round {
            0 => {
                let leader = machines.leader_of(&Entity::Product(product(0))).expect("a leader");
                machines.crash(leader);
                machines.until("the others lead", Duration::from_secs(30), |machines| {
                    machines.leader_of(&Entity::Product(product(0))).is_some_and(|other| other != leader)
                });
                machines.restart(leader);
                machines.all_ready();
            }
            1 => {
                machines.join(4);
                machines.settled("the fourth has its share", |cluster| {
                    cluster.places[1..].iter().any(|place| place.target.has(4))
                });
            }
            _ => {}
        }
    }
    let mut remote = 0;
    for node in machines.running() {
        for shelf in 0..SHELVES {
            for (at, sold) in &known {
                let then = machines.as_of(node, shelf, *at).expect("it is kept");
                let Answer::ProductAudit(audit) = then.audit() else { panic!("a product") };
                assert_eq!(
                    (audit.counts, audit.violations),
                    (*sold, Vec::new()),
                    "shelf {shelf} at node {node}, {at:?}"
                );
            }
            let begin = machines.as_of(node, shelf, Timestamp(1));
            assert!(matches!(begin, Err(AsOfError::NotYet)), "{begin:?}");
            remote += u64::from(machines.is_remote(node, shelf));
        }
    }
    assert!(remote > 0);
}

#[test]
fn leaders_report_replicas_that_are_behind() {
    let mut machines = Machines::of_three();
    let lags = |machines: &Machines, node: u64| -> Vec<(String, u64, bool)> {
        let shards = machines.status(node).shards.into_iter();
        let followers = shards.flat_map(|shard| shard.followers);
        followers.map(|follower| (follower.replica.to_string(), follower.lag, follower.heard)).collect()
    };
    machines.until("all nodes have applied everything", Duration::from_secs(30), |machines| {
        let all: Vec<_> = (1..=3).flat_map(|node| lags(machines, node)).collect();
        // Five shards with three replicas each: the leader of each reports two others.
        all.len() == 10 && all.iter().all(|(_, lag, heard)| *lag == 0 && *heard)
    });
    machines.crash(3);
    for shelf in 0..8 {
        machines.must(1, Command::Product(product(shelf), ProductCommand::Put(stock_of(1_000))), shelf + 1);
    }
    machines.until("the third is reported as behind", Duration::from_secs(30), |machines| {
        let all: Vec<_> = (1..=2).flat_map(|node| lags(machines, node)).collect();
        let third = |replica: &str| replica.starts_with("3.");
        all.iter().any(|(replica, lag, heard)| third(replica) && *lag > 0 && !heard)
            && all.iter().all(|(replica, lag, heard)| third(replica) || (*lag == 0 && *heard))
    });
}

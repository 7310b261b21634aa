//! Stores of three nodes that stand still or are damaged.

use std::time::Duration;

use boxoffice_core::{
    answer::Answer,
    command::{CartCommand, Command, ProductCommand, ProductDetails, Want, WantedLine},
    id::{Entity, Id, Request, RequestHash},
};
use boxoffice_env::StallingDisk;
use boxoffice_node::api::Failure;
use boxoffice_shard::ring::shard_of;

use super::machines::{Machines, SHARDS, buy, cart_id, checkout, product, stock_of};
use crate::plants::plant;

const PATIENCE: Duration = Duration::from_secs(60);
const SHELVES: u64 = 8;

fn ada() -> Id {
    Id::new("ada").expect("a good id")
}

fn shard(entity: &Entity) -> u16 {
    shard_of(entity.hash_prefix(), SHARDS)
}

/// Ada buys a mug.
fn buy_as_ada(machines: &Machines, node: u64, cart: u64, shelf: u64) {
    let line = WantedLine::new(Entity::Product(product(shelf)), Want::Units { quantity: 1, now: false });
    machines.cart(
        node,
        cart,
        CartCommand::Hold {
            lines: vec![line],
            customer: Some(ada()),
            guest: false,
            holder: None,
            attributes: Vec::new(),
        },
        1,
    );
    let order = machines.cart(node, cart, checkout(), 2);
    assert!(matches!(order, Answer::Order { .. }), "{order:?}");
}

/// A shelf whose shard is not this one.
fn shelf_beside(of: u16) -> u64 {
    (0..SHELVES).find(|shelf| shard(&Entity::Product(product(*shelf))) != of).expect("several shards")
}

/// A cart whose shard is not this one, from this number on.
fn cart_beside(of: u16, from: u64) -> u64 {
    (from..).find(|cart| shard(&Entity::Cart(cart_id(*cart))) != of).expect("several shards")
}

fn three_with_stock() -> Machines {
    let machines = Machines::of_three();
    for shelf in 0..SHELVES {
        machines.must(1, Command::Product(product(shelf), ProductCommand::Put(stock_of(1_000))), shelf + 1);
    }
    machines
}

/// A purchase of a returning customer needs a record on every node. The nodes' stores stand still. Votes and heartbeats go on all
/// the same, so the other shards get a new leader when their leader dies, and sell. The shard that waits is not ready.
#[test]
fn nodes_whose_stores_stand_still_vote_and_sell_what_needs_no_record() {
    plant();
    let mut machines = three_with_stock();
    let customer = Entity::Customer(ada());
    let (of_ada, shelf) = (shard(&customer), shelf_beside(shard(&customer)));
    buy_as_ada(&machines, 1, 0, shelf);
    machines.until("the cart and the customer have left memory", PATIENCE, |machines| {
        (1..=3).all(|node| machines.left(node) == 2)
    });
    let leader = machines.leader_of(&customer).expect("a leader");
    let others: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    for node in &others {
        machines.disks(*node).stalls.gate().stall();
    }
    buy_as_ada(&machines, leader, 1, shelf);
    machines.until("both followers wait for the record", PATIENCE, |machines| {
        others.iter().all(|node| machines.disks(*node).stalls.gate().waiting() > 0)
    });
    machines.until("they say so", PATIENCE, |machines| {
        others.iter().all(|node| machines.counter(*node, "boxoffice_shards_waiting") == 1)
    });
    // They follow and apply everything else.
    let mut cart = 100;
    for _ in 0..10 {
        cart = cart_beside(of_ada, cart + 1);
        buy(&machines, others[0], cart, shelf);
    }
    machines.crash(leader);
    // They elect leaders of all shards. Only the one that waits is not ready.
    machines.until("the two sell without the third", PATIENCE, |machines| {
        let entity = Entity::Product(product(shelf));
        machines.leader_of(&entity).is_some()
    });
    for _ in 0..10 {
        cart = cart_beside(of_ada, cart + 1);
        buy(&machines, others[1], cart, shelf);
    }
    assert!(others.iter().all(|node| machines.disks(*node).stalls.gate().waiting() > 0), "the stores still stand");
    assert!(machines.leader_of(&customer).is_none(), "a replica that waits has not begun to lead");
    for node in &others {
        machines.disks(*node).stalls.gate().go_on();
    }
    machines.until("the shard that waited is led", PATIENCE, |machines| machines.leader_of(&customer).is_some());
    buy_as_ada(&machines, others[0], 2, shelf);
    machines.restart(leader);
    machines.all_ready();
    machines.applied_alike();
    machines.audited();
}

/// How much of what waits a replica may have in memory: the bound, and what was under way when it was reached.
const BEHIND_BYTES: std::ops::Range<u64> = 15 << 20..20 << 20;
/// What its leader commits meanwhile, in entries of [`large_stock`].
const LARGE_PUTS: u64 = 500;

/// A product whose entry in the log has about 65 kB.
fn large_stock(number: u64) -> Box<ProductDetails> {
    let property = |at: u64| (format!("{at:04}").into(), format!("{number:04}{}", "x".repeat(1_000)).into());
    Box::new(ProductDetails { properties: (0..64).map(property).collect(), ..*stock_of(1_000) })
}

/// A follower's store stands still, and its leader commits more than a replica may keep in memory. It takes no more, catches up when
/// the store answers, and has lost nothing.
#[test]
fn what_waits_for_a_store_that_stands_still_is_bounded_and_nothing_is_lost() {
    plant();
    let machines = three_with_stock();
    let customer = Entity::Customer(ada());
    let (of_ada, shelf) = (shard(&customer), shelf_beside(shard(&customer)));
    let beside = (100..).find(|shelf| shard(&Entity::Product(product(*shelf))) == of_ada).expect("a product");
    buy_as_ada(&machines, 1, 0, shelf);
    machines.until("the cart and the customer have left memory", PATIENCE, |machines| {
        (1..=3).all(|node| machines.left(node) == 2)
    });
    let leader = machines.leader_of(&customer).expect("a leader");
    let follower = 1 + leader % 3;
    let bytes = |machines: &Machines| machines.counter(follower, "boxoffice_shards_waiting_bytes");
    machines.disks(follower).stalls.gate().stall();
    buy_as_ada(&machines, leader, 1, shelf);
    machines.until("the follower waits for the record", PATIENCE, |machines| {
        machines.counter(follower, "boxoffice_shards_waiting") == 1
    });
    let mut most = 0;
    for put in 0..LARGE_PUTS {
        machines.must(leader, Command::Product(product(beside), ProductCommand::Put(large_stock(put))), 1_000 + put);
        most = most.max(bytes(&machines));
    }
    // Its leader sends on.
    let until = std::time::Instant::now() + Duration::from_secs(3);
    while std::time::Instant::now() < until {
        most = most.max(bytes(&machines));
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{most} bytes waited at most");
    assert!(BEHIND_BYTES.contains(&most), "{most} bytes waited");
    // It votes and serves other shards all the same.
    buy(&machines, follower, cart_beside(of_ada, 100), shelf);
    machines.disks(follower).stalls.gate().go_on();
    machines.until("it catches up", PATIENCE, |machines| {
        machines.counter(follower, "boxoffice_shards_waiting") == 0 && bytes(machines) == 0
    });
    buy_as_ada(&machines, follower, 2, shelf);
    machines.applied_alike();
    machines.audited();
}

/// Files go on when this is dropped, because a runtime whose thread waits for one never ends.
struct GoOn(Vec<StallingDisk>);

impl Drop for GoOn {
    fn drop(&mut self) {
        self.0.iter().for_each(|disk| disk.gate().go_on());
    }
}

/// Histories are read from files that stand still, and so are segments of the log that go into the archive. Votes, heartbeats and
/// sales go on.
#[test]
fn nodes_whose_files_stand_still_vote_and_sell() {
    plant();
    let mut machines = three_with_stock();
    let shelf = 1;
    let put = |machines: &Machines, put: u64| {
        machines.must(1, Command::Product(product(100), ProductCommand::Put(large_stock(put))), 1_000 + put);
    };
    let mut puts = 0;
    machines.until("a segment is in the archive", PATIENCE, |machines| {
        (puts..puts + 8).for_each(|number| put(machines, number));
        puts += 8;
        (1..=3).all(|node| machines.counter(node, "boxoffice_archived_segments_total") > 0)
    });
    println!("{puts} large puts");
    let _go_on = GoOn((1..=3).map(|node| machines.disks(node).files.clone()).collect());
    for node in 1..=3 {
        machines.disks(node).files.gate().stall();
    }
    // More than are read at a time.
    let histories: Vec<_> =
        (1..=3).flat_map(|node| (0..8).map(move |_| node)).map(|node| machines.history_later(node, shelf)).collect();
    machines.until("reads wait at every node", PATIENCE, |machines| {
        (1..=3).all(|node| machines.disks(node).files.gate().waiting() > 0)
    });
    let began = std::time::Instant::now();
    (0..40).for_each(|more| put(&machines, puts + more));
    (0..20).for_each(|cart| buy(&machines, 1 + cart % 3, cart, shelf));
    let leader = machines.leader_of(&Entity::Product(product(shelf))).expect("a leader");
    let others: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    machines.disks(leader).files.gate().go_on();
    machines.crash(leader);
    machines.until("the two sell without the third", PATIENCE, |machines| {
        machines.leader_of(&Entity::Product(product(shelf))).is_some()
    });
    (20..40).for_each(|cart| buy(&machines, others[(cart % 2) as usize], cart, shelf));
    println!("sold for {:?}", began.elapsed());
    assert!(others.iter().all(|node| machines.disks(*node).files.gate().waiting() > 0), "the files still stand");
    for node in &others {
        machines.disks(*node).files.gate().go_on();
    }
    // Those of the node that was crashed may have ended with it.
    let read = histories.iter().filter(|history| history.recv_timeout(PATIENCE).is_ok_and(|read| read > 0)).count();
    assert!(read >= others.len(), "{read} histories were read");
    machines.restart(leader);
    machines.all_ready();
    machines.applied_alike();
    machines.audited();
}

/// The records of all orders of a node.
fn damage_records(machines: &Machines, node: u64) -> usize {
    let (dir, disks) = (std::path::Path::new("/data/history"), machines.disks(node));
    let keys: Vec<_> = disks.stores.keys(dir).into_iter().filter(|key| key.starts_with(b"e")).collect();
    let (first, last) = (keys.first().expect("a record"), keys.last().expect("a record"));
    disks.stores.damage_block(dir, first, last)
}

/// A node with damaged records votes and sells on. What it leads goes to the others, which read the records.
#[test]
fn a_node_with_a_damaged_store_gives_its_leaderships_away_and_goes_on() {
    const CARTS: u64 = 24;
    let mut machines = three_with_stock();
    (0..CARTS).for_each(|cart| buy(&machines, 1 + cart % 3, cart, cart % SHELVES));
    buy_as_ada(&machines, 1, 50, 0);
    machines.until("all have left memory", PATIENCE, |machines| (1..=3).all(|node| machines.left(node) == CARTS + 2));
    let customer = Entity::Customer(ada());
    let damaged = machines.leader_of(&customer).expect("a leader");
    assert_eq!(damage_records(&machines, damaged) as u64, CARTS + 2);
    let read_all = |machines: &Machines| {
        for cart in 0..CARTS {
            let entity = Entity::Cart(cart_id(cart));
            // A client tries again when a shard is not ready.
            machines.until("the order is read", PATIENCE, |machines| {
                let at = machines.leader_of(&entity).unwrap_or(damaged);
                match machines.ask(at, Command::Cart(cart_id(cart), CartCommand::Order), None) {
                    Ok(Ok(Answer::Order { .. })) => true,
                    Err(Failure::NotReady | Failure::Unknown) => false,
                    other => panic!("cart {cart}: {other:?}"),
                }
            });
        }
    };
    read_all(&machines);
    machines.until("it says what is damaged", PATIENCE, |machines| {
        machines.counter(damaged, "boxoffice_history_damaged") > 0
            && machines.violations(damaged).iter().any(|violation| violation.contains("is damaged"))
    });
    // Ada is back: every node applies it, and the damaged one leaves it out.
    buy_as_ada(&machines, 1, 51, 1);
    (60..80).for_each(|cart| buy(&machines, 1 + cart % 3, cart, cart % SHELVES));
    machines.crash(damaged);
    machines.restart(damaged);
    machines.all_ready();
    read_all(&machines);
    (80..90).for_each(|cart| buy(&machines, 1 + cart % 3, cart, cart % SHELVES));
    machines.applied_alike();
    assert!(machines.violations(1 + damaged % 3).is_empty(), "{:?}", machines.violations(1 + damaged % 3));

    // Another node's disk is replaced. A good replica sends it the history, and the damaged node votes.
    let lost = 1 + damaged % 3;
    machines.crash(lost);
    machines.lose_disk(lost);
    machines.must(damaged, Command::Cluster(boxoffice_core::command::ClusterCommand::Replace { node: lost }), 78);
    machines.join(lost);
    machines.settled("three voters each, with new replicas", |cluster| {
        let first = cluster.members[&lost].first_generation;
        cluster.places.iter().all(|place| {
            let mut replaced = place.target.voters.iter().filter(|replica| replica.node == lost);
            replaced.all(|replica| replica.generation >= first) && place.target.voters.len() == 3
        })
    });
    machines.until("the new replicas are good", PATIENCE, |machines| machines.violations(lost).is_empty());
    read_all(&machines);
    assert_eq!(machines.running().len(), 3);
    let request = Request { id: RequestHash(9), body: 0 };
    let again = machines.ask(lost, Command::Cart(cart_id(51), checkout()), Some(request));
    assert!(again.is_ok(), "{again:?}");
}

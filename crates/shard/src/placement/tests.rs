//! Clusters that grow and shrink, planned to the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// A cluster that carries out plans, like the directory and the leaders of shards.
#[derive(Clone, Debug)]
struct World {
    now: Situation,
    next_generation: u64,
    /// Replicas created.
    made: usize,
}

impl World {
    fn founded(shards: u16, replicas: usize) -> World {
        let own = Replica { node: 1, generation: 1 };
        let place = |shard| Place {
            shard,
            voters: vec![own],
            learners: Vec::new(),
            leader: 1,
            moving: false,
            leaving: Vec::new(),
        };
        let now = Situation {
            members: vec![Member { node: 1, state: MemberState::Serving, first_generation: 1 }],
            replicas,
            places: (0..=shards).map(place).collect(),
            moving_max: MOVING_MAX,
        };
        World { now, next_generation: 2, made: 0 }
    }

    fn join(&mut self) -> NodeId {
        let node = self.now.members.len() as NodeId + 1;
        self.now.members.push(Member { node, state: MemberState::Serving, first_generation: 1 });
        node
    }

    fn member(&mut self, node: NodeId) -> &mut Member {
        self.now.members.iter_mut().find(|member| member.node == node).expect("a member")
    }

    fn turn(&mut self, node: NodeId, state: MemberState) {
        self.member(node).state = state;
    }

    fn replace(&mut self, node: NodeId) {
        let first_generation = self.next_generation;
        *self.member(node) = Member { node, state: MemberState::Joining, first_generation };
    }

    /// Whether every shard that this node votes in would keep a majority without it.
    fn can_lose(&self, node: NodeId) -> bool {
        self.now.places.iter().all(|place| {
            let whole = |voter: &&Replica| {
                self.now.state(voter.node) != MemberState::Gone && self.now.has_its_disk(**voter) && voter.node != node
            };
            let votes = place.voters.iter().any(|voter| voter.node == node);
            !place.moving && (!votes || place.voters.iter().filter(whole).count() * 2 > place.voters.len())
        })
    }

    /// Plans once and commits it. Returns the plan.
    fn step(&mut self) -> Vec<Move> {
        let moves = plan(&self.now);
        assert_eq!(moves, plan(&self.now), "the same table has the same plan");
        let moving = self.now.places.iter().filter(|place| place.moving).count();
        for wanted in &moves {
            self.check(wanted);
            self.commit(wanted);
        }
        let now = self.now.places.iter().filter(|place| place.moving).count();
        assert!(now <= moving.max(self.now.moving_max), "{now} shards move at once");
        moves
    }

    fn check(&self, Move { shard, voters, learners, leader }: &Move) {
        let place = &self.now.places[usize::from(*shard)];
        let nodes: BTreeSet<NodeId> = voters.iter().chain(learners).copied().collect();
        assert_eq!(nodes.len(), voters.len() + learners.len(), "a node is named twice in {voters:?} {learners:?}");
        assert!(voters.contains(leader), "{leader} should lead shard {shard} and does not vote: {voters:?}");
        let comes = nodes.iter().filter(|node| !place.has(**node));
        comes
            .for_each(|node| assert_eq!(self.now.state(*node), MemberState::Serving, "node {node} gets shard {shard}"));
        if nodes.iter().any(|node| self.now.state(*node) == MemberState::Gone) {
            assert_eq!((voters, learners), (&Target::of(place).voters, &Target::of(place).learners), "shard {shard}");
        }
    }

    fn commit(&mut self, Move { shard, voters, learners, leader }: &Move) {
        let before = self.now.places[usize::from(*shard)].clone();
        let (voters, learners) = (self.replicas(&before, voters), self.replicas(&before, learners));
        let same = |one: &[Replica], other: &[Replica]| {
            one.len() == other.len() && one.iter().all(|replica| other.contains(replica))
        };
        let stays = same(&voters, &before.voters) && same(&learners, &before.learners);
        let leaving = before.all().map(|replica| replica.node).chain(before.leaving.clone()).collect();
        let leaving = if stays { before.leaving } else { leaving };
        let moving = before.moving || !stays;
        self.now.places[usize::from(*shard)] =
            Place { shard: *shard, voters, learners, leader: *leader, moving, leaving };
    }

    fn replicas(&mut self, before: &Place, nodes: &[NodeId]) -> Vec<Replica> {
        let mut replicas = Vec::new();
        for node in nodes {
            let known = before.all().find(|replica| replica.node == *node);
            let serves = self.now.state(*node) == MemberState::Serving;
            let known = known.filter(|known| !serves || self.now.has_its_disk(*known));
            replicas.push(known.unwrap_or_else(|| {
                self.next_generation += 1;
                self.made += 1;
                Replica { node: *node, generation: self.next_generation - 1 }
            }));
        }
        replicas
    }

    /// Finishes the move of a shard if every node of its target is there.
    fn arrive(&mut self, shard: usize) {
        let place = &self.now.places[shard];
        let there = |replica: Replica| self.now.state(replica.node) != MemberState::Gone;
        let can = place.all().all(there);
        let place = &mut self.now.places[shard];
        if can {
            (place.moving, place.leaving) = (false, Vec::new());
        }
    }

    /// Plans until nothing is left to do. Returns the rounds.
    fn settle(&mut self) -> usize {
        for round in 0..1_000 {
            let moves = self.step();
            if moves.is_empty() && self.now.places.iter().all(|place| !place.moving) {
                self.check_settled();
                return round;
            }
            (0..self.now.places.len()).for_each(|shard| self.arrive(shard));
        }
        panic!("the cluster never settles: {:?}", self.now);
    }

    fn check_settled(&self) {
        let serving: Vec<NodeId> = self.in_state(MemberState::Serving);
        let stay = serving.len() + self.waiting().len();
        let copies = self.now.replicas.min(stay);
        let voters = copies - usize::from(copies.is_multiple_of(2));
        let mut held: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut led: BTreeMap<NodeId, usize> = BTreeMap::new();
        for place in &self.now.places[1..] {
            let complete = (place.voters.len(), place.all().count()) == (voters, copies);
            assert!(complete || !self.waiting().is_empty(), "{place:?}");
            for replica in place.all() {
                let state = self.now.state(replica.node);
                // While a node has no disk, there may be no node that can take its copies.
                let stays = match state {
                    MemberState::Serving => self.now.has_its_disk(replica),
                    MemberState::Joining => true,
                    MemberState::Draining | MemberState::Gone => !self.waiting().is_empty(),
                };
                assert!(stays, "{place:?} has one {state:?}");
                *held.entry(replica.node).or_default() += 1;
            }
            let leads = self.now.state(place.leader) == MemberState::Serving;
            assert!(leads || !self.waiting().is_empty(), "{place:?}");
            *led.entry(place.leader).or_default() += 1;
        }
        let shards = self.now.places.len() - 1;
        let copies_max = (shards * copies).div_ceil(stay);
        // A node without a disk keeps its copies and gets none, so others may have more.
        if self.waiting().is_empty() {
            assert!(held.values().all(|held| *held <= copies_max), "{held:?} of at most {copies_max}");
            let leads_max = shards.div_ceil(serving.len());
            assert!(voters < copies || led.values().all(|led| *led <= leads_max), "{led:?} of at most {leads_max}");
        }
        let directory = &self.now.places[0];
        let members: BTreeSet<NodeId> = directory.all().map(|replica| replica.node).collect();
        assert!(serving.iter().all(|node| members.contains(node)), "{directory:?}");
        assert!(members.iter().all(|node| self.now.state(*node) != MemberState::Gone), "{directory:?}");
        let stay = members.iter().filter(|node| self.now.state(**node) != MemberState::Draining).count();
        let voters = stay.min(DIRECTORY_VOTERS_MAX);
        assert_eq!(directory.voters.len(), voters - usize::from(voters % 2 == 0), "{directory:?}");
    }

    fn in_state(&self, state: MemberState) -> Vec<NodeId> {
        self.now.members.iter().filter(|member| member.state == state).map(|member| member.node).collect()
    }

    fn waiting(&self) -> Vec<NodeId> {
        let holds = |node: &NodeId| self.now.places.iter().any(|place| place.has(*node));
        self.in_state(MemberState::Joining).into_iter().filter(holds).collect()
    }

    fn draw(&self) -> String {
        let mut drawn = String::new();
        for place in &self.now.places {
            let texts = |replicas: &[Replica]| {
                let mut replicas = replicas.to_vec();
                replicas.sort_by_key(|replica| replica.node);
                replicas.iter().map(|Replica { node, generation }| format!("{node}.{generation}")).collect::<Vec<_>>()
            };
            write!(drawn, "{}: {}", place.shard, texts(&place.voters).join(" ")).expect("writes to a string succeed");
            if !place.learners.is_empty() {
                write!(drawn, " + {}", texts(&place.learners).join(" ")).expect("writes to a string succeed");
            }
            writeln!(drawn, " led by {}", place.leader).expect("writes to a string succeed");
        }
        drawn
    }
}

fn settled(nodes: usize, shards: u16) -> World {
    let mut world = World::founded(shards, 3);
    for _ in 1..nodes {
        world.join();
        world.settle();
    }
    world
}

fn check(world: &World, expect: Expect) {
    expect.assert_eq(&world.draw());
}

#[test]
fn from_one_node_to_four() {
    let mut world = World::founded(4, 3);
    assert_eq!(world.settle(), 0, "one node has all shards");
    world.join();
    world.settle();
    check(
        &world,
        expect![[r#"
        0: 1.1 + 2.2 led by 1
        1: 1.1 + 2.3 led by 1
        2: 1.1 + 2.4 led by 1
        3: 1.1 + 2.5 led by 1
        4: 1.1 + 2.6 led by 1
    "#]],
    );
    world.join();
    world.settle();
    check(
        &world,
        expect![[r#"
        0: 1.1 2.2 3.7 led by 1
        1: 1.1 2.3 3.8 led by 3
        2: 1.1 2.4 3.9 led by 1
        3: 1.1 2.5 3.10 led by 2
        4: 1.1 2.6 3.11 led by 1
    "#]],
    );
    world.join();
    world.settle();
    check(
        &world,
        expect![[r#"
        0: 1.1 2.2 3.7 + 4.12 led by 1
        1: 2.3 3.8 4.13 led by 3
        2: 1.1 3.9 4.14 led by 4
        3: 1.1 2.5 4.15 led by 2
        4: 1.1 2.6 3.11 led by 1
    "#]],
    );
}

#[test]
fn a_drained_node_keeps_the_directory_until_it_has_no_other_shard() {
    let mut world = settled(4, 4);
    world.turn(2, MemberState::Draining);
    let first = world.step();
    assert_eq!(first[0].shard, 0, "{first:?}");
    assert!(first[0].learners.contains(&2), "it follows the directory as long as it has shards: {first:?}");
    assert!(first.iter().all(|wanted| wanted.leader != 2), "the drained node leads nothing: {first:?}");
    assert!(world.now.places[1..].iter().all(|place| place.leader != 2), "leaders go at once");
    world.settle();
    check(
        &world,
        expect![[r#"
        0: 1.1 3.7 4.12 led by 1
        1: 1.16 3.8 4.13 led by 3
        2: 1.1 3.9 4.14 led by 4
        3: 1.1 3.17 4.15 led by 1
        4: 1.1 3.11 4.18 led by 1
    "#]],
    );
}

#[test]
fn shards_of_a_removed_node_are_copied_first() {
    let mut world = settled(4, 8);
    world.turn(4, MemberState::Draining);
    world.step();
    (0..=8).for_each(|shard| world.arrive(shard));
    world.turn(3, MemberState::Gone);
    let moved: Vec<_> = world.now.places.iter().filter(|place| place.has(3)).map(|place| place.shard).collect();
    let before = world.now.clone();
    for wanted in world.step() {
        let place = &before.places[usize::from(wanted.shard)];
        assert!(Target::of(place).voters == wanted.voters || moved.contains(&wanted.shard), "{wanted:?}");
    }
    world.settle();
    check(
        &world,
        expect![[r#"
        0: 1.1 + 2.2 led by 1
        1: 2.3 + 1.27 led by 2
        2: 1.28 + 2.4 led by 1
        3: 1.1 + 2.5 led by 1
        4: 2.6 + 1.1 led by 2
        5: 2.7 + 1.1 led by 2
        6: 1.1 + 2.31 led by 1
        7: 2.9 + 1.1 led by 2
        8: 1.1 + 2.32 led by 1
    "#]],
    );
}

#[test]
fn a_node_with_a_lost_disk_keeps_its_places_and_is_filled_later() {
    let mut world = settled(3, 4);
    let before = world.clone();
    world.replace(2);
    world.settle();
    let places = |world: &World| world.now.places.iter().map(|place| place.voters.clone()).collect::<Vec<_>>();
    assert_eq!(places(&world), places(&before), "its lost replicas stay in the count of voters");
    assert!(world.now.places.iter().all(|place| place.leader != 2));
    world.turn(2, MemberState::Serving);
    world.settle();
    check(
        &world,
        expect![[r#"
        0: 1.1 2.12 3.7 led by 1
        1: 1.1 2.13 3.8 led by 3
        2: 1.1 2.14 3.9 led by 1
        3: 1.1 2.15 3.10 led by 3
        4: 1.1 2.16 3.11 led by 1
    "#]],
    );
}

#[test]
fn an_unreachable_target_is_replaced() {
    let mut world = settled(3, 4);
    world.join();
    world.step();
    let under_way: Vec<_> = world.now.places.iter().filter(|place| place.moving).map(|place| place.shard).collect();
    assert_eq!(under_way.len(), MOVING_MAX);
    assert_eq!(world.step(), [], "no more than four at once");
    world.turn(4, MemberState::Gone);
    let again: Vec<_> = world.step().iter().map(|wanted| wanted.shard).collect();
    assert_eq!(again, under_way);
    world.settle();
    check(
        &world,
        expect![[r#"
        0: 1.1 2.2 3.7 led by 1
        1: 1.16 2.3 3.8 led by 3
        2: 1.1 2.17 3.9 led by 1
        3: 1.1 2.5 3.18 led by 2
        4: 1.1 2.6 3.11 led by 1
    "#]],
    );
}

/// Adding a node moves its share and nothing else.
#[test]
fn a_new_node_gets_its_share_and_nothing_else_moves() {
    for shards in [32, 128] {
        let mut world = settled(3, shards);
        for nodes in 4..=8 {
            let before: Vec<BTreeSet<NodeId>> = nodes_of(&world);
            let (made, new) = (world.made, world.join());
            let rounds = world.settle();
            // One replica is that of the directory, which every node has.
            let moved = world.made - made - 1;
            let all = usize::from(shards) * 3;
            let share = moved as f64 / all as f64;
            println!("{shards} shards, node {nodes}: {moved} of {all} replicas moved ({share:.3}) in {rounds} rounds");
            assert!(share <= 1.0 / nodes as f64, "{moved} of {all} moved to node {nodes}");
            for (before, after) in before.iter().zip(nodes_of(&world)) {
                assert!(after.difference(before).all(|node| *node == new), "a replica moved between old nodes");
            }
        }
    }
}

fn nodes_of(world: &World) -> Vec<BTreeSet<NodeId>> {
    world.now.places[1..].iter().map(|place| place.all().map(|replica| replica.node).collect()).collect()
}

#[derive(Clone, Debug)]
enum ClusterEvent {
    Join,
    Drain(usize),
    Undrain(usize),
    Remove(usize),
    Replace(usize),
    Return(usize),
    Plan,
    Arrive(usize),
    Settle,
}

fn cluster_events() -> impl Strategy<Value = ClusterEvent> {
    prop_oneof![
        2 => Just(ClusterEvent::Join),
        1 => any::<usize>().prop_map(ClusterEvent::Drain),
        1 => any::<usize>().prop_map(ClusterEvent::Undrain),
        1 => any::<usize>().prop_map(ClusterEvent::Remove),
        1 => any::<usize>().prop_map(ClusterEvent::Replace),
        1 => any::<usize>().prop_map(ClusterEvent::Return),
        6 => Just(ClusterEvent::Plan),
        8 => any::<usize>().prop_map(ClusterEvent::Arrive),
        1 => Just(ClusterEvent::Settle),
    ]
}

impl World {
    fn apply_event(&mut self, event: &ClusterEvent) {
        let one = |nodes: Vec<NodeId>, at: usize| (!nodes.is_empty()).then(|| nodes[at % nodes.len()]);
        let serving = self.in_state(MemberState::Serving);
        match event {
            ClusterEvent::Join if self.now.members.len() < 9 => _ = self.join(),
            ClusterEvent::Join => {}
            ClusterEvent::Drain(at) if serving.len() > 1 => {
                self.turn(serving[at % serving.len()], MemberState::Draining)
            }
            ClusterEvent::Drain(_) => {}
            ClusterEvent::Undrain(at) => {
                if let Some(node) = one(self.in_state(MemberState::Draining), *at) {
                    self.turn(node, MemberState::Serving);
                }
            }
            // At least one node must serve.
            ClusterEvent::Remove(_) | ClusterEvent::Replace(_) if serving.len() == 1 => {}
            ClusterEvent::Remove(at) => {
                if let Some(node) = one(serving, *at).filter(|node| self.can_lose(*node)) {
                    self.turn(node, MemberState::Gone);
                }
            }
            ClusterEvent::Replace(at) => {
                if let Some(node) = one(serving, *at).filter(|node| self.can_lose(*node)) {
                    self.replace(node);
                }
            }
            ClusterEvent::Return(at) => {
                if let Some(node) = one(self.in_state(MemberState::Joining), *at) {
                    self.turn(node, MemberState::Serving);
                }
            }
            ClusterEvent::Plan => _ = self.step(),
            ClusterEvent::Arrive(at) => self.arrive(at % self.now.places.len()),
            ClusterEvent::Settle => _ = self.settle(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// After any sequence of events, and at any point of an earlier plan, the cluster settles with even shares. Each
    /// step is checked by itself.
    #[test]
    fn every_cluster_settles(
        shards in 1..40_u16,
        replicas in prop_oneof![Just(1_usize), Just(2), Just(3), Just(5)],
        story in prop::collection::vec(cluster_events(), 0..60),
    ) {
        let mut world = World::founded(shards, replicas);
        for event in &story {
            world.apply_event(event);
        }
        for node in world.in_state(MemberState::Joining) {
            world.turn(node, MemberState::Serving);
        }
        world.settle();
        prop_assert_eq!(world.step(), []);
    }
}

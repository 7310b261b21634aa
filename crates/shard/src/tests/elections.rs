//! How long a shard has no leader after its leader has died, in many clusters whose nodes tick at moments of their own.

use std::collections::BTreeMap;

use super::{
    member::{Habit, Member, turn_of},
    rng::Rng,
};
use crate::{ClockReading, Config, Input, NodeId, Now, Outgoing, Output, ShardId, TICK_MS};

/// The data shards of a cluster.
const SHARDS: u16 = 8;

const WALL_MS: u64 = 1_700_000_000_000;

/// What happens at a moment.
enum Event {
    /// A node ticks, and wakes up again a tick later.
    Tick(NodeId),
    /// A node has something due.
    Due(NodeId),
    Arrives(NodeId, Outgoing),
    /// Each leader appends a turn.
    Sale,
}

/// Nodes on a network in which each message takes a time of its own.
struct Network {
    members: Vec<Member>,
    dead: Vec<NodeId>,
    rng: Rng,
    now_ms: u64,
    /// A message takes at least and less than this, in milliseconds, with the write that precedes it.
    delay_ms: (u64, u64),
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    completions: u64,
    /// Leaderships that began: when, the shard, its term, and the leader.
    begun: Vec<(u64, ShardId, u64, NodeId)>,
}

impl Network {
    fn new(seed: u64, nodes: u64, delay_ms: (u64, u64)) -> Network {
        let ids: Vec<NodeId> = (1..=nodes).collect();
        let mut rng = Rng::new(seed);
        let config = |node| Config::born(node, seed.wrapping_add(node), SHARDS, &ids);
        let mut members: Vec<_> = ids.iter().map(|node| Member::new(config(*node), Habit::Correct)).collect();
        members.iter_mut().for_each(Member::start);
        let phases: Vec<u64> = ids.iter().map(|_| rng.below(TICK_MS)).collect();
        let mut network = Network {
            members,
            dead: Vec::new(),
            rng,
            now_ms: 1_000,
            delay_ms,
            events: BTreeMap::new(),
            count: 0,
            completions: 0,
            begun: Vec::new(),
        };
        ids.iter().zip(phases).for_each(|(node, phase)| network.at(1_000 + phase, Event::Tick(*node)));
        network.at(1_000, Event::Sale);
        network
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.count += 1;
        self.events.insert((at_ms, self.count), event);
    }

    fn member(&mut self, node: NodeId) -> &mut Member {
        &mut self.members[usize::try_from(node - 1).unwrap()]
    }

    /// Runs until `until_ms`, or until `is_over`.
    fn run(&mut self, until_ms: u64, is_over: impl Fn(&Network) -> bool) -> bool {
        while let Some(((at_ms, _), event)) = self.events.pop_first() {
            if at_ms >= until_ms {
                self.events.insert((at_ms, 0), event);
                self.now_ms = until_ms;
                return false;
            }
            self.now_ms = at_ms;
            self.happens(event);
            if is_over(self) {
                return true;
            }
        }
        unreachable!("nodes tick for ever");
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Tick(node) => {
                // A thread wakes up a little late.
                let late_ms = self.rng.below(5);
                self.at(self.now_ms + TICK_MS + late_ms, Event::Tick(node));
                if self.dead.contains(&node) {
                    return;
                }
                for other in (1..=self.members.len() as u64).filter(|other| *other != node) {
                    let read = ClockReading {
                        asked_ms: self.now_ms,
                        answered_ms: self.now_ms,
                        wall_ms: WALL_MS + self.now_ms,
                    };
                    self.member(node).inbox.push(Input::Clock { node: other, read });
                }
                self.member(node).inbox.push(Input::Tick);
                self.work(node);
            }
            Event::Due(node) => self.work(node),
            Event::Arrives(from, message) => {
                let (to, shard, bytes) = (message.to, message.shard, message.bytes);
                self.member(to).inbox.push(Input::Message { from, shard, bytes });
                self.work(to);
            }
            Event::Sale => {
                let pause_ms = 20 + self.rng.below(60);
                self.at(self.now_ms + pause_ms, Event::Sale);
                for node in 1..=self.members.len() as u64 {
                    let epochs: Vec<_> =
                        self.member(node).epochs.iter().map(|(shard, epoch)| (*shard, *epoch)).collect();
                    for (shard, epoch) in epochs {
                        self.completions += 1;
                        let completion = self.completions;
                        let events = turn_of(completion, 20);
                        self.member(node).inbox.push(Input::Propose { shard, epoch, events, beside: None, completion });
                    }
                    self.work(node);
                }
            }
        }
    }

    fn work(&mut self, node: NodeId) {
        if self.dead.contains(&node) {
            return;
        }
        let now = Now { wall_ms: WALL_MS + self.now_ms, mono_ms: self.now_ms };
        let mut sent = Vec::new();
        let place = usize::try_from(node - 1).unwrap();
        let outputs = self.members[place].work(now, None, &mut self.rng, |message| sent.push(message));
        for output in outputs {
            if let Output::BecameLeader { shard, epoch, .. } = output {
                self.begun.push((self.now_ms, shard, epoch.0, node));
            }
        }
        for message in sent {
            let (least_ms, end_ms) = self.delay_ms;
            let delay_ms = least_ms + self.rng.below(end_ms - least_ms);
            self.at(self.now_ms + delay_ms, Event::Arrives(node, message));
        }
        if let Some(due_ms) = self.members[place].engine.as_ref().unwrap().due_ms() {
            self.at(due_ms.max(self.now_ms + 1), Event::Due(node));
        }
    }

    /// The leader of each shard with its term, on nodes that live.
    fn leaders(&self) -> BTreeMap<ShardId, (u64, NodeId)> {
        let mut leaders: BTreeMap<ShardId, (u64, NodeId)> = BTreeMap::new();
        for member in self.members.iter().filter(|member| !self.dead.contains(&member.id())) {
            for (shard, epoch) in &member.epochs {
                let leader = leaders.entry(*shard).or_default();
                *leader = (*leader).max((epoch.0, member.id()));
            }
        }
        leaders
    }

    fn is_led(&self) -> bool {
        self.leaders().len() == usize::from(SHARDS) + 1
    }
}

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
            assert!(network.run(20_000, Network::is_led), "seed {seed}: no leaders");
            let dies_ms = network.now_ms + 1_000 + network.rng.below(1_000);
            network.run(dies_ms, |_| false);
            let before = network.leaders();
            let mut led: BTreeMap<NodeId, usize> = BTreeMap::new();
            before.values().for_each(|(_, leader)| *led.entry(*leader).or_default() += 1);
            let (dies, _) = led.into_iter().max_by_key(|(_, count)| *count).unwrap();
            network.dead.push(dies);
            network.begun.clear();
            assert!(network.run(dies_ms + 60_000, Network::is_led), "seed {seed}: no leaders after a death");
            for (shard, (term, leader)) in before {
                if leader == dies {
                    let first = network.begun.iter().find(|begun| begun.1 == shard).unwrap();
                    pauses.ms.push(first.0 - dies_ms);
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
        assert!(pauses.worst_ms() <= 10 * PAUSE_MS_MAX, "{}", pauses.drawn());
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

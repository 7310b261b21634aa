//! Nodes that tick at moments of their own, on a network in which messages take time.

use std::collections::BTreeMap;

use super::{
    member::{Habit, Member, turn_of},
    rng::Rng,
};
use crate::{ClockReading, Config, Input, NodeId, Now, Outgoing, Output, ShardId, TICK_MS};

/// The data shards of a cluster.
pub(crate) const SHARDS: u16 = 8;

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
pub(crate) struct Network {
    pub(crate) members: Vec<Member>,
    pub(crate) dead: Vec<NodeId>,
    pub(crate) rng: Rng,
    /// In microseconds.
    pub(crate) now_us: u64,
    /// How far the monotonic clock of each node is ahead, in microseconds.
    phases_us: Vec<u64>,
    /// A message takes at least and less than this, in milliseconds, with the write that precedes it.
    delay_ms: (u64, u64),
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    completions: u64,
    /// The error of each wall clock.
    pub(crate) wrong_ms: Vec<i64>,
    /// Leaderships that began: when, in microseconds, the shard, its term, and the leader.
    pub(crate) begun: Vec<(u64, ShardId, u64, NodeId)>,
}

impl Network {
    pub(crate) fn new(seed: u64, nodes: u64, delay_ms: (u64, u64)) -> Network {
        let ids: Vec<NodeId> = (1..=nodes).collect();
        let mut rng = Rng::new(seed);
        let config = |node| Config::born(node, seed.wrapping_add(node), SHARDS, &ids);
        let mut members: Vec<_> = ids.iter().map(|node| Member::new(config(*node), Habit::Correct)).collect();
        members.iter_mut().for_each(Member::start);
        let phases_us: Vec<u64> = ids.iter().map(|_| rng.below(TICK_MS * 1_000)).collect();
        let begin_us: Vec<_> = phases_us.iter().map(|phase_us| 1_000_000 + phase_us).collect();
        let mut network = Network {
            members,
            dead: Vec::new(),
            rng,
            now_us: 1_000_000,
            phases_us,
            delay_ms,
            events: BTreeMap::new(),
            count: 0,
            completions: 0,
            wrong_ms: vec![0; ids.len()],
            begun: Vec::new(),
        };
        ids.iter().zip(begin_us).for_each(|(node, at_us)| network.at(at_us, Event::Tick(*node)));
        network.at(1_000_000, Event::Sale);
        network
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.count += 1;
        self.events.insert((at_us, self.count), event);
    }

    pub(crate) fn member(&mut self, node: NodeId) -> &mut Member {
        &mut self.members[usize::try_from(node - 1).unwrap()]
    }

    /// Runs until `until_us`, or until `is_over`.
    pub(crate) fn run(&mut self, until_us: u64, is_over: impl Fn(&Network) -> bool) -> bool {
        while let Some(((at_us, _), event)) = self.events.pop_first() {
            if at_us >= until_us {
                self.events.insert((at_us, 0), event);
                self.now_us = until_us;
                return false;
            }
            self.now_us = at_us;
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
                let late_us = self.rng.below(5_000);
                self.at(self.now_us + TICK_MS * 1_000 + late_us, Event::Tick(node));
                if self.dead.contains(&node) {
                    return;
                }
                for other in (1..=self.members.len() as u64).filter(|other| *other != node) {
                    let read = ClockReading {
                        asked_ms: self.now(node).mono_ms,
                        answered_ms: self.now(node).mono_ms,
                        wall_ms: self.now(other).wall_ms,
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
                let pause_us = 20_000 + self.rng.below(60_000);
                self.at(self.now_us + pause_us, Event::Sale);
                for node in 1..=self.members.len() as u64 {
                    let epochs: Vec<_> =
                        self.member(node).epochs.iter().map(|(shard, epoch)| (*shard, *epoch)).collect();
                    for (shard, epoch) in epochs {
                        self.completions += 1;
                        let completion = self.completions;
                        let events = turn_of(completion, 20);
                        self.member(node).inbox.push(Input::Propose { shard, epoch, events, joint: None, completion });
                    }
                    self.work(node);
                }
            }
        }
    }

    fn now(&self, node: NodeId) -> Now {
        let place = usize::try_from(node - 1).unwrap();
        let wall_ms = (WALL_MS + self.now_us / 1_000).saturating_add_signed(self.wrong_ms[place]);
        Now { wall_ms, mono_ms: (self.now_us + self.phases_us[place]) / 1_000 }
    }

    pub(crate) fn work(&mut self, node: NodeId) {
        if self.dead.contains(&node) {
            return;
        }
        let now = self.now(node);
        let mut sent = Vec::new();
        let place = usize::try_from(node - 1).unwrap();
        let outputs = self.members[place].work(now, None, &mut self.rng, |message| sent.push(message));
        for output in outputs {
            if let Output::BecameLeader { shard, epoch, .. } = output {
                self.begun.push((self.now_us, shard, epoch.0, node));
            }
        }
        for message in sent {
            let (least_ms, end_ms) = self.delay_ms;
            let delay_us = 1_000 * least_ms + self.rng.below(1_000 * (end_ms - least_ms));
            self.at(self.now_us + delay_us, Event::Arrives(node, message));
        }
        if let Some(due_ms) = self.members[place].engine.as_ref().unwrap().due_ms() {
            let due_us = 1_000 * due_ms - self.phases_us[place];
            self.at(due_us.max(self.now_us + 1_000), Event::Due(node));
        }
    }

    /// The leader of each shard with its term, on nodes that live.
    pub(crate) fn leaders(&self) -> BTreeMap<ShardId, (u64, NodeId)> {
        let mut leaders: BTreeMap<ShardId, (u64, NodeId)> = BTreeMap::new();
        for member in self.members.iter().filter(|member| !self.dead.contains(&member.id())) {
            for (shard, epoch) in &member.epochs {
                let leader = leaders.entry(*shard).or_default();
                *leader = (*leader).max((epoch.0, member.id()));
            }
        }
        leaders
    }

    pub(crate) fn is_led(&self) -> bool {
        self.leaders().len() == usize::from(SHARDS) + 1
    }
}

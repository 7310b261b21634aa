//! A cluster of engines on a simulated network, with a client and every kind of fault.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    directory::Directory,
    history::History,
    member::{Completion, Cut, Habit, Member, turn_of},
    rng::Rng,
};
use crate::{ClockReading, Config, Input, NodeId, Now, Outgoing, Output, ShardId};

/// A step of the simulation, ms.
const STEP_MS: u64 = 10;
const DATA_SHARDS: u16 = 2;

/// The faults of a simulation, drawn from its seed. All chances are per mille, per step or message.
#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    duplicates: u64,
    delay_steps: u64,
    crash: u64,
    partition: u64,
    transfer: u64,
    clock_jump: u64,
    all_clocks_jump: u64,
    proposals: u64,
    // The next four apply only with a directory.
    moves: u64,
    lost_disks: u64,
    announced: u64,
    old_announced: u64,
}

impl Faults {
    const CALM: Faults = Faults {
        loss: 0,
        duplicates: 0,
        delay_steps: 1,
        crash: 0,
        partition: 0,
        transfer: 0,
        clock_jump: 0,
        all_clocks_jump: 0,
        proposals: 2,
        moves: 0,
        lost_disks: 0,
        announced: 500,
        old_announced: 0,
    };

    fn drawn(rng: &mut Rng) -> Faults {
        Faults {
            loss: *rng.pick(&[0, 10, 100, 300]),
            duplicates: *rng.pick(&[0, 50]),
            delay_steps: *rng.pick(&[1, 3, 30]),
            crash: *rng.pick(&[0, 2, 10]),
            partition: *rng.pick(&[0, 3, 10]),
            transfer: *rng.pick(&[0, 5, 20]),
            clock_jump: *rng.pick(&[0, 5]),
            all_clocks_jump: *rng.pick(&[0, 1]),
            proposals: *rng.pick(&[1, 4, 12]),
            moves: *rng.pick(&[3, 10, 30]),
            lost_disks: *rng.pick(&[0, 50, 500]),
            announced: *rng.pick(&[10, 50, 200]),
            old_announced: *rng.pick(&[0, 300]),
        }
    }
}

/// All wall clocks at the start.
const WALL_MS: u64 = 1_700_000_000_000;

struct Clock {
    wall_ms: u64,
    mono_ms: u64,
    tick_ms: u64,
}

/// Counts events, to check that the simulation reaches them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acknowledged: usize,
    pub(crate) never: usize,
    pub(crate) unknown: usize,
    pub(crate) reads: usize,
    pub(crate) crashes: usize,
    pub(crate) leads: usize,
    pub(crate) restores: usize,
    pub(crate) snapshots: usize,
    pub(crate) targets: usize,
    pub(crate) reached: usize,
    pub(crate) removed: usize,
    pub(crate) lost_disks: usize,
    pub(crate) drops: usize,
    pub(crate) converged_steps: usize,
}

pub(crate) struct World {
    rng: Rng,
    faults: Faults,
    step: u64,
    members: Vec<Member>,
    clocks: Vec<Clock>,
    // Down until this step.
    down: Vec<u64>,
    // Messages by the step at which they arrive, in the order in which they were sent.
    in_flight: BTreeMap<(u64, u64), (NodeId, Outgoing)>,
    sent: u64,
    // Until this step, nodes on this side and the others receive nothing from each other.
    apart: (Vec<NodeId>, u64),
    // The last proposal of a node to a shard in its epoch.
    last: BTreeMap<(NodeId, ShardId), Completion>,
    history: History,
    tally: Tally,
    directory: Option<Directory>,
    // Nodes that learn nothing of the directory before the faults end.
    uninformed: Vec<NodeId>,
    // The last index checked of a node's shard.
    seen: BTreeMap<(NodeId, ShardId), u64>,
}

impl World {
    /// A cluster that begins as one node. The others join it empty, and all shards move.
    pub(crate) fn moving(seed: u64, nodes: u64, habit: Habit) -> World {
        let mut world = World::new(seed, nodes, habit);
        for member in &mut world.members {
            member.config.groups = match member.id() {
                1 => Config::founding(1, seed, DATA_SHARDS).groups,
                _ => BTreeMap::new(),
            };
            member.start();
        }
        world.directory = Some(Directory::new(nodes, DATA_SHARDS));
        world.uninformed = (1..=nodes).filter(|_| world.rng.chance(150)).collect();
        world
    }

    pub(crate) fn new(seed: u64, nodes: u64, habit: Habit) -> World {
        let mut rng = Rng::new(seed);
        let ids: Vec<NodeId> = (1..=nodes).collect();
        let mut faults = Faults::drawn(&mut rng);
        if nodes == 1 {
            faults.crash = faults.crash.max(5);
        }
        let config = |node| {
            let mut config = Config::born(node, seed, DATA_SHARDS, &ids);
            config.entry_bytes = 100;
            config.turn_bytes_max = 900;
            config.uncommitted_bytes_max = 3_000;
            config.snapshot_entries = 25;
            config.snapshot_bytes = 3_000;
            config.tail_entries = 6;
            if seed % 2 == 1 {
                config.tail_bytes = 700;
            }
            config
        };
        let members = ids.iter().map(|node| Member::new(config(*node), habit)).collect();
        let mut world = World {
            clocks: ids.iter().map(|_| clock(&mut rng)).collect(),
            down: vec![0; ids.len()],
            members,
            rng,
            faults,
            step: 0,
            in_flight: BTreeMap::new(),
            sent: 0,
            apart: (Vec::new(), 0),
            last: BTreeMap::new(),
            history: History::default(),
            tally: Tally::default(),
            directory: None,
            uninformed: Vec::new(),
            seen: BTreeMap::new(),
        };
        (0..world.members.len()).for_each(|place| world.start(place));
        world
    }

    /// Runs with faults, then without. Then every turn must be on every replica exactly once.
    pub(crate) fn run(mut self, steps: u64) -> (u64, Tally) {
        for _ in 0..steps {
            self.step();
        }
        self.faults = Faults::CALM;
        self.apart.1 = 0;
        self.down.iter_mut().for_each(|until| *until = (*until).min(self.step));
        self.uninformed.clear();
        self.converge();
        let before = self.history.acknowledged();
        // Ten seconds: more than two rounds of elections.
        for _ in 0..1_000 {
            self.step();
        }
        assert!(self.history.acknowledged() > before, "nothing is served after the faults");
        self.faults.proposals = 0;
        for _ in 0..300 {
            self.step();
        }
        assert!(self.is_converged(), "the members changed without a target configuration");
        self.history.check(&self.members);
        self.check_time();
        self.tally.acknowledged = self.history.acknowledged();
        (self.tally.never, self.tally.unknown) = self.history.lost();
        (self.history.trace.0, self.tally)
    }

    /// Every target configuration must be reached once all nodes know it.
    fn converge(&mut self) {
        for step in 0..6_000 {
            if self.is_converged() {
                self.tally.converged_steps = step;
                return;
            }
            self.step();
        }
        let Some(directory) = &self.directory else { return };
        for shard in directory.shards() {
            println!("shard {shard}: target {:?}", directory.latest(shard));
            for member in &self.members {
                println!("  node {}: {:?}", member.id(), member.engine.as_ref().map(|engine| engine.group(shard)));
            }
        }
        panic!("the members differ from the target configurations");
    }

    fn is_converged(&self) -> bool {
        let Some(directory) = &self.directory else { return true };
        let mut found = BTreeSet::new();
        for member in &self.members {
            let Some(engine) = &member.engine else { return false };
            for group in engine.shards().map(|shard| (shard, engine.group(shard).unwrap())) {
                let (shard, group) = group;
                let target = directory.latest(shard);
                let (mut voters, mut learners) = (target.voters.clone(), target.learners.clone());
                voters.sort_unstable();
                learners.sort_unstable();
                let matches_target = group.members.voters == voters && group.members.learners == learners;
                let led = target.leader.is_none_or(|leader| group.leader == Some(leader.node()));
                if !matches_target || group.members.is_joint() || !led {
                    return false;
                }
                found.insert((shard, group.replica));
            }
        }
        directory.is_reconciled() && found == directory.target_replicas()
    }

    fn start(&mut self, place: usize) {
        self.members[place].start();
        self.history.started(&self.members[place]);
        // A new process has a new monotonic clock.
        self.clocks[place].mono_ms = self.rng.below(1_000_000);
    }

    fn step(&mut self) {
        self.step += 1;
        self.deliver();
        self.part();
        self.direct();
        self.set_clocks();
        self.compare_clocks();
        for place in 0..self.members.len() {
            self.pass_time(place);
            if self.members[place].engine.is_some() {
                self.act(place);
                self.inform(place);
                self.work(place);
            } else if self.down[place] <= self.step {
                self.start(place);
            }
        }
    }

    /// Sets all wall clocks to about the same time.
    fn set_clocks(&mut self) {
        if self.rng.chance(self.faults.all_clocks_jump) {
            let wall_ms = WALL_MS + self.rng.below(7_200_000);
            self.clocks.iter_mut().for_each(|clock| clock.wall_ms = wall_ms + self.rng.below(200));
        }
    }

    /// Connected nodes ask each other for the time twice a second.
    fn compare_clocks(&mut self) {
        if !self.step.is_multiple_of(50) {
            return;
        }
        let up: Vec<usize> = (0..self.members.len()).filter(|place| self.members[*place].engine.is_some()).collect();
        for (asker, asked) in up.iter().flat_map(|asker| up.iter().map(move |asked| (*asker, *asked))) {
            let ids = [asker, asked].map(|place| self.members[place].id());
            let apart = self.step < self.apart.1 && self.apart.0.contains(&ids[0]) != self.apart.0.contains(&ids[1]);
            if asker == asked || apart || self.rng.chance(100) {
                continue;
            }
            let slowest_ms = *self.rng.pick(&[10, 10, 1_000]);
            let round_ms = self.rng.below(slowest_ms);
            let answered_ms = self.clocks[asker].mono_ms;
            let asked_ms = answered_ms.saturating_sub(round_ms);
            let wall_ms = self.clocks[asked].wall_ms - self.rng.below(round_ms + 1);
            let read = ClockReading { asked_ms, answered_ms, wall_ms };
            self.members[asker].inbox.push(Input::Clock { node: ids[1], read });
        }
    }

    /// If a majority of a shard's voters has the same time, its leader has it too.
    fn check_time(&self) {
        for member in &self.members {
            let engine = member.engine.as_ref().unwrap();
            for shard in engine.shards().filter(|shard| member.epochs.contains_key(shard)) {
                let group = engine.group(shard).unwrap();
                let walls = group
                    .members
                    .voters
                    .iter()
                    .map(|voter| self.clocks[usize::try_from(voter.node() - 1).unwrap()].wall_ms);
                let walls: Vec<u64> = walls.collect();
                let agree = |wall_ms: u64| walls.iter().filter(|other| other.abs_diff(wall_ms) <= 400).count();
                let right = walls.iter().filter(|wall_ms| 2 * agree(**wall_ms) > walls.len());
                let right: Vec<u64> = right.copied().collect();
                if right.is_empty() {
                    continue;
                }
                let shard_ms = engine.true_ms(shard).unwrap();
                let fits = right.iter().any(|wall_ms| wall_ms.abs_diff(shard_ms) <= 1_000);
                assert!(
                    fits && group.confirmed == Some(true),
                    "shard {shard} has {shard_ms}, clocks {walls:?}: {group:?}"
                );
            }
        }
    }

    fn pass_time(&mut self, place: usize) {
        let clock = &mut self.clocks[place];
        clock.wall_ms += STEP_MS;
        clock.mono_ms += STEP_MS;
        clock.tick_ms += STEP_MS;
        if self.rng.chance(self.faults.clock_jump) {
            clock.wall_ms = clock.wall_ms + self.rng.below(7_200_000) - 3_600_000;
        }
        // Some ticks are a little late.
        if clock.tick_ms >= 100 && self.rng.chance(900) {
            clock.tick_ms -= 100;
            if self.members[place].engine.is_some() {
                self.members[place].inbox.push(Input::Tick);
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(first) = self.in_flight.first_entry() {
            if first.key().0 > self.step {
                return;
            }
            let (from, message) = first.remove();
            let to = usize::try_from(message.to - 1).unwrap();
            let apart = self.step < self.apart.1 && self.apart.0.contains(&from) != self.apart.0.contains(&message.to);
            if self.members[to].engine.is_none() || apart {
                // Some links report that their peer is unreachable.
                let sender = usize::try_from(from - 1).unwrap();
                if self.members[sender].engine.is_some() && self.rng.chance(100) {
                    let node = message.to;
                    self.members[sender].inbox.push(Input::Unreachable { node });
                }
                continue;
            }
            self.members[to].inbox.push(Input::Message { from, shard: message.shard, bytes: message.bytes });
        }
    }

    fn part(&mut self) {
        if self.step >= self.apart.1 && self.rng.chance(self.faults.partition) {
            let ids = self.members.iter().map(Member::id);
            let side = ids.filter(|_| self.rng.chance(400)).collect();
            self.apart = (side, self.step + self.rng.below(300));
        }
    }

    /// Actions of operators and the directory.
    fn direct(&mut self) {
        let Some(directory) = &mut self.directory else { return };
        if self.rng.chance(self.faults.moves) {
            let shard = u16::try_from(self.rng.below(u64::from(DATA_SHARDS) + 1)).unwrap();
            directory.change(shard, &mut self.rng);
            self.tally.targets += 1;
        }
        let place = usize::try_from(self.rng.below(self.members.len() as u64)).unwrap();
        let member = &mut self.members[place];
        if self.rng.chance(self.faults.lost_disks) && directory.can_lose(member.id()) {
            member.crash(&mut self.rng);
            member.lose_disk();
            self.history.crashed(member.id());
            if member.habit != Habit::KeepsReplicaIds {
                member.config.generation_min = directory.lose(member.id());
            }
            self.down[place] = self.step + self.rng.below(50);
            self.tally.lost_disks += 1;
        }
    }

    /// A node learns a part of the directory, late and sometimes out of date.
    fn inform(&mut self, place: usize) {
        let Some(directory) = &self.directory else { return };
        let member = &mut self.members[place];
        if self.uninformed.contains(&member.id()) || !self.rng.chance(self.faults.announced) {
            return;
        }
        let shard = u16::try_from(self.rng.below(u64::from(DATA_SHARDS) + 1)).unwrap();
        let is_old = self.rng.chance(self.faults.old_announced);
        let mut target = if is_old { directory.any(shard, &mut self.rng) } else { directory.latest(shard) }.clone();
        if member.habit == Habit::FollowsOldTargets {
            target.version = directory.latest(shard).version;
        }
        member.inbox.push(Input::Target { shard, target });
        let engine = member.engine.as_ref().unwrap();
        if let Some(group) = engine.group(shard).filter(|group| directory.is_dead(shard, group.replica)) {
            self.tally.drops += 1;
            member.inbox.push(Input::Drop { shard, replica: group.replica });
        }
    }

    /// Actions of a node's clients and operators.
    fn act(&mut self, place: usize) {
        let id = self.members[place].id();
        for _ in 0..self.rng.below(self.faults.proposals + 1) {
            let shard = u16::try_from(self.rng.below(u64::from(DATA_SHARDS) + 1)).unwrap();
            let Some(epoch) = self.members[place].epochs.get(&shard).copied() else {
                continue;
            };
            let read = self.rng.chance(250);
            let input = if read {
                self.tally.reads += 1;
                if self.members[place].habit == Habit::ReadsWithoutQuorum {
                    self.history.read_without_quorum(id, shard);
                    continue;
                }
                let before = self.last.get(&(id, shard)).copied();
                let completion = self.history.ask_read(shard, before);
                Input::Read { shard, epoch, completion }
            } else {
                let completion = self.history.ask_proposal(shard);
                self.last.insert((id, shard), completion);
                // Some are too large.
                let bytes = if self.rng.chance(2) { 1_000 } else { 8 + self.rng.below(60) };
                let events = turn_of(completion, usize::try_from(bytes).unwrap());
                Input::Propose { shard, epoch, events, joint: None, completion }
            };
            self.members[place].inbox.push(input);
        }
        if self.rng.chance(self.faults.transfer) {
            let shard = u16::try_from(self.rng.below(u64::from(DATA_SHARDS) + 1)).unwrap();
            // Also to itself, and to nodes that are down.
            let to = 1 + self.rng.below(self.members.len() as u64);
            self.members[place].inbox.push(Input::TransferLeader { shard, to });
        }
        if self.rng.chance(10) {
            self.members[place].turn_log_over();
        }
    }

    fn work(&mut self, place: usize) {
        let cut = self
            .rng
            .chance(self.faults.crash)
            .then(|| *self.rng.pick(&[Cut::BeforeWrite, Cut::BeforeSync, Cut::AfterSync]));
        let clock = &self.clocks[place];
        let now = Now { wall_ms: clock.wall_ms, mono_ms: clock.mono_ms };
        let mut messages = Vec::new();
        let outputs = self.members[place].work(now, cut, &mut self.rng, |message| messages.push(message));
        let id = self.members[place].id();
        for output in &outputs {
            self.history.take(id, output);
            match output {
                Output::BecameLeader { shard, .. } => {
                    self.tally.leads += 1;
                    self.last.remove(&(id, *shard));
                }
                Output::Restore(_) => self.tally.restores += 1,
                Output::SnapshotDue { .. } => self.tally.snapshots += 1,
                Output::Removed { shard, .. } => {
                    self.tally.removed += 1;
                    self.seen.remove(&(id, *shard));
                }
                Output::TargetReached { shard, version } => {
                    self.tally.reached += 1;
                    if let Some(directory) = &mut self.directory {
                        directory.reached(*shard, *version);
                    }
                }
                _ => (),
            }
        }
        messages.into_iter().for_each(|message| self.send(id, message));
        if cut.is_some() {
            self.tally.crashes += 1;
            self.members[place].crash(&mut self.rng);
            self.history.crashed(id);
            self.down[place] = self.step + self.rng.below(200);
        }
        self.look(place);
    }

    fn look(&mut self, place: usize) {
        let member = &self.members[place];
        let Some(engine) = &member.engine else { return };
        for meta in engine.shards().filter_map(|shard| engine.snapshot_meta(shard)) {
            let index = meta.position.index;
            if !meta.members.voters.is_empty() && self.seen.insert((member.id(), meta.shard), index) != Some(index) {
                self.history.record_members(meta);
            }
        }
    }

    fn send(&mut self, from: NodeId, message: Outgoing) {
        if self.rng.chance(self.faults.loss) {
            return;
        }
        let copies = 1 + u64::from(self.rng.chance(self.faults.duplicates));
        for _ in 0..copies {
            let at = self.step + 1 + self.rng.below(self.faults.delay_steps);
            self.sent += 1;
            self.in_flight.insert((at, self.sent), (from, message.clone()));
        }
    }
}

fn clock(rng: &mut Rng) -> Clock {
    let off_ms = if rng.chance(300) { 3_600_000 } else { 300 };
    Clock { wall_ms: WALL_MS + rng.below(off_ms), mono_ms: 0, tick_ms: rng.below(100) }
}

//! All shards of a node, driven together: a pass takes every input, and gives one write and all outputs.

use slog::Discard;

use crate::config::Config;
use crate::group::Group;
use crate::input::Input;
use crate::name::{Epoch, NodeId, Position, ShardId};
use crate::output::{Broken, Output, Why, Write};
use crate::record::Record;
use crate::reign::lost;
use crate::replay::{RestoreError, replay};
use crate::snapshot::SnapshotMeta;
use crate::time::Now;

/// All shards of a node. One thread owns it and drives it in passes:
///
/// 1. [`step`](Engine::step) with everything that has come in;
/// 2. send the write's messages, make its snapshots and then its records durable;
/// 3. [`persisted`](Engine::persisted), and carry out what it puts out;
/// 4. again, without waiting for inputs, while [`has_ready`](Engine::has_ready).
///
/// The same inputs always give the same outputs.
pub struct Engine<T> {
    config: Config,
    // By shard id; a node need not have every shard.
    groups: Vec<Option<Box<Group<T>>>>,
    // The shards with something to do in this or the next pass, each once; the flags say which.
    touched: Vec<ShardId>,
    is_touched: Vec<bool>,
    // What comes out with the second half of the pass.
    out: Vec<Output<T>>,
    now: Now,
    phase: Phase,
    dropped: u64,
    // How big the last write was, to ask for the memory of the next at once.
    write_bytes: usize,
}

/// Which half of a pass is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Step,
    Persisted,
    Stopped,
}

impl<T> Engine<T> {
    /// Takes up what is on disk: the newest durable snapshot of each shard, if there is one, and all
    /// records in the order in which they were written. An empty disk is a node at its birth. What is
    /// committed after the snapshots is applied again in the first passes.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] when something is missing or the configuration cannot work.
    pub fn restore(
        config: Config,
        snapshots: impl IntoIterator<Item = SnapshotMeta>,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Engine<T>, RestoreError> {
        check(&config)?;
        let logger = slog::Logger::root(Discard, slog::o!());
        let revived = replay(&config, snapshots, records)?;
        let size = revived.keys().next_back().map_or(0, |last| usize::from(*last) + 1);
        let mut engine = Engine {
            config,
            groups: (0..size).map(|_| None).collect(),
            touched: Vec::new(),
            is_touched: vec![false; size],
            out: Vec::new(),
            now: Now::default(),
            phase: Phase::Step,
            dropped: 0,
            write_bytes: 0,
        };
        for (shard, revived) in revived {
            let group = Group::new(&engine.config, revived, &logger)?;
            engine.groups[usize::from(shard)] = Some(Box::new(group));
            engine.touch(shard);
        }
        Ok(engine)
    }

    /// The first half of a pass. The write must be carried out before the second half.
    ///
    /// # Panics
    ///
    /// When the second half of the pass before is missing.
    pub fn step(&mut self, now: Now, inputs: impl IntoIterator<Item = Input<T>>) -> Write {
        if self.phase == Phase::Stopped {
            return Write::default();
        }
        assert_eq!(self.phase, Phase::Step, "a pass was begun inside a pass");
        self.phase = Phase::Persisted;
        self.now = Now { wall_ms: now.wall_ms, mono_ms: now.mono_ms.max(self.now.mono_ms) };
        for input in inputs {
            self.take(input);
        }
        let mut write = Write { records: Vec::with_capacity(self.write_bytes), ..Write::default() };
        for place in 0..self.touched.len() {
            let shard = self.touched[place];
            let group = group_of(&mut self.groups, shard);
            if let Err(why) = group.prepare(self.now, &self.config, &mut write, &mut self.out) {
                self.stop(shard, why);
                return Write::default();
            }
        }
        self.write_bytes = write.records.len();
        write
    }

    /// The second half of a pass: the write is durable. Appends to `out` what follows from it.
    ///
    /// # Panics
    ///
    /// When the first half is missing.
    pub fn persisted(&mut self, out: &mut Vec<Output<T>>) {
        if self.phase == Phase::Persisted {
            self.phase = Phase::Step;
            self.finish();
        } else {
            assert_eq!(self.phase, Phase::Stopped, "a pass was ended that was not begun");
        }
        out.append(&mut self.out);
    }

    fn finish(&mut self) {
        let mut kept = 0;
        for place in 0..self.touched.len() {
            let shard = self.touched[place];
            let group = group_of(&mut self.groups, shard);
            if let Err(why) = group.finish(self.now, &self.config, &mut self.out) {
                return self.stop(shard, why);
            }
            if group.has_ready() {
                self.touched[kept] = shard;
                kept += 1;
            } else {
                self.is_touched[usize::from(shard)] = false;
            }
        }
        self.touched.truncate(kept);
    }

    /// Whether another pass has something to do even without inputs.
    pub fn has_ready(&self) -> bool {
        self.phase != Phase::Stopped && !self.touched.is_empty()
    }

    /// What a new part of the log must begin with, so that the parts before it can be removed once every
    /// shard's entries in them are below [`first_needed`](Engine::first_needed). Call it between passes.
    pub fn checkpoint(&self) -> Vec<Record> {
        let groups = self.groups.iter().flatten();
        groups.flat_map(|group| group.checkpoint()).collect()
    }

    /// The first entry of a shard that a restart would read from the log.
    pub fn first_needed(&self, shard: ShardId) -> Option<u64> {
        Some(self.group(shard)?.first_needed())
    }

    /// What a snapshot of a shard, cut now, would say about itself. It fits the folded state once all
    /// outputs so far are carried out.
    pub fn snapshot_meta(&self, shard: ShardId) -> Option<&SnapshotMeta> {
        Some(self.group(shard)?.meta())
    }

    /// The last entry of a shard that was put out.
    pub fn applied(&self, shard: ShardId) -> Option<Position> {
        Some(self.group(shard)?.meta().position)
    }

    /// The epoch in which this node takes proposals for a shard.
    pub fn epoch(&self, shard: ShardId) -> Option<Epoch> {
        self.group(shard)?.epoch()
    }

    /// Who leads a shard, as far as this node knows.
    pub fn leader(&self, shard: ShardId) -> Option<NodeId> {
        self.group(shard)?.leader().0
    }

    /// Messages dropped so far because they were not for this node or not messages at all.
    pub fn dropped_messages(&self) -> u64 {
        self.dropped
    }

    fn group(&self, shard: ShardId) -> Option<&Group<T>> {
        self.groups.get(usize::from(shard))?.as_deref()
    }

    fn touch(&mut self, shard: ShardId) {
        let flag = &mut self.is_touched[usize::from(shard)];
        if !std::mem::replace(flag, true) {
            self.touched.push(shard);
        }
    }

    /// Does something with a shard that then has something to do; says whether this node has it.
    fn with(&mut self, shard: ShardId, act: impl FnOnce(&mut Group<T>, Now, &Config, &mut Vec<Output<T>>)) -> bool {
        let Some(Some(group)) = self.groups.get_mut(usize::from(shard)) else {
            return false;
        };
        act(group, self.now, &self.config, &mut self.out);
        self.touch(shard);
        true
    }

    fn take(&mut self, input: Input<T>) {
        match input {
            Input::Propose { shard, epoch, events, ticket } => {
                if self.group(shard).is_none() {
                    return self.out.push(lost(shard, ticket, Why::NotLeader));
                }
                self.with(shard, |group, now, config, out| {
                    group.propose(now, config, (epoch, events, ticket), out);
                });
            }
            Input::Read { shard, epoch, ticket } => {
                if self.group(shard).is_none() {
                    return self.out.push(lost(shard, ticket, Why::NotLeader));
                }
                self.with(shard, |group, _, _, out| group.read(epoch, ticket, out));
            }
            Input::Message { from, shard, bytes } => {
                let mut taken = false;
                self.with(shard, |group, _, config, out| {
                    taken = group.message(config, from, &bytes, out);
                });
                self.dropped += u64::from(!taken);
            }
            Input::Unreachable { node } => self.all(|group, _, _| {
                group.unreachable(node);
                group.has_ready()
            }),
            Input::Tick => self.all(|group, config, out| group.tick(config, out)),
            Input::SnapshotSaved { shard, index } => {
                self.with(shard, |group, _, config, _| group.snapshot_saved(config, index));
            }
            Input::SnapshotCut { meta, state } => {
                self.with(meta.shard, |group, _, _, _| group.snapshot_cut(&meta, &state));
            }
            Input::TransferLeader { shard, to } => {
                self.with(shard, |group, now, config, out| {
                    group.transfer_leader(now, config, to, out);
                });
            }
        }
    }

    /// Does something with every shard; says of each whether it then has something to do.
    fn all(&mut self, mut act: impl FnMut(&mut Group<T>, &Config, &mut Vec<Output<T>>) -> bool) {
        for place in 0..self.groups.len() {
            let Some(group) = &mut self.groups[place] else {
                continue;
            };
            if act(group, &self.config, &mut self.out) {
                let shard = group.meta().shard;
                self.touch(shard);
            }
        }
    }

    fn stop(&mut self, shard: ShardId, why: Broken) {
        self.phase = Phase::Stopped;
        self.out.push(Output::Fatal { shard, why });
    }
}

fn group_of<T>(groups: &mut [Option<Box<Group<T>>>], shard: ShardId) -> &mut Group<T> {
    groups[usize::from(shard)].as_mut().expect("only shards of this node are touched")
}

fn check(config: &Config) -> Result<(), RestoreError> {
    let wrong = |what: String| Err(RestoreError::Config(what));
    if config.node == 0 {
        return wrong("a node's id is not 0".into());
    }
    if config.election_ticks_min >= config.election_ticks_max {
        return wrong(format!(
            "elections begin after {} to {} ticks, which is no range",
            config.election_ticks_min, config.election_ticks_max
        ));
    }
    for (shard, voters) in &config.groups {
        if voters.is_empty() || voters.contains(&0) {
            return wrong(format!("the voters of shard {shard} are {voters:?}"));
        }
    }
    Ok(())
}

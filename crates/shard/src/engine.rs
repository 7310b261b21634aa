//! All shards of a node, driven together. A pass takes all inputs and returns one write and all outputs.

use bytes::Bytes;
use slog::Discard;

use crate::clocks::Clocks;
use crate::config::Config;
use crate::consensus::{is_from_leader, travels};
use crate::election::PASS_MS_MAX;
use crate::envelope;
use crate::group::Group;
use crate::input::Input;
use crate::leadership::{Proposed, lost};
use crate::name::{Epoch, FOUNDING, NODE_MAX, NodeId, Position, ReplicaId, ShardId};
use crate::now::Now;
use crate::output::{FatalError, Output, RejectReason, Write};
use crate::record::Record;
use crate::replay::{Revived, replay};
use crate::restore_error::RestoreError;
use crate::snapshot::SnapshotMeta;
use crate::status::GroupStatus;
use crate::target_config::TargetConfig;

/// The buffer of a write is not reused if it is larger.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// All shards of a node. One thread owns it and drives it in passes:
///
/// 1. Call [`step`](Engine::step) with all inputs that have arrived.
/// 2. Send the messages of the write, make its snapshots and then its records durable.
/// 3. Call [`persisted`](Engine::persisted), and handle the outputs.
/// 4. Repeat without waiting for inputs while [`has_ready`](Engine::has_ready).
///
/// The same inputs always give the same outputs.
pub struct Engine<T> {
    config: Config,
    logger: slog::Logger,
    // By shard id. A node need not have every shard.
    groups: Vec<Option<Box<Group<T>>>>,
    // By shard id: the highest generation of this node's replicas that is gone. 0 if none is.
    gone: Vec<u64>,
    // By shard id: the newest target configuration, also for shards of which this node has no replica.
    targets: Vec<Option<TargetConfig>>,
    // Records of replicas that are gone. The next write begins with them.
    head: Vec<u8>,
    // The shards with something to do in this or the next pass, each once. The flags say which.
    touched: Vec<ShardId>,
    is_touched: Vec<bool>,
    // Outputs that need not wait for the write of the pass.
    early: Vec<Output<T>>,
    // Outputs for the second half of the pass.
    out: Vec<Output<T>>,
    now: Now,
    // The time in which the node ran, in milliseconds.
    awake_ms: u64,
    clocks: Clocks,
    phase: Phase,
    dropped: u64,
    // The buffer for the records of the next write.
    spare: Vec<u8>,
}

/// Which half of a pass is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Step,
    Persisted,
    Stopped,
}

impl<T> Engine<T> {
    /// Restores a node from the newest durable snapshot of each shard and all records, in the order in which they were
    /// written. An empty disk is a new node. The first passes apply the committed entries after the snapshots again.
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
        let restored = replay(&config, snapshots, records)?;
        let size = usize::from(config.shards) + 1;
        let mut engine = Engine {
            config,
            logger,
            groups: (0..size).map(|_| None).collect(),
            gone: vec![0; size],
            targets: vec![None; size],
            head: Vec::new(),
            touched: Vec::new(),
            is_touched: vec![false; size],
            early: Vec::new(),
            out: Vec::new(),
            now: Now::default(),
            awake_ms: 0,
            clocks: Clocks::default(),
            phase: Phase::Step,
            dropped: 0,
            spare: Vec::new(),
        };
        for (shard, generation) in restored.gone {
            engine.gone[usize::from(shard)] = generation;
        }
        for (shard, revived) in restored.revived {
            engine.begin_group(shard, revived)?;
        }
        Ok(engine)
    }

    fn begin_group(&mut self, shard: ShardId, revived: Revived) -> Result<(), RestoreError> {
        let mut group = Group::new((&self.config, self.awake_ms), revived, &self.logger)?;
        if let Some(target) = &self.targets[usize::from(shard)] {
            group.target(target);
        }
        self.groups[usize::from(shard)] = Some(Box::new(group));
        self.touch(shard);
        Ok(())
    }

    /// Drops the node's replica of a shard durably, from the next write on.
    fn end_group(&mut self, shard: ShardId) {
        let Some(group) = self.groups[usize::from(shard)].take() else { return };
        let replica = group.replica();
        group.end(&mut self.out);
        self.is_touched[usize::from(shard)] = false;
        self.touched.retain(|touched| *touched != shard);
        self.gone[usize::from(shard)] = replica.generation();
        Record::Gone { shard, generation: replica.generation() }.encode(&mut self.head);
        self.out.push(Output::Removed { shard, replica });
    }

    /// The first half of a pass. The write must be durable before the second half.
    ///
    /// # Panics
    ///
    /// When the second half of the previous pass is missing.
    pub fn step(&mut self, now: Now, inputs: impl IntoIterator<Item = Input<T>>) -> Write {
        if self.phase == Phase::Stopped {
            return Write::default();
        }
        assert_eq!(self.phase, Phase::Step, "a pass was begun inside a pass");
        self.phase = Phase::Persisted;
        let passed_ms = now.mono_ms.saturating_sub(self.now.mono_ms);
        self.awake_ms += passed_ms.min(PASS_MS_MAX);
        self.now = Now { wall_ms: now.wall_ms, mono_ms: now.mono_ms.max(self.now.mono_ms) };
        self.groups.iter_mut().flatten().for_each(|group| group.set_awake(self.awake_ms));
        for input in inputs {
            self.take(input);
        }
        let now = self.now;
        self.all(|group, config, out| group.broadcast_commit(now) | group.campaign_if_due(config, out));
        let mut write = Write { records: std::mem::take(&mut self.spare), ..Write::default() };
        write.records.append(&mut self.head);
        for place in 0..self.touched.len() {
            let shard = self.touched[place];
            let group = group_of(&mut self.groups, shard);
            let out = (&mut self.early, &mut self.out);
            if let Err(why) = group.prepare((self.now, &self.clocks), &self.config, &mut write, out) {
                self.stop(shard, why);
                return Write::default();
            }
        }
        write
    }

    /// Returns the buffer of a finished write for reuse.
    pub fn recycle(&mut self, mut records: Vec<u8>) {
        if records.capacity() <= SPARE_BYTES_MAX {
            records.clear();
            self.spare = records;
        }
    }

    /// The outputs for entries that were committed and durable before this pass. They may be handled during the write.
    /// Otherwise [`Engine::persisted`] returns them.
    pub fn decided(&mut self, out: &mut Vec<Output<T>>) {
        out.append(&mut self.early);
    }

    /// The second half of a pass, after the write is durable. Appends its outputs to `out`.
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
        self.decided(out);
        out.append(&mut self.out);
    }

    /// Finishes the pass of every touched replica. Those with more to do stay touched.
    fn finish(&mut self) {
        let mut kept = 0;
        for place in 0..self.touched.len() {
            let shard = self.touched[place];
            let group = group_of(&mut self.groups, shard);
            if let Err(why) = group.finish((self.now, &self.clocks), &self.config, &mut self.out) {
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

    /// When a pass is needed even without inputs, in monotonic milliseconds.
    pub fn due_ms(&self) -> Option<u64> {
        let groups = self.groups.iter().flatten();
        let due = groups.flat_map(|group| {
            let campaign_ms = group.campaign_due_ms(&self.config);
            let campaign_ms = campaign_ms.map(|due_ms| self.now.mono_ms + due_ms.saturating_sub(self.awake_ms));
            [group.broadcast_due_ms(), campaign_ms]
        });
        due.flatten().min()
    }

    /// Whether another pass has something to do even without inputs.
    pub fn has_ready(&self) -> bool {
        self.phase != Phase::Stopped && !self.touched.is_empty()
    }

    /// The records that a new part of the log must begin with. The parts before it can be removed once every shard's
    /// entries in them are below [`first_needed`](Engine::first_needed). Call it between passes.
    pub fn checkpoint(&self) -> Vec<Record> {
        let gone = (0..=self.config.shards).zip(&self.gone).filter(|(_, generation)| **generation > 0);
        let gone = gone.map(|(shard, generation)| Record::Gone { shard, generation: *generation });
        let groups = self.groups.iter().flatten();
        gone.chain(groups.flat_map(|group| group.checkpoint())).collect()
    }

    /// The first entry of a shard that a restart would read from the log. `None` if this node has no replica of it, because
    /// nothing is needed then.
    pub fn first_needed(&self, shard: ShardId) -> Option<u64> {
        Some(self.of(shard)?.first_needed())
    }

    /// The shards of which this node has a replica.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.groups.iter().flatten().map(|group| group.meta().shard)
    }

    /// The status of this node's replica of a shard.
    pub fn group(&self, shard: ShardId) -> Option<GroupStatus> {
        Some(self.of(shard)?.status(&self.config))
    }

    /// The description of a snapshot of a shard that is cut now. It fits the applied state once all outputs so far are
    /// handled.
    pub fn snapshot_meta(&self, shard: ShardId) -> Option<&SnapshotMeta> {
        Some(self.of(shard)?.meta())
    }

    /// The last entry of a shard that was returned as an output.
    pub fn applied(&self, shard: ShardId) -> Option<Position> {
        Some(self.of(shard)?.meta().position)
    }

    /// True time in a shard that this node leads, milliseconds since 1970.
    pub fn true_ms(&self, shard: ShardId) -> Option<u64> {
        self.of(shard)?.true_ms(self.now.mono_ms)
    }

    /// The epoch in which this node accepts proposals for a shard.
    pub fn epoch(&self, shard: ShardId) -> Option<Epoch> {
        self.of(shard)?.epoch()
    }

    /// The leader of a shard that this node knows of.
    pub fn leader(&self, shard: ShardId) -> Option<NodeId> {
        self.of(shard)?.leader().0
    }

    /// When this process last received a message of another node that leads the shard, in monotonic milliseconds.
    /// `None` if it never did.
    pub fn leader_heard_ms(&self, shard: ShardId) -> Option<u64> {
        self.of(shard)?.leader_heard_ms()
    }

    /// Messages dropped so far because they were malformed or not for this node.
    pub fn dropped_messages(&self) -> u64 {
        self.dropped
    }

    fn of(&self, shard: ShardId) -> Option<&Group<T>> {
        self.groups.get(usize::from(shard))?.as_deref()
    }

    fn touch(&mut self, shard: ShardId) {
        let flag = &mut self.is_touched[usize::from(shard)];
        if !std::mem::replace(flag, true) {
            self.touched.push(shard);
        }
    }

    /// Calls `act` on a shard's replica and marks it as having work. Returns whether this node has a replica.
    fn with(&mut self, shard: ShardId, act: impl FnOnce(&mut Group<T>, Now, &Config, &mut Vec<Output<T>>)) -> bool {
        let Some(Some(group)) = self.groups.get_mut(usize::from(shard)) else {
            return false;
        };
        act(group, self.now, &self.config, &mut self.out);
        self.touch(shard);
        true
    }

    /// Takes an input to the replica that it is about. Proposals are accepted here, and appended once all inputs of
    /// the pass are taken.
    fn take(&mut self, input: Input<T>) {
        match input {
            Input::Propose { shard, epoch, events, joint, completion } => {
                if self.of(shard).is_none() {
                    return self.out.push(lost(shard, completion, RejectReason::NotLeader));
                }
                self.with(shard, |group, now, config, out| {
                    group.propose(now, config, (epoch, Proposed { events, joint, completion }), out);
                });
            }
            Input::Read { shard, epoch, completion } => {
                if self.of(shard).is_none() {
                    return self.out.push(lost(shard, completion, RejectReason::NotLeader));
                }
                self.with(shard, |group, _, _, out| group.read(epoch, completion, out));
            }
            Input::Message { from, shard, bytes } => {
                let taken = self.message(from, shard, &bytes);
                self.dropped += u64::from(!taken);
            }
            Input::Unreachable { node } => self.all(|group, _, _| {
                group.unreachable(node);
                group.has_ready()
            }),
            Input::Tick => self.with_clocks(|engine, now, clocks| {
                engine.all(|group, config, out| group.tick(now, config, clocks, out));
            }),
            Input::Clock { node, read } => {
                self.clocks.record(node, read);
                self.with_clocks(|engine, now, clocks| {
                    engine.all(|group, _, out| group.begin_when_clocks_are_known(now, clocks, out));
                });
            }
            Input::SnapshotSaved { shard, replica, index } => {
                self.with(shard, |group, _, config, _| group.snapshot_saved(config, replica, index));
            }
            Input::SnapshotCut { meta, state } => {
                self.with(meta.shard, |group, _, _, _| group.snapshot_cut(&meta, &state));
            }
            Input::SnapshotMoves { shard, to } => {
                self.with(shard, |group, _, _, _| group.snapshot_moves(to));
            }
            Input::AvoidLeadership { node, avoid } => {
                let nodes = &mut self.config.avoid_leadership;
                let changed = if avoid { nodes.insert(node) } else { nodes.remove(&node) };
                if changed {
                    self.all(|group, config, _| group.avoidance_changed(config));
                }
            }
            Input::AvoidShards { node, shards } => {
                let before = self.config.avoid_shards.insert(node, shards.clone()).unwrap_or_default();
                for shard in before.symmetric_difference(&shards) {
                    self.with(*shard, |group, _, config, _| _ = group.avoidance_changed(config));
                }
            }
            Input::TransferLeader { shard, to } => {
                self.with(shard, |group, now, config, out| {
                    group.transfer_to_node(now, config, to, out);
                });
            }
            Input::Target { shard, target } => self.target(shard, target),
            Input::Drop { shard, replica } => {
                if self.of(shard).is_some_and(|group| group.replica() == replica) {
                    self.end_group(shard);
                }
            }
        }
    }

    fn target(&mut self, shard: ShardId, target: TargetConfig) {
        let Some(known) = self.targets.get_mut(usize::from(shard)) else { return };
        if known.as_ref().is_some_and(|known| known.version > target.version) {
            return;
        }
        let target = known.insert(target.sorted()).clone();
        self.with(shard, |group, _, _, _| group.target(&target));
    }

    /// Whether the message was for a replica of this node.
    fn message(&mut self, from: NodeId, shard: ShardId, bytes: &Bytes) -> bool {
        let Some((running_ms, message)) = envelope::open(bytes) else { return false };
        let (Some(sender), Some(to)) = (ReplicaId::from_bits(message.from), ReplicaId::from_bits(message.to)) else {
            return false;
        };
        if sender.node() != from || to.node() != self.config.node || !travels(message.get_msg_type()) {
            return false;
        }
        if self.of(shard).is_none_or(|group| group.replica() != to) {
            let begins = is_from_leader(message.get_msg_type()) && self.may_begin(shard, to);
            if !begins || !self.begin_replica(shard, to) {
                return false;
            }
        }
        let unknowing = self.of(shard).filter(|group| !group.knows_running());
        let truth = unknowing.map(|group| self.clocks.best_time(self.config.node, self.now, &group.meta().members));
        let mut taken = false;
        self.with(shard, |group, now, config, out| {
            taken = group.message((now, config, truth), (running_ms, message), out);
        });
        taken
    }

    /// Whether a leader's message may create this replica. It must be newer than all replicas that are known to be gone.
    fn may_begin(&self, shard: ShardId, replica: ReplicaId) -> bool {
        let Some(gone) = self.gone.get(usize::from(shard)) else { return false };
        let generation = replica.generation();
        generation > (*gone).max(FOUNDING) && generation >= self.config.generation_min
    }

    /// Creates a replica. An older replica is dead, or there would not be a newer one. The record that voids its
    /// entries must be durable before an entry of the new replica arrives. So the new replica waits for the next
    /// message.
    fn begin_replica(&mut self, shard: ShardId, replica: ReplicaId) -> bool {
        match self.of(shard) {
            Some(group) if group.replica() > replica || group.leads() => false,
            Some(_) => {
                self.end_group(shard);
                false
            }
            None => {
                let begun = self.begin_group(shard, Revived::joining(shard, replica));
                begun.expect("the configuration was checked at the start");
                true
            }
        }
    }

    fn with_clocks(&mut self, act: impl FnOnce(&mut Engine<T>, Now, &Clocks)) {
        let clocks = std::mem::take(&mut self.clocks);
        act(self, self.now, &clocks);
        self.clocks = clocks;
    }

    /// Calls `act` on every replica. It returns whether the replica then has work.
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

    fn stop(&mut self, shard: ShardId, why: FatalError) {
        self.phase = Phase::Stopped;
        self.out.push(Output::Fatal { shard, why });
    }
}

fn group_of<T>(groups: &mut [Option<Box<Group<T>>>], shard: ShardId) -> &mut Group<T> {
    groups[usize::from(shard)].as_mut().expect("only shards of this node are touched")
}

fn check(config: &Config) -> Result<(), RestoreError> {
    let wrong = |what: String| Err(RestoreError::Config(what));
    if !(1..=NODE_MAX).contains(&config.node) {
        return wrong(format!("a node's id is one of 1 to {NODE_MAX}, and not {}", config.node));
    }
    if config.heartbeat_ticks >= config.election_ticks {
        return wrong(format!(
            "leaders send messages after {} ticks, and their leases end after {}",
            config.heartbeat_ticks, config.election_ticks
        ));
    }
    let own = ReplicaId::new(config.node, FOUNDING);
    for (shard, voters) in &config.groups {
        if *shard > config.shards {
            return Err(RestoreError::UnknownShard { shard: *shard });
        }
        if !voters.contains(&own) {
            return wrong(format!("the voters of shard {shard} are {voters:?}, without {own}"));
        }
    }
    Ok(())
}

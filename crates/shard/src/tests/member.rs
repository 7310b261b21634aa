//! A node around an engine, as the node crate drives it, on a simulated disk.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{disk::Disk, rng::Rng};
use crate::{Config, Engine, Epoch, Input, NodeId, Now, Outgoing, Output, Received, Record, ShardId, SnapshotMeta};

/// Identifies a proposal or a read. The turn of a proposal is its completion and some padding.
pub(crate) type Completion = u64;

/// The point of a pass at which the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The messages are sent, and nothing is written.
    BeforeWrite,
    /// The snapshots are durable, and the records are not.
    BeforeSync,
    /// All is durable, and no output is delivered.
    AfterSync,
}

/// The correct behaviour of a node, or a planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Correct,
    /// The planted bug: reports a write as durable before it is.
    PersistedTooEarly,
    /// The planted bug: a replica whose disk was lost comes back under its old id.
    KeepsReplicaIds,
    /// The planted bug: an old target configuration is accepted as a new one.
    FollowsOldTargets,
    /// The planted bug: terms and votes are forgotten at a restart.
    ForgetsVotes,
    /// The planted bug: a node that led once answers reads without a quorum.
    ReadsWithoutQuorum,
}

pub(crate) struct Member {
    pub(crate) config: Config,
    pub(crate) disk: Disk,
    pub(crate) engine: Option<Engine<Completion>>,
    /// The applied state: all completions in the order in which they were applied.
    pub(crate) applied_state: BTreeMap<ShardId, Vec<Completion>>,
    pub(crate) epochs: BTreeMap<ShardId, Epoch>,
    pub(crate) inbox: Vec<Input<Completion>>,
    pub(crate) habit: Habit,
    unsynced: u32,
    // Snapshots being saved: passes left, description, state.
    saving: Vec<(u64, SnapshotMeta, Bytes)>,
}

impl Member {
    pub(crate) fn new(config: Config, habit: Habit) -> Member {
        Member {
            config,
            disk: Disk::default(),
            engine: None,
            applied_state: BTreeMap::new(),
            epochs: BTreeMap::new(),
            inbox: Vec::new(),
            habit,
            unsynced: 0,
            saving: Vec::new(),
        }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.config.node
    }

    pub(crate) fn start(&mut self) {
        let metas = self.disk.snapshots().map(|(meta, _)| meta.clone());
        let mut records = self.disk.records();
        records.retain(|record| self.habit != Habit::ForgetsVotes || !matches!(record, Record::State { .. }));
        let engine = Engine::restore(self.config.clone(), metas, records);
        let engine = engine.unwrap_or_else(|error| panic!("{error}"));
        // A snapshot may be left over from a removed replica.
        let of_engine = |meta: &SnapshotMeta| engine.snapshot_meta(meta.shard) == Some(meta);
        let states = self.disk.snapshots().filter(|(meta, _)| of_engine(meta));
        self.applied_state = states.map(|(meta, state)| (meta.shard, unfold(state))).collect();
        self.engine = Some(engine);
    }

    /// Replaces the disk by an empty one.
    pub(crate) fn lose_disk(&mut self) {
        self.disk = Disk::default();
        self.config.groups.clear();
    }

    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.disk.crash(rng);
        self.engine = None;
        self.applied_state.clear();
        self.epochs.clear();
        self.inbox.clear();
        self.saving.clear();
    }

    /// Runs passes until nothing is left to do, or the power fails in the first one. `send` delivers messages.
    pub(crate) fn work(
        &mut self,
        now: Now,
        cut: Option<Cut>,
        rng: &mut Rng,
        mut send: impl FnMut(Outgoing),
    ) -> Vec<Output<Completion>> {
        let mut taken = Vec::new();
        self.finish_saving();
        loop {
            let inputs = std::mem::take(&mut self.inbox);
            let mut out = Vec::new();
            let engine = self.engine.as_mut().unwrap();
            let write = engine.step(now, inputs);
            write.messages.iter().cloned().for_each(&mut send);
            // Some nodes handle committed entries at once, others when the write is durable.
            if rng.below(2) == 0 {
                engine.decided(&mut out);
                self.carry_out(out.drain(..), rng, &mut send, &mut taken);
            }
            if cut == Some(Cut::BeforeWrite) {
                return taken;
            }
            for Received { meta, state } in &write.snapshots {
                self.disk.save(meta.clone(), state.clone());
            }
            if write.must_sync() {
                self.disk.append(&write);
            } else {
                assert!(write.records.is_empty() && write.marks.is_empty());
            }
            if cut == Some(Cut::BeforeSync) {
                return taken;
            }
            self.unsynced += 1;
            if self.habit != Habit::PersistedTooEarly || self.unsynced == 20 {
                self.disk.sync();
                self.unsynced = 0;
            }
            if cut == Some(Cut::AfterSync) {
                return taken;
            }
            self.engine.as_mut().unwrap().persisted(&mut out);
            self.carry_out(out.drain(..), rng, &mut send, &mut taken);
            if !self.engine.as_ref().unwrap().has_ready() && self.inbox.is_empty() {
                return taken;
            }
        }
    }

    fn carry_out(
        &mut self,
        out: impl Iterator<Item = Output<Completion>>,
        rng: &mut Rng,
        send: &mut impl FnMut(Outgoing),
        taken: &mut Vec<Output<Completion>>,
    ) {
        for output in out {
            match &output {
                Output::Message(message) => send(message.clone()),
                Output::Apply { shard, turns, .. } => {
                    let applied_state = self.applied_state.entry(*shard).or_default();
                    applied_state.extend(turns.iter().map(completion_of));
                }
                Output::BecameLeader { shard, epoch, .. } => {
                    self.epochs.insert(*shard, *epoch);
                }
                Output::BecameFollower { shard, .. } => {
                    self.epochs.remove(shard);
                }
                Output::Restore(Received { meta, state }) => {
                    self.applied_state.insert(meta.shard, unfold(state));
                }
                Output::SnapshotDue { meta } => {
                    let state = fold(self.applied_state.get(&meta.shard));
                    self.saving.push((rng.below(10), meta.clone(), state));
                }
                Output::CutSnapshot { meta, .. } => {
                    let state = fold(self.applied_state.get(&meta.shard));
                    let meta = meta.clone();
                    self.inbox.push(Input::SnapshotCut { meta, state });
                }
                Output::Removed { shard, .. } => {
                    self.applied_state.remove(shard);
                    self.epochs.remove(shard);
                    self.saving.retain(|(_, meta, _)| meta.shard != *shard);
                    self.disk.forget(*shard);
                }
                Output::Completed { .. } | Output::ProposalDropped { .. } | Output::TargetReached { .. } => (),
                Output::Fatal { shard, why } => {
                    panic!("node {} shard {shard}: {why}", self.config.node)
                }
            }
            taken.push(output);
        }
    }

    fn finish_saving(&mut self) {
        self.saving.iter_mut().for_each(|(left, ..)| *left = left.saturating_sub(1));
        for (_, meta, state) in self.saving.extract_if(.., |(left, ..)| *left == 0) {
            let (shard, replica, index) = (meta.shard, meta.replica, meta.position.index);
            let newest = self.disk.snapshots().find(|(kept, _)| kept.shard == shard);
            // The leader may have sent a newer one meanwhile.
            if newest.is_none_or(|(kept, _)| kept.position.index < index) {
                self.disk.save(meta, state);
                self.inbox.push(Input::SnapshotSaved { shard, replica, index });
            }
        }
    }

    /// Begins a new part of the log.
    pub(crate) fn turn_log_over(&mut self) {
        let engine = self.engine.as_ref().unwrap();
        let checkpoint = engine.checkpoint();
        self.disk.turn_over(&checkpoint, |shard| engine.first_needed(shard).unwrap_or(u64::MAX));
    }
}

/// A turn of at least eight bytes.
pub(crate) fn turn_of(completion: Completion, bytes: usize) -> Vec<u8> {
    let mut turn = completion.to_le_bytes().to_vec();
    turn.resize(bytes.max(8), 0xa5);
    turn
}

pub(crate) fn completion_of(turn: &[u8]) -> Completion {
    u64::from_le_bytes(turn[..8].try_into().unwrap())
}

fn fold(completions: Option<&Vec<Completion>>) -> Bytes {
    let completions = completions.into_iter().flatten();
    completions.flat_map(|completion| completion.to_le_bytes()).collect()
}

fn unfold(state: &[u8]) -> Vec<Completion> {
    state.chunks(8).map(completion_of).collect()
}

//! The replicators of a node, and their queues. Each has some of the shards for itself, with a loop of its own. The log is common
//! to all.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use boxoffice_core::id::Entity;
use boxoffice_shard::{ClockReading, Input as EngineInput, NodeId, ShardId};
use bytes::Bytes;

use crate::{
    checksums::Checksum, error::ReplicationError, history_reads::Found, inbox::Inbox, metrics::Metrics, peer_frame,
};

/// Frames and checksums of other nodes that may wait for the replicators. Further ones are dropped. Raft sends its messages
/// again, and a lost checksum is not compared.
const FROM_NODES_MAX: usize = 4_096;

/// Which replicator a shard belongs to. The directory belongs to the first one, which also does the node's common tasks.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    replicators: usize,
}

impl Division {
    /// A division among this number of replicators, at least one.
    pub(crate) fn new(replicators: usize) -> Division {
        Division { replicators: replicators.max(1) }
    }

    /// The number of replicators.
    pub fn replicators(self) -> usize {
        self.replicators
    }

    /// The number of a shard's replicator, from 0.
    pub(crate) fn of(self, shard: ShardId) -> usize {
        usize::from(shard) % self.replicators
    }
}

/// An input of a replicator.
pub(crate) enum Input<T> {
    /// For the engine.
    Engine(EngineInput<T>),
    /// Messages of another node's engine, as that node sent them in one pass.
    Consensus { from: NodeId, frame: Bytes },
    /// Checksums of another node's replicas.
    Checksums { from: NodeId, checksums: Vec<Checksum> },
    /// Records of a shard's history came from another node, up to this entry.
    Imported { shard: ShardId, upto: u64 },
    /// A record of the store that the wait of this number of a shard needs.
    Read { shard: ShardId, wait: u64, entity: Entity, found: Found },
    /// This segment of the log is archived.
    Archived(u64),
    /// The replication cannot go on.
    Fail(ReplicationError),
    /// Write what is under way, then end.
    Stop,
}

/// The queues of the replicators.
pub struct Replicators<T> {
    division: Division,
    inboxes: Vec<Inbox<Input<T>>>,
    /// Waiting frames and checksums of other nodes.
    from_nodes: AtomicUsize,
}

impl<T> Replicators<T> {
    /// Queues for as many replicators as `division` has.
    pub(crate) fn new(division: Division) -> Replicators<T> {
        let inboxes = (0..division.replicators()).map(|_| Inbox::default()).collect();
        Replicators { division, inboxes, from_nodes: AtomicUsize::new(0) }
    }

    /// Which shard belongs to which replicator.
    pub fn division(&self) -> Division {
        self.division
    }

    /// The queue of one replicator.
    pub(crate) fn inbox(&self, replicator: usize) -> &Inbox<Input<T>> {
        &self.inboxes[replicator]
    }

    fn inbox_of(&self, shard: ShardId) -> &Inbox<Input<T>> {
        self.inbox(self.division.of(shard))
    }

    /// Queues an input of one shard.
    pub fn push(&self, shard: ShardId, input: EngineInput<T>) {
        self.inbox_of(shard).push(Input::Engine(input));
    }

    /// The same for an input that can wait, as in [`Inbox::push_quietly`].
    pub fn push_quietly(&self, shard: ShardId, input: EngineInput<T>) {
        self.inbox_of(shard).push_quietly(Input::Engine(input));
    }

    /// Wakes replicators with waiting inputs.
    pub fn nudge(&self) {
        self.inboxes.iter().for_each(Inbox::nudge);
    }

    /// A node cannot be reached.
    pub fn unreachable(&self, node: NodeId) {
        self.tell_all(|| EngineInput::Unreachable { node });
    }

    /// A node has answered with its wall clock.
    pub fn clock(&self, node: NodeId, read: ClockReading) {
        self.tell_all(|| EngineInput::Clock { node, read });
    }

    /// A node should avoid leadership, or need not any more.
    pub fn avoid_leadership(&self, node: NodeId, avoid: bool) {
        self.tell_all(|| EngineInput::AvoidLeadership { node, avoid });
    }

    /// A node should avoid the leadership of exactly these shards.
    pub fn avoid_shards(&self, node: NodeId, shards: &BTreeSet<ShardId>) {
        self.tell_all(|| EngineInput::AvoidShards { node, shards: shards.clone() });
    }

    fn tell_all(&self, input: impl Fn() -> EngineInput<T>) {
        self.inboxes.iter().for_each(|inbox| inbox.push(Input::Engine(input())));
    }

    /// Records of a shard's history came from another node, up to this entry.
    pub(crate) fn imported(&self, shard: ShardId, upto: u64) {
        self.inbox_of(shard).push(Input::Imported { shard, upto });
    }

    /// A shard's record was read.
    pub(crate) fn read(&self, shard: ShardId, input: Input<T>) {
        self.inbox_of(shard).push(input);
    }

    /// This segment of the log is archived.
    pub(crate) fn archived(&self, number: u64) {
        self.inbox(0).push(Input::Archived(number));
    }

    /// The replication cannot go on.
    pub fn fail(&self, error: impl Into<ReplicationError>) {
        self.inbox(0).push(Input::Fail(error.into()));
    }

    /// Makes each replicator write what is under way, then end.
    pub fn stop(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.push(Input::Stop));
    }

    /// A replicator has ended. Its waiting and later inputs are dropped, and their callers hear `unknown`.
    pub(crate) fn ended(&self, replicator: usize) {
        self.inbox(replicator).end();
    }

    /// Drops all waiting and later inputs of all replicators.
    pub fn clear(&self) {
        self.inboxes.iter().for_each(Inbox::end);
    }

    /// Queues a frame with messages of another node's engines for each replicator that has a shard of them.
    ///
    /// # Errors
    /// What is wrong with the frame. Its valid messages are queued.
    pub fn frame(&self, metrics: &Metrics, from: NodeId, frame: Bytes) -> Result<(), &'static str> {
        if let [only] = &self.inboxes[..] {
            self.push_lossy(metrics, only, Input::Consensus { from, frame });
            return Ok(());
        }
        let mut meant = vec![false; self.inboxes.len()];
        let whole = peer_frame::each(frame.clone(), |shard, _| meant[self.division.of(shard)] = true);
        for (inbox, _) in self.inboxes.iter().zip(meant).filter(|(_, meant)| *meant) {
            self.push_lossy(metrics, inbox, Input::Consensus { from, frame: frame.clone() });
        }
        whole
    }

    /// Queues checksums of another node's replicas.
    pub fn checksums(&self, metrics: &Metrics, from: NodeId, checksums: Vec<Checksum>) {
        let mut parts: Vec<Vec<Checksum>> = vec![Vec::new(); self.inboxes.len()];
        checksums.into_iter().for_each(|checksum| parts[self.division.of(checksum.shard)].push(checksum));
        for (inbox, checksums) in self.inboxes.iter().zip(parts).filter(|(_, checksums)| !checksums.is_empty()) {
            self.push_lossy(metrics, inbox, Input::Checksums { from, checksums });
        }
    }

    /// Queues an input that may be lost, unless too many wait.
    fn push_lossy(&self, metrics: &Metrics, inbox: &Inbox<Input<T>>, input: Input<T>) {
        if self.from_nodes.fetch_add(1, Ordering::Relaxed) >= FROM_NODES_MAX {
            self.taken();
            metrics.peer_frames_dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        inbox.push(input);
    }

    /// A replicator has taken a frame or checksums of another node.
    pub(crate) fn taken(&self) {
        self.from_nodes.fetch_sub(1, Ordering::Relaxed);
    }
}

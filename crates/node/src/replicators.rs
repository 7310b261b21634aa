//! The replicators of a node, and the ways to them. Each has some of the shards for itself, with a loop of its own; the log is
//! common to all.

use std::sync::atomic::{AtomicUsize, Ordering};

use boxoffice_shard::{ClockReading, Input as EngineInput, NodeId, ShardId};
use bytes::Bytes;

use crate::{
    checksums::Checksum, driver::DriverInput, error::NodeError, inbox::Inbox, metrics::Metrics, peer_frame,
    ticket::Ticket,
};

/// Frames and checksums of other nodes that may wait for the replicators. What comes beyond is dropped: raft sends its messages
/// again, and a checksum that is lost is not compared.
const FROM_NODES_MAX: usize = 4_096;

/// Which replicator a shard belongs to. The directory belongs to the first one, which also does what is to be done once a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    replicators: usize,
}

impl Division {
    /// Among so many, one at least.
    pub(crate) fn new(replicators: usize) -> Division {
        Division { replicators: replicators.max(1) }
    }

    /// How many there are.
    pub(crate) fn replicators(self) -> usize {
        self.replicators
    }

    /// The number of a shard's replicator, from 0.
    pub(crate) fn of(self, shard: ShardId) -> usize {
        usize::from(shard) % self.replicators
    }
}

/// The ways to them.
pub(crate) struct Replicators {
    division: Division,
    inboxes: Vec<Inbox<DriverInput>>,
    /// What waits of other nodes'.
    from_nodes: AtomicUsize,
}

impl Replicators {
    /// So many, one at least.
    pub(crate) fn new(division: Division) -> Replicators {
        let inboxes = (0..division.replicators()).map(|_| Inbox::default()).collect();
        Replicators { division, inboxes, from_nodes: AtomicUsize::new(0) }
    }

    /// Which shard belongs to which.
    pub(crate) fn division(&self) -> Division {
        self.division
    }

    /// What comes to one of them.
    pub(crate) fn inbox(&self, replicator: usize) -> &Inbox<DriverInput> {
        &self.inboxes[replicator]
    }

    fn inbox_of(&self, shard: ShardId) -> &Inbox<DriverInput> {
        self.inbox(self.division.of(shard))
    }

    /// Hands in what is of one shard.
    pub(crate) fn push(&self, shard: ShardId, input: EngineInput<Ticket>) {
        self.inbox_of(shard).push(DriverInput::Engine(input));
    }

    /// The same, if it can wait: [`Inbox::push_quietly`].
    pub(crate) fn push_quietly(&self, shard: ShardId, input: EngineInput<Ticket>) {
        self.inbox_of(shard).push_quietly(DriverInput::Engine(input));
    }

    /// Wakes those for whom something waits.
    pub(crate) fn nudge(&self) {
        self.inboxes.iter().for_each(Inbox::nudge);
    }

    /// A node cannot be reached.
    pub(crate) fn unreachable(&self, node: NodeId) {
        self.tell_all(|| EngineInput::Unreachable { node });
    }

    /// A node has said what time it is there.
    pub(crate) fn clock(&self, node: NodeId, read: ClockReading) {
        self.tell_all(|| EngineInput::Clock { node, read });
    }

    /// A node would rather not lead, or would again.
    pub(crate) fn avoid_leadership(&self, node: NodeId, avoid: bool) {
        self.tell_all(|| EngineInput::AvoidLeadership { node, avoid });
    }

    fn tell_all(&self, input: impl Fn() -> EngineInput<Ticket>) {
        self.inboxes.iter().for_each(|inbox| inbox.push(DriverInput::Engine(input())));
    }

    /// Records of a shard's history came from another node, which tell up to here.
    pub(crate) fn imported(&self, shard: ShardId, upto: u64) {
        self.inbox_of(shard).push(DriverInput::Imported { shard, upto });
    }

    /// This segment of the log is archived.
    pub(crate) fn archived(&self, number: u64) {
        self.inbox(0).push(DriverInput::Archived(number));
    }

    /// The node cannot go on.
    pub(crate) fn fail(&self, error: impl Into<NodeError>) {
        self.inbox(0).push(DriverInput::Fail(error.into()));
    }

    /// Each of them is to write what is under way, then to end.
    pub(crate) fn stop(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.push(DriverInput::Stop));
    }

    /// Throws away what waits: its callers hear `unknown`.
    pub(crate) fn clear(&self) {
        self.inboxes.iter().for_each(|inbox| _ = inbox.take_now(&mut Vec::new()));
    }

    /// Hands in messages of another node's engines, as it sent them, to each that has a shard of theirs.
    ///
    /// # Errors
    /// What is wrong with the frame; what is right in it is handed in.
    pub(crate) fn frame(&self, metrics: &Metrics, from: NodeId, frame: Bytes) -> Result<(), &'static str> {
        if let [only] = &self.inboxes[..] {
            self.push_lossy(metrics, only, DriverInput::Consensus { from, frame });
            return Ok(());
        }
        let mut meant = vec![false; self.inboxes.len()];
        let whole = peer_frame::each(frame.clone(), |shard, _| meant[self.division.of(shard)] = true);
        for (inbox, _) in self.inboxes.iter().zip(meant).filter(|(_, meant)| *meant) {
            self.push_lossy(metrics, inbox, DriverInput::Consensus { from, frame: frame.clone() });
        }
        whole
    }

    /// Hands in what another node's replicas have after some entries.
    pub(crate) fn checksums(&self, metrics: &Metrics, from: NodeId, checksums: Vec<Checksum>) {
        let mut parts: Vec<Vec<Checksum>> = vec![Vec::new(); self.inboxes.len()];
        checksums.into_iter().for_each(|checksum| parts[self.division.of(checksum.shard)].push(checksum));
        for (inbox, checksums) in self.inboxes.iter().zip(parts).filter(|(_, checksums)| !checksums.is_empty()) {
            self.push_lossy(metrics, inbox, DriverInput::Checksums { from, checksums });
        }
    }

    /// Hands in what may be lost.
    fn push_lossy(&self, metrics: &Metrics, inbox: &Inbox<DriverInput>, input: DriverInput) {
        if self.from_nodes.fetch_add(1, Ordering::Relaxed) >= FROM_NODES_MAX {
            self.taken();
            metrics.peer_frames_dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        inbox.push(input);
    }

    /// A replicator has taken something that another node sent.
    pub(crate) fn taken(&self) {
        self.from_nodes.fetch_sub(1, Ordering::Relaxed);
    }
}

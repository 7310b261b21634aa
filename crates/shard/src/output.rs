//! Everything that can come out of an engine.

use bytes::Bytes;

use crate::batch::{Stamp, Turns};
use crate::codec::Malformed;
use crate::name::{Epoch, NodeId, Position, ReplicaId, ShardId};
use crate::snapshot::SnapshotMeta;
use crate::time::ShardTime;

/// A message for a peer's engine. It may be lost, repeated or overtaken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The peer.
    pub to: NodeId,
    /// Where.
    pub shard: ShardId,
    /// The folded state that was handed in for it, if it carries a snapshot: it is big and belongs on the link for big things.
    pub snapshot: Option<Bytes>,
    /// The message.
    pub bytes: Bytes,
}

/// A snapshot from the leader, to be made durable before the records of the same write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What it is a snapshot of.
    pub meta: SnapshotMeta,
    /// The folded state, opaque.
    pub state: Bytes,
}

/// The first half of a pass: what is to be sent and made durable, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// These may leave at once: a leader's appends need not wait for its own disk.
    pub messages: Vec<Outgoing>,
    /// These must be durable before the records.
    pub snapshots: Vec<Received>,
    /// Encoded [`Record`](crate::Record)s: one append to the log, which must be durable before
    /// [`Engine::persisted`](crate::Engine::persisted) is called.
    pub records: Vec<u8>,
    /// The last entry's index of each shard that has entries among the records.
    pub marks: Vec<(ShardId, u64)>,
}

impl Write {
    /// Whether anything must become durable before the pass goes on. What raft may forget is never written
    /// on its own, so there is no write without a sync.
    pub fn must_sync(&self) -> bool {
        !self.records.is_empty() || !self.snapshots.is_empty()
    }
}

/// Why a proposal or read will not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// This node does not lead the shard in that epoch, or the epoch takes no more. It was never appended.
    NotLeader,
    /// Raft or a limit refused it, and with it everything that rests on it. It was never appended.
    Refused,
    /// The leadership ended while it was under way: whether it happens is unknown.
    Ended,
}

impl Why {
    /// Whether the outcome of a proposal is unknown; otherwise it will certainly never happen.
    pub fn unknown(self) -> bool {
        match self {
            Why::Ended => true,
            Why::NotLeader | Why::Refused => false,
        }
    }
}

/// What must never be; the node stops, because going on could break a promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A committed entry does not follow the one applied before it.
    #[error("entry {found} was committed where {expected} is next")]
    Index {
        /// The index that is next.
        expected: u64,
        /// The index found.
        found: u64,
    },
    /// A committed entry says another epoch than the term it was proposed in.
    #[error("an entry of term {term} says it is of epoch {}", epoch.0)]
    Epoch {
        /// The entry's raft term.
        term: u64,
        /// The epoch in its header.
        epoch: Epoch,
    },
    /// An entry is missing, or was proposed after a lost one.
    #[error("entry {found} of epoch {} follows entry {last} of epoch {}", epoch.0, last_epoch.0)]
    Sequence {
        /// The epoch of the entry found.
        epoch: Epoch,
        /// Its sequence.
        found: u64,
        /// The epoch of the last entry with turns.
        last_epoch: Epoch,
        /// Its sequence.
        last: u64,
    },
    /// The stamp of an entry is before the one of an earlier entry.
    #[error("the shard's time goes back from {last_ms} to {found_ms} ms")]
    Stamp {
        /// The last stamp.
        last_ms: u64,
        /// The stamp found.
        found_ms: u64,
    },
    /// A committed entry or a snapshot does not have its shape.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A snapshot describes another place than the message it came in.
    #[error("a snapshot up to entry {said} came as one up to entry {found}")]
    Snapshot {
        /// The place in its description.
        said: u64,
        /// The place in the message.
        found: u64,
    },
    /// A change of members cannot be carried out.
    #[error("a committed change of members cannot be carried out: {0}")]
    Members(String),
}

/// Everything that can come out of an engine, in the order in which it must be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<T> {
    /// A message for a peer that had to wait for the disk.
    Message(Outgoing),
    /// A committed entry: fold it.
    Apply {
        /// Where.
        shard: ShardId,
        /// The entry; its term is the epoch that proposed it.
        position: Position,
        /// The shard's time when it was proposed: running time never goes back; the distance counts from here on.
        stamp: Stamp,
        /// Its turns; none if it only changes the distance.
        turns: Turns,
    },
    /// A proposal is committed and its `Apply` was put out before; or a read is safe.
    Done {
        /// Whose.
        ticket: T,
        /// Where.
        shard: ShardId,
        /// The proposal's entry; or the last entry applied when the read became safe.
        index: u64,
    },
    /// A proposal or read is not done. The asker's epoch is over: what it decided since must be dropped.
    Lost {
        /// Whose.
        ticket: T,
        /// Where.
        shard: ShardId,
        /// Why.
        why: Why,
    },
    /// This node leads the shard, and everything committed before is applied.
    Lead {
        /// Where.
        shard: ShardId,
        /// The leadership that begins.
        epoch: Epoch,
        /// The shard's time during it. What is proposed in it comes after an entry that commits its distance.
        time: ShardTime,
        /// A majority of the voters confirms its true time; otherwise it is the earliest of the clocks that were shown, and is
        /// corrected once a majority agrees.
        confirmed: bool,
    },
    /// This node does not lead the shard. All tickets of an epoch before are answered.
    Follow {
        /// Where.
        shard: ShardId,
        /// Who does, if it is known.
        leader: Option<NodeId>,
        /// The raft term.
        term: u64,
    },
    /// A snapshot from the leader, durable already, replaces the folded state.
    Restore(Received),
    /// Keep a snapshot of the folded state as it is now, then answer with `SnapshotSaved`.
    SnapshotDue {
        /// Its description.
        meta: SnapshotMeta,
    },
    /// A follower lags too far behind: answer with `SnapshotCut`.
    CutSnapshot {
        /// The follower.
        to: NodeId,
        /// The description of the folded state as it is now.
        meta: SnapshotMeta,
    },
    /// This node leads the shard, its members are what this aim asked for, and a majority of them knows it for good:
    /// whoever is not among them can be dropped. It comes once for each epoch and aim.
    Reached {
        /// Where.
        shard: ShardId,
        /// Of the aim.
        version: u64,
    },
    /// This node's replica was dropped, and that is durable. Everything of it is over, also what is folded and its
    /// snapshots; what comes of the shard later is another replica's. All tickets are answered.
    Removed {
        /// Where.
        shard: ShardId,
        /// Which.
        replica: ReplicaId,
    },
    /// The node must stop. Nothing comes out after this.
    Fatal {
        /// Where.
        shard: ShardId,
        /// Why.
        why: Broken,
    },
}

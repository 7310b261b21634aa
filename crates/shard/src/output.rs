//! Everything that an engine returns.

use boxoffice_core::version::ClusterVersion;
use bytes::Bytes;

use crate::batch::{Stamp, Turns};
use crate::codec::Malformed;
use crate::name::{Epoch, NodeId, Position, ReplicaId, ShardId};
use crate::snapshot::SnapshotMeta;
use crate::time::ShardTime;

/// A message for the engine of a peer. It may be lost, repeated or reordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The peer that receives it.
    pub to: NodeId,
    pub shard: ShardId,
    /// The applied state, if the message carries a snapshot. It is large and belongs on the bulk link.
    pub snapshot: Option<Bytes>,
    /// The message.
    pub bytes: Bytes,
}

/// A snapshot from the leader. It must be durable before the records of the same write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its description.
    pub meta: SnapshotMeta,
    /// The applied state, opaque.
    pub state: Bytes,
}

/// The result of the first half of a pass. The node must send and make durable these parts, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// Messages that need not wait for the disk, such as the appends of a leader.
    pub messages: Vec<Outgoing>,
    /// Snapshots. They must be durable before the records.
    pub snapshots: Vec<Received>,
    /// Encoded [`Record`](crate::Record)s for one append to the log, which must be durable before
    /// [`Engine::persisted`](crate::Engine::persisted) is called.
    pub records: Vec<u8>,
    /// The highest version of the entries and snapshots among them. The data directory must be known to hold it before they are
    /// written.
    pub version: Option<ClusterVersion>,
    /// The index of the last entry of each shard that has entries among the records.
    pub marks: Vec<(ShardId, u64)>,
}

impl Write {
    /// Whether something must be durable before the pass continues. State that raft may forget is never written on its
    /// own, so each write needs a sync.
    pub fn must_sync(&self) -> bool {
        !self.records.is_empty() || !self.snapshots.is_empty()
    }
}

/// Why a proposal or a read was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// This node does not lead the shard in that epoch, or the epoch accepts no more. It was never appended.
    NotLeader,
    /// Raft or a limit refused it, and everything that depends on it. It was never appended.
    Refused,
    /// The leadership ended while it was pending. Its outcome is unknown.
    Ended,
}

impl RejectReason {
    /// Whether the outcome of the proposal is unknown. If not, the proposal never takes effect.
    pub fn is_unknown(self) -> bool {
        match self {
            RejectReason::Ended => true,
            RejectReason::NotLeader | RejectReason::Refused => false,
        }
    }
}

/// A broken invariant. The node stops, because continuing could break a promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatalError {
    /// A committed entry does not follow the one applied before it.
    #[error("entry {found} was committed where {expected} is next")]
    Index {
        /// The index that is next.
        expected: u64,
        found: u64,
    },
    /// The epoch of a committed entry differs from the term in which it was proposed.
    #[error("an entry of term {term} says it is of epoch {}", epoch.0)]
    Epoch {
        /// The entry's raft term.
        term: u64,
        /// The epoch in its header.
        epoch: Epoch,
    },
    /// An entry is missing, or was proposed after a dropped one.
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
    /// The stamp of an entry is earlier than that of a previous entry.
    #[error("the shard's time goes back from {last_ms} to {found_ms} ms")]
    Stamp { last_ms: u64, found_ms: u64 },
    /// A committed entry or a snapshot is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The position of a snapshot differs from that of the message that carried it.
    #[error("a snapshot up to entry {said} came as one up to entry {found}")]
    Snapshot {
        /// The index in its description.
        said: u64,
        /// The index in the message.
        found: u64,
    },
    /// A committed membership change cannot be applied.
    #[error("a committed change of members cannot be carried out: {0}")]
    Members(String),
}

/// Everything that an engine returns. The outputs must be handled in order. `T` is the completion of a proposal or a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<T> {
    /// A message that had to wait for the disk.
    Message(Outgoing),
    /// A committed entry to apply.
    Apply {
        shard: ShardId,
        /// The position of the entry. Its term is the epoch that proposed it.
        position: Position,
        /// The shard's time when the entry was proposed. Running time never goes back. The distance is valid from this
        /// entry on.
        stamp: Stamp,
        /// Its turns. Empty if the entry only changes the distance.
        turns: Turns,
        /// The chain of the shard's entries with this one, [`Link`](crate::Link).
        chain: Option<u128>,
    },
    /// A proposal is committed, and its `Apply` precedes this output. Or a read is safe.
    Completed {
        completion: T,
        shard: ShardId,
        /// The index of the proposal's entry, or of the last entry applied when the read became safe.
        index: u64,
    },
    /// A proposal or a read was dropped. Its epoch is over, and everything decided in it since must be dropped.
    ProposalDropped { completion: T, shard: ShardId, why: RejectReason },
    /// This node leads the shard, and everything that was committed before is applied.
    BecameLeader {
        shard: ShardId,
        /// The epoch that begins.
        epoch: Epoch,
        /// The shard's time in this epoch. An entry that commits its distance precedes the proposals of the epoch.
        time: ShardTime,
        /// Whether a majority of the voters confirms true time. If not, true time is the earliest of the known clocks
        /// until a majority agrees.
        confirmed: bool,
    },
    /// This node does not lead the shard. All completions of earlier epochs are answered.
    BecameFollower {
        shard: ShardId,
        /// The leader, if it is known.
        leader: Option<NodeId>,
        term: u64,
    },
    /// A snapshot from the leader replaces the applied state. It is durable already.
    Restore(Received),
    /// A snapshot is due. Save the applied state as it is now, then answer with `SnapshotSaved`.
    SnapshotDue { meta: SnapshotMeta },
    /// A follower lags too far behind for entries. Answer with `SnapshotCut`.
    CutSnapshot { to: NodeId, meta: SnapshotMeta },
    /// This node leads the shard, its members match the target configuration, and a majority of them knows it durably.
    /// Replicas that are not members can be dropped. Returned once for each epoch and target configuration.
    TargetReached {
        shard: ShardId,
        /// The version of the target configuration.
        version: u64,
    },
    /// This node's replica was dropped durably, with its applied state and its snapshots. Later outputs of the shard
    /// belong to another replica. All completions are answered.
    Removed { shard: ShardId, replica: ReplicaId },
    /// The node must stop. The engine returns nothing after this.
    Fatal { shard: ShardId, why: FatalError },
}

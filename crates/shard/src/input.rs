//! Everything that an engine takes.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::clocks::ClockReading;
use crate::name::{Epoch, NodeId, ReplicaId, ShardId};
use crate::snapshot::SnapshotMeta;
use crate::target_config::TargetConfig;

/// Everything that an engine takes. `T` is the completion of a proposal or a read. The engine returns it unread.
#[derive(Debug)]
pub enum Input<T> {
    /// Append an atomic turn of one actor. The engine answers with one `Completed` or one `ProposalDropped`.
    Propose {
        shard: ShardId,
        /// The epoch in which the turn was decided.
        epoch: Epoch,
        events: Vec<u8>,
        /// A second turn, of another actor, for the same entry.
        joint: Option<Vec<u8>>,
        completion: T,
    },
    /// Confirm that this node still leads, and wait until everything proposed so far in this shard is applied. The
    /// engine answers with one `Completed` or one `ProposalDropped`.
    Read {
        shard: ShardId,
        /// The epoch in which the answer was decided.
        epoch: Epoch,
        completion: T,
    },
    /// A message from the engine of a peer. Malformed messages are dropped and counted.
    Message {
        /// The peer, as the link identifies it.
        from: NodeId,
        shard: ShardId,
        bytes: Bytes,
    },
    /// Messages to this node are being lost.
    Unreachable { node: NodeId },
    /// [`TICK_MS`](crate::TICK_MS) have passed.
    Tick,
    /// The wall clock of another node. Nodes ask each other when they connect, every second, and when a clock was set.
    Clock { node: NodeId, read: ClockReading },
    /// A snapshot up to this entry is durable. The entries before it are not needed any more.
    SnapshotSaved {
        shard: ShardId,
        /// The replica that it was saved for. Ignored if this replica is gone.
        replica: ReplicaId,
        /// The index of its last entry.
        index: u64,
    },
    /// A snapshot to this node is still being sent, so it does not count as lost yet.
    SnapshotMoves { shard: ShardId, to: NodeId },
    /// The answer to `CutSnapshot`: the applied state at the position that `meta` describes.
    SnapshotCut {
        /// The description from `CutSnapshot`, or a later [`Engine::snapshot_meta`](crate::Engine::snapshot_meta).
        meta: SnapshotMeta,
        state: Bytes,
    },
    /// Whether a node should avoid leadership while others can lead. If it is this node, it transfers what it leads,
    /// and campaigns later than others.
    AvoidLeadership { node: NodeId, avoid: bool },
    /// As [`Input::AvoidLeadership`], of these shards alone. They replace those that were named before.
    AvoidShards { node: NodeId, shards: BTreeSet<ShardId> },
    /// Transfer the leadership, if this node leads. The epoch accepts no more proposals. If the other node does not
    /// take over, a new epoch begins.
    TransferLeader { shard: ShardId, to: NodeId },
    /// The target configuration of a shard. Each node gets that of each shard, at its start and at each change, whether
    /// it has a replica or not. It is used while this node leads. The engine ignores one that is older than the last
    /// one, or older than the one that the members were changed for.
    Target { shard: ShardId, target: TargetConfig },
    /// The directory says that this replica of this node is not a member any more. The engine drops it, even if the
    /// replica does not know yet that it was removed. Ignored if this node has another replica.
    Drop { shard: ShardId, replica: ReplicaId },
}

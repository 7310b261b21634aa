//! Everything that can come into an engine.

use bytes::Bytes;

use crate::aim::Aim;
use crate::clocks::ClockReading;
use crate::name::{Epoch, NodeId, ReplicaId, ShardId};
use crate::snapshot::SnapshotMeta;

/// Everything that can come into an engine. `T` is the asker's own mark; it comes back unread.
#[derive(Debug)]
pub enum Input<T> {
    /// Append one actor's atomic turn. It is answered by one `Done` or one `Lost`.
    Propose {
        /// Where.
        shard: ShardId,
        /// The leadership in which the turn was decided.
        epoch: Epoch,
        /// Opaque.
        events: Vec<u8>,
        /// A second turn, of another actor: one entry has both, one after the other. Opaque.
        beside: Option<Vec<u8>>,
        /// Whose it is.
        ticket: T,
    },
    /// Find out that this node still leads, and wait until everything proposed so far in this shard is
    /// applied. It is answered by one `Done` or one `Lost`.
    Read {
        /// Where.
        shard: ShardId,
        /// The leadership in which the answer was decided.
        epoch: Epoch,
        /// Whose it is.
        ticket: T,
    },
    /// What a peer's engine put out for this node. Anything that is not such a message is dropped and counted.
    Message {
        /// The peer, as the link knows it.
        from: NodeId,
        /// Where.
        shard: ShardId,
        /// The message.
        bytes: Bytes,
    },
    /// Messages to this peer are being lost.
    Unreachable {
        /// The peer.
        node: NodeId,
    },
    /// 100 ms have passed.
    Tick,
    /// Another node has said what its machine's wall clock shows. Nodes are to ask each other when they meet, every second, and
    /// when a clock was set.
    Clock {
        /// The other node.
        node: NodeId,
        /// What it said.
        read: ClockReading,
    },
    /// A snapshot up to this entry is durable; the entries before it may be forgotten.
    SnapshotSaved {
        /// Whose.
        shard: ShardId,
        /// Of which replica; if that one is gone, nothing is done.
        replica: ReplicaId,
        /// The last entry in it.
        index: u64,
    },
    /// A snapshot that was put out for this node is still on its way, so it does not count as lost yet.
    SnapshotMoves {
        /// Whose.
        shard: ShardId,
        /// To whom.
        to: NodeId,
    },
    /// The answer to `CutSnapshot`: the folded state at the place that `meta` describes.
    SnapshotCut {
        /// What was handed out with `CutSnapshot`, or a later [`Engine::snapshot_meta`](crate::Engine::snapshot_meta).
        meta: SnapshotMeta,
        /// Opaque.
        state: Bytes,
    },
    /// This node or another one should not lead while others can, or may again. If it is this one, what it leads is
    /// handed over, and it stands for election later than others.
    Reluctant {
        /// Which.
        node: NodeId,
        /// Whether it is.
        reluctant: bool,
    },
    /// Hand the leadership over, if this node has it. The epoch takes no more proposals, even if the other
    /// node does not take over: then a new epoch begins.
    TransferLeader {
        /// Where.
        shard: ShardId,
        /// To whom.
        to: NodeId,
    },
    /// What the shard's members are to become. Every node is told for every shard, at its start and whenever it
    /// changes, whether it has a replica or not: it counts as soon as this node leads. One that is older than what
    /// was told before, or than what the members were changed for, is not followed.
    Aim {
        /// Where.
        shard: ShardId,
        /// What is wanted.
        aim: Aim,
    },
    /// The directory says that this replica of this node is no member any more: an aim without it was reached. It is
    /// dropped, also if it has not heard so itself; nothing is done if this node has another one.
    Drop {
        /// Where.
        shard: ShardId,
        /// Which.
        replica: ReplicaId,
    },
}

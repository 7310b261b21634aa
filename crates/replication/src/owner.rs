//! The interface between the replication and its owner, the node.

use std::sync::Arc;

use boxoffice_core::{
    event::Event as EntityEvent,
    id::Entity,
    state_map::{State, StateMap},
};
use boxoffice_shard::{NodeId, RejectReason, ShardId};

use crate::{checksums::Checksum, error::ReplicationError, shard_state::Leadership};

/// A value that the owner gives with a proposal or a read, and gets back with its outcome.
pub trait Completion: Send + 'static {
    /// The turns of the proposal, in order. A joint proposal has two, and a read has none.
    fn proposed(&mut self) -> impl Iterator<Item = ProposedTurn<'_>>;
}

/// One turn of a proposal.
pub struct ProposedTurn<'a> {
    /// The entity that it changes.
    pub entity: &'a Entity,
    /// The entity's version after it.
    pub until: u64,
    /// The events, as in the proposal's bytes. They are applied directly and not decoded from the log again.
    pub events: &'a mut Vec<EntityEvent>,
    /// The stored state that the first turn of a reloaded entity was decided on, so that it need not be read again.
    pub reloaded: Option<&'a Arc<State>>,
}

/// The results of the replication's input, in order.
pub enum Event<T, C> {
    /// Turns are committed and applied, and reads are safe.
    Committed {
        /// Changes of watched entities.
        changes: Vec<C>,
        /// Completions of this node's proposals and reads, each with the index of its entry.
        completed: Vec<(T, u64)>,
    },
    /// A proposal or a read was dropped.
    Dropped {
        shard: ShardId,
        completion: T,
        /// Whether it can have taken effect.
        why: RejectReason,
    },
    /// This node leads a shard from now on.
    BecameLeader {
        shard: ShardId,
        /// The term and its clock.
        leadership: Leadership,
    },
    /// This node does not lead a shard any more, if it did.
    BecameFollower { shard: ShardId },
    /// A shard has another leader: this node, another one, or none.
    LeaderChanged {
        shard: ShardId,
        term: u64,
        /// The leader, if it is known.
        leader: Option<NodeId>,
    },
    /// An entity of a shard that this node leads has something to do. A deadline has come, or a new leader found it unfinished.
    Due(Entity),
    /// The directory of the cluster has changed.
    DirectoryChanged,
    /// A shard that is led here has reached its target configuration.
    TargetReached {
        shard: ShardId,
        /// The version of the configuration.
        version: u64,
    },
    /// The disk became full, or has room again.
    ReadOnlyChanged,
    /// [`ShardState::avoids`](crate::shard_state::ShardState::avoids) of some shard has changed.
    AvoidanceChanged,
    /// Checksums for the replicas on another node.
    Checksums {
        /// The other node.
        to: NodeId,
        /// This node's checksums after some entries.
        checksums: Vec<Checksum>,
    },
}

/// The node, as the replication knows it. All calls come from the replicators' loops and must not block.
pub trait Owner: Clone + Send + 'static {
    /// The completions of its proposals and reads.
    type Completion: Completion;
    /// A watched entity before a turn, as far as it is needed to find the change.
    type Before;
    /// What a turn changed in a watched entity.
    type Change: Send;

    /// Looks at a watched entity before these events are applied.
    fn before(kept: &StateMap, entity: &Entity, events: &[EntityEvent]) -> Option<Self::Before>;

    /// The change since `before`.
    fn change(before: Self::Before, kept: &StateMap, entity: Entity) -> Option<Self::Change>;

    /// A watched entity may have changed in a way that is not known here.
    fn lost(entity: Entity) -> Self::Change;

    /// Commands under way on the node. If there are many, a replicator waits for more inputs.
    fn under_way(&self) -> usize;

    /// Receives a result of the input.
    fn on(&self, event: Event<Self::Completion, Self::Change>);

    /// The replication cannot go on.
    fn failed(&self, error: &ReplicationError);
}

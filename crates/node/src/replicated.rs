//! Handles the events of the replication.

use std::sync::{Arc, atomic::Ordering};

use boxoffice_core::{event::Event as EntityEvent, host::Input, id::Entity, planted, state_map::StateMap};
use boxoffice_env::Lane;
use boxoffice_feeds::Commit;
use boxoffice_replication::{
    error::ReplicationError,
    owner::{Event, Owner},
    shard_state::Leadership,
};
use boxoffice_shard::{RejectReason, ShardId};
use tokio::sync::mpsc;

use crate::{
    actor,
    api::Failure,
    error::{Failed, NodeError},
    leader_hint::LeaderInfo,
    message::Message,
    pending_commit::PendingCommit,
    placement, routing,
    shard_lead::ShardLead,
    shared::Shared,
    watched::Before,
};

/// The completions that were committed in one pass, with the index of their entry.
pub(crate) type CommittedTurns = Vec<(PendingCommit, u64)>;

/// The node as the owner of its replication.
#[derive(Clone)]
pub(crate) struct Replicated {
    shared: Arc<Shared>,
    relay: mpsc::UnboundedSender<CommittedTurns>,
}

impl Replicated {
    /// The turns go to `relay`.
    pub(crate) fn new(shared: Arc<Shared>, relay: mpsc::UnboundedSender<CommittedTurns>) -> Replicated {
        Replicated { shared, relay }
    }

    /// Hands the changes of a pass to the feeds, and its completions to the selling runtime, which carries out their effects.
    fn committed(&self, changes: Vec<Commit>, completed: CommittedTurns) {
        if !changes.is_empty() {
            self.shared.remote_feeds.commit(&changes);
            self.shared.feeds.commit(changes);
        }
        if !completed.is_empty() {
            self.shared.admission.batch_waits(self.shared.world.clock.monotonic_ms());
            // The relay ends only after the replication.
            let _ = self.relay.send(completed);
        }
    }

    /// A proposal or a read is over without an outcome. Its callers hear whether it may have happened.
    fn dropped(&self, shard: ShardId, completion: PendingCommit, why: RejectReason) {
        // A turn that was never appended may be the last of several turns of a request. Inventories keep what they granted for it
        // in between until they hear otherwise.
        let changed = why.is_unknown() || completion.actor.is_some();
        if changed && !planted::is("an unknown outcome told as none") {
            tracing::debug!(shard, ?why, "a proposal was lost; its callers hear unknown");
            drop(completion);
        } else {
            completion.refuse(Failure::NotReady);
        }
    }

    fn became_leader(&self, shard: ShardId, leadership: Leadership) {
        tracing::info!(?shard, "leads");
        self.shared.shards[usize::from(shard)].leader_state.lock().leadership = Some(leadership);
    }

    fn became_follower(&self, shard: ShardId) {
        tracing::info!(?shard, "leads no longer");
        // The actors' state was speculation on a leadership that is over. A client that waits for them hears `unknown`.
        let ended = self.shared.shards[usize::from(shard)].leader_state.lock().end(|actor| {
            let ends = !planted::is("actors that outlive a leadership");
            if ends {
                actor.mailbox.stop(None);
            }
            ends
        });
        drop(ended);
    }

    fn leader_changed(&self, shard: ShardId, led: LeaderInfo) {
        let lead = &self.shared.shards[usize::from(shard)];
        lead.leader_hint.lock().follow(led);
        if lead.note_leader(led.leader.is_some(), self.shared.world.clock.monotonic_ms()) {
            self.shared.remote_feeds.leader_changed(shard);
            self.shared.feeds.leaders_changed();
        }
        routing::leader_changed(&self.shared, shard, led.leader);
        if led.leader == Some(self.shared.config.replication.node_id) {
            self.announce(lead, led.term);
        }
        self.shared.placement_changed.notify_one();
    }

    /// Tells the nodes without a replica of a shard that this node leads it. Calls of theirs may wait for a leader that has stopped.
    fn announce(&self, lead: &ShardLead, term: u64) {
        if planted::is("a new leader does not say so") {
            return;
        }
        let replica_nodes = lead.leader_hint.lock().replica_nodes.clone();
        let message = Message::Leads { shard: lead.id, term }.encode();
        for link in self.shared.world.net.links() {
            if !replica_nodes.contains(&link.node) {
                // A node that is not linked asks the replicas one after the other.
                let _ = self.shared.world.net.send(link.node, Lane::Calls, message.clone());
            }
        }
    }
}

impl Owner for Replicated {
    type Completion = PendingCommit;
    type Before = Before;
    type Change = Commit;

    fn before(kept: &StateMap, entity: &Entity, events: &[EntityEvent]) -> Option<Before> {
        Before::of(kept, entity, events)
    }

    fn change(before: Before, kept: &StateMap, entity: Entity) -> Option<Commit> {
        before.commit(kept, entity)
    }

    fn lost(entity: Entity) -> Commit {
        Commit::lost(entity)
    }

    fn under_way(&self) -> usize {
        self.shared.admission.under_way()
    }

    fn on(&self, event: Event<PendingCommit, Commit>) {
        match event {
            Event::Committed { changes, completed } => self.committed(changes, completed),
            Event::Dropped { shard, completion, why } => self.dropped(shard, completion, why),
            Event::BecameLeader { shard, leadership } => self.became_leader(shard, leadership),
            Event::BecameFollower { shard } => self.became_follower(shard),
            Event::LeaderChanged { shard, term, leader } => self.leader_changed(shard, LeaderInfo { term, leader }),
            Event::Due(entity) => {
                // The replication has not reported the end of the leadership, so the entity's actor is here.
                let _ = actor::send(&self.shared, &entity, Input::Wake);
            }
            Event::TargetReached { shard, version } => {
                self.shared.reached.lock().insert(shard, version);
                self.shared.placement_changed.notify_one();
            }
            // Other nodes should lead, or this one may again.
            Event::DirectoryChanged | Event::ReadOnlyChanged | Event::AvoidanceChanged => {
                self.shared.placement_changed.notify_one()
            }
            Event::Checksums { to, checksums } => {
                let message = Message::Checksums(checksums);
                let _ = self.shared.world.net.send(to, Lane::Calls, message.encode());
            }
        }
    }

    fn failed(&self, error: &ReplicationError) {
        self.shared.draining.store(true, Ordering::Relaxed);
        let why = match error {
            ReplicationError::DirectoryRemoved => placement::why_not_a_member(&self.shared).to_string(),
            error => error.to_string(),
        };
        let is_damage = match error {
            ReplicationError::Owner(error) => error.downcast_ref().is_some_and(NodeError::is_damage),
            // What cannot be read of a store that was good at the start is a failure of its reads only.
            error => matches!(error, ReplicationError::Outvoted { .. }),
        };
        self.shared.failed.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(Failed { why, is_damage });
            is_first
        });
    }
}

/// Why the node ends when its replication does.
pub(crate) fn node_error(shared: &Shared, error: ReplicationError) -> NodeError {
    match error {
        ReplicationError::DirectoryRemoved => placement::why_not_a_member(shared),
        error => error.into(),
    }
}

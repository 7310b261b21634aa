//! Messages to entities of shards that other nodes lead.

use std::sync::atomic::Ordering;

use boxoffice_core::{ask::Ask, id::Entity};
use boxoffice_env::Lane;
use boxoffice_shard::NodeId;
use bytes::Bytes;

use crate::{
    message::Message,
    pending::{asks, leaderless::Waiting},
    shard_lead::ShardLead,
    shared::Shared,
};

impl Shared {
    /// Whether messages between two entities may be lost although the sender's term goes on. If a term of one shard ends, all
    /// asks between its own entities end with it.
    pub(crate) fn is_between_shards(&self, to: &Entity, from: &Entity) -> bool {
        !self.is_alone() && self.lead_of(to).id != self.lead_of(from).id
    }

    /// Remembers an ask that wants a reply, wherever its shard is led. It is repeated when the shard has another leader.
    pub(crate) fn note_ask(&self, to: &Entity, from: &Entity, ask: &Ask) {
        if ask.wants_reply() && self.is_between_shards(to, from) {
            self.pending_asks.note(self.lead_of(to).id, (to, from), ask, self.world.clock.monotonic_ms());
        }
    }

    /// Asks an entity at another node. An ask that wants a reply is repeated until it has one, here or by the asker.
    pub(crate) fn ask_remote(&self, to: &Entity, from: &Entity, ask: &Ask) {
        if self.is_alone() {
            return;
        }
        let lead = self.lead_of(to);
        let message = asks::encoded(to, from, ask);
        if !ask.wants_reply() {
            return self.send_or_queue(lead, message);
        }
        if !self.send_to_leader(lead, message) {
            self.pending_asks.again(lead.id, false, self.world.clock.monotonic_ms());
        }
    }

    /// Sends a reply to the known leader of its entity's shard.
    pub(crate) fn reply_remote(&self, to: &Entity, message: Message<'_>) {
        if !self.is_alone() {
            self.send_or_queue(self.lead_of(to), message.encode());
        }
    }

    /// Sends a message to the leader, or queues it until there is one.
    fn send_or_queue(&self, lead: &ShardLead, message: Bytes) {
        // A hint whose node cannot be reached is dropped. There may be another hint.
        if !self.send_to_leader(lead, message.clone()) && !self.send_to_leader(lead, message.clone()) {
            self.queue_leaderless(lead, [Waiting { message, came_from: None }]);
        }
    }

    pub(crate) fn queue_leaderless(&self, lead: &ShardLead, waiting: impl IntoIterator<Item = Waiting>) {
        self.leaderless.queue_leaderless(lead.id, waiting, self.world.clock.monotonic_ms() + asks::AGAIN_MS);
        self.pending_asks.wake();
    }

    /// Forwards a message to the leader. The node `from` has sent it here for an entity of a shard that this node does not lead,
    /// and does not repeat it. If it may have been forwarded before, it waits a moment, so that no message circles at the speed
    /// of the network while leaders change.
    pub(crate) fn pass_on(&self, lead: &ShardLead, (from, sender): (NodeId, &Entity), message: Bytes) {
        let is_first_hand = self.lead_of(sender).leader_hint.lock().known() == Some(from);
        let waiting = Waiting { message, came_from: Some(from) };
        if !is_first_hand || !self.send_leaderless_one(lead, &waiting, false) {
            self.queue_leaderless(lead, [waiting]);
        }
    }

    /// Sends one message that waits. A message from another node goes only to a node that is known to lead. It goes back to its
    /// sender only if that leader is news.
    pub(crate) fn send_leaderless_one(&self, lead: &ShardLead, waiting: &Waiting, is_news: bool) -> bool {
        let Waiting { message, came_from } = waiting;
        let Some(came_from) = came_from else { return self.send_to_leader(lead, message.clone()) };
        let known = lead.leader_hint.lock().known();
        let leader = known.filter(|node| *node != self.config.replication.node_id && (is_news || node != came_from));
        leader.is_some_and(|node| self.send_to(lead, node, message.clone()))
    }

    /// Sends a message to the leader. Returns whether there is one that can be reached.
    pub(crate) fn send_to_leader(&self, lead: &ShardLead, message: Bytes) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let leader = lead.leader(turn).filter(|node| *node != self.config.replication.node_id);
        leader.is_some_and(|node| self.send_to(lead, node, message))
    }

    /// Sends a message to a node, and forgets the hint to it if it cannot be reached.
    fn send_to(&self, lead: &ShardLead, node: NodeId, message: Bytes) -> bool {
        let sent = self.world.net.send(node, Lane::Calls, message);
        lead.note_sent(&sent);
        sent.is_ok()
    }
}

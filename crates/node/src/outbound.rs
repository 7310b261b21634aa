//! Messages to entities of shards that other nodes lead.

use std::sync::atomic::Ordering;

use boxoffice_core::{ask::Ask, id::Entity};
use boxoffice_env::Lane;
use boxoffice_shard::NodeId;
use bytes::Bytes;

use crate::{
    cell::ShardCell,
    message::Message,
    pending::{asks, leaderless::Waiting},
    shared::Shared,
};

impl Shared {
    /// Whether what one entity says to the other may be lost although the term of the sender goes on: a term of one shard
    /// that ends takes with it what all its entities ask each other.
    pub(crate) fn is_between_shards(&self, to: &Entity, from: &Entity) -> bool {
        !self.is_alone() && self.cell_of(to).id != self.cell_of(from).id
    }

    /// Remembers an ask that wants a reply, wherever its shard is led: it is asked again when that has another leader.
    pub(crate) fn note_ask(&self, to: &Entity, from: &Entity, ask: &Ask) {
        if ask.wants_reply() && self.is_between_shards(to, from) {
            self.asked.note(self.cell_of(to).id, (to, from), ask, self.world.clock.monotonic_ms());
        }
    }

    /// Asks an entity at another node. What wants a reply is asked again until it has one, or the asker does so itself.
    pub(crate) fn ask_far(&self, to: &Entity, from: &Entity, ask: &Ask) {
        if self.is_alone() {
            return;
        }
        let cell = self.cell_of(to);
        let message = asks::encoded(to, from, ask);
        if !ask.wants_reply() {
            return self.send_or_park(cell, message);
        }
        if !self.send_to_leader(cell, message) {
            self.asked.again(cell.id, false, self.world.clock.monotonic_ms());
        }
    }

    /// Sends a reply to the node that leads its entity's shard, as far as is known.
    pub(crate) fn reply_far(&self, to: &Entity, message: Message<'_>) {
        if !self.is_alone() {
            self.send_or_park(self.cell_of(to), message.encode());
        }
    }

    fn send_or_park(&self, cell: &ShardCell, message: Bytes) {
        // A hint whose node cannot be reached is dropped. There may be another hint.
        if !self.send_to_leader(cell, message.clone()) && !self.send_to_leader(cell, message.clone()) {
            self.park(cell, [Waiting { message, came_from: None }]);
        }
    }

    pub(crate) fn park(&self, cell: &ShardCell, waiting: impl IntoIterator<Item = Waiting>) {
        self.parked.park(cell.id, waiting, self.world.clock.monotonic_ms() + asks::AGAIN_MS);
        self.asked.wake();
    }

    /// Passes on to the leader what the node `from` has sent here for an entity of a shard that this node does not lead, and
    /// does not send again. If it may have been passed on before, it waits a moment, so that nothing circles at the speed of
    /// the network while leaders change.
    pub(crate) fn pass_on(&self, cell: &ShardCell, (from, sender): (NodeId, &Entity), message: Bytes) {
        let is_first_hand = self.cell_of(sender).belief.lock().known() == Some(from);
        let waiting = Waiting { message, came_from: Some(from) };
        if !is_first_hand || !self.send_parked_one(cell, &waiting, false) {
            self.park(cell, [waiting]);
        }
    }

    /// Sends one message that waits. What another node has sent here goes only to a node that is known to lead, and, unless
    /// that is news, not back.
    pub(crate) fn send_parked_one(&self, cell: &ShardCell, waiting: &Waiting, is_news: bool) -> bool {
        let Waiting { message, came_from } = waiting;
        let Some(came_from) = came_from else { return self.send_to_leader(cell, message.clone()) };
        let known = cell.belief.lock().known();
        let leader = known.filter(|node| *node != self.config.node_id && (is_news || node != came_from));
        leader.is_some_and(|node| self.send_to(cell, node, message.clone()))
    }

    /// Whether there is a node to send it to that can be reached.
    pub(crate) fn send_to_leader(&self, cell: &ShardCell, message: Bytes) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let leader = cell.leader(turn).filter(|node| *node != self.config.node_id);
        leader.is_some_and(|node| self.send_to(cell, node, message))
    }

    fn send_to(&self, cell: &ShardCell, node: NodeId, message: Bytes) -> bool {
        let sent = self.world.net.send(node, Lane::Calls, message);
        cell.note_sent(&sent);
        sent.is_ok()
    }
}

//! Messages to entities of shards that other nodes lead.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use boxoffice_core::{
    ask::{Ask, Reply},
    id::Entity,
};
use boxoffice_env::{Clock, Lane, Net, World};
use boxoffice_shard::{NodeId, ShardId};
use bytes::Bytes;

use crate::{
    message::Message,
    pending::{
        asks::{self, PendingAsks},
        leaderless::{LeaderlessQueue, Waiting},
    },
    shard_lead::{ShardLead, Shards},
};

/// Sends messages of this node's entities to those of other shards, and keeps what waits for a reply or for a leader.
pub(crate) struct Outbound {
    shards: Arc<Shards>,
    net: Arc<dyn Net>,
    clock: Arc<dyn Clock>,
    own: NodeId,
    is_alone: bool,
    /// Asks that other shards have not replied to. Shared, so that the task that repeats them does not keep the node alive.
    pub(crate) asks: Arc<PendingAsks>,
    /// Replies, and asks without a reply, for shards whose leader is not known or cannot be reached.
    leaderless: LeaderlessQueue,
    /// Spreads messages whose leader is not known over the nodes.
    turn: AtomicU16,
}

impl Outbound {
    pub(crate) fn new(world: &World, shards: &Arc<Shards>, own: NodeId, is_alone: bool) -> Outbound {
        Outbound {
            shards: Arc::clone(shards),
            net: Arc::clone(&world.net),
            clock: Arc::clone(&world.clock),
            own,
            is_alone,
            asks: Arc::default(),
            leaderless: LeaderlessQueue::default(),
            turn: AtomicU16::new(0),
        }
    }

    /// Whether messages between two entities may be lost although the sender's term goes on. If a term of one shard ends, all
    /// asks between its own entities end with it.
    fn is_between_shards(&self, to: &Entity, from: &Entity) -> bool {
        !self.is_alone && self.shards.of(to).id != self.shards.of(from).id
    }

    /// Remembers an ask that wants a reply, wherever its shard is led. It is repeated when the shard has another leader.
    pub(crate) fn note_ask(&self, to: &Entity, from: &Entity, ask: &Ask) {
        if ask.wants_reply() && self.is_between_shards(to, from) {
            self.asks.note(self.shards.of(to).id, (to, from), ask, self.clock.monotonic_ms());
        }
    }

    /// An ask of `to` is replied to, and not repeated any more.
    pub(crate) fn replied(&self, to: &Entity, replier: &Entity, reply: &Reply) {
        if self.is_between_shards(to, replier) {
            self.asks.replied(self.shards.of(replier).id, (replier, to), reply);
        }
    }

    /// Repeats the asks of a shard, at once if its leader is new, else after a while.
    pub(crate) fn again(&self, shard: ShardId, is_news: bool) {
        self.asks.again(shard, is_news, self.clock.monotonic_ms());
    }

    /// The link to a node is up or lost. Asks there without a reply may be lost with it.
    pub(crate) fn link_changed(&self, node: NodeId, up: bool) {
        for lead in self.shards.iter().filter(|lead| lead.leader_hint.lock().known() == Some(node)) {
            self.again(lead.id, up);
        }
    }

    /// Asks an entity at another node. An ask that wants a reply is repeated until it has one, here or by the asker.
    pub(crate) fn ask_remote(&self, to: &Entity, from: &Entity, ask: &Ask, mark: Option<u64>) {
        if self.is_alone {
            return;
        }
        let lead = self.shards.of(to);
        let message = asks::encoded(to, from, ask, mark);
        if ask.wants_reply() {
            self.ask_leader(lead, message);
        } else {
            self.send_or_queue(lead, message);
        }
    }

    /// Sends an ask to the leader. If there is none that can be reached, it is repeated.
    pub(crate) fn ask_leader(&self, lead: &ShardLead, message: Bytes) {
        if !self.send_to_leader(lead, message) {
            self.again(lead.id, false);
        }
    }

    /// Sends a reply to the known leader of its entity's shard.
    pub(crate) fn reply_remote(&self, to: &Entity, message: Message<'_>) {
        if !self.is_alone {
            self.send_or_queue(self.shards.of(to), message.encode());
        }
    }

    /// Sends a message to the leader, or queues it until there is one.
    fn send_or_queue(&self, lead: &ShardLead, message: Bytes) {
        // A hint whose node cannot be reached is dropped. There may be another hint.
        if !self.send_to_leader(lead, message.clone()) && !self.send_to_leader(lead, message.clone()) {
            self.queue_leaderless(lead, [Waiting { message, came_from: None }]);
        }
    }

    fn queue_leaderless(&self, lead: &ShardLead, waiting: impl IntoIterator<Item = Waiting>) {
        self.leaderless.queue_leaderless(lead.id, waiting, self.clock.monotonic_ms() + asks::AGAIN_MS);
        self.asks.wake();
    }

    /// Forwards a message to the leader. The node `from` has sent it here for an entity of a shard that this node does not lead,
    /// and does not repeat it. If it may have been forwarded before, it waits a moment, so that no message circles at the speed
    /// of the network while leaders change.
    pub(crate) fn pass_on(&self, lead: &ShardLead, (from, sender): (NodeId, &Entity), message: Bytes) {
        let is_first_hand = self.shards.of(sender).leader_hint.lock().known() == Some(from);
        let waiting = Waiting { message, came_from: Some(from) };
        if !is_first_hand || !self.send_leaderless_one(lead, &waiting, false) {
            self.queue_leaderless(lead, [waiting]);
        }
    }

    /// The shards whose messages without a leader are to be tried again now.
    pub(crate) fn due_leaderless(&self, now_ms: u64) -> Vec<ShardId> {
        self.leaderless.due(now_ms)
    }

    /// Takes the messages that wait for a leader of this shard.
    pub(crate) fn take_leaderless(&self, shard: ShardId) -> Vec<Waiting> {
        self.leaderless.take(shard)
    }

    /// Sends messages that waited for a leader of the shard. Those that cannot be sent go on waiting. `is_news` if the leader is
    /// new.
    pub(crate) fn send_leaderless(&self, lead: &ShardLead, waiting: Vec<Waiting>, is_news: bool) {
        let unsent = waiting.into_iter().filter(|waiting| !self.send_leaderless_one(lead, waiting, is_news));
        self.queue_leaderless(lead, unsent.collect::<Vec<_>>());
    }

    /// Sends one message that waits. A message from another node goes only to a node that is known to lead. It goes back to its
    /// sender only if that leader is news.
    fn send_leaderless_one(&self, lead: &ShardLead, waiting: &Waiting, is_news: bool) -> bool {
        let Waiting { message, came_from } = waiting;
        let Some(came_from) = came_from else { return self.send_to_leader(lead, message.clone()) };
        let known = lead.leader_hint.lock().known();
        let leader = known.filter(|node| *node != self.own && (is_news || node != came_from));
        leader.is_some_and(|node| self.send_to(lead, node, message.clone()))
    }

    /// Whether nothing is to be sent again.
    pub(crate) fn is_idle(&self) -> bool {
        self.asks.is_idle() && self.leaderless.is_empty()
    }

    /// Sends a message to the leader. Returns whether there is one that can be reached.
    fn send_to_leader(&self, lead: &ShardLead, message: Bytes) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let leader = lead.leader(turn).filter(|node| *node != self.own);
        leader.is_some_and(|node| self.send_to(lead, node, message))
    }

    /// Sends a message to a node, and forgets the hint to it if it cannot be reached.
    fn send_to(&self, lead: &ShardLead, node: NodeId, message: Bytes) -> bool {
        let sent = self.net.send(node, Lane::Calls, message);
        lead.note_sent(&sent);
        sent.is_ok()
    }
}

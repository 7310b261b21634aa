//! Asks and queued messages, sent again when a shard has another leader or after a moment.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use boxoffice_shard::{NodeId, ShardId};
use bytes::Bytes;

use crate::{message::Message, pending::leaderless::Waiting, shared::Shared};

/// How often shards that are to be asked again are checked, in milliseconds.
const LOOK_MS: u64 = 10;

impl Shared {
    /// Sends an ask once more, to the present leader of the shard.
    pub(crate) fn ask_again(self: &Arc<Self>, shard: ShardId, message: Bytes) {
        let lead = &self.shards[usize::from(shard)];
        if lead.leads() {
            if let Ok(message) = Message::decode(&message) {
                self.deliver(self.config.replication.node_id, message);
            }
        } else if !self.send_to_leader(lead, message) {
            self.pending_asks.again(shard, false, self.world.clock.monotonic_ms());
        }
    }

    /// Sends the messages that wait for a leader of the shard. Those that cannot be sent go on waiting. `is_news` if the leader
    /// is new.
    pub(crate) fn send_leaderless(self: &Arc<Self>, shard: ShardId, is_news: bool) {
        let lead = &self.shards[usize::from(shard)];
        let waiting = self.leaderless.take(shard);
        if !lead.leads() {
            let unsent = waiting.into_iter().filter(|waiting| !self.send_leaderless_one(lead, waiting, is_news));
            return self.queue_leaderless(lead, unsent.collect::<Vec<_>>());
        }
        for Waiting { message, .. } in waiting {
            if let Ok(message) = Message::decode(&message) {
                self.deliver(self.config.replication.node_id, message);
            }
        }
    }

    /// A shard has a leader that may be another one than before. Waiting messages go to it.
    pub(crate) fn leader_changed(self: &Arc<Self>, shard: ShardId, leader: Option<NodeId>) {
        self.call_new_leader(shard, leader);
        if leader.is_none() {
            return;
        }
        self.pending_asks.again(shard, true, self.world.clock.monotonic_ms());
        self.send_leaderless(shard, true);
    }

    /// The link to a node is up or lost. Asks there without a reply may be lost with it.
    pub(crate) fn link_changed(&self, node: NodeId, up: bool) {
        let now_ms = self.world.clock.monotonic_ms();
        for lead in self.shards.iter().filter(|lead| lead.leader_hint.lock().known() == Some(node)) {
            self.pending_asks.again(lead.id, up, now_ms);
        }
    }
}

/// Sends asks and queued messages again when they are due, until the node is gone.
pub(crate) async fn run(weak: Weak<Shared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let now_ms = shared.world.clock.monotonic_ms();
        for (shard, messages) in shared.pending_asks.take(now_ms) {
            for (asker, message) in messages {
                // Another leader of the asker asks by itself.
                if shared.lead_of(&asker).leads() {
                    shared.ask_again(shard, message);
                }
            }
        }
        for shard in shared.leaderless.due(now_ms) {
            shared.send_leaderless(shard, false);
        }
        if shared.pending_asks.is_idle() && shared.leaderless.is_empty() {
            // Waits without keeping the node alive.
            let asked = Arc::clone(&shared.pending_asks);
            drop(shared);
            asked.some.notified().await;
        } else {
            drop(shared);
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }
}

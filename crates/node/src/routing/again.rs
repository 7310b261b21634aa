//! Asks and parked messages, sent again when a shard has another leader or after a moment.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use boxoffice_shard::{NodeId, ShardId};
use bytes::Bytes;

use crate::{message::Message, pending::leaderless::Waiting, shared::Shared};

/// How often it is looked whether a shard is to be asked again, in milliseconds.
const LOOK_MS: u64 = 10;

impl Shared {
    /// Sends an ask once more, to the present leader of the shard.
    pub(crate) fn ask_again(self: &Arc<Self>, shard: ShardId, message: Bytes) {
        let cell = &self.cells[usize::from(shard)];
        if cell.leads() {
            if let Ok(message) = Message::decode(&message) {
                self.deliver(self.config.node_id, message);
            }
        } else if !self.send_to_leader(cell, message) {
            self.asked.again(shard, false, self.world.clock.monotonic_ms());
        }
    }

    /// Sends what waits for a leader of the shard; what cannot be sent goes on waiting. Who leads may be news.
    pub(crate) fn send_parked(self: &Arc<Self>, shard: ShardId, is_news: bool) {
        let cell = &self.cells[usize::from(shard)];
        let waiting = self.parked.take(shard);
        if !cell.leads() {
            let unsent = waiting.into_iter().filter(|waiting| !self.send_parked_one(cell, waiting, is_news));
            return self.park(cell, unsent.collect::<Vec<_>>());
        }
        for Waiting { message, .. } in waiting {
            if let Ok(message) = Message::decode(&message) {
                self.deliver(self.config.node_id, message);
            }
        }
    }

    /// A shard has a leader that may be another one than before: what waits for one goes to it.
    pub(crate) fn leader_changed(self: &Arc<Self>, shard: ShardId, leader: Option<NodeId>) {
        self.call_new_leader(shard, leader);
        if leader.is_none() {
            return;
        }
        self.asked.again(shard, true, self.world.clock.monotonic_ms());
        self.send_parked(shard, true);
    }

    /// The link to a node is up or lost: what was asked there and not replied to may be lost with it.
    pub(crate) fn link_changed(&self, node: NodeId, up: bool) {
        let now_ms = self.world.clock.monotonic_ms();
        for cell in self.cells.iter().filter(|cell| cell.belief.lock().known() == Some(node)) {
            self.asked.again(cell.id, up, now_ms);
        }
    }
}

/// Sends again what is to be sent again, asks and what is parked, until the node is gone.
pub(crate) async fn run(weak: Weak<Shared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let now_ms = shared.world.clock.monotonic_ms();
        for (shard, messages) in shared.asked.take(now_ms) {
            for (asker, message) in messages {
                // Another leader of the asker asks by itself.
                if shared.cell_of(&asker).leads() {
                    shared.ask_again(shard, message);
                }
            }
        }
        for shard in shared.parked.due(now_ms) {
            shared.send_parked(shard, false);
        }
        if shared.asked.is_idle() && shared.parked.is_empty() {
            // Waits without keeping the node alive.
            let asked = Arc::clone(&shared.asked);
            drop(shared);
            asked.some.notified().await;
        } else {
            drop(shared);
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }
}

//! Asks and queued messages, sent again when a shard has another leader or after a moment.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use boxoffice_shard::{NodeId, ShardId};
use bytes::Bytes;

use super::{calls::call_new_leader, deliver};
use crate::{message::Message, pending::leaderless::Waiting, shared::Shared};

/// How often shards that are to be asked again are checked, in milliseconds.
const LOOK_MS: u64 = 10;

/// Sends an ask once more, to the present leader of the shard.
fn ask_again(shared: &Arc<Shared>, shard: ShardId, message: Bytes) {
    let lead = &shared.shards[usize::from(shard)];
    if lead.leads() {
        deliver_here(shared, &message);
    } else {
        shared.outbound.ask_leader(lead, message);
    }
}

/// Sends the messages that wait for a leader of the shard. `is_news` if the leader is new.
fn send_leaderless(shared: &Arc<Shared>, shard: ShardId, is_news: bool) {
    let lead = &shared.shards[usize::from(shard)];
    let waiting = shared.outbound.take_leaderless(shard);
    if !lead.leads() {
        return shared.outbound.send_leaderless(lead, waiting, is_news);
    }
    for Waiting { message, .. } in waiting {
        deliver_here(shared, &message);
    }
}

/// Delivers a message of this node to an entity that it leads by now.
fn deliver_here(shared: &Arc<Shared>, message: &Bytes) {
    if let Ok(message) = Message::decode(message) {
        deliver(shared, shared.config.replication.node_id, message);
    }
}

/// A shard has a leader that may be another one than before. Waiting messages go to it.
pub(crate) fn leader_changed(shared: &Arc<Shared>, shard: ShardId, leader: Option<NodeId>) {
    call_new_leader(shared, shard, leader);
    if leader.is_none() {
        return;
    }
    shared.outbound.again(shard, true);
    send_leaderless(shared, shard, true);
}

/// Sends asks and queued messages again when they are due, until the node is gone.
pub(crate) async fn run(weak: Weak<Shared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let now_ms = shared.world.clock.monotonic_ms();
        for (shard, messages) in shared.outbound.asks.take(now_ms, shared.mark()) {
            for (asker, message) in messages {
                // Another leader of the asker asks by itself.
                if shared.lead_of(&asker).leads() {
                    ask_again(&shared, shard, message);
                }
            }
        }
        for shard in shared.outbound.due_leaderless(now_ms) {
            send_leaderless(&shared, shard, false);
        }
        if shared.outbound.is_idle() {
            // Waits without keeping the node alive.
            let asked = Arc::clone(&shared.outbound.asks);
            drop(shared);
            asked.some.notified().await;
        } else {
            drop(shared);
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }
}

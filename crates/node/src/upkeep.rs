//! The periodic work of a node: timers fire, idle actors leave, counters are read.

use std::{sync::Weak, time::Duration};

use crate::{actor, cluster_copy, marks, shard_lead::EntityMessage, shared::Shared, timers::SLOT_MS};

/// How often each shard's idle actors are looked for, in milliseconds. The shards take turns, because letting all go at once
/// would hold up selling for some milliseconds.
const SWEEP_MS: u64 = 1_000;
/// More actors than this cost more memory than their entities, so they are let go sooner.
const ACTORS_CROWD: usize = 16_384;
/// How long an actor of a crowd may be idle, in milliseconds.
const CROWDED_IDLE_MS: u64 = 250;
/// How often the counters are read for rates, in milliseconds.
const SAMPLE_MS: u64 = 1_000;

/// Fires the timers of a node and lets idle actors go, until the node is gone.
pub(crate) async fn run(weak: Weak<Shared>) {
    let (mut sweep_at, mut sample_at, mut turn) = (0, 0, 0);
    let mut marks = marks::Interval::default();
    let (mut began_ms, mut has_settled) = (None, false);
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let now_ms = shared.world.clock.monotonic_ms();
        for entity in shared.timers.due(now_ms) {
            actor::wake_if_assigned(&shared, &entity);
        }
        if shared.timers.takes_nudge(now_ms) {
            shared.replication.replicators.nudge();
        }
        if now_ms >= sweep_at {
            sweep_at = now_ms + (SWEEP_MS / shared.shards.len() as u64).max(SLOT_MS);
            sweep(&shared, turn % shared.shards.len(), now_ms);
            turn += 1;
        }
        marks.keep(&shared, now_ms);
        if now_ms >= sample_at {
            sample_at = now_ms + SAMPLE_MS;
            shared.samples.take(shared.sample());
            shared.backups.free_unused(now_ms);
            // Where there is a table of members, its leader finishes upgrades.
            let settle_ms = shared.config.upgrade_settle_ms;
            let began_ms = *began_ms.get_or_insert(now_ms);
            if !has_settled && settle_ms.is_some_and(|settle_ms| now_ms.saturating_sub(began_ms) >= settle_ms) {
                has_settled = true;
                if cluster_copy::has_none(&shared) {
                    // An error is logged, and the next process tries again.
                    let _ = cluster_copy::finish_alone(&shared);
                }
            }
        }
        let until = shared.timers.next_ms().map_or(sweep_at, |next| next.min(sweep_at));
        let wait = Duration::from_millis(until.saturating_sub(now_ms).max(1));
        let earlier = shared.timers.earlier.notified();
        tokio::select! {
            biased;
            () = earlier => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Tells actors of a shard that were not used for a while to leave their entity. The order does not matter, because each decides
/// by itself.
fn sweep(shared: &Shared, shard: usize, now_ms: u64) {
    let leader_state = shared.shards[shard].leader_state.lock();
    let crowded = leader_state.actors.len() * shared.shards.len() > ACTORS_CROWD;
    let idle_ms = shared.config.actor_idle_ms.min(if crowded { CROWDED_IDLE_MS } else { u64::MAX });
    for actor in leader_state.actors.values() {
        let used_ms = actor.used_ms.load(std::sync::atomic::Ordering::Relaxed);
        if now_ms.saturating_sub(used_ms) >= idle_ms {
            actor.cast(EntityMessage::Leave);
        }
    }
}

//! Wake-ups that entities asked for because of something under way: not of committed state, so they need no log.

use std::{collections::BTreeMap, sync::Weak, time::Duration};

use boxoffice_core::id::Entity;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{actor::Letter, shared::Shared};

/// Wake-ups within so many milliseconds are one.
const SLOT_MS: u64 = 10;
/// How often each shard's idle actors are looked for, in milliseconds. The shards take turns: letting all go at once
/// would hold up selling for some milliseconds.
const SWEEP_MS: u64 = 1_000;
/// More actors than this cost more memory than their entities: they are let go sooner.
const ACTORS_CROWD: usize = 16_384;
/// How long an actor of a crowd may be idle, in milliseconds.
const CROWDED_IDLE_MS: u64 = 250;
/// How often the counters are read for rates, in milliseconds.
const SAMPLE_MS: u64 = 1_000;

/// Wake-ups by their time.
#[derive(Default)]
pub(crate) struct Timers {
    slots: Mutex<BTreeMap<u64, Vec<Entity>>>,
    /// When the replication is to be woken for quiet proposals.
    nudge_ms: Mutex<Option<u64>>,
    earlier: Notify,
}

impl Timers {
    /// Wakes `entity` at `at_ms` of the monotonic clock, or up to a slot later.
    pub(crate) fn arm(&self, at_ms: u64, entity: &Entity) {
        let slot = at_ms.div_ceil(SLOT_MS);
        let mut slots = self.slots.lock();
        let first = slots.first_key_value().map(|(slot, _)| *slot);
        slots.entry(slot).or_default().push(entity.clone());
        drop(slots);
        if first.is_none_or(|first| slot < first) {
            self.earlier.notify_one();
        }
    }

    /// The entities to wake now, each once, however often it asked. An entity that waits asks again each time it is woken. So two
    /// wake-ups at one time would stay two for as long as it waits, and each other reason to wake it would add one.
    fn due(&self, now_ms: u64) -> Vec<Entity> {
        let mut slots = self.slots.lock();
        let mut due = Vec::new();
        while let Some(first) = slots.first_entry().filter(|first| *first.key() <= now_ms / SLOT_MS) {
            due.append(&mut first.remove());
        }
        drop(slots);
        due.sort_unstable();
        due.dedup();
        due
    }

    fn next_ms(&self) -> Option<u64> {
        let slot_ms = self.slots.lock().first_key_value().map(|(slot, _)| slot * SLOT_MS);
        slot_ms.into_iter().chain(*self.nudge_ms.lock()).min()
    }

    /// The replication is woken at `at_ms` at the latest.
    pub(crate) fn nudge(&self, at_ms: u64) {
        let mut nudge_ms = self.nudge_ms.lock();
        if nudge_ms.is_none() {
            *nudge_ms = Some(at_ms);
            drop(nudge_ms);
            self.earlier.notify_one();
        }
    }

    fn takes_nudge(&self, now_ms: u64) -> bool {
        self.nudge_ms.lock().take_if(|at_ms| *at_ms <= now_ms).is_some()
    }
}

/// Fires the timers of a node and lets idle actors go, until the node is gone.
pub(crate) async fn run(weak: Weak<Shared>) {
    let (mut sweep_at, mut sample_at, mut turn) = (0, 0, 0);
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let now_ms = shared.world.clock.monotonic_ms();
        for entity in shared.timers.due(now_ms) {
            shared.wake_if_served(&entity);
        }
        if shared.timers.takes_nudge(now_ms) {
            shared.replication.replicators.nudge();
        }
        if now_ms >= sweep_at {
            sweep_at = now_ms + (SWEEP_MS / shared.cells.len() as u64).max(SLOT_MS);
            sweep(&shared, turn % shared.cells.len(), now_ms);
            turn += 1;
        }
        if now_ms >= sample_at {
            sample_at = now_ms + SAMPLE_MS;
            shared.samples.take(&shared);
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

/// Tells actors of a shard that were not used for a while to leave their entity. The order does not matter: each
/// decides by itself.
fn sweep(shared: &Shared, shard: usize, now_ms: u64) {
    let lead = shared.cells[shard].lead.lock();
    let crowded = lead.actors.len() * shared.cells.len() > ACTORS_CROWD;
    let idle_ms = shared.config.actor_idle_ms.min(if crowded { CROWDED_IDLE_MS } else { u64::MAX });
    for served in lead.actors.values() {
        let used_ms = served.used_ms.load(std::sync::atomic::Ordering::Relaxed);
        if now_ms.saturating_sub(used_ms) >= idle_ms {
            served.cast(Letter::Leave);
        }
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::{CartId, Entity};

    use super::{SLOT_MS, Timers};

    #[test]
    fn who_asked_more_than_once_is_woken_once() {
        let timers = Timers::default();
        let [first, second] = [1, 2].map(|id| Entity::Cart(CartId(id)));
        for (at_ms, entity) in [(1_000, &second), (1_000, &first), (1_000 - SLOT_MS, &second), (2_000, &first)] {
            timers.arm(at_ms, entity);
        }
        assert_eq!(timers.due(1_000), [first.clone(), second]);
        assert_eq!((timers.due(1_999), timers.next_ms()), (Vec::new(), Some(2_000)));
        assert_eq!(timers.due(2_000), [first]);
    }
}

//! Wake-ups that entities asked for because of something under way. They do not come from committed state, so they need no log.

use std::collections::BTreeMap;

use boxoffice_core::id::Entity;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

/// Wake-ups within these milliseconds are one.
pub(crate) const SLOT_MS: u64 = 10;
/// Wake-ups by their time.
#[derive(Default)]
pub(crate) struct Timers {
    slots: Mutex<BTreeMap<u64, Vec<Entity>>>,
    /// When the replication must be woken for quiet proposals.
    nudge_ms: Mutex<Option<u64>>,
    /// The first wake-up is earlier than it was.
    pub(crate) earlier: Notify,
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
    pub(crate) fn due(&self, now_ms: u64) -> Vec<Entity> {
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

    pub(crate) fn next_ms(&self) -> Option<u64> {
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

    pub(crate) fn takes_nudge(&self, now_ms: u64) -> bool {
        self.nudge_ms.lock().take_if(|at_ms| *at_ms <= now_ms).is_some()
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::{CartId, Entity};

    use super::{SLOT_MS, Timers};

    #[test]
    fn an_entity_that_asked_twice_is_woken_once() {
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

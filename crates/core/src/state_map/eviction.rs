//! Eviction of entities that have ended. They are handed out, written to the store, and then removed from memory.

use alloc::{sync::Arc, vec::Vec};

use super::{State, StateMap};
use crate::{
    event::{CartEvent, Event},
    id::Entity,
    payment::PaymentCounts,
    planted,
};

/// An entity that may be evicted, as it was when it was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionCandidate {
    pub entity: Entity,
    pub state: Arc<State>,
    /// A place in the shard's log. The state has every event of the entity up to there.
    pub index: u64,
    /// The place in the log at which it began, if it has not been handed out before. The store has no older record of it then.
    /// `None` says nothing.
    pub began: Option<u64>,
}

impl State {
    /// Whether the entity has ended and owes nothing. It will hardly be used again and may be evicted.
    pub fn is_evictable(&self) -> bool {
        match self {
            State::Venue(_) | State::Session(_) | State::Product(_) | State::Resource(_) => false,
            State::Directory(_) | State::Cluster(_) => false,
            // Without live holds, a customer has only purchases and used quotas, which are history.
            State::Customer(customer) => customer.is_unused(),
            State::Code(code) => code.is_unused(),
            // A payment that waits for an operator stays, so that it is counted and found without a search of the store. A
            // tombstone is archived too, because its cart may come back, and a hold that it disowned can never become a line.
            State::Cart(cart) => {
                (cart.terminal() || cart.is_tombstone()) && !cart.unfinished() && cart.open_payments().next().is_none()
            }
        }
    }

    /// Whether the store may have a record of the entity, because it had ended or was a tombstone.
    pub fn may_be_archived(&self) -> bool {
        match self {
            State::Venue(_) | State::Session(_) | State::Product(_) | State::Resource(_) => false,
            State::Directory(_) | State::Cluster(_) => false,
            State::Customer(_) | State::Code(_) => true,
            State::Cart(cart) => cart.terminal() || cart.has_disowned_any(),
        }
    }

    /// Whether the store can have no record of an entity that is not in memory and has these events next. Either the events are
    /// its first, or entities of its kind are never evicted.
    pub fn never_archived(events: &[Event]) -> bool {
        match events.first() {
            Some(Event::Customer(_) | Event::Code(_)) => false,
            None | Some(Event::Venue(_) | Event::Session(_) | Event::Product(_)) => true,
            Some(Event::Resource(_) | Event::Directory(_) | Event::Cluster(_)) => true,
            Some(Event::Cart(event)) => matches!(event, CartEvent::Opened { known: false, .. }),
        }
    }
}

impl StateMap {
    /// Hands out the entities that may be evicted and were not handed out since they last changed. They stay in memory until
    /// [`StateMap::evict`].
    pub fn take_evictable(&mut self) -> Vec<EvictionCandidate> {
        let names = core::mem::take(&mut self.eviction_queue);
        let taken = names.into_iter().filter_map(|entity| {
            let index = self.entries.get(&entity)?.evictable_at?;
            if planted::is("a tombstone that is kept nowhere") && self.tombstone(&entity) {
                self.evict(&entity, index);
                return None;
            }
            let entry = self.entries.get_mut(&entity)?;
            let (state, began) = (Arc::clone(&entry.state), entry.began.take());
            Some(EvictionCandidate { entity, state, index, began })
        });
        taken.collect()
    }

    /// Removes an entity that the store has as it was at `index`. If the entity has changed since, it stays, and this is `false`.
    pub fn evict(&mut self, entity: &Entity, index: u64) -> bool {
        if self.entries.get(entity).and_then(|entry| entry.evictable_at) != Some(index) {
            return false;
        }
        self.evictable -= 1;
        let entry = self.entries.remove(entity).expect("only entities in memory are evicted");
        self.tombstones -= u64::from(entry.state.is_tombstone());
        assert_eq!(entry.state.payments(), PaymentCounts::default(), "{entity} is evicted with an open payment");
        assert!(entry.state.deadline().is_none(), "{entity} has ended and waits for nothing");
        if let Some(wake_at) = entry.wake_at {
            self.wakes.remove(&(wake_at, entity.clone()));
        }
        assert!(entry.opens_at.is_none(), "{entity} has ended and opens nothing");
        true
    }

    /// Puts an entity from the store into memory again.
    ///
    /// # Panics
    /// If it is in memory.
    pub fn reload(&mut self, entity: Entity, state: Arc<State>) {
        assert!(!self.contains(&entity), "{entity} is reloaded and was in memory");
        self.insert(entity, state, None);
    }

    /// How many tombstones are in memory. They are carts that no client has opened, with released holds of a refused guest.
    pub fn tombstones(&self) -> u64 {
        self.tombstones
    }

    fn tombstone(&self, entity: &Entity) -> bool {
        self.entries.get(entity).is_some_and(|entry| entry.state.is_tombstone())
    }

    /// How many entities in memory may be evicted.
    pub fn evictable(&self) -> usize {
        self.evictable
    }
}

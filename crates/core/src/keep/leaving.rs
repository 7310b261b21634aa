//! Who may leave memory: entities that have ended are handed out, kept elsewhere, and then forgotten here.

use alloc::{sync::Arc, vec::Vec};

use super::{Kept, State};
use crate::{
    event::{CartEvent, Event},
    id::Entity,
    payment::PaymentCounts,
    planted,
};

/// An entity that may leave memory, as it was when it was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Which.
    pub entity: Entity,
    /// Everything about it.
    pub state: Arc<State>,
    /// The place in the shard's log up to which the state tells: it has every event of the entity up to there.
    pub index: u64,
    /// The place at which it began, if it has not been handed out before: only what began there or later can be a record of it
    /// elsewhere. `None` says nothing.
    pub began: Option<u64>,
}

impl State {
    /// Whether the entity has ended and owes nothing, so that it will hardly be asked for again and may be kept
    /// elsewhere.
    pub fn leaves(&self) -> bool {
        match self {
            State::Venue(_) | State::Session(_) | State::Product(_) | State::Resource(_) => false,
            State::Directory(_) | State::Cluster(_) => false,
            // With nothing in any cart, only purchases and what was used of quotas are left: history.
            State::Customer(customer) => customer.rests(),
            // What an operator has to see to stays, so that it is counted and found without a look at all that has left.
            // A tombstone is not forgotten, for its cart may come back, and a hold that it disowned can never become a line.
            State::Cart(cart) => {
                (cart.terminal() || cart.is_tombstone()) && !cart.unfinished() && cart.open_payments().next().is_none()
            }
        }
    }

    /// Whether the entity may have left once and come back: it had ended, or was a tombstone.
    pub fn may_have_left(&self) -> bool {
        match self {
            State::Venue(_) | State::Session(_) | State::Product(_) | State::Resource(_) => false,
            State::Directory(_) | State::Cluster(_) => false,
            State::Customer(_) => true,
            State::Cart(cart) => cart.terminal() || cart.has_disowned_any(),
        }
    }

    /// Whether these events, the next of an entity that is not in memory, show by themselves that it was never kept
    /// elsewhere: either they can only be the first of all, or such entities never leave.
    pub fn begins(events: &[Event]) -> bool {
        match events.first() {
            Some(Event::Customer(_)) => false,
            None | Some(Event::Venue(_) | Event::Session(_) | Event::Product(_)) => true,
            Some(Event::Resource(_) | Event::Directory(_) | Event::Cluster(_)) => true,
            Some(Event::Cart(event)) => matches!(event, CartEvent::Opened { known: false, .. }),
        }
    }
}

impl Kept {
    /// Hands out the entities that may leave and were not handed out since they last changed. They stay until
    /// [`Kept::forget`].
    pub fn take_leaving(&mut self) -> Vec<Leaving> {
        let names = core::mem::take(&mut self.to_hand_out);
        let taken = names.into_iter().filter_map(|entity| {
            let index = self.entries.get(&entity)?.leaves?;
            if planted::is("a tombstone that is kept nowhere") && self.tombstone(&entity) {
                self.forget(&entity, index);
                return None;
            }
            let entry = self.entries.get_mut(&entity)?;
            let (state, began) = (Arc::clone(&entry.state), entry.began.take());
            Some(Leaving { entity, state, index, began })
        });
        taken.collect()
    }

    /// Takes an entity out of memory that is kept elsewhere as it was at `index`; `false` if it has changed since, and
    /// stays.
    pub fn forget(&mut self, entity: &Entity, index: u64) -> bool {
        if self.entries.get(entity).and_then(|entry| entry.leaves) != Some(index) {
            return false;
        }
        self.leaving -= 1;
        let entry = self.entries.remove(entity).expect("who leaves is still here");
        self.tombstones -= u64::from(entry.state.is_tombstone());
        assert_eq!(entry.state.payments(), PaymentCounts::default(), "{entity} leaves with an open payment");
        assert!(entry.state.deadline().is_none(), "{entity} has ended and waits for nothing");
        if let Some(call) = entry.call {
            self.calls.remove(&(call, entity.clone()));
        }
        true
    }

    /// Takes an entity into memory again, as it was kept elsewhere.
    ///
    /// # Panics
    /// If it is in memory.
    pub fn put_back(&mut self, entity: Entity, state: Arc<State>) {
        assert!(!self.contains(&entity), "{entity} is put back and was never away");
        self.insert(entity, state, None);
    }

    /// How many tombstones are in memory: carts that nobody has opened and that gave a refused guest's holds back.
    pub fn tombstones(&self) -> u64 {
        self.tombstones
    }

    fn tombstone(&self, entity: &Entity) -> bool {
        self.entries.get(entity).is_some_and(|entry| entry.state.is_tombstone())
    }

    /// How many entities may leave and are still here.
    pub fn leaving(&self) -> usize {
        self.leaving
    }
}

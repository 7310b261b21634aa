//! The slot of an entity's state between decisions. One actor at a time takes the state, decides, and puts it back. That is the
//! entity's own actor or, while no message waits for the entity, an actor that decides something together with it.
//!
//! No actor blocks. An actor that finds no state handles other messages, and is notified when the state is back. `tests/loom`
//! tries all orders of these steps.

use super::sync::Mutex;

/// A state, or its empty slot.
pub(crate) struct StateSlot<T>(Mutex<Slot<T>>);

enum Slot<T> {
    Present(T),
    Taken,
    /// The actor wants it as soon as it is back.
    Wanted,
    /// No actor may take it any more.
    Closed,
}

/// The result of taking a state.
pub(crate) enum Take<T> {
    State(T),
    /// Another actor has the state, and tells this one when it is back.
    InUse,
    Closed,
}

/// The result of putting a state back.
pub(crate) enum PutBack<T> {
    Present,
    /// The actor must be notified.
    Wanted,
    /// The slot was closed meanwhile. The caller drops the state.
    Closed(T),
}

/// The content of a slot before it was closed.
pub(crate) enum Closed<T> {
    Present(T),
    /// The actor that has the state drops it.
    Taken,
    /// The actor has messages for it, and must be notified.
    Wanted,
}

impl<T> StateSlot<T> {
    pub(crate) fn new(state: T) -> StateSlot<T> {
        StateSlot(Mutex::new(Slot::Present(state)))
    }

    /// The actor takes the state. If it is not here, the actor that puts it back learns that it is wanted.
    pub(crate) fn take(&self) -> Take<T> {
        let mut slot = self.0.lock();
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Present(state) => Take::State(state),
            Slot::Taken | Slot::Wanted => {
                *slot = Slot::Wanted;
                Take::InUse
            }
            Slot::Closed => {
                *slot = Slot::Closed;
                Take::Closed
            }
        }
    }

    /// Takes the state if it is here and `suits`. The caller has made sure that no message waits for the entity.
    pub(crate) fn borrow_if(&self, suits: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut slot = self.0.lock();
        match &*slot {
            Slot::Present(state) if suits(state) => match std::mem::replace(&mut *slot, Slot::Taken) {
                Slot::Present(state) => Some(state),
                Slot::Taken | Slot::Wanted | Slot::Closed => unreachable!("it was here, and the lock is held"),
            },
            Slot::Present(_) | Slot::Taken | Slot::Wanted | Slot::Closed => None,
        }
    }

    /// Puts the state back.
    pub(crate) fn put_back(&self, state: T) -> PutBack<T> {
        let mut slot = self.0.lock();
        match &*slot {
            Slot::Closed => PutBack::Closed(state),
            Slot::Wanted => {
                *slot = Slot::Present(state);
                PutBack::Wanted
            }
            Slot::Present(_) | Slot::Taken => {
                *slot = Slot::Present(state);
                PutBack::Present
            }
        }
    }

    /// Ends decisions on the state. The caller drops the content where no lock is held.
    #[must_use]
    pub(crate) fn close(&self) -> Closed<T> {
        match std::mem::replace(&mut *self.0.lock(), Slot::Closed) {
            Slot::Present(state) => Closed::Present(state),
            Slot::Wanted => Closed::Wanted,
            Slot::Taken | Slot::Closed => Closed::Taken,
        }
    }
}

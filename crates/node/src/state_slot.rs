//! The slot of an entity's state between decisions. One actor at a time takes the state, decides, and puts it back. That is the
//! entity's own actor or, while no message waits for the entity, an actor that decides something together with it.
//!
//! No actor blocks. An actor that finds no state handles other messages, and is notified when the state is back. `tests/loom`
//! tries all orders of these steps.

use super::sync::Mutex;

/// A state, or its empty slot.
pub(crate) struct StateSlot<T>(Mutex<Content<T>>);

enum Content<T> {
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
        StateSlot(Mutex::new(Content::Present(state)))
    }

    /// The actor takes the state. If it is not here, the actor that puts it back learns that it is wanted.
    pub(crate) fn take(&self) -> Take<T> {
        let mut slot = self.0.lock();
        match std::mem::replace(&mut *slot, Content::Taken) {
            Content::Present(state) => Take::State(state),
            Content::Taken | Content::Wanted => {
                *slot = Content::Wanted;
                Take::InUse
            }
            Content::Closed => {
                *slot = Content::Closed;
                Take::Closed
            }
        }
    }

    /// Takes the state if it is here and `suits`. The caller has made sure that no message waits for the entity.
    pub(crate) fn borrow_if(&self, suits: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut slot = self.0.lock();
        match &*slot {
            Content::Present(state) if suits(state) => match std::mem::replace(&mut *slot, Content::Taken) {
                Content::Present(state) => Some(state),
                Content::Taken | Content::Wanted | Content::Closed => unreachable!("it was here, and the lock is held"),
            },
            Content::Present(_) | Content::Taken | Content::Wanted | Content::Closed => None,
        }
    }

    /// Puts the state back.
    pub(crate) fn put_back(&self, state: T) -> PutBack<T> {
        let mut slot = self.0.lock();
        match &*slot {
            Content::Closed => PutBack::Closed(state),
            Content::Wanted => {
                *slot = Content::Present(state);
                PutBack::Wanted
            }
            Content::Present(_) | Content::Taken => {
                *slot = Content::Present(state);
                PutBack::Present
            }
        }
    }

    /// Ends decisions on the state. The caller drops the content where no lock is held.
    #[must_use]
    pub(crate) fn close(&self) -> Closed<T> {
        match std::mem::replace(&mut *self.0.lock(), Content::Closed) {
            Content::Present(state) => Closed::Present(state),
            Content::Wanted => Closed::Wanted,
            Content::Taken | Content::Closed => Closed::Taken,
        }
    }
}

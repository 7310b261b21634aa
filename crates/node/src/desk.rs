//! The desk of an entity: its state lies here between decisions. One actor at a time takes the state up, decides, and lays it down
//! again. That is the entity's own actor or, while no message waits for the entity, an actor that decides something together with it.
//!
//! No actor blocks. One that finds no state goes on with other things, and is told when the state is back. `tests/loom.rs` tries
//! all orders of these steps.

use super::sync::Mutex;

/// A state, or the place where it was.
pub(crate) struct Desk<T>(Mutex<Place<T>>);

enum Place<T> {
    Here(T),
    Away,
    /// The actor wants it as soon as it is back.
    Wanted,
    /// It is not to be decided on any more.
    Closed,
}

/// What an actor finds.
pub(crate) enum Found<T> {
    State(T),
    /// Another actor has the state, and tells this one when it is back.
    Nothing,
    Closed,
}

/// What became of a state that was laid down.
pub(crate) enum LaidDown<T> {
    Here,
    /// The actor is to be told.
    Wanted,
    /// The desk was closed meanwhile: the caller drops the state.
    Closed(T),
}

/// What a desk was before it was closed.
pub(crate) enum WasOpen<T> {
    Here(T),
    /// The actor that has the state drops it.
    Away,
    /// The actor has messages for it, and is to be told.
    Wanted,
}

impl<T> Desk<T> {
    pub(crate) fn new(state: T) -> Desk<T> {
        Desk(Mutex::new(Place::Here(state)))
    }

    /// The actor takes the state up. If it is not here, the actor that lays it down is told that it is wanted.
    pub(crate) fn take(&self) -> Found<T> {
        let mut place = self.0.lock();
        match std::mem::replace(&mut *place, Place::Away) {
            Place::Here(state) => Found::State(state),
            Place::Away | Place::Wanted => {
                *place = Place::Wanted;
                Found::Nothing
            }
            Place::Closed => {
                *place = Place::Closed;
                Found::Closed
            }
        }
    }

    /// Takes the state up if it is here and `suits`. The caller has made sure that no message waits for the entity.
    pub(crate) fn borrow_if(&self, suits: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut place = self.0.lock();
        match &*place {
            Place::Here(state) if suits(state) => match std::mem::replace(&mut *place, Place::Away) {
                Place::Here(state) => Some(state),
                Place::Away | Place::Wanted | Place::Closed => unreachable!("it was here, and the lock is held"),
            },
            Place::Here(_) | Place::Away | Place::Wanted | Place::Closed => None,
        }
    }

    /// Lays the state down again.
    pub(crate) fn lay_down(&self, state: T) -> LaidDown<T> {
        let mut place = self.0.lock();
        match &*place {
            Place::Closed => LaidDown::Closed(state),
            Place::Wanted => {
                *place = Place::Here(state);
                LaidDown::Wanted
            }
            Place::Here(_) | Place::Away => {
                *place = Place::Here(state);
                LaidDown::Here
            }
        }
    }

    /// Nothing is decided on it any more. What was here is to be dropped where no lock is held.
    #[must_use]
    pub(crate) fn close(&self) -> WasOpen<T> {
        match std::mem::replace(&mut *self.0.lock(), Place::Closed) {
            Place::Here(state) => WasOpen::Here(state),
            Place::Wanted => WasOpen::Wanted,
            Place::Away | Place::Closed => WasOpen::Away,
        }
    }
}

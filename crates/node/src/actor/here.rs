//! When an input is decided where it arrives, instead of by the entity's actor.
//!
//! A message to an actor costs more than some decisions: a box, a place in a queue, a wake-up and a turn of the runtime. With one
//! selling thread the actor would decide on the same thread a moment later. So the sender takes the entity's state
//! ([`crate::state_slot`]) and decides.
//!
//! With several threads the actors spread the work, and every input goes through a mailbox. The same holds while much waits for
//! the one thread ([`crate::admission::Admission::may_decide_here`]).

use std::cell::Cell;

use tokio::runtime::Handle;

use crate::shared::Shared;

/// Nested decisions, of a command and of its immediate ask. The messages of these go to mailboxes.
const DEPTH_MAX: u8 = 2;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// While it lives, this thread decides one level deeper.
pub(super) struct Level(u8);

impl Level {
    /// `None` if this thread must not decide, or not any deeper.
    pub(super) fn enter(shared: &Shared) -> Option<Level> {
        let outer = DEPTH.get();
        if outer >= DEPTH_MAX || !shared.tasks.sells_with_one_thread() {
            return None;
        }
        // In a simulation both ways are taken.
        if shared.tasks.only() && shared.world.rng.u64() & 1 == 0 {
            return None;
        }
        let sells = || Handle::try_current().is_ok_and(|here| here.id() == shared.tasks.selling.id());
        if outer == 0 && !(sells() && shared.admission.may_decide_here(shared.world.clock.monotonic_ms())) {
            return None;
        }
        DEPTH.set(outer + 1);
        Some(Level(outer))
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

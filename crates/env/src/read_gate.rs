//! A gate at which the reads of a test's disk or store wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A gate, which is open at first.
#[derive(Default)]
pub struct ReadGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    waiting: usize,
}

impl ReadGate {
    /// Every read from now on waits, and its thread with it.
    pub fn stall(&self) {
        self.state().is_shut = true;
    }

    /// Reads go on.
    pub fn go_on(&self) {
        self.state().is_shut = false;
        self.changed.notify_all();
    }

    /// Reads that wait.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// Waits until the gate is open.
    pub(super) fn pass(&self) {
        let mut state = self.state();
        state.waiting += 1;
        while state.is_shut {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

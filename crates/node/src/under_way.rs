//! Counts of messages and turns of an entity that are under way. Senders, the actor and the relay update them. `tests/loom` tries
//! their memory orders exhaustively.
//!
//! Counters are read by adding nothing to them. A plain read may be older than a write of the other side, and both sides would
//! leave the next step to the other one.

use super::sync::{AtomicBool, AtomicUsize, Ordering};

/// Messages and turns that must end before an actor leaves its entity or restarts it.
#[derive(Default)]
pub(crate) struct UnderWay {
    /// Messages sent to the entity and not yet taken.
    queued: AtomicUsize,
    /// Turns of the entity proposed and not yet applied.
    in_flight: AtomicUsize,
    /// The actor must be notified when nothing is in flight.
    waits: AtomicBool,
}

impl UnderWay {
    /// A message is sent. Called under the lock under which actors leave, so that one that leaves has seen every message.
    pub(crate) fn message_sent(&self) {
        self.queued.fetch_add(1, Ordering::AcqRel);
    }

    /// The actor takes a message.
    pub(crate) fn message_taken(&self) {
        self.queued.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether no message waits for the entity. Called under the lock under which messages are sent.
    #[must_use]
    pub(crate) fn has_no_messages(&self) -> bool {
        self.queued.fetch_add(0, Ordering::AcqRel) == 0
    }

    /// The actor proposes a turn.
    pub(crate) fn turn_proposed(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    /// A turn is applied, and all that waited for it is carried out. Returns whether the actor must be notified.
    #[must_use]
    pub(crate) fn turn_applied(&self) -> bool {
        self.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 && self.waits.load(Ordering::Acquire)
    }

    /// Whether nothing is in flight. If something is, the relay tells the actor when the last turn is applied.
    #[must_use]
    pub(crate) fn wait_for_turns(&self) -> bool {
        // Written before the count is read. `turn_applied` works the other way round, so one of the two sees the other.
        self.waits.swap(true, Ordering::AcqRel);
        self.in_flight.fetch_add(0, Ordering::AcqRel) == 0
    }

    /// The actor need not be notified any more.
    pub(crate) fn stop_waiting(&self) {
        self.waits.swap(false, Ordering::AcqRel);
    }

    /// Whether no message is on its way and nothing is in flight. Called under the lock under which messages are sent.
    #[must_use]
    pub(crate) fn is_idle(&self) -> bool {
        self.queued.fetch_add(0, Ordering::AcqRel) == 0 && self.in_flight.fetch_add(0, Ordering::AcqRel) == 0
    }
}

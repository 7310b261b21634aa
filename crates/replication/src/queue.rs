//! A queue with one reader that sleeps while it is empty. A push wakes it, once. `crates/node/tests/loom` tries its memory orders
//! exhaustively. How the reader sleeps is up to [`super::inbox`].

use super::sync::{AtomicBool, Mutex, Ordering};

/// Messages in order, and whether their reader sleeps.
pub(crate) struct Queue<M> {
    contents: Mutex<Contents<M>>,
    asleep: AtomicBool,
    closed: AtomicBool,
}

struct Contents<M> {
    messages: Vec<M>,
    /// The reader has ended. Nothing is added any more.
    is_over: bool,
}

impl<M> Default for Queue<M> {
    fn default() -> Queue<M> {
        Queue {
            contents: Mutex::new(Contents { messages: Vec::new(), is_over: false }),
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }
}

impl<M> Queue<M> {
    /// Adds one message. Returns whether the reader must be woken.
    #[must_use]
    pub(crate) fn push(&self, message: M) -> bool {
        self.push_quietly(message);
        // The lock has shown whether the reader, which looks under it as well, sleeps. Most of the time it does not.
        self.asleep.load(Ordering::Acquire) && self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Adds one message without waking the reader, which takes it when it is awake anyway, or with [`Queue::nudge`].
    pub(crate) fn push_quietly(&self, message: M) {
        let mut contents = self.contents.lock();
        if !contents.is_over {
            contents.messages.push(message);
        }
    }

    /// The reader has ended. Messages in the queue and later ones are dropped.
    pub(crate) fn end(&self) {
        let dropped = {
            let mut contents = self.contents.lock();
            contents.is_over = true;
            std::mem::take(&mut contents.messages)
        };
        drop(dropped);
    }

    /// Returns whether the reader must be woken, because it sleeps although there are messages.
    #[must_use]
    pub(crate) fn nudge(&self) -> bool {
        !self.contents.lock().messages.is_empty() && self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Closes the queue. Returns whether the reader must be woken.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        self.closed.swap(true, Ordering::AcqRel);
        self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Whether the queue is closed. Messages in it may still be taken.
    pub(crate) fn is_closed(&self) -> bool {
        // Written, not read, because a plain read may take effect before the reader's announcement that precedes it.
        self.closed.fetch_or(false, Ordering::AcqRel)
    }

    /// Moves everything into `into`. `false` if there is nothing.
    pub(crate) fn take(&self, into: &mut Vec<M>) -> bool {
        let messages = &mut self.contents.lock().messages;
        if messages.is_empty() {
            return false;
        }
        if into.is_empty() {
            std::mem::swap(messages, into);
        } else {
            into.append(messages);
        }
        true
    }

    /// Takes all messages. If there are none and more may come, announces that the reader is going to sleep. Returns whether
    /// it is.
    #[must_use]
    pub(crate) fn falls_asleep(&self, into: &mut Vec<M>) -> bool {
        if self.take(into) || self.is_closed() {
            return false;
        }
        self.asleep.swap(true, Ordering::AcqRel);
        // A message, or the end, may have come between the look and the announcement.
        let came = self.take(into) || self.is_closed();
        if came {
            self.asleep.swap(false, Ordering::AcqRel);
        }
        !came
    }

    /// The reader is awake again. Takes all messages.
    pub(crate) fn awakes(&self, into: &mut Vec<M>) {
        self.asleep.swap(false, Ordering::AcqRel);
        self.take(into);
    }
}

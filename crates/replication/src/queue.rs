//! A queue with one reader that sleeps while it is empty: who pushes wakes it, once. Its orders of memory are tried
//! exhaustively in `crates/node/tests/loom`; how the reader sleeps is [`super::inbox`]'s business.

use super::sync::{AtomicBool, Mutex, Ordering};

/// Messages in order, and whether their reader sleeps.
pub(crate) struct Queue<M> {
    contents: Mutex<Contents<M>>,
    asleep: AtomicBool,
    closed: AtomicBool,
}

struct Contents<M> {
    messages: Vec<M>,
    /// The reader has ended: nothing is added any more.
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
    /// Adds one message. Whether the reader is to be woken.
    #[must_use]
    pub(crate) fn push(&self, message: M) -> bool {
        self.push_quietly(message);
        // The lock has shown whether the reader, which looks under it as well, sleeps: most of the time it does not.
        self.asleep.load(Ordering::Acquire) && self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Adds one message without waking the reader, which takes it when it is awake anyway, or with [`Queue::nudge`].
    pub(crate) fn push_quietly(&self, message: M) {
        let mut contents = self.contents.lock();
        if !contents.is_over {
            contents.messages.push(message);
        }
    }

    /// The reader has ended: what is in the queue is dropped, and what is still pushed.
    pub(crate) fn end(&self) {
        let dropped = {
            let mut contents = self.contents.lock();
            contents.is_over = true;
            std::mem::take(&mut contents.messages)
        };
        drop(dropped);
    }

    /// Whether the reader sleeps although there may be something: it is to be woken.
    #[must_use]
    pub(crate) fn nudge(&self) -> bool {
        !self.contents.lock().messages.is_empty() && self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Says that nothing more will come. Whether the reader is to be woken.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        self.closed.swap(true, Ordering::AcqRel);
        self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Whether nothing more will come; what is in the queue may still be taken.
    pub(crate) fn is_closed(&self) -> bool {
        // Written, not read: a plain read may be older than what the reader has said before it.
        self.closed.fetch_or(false, Ordering::AcqRel)
    }

    /// Moves everything into `into`; `false` if there is nothing.
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

    /// Takes what is there; if that is nothing and there will be more, announces that the reader is going to sleep. Whether
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

    /// The reader is awake again: takes what is there.
    pub(crate) fn awakes(&self, into: &mut Vec<M>) {
        self.asleep.swap(false, Ordering::AcqRel);
        self.take(into);
    }
}

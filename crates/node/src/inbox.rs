//! The way into the replication thread: everything that wants something of it, in order.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use parking_lot::Mutex;

/// A queue with one reader, a thread that sleeps while it is empty. What may be in it is bounded by admission: every
/// command under way has at most a few inputs here.
pub(crate) struct Inbox<M> {
    queue: Mutex<Vec<M>>,
    reader: OnceLock<Thread>,
    asleep: AtomicBool,
}

impl<M> Default for Inbox<M> {
    fn default() -> Inbox<M> {
        Inbox { queue: Mutex::new(Vec::new()), reader: OnceLock::new(), asleep: AtomicBool::new(false) }
    }
}

impl<M> Inbox<M> {
    /// Adds one message and wakes the reader if it sleeps.
    pub(crate) fn push(&self, message: M) {
        self.queue.lock().push(message);
        self.wake();
    }

    /// Wakes the reader, so that it looks at its deadlines.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(reader) = self.reader.get()
        {
            reader.unpark();
        }
    }

    /// Moves everything into `into`; waits for the first message at most `wait`. Only the one reading thread calls this.
    pub(crate) fn take(&self, into: &mut Vec<M>, wait: Duration) {
        self.reader.get_or_init(thread::current);
        if self.take_now(into) || wait.is_zero() {
            return;
        }
        self.asleep.store(true, Ordering::SeqCst);
        // A message may have come between the look and the announcement.
        if self.take_now(into) {
            self.asleep.store(false, Ordering::SeqCst);
            return;
        }
        thread::park_timeout(wait);
        self.asleep.store(false, Ordering::SeqCst);
        self.take_now(into);
    }

    fn take_now(&self, into: &mut Vec<M>) -> bool {
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            return false;
        }
        if into.is_empty() {
            std::mem::swap(&mut *queue, into);
        } else {
            into.append(&mut queue);
        }
        true
    }
}

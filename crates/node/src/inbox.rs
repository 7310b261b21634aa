//! The way into one of the node's loops: everything that wants something of it, in order.

use std::{
    pin::pin,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

/// A queue with one reader, a thread or a task, that sleeps while it is empty. What may be in it is bounded by whoever
/// fills it: in the replication's by admission, every command under way having at most a few inputs there.
pub(crate) struct Inbox<M> {
    queue: Mutex<Vec<M>>,
    reader: OnceLock<Reader>,
    asleep: AtomicBool,
    closed: AtomicBool,
}

/// Who reads.
enum Reader {
    Thread(Thread),
    Task(Notify),
}

impl<M> Default for Inbox<M> {
    fn default() -> Inbox<M> {
        Inbox {
            queue: Mutex::new(Vec::new()),
            reader: OnceLock::new(),
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
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
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            match self.reader.get() {
                Some(Reader::Thread(thread)) => thread.unpark(),
                Some(Reader::Task(notify)) => notify.notify_one(),
                None => {}
            }
        }
    }

    /// Says that nothing more will come.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether nothing more will come; what is in the queue may still be taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Moves everything into `into`; waits for the first message at most `wait`. Only the one reading thread calls this.
    pub(crate) fn take(&self, into: &mut Vec<M>, wait: Duration) {
        self.reader.get_or_init(|| Reader::Thread(thread::current()));
        if self.falls_asleep(into, wait) {
            thread::park_timeout(wait);
            self.awakes(into);
        }
    }

    /// As [`Inbox::take`], for a reader that is a task. Others on its runtime have their turn even if it does not wait.
    pub(crate) async fn taken(&self, into: &mut Vec<M>, wait: Duration) {
        let Reader::Task(notify) = self.reader.get_or_init(|| Reader::Task(Notify::new())) else {
            unreachable!("an inbox is read by a thread or by a task");
        };
        if self.falls_asleep(into, wait) {
            let sleeping = pin!(sleep(wait));
            tokio::select! {
                biased;
                () = notify.notified() => {}
                () = sleeping => {}
            }
            self.awakes(into);
        } else {
            tokio::task::yield_now().await;
        }
    }

    /// Takes what is there; if that is nothing, announces that the reader is going to sleep.
    fn falls_asleep(&self, into: &mut Vec<M>, wait: Duration) -> bool {
        if self.take_now(into) || wait.is_zero() || self.is_closed() {
            return false;
        }
        self.asleep.store(true, Ordering::SeqCst);
        // A message, or the end, may have come between the look and the announcement.
        let came = self.take_now(into) || self.is_closed();
        if came {
            self.asleep.store(false, Ordering::SeqCst);
        }
        !came
    }

    fn awakes(&self, into: &mut Vec<M>) {
        self.asleep.store(false, Ordering::SeqCst);
        self.take_now(into);
    }

    /// Moves everything into `into`; `false` if there is nothing.
    pub(crate) fn take_now(&self, into: &mut Vec<M>) -> bool {
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

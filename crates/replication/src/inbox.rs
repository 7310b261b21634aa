//! The way into one of the node's loops: everything that wants something of it, in order.

use std::{
    pin::pin,
    sync::OnceLock,
    thread::{self, Thread},
    time::Duration,
};

use boxoffice_env::Disk;
use tokio::{sync::Notify, time::sleep};

use crate::queue::Queue;

/// A queue with one reader, a thread or a task, that sleeps while it is empty. What may be in it is bounded by its
/// writers: in the replication's by admission, every command under way having at most a few inputs there.
pub(crate) struct Inbox<M> {
    queue: Queue<M>,
    reader: OnceLock<Reader>,
}

/// Who reads.
enum Reader {
    Thread(Thread),
    Task(Notify),
}

impl<M> Default for Inbox<M> {
    fn default() -> Inbox<M> {
        Inbox { queue: Queue::default(), reader: OnceLock::new() }
    }
}

impl<M> Inbox<M> {
    /// Adds one message and wakes the reader if it sleeps.
    pub(crate) fn push(&self, message: M) {
        if self.queue.push(message) {
            self.wake();
        }
    }

    /// Adds one message that can wait: it stands in the order of all, and is read with the next one that cannot, or after
    /// [`Inbox::nudge`].
    pub(crate) fn push_quietly(&self, message: M) {
        self.queue.push_quietly(message);
    }

    /// Wakes the reader if it sleeps although something waits.
    pub(crate) fn nudge(&self) {
        if self.queue.nudge() {
            self.wake();
        }
    }

    /// Says that nothing more will come.
    pub(crate) fn close(&self) {
        if self.queue.close() {
            self.wake();
        }
    }

    /// The reader has ended: what waits and what is still to come is dropped.
    pub(crate) fn end(&self) {
        self.queue.end();
    }

    fn wake(&self) {
        match self.reader.get() {
            Some(Reader::Thread(thread)) => thread.unpark(),
            Some(Reader::Task(notify)) => notify.notify_one(),
            // A reader that has not read yet does not sleep.
            None => {}
        }
    }

    /// Whether nothing more will come; what is in the queue may still be taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Moves everything into `into`; waits for the first message at most `wait`. Only the one reading thread calls this.
    pub(crate) fn take(&self, into: &mut Vec<M>, wait: Duration) {
        self.reader.get_or_init(|| Reader::Thread(thread::current()));
        if self.falls_asleep(into, wait) {
            thread::park_timeout(wait);
            self.queue.awakes(into);
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
            self.queue.awakes(into);
        } else {
            tokio::task::yield_now().await;
        }
    }

    /// Takes what is there; if that is nothing, announces that the reader is going to sleep.
    fn falls_asleep(&self, into: &mut Vec<M>, wait: Duration) -> bool {
        if wait.is_zero() {
            self.queue.take(into);
            return false;
        }
        self.queue.falls_asleep(into)
    }

    /// Moves everything into `into`; `false` if there is nothing.
    pub(crate) fn take_now(&self, into: &mut Vec<M>) -> bool {
        self.queue.take(into)
    }
}

/// Waits as long as a simulated disk says that it would have taken.
pub(crate) async fn wait_for_disk(disk: &dyn Disk) {
    let delay = disk.take_delay();
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

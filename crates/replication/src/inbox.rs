//! The queue of messages for one of the node's loops, in order.

use std::{
    pin::pin,
    sync::OnceLock,
    thread::{self, Thread},
    time::Duration,
};

use boxoffice_env::Disk;
use tokio::{sync::Notify, time::sleep};

use crate::queue::Queue;

/// A queue with one reader, a thread or a task, that sleeps while it is empty. Its writers bound it. In the replication,
/// admission does so, because every command under way has at most a few inputs there.
pub(crate) struct Inbox<M> {
    queue: Queue<M>,
    reader: OnceLock<Reader>,
}

/// The reader of an inbox.
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

    /// Adds one message that can wait. It keeps its place in the order, and is read with the next message that cannot wait, or
    /// after [`Inbox::nudge`].
    pub(crate) fn push_quietly(&self, message: M) {
        self.queue.push_quietly(message);
    }

    /// Wakes the reader if it sleeps although messages wait.
    pub(crate) fn nudge(&self) {
        if self.queue.nudge() {
            self.wake();
        }
    }

    /// Closes the inbox. No further message will come.
    pub(crate) fn close(&self) {
        if self.queue.close() {
            self.wake();
        }
    }

    /// The reader has ended. Waiting and further messages are dropped.
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

    /// Whether the inbox is closed. Messages in the queue may still be taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Moves everything into `into`. Waits for the first message for at most `wait`. Only the one reading thread calls this.
    pub(crate) fn take(&self, into: &mut Vec<M>, wait: Duration) {
        self.reader.get_or_init(|| Reader::Thread(thread::current()));
        if self.falls_asleep(into, wait) {
            thread::park_timeout(wait);
            self.queue.awakes(into);
        }
    }

    /// As [`Inbox::take`], for a reader that is a task. Other tasks of its runtime get a turn even if it does not wait.
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

    /// Takes all messages. If there are none, announces that the reader is going to sleep. Returns whether it is.
    fn falls_asleep(&self, into: &mut Vec<M>, wait: Duration) -> bool {
        if wait.is_zero() {
            self.queue.take(into);
            return false;
        }
        self.queue.falls_asleep(into)
    }

    /// Moves everything into `into`. `false` if there is nothing.
    pub(crate) fn take_now(&self, into: &mut Vec<M>) -> bool {
        self.queue.take(into)
    }
}

/// Waits as long as the calls to a simulated disk would have taken.
pub(crate) async fn wait_for_disk(disk: &dyn Disk) {
    let delay = disk.take_delay();
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

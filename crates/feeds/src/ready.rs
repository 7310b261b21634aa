//! Ready flags, by which the publisher wakes a connection once for everything until the connection looks.
//! `crates/node/tests/loom` explores their memory orders exhaustively.

use std::{collections::VecDeque, future::poll_fn, task::Poll};

use super::sync::{Arc, AtomicBool, AtomicWaker, Mutex, Ordering};

/// The ready feeds of a connection, each of them once.
#[derive(Default)]
pub(super) struct ReadyList {
    feeds: Mutex<Vec<u64>>,
    /// The waiting task. A connection has one.
    waiting: AtomicWaker,
}

impl ReadyList {
    /// Adds a ready feed, and wakes the connection if it is the first one.
    fn push(&self, feed: u64) {
        let mut feeds = self.feeds.lock();
        feeds.push(feed);
        let first = feeds.len() == 1;
        drop(feeds);
        // One wake-up is enough, because the connection takes all.
        if first {
            self.waiting.wake();
        }
    }

    /// Moves all feeds to the end of `due`.
    pub(super) fn take(&self, due: &mut VecDeque<u64>) {
        due.extend(self.feeds.lock().drain(..));
    }

    /// Waits until a feed is ready.
    pub(super) async fn some(&self) {
        poll_fn(|context| {
            if !self.feeds.lock().is_empty() {
                return Poll::Ready(());
            }
            self.waiting.register(context.waker());
            // A push between the check and the registration has woken no task.
            if self.feeds.lock().is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

/// The ready flag of one feed of one connection.
pub(super) struct ReadyFlag {
    feed: u64,
    is_set: AtomicBool,
    connection: Arc<ReadyList>,
}

impl ReadyFlag {
    pub(super) fn new(feed: u64, connection: Arc<ReadyList>) -> ReadyFlag {
        ReadyFlag { feed, is_set: AtomicBool::new(false), connection }
    }

    /// Adds the feed to the ready list, unless it is there already.
    pub(super) fn set(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.connection.push(self.feed);
        }
    }

    /// Keeps the feed flagged while the connection has it among its due feeds. Returns whether it is in the ready list again.
    pub(super) fn keep(&self) -> bool {
        self.is_set.swap(true, Ordering::AcqRel)
    }

    /// Clears the flag before the connection pulls. A later publication sets it again.
    ///
    /// This is a swap, because a plain store could become visible after the connection's next read. A publication in
    /// between would be neither read nor flagged.
    pub(super) fn clear(&self) {
        self.is_set.swap(false, Ordering::AcqRel);
    }
}

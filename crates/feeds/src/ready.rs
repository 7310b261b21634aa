//! "Something is due": how whoever publishes tells connections, once for all that happens until they look. Its orders of
//! memory are tried exhaustively in `tests/loom.rs`.

use std::{collections::VecDeque, future::poll_fn, task::Poll};

use super::sync::{Arc, AtomicBool, AtomicWaker, Mutex, Ordering};

/// Which feeds of a connection have something: each of them once.
#[derive(Default)]
pub(super) struct ReadyList {
    feeds: Mutex<Vec<u64>>,
    /// The task that waits: a connection has one.
    waiting: AtomicWaker,
}

impl ReadyList {
    fn push(&self, feed: u64) {
        let mut feeds = self.feeds.lock();
        feeds.push(feed);
        let first = feeds.len() == 1;
        drop(feeds);
        // Who has been told of one takes all.
        if first {
            self.waiting.wake();
        }
    }

    /// Moves all of them behind what is in `due`.
    pub(super) fn take(&self, due: &mut VecDeque<u64>) {
        due.extend(self.feeds.lock().drain(..));
    }

    /// Waits until there is one.
    pub(super) async fn some(&self) {
        poll_fn(|context| {
            if !self.feeds.lock().is_empty() {
                return Poll::Ready(());
            }
            self.waiting.register(context.waker());
            // Who came between the two looks has woken nobody.
            if self.feeds.lock().is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

/// "Something is due" of one feed of one connection.
pub(super) struct ReadyFlag {
    feed: u64,
    is_set: AtomicBool,
    connection: Arc<ReadyList>,
}

impl ReadyFlag {
    pub(super) fn new(feed: u64, connection: Arc<ReadyList>) -> ReadyFlag {
        ReadyFlag { feed, is_set: AtomicBool::new(false), connection }
    }

    /// Tells the connection, unless it has been told and has not looked yet.
    pub(super) fn set(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.connection.push(self.feed);
        }
    }

    /// The connection looks now: whatever is published after this is told again.
    ///
    /// A swap, because a plain store may be seen only after what the connection reads next: what is published in between
    /// would neither be read nor told of. Who swaps either sees the publication or is told again.
    pub(super) fn clear(&self) {
        self.is_set.swap(false, Ordering::AcqRel);
    }
}

//! Where the node puts the answers for one connection.

use boxoffice_node::door::{self, ReplySink};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Answers that wait for their connection. At most one for each request that was submitted, and those are bounded.
#[derive(Default)]
pub(crate) struct Answers {
    waiting: Mutex<Vec<(u64, door::Result)>>,
    wake: Notify,
}

impl Answers {
    /// Waits for an answer.
    pub(crate) async fn there(&self) {
        self.wake.notified().await;
    }

    /// Puts all answers into `taken`, which is empty.
    pub(crate) fn take(&self, taken: &mut Vec<(u64, door::Result)>) {
        std::mem::swap(&mut *self.waiting.lock(), taken);
    }
}

impl ReplySink for Answers {
    fn answer(&self, tag: u64, result: door::Result) {
        let mut waiting = self.waiting.lock();
        waiting.push((tag, result));
        let first = waiting.len() == 1;
        drop(waiting);
        // Whoever woke for the first one takes them all.
        if first {
            self.wake.notify_one();
        }
    }
}

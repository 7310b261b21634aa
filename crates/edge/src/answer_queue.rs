//! The node's answers for one connection.

use std::collections::VecDeque;

use boxoffice_node::api::{self, ReplySink};
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

/// Answers that wait for their connection. At most one for each submitted command, so their number is bounded.
#[derive(Default)]
pub(crate) struct AnswerQueue {
    waiting: Mutex<VecDeque<(u64, api::Result)>>,
    wake: Notify,
}

impl AnswerQueue {
    /// Waits until there is an answer.
    pub(crate) async fn ready(&self) {
        self.wake.notified().await;
    }

    /// Moves all answers into `taken`, which must be empty.
    pub(crate) fn take(&self, taken: &mut VecDeque<(u64, api::Result)>) {
        std::mem::swap(&mut *self.waiting.lock(), taken);
    }
}

impl ReplySink for AnswerQueue {
    fn answer(&self, tag: u64, result: api::Result) {
        let mut waiting = self.waiting.lock();
        waiting.push_back((tag, result));
        let first = waiting.len() == 1;
        drop(waiting);
        // The connection takes all of them when it wakes for the first.
        if first {
            self.wake.notify_one();
        }
    }
}

//! The node's answers for one connection.

use std::{collections::VecDeque, sync::Arc};

use boxoffice_core::{
    answer::{Answer, Answered},
    layout::Layout,
};
use boxoffice_node::api::{self, ReplySink};
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

use crate::unsent::UnsentShare;

/// Bytes of a seat in a layout that no other answer shares, or more.
const SEAT_BYTES: usize = 64;

/// Bytes of an entry of a list, or more.
const ENTRY_BYTES: usize = 256;

/// Answers that wait for their connection. The node's threads put them in, and the task of the connection takes them out. At
/// most one for each submitted command, so their number is bounded. The memory of large ones is counted until they are passed
/// on.
pub(crate) struct AnswerQueue {
    waiting: Mutex<VecDeque<Waiting>>,
    wake: Notify,
    unsent: Arc<UnsentShare>,
}

/// An answer that waits.
pub(crate) struct Waiting {
    pub(crate) tag: u64,
    pub(crate) result: api::Result,
    _memory: Memory,
}

/// Counted memory of an answer.
struct Memory {
    bytes: usize,
    unsent: Option<Arc<UnsentShare>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(unsent) = &self.unsent {
            unsent.give_back(self.bytes);
        }
    }
}

impl AnswerQueue {
    pub(crate) fn new(unsent: Arc<UnsentShare>) -> AnswerQueue {
        AnswerQueue { waiting: Mutex::default(), wake: Notify::new(), unsent }
    }

    /// Waits until there is an answer.
    pub(crate) async fn ready(&self) {
        self.wake.notified().await;
    }

    /// Moves all answers into `taken`, which must be empty.
    pub(crate) fn take(&self, taken: &mut VecDeque<Waiting>) {
        std::mem::swap(&mut *self.waiting.lock(), taken);
    }
}

impl ReplySink for AnswerQueue {
    fn answer(&self, tag: u64, result: api::Result) {
        let bytes = bytes_of(&result);
        self.unsent.add(bytes);
        let unsent = (bytes > 0).then(|| Arc::clone(&self.unsent));
        let mut waiting = self.waiting.lock();
        waiting.push_back(Waiting { tag, result, _memory: Memory { bytes, unsent } });
        let first = waiting.len() == 1;
        drop(waiting);
        // The connection takes all of them when it wakes for the first.
        if first {
            self.wake.notify_one();
        }
    }
}

/// About how much memory an answer takes that nothing else shares. 0 if it is small.
fn bytes_of(result: &api::Result) -> usize {
    let Ok(Ok(Answered { answer, .. })) = result else { return 0 };
    let of_layout = |layout: &Arc<Layout>| match Arc::strong_count(layout) {
        // Decoded for this answer, because another node has sent it.
        1 => layout.seats() as usize * SEAT_BYTES,
        _ => 0,
    };
    let bytes = match answer {
        Answer::Session(session) => of_layout(&session.layout),
        Answer::Hall(hall) => of_layout(&hall.layout),
        Answer::Map(map) => map.seats.len(),
        Answer::Sessions(sessions) => sessions.len() * ENTRY_BYTES,
        Answer::Titles(titles) => titles.len() * ENTRY_BYTES,
        Answer::Bookings(bookings) => bookings.len() * ENTRY_BYTES,
        Answer::Purchases(purchases) => purchases.purchases.len() * ENTRY_BYTES,
        _ => 0,
    };
    // Short answers of many requests are bounded by the number of these.
    if bytes < 4 * ENTRY_BYTES { 0 } else { bytes }
}

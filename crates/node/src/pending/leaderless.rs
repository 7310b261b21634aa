//! Replies, and asks without a reply, that could not be sent or handed in, because their shard has no known leader, the
//! leader cannot be reached, or its queue is full. They are sent when the shard has a leader, and tried again every few
//! milliseconds meanwhile.

use std::collections::BTreeMap;

use boxoffice_shard::{NodeId, ShardId};
use bytes::Bytes;
use tracing_mutex::parkinglot::Mutex;

/// The most messages queued for one shard. Further ones are dropped and asked again.
const LEADERLESS_MAX: usize = 1_024;

/// A message that waits for a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) message: Bytes,
    /// The node that sent it here, if it is not of an entity of this node. It goes back there only when that node has become
    /// the leader, so that it does not circle between two nodes that take each other for the leader.
    pub(crate) came_from: Option<NodeId>,
}

/// Messages that wait for a leader, by shard and in order.
#[derive(Default)]
pub(crate) struct LeaderlessQueue(Mutex<BTreeMap<ShardId, ShardQueue>>);

/// Messages that wait for the leader of one shard.
#[derive(Default)]
struct ShardQueue {
    waiting: Vec<Waiting>,
    /// When to try again, in milliseconds of the monotonic clock.
    due_ms: u64,
}

impl LeaderlessQueue {
    /// Keeps messages until the shard has a leader, or until that time.
    pub(crate) fn queue_leaderless(&self, shard: ShardId, waiting: impl IntoIterator<Item = Waiting>, due_ms: u64) {
        let mut waiting = waiting.into_iter().peekable();
        if waiting.peek().is_none() {
            return;
        }
        let mut queued = self.0.lock();
        let queue = queued.entry(shard).or_default();
        let room = LEADERLESS_MAX.saturating_sub(queue.waiting.len());
        queue.due_ms = if queue.waiting.is_empty() { due_ms } else { due_ms.min(queue.due_ms) };
        queue.waiting.extend(waiting.take(room));
    }

    /// Takes all messages for a shard.
    pub(crate) fn take(&self, shard: ShardId) -> Vec<Waiting> {
        self.0.lock().remove(&shard).unwrap_or_default().waiting
    }

    /// The shards that are to be tried again now.
    pub(crate) fn due(&self, now_ms: u64) -> Vec<ShardId> {
        let queued = self.0.lock();
        queued.iter().filter(|(_, queue)| queue.due_ms <= now_ms).map(|(shard, _)| *shard).collect()
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(message: Bytes) -> [Waiting; 1] {
        [Waiting { message, came_from: None }]
    }

    #[test]
    fn queued_messages_are_bounded_and_come_out_once_in_order() {
        let queued = LeaderlessQueue::default();
        for number in 0..=LEADERLESS_MAX {
            queued.queue_leaderless(3, waiting(Bytes::copy_from_slice(&number.to_le_bytes())), 40);
        }
        queued.queue_leaderless(4, waiting(Bytes::new()), 50);
        queued.queue_leaderless(5, [], 50);
        let due = [39, 40, 50].map(|now_ms| queued.due(now_ms));
        assert_eq!(due, [vec![], vec![3], vec![3, 4]]);
        let taken = queued.take(3);
        assert_eq!(taken.len(), LEADERLESS_MAX);
        assert!(taken.is_sorted_by_key(|it| usize::from_le_bytes(it.message[..].try_into().unwrap())));
        assert_eq!((queued.take(3).len(), queued.take(4).len()), (0, 1));
        assert!(queued.is_empty());
    }
}

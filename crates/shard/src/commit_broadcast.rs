//! The broadcast of the commit index to a leader's followers. Raft would send a message of its own, which is answered, for every
//! entry. The next entry carries the commit index as well, and follows soon under load.

/// The commit index that followers know, and when the next broadcast is due.
#[derive(Default)]
pub(crate) struct CommitBroadcast {
    sent: u64,
    /// When the broadcast is due, in monotonic milliseconds. `None` if the followers know everything.
    pub(crate) due_ms: Option<u64>,
}

impl CommitBroadcast {
    /// Messages with this commit index were sent.
    pub(crate) fn sent(&mut self, committed: u64) {
        self.sent = committed;
        self.due_ms = None;
    }

    /// Entries up to this index are committed. The broadcast is due at `due_ms` unless one is due already.
    pub(crate) fn committed(&mut self, committed: u64, due_ms: u64) {
        if committed > self.sent {
            self.due_ms.get_or_insert(due_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_index_is_broadcast_once_and_in_time() {
        let mut news = CommitBroadcast::default();
        news.committed(3, 20);
        news.committed(4, 25);
        assert_eq!(news.due_ms, Some(20), "the second commit does not delay the first");
        news.sent(4);
        news.committed(4, 30);
        assert_eq!(news.due_ms, None);
        news.committed(5, 40);
        assert_eq!(news.due_ms, Some(40));
    }
}

//! What a leader has told its followers of what is committed. Raft would tell them of every entry at once, in a message of
//! its own that is answered; the next entry tells it as well, and comes soon where there is much to do.

/// Up to where followers have been told, and when they are told more at the latest.
#[derive(Default)]
pub(crate) struct News {
    told: u64,
    /// In monotonic milliseconds; `None` if they know everything.
    pub(crate) due_ms: Option<u64>,
}

impl News {
    /// Messages with this commit index are on their way.
    pub(crate) fn told(&mut self, committed: u64) {
        self.told = committed;
        self.due_ms = None;
    }

    /// This is committed: they are told by `due_ms`.
    pub(crate) fn committed(&mut self, committed: u64, due_ms: u64) {
        if committed > self.told {
            self.due_ms.get_or_insert(due_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_not_told_again_and_what_was_not_is_told_in_time() {
        let mut news = News::default();
        news.committed(3, 20);
        news.committed(4, 25);
        assert_eq!(news.due_ms, Some(20), "the first one waits no longer because of the second");
        news.told(4);
        news.committed(4, 30);
        assert_eq!(news.due_ms, None);
        news.committed(5, 40);
        assert_eq!(news.due_ms, Some(40));
    }
}

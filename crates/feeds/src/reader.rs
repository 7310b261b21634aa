//! A watcher as it is given frames, and what is left for it.

use boxoffice_wire::Encoding;
use bytes::Bytes;

use super::FeedSource;

/// What is left for a watcher after it was given frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// Nothing.
    All,
    /// More than it wanted.
    More,
    /// Something that is kept on another node, which is asked for; the watcher is told when it is there.
    Awaited {
        /// Whether it was asked for just now.
        newly: bool,
    },
}

/// A watcher that wants frames, of about this many bytes at most.
pub(super) struct Reader<'a> {
    pub(super) feed: u64,
    pub(super) encoding: Encoding,
    pub(super) source: &'a dyn FeedSource,
    /// The monotonic millisecond it is.
    pub(super) now_ms: &'a dyn Fn() -> u64,
    /// The waiting time of the hub.
    pub(super) waited_ms: u64,
    pub(super) bytes_left: usize,
    pub(super) frame: &'a mut dyn FnMut(Bytes),
}

impl Reader<'_> {
    /// Whether it wants no more for now.
    pub(super) fn is_full(&self) -> bool {
        self.bytes_left == 0
    }

    pub(super) fn give(&mut self, frame: Bytes) {
        self.bytes_left = self.bytes_left.saturating_sub(frame.len());
        (self.frame)(frame);
    }
}

//! A watcher during a pull.

use boxoffice_wire::Encoding;
use bytes::Bytes;

use super::FeedSource;

/// The result of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// The watcher has everything.
    All,
    /// The byte limit is reached, and there is more.
    More,
    /// The next frame needs a page from another node. The watcher is notified when it comes.
    Awaited {
        /// Whether the page was requested just now.
        newly: bool,
    },
}

/// A watcher that pulls about `bytes_left` of frames.
///
/// A watcher that is behind pulls one frame at a time, of at most `frame_bytes_max`.
pub(super) struct Reader<'a> {
    pub(super) feed: u64,
    pub(super) encoding: Encoding,
    pub(super) source: &'a dyn FeedSource,
    /// The clock in monotonic milliseconds.
    pub(super) now_ms: &'a dyn Fn() -> u64,
    /// The waiting time of the hub.
    pub(super) waited_ms: u64,
    pub(super) bytes_left: usize,
    /// The longest frame for a watcher that is behind, in bytes. `None` for one that keeps up.
    pub(super) frame_bytes_max: Option<usize>,
    pub(super) frame: &'a mut dyn FnMut(Bytes),
}

impl Reader<'_> {
    /// Whether the byte limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.bytes_left == 0
    }

    pub(super) fn give(&mut self, frame: Bytes) {
        self.bytes_left = self.bytes_left.saturating_sub(frame.len());
        (self.frame)(frame);
    }
}

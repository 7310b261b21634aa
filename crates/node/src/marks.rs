//! Raises the mark, so that there are cuts through all shards to which a cluster can be restored.

use boxoffice_core::{planted, version::MARKED};
use boxoffice_env::Lane;
use boxoffice_shard::DIRECTORY;

use crate::{message::Message, shared::Shared};

/// Raises the mark and tells the other nodes. Their shards and those here have it within a tick of their leaders. Returns the mark,
/// `None` while the cluster's version has no marks.
pub(crate) fn raise(shared: &Shared) -> Option<u64> {
    if !shared.replication.version.get().has(MARKED) {
        return None;
    }
    let mark = shared.replication.mark.next();
    let message = Message::Mark(mark).encode();
    for link in shared.world.net.links() {
        // Any other message that reaches the node tells it as well.
        if !planted::is("a mark that no message carries") {
            let _ = shared.world.net.send(link.node, Lane::Calls, message.clone());
        }
    }
    Some(mark)
}

/// The marks that are raised at intervals, by the node that leads the directory.
#[derive(Default)]
pub(crate) struct Interval {
    /// The highest mark, and since when it is.
    newest: (u64, u64),
}

impl Interval {
    /// Raises the mark if the last one is old enough. Without archives nothing could be restored to it later.
    pub(crate) fn keep(&mut self, shared: &Shared, now_ms: u64) {
        let (mark, interval_ms) = (shared.replication.mark.get(), shared.config.mark_ms);
        if mark != self.newest.0 {
            self.newest = (mark, now_ms);
        }
        let archives = shared.config.replication.history_archive_bytes > 0;
        let is_due = interval_ms > 0 && archives && now_ms.saturating_sub(self.newest.1) >= interval_ms;
        if is_due && shared.shards[usize::from(DIRECTORY)].leads() {
            raise(shared);
        }
    }
}

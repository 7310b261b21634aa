//! What is read of a node for backups, so that it is not read twice and not too fast.

use boxoffice_replication::backup::Part;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tracing_mutex::parkinglot::Mutex;

/// Pieces that are read at the same time. Each holds a whole snapshot or segment in memory.
const READS_MAX: usize = 2;

/// After so long without a question about it a part is freed, because the program that backs up may have ended, in milliseconds.
const KEPT_MS: u64 = 30_000;

/// The part that was read last, so that its next piece does not read it again.
struct Last {
    part: Part,
    /// What tells it from another part under the same name.
    id: u64,
    bytes: Bytes,
    used_ms: u64,
}

/// What is read for backups.
pub(crate) struct BackupReads {
    pub(crate) permits: Semaphore,
    last: Mutex<Option<Last>>,
    /// When the next piece may go, in monotonic milliseconds.
    pub(crate) next_ms: Mutex<u64>,
}

impl Default for BackupReads {
    fn default() -> BackupReads {
        BackupReads { permits: Semaphore::new(READS_MAX), last: Mutex::default(), next_ms: Mutex::default() }
    }
}

impl BackupReads {
    /// The part, if it is the one that was read last.
    pub(crate) fn known(&self, part: Part, id: u64) -> Option<Bytes> {
        let last = self.last.lock();
        last.as_ref().filter(|last| (last.part, last.id) == (part, id)).map(|last| last.bytes.clone())
    }

    /// The part was read, and more of it will be asked for.
    pub(crate) fn keep(&self, part: Part, id: u64, bytes: Bytes, now_ms: u64) {
        *self.last.lock() = Some(Last { part, id, bytes, used_ms: now_ms });
    }

    /// The last piece of the part that was read last has gone.
    pub(crate) fn done(&self) {
        *self.last.lock() = None;
    }

    /// Frees a part whose next piece does not come.
    pub(crate) fn free_unused(&self, now_ms: u64) {
        self.last.lock().take_if(|last| now_ms.saturating_sub(last.used_ms) >= KEPT_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_kept_for_its_next_piece_and_freed_when_none_comes() {
        let reads = BackupReads::default();
        let (part, bytes) = (Part::Segment(3), Bytes::from_static(b"records"));
        assert_eq!(reads.known(part, 0), None);
        reads.keep(part, 0, bytes.clone(), 1_000);
        assert_eq!((reads.known(part, 1), reads.known(Part::Segment(4), 0)), (None, None));
        reads.free_unused(1_000 + KEPT_MS - 1);
        assert_eq!(reads.known(part, 0), Some(bytes.clone()));
        reads.free_unused(1_000 + KEPT_MS);
        assert_eq!(reads.known(part, 0), None);
        reads.keep(part, 0, bytes, 1_000);
        reads.done();
        assert_eq!(reads.known(part, 0), None);
    }
}

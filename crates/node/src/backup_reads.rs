//! What is read of a node for backups, so that it is not read twice and not too fast.

use boxoffice_replication::backup::Part;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tracing_mutex::parkinglot::Mutex;

/// Pieces that are read at the same time. Each holds a whole snapshot or segment in memory.
const READS_MAX: usize = 2;

/// What is read for backups.
pub(crate) struct BackupReads {
    pub(crate) permits: Semaphore,
    /// The part that was read last, so that its next piece does not read it again.
    pub(crate) last: Mutex<Option<(Part, u64, Bytes)>>,
    /// When the next piece may go, in monotonic milliseconds.
    pub(crate) next_ms: Mutex<u64>,
}

impl Default for BackupReads {
    fn default() -> BackupReads {
        BackupReads { permits: Semaphore::new(READS_MAX), last: Mutex::default(), next_ms: Mutex::default() }
    }
}

//! The configuration of a log.

use boxoffice_core::version::{NEWEST, WriteVersion};

use super::LogError;

/// The smallest segment in bytes.
pub const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// The largest segment in bytes. A start reads segments as a whole.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Where segments are preallocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preallocation {
    /// In a thread of the log's own.
    Background,
    /// In [`Log::maintain`](super::Log::maintain), and when a segment is needed. Then all changes have one order, as a
    /// simulation needs it.
    Inline,
}

/// The configuration of a log.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// The log's owner, a random number from the creation of the data directory.
    pub owner: u128,
    /// The size of new segments in bytes, a multiple of 4096, 256 KiB to 1 GiB. Default 64 MiB.
    pub segment_bytes: u64,
    /// Bytes that only vital records may use when no segment can be made, at most a quarter of a segment. Default 4 MiB
    /// or that quarter.
    pub reserve_bytes: u64,
    /// Bytes of the file system that new segments leave free for snapshots, because only snapshots release old
    /// segments. Default half a segment.
    pub keep_free_bytes: u64,
    /// Milliseconds between attempts to make a segment on a full disk. Default 1000.
    pub retry_ms: u64,
    /// Where segments are made. Default in a thread.
    pub preallocation: Preallocation,
    /// The version under which segments are made. Default the newest.
    pub version: WriteVersion,
    /// The number of writers. Each begins every segment with a checkpoint of its own shards. Default 1.
    pub writers: usize,
}

impl LogConfig {
    /// The defaults for segments of `segment_bytes`.
    pub fn new(owner: u128, segment_bytes: u64) -> LogConfig {
        LogConfig {
            owner,
            segment_bytes,
            reserve_bytes: (4 << 20).min(segment_bytes / 4),
            keep_free_bytes: segment_bytes / 2,
            retry_ms: 1_000,
            preallocation: Preallocation::Background,
            version: WriteVersion::new(NEWEST),
            writers: 1,
        }
    }

    pub(super) fn check(&self) -> Result<(), LogError> {
        let bad = |what: String| Err(LogError::BadConfig { what });
        let bytes = self.segment_bytes;
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(4096) {
            return bad(format!(
                "segments of {bytes} bytes: a multiple of 4096 from {SEGMENT_BYTES_MIN} to \
                 {SEGMENT_BYTES_MAX} is needed"
            ));
        }
        if self.reserve_bytes > bytes / 4 {
            let reserve = self.reserve_bytes;
            return bad(format!("a reserve of {reserve} bytes: at most a quarter of {bytes} is"));
        }
        if self.retry_ms == 0 {
            return bad("0 ms between attempts to make a segment: at least 1 is".to_owned());
        }
        if self.writers == 0 {
            return bad("0 writers: at least 1 is needed".to_owned());
        }
        Ok(())
    }
}

//! Counters of the replication since its start.

use std::sync::atomic::AtomicU64;

/// The counters of the replication.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Passes that wrote something.
    pub passes: AtomicU64,
    /// Bytes written to the log.
    pub log_bytes: AtomicU64,
    /// Syncs of the log.
    pub syncs: AtomicU64,
    /// Time spent in them, in microseconds.
    pub sync_us: AtomicU64,
    /// Entries applied.
    pub entries: AtomicU64,
    /// Turns (of one entity each) in them.
    pub turns: AtomicU64,
    /// Snapshots written.
    pub snapshots: AtomicU64,
    /// Ended entities written to the store.
    pub left: AtomicU64,
    /// Entities taken back from the store because something happened to them.
    pub put_back: AtomicU64,
    /// Syncs of the store.
    pub history_syncs: AtomicU64,
    /// Segments of the log that were archived.
    pub archived: AtomicU64,
    /// Frames of other nodes that were dropped, because too many waited or they could not be decoded.
    pub peer_frames_dropped: AtomicU64,
    /// Pieces of snapshots sent to other nodes.
    pub stream_pieces: AtomicU64,
    /// Checksums of this node's replicas compared with another replica's.
    pub checksums_compared: AtomicU64,
    /// Those of them that were different.
    pub checksums_different: AtomicU64,
    /// How often everything on the disk was read.
    pub scrubs: AtomicU64,
    /// Damaged files that were found then.
    pub scrub_findings: AtomicU64,
}

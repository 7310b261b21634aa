//! Traffic counters.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

/// Frames exchanged with one node since the start.
#[derive(Default)]
pub(super) struct TrafficCounts {
    pub(super) frames_sent: AtomicU64,
    pub(super) bytes_sent: AtomicU64,
    pub(super) frames_received: AtomicU64,
    pub(super) bytes_received: AtomicU64,
    pub(super) dropped: AtomicU64,
}

impl TrafficCounts {
    pub(super) fn sent(&self, body: &Bytes) {
        self.frames_sent.fetch_add(1, Relaxed);
        self.bytes_sent.fetch_add(body.len() as u64, Relaxed);
    }
}

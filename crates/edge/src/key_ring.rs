//! The state of the cluster's keys, as this node last received it. A request reads it without asking the node.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use boxoffice_node::access::KeyRing;

/// The newest state of the keys that is known.
#[derive(Debug, Default)]
pub(crate) struct KeyRingState {
    version: AtomicU64,
    has_admin: AtomicBool,
    silent_ms: AtomicU64,
}

impl KeyRingState {
    pub(crate) fn update(&self, ring: KeyRing) {
        self.has_admin.store(ring.has_admin, Ordering::Relaxed);
        self.silent_ms.store(ring.silent_ms, Ordering::Relaxed);
        self.version.store(ring.version, Ordering::Release);
    }

    /// Whether some key has the role admin.
    pub(crate) fn has_admin(&self) -> bool {
        self.has_admin.load(Ordering::Relaxed)
    }

    /// How long ago this node last heard the directory's leader.
    pub(crate) fn silent_for(&self) -> Duration {
        Duration::from_millis(self.silent_ms.load(Ordering::Relaxed))
    }

    /// Counts the changes of the keys.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

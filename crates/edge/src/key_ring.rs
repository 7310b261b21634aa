//! The state of the cluster's keys, as this node last received it. A request reads it without asking the node.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use boxoffice_core::time::Timestamp;
use boxoffice_node::access::KeyRing;
use tokio::{sync::watch, time::Instant};
use tracing_mutex::parkinglot::Mutex;

/// A wall clock that differs by more from the passed time was set, in milliseconds.
const CLOCK_SET_MS: u64 = 100;

/// The newest state of the keys that is known, and what connections with credentials wait for.
#[derive(Debug, Default)]
pub(crate) struct KeyRingState {
    version: AtomicU64,
    copy_version: AtomicU64,
    has_admin: AtomicBool,
    silent_ms: AtomicU64,
    /// Sent when a key was made or revoked. Only connections that a key or the open operators' port let in wait for it.
    changes: watch::Sender<()>,
    /// Sent when the wall clock was set. Only connections with a short-lived token wait for it.
    clock_sets: watch::Sender<()>,
    /// The wall clock at a moment.
    clock: Mutex<Option<(Instant, Timestamp)>>,
}

impl KeyRingState {
    pub(crate) fn update(&self, ring: KeyRing) {
        let had_admin = self.has_admin.swap(ring.has_admin, Ordering::Relaxed);
        self.silent_ms.store(ring.silent_ms, Ordering::Relaxed);
        self.copy_version.store(ring.copy_version, Ordering::Relaxed);
        let before = self.version.swap(ring.version, Ordering::AcqRel);
        if before != ring.version || had_admin != ring.has_admin {
            self.changes.send_replace(());
        }
    }

    /// Compares the wall clock with the time that has passed since the last call.
    pub(crate) fn check_clock(&self, now: Instant, wall: Timestamp) {
        let before = self.clock.lock().replace((now, wall));
        let Some((then, wall_then)) = before else { return };
        let passed_ms = u64::try_from(now.saturating_duration_since(then).as_millis()).unwrap_or(u64::MAX);
        if wall.0.abs_diff(wall_then.0.saturating_add(passed_ms)) > CLOCK_SET_MS {
            self.clock_sets.send_replace(());
        }
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

    /// The version of this node's copy of the directory. Read after [`KeyRingState::version`] it is not older.
    pub(crate) fn copy_version(&self) -> u64 {
        self.copy_version.load(Ordering::Relaxed)
    }

    /// Changes when a key was made or revoked.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Changes when the wall clock was set.
    pub(crate) fn clock_sets(&self) -> watch::Receiver<()> {
        self.clock_sets.subscribe()
    }

    /// How many connections wait for a change of the keys or for their token's end.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.changes.receiver_count() + self.clock_sets.receiver_count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_the_keys_or_of_the_clock_wakes() {
        let state = KeyRingState::default();
        let (mut changes, mut sets) = (state.changes(), state.clock_sets());
        assert_eq!(state.waiting(), 2);
        let ring = KeyRing { version: 0, copy_version: 9, has_admin: false, silent_ms: 100 };
        state.update(ring);
        assert_eq!(changes.has_changed().ok(), Some(false), "titles and venues are no keys");
        for changed in [KeyRing { version: 1, ..ring }, KeyRing { version: 1, has_admin: true, ..ring }] {
            state.update(changed);
            assert_eq!(changes.has_changed().ok(), Some(true));
            changes.mark_unchanged();
        }
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for (at, wall, is_set) in [(0, 5_000, false), (1, 6_000, false), (2, 17_000, true), (3, 18_000, false)] {
            state.check_clock(now + at * second, Timestamp(wall));
            assert_eq!(sets.has_changed().ok(), Some(is_set), "{at} s");
            sets.mark_unchanged();
        }
    }
}

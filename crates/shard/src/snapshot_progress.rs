//! Snapshots for followers that lack more entries than the leader still has. A snapshot is requested, kept, sent, and
//! sent again if no answer arrives.

use crate::name::ReplicaId;

/// Ticks without an answer until a snapshot is requested or sent again.
const TIMEOUT_TICKS: u32 = 100;

/// The snapshots that the leader of one shard must send to its followers.
#[derive(Default)]
pub(crate) struct SnapshotProgress {
    // Ticks until the requested snapshot is requested again.
    requested: Option<u32>,
    // Ticks until the snapshot that waits for raft is freed.
    kept: Option<u32>,
    // The snapshots being sent, with the ticks until they count as lost.
    sent: Vec<(ReplicaId, u32)>,
}

impl SnapshotProgress {
    /// Raft needs a snapshot. Returns whether to request it. One pending request serves all followers.
    pub(crate) fn request(&mut self) -> bool {
        self.requested.replace(self.requested.unwrap_or(TIMEOUT_TICKS)).is_none()
    }

    /// The requested snapshot has arrived.
    pub(crate) fn keep(&mut self) {
        self.requested = None;
        self.kept = Some(TIMEOUT_TICKS);
    }

    /// A snapshot is sent to a follower.
    pub(crate) fn send(&mut self, to: ReplicaId) {
        self.sent.retain(|(replica, _)| *replica != to);
        self.sent.push((to, TIMEOUT_TICKS));
    }

    /// A snapshot to a follower is still being sent, so its timeout starts again.
    pub(crate) fn moves(&mut self, to: ReplicaId) {
        if let Some((_, left)) = self.sent.iter_mut().find(|(replica, _)| *replica == to) {
            *left = TIMEOUT_TICKS;
            // The next follower may get the same snapshot.
            self.kept = self.kept.map(|_| TIMEOUT_TICKS);
        }
    }

    /// Whether no timeout is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.requested.is_none() && self.kept.is_none() && self.sent.is_empty()
    }

    /// Counts a tick. Returns whether to free the kept snapshot, and the followers whose snapshots count as lost.
    pub(crate) fn tick(&mut self) -> (bool, Vec<ReplicaId>) {
        let over = |left: &mut Option<u32>| {
            *left = left.map(|ticks| ticks - 1);
            left.take_if(|ticks| *ticks == 0).is_some()
        };
        over(&mut self.requested);
        let free = over(&mut self.kept);
        self.sent.iter_mut().for_each(|(_, ticks)| *ticks -= 1);
        let lost = self.sent.extract_if(.., |(_, ticks)| *ticks == 0);
        (free, lost.map(|(replica, _)| replica).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_requested_once_until_the_timeout() {
        let mut lagging = SnapshotProgress::default();
        assert!(lagging.request());
        for _ in 0..TIMEOUT_TICKS {
            assert!(!lagging.request());
            lagging.tick();
        }
        assert!(lagging.is_idle() && lagging.request());
    }

    #[test]
    fn a_snapshot_that_is_still_on_its_way_is_not_lost() {
        let mut lagging = SnapshotProgress::default();
        let three = ReplicaId::new(3, 1);
        lagging.keep();
        lagging.send(three);
        for _ in 0..5 * TIMEOUT_TICKS {
            assert_eq!(lagging.tick(), (false, vec![]));
            lagging.moves(three);
        }
        lagging.moves(ReplicaId::new(4, 1));
        let ticks: Vec<_> = (0..TIMEOUT_TICKS).map(|_| lagging.tick()).collect();
        assert_eq!(ticks.last(), Some(&(true, vec![three])));
    }

    #[test]
    fn a_kept_snapshot_is_freed_and_a_sent_one_counts_as_lost_after_the_timeout() {
        let mut lagging = SnapshotProgress::default();
        lagging.keep();
        lagging.tick();
        let three = ReplicaId::new(3, 1);
        lagging.send(three);
        let ticks: Vec<_> = (0..TIMEOUT_TICKS).map(|_| lagging.tick()).collect();
        let (last, before) = ticks.split_last().unwrap();
        assert_eq!(before.last(), Some(&(true, vec![])));
        assert_eq!(last, &(false, vec![three]));
        assert!(lagging.is_idle());
    }
}

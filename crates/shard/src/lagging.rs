//! Followers too far behind for the entries a leader still has: a snapshot is asked for, kept, sent, and
//! sent again if nothing is heard.

use crate::name::ReplicaId;

/// After this long without an answer, a snapshot is asked for or sent again. Ticks.
const PATIENCE_TICKS: u32 = 100;

/// The snapshots that one shard's leader owes its followers.
#[derive(Default)]
pub(crate) struct Lagging {
    // One is asked for; ticks until it is asked for again.
    asked: Option<u32>,
    // One waits for raft to send it; ticks until it is freed.
    kept: Option<u32>,
    // On their way, with ticks until they count as lost.
    sent: Vec<(ReplicaId, u32)>,
}

impl Lagging {
    /// Whether to ask for a snapshot now that raft wants one. It is asked for once, whoever needs it.
    pub(crate) fn ask(&mut self) -> bool {
        self.asked.replace(self.asked.unwrap_or(PATIENCE_TICKS)).is_none()
    }

    /// The snapshot asked for is here.
    pub(crate) fn keep(&mut self) {
        self.asked = None;
        self.kept = Some(PATIENCE_TICKS);
    }

    /// A snapshot leaves for a follower.
    pub(crate) fn send(&mut self, to: ReplicaId) {
        self.sent.retain(|(replica, _)| *replica != to);
        self.sent.push((to, PATIENCE_TICKS));
    }

    /// A snapshot that left for a follower is still on its way: patience begins anew.
    pub(crate) fn moves(&mut self, to: ReplicaId) {
        if let Some((_, left)) = self.sent.iter_mut().find(|(replica, _)| *replica == to) {
            *left = PATIENCE_TICKS;
            // Whoever is next may have the same one.
            self.kept = self.kept.map(|_| PATIENCE_TICKS);
        }
    }

    /// Whether anything waits for time to pass.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_none() && self.kept.is_none() && self.sent.is_empty()
    }

    /// A tick has passed. Says whether the kept snapshot is to be freed, and which sent ones count as lost.
    pub(crate) fn tick(&mut self) -> (bool, Vec<ReplicaId>) {
        let over = |left: &mut Option<u32>| {
            *left = left.map(|ticks| ticks - 1);
            left.take_if(|ticks| *ticks == 0).is_some()
        };
        over(&mut self.asked);
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
    fn a_snapshot_is_asked_for_once_until_patience_ends() {
        let mut lagging = Lagging::default();
        assert!(lagging.ask());
        for _ in 0..PATIENCE_TICKS {
            assert!(!lagging.ask());
            lagging.tick();
        }
        assert!(lagging.is_idle() && lagging.ask());
    }

    #[test]
    fn a_snapshot_that_is_still_on_its_way_is_not_lost() {
        let mut lagging = Lagging::default();
        let three = ReplicaId::new(3, 1);
        lagging.keep();
        lagging.send(three);
        for _ in 0..5 * PATIENCE_TICKS {
            assert_eq!(lagging.tick(), (false, vec![]));
            lagging.moves(three);
        }
        lagging.moves(ReplicaId::new(4, 1));
        let told: Vec<_> = (0..PATIENCE_TICKS).map(|_| lagging.tick()).collect();
        assert_eq!(told.last(), Some(&(true, vec![three])));
    }

    #[test]
    fn a_kept_snapshot_is_freed_and_a_sent_one_counts_as_lost_in_the_end() {
        let mut lagging = Lagging::default();
        lagging.keep();
        lagging.tick();
        let three = ReplicaId::new(3, 1);
        lagging.send(three);
        let told: Vec<_> = (0..PATIENCE_TICKS).map(|_| lagging.tick()).collect();
        let (last, before) = told.split_last().unwrap();
        assert_eq!(before.last(), Some(&(true, vec![])));
        assert_eq!(last, &(false, vec![three]));
        assert!(lagging.is_idle());
    }
}

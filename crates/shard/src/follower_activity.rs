//! The activity of followers.

use crate::name::ReplicaId;

/// When each follower last sent a message to the leader. Raft itself resets this several times a second.
#[derive(Default)]
pub(crate) struct FollowerActivity {
    // Ticks since the leadership began.
    ticks: u32,
    // The tick of the last message of each follower.
    last: Vec<(ReplicaId, u32)>,
}

impl FollowerActivity {
    pub(crate) fn tick(&mut self) {
        self.ticks = self.ticks.saturating_add(1);
    }

    /// Ticks since the leadership began.
    pub(crate) fn ticks(&self) -> u32 {
        self.ticks
    }

    pub(crate) fn record(&mut self, replica: ReplicaId) {
        match self.last.iter_mut().find(|(heard, _)| *heard == replica) {
            Some((_, at)) => *at = self.ticks,
            None => self.last.push((replica, self.ticks)),
        }
    }

    /// Whether the follower sent a message within this many ticks.
    pub(crate) fn within(&self, replica: ReplicaId, ticks: usize) -> bool {
        let heard = self.last.iter().find(|(heard, _)| *heard == replica);
        heard.is_some_and(|(_, at)| ((self.ticks - at) as usize) <= ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_expires() {
        let [two, three] = [2, 3].map(|node| ReplicaId::new(node, 1));
        let mut activity = FollowerActivity::default();
        activity.record(two);
        activity.tick();
        activity.record(three);
        activity.tick();
        assert_eq!([two, three].map(|replica| activity.within(replica, 1)), [false, true]);
        activity.record(two);
        assert!(activity.within(two, 0));
    }
}

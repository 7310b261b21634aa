//! Which followers a leader has heard of lately.

use crate::name::ReplicaId;

/// Which followers a leader has heard of lately. Raft itself forgets it several times a second.
#[derive(Default)]
pub(crate) struct Heard {
    // Ticks since the leadership began.
    ticks: u32,
    // Since when nothing was heard.
    last: Vec<(ReplicaId, u32)>,
}

impl Heard {
    pub(crate) fn tick(&mut self) {
        self.ticks = self.ticks.saturating_add(1);
    }

    /// Ticks since the leadership began.
    pub(crate) fn ticks(&self) -> u32 {
        self.ticks
    }

    pub(crate) fn hear(&mut self, replica: ReplicaId) {
        match self.last.iter_mut().find(|(heard, _)| *heard == replica) {
            Some((_, at)) => *at = self.ticks,
            None => self.last.push((replica, self.ticks)),
        }
    }

    /// Whether it was heard of within so many ticks.
    pub(crate) fn within(&self, replica: ReplicaId, ticks: usize) -> bool {
        let heard = self.last.iter().find(|(heard, _)| *heard == replica);
        heard.is_some_and(|(_, at)| ((self.ticks - at) as usize) <= ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_is_forgotten_in_time() {
        let [two, three] = [2, 3].map(|node| ReplicaId::new(node, 1));
        let mut heard = Heard::default();
        heard.hear(two);
        heard.tick();
        heard.hear(three);
        heard.tick();
        assert_eq!([two, three].map(|replica| heard.within(replica, 1)), [false, true]);
        heard.hear(two);
        assert!(heard.within(two, 0));
    }
}

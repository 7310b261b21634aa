//! Requests that have been sent and not been answered.

use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::post::{Asker, Outcome};

/// Requests under way, by id.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    sent: FxHashMap<u64, Sent>,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) asker: Asker,
    /// When it was sent.
    pub(crate) at: Instant,
    /// How long it waits while nothing at all comes from the node.
    pub(crate) silence_max: Duration,
    /// Until when it waits.
    pub(crate) deadline: Instant,
}

impl Sent {
    /// When it is overdue, if the node was last heard then.
    fn due(&self, heard: Instant) -> Instant {
        self.deadline.min(self.at.max(heard) + self.silence_max)
    }
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Notes that a request was sent.
    pub(crate) fn sent(&mut self, id: u64, sent: Sent) {
        let before = self.sent.insert(id, sent);
        assert!(before.is_none(), "request {id} is under way twice");
    }

    /// Who asked; `None` if nobody waits any more.
    pub(crate) fn answered(&mut self, id: u64) -> Option<Asker> {
        self.sent.remove(&id).map(|sent| sent.asker)
    }

    /// Ends what is overdue, where the node was last heard at `heard`; when the next of the rest may be.
    pub(crate) fn expire(&mut self, now: Instant, heard: Instant) -> Option<Instant> {
        let overdue = self.sent.extract_if(|_, sent| sent.due(heard) <= now);
        overdue.for_each(|(_, sent)| sent.asker.tell(Outcome::Overdue));
        self.sent.values().map(|sent| sent.due(heard)).min()
    }

    /// Ends everything: the connection is gone.
    pub(crate) fn lose(&mut self) {
        self.sent.drain().for_each(|(_, sent)| sent.asker.tell(Outcome::Lost));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn sent(pending: &mut Pending, id: u64, deadline: Instant) -> oneshot::Receiver<Outcome> {
        let (tell, told) = oneshot::channel();
        let (at, silence_max) = (Instant::now(), Duration::from_secs(60));
        pending.sent(id, Sent { asker: Asker::Caller(tell), at, silence_max, deadline });
        told
    }

    #[test]
    fn what_is_overdue_is_told_and_the_next_deadline_is_found() {
        let now = Instant::now();
        let at = |millis| now + Duration::from_millis(millis);
        let mut pending = Pending::default();
        let mut first = sent(&mut pending, 1, at(10));
        let mut second = sent(&mut pending, 2, at(30));
        let mut third = sent(&mut pending, 3, at(20));
        assert_eq!(pending.expire(at(9), now), Some(at(10)));
        assert_eq!(pending.expire(at(10), now), Some(at(20)));
        assert!(matches!(first.try_recv(), Ok(Outcome::Overdue)));
        assert!(pending.answered(1).is_none(), "an answer after the deadline finds nobody");
        assert!(pending.answered(3).is_some());
        assert!(third.try_recv().is_err());
        assert_eq!(pending.expire(at(11), now), Some(at(30)));
        pending.lose();
        assert!(matches!(second.try_recv(), Ok(Outcome::Lost)));
        assert_eq!((pending.len(), pending.expire(at(40), now)), (0, None));
    }

    #[test]
    fn a_request_waits_for_a_node_that_is_heard() {
        let now = Instant::now();
        let at = |millis| now + Duration::from_millis(millis);
        let (tell, mut told) = oneshot::channel();
        let mut pending = Pending::default();
        let silence_max = Duration::from_millis(10);
        pending.sent(1, Sent { asker: Asker::Caller(tell), at: at(5), silence_max, deadline: at(40) });
        assert_eq!(pending.expire(at(14), now), Some(at(15)));
        assert_eq!(pending.expire(at(15), at(12)), Some(at(22)));
        assert_eq!(pending.expire(at(39), at(38)), Some(at(40)), "never beyond the deadline");
        assert!(told.try_recv().is_err());
        assert_eq!(pending.expire(at(39), at(29)), None);
        assert!(matches!(told.try_recv(), Ok(Outcome::Overdue)));
    }
}

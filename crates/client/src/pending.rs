//! Requests that have been sent and not been answered.

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::post::{Asker, Outcome};

/// Requests under way, by id, with the earliest deadline any of them may have.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    askers: FxHashMap<u64, (Asker, Instant)>,
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.askers.len()
    }

    /// Notes that a request was sent.
    pub(crate) fn sent(&mut self, id: u64, asker: Asker, deadline: Instant) {
        let before = self.askers.insert(id, (asker, deadline));
        assert!(before.is_none(), "request {id} is under way twice");
    }

    /// Who asked; `None` if nobody waits any more.
    pub(crate) fn answered(&mut self, id: u64) -> Option<Asker> {
        self.askers.remove(&id).map(|(asker, _)| asker)
    }

    /// Ends what is overdue; the earliest deadline of the rest.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let overdue = self.askers.extract_if(|_, (_, deadline)| *deadline <= now);
        overdue.for_each(|(_, (asker, _))| asker.tell(Outcome::Overdue));
        self.askers.values().map(|(_, deadline)| *deadline).min()
    }

    /// Ends everything: the connection is gone.
    pub(crate) fn lose(&mut self) {
        self.askers.drain().for_each(|(_, (asker, _))| asker.tell(Outcome::Lost));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    fn sent(pending: &mut Pending, id: u64, deadline: Instant) -> oneshot::Receiver<Outcome> {
        let (tell, told) = oneshot::channel();
        pending.sent(id, Asker::Caller(tell), deadline);
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
        assert_eq!(pending.expire(at(9)), Some(at(10)));
        assert_eq!(pending.expire(at(10)), Some(at(20)));
        assert!(matches!(first.try_recv(), Ok(Outcome::Overdue)));
        assert!(pending.answered(1).is_none(), "an answer after the deadline finds nobody");
        assert!(pending.answered(3).is_some());
        assert!(third.try_recv().is_err());
        assert_eq!(pending.expire(at(11)), Some(at(30)));
        pending.lose();
        assert!(matches!(second.try_recv(), Ok(Outcome::Lost)));
        assert_eq!((pending.len(), pending.expire(at(40))), (0, None));
    }
}

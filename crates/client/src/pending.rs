//! Requests that were sent and are not answered yet.

use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::{
    feeds::FeedSink,
    waiter::{AttemptOutcome, Waiter},
};

/// The pending requests of a connection, by id.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    requests: FxHashMap<u64, PendingRequest>,
}

#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) waiter: Waiter,
    pub(crate) sent_at: Instant,
    /// How long the request waits while nothing at all arrives from the node.
    pub(crate) silence_max: Duration,
    /// Until when the request waits.
    pub(crate) deadline: Instant,
}

impl PendingRequest {
    /// When the request times out if nothing arrives from the node after `last_received`.
    fn times_out_at(&self, last_received: Instant) -> Instant {
        self.deadline.min(self.sent_at.max(last_received) + self.silence_max)
    }
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Adds a request that was just sent.
    ///
    /// # Panics
    /// If a request with this id is pending.
    pub(crate) fn insert(&mut self, id: u64, request: PendingRequest) {
        let before = self.requests.insert(id, request);
        assert!(before.is_none(), "request {id} is under way twice");
    }

    /// Removes an answered request and returns its waiter. `None` if the request has timed out before.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Waiter> {
        self.requests.remove(&id).map(|request| request.waiter)
    }

    /// The sinks of pending watches.
    pub(crate) fn sinks(&self) -> impl Iterator<Item = &FeedSink> {
        self.requests.values().filter_map(|request| match &request.waiter {
            Waiter::Watch(_, sink) => Some(sink),
            Waiter::Caller(_) => None,
        })
    }

    /// Ends the requests that have timed out. `last_received` is when something last arrived from the node. Returns
    /// when the next request may time out.
    pub(crate) fn expire(&mut self, now: Instant, last_received: Instant) -> Option<Instant> {
        let timed_out = self.requests.extract_if(|_, request| request.times_out_at(last_received) <= now);
        timed_out.for_each(|(_, request)| request.waiter.complete(AttemptOutcome::TimedOut));
        self.requests.values().map(|request| request.times_out_at(last_received)).min()
    }

    /// Ends all requests, because the connection is lost.
    pub(crate) fn connection_lost(&mut self) {
        self.requests.drain().for_each(|(_, request)| request.waiter.complete(AttemptOutcome::ConnectionLost));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn insert(pending: &mut Pending, id: u64, deadline: Instant) -> oneshot::Receiver<AttemptOutcome> {
        let (sender, receiver) = oneshot::channel();
        let (sent_at, silence_max) = (Instant::now(), Duration::from_secs(60));
        pending.insert(id, PendingRequest { waiter: Waiter::Caller(sender), sent_at, silence_max, deadline });
        receiver
    }

    #[test]
    fn expire_ends_overdue_requests_and_returns_the_next_deadline() {
        let now = Instant::now();
        let at = |millis| now + Duration::from_millis(millis);
        let mut pending = Pending::default();
        let mut first = insert(&mut pending, 1, at(10));
        let mut second = insert(&mut pending, 2, at(30));
        let mut third = insert(&mut pending, 3, at(20));
        assert_eq!(pending.expire(at(9), now), Some(at(10)));
        assert_eq!(pending.expire(at(10), now), Some(at(20)));
        assert!(matches!(first.try_recv(), Ok(AttemptOutcome::TimedOut)));
        assert!(pending.remove(1).is_none(), "an answer after the deadline has no waiter");
        assert!(pending.remove(3).is_some());
        assert!(third.try_recv().is_err());
        assert_eq!(pending.expire(at(11), now), Some(at(30)));
        pending.connection_lost();
        assert!(matches!(second.try_recv(), Ok(AttemptOutcome::ConnectionLost)));
        assert_eq!((pending.len(), pending.expire(at(40), now)), (0, None));
    }

    #[test]
    fn a_request_waits_while_frames_arrive_from_the_node() {
        let now = Instant::now();
        let at = |millis| now + Duration::from_millis(millis);
        let (sender, mut receiver) = oneshot::channel();
        let mut pending = Pending::default();
        let (waiter, silence_max) = (Waiter::Caller(sender), Duration::from_millis(10));
        pending.insert(1, PendingRequest { waiter, sent_at: at(5), silence_max, deadline: at(40) });
        assert_eq!(pending.expire(at(14), now), Some(at(15)));
        assert_eq!(pending.expire(at(15), at(12)), Some(at(22)));
        assert_eq!(pending.expire(at(39), at(38)), Some(at(40)), "never beyond the deadline");
        assert!(receiver.try_recv().is_err());
        assert_eq!(pending.expire(at(39), at(29)), None);
        assert!(matches!(receiver.try_recv(), Ok(AttemptOutcome::TimedOut)));
    }
}

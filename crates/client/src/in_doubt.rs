//! Requests in doubt: they may have been granted although no answer said so. This module decides when a refusal of a
//! retry is final.
//!
//! A node decides the attempts that come over one connection in their order, or answers that the outcome is unknown. So
//! a refusal is final if every attempt in doubt went over the connection that brought the refusal. An attempt over
//! another connection may still be on its way until the deadline that was sent along with it.

use std::{collections::VecDeque, time::Duration};

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

/// Request ids in doubt that a client remembers.
const REQUESTS_MAX: usize = 4_096;
/// How long after its deadline an attempt may still be on its way.
const LATE_MAX: Duration = Duration::from_secs(10);

/// A connection: the id of its [`crate::connection::ConnectionHandle`], and its number among that handle's connections.
pub(crate) type ConnectionId = (u64, u64);

/// The connections of the attempts that may have been granted, or may still be granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InDoubt {
    /// No attempt is in doubt.
    #[default]
    None,
    /// All attempts in doubt went over one connection.
    One(ConnectionId),
    /// An attempt went over a connection that is gone, or the attempts went over several connections.
    Any,
}

impl InDoubt {
    pub(crate) fn is_some(self) -> bool {
        self != InDoubt::None
    }

    /// Adds an attempt over this connection.
    pub(crate) fn add(&mut self, connection: ConnectionId) {
        *self = match *self {
            InDoubt::None => InDoubt::One(connection),
            InDoubt::One(known) if known == connection => InDoubt::One(known),
            InDoubt::One(_) | InDoubt::Any => InDoubt::Any,
        };
    }

    /// Whether a refusal of the last attempt over this connection is final, so that no earlier attempt can be granted any more.
    pub(crate) fn is_ended_by(self, connection: ConnectionId) -> bool {
        match self {
            InDoubt::None => true,
            InDoubt::One(known) => known == connection,
            InDoubt::Any => false,
        }
    }
}

/// The attempts in doubt of one request while it runs: those of earlier calls and those of this call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InDoubtAttempts {
    in_doubt: InDoubt,
    /// Whether this call has added an attempt.
    added: bool,
}

impl InDoubtAttempts {
    /// Starts a call with the doubt that earlier calls left.
    pub(crate) fn after(earlier: InDoubt) -> InDoubtAttempts {
        InDoubtAttempts { in_doubt: earlier, added: false }
    }

    /// Adds an attempt over this connection.
    pub(crate) fn add(&mut self, connection: ConnectionId) {
        self.in_doubt.add(connection);
        self.added = true;
    }

    /// Adds an attempt whose answer cannot arrive any more.
    pub(crate) fn add_lost(&mut self) {
        *self = InDoubtAttempts { in_doubt: InDoubt::Any, added: true };
    }

    pub(crate) fn in_doubt(self) -> InDoubt {
        self.in_doubt
    }
}

/// Requests that ended in doubt, by request id. Their callers retry them under the same request id.
#[derive(Debug, Default)]
pub(crate) struct InDoubtRequests {
    known: FxHashMap<SmolStr, (InDoubt, Instant)>,
    order: VecDeque<(Instant, SmolStr)>,
}

impl InDoubtRequests {
    /// Remembers a request that ended in doubt with this deadline. A call that added no attempt does not prolong the
    /// doubt, so the doubt ends however often the caller retries.
    pub(crate) fn remember(&mut self, request_id: SmolStr, attempts: InDoubtAttempts, deadline: Instant) {
        if !attempts.added {
            return;
        }
        while self.order.len() >= REQUESTS_MAX {
            self.forget_oldest();
        }
        // An earlier call may have had a later deadline.
        let earlier = self.known.get(&request_id).map(|(_, until)| *until);
        let until = earlier.map_or(deadline + LATE_MAX, |earlier| earlier.max(deadline + LATE_MAX));
        self.known.insert(request_id.clone(), (attempts.in_doubt, until));
        self.order.push_back((until, request_id));
    }

    /// The attempts in doubt of earlier calls with this request id.
    pub(crate) fn get(&mut self, request_id: &SmolStr, now: Instant) -> InDoubt {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
        let known = self.known.get(request_id).filter(|(_, until)| *until > now);
        known.map_or(InDoubt::None, |(in_doubt, _)| *in_doubt)
    }

    fn forget_oldest(&mut self) {
        let Some((until, request_id)) = self.order.pop_front() else { return };
        // A request that was remembered again since then has a later entry and stays.
        if self.known.get(&request_id).is_some_and(|(_, known)| *known == until) {
            self.known.remove(&request_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_final_over_the_connection_of_all_attempts() {
        let (one, again, other) = ((0, 1), (0, 2), (1, 1));
        let mut in_doubt = InDoubt::None;
        assert!(in_doubt.is_ended_by(one));
        in_doubt.add(one);
        in_doubt.add(one);
        assert!(in_doubt.is_ended_by(one) && !in_doubt.is_ended_by(again) && !in_doubt.is_ended_by(other));
        in_doubt.add(again);
        assert!(!in_doubt.is_ended_by(one) && !in_doubt.is_ended_by(again));
    }

    #[test]
    fn requests_are_remembered_until_no_attempt_can_arrive_late() {
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut requests = InDoubtRequests::default();
        let lost = InDoubtAttempts { in_doubt: InDoubt::Any, added: true };
        requests.remember("r".into(), lost, deadline);
        assert_eq!(requests.get(&"r".into(), deadline), InDoubt::Any);
        assert_eq!(requests.get(&"s".into(), deadline), InDoubt::None);
        assert_eq!(requests.get(&"r".into(), deadline + LATE_MAX), InDoubt::None);
        for number in 0..REQUESTS_MAX + 9 {
            requests.remember(number.to_string().into(), lost, deadline);
        }
        assert_eq!((requests.known.len(), requests.order.len()), (REQUESTS_MAX, REQUESTS_MAX));
    }

    #[test]
    fn only_another_attempt_prolongs_a_doubt() {
        let deadline = Instant::now() + Duration::from_secs(1);
        let (later, earlier) = (deadline + LATE_MAX / 2, deadline - LATE_MAX / 2);
        let mut requests = InDoubtRequests::default();
        let mut attempts = InDoubtAttempts::default();
        attempts.add((0, 1));
        requests.remember("r".into(), attempts, deadline);
        // The next call got only a refusal.
        let mut again = InDoubtAttempts::after(requests.get(&"r".into(), deadline));
        requests.remember("r".into(), again, later);
        assert_eq!(requests.get(&"r".into(), deadline + LATE_MAX), InDoubt::None);
        requests.remember("r".into(), attempts, deadline);
        again.add((0, 1));
        requests.remember("r".into(), again, later);
        assert_eq!(requests.get(&"r".into(), deadline + LATE_MAX), InDoubt::One((0, 1)));
        requests.remember("r".into(), again, earlier);
        assert_eq!(
            requests.get(&"r".into(), deadline + LATE_MAX),
            InDoubt::One((0, 1)),
            "the first attempt may still arrive"
        );
        assert_eq!(requests.get(&"r".into(), later + LATE_MAX), InDoubt::None);
    }
}

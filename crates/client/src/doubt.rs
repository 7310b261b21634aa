//! Requests that may have been granted although nobody said so, and when a refusal of a repeat is the last word.
//!
//! A node decides the attempts that come over one connection in their order, or says that nobody knows. So a refusal is
//! final if every attempt in doubt went over the connection that brought the refusal. An attempt over another connection
//! may still be on its way until the deadline that was sent along with it.

use std::{collections::VecDeque, time::Duration};

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

/// Request ids in doubt that a client remembers.
const DOUBTS_MAX: usize = 4_096;
/// How long after its deadline an attempt may still be on its way.
const LATE: Duration = Duration::from_secs(10);

/// A connection: the number of its [`crate::client::Shared`], and which of that one's connections, one after the other, it is.
pub(crate) type Connection = (u64, u64);

/// Attempts of a request that may have been granted, or may be yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// There are none.
    #[default]
    None,
    /// All went over one connection.
    Over(Connection),
    /// One of them went over a connection that is gone, or they went over several.
    Anywhere,
}

impl Doubt {
    pub(crate) fn is_some(self) -> bool {
        self != Doubt::None
    }

    /// One more attempt over this connection.
    pub(crate) fn add(&mut self, connection: Connection) {
        *self = match *self {
            Doubt::None => Doubt::Over(connection),
            Doubt::Over(known) if known == connection => Doubt::Over(known),
            Doubt::Over(_) | Doubt::Anywhere => Doubt::Anywhere,
        };
    }

    /// Whether none of them can be granted any more, once the last attempt was refused over this connection.
    pub(crate) fn ends_over(self, connection: Connection) -> bool {
        match self {
            Doubt::None => true,
            Doubt::Over(known) => known == connection,
            Doubt::Anywhere => false,
        }
    }
}

/// The doubt about one request while it is made: what was kept of earlier calls, and what this call adds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    doubt: Doubt,
    /// Whether this call has added an attempt.
    added: bool,
}

impl Attempts {
    /// A call that begins with what was kept of earlier ones.
    pub(crate) fn after(kept: Doubt) -> Attempts {
        Attempts { doubt: kept, added: false }
    }

    /// One more attempt over this connection.
    pub(crate) fn add(&mut self, connection: Connection) {
        self.doubt.add(connection);
        self.added = true;
    }

    /// One more attempt, over a connection that will not bring its answer.
    pub(crate) fn add_lost(&mut self) {
        *self = Attempts { doubt: Doubt::Anywhere, added: true };
    }

    pub(crate) fn doubt(self) -> Doubt {
        self.doubt
    }
}

/// Requests that ended in doubt: their callers repeat them under the same request id.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    known: FxHashMap<SmolStr, (Doubt, Instant)>,
    order: VecDeque<(Instant, SmolStr)>,
}

impl Doubts {
    /// Keeps one whose deadline is `deadline`. A call that added no attempt does not prolong it: however often its caller repeats
    /// it, the doubt ends.
    pub(crate) fn keep(&mut self, request_id: SmolStr, attempts: Attempts, deadline: Instant) {
        if !attempts.added {
            return;
        }
        while self.order.len() >= DOUBTS_MAX {
            self.forget_first();
        }
        // An earlier call may have had a later deadline.
        let earlier = self.known.get(&request_id).map(|(_, until)| *until);
        let until = earlier.map_or(deadline + LATE, |earlier| earlier.max(deadline + LATE));
        self.known.insert(request_id.clone(), (attempts.doubt, until));
        self.order.push_back((until, request_id));
    }

    /// What is in doubt of a request that is made again.
    pub(crate) fn of(&mut self, request_id: &SmolStr, now: Instant) -> Doubt {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
        let known = self.known.get(request_id).filter(|(_, until)| *until > now);
        known.map_or(Doubt::None, |(doubt, _)| *doubt)
    }

    fn forget_first(&mut self) {
        let Some((until, request_id)) = self.order.pop_front() else { return };
        // One that was kept again since is forgotten later.
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
        let mut doubt = Doubt::None;
        assert!(doubt.ends_over(one));
        doubt.add(one);
        doubt.add(one);
        assert!(doubt.ends_over(one) && !doubt.ends_over(again) && !doubt.ends_over(other));
        doubt.add(again);
        assert!(!doubt.ends_over(one) && !doubt.ends_over(again));
    }

    #[test]
    fn doubts_are_kept_until_nothing_can_be_late() {
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut doubts = Doubts::default();
        let lost = Attempts { doubt: Doubt::Anywhere, added: true };
        doubts.keep("r".into(), lost, deadline);
        assert_eq!(doubts.of(&"r".into(), deadline), Doubt::Anywhere);
        assert_eq!(doubts.of(&"s".into(), deadline), Doubt::None);
        assert_eq!(doubts.of(&"r".into(), deadline + LATE), Doubt::None);
        for number in 0..DOUBTS_MAX + 9 {
            doubts.keep(number.to_string().into(), lost, deadline);
        }
        assert_eq!((doubts.known.len(), doubts.order.len()), (DOUBTS_MAX, DOUBTS_MAX));
    }

    #[test]
    fn only_another_attempt_prolongs_a_doubt() {
        let deadline = Instant::now() + Duration::from_secs(1);
        let (later, earlier) = (deadline + LATE / 2, deadline - LATE / 2);
        let mut doubts = Doubts::default();
        let mut attempts = Attempts::default();
        attempts.add((0, 1));
        doubts.keep("r".into(), attempts, deadline);
        // The next call was only refused.
        let mut again = Attempts::after(doubts.of(&"r".into(), deadline));
        doubts.keep("r".into(), again, later);
        assert_eq!(doubts.of(&"r".into(), deadline + LATE), Doubt::None);
        doubts.keep("r".into(), attempts, deadline);
        again.add((0, 1));
        doubts.keep("r".into(), again, later);
        assert_eq!(doubts.of(&"r".into(), deadline + LATE), Doubt::Over((0, 1)));
        doubts.keep("r".into(), again, earlier);
        assert_eq!(doubts.of(&"r".into(), deadline + LATE), Doubt::Over((0, 1)), "the first one is still on its way");
        assert_eq!(doubts.of(&"r".into(), later + LATE), Doubt::None);
    }
}

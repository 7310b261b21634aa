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

/// Requests that ended in doubt: their callers repeat them under the same request id.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    known: FxHashMap<SmolStr, (Doubt, Instant)>,
    order: VecDeque<(Instant, SmolStr)>,
}

impl Doubts {
    /// Keeps one whose deadline is `deadline`.
    pub(crate) fn keep(&mut self, request_id: SmolStr, doubt: Doubt, deadline: Instant) {
        while self.order.len() >= DOUBTS_MAX {
            self.forget_first();
        }
        let until = deadline + LATE;
        self.known.insert(request_id.clone(), (doubt, until));
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
        doubts.keep("r".into(), Doubt::Anywhere, deadline);
        assert_eq!(doubts.of(&"r".into(), deadline), Doubt::Anywhere);
        assert_eq!(doubts.of(&"s".into(), deadline), Doubt::None);
        assert_eq!(doubts.of(&"r".into(), deadline + LATE), Doubt::None);
        for number in 0..DOUBTS_MAX + 9 {
            doubts.keep(number.to_string().into(), Doubt::Anywhere, deadline);
        }
        assert_eq!((doubts.known.len(), doubts.order.len()), (DOUBTS_MAX, DOUBTS_MAX));
    }
}

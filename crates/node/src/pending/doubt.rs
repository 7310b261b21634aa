//! Attempts whose outcome is unknown, and when a refusal of a later one is the last word.
//!
//! A command that changes something names the term in which it may be decided, so an attempt is decided by one leadership or by
//! none. A refusal of a repeat is final in two cases.
//!
//! - Both attempts went over one connection to one leader in one term. Then the first was decided before the second, and a
//!   grant would have been remembered.
//! - The repeat was decided in a later term than the first may be decided in. A leader answers only what a majority has
//!   confirmed in its own term. After that nothing of an earlier term can be committed any more.

use std::collections::VecDeque;

use boxoffice_core::id::{Entity, RequestHash};
use boxoffice_shard::NodeId;
use rustc_hash::FxHashMap;

/// Requests in doubt that a node remembers after it has answered `unknown`.
const DOUBTS_MAX: usize = 65_536;
/// The milliseconds for which they are remembered. No request waits longer for its answer.
const DOUBT_MS: u64 = 60_000;

/// The path of one attempt. Attempts along one path are decided in the order in which they were sent, in this term or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// The node that decides.
    pub(crate) node: NodeId,
    /// The connection to it. 0 to this node itself.
    pub(crate) connection: u64,
    /// The term in which it may decide.
    pub(crate) term: u64,
}

/// Attempts of one request that may have changed something, or may do so yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doubt {
    #[default]
    None,
    /// All went along one path.
    Along(Path),
    /// They went along several. This is the newest term.
    Many(u64),
}

impl Doubt {
    /// Whether there is any.
    pub(crate) fn is_some(self) -> bool {
        self != Doubt::None
    }

    /// One more attempt.
    pub(crate) fn add(&mut self, path: Path) {
        *self = match *self {
            Doubt::None => Doubt::Along(path),
            Doubt::Along(known) if known == path => Doubt::Along(path),
            Doubt::Along(Path { term, .. }) | Doubt::Many(term) => Doubt::Many(term.max(path.term)),
        };
    }

    /// Whether none of them can be granted any more, once an attempt along `path` was refused.
    pub(crate) fn ends_with(self, path: Path) -> bool {
        match self {
            Doubt::None => true,
            Doubt::Along(known) => known == path || known.term < path.term,
            Doubt::Many(term) => term < path.term,
        }
    }
}

/// Requests whose clients got `unknown`, so that a refusal of a repeat is not mistaken for a final one.
#[derive(Default)]
pub(crate) struct Doubts {
    known: FxHashMap<(Entity, RequestHash), (Doubt, u64)>,
    /// In the order in which they are forgotten, with the monotonic millisecond.
    order: VecDeque<(u64, (Entity, RequestHash))>,
}

impl Doubts {
    /// Keeps a doubt. A repeat that adds no attempt to it does not prolong it, so it ends however often its client asks.
    pub(crate) fn keep(&mut self, entity: Entity, request: RequestHash, doubt: Doubt, now_ms: u64) {
        self.forget(now_ms);
        if self.of(&entity, request, now_ms) == doubt {
            return;
        }
        while self.order.len() >= DOUBTS_MAX {
            self.forget_first();
        }
        let (key, until_ms) = ((entity, request), now_ms + DOUBT_MS);
        self.known.insert(key.clone(), (doubt, until_ms));
        self.order.push_back((until_ms, key));
    }

    /// The doubt about a request that comes again.
    pub(crate) fn of(&mut self, entity: &Entity, request: RequestHash, now_ms: u64) -> Doubt {
        self.forget(now_ms);
        if self.known.is_empty() {
            return Doubt::None;
        }
        self.known.get(&(entity.clone(), request)).map_or(Doubt::None, |(doubt, _)| *doubt)
    }

    /// Whether a remembered attempt of a request is in doubt.
    pub(crate) fn has(&self, entity: &Entity, request: RequestHash) -> bool {
        !self.known.is_empty() && self.known.contains_key(&(entity.clone(), request))
    }

    fn forget(&mut self, now_ms: u64) {
        while self.order.front().is_some_and(|(until_ms, _)| *until_ms <= now_ms) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((until_ms, key)) = self.order.pop_front() else { return };
        // One that was kept again since is forgotten later.
        if self.known.get(&key).is_some_and(|(_, known_ms)| *known_ms == until_ms) {
            self.known.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::CartId;

    use super::*;

    fn path(node: NodeId, connection: u64, term: u64) -> Path {
        Path { node, connection, term }
    }

    fn after(paths: &[Path]) -> Doubt {
        let mut doubt = Doubt::None;
        paths.iter().for_each(|path| doubt.add(*path));
        doubt
    }

    #[test]
    fn a_refusal_along_the_same_path_is_final() {
        assert!(after(&[]).ends_with(path(2, 1, 5)));
        assert!(after(&[path(2, 1, 5)]).ends_with(path(2, 1, 5)));
        assert!(after(&[path(2, 1, 5), path(2, 1, 5)]).ends_with(path(2, 1, 5)));
        assert!(!after(&[path(2, 1, 5)]).ends_with(path(2, 2, 5)), "another connection: the first may be late");
        assert!(!after(&[path(2, 1, 5), path(2, 2, 5)]).ends_with(path(2, 2, 5)));
    }

    #[test]
    fn a_refusal_of_a_later_term_is_final() {
        assert!(after(&[path(2, 1, 5)]).ends_with(path(3, 1, 6)));
        assert!(after(&[path(2, 1, 5), path(3, 1, 6)]).ends_with(path(2, 2, 7)));
        assert!(!after(&[path(2, 1, 5), path(3, 1, 6)]).ends_with(path(3, 1, 6)), "the first went another way");
        assert!(!after(&[path(3, 1, 6)]).ends_with(path(2, 1, 5)), "a deposed leader knows nothing of its successor");
        assert!(!after(&[path(3, 1, 6), path(2, 1, 5)]).ends_with(path(2, 1, 5)));
    }

    #[test]
    fn doubts_are_kept_by_entity_and_for_a_while() {
        let (one, other) = (Entity::Cart(CartId(1)), Entity::Cart(CartId(2)));
        let (request, doubt) = (RequestHash::of("r"), Doubt::Many(3));
        let mut doubts = Doubts::default();
        doubts.keep(one.clone(), request, doubt, 1_000);
        assert_eq!(doubts.of(&one, request, 1_000), doubt);
        assert_eq!(doubts.of(&other, request, 1_000), Doubt::None, "requests of others have nothing to do with it");
        doubts.keep(one.clone(), request, Doubt::Many(4), 31_000);
        assert_eq!(doubts.of(&one, request, 1_000 + DOUBT_MS), Doubt::Many(4), "kept again since");
        doubts.keep(one.clone(), request, Doubt::Many(4), 32_000);
        assert_eq!(doubts.of(&one, request, 31_000 + DOUBT_MS), Doubt::None, "a repeat does not prolong it");
        assert_eq!((doubts.known.len(), doubts.order.len()), (0, 0));
    }

    #[test]
    fn the_number_of_doubts_is_bounded() {
        let mut doubts = Doubts::default();
        let cart = |number: usize| Entity::Cart(CartId(number as u128));
        for number in 0..DOUBTS_MAX + 3 {
            doubts.keep(cart(number), RequestHash(1), Doubt::Many(1), 0);
        }
        assert_eq!((doubts.known.len(), doubts.order.len()), (DOUBTS_MAX, DOUBTS_MAX));
        assert_eq!(doubts.of(&cart(2), RequestHash(1), 0), Doubt::None);
        assert_eq!(doubts.of(&cart(3), RequestHash(1), 0), Doubt::Many(1));
    }
}

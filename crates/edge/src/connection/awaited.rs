//! Watches of a connection that wait for the answer of another node.

use std::collections::BTreeMap;

use boxoffice_core::id::{Entity, Id};
use boxoffice_feeds::NoFeed;
use boxoffice_wire::reply::SessionFeed;
use tokio::time::Instant;

/// Watches that wait for another node.
#[derive(Default)]
pub(super) struct Awaited {
    pub(super) watches: BTreeMap<u64, Watch>,
    pub(super) lists: BTreeMap<u64, List>,
    next_tag: u64,
}

/// A watch that waits.
pub(super) enum Watch {
    /// A request of the client.
    Request { id: u64, entity: Entity, at: Instant },
    /// A session of a list.
    Listed { list: u64, place: usize, session: Id },
}

/// A watch of the counts of several sessions.
pub(super) struct List {
    pub(super) id: u64,
    pub(super) at: Instant,
    /// How many sessions wait.
    pub(super) awaited: usize,
    /// The results, by the session's place in the list.
    pub(super) feeds: BTreeMap<usize, SessionFeed>,
    pub(super) missing: BTreeMap<usize, Id>,
    pub(super) unreachable: BTreeMap<usize, Id>,
}

impl Awaited {
    pub(super) fn tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag
    }
}

impl List {
    pub(super) fn ended(&mut self, place: usize, session: Id, outcome: Result<u64, NoFeed>) {
        match outcome {
            Ok(feed) => _ = self.feeds.insert(place, SessionFeed { session, feed }),
            Err(NoFeed::NotFound) => _ = self.missing.insert(place, session),
            Err(NoFeed::Unreachable | NoFeed::Pending) => _ = self.unreachable.insert(place, session),
        }
    }
}

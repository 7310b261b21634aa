//! The live seat maps of one node: what its replicas commit, given to every watcher of a session.
//!
//! The replication thread hands in what was applied ([`Feeds::commit`]), the hub's task publishes it tick by tick, and each
//! connection pulls encoded frames through its [`Watcher`]. A watcher holds no queue: it has a place in a ring of deltas
//! that all watchers of the session share, and the newest snapshot when it has fallen out of that ring.

// In reading order: what comes in, the map as published, the channel of a session, the connection's side, the task.
mod inbox;
mod published;

mod channel;
mod watcher;

mod hub;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use boxoffice_core::{answer::MapView, id::Id, seat::SeatState};

pub use watcher::Watcher;

/// What one pass of the replication thread changed in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Which session.
    pub session: Id,
    /// Its version before.
    pub from: u64,
    /// Its version after.
    pub to: u64,
    /// Seats by index in layout order, with the state they have now; a later entry counts more than an earlier one.
    pub changes: Vec<(u32, SeatState)>,
}

/// Where the hub gets the map a feed begins with. Implemented over the replica's state.
pub trait FeedSource: Send + Sync + 'static {
    /// The session's map now, and from exactly this version on its commits go to [`Feeds::commit`]; `None` if there is no
    /// such session. Asked again for a session that is watched already when its commits have a gap.
    ///
    /// It may wait for the replication thread, which never waits for the hub.
    fn begin(&self, session: &Id) -> Option<MapView>;

    /// Nobody watches this session any more: its commits need not be handed in.
    fn end(&self, session: &Id);
}

/// How the hub publishes.
#[derive(Clone, Copy, Debug)]
pub struct FeedSettings {
    /// Commits of so many milliseconds are published as one delta; 0 gives a delta for each commit.
    pub coalesce_ms: u64,
    /// How long a session without watchers is kept, in milliseconds: they may come back.
    pub linger_ms: u64,
    /// The epoch that versions belong to: another one means that no version from before says anything.
    pub epoch: u64,
}

impl Default for FeedSettings {
    fn default() -> FeedSettings {
        FeedSettings { coalesce_ms: 20, linger_ms: 5_000, epoch: 0 }
    }
}

/// There is no such session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such session")]
pub struct NotFound;

/// The live seat maps of one node. Clones are the same hub.
#[derive(Clone)]
pub struct Feeds {
    hub: Arc<hub::Hub>,
}

impl Feeds {
    /// A hub over `source`. Nothing is published before [`Feeds::run`] runs.
    pub fn new(source: Arc<dyn FeedSource>, settings: FeedSettings) -> Feeds {
        Feeds { hub: Arc::new(hub::Hub::new(source, settings)) }
    }

    /// Hands in what was just applied, once a pass, in order. Never waits for watchers and holds a bounded amount: what the
    /// hub has not published yet is conflated, a session's seat having one state at a time.
    pub fn commit(&self, commits: Vec<Commit>) {
        self.hub.commit(commits);
    }

    /// A connection's side of the hub.
    pub fn watcher(&self) -> Watcher {
        Watcher::new(Arc::clone(&self.hub))
    }

    /// Publishes until it is dropped. Runs once, on the runtime of the watchers.
    pub async fn run(&self) {
        self.hub.run().await;
    }

    /// The epoch that versions belong to.
    pub fn epoch(&self) -> u64 {
        self.hub.epoch()
    }

    /// How many sessions have a feed, and how many watchers they have together.
    pub fn counts(&self) -> (usize, usize) {
        self.hub.counts()
    }
}

//! The live feeds of one node. Watchers of an entity receive what the node's replicas commit.
//!
//! The replication thread hands in applied commits ([`Feeds::commit`]). The hub's task publishes them tick by tick, and
//! each connection pulls encoded frames through its [`Watcher`]. A watcher has no queue, but a position in a ring of
//! deltas that all watchers of the entity share. A watcher that falls behind the ring receives the latest snapshot
//! instead. A customer's purchases are read from the store in this case, because each of them matters.
//!
//! The crate knows no shard, no other node and no socket. The [`FeedSource`] provides the initial state of each feed.

// In reading order: input, the publisher of each kind of entity, the channel of one entity, the connection's side, the
// task.
mod commit;
mod inbox;

mod merge;
mod reader;
mod ring;

mod publisher;
mod purchases;
mod seats;
mod states;

mod kinds;

mod ready;
mod sync;

mod channel;
mod watcher;
mod watchers;

mod hub;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use boxoffice_core::stored::Stored;
use boxoffice_core::{
    answer::{CartView, MapView, Purchase, StockCounts},
    id::{Entity, Id},
};
use boxoffice_env::Clock;

pub use commit::{Commit, DAYS_MAX, FeedUpdate};
pub use watcher::{FeedEvent, Watcher, Watching};

/// The state of an entity with which its feed begins.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum InitialState {
    #[n(0)]
    Session(#[n(0)] MapView),
    #[n(1)]
    Product {
        #[n(0)]
        version: u64,
        #[n(1)]
        counts: StockCounts,
    },
    #[n(2)]
    Resource {
        #[n(0)]
        version: u64,
        #[n(1)]
        bookings: u64,
    },
    #[n(3)]
    Cart {
        #[n(0)]
        version: u64,
        #[n(1)]
        cart: Box<CartView>,
    },
    /// A customer, possibly without purchases.
    #[n(4)]
    Customer {
        /// The cursor of the newest purchase, 0 without any.
        #[n(0)]
        newest: u64,
    },
}

impl InitialState {
    /// Its version, or a customer's cursor.
    pub(crate) fn version(&self) -> u64 {
        match self {
            InitialState::Session(map) => map.version,
            InitialState::Product { version, .. }
            | InitialState::Resource { version, .. }
            | InitialState::Cart { version, .. }
            | InitialState::Customer { newest: version } => *version,
        }
    }
}

/// The scope of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    /// The whole entity.
    Whole,
    /// Only the number of seats and places of a session by state.
    Counts,
}

/// The source of initial states: a replica here, or another node. It may wait for the replication thread and the disk,
/// but not for another node. The replication thread never waits for the hub.
pub trait FeedSource: Send + Sync + 'static {
    /// The committed state of the entity. From exactly this state on, its commits go to [`Feeds::commit`]. Called again
    /// for a watched entity after a gap in its commits, and when it is watched in another view.
    ///
    /// # Errors
    /// [`NoFeed`]. The hub repeats the call after [`NoFeed::Unreachable`]. After [`NoFeed::Pending`] the answer goes to
    /// [`Feeds::initial_state`].
    fn begin(&self, entity: &Entity) -> Result<InitialState, NoFeed>;

    /// As [`FeedSource::begin`], but from another node, because the answer to [`NoFeed::Pending`] has not come within
    /// [`FeedSettings::answer_timeout_ms`].
    ///
    /// # Errors
    /// As [`FeedSource::begin`].
    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed>;

    /// Whether versions may exist that this node has not received yet.
    fn may_lag(&self, entity: &Entity) -> bool;

    /// For how many milliseconds the node that hands in commits knows no leader of the entity's shard, and so no commits.
    /// `None` with a leader. [`Feeds::leaders_changed`] reports changes.
    fn leaderless_ms(&self, _entity: &Entity) -> Option<u64> {
        None
    }

    /// The entity has no watchers any more, so its commits need not be handed in.
    fn end(&self, entity: &Entity);

    /// Up to `limit` purchases of a customer after a cursor, by cursor. Empty only if there are none, or if they cannot
    /// be read and the node is about to end. `None` if another node has them. Then they go to
    /// [`Feeds::purchases_page`].
    fn purchases(&self, customer: &Id, after: u64, limit: u32) -> Option<Vec<Purchase>>;
}

/// The settings of the hub.
#[derive(Clone, Copy, Debug)]
pub struct FeedSettings {
    /// Commits of this many milliseconds become one delta. 0 gives a delta for each commit.
    pub coalesce_ms: u64,
    /// Deltas kept of an entity, for watchers that are behind or come back. Beyond it a watcher receives a snapshot.
    /// Fewer are kept if a snapshot is hardly longer than a delta.
    pub depth: usize,
    /// Milliseconds for which the channel of an entity without watchers is kept, because they may come back.
    pub linger_ms: u64,
    /// Milliseconds before another node is asked when an answer does not come.
    pub answer_timeout_ms: u64,
    /// Milliseconds without a leader, or without a source to restart from, before watchers are told that a feed may be
    /// stale. Longer than an election.
    pub stale_ms: u64,
    /// The epoch of versions. Versions of different epochs cannot be compared.
    pub epoch: u64,
}

impl Default for FeedSettings {
    fn default() -> FeedSettings {
        FeedSettings {
            coalesce_ms: 20,
            depth: 256,
            linger_ms: 5_000,
            answer_timeout_ms: 300,
            stale_ms: 2_000,
            epoch: 0,
        }
    }
}

/// A feed does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFeed {
    /// The entity does not exist.
    #[error("there is nothing to watch")]
    NotFound,
    /// No node with the entity can be reached.
    #[error("no node that has it answers; try again in a moment")]
    Unreachable,
    /// Another node was asked, and its answer decides.
    #[error("another node is asked for it")]
    Pending,
}

/// The live feeds of one node. Clones share one hub.
#[derive(Clone)]
pub struct Feeds {
    hub: Arc<hub::Hub>,
}

impl Feeds {
    /// A hub over `source` that takes the time from `clock`. Nothing is published before [`Feeds::run`] runs.
    pub fn new(source: Arc<dyn FeedSource>, settings: FeedSettings, clock: Arc<dyn Clock>) -> Feeds {
        Feeds { hub: Arc::new(hub::Hub::new(source, settings, clock)) }
    }

    /// Hands in applied commits, once a pass, in order. Never waits for watchers. Commits that the hub has not
    /// published yet are conflated, so their memory is bounded.
    pub fn commit(&self, commits: Vec<Commit>) {
        self.hub.commit(commits);
    }

    /// The initial state of an entity after [`NoFeed::Pending`]. Never waits.
    pub fn initial_state(&self, entity: Entity, outcome: Result<InitialState, NoFeed>) {
        self.hub.initial_state(entity, outcome);
    }

    /// A customer's purchases after a cursor, from another node that was asked for them. Never waits.
    pub fn purchases_page(&self, customer: Id, after: u64, page: Vec<Purchase>) {
        self.hub.purchases_page(Entity::Customer(customer), after, page);
    }

    /// [`FeedSource::leaderless_ms`] has changed for some entities. Never waits.
    pub fn leaders_changed(&self) {
        self.hub.leaders_changed();
    }

    /// A connection's side of the hub.
    pub fn watcher(&self) -> Watcher {
        Watcher::new(Arc::clone(&self.hub))
    }

    /// Publishes until it is dropped. Call it once, on the runtime of the watchers.
    pub async fn run(&self) {
        self.hub.run().await;
    }

    /// Begins a new epoch of versions. Every watcher receives a snapshot. Never waits.
    pub fn set_epoch(&self, epoch: u64) {
        self.hub.set_epoch(epoch);
    }

    /// The epoch of versions.
    pub fn epoch(&self) -> u64 {
        self.hub.epoch()
    }

    /// The number of feeds and of their watchers.
    pub fn counts(&self) -> (usize, usize) {
        self.hub.counts()
    }
}

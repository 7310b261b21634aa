//! The live feeds of one node: what its replicas commit, given to every watcher of an entity.
//!
//! The replication thread hands in what was applied ([`Feeds::commit`]), the hub's task publishes it tick by tick, and each
//! connection pulls encoded frames through its [`Watcher`]. A watcher holds no queue: it has a place in a ring of deltas
//! that all watchers of the entity share. Who has fallen out of that ring gets the newest snapshot, which says all there
//! is to say; of a customer's purchases, which say something each, it gets what it has not seen from where they are kept.
//!
//! The crate knows no shard, no other node and no socket. Where an entity is, and how it begins, it asks the [`FeedSource`] that it
//! was given.

// In reading order: what comes in, what is said of each kind of entity, the channel of one, the connection's side, the task.
mod commit;
mod inbox;

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

use boxoffice_core::{
    answer::{CartView, MapView, Purchase, StockCounts},
    id::{Entity, Id},
};
use boxoffice_env::Clock;
use serde::{Deserialize, Serialize};

pub use commit::{Commit, DAYS_MAX, FeedUpdate};
pub use watcher::{FeedEvent, Watcher, Watching};

/// An entity as a feed of it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InitialState {
    /// A session's map.
    Session(MapView),
    /// A product's units.
    Product {
        /// At which version.
        version: u64,
        /// Units by state.
        counts: StockCounts,
    },
    /// A resource.
    Resource {
        /// At which version.
        version: u64,
        /// How many bookings it has.
        bookings: u64,
    },
    /// A cart.
    Cart {
        /// At which version.
        version: u64,
        /// The cart.
        cart: Box<CartView>,
    },
    /// A customer, also one to whom nothing has happened yet.
    Customer {
        /// The cursor of the newest purchase; 0 if there is none.
        newest: u64,
    },
}

impl InitialState {
    /// The version it is of; of a customer the cursor.
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

/// How much of an entity a feed tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    /// All there is to tell.
    Whole,
    /// Of a session only how many seats and places there are of each state.
    Counts,
}

/// Where the hub gets what a feed begins with. Implemented over the replica's state, here or on another node. It may wait
/// for the replication thread and for the disk, but not for another node; the replication thread never waits for the hub.
pub trait FeedSource: Send + Sync + 'static {
    /// The entity as committed now, and from exactly this state on its commits go to [`Feeds::commit`]. Asked again for an
    /// entity that is watched already when its commits have a gap, and when it is watched in another view.
    ///
    /// # Errors
    /// [`NoFeed`]; one that is only out of reach is asked for again. After [`NoFeed::Pending`] the answer goes to
    /// [`Feeds::initial_state`].
    fn begin(&self, entity: &Entity) -> Result<InitialState, NoFeed>;

    /// The answer to [`NoFeed::Pending`] has not come for [`FeedSettings::answer_timeout_ms`]: as [`FeedSource::begin`], of somebody
    /// else.
    ///
    /// # Errors
    /// As [`FeedSource::begin`].
    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed>;

    /// Whether there may be versions of it that this node is not told of yet.
    fn may_lag(&self, entity: &Entity) -> bool;

    /// For how many milliseconds whoever hands in its commits has heard of nobody who leads its shard, and so of nothing that
    /// was committed; `None` if somebody leads. [`Feeds::leaders_changed`] says when it is to be asked again.
    fn leaderless_ms(&self, _entity: &Entity) -> Option<u64> {
        None
    }

    /// Nobody watches this entity any more: its commits need not be handed in.
    fn end(&self, entity: &Entity);

    /// The purchases of a customer after a cursor, by cursor, up to `limit`; none only if there are none or they cannot be
    /// read, which the node does not outlive. `None` if another node has them: they go to [`Feeds::purchases_page`].
    fn purchases(&self, customer: &Id, after: u64, limit: u32) -> Option<Vec<Purchase>>;
}

/// How the hub publishes.
#[derive(Clone, Copy, Debug)]
pub struct FeedSettings {
    /// Commits of so many milliseconds are published as one delta; 0 gives a delta for each commit.
    pub coalesce_ms: u64,
    /// How many deltas of an entity are kept for watchers that are behind or come back; one that has missed more gets a
    /// snapshot. Of what has snapshots hardly longer than a delta, fewer are kept.
    pub depth: usize,
    /// How long an entity without watchers is kept, in milliseconds: they may come back.
    pub linger_ms: u64,
    /// How long the answer of another node is awaited before the next one is asked, in milliseconds.
    pub answer_timeout_ms: u64,
    /// After how many milliseconds without a leader, or without a node to begin anew at, watchers are told that a feed may be
    /// behind: longer than an election takes.
    pub stale_ms: u64,
    /// The epoch that versions belong to: another one means that no version from before says anything.
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

/// Why a feed does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFeed {
    /// There is no such entity.
    #[error("there is nothing to watch")]
    NotFound,
    /// Nobody who has it can be reached.
    #[error("no node that has it answers; try again in a moment")]
    Unreachable,
    /// Another node was asked; it is known when that answers.
    #[error("another node is asked for it")]
    Pending,
}

/// The live feeds of one node. Clones are the same hub.
#[derive(Clone)]
pub struct Feeds {
    hub: Arc<hub::Hub>,
}

impl Feeds {
    /// A hub over `source`, whose ticks are of `clock`. Nothing is published before [`Feeds::run`] runs.
    pub fn new(source: Arc<dyn FeedSource>, settings: FeedSettings, clock: Arc<dyn Clock>) -> Feeds {
        Feeds { hub: Arc::new(hub::Hub::new(source, settings, clock)) }
    }

    /// Hands in what was just applied, once a pass, in order. Never waits for watchers and holds a bounded amount: what the
    /// hub has not published yet is conflated, an entity having one state at a time.
    pub fn commit(&self, commits: Vec<Commit>) {
        self.hub.commit(commits);
    }

    /// How an entity begins, or that it does not, after [`NoFeed::Pending`]. Never waits.
    pub fn initial_state(&self, entity: Entity, outcome: Result<InitialState, NoFeed>) {
        self.hub.initial_state(entity, outcome);
    }

    /// Purchases of a customer after a cursor that another node was asked for. Never waits.
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

    /// Publishes until it is dropped. Runs once, on the runtime of the watchers.
    pub async fn run(&self) {
        self.hub.run().await;
    }

    /// Versions belong to this epoch from now on. Whoever watches begins anew, with a snapshot. Never waits.
    pub fn set_epoch(&self, epoch: u64) {
        self.hub.set_epoch(epoch);
    }

    /// The epoch that versions belong to.
    pub fn epoch(&self) -> u64 {
        self.hub.epoch()
    }

    /// How many entities have a feed, and how many watchers they have together.
    pub fn counts(&self) -> (usize, usize) {
        self.hub.counts()
    }
}

//! The shards as the feeds see them.

use std::sync::{Arc, Weak};

use boxoffice_core::{
    answer::Purchase,
    id::{Entity, Id},
};
use boxoffice_env::no_wait;
use boxoffice_feeds::{FeedSource, InitialState, NoFeed};
use boxoffice_replication::{history_reads::ReadError, shard_state::WatchedEntities};
use boxoffice_storage::history::StoredEntity;

use crate::{
    shared::Shared,
    watched::{self, Known},
};

/// Why feeds do not wait for the store.
const FEEDS: &str = "a thread of the feeds has other watchers";

/// The node as the feeds know it.
pub(crate) struct Watched(pub(crate) Weak<Shared>);

impl Watched {
    /// The result of a begin at this node.
    fn begun(shared: &Arc<Shared>, entity: &Entity, begun: Option<InitialState>) -> Result<InitialState, NoFeed> {
        if begun.is_some() && !shared.is_alone() {
            // It was watched elsewhere before the shard had a replica here.
            shared.remote_feeds.end(entity);
        }
        // A follower may not have it yet. Then it is watched at the leader.
        match begun {
            Some(beginning) => Ok(beginning),
            None if shared.is_alone() || shared.lead_of(entity).leads() => Err(NoFeed::NotFound),
            None => Err(shared.remote_feeds.begin(entity)),
        }
    }

    /// Reads the record of an entity that has left memory, and hands in the initial state.
    fn read(shared: &Arc<Shared>, entity: &Entity) {
        let (weak, watched) = (Arc::downgrade(shared), entity.clone());
        let then = move |found| {
            let Some(shared) = weak.upgrade() else { return };
            let begun = watched::begin_stored(shared.stores(), &watched, found, WatchedEntities::end_here);
            let outcome = match begun {
                Ok(begun) => Watched::begun(&shared, &watched, begun),
                // It can be read later, or at another replica.
                Err(_) if shared.is_alone() || shared.lead_of(&watched).leads() => Err(NoFeed::Unreachable),
                Err(_) => Err(shared.remote_feeds.begin(&watched)),
            };
            if outcome != Err(NoFeed::Pending) {
                shared.feeds.initial_state(watched, outcome);
            }
        };
        shared.replication.reads.read(shared.lead_of(entity).id, entity.clone(), Box::new(then));
    }
}

impl FeedSource for Watched {
    fn begin(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        let _no_wait = no_wait::begin(FEEDS);
        let shared = self.0.upgrade().ok_or(NoFeed::Unreachable)?;
        if shared.is_elsewhere(entity) {
            return Err(shared.remote_feeds.begin(entity));
        }
        let (begin, end) = (WatchedEntities::begin_here, WatchedEntities::end_here);
        match watched::begin_at(shared.stores(), entity, begin, end) {
            Known::Now(begun) => Watched::begun(&shared, entity, begun),
            Known::Stored => {
                Watched::read(&shared, entity);
                Err(NoFeed::Pending)
            }
        }
    }

    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        let shared = self.0.upgrade().ok_or(NoFeed::Unreachable)?;
        if shared.is_elsewhere(entity) {
            return Err(shared.remote_feeds.begin_elsewhere(entity));
        }
        // The entity has come here since, or its record is still being read. A second read of it does no harm.
        self.begin(entity)
    }

    fn may_lag(&self, _entity: &Entity) -> bool {
        // The leader is checked too: it may have been cut off and deposed.
        self.0.upgrade().is_some_and(|shared| !shared.is_alone())
    }

    fn leaderless_ms(&self, entity: &Entity) -> Option<u64> {
        let shared = self.0.upgrade()?;
        let since_ms = match shared.remote_feeds.leaderless_since_ms(entity) {
            Some(since_ms) => since_ms?,
            None => shared.lead_of(entity).leaderless_since_ms()?,
        };
        Some(shared.world.clock.monotonic_ms().saturating_sub(since_ms))
    }

    fn end(&self, entity: &Entity) {
        let Some(shared) = self.0.upgrade() else { return };
        shared.lead_of(entity).state.replica.lock().watched.end_here(entity);
        shared.remote_feeds.end(entity);
    }

    fn purchases(&self, customer: &Id, after: u64, limit: u32) -> Option<Vec<Purchase>> {
        let Some(shared) = self.0.upgrade() else { return Some(Vec::new()) };
        if shared.is_elsewhere(&Entity::Customer(customer.clone())) {
            shared.remote_feeds.read_page(customer, after, limit);
            return None;
        }
        let _no_wait = no_wait::begin(FEEDS);
        if let Known::Now(found) = watched::purchases(shared.stores(), customer, after, limit) {
            return Some(found);
        }
        let (weak, entity) = (self.0.clone(), Entity::Customer(customer.clone()));
        let customer = customer.clone();
        let then = move |found: Result<Option<StoredEntity>, ReadError>| {
            // Without an answer the hub asks again.
            if let (Some(shared), Ok(stored)) = (weak.upgrade(), found) {
                let page = stored.map(|stored| watched::purchases_of(&stored.state, after, limit)).unwrap_or_default();
                shared.feeds.purchases_page(customer, after, page);
            }
        };
        shared.replication.reads.read(shared.lead_of(&entity).id, entity, Box::new(then));
        None
    }
}

//! The shards as the feeds see them.

use std::sync::Weak;

use boxoffice_core::{
    answer::Purchase,
    id::{Entity, Id},
};
use boxoffice_feeds::{FeedSource, InitialState, NoFeed};
use boxoffice_replication::shard_state::WatchedEntities;

use crate::{shared::Shared, watched};

/// The node as the feeds know it.
pub(crate) struct Watched(pub(crate) Weak<Shared>);

impl FeedSource for Watched {
    fn begin(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        let shared = self.0.upgrade().ok_or(NoFeed::Unreachable)?;
        if shared.is_elsewhere(entity) {
            return Err(shared.remote_feeds.begin(entity));
        }
        let (begin, end) = (WatchedEntities::begin_here, WatchedEntities::end_here);
        let begun = watched::begin_at(shared.stores(), entity, begin, end);
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

    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        let shared = self.0.upgrade().ok_or(NoFeed::Unreachable)?;
        if shared.is_elsewhere(entity) {
            return Err(shared.remote_feeds.begin_elsewhere(entity));
        }
        // The entity has come here since.
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
        Some(watched::purchases(shared.stores(), customer, after, limit))
    }
}

//! The shards' committed state for the feeds: the state when a feed begins, and the changes of each turn.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use boxoffice_core::{
    answer::Purchase,
    event::Event,
    id::{Entity, Id},
    planted,
    session::{Changed, Touched},
    state_map::{State, StateMap},
};
use boxoffice_feeds::{Commit, DAYS_MAX, FeedUpdate, InitialState};
use boxoffice_replication::{history_reads::ReadError, replication::Replication, shard_state::WatchedEntities};
use boxoffice_storage::history::{Lookup, StoredEntity};

use crate::{pending_commit::PendingCommit, shard_lead::Shards};

/// Purchases that one turn is asked for.
const PURCHASES_MAX: u32 = boxoffice_core::cursor::PAGE_MAX;

/// The places of committed entities: the shards, and the store of those that have left memory.
#[derive(Clone, Copy)]
pub(crate) struct Committed<'a> {
    pub(crate) shards: &'a Shards,
    pub(crate) replication: &'a Replication<PendingCommit>,
}

/// What is known of an entity without reading the store.
pub(crate) enum Known<T> {
    Now(T),
    /// It has left memory. Its record says.
    Stored,
}

/// The purchases of a customer of this node after a cursor. None of a customer elsewhere. Does not read the store.
pub(crate) fn purchases(at: Committed<'_>, customer: &Id, after: u64, limit: u32) -> Known<Vec<Purchase>> {
    let entity = Entity::Customer(customer.clone());
    let lead = at.shards.of(&entity);
    let in_memory = lead.state.replica.lock().kept.get(&entity);
    match in_memory {
        Some(state) => Known::Now(purchases_of(&state, after, limit)),
        None if at.replication.history.look_up(lead.id, &entity) == Lookup::None => Known::Now(Vec::new()),
        None => Known::Stored,
    }
}

/// The purchases in the state of a customer.
pub(crate) fn purchases_of(state: &State, after: u64, limit: u32) -> Vec<Purchase> {
    match state {
        State::Customer(customer) => customer.purchases(after, limit).map(|page| page.purchases).unwrap_or_default(),
        other => panic!("a customer is kept as something else: {other:?}"),
    }
}

/// The initial state of a feed of an entity of this node. From exactly this state on its commits are handed in, also while its record
/// is read. Then [`begin_stored`] follows. Does not read the store.
pub(crate) fn begin_at(
    at: Committed<'_>,
    entity: &Entity,
    begin: fn(&mut WatchedEntities, Entity),
    end: fn(&mut WatchedEntities, &Entity),
) -> Known<Option<InitialState>> {
    let lead = at.shards.of(entity);
    let mut replica = lead.state.replica.lock();
    if let Some(state) = replica.kept.get(entity) {
        if let State::Session(session) = &*state {
            begin(&mut replica.watched, entity.clone());
            // The map of a large hall takes longer than a commit may wait for the replica.
            drop(replica);
            return Known::Now(Some(InitialState::Session(session.map())));
        }
        let beginning = beginning(&state);
        if beginning.is_some() {
            begin(&mut replica.watched, entity.clone());
        }
        return Known::Now(beginning);
    }
    if !may_rest(entity) {
        return Known::Now(None);
    }
    // The watch begins before the store is read. So every later commit is handed in, and the stored state is not older than
    // this moment.
    begin(&mut replica.watched, entity.clone());
    if at.replication.history.look_up(lead.id, entity) != Lookup::None {
        return Known::Stored;
    }
    let found = new_customer(entity);
    if found.is_none() {
        end(&mut replica.watched, entity);
    }
    Known::Now(found)
}

/// The initial state of a feed that began with [`Known::Stored`], from the record that was read. The watch ends if there is none.
pub(crate) fn begin_stored(
    at: Committed<'_>,
    entity: &Entity,
    found: Result<Option<StoredEntity>, ReadError>,
    end: fn(&mut WatchedEntities, &Entity),
) -> Result<Option<InitialState>, ReadError> {
    let found = found.map(|stored| match stored {
        Some(stored) => beginning(&stored.state),
        None => new_customer(entity),
    });
    if let Ok(Some(found)) = found {
        return Ok(Some(found));
    }
    // It may have begun meanwhile, and another watch with it.
    let mut replica = at.shards.of(entity).state.replica.lock();
    if let Some(found) = replica.kept.get(entity).as_deref().and_then(beginning) {
        return Ok(Some(found));
    }
    end(&mut replica.watched, entity);
    found
}

/// A customer without purchases can be watched.
fn new_customer(entity: &Entity) -> Option<InitialState> {
    matches!(entity, Entity::Customer(_)).then_some(InitialState::Customer { newest: 0 })
}

/// Whether an entity that is not in memory may be in the store.
fn may_rest(entity: &Entity) -> bool {
    match entity {
        Entity::Cart(_) | Entity::Customer(_) | Entity::Code(_) => true,
        Entity::Session(_) | Entity::Product(_) | Entity::Resource(_) | Entity::Venue(_) => false,
        Entity::Directory | Entity::Cluster => false,
    }
}

/// The initial state of an entity's feed. `None` if there is nothing of it to watch.
fn beginning(state: &State) -> Option<InitialState> {
    Some(match state {
        State::Session(session) => InitialState::Session(session.map()),
        State::Product(product) => InitialState::Product { version: product.version(), counts: product.counts() },
        State::Resource(resource) => {
            InitialState::Resource { version: resource.version(), bookings: resource.booked() }
        }
        State::Cart(cart) => InitialState::Cart { version: cart.version(), cart: Box::new(cart.view()?) },
        State::Customer(customer) => InitialState::Customer { newest: customer.newest() },
        State::Venue(_) | State::Code(_) | State::Directory(_) | State::Cluster(_) => return None,
    })
}

/// A watched entity before a turn, as far as it is needed to find the change.
pub(crate) enum Before {
    /// A session at this version, and the seats and areas the turn is about.
    Session(u64, Touched),
    /// A product or a cart at this version.
    Version(u64),
    /// A resource at this version, and the days the turn is about.
    Resource(u64, Option<BTreeSet<u32>>),
    /// A customer up to this cursor.
    Customer(u64),
}

impl Before {
    /// The entity as it is before these events. `None` if they begin it, because an entity that does not exist is not watched.
    pub(crate) fn of(kept: &StateMap, entity: &Entity, events: &[Event]) -> Option<Before> {
        let Some(state) = kept.get(entity) else {
            return matches!(entity, Entity::Customer(_)).then_some(Before::Customer(0));
        };
        Some(match &*state {
            State::Session(session) => {
                let events = events.iter().filter_map(|event| match event {
                    Event::Session(event) => Some(event),
                    _ => None,
                });
                if planted::is("a map built at each commit") {
                    drop(std::hint::black_box(session.map()));
                }
                Before::Session(session.version(), session.touched_by(events))
            }
            State::Product(product) => Before::Version(product.version()),
            State::Cart(cart) => Before::Version(cart.version()),
            State::Resource(resource) => {
                let mut days = BTreeSet::new();
                let events = events.iter().filter_map(|event| match event {
                    Event::Resource(event) => Some(event),
                    _ => None,
                });
                days.extend(events.flat_map(|event| resource.changed_by(event)).flat_map(|slot| slot.days()));
                Before::Resource(resource.version(), (days.len() <= DAYS_MAX).then_some(days))
            }
            State::Customer(customer) => Before::Customer(customer.newest()),
            State::Venue(_) | State::Code(_) | State::Directory(_) | State::Cluster(_) => return None,
        })
    }

    /// The change by the turn. `None` if nothing that is watched has changed.
    pub(crate) fn commit(self, kept: &StateMap, entity: Entity) -> Option<Commit> {
        let state = kept.get(&entity)?;
        let to = state.version();
        let (from, to, update) = match (self, &*state) {
            (Before::Session(from, touched), State::Session(session)) => {
                let Changed { seats, areas, sale } = session.changed_since(touched);
                (from, to, FeedUpdate::Session { seats, areas, sale })
            }
            (Before::Version(from), State::Product(product)) => (from, to, FeedUpdate::Product(product.counts())),
            (Before::Version(from), State::Cart(cart)) => (from, to, FeedUpdate::Cart(Box::new(cart.view()?))),
            (Before::Resource(from, days), State::Resource(resource)) => {
                (from, to, FeedUpdate::Resource { days, bookings: resource.booked() })
            }
            (Before::Customer(from), State::Customer(customer)) => {
                let page = customer.purchases(from, PURCHASES_MAX).expect("as many as a page may have");
                (from, page.newest, FeedUpdate::Purchases(page.purchases))
            }
            (_, other) => panic!("{entity} has become something else: {other:?}"),
        };
        (from < to).then_some(Commit { entity, from, to, update })
    }
}

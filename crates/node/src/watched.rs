//! What the feeds are told of the shards' committed state: as it is when a feed begins, and what each turn changes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use boxoffice_core::{
    answer::{AreaCounts, MapView, Purchase},
    event::Event,
    id::{Entity, Id},
    seat::SeatState,
    state_map::{State, StateMap},
};
use boxoffice_feeds::{Beginning, Commit, DAYS_MAX, FeedSource, News, NoFeed};
use boxoffice_storage::past::PastError;

use crate::{cell::WatchedEntities, shared::Shared};

/// What two bits of a map say.
const SEAT_STATES: [SeatState; 4] = [SeatState::Free, SeatState::Held, SeatState::Sold, SeatState::Blocked];

/// Purchases that one turn is asked for.
const PURCHASES_MAX: u32 = 1_000;

/// The shards as the feeds see them.
pub(crate) struct Watched(pub(crate) Weak<Shared>);

impl FeedSource for Watched {
    fn begin(&self, entity: &Entity) -> Result<Beginning, NoFeed> {
        let shared = self.0.upgrade().ok_or(NoFeed::Unreachable)?;
        if shared.is_elsewhere(entity) {
            return Err(shared.far_feeds.begin(&shared, entity));
        }
        let (begin, end) = (WatchedEntities::begin_here, WatchedEntities::end_here);
        let begun = begin_at(&shared, entity, begin, end);
        if begun.is_some() && !shared.is_alone() {
            // It was watched elsewhere before the shard had a replica here.
            shared.far_feeds.end(&shared, entity);
        }
        // A follower may not have it yet: then it is watched at the leader.
        match begun {
            Some(beginning) => Ok(beginning),
            None if shared.is_alone() || shared.cell_of(entity).leads() => Err(NoFeed::NotFound),
            None => Err(shared.far_feeds.begin(&shared, entity)),
        }
    }

    fn begin_elsewhere(&self, entity: &Entity) -> Result<Beginning, NoFeed> {
        let shared = self.0.upgrade().ok_or(NoFeed::Unreachable)?;
        if shared.is_elsewhere(entity) {
            return Err(shared.far_feeds.begin_elsewhere(&shared, entity));
        }
        // It has come here since.
        self.begin(entity)
    }

    fn may_lag(&self, _entity: &Entity) -> bool {
        // Also who leads: it may have been cut off, and others lead since.
        self.0.upgrade().is_some_and(|shared| !shared.is_alone())
    }

    fn unled_ms(&self, entity: &Entity) -> Option<u64> {
        let shared = self.0.upgrade()?;
        let since_ms = match shared.far_feeds.unled_since_ms(entity) {
            Some(since_ms) => since_ms?,
            None => shared.cell_of(entity).unled_since_ms()?,
        };
        Some(shared.world.clock.monotonic_ms().saturating_sub(since_ms))
    }

    fn end(&self, entity: &Entity) {
        let Some(shared) = self.0.upgrade() else { return };
        shared.cell_of(entity).replica.lock().watched.end_here(entity);
        shared.far_feeds.end(&shared, entity);
    }

    fn purchases(&self, customer: &Id, after: u64, limit: u32) -> Option<Vec<Purchase>> {
        let Some(shared) = self.0.upgrade() else { return Some(Vec::new()) };
        if shared.is_elsewhere(&Entity::Customer(customer.clone())) {
            shared.far_feeds.turn_to(&shared, customer, after, limit);
            return None;
        }
        Some(self.purchases_here(customer, after, limit))
    }
}

impl Watched {
    /// As [`FeedSource::purchases`], of a customer of this node; none of another one.
    pub(crate) fn purchases_here(&self, customer: &Id, after: u64, limit: u32) -> Vec<Purchase> {
        let Some(shared) = self.0.upgrade() else { return Vec::new() };
        let entity = Entity::Customer(customer.clone());
        let in_memory = shared.cell_of(&entity).replica.lock().kept.get(&entity);
        match in_memory.or_else(|| resting(&shared, &entity)).as_deref() {
            Some(State::Customer(customer)) => {
                customer.purchases(after, limit).map(|page| page.purchases).unwrap_or_default()
            }
            Some(other) => panic!("{entity} is kept as something else: {other:?}"),
            None => Vec::new(),
        }
    }

    /// As [`FeedSource::begin`], for another node's feeds.
    pub(crate) fn begin_far(&self, entity: &Entity) -> Option<Beginning> {
        let shared = self.0.upgrade()?;
        begin_at(&shared, entity, WatchedEntities::begin_far, WatchedEntities::end_far)
    }
}

/// How a feed of an entity of this node begins; from exactly this state on its commits are handed in.
fn begin_at(
    shared: &Arc<Shared>,
    entity: &Entity,
    begin: fn(&mut WatchedEntities, Entity),
    end: fn(&mut WatchedEntities, &Entity),
) -> Option<Beginning> {
    let cell = shared.cell_of(entity);
    let mut replica = cell.replica.lock();
    if let Some(state) = replica.kept.get(entity) {
        let beginning = beginning(&state)?;
        begin(&mut replica.watched, entity.clone());
        return Some(beginning);
    }
    if !may_rest(entity) {
        return None;
    }
    // Before it is looked for elsewhere: whatever is committed from here on is handed in, and what is at rest is not
    // older than this.
    begin(&mut replica.watched, entity.clone());
    drop(replica);
    let found = resting(shared, entity).as_deref().and_then(beginning);
    let found = found.or_else(|| matches!(entity, Entity::Customer(_)).then_some(Beginning::Customer { newest: 0 }));
    if found.is_none() {
        end(&mut cell.replica.lock().watched, entity);
    }
    found
}

/// Whether an entity that is not in memory may be in the store.
fn may_rest(entity: &Entity) -> bool {
    match entity {
        Entity::Cart(_) | Entity::Customer(_) => true,
        Entity::Session(_) | Entity::Product(_) | Entity::Resource(_) | Entity::Venue(_) => false,
        Entity::Directory | Entity::Cluster => false,
    }
}

/// An entity that has left memory.
fn resting(shared: &Arc<Shared>, entity: &Entity) -> Option<Arc<State>> {
    match shared.past.get(shared.cell_of(entity).id, entity) {
        Ok(stored) => stored.map(|stored| stored.state),
        // It is read-only until there is room again; whoever watches asks again.
        Err(PastError::Store(error)) if error.is_full() => None,
        Err(error) => {
            shared.replicators.fail(error);
            None
        }
    }
}

/// What a feed of an entity begins with; `None` if there is nothing of it to watch.
fn beginning(state: &State) -> Option<Beginning> {
    Some(match state {
        State::Session(session) => Beginning::Session(session.map()),
        State::Product(product) => Beginning::Product { version: product.version(), counts: product.counts() },
        State::Resource(resource) => Beginning::Resource { version: resource.version(), bookings: resource.booked() },
        State::Cart(cart) => Beginning::Cart { version: cart.version(), cart: Box::new(cart.view()?) },
        State::Customer(customer) => Beginning::Customer { newest: customer.newest() },
        State::Venue(_) | State::Directory(_) | State::Cluster(_) => return None,
    })
}

/// A watched entity before a turn: as much of it as tells afterwards what the turn changed.
pub(crate) enum Before {
    Session(MapView),
    /// A product or a cart at this version.
    Version(u64),
    /// A resource at this version, and the days the turn is about.
    Resource(u64, Option<BTreeSet<u32>>),
    /// A customer up to this cursor.
    Customer(u64),
}

impl Before {
    /// The entity as it is before these events; `None` if they begin it, which nobody can have watched.
    pub(crate) fn of(kept: &StateMap, entity: &Entity, events: &[Event]) -> Option<Before> {
        let Some(state) = kept.get(entity) else {
            return matches!(entity, Entity::Customer(_)).then_some(Before::Customer(0));
        };
        Some(match &*state {
            State::Session(session) => Before::Session(session.map()),
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
            State::Venue(_) | State::Directory(_) | State::Cluster(_) => return None,
        })
    }

    /// What is different now that the turn is applied; `None` if nothing that is watched.
    pub(crate) fn commit(self, kept: &StateMap, entity: Entity) -> Option<Commit> {
        let state = kept.get(&entity)?;
        let to = state.version();
        let (from, to, news) = match (self, &*state) {
            (Before::Session(before), State::Session(session)) => {
                let after = session.map();
                let (seats, areas) = (changed_seats(&before, &after), changed_areas(&before, &after));
                (before.version, to, News::Session { seats, areas })
            }
            (Before::Version(from), State::Product(product)) => (from, to, News::Product(product.counts())),
            (Before::Version(from), State::Cart(cart)) => (from, to, News::Cart(Box::new(cart.view()?))),
            (Before::Resource(from, days), State::Resource(resource)) => {
                (from, to, News::Resource { days, bookings: resource.booked() })
            }
            (Before::Customer(from), State::Customer(customer)) => {
                let page = customer.purchases(from, PURCHASES_MAX).expect("as many as a page may have");
                (from, page.newest, News::Purchases(page.purchases))
            }
            (_, other) => panic!("{entity} has become something else: {other:?}"),
        };
        (from < to).then_some(Commit { entity, from, to, news })
    }
}

fn changed_seats(before: &MapView, after: &MapView) -> Vec<(u32, SeatState)> {
    let mut changes = Vec::new();
    for (byte, (was, is)) in before.seats.iter().zip(&after.seats).enumerate().filter(|(_, (was, is))| was != is) {
        for place in 0..4 {
            let state = |byte: u8| (byte >> (2 * place)) & 3;
            if state(*was) != state(*is) {
                let index = u32::try_from(4 * byte + place).expect("a layout has far fewer seats");
                changes.push((index, SEAT_STATES[usize::from(state(*is))]));
            }
        }
    }
    changes
}

fn changed_areas(before: &MapView, after: &MapView) -> Vec<AreaCounts> {
    before.areas.iter().zip(&after.areas).filter(|(was, is)| was != is).map(|(_, is)| is.clone()).collect()
}

//! Watchers. Each keeps a map of a session from a snapshot and the later changes, and nothing else (P14).

use std::collections::{BTreeMap, BTreeSet};

use boxoffice_core::{
    answer::{BookingView, MapView, Purchase},
    calendar::Slot,
    event::{Event, SessionEvent},
    id::{Entity, Id},
    resource::Resource,
    seat::SeatState,
    session::{Changed, Touched},
    state_map::{State, StateMap},
    time::{TIMESTAMP_MAX, Timestamp},
};

#[derive(Default)]
pub(crate) struct Watchers {
    maps: BTreeMap<Id, Watched>,
}

struct Watched {
    version: u64,
    seats: Vec<SeatState>,
}

impl Watchers {
    /// Restarts all watchers from these states.
    pub(crate) fn restart_from(&mut self, states: &StateMap) {
        self.maps.clear();
        for (entity, state) in states.entities() {
            if let (Entity::Session(id), State::Session(session)) = (entity, &**state) {
                let map = session.map();
                let seats = (0..session.layout().seats() as usize).map(|index| decode(&map.seats, index)).collect();
                self.maps.insert(id.clone(), Watched { version: map.version, seats });
            }
        }
    }

    /// Applies committed events, and compares with the session's own map.
    pub(crate) fn apply(&mut self, entity: &Entity, events: &[Event], states: &StateMap) {
        let Entity::Session(id) = entity else { return };
        let state = states.get(entity).expect("the entity exists");
        let State::Session(session) = &*state else { panic!("not a session") };
        for event in events {
            let Event::Session(event) = event else { panic!("{event:?} is not an event of a session") };
            if let SessionEvent::Opened(opening) = event {
                let seats = vec![SeatState::Free; opening.layout.seats() as usize];
                self.maps.insert(id.clone(), Watched { version: 0, seats });
            }
            let watched = self.maps.get_mut(id).expect("the session was opened before");
            watched.version += 1;
            // The terms say which seats an allotment keeps, so no event names them.
            if session.view().sale.as_ref().is_some_and(|sale| !sale.kept.is_empty()) {
                let map = session.map();
                watched.seats = (0..watched.seats.len()).map(|index| decode(&map.seats, index)).collect();
                continue;
            }
            let Some((state, seats)) = event.change() else { continue };
            for seat in seats {
                watched.seats[session.layout().index(*seat).expect("a seat of the session") as usize] = state;
            }
        }
        let watched = &self.maps[id];
        let map = session.map();
        let drawn: Vec<SeatState> = (0..watched.seats.len()).map(|index| decode(&map.seats, index)).collect();
        assert_eq!((watched.version, &watched.seats), (map.version, &drawn), "the watcher of {id} has another map");
        let counts = map.counts;
        let of = |state: SeatState| drawn.iter().filter(|seat| **seat == state).count() as u32;
        let counted = [SeatState::Free, SeatState::Held, SeatState::Sold, SeatState::Blocked].map(of);
        assert_eq!([counts.free, counts.held, counts.sold, counts.blocked], counted, "counters of {id} (P5)");
    }
}

/// A watched entity before a turn. It has both what its feed needs to find the change from the events, and everything, to compare.
pub(crate) enum WatchedBefore {
    Session { map: MapView, touched: Touched },
    Resource { bookings: Vec<BookingView>, days: BTreeSet<u32> },
    Customer { newest: u64, purchases: Vec<Purchase> },
}

impl WatchedBefore {
    /// The entity before these events. `None` if it begins with them, or its feed shows it as a whole.
    pub(crate) fn of(entity: &Entity, events: &[Event], states: &StateMap) -> Option<WatchedBefore> {
        Some(match &*states.get(entity)? {
            State::Session(session) => {
                let events = events.iter().map(|event| match event {
                    Event::Session(event) => event,
                    other => panic!("{other:?} is not an event of a session"),
                });
                WatchedBefore::Session { map: session.map(), touched: session.touched_by(events) }
            }
            State::Resource(resource) => {
                let slots = events.iter().flat_map(|event| match event {
                    Event::Resource(event) => resource.changed_by(event),
                    other => panic!("{other:?} is not an event of a resource"),
                });
                WatchedBefore::Resource { bookings: bookings(resource), days: slots.flat_map(Slot::days).collect() }
            }
            State::Customer(customer) => {
                let purchases = customer.purchases(0, 1_000).expect("a page").purchases;
                WatchedBefore::Customer { newest: customer.newest(), purchases }
            }
            State::Product(_) | State::Cart(_) | State::Venue(_) | State::Code(_) => return None,
            State::Directory(_) | State::Cluster(_) => return None,
        })
    }

    /// Compares the change found from the events with the difference between the whole states before and after.
    pub(crate) fn check_change(self, entity: &Entity, states: &StateMap) {
        match (self, &*states.get(entity).expect("the entity exists")) {
            (WatchedBefore::Session { map, touched }, State::Session(session)) => {
                let now = session.map();
                let seats = (0..session.layout().seats()).filter_map(|index| {
                    let [was, is] = [&map, &now].map(|map| decode(&map.seats, index as usize));
                    (was != is).then_some((index, is))
                });
                let areas = now.areas.iter().enumerate().filter(|(place, is)| map.areas.get(*place) != Some(is));
                let (seats, areas) = (seats.collect(), areas.map(|(_, is)| is.clone()).collect());
                let changed = Changed { seats, areas, sale: now.sale.filter(|sale| Some(*sale) != map.sale) };
                assert_eq!(session.changed_since(touched), changed, "the events of {entity} name other places");
            }
            (WatchedBefore::Resource { bookings: before, days }, State::Resource(resource)) => {
                let after = bookings(resource);
                let gone = before.iter().filter(|booking| !after.contains(booking));
                let come = after.iter().filter(|booking| !before.contains(booking));
                for BookingView { booking, begin, end, .. } in gone.chain(come) {
                    let changed = Slot::new(*begin, *end).expect("a booking").days();
                    let named = changed.clone().all(|day| days.contains(&day));
                    assert!(named, "{booking} of {entity} has changed on {changed:?}, the events name {days:?}");
                }
            }
            (WatchedBefore::Customer { newest, purchases: mut all }, State::Customer(customer)) => {
                all.extend(customer.purchases(newest, 1_000).expect("a page").purchases);
                let now = customer.purchases(0, 1_000).expect("a page").purchases;
                assert_eq!(all, now, "the purchases of {entity} after {newest}");
            }
            (_, other) => panic!("{entity} has become something else: {other:?}"),
        }
    }
}

fn bookings(resource: &Resource) -> Vec<BookingView> {
    resource.bookings(Timestamp(0), TIMESTAMP_MAX, 1_000, None).expect("a page")
}

fn decode(map: &[u8], index: usize) -> SeatState {
    match map[index / 4] >> (index % 4 * 2) & 3 {
        0 => SeatState::Free,
        1 => SeatState::Held,
        2 => SeatState::Sold,
        _ => SeatState::Blocked,
    }
}

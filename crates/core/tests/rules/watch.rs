//! Watchers. Each keeps a map of a session from a snapshot and the later changes, and nothing else (P14).

use std::collections::BTreeMap;

use boxoffice_core::{
    event::{Event, SessionEvent},
    id::{Entity, Id},
    seat::SeatState,
    state_map::{State, StateMap},
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

fn decode(map: &[u8], index: usize) -> SeatState {
    match map[index / 4] >> (index % 4 * 2) & 3 {
        0 => SeatState::Free,
        1 => SeatState::Held,
        2 => SeatState::Sold,
        _ => SeatState::Blocked,
    }
}

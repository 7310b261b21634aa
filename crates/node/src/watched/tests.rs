//! What a commit in a watched session costs, in halls of two sizes.

use std::{fmt::Write as _, hint::black_box, time::Instant};

use boxoffice_core::{
    event::{Event, SessionEvent},
    id::{CartId, HoldId, RequestHash},
    seat::{Seat, SeatState},
    state_map::StateMap,
    time::Timestamp,
};
use boxoffice_feeds::{Commit, FeedUpdate};
use stats_alloc::Region;

use super::Before;
use crate::costs::{ALLOCATOR, opened_in, session};

/// Rows, and seats a row.
const SMALL: (u16, u16) = (10, 20);
const LARGE: (u16, u16) = (400, 500);
/// A commit names this many seats.
const SEATS: u16 = 5;

/// A watched session in the memory of a replica.
struct Hall {
    kept: StateMap,
    number: u64,
}

/// The commits that are measured, in this order: a hold of an untouched session, its sale, another hold while a reader has the
/// state, and its release.
const COMMITS: [&str; 4] = ["first hold", "sale", "hold beside a reader", "release"];

impl Hall {
    fn new((rows, seats): (u16, u16)) -> Hall {
        let mut kept = StateMap::new();
        kept.advance(1);
        kept.apply(&session(), vec![opened_in(rows, seats)]);
        Hall { kept, number: 0 }
    }

    fn hold(&self) -> HoldId {
        HoldId { cart: CartId(u128::from(self.number)), request: RequestHash(self.number), part: 0, attempt: 0 }
    }

    fn seats(&self) -> Vec<Seat> {
        (0..SEATS).map(|seat| Seat { row: 7, seat: seat * 3 }).collect()
    }

    fn held(&mut self) -> SessionEvent {
        self.number += 1;
        let deadline = Timestamp(1_000_000);
        SessionEvent::SeatsHeld {
            hold: self.hold(),
            revision: 1,
            want_hash: 1,
            seats: self.seats(),
            deadline,
            charge: None,
            prices: None,
            customer: None,
        }
    }

    fn sold(&self) -> SessionEvent {
        let (hold, at) = (self.hold(), Timestamp(1_000));
        SessionEvent::SeatsSold { hold, seats: self.seats(), order: hold.cart.order(), at, freed_at: None }
    }

    fn refunded(&self) -> SessionEvent {
        SessionEvent::SaleRefunded { hold: self.hold(), seats: self.seats() }
    }

    fn released(&self) -> SessionEvent {
        let (hold, seats) = (self.hold(), self.seats());
        SessionEvent::SeatsReleased { hold, revision: 2, seats, remember: false, expired: false, freed_at: None }
    }

    /// What the replication does with a turn of a watched entity.
    fn commit(&mut self, event: SessionEvent) -> Commit {
        let (entity, events) = (session(), vec![Event::Session(event)]);
        let before = Before::of(&self.kept, &entity, &events).expect("the session is watched");
        self.kept.apply(&entity, events);
        before.commit(&self.kept, entity).expect("its version is a later one")
    }

    /// The number of allocations and of bytes of each of the [`COMMITS`].
    fn allocations(&mut self) -> [(usize, usize); 4] {
        let count = |hall: &mut Hall, event: SessionEvent, state: SeatState| {
            let region = Region::new(ALLOCATOR);
            let commit = black_box(hall.commit(event));
            let change = region.change();
            let FeedUpdate::Session { seats, areas, .. } = commit.update else { panic!("{commit:?}") };
            assert!(seats.len() == usize::from(SEATS) && seats.iter().all(|(_, now)| *now == state), "{seats:?}");
            assert!(areas.is_empty(), "{areas:?}");
            (change.allocations + change.reallocations, change.bytes_allocated)
        };
        let event = self.held();
        let first = count(self, event, SeatState::Held);
        let event = self.sold();
        let sale = count(self, event, SeatState::Sold);
        let event = self.refunded();
        self.commit(event);
        let event = self.held();
        let reader = self.kept.get(&session());
        let beside = count(self, event, SeatState::Held);
        drop(reader);
        let event = self.released();
        let release = count(self, event, SeatState::Free);
        [first, sale, beside, release]
    }

    /// The fewest allocations and bytes of some runs, each of a new session. Other tests of this process allocate as well.
    fn fewest(size: (u16, u16)) -> [(usize, usize); 4] {
        let mut fewest = [(usize::MAX, usize::MAX); 4];
        for _ in 0..20 {
            for (fewest, found) in fewest.iter_mut().zip(Hall::new(size).allocations()) {
                *fewest = (fewest.0.min(found.0), fewest.1.min(found.1));
            }
        }
        fewest
    }
}

/// The commits that allocate more in the large hall, in words.
fn growing() -> String {
    let (small, large) = (Hall::fewest(SMALL), Hall::fewest(LARGE));
    let mut growing = String::new();
    for ((what, small), large) in COMMITS.into_iter().zip(small).zip(large) {
        println!("{what}: (allocations, bytes) {small:?} in a small hall, {large:?} in a large one");
        // Chunks of a set of seats have at most 512 bytes each, and references to them 8.
        if large.0 > small.0 || large.1 > small.1 + 4_096 {
            writeln!(growing, "{what}: {small:?}, {large:?}").expect("memory is written");
        }
    }
    growing
}

#[test]
fn a_commit_in_a_watched_session_allocates_as_much_in_every_hall() {
    assert_eq!(growing(), "");
    #[cfg(debug_assertions)]
    {
        let growing = crate::planting::with_planted("a map built at each commit", growing);
        assert!(growing.lines().count() == COMMITS.len(), "{growing}");
    }
}

/// Prints the time of a commit in both halls. `cargo test --release -p boxoffice-node --lib watched -- --ignored --nocapture`.
#[test]
#[ignore = "measures time"]
#[expect(clippy::disallowed_methods, reason = "it measures time and tests nothing")]
fn time_of_a_commit() {
    const COMMITS: u32 = 2_000;
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let mut halls = [Hall::new(SMALL), Hall::new(LARGE)];
    let mut all = [Vec::new(), Vec::new()];
    // In turns, because the machine's speed changes.
    for _ in 0..41 {
        for (hall, all) in halls.iter_mut().zip(&mut all) {
            let begun = Instant::now();
            for _ in 0..COMMITS / 2 {
                let event = hall.held();
                black_box(hall.commit(event));
                let event = hall.released();
                black_box(hall.commit(event));
            }
            all.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(COMMITS));
        }
    }
    let [small, large] = all.map(median);
    println!("a commit in a watched session: {small:.2} µs with 200 seats, {large:.2} µs with 200 000");
    let begun = Instant::now();
    let state = halls[1].kept.get(&session());
    let map = state.as_deref().and_then(super::beginning);
    println!("the initial state of 200 000 seats: {:.0} µs", begun.elapsed().as_secs_f64() * 1e6);
    assert!(map.is_some());
}

//! The published state of a session, whole or as counts.

use boxoffice_core::{
    answer::{MapView, SeatCounts},
    id::Entity,
    seat::SeatState,
};
use boxoffice_wire::feed::{CountsDelta, CountsSnapshot, Delta, Snapshot};

use super::{FeedUpdate, publisher::PublishedState};

/// Bytes of a seat in a delta, of an area, and of a snapshot besides its seats and areas, about.
const SEAT_BYTES: usize = 14;
const AREA_BYTES: usize = 60;
const SNAPSHOT_BYTES: usize = 140;

/// A seat map at a published version, with its counts.
pub(super) struct SessionState {
    map: MapView,
    seats: u32,
}

impl SessionState {
    pub(super) fn new(map: MapView) -> SessionState {
        let SeatCounts { free, held, sold, blocked } = map.counts;
        let seats = free + held + sold + blocked;
        assert!(
            map.seats.len() == (seats as usize).div_ceil(4),
            "the map of {} has {} bytes for {seats} seats",
            map.session,
            map.seats.len(),
        );
        SessionState { map, seats }
    }

    fn change(&mut self, seat: u32, state: SeatState) {
        assert!(seat < self.seats, "seat {seat} of {} is beyond its {} seats", self.map.session, self.seats);
        let before = self.state(seat);
        if before == state {
            return;
        }
        *count(&mut self.map.counts, before) -= 1;
        *count(&mut self.map.counts, state) += 1;
        let (byte, shift) = place(seat);
        self.map.seats[byte] = self.map.seats[byte] & !(3 << shift) | (state as u8) << shift;
    }

    fn state(&self, seat: u32) -> SeatState {
        let (byte, shift) = place(seat);
        match self.map.seats[byte] >> shift & 3 {
            0 => SeatState::Free,
            1 => SeatState::Held,
            2 => SeatState::Sold,
            _ => SeatState::Blocked,
        }
    }
}

impl PublishedState for SessionState {
    type Snapshot = Snapshot;

    const IS_SMALL: bool = false;
    /// Changed seats and areas in all deltas.
    const WEIGHT_MAX: usize = 65_536;

    fn version(&self) -> u64 {
        self.map.version
    }

    fn snapshot_entries(&self) -> usize {
        (SNAPSHOT_BYTES + self.map.seats.len() * 4 / 3 + self.map.areas.len() * AREA_BYTES) / SEAT_BYTES
    }

    fn apply(&mut self, to: u64, update: FeedUpdate) -> Option<(Delta, usize)> {
        let FeedUpdate::Session { seats: changes, areas, sale } = update else {
            panic!("a session is told {update:?}")
        };
        for (seat, state) in &changes {
            self.change(*seat, *state);
        }
        for area in &areas {
            match self.map.areas.iter_mut().find(|mine| mine.area == area.area) {
                Some(mine) => mine.clone_from(area),
                // The session has got another one.
                None => self.map.areas.push(area.clone()),
            }
        }
        self.map.sale = sale.or(self.map.sale);
        let from = std::mem::replace(&mut self.map.version, to);
        let weight = changes.len() + areas.len();
        Some((Delta { from, to, changes, counts: self.map.counts, areas, sale }, weight))
    }

    fn snapshot(&self, entity: &Entity, epoch: u64) -> Snapshot {
        Snapshot {
            entity: entity.clone(),
            epoch,
            version: self.map.version,
            counts: self.map.counts,
            areas: self.map.areas.clone(),
            seats: self.map.seats.clone(),
            sale: self.map.sale,
        }
    }
}

/// A session of which watchers see only the counts. The seats are needed to update them.
pub(super) struct SessionCounts(pub(super) SessionState);

impl PublishedState for SessionCounts {
    type Snapshot = CountsSnapshot;

    const IS_SMALL: bool = true;
    const WEIGHT_MAX: usize = usize::MAX;

    fn version(&self) -> u64 {
        self.0.version()
    }

    fn apply(&mut self, to: u64, update: FeedUpdate) -> Option<(CountsDelta, usize)> {
        let (Delta { from, to, counts, areas, sale, .. }, _) = self.0.apply(to, update)?;
        Some((CountsDelta { from, to, counts, areas, sale }, 0))
    }

    fn snapshot(&self, entity: &Entity, epoch: u64) -> CountsSnapshot {
        let MapView { version, counts, areas, sale, .. } = &self.0.map;
        let (version, counts, areas, sale) = (*version, *counts, areas.clone(), *sale);
        CountsSnapshot { entity: entity.clone(), epoch, version, counts, areas, sale }
    }
}

/// The byte of a seat's two bits, and their shift.
fn place(seat: u32) -> (usize, u32) {
    ((seat / 4) as usize, seat % 4 * 2)
}

fn count(counts: &mut SeatCounts, state: SeatState) -> &mut u32 {
    match state {
        SeatState::Free => &mut counts.free,
        SeatState::Held => &mut counts.held,
        SeatState::Sold => &mut counts.sold,
        SeatState::Blocked => &mut counts.blocked,
    }
}

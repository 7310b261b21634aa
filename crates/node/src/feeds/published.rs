//! A session's map as the hub has published it.

use boxoffice_core::{
    answer::{MapView, SeatCounts},
    seat::SeatState,
};

/// A seat map at a published version, with its counts.
pub(super) struct Published {
    map: MapView,
    seats: u32,
}

impl Published {
    /// The map a feed begins with.
    pub(super) fn new(map: MapView) -> Published {
        let SeatCounts { free, held, sold, blocked } = map.counts;
        let seats = free + held + sold + blocked;
        assert!(
            map.seats.len() == (seats as usize).div_ceil(4),
            "the map of {} has {} bytes for {seats} seats",
            map.session,
            map.seats.len(),
        );
        Published { map, seats }
    }

    /// The map.
    pub(super) fn map(&self) -> &MapView {
        &self.map
    }

    /// The version of the map.
    pub(super) fn version(&self) -> u64 {
        self.map.version
    }

    /// Makes the map the one at version `to`; what stays of `changes` are seats that are different now.
    pub(super) fn apply(&mut self, to: u64, changes: &mut Vec<(u32, SeatState)>) {
        changes.retain(|(seat, state)| {
            assert!(*seat < self.seats, "seat {seat} of {} is beyond its {} seats", self.map.session, self.seats);
            let before = self.state(*seat);
            if before == *state {
                return false;
            }
            *count(&mut self.map.counts, before) -= 1;
            *count(&mut self.map.counts, *state) += 1;
            let (byte, shift) = place(*seat);
            self.map.seats[byte] = self.map.seats[byte] & !(3 << shift) | (*state as u8) << shift;
            true
        });
        self.map.version = to;
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

/// Where the two bits of a seat are: which byte, shifted by how much.
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

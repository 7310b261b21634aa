//! The bookings by UTC day. A booking has a piece on every day it touches, so a search looks only at the days of its window. A
//! free day has no entry.

use core::ops::Bound;

use super::{
    BookingKey,
    slot::{Slot, day_of},
};
use crate::{id::HoldId, shared_map::SharedMap, time::Timestamp};

/// The pieces of all days. Each knows the whole slot of its booking, so no window can see less of it than another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Days(SharedMap<Piece, Slot>);

/// A booking's piece on a day. Within a day they are in the order of the bookings' beginnings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    day: u32,
    begin: Timestamp,
    key: BookingKey,
}

impl Piece {
    /// A bound after every piece of that day whose booking begins up to that instant.
    fn behind(day: u32, begin: Timestamp) -> Piece {
        Piece { day, begin, key: BookingKey::Hold(HoldId::LAST) }
    }
}

impl Days {
    /// Gives a booking its pieces.
    pub(super) fn insert(&mut self, key: &BookingKey, slot: Slot) {
        for day in slot.days() {
            let before = self.0.insert(Piece { day, begin: slot.begin(), key: key.clone() }, slot);
            assert_eq!(before, None, "{key} has two pieces on day {day}");
        }
    }

    /// Removes every piece of a booking on all its days (CAL trap).
    pub(super) fn remove(&mut self, key: &BookingKey, slot: Slot) {
        let mut piece = Piece { day: 0, begin: slot.begin(), key: key.clone() };
        for day in slot.days() {
            piece.day = day;
            assert_eq!(self.0.remove(&piece), Some(slot), "{key} has lost its piece on day {day}");
        }
    }

    /// How many pieces there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bookings that overlap `[from, to)`, each once, in the order of beginning, then key.
    pub(super) fn overlapping(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = (&BookingKey, Slot)> {
        let first = day_of(from);
        let lower = match first.checked_sub(1) {
            Some(day) => Bound::Excluded(Piece::behind(day, Timestamp(u64::MAX))),
            None => Bound::Unbounded,
        };
        let last = Timestamp(to.0.saturating_sub(1));
        let upper = Bound::Included(Piece::behind(day_of(last), last));
        let pieces = self.0.range((lower, upper)).filter(move |_| from < to);
        // The first day is searched completely. On later days only bookings that begin there are new.
        pieces.filter_map(move |(piece, slot)| {
            let fresh = piece.day == first || piece.day == day_of(piece.begin);
            (fresh && slot.end() > from && slot.begin() < to).then_some((&piece.key, *slot))
        })
    }

    /// Bytes on the heap, without those of long ids.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

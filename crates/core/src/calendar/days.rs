//! The bookings by beginning, and by the later UTC days that they touch. So a search looks only at the days of its window, and a
//! page continues where the one before it ended. A free day has no entry.

use core::ops::Bound;

use super::{
    BookingName,
    slot::{DAY_MS, Slot, day_of},
};
use crate::{shared_map::SharedMap, time::Timestamp};

/// The pieces of all days. Each knows the whole slot of its booking, so no window can see less of it than another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Days {
    /// Every booking at its beginning.
    begun: SharedMap<(Timestamp, BookingName), Slot>,
    /// The pieces on later days.
    carried: SharedMap<Piece, Slot>,
}

/// A booking's piece on a day after its first. Within a day they are in the order of the bookings' beginnings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    day: u32,
    begin: Timestamp,
    name: BookingName,
}

impl Days {
    /// Gives a booking its pieces.
    pub(super) fn insert(&mut self, name: &BookingName, slot: Slot) {
        for day in slot.days().skip(1) {
            let before = self.carried.insert(Piece { day, begin: slot.begin(), name: name.clone() }, slot);
            assert_eq!(before, None, "{name} has two pieces on day {day}");
        }
        let before = self.begun.insert((slot.begin(), name.clone()), slot);
        assert_eq!(before, None, "{name} begins twice");
    }

    /// Removes every piece of a booking on all its days (CAL trap).
    pub(super) fn remove(&mut self, name: &BookingName, slot: Slot) {
        let mut piece = Piece { day: 0, begin: slot.begin(), name: name.clone() };
        for day in slot.days().skip(1) {
            piece.day = day;
            assert_eq!(self.carried.remove(&piece), Some(slot), "{name} has lost its piece on day {day}");
        }
        let first = self.begun.remove(&(slot.begin(), piece.name));
        assert_eq!(first, Some(slot), "{name} has lost its beginning");
    }

    /// How many pieces there are.
    pub(super) fn len(&self) -> usize {
        self.begun.len() + self.carried.len()
    }

    /// The bookings that overlap `[from, to)`, each once, in the order of beginning, then name. With `after` they are those after
    /// that beginning and name.
    pub(super) fn overlapping(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<&(Timestamp, BookingName)>,
    ) -> impl Iterator<Item = (&BookingName, Slot)> {
        let day = day_of(from);
        let midnight = Timestamp(u64::from(day) * DAY_MS);
        let name = BookingName::first();
        let first = Piece { day, begin: Timestamp(0), name: name.clone() };
        let next_day = Piece { day: day + 1, begin: Timestamp(0), name: name.clone() };
        let (lower_carried, lower_begun) = match after {
            None => (Bound::Included(first), Bound::Included((midnight, name.clone()))),
            Some((begin, last)) => {
                let carried = Bound::Excluded(Piece { day, begin: *begin, name: last.clone() });
                let begun = (*begin >= midnight).then(|| Bound::Excluded((*begin, last.clone())));
                (carried, begun.unwrap_or_else(|| Bound::Included((midnight, name.clone()))))
            }
        };
        let carried = self.carried.range((lower_carried, Bound::Excluded(next_day)));
        let begun = self.begun.range((lower_begun, Bound::Excluded((to, name))));
        let carried = carried.map(|(piece, slot)| (&piece.name, *slot));
        let begun = begun.map(|((_, name), slot)| (name, *slot));
        // What is carried into the first day has begun before everything that begins on it or later.
        carried.chain(begun).filter(move |(_, slot)| from < to && slot.end() > from && slot.begin() < to)
    }

    /// Bytes on the heap, without those of long ids.
    pub(super) fn heap_bytes(&self) -> usize {
        self.begun.heap_bytes() + self.carried.heap_bytes()
    }
}

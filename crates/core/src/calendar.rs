//! The calendar of a bookable resource: its live bookings, sparse, by UTC day; and the words around them: slots, hours,
//! zones, recurrence, free slots.
//!
//! Pure data and functions. An instant without a booking is free; intervals are half-open, so bookings may touch.

// In reading order: an interval, how they are kept and counted, local time, the terms of a resource, the searches.
mod slot;

mod days;
mod profile;

mod civil;
mod date;
mod zone;

mod hours;
mod terms;

mod audit;
mod free;
mod repeat;

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error, ser::SerializeSeq};
use smol_str::{SmolStr, format_smolstr};

pub use self::{
    civil::Civil,
    date::{Date, Weekday, Weekdays},
    free::{FREE_SLOTS_MAX, FreeSearch},
    hours::{EXCEPTIONS_MAX, Hours, OPEN_TIMES_MAX, OpenTime},
    repeat::{Frequency, INTERVAL_MAX, Missed, OCCURRENCES_MAX, Repeat, Until, occurrences},
    slot::{Buffers, SLOT_SPAN_MAX_MS, Slot},
    terms::{BUFFER_MAX_MS, CAPACITY_MAX, SlotRefusal, Terms},
    zone::{CivilError, Zone},
};
use self::{
    days::Days,
    profile::{Level, Profile},
};
use crate::{
    id::{HoldId, Id},
    shared_map::SharedMap,
    time::Timestamp,
};

/// What a booking is called. Its details are kept elsewhere; the calendar keeps name and slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BookingKey {
    /// Booked under an id of the client's.
    Named(Id),
    /// Held by, or sold to, a cart.
    Hold(HoldId),
}

impl BookingKey {
    /// Bytes on the heap: none unless it is a long id.
    fn heap_bytes(&self) -> usize {
        match self {
            BookingKey::Named(id) => id.heap_bytes(),
            BookingKey::Hold(_) => 0,
        }
    }
}

impl fmt::Display for BookingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BookingKey::Named(id) => write!(f, "booking/{id}"),
            BookingKey::Hold(HoldId { cart, request, part, attempt }) => {
                write!(f, "hold/{cart}/{:016x}/{part}/{attempt}", request.0)
            }
        }
    }
}

impl BookingKey {
    /// The name that clients are told: the booking's own id, or the text that names the hold.
    pub fn text(&self) -> SmolStr {
        match self {
            BookingKey::Named(id) => SmolStr::new(id.as_str()),
            BookingKey::Hold(_) => format_smolstr!("{self}"),
        }
    }
}

/// The live bookings of one resource. Copies share what they have in common.
///
/// Serialized it is the list of bookings; the pieces by day are made again when it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calendar {
    bookings: SharedMap<BookingKey, Slot>,
    days: Days,
}

impl Calendar {
    /// Nothing booked.
    pub fn new() -> Calendar {
        Calendar::default()
    }

    /// How many bookings there are.
    pub fn len(&self) -> usize {
        self.bookings.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bookings.is_empty()
    }

    /// When a booking is.
    pub fn slot_of(&self, key: &BookingKey) -> Option<Slot> {
        self.bookings.get(key).copied()
    }

    /// The bookings that overlap `[from, to)`, each once, in the order of beginning, then key.
    pub fn bookings(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = (&BookingKey, Slot)> {
        self.days.overlapping(from, to)
    }

    /// Whether a slot can be booked beside what is booked, `except` left out (the booking that is moved).
    ///
    /// # Panics
    /// If the capacity is zero.
    pub fn fits(&self, slot: Slot, except: Option<&BookingKey>, capacity: u32, buffers: Buffers) -> bool {
        self.full(slot, except, capacity, buffers).next().is_none()
    }

    /// The bookings that stand in the way of a slot, in the order of beginning, then key: those that are there at an
    /// instant of it, buffers included, at which there are as many as there may be. None if it fits.
    ///
    /// # Panics
    /// If the capacity is zero.
    pub fn conflicts(
        &self,
        slot: Slot,
        except: Option<&BookingKey>,
        capacity: u32,
        buffers: Buffers,
    ) -> Vec<(BookingKey, Slot)> {
        let full: Vec<Level> = self.full(slot, except, capacity, buffers).collect();
        if full.is_empty() {
            return Vec::new();
        }
        let stands_in_the_way = |booked: Slot| {
            let (begin, end) = widened(booked, buffers);
            let next = full.partition_point(|level| level.end <= begin);
            full.get(next).is_some_and(|level| level.begin < end)
        };
        let beside = self.beside(slot, except, buffers).filter(|(_, booked)| stands_in_the_way(*booked));
        beside.map(|(key, booked)| (key.clone(), booked)).collect()
    }

    /// Writes a booking. It was found to fit before, so it cannot fail.
    ///
    /// # Panics
    /// If the key is in use, the slot is longer than [`SLOT_SPAN_MAX_MS`], or more than `capacity` would be booked at
    /// an instant of it.
    pub fn insert(&mut self, key: BookingKey, slot: Slot, capacity: u32, buffers: Buffers) {
        assert!(self.fits(slot, None, capacity, buffers), "{key} is booked over others: {slot:?}");
        self.put(key, slot);
    }

    /// Takes a booking out, on all its days; when it was.
    pub fn remove(&mut self, key: &BookingKey) -> Option<Slot> {
        let slot = self.bookings.remove(key)?;
        self.days.remove(key, slot);
        Some(slot)
    }

    /// Gives a booking another name, say when what was held is sold. It takes no time that was free, so it is not asked
    /// whether it fits: the terms may have become narrower since it was booked.
    ///
    /// # Panics
    /// If there is no such booking, or the new name is in use.
    pub fn rename(&mut self, from: &BookingKey, to: BookingKey) {
        let slot = self.remove(from).unwrap_or_else(|| panic!("{from} is renamed and is not booked"));
        self.put(to, slot);
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        // A long id is shared by a booking and its pieces.
        let ids: usize = self.bookings.keys().map(BookingKey::heap_bytes).sum();
        self.bookings.heap_bytes() + self.days.heap_bytes() + ids
    }

    fn put(&mut self, key: BookingKey, slot: Slot) {
        assert!(slot.length_ms() <= SLOT_SPAN_MAX_MS, "{key} is booked for too long: {slot:?}");
        assert_eq!(self.slot_of(&key), None, "{key} is in use");
        self.days.insert(&key, slot);
        self.bookings.insert(key, slot);
    }

    /// The bookings near enough to a slot to matter, in the order of beginning.
    fn beside(
        &self,
        slot: Slot,
        except: Option<&BookingKey>,
        buffers: Buffers,
    ) -> impl Iterator<Item = (&BookingKey, Slot)> {
        let gap_ms = buffers.gap_ms();
        let from = Timestamp(slot.begin().0.saturating_sub(gap_ms));
        let to = Timestamp(slot.end().0.saturating_add(gap_ms));
        self.bookings(from, to).filter(move |(key, _)| Some(*key) != except)
    }

    /// Where in a slot there are as many bookings as there may be.
    fn full(
        &self,
        slot: Slot,
        except: Option<&BookingKey>,
        capacity: u32,
        buffers: Buffers,
    ) -> impl Iterator<Item = Level> {
        assert!(capacity > 0, "a resource has room for one booking at least");
        let (from, to) = widened(slot, buffers);
        let within = self.beside(slot, except, buffers).map(move |(_, booked)| {
            let (begin, end) = widened(booked, buffers);
            (begin.max(from), end.min(to))
        });
        Profile::new(within).filter(move |level| level.count >= capacity as usize)
    }
}

/// A slot with its buffers. Both are put behind it: two slots are then as far from each other as with one on either
/// side, and nothing begins before time does.
fn widened(slot: Slot, buffers: Buffers) -> (u64, u64) {
    (slot.begin().0, slot.end().0.saturating_add(buffers.gap_ms()))
}

impl Serialize for Calendar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.bookings.len()))?;
        self.bookings.iter().try_for_each(|booking| seq.serialize_element(&booking))?;
        seq.end()
    }
}

impl<'de> Deserialize<'de> for Calendar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Calendar, D::Error> {
        let mut calendar = Calendar::new();
        for (key, slot) in Vec::<(BookingKey, Slot)>::deserialize(deserializer)? {
            if calendar.slot_of(&key).is_some() {
                return Err(D::Error::custom(format_args!("{key} is booked twice")));
            }
            if slot.length_ms() > SLOT_SPAN_MAX_MS {
                return Err(D::Error::custom(format_args!("{key} is booked for too long")));
            }
            calendar.put(key, slot);
        }
        Ok(calendar)
    }
}

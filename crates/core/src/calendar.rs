//! The calendar of a bookable resource. It has the live bookings by UTC day, with slots, hours, zones, recurrence and free slots.
//!
//! It is pure data and functions. An instant without a booking is free. Intervals are half-open, so bookings may touch.

// In reading order: an interval, what bookings are called, how intervals are kept and counted, local time, the terms of a resource, the searches.
mod slot;

mod name;

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

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

pub use self::{
    civil::Civil,
    date::{Date, Weekday, Weekdays},
    free::{FREE_SLOTS_MAX, FreeSearch},
    hours::{EXCEPTIONS_MAX, Hours, OPEN_TIMES_MAX, OpenTime},
    name::{BookingName, CART_BOOKING_PREFIX, CartBookingName, is_reserved},
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
    stored::{Decode, Encode, Error, Reader, Schema, Shape, Writer},
    time::Timestamp,
};

/// A time in UTC, as in `2026-12-24T19:30Z`.
pub(crate) fn instant(at: &Timestamp) -> SmolStr {
    Zone::utc().civil(*at).map_or_else(|| format_smolstr!("{} ms", at.0), |local| format_smolstr!("{local}Z"))
}

/// What a booking belongs to. Clients see its [`BookingName`] instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
pub enum BookingKey {
    /// Booked under an id that the client chose.
    #[n(0)]
    Named(#[n(0)] Id),
    /// Held by, or sold to, a cart.
    #[n(1)]
    Hold(#[n(0)] HoldId),
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

/// The live bookings of one resource by public name. Copies share their common parts.
///
/// It is serialized as the list of bookings by key. Reading it computes the names of holds, and builds the pieces by day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calendar {
    bookings: SharedMap<BookingName, Slot>,
    days: Days,
    /// The hold behind each name of a cart's booking.
    holds: SharedMap<CartBookingName, HoldId>,
}

impl Calendar {
    /// A calendar without bookings.
    pub fn new() -> Calendar {
        Calendar::default()
    }

    /// How many bookings there are.
    pub fn len(&self) -> usize {
        self.bookings.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.bookings.is_empty()
    }

    /// The slot of a booking.
    pub fn slot_of(&self, name: &BookingName) -> Option<Slot> {
        self.bookings.get(name).copied()
    }

    /// The hold that this booking belongs to.
    pub fn hold_of(&self, name: &CartBookingName) -> Option<HoldId> {
        self.holds.get(name).copied()
    }

    /// The bookings that overlap `[from, to)`, each once, in the order of beginning, then name.
    pub fn bookings(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = (&BookingName, Slot)> {
        self.days.overlapping(from, to, None)
    }

    /// The same bookings, from the first on that is after this beginning and name. It need not exist.
    pub fn bookings_after(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: &(Timestamp, BookingName),
    ) -> impl Iterator<Item = (&BookingName, Slot)> {
        self.days.overlapping(from, to, Some(after))
    }

    /// Whether a slot can be booked beside the other bookings. `except` is the booking that is moved.
    ///
    /// # Panics
    /// If the capacity is zero.
    pub fn fits(&self, slot: Slot, except: Option<&BookingName>, capacity: u32, buffers: Buffers) -> bool {
        self.full(slot, except, capacity, buffers).next().is_none()
    }

    /// The bookings that conflict with a slot, by begin, then name. They are those that overlap an instant of the slot at which
    /// the capacity is used up, buffers included. None if the slot fits.
    ///
    /// # Panics
    /// If the capacity is zero.
    pub fn conflicts(
        &self,
        slot: Slot,
        except: Option<&BookingName>,
        capacity: u32,
        buffers: Buffers,
    ) -> Vec<(BookingName, Slot)> {
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
        beside.map(|(name, booked)| (name.clone(), booked)).collect()
    }

    /// Writes a booking. It was found to fit before, so it cannot fail.
    ///
    /// # Panics
    /// If the key is in use, or more than `capacity` would be booked at an instant of the slot.
    pub fn insert(&mut self, key: &BookingKey, slot: Slot, capacity: u32, buffers: Buffers) {
        assert!(self.fits(slot, None, capacity, buffers), "{key} is booked over others: {slot:?}");
        self.put(key, slot);
    }

    /// Removes a booking from all its days, and returns its slot.
    pub fn remove(&mut self, name: &BookingName) -> Option<Slot> {
        let slot = self.bookings.remove(name)?;
        self.days.remove(name, slot);
        if let BookingName::Cart(name) = name {
            assert!(self.holds.remove(name).is_some(), "{name} has lost its hold");
        }
        Some(slot)
    }

    /// Renames a booking, for example when a held slot is sold. It takes no free time, so it need not fit the terms, which may be
    /// narrower by now.
    ///
    /// # Panics
    /// If there is no such booking, or the new name is in use.
    pub fn rename(&mut self, from: &BookingName, to: &BookingKey) {
        let slot = self.remove(from).unwrap_or_else(|| panic!("{from} is renamed and is not booked"));
        self.put(to, slot);
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        // A long id is shared by a booking and its pieces.
        let ids: usize = self.bookings.keys().map(BookingName::heap_bytes).sum();
        self.bookings.heap_bytes() + self.days.heap_bytes() + self.holds.heap_bytes() + ids
    }

    fn put(&mut self, key: &BookingKey, slot: Slot) {
        let name = key.name();
        assert_eq!(self.slot_of(&name), None, "{key} is in use");
        if let (BookingKey::Hold(hold), BookingName::Cart(name)) = (key, &name) {
            self.holds.insert(*name, *hold);
        }
        self.days.insert(&name, slot);
        self.bookings.insert(name, slot);
    }

    /// The bookings that may conflict with a slot, by begin.
    fn beside(
        &self,
        slot: Slot,
        except: Option<&BookingName>,
        buffers: Buffers,
    ) -> impl Iterator<Item = (&BookingName, Slot)> {
        let gap_ms = buffers.gap_ms();
        let from = Timestamp(slot.begin().0.saturating_sub(gap_ms));
        let to = Timestamp(slot.end().0.saturating_add(gap_ms));
        self.bookings(from, to).filter(move |(name, _)| Some(*name) != except)
    }

    /// The parts of a slot at which the capacity is used up.
    fn full(
        &self,
        slot: Slot,
        except: Option<&BookingName>,
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

/// A slot with its buffers. Both buffers are added after it. Two slots are then as far apart as with one buffer on each side, and
/// no slot begins before the beginning of time.
fn widened(slot: Slot, buffers: Buffers) -> (u64, u64) {
    (slot.begin().0, slot.end().0.saturating_add(buffers.gap_ms()))
}

impl Encode for Calendar {
    fn encode(&self, out: &mut Writer) {
        out.list(self.bookings.len());
        for (name, slot) in self.bookings.iter() {
            let key = match name {
                BookingName::Named(id) => BookingKey::Named(id.clone()),
                BookingName::Cart(name) => {
                    BookingKey::Hold(self.hold_of(name).expect("every name of a hold is indexed"))
                }
            };
            (key, *slot).encode(out);
        }
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Decode for Calendar {
    fn shape(schema: &mut Schema) -> Shape {
        Vec::<(BookingKey, Slot)>::shape(schema)
    }

    fn decode(from: &mut Reader<'_>) -> Result<Calendar, Error> {
        let mut calendar = Calendar::new();
        for (key, slot) in Vec::<(BookingKey, Slot)>::decode(from)? {
            if matches!(&key, BookingKey::Named(id) if is_reserved(id)) {
                return Err(Error::message(format_args!("{key} has the name of a hold")));
            }
            if calendar.slot_of(&key.name()).is_some() {
                return Err(Error::message(format_args!("{key} is booked twice")));
            }
            calendar.put(&key, slot);
        }
        Ok(calendar)
    }

    fn absent() -> Option<Calendar> {
        Some(Calendar::new())
    }
}

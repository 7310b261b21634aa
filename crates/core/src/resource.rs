//! A resource, which is booked by time, and its bookings.
//!
//! [`Resource::apply`] writes. `hold` decides about the holds of carts, and `booking` about bookings without a cart. `place`
//! has the terms from the details, and `view` shows the resource. The calendar has names and times only. The details of a
//! booking are in a record beside it.

mod booking;
mod hold;
mod place;
mod view;

#[cfg(test)]
mod tests;

use alloc::{sync::Arc, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{
    answer::{Answer, KeptAnswer, ResourceView},
    calendar::{BookingKey, BookingName, Buffers, Calendar, Slot},
    changes::Changes,
    command::ResourceDetails,
    event::ResourceEvent,
    fairness::Amount,
    holds::{Hold, Holds, Refunded},
    id::{HoldId, Id, Request, RequestHash},
    memory::Memory,
    portion::Portion,
    refusal::Refusal,
    shared_map::{SharedMap, SharedSet},
    time::Timestamp,
};

use place::Place;

/// The state of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Resource {
    #[n(0)]
    id: Id,
    #[n(1)]
    version: u64,
    #[n(2)]
    details: Arc<ResourceDetails>,
    #[n(3)]
    calendar: Calendar,
    #[n(4)]
    holds: Holds<Time>,
    #[n(8)]
    notes: SharedMap<Id, Note>,
    /// Holds and sales that operators canceled and whose carts have not released or refunded them yet.
    #[n(9)]
    revoked: SharedSet<HoldId>,
    #[n(5)]
    memory: Memory,
    /// Each with the number of bookings then.
    #[n(6)]
    puts: Changes<u64>,
    #[n(7)]
    widest: Width,
    /// Follows from the details.
    #[stored(skip = Place::unset)]
    place: Arc<Place>,
    /// Series and bookings of each. Follows from the notes.
    #[stored(skip)]
    series: SharedSet<(Id, Id)>,
}

/// The content of one hold.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
struct Time {
    #[n(0)]
    slot: Slot,
    /// The price of the whole slot in minor units, captured when it was held.
    #[n(1)]
    price: i64,
    #[n(2)]
    details: SmolStr,
}

/// The details of a booking that was made without a cart.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
struct Note {
    #[n(0)]
    details: SmolStr,
    #[n(1)]
    series: Option<Id>,
}

/// The widest terms since the calendar was last empty. The current terms may be narrower than those of existing bookings, which
/// stay when the terms change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
struct Width {
    #[n(0)]
    capacity: u32,
    #[n(1)]
    gap_ms: u64,
}

impl Amount for Time {
    fn amount(&self) -> u32 {
        1
    }
}

impl Time {
    fn portion(&self) -> Portion {
        Portion::Slot { begin: self.slot.begin(), end: self.slot.end() }
    }
}

impl Width {
    fn of(place: &Place) -> Width {
        Width { capacity: place.terms.capacity, gap_ms: place.terms.buffers().gap_ms() }
    }

    fn buffers(self) -> Buffers {
        Buffers { before_ms: 0, after_ms: self.gap_ms }
    }
}

impl Resource {
    /// Whether a request with this id was granted, and its answer is remembered.
    pub(crate) fn remembers(&self, id: RequestHash) -> bool {
        self.memory.knows(id)
    }

    /// A resource from its first event.
    ///
    /// # Panics
    /// If the event is no put.
    pub fn first(id: Id, event: &ResourceEvent) -> Resource {
        let ResourceEvent::Put { details, request } = event else { panic!("resource {id} begins with {event:?}") };
        let place = Arc::new(Place::decided(details));
        let mut puts = Changes::default();
        puts.remember(*request, 1, 0);
        Resource {
            id,
            version: 1,
            details: Arc::new((**details).clone()),
            calendar: Calendar::new(),
            holds: Holds::default(),
            notes: SharedMap::new(),
            revoked: SharedSet::new(),
            memory: Memory::default(),
            puts,
            widest: Width::of(&place),
            place,
            series: SharedSet::new(),
        }
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    ///
    /// # Panics
    /// If the event breaks a promise.
    pub fn apply(&mut self, event: &ResourceEvent) {
        self.version += 1;
        match event {
            ResourceEvent::Put { details, request } => {
                self.put(details);
                self.puts.remember(*request, self.version, self.booked());
            }
            ResourceEvent::SlotHeld { hold, revision, want_hash, begin, end, price, details, deadline, charge } => {
                let slot = slot(*begin, *end);
                let time = Time { slot, price: *price, details: details.clone() };
                let live = Hold::new(*revision, *want_hash, *deadline, self.version, time);
                let before = self.holds.hold(*hold, live, charge.as_ref());
                assert!(before.is_none(), "{hold:?} is held already");
                self.book(&BookingKey::Hold(*hold), slot);
            }
            ResourceEvent::SlotReleased { hold, revision, remember, freed_at, expired: _ } => {
                let time = self.holds.release(*hold, *revision, None, (*remember, *freed_at));
                self.revoked.remove(hold);
                self.free(&BookingKey::Hold(*hold), time.slot);
            }
            // The booking keeps its name, so the calendar does not change.
            ResourceEvent::SlotSold { hold, at, freed_at } => {
                self.holds.sell(*hold, (*at, *freed_at), self.version);
            }
            ResourceEvent::SlotRefunded { hold } => {
                let (Refunded::Sale(time) | Refunded::Hold(time)) = self.holds.refund(*hold);
                self.revoked.remove(hold);
                self.free(&BookingKey::Hold(*hold), time.slot);
            }
            ResourceEvent::Reserved { bookings, series, details, remembered } => {
                for (id, begin, end) in bookings {
                    self.book(&BookingKey::Named(id.clone()), slot(*begin, *end));
                    let note = Note { details: details.clone(), series: series.clone() };
                    let before = self.notes.insert(id.clone(), note);
                    assert!(before.is_none(), "there is a booking {id} already");
                    if let Some(series) = series {
                        self.series.insert((series.clone(), id.clone()), ());
                    }
                }
                self.memory.remember(self.version, remembered);
            }
            ResourceEvent::BookingsCanceled { bookings, remembered } => {
                for id in bookings {
                    let note = self.notes.remove(id).unwrap_or_else(|| panic!("booking {id} is canceled and unknown"));
                    if let Some(series) = note.series {
                        self.series.remove(&(series, id.clone()));
                    }
                    let was = self.calendar.remove(&BookingName::Named(id.clone()));
                    assert!(was.is_some(), "booking {id} has no time");
                }
                self.memory.remember(self.version, remembered);
            }
            ResourceEvent::BookingMoved { booking, begin, end, remembered } => {
                let was = self.calendar.remove(&BookingName::Named(booking.clone()));
                assert!(was.is_some(), "booking {booking} is moved and unknown");
                self.book(&BookingKey::Named(booking.clone()), slot(*begin, *end));
                self.memory.remember(self.version, remembered);
            }
            ResourceEvent::Hold(event) => self.holds.apply(event),
            // The booking stays until its cart has released or refunded it, because the cart may be paying for this time.
            ResourceEvent::BookingRevoked { hold, remembered } => {
                assert!(self.time(*hold).is_some(), "{hold:?} is canceled and unknown");
                self.revoked.insert(*hold, ());
                self.memory.remember(self.version, remembered);
            }
        }
    }

    fn put(&mut self, details: &ResourceDetails) {
        self.details = Arc::new(details.clone());
        self.place = Arc::new(Place::decided(details));
        let now = Width::of(&self.place);
        if self.calendar.is_empty() {
            self.widest = now;
        } else {
            self.widest.capacity = self.widest.capacity.max(now.capacity);
            self.widest.gap_ms = self.widest.gap_ms.min(now.gap_ms);
        }
    }

    fn book(&mut self, key: &BookingKey, slot: Slot) {
        let terms = &self.place.terms;
        self.calendar.insert(key, slot, terms.capacity, terms.buffers());
    }

    fn free(&mut self, key: &BookingKey, slot: Slot) {
        let was = self.calendar.remove(&key.name());
        assert_eq!(was, Some(slot), "{key} was booked at another time");
    }

    /// The answer to a booking that was granted before and its version, if it is remembered. Refused if its request id was used
    /// for something else.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<(KeptAnswer, u64), Refusal>> {
        let put = self.puts.knows(request.id).then_some(Err(Refusal::RequestIdReused));
        put.or_else(|| self.memory.answered(request))
    }

    /// The answer to a put that was granted before and its version, if it is remembered. Refused if its request id was used for
    /// something else. `details` are those of the repeat.
    pub(crate) fn put_answered(
        &self,
        request: Request,
        details: &ResourceDetails,
    ) -> Option<Result<(Answer, u64), Refusal>> {
        if self.memory.answered(request).is_some() {
            return Some(Err(Refusal::RequestIdReused));
        }
        let known = self.puts.answered(request)?;
        Some(known.map(|known| {
            let view = ResourceView { id: self.id.clone(), details: details.clone(), bookings: known.detail };
            (Answer::Resource(Arc::new(view)), known.version)
        }))
    }

    /// Computes what is not serialized.
    pub(crate) fn rebuild(&mut self) {
        self.holds.rebuild();
        self.place = Arc::new(Place::decided(&self.details));
        let series = |(id, note): (&Id, &Note)| note.series.clone().map(|series| ((series, id.clone()), ()));
        self.series = self.notes.iter().filter_map(series).collect();
    }

    /// Bytes on the heap, without long names and details.
    pub fn heap_bytes(&self) -> usize {
        let details = 4 * size_of::<usize>() + size_of::<ResourceDetails>() + size_of::<Place>();
        let maps = self.notes.heap_bytes() + self.series.heap_bytes() + self.revoked.heap_bytes();
        let memory = self.memory.heap_bytes() + self.puts.heap_bytes();
        self.id.heap_bytes() + details + maps + memory + self.calendar.heap_bytes() + self.holds.heap_bytes()
    }

    /// The bookings of a series, by id.
    fn of_series(&self, series: &Id) -> impl Iterator<Item = &Id> {
        let first = Id::new("-").expect("the smallest id there is");
        let all = self.series.range((series.clone(), first)..);
        all.map(|((of, id), ())| (of, id)).take_while(move |(of, _)| *of == series).map(|(_, id)| id)
    }
}

fn slot(begin: Timestamp, end: Timestamp) -> Slot {
    Slot::decided(begin, end).unwrap_or_else(|| panic!("booked from {} to {}", begin.0, end.0))
}

/// All bookings of an answer, by begin.
type Bookings = Vec<(Id, Slot)>;

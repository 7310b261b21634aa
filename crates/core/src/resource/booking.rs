//! Decisions of a resource about itself and about bookings without a cart.

use alloc::{boxed::Box, vec, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{
    Bookings, Resource,
    hold::CONFLICTS_MAX,
    place::{Place, local},
};
use crate::{
    answer::{BookingState, BookingView, KeptAnswer},
    calendar::{
        BookingKey, BookingName, CART_BOOKING_PREFIX, Date, Frequency, INTERVAL_MAX, OCCURRENCES_MAX,
        Repeat as Recurrence, Slot, Until as End, Weekday, Weekdays, is_reserved, occurrences,
    },
    command::{Details, Every, Rate, Repeat, ResourceDetails, Until, When},
    event::{Remembered, ResourceEvent},
    id::{Entity, Id, Request},
    refusal::{Conflict, Refusal},
    rules::Rules,
    terms::{bad, check_price, check_ttl},
    time::Timestamp,
};

impl Resource {
    /// Creates or changes a resource. Existing bookings stay. A put without any change is written too, because a repeat of the
    /// request must find it.
    pub(crate) fn decide_put(
        resource: Option<&Resource>,
        rules: &Rules,
        details: &ResourceDetails,
        request: Request,
    ) -> Result<ResourceEvent, Refusal> {
        check(rules, details)?;
        if let Some(resource) = resource {
            let currency = resource.details.rate.currency;
            if details.rate.currency != currency {
                let (entity, asked_currency) = (Entity::Resource(resource.id.clone()), details.rate.currency);
                return Err(Refusal::CurrencyFixed { entity, currency, asked_currency });
            }
        }
        Ok(ResourceEvent::Put { details: Box::new(details.clone()), request })
    }

    /// Books time without a cart, once or repeatedly. It books all or nothing, and a refusal names every conflict.
    pub(crate) fn decide_reserve(
        &self,
        at: Timestamp,
        booking: &Id,
        when: &When,
        repeat: Option<&Repeat>,
        details: &Details,
        request: Request,
    ) -> Result<ResourceEvent, Refusal> {
        let details = &details.clone().into_plain();
        if is_reserved(booking) {
            return bad(format_smolstr!("only the bookings of carts are called {CART_BOOKING_PREFIX}…"));
        }
        if self.notes.contains_key(booking) || self.of_series(booking).next().is_some() {
            return Err(Refusal::IdInUse(booking.clone()));
        }
        let bookings = match repeat {
            None => {
                let slot = self.place.asked(when)?;
                self.check(at, slot, None)?;
                vec![(booking.clone(), slot)]
            }
            Some(repeat) => self.all_of(at, booking, self.recurring(when, repeat)?)?,
        };
        let views = bookings.iter().map(|(id, slot)| reserved(id, *slot, details)).collect();
        Ok(ResourceEvent::Reserved {
            bookings: bookings.into_iter().map(|(id, slot)| (id, slot.begin(), slot.end())).collect(),
            series: repeat.map(|_| booking.clone()),
            details: details.clone(),
            remembered: Remembered::alone(request, KeptAnswer::Booked(views)),
        })
    }

    /// Cancels a booking, or every booking of a series. A booking that a cart made stays until its cart has released or refunded
    /// it.
    pub(crate) fn decide_cancel(
        &self,
        booking: &BookingName,
        series: bool,
        request: Request,
    ) -> Result<ResourceEvent, Refusal> {
        let remembered = Remembered::alone(request, KeptAnswer::Done);
        let booking = match booking {
            BookingName::Named(id) => id,
            BookingName::Cart(name) => {
                let hold = self.calendar.hold_of(name).filter(|_| !series);
                let hold = hold.ok_or_else(|| Refusal::NoSuchBooking(booking.id()))?;
                return Ok(ResourceEvent::BookingRevoked { hold, remembered });
            }
        };
        let bookings: Vec<Id> = if series {
            self.of_series(booking).cloned().collect()
        } else {
            self.notes.contains_key(booking).then(|| booking.clone()).into_iter().collect()
        };
        if bookings.is_empty() {
            return Err(Refusal::NoSuchBooking(booking.clone()));
        }
        Ok(ResourceEvent::BookingsCanceled { bookings, remembered })
    }

    /// Moves a booking to another time. If that does not fit, it keeps the old one. A booking that a cart made does not move,
    /// because its cart has paid for its time.
    pub(crate) fn decide_move(
        &self,
        at: Timestamp,
        booking: &BookingName,
        when: &When,
        request: Request,
    ) -> Result<ResourceEvent, Refusal> {
        let booking = match booking {
            BookingName::Named(id) => id,
            BookingName::Cart(name) if self.calendar.hold_of(name).is_some() => {
                return bad(format_smolstr!("{name} was made by a cart and does not move; cancel it"));
            }
            BookingName::Cart(_) => return Err(Refusal::NoSuchBooking(booking.id())),
        };
        let note = self.notes.get(booking).ok_or_else(|| Refusal::NoSuchBooking(booking.clone()))?;
        let slot = self.place.asked(when)?;
        self.check(at, slot, Some(&BookingName::Named(booking.clone())))?;
        Ok(ResourceEvent::BookingMoved {
            booking: booking.clone(),
            begin: slot.begin(),
            end: slot.end(),
            remembered: Remembered::alone(request, KeptAnswer::Booked(vec![reserved(booking, slot, &note.details)])),
        })
    }

    /// The conflicts of a time, or none if it is available. Time that has passed is not available.
    pub(crate) fn is_available(&self, at: Timestamp, when: &When) -> Result<Vec<Conflict>, Refusal> {
        let slot = self.place.asked(when)?;
        let may = self.place.check(at, slot).and_then(|()| self.place.check_begin(at, slot));
        let closed = may.err().map(|refusal| closed_conflict(slot, &refusal));
        Ok(closed.into_iter().chain(self.conflicts(slot, None)).take(CONFLICTS_MAX).collect())
    }

    /// The slots of a recurrence. An impossible one is a conflict.
    fn recurring(&self, when: &When, repeat: &Repeat) -> Result<Vec<Result<Slot, Conflict>>, Refusal> {
        let (begin, end) = match when {
            When::Local { begin, end } => (local(begin)?, local(end)?),
            When::Utc { .. } => {
                let slot = self.place.asked(when)?;
                let shown = |instant| self.place.zone.civil(instant);
                let out_of_range = || Refusal::BadInterval("the clocks there show no such time".into());
                (shown(slot.begin()).ok_or_else(out_of_range)?, shown(slot.end()).ok_or_else(out_of_range)?)
            }
        };
        let recurrence = recurrence(repeat, begin.date().weekday())?;
        let all = occurrences(&self.place.zone, begin, end, &recurrence).map_err(Refusal::BadInterval)?;
        let missed = |missed: crate::calendar::Missed| Conflict {
            begin: self.place.nearest(missed.begin),
            end: self.place.nearest(missed.end),
            why: format_smolstr!("{}: {}", missed.local, missed.error),
            booking: None,
        };
        let mut all: Vec<_> = all.into_iter().map(|occurrence| occurrence.map_err(missed)).collect();
        // A named instant is unambiguous, also if the clocks show its local time twice.
        if let When::Utc { .. } = when {
            all[0] = Ok(self.place.asked(when)?);
        }
        Ok(all)
    }

    /// Names for all slots of a series, if each fits beside what is booked and beside the others.
    fn all_of(&self, at: Timestamp, series: &Id, slots: Vec<Result<Slot, Conflict>>) -> Result<Bookings, Refusal> {
        let terms = &self.place.terms;
        let mut calendar = self.calendar.clone();
        let (mut bookings, mut conflicts, mut closed) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, number) in slots.into_iter().zip(1..) {
            let name = format_smolstr!("{series}.{number}");
            let id =
                Id::new(&name).ok_or_else(|| Refusal::BadRequest(format_smolstr!("{name} is too long for an id")))?;
            if self.notes.contains_key(&id) {
                return Err(Refusal::IdInUse(id));
            }
            let slot = match slot {
                Ok(slot) => slot,
                Err(conflict) => {
                    conflicts.push(conflict);
                    continue;
                }
            };
            if let Err(refusal) = self.place.check(at, slot) {
                closed.push((slot, refusal));
                continue;
            }
            let taken = calendar.conflicts(slot, None, terms.capacity, terms.buffers());
            if taken.is_empty() {
                calendar.insert(&BookingKey::Named(id.clone()), slot, terms.capacity, terms.buffers());
                bookings.push((id, slot));
            }
            conflicts.extend(taken.iter().map(|(name, booked)| self.conflict(slot, name, *booked)));
        }
        if conflicts.is_empty() {
            // Without a conflicting booking, the refusal is that of the first closed slot.
            return closed.into_iter().next().map_or(Ok(bookings), |(_, refusal)| Err(refusal));
        }
        conflicts.extend(closed.iter().map(|(slot, refusal)| closed_conflict(*slot, refusal)));
        conflicts.sort_by_key(|conflict| (conflict.begin, conflict.end));
        conflicts.truncate(CONFLICTS_MAX);
        Err(Refusal::SlotTaken(conflicts))
    }

    /// A conflict with a booking.
    pub(super) fn conflict(&self, slot: Slot, name: &BookingName, booked: Slot) -> Conflict {
        let (from, to) = (self.place.show(booked.begin()), self.place.show(booked.end()));
        let why = format_smolstr!("{name} is there from {from} to {to}");
        Conflict { begin: slot.begin(), end: slot.end(), why, booking: Some(name.text()) }
    }
}

/// A booking that was made without a cart, as clients see it.
pub(super) fn reserved(id: &Id, slot: Slot, details: &SmolStr) -> BookingView {
    BookingView {
        booking: SmolStr::new(id.as_str()),
        begin: slot.begin(),
        end: slot.end(),
        state: BookingState::Reserved,
        details: details.clone(),
        order: None,
    }
}

/// A conflict with the terms.
fn closed_conflict(slot: Slot, refusal: &Refusal) -> Conflict {
    Conflict { begin: slot.begin(), end: slot.end(), why: format_smolstr!("{refusal}"), booking: None }
}

/// A recurrence as the calendar's type.
fn recurrence(repeat: &Repeat, first: Weekday) -> Result<Recurrence, Refusal> {
    let frequency = match &repeat.every {
        Every::Day => Frequency::Daily,
        Every::Week(days) => {
            let named = |day: &u8| (1..=7).contains(day).then(|| Weekday::ALL[usize::from(*day) - 1]);
            let days: Option<Vec<Weekday>> = days.iter().map(named).collect();
            let Some(days) = days else { return bad("weekdays are 1 (Monday) to 7 (Sunday)".into()) };
            let weekdays = Weekdays::new(days).or_else(|| Weekdays::new([first]));
            Frequency::Weekly { weekdays: weekdays.expect("the first day is one") }
        }
        Every::Month => Frequency::Monthly,
    };
    let Some(interval) = u16::try_from(repeat.interval).ok().filter(|interval| (1..=INTERVAL_MAX).contains(interval))
    else {
        return bad(format_smolstr!("the interval is 1 to {INTERVAL_MAX}, not {}", repeat.interval));
    };
    let until = match &repeat.until {
        Until::Count(count) => match u16::try_from(*count) {
            Ok(count) if (1..=OCCURRENCES_MAX).contains(&usize::from(count)) => End::Count(count),
            Ok(_) | Err(_) => {
                return bad(format_smolstr!("a booking occurs 1 to {OCCURRENCES_MAX} times, not {count}"));
            }
        },
        Until::Date(text) => match Date::parse(text) {
            Some(date) => End::Date(date),
            None => return bad(format_smolstr!("{text} is no day like 2026-12-31")),
        },
    };
    Ok(Recurrence { frequency, interval, until })
}

fn check(rules: &Rules, details: &ResourceDetails) -> Result<(), Refusal> {
    let Rate { amount, currency: _, per_ms } = details.rate;
    check_price("a slot", amount)?;
    if per_ms == Some(0) {
        return bad("a price is for a span of at least 1 ms; for the whole slot, leave it out".into());
    }
    check_ttl(rules, details.hold_ttl_ms)?;
    Place::check_details(details).map_err(Refusal::BadRequest)
}

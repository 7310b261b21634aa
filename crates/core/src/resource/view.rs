//! A resource as clients and audits see it.

use alloc::{sync::Arc, vec::Vec};

use smol_str::format_smolstr;

use super::{Resource, Time, booking::reserved};
use crate::{
    answer::{BookingState, BookingView, ResourceAudit, ResourceView},
    calendar::{BookingKey, BookingName, FreeSearch, Slot},
    cursor::PAGE_MAX,
    event::ResourceEvent,
    id::{HoldId, Id},
    planted,
    refusal::Refusal,
    terms::bad,
    time::{TIMESTAMP_MAX, Timestamp},
};

impl Resource {
    /// Its details and the number of bookings.
    pub fn view(&self) -> Arc<ResourceView> {
        Arc::new(ResourceView { id: self.id.clone(), details: (*self.details).clone(), bookings: self.booked() })
    }

    /// The bookings that overlap `[from, to)`, by begin, then public name. There are up to `limit` of those after `after`.
    ///
    /// # Errors
    /// [`Refusal::BadInterval`] if the window is empty, [`Refusal::BadRequest`] if the limit is not 1 to 1 000.
    pub fn bookings(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: u32,
        after: Option<&(Timestamp, BookingName)>,
    ) -> Result<Vec<BookingView>, Refusal> {
        check_page(from, to, limit)?;
        let view = |(name, slot): (&BookingName, Slot)| self.booking(name, slot);
        let limit = limit as usize;
        Ok(match after {
            None => self.calendar.bookings(from, to).take(limit).map(view).collect(),
            Some(after) if planted::is("cursor unchecked") => {
                self.after_hold(from, to, after).take(limit).map(view).collect()
            }
            Some(after) => self.calendar.bookings_after(from, to, after).take(limit).map(view).collect(),
        })
    }

    /// Every booking, by begin, then public name.
    pub fn all_bookings(&self) -> impl Iterator<Item = BookingView> {
        self.calendar.bookings(Timestamp(0), Timestamp(u64::MAX)).map(|(name, slot)| self.booking(name, slot))
    }

    /// Planted: the bookings whose cart's id is after the number in the cursor, which tells ids bit by bit.
    fn after_hold(
        &self,
        from: Timestamp,
        to: Timestamp,
        (begin, last): &(Timestamp, BookingName),
    ) -> impl Iterator<Item = (&BookingName, Slot)> {
        let hidden = |name: &BookingName| match name {
            BookingName::Named(id) => (None, Some(id.clone())),
            BookingName::Cart(name) => {
                (Some(self.calendar.hold_of(name).map_or(name.number(), |hold| hold.cart.0)), None)
            }
        };
        let after = (*begin, hidden(last));
        self.calendar.bookings(from, to).filter(move |(name, slot)| (slot.begin(), hidden(name)) > after)
    }

    /// The first free slots of a length, under the current terms, on a raster if there is a step. Both are in milliseconds.
    ///
    /// # Errors
    /// [`Refusal::BadInterval`] if the window or the length is empty, [`Refusal::BadRequest`] if the count is not 1 to 1 000.
    pub fn free_slots(
        &self,
        at: Timestamp,
        (from, to): (Timestamp, Timestamp),
        length_ms: u64,
        count: u32,
        (step_ms, align_ms): (Option<u64>, u64),
    ) -> Result<Vec<(Timestamp, Timestamp)>, Refusal> {
        check_page(from, to, count)?;
        let search = FreeSearch { from, to, length_ms, count: count as usize, step_ms, align_ms };
        search.validate().map_err(Refusal::BadInterval)?;
        let terms = &self.place.terms;
        // Bookings end before the horizon.
        let to = terms.latest(at).map_or(to, |latest| to.min(latest));
        if from >= to {
            return Ok(Vec::new());
        }
        let search = FreeSearch { to, ..search };
        let found = self.calendar.free_slots(at, &search, terms, &self.place.zone).map_err(Refusal::BadInterval)?;
        Ok(found.into_iter().map(|slot| (slot.begin(), slot.end())).collect())
    }

    /// The number of bookings, including held ones.
    pub fn booked(&self) -> u64 {
        self.calendar.len() as u64
    }

    /// The slots that an event changes, from the event and the state before it. If earlier events are not applied yet, the rest
    /// follows from those.
    pub fn changed_by(&self, event: &ResourceEvent) -> Vec<Slot> {
        let of_hold = |hold: &HoldId| self.time(*hold).map(|time| time.slot).into_iter().collect();
        let of_booking = |id: &Id| self.calendar.slot_of(&BookingName::Named(id.clone()));
        let asked = |begin: &Timestamp, end: &Timestamp| Slot::decided(*begin, *end);
        match event {
            // A booking that was canceled stays until its cart has let go of it.
            ResourceEvent::Put { .. } | ResourceEvent::Hold(_) | ResourceEvent::BookingRevoked { .. } => Vec::new(),
            ResourceEvent::SlotHeld { begin, end, .. } => asked(begin, end).into_iter().collect(),
            ResourceEvent::SlotReleased { hold, .. } => of_hold(hold),
            ResourceEvent::SlotSold { hold, .. } | ResourceEvent::SlotRefunded { hold } => of_hold(hold),
            ResourceEvent::Reserved { bookings, .. } => {
                bookings.iter().filter_map(|(_, begin, end)| asked(begin, end)).collect()
            }
            ResourceEvent::BookingsCanceled { bookings, .. } => bookings.iter().filter_map(of_booking).collect(),
            ResourceEvent::BookingMoved { booking, begin, end, .. } => {
                of_booking(booking).into_iter().chain(asked(begin, end)).collect()
            }
        }
    }

    /// Everything about it, counted anew.
    pub fn audit(&self) -> ResourceAudit {
        let mut violations = self.holds.violations();
        violations.extend(self.calendar.violations(self.widest.capacity, self.widest.buffers()));
        let held = self.holds.all_live().map(|(hold, live)| (hold, live.what.slot));
        let sold = self.holds.all_sales().map(|(hold, sale)| (hold, sale.what.slot));
        let mut owned = 0;
        for (hold, slot) in held.chain(sold) {
            owned += 1;
            let booked = self.calendar.slot_of(&BookingKey::Hold(hold).name());
            if booked != Some(slot) {
                violations.push(format_smolstr!("{hold:?} has {slot:?}, the calendar says {booked:?}"));
            }
        }
        for (id, note) in self.notes.iter() {
            owned += 1;
            if self.calendar.slot_of(&BookingName::Named(id.clone())).is_none() {
                violations.push(format_smolstr!("booking {id} is not in the calendar"));
            }
            if note.series.as_ref().is_some_and(|of| !self.series.contains_key(&(of.clone(), id.clone()))) {
                violations.push(format_smolstr!("booking {id} is not in its series"));
            }
        }
        for (hold, ()) in self.revoked.iter().filter(|(hold, ())| self.time(**hold).is_none()) {
            violations.push(format_smolstr!("{hold:?} is canceled and neither held nor sold"));
        }
        if owned != self.calendar.len() {
            violations.push(format_smolstr!("{} bookings, of which {owned} have an owner", self.calendar.len()));
        }
        ResourceAudit {
            resource: self.id.clone(),
            bookings: self.booked(),
            holds: self.holds.hold_views(Time::portion),
            sales: self.holds.sale_views(Time::portion),
            holders: self.holds.holder_views(),
            violations,
        }
    }

    /// A booking as clients see it. Guests get it without details and order.
    fn booking(&self, name: &BookingName, slot: Slot) -> BookingView {
        match name {
            BookingName::Named(id) => {
                let details = self.notes.get(id).map(|note| note.details.clone()).unwrap_or_default();
                reserved(id, slot, &details)
            }
            BookingName::Cart(cart) => {
                let hold = self.calendar.hold_of(cart).unwrap_or_else(|| panic!("{name} has no hold"));
                let sold = self.holds.sale(hold).is_some();
                BookingView {
                    booking: name.text(),
                    begin: slot.begin(),
                    end: slot.end(),
                    state: if sold { BookingState::Sold } else { BookingState::Held },
                    details: self.time(hold).map(|time| time.details.clone()).unwrap_or_default(),
                    order: sold.then(|| hold.cart.order()),
                }
            }
        }
    }

    /// The content of a hold, or of its sale.
    pub(super) fn time(&self, hold: HoldId) -> Option<&Time> {
        let live = self.holds.live(hold).map(|live| &live.what);
        live.or_else(|| self.holds.sale(hold).map(|sale| &sale.what))
    }
}

fn check_page(from: Timestamp, to: Timestamp, count: u32) -> Result<(), Refusal> {
    if from >= to || to > TIMESTAMP_MAX {
        return Err(Refusal::BadInterval("a window ends after it begins and before the year 10000".into()));
    }
    if !(1..=PAGE_MAX).contains(&count) {
        return bad(format_smolstr!("one answer tells 1 to {PAGE_MAX}, not {count}"));
    }
    Ok(())
}

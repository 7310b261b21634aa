//! A resource as clients and audits see it.

use alloc::{sync::Arc, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{Resource, Time, booking::reserved};
use crate::{
    answer::{BookingState, BookingView, ResourceAudit, ResourceView},
    calendar::{BookingKey, FreeSearch, Slot},
    event::ResourceEvent,
    id::{CartId, HoldId, Id, RequestHash},
    refusal::Refusal,
    terms::bad,
    time::{TIMESTAMP_MAX, Timestamp},
};

/// The most bookings of one page, and the most free slots of one search.
const PAGE_MAX: u32 = 1_000;

impl Resource {
    /// Its details and the number of bookings.
    pub fn view(&self) -> Arc<ResourceView> {
        Arc::new(ResourceView { id: self.id.clone(), details: (*self.details).clone(), bookings: self.booked() })
    }

    /// The bookings that overlap `[from, to)`, by begin, then id. There are up to `limit` of those after `after`.
    ///
    /// # Errors
    /// [`Refusal::BadInterval`] if the window is empty, [`Refusal::BadRequest`] if the limit is not 1 to 1 000 or `after` names
    /// no booking.
    pub fn bookings(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: u32,
        after: Option<&(Timestamp, SmolStr)>,
    ) -> Result<Vec<BookingView>, Refusal> {
        check_page(from, to, limit)?;
        let after = match after {
            None => None,
            Some((begin, name)) => match key(name) {
                Some(key) => Some((*begin, key)),
                None => return bad(format_smolstr!("{name} names no booking")),
            },
        };
        // Bookings that begin before the last one were on an earlier page.
        let from = after.as_ref().map_or(from, |(begin, _)| from.max(*begin));
        let news = |(key, slot): &(&BookingKey, Slot)| {
            after.as_ref().is_none_or(|(begin, last)| (slot.begin(), *key) > (*begin, last))
        };
        let found = self.calendar.bookings(from, to).filter(news).take(limit as usize);
        Ok(found.map(|(key, slot)| self.booking(key, slot)).collect())
    }

    /// The first free slots of a length, under the current terms.
    ///
    /// # Errors
    /// [`Refusal::BadInterval`] if the window or the length is empty, [`Refusal::BadRequest`] if the count is not 1 to 1 000.
    pub fn free_slots(
        &self,
        at: Timestamp,
        from: Timestamp,
        to: Timestamp,
        length_ms: u64,
        count: u32,
    ) -> Result<Vec<(Timestamp, Timestamp)>, Refusal> {
        check_page(from, to, count)?;
        let search = FreeSearch { from, to, length_ms, count: count as usize, step_ms: None };
        search.validate().map_err(Refusal::BadInterval)?;
        let terms = &self.place.terms;
        // Bookings end before the horizon.
        let to = terms.latest(at).map_or(to, |latest| to.min(latest));
        if from >= to {
            return Ok(Vec::new());
        }
        let found = self.calendar.free_slots(at, &FreeSearch { to, ..search }, terms).map_err(Refusal::BadInterval)?;
        Ok(found.into_iter().map(|slot| (slot.begin(), slot.end())).collect())
    }

    /// The number of bookings, including held ones.
    pub fn booked(&self) -> u64 {
        self.calendar.len() as u64
    }

    /// The slots that an event changes, from the event and the state before it. If earlier events are not applied yet, the rest
    /// follows from those.
    pub fn changed_by(&self, event: &ResourceEvent) -> Vec<Slot> {
        let of_hold = |hold: &HoldId| self.calendar.slot_of(&BookingKey::Hold(*hold)).into_iter().collect();
        let of_booking = |id: &Id| self.calendar.slot_of(&BookingKey::Named(id.clone()));
        let asked = |begin: &Timestamp, end: &Timestamp| Slot::new(*begin, *end);
        match event {
            ResourceEvent::Put { .. } | ResourceEvent::Hold(_) => Vec::new(),
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
            let booked = self.calendar.slot_of(&BookingKey::Hold(hold));
            if booked != Some(slot) {
                violations.push(format_smolstr!("{hold:?} has {slot:?}, the calendar says {booked:?}"));
            }
        }
        for (id, note) in self.notes.iter() {
            owned += 1;
            if self.calendar.slot_of(&BookingKey::Named(id.clone())).is_none() {
                violations.push(format_smolstr!("booking {id} is not in the calendar"));
            }
            if note.series.as_ref().is_some_and(|of| !self.series.contains_key(&(of.clone(), id.clone()))) {
                violations.push(format_smolstr!("booking {id} is not in its series"));
            }
        }
        if owned != self.calendar.len() {
            violations.push(format_smolstr!("{} bookings, of which {owned} have an owner", self.calendar.len()));
        }
        ResourceAudit {
            resource: self.id.clone(),
            bookings: self.booked(),
            holds: self.holds.hold_views(Time::portion),
            sales: self.holds.sale_views(Time::portion),
            violations,
        }
    }

    fn booking(&self, key: &BookingKey, slot: Slot) -> BookingView {
        match key {
            BookingKey::Named(id) => {
                let details = self.notes.get(id).map(|note| note.details.clone()).unwrap_or_default();
                reserved(id, slot, &details)
            }
            BookingKey::Hold(hold) => {
                let (live, sale) = (self.holds.live(*hold), self.holds.sale(*hold));
                let time = live.map(|live| &live.what).or(sale.map(|sale| &sale.what));
                let sold = sale.is_some();
                BookingView {
                    booking: key.text(),
                    begin: slot.begin(),
                    end: slot.end(),
                    state: if sold { BookingState::Sold } else { BookingState::Held },
                    details: time.map(|time| time.details.clone()).unwrap_or_default(),
                    order: sold.then(|| hold.cart.order()),
                }
            }
        }
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

/// The booking with this name in a [`BookingView`].
fn key(name: &str) -> Option<BookingKey> {
    let Some(hold) = name.strip_prefix("hold/") else { return Id::new(name).map(BookingKey::Named) };
    let mut parts = hold.split('/');
    let cart = CartId(u128::from_str_radix(parts.next()?, 16).ok()?);
    let request = RequestHash(u64::from_str_radix(parts.next()?, 16).ok()?);
    let (part, attempt) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(BookingKey::Hold(HoldId { cart, request, part, attempt }))
}

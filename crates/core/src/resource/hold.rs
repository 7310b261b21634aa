//! Decisions of a resource about the holds of carts.

use alloc::vec::Vec;
use core::ops::Bound;

use smol_str::SmolStr;

use super::{Resource, Time, place::price};
use crate::{
    ask::Reply,
    calendar::{BookingName, Slot},
    command::{Limits, Want, When},
    event::{Event, HoldEvent, ResourceEvent},
    fairness::Supply,
    holds::{HoldAsk, HoldIndex},
    id::{Entity, HoldId, OrderId},
    inventory::Inventory,
    money::Currency,
    portion::{Content, Portion},
    refusal::{Conflict, Refusal},
    terms::unfit,
    time::Timestamp,
};

/// The most conflicts that one refusal names.
pub(super) const CONFLICTS_MAX: usize = 100;

impl Resource {
    /// Checks that a slot is available. The refusal names all conflicts. `except` is the booking that is moved.
    pub(super) fn check(&self, at: Timestamp, slot: Slot, except: Option<&BookingName>) -> Result<(), Refusal> {
        self.place.check(at, slot)?;
        let conflicts = self.conflicts(slot, except);
        if conflicts.is_empty() { Ok(()) } else { Err(Refusal::SlotTaken(conflicts)) }
    }

    /// The first hundred conflicts of a slot with bookings.
    pub(super) fn conflicts(&self, slot: Slot, except: Option<&BookingName>) -> Vec<Conflict> {
        let terms = &self.place.terms;
        let found = self.calendar.conflicts(slot, except, terms.capacity, terms.buffers());
        found.iter().take(CONFLICTS_MAX).map(|(name, booked)| self.conflict(slot, name, *booked)).collect()
    }

    fn decide_slot(&self, at: Timestamp, ask: &HoldAsk<'_>, want_hash: u64) -> Result<ResourceEvent, Refusal> {
        let Want::Slot { begin, end, ref details } = *ask.want else {
            return Err(unfit("resource", &self.id, ask.want));
        };
        let slot = self.place.asked(&When::Utc { begin, end })?;
        self.check(at, slot, None)?;
        self.place.check_begin(at, slot)?;
        let price = price(&self.details.rate, slot)?;
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        let entity = || Entity::Resource(self.id.clone());
        let charge = self.holds.charge(ask, entity, (Supply { number: 0, size: None }, 1))?;
        let details = details.clone().into_plain();
        Ok(ResourceEvent::SlotHeld { hold, revision, want_hash, begin, end, price, details, deadline, charge })
    }
}

impl Inventory for Resource {
    fn holds(&self) -> Option<&dyn HoldIndex> {
        Some(&self.holds)
    }

    fn hold_event(&self, event: HoldEvent) -> Event {
        Event::Resource(ResourceEvent::Hold(event))
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        self.details.hold_ttl_ms
    }

    fn sale_terms(&self) -> (Option<Currency>, Limits) {
        (Some(self.details.rate.currency), self.details.limits.clone())
    }

    fn zone(&self) -> Option<SmolStr> {
        Some(self.details.zone.clone())
    }

    fn content(&self, hold: HoldId) -> Option<Content> {
        let Time { slot, price, details } = self.holds.live(hold)?.what.clone();
        Some(Content::Slot { begin: slot.begin(), end: slot.end(), price, details })
    }

    fn held(&self, hold: HoldId) -> Option<Portion> {
        self.holds.live(hold).map(|live| live.what.portion())
    }

    fn sold(&self, hold: HoldId) -> Option<Portion> {
        self.holds.sale(hold).map(|sale| sale.what.portion())
    }

    fn is_counted(&self, _ask: &HoldAsk<'_>) -> bool {
        false
    }

    fn decide_new(&self, now: Timestamp, ask: &HoldAsk<'_>, want_hash: u64) -> Result<Event, Reply> {
        let decided = self.decide_slot(now, ask, want_hash);
        decided.map(Event::Resource).map_err(|refusal| ask.refused(refusal))
    }

    /// A slot is released as a whole or not at all.
    fn release_live(&self, hold: HoldId, revision: u64, left: Option<&Portion>, remember: bool) -> Option<Event> {
        if let Some(left) = left {
            assert_eq!(*left, self.holds.released(hold).portion(), "another slot is to be left of {hold:?}");
            return None;
        }
        Some(Event::Resource(ResourceEvent::SlotReleased { hold, revision, remember, expired: false, freed_at: None }))
    }

    fn sale(&self, hold: HoldId, _portion: &Portion, _order: OrderId, at: Timestamp) -> Event {
        Event::Resource(ResourceEvent::SlotSold { hold, at, freed_at: None })
    }

    fn unwanted(&self, after: Option<HoldId>, max: usize) -> Vec<HoldId> {
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.revoked.range(range).map(|(hold, ())| *hold).take(max).collect()
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        self.holds.to_refund(hold).map(|_| Event::Resource(ResourceEvent::SlotRefunded { hold }))
    }
}

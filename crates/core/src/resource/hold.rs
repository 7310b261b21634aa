//! What a resource decides about the holds of carts. Everything is looked at before anything is written.

use alloc::{vec, vec::Vec};

use super::{Resource, Time, place::price};
use crate::{
    ask::{Granted, Reply},
    calendar::{BookingKey, Slot},
    command::{Want, When},
    event::{Event, HoldEvent, ResourceEvent},
    holds::{Known, Parting},
    id::{CartId, HoldId, OrderId},
    inventory::{HoldAsk, Inventory},
    portion::{Content, Portion},
    refusal::{Conflict, Refusal},
    terms::{check_details, unfit},
    time::Timestamp,
};

/// Conflicts that one refusal names.
pub(super) const CONFLICTS_MAX: usize = 100;

impl Resource {
    /// Whether a slot is to be had now; all that stands in the way otherwise. `except` is the booking that is moved.
    pub(super) fn check(&self, at: Timestamp, slot: Slot, except: Option<&BookingKey>) -> Result<(), Refusal> {
        self.place.check(at, slot)?;
        let conflicts = self.conflicts(slot, except);
        if conflicts.is_empty() { Ok(()) } else { Err(Refusal::SlotTaken(conflicts)) }
    }

    /// The bookings in the way of a slot, the first hundred.
    pub(super) fn conflicts(&self, slot: Slot, except: Option<&BookingKey>) -> Vec<Conflict> {
        let terms = &self.place.terms;
        let found = self.calendar.conflicts(slot, except, terms.capacity, terms.buffers());
        found.iter().take(CONFLICTS_MAX).map(|(key, booked)| self.conflict(slot, key, *booked)).collect()
    }

    fn decide_slot(&self, at: Timestamp, ask: &HoldAsk<'_>, want_hash: u64) -> Result<ResourceEvent, Refusal> {
        let Want::Slot { begin, end, ref details } = *ask.want else {
            return Err(unfit("resource", &self.id, ask.want));
        };
        check_details(details)?;
        let slot = self.place.asked(&When::Utc { begin, end })?;
        self.check(at, slot, None)?;
        self.place.check_begin(at, slot)?;
        let price = price(&self.details.rate, slot)?;
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        let details = details.clone();
        Ok(ResourceEvent::SlotHeld { hold, revision, want_hash, begin, end, price, details, deadline })
    }
}

impl Inventory for Resource {
    fn decide_hold(&self, at: Timestamp, ask: &HoldAsk<'_>) -> Result<Event, Reply> {
        let HoldAsk { hold, revision, want, .. } = *ask;
        let want_hash = want.hash();
        match self.holds.recognise(ask, want_hash, false) {
            Known::New => {}
            Known::Change(_) | Known::Repeat => return Err(Reply::Granted(self.granted(hold))),
            Known::Late(reply) => return Err(reply),
        }
        let decided = self.decide_slot(at, ask, want_hash);
        decided.map(Event::Resource).map_err(|refusal| Reply::Refused { hold, revision, refusal })
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        self.details.hold_ttl_ms
    }

    fn asks_at(&self, hold: HoldId) -> Option<Timestamp> {
        self.holds.live(hold).map(|live| live.deadline)
    }

    fn granted(&self, hold: HoldId) -> Granted {
        let live = self.holds.live(hold).expect("only live holds are granted");
        let Time { slot, price, details } = live.what.clone();
        Granted {
            hold,
            revision: live.revision,
            want_hash: live.want_hash,
            content: Some(Content::Slot { begin: slot.begin(), end: slot.end(), price, details }),
            currency: Some(self.details.rate.currency),
            ttl_ms: self.hold_ttl_ms(),
            believed_ms: 0,
            limits: self.details.limits.clone(),
            late: false,
            version: live.version,
            position: 0,
        }
    }

    fn decide_release(&self, hold: HoldId, revision: u64, left: Option<&Portion>, last: bool) -> Option<Event> {
        match self.holds.parting(hold, revision, last) {
            Parting::So => None,
            Parting::Unheard => Some(held(HoldEvent::Remembered { hold, revision })),
            // A slot is given back whole or not at all.
            Parting::Live(live) => match left {
                None => Some(Event::Resource(ResourceEvent::SlotReleased {
                    hold,
                    revision,
                    remember: !last,
                    expired: false,
                })),
                Some(left) => {
                    assert_eq!(*left, live.what.portion(), "another slot is to be left of {hold:?}");
                    None
                }
            },
        }
    }

    fn decide_sell(&self, hold: HoldId, revision: u64, portion: &Portion, order: OrderId, at: Timestamp) -> Vec<Event> {
        let Some(live) = self.holds.to_sell(hold, revision, order) else { return Vec::new() };
        assert_eq!(*portion, live.what.portion(), "another slot than that of {hold:?} is sold");
        vec![Event::Resource(ResourceEvent::SlotSold { hold, at })]
    }

    fn knows(&self, hold: HoldId) -> bool {
        self.holds.knows(hold)
    }

    fn sale_version(&self, hold: HoldId) -> Option<u64> {
        self.holds.sale(hold).map(|sale| sale.version)
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        self.holds.to_refund(hold).map(|_| Event::Resource(ResourceEvent::SlotRefunded { hold }))
    }

    fn decide_extend(&self, hold: HoldId, deadline: Timestamp) -> Option<Event> {
        self.holds.decide_extend(hold, deadline).map(held)
    }

    fn decide_disowned(&self, hold: HoldId) -> Option<Event> {
        let live = self.holds.live(hold)?;
        self.decide_release(hold, live.revision.saturating_add(1), None, true)
    }

    fn decide_forget(&self, cart: CartId) -> Option<Event> {
        self.holds.decide_forget(cart).map(held)
    }

    fn overdue(&self, after: (Timestamp, HoldId), now: Timestamp, max: usize) -> Vec<(Timestamp, HoldId)> {
        self.holds.overdue(after, now, max)
    }

    fn unwanted(&self, _after: Option<HoldId>, _max: usize) -> Vec<HoldId> {
        Vec::new()
    }
}

fn held(event: HoldEvent) -> Event {
    Event::Resource(ResourceEvent::Hold(event))
}

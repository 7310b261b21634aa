//! Decisions of a customer.

use super::Customer;
use crate::{
    answer::Purchase,
    ask::Reply,
    command::{Limits, Want},
    event::{CustomerEvent, Event, HoldEvent},
    holds::{HoldAsk, HoldIndex},
    id::{HoldId, Id, OrderId},
    inventory::Inventory,
    money::Currency,
    planted,
    portion::{Content, Portion},
    refusal::Refusal,
    terms::{bad, check_quantity, unfit},
    time::Timestamp,
};

impl Customer {
    /// Puts an order among the purchases, under the next cursor. `None` if it is there already (P12).
    pub(crate) fn decide_post(&self, purchase: &Purchase) -> Option<CustomerEvent> {
        let unknown = self.cursor(purchase.order).is_none();
        unknown.then(|| CustomerEvent::Posted(Purchase { cursor: self.newest() + 1, ..purchase.clone() }))
    }

    /// Decides a total of `count` parts of a quota for a hold.
    fn decide_quota(
        &self,
        ask: &HoldAsk<'_>,
        want_hash: u64,
        (quota, count, max): (&Id, u32, u32),
    ) -> Result<CustomerEvent, Refusal> {
        check_quantity(count)?;
        let has = self.holds.live(ask.hold).map(|live| &live.what);
        if has.is_some_and(|has| has.quota != *quota) {
            return bad("a hold stays in its quota".into());
        }
        let taken = self.taken(quota);
        let taken = if planted::is("a quota that does not count what is sold") { taken.held } else { taken.all() };
        let had = has.map_or(0, |has| has.count);
        // Less than before is always fine, because the limit may have become smaller.
        if count > had && taken - u64::from(had) + u64::from(count) > u64::from(max) {
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            return Err(Refusal::LimitPerCustomer { quota: quota.clone(), max, taken });
        }
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        Ok(CustomerEvent::QuotaHeld { hold, revision, want_hash, quota: quota.clone(), count, deadline })
    }
}

impl Inventory for Customer {
    fn holds(&self) -> Option<&dyn HoldIndex> {
        Some(&self.holds)
    }

    fn hold_event(&self, event: HoldEvent) -> Event {
        Event::Customer(CustomerEvent::Hold(event))
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        None
    }

    fn sale_terms(&self) -> (Option<Currency>, Limits) {
        (None, Limits::default())
    }

    fn content(&self, _hold: HoldId) -> Option<Content> {
        None
    }

    fn held(&self, hold: HoldId) -> Option<Portion> {
        self.holds.live(hold).map(|live| live.what.portion())
    }

    fn sold(&self, hold: HoldId) -> Option<Portion> {
        self.holds.sale(hold).map(|sale| sale.what.portion())
    }

    fn is_counted(&self, _ask: &HoldAsk<'_>) -> bool {
        true
    }

    fn decide_new(&self, _now: Timestamp, ask: &HoldAsk<'_>, want_hash: u64) -> Result<Event, Reply> {
        let decided = match ask.want {
            Want::Quota { quota, count, max } => self.decide_quota(ask, want_hash, (quota, *count, *max)),
            Want::Seats { .. }
            | Want::Best(_)
            | Want::Places { .. }
            | Want::Units { .. }
            | Want::Slot { .. }
            | Want::Uses { .. } => Err(unfit("customer", &self.id, ask.want)),
        };
        decided.map(Event::Customer).map_err(|refusal| ask.refused(refusal))
    }

    fn release_live(&self, hold: HoldId, revision: u64, left: Option<&Portion>, remember: bool) -> Option<Event> {
        let left = match left {
            None => 0,
            Some(Portion::Quota { count, .. }) => self.holds.released(hold).count.min(*count),
            Some(left) => panic!("{left:?} is to be left of {hold:?}"),
        };
        Some(Event::Customer(CustomerEvent::QuotaReleased { hold, revision, left, remember, expired: false }))
    }

    fn sale(&self, hold: HoldId, portion: &Portion, _order: OrderId, at: Timestamp) -> Event {
        Event::Customer(CustomerEvent::QuotaSold { hold, count: portion.quantity(), at })
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        self.holds.to_refund(hold).map(|_| Event::Customer(CustomerEvent::QuotaRefunded { hold }))
    }
}

//! What a customer entity decides. Everything is looked at before anything is written.

use alloc::{vec, vec::Vec};

use super::{Customer, Part};
use crate::{
    answer::Purchase,
    ask::{Granted, Reply},
    command::{Limits, Want},
    event::{CustomerEvent, Event, HoldEvent},
    holds::{Known, Parting},
    id::{CartId, HoldId, Id, OrderId},
    inventory::{HoldAsk, Inventory},
    planted,
    portion::Portion,
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

    /// So many altogether for a hold that has `has`.
    fn decide_quota(
        &self,
        ask: &HoldAsk<'_>,
        want_hash: u64,
        (quota, count, max): (&Id, u32, u32),
        has: Option<&Part>,
    ) -> Result<CustomerEvent, Refusal> {
        check_quantity(count)?;
        if has.is_some_and(|has| has.quota != *quota) {
            return bad("a hold stays in its quota".into());
        }
        let taken = self.taken(quota);
        let taken = if planted::is("a quota that does not count what is sold") { taken.held } else { taken.all() };
        let had = has.map_or(0, |has| has.count);
        // Less than before is always fine: the limit may have become smaller since.
        if count > had && taken - u64::from(had) + u64::from(count) > u64::from(max) {
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            return Err(Refusal::LimitPerCustomer { quota: quota.clone(), max, taken });
        }
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        Ok(CustomerEvent::QuotaHeld { hold, revision, want_hash, quota: quota.clone(), count, deadline })
    }
}

impl Inventory for Customer {
    fn decide_hold(&self, _at: Timestamp, ask: &HoldAsk<'_>) -> Result<Event, Reply> {
        let HoldAsk { hold, revision, want, .. } = *ask;
        let want_hash = want.hash();
        let has = match self.holds.recognise(ask, want_hash, true) {
            Known::New => None,
            Known::Change(live) => Some(&live.what),
            Known::Repeat => return Err(Reply::Granted(self.granted(hold))),
            Known::Late(reply) => return Err(reply),
        };
        let decided = match want {
            Want::Quota { quota, count, max } => self.decide_quota(ask, want_hash, (quota, *count, *max), has),
            Want::Seats { .. } | Want::Best(_) | Want::Places { .. } | Want::Units { .. } | Want::Slot { .. } => {
                Err(unfit("customer", &self.id, want))
            }
        };
        decided.map(Event::Customer).map_err(|refusal| Reply::Refused { hold, revision, refusal })
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        None
    }

    fn asks_at(&self, hold: HoldId) -> Option<Timestamp> {
        self.holds.live(hold).map(|live| live.deadline)
    }

    fn granted(&self, hold: HoldId) -> Granted {
        let live = self.holds.live(hold).expect("only live holds are granted");
        Granted {
            hold,
            revision: live.revision,
            want_hash: live.want_hash,
            content: None,
            currency: None,
            ttl_ms: None,
            believed_ms: 0,
            limits: Limits::default(),
            late: false,
            version: live.version,
            position: 0,
        }
    }

    fn decide_release(&self, hold: HoldId, revision: u64, left: Option<&Portion>, last: bool) -> Option<Event> {
        let live = match self.holds.parting(hold, revision, last) {
            Parting::So => return None,
            Parting::Unheard => return Some(held(HoldEvent::Remembered { hold, revision })),
            Parting::Live(live) => live,
        };
        let left = match left {
            None => 0,
            Some(Portion::Quota { count, .. }) => live.what.count.min(*count),
            Some(left) => panic!("of {hold:?} is to be left {left:?}"),
        };
        Some(Event::Customer(CustomerEvent::QuotaReleased { hold, revision, left, remember: !last, expired: false }))
    }

    fn decide_sell(&self, hold: HoldId, revision: u64, portion: &Portion, order: OrderId, at: Timestamp) -> Vec<Event> {
        let Some(live) = self.holds.to_sell(hold, revision, order) else { return Vec::new() };
        let Portion::Quota { quota, count } = portion else { panic!("of {hold:?} is sold {portion:?}") };
        let (has, count) = (live.what.count, *count);
        assert_eq!(live.what.quota, *quota, "{hold:?} is sold in another quota");
        assert!((1..=has).contains(&count), "a cart sells {count} parts of {has} of {hold:?}");
        let sale = Event::Customer(CustomerEvent::QuotaSold { hold, count, at });
        if count == has {
            return vec![sale];
        }
        let release = CustomerEvent::QuotaReleased { hold, revision, left: count, remember: false, expired: false };
        vec![Event::Customer(release), sale]
    }

    fn knows(&self, hold: HoldId) -> bool {
        self.holds.knows(hold)
    }

    fn sale_version(&self, hold: HoldId) -> Option<u64> {
        self.holds.sale(hold).map(|sale| sale.version)
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        self.holds.to_refund(hold).map(|_| Event::Customer(CustomerEvent::QuotaRefunded { hold }))
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
    Event::Customer(CustomerEvent::Hold(event))
}

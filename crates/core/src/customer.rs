//! A customer, with the list of orders, and how much of each quota is in carts and orders.
//!
//! [`Customer::apply`] writes, and `decide` decides. A customer exists from the first event on. Before that,
//! [`Customer::unknown`] decides.

mod decide;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    answer::{CustomerAudit, Purchase, PurchasesPage},
    cursor::PAGE_MAX,
    event::CustomerEvent,
    fairness::Amount,
    holds::{Hold, HoldIndex, Holds, Refunded},
    id::{Id, OrderId},
    portion::Portion,
    refusal::Refusal,
    shared_map::SharedMap,
    taken::Taken,
    terms::bad,
};

/// The state of a customer.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Customer {
    #[n(0)]
    id: Id,
    #[n(1)]
    version: u64,
    #[n(2)]
    holds: Holds<Part>,
    /// By cursor.
    #[n(3)]
    purchases: SharedMap<u64, Purchase>,
    /// The cursor of each order (P12). Follows from the purchases.
    #[stored(skip)]
    posted: SharedMap<OrderId, u64>,
    /// Quotas of which something is held or sold. Follows from the holds.
    #[stored(skip)]
    quotas: SharedMap<Id, Taken>,
}

/// The part of a quota that one hold has.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
struct Part {
    #[n(0)]
    quota: Id,
    #[n(1)]
    count: u32,
}

/// Quotas have customers, who have no share of them.
impl Amount for Part {
    fn amount(&self) -> u32 {
        0
    }
}

impl Part {
    fn portion(&self) -> Portion {
        Portion::Quota { quota: self.quota.clone(), count: self.count }
    }
}

impl Customer {
    /// A customer without any event.
    pub fn unknown(id: Id) -> Customer {
        Customer {
            id,
            version: 0,
            holds: Holds::default(),
            purchases: SharedMap::new(),
            posted: SharedMap::new(),
            quotas: SharedMap::new(),
        }
    }

    /// A customer from its first event.
    pub fn first(id: Id, event: &CustomerEvent) -> Customer {
        let mut customer = Customer::unknown(id);
        customer.apply(event);
        customer
    }

    /// How many events there were.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    ///
    /// # Panics
    /// If the event breaks a promise.
    pub fn apply(&mut self, event: &CustomerEvent) {
        self.version += 1;
        match event {
            CustomerEvent::QuotaHeld { hold, revision, want_hash, quota, count, deadline } => {
                assert!(*count > 0, "hold {hold:?} of nothing");
                let part = Part { quota: quota.clone(), count: *count };
                let live = Hold::new(*revision, *want_hash, *deadline, self.version, part);
                let before = self.holds.hold(*hold, live, None).map_or(0, |before| {
                    assert_eq!(before.quota, *quota, "{hold:?} goes from one quota to another");
                    before.count
                });
                self.count(quota, |taken| taken.hold(before, *count));
            }
            CustomerEvent::QuotaReleased { hold, revision, left, remember, .. } => {
                let Part { quota, count } = self.holds.released(*hold).clone();
                assert!(*left <= count, "{hold:?} releases down to {left} and has {count}");
                let part = (*left > 0).then(|| Part { quota: quota.clone(), count: *left });
                self.holds.release(*hold, *revision, part, (*remember, None));
                self.count(&quota, |taken| taken.hold(count, *left));
            }
            CustomerEvent::QuotaSold { hold, count, at } => {
                let sold = self.holds.sell(*hold, (*at, None), self.version);
                assert_eq!(sold.count, *count, "hold {hold:?} is sold with another part than it has");
                self.count(&sold.quota, |taken| taken.sell(*count));
            }
            CustomerEvent::QuotaRefunded { hold } => {
                let refunded = self.holds.refund(*hold);
                let (Refunded::Sale(Part { quota, .. }) | Refunded::Hold(Part { quota, .. })) = &refunded;
                let quota = quota.clone();
                self.count(&quota, |taken| taken.refund(refunded.map(|part| part.count)));
            }
            CustomerEvent::Hold(event) => self.holds.apply(event),
            CustomerEvent::Posted(purchase) => {
                assert_eq!(purchase.cursor, self.newest() + 1, "the purchases of {} have a gap", self.id);
                let before = self.posted.insert(purchase.order, purchase.cursor);
                assert!(before.is_none(), "order {} is posted twice", purchase.order);
                self.purchases.insert(purchase.cursor, purchase.clone());
            }
        }
    }

    /// Computes what is not serialized.
    pub(crate) fn rebuild(&mut self) {
        self.holds.rebuild();
        self.quotas = self.counted();
        self.posted = self.purchases.values().map(|purchase| (purchase.order, purchase.cursor)).collect();
    }

    /// Whether no cart holds a part of a quota, or may still send messages about a released hold.
    pub(crate) fn is_unused(&self) -> bool {
        self.holds.all_live().next().is_none() && self.holds.remembered() == 0
    }

    /// Purchases after a cursor, up to `limit`.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`] if the limit is not 1 to 1 000.
    pub fn purchases(&self, after: u64, limit: u32) -> Result<PurchasesPage, Refusal> {
        use core::ops::Bound::{Excluded, Unbounded};
        if !(1..=PAGE_MAX).contains(&limit) {
            return bad(format_smolstr!("a page has 1 to {PAGE_MAX} purchases"));
        }
        let found = self.purchases.range((Excluded(after), Unbounded)).map(|(_, purchase)| purchase.clone());
        Ok(PurchasesPage { purchases: found.take(limit as usize).collect(), newest: self.newest(), epoch: None })
    }

    /// Every purchase, by cursor.
    pub fn all_purchases(&self) -> impl Iterator<Item = &Purchase> {
        self.purchases.iter().map(|(_, purchase)| purchase)
    }

    /// The cursor of an order among the purchases, or `None` if it was not posted.
    pub fn cursor(&self, order: OrderId) -> Option<u64> {
        self.posted.get(&order).copied()
    }

    /// Everything about it, counted anew.
    pub fn audit(&self) -> CustomerAudit {
        let mut violations: Vec<SmolStr> = self.holds.violations();
        let counted = self.counted();
        if counted != self.quotas {
            violations.push(format_smolstr!("counters say {:?}, holds and sales say {counted:?}", self.quotas));
        }
        for (place, purchase) in (1..).zip(self.purchases.values()) {
            let Purchase { cursor, order, .. } = purchase;
            if *cursor != place || self.posted.get(order) != Some(cursor) {
                violations.push(format_smolstr!("order {order} is purchase {place}, and says {cursor}"));
            }
        }
        if self.posted.len() != self.purchases.len() {
            violations.push(format_smolstr!("{} orders in {} purchases", self.posted.len(), self.purchases.len()));
        }
        CustomerAudit {
            customer: self.id.clone(),
            quotas: counted.iter().map(|(quota, taken)| (quota.clone(), taken.held, taken.sold)).collect(),
            holds: self.holds.hold_views(Part::portion),
            sales: self.holds.sale_views(Part::portion),
            purchases: self.purchases.values().map(|purchase| purchase.order).collect(),
            violations,
        }
    }

    /// Bytes on the heap, without long names of quotas.
    pub fn heap_bytes(&self) -> usize {
        let maps = self.purchases.heap_bytes() + self.posted.heap_bytes() + self.quotas.heap_bytes();
        self.id.heap_bytes() + maps + self.holds.heap_bytes()
    }

    /// The cursor of the newest purchase, or 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.purchases.last().map_or(0, |(cursor, _)| *cursor)
    }

    fn taken(&self, quota: &Id) -> Taken {
        self.quotas.get(quota).copied().unwrap_or_default()
    }

    /// Changes the counters of a quota. Unused quotas have no counters.
    fn count(&mut self, quota: &Id, change: impl FnOnce(&mut Taken)) {
        let mut taken = self.taken(quota);
        change(&mut taken);
        if taken == Taken::default() {
            self.quotas.remove(quota);
        } else {
            self.quotas.insert(quota.clone(), taken);
        }
    }

    fn counted(&self) -> SharedMap<Id, Taken> {
        let mut quotas: SharedMap<Id, Taken> = SharedMap::new();
        for (_, hold) in self.holds.all_live() {
            quotas.get_or_insert(&hold.what.quota, Taken::default()).held += u64::from(hold.what.count);
        }
        for (_, sale) in self.holds.all_sales() {
            quotas.get_or_insert(&sale.what.quota, Taken::default()).sold += u64::from(sale.what.count);
        }
        quotas
    }
}

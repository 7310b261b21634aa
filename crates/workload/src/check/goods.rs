//! Checks units, places and slots: P1 in each entity, and the clients' answers against the entities' holds and sales.
//!
//! A request with an unknown outcome may have happened or not, but only as a whole.

use std::collections::BTreeMap;

use boxoffice_core::id::CartId;
use boxoffice_wire::view::{CartAudit, CartState, HoldView, SaleView};

use super::{
    AuditedState, Breach, Findings,
    shares::{self, Share},
};
use crate::{
    goods::{Good, Goods, Owner, good_of_portion},
    history::{CartRecord, GoodsHoldRecord, History, Outcome},
};

/// The codes of `not_enough_places` and `out_of_stock`.
const SOLD_OUT: [u16; 2] = [205, 401];

/// Checks every audited product, arena and resource.
pub(super) fn check(goods: &Goods, history: &History, audited: &AuditedState, findings: &mut Findings) {
    let mut actual: BTreeMap<(Good, CartId), Actual> = BTreeMap::new();
    let mut add = |owner: Owner, holds: &[HoldView], sales: &[SaleView]| {
        for hold in holds {
            if let Some(good) = good_of_portion(&hold.portion, owner) {
                actual.entry((good, hold.hold.cart)).or_default().held += u64::from(hold.portion.quantity());
            }
        }
        for sale in sales {
            if let Some(good) = good_of_portion(&sale.portion, owner) {
                actual.entry((good, sale.order.cart())).or_default().sold += u64::from(sale.portion.quantity());
            }
        }
    };
    for (&product, audit) in &audited.products {
        add(Owner::Product(product), &audit.holds, &audit.sales);
        findings.add_reported(&audit.product, &audit.violations);
    }
    for (&arena, audit) in &audited.arenas {
        add(Owner::Arena(arena), &audit.holds, &audit.sales);
        findings.add_reported(&audit.session, &audit.violations);
    }
    for (&resource, (audit, _)) in &audited.resources {
        add(Owner::Resource(resource), &audit.holds, &audit.sales);
        findings.add_reported(&audit.resource, &audit.violations);
    }
    let mut totals: BTreeMap<Good, Actual> = BTreeMap::new();
    for (&(good, cart), actual) in &actual {
        findings.units_sold += actual.sold;
        findings.units_held += actual.held;
        let total = totals.entry(good).or_default();
        total.sold += actual.sold;
        total.held += actual.held;
        if matches!(good, Good::Slot { .. }) && actual.sold + actual.held > 1 {
            findings.add(Breach::Twice, || format!("cart {cart} has {good:?} more than once"));
        }
    }
    check_counts(goods, audited, &totals, findings);

    let is_audited = |good: Good| match good {
        Good::Product(product) => audited.products.contains_key(&product),
        Good::Area { arena, .. } => audited.arenas.contains_key(&arena),
        Good::Slot { resource, .. } => audited.resources.contains_key(&resource),
    };
    let mut ever_granted: BTreeMap<Good, u64> = BTreeMap::new();
    let mut expected_by_cart: BTreeMap<CartId, BTreeMap<Good, Expected>> = BTreeMap::new();
    for record in history.carts.iter().filter(|record| !record.goods_holds.is_empty()) {
        let by_good = Expected::by_good(audited, record);
        for (&good, expected) in &by_good {
            if is_audited(good) {
                let actual = actual.remove(&(good, record.cart)).unwrap_or_default();
                let text = || {
                    let (entity, cart, granted) = (goods.entity(good), record.cart, expected.granted);
                    format!("cart {cart} was granted {granted} of {good:?}; {entity} has {actual:?} for it")
                };
                let (held, sold) = (expected.share(actual.held), expected.share(actual.sold));
                shares::check(record, (held, sold, expected.must_exist), &text, findings);
            }
            *ever_granted.entry(good).or_default() += expected.granted + expected.unknown;
        }
        expected_by_cart.insert(record.cart, by_good);
    }
    for ((good, cart), actual) in actual {
        findings.add(Breach::Unexplained, || {
            let entity = goods.entity(good);
            format!("{entity} has {actual:?} of {good:?} for cart {cart}, which never requested it")
        });
    }
    for record in &history.carts {
        for hold in &record.goods_holds {
            check_refusal(goods, record, hold, &ever_granted, findings);
        }
    }
    for cart in audited.carts.iter().filter(|cart| cart.cart.state == CartState::Done) {
        check_lines(goods, cart, expected_by_cart.get(&cart.cart.id), findings);
    }
}

/// The quantity of a good that its entity has for one cart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Actual {
    held: u64,
    sold: u64,
}

/// The quantity of a good that a cart should have by its client's answers.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    granted: u64,
    /// The quantity in requests with an unknown outcome.
    unknown: u64,
    /// Whether the deadline has not passed, so that the entity must have the granted quantity.
    must_exist: bool,
}

impl Expected {
    fn by_good(audited: &AuditedState, record: &CartRecord) -> BTreeMap<Good, Expected> {
        let mut by_good: BTreeMap<Good, Expected> = BTreeMap::new();
        for hold in &record.goods_holds {
            let expected = by_good.entry(hold.good).or_default();
            match hold.outcome {
                Outcome::Granted(deadline) => {
                    expected.granted += u64::from(hold.quantity);
                    expected.must_exist |= deadline > audited.at;
                }
                Outcome::Unknown => expected.unknown += u64::from(hold.quantity),
                Outcome::Refused { .. } | Outcome::NotDone => {}
            }
        }
        by_good
    }

    /// Compares a quantity with the answers.
    fn share(&self, quantity: u64) -> Share {
        Share {
            is_empty: quantity == 0,
            lacks: quantity < self.granted,
            exceeds: quantity > self.granted + self.unknown,
        }
    }
}

/// P1: the free, held and sold quantities add up, and agree with the holds and sales.
fn check_counts(goods: &Goods, audited: &AuditedState, totals: &BTreeMap<Good, Actual>, findings: &mut Findings) {
    let mut check = |good: Good, counts: [u64; 3]| {
        findings.units_free += counts[0];
        let (all, total) = (goods.capacity(good), totals.get(&good).copied().unwrap_or_default());
        if counts.iter().sum::<u64>() != all || counts[1..] != [total.held, total.sold] {
            findings.add(Breach::Miscounted, || {
                format!("the counts of {all} of {good:?} are {counts:?}, but its holds and sales have {total:?}")
            });
        }
    };
    for (&product, audit) in &audited.products {
        check(Good::Product(product), [audit.counts.free, audit.counts.held, audit.counts.sold]);
    }
    for (&arena, audit) in &audited.arenas {
        for (area, counts) in (0..).zip(&audit.areas) {
            check(Good::Area { arena, area }, [counts.free, counts.held, counts.sold].map(u64::from));
        }
    }
}

/// Checks that a hold was not refused as sold out while there was enough. There was enough if the refusal itself says
/// so, or if everything that was ever granted leaves enough.
fn check_refusal(
    goods: &Goods,
    record: &CartRecord,
    hold: &GoodsHoldRecord,
    ever_granted: &BTreeMap<Good, u64>,
    findings: &mut Findings,
) {
    let Outcome::Refused { code, more: free } = hold.outcome else { return };
    if !SOLD_OUT.contains(&code) {
        return;
    }
    let wanted = u64::from(hold.quantity);
    let granted = ever_granted.get(&hold.good).copied().unwrap_or(0);
    if free.is_some_and(|free| free >= wanted) || granted + wanted <= goods.capacity(hold.good) {
        findings.add(Breach::RefusedWhileFree, || {
            format!(
                "cart {} was refused {wanted} of {:?} with {free:?} free; at most {granted} were ever granted",
                record.cart, hold.good
            )
        });
    }
}

/// P7: the lines of a done cart are the goods that its client was granted.
fn check_lines(goods: &Goods, audit: &CartAudit, expected: Option<&BTreeMap<Good, Expected>>, findings: &mut Findings) {
    let mut lines: BTreeMap<Good, u64> = BTreeMap::new();
    for line in &audit.cart.lines {
        if let Some(good) = goods.of_line(line) {
            *lines.entry(good).or_default() += u64::from(line.content.quantity());
        }
    }
    let nothing = BTreeMap::new();
    let expected = expected.unwrap_or(&nothing);
    let is_wrong =
        expected.iter().any(|(good, expected)| !expected.share(lines.get(good).copied().unwrap_or(0)).fits());
    let is_unexpected = lines.keys().any(|good| !expected.contains_key(good));
    if is_wrong || is_unexpected {
        findings.add(Breach::WrongOrder, || {
            format!("order {} has {lines:?}, but its client's answers are {expected:?}", audit.cart.id.order())
        });
    }
}

//! Checks units, places and slots: P1 in each entity, and the clients' answers against the entities' holds and sales.
//!
//! A request with an unknown outcome may have happened or not, but only as a whole.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{CartAudit, CartState, HoldView, SaleView},
    id::CartId,
    portion::Portion,
};

use super::{AuditedState, Breach, Findings};
use crate::{
    goods::{Good, Goods, Owner, good_of_portion},
    history::{CartRecord, CheckoutOutcome, GoodsHoldOutcome, GoodsHoldRecord, History},
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
    }
    for (&arena, audit) in &audited.arenas {
        add(Owner::Arena(arena), &audit.holds, &audit.sales);
    }
    for (&resource, (audit, _)) in &audited.resources {
        add(Owner::Resource(resource), &audit.holds, &audit.sales);
    }
    check_counts(goods, audited, findings);
    for (&(good, cart), actual) in &actual {
        findings.units_sold += actual.sold;
        findings.units_held += actual.held;
        if let Good::Slot { .. } = good
            && actual.sold + actual.held > 1
        {
            findings.add(Breach::Twice, || format!("cart {cart} has {good:?} more than once"));
        }
    }

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
                check_cart(goods, record, good, *expected, actual, findings);
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
                GoodsHoldOutcome::Granted { deadline } => {
                    expected.granted += u64::from(hold.quantity);
                    expected.must_exist |= deadline > audited.at;
                }
                GoodsHoldOutcome::Unknown => expected.unknown += u64::from(hold.quantity),
                GoodsHoldOutcome::Refused { .. } | GoodsHoldOutcome::NotDone => {}
            }
        }
        by_good
    }

    /// Whether this quantity agrees with the answers.
    fn allows(&self, quantity: u64) -> bool {
        (self.granted..=self.granted + self.unknown).contains(&quantity)
    }
}

/// P1: the free, held and sold quantities add up, and agree with the holds and sales.
fn check_counts(goods: &Goods, audited: &AuditedState, findings: &mut Findings) {
    let sum = |portions: &mut dyn Iterator<Item = &Portion>| -> u64 {
        portions.map(|portion| u64::from(portion.quantity())).sum()
    };
    for audit in audited.products.values() {
        let counts = audit.counts;
        findings.units_free += counts.free;
        let held = sum(&mut audit.holds.iter().map(|hold| &hold.portion));
        let sold = sum(&mut audit.sales.iter().map(|sale| &sale.portion));
        let adds_up = counts.free + counts.held + counts.sold == goods.stock;
        if !adds_up || (counts.held, counts.sold) != (held, sold) {
            findings.add(Breach::Miscounted, || {
                let (product, stock) = (&audit.product, goods.stock);
                format!(
                    "the counts of product {product} of {stock} units are {counts:?}, but its holds have {held} and its \
                     sales {sold}"
                )
            });
        }
        add_reported(&audit.product, &audit.violations, findings);
    }
    for (&arena, audit) in &audited.arenas {
        for (number, counts) in audit.areas.iter().enumerate() {
            let is_in_area = |portion: &&Portion| {
                let good = good_of_portion(portion, Owner::Arena(arena));
                good == Some(Good::Area { arena, area: number as u32 })
            };
            findings.units_free += u64::from(counts.free);
            let held = sum(&mut audit.holds.iter().map(|hold| &hold.portion).filter(is_in_area));
            let sold = sum(&mut audit.sales.iter().map(|sale| &sale.portion).filter(is_in_area));
            let adds_up = counts.free + counts.held + counts.sold == goods.capacity;
            if !adds_up || (u64::from(counts.held), u64::from(counts.sold)) != (held, sold) {
                findings.add(Breach::Miscounted, || {
                    let session = &audit.session;
                    format!("the counts of {session} are {counts:?}, but its holds have {held} and its sales {sold}")
                });
            }
        }
        add_reported(&audit.session, &audit.violations, findings);
    }
    for (audit, _) in audited.resources.values() {
        add_reported(&audit.resource, &audit.violations, findings);
    }
}

/// Adds the violations that a server's audit reports.
fn add_reported(entity: &impl std::fmt::Display, violations: &[impl std::fmt::Display], findings: &mut Findings) {
    for violation in violations {
        findings.add(Breach::Reported, || format!("{entity}: {violation}"));
    }
}

/// Compares what an entity has for one cart with the client's answers.
fn check_cart(
    goods: &Goods,
    record: &CartRecord,
    good: Good,
    expected: Expected,
    actual: Actual,
    findings: &mut Findings,
) {
    let (entity, granted) = (goods.entity(good), expected.granted);
    let text = || format!("cart {} was granted {granted} of {good:?}; {entity} has {actual:?} for it", record.cart);
    match record.checkout.as_ref().map(|checkout| &checkout.outcome) {
        Some(CheckoutOutcome::Bought { .. }) => {
            if actual.sold == 0 && granted > 0 && expected.allows(actual.held) {
                findings.add(Breach::Unsettled, || format!("{}; the cart bought them, but they are not sold", text()));
            } else if !expected.allows(actual.sold) {
                let breach = if actual.sold < granted { Breach::Lost } else { Breach::Unexplained };
                findings.add(breach, || format!("{}; the cart bought them", text()));
            } else if actual.held > 0 {
                findings.add(Breach::Unexplained, || format!("{}; the cart is done", text()));
            }
        }
        Some(CheckoutOutcome::Unknown) => {
            // A payment with an unknown outcome may have been declined. Everything was released then.
            let is_gone = actual == Actual::default() && (!expected.must_exist || record.gateway);
            let is_whole = is_gone
                || (actual.sold == 0 && expected.allows(actual.held))
                || (actual.held == 0 && expected.allows(actual.sold));
            if !is_whole {
                findings.add(Breach::Lost, || format!("{}; the cart may have bought them", text()));
            }
        }
        Some(CheckoutOutcome::Refused { .. } | CheckoutOutcome::NotDone) | None => {
            if actual.sold > 0 {
                findings.add(Breach::Unexplained, || format!("{}; the cart did not buy", text()));
            }
            if record.is_declined() {
                if actual.held > 0 {
                    findings.add(Breach::Unsettled, || format!("{}; the cart's payment was declined", text()));
                }
            } else if expected.must_exist && actual.held < granted {
                findings.add(Breach::Lost, text);
            } else if actual.held > granted + expected.unknown {
                findings.add(Breach::Unexplained, text);
            }
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
    let GoodsHoldOutcome::Refused { code, free } = hold.outcome else { return };
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
    let is_wrong = expected.iter().any(|(good, expected)| !expected.allows(lines.get(good).copied().unwrap_or(0)));
    let is_unexpected = lines.keys().any(|good| !expected.contains_key(good));
    if is_wrong || is_unexpected {
        findings.add(Breach::WrongOrder, || {
            format!("order {} has {lines:?}, but its client's answers are {expected:?}", audit.cart.id.order())
        });
    }
}

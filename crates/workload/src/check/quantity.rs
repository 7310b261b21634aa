//! Units, places and slots in carts and orders: P1 in each entity, and the clients' books against the entities'.
//! An unknown outcome is never taken for absent: either way is right, but only whole.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{CartAudit, CartState, HoldView, SaleView},
    id::CartId,
    portion::Portion,
};

use super::{Audited, Breach, Findings};
use crate::{
    goods::{Good, Goods, Owner, portion_good},
    history::{CartRecord, CheckoutOutcome, History, TakeOutcome, TakeRecord},
};

/// The numbers of `not_enough_places` and `out_of_stock`.
const SOLD_OUT: [u16; 2] = [205, 401];

/// Checks every audited product, arena and resource.
pub(super) fn check(goods: &Goods, history: &History, audited: &Audited, findings: &mut Findings) {
    let mut has: BTreeMap<(Good, CartId), Has> = BTreeMap::new();
    let mut note = |owner: Owner, holds: &[HoldView], sales: &[SaleView]| {
        for hold in holds {
            if let Some(good) = portion_good(&hold.portion, owner) {
                has.entry((good, hold.hold.cart)).or_default().held += u64::from(hold.portion.quantity());
            }
        }
        for sale in sales {
            if let Some(good) = portion_good(&sale.portion, owner) {
                has.entry((good, sale.order.cart())).or_default().sold += u64::from(sale.portion.quantity());
            }
        }
    };
    for (&product, audit) in &audited.products {
        note(Owner::Product(product), &audit.holds, &audit.sales);
    }
    for (&arena, audit) in &audited.arenas {
        note(Owner::Arena(arena), &audit.holds, &audit.sales);
    }
    for (&resource, (audit, _)) in &audited.resources {
        note(Owner::Resource(resource), &audit.holds, &audit.sales);
    }
    check_counts(goods, audited, findings);
    for (&(good, cart), has) in &has {
        findings.units_sold += has.sold;
        findings.units_held += has.held;
        if let Good::Slot { .. } = good
            && has.sold + has.held > 1
        {
            findings.add(Breach::Twice, || format!("{good:?} is taken more than once by cart {cart}"));
        }
    }

    let looked_at = |good: Good| match good {
        Good::Product(product) => audited.products.contains_key(&product),
        Good::Area { arena, .. } => audited.arenas.contains_key(&arena),
        Good::Slot { resource, .. } => audited.resources.contains_key(&resource),
    };
    let mut taken: BTreeMap<Good, u64> = BTreeMap::new();
    let mut books: BTreeMap<CartId, BTreeMap<Good, Book>> = BTreeMap::new();
    for record in history.carts.iter().filter(|record| !record.takes.is_empty()) {
        let book = Book::of(audited, record);
        for (&good, wanted) in &book {
            if looked_at(good) {
                let has = has.remove(&(good, record.cart)).unwrap_or_default();
                check_cart(goods, record, good, *wanted, has, findings);
            }
            *taken.entry(good).or_default() += wanted.granted + wanted.open;
        }
        books.insert(record.cart, book);
    }
    for ((good, cart), has) in has {
        findings.add(Breach::Unexplained, || {
            format!("{} has {has:?} of {good:?} for cart {cart}, which never asked", goods.entity(good))
        });
    }
    for record in &history.carts {
        for take in &record.takes {
            check_refusal(goods, record, take, &taken, findings);
        }
    }
    for cart in audited.carts.iter().filter(|cart| cart.cart.state == CartState::Done) {
        check_lines(goods, cart, books.get(&cart.cart.id), findings);
    }
}

/// What an entity has of a good for one cart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Has {
    held: u64,
    sold: u64,
}

/// What a client knows of its cart's part of a good.
#[derive(Clone, Copy, Debug, Default)]
struct Book {
    granted: u64,
    /// Of requests without an answer.
    open: u64,
    /// Whether the deadline has not passed, so that it must be there.
    certain: bool,
}

impl Book {
    fn of(audited: &Audited, record: &CartRecord) -> BTreeMap<Good, Book> {
        let mut books: BTreeMap<Good, Book> = BTreeMap::new();
        for take in &record.takes {
            let book = books.entry(take.good).or_default();
            match take.outcome {
                TakeOutcome::Granted { deadline } => {
                    book.granted += u64::from(take.quantity);
                    book.certain |= deadline > audited.at;
                }
                TakeOutcome::Unknown => book.open += u64::from(take.quantity),
                TakeOutcome::Refused { .. } | TakeOutcome::NotDone => {}
            }
        }
        books
    }

    /// Whether so many can be what was granted.
    fn fits(&self, quantity: u64) -> bool {
        (self.granted..=self.granted + self.open).contains(&quantity)
    }
}

/// P1: what is free, held and sold adds up, and is what holds and sales have.
fn check_counts(goods: &Goods, audited: &Audited, findings: &mut Findings) {
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
                format!(
                    "product {} of {} units counts {counts:?}, its holds have {held} and its sales {sold}",
                    audit.product, goods.stock
                )
            });
        }
        reported(&audit.product, &audit.violations, findings);
    }
    for (&arena, audit) in &audited.arenas {
        for (number, counts) in audit.areas.iter().enumerate() {
            let of_area = |portion: &&Portion| {
                let good = portion_good(portion, Owner::Arena(arena));
                good == Some(Good::Area { arena, area: number as u32 })
            };
            findings.units_free += u64::from(counts.free);
            let held = sum(&mut audit.holds.iter().map(|hold| &hold.portion).filter(of_area));
            let sold = sum(&mut audit.sales.iter().map(|sale| &sale.portion).filter(of_area));
            let adds_up = counts.free + counts.held + counts.sold == goods.capacity;
            if !adds_up || (u64::from(counts.held), u64::from(counts.sold)) != (held, sold) {
                findings.add(Breach::Miscounted, || {
                    format!("{} counts {counts:?}, its holds have {held} and its sales {sold}", audit.session)
                });
            }
        }
        reported(&audit.session, &audit.violations, findings);
    }
    for (audit, _) in audited.resources.values() {
        reported(&audit.resource, &audit.violations, findings);
    }
}

fn reported(what: &impl std::fmt::Display, violations: &[impl std::fmt::Display], findings: &mut Findings) {
    for violation in violations {
        findings.add(Breach::Reported, || format!("{what}: {violation}"));
    }
}

/// What an entity has for one cart against what its client knows.
fn check_cart(goods: &Goods, record: &CartRecord, good: Good, book: Book, has: Has, findings: &mut Findings) {
    let entity = goods.entity(good);
    let text = || format!("cart {} was granted {} of {good:?}; {entity} has {has:?} for it", record.cart, book.granted);
    match record.checkout.as_ref().map(|checkout| &checkout.outcome) {
        Some(CheckoutOutcome::Bought { .. }) => {
            if has.sold == 0 && book.granted > 0 && book.fits(has.held) {
                findings.add(Breach::Unsettled, || format!("{}; it is bought and not sold", text()));
            } else if !book.fits(has.sold) {
                let breach = if has.sold < book.granted { Breach::Lost } else { Breach::Unexplained };
                findings.add(breach, || format!("{}; it bought them", text()));
            } else if has.held > 0 {
                findings.add(Breach::Unexplained, || format!("{}; it is done", text()));
            }
        }
        Some(CheckoutOutcome::Unknown) => {
            // A payment whose end the client does not know may have been declined: then everything was given back.
            let gone = has == Has::default() && (!book.certain || record.gateway);
            let whole = gone || (has.sold == 0 && book.fits(has.held)) || (has.held == 0 && book.fits(has.sold));
            if !whole {
                findings.add(Breach::Lost, || format!("{}; it may have bought them", text()));
            }
        }
        Some(CheckoutOutcome::Refused { .. } | CheckoutOutcome::NotDone) | None => {
            if has.sold > 0 {
                findings.add(Breach::Unexplained, || format!("{}; it did not buy", text()));
            }
            if record.is_declined() {
                if has.held > 0 {
                    findings.add(Breach::Unsettled, || format!("{}; its payment was declined", text()));
                }
            } else if book.certain && has.held < book.granted {
                findings.add(Breach::Lost, text);
            } else if has.held > book.granted + book.open {
                findings.add(Breach::Unexplained, text);
            }
        }
    }
}

/// Nobody is told "sold out" while there is enough: neither by the refusal's own figure, nor if everything that was ever
/// granted to anybody leaves enough.
fn check_refusal(
    goods: &Goods,
    record: &CartRecord,
    take: &TakeRecord,
    taken: &BTreeMap<Good, u64>,
    findings: &mut Findings,
) {
    let TakeOutcome::Refused { code, free } = take.outcome else { return };
    if !SOLD_OUT.contains(&code) {
        return;
    }
    let wanted = u64::from(take.quantity);
    let ever = taken.get(&take.good).copied().unwrap_or(0);
    if free.is_some_and(|free| free >= wanted) || ever + wanted <= goods.capacity(take.good) {
        findings.add(Breach::RefusedWhileFree, || {
            format!(
                "cart {} was refused {wanted} of {:?} with {free:?} free; {ever} were ever granted",
                record.cart, take.good
            )
        });
    }
}

/// P7: the lines of a done cart are what its client was granted.
fn check_lines(goods: &Goods, audit: &CartAudit, book: Option<&BTreeMap<Good, Book>>, findings: &mut Findings) {
    let mut lines: BTreeMap<Good, u64> = BTreeMap::new();
    for line in &audit.cart.lines {
        if let Some(good) = goods.of_line(line) {
            *lines.entry(good).or_default() += u64::from(line.content.quantity());
        }
    }
    let nothing = BTreeMap::new();
    let book = book.unwrap_or(&nothing);
    let missing = book.iter().any(|(good, book)| !book.fits(lines.get(good).copied().unwrap_or(0)));
    let strange = lines.keys().any(|good| !book.contains_key(good));
    if missing || strange {
        findings.add(Breach::WrongOrder, || {
            format!("order {} has {lines:?}; its client was granted {book:?}", audit.cart.id.order())
        });
    }
}

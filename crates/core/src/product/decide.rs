//! Decisions of a product.

use alloc::{boxed::Box, vec};

use smol_str::format_smolstr;

use super::{Product, Units};
use crate::{
    ask::{Granted, Reply},
    command::{HoldPolicy, Limits, ProductDetails, Want},
    event::{Event, HoldEvent, ProductEvent},
    fairness::Supply,
    holds::{Hold, HoldAsk, HoldIndex},
    id::{Entity, HoldId, OrderId, Request},
    inventory::Inventory,
    money::{AMOUNT_MAX, Currency},
    planted,
    portion::{Content, Portion},
    refusal::{Refusal, Shortage},
    rules::Rules,
    terms::{check_price, check_quantity, check_ttl, unfit},
    time::Timestamp,
};

impl Product {
    /// Creates or changes a product. A put without any change is written too, because a repeat of the request must find it.
    pub(crate) fn decide_put(
        product: Option<&Product>,
        rules: &Rules,
        details: &ProductDetails,
        request: Request,
    ) -> Result<ProductEvent, Refusal> {
        check(rules, details)?;
        if let Some(product) = product {
            let taken = product.taken.all();
            if details.stock < taken {
                let text = format_smolstr!("{taken} units are held and sold; the stock cannot be {}", details.stock);
                return Err(Refusal::BadQuantity(text));
            }
            // Lines that are validated at the checkout have the currency as well, and the product does not know of them.
            let currency = product.details.price.currency;
            if details.price.currency != currency {
                let (entity, asked_currency) = (Entity::Product(product.id.clone()), details.price.currency);
                return Err(Refusal::CurrencyFixed { entity, currency, asked_currency });
            }
        }
        Ok(ProductEvent::Put { details: Box::new(details.clone()), request })
    }

    /// The reply to an ask that sets nothing aside before the checkout.
    fn late(&self, ask: &HoldAsk<'_>, want_hash: u64, quantity: u32) -> Granted {
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        let content = self.units(quantity, self.details.price.amount);
        let asked = Hold::new(revision, want_hash, deadline, self.version, ());
        Granted { late: true, ..self.grant(hold, &asked, Some(content)) }
    }

    /// Units with what a line takes over of the product.
    fn units(&self, quantity: u32, price: i64) -> Content {
        let ProductDetails { name, tax, .. } = &*self.details;
        Content::Units { quantity, price, name: name.clone(), tax: tax.clone() }
    }

    /// Decides a total of `quantity` units for a hold that has `has`.
    fn decide_units(
        &self,
        ask: &HoldAsk<'_>,
        want_hash: u64,
        quantity: u32,
        has: Option<Units>,
    ) -> Result<ProductEvent, Refusal> {
        let Units { quantity: had, price } = has.unwrap_or(Units { quantity: 0, price: self.details.price.amount });
        let wanted = quantity.saturating_sub(had);
        if u64::from(wanted) > self.free() {
            let held = self.counts().held - u64::from(had);
            let product = self.id.clone();
            return Err(Refusal::OutOfStock(vec![Shortage { product, wanted, free: self.free(), held }]));
        }
        let entity = || Entity::Product(self.id.clone());
        let supply = Supply { number: 0, size: Some((self.details.stock, self.free())) };
        let charge = self.holds.charge(ask, entity, (supply, quantity))?;
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        Ok(ProductEvent::UnitsHeld { hold, revision, want_hash, quantity, price, deadline, charge })
    }
}

impl Inventory for Product {
    fn holds(&self) -> Option<&dyn HoldIndex> {
        Some(&self.holds)
    }

    fn hold_event(&self, event: HoldEvent) -> Event {
        Event::Product(ProductEvent::Hold(event))
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        self.details.hold_ttl_ms
    }

    fn sale_terms(&self) -> (Option<Currency>, Limits) {
        (Some(self.details.price.currency), self.details.limits.clone())
    }

    fn content(&self, hold: HoldId) -> Option<Content> {
        let Units { quantity, price } = self.holds.live(hold)?.what;
        Some(self.units(quantity, price))
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
        let Want::Units { quantity, now } = *ask.want else {
            return Err(ask.refused(unfit("product", &self.id, ask.want)));
        };
        check_quantity(quantity).map_err(|refusal| ask.refused(refusal))?;
        let has = self.holds.live(ask.hold).map(|live| live.what);
        // Units that are set aside stay so when the product's policy changes.
        if self.details.hold == HoldPolicy::AtCheckout && !now && has.is_none() {
            return Err(Reply::Granted(self.late(ask, want_hash, quantity)));
        }
        let price = self.details.price.amount;
        if has.is_some_and(|has| quantity > has.quantity && price != has.price)
            && !planted::is("a further unit at the price of before")
        {
            return Err(Reply::Repriced { hold: ask.hold, revision: ask.revision, price, bought_as: None });
        }
        let decided = self.decide_units(ask, want_hash, quantity, has);
        decided.map(Event::Product).map_err(|refusal| ask.refused(refusal))
    }

    fn release_live(&self, hold: HoldId, revision: u64, left: Option<&Portion>, remember: bool) -> Option<Event> {
        let left = match left {
            None => 0,
            Some(Portion::Units(left)) => self.holds.released(hold).quantity.min(*left),
            Some(left) => panic!("{left:?} is to be left of {hold:?}"),
        };
        Some(Event::Product(ProductEvent::UnitsReleased {
            hold,
            revision,
            left,
            remember,
            expired: false,
            freed_at: None,
        }))
    }

    fn sale(&self, hold: HoldId, portion: &Portion, _order: OrderId, at: Timestamp) -> Event {
        Event::Product(ProductEvent::UnitsSold { hold, quantity: portion.quantity(), at, freed_at: None })
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        self.holds.to_refund(hold).map(|_| Event::Product(ProductEvent::UnitsRefunded { hold }))
    }
}

fn check(rules: &Rules, details: &ProductDetails) -> Result<(), Refusal> {
    check_price("a unit", details.price.amount)?;
    if details.stock > AMOUNT_MAX as u64 {
        return Err(Refusal::BadQuantity(format_smolstr!("the stock is more than {AMOUNT_MAX}")));
    }
    check_ttl(rules, details.hold_ttl_ms)
}

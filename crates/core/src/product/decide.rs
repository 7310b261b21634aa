//! What a product decides. Everything is looked at before anything is written.

use alloc::{boxed::Box, vec, vec::Vec};

use smol_str::format_smolstr;

use super::{Product, Units};
use crate::{
    ask::{Granted, Reply},
    command::{HoldPolicy, ProductDetails, Want},
    event::{Event, HoldEvent, ProductEvent},
    holds::{Known, Parting},
    id::{CartId, Entity, HoldId, OrderId, Request},
    inventory::{HoldAsk, Inventory},
    money::AMOUNT_MAX,
    portion::{Content, Portion},
    refusal::{Refusal, Shortage},
    rules::Rules,
    terms::{bad, check_limits, check_name, check_price, check_properties, check_quantity, check_ttl, unfit},
    time::Timestamp,
};

/// The longest blob of a product, in bytes (SC).
const BLOB_BYTES_MAX: usize = 1_024;

impl Product {
    /// Creates a product, or changes the one there is. One that is so already is put all the same: a repeat of the request
    /// must find it.
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
            // Lines that are validated at the checkout have a currency as well, and nothing here knows of them.
            let currency = product.details.price.currency;
            if details.price.currency != currency {
                return Err(Refusal::CurrencyFixed { entity: Entity::Product(product.id.clone()), currency });
            }
        }
        Ok(ProductEvent::Put { details: Box::new(details.clone()), request })
    }

    /// The reply to an ask that sets nothing aside before the checkout.
    fn late(&self, ask: &HoldAsk<'_>, want_hash: u64, quantity: u32) -> Granted {
        let content = Content::Units { quantity, price: self.details.price.amount };
        self.grant(ask.hold, (ask.revision, want_hash, self.version), content, true)
    }

    fn grant(
        &self,
        hold: HoldId,
        (revision, want_hash, version): (u64, u64, u64),
        content: Content,
        late: bool,
    ) -> Granted {
        Granted {
            hold,
            revision,
            want_hash,
            content: Some(content),
            currency: Some(self.details.price.currency),
            ttl_ms: self.hold_ttl_ms(),
            believed_ms: 0,
            limits: self.details.limits.clone(),
            late,
            version,
            position: 0,
        }
    }

    /// So many units altogether for a hold that has `has`.
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
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        Ok(ProductEvent::UnitsHeld { hold, revision, want_hash, quantity, price, deadline })
    }
}

impl Inventory for Product {
    fn decide_hold(&self, _at: Timestamp, ask: &HoldAsk<'_>) -> Result<Event, Reply> {
        let HoldAsk { hold, revision, want, .. } = *ask;
        let want_hash = want.hash();
        let has = match self.holds.recognise(ask, want_hash, true) {
            Known::New => None,
            Known::Change(live) => Some(live.what),
            Known::Repeat => return Err(Reply::Granted(self.granted(hold))),
            Known::Late(reply) => return Err(reply),
        };
        let refused = |refusal| Reply::Refused { hold, revision, refusal };
        let Want::Units { quantity, now } = *want else { return Err(refused(unfit("product", &self.id, want))) };
        check_quantity(quantity).map_err(refused)?;
        // What is set aside already stays so, whatever has become of the product's policy.
        if self.details.hold == HoldPolicy::AtCheckout && !now && has.is_none() {
            return Err(Reply::Granted(self.late(ask, want_hash, quantity)));
        }
        self.decide_units(ask, want_hash, quantity, has).map(Event::Product).map_err(refused)
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        self.details.hold_ttl_ms
    }

    fn asks_at(&self, hold: HoldId) -> Option<Timestamp> {
        self.holds.live(hold).map(|live| live.deadline)
    }

    fn granted(&self, hold: HoldId) -> Granted {
        let live = self.holds.live(hold).expect("only live holds are granted");
        let Units { quantity, price } = live.what;
        let known = (live.revision, live.want_hash, live.version);
        self.grant(hold, known, Content::Units { quantity, price }, false)
    }

    fn decide_release(&self, hold: HoldId, revision: u64, left: Option<&Portion>, last: bool) -> Option<Event> {
        let live = match self.holds.parting(hold, revision, last) {
            Parting::So => return None,
            Parting::Unheard => return Some(held(HoldEvent::Remembered { hold, revision })),
            Parting::Live(live) => live,
        };
        let left = match left {
            None => 0,
            Some(Portion::Units(left)) => live.what.quantity.min(*left),
            Some(left) => panic!("of {hold:?} is to be left {left:?}"),
        };
        Some(Event::Product(ProductEvent::UnitsReleased { hold, revision, left, remember: !last, expired: false }))
    }

    fn decide_sell(&self, hold: HoldId, revision: u64, portion: &Portion, order: OrderId, at: Timestamp) -> Vec<Event> {
        let Some(live) = self.holds.to_sell(hold, revision, order) else { return Vec::new() };
        let Portion::Units(quantity) = *portion else { panic!("of {hold:?} is sold {portion:?}") };
        let has = live.what.quantity;
        assert!((1..=has).contains(&quantity), "a cart sells {quantity} units of {has} of {hold:?}");
        let sale = Event::Product(ProductEvent::UnitsSold { hold, quantity, at });
        if quantity == has {
            return vec![sale];
        }
        let release = ProductEvent::UnitsReleased { hold, revision, left: quantity, remember: false, expired: false };
        vec![Event::Product(release), sale]
    }

    fn knows(&self, hold: HoldId) -> bool {
        self.holds.knows(hold)
    }

    fn sale_version(&self, hold: HoldId) -> Option<u64> {
        self.holds.sale(hold).map(|sale| sale.version)
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        self.holds.to_refund(hold).map(|_| Event::Product(ProductEvent::UnitsRefunded { hold }))
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
    Event::Product(ProductEvent::Hold(event))
}

fn check(rules: &Rules, details: &ProductDetails) -> Result<(), Refusal> {
    let ProductDetails { name, properties, blob, price, stock, hold: _, hold_ttl_ms, limits } = details;
    check_name(name)?;
    check_properties(properties)?;
    if blob.len() > BLOB_BYTES_MAX {
        return bad(format_smolstr!("the blob is longer than {BLOB_BYTES_MAX} bytes"));
    }
    check_price("a unit", price.amount)?;
    if *stock > AMOUNT_MAX as u64 {
        return Err(Refusal::BadQuantity(format_smolstr!("the stock is more than {AMOUNT_MAX}")));
    }
    check_ttl(rules, *hold_ttl_ms)?;
    check_limits(limits)
}

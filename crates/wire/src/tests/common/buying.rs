//! Samples of lines, carts, orders, refunds and purchases.

use std::sync::Arc;

use boxoffice_core::{
    answer::{
        CartState, CartView, Ended, Held, LineView, Order, Purchase, PurchasedItem, PurchasesPage, TakenLine, Taker,
    },
    command::{Payment, Shipping},
    id::Entity,
    payment::{OnDecline, PaymentFailure, RefundRecord, RefundStatus},
    portion::{BoughtAs, Content, PricedSeat, Tax},
};

use super::{HOUR, cart, euro, evening, id, seat};

pub fn line() -> LineView {
    let priced = |number| PricedSeat::new(seat(1, number), 1_000);
    let content = Content::Seats([priced(5), priced(6), priced(7)].into());
    LineView::new(1, Entity::Session(id("hamlet-tonight")), content, false)
}

/// A line of every kind.
pub fn lines() -> Vec<LineView> {
    let (begin, end) = (evening(), evening().after(HOUR));
    let line = |line, entity, content, late| LineView::new(line, entity, content, late);
    let places = Content::Places { area: id("yard"), quantity: 4, price: 500, bought_as: None };
    vec![
        self::line(),
        line(2, Entity::Session(id("hamlet-tonight")), places, false),
        line(
            3,
            Entity::Product(id("programme")),
            Content::Units { quantity: 2, price: 350, name: "Programme".into(), tax: None },
            true,
        ),
        line(
            4,
            Entity::Resource(id("room-5")),
            Content::Slot { begin, end, price: 2_000, details: "with a piano".into() },
            false,
        ),
    ]
}

/// Lines that were bought under an offer.
pub fn offered_lines() -> Vec<LineView> {
    let line = |line, entity, content, late| LineView::new(line, entity, content, late);
    let bought_as = |price_type: &str, tax: Option<Tax>| {
        let (price_type, offer) = (Some(id(price_type)), Some(id("everybody")));
        let code_group = (tax.is_none()).then(|| id("members"));
        Some(Arc::new(BoughtAs { terms: 2, list_price: 1_000, price_type, offer, tax, code_group }))
    };
    let tax = Tax { rate: 700, code: "reduced".into() };
    let young = PricedSeat { seat: seat(2, 1), price: 750, bought_as: bought_as("under26", Some(tax)) };
    let adults = |number| PricedSeat { seat: seat(3, number), price: 900, bought_as: bought_as("adult", None) };
    let taxed = Some(Arc::new(Tax { rate: 700, code: "reduced".into() }));
    let units = Content::Units { quantity: 2, price: 350, name: "Programme".into(), tax: taxed };
    let mixed = Content::Seats([young, PricedSeat { seat: seat(2, 2), ..adults(2) }].into());
    let same = Content::Seats([adults(1), adults(2)].into());
    let yard = Content::Places { area: id("yard"), quantity: 2, price: 300, bought_as: bought_as("under26", None) };
    vec![
        line(6, Entity::Session(id("hamlet-tonight")), mixed, false),
        line(7, Entity::Session(id("hamlet-tonight")), same, false),
        line(8, Entity::Session(id("hamlet-tonight")), yard, false),
        line(9, Entity::Product(id("programme")), units, false),
    ]
}

pub fn cart_view() -> CartView {
    CartView {
        id: cart(),
        state: CartState::CheckingOut,
        customer: Some(id("ada")),
        opened_at: evening(),
        modified_at: evening(),
        deadline: evening().after(1_800_000),
        lines: vec![line()],
        lines_version: 0,
        taken: Vec::new(),
        total: Some(euro(3_000)),
        order: Some(cart().order()),
        ended: None,
    }
}

pub fn empty_cart_view() -> CartView {
    CartView {
        id: cart(),
        state: CartState::Active,
        customer: None,
        opened_at: evening(),
        modified_at: evening(),
        deadline: evening().after(1_800_000),
        lines: Vec::new(),
        lines_version: 0,
        taken: Vec::new(),
        total: None,
        order: None,
        ended: None,
    }
}

/// A cart whose payment was declined, and from which a line had been taken away.
pub fn ended_cart_view() -> CartView {
    let failure = PaymentFailure::Declined { by_operator: false, reason: "the card is blocked".into() };
    CartView {
        state: CartState::Canceled,
        lines_version: 4,
        taken: vec![TakenLine { line: lines().remove(2), by: Taker::Operator, reason: "sold out".into() }],
        order: None,
        ended: Some(Ended::Unpaid(failure)),
        ..cart_view()
    }
}

pub fn held() -> Held {
    let deadline = evening().after(1_800_000);
    Held { cart: cart(), lines: vec![line()], currency: euro(0).currency, deadline, lines_version: 2 }
}

pub fn shipping() -> Shipping {
    Shipping { recipient: "Ada".into(), address: "12 St James's Square".into(), method: "post".into() }
}

pub fn order() -> Arc<Order> {
    Arc::new(Order {
        id: cart().order(),
        customer: Some(id("ada")),
        at: evening(),
        lines: vec![line()],
        total: euro(3_000),
        payment: Payment::Recorded { method: "card".into(), transaction_id: "4711".into() },
        shipping: None,
    })
}

/// An order of everything, paid through the gateway.
pub fn long_order() -> Arc<Order> {
    Arc::new(Order {
        lines: lines(),
        total: euro(7_700),
        payment: Payment::Gateway { source: "".into(), on_decline: Some(OnDecline::Release) },
        shipping: Some(shipping()),
        ..(*order()).clone()
    })
}

pub fn refund() -> RefundRecord {
    RefundRecord {
        number: 1,
        at: evening(),
        lines: vec![1, 2],
        amount: euro(3_000),
        reason: "the roof leaks".into(),
        status: RefundStatus::Failed { reason: "the account is closed".into() },
    }
}

pub fn purchase() -> Purchase {
    let item = PurchasedItem { entity: Entity::Session(id("hamlet-tonight")), quantity: 2 };
    Purchase { cursor: 3, order: cart().order(), at: evening(), total: euro(3_000), zone: None, items: vec![item] }
}

pub fn purchases_page() -> PurchasesPage {
    PurchasesPage { purchases: vec![purchase()], newest: 4, epoch: Some(1) }
}

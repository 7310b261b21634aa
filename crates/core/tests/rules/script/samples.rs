//! Samples of products, sessions and commands in their simplest form.

use std::sync::Arc;

use boxoffice_core::{
    command::{
        CartCommand, Expect, HoldPolicy, Limits, NewSession, Payment, ProductDetails, Rate, ResourceDetails,
        SessionExtras, VenueDetails, WantedLine,
    },
    id::{CartId, Id},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    payment::OnDecline,
    time::Timestamp,
};

/// A layout from its picture.
pub(crate) fn layout(picture: &str) -> Arc<Layout> {
    let row = |(number, row): (usize, &str)| {
        let mut runs: Vec<Run> = Vec::new();
        let mut gap = 0;
        let mut seats = 0;
        for letter in row.chars() {
            if letter == '_' {
                gap += 1;
                continue;
            }
            seats += 1;
            runs.push(Run {
                gap: std::mem::take(&mut gap),
                count: 1,
                labels: Labels::Numbers { first: seats, step: 1 },
                category: id(&letter.to_ascii_lowercase().to_string()),
                accessible: letter.is_ascii_uppercase(),
                points: Vec::new(),
            });
        }
        Row { label: (number + 1).to_string().into(), section: None, runs }
    };
    Arc::new(Layout::new(picture.split('/').enumerate().map(row).collect(), None).expect("a good picture"))
}

pub(crate) fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

/// The cart that scripts call by this letter.
pub(crate) fn cart(name: &str) -> CartId {
    let [letter] = name.as_bytes() else { panic!("{name} is not a cart: carts have one letter") };
    CartId(u128::from(*letter))
}

pub(crate) fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("three letters") }
}

/// A session with a price of 10.00 times the place of the category.
pub(crate) fn new_session(
    name: &str,
    layout: &Layout,
    starts_at: u64,
    ends_at: u64,
    ttl_ms: Option<u64>,
) -> NewSession {
    let price = |(place, category): (usize, &Id)| (category.clone(), euros(1_000 * (place as i64 + 1)));
    NewSession {
        id: id(name),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(starts_at),
        ends_at: Timestamp(ends_at),
        prices: layout.categories().iter().enumerate().map(price).collect(),
        extras: SessionExtras { hold_ttl_ms: ttl_ms, ..Default::default() },
    }
}

pub(crate) fn details() -> VenueDetails {
    VenueDetails {
        name: "House".into(),
        city: "Town".into(),
        position: None,
        comments: "".into(),
        zone: None,
        address: "".into(),
    }
}

/// A product without properties.
pub(crate) fn product(price: Money, stock: u64) -> ProductDetails {
    ProductDetails {
        name: "Thing".into(),
        properties: Vec::new(),
        blob: Vec::new(),
        price,
        stock,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    }
}

/// A resource that is always open.
pub(crate) fn resource(price: Money) -> ResourceDetails {
    ResourceDetails {
        name: "Room".into(),
        properties: Vec::new(),
        capacity: 1,
        zone: "UTC".into(),
        hours: None,
        before_ms: 0,
        after_ms: 0,
        notice_ms: 0,
        horizon_ms: None,
        rate: Rate { amount: price.amount, currency: price.currency, per_ms: None },
        hold_ttl_ms: None,
        limits: Limits::default(),
    }
}

pub(crate) fn recorded() -> Payment {
    Payment::Recorded { method: "cash".into(), transaction_id: "1".into() }
}

/// A hold of several lines without a customer.
pub(crate) fn hold_lines(lines: Vec<WantedLine>) -> CartCommand {
    CartCommand::Hold { lines, customer: None, guest: false, holder: None, attributes: Vec::new() }
}

/// A checkout at once.
pub(crate) fn check_out() -> CartCommand {
    CartCommand::Checkout {
        payment: recorded(),
        customer: None,
        shipping: None,
        expect: Expect::default(),
        holder: None,
    }
}

/// A checkout through the gateway.
pub(crate) fn pay(on_decline: Option<OnDecline>, customer: Option<Id>) -> CartCommand {
    let payment = Payment::Gateway { source: "card".into(), on_decline };
    CartCommand::Checkout { payment, customer, shipping: None, expect: Expect::default(), holder: None }
}

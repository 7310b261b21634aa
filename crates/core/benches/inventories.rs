//! The cost of the next hold of an inventory that has much already, and of one that has nothing. The hold is applied to a copy
//! that shares everything with its original, as replicas and actors do with the committed state.

use std::{hint::black_box, sync::Arc, time::Duration};

use boxoffice_core::{
    answer::KeptAnswer,
    ask::Opening,
    command::{Area, HoldPolicy, Limits, NewSession, ProductDetails, Rate, ResourceDetails, SessionExtras},
    event::{ProductEvent, Remembered, ResourceEvent, SessionEvent},
    id::{CartId, HoldId, Id, Request, RequestHash},
    layout::Layout,
    money::{Currency, Money},
    product::Product,
    resource::Resource,
    session::Session,
    time::Timestamp,
};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("three letters") }
}

/// Carts are named by hashes, so they come in no order.
fn hold(number: u64) -> HoldId {
    let cart = u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64;
    HoldId { cart: CartId(cart), request: RequestHash(number), part: 0, attempt: 0 }
}

fn units(number: u64) -> ProductEvent {
    let deadline = Timestamp(1_800_000 + number);
    ProductEvent::UnitsHeld {
        hold: hold(number),
        revision: 1,
        want_hash: 1,
        quantity: 1,
        price: 100,
        deadline,
        charge: None,
    }
}

fn product(holds: u64) -> Arc<Product> {
    let details = ProductDetails {
        name: "a thing".into(),
        properties: Vec::new(),
        blob: vec![0; 1_024],
        price: euros(100),
        stock: 1_000_000,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    };
    let mut product = Product::first(
        id("p"),
        &ProductEvent::Put { details: Box::new(details), request: Request { id: RequestHash(0), body: 0 } },
    );
    (0..holds).for_each(|number| product.apply(&units(number)));
    Arc::new(product)
}

fn places(number: u64) -> SessionEvent {
    SessionEvent::PlacesHeld {
        hold: hold(number),
        revision: 1,
        want_hash: 1,
        area: id("floor"),
        quantity: 1,
        deadline: Timestamp(1_800_000 + number),
        charge: None,
        price: None,
        customer: None,
    }
}

fn session(sales: u64) -> Arc<Session> {
    let floor =
        Area { id: id("floor"), name: "Floor".into(), capacity: 100_000, price: euros(100), names: Default::default() };
    let session = NewSession {
        id: id("s"),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(1_000_000),
        ends_at: Timestamp(2_000_000),
        prices: Vec::new(),
        extras: SessionExtras { areas: vec![floor], ..Default::default() },
    };
    let layout = Arc::new(Layout::new(Vec::new(), None).expect("a hall may have no seats"));
    let mut session = Session::opened(&Opening { venue: id("venue"), session, layout, zone: Default::default() });
    for number in 0..sales {
        session.apply(&places(number));
        session.apply(&SessionEvent::PlacesSold {
            hold: hold(number),
            quantity: 1,
            at: Timestamp(number),
            freed_at: None,
        });
    }
    Arc::new(session)
}

fn slot(number: u64) -> ResourceEvent {
    ResourceEvent::SlotHeld {
        hold: hold(number),
        revision: 1,
        want_hash: 1,
        begin: Timestamp(number * 1_800_000),
        end: Timestamp((number + 1) * 1_800_000),
        price: 100,
        details: "".into(),
        deadline: Timestamp(1_800_000 + number),
        charge: None,
    }
}

fn resource(bookings: u64) -> Arc<Resource> {
    let details = ResourceDetails {
        name: "a desk".into(),
        properties: Vec::new(),
        capacity: 1,
        zone: "Europe/Berlin".into(),
        hours: None,
        before_ms: 0,
        after_ms: 0,
        notice_ms: 0,
        horizon_ms: None,
        rate: Rate { amount: 100, currency: euros(0).currency, per_ms: None },
        hold_ttl_ms: None,
        limits: Limits::default(),
    };
    let mut resource = Resource::first(
        id("r"),
        &ResourceEvent::Put { details: Box::new(details), request: Request { id: RequestHash(0), body: 0 } },
    );
    for number in 0..bookings {
        let request = Request { id: RequestHash(number), body: number };
        let ResourceEvent::SlotHeld { begin, end, .. } = slot(number) else { panic!("a slot") };
        resource.apply(&ResourceEvent::Reserved {
            bookings: vec![(id(&format!("booking-{number}")), begin, end)],
            series: None,
            details: "a meeting".into(),
            remembered: Remembered::alone(request, KeptAnswer::Done),
        });
    }
    Arc::new(resource)
}

/// One more hold, on a copy of a shared state.
fn next<S: Clone>(criterion: &mut Criterion, name: &str, state: &Arc<S>, hold: impl Fn(&mut S)) {
    criterion.bench_function(name, |bencher| {
        bencher.iter_batched(
            || Arc::clone(state),
            |mut copy| {
                hold(Arc::make_mut(black_box(&mut copy)));
                copy
            },
            BatchSize::SmallInput,
        );
    });
}

fn inventories(criterion: &mut Criterion) {
    for (name, holds) in [("fresh", 0), ("50 000 holds", 50_000)] {
        let event = units(999_999);
        next(criterion, &format!("product/hold, {name}"), &product(holds), |product| product.apply(&event));
    }
    for (name, sales) in [("fresh", 0), ("60 000 sales", 60_000)] {
        let event = places(999_999);
        next(criterion, &format!("area/hold, {name}"), &session(sales), |session| session.apply(&event));
    }
    for (name, bookings) in [("fresh", 0), ("10 000 bookings", 10_000)] {
        let event = slot(20_000);
        next(criterion, &format!("resource/hold, {name}"), &resource(bookings), |resource| resource.apply(&event));
    }
}

criterion_group! {
    name = all;
    config = Criterion::default().measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = inventories
}
criterion_main!(all);

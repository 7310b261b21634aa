//! Tests of a product, example by example.

use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};

use smol_str::SmolStr;

use super::Product;
use crate::{
    answer::{Answer, StockCounts},
    ask::{Granted, Reply},
    command::{HoldPolicy, ProductDetails, Want},
    event::{Event, ProductEvent},
    holds::HoldAsk,
    holds_model::{euros, id, product_details, request},
    id::{CartId, Entity, HoldId, Request, RequestHash},
    inventory::Inventory,
    money::{AMOUNT_MAX, Currency, Money, PRICE_MAX},
    portion::{Content, Portion},
    refusal::{Refusal, Shortage},
    rules::Rules,
    time::Timestamp,
};

fn product(stock: u64) -> Product {
    Product::first(id("p"), &ProductEvent::Put { details: Box::new(product_details(stock)), request: request(0) })
}

fn hold_id(number: u64) -> HoldId {
    HoldId { cart: CartId(number.into()), request: RequestHash(number), part: 0, attempt: 0 }
}

fn write(product: &mut Product, events: impl IntoIterator<Item = Event>) {
    for event in events {
        let Event::Product(event) = event else { panic!("a product decides {event:?}") };
        product.apply(&event);
    }
}

fn ask(product: &mut Product, number: u64, revision: u64, quantity: u32, now: bool) -> Result<Granted, Refusal> {
    let want = Want::Units { quantity, now };
    let ask = HoldAsk {
        hold: hold_id(number),
        revision,
        want: &want,
        deadline: Timestamp(9_000),
        at: Timestamp(0),
        holder: None,
        desk: true,
        code: None,
        attributes: &[],
        customer: None,
    };
    match product.decide_hold(Timestamp(1), &ask) {
        Ok(event) => {
            write(product, [event]);
            Ok(product.granted(hold_id(number)))
        }
        Err(Reply::Granted(granted)) => Ok(granted),
        Err(Reply::Refused { refusal, .. }) => Err(refusal),
        Err(reply) => panic!("{reply:?}"),
    }
}

fn hold(product: &mut Product, number: u64, revision: u64, quantity: u32) -> Result<Granted, Refusal> {
    ask(product, number, revision, quantity, false)
}

fn sell(product: &mut Product, number: u64, revision: u64, quantity: u32) {
    let order = hold_id(number).cart.order();
    let events = product
        .decide_sell(hold_id(number), revision, &Portion::Units(quantity), order, Timestamp(2))
        .expect("it is held");
    write(product, events);
}

fn counts(free: u64, held: u64, sold: u64) -> StockCounts {
    StockCounts { free, held, sold }
}

fn short(wanted: u32, free: u64, held: u64) -> Refusal {
    Refusal::OutOfStock(vec![Shortage { product: id("p"), wanted, free, held }])
}

fn put(product: &mut Product, change: impl FnOnce(&mut ProductDetails)) -> Result<(), Refusal> {
    let mut details = (*product.details).clone();
    change(&mut details);
    let event = Product::decide_put(Some(product), &Rules::default(), &details, request(product.version))?;
    product.apply(&event);
    Ok(())
}

#[test]
fn example_5_one_of_a_hundred() {
    let mut product = product(100);
    hold(&mut product, 1, 1, 1).expect("there is stock");
    assert_eq!(product.counts(), counts(99, 1, 0));
    sell(&mut product, 1, 2, 1);
    assert_eq!(product.counts(), counts(99, 0, 1));
}

#[test]
fn example_6_up_and_too_much_and_down_to_nothing() {
    let mut product = product(100);
    hold(&mut product, 1, 1, 2).expect("there is stock");
    assert_eq!(product.counts(), counts(98, 2, 0));
    hold(&mut product, 1, 2, 4).expect("there is stock");
    assert_eq!(product.counts(), counts(96, 4, 0));
    assert_eq!(hold(&mut product, 1, 3, 1_000), Err(short(996, 96, 0)));
    assert_eq!(product.counts(), counts(96, 4, 0));
    let events = product.decide_release(hold_id(1), 4, None, false);
    write(&mut product, events);
    assert_eq!(product.counts(), counts(100, 0, 0));
}

#[test]
fn example_7_the_last_one() {
    let mut product = product(1);
    hold(&mut product, 1, 1, 1).expect("there is one");
    assert_eq!(hold(&mut product, 2, 1, 1), Err(short(1, 0, 1)));
}

#[test]
fn example_10_and_11_sold_and_declined() {
    let mut all = product(500);
    hold(&mut all, 1, 1, 5).expect("there is stock");
    sell(&mut all, 1, 2, 5);
    assert_eq!(all.counts(), counts(495, 0, 5));
    let mut ten = product(10);
    hold(&mut ten, 1, 1, 5).expect("there is stock");
    hold(&mut ten, 2, 1, 5).expect("there is stock");
    sell(&mut ten, 1, 2, 5);
    let events = ten.decide_release(hold_id(2), 2, None, true);
    write(&mut ten, events);
    assert_eq!(ten.counts(), counts(5, 0, 5));
}

#[test]
fn example_15_a_late_product_is_checked_at_the_checkout() {
    let mut late = product(100);
    put(&mut late, |details| details.hold = HoldPolicy::AtCheckout).expect("a policy");
    let before = late.clone();
    let granted = hold(&mut late, 1, 1, 1_000).expect("nothing is reserved");
    assert!(granted.late);
    assert_eq!(
        granted.content,
        Some(Content::Units { quantity: 1_000, price: 250, name: late.details.name.clone(), tax: None })
    );
    assert_eq!(hold(&mut late, 1, 1, 0).map_err(|no| no.code()), Err(402));
    assert_eq!(late, before);
    assert_eq!(ask(&mut late, 1, 1, 1_000, true), Err(short(1_000, 100, 0)));
    let granted = ask(&mut late, 1, 1, 100, true).expect("there is stock");
    assert!(!granted.late);
    assert_eq!(late.counts(), counts(0, 100, 0));
}

#[test]
fn a_hold_has_one_price_and_does_not_grow_at_another() {
    let mut product = product(10);
    hold(&mut product, 1, 1, 1).expect("there is stock");
    put(&mut product, |details| details.price = euros(999)).expect("a price");
    let price = |granted: Granted| granted.content.map(|content| content.amount());
    let want = Want::Units { quantity: 2, now: true };
    let (hold_id, deadline, at) = (hold_id(1), Timestamp(9_000), Timestamp(0));
    let more = HoldAsk {
        hold: hold_id,
        revision: 2,
        want: &want,
        deadline,
        at,
        holder: None,
        desk: false,
        code: None,
        attributes: &[],
        customer: None,
    };
    let repriced = Reply::Repriced { hold: hold_id, revision: 2, price: 999, bought_as: None };
    assert_eq!(product.decide_hold(Timestamp(1), &more), Err(repriced));
    assert_eq!(product.granted(hold_id).content.map(|content| content.amount()), Some(250));
    assert_eq!(hold(&mut product, 2, 1, 2).map(price), Ok(Some(1_998)));
}

#[test]
fn a_refund_and_late_messages_after_it() {
    let mut product = product(3);
    hold(&mut product, 1, 1, 2).expect("there is stock");
    sell(&mut product, 1, 2, 2);
    let events = product.decide_refund(hold_id(1));
    write(&mut product, events);
    assert_eq!(product.counts(), counts(3, 0, 0));
    let version = product.version();
    sell(&mut product, 1, 2, 2);
    let events = product.decide_refund(hold_id(1));
    write(&mut product, events);
    assert_eq!((product.version(), product.sale_version(hold_id(1))), (version, None));
    assert_eq!(product.audit().violations, Vec::<SmolStr>::new());
}

#[test]
fn a_put_covers_units_that_are_held() {
    let mut product = product(10);
    hold(&mut product, 1, 1, 3).expect("there is stock");
    hold(&mut product, 2, 1, 2).expect("there is stock");
    sell(&mut product, 2, 2, 2);
    assert_eq!(put(&mut product, |details| details.stock = 4).map_err(|no| no.code()), Err(402));
    put(&mut product, |details| details.stock = 5).expect("as many as are held and sold");
    assert_eq!(product.counts(), counts(0, 3, 2));
}

#[test]
fn the_currency_stays_also_when_nothing_is_held() {
    let mut product = product(10);
    put(&mut product, |details| details.hold = HoldPolicy::AtCheckout).expect("a policy");
    // A line that is checked at the checkout has a price, and the product does not know of it.
    assert!(hold(&mut product, 1, 1, 3).expect("nothing is reserved").late);
    let pounds = Money { amount: 1, currency: Currency::new("GBP").expect("three letters") };
    let (entity, currency) = (Entity::Product(id("p")), euros(0).currency);
    let fixed = Refusal::CurrencyFixed { entity, currency, asked_currency: pounds.currency };
    let before = product.clone();
    assert_eq!(put(&mut product, |details| details.price = pounds), Err(fixed));
    assert_eq!(product, before);
    put(&mut product, |details| details.price = euros(1)).expect("prices may change");
}

#[test]
fn a_repeated_put_gets_its_first_answer() {
    let mut product = product(10);
    let put = |product: &mut Product, number: u64, stock: u64| {
        let details = ProductDetails { stock, ..product_details(0) };
        let event = Product::decide_put(Some(product), &Rules::default(), &details, request(number));
        product.apply(&event.expect("a valid put"));
        (details, product.view())
    };
    hold(&mut product, 1, 1, 3).expect("there is stock");
    let (details, first) = put(&mut product, 1, 20);
    let version = product.version();
    sell(&mut product, 1, 2, 3);
    put(&mut product, 2, 30);
    let before = product.clone();
    assert_eq!(first.counts, counts(17, 3, 0));
    assert_eq!(product.answered(request(1), &details), Some(Ok((Answer::Product(first), version))));
    assert_eq!(product, before);
    let other = Request { body: 9, ..request(1) };
    assert_eq!(product.answered(other, &details), Some(Err(Refusal::RequestIdReused)));
    assert_eq!(product.answered(request(3), &details), None);
}

#[test]
fn invalid_details_are_refused() {
    let refused = |change: fn(&mut ProductDetails)| {
        let mut details = product_details(1);
        change(&mut details);
        Product::decide_put(None, &Rules::default(), &details, request(1)).map(|_| ()).map_err(|no| no.code())
    };
    assert_eq!(refused(|_| {}), Ok(()));
    assert_eq!(refused(|details| details.price.amount = -1), Err(101));
    assert_eq!(refused(|details| details.price.amount = PRICE_MAX + 1), Err(101));
    assert_eq!(refused(|details| details.stock = AMOUNT_MAX as u64 + 1), Err(402));
    assert_eq!(refused(|details| details.hold_ttl_ms = Some(0)), Err(101));
    assert_eq!(refused(|details| details.stock = 0), Ok(()));
}

#[test]
fn invalid_quantities_and_other_wants_are_refused() {
    let mut product = product(u64::from(u32::MAX) * 2);
    for quantity in [0, 1_000_001, u32::MAX] {
        assert_eq!(hold(&mut product, 1, 1, quantity).map_err(|no| no.code()), Err(402));
    }
    hold(&mut product, 1, 1, 1_000_000).expect("the maximum of a line");
    let want = Want::Slot { begin: Timestamp(1), end: Timestamp(2), details: "".into() };
    let ask = HoldAsk {
        hold: hold_id(2),
        revision: 1,
        want: &want,
        deadline: Timestamp(9),
        at: Timestamp(0),
        holder: None,
        desk: true,
        code: None,
        attributes: &[],
        customer: None,
    };
    let Err(Reply::Refused { refusal, .. }) = product.decide_hold(Timestamp(1), &ask) else { panic!("granted") };
    assert_eq!(refusal, Refusal::BadRequest("product p has no time".into()));
}

#[test]
fn copies_share_what_was_not_changed() {
    let mut product = product(1_000);
    for number in 1..500 {
        hold(&mut product, number, 1, 1).expect("there is stock");
    }
    let copy = Arc::new(product.clone());
    hold(&mut product, 500, 1, 1).expect("there is stock");
    assert_eq!((copy.counts().held, product.counts().held), (499, 500));
}

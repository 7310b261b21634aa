//! Tests of quotas and purchases.

use alloc::vec::Vec;

use smol_str::SmolStr;

use super::Customer;
use crate::{
    answer::Purchase,
    ask::Reply,
    command::Want,
    event::Event,
    holds::HoldAsk,
    holds_model::{euros, id},
    id::{CartId, HoldId, OrderId, RequestHash},
    inventory::Inventory,
    portion::Portion,
    refusal::Refusal,
    time::Timestamp,
};

fn hold_id(number: u64) -> HoldId {
    HoldId { cart: CartId(number.into()), request: RequestHash(number), part: 0, attempt: 0 }
}

fn write(customer: &mut Customer, events: impl IntoIterator<Item = Event>) {
    for event in events {
        let Event::Customer(event) = event else { panic!("a customer decides {event:?}") };
        customer.apply(&event);
    }
}

fn hold(customer: &mut Customer, number: u64, revision: u64, count: u32, max: u32) -> Result<(), Refusal> {
    let want = Want::Quota { quota: id("finals"), count, max };
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
    match customer.decide_hold(Timestamp(1), &ask) {
        Ok(event) => write(customer, [event]),
        Err(Reply::Granted(_)) => {}
        Err(Reply::Refused { refusal, .. }) => return Err(refusal),
        Err(reply) => panic!("{reply:?}"),
    }
    Ok(())
}

fn post(customer: &mut Customer, order: u128) -> bool {
    let purchase = Purchase {
        cursor: 0,
        order: OrderId(order),
        at: Timestamp(3),
        total: euros(500),
        zone: None,
        items: Vec::new(),
    };
    let event = customer.decide_post(&purchase);
    event.iter().for_each(|event| customer.apply(event));
    event.is_some()
}

#[test]
fn a_limit_counts_carts_and_orders() {
    let mut anna = Customer::unknown(id("anna"));
    hold(&mut anna, 1, 1, 4, 6).expect("four of six");
    let portion = Portion::Quota { quota: id("finals"), count: 3 };
    let events = anna.decide_sell(hold_id(1), 2, &portion, hold_id(1).cart.order(), Timestamp(2)).expect("it is held");
    write(&mut anna, events);
    assert_eq!(anna.audit().quotas, [(id("finals"), 0, 3)]);
    hold(&mut anna, 2, 1, 2, 6).expect("five of six");
    let over = |taken| Err(Refusal::LimitPerCustomer { quota: id("finals"), max: 6, taken });
    assert_eq!(hold(&mut anna, 3, 1, 2, 6), over(5));
    assert_eq!(hold(&mut anna, 2, 2, 4, 6), over(5));
    hold(&mut anna, 2, 2, 3, 6).expect("six of six");
    // The limit is lower now. Nothing is taken away, and less is always allowed.
    assert_eq!(hold(&mut anna, 3, 1, 1, 2).map_err(|no| no.code()), Err(209));
    hold(&mut anna, 2, 3, 1, 2).expect("less than before");
    let events = anna.decide_refund(hold_id(1));
    write(&mut anna, events);
    assert_eq!(anna.audit().quotas, [(id("finals"), 1, 0)]);
    let events = anna.decide_release(hold_id(2), 4, None, true);
    write(&mut anna, events);
    assert_eq!((anna.audit().quotas, anna.audit().violations), (Vec::new(), Vec::<SmolStr>::new()));
    assert_eq!(hold(&mut anna, 4, 1, 0, 6).map_err(|no| no.code()), Err(402));
    assert_eq!(hold(&mut anna, 4, 1, 1, 0).map_err(|no| no.code()), Err(209));
}

#[test]
fn every_order_is_posted_once_and_pages_continue() {
    let mut anna = Customer::unknown(id("anna"));
    for order in 1..=5 {
        assert!(post(&mut anna, order * 7));
        assert!(!post(&mut anna, order * 7), "posted twice");
    }
    assert_eq!(anna.version(), 5);
    let page = |after, limit| {
        let page = anna.purchases(after, limit).expect("a good limit");
        assert_eq!(page.newest, 5);
        page.purchases.iter().map(|purchase| (purchase.cursor, purchase.order.0)).collect::<Vec<_>>()
    };
    assert_eq!(page(0, 2), [(1, 7), (2, 14)]);
    assert_eq!(page(2, 1_000), [(3, 21), (4, 28), (5, 35)]);
    assert_eq!((page(5, 1), page(u64::MAX, 1)), (Vec::new(), Vec::new()));
    assert_eq!(anna.cursor(OrderId(14)), Some(2));
    for limit in [0, 1_001] {
        assert_eq!(anna.purchases(0, limit).map_err(|no| no.code()), Err(101));
    }
    assert_eq!(anna.audit().violations, Vec::<SmolStr>::new());
}

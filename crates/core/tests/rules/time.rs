//! Running time and true time. A changed clock changes shown deadlines and opening hours, but no lifetimes.

use boxoffice_core::{
    ask::{Ask, Reply},
    command::{Command, ProductCommand, Want},
    event::Event,
    host::{Effect, Host, Input, Turn},
    id::{CartId, Entity, HoldId, Request, RequestHash},
    rules::Rules,
    time::{Moment, Timestamp},
};
use expect_test::expect;

use crate::script::{check, euros, id, product};

#[test]
fn a_correction_moves_shown_deadlines_and_no_lifetimes() {
    check(
        "hall aaa
         session s 100000 5000
         clock 3600
         a hold s 0.0
         wait 600
         clock 1800
         a get
         wait 1199
         a get
         wait 1
         a get",
        expect![[r#"
            hall aaa -> done
            session s 100000 5000 -> 3 free, 0 held, 0 sold, 0 blocked
            clock 3600
            a hold s 0.0 -> line 1 s 0.0, until 5400.000
                a..
            wait 600
            clock 1800
            a get -> active, line 1 s 0.0, total 10.00, until 3600.000
            wait 1199
            a get -> active, line 1 s 0.0, total 10.00, until 3600.000
            wait 1
                ...
            a get -> expired, line 1 s 0.0, total 10.00
        "#]],
    );
}

#[test]
fn an_order_keeps_its_date() {
    check(
        "product p 9 1.00
         clock 3600
         a hold p 1 for ann
         a checkout
         clock 0
         a order
         ann
         a refund 1
         clock 7200
         a order",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            clock 3600
            a hold p 1 for ann -> line 1 p 1, until 5400.000
                8 free, 1 held, 0 sold
            a checkout -> order of line 1 p 1, total 1.00
                p  8 free, 0 held, 1 sold
            clock 0
            a order -> order of line 1 p 1, total 1.00
            ann -> [1 a 1.00]
            a refund 1 -> refund 1 of lines [1] 1.00 Recorded
                p  9 free, 0 held, 0 sold
            clock 7200
            a order -> order of line 1 p 1, total 1.00, refund 1 of lines [1] 1.00 Recorded
        "#]],
    );
}

#[test]
fn a_sale_ends_and_a_resource_opens_by_true_time() {
    check(
        "hall aaa
         session s 1000 5000
         resource r 12.00
         clock 5999
         a hold s 0.0
         clock 6000
         b hold s 0.1
         clock 0
         b hold s 0.1
         clock 500
         c hold r 600 700
         clock 300
         c hold r 600 700",
        expect![[r#"
            hall aaa -> done
            session s 1000 5000 -> 3 free, 0 held, 0 sold, 0 blocked
            resource r 12.00 -> 0 bookings
            clock 5999
            a hold s 0.0 -> line 1 s 0.0, until 7799.000
                s  a..
            clock 6000
            b hold s 0.1 -> no: session_closed, the session is not on sale: it is over
            clock 0
            b hold s 0.1 -> line 1 s 0.1, until 1800.000
                s  ab.
            clock 500
            c hold r 600 700 -> line 1 r 600-700, until 2300.000
                r  600-700 held
            clock 300
            c hold r 600 700 -> no: slot_taken, 1 bookings are in the way: 600-700
        "#]],
    );
}

/// A product whose shard is hours away from the cart's.
#[test]
fn shards_exchange_durations_and_no_instants() {
    let entity = Entity::Product(id("p"));
    let mut host: Host<u32> = Host::new(entity, None, Rules::default().into());
    let mut turn = Turn::default();
    let moment = |at| Moment { distance_ms: -9_000_000, ..Timestamp(at).into() };
    let request = Some(Request { id: RequestHash(1), body: 1 });
    let put = Command::Product(id("p"), ProductCommand::Put(Box::new(product(euros(100), 9))));
    host.handle(moment(9_000_000), Input::Command { from: 1, request, command: put, timeout_ms: 60_000 }, &mut turn);
    turn.clear();
    let cart = CartId(7);
    let hold = HoldId { cart, request: RequestHash(1), part: 0, attempt: 0 };
    let ask = Ask::Hold {
        hold,
        revision: 1,
        want: Want::Units { quantity: 1, now: false },
        life_ms: 60_000,
        holder: None,
        desk: false,
        code: None,
        attributes: Vec::new(),
        customer: None,
    };
    host.handle(moment(10_000_000), Input::Ask { from: Entity::Cart(cart), ask }, &mut turn);
    let deadline = |turn: &Turn<u32>| {
        let events = turn.events.iter().filter_map(|event| {
            let Event::Product(event) = event else { return None };
            Some(format!("{event:?}").split("deadline: ").nth(1)?.to_owned())
        });
        events.collect::<String>()
    };
    assert!(deadline(&turn).starts_with("Timestamp(10012000)"), "confirmed first: {}", deadline(&turn));
    assert!(matches!(turn.committed[..], [Effect::Reply { .. }]));
    turn.clear();
    let mine = Reply::MineFor { hold, life_ms: 50_000 };
    host.handle(moment(10_012_000), Input::Reply { from: Entity::Cart(cart), reply: mine }, &mut turn);
    assert!(deadline(&turn).starts_with("Timestamp(10064000)"), "{}", deadline(&turn));
}

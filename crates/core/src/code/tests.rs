//! Tests of codes.

use alloc::vec::Vec;

use smol_str::SmolStr;

use super::Code;
use crate::{
    ask::Reply,
    command::{CodeDetails, Want},
    event::Event,
    holds::HoldAsk,
    holds_model::id,
    id::{CartId, HoldId, OrderId, Request, RequestHash},
    inventory::Inventory,
    portion::Portion,
    refusal::Refusal,
    time::Timestamp,
};

fn hold_id(number: u64) -> HoldId {
    HoldId { cart: CartId(number.into()), request: RequestHash(number), part: 0, attempt: 0 }
}

fn details(uses: u32, ended: bool) -> CodeDetails {
    CodeDetails { group: id("members"), uses, ended, by_order: false }
}

fn put(code: &mut Code, details: &CodeDetails, number: u64) {
    let request = Request { id: RequestHash(number), body: number };
    code.apply(&Code::decide_put(details, request).expect("good details"));
}

fn code(uses: u32) -> Code {
    let request = Request { id: RequestHash(1), body: 1 };
    Code::first(id("hash"), &Code::decide_put(&details(uses, false), request).expect("good details"))
}

fn write(code: &mut Code, events: impl IntoIterator<Item = Event>) {
    for event in events {
        let Event::Code(event) = event else { panic!("a code decides {event:?}") };
        code.apply(&event);
    }
}

/// Asks for `count` uses and returns how many are granted.
fn hold(code: &mut Code, number: u64, count: u32) -> Result<u32, Refusal> {
    let want = Want::Uses { count };
    let ask = HoldAsk {
        hold: hold_id(number),
        revision: 1,
        want: &want,
        deadline: Timestamp(9_000),
        at: Timestamp(0),
        holder: None,
        desk: true,
        code: None,
        attributes: &[],
        customer: None,
    };
    let granted = match code.decide_hold(Timestamp(1), &ask) {
        Ok(event) => {
            write(code, [event]);
            code.granted(hold_id(number))
        }
        Err(Reply::Granted(granted)) => granted,
        Err(Reply::Refused { refusal, .. }) => return Err(refusal),
        Err(reply) => panic!("{reply:?}"),
    };
    let shown = granted.code.expect("a code grants uses");
    assert_eq!(shown.group, id("members"));
    Ok(shown.uses)
}

fn sell(code: &mut Code, number: u64, count: u32) {
    let sold = code.decide_sell(hold_id(number), 1 << 32, &Portion::Uses(count), OrderId(number.into()), Timestamp(5));
    let sold = sold.expect("the hold has them");
    write(code, sold);
}

fn release(code: &mut Code, number: u64, left: u32) {
    let left = (left > 0).then_some(Portion::Uses(left));
    let released = code.decide_release(hold_id(number), 1 << 31, left.as_ref(), false);
    write(code, released);
}

#[test]
fn a_use_is_taken_from_the_hold_to_the_refund() {
    let mut code = code(5);
    assert_eq!(hold(&mut code, 1, 3), Ok(3));
    // The same ask again takes nothing more.
    assert_eq!(hold(&mut code, 1, 3), Ok(3));
    // A party gets the uses that are left.
    assert_eq!(hold(&mut code, 2, 4), Ok(2));
    assert_eq!(hold(&mut code, 3, 1), Err(Refusal::CodeNotValid));
    release(&mut code, 1, 1);
    assert_eq!(hold(&mut code, 3, 1), Ok(1));
    sell(&mut code, 1, 1);
    sell(&mut code, 2, 2);
    let view = code.view();
    assert_eq!((view.held, view.sold), (1, 3));
    release(&mut code, 3, 0);
    // Three are sold, so two are left.
    assert_eq!(hold(&mut code, 4, 9), Ok(2));
    release(&mut code, 4, 0);
    let refunded = code.decide_refund(hold_id(2));
    write(&mut code, refunded);
    assert_eq!(hold(&mut code, 5, 9), Ok(4));
    assert_eq!(code.audit().violations, Vec::<SmolStr>::new());
}

/// The hold of a cart with a number of its own.
fn of_cart(cart: u128, number: u64) -> HoldId {
    HoldId { cart: CartId(cart), request: RequestHash(number), part: 0, attempt: 0 }
}

/// A cart takes one use of a code whose uses count orders, and has it until the last of its holds and sales is gone.
#[test]
fn a_use_by_order_is_the_carts_until_it_has_none() {
    let by_order = |uses| CodeDetails { by_order: true, ..details(uses, false) };
    let mut code = code(2);
    put(&mut code, &by_order(2), 2);
    let counts = |code: &Code| (code.view().held, code.view().sold);
    let ask = |code: &mut Code, cart: u128, number: u64, count: u32| {
        let want = Want::Uses { count };
        let (hold, deadline, at) = (of_cart(cart, number), Timestamp(9_000), Timestamp(0));
        let ask = HoldAsk {
            hold,
            revision: 1,
            want: &want,
            deadline,
            at,
            holder: None,
            desk: false,
            code: None,
            attributes: &[],
            customer: None,
        };
        let event = code.decide_hold(Timestamp(1), &ask).map_err(|no| match no {
            Reply::Refused { refusal, .. } => refusal,
            other => panic!("{other:?}"),
        })?;
        write(code, [event]);
        Ok(code.granted(hold).code.expect("a code grants uses").uses)
    };
    let free = |code: &mut Code, cart: u128, number: u64| {
        let released = code.decide_release(of_cart(cart, number), 1 << 31, None, false);
        write(code, released);
    };
    assert_eq!(ask(&mut code, 1, 1, 6), Ok(6), "as many as it likes");
    assert_eq!(ask(&mut code, 2, 2, 1), Ok(1));
    assert_eq!(counts(&code), (2, 0));
    assert_eq!(ask(&mut code, 3, 3, 1), Err(Refusal::CodeNotValid));
    assert_eq!(ask(&mut code, 1, 4, 20), Ok(20), "a cart that has the use needs no other");
    // The first line goes, and the use stays with the second one.
    free(&mut code, 1, 1);
    assert_eq!(counts(&code), (2, 0));
    assert_eq!(ask(&mut code, 3, 5, 1), Err(Refusal::CodeNotValid));
    let sold = code.decide_sell(of_cart(1, 4), 1 << 32, &Portion::Uses(20), OrderId(1), Timestamp(5));
    write(&mut code, sold.expect("the hold has them"));
    assert_eq!(counts(&code), (1, 1));
    free(&mut code, 2, 2);
    assert_eq!(counts(&code), (0, 1));
    assert_eq!(ask(&mut code, 3, 6, 2), Ok(2));
    let refunded = code.decide_refund(of_cart(1, 4));
    write(&mut code, refunded);
    assert_eq!(counts(&code), (1, 0));
    // The same holds count otherwise when the house says so, and as before when it says that again.
    put(&mut code, &details(3, false), 8);
    assert_eq!((counts(&code), ask(&mut code, 4, 9, 5)), ((2, 0), Ok(1)));
    put(&mut code, &by_order(2), 10);
    assert_eq!((counts(&code), ask(&mut code, 5, 11, 1)), ((2, 0), Err(Refusal::CodeNotValid)));
    let mut again = code.clone();
    again.rebuild();
    assert_eq!(again, code);
    assert_eq!(code.audit().violations, Vec::<SmolStr>::new());
}

/// The example finds what is planted.
#[test]
#[cfg(feature = "planted")]
fn planted_bugs_of_uses_by_order_are_found() {
    extern crate std;
    for bug in ["a cart that takes a use for each hold", "a use that counts at the sale"] {
        crate::planted::plant(Some(bug));
        let ended = std::panic::catch_unwind(a_use_by_order_is_the_carts_until_it_has_none);
        crate::planted::plant(None);
        assert!(ended.is_err(), "{bug} is not found");
    }
}

#[test]
fn an_ended_code_keeps_what_is_held_and_sold() {
    let mut code = code(5);
    assert_eq!(hold(&mut code, 1, 3), Ok(3));
    put(&mut code, &details(5, true), 2);
    assert_eq!(hold(&mut code, 2, 1), Err(Refusal::CodeNotValid));
    sell(&mut code, 1, 3);
    // Fewer uses than are taken: nothing more is granted, and nothing is lost.
    put(&mut code, &details(2, false), 3);
    assert_eq!(hold(&mut code, 2, 1), Err(Refusal::CodeNotValid));
    put(&mut code, &details(4, false), 4);
    assert_eq!(hold(&mut code, 2, 2), Ok(1));
    // A late repeat of the first put changes nothing.
    let known = code.answered(Request { id: RequestHash(2), body: 2 }, &details(5, true));
    let (view, version) = known.expect("it is remembered").expect("it has the same body");
    assert_eq!((view.uses, view.ended, view.held, view.sold, version), (5, true, 3, 0, 3));
}

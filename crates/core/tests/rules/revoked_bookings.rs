//! The desk cancels bookings that carts made. Money goes back once, the time is free once, and the resource asks until then.

use std::collections::BTreeSet;

use boxoffice_core::{
    answer::{CartState, Taker},
    calendar::BookingName,
    command::{CartCommand, Command, ResourceCommand, ResourceDetails, Want, WantedLine},
    event::{CartEvent, Event, ResourceEvent},
    id::Entity,
    payment::{PaymentKey, RefundStatus},
    rules::Rules,
    state_map::State,
    time::Timestamp,
};
use expect_test::expect;

use crate::{
    fixture::Fixture,
    random_runs::between_entities,
    script::{cart, cart_booking, check, euros, hold_lines, id, pay, resource},
};

#[test]
pub(crate) fn a_canceled_booking_is_taken_from_a_cart() {
    check(
        "resource r 12.00 quota few 3
         a hold r 100 200 + r 300 400 for ann
         desk cancel r a 300 as x
         desk cancel r a 300 as x
         desk cancel r a 300 as y
         desk cancel r a 100 as x
         last release r
         b hold r 300 400 for bob
         last revoke a
         a checkout
         a get
         b get",
        expect![[r#"
            resource r 12.00 quota few 3 -> 0 bookings
            a hold r 100 200 + r 300 400 for ann -> line 1 r 100-200, line 2 r 300-400, until 1800.000
                r  100-200 held, 300-400 held
            desk cancel r a 300 as x -> done
                ann  few 1 held 0 sold, 0 orders
                r  100-200 held
            desk cancel r a 300 as x -> done
            desk cancel r a 300 as y -> no: no_such_booking, there is no booking hold:0e1bd89d9fb4b04eb0301232dd29027a
            desk cancel r a 100 as x -> no: request_id_reused, this request id was used before with another body
            last release r
            b hold r 300 400 for bob -> line 1 r 300-400, until 1800.000
                r  100-200 held, 300-400 held
            last revoke a
            a checkout -> order of line 1 r 100-200, total 12.00
                ann  few 0 held 1 sold, 1 orders
                r  100-200 sold, 300-400 held
            a get -> done, line 1 r 100-200, total 12.00, taken by an operator (the booking was canceled): line 2 r 300-400
            b get -> active, line 1 r 300-400, total 12.00, until 1800.000
        "#]],
    );
}

#[test]
fn one_of_two_bookings_at_one_time_is_canceled() {
    check(
        "resource r 12.00 capacity 2
         a hold r 100 200
         b hold r 100 200
         b pay
         desk cancel r b
         c hold r 100 200
         desk cancel r b
         a get
         b order
         gateway",
        expect![[r#"
            resource r 12.00 capacity 2 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            b hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held, 100-200 held
            b pay -> order of line 1 r 100-200, total 12.00, Authorized
                100-200 held, 100-200 sold
            desk cancel r b -> done
                100-200 held
            c hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held, 100-200 held
            desk cancel r b -> no: no_such_booking, there is no booking hold:b918ecc5f72ab4f4d867ca487d203374
            a get -> active, line 1 r 100-200, total 12.00, until 1800.000
            b order -> order of line 1 r 100-200, total 12.00, Captured, refund 1 of lines [1] 12.00 Refunded
            gateway -> b-1: authorized 1200 captured 1200 refunded 1200
        "#]],
    );
}

#[test]
fn a_booking_canceled_while_its_cart_pays_ends_the_attempt() {
    check(
        "resource r 12.00
         product p 9 1.00
         a hold r 100 200 + p 1
         gateway shut
         a pay
         desk cancel r a as x
         wait 3
         crash r
         desk cancel r a as y
         crash a
         wait 3
         b hold r 100 200
         gateway open
         wait 3
         a order
         b hold r 100 200
         again revoke a
         desk cancel r a as x
         desk cancel r a as z
         wait 2
         a get
         b get
         gateway",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold r 100 200 + p 1 -> line 1 r 100-200, line 2 p 1, until 1800.000
                p  8 free, 1 held, 0 sold
                r  100-200 held
            gateway shut
            a pay -> (waits as #4)
            desk cancel r a as x -> done
                r  free
            wait 3
            crash r
            desk cancel r a as y -> no: no_such_booking, there is no booking hold:b81d737fdc179bd8818bdbd03f462e85
            crash a
            wait 3
            b hold r 100 200 -> line 1 r 100-200, until 1806.000
                r  100-200 held
            gateway open
            wait 3
            a order -> no: not_found, order 00000000000000000000000000000061 is not known
            b hold r 100 200 -> no: slot_taken, 1 bookings are in the way: 100-200
            again revoke a
            desk cancel r a as x -> done
            desk cancel r a as z -> no: no_such_booking, there is no booking hold:b81d737fdc179bd8818bdbd03f462e85
            wait 2
            a get -> active, line 2 p 1, total 1.00, taken by an operator (the booking was canceled): line 1 r 100-200, until 1800.000
            b get -> active, line 1 r 100-200, total 12.00, until 1806.000
            gateway -> a-1: authorized 1300 voided
        "#]],
    );
}

#[test]
fn a_declined_cart_gives_the_canceled_booking_back() {
    check(
        "resource r 12.00
         a hold r 100 200
         gateway shut
         a pay keep
         desk cancel r a
         gateway authorize no
         gateway open
         wait 2
         a get
         b hold r 100 200
         gateway shut
         b pay
         desk cancel r b
         gateway authorize no
         gateway open
         wait 2
         b get
         gateway",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            gateway shut
            a pay keep -> (waits as #3)
            desk cancel r a -> done
                free
            gateway authorize no
            gateway open
            wait 2
            a get -> active, taken by an operator (the booking was canceled): line 1 r 100-200, until 1800.000
            b hold r 100 200 -> line 1 r 100-200, until 1802.000
                100-200 held
            gateway shut
            b pay -> (waits as #7)
            desk cancel r b -> done
                free
            gateway authorize no
            gateway open
            wait 2
            b get -> active, taken by an operator (the booking was canceled): line 1 r 100-200, until 1802.000
            gateway -> a-1: declined voided; b-1: declined voided
        "#]],
    );
}

#[test]
fn a_refund_beside_a_cancellation_pays_once() {
    // The order is refunded first.
    check(
        "resource r 12.00
         a hold r 100 200
         a pay
         stop r
         a refund 1
         desk cancel r a as x
         desk cancel r a as y
         go r
         wait 2
         answers
         a order
         gateway",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            a pay -> order of line 1 r 100-200, total 12.00, Authorized
                100-200 sold
            stop r
            a refund 1 -> refund 1 of lines [1] 12.00 Pending
            desk cancel r a as x -> (waits as #5)
            desk cancel r a as y -> (waits as #6)
            go r
                free
            wait 2
            answers
                #5 no: no_such_booking, there is no booking hold:66f777563c0540dc7c26c22b08bc508e
                #6 no: no_such_booking, there is no booking hold:66f777563c0540dc7c26c22b08bc508e
            a order -> order of line 1 r 100-200, total 12.00, Captured, refund 1 of lines [1] 12.00 Refunded
            gateway -> a-1: authorized 1200 captured 1200 refunded 1200
        "#]],
    );
    // The cancellation comes first.
    check(
        "resource r 12.00
         a hold r 100 200
         a pay
         stop a
         desk cancel r a as x
         desk cancel r a as y
         wait 3
         a refund 1
         go a
         wait 2
         answers
         a order
         gateway",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            a pay -> order of line 1 r 100-200, total 12.00, Authorized
                100-200 sold
            stop a
            desk cancel r a as x -> done
            desk cancel r a as y -> done
            wait 3
            a refund 1 -> (waits as #6)
            go a
                free
            wait 2
            answers
                #6 no: already_refunded, already refunded: line 1 of the order
            a order -> order of line 1 r 100-200, total 12.00, Captured, refund 1 of lines [1] 12.00 Refunded
            gateway -> a-1: authorized 1200 captured 1200 refunded 1200
        "#]],
    );
}

#[test]
fn a_booking_canceled_after_its_hold_ran_out_or_was_lost() {
    // The cart has expired, and the resource has not heard of it.
    check(
        "resource r 12.00
         a hold r 100 200
         stop r
         wait 1800
         lose r
         go r
         desk cancel r a
         a get",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            stop r
            wait 1800
            lose r
            go r
            desk cancel r a -> done
                free
            a get -> expired, line 1 r 100-200, total 12.00
        "#]],
    );
    // The cart has lost the hold in a crash.
    check(
        "resource r 12.00
         freeze a
         a hold r 100 200 as h
         crash a
         thaw a
         desk cancel r a
         a get
         a hold r 100 200 as h
         a checkout",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            freeze a
            a hold r 100 200 as h -> (waits as #2)
                100-200 held
            crash a
            thaw a
            desk cancel r a -> done
                free
            a get -> no: not_found, cart 00000000000000000000000000000061 is not known
            a hold r 100 200 as h -> line 1 r 100-200, until 1800.000
                100-200 held
            a checkout -> order of line 1 r 100-200, total 12.00
                100-200 sold
        "#]],
    );
    // The cart is about to write it.
    check(
        "resource r 12.00
         freeze a
         a hold r 100 200
         desk cancel r a
         wait 1
         thaw a
         answers
         wait 3
         a get",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            freeze a
            a hold r 100 200 -> (waits as #2)
                100-200 held
            desk cancel r a -> done
            wait 1
            thaw a
                free
            answers
                #2 line 1 r 100-200, until 1800.000
            wait 3
            a get -> active, taken by an operator (the booking was canceled): line 1 r 100-200, until 1800.000
        "#]],
    );
}

#[test]
fn a_canceled_booking_is_asked_for_until_its_cart_lets_go() {
    check(
        "resource r 12.00
         a hold r 100 200
         freeze r
         desk cancel r a as x
         crash r
         thaw r
         wait 2
         desk cancel r a as x
         a get",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            freeze r
            desk cancel r a as x -> (waits as #3)
            crash r
            thaw r
            wait 2
            desk cancel r a as x -> done
                free
            a get -> active, taken by an operator (the booking was canceled): line 1 r 100-200, until 1800.000
        "#]],
    );
    check(
        "resource r 12.00
         a hold r 100 200
         stop a
         desk cancel r a
         lose a
         crash r
         wait 1
         lose a
         wait 1
         freeze a
         go a
         crash a
         wait 2
         thaw a
         freeze r
         wait 1
         crash r
         thaw r
         wait 2
         a get",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            stop a
            desk cancel r a -> done
            lose a
            crash r
            wait 1
            lose a
            wait 1
            freeze a
            go a
            crash a
            wait 2
            thaw a
                free
            freeze r
            wait 1
            crash r
            thaw r
            wait 2
            a get -> active, taken by an operator (the booking was canceled): line 1 r 100-200, until 1800.000
        "#]],
    );
}

/// How far the cart is when the desk cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Held,
    Paying,
    Paid,
    /// It is paid, and somebody refunds the order at the same time.
    Refunding,
}

/// What happens to a host at one step.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It crashes, and this many of its proposals survive.
    Crash(usize),
    /// It is deposed, and learns of its successor at the end.
    Depose(usize),
    /// All messages of other entities on their way to it are lost.
    Lose,
}

const FAULTS: [Fault; 5] = [Fault::Crash(0), Fault::Crash(1), Fault::Depose(0), Fault::Depose(1), Fault::Lose];

/// The most steps of one story. Those after its end change nothing.
const STEPS_MAX: usize = 40;

/// Delivers, pays or commits one thing. Returns whether there was one.
fn step(fixture: &mut Fixture) -> bool {
    if let Some(message) = fixture.mail.pop_front() {
        fixture.deliver(message);
        return true;
    }
    if fixture.pay() {
        return true;
    }
    let proposing = fixture.proposing();
    proposing.first().inspect(|entity| fixture.commit(entity)).is_some()
}

/// A room for two, with a booking of `a` that is canceled, and one of `b` at the same time that stays.
fn room(before: Before) -> (Fixture, BookingName) {
    let mut fixture = Fixture::new(Rules { ask_again_ms: 100, ..Rules::default() });
    let details = Box::new(ResourceDetails { capacity: 2, ..resource(euros(1_200)) });
    fixture.send(Some("put"), Command::Resource(id("r"), ResourceCommand::Put(details)));
    fixture.run();
    for name in ["a", "b"] {
        let want = Want::Slot { begin: Timestamp(100_000_000), end: Timestamp(200_000_000), details: "".into() };
        let lines = vec![WantedLine::new(Entity::Resource(id("r")), want)];
        fixture.send(Some(name), Command::Cart(cart(name), hold_lines(lines)));
        fixture.run();
    }
    let booking = cart_booking(&fixture, &id("r"), cart("a"), None);
    if before != Before::Held {
        fixture.send(Some("pay"), Command::Cart(cart("a"), pay(None, None)));
    }
    match before {
        Before::Held | Before::Paying => {}
        Before::Paid => fixture.run(),
        Before::Refunding => {
            fixture.run();
            let refund = CartCommand::Refund { lines: Some(vec![1]), reason: "ill".into() };
            fixture.send(Some("refund"), Command::Cart(cart("a"), refund));
        }
    }
    (fixture, booking)
}

/// Prints the story if it panics.
struct StoryReport(String);

impl Drop for StoryReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the story: {}", self.0);
        }
    }
}

/// Whether the fault at this step came before the end of the story.
fn run_with_fault(before: Before, at: usize, victim: &Entity, fault: Fault) -> bool {
    let _story = StoryReport(format!("{before:?}, {fault:?} of {victim} at step {at}"));
    let (mut fixture, booking) = room(before);
    let cancel = || Command::Resource(id("r"), ResourceCommand::Cancel { booking: booking.clone(), series: false });
    // Two operators cancel at once.
    let first = fixture.send(Some("x"), cancel());
    let second = fixture.send(Some("y"), cancel());
    let mut steps = 0;
    while steps < at && step(&mut fixture) {
        steps += 1;
    }
    match fault {
        Fault::Crash(survive) => fixture.crash(victim, survive),
        Fault::Depose(survive) => fixture.depose(victim, survive),
        Fault::Lose => fixture.mail.retain(|message| message.to != *victim || !between_entities(message)),
    }
    let idle = |fixture: &mut Fixture| {
        while fixture.deposed() > 0 {
            fixture.commit_deposed(0);
            fixture.wake_deposed(0);
            fixture.end_deposed(0);
        }
        fixture.run();
        fixture.wait(2_000, Fixture::run);
    };
    idle(&mut fixture);
    let revoked =
        |(_, event): &&(Entity, Event)| matches!(event, Event::Resource(ResourceEvent::BookingRevoked { .. }));
    // A client without an answer repeats, but what is written needs no repeat.
    let is_written = fixture.log.iter().any(|logged| revoked(&logged));
    if !is_written && before != Before::Refunding {
        assert!(fixture.is_lost(first) && fixture.is_lost(second), "answered and not written");
        fixture.send(Some("x"), cancel());
        idle(&mut fixture);
    }
    if before == Before::Paying && fixture.states.get(&Entity::Cart(cart("a"))).is_some_and(|state| !is_done(&state)) {
        // The checkout was lost, and its client finds the line gone.
        fixture.send(Some("pay"), Command::Cart(cart("a"), pay(None, None)));
        idle(&mut fixture);
    }
    check_end(&fixture, before);
    steps == at
}

fn is_done(state: &State) -> bool {
    matches!(state, State::Cart(cart) if cart.state() == Some(CartState::Done))
}

/// The time of `a` was freed once, `b` keeps its own, and money went back once if it was taken.
fn check_end(fixture: &Fixture, before: Before) {
    let a = cart("a");
    let freed = fixture.log.iter().filter(|(_, event)| match event {
        Event::Resource(ResourceEvent::SlotReleased { hold, .. } | ResourceEvent::SlotRefunded { hold }) => {
            hold.cart == a
        }
        _ => false,
    });
    assert_eq!(freed.count(), 1, "the time is free once");
    let first = |is: &dyn Fn(&Event) -> bool| fixture.log.iter().position(|(_, event)| is(event));
    let canceled = first(&|event| matches!(event, Event::Resource(ResourceEvent::BookingRevoked { .. })));
    let let_go = first(&|event| match event {
        Event::Cart(CartEvent::LineReduced { taken, .. }) => taken.is_some(),
        Event::Cart(CartEvent::Refunded { refund, .. }) => refund.reason == "the booking was canceled",
        _ => false,
    });
    assert!(let_go.is_none() || canceled < let_go && canceled.is_some(), "its cart let go before that was written");
    let state = fixture.states.get(&Entity::Resource(id("r"))).expect("it was put");
    let State::Resource(room) = &*state else { panic!("no resource") };
    let left: BTreeSet<_> = room.audit().holds.iter().map(|hold| hold.hold.cart).collect();
    assert_eq!((room.booked(), left), (1, BTreeSet::from([cart("b")])), "the other booking stays");
    assert!(!state.unfinished(), "it asks for ever");
    let state = fixture.states.get(&Entity::Cart(a)).expect("it was opened");
    let State::Cart(seen) = &*state else { panic!("no cart") };
    assert!(!state.unfinished(), "it owes for ever");
    let view = seen.view().expect("it was opened");
    if seen.order().is_none() {
        assert!(matches!(before, Before::Held | Before::Paying), "{before:?} without an order");
        assert!(view.lines.is_empty(), "{view:?}");
        let taken: Vec<_> = view.taken.iter().map(|taken| (taken.by, taken.reason.as_str())).collect();
        assert_eq!(taken, [(Taker::Operator, "the booking was canceled")]);
        return;
    }
    let refunds = seen.audit().expect("it was opened").refunds;
    let told: Vec<_> = refunds.iter().map(|refund| (refund.status.clone(), refund.amount)).collect();
    assert_eq!(told, [(RefundStatus::Refunded, euros(1_200))], "{before:?}");
    let decided = fixture.log.iter().filter(|(_, event)| matches!(event, Event::Cart(CartEvent::Refunded { .. })));
    assert_eq!(decided.count(), 1);
    let account = &fixture.gateway.accounts[&PaymentKey { cart: a, attempt: seen.audit().map_or(0, |_| 1) }];
    assert_eq!(account.refunded.values().copied().collect::<Vec<_>>(), [1_200], "paid back once");
    fixture.check_money();
}

/// The resource or the cart crashes, is deposed, or hears nothing, at every step from the cancellation to its end.
#[test]
pub(crate) fn a_canceled_booking_is_asked_for_after_any_crash() {
    let mut runs = 0;
    for before in [Before::Held, Before::Paying, Before::Paid, Before::Refunding] {
        for victim in [Entity::Resource(id("r")), Entity::Cart(cart("a"))] {
            for fault in FAULTS {
                let mut at = 0;
                while run_with_fault(before, at, &victim, fault) {
                    at += 1;
                    assert!(at < STEPS_MAX, "the story has no end");
                }
                assert!(at > 5, "{before:?} has {at} steps");
                runs += at;
            }
        }
    }
    assert!(runs > 200, "{runs} runs are not many");
}

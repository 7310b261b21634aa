//! Every repeat of a checkout gets the same outcome. A cart shows why it ended and which lines were taken from it.

use boxoffice_core::{
    answer::{Answer, CartView, Ended},
    cart::{CART_LINES_MAX, CART_OUTCOMES_MORE, CART_REQUESTS_MAX},
    command::{CartCommand, Command, ProductCommand, Want, WantedLine},
    id::Entity,
    payment::{OnDecline, PaymentFailure},
    refusal::Refusal,
    rules::Rules,
};
use expect_test::expect;

use crate::{
    fixture::Fixture,
    script::{cart, check, euros, hold_lines, id, pay, product},
    test_gateway::CallFate,
};

#[test]
pub(crate) fn a_repeat_gets_the_same_decline() {
    check(
        "product p 9 1.00
         a hold p 2
         gateway authorize no
         a pay keep as pay
         a pay keep as pay
         crash a
         a pay keep as pay
         a get
         a set 1 3
         a pay keep as pay
         a pay keep as other
         a pay keep as pay
         gateway
         b hold p 1
         gateway authorize no
         b pay release as pay
         b pay release as pay
         b pay release as other
         b get
         c hold p 1
         gateway authorize more
         c pay release as pay
         c pay release as pay
         c get
         d hold p 1
         gateway authorize deaf deaf deaf deaf
         d pay release as pay
         d settle 1 no
         d pay release as pay
         d get",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            gateway authorize no
            a pay keep as pay -> no: payment_declined, the payment was declined: no money
            a pay keep as pay -> no: payment_declined, the payment was declined: no money
            crash a
            a pay keep as pay -> no: payment_declined, the payment was declined: no money
            a get -> active, line 1 p 2, total 2.00, until 1800.000
            a set 1 3 -> active, line 1 p 3, total 3.00, until 1800.000
                6 free, 3 held, 0 sold
            a pay keep as pay -> no: payment_declined, the payment was declined: no money
            a pay keep as other -> order of line 1 p 3, total 3.00, Authorized
                6 free, 0 held, 3 sold
            a pay keep as pay -> no: payment_declined, the payment was declined: no money
            gateway -> a-1: declined; a-2: authorized 300 captured 300
            b hold p 1 -> line 1 p 1, until 1800.000
                5 free, 1 held, 3 sold
            gateway authorize no
            b pay release as pay -> no: payment_declined, the payment was declined: no money
                6 free, 0 held, 3 sold
            b pay release as pay -> no: payment_declined, the payment was declined: no money
            b pay release as other -> no: cart_not_active, the cart is canceled
            b get -> canceled (declined by the gateway: no money), line 1 p 1, total 1.00
            c hold p 1 -> line 1 p 1, until 1800.000
                5 free, 1 held, 3 sold
            gateway authorize more
            c pay release as pay -> no: amount_mismatch, the gateway set aside 101 minor units of EUR instead of 100 of EUR
                6 free, 0 held, 3 sold
            c pay release as pay -> no: amount_mismatch, the gateway set aside 101 minor units of EUR instead of 100 of EUR
            c get -> canceled (1.00 asked, 1.01 got), line 1 p 1, total 1.00
            d hold p 1 -> line 1 p 1, until 1800.000
                5 free, 1 held, 3 sold
            gateway authorize deaf deaf deaf deaf
            d pay release as pay -> (waits as #21)
            d settle 1 no -> done
                6 free, 0 held, 3 sold
            d pay release as pay -> no: payment_declined, the payment was declined: an operator has said so
            d get -> canceled (declined by an operator: an operator has said so), line 1 p 1, total 1.00
        "#]],
    );
}

/// The client was answered that the outcome is unknown, and repeats once it is known.
#[test]
fn a_decline_without_a_waiting_client_is_answered_later() {
    check(
        "product p 9 1.00
         product q 9 1.00 late
         a hold p 2 + q 1
         gateway shut
         a pay keep as pay
         crash a
         gateway authorize no
         gateway open
         wait 5
         a get
         a pay keep as pay
         gateway",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            product q 9 1.00 late -> 9 free, 0 held, 0 sold
            a hold p 2 + q 1 -> line 1 p 2, line 2 q 1 late, until 1800.000
                p  7 free, 2 held, 0 sold
            gateway shut
            a pay keep as pay -> (waits as #4)
                q  8 free, 1 held, 0 sold
            crash a
            gateway authorize no
            gateway open
                q  9 free, 0 held, 0 sold
            wait 5
            a get -> active, line 1 p 2, line 2 q 1 late, total 3.00, until 1800.000
            a pay keep as pay -> no: payment_declined, the payment was declined: no money
            gateway -> a-1: declined
        "#]],
    );
}

#[test]
fn a_shortage_is_not_an_outcome() {
    check(
        "product q 1 1.00 late
         a hold q 1
         b hold q 1
         b checkout
         a pay release as pay
         product q 9 1.00 late
         a pay release as pay",
        expect![[r#"
            product q 1 1.00 late -> 1 free, 0 held, 0 sold
            a hold q 1 -> line 1 q 1 late, until 1800.000
            b hold q 1 -> line 1 q 1 late, until 1800.000
            b checkout -> order of line 1 q 1, total 1.00
                0 free, 0 held, 1 sold
            a pay release as pay -> no: out_of_stock, 1 of the products are out of stock: q wanted 1 free 0
            product q 9 1.00 late -> 8 free, 0 held, 1 sold
                8 free, 0 held, 1 sold
            a pay release as pay -> order of line 1 q 1, total 1.00, Authorized
                7 free, 0 held, 2 sold
        "#]],
    );
}

#[test]
pub(crate) fn revoked_lines_stay_visible() {
    check(
        "hall aaaa
         session s
         product p 9 1.00
         a hold s 0.0 0.1 + p 3
         a revoke 2 counted wrong as op
         a revoke 2 counted wrong as op
         box cancel s
         a get
         a hold p 1
         a cancel
         a get",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold s 0.0 0.1 + p 3 -> line 1 s 0.0 0.1, line 2 p 3, until 1800.000
                p  6 free, 3 held, 0 sold
                s  aa..
            a revoke 2 counted wrong as op -> active, line 1 s 0.0 0.1, total 20.00, taken by an operator (counted wrong): line 2 p 3, until 1800.000
                p  9 free, 0 held, 0 sold
            a revoke 2 counted wrong as op -> active, line 1 s 0.0 0.1, total 20.00, taken by an operator (counted wrong): line 2 p 3, until 1800.000
            box cancel s -> done
                s  ....
            a get -> active, taken by an operator (counted wrong): line 2 p 3, taken by its session (rain): line 1 s 0.0 0.1, until 1800.000
            a hold p 1 -> line 3 p 1, until 1800.000
                p  8 free, 1 held, 0 sold
            a cancel -> canceled, line 3 p 1, total 1.00, taken by an operator (counted wrong): line 2 p 3, taken by its session (rain): line 1 s 0.0 0.1
                p  9 free, 0 held, 0 sold
            a get -> canceled, line 3 p 1, total 1.00, taken by an operator (counted wrong): line 2 p 3, taken by its session (rain): line 1 s 0.0 0.1
        "#]],
    );
}

#[test]
fn a_cart_that_differs_from_the_expectation_is_not_sold() {
    check(
        "hall aaaa
         session s
         product p 9 1.00
         a hold s 0.0 0.1 + p 3
         a set 2 3
         a checkout expect lines 0
         box cancel s
         a checkout expect lines 2 as pay
         a checkout expect total 23.00
         a checkout expect paid 23.00
         a pay expect total 23.00
         a get
         a open
         a checkout expect lines 4 as pay
         a checkout expect lines 4 as pay
         b hold p 2
         b checkout expect paid 2.00
         c checkout expect total 0.00
         c open
         c checkout expect total 0.00",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold s 0.0 0.1 + p 3 -> line 1 s 0.0 0.1, line 2 p 3, until 1800.000
                p  6 free, 3 held, 0 sold
                s  aa..
            a set 2 3 -> active, line 1 s 0.0 0.1, line 2 p 3, total 23.00, until 1800.000
            a checkout expect lines 0 -> no: cart_differs, the cart is not as expected: its lines are at version 2, not at 0
            box cancel s -> done
                s  ....
            a checkout expect lines 2 as pay -> no: cart_differs, the cart is not as expected: its lines are at version 4, not at 2
            a checkout expect total 23.00 -> no: cart_differs, the cart is not as expected: it comes to 300 minor units of EUR, not to 2300 of EUR
            a checkout expect paid 23.00 -> no: cart_differs, the cart is not as expected: it comes to 300 minor units of EUR, not to 2300 of EUR
            a pay expect total 23.00 -> no: cart_differs, the cart is not as expected: it comes to 300 minor units of EUR, not to 2300 of EUR
            a get -> active, line 2 p 3, total 3.00, taken by its session (rain): line 1 s 0.0 0.1, until 1800.000
            a open -> active, line 2 p 3, total 3.00, taken by its session (rain): line 1 s 0.0 0.1, until 1800.000
            a checkout expect lines 4 as pay -> order of line 2 p 3, total 3.00
                p  6 free, 0 held, 3 sold
            a checkout expect lines 4 as pay -> order of line 2 p 3, total 3.00
            b hold p 2 -> line 1 p 2, until 1800.000
                p  4 free, 2 held, 3 sold
            b checkout expect paid 2.00 -> order of line 1 p 2, total 2.00
                p  4 free, 0 held, 5 sold
            c checkout expect total 0.00 -> no: not_found, cart 00000000000000000000000000000063 is not known
            c open -> active, until 1800.000
            c checkout expect total 0.00 -> no: cart_empty, the cart is empty
        "#]],
    );
}

fn buy(fixture: &mut Fixture, request: &str, command: CartCommand) -> Result<Answer, Refusal> {
    let ticket = fixture.send(Some(request), Command::Cart(cart("a"), command));
    fixture.run();
    let outcome = fixture.answers.get(&ticket).expect("it is answered at once").clone();
    outcome.map(|answered| answered.answer)
}

fn units(quantity: u32) -> CartCommand {
    let want = Want::Units { quantity, now: false };
    hold_lines(vec![WantedLine::new(Entity::Product(id("p")), want)])
}

fn shop() -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    fixture.send(Some("put"), Command::Product(id("p"), ProductCommand::Put(Box::new(product(euros(100), 9_000)))));
    fixture.run();
    fixture
}

fn view(fixture: &mut Fixture) -> CartView {
    match buy(fixture, "get", CartCommand::Get) {
        Ok(Answer::Cart(view)) => view,
        other => panic!("{other:?}"),
    }
}

/// Every decline is remembered, so the cart needs room for it before the gateway is asked. No card is charged if the outcome
/// cannot be recorded.
#[test]
pub(crate) fn a_cart_without_room_for_an_outcome_asks_no_gateway() {
    let mut fixture = shop();
    buy(&mut fixture, "hold", units(1)).expect("there are some");
    let mut answered = 1;
    while buy(
        &mut fixture,
        &format!("same {answered}"),
        CartCommand::SetQuantity { line: 1, quantity: 1, guest: false, holder: None, attributes: Vec::new() },
    )
    .is_ok()
    {
        answered += 1;
    }
    assert_eq!(answered, CART_REQUESTS_MAX);
    fixture.gateway.plan("authorize", &[CallFate::Declines; 2 * CART_OUTCOMES_MORE]);
    let keep = || pay(Some(OnDecline::Keep), None);
    let declined =
        |result: Result<Answer, Refusal>| assert!(matches!(result, Err(Refusal::PaymentDeclined(_))), "{result:?}");
    for number in 1..=CART_OUTCOMES_MORE {
        declined(buy(&mut fixture, &format!("pay {number}"), keep()));
    }
    let asked = fixture.gateway.accounts.len();
    assert_eq!(asked, CART_OUTCOMES_MORE);
    for _ in 0..3 {
        let result = buy(&mut fixture, "one too many", keep());
        assert!(matches!(result, Err(Refusal::BadRequest(_))), "{result:?}");
    }
    assert_eq!(fixture.gateway.accounts.len(), asked, "the gateway was asked for an outcome that cannot be recorded");
    // Repeats get the same answers.
    for number in [1, CART_OUTCOMES_MORE] {
        declined(buy(&mut fixture, &format!("pay {number}"), keep()));
    }
    assert_eq!(fixture.gateway.accounts.len(), asked);
    // The cart can still end, and be bought without a gateway.
    buy(&mut fixture, "cancel", CartCommand::Cancel).expect("a full cart can be canceled");
    assert_eq!(view(&mut fixture).ended, Some(Ended::Canceled));
}

#[test]
fn only_the_newest_lines_that_were_taken_are_kept() {
    let mut fixture = shop();
    for number in 1..=CART_LINES_MAX as u32 + 7 {
        buy(&mut fixture, &format!("hold {number}"), units(number)).expect("there are some");
        let revoke = CartCommand::Revoke { line: number, reason: "mine".into() };
        let Ok(Answer::Cart(shown)) = buy(&mut fixture, &format!("op {number}"), revoke) else {
            panic!("the cart has the line")
        };
        assert_eq!(shown, view(&mut fixture), "the operator's answer equals the cart");
    }
    let taken: Vec<u32> = view(&mut fixture).taken.iter().map(|taken| taken.line.line).collect();
    assert_eq!(taken, (8..=CART_LINES_MAX as u32 + 7).collect::<Vec<_>>());
}

/// The version of the lines changes only with lines, quantities or prices. Every answer has the version at its time.
#[test]
fn the_version_of_lines_changes_only_with_lines() {
    let mut fixture = shop();
    let mut last = 0;
    let mut step = |fixture: &mut Fixture, request: &str, command: CartCommand, moves: bool| {
        let result = match buy(fixture, request, command) {
            Ok(Answer::Cart(view)) => Some(view.lines_version),
            Ok(Answer::Held(held)) => Some(held.lines_version),
            Err(Refusal::PaymentDeclined(_)) => None,
            other => panic!("{other:?}"),
        };
        let view = view(fixture);
        assert!(result.is_none_or(|result| result == view.lines_version), "{request}: {result:?}, {view:?}");
        assert_eq!(view.lines_version != last, moves, "{request}: {last}, {view:?}");
        last = view.lines_version;
    };
    step(&mut fixture, "open", CartCommand::Open { customer: None, ttl_ms: None, guest: false }, false);
    step(&mut fixture, "hold", units(2), true);
    step(&mut fixture, "more", units(2), true);
    step(&mut fixture, "open again", CartCommand::Open { customer: None, ttl_ms: None, guest: false }, false);
    step(
        &mut fixture,
        "same",
        CartCommand::SetQuantity { line: 1, quantity: 4, guest: false, holder: None, attributes: Vec::new() },
        false,
    );
    step(
        &mut fixture,
        "up",
        CartCommand::SetQuantity { line: 1, quantity: 6, guest: false, holder: None, attributes: Vec::new() },
        true,
    );
    step(
        &mut fixture,
        "down",
        CartCommand::SetQuantity { line: 1, quantity: 5, guest: false, holder: None, attributes: Vec::new() },
        true,
    );
    fixture.gateway.plan("authorize", &[CallFate::Declines]);
    step(&mut fixture, "declined", pay(Some(OnDecline::Keep), None), false);
    step(&mut fixture, "op", CartCommand::Revoke { line: 1, reason: "".into() }, true);
    step(&mut fixture, "hold 2", units(1), true);
    step(&mut fixture, "release", CartCommand::Release { line: 2, seats: None }, true);
    step(&mut fixture, "cancel", CartCommand::Cancel, false);
}

#[test]
fn a_cart_shows_why_it_ended() {
    let mut fixture = shop();
    buy(&mut fixture, "hold", units(1)).expect("there are some");
    fixture.gateway.plan("authorize", &[CallFate::OtherAmount]);
    let failure = PaymentFailure::AmountMismatch { asked: euros(100), got: euros(101) };
    assert_eq!(buy(&mut fixture, "pay", pay(Some(OnDecline::Release), None)), Err(failure.refusal()));
    assert_eq!(view(&mut fixture).ended, Some(Ended::Unpaid(failure)));
}

//! How a checkout ended is told again, whoever asks and however often; a cart says why it ended and what was taken from it.

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
    bank::Mood,
    script::{cart, check, euros, hold_lines, id, pay, product},
    town::Town,
};

#[test]
pub(crate) fn a_decline_is_told_again() {
    check(
        "product p 9 1.00
         a hold p 2
         bank authorize no
         a pay keep as pay
         a pay keep as pay
         crash a
         a pay keep as pay
         a get
         a set 1 3
         a pay keep as pay
         a pay keep as other
         a pay keep as pay
         bank
         b hold p 1
         bank authorize no
         b pay release as pay
         b pay release as pay
         b pay release as other
         b get
         c hold p 1
         bank authorize more
         c pay release as pay
         c pay release as pay
         c get
         d hold p 1
         bank authorize deaf deaf deaf deaf
         d pay release as pay
         d settle 1 no
         d pay release as pay
         d get",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            bank authorize no
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
            bank -> a-1: declined; a-2: authorized 300 captured 300
            b hold p 1 -> line 1 p 1, until 1800.000
                5 free, 1 held, 3 sold
            bank authorize no
            b pay release as pay -> no: payment_declined, the payment was declined: no money
                6 free, 0 held, 3 sold
            b pay release as pay -> no: payment_declined, the payment was declined: no money
            b pay release as other -> no: cart_not_active, the cart is canceled
            b get -> canceled (declined by the gateway: no money), line 1 p 1, total 1.00
            c hold p 1 -> line 1 p 1, until 1800.000
                5 free, 1 held, 3 sold
            bank authorize more
            c pay release as pay -> no: amount_mismatch, the gateway answered 101 instead of 100 minor units
                6 free, 0 held, 3 sold
            c pay release as pay -> no: amount_mismatch, the gateway answered 101 instead of 100 minor units
            c get -> canceled (1.00 asked, 1.01 got), line 1 p 1, total 1.00
            d hold p 1 -> line 1 p 1, until 1800.000
                5 free, 1 held, 3 sold
            bank authorize deaf deaf deaf deaf
            d pay release as pay -> (waits as #21)
            d settle 1 no -> done
                6 free, 0 held, 3 sold
            d pay release as pay -> no: payment_declined, the payment was declined: an operator has said so
            d get -> canceled (declined by an operator: an operator has said so), line 1 p 1, total 1.00
        "#]],
    );
}

/// The client was told that it is not known, and its repeat comes when it is.
#[test]
fn a_decline_that_nobody_waited_for_is_told() {
    check(
        "product p 9 1.00
         product q 9 1.00 late
         a hold p 2 + q 1
         bank shut
         a pay keep as pay
         crash a
         bank authorize no
         bank open
         wait 5
         a get
         a pay keep as pay
         bank",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            product q 9 1.00 late -> 9 free, 0 held, 0 sold
            a hold p 2 + q 1 -> line 1 p 2, line 2 q 1 late, until 1800.000
                p  7 free, 2 held, 0 sold
            bank shut
            a pay keep as pay -> (waits as #4)
                q  8 free, 1 held, 0 sold
            crash a
            bank authorize no
            bank open
                q  9 free, 0 held, 0 sold
            wait 5
            a get -> active, line 1 p 2, line 2 q 1 late, total 3.00, until 1800.000
            a pay keep as pay -> no: payment_declined, the payment was declined: no money
            bank -> a-1: declined
        "#]],
    );
}

#[test]
fn what_cannot_be_set_aside_is_no_outcome() {
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
pub(crate) fn lines_that_were_taken_away_stay_visible() {
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
fn what_the_buyer_did_not_see_is_not_sold() {
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

fn buy(town: &mut Town, request: &str, command: CartCommand) -> Result<Answer, Refusal> {
    let ticket = town.send(Some(request), Command::Cart(cart("a"), command));
    town.run();
    let outcome = town.answers.get(&ticket).expect("it is answered at once").clone();
    outcome.map(|answered| answered.answer)
}

fn units(quantity: u32) -> CartCommand {
    let want = Want::Units { quantity, now: false };
    hold_lines(vec![WantedLine { entity: Entity::Product(id("p")), want }])
}

fn shop() -> Town {
    let mut town = Town::new(Rules::default());
    town.send(Some("put"), Command::Product(id("p"), ProductCommand::Put(Box::new(product(euros(100), 9_000)))));
    town.run();
    town
}

fn view(town: &mut Town) -> CartView {
    match buy(town, "get", CartCommand::Get) {
        Ok(Answer::Cart(view)) => view,
        other => panic!("{other:?}"),
    }
}

/// Every declined card is remembered, so there is room for it before the gateway is asked: nobody is charged for an
/// outcome that cannot be kept.
#[test]
pub(crate) fn a_cart_that_cannot_remember_an_outcome_asks_no_gateway() {
    let mut town = shop();
    buy(&mut town, "hold", units(1)).expect("there are some");
    let mut answered = 1;
    while buy(&mut town, &format!("same {answered}"), CartCommand::SetQuantity { line: 1, quantity: 1 }).is_ok() {
        answered += 1;
    }
    assert_eq!(answered, CART_REQUESTS_MAX);
    town.bank.plan("authorize", &[Mood::Refuses; 2 * CART_OUTCOMES_MORE]);
    let keep = || pay(Some(OnDecline::Keep), None);
    let declined =
        |said: Result<Answer, Refusal>| assert!(matches!(said, Err(Refusal::PaymentDeclined(_))), "{said:?}");
    for number in 1..=CART_OUTCOMES_MORE {
        declined(buy(&mut town, &format!("pay {number}"), keep()));
    }
    let asked = town.bank.accounts.len();
    assert_eq!(asked, CART_OUTCOMES_MORE);
    for _ in 0..3 {
        let said = buy(&mut town, "one too many", keep());
        assert!(matches!(said, Err(Refusal::BadRequest(_))), "{said:?}");
    }
    assert_eq!(town.bank.accounts.len(), asked, "the gateway was asked for an outcome that cannot be kept");
    // What was told is told again.
    for number in [1, CART_OUTCOMES_MORE] {
        declined(buy(&mut town, &format!("pay {number}"), keep()));
    }
    assert_eq!(town.bank.accounts.len(), asked);
    // The cart ends as carts do, and without a gateway it can be bought even so.
    buy(&mut town, "cancel", CartCommand::Cancel).expect("a full cart can be canceled");
    assert_eq!(view(&mut town).ended, Some(Ended::Canceled));
}

#[test]
fn only_the_newest_lines_that_were_taken_are_kept() {
    let mut town = shop();
    for number in 1..=CART_LINES_MAX as u32 + 7 {
        buy(&mut town, &format!("hold {number}"), units(number)).expect("there are some");
        let revoke = CartCommand::Revoke { line: number, reason: "mine".into() };
        let Ok(Answer::Cart(told)) = buy(&mut town, &format!("op {number}"), revoke) else { panic!("it has the line") };
        assert_eq!(told, view(&mut town), "the operator is told what the cart shows");
    }
    let taken: Vec<u32> = view(&mut town).taken.iter().map(|taken| taken.line.line).collect();
    assert_eq!(taken, (8..=CART_LINES_MAX as u32 + 7).collect::<Vec<_>>());
}

/// The version of the lines moves when lines, quantities or prices do, and at nothing else. Every answer says the one that
/// the cart has then.
#[test]
fn the_version_of_lines_moves_with_them_alone() {
    let mut town = shop();
    let mut last = 0;
    let mut step = |town: &mut Town, request: &str, command: CartCommand, moves: bool| {
        let said = match buy(town, request, command) {
            Ok(Answer::Cart(view)) => Some(view.lines_version),
            Ok(Answer::Held(held)) => Some(held.lines_version),
            Err(Refusal::PaymentDeclined(_)) => None,
            other => panic!("{other:?}"),
        };
        let view = view(town);
        assert!(said.is_none_or(|said| said == view.lines_version), "{request}: {said:?}, {view:?}");
        assert_eq!(view.lines_version != last, moves, "{request}: {last}, {view:?}");
        last = view.lines_version;
    };
    step(&mut town, "open", CartCommand::Open { customer: None, ttl_ms: None, guest: false }, false);
    step(&mut town, "hold", units(2), true);
    step(&mut town, "more", units(2), true);
    step(&mut town, "open again", CartCommand::Open { customer: None, ttl_ms: None, guest: false }, false);
    step(&mut town, "same", CartCommand::SetQuantity { line: 1, quantity: 4 }, false);
    step(&mut town, "up", CartCommand::SetQuantity { line: 1, quantity: 6 }, true);
    step(&mut town, "down", CartCommand::SetQuantity { line: 1, quantity: 5 }, true);
    town.bank.plan("authorize", &[Mood::Refuses]);
    step(&mut town, "declined", pay(Some(OnDecline::Keep), None), false);
    step(&mut town, "op", CartCommand::Revoke { line: 1, reason: "".into() }, true);
    step(&mut town, "hold 2", units(1), true);
    step(&mut town, "release", CartCommand::Release { line: 2, seats: None }, true);
    step(&mut town, "cancel", CartCommand::Cancel, false);
}

#[test]
fn a_cart_says_why_it_ended() {
    let mut town = shop();
    buy(&mut town, "hold", units(1)).expect("there are some");
    town.bank.plan("authorize", &[Mood::Differs]);
    let failure = PaymentFailure::AmountMismatch { asked: 100, got: 101 };
    assert_eq!(buy(&mut town, "pay", pay(Some(OnDecline::Release), None)), Err(failure.refusal()));
    assert_eq!(view(&mut town).ended, Some(Ended::Unpaid(failure)));
}

//! The attempts of one cart to pay are independent. Outcomes of an old attempt do not change a new one (P11).

use boxoffice_core::{
    command::{Command, ProductCommand, Want, WantedLine},
    host::Input,
    id::{Entity, Id},
    money::{Currency, Money},
    payment::{GatewayOutcome, PaymentKey, PaymentStep},
    refusal::Refusal,
    rules::Rules,
};
use expect_test::expect;

use crate::{
    fixture::{Fixture, Message},
    script::{cart, check, euros, hold_lines, id, pay, product},
};

#[test]
pub(crate) fn an_outcome_of_an_old_attempt_does_not_decide_the_new_one() {
    check(
        "product p 9 1.00
         a hold p 2
         gateway authorize no lost lost lost lost lost lost lost
         a pay keep
         a set 1 3
         a pay keep as second
         gateway says a 1 authorize yes
         a get
         gateway says a 1 authorize no
         gateway says a 3 authorize yes
         a get
         gateway
         gateway says a 2 authorize yes
         a pay keep as second
         gateway says a 1 capture yes
         gateway says a 2 authorize no
         gateway says a 1 authorize yes
         a order
         gateway",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            gateway authorize no lost lost lost lost lost lost lost
            a pay keep -> no: payment_declined, the payment was declined: no money
            a set 1 3 -> active, line 1 p 3, total 3.00, until 1800.000
                6 free, 3 held, 0 sold
            a pay keep as second -> (waits as #5)
            gateway says a 1 authorize yes
            a get -> checking_out, line 1 p 3, total 3.00
            gateway says a 1 authorize no
            gateway says a 3 authorize yes
            a get -> checking_out, line 1 p 3, total 3.00
            gateway -> a-1: declined voided; a-2: authorized 300
            gateway says a 2 authorize yes
                6 free, 0 held, 3 sold
            a pay keep as second -> order of line 1 p 3, total 3.00, Authorized
            gateway says a 1 capture yes
            gateway says a 2 authorize no
            gateway says a 1 authorize yes
            a order -> order of line 1 p 3, total 3.00, Captured
            gateway -> a-1: declined voided; a-2: authorized 300 captured 300
        "#]],
    );
}

/// A decline after a success, or a success after a void, changes no sale.
#[test]
fn a_finished_attempt_stays_finished() {
    check(
        "product p 9 1.00
         a hold p 2
         b hold p 3
         gateway authorize yes no
         a pay
         b pay
         gateway says a 1 authorize no
         a refund
         gateway says a 1 authorize yes
         gateway says a 1 capture yes
         gateway says b 1 authorize yes
         gateway says b 1 capture yes
         a order
         b get
         c hold p 9
         gateway",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            b hold p 3 -> line 1 p 3, until 1800.000
                4 free, 5 held, 0 sold
            gateway authorize yes no
            a pay -> order of line 1 p 2, total 2.00, Authorized
                4 free, 3 held, 2 sold
            b pay -> no: payment_declined, the payment was declined: no money
                7 free, 0 held, 2 sold
            gateway says a 1 authorize no
            a refund -> refund 1 of lines [1] 2.00 Pending
                9 free, 0 held, 0 sold
            gateway says a 1 authorize yes
            gateway says a 1 capture yes
            gateway says b 1 authorize yes
            gateway says b 1 capture yes
            a order -> order of line 1 p 2, total 2.00, Captured, refund 1 of lines [1] 2.00 Refunded
            b get -> canceled (declined by the gateway: no money), line 1 p 3, total 3.00
            c hold p 9 -> line 1 p 9, until 1800.000
                0 free, 9 held, 0 sold
            gateway -> a-1: authorized 200 captured 200 refunded 200; b-1: declined voided
        "#]],
    );
}

/// The same number in another currency is a wrong amount. It is voided, and nothing is sold for it.
#[test]
fn the_same_number_in_another_currency_is_a_wrong_amount() {
    let mut fixture = Fixture::new(Rules::default());
    let details = ProductCommand::Put(Box::new(product(euros(250), 5)));
    fixture.send(Some("put"), Command::Product(id("p"), details));
    let units = WantedLine::new(Entity::Product(id("p")), Want::Units { quantity: 2, now: false });
    fixture.send(Some("hold"), Command::Cart(cart("a"), hold_lines(vec![units])));
    fixture.run();
    fixture.gateway_open = false;
    let paying = fixture.send(Some("pay"), Command::Cart(cart("a"), pay(None, None::<Id>)));
    fixture.run();
    let dollars = Money { amount: 500, currency: Currency::new("USD").expect("three letters") };
    let key = PaymentKey { cart: cart("a"), attempt: 1 };
    let outcome = GatewayOutcome::Authorized { reference: "auth-1".into(), amount: dollars };
    let input = Input::Paid { key, step: PaymentStep::Authorize, outcome };
    fixture.post(Message { to: Entity::Cart(cart("a")), input });
    fixture.run();
    assert_eq!(fixture.answers[&paying], Err(Refusal::AmountMismatch { asked: euros(500), got: dollars }));
    let said = fixture.answers[&paying].as_ref().expect_err("it is a wrong amount").to_string();
    assert_eq!(said, "the gateway set aside 500 minor units of USD instead of 500 of EUR");
    fixture.gateway_open = true;
    fixture.run();
    assert_eq!(fixture.gateway.ledger(), "a-1: authorized 500 voided");
    let audit = fixture.states.audit();
    assert_eq!((audit.units.free, audit.orders), (5, 0));
    fixture.check_money();
}

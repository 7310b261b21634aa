//! The lifetime of a cart, and how paying changes it.

use expect_test::expect;

use crate::script::check;

#[test]
fn the_shortest_time_to_live_of_all_lines() {
    check(
        "product p 9 1.00 ttl 10
         hall aaa
         session s
         a hold s 0.0
         a hold p 1
         wait 9
         a hold s 0.1
         a release 2
         a hold p 2
         wait 10
         a get",
        expect![[r#"
            product p 9 1.00 ttl 10 -> 9 free, 0 held, 0 sold
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                s  a..
            a hold p 1 -> line 2 p 1, until 10.000
                p  8 free, 1 held, 0 sold
            wait 9
            a hold s 0.1 -> line 3 s 0.1, until 19.000
                s  aa.
            a release 2 -> active, line 1 s 0.0, line 3 s 0.1, total 20.00, until 1809.000
                p  9 free, 0 held, 0 sold
            a hold p 2 -> line 4 p 2, until 19.000
                p  7 free, 2 held, 0 sold
            wait 10
                p  9 free, 0 held, 0 sold
                s  ...
            a get -> expired, line 1 s 0.0, line 3 s 0.1, line 4 p 2, total 22.00
        "#]],
    );
}

#[test]
fn paying_extends_the_life_once() {
    check(
        "product p 9 1.00 ttl 10
         a hold p 1
         wait 9
         gateway authorize no no
         a pay keep
         wait 9
         a pay keep
         wait 0.999
         a get
         wait 0.001
         a get
         gateway",
        expect![[r#"
            product p 9 1.00 ttl 10 -> 9 free, 0 held, 0 sold
            a hold p 1 -> line 1 p 1, until 10.000
                8 free, 1 held, 0 sold
            wait 9
            gateway authorize no no
            a pay keep -> no: payment_declined, the payment was declined: no money
            wait 9
            a pay keep -> no: payment_declined, the payment was declined: no money
            wait 0.999
            a get -> active, line 1 p 1, total 1.00, until 19.000
            wait 0.001
                9 free, 0 held, 0 sold
            a get -> expired, line 1 p 1, total 1.00
            gateway -> a-1: declined; a-2: declined
        "#]],
    );
}

#[test]
fn a_cart_that_is_being_paid_does_not_expire() {
    check(
        "product p 9 1.00 ttl 10
         gateway shut
         a hold p 1
         a pay as pay
         wait 100
         a get
         a hold p 1
         a cancel
         a release 1
         a revoke 1
         gateway open
         a pay as pay
         gateway",
        expect![[r#"
            product p 9 1.00 ttl 10 -> 9 free, 0 held, 0 sold
            gateway shut
            a hold p 1 -> line 1 p 1, until 10.000
                8 free, 1 held, 0 sold
            a pay as pay -> (waits as #3)
            wait 100
            a get -> checking_out, line 1 p 1, total 1.00
            a hold p 1 -> no: cart_not_active, the cart is checking_out
            a cancel -> no: cart_not_active, the cart is checking_out
            a release 1 -> no: cart_not_active, the cart is checking_out
            a revoke 1 -> no: cart_not_active, the cart is checking_out
            gateway open
                8 free, 0 held, 1 sold
            a pay as pay -> order of line 1 p 1, total 1.00, Authorized
            gateway -> a-1: authorized 100 captured 100
        "#]],
    );
}

#[test]
fn a_decline_that_comes_after_the_deadline_ends_the_cart() {
    check(
        "product p 9 1.00 ttl 10
         gateway shut
         gateway authorize no
         a hold p 1
         a pay keep
         wait 100
         gateway open
         a get
         answers",
        expect![[r#"
            product p 9 1.00 ttl 10 -> 9 free, 0 held, 0 sold
            gateway shut
            gateway authorize no
            a hold p 1 -> line 1 p 1, until 10.000
                8 free, 1 held, 0 sold
            a pay keep -> (waits as #3)
            wait 100
            gateway open
                9 free, 0 held, 0 sold
            a get -> expired, line 1 p 1, total 1.00
            answers
                #3 no: payment_pending, how the payment ended is not known yet; ask again with the same request id
        "#]],
    );
}

/// An open cart gets a customer where it has none. Another customer or another life is refused, and nothing is ignored.
#[test]
pub(crate) fn an_open_cart_is_opened_again_as_it_is() {
    check(
        "product p 9 1.00
         a open 20
         a open 20
         a open for ann as x
         a open 20 for ann
         a open 20 for bob
         a open 30
         a hold p 1 for bob
         a hold p 1 for ann
         a checkout
         a open for ann as x
         ann",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a open 20 -> active, until 20.000
            a open 20 -> active, until 20.000
            a open for ann as x -> active, until 20.000
            a open 20 for ann -> active, until 20.000
            a open 20 for bob -> no: cart_open_differently, the cart is open, and is customer ann's, not customer bob's
            a open 30 -> no: cart_open_differently, the cart is open, and lives 20000 ms untouched, not 30000 ms
            a hold p 1 for bob -> no: bad_request, bad request: the cart is customer ann's, not customer bob's
            a hold p 1 for ann -> line 1 p 1, until 20.000
                8 free, 1 held, 0 sold
            a checkout -> order of line 1 p 1, total 1.00
                p  8 free, 0 held, 1 sold
            a open for ann as x -> active, until 20.000
            ann -> [1 a 1.00]
        "#]],
    );
}

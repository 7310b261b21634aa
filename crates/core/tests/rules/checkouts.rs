//! Checkouts that begin before every line is granted, and that are decided before every session has sold.

use expect_test::expect;

use crate::script::check;

#[test]
fn a_checkout_waits_for_lines_under_way() {
    check(
        "hall aaaa
         session s
         session t
         a hold s 0.0
         stop t
         a hold t 0.0
         a checkout as pay
         a hold s 0.1
         a release 1
         a checkout as other
         wait 1
         go t
         answers",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                s  a...
            stop t
            a hold t 0.0 -> (waits as #5)
            a checkout as pay -> (waits as #6)
            a hold s 0.1 -> no: cart_not_active, the cart is checking_out
            a release 1 -> no: cart_not_active, the cart is checking_out
            a checkout as other -> no: cart_not_active, the cart is checking_out
            wait 1
            go t
                s  A...
                t  A...
            answers
                #5 line 2 t 0.0, until 1801.000
                #6 order of line 1 s 0.0, line 2 t 0.0, total 20.00
        "#]],
    );
    // It does not wait for ever.
    check(
        "hall aaaa
         session s
         session t
         a hold s 0.0
         stop t
         a hold t 0.0
         a checkout as pay
         wait 1.999
         answers
         wait 0.001
         answers
         go t
         box get t",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                s  a...
            stop t
            a hold t 0.0 -> (waits as #5)
            a checkout as pay -> (waits as #6)
            wait 1.999
            answers -> none of 2
            wait 0.001
                s  A...
            answers
                #5 no: cart_not_active, the cart is done
                #6 order of line 1 s 0.0, total 10.00
            go t
            box get t -> 4 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
fn a_checkout_is_certain_before_the_sessions_have_sold() {
    check(
        "hall aaaa
         session s
         session t
         a hold s 0.0 + t 0.1
         stop t
         a checkout as pay
         a checkout as pay
         wait 2
         answers
         a order
         go t
         a order
         a checkout as pay
         a audit",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 + t 0.1 -> line 1 s 0.0, line 2 t 0.1, until 1800.000
                s  a...
                t  .a..
            stop t
            a checkout as pay -> (waits as #5)
                s  A...
            a checkout as pay -> (waits as #6)
            wait 2
            answers
                #5 order of line 1 s 0.0, line 2 t 0.1, total 20.00, settling
                #6 order of line 1 s 0.0, line 2 t 0.1, total 20.00, settling
            a order -> order of line 1 s 0.0, line 2 t 0.1, total 20.00, settling
            go t
                t  .A..
            a order -> order of line 1 s 0.0, line 2 t 0.1, total 20.00
            a checkout as pay -> order of line 1 s 0.0, line 2 t 0.1, total 20.00
            a audit -> 2 holds, 0 owed, []
        "#]],
    );
}

/// The purchase is still to be posted to the customer, so the cart has not written down that its sale is acknowledged.
#[test]
pub(crate) fn an_order_does_not_settle_again_after_its_checkout() {
    check(
        "hall aaaa
         session s
         a hold s 0.0 for ann
         stop ann
         a checkout
         a order
         go ann
         a order
         ann",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 for ann -> line 1 s 0.0, until 1800.000
                a...
            stop ann
            a checkout -> order of line 1 s 0.0, total 10.00
                A...
            a order -> order of line 1 s 0.0, total 10.00
            go ann
            a order -> order of line 1 s 0.0, total 10.00
            ann -> [1 a 10.00]
        "#]],
    );
}

/// A repeated ask may be granted before the begin of the checkout is committed. If the leader is lost then, no node knows the
/// attempt, so the gateway must not have been asked.
#[test]
pub(crate) fn no_money_is_authorized_for_an_uncommitted_checkout() {
    check(
        "product q 5 3.00 late
         a hold q 2
         freeze a
         a pay
         wait 1
         gateway
         crash a
         thaw a
         gateway
         a pay
         gateway",
        expect![[r#"
            product q 5 3.00 late -> 5 free, 0 held, 0 sold
            a hold q 2 -> line 1 q 2 late, until 1800.000
            freeze a
            a pay -> (waits as #3)
            wait 1
                3 free, 2 held, 0 sold
            gateway -> 
            crash a
            thaw a
            gateway -> 
            a pay -> order of line 1 q 2, total 6.00, Authorized
                1 free, 2 held, 2 sold
            gateway -> a-1: authorized 600 captured 600
        "#]],
    );
}

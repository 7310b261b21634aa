//! Each order is listed once among its customer's purchases, even if messages are lost or duplicated and hosts crash (P12).

use expect_test::expect;

use crate::script::check;

#[test]
fn a_purchase_is_posted_until_it_is_there() {
    check(
        "product p 9 1.00
         a hold p 1 for ann
         stop ann
         a checkout
         lose ann
         wait 1
         lose ann
         crash a
         wait 3
         lose ann
         crash a
         go ann
         wait 1
         ann
         a audit
         last post ann
         again post ann
         crash ann
         last post ann
         ann",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 1 for ann -> line 1 p 1, until 1800.000
                8 free, 1 held, 0 sold
            stop ann
            a checkout -> order of line 1 p 1, total 1.00
                8 free, 0 held, 1 sold
            lose ann
            wait 1
            lose ann
            crash a
            wait 3
            lose ann
            crash a
            go ann
            wait 1
            ann -> [1 a 1.00]
            a audit -> 1 holds, 0 owed, []
            last post ann
            again post ann
            crash ann
            last post ann
            ann -> [1 a 1.00]
        "#]],
    );
}

#[test]
fn an_acknowledgement_that_is_lost_does_not_post_twice() {
    check(
        "product p 9 1.00
         a hold p 1 for ann
         stop ann
         a checkout
         stop a
         go ann
         lose a
         crash ann
         go a
         wait 2
         ann
         a audit",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 1 for ann -> line 1 p 1, until 1800.000
                8 free, 1 held, 0 sold
            stop ann
            a checkout -> order of line 1 p 1, total 1.00
                8 free, 0 held, 1 sold
            stop a
            go ann
            lose a
            crash ann
            go a
            wait 2
            ann -> [1 a 1.00]
            a audit -> 1 holds, 0 owed, []
        "#]],
    );
}

/// The customer's host crashes before the purchase is committed.
#[test]
fn a_purchase_is_posted_again_after_a_crash_of_its_customer() {
    check(
        "product p 9 1.00
         a hold p 1 for ann
         b hold p 2 for ann
         freeze ann
         a checkout
         crash ann
         b checkout
         thaw ann
         wait 1
         ann
         a audit
         b audit",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 1 for ann -> line 1 p 1, until 1800.000
                8 free, 1 held, 0 sold
            b hold p 2 for ann -> line 1 p 2, until 1800.000
                6 free, 3 held, 0 sold
            freeze ann
            a checkout -> order of line 1 p 1, total 1.00
                6 free, 2 held, 1 sold
            crash ann
            b checkout -> order of line 1 p 2, total 2.00
                6 free, 0 held, 3 sold
            thaw ann
            wait 1
                ann  2 orders
            ann -> [1 b 2.00, 2 a 1.00]
            a audit -> 1 holds, 0 owed, []
            b audit -> 1 holds, 0 owed, []
        "#]],
    );
}

#[test]
fn only_orders_are_purchases_and_they_stay() {
    check(
        "product p 9 1.00
         a hold p 1 for ann
         a checkout
         b hold p 1
         b checkout for ann
         c hold p 1
         c checkout
         d hold p 1 for ann
         d cancel
         e hold p 1 for ann
         gateway authorize no
         e pay
         f hold p 1 for ann
         wait 1800
         a refund
         ann
         bob",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 1 for ann -> line 1 p 1, until 1800.000
                8 free, 1 held, 0 sold
            a checkout -> order of line 1 p 1, total 1.00
                p  8 free, 0 held, 1 sold
            b hold p 1 -> line 1 p 1, until 1800.000
                p  7 free, 1 held, 1 sold
            b checkout for ann -> order of line 1 p 1, total 1.00
                ann  2 orders
                p  7 free, 0 held, 2 sold
            c hold p 1 -> line 1 p 1, until 1800.000
                p  6 free, 1 held, 2 sold
            c checkout -> order of line 1 p 1, total 1.00
                p  6 free, 0 held, 3 sold
            d hold p 1 for ann -> line 1 p 1, until 1800.000
                p  5 free, 1 held, 3 sold
            d cancel -> canceled, line 1 p 1, total 1.00
                p  6 free, 0 held, 3 sold
            e hold p 1 for ann -> line 1 p 1, until 1800.000
                p  5 free, 1 held, 3 sold
            gateway authorize no
            e pay -> no: payment_declined, the payment was declined: no money
                p  6 free, 0 held, 3 sold
            f hold p 1 for ann -> line 1 p 1, until 1800.000
                p  5 free, 1 held, 3 sold
            wait 1800
                p  6 free, 0 held, 3 sold
            a refund -> refund 1 of lines [1] 1.00 Recorded
                p  7 free, 0 held, 2 sold
            ann -> [1 a 1.00, 2 b 1.00]
            bob -> []
        "#]],
    );
}

//! Limits of one order and one customer, over carts, crashes and late lines.

use expect_test::expect;

use crate::script::check;

#[test]
fn limits_of_an_order_count_all_lines_of_the_entity() {
    check(
        "hall aaaaaa
         session s with stand 10 5.00 order 4
         product p 100 1.00 order 3
         a hold s 0.0 0.1 + s stand 2
         a hold s 0.2
         a set 2 3
         a release 1 0.0
         a hold s 0.2
         a hold p 2
         a hold p 2
         a set 4 4
         a set 4 3
         b hold p 4",
        expect![[r#"
            hall aaaaaa -> done
            session s with stand 10 5.00 order 4 -> 6 free, 0 held, 0 sold, 0 blocked
            product p 100 1.00 order 3 -> 100 free, 0 held, 0 sold
            a hold s 0.0 0.1 + s stand 2 -> line 1 s 0.0 0.1, line 2 s stand 2, until 1800.000
                s  aa....
                s  stand 8 free, 2 held, 0 sold
            a hold s 0.2 -> no: limit_per_order, an order may have 4 of session/s
            a set 2 3 -> no: limit_per_order, an order may have 4 of session/s
            a release 1 0.0 -> active, line 1 s 0.1, line 2 s stand 2, total 20.00, until 1800.000
                s  .a....
                s  stand 8 free, 2 held, 0 sold
            a hold s 0.2 -> line 3 s 0.2, until 1800.000
                s  .aa...
                s  stand 8 free, 2 held, 0 sold
            a hold p 2 -> line 4 p 2, until 1800.000
                p  98 free, 2 held, 0 sold
            a hold p 2 -> no: limit_per_order, an order may have 3 of product/p
            a set 4 4 -> no: limit_per_order, an order may have 3 of product/p
            a set 4 3 -> active, line 1 s 0.1, line 2 s stand 2, line 3 s 0.2, line 4 p 3, total 33.00, until 1800.000
                p  97 free, 3 held, 0 sold
            b hold p 4 -> no: limit_per_order, an order may have 3 of product/p
        "#]],
    );
}

#[test]
pub(crate) fn a_quota_spans_carts_and_orders() {
    check(
        "product p 100 1.00 quota few 3
         hall aaaa
         session s quota few 3
         a hold p 2
         a hold p 2 for ann
         b hold s 0.0 0.1 for ann
         b hold s 0.0 for ann
         a set 1 3
         c hold p 1 for bob
         a checkout
         b cancel
         b hold p 2 for ann
         d hold p 1 for ann
         d hold p 1 for bob
         a refund
         d hold s 0.1 0.2 0.3 for ann
         ann",
        expect![[r#"
            product p 100 1.00 quota few 3 -> 100 free, 0 held, 0 sold
            hall aaaa -> done
            session s quota few 3 -> 4 free, 0 held, 0 sold, 0 blocked
            a hold p 2 -> no: customer_needed, product/p is limited per customer: name the buyer, `customer`
            a hold p 2 for ann -> line 1 p 2, until 1800.000
                p  98 free, 2 held, 0 sold
            b hold s 0.0 0.1 for ann -> no: limit_per_customer, a customer may have 3 of few and has 2
            b hold s 0.0 for ann -> line 1 s 0.0, until 1800.000
                ann  few 3 held 0 sold, 0 orders
                s  b...
            a set 1 3 -> no: limit_per_customer, a customer may have 3 of few and has 3
            c hold p 1 for bob -> line 1 p 1, until 1800.000
                p  97 free, 3 held, 0 sold
            a checkout -> order of line 1 p 2, total 2.00
                ann  few 1 held 2 sold, 1 orders
                p  97 free, 1 held, 2 sold
            b cancel -> canceled, line 1 s 0.0, total 10.00
                ann  few 0 held 2 sold, 1 orders
                s  ....
            b hold p 2 for ann -> no: cart_not_active, the cart is canceled
            d hold p 1 for ann -> line 1 p 1, until 1800.000
                ann  few 1 held 2 sold, 1 orders
                p  96 free, 2 held, 2 sold
            d hold p 1 for bob -> no: bad_request, bad request: the cart is customer ann's, not customer bob's
            a refund -> refund 1 of lines [1] 2.00 Recorded
                ann  few 1 held 0 sold, 1 orders
                p  98 free, 2 held, 0 sold
            d hold s 0.1 0.2 0.3 for ann -> no: limit_per_customer, a customer may have 3 of few and has 1
            ann -> [1 a 2.00]
        "#]],
    );
}

#[test]
fn a_quota_of_late_lines_is_taken_at_the_checkout() {
    check(
        "product p 100 1.00 late quota few 3
         a hold p 2
         a set 1 4
         a checkout
         a checkout for ann
         a set 1 3
         a checkout for ann
         b hold p 1 for ann
         b checkout",
        expect![[r#"
            product p 100 1.00 late quota few 3 -> 100 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2 late, until 1800.000
            a set 1 4 -> active, line 1 p 4 late, total 4.00, until 1800.000
            a checkout -> no: customer_needed, product/p is limited per customer: name the buyer, `customer`
            a checkout for ann -> no: limit_per_customer, a customer may have 3 of few and has 0
            a set 1 3 -> active, line 1 p 3 late, total 3.00, until 1800.000
            a checkout for ann -> order of line 1 p 3, total 3.00
                p  97 free, 0 held, 3 sold
            b hold p 1 for ann -> line 1 p 1 late, until 1800.000
            b checkout -> no: limit_per_customer, a customer may have 3 of few and has 3
        "#]],
    );
}

#[test]
pub(crate) fn a_second_grant_for_a_checkout_changes_nothing() {
    check(
        "product q 9 1.00 late quota few 5
         gateway shut
         a hold q 2 for ann
         a pay
         last granted a
         again granted a
         gateway open
         answers
         a get",
        expect![[r#"
            product q 9 1.00 late quota few 5 -> 9 free, 0 held, 0 sold
            gateway shut
            a hold q 2 for ann -> line 1 q 2 late, until 1800.000
            a pay -> (waits as #3)
                q  7 free, 2 held, 0 sold
            last granted a
            again granted a
            gateway open
                ann  few 0 held 2 sold, 1 orders
                q  7 free, 0 held, 2 sold
            answers
                #3 order of line 1 q 2, total 2.00, Authorized
            a get -> done, line 1 q 2, total 2.00
        "#]],
    );
}

#[test]
fn quotas_of_customers_are_distinguished() {
    check(
        "product p 9 1.00 quota few 3
         stop ann
         stop bob
         a hold p 1 for ann as h
         crash a
         a hold p 1 for bob as h
         go ann
         a get
         go bob
         answers
         a checkout
         wait 1900",
        expect![[r#"
            product p 9 1.00 quota few 3 -> 9 free, 0 held, 0 sold
            stop ann
            stop bob
            a hold p 1 for ann as h -> (waits as #2)
                8 free, 1 held, 0 sold
            crash a
            a hold p 1 for bob as h -> (waits as #3)
            go ann
            a get -> no: not_found, cart 00000000000000000000000000000061 is not known
            go bob
            answers
                #3 line 1 p 1, until 1800.000
            a checkout -> order of line 1 p 1, total 1.00
                bob  few 0 held 1 sold, 1 orders
                p  8 free, 0 held, 1 sold
            wait 1900
        "#]],
    );
}

#[test]
fn new_carts_of_one_customer() {
    check(
        "product p 9 1.00
         a hold p 1 for ann
         a checkout
         b hold p 1 for ann
         b checkout
         c hold p 1 for ann
         c cancel
         ann
         a checkout for bob
         d hold p 1 for ann
         d hold p 1 for bob
         d checkout for bob",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 1 for ann -> line 1 p 1, until 1800.000
                8 free, 1 held, 0 sold
            a checkout -> order of line 1 p 1, total 1.00
                p  8 free, 0 held, 1 sold
            b hold p 1 for ann -> line 1 p 1, until 1800.000
                p  7 free, 1 held, 1 sold
            b checkout -> order of line 1 p 1, total 1.00
                ann  2 orders
                p  7 free, 0 held, 2 sold
            c hold p 1 for ann -> line 1 p 1, until 1800.000
                p  6 free, 1 held, 2 sold
            c cancel -> canceled, line 1 p 1, total 1.00
                p  7 free, 0 held, 2 sold
            ann -> [1 a 1.00, 2 b 1.00]
            a checkout for bob -> no: cart_not_active, the cart is done
            d hold p 1 for ann -> line 1 p 1, until 1800.000
                p  6 free, 1 held, 2 sold
            d hold p 1 for bob -> no: bad_request, bad request: the cart is customer ann's, not customer bob's
            d checkout for bob -> no: bad_request, bad request: the cart is customer ann's, not customer bob's
        "#]],
    );
}

#[test]
fn a_quota_that_is_on_its_way_back_is_not_relied_on() {
    check(
        "product p 9 1.00 quota few 3
         freeze a
         a hold p 1 for ann as h
         crash a
         stop p
         a hold p 1 for ann as h
         last granted a
         go p
         thaw a
         answers
         a checkout
         wait 3000
         ann",
        expect![[r#"
            product p 9 1.00 quota few 3 -> 9 free, 0 held, 0 sold
            freeze a
            a hold p 1 for ann as h -> (waits as #2)
                p  8 free, 1 held, 0 sold
            crash a
            stop p
            a hold p 1 for ann as h -> (waits as #3)
            last granted a
            go p
                ann  few 2 held 0 sold, 0 orders
            thaw a
                ann  few 1 held 0 sold, 0 orders
            answers
                #3 line 1 p 1, until 1800.000
            a checkout -> order of line 1 p 1, total 1.00
                ann  few 0 held 1 sold, 1 orders
                p  8 free, 0 held, 1 sold
            wait 3000
            ann -> [1 a 1.00]
        "#]],
    );
}

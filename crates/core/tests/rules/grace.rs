//! Units, places, time and quotas are free again at the cart's deadline, or within the grace after it, and never before (P8).

use expect_test::expect;

use crate::script::check;

const EVERYTHING: &str = "product p 9 1.00 quota few 5
    resource r 12.00
    hall aa
    session s with stand 5 5.00
    ";

#[test]
pub(crate) fn everything_is_released_at_the_deadline() {
    let script = "a hold p 2 + r 100 200 + s 0.0 + s stand 2 for ann
         wait 1799.999
         a get
         wait 0.001
         a get";
    check(
        &format!("{EVERYTHING}{script}"),
        expect![[r#"
            product p 9 1.00 quota few 5 -> 9 free, 0 held, 0 sold
            resource r 12.00 -> 0 bookings
            hall aa -> done
            session s with stand 5 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            a hold p 2 + r 100 200 + s 0.0 + s stand 2 for ann -> line 1 p 2, line 2 r 100-200, line 3 s 0.0, line 4 s stand 2, until 1800.000
                p  7 free, 2 held, 0 sold
                r  100-200 held
                s  a.
                s  stand 3 free, 2 held, 0 sold
            wait 1799.999
            a get -> active, line 1 p 2, line 2 r 100-200, line 3 s 0.0, line 4 s stand 2, total 34.00, until 1800.000
            wait 0.001
                ann  0 orders
                p  9 free, 0 held, 0 sold
                r  free
                s  ..
                s  stand 5 free, 0 held, 0 sold
            a get -> expired, line 1 p 2, line 2 r 100-200, line 3 s 0.0, line 4 s stand 2, total 34.00
        "#]],
    );
}

/// The cart's messages of its end are lost. Each inventory asks by itself once the grace is over.
#[test]
fn everything_is_released_after_the_grace_if_messages_of_the_cart_are_lost() {
    let script = "a hold p 2 + r 100 200 + s 0.0 + s stand 2 for ann
         stop p
         stop r
         stop s
         stop ann
         wait 1800
         lose p
         lose r
         lose s
         lose ann
         crash p
         crash ann
         stop a
         go p
         go r
         go s
         go ann
         wait 1.999
         go a
         wait 0.001";
    check(
        &format!("{EVERYTHING}{script}"),
        expect![[r#"
            product p 9 1.00 quota few 5 -> 9 free, 0 held, 0 sold
            resource r 12.00 -> 0 bookings
            hall aa -> done
            session s with stand 5 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            a hold p 2 + r 100 200 + s 0.0 + s stand 2 for ann -> line 1 p 2, line 2 r 100-200, line 3 s 0.0, line 4 s stand 2, until 1800.000
                p  7 free, 2 held, 0 sold
                r  100-200 held
                s  a.
                s  stand 3 free, 2 held, 0 sold
            stop p
            stop r
            stop s
            stop ann
            wait 1800
            lose p
            lose r
            lose s
            lose ann
            crash p
            crash ann
            stop a
            go p
            go r
            go s
            go ann
            wait 1.999
            go a
                ann  0 orders
                p  9 free, 0 held, 0 sold
                r  free
                s  ..
                s  stand 5 free, 0 held, 0 sold
            wait 0.001
        "#]],
    );
}

/// The cart crashes with the grants before it was opened, and everything is released nevertheless.
#[test]
fn everything_is_released_by_a_cart_that_was_never_opened() {
    let script = "freeze a
         a hold p 2 + r 100 200 + s 0.0 + s stand 2 for ann
         crash a
         thaw a
         crash p
         crash r
         crash s
         crash ann
         wait 11.999
         wait 0.001
         a get";
    check(
        &format!("{EVERYTHING}{script}"),
        expect![[r#"
            product p 9 1.00 quota few 5 -> 9 free, 0 held, 0 sold
            resource r 12.00 -> 0 bookings
            hall aa -> done
            session s with stand 5 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            freeze a
            a hold p 2 + r 100 200 + s 0.0 + s stand 2 for ann -> (waits as #5)
                p  7 free, 2 held, 0 sold
                r  100-200 held
                s  a.
                s  stand 3 free, 2 held, 0 sold
            crash a
            thaw a
            crash p
            crash r
            crash s
            crash ann
            wait 11.999
            wait 0.001
                ann  0 orders
                p  9 free, 0 held, 0 sold
                r  free
                s  ..
                s  stand 5 free, 0 held, 0 sold
            a get -> no: not_found, cart 00000000000000000000000000000061 is not known
        "#]],
    );
}

/// The outcome of the payment is unknown. Hours later everything is still held, although inventories ask (P11).
#[test]
fn nothing_is_released_while_a_payment_is_unknown() {
    let script = "gateway shut
         a hold p 2 + r 100 200 + s 0.0 + s stand 2 for ann
         a pay
         wait 7200
         crash a
         crash p
         crash r
         crash s
         crash ann
         wait 50000
         b hold s 0.0
         b hold r 150 160
         b hold s stand 4
         b hold p 8 for bob
         b hold p 4 for ann
         gateway authorize no
         gateway open
         wait 1
         a get";
    check(
        &format!("{EVERYTHING}{script}"),
        expect![[r#"
            product p 9 1.00 quota few 5 -> 9 free, 0 held, 0 sold
            resource r 12.00 -> 0 bookings
            hall aa -> done
            session s with stand 5 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            gateway shut
            a hold p 2 + r 100 200 + s 0.0 + s stand 2 for ann -> line 1 p 2, line 2 r 100-200, line 3 s 0.0, line 4 s stand 2, until 1800.000
                p  7 free, 2 held, 0 sold
                r  100-200 held
                s  a.
                s  stand 3 free, 2 held, 0 sold
            a pay -> (waits as #6)
            wait 7200
            crash a
            crash p
            crash r
            crash s
            crash ann
            wait 50000
            b hold s 0.0 -> no: seats_taken, 1 of the seats are taken: 0.0 held
            b hold r 150 160 -> no: slot_taken, 1 bookings are in the way: 150-160
            b hold s stand 4 -> no: not_enough_places, 3 places are free in stand, and 2 are in carts
            b hold p 8 for bob -> no: out_of_stock, 1 of the products are out of stock: p wanted 8 free 7
            b hold p 4 for ann -> no: limit_per_customer, a customer may have 5 of few and has 2
            gateway authorize no
            gateway open
                ann  0 orders
                p  9 free, 0 held, 0 sold
                r  free
                s  ..
                s  stand 5 free, 0 held, 0 sold
            wait 1
            a get -> canceled (declined by the gateway: no money), line 1 p 2, line 2 r 100-200, line 3 s 0.0, line 4 s stand 2, total 34.00
        "#]],
    );
}

/// The cart is lost with the grant, before it knows the short lifetime of its line. The session knows it.
#[test]
pub(crate) fn a_session_with_a_shorter_life_asks_in_its_own_time() {
    check(
        "hall aa
         session s ttl 5
         freeze a
         a hold s 0.0
         crash a
         thaw a
         wait 6.999
         wait 0.001",
        expect![[r#"
            hall aa -> done
            session s ttl 5 -> 2 free, 0 held, 0 sold, 0 blocked
            freeze a
            a hold s 0.0 -> (waits as #3)
                a.
            crash a
            thaw a
            wait 6.999
            wait 0.001
                ..
        "#]],
    );
}

/// One line makes the cart's lifetime shorter than the other inventories expect. They would not ask for half an hour.
#[test]
fn an_inventory_with_a_later_deadline_is_notified_until_it_acknowledges() {
    check(
        "hall aa
         session s
         session t ttl 5
         a hold s 0.0
         a hold t 0.0
         stop s
         wait 5
         lose s
         go s
         wait 0.999
         wait 0.001",
        expect![[r#"
            hall aa -> done
            session s -> 2 free, 0 held, 0 sold, 0 blocked
            session t ttl 5 -> 2 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                s  a.
            a hold t 0.0 -> line 2 t 0.0, until 5.000
                t  a.
            stop s
            wait 5
                t  ..
            lose s
            go s
            wait 0.999
            wait 0.001
                s  ..
        "#]],
    );
}

//! The worked examples of seats, products, places, time and payments.

use expect_test::expect;

use crate::script::check;

#[test]
fn example_1_three_seats_become_an_order() {
    check(
        "hall aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa
         session s
         a hold s 1.5 1.6 1.7
         a checkout
         box get s
         a get
         a order",
        expect![[r#"
            hall aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa -> done
            session s -> 80 free, 0 held, 0 sold, 0 blocked
            a hold s 1.5 1.6 1.7 -> line 1 s 1.5 1.6 1.7, until 1800.000
                ................
                .....aaa........
                ................
                ................
                ................
            a checkout -> order of line 1 s 1.5 1.6 1.7, total 30.00
                ................
                .....AAA........
                ................
                ................
                ................
            box get s -> 77 free, 0 held, 3 sold, 0 blocked
            a get -> done, line 1 s 1.5 1.6 1.7, total 30.00
            a order -> order of line 1 s 1.5 1.6 1.7, total 30.00
        "#]],
    );
}

#[test]
fn example_2_a_refusal_names_every_seat_and_changes_nothing() {
    check(
        "hall aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa
         session s
         a hold s 1.5 1.6 1.7
         a checkout
         b open
         b hold s 1.5 1.7 1.8
         b get
         c hold s 1.8",
        expect![[r#"
            hall aaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaa -> done
            session s -> 32 free, 0 held, 0 sold, 0 blocked
            a hold s 1.5 1.6 1.7 -> line 1 s 1.5 1.6 1.7, until 1800.000
                ................
                .....aaa........
            a checkout -> order of line 1 s 1.5 1.6 1.7, total 30.00
                ................
                .....AAA........
            b open -> active, until 1800.000
            b hold s 1.5 1.7 1.8 -> no: seats_taken, 2 of the seats are taken: 1.5 sold 1.7 sold
            b get -> active, until 1800.000
            c hold s 1.8 -> line 1 s 1.8, until 1800.000
                ................
                .....AAAc.......
        "#]],
    );
}

#[test]
fn example_3_rows_of_any_length() {
    check(
        "hall a/aa/aaa/aaaa/aaaaa
         session s
         box get s
         a hold s 4.4
         b hold s 0.0 0.1 3.3 3.4",
        expect![[r#"
            hall a/aa/aaa/aaaa/aaaaa -> done
            session s -> 15 free, 0 held, 0 sold, 0 blocked
            box get s -> 15 free, 0 held, 0 sold, 0 blocked
            a hold s 4.4 -> line 1 s 4.4, until 1800.000
                .
                ..
                ...
                ....
                ....a
            b hold s 0.0 0.1 3.3 3.4 -> no: no_such_seat, 2 of the seats do not exist: 0.1 3.4
        "#]],
    );
}

#[test]
fn example_4_thirty_minutes_untouched() {
    check(
        "hall aaa
         session s
         a hold s 0.0 0.1
         wait 1799.999
         a get
         b hold s 0.1
         wait 0.001
         a get
         box get s
         b hold s 0.1",
        expect![[r#"
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1800.000
                aa.
            wait 1799.999
            a get -> active, line 1 s 0.0 0.1, total 20.00, until 1800.000
            b hold s 0.1 -> no: seats_taken, 1 of the seats are taken: 0.1 held
            wait 0.001
                ...
            a get -> expired, line 1 s 0.0 0.1, total 20.00
            box get s -> 3 free, 0 held, 0 sold, 0 blocked
            b hold s 0.1 -> line 1 s 0.1, until 3600.000
                .b.
        "#]],
    );
}

#[test]
fn example_5_one_of_a_hundred() {
    check(
        "product p 100 2.50
         a hold p 1
         a checkout
         a order",
        expect![[r#"
            product p 100 2.50 -> 100 free, 0 held, 0 sold
            a hold p 1 -> line 1 p 1, until 1800.000
                99 free, 1 held, 0 sold
            a checkout -> order of line 1 p 1, total 2.50
                99 free, 0 held, 1 sold
            a order -> order of line 1 p 1, total 2.50
        "#]],
    );
}

#[test]
fn example_6_up_down_too_much_and_away() {
    check(
        "product p 100 2.50
         a hold p 2
         a set 1 4
         a set 1 1000
         a get
         a set 1 1
         a set 1 1
         a set 1 0
         a get
         a hold p 3
         a release 2",
        expect![[r#"
            product p 100 2.50 -> 100 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                98 free, 2 held, 0 sold
            a set 1 4 -> active, line 1 p 4, total 10.00, until 1800.000
                96 free, 4 held, 0 sold
            a set 1 1000 -> no: out_of_stock, 1 of the products are out of stock: p wanted 996 free 96
            a get -> active, line 1 p 4, total 10.00, until 1800.000
            a set 1 1 -> active, line 1 p 1, total 2.50, until 1800.000
                99 free, 1 held, 0 sold
            a set 1 1 -> active, line 1 p 1, total 2.50, until 1800.000
            a set 1 0 -> active, until 1800.000
                100 free, 0 held, 0 sold
            a get -> active, until 1800.000
            a hold p 3 -> line 2 p 3, until 1800.000
                97 free, 3 held, 0 sold
            a release 2 -> active, until 1800.000
                100 free, 0 held, 0 sold
        "#]],
    );
}

#[test]
fn example_7_the_last_unit() {
    check(
        "product p 1 1.00
         a hold p 1
         b hold p 1
         b hold p 2
         b get",
        expect![[r#"
            product p 1 1.00 -> 1 free, 0 held, 0 sold
            a hold p 1 -> line 1 p 1, until 1800.000
                0 free, 1 held, 0 sold
            b hold p 1 -> no: out_of_stock, 1 of the products are out of stock: p wanted 1 free 0
            b hold p 2 -> no: out_of_stock, 1 of the products are out of stock: p wanted 2 free 0
            b get -> no: not_found, cart 00000000000000000000000000000062 is not known
        "#]],
    );
}

#[test]
fn example_8_more_places_than_there_are() {
    check(
        "hall aa
         session s with stand 495 5.00
         a hold s stand 5
         a checkout
         b hold s stand 500
         b hold s stand 490",
        expect![[r#"
            hall aa -> done
            session s with stand 495 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            a hold s stand 5 -> line 1 s stand 5, until 1800.000
                ..
                stand 490 free, 5 held, 0 sold
            a checkout -> order of line 1 s stand 5, total 25.00
                ..
                stand 490 free, 0 held, 5 sold
            b hold s stand 500 -> no: not_enough_places, 490 places are free in stand, and 0 are in carts
            b hold s stand 490 -> line 1 s stand 490, until 1800.000
                ..
                stand 0 free, 490 held, 5 sold
        "#]],
    );
}

#[test]
fn example_9_only_what_is_old_expires() {
    check(
        "hall aa
         session s ttl 30 with stand 500 5.00
         b hold s stand 7
         wait 19
         c hold s stand 19
         wait 20
         a hold s stand 5
         wait 11",
        expect![[r#"
            hall aa -> done
            session s ttl 30 with stand 500 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            b hold s stand 7 -> line 1 s stand 7, until 30.000
                ..
                stand 493 free, 7 held, 0 sold
            wait 19
            c hold s stand 19 -> line 1 s stand 19, until 49.000
                ..
                stand 474 free, 26 held, 0 sold
            wait 20
                ..
                stand 481 free, 19 held, 0 sold
            a hold s stand 5 -> line 1 s stand 5, until 69.000
                ..
                stand 476 free, 24 held, 0 sold
            wait 11
                ..
                stand 495 free, 5 held, 0 sold
        "#]],
    );
}

#[test]
pub(crate) fn example_10_authorized_sold_and_posted_once() {
    check(
        "hall aa
         session s ttl 30 with stand 500 5.00
         a hold s stand 5 for ann
         a pay
         last post ann
         last sell s
         ann
         gateway",
        expect![[r#"
            hall aa -> done
            session s ttl 30 with stand 500 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            a hold s stand 5 for ann -> line 1 s stand 5, until 30.000
                ..
                stand 495 free, 5 held, 0 sold
            a pay -> order of line 1 s stand 5, total 25.00, Authorized
                s  ..
                s  stand 495 free, 0 held, 5 sold
            last post ann
            last sell s
            ann -> [1 a 25.00]
            gateway -> a-1: authorized 2500 captured 2500
        "#]],
    );
}

#[test]
fn example_11_one_pays_and_one_is_declined() {
    check(
        "product p 10 1.00
         a hold p 5
         b hold p 5
         gateway authorize yes no
         a pay
         b pay
         b get
         gateway",
        expect![[r#"
            product p 10 1.00 -> 10 free, 0 held, 0 sold
            a hold p 5 -> line 1 p 5, until 1800.000
                5 free, 5 held, 0 sold
            b hold p 5 -> line 1 p 5, until 1800.000
                0 free, 10 held, 0 sold
            gateway authorize yes no
            a pay -> order of line 1 p 5, total 5.00, Authorized
                0 free, 5 held, 5 sold
            b pay -> no: payment_declined, the payment was declined: no money
                5 free, 0 held, 5 sold
            b get -> canceled (declined by the gateway: no money), line 1 p 5, total 5.00
            gateway -> a-1: authorized 500 captured 500; b-1: declined
        "#]],
    );
}

#[test]
fn example_12_touching_is_no_overlap() {
    check(
        "resource r 12.00
         a hold r 100 200
         b hold r 200 500
         c hold r 150 250
         c hold r 100 500
         a checkout
         b cancel
         c hold r 200 210
         c hold r 210 210",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            b hold r 200 500 -> line 1 r 200-500, until 1800.000
                100-200 held, 200-500 held
            c hold r 150 250 -> no: slot_taken, 2 bookings are in the way: 150-250 150-250
            c hold r 100 500 -> no: slot_taken, 2 bookings are in the way: 100-500 100-500
            a checkout -> order of line 1 r 100-200, total 12.00
                100-200 sold, 200-500 held
            b cancel -> canceled, line 1 r 200-500, total 12.00
                100-200 sold
            c hold r 200 210 -> line 1 r 200-210, until 1800.000
                100-200 sold, 200-210 held
            c hold r 210 210 -> no: bad_interval, bad interval: it ends before it begins
        "#]],
    );
}

#[test]
fn example_13_no_instant_is_lost_at_the_end_of_a_day() {
    check(
        "resource r 12.00
         a hold r 79200 93600
         b hold r 86399 86401
         b hold r 93600 93601",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 79200 93600 -> line 1 r 79200-93600, until 1800.000
                79200-93600 held
            b hold r 86399 86401 -> no: slot_taken, 1 bookings are in the way: 86399-86401
            b hold r 93600 93601 -> line 1 r 93600-93601, until 1800.000
                79200-93600 held, 93600-93601 held
        "#]],
    );
}

#[test]
fn example_14_a_row_of_five_and_a_repeat() {
    check(
        "hall aaaaa/aaaaa/aaaaa/aaaaa
         session s
         a hold s 3.2 3.1 as lock
         a checkout as pay
         a checkout as pay
         a hold s 3.2 3.1 as lock
         a checkout as again
         b hold s 3.1 3.2",
        expect![[r#"
            hall aaaaa/aaaaa/aaaaa/aaaaa -> done
            session s -> 20 free, 0 held, 0 sold, 0 blocked
            a hold s 3.2 3.1 as lock -> line 1 s 3.1 3.2, until 1800.000
                .....
                .....
                .....
                .aa..
            a checkout as pay -> order of line 1 s 3.1 3.2, total 20.00
                .....
                .....
                .....
                .AA..
            a checkout as pay -> order of line 1 s 3.1 3.2, total 20.00
            a hold s 3.2 3.1 as lock -> line 1 s 3.1 3.2, until 1800.000
            a checkout as again -> no: cart_not_active, the cart is done
            b hold s 3.1 3.2 -> no: seats_taken, 2 of the seats are taken: 3.1 sold 3.2 sold
        "#]],
    );
}

#[test]
fn example_15_late_validation_names_every_shortage() {
    check(
        "product p 100 1.00 late
         product q 100 2.00 late
         a hold p 1000 + q 10
         a checkout as x
         a get
         b hold p 500 + q 200
         b checkout
         a set 1 5
         a checkout as x
         a order",
        expect![[r#"
            product p 100 1.00 late -> 100 free, 0 held, 0 sold
            product q 100 2.00 late -> 100 free, 0 held, 0 sold
            a hold p 1000 + q 10 -> line 1 p 1000 late, line 2 q 10 late, until 1800.000
            a checkout as x -> no: out_of_stock, 1 of the products are out of stock: p wanted 1000 free 100
            a get -> active, line 1 p 1000 late, line 2 q 10 late, total 1020.00, until 1800.000
            b hold p 500 + q 200 -> line 1 p 500 late, line 2 q 200 late, until 1800.000
            b checkout -> no: out_of_stock, 2 of the products are out of stock: p wanted 500 free 100 q wanted 200 free 100
            a set 1 5 -> active, line 1 p 5 late, line 2 q 10 late, total 25.00, until 1800.000
            a checkout as x -> order of line 1 p 5, line 2 q 10, total 25.00
                p  95 free, 0 held, 5 sold
                q  90 free, 0 held, 10 sold
            a order -> order of line 1 p 5, line 2 q 10, total 25.00
        "#]],
    );
}

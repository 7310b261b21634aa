//! Carts over products, places and time: what each of the systems this one follows asks for, as stories.

use expect_test::expect;

use crate::script::check;

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
            b hold s stand 500 -> no: not_enough_places, 490 places are free in stand
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
fn example_10_authorized_sold_and_posted_once() {
    check(
        "hall aa
         session s ttl 30 with stand 500 5.00
         a hold s stand 5 for ann
         a pay
         last post ann
         last sell s
         ann
         bank",
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
            bank -> a-1: authorized 2500 captured 2500
        "#]],
    );
}

#[test]
fn example_11_one_pays_and_one_is_declined() {
    check(
        "product p 10 1.00
         a hold p 5
         b hold p 5
         bank authorize yes no
         a pay
         b pay
         b get
         bank",
        expect![[r#"
            product p 10 1.00 -> 10 free, 0 held, 0 sold
            a hold p 5 -> line 1 p 5, until 1800.000
                5 free, 5 held, 0 sold
            b hold p 5 -> line 1 p 5, until 1800.000
                0 free, 10 held, 0 sold
            bank authorize yes no
            a pay -> order of line 1 p 5, total 5.00, Authorized
                0 free, 5 held, 5 sold
            b pay -> no: payment_declined, the payment was declined: no money
                5 free, 0 held, 5 sold
            b get -> canceled, line 1 p 5, total 5.00
            bank -> a-1: authorized 500 captured 500; b-1: declined
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
fn example_15_late_validation_names_who_fell_short() {
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

#[test]
fn the_same_product_is_one_line() {
    check(
        "product p 100 2.50
         a hold p 1
         a hold p 2 + p 3
         a get
         a hold p 99
         a get
         b hold p 1 + p 2
         b get
         a checkout
         b checkout",
        expect![[r#"
            product p 100 2.50 -> 100 free, 0 held, 0 sold
            a hold p 1 -> line 1 p 1, until 1800.000
                99 free, 1 held, 0 sold
            a hold p 2 + p 3 -> line 1 p 6, until 1800.000
                94 free, 6 held, 0 sold
            a get -> active, line 1 p 6, total 15.00, until 1800.000
            a hold p 99 -> no: out_of_stock, 1 of the products are out of stock: p wanted 99 free 94
            a get -> active, line 1 p 6, total 15.00, until 1800.000
            b hold p 1 + p 2 -> line 1 p 3, until 1800.000
                91 free, 9 held, 0 sold
            b get -> active, line 1 p 3, total 7.50, until 1800.000
            a checkout -> order of line 1 p 6, total 15.00
                91 free, 3 held, 6 sold
            b checkout -> order of line 1 p 3, total 7.50
                91 free, 0 held, 9 sold
        "#]],
    );
}

#[test]
fn places_of_one_area_are_one_line_and_areas_are_not() {
    check(
        "hall aa
         session s with stand 10 5.00 with hill 5 2.00
         a hold s stand 2 + s hill 1 + s 0.0
         a hold s stand 1 + s hill 2 + s 0.1
         a set 1 9
         a set 1 11
         a set 3 2
         a release 2
         a checkout",
        expect![[r#"
            hall aa -> done
            session s with stand 10 5.00 with hill 5 2.00 -> 2 free, 0 held, 0 sold, 0 blocked
            a hold s stand 2 + s hill 1 + s 0.0 -> line 1 s stand 2, line 2 s hill 1, line 3 s 0.0, until 1800.000
                a.
                stand 8 free, 2 held, 0 sold
                hill 4 free, 1 held, 0 sold
            a hold s stand 1 + s hill 2 + s 0.1 -> line 1 s stand 3, line 2 s hill 3, line 4 s 0.1, until 1800.000
                aa
                stand 7 free, 3 held, 0 sold
                hill 2 free, 3 held, 0 sold
            a set 1 9 -> active, line 1 s stand 9, line 2 s hill 3, line 3 s 0.0, line 4 s 0.1, total 71.00, until 1800.000
                aa
                stand 1 free, 9 held, 0 sold
                hill 2 free, 3 held, 0 sold
            a set 1 11 -> no: not_enough_places, 1 places are free in stand
            a set 3 2 -> no: bad_request, bad request: only lines of units or places have a quantity to set
            a release 2 -> active, line 1 s stand 9, line 3 s 0.0, line 4 s 0.1, total 65.00, until 1800.000
                aa
                stand 1 free, 9 held, 0 sold
                hill 5 free, 0 held, 0 sold
            a checkout -> order of line 1 s stand 9, line 3 s 0.0, line 4 s 0.1, total 65.00
                AA
                stand 1 free, 0 held, 9 sold
                hill 5 free, 0 held, 0 sold
        "#]],
    );
}

#[test]
fn quantities_that_cannot_be() {
    check(
        "product p 100 2.50
         resource r 1.00
         hall aa
         session s with stand 10 5.00
         a hold p 0
         a hold p 4294967295
         a hold p 1000000 + p 1
         a hold p 1 + r 0 100 + s 0.0
         a set 1 4294967295
         a set 2 2
         a set 3 2
         a set 9 1
         a set 1 0
         a set 1 1
         a hold s meadow 1
         a hold s stand 0
         a get",
        expect![[r#"
            product p 100 2.50 -> 100 free, 0 held, 0 sold
            resource r 1.00 -> 0 bookings
            hall aa -> done
            session s with stand 10 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            a hold p 0 -> no: bad_quantity, bad quantity: a line has 1 to 1000000, not 0
            a hold p 4294967295 -> no: bad_quantity, bad quantity: a line has 1 to 1000000, not 4294967295
            a hold p 1000000 + p 1 -> no: bad_quantity, bad quantity: a line has 1 to 1000000, not 1000001
            a hold p 1 + r 0 100 + s 0.0 -> line 1 p 1, line 2 r 0-100, line 3 s 0.0, until 1800.000
                p  99 free, 1 held, 0 sold
                r  0-100 held
                s  a.
                s  stand 10 free, 0 held, 0 sold
            a set 1 4294967295 -> no: bad_quantity, bad quantity: a line has at most 1000000, not 4294967295
            a set 2 2 -> no: bad_request, bad request: only lines of units or places have a quantity to set
            a set 3 2 -> no: bad_request, bad request: only lines of units or places have a quantity to set
            a set 9 1 -> no: no_such_line, the cart has no line 9
            a set 1 0 -> active, line 2 r 0-100, line 3 s 0.0, total 11.00, until 1800.000
                p  100 free, 0 held, 0 sold
            a set 1 1 -> no: no_such_line, the cart has no line 1
            a hold s meadow 1 -> no: not_found, area meadow is not known
            a hold s stand 0 -> no: bad_quantity, bad quantity: a line has 1 to 1000000, not 0
            a get -> active, line 2 r 0-100, line 3 s 0.0, total 11.00, until 1800.000
        "#]],
    );
}

#[test]
fn requests_that_come_again_change_nothing() {
    check(
        "product p 100 2.50
         a hold p 3 as h
         a set 1 3 as same
         a set 1 5 as up
         a set 1 3 as same
         a hold p 3 as h
         a set 1 2 as down
         a set 1 5 as up
         a set 1 2 as down
         a get
         a set 1 2 as up
         a release 1 as give
         a set 1 2 as down
         a release 1 as give
         a hold p 4
         a pay as pay
         a pay as pay
         a refund 2 as back
         a refund 2 as back
         a refund as back
         a refund 2
         bank",
        expect![[r#"
            product p 100 2.50 -> 100 free, 0 held, 0 sold
            a hold p 3 as h -> line 1 p 3, until 1800.000
                97 free, 3 held, 0 sold
            a set 1 3 as same -> active, line 1 p 3, total 7.50, until 1800.000
            a set 1 5 as up -> active, line 1 p 5, total 12.50, until 1800.000
                95 free, 5 held, 0 sold
            a set 1 3 as same -> active, line 1 p 3, total 7.50, until 1800.000
            a hold p 3 as h -> line 1 p 3, until 1800.000
            a set 1 2 as down -> active, line 1 p 2, total 5.00, until 1800.000
                98 free, 2 held, 0 sold
            a set 1 5 as up -> active, line 1 p 5, total 12.50, until 1800.000
            a set 1 2 as down -> active, line 1 p 2, total 5.00, until 1800.000
            a get -> active, line 1 p 2, total 5.00, until 1800.000
            a set 1 2 as up -> no: request_id_reused, this request id was used before with another body
            a release 1 as give -> active, until 1800.000
                100 free, 0 held, 0 sold
            a set 1 2 as down -> active, line 1 p 2, total 5.00, until 1800.000
            a release 1 as give -> active, until 1800.000
            a hold p 4 -> line 2 p 4, until 1800.000
                96 free, 4 held, 0 sold
            a pay as pay -> order of line 2 p 4, total 10.00, Authorized
                96 free, 0 held, 4 sold
            a pay as pay -> order of line 2 p 4, total 10.00, Authorized
            a refund 2 as back -> refund 1 of lines [2] 10.00 Pending
                100 free, 0 held, 0 sold
            a refund 2 as back -> refund 1 of lines [2] 10.00 Pending
            a refund as back -> no: request_id_reused, this request id was used before with another body
            a refund 2 -> no: bad_request, bad request: line 2 was refunded before
            bank -> a-1: authorized 1000 captured 1000 refunded 1000
        "#]],
    );
}

#[test]
fn all_or_nothing_over_everything() {
    check(
        "hall aaaa
         session s with stand 5 5.00
         product p 3 1.00
         resource r 12.00
         a hold s 0.0 + s stand 2 + p 1 + r 100 200
         b hold s 0.0 0.1 + s stand 4 + p 3 + r 150 160
         b get
         b hold s 0.1 + s stand 3 + p 2 + r 200 300
         a checkout
         wait 1800
         b get",
        expect![[r#"
            hall aaaa -> done
            session s with stand 5 5.00 -> 4 free, 0 held, 0 sold, 0 blocked
            product p 3 1.00 -> 3 free, 0 held, 0 sold
            resource r 12.00 -> 0 bookings
            a hold s 0.0 + s stand 2 + p 1 + r 100 200 -> line 1 s 0.0, line 2 s stand 2, line 3 p 1, line 4 r 100-200, until 1800.000
                p  2 free, 1 held, 0 sold
                r  100-200 held
                s  a...
                s  stand 3 free, 2 held, 0 sold
            b hold s 0.0 0.1 + s stand 4 + p 3 + r 150 160 -> no: seats_taken, 4 of the lines are refused; the first: 1 of the seats are taken:
                    0 no: seats_taken, 1 of the seats are taken: 0.0 held
                    1 no: not_enough_places, 3 places are free in stand
                    2 no: out_of_stock, 1 of the products are out of stock: p wanted 3 free 2
                    3 no: slot_taken, 1 bookings are in the way: 150-160
            b get -> no: not_found, cart 00000000000000000000000000000062 is not known
            b hold s 0.1 + s stand 3 + p 2 + r 200 300 -> line 1 s 0.1, line 2 s stand 3, line 3 p 2, line 4 r 200-300, until 1800.000
                p  0 free, 3 held, 0 sold
                r  100-200 held, 200-300 held
                s  ab..
                s  stand 0 free, 5 held, 0 sold
            a checkout -> order of line 1 s 0.0, line 2 s stand 2, line 3 p 1, line 4 r 100-200, total 33.00
                p  0 free, 2 held, 1 sold
                r  100-200 sold, 200-300 held
                s  Ab..
                s  stand 0 free, 3 held, 2 sold
            wait 1800
                p  2 free, 0 held, 1 sold
                r  100-200 sold
                s  A...
                s  stand 3 free, 0 held, 2 sold
            b get -> expired, line 1 s 0.1, line 2 s stand 3, line 3 p 2, line 4 r 200-300, total 39.00
        "#]],
    );
}

#[test]
fn a_room_and_a_projector_both_or_none() {
    check(
        "resource r 12.00
         resource x 3.00
         b hold x 150 160
         a hold r 100 200 + x 100 200
         b cancel
         a hold r 100 200 + x 100 200
         a checkout",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            resource x 3.00 -> 0 bookings
            b hold x 150 160 -> line 1 x 150-160, until 1800.000
                x  150-160 held
            a hold r 100 200 + x 100 200 -> no: slot_taken, 1 of the lines are refused; the first: 1 bookings are in the way:
                    1 no: slot_taken, 1 bookings are in the way: 100-200
            b cancel -> canceled, line 1 x 150-160, total 3.00
                x  free
            a hold r 100 200 + x 100 200 -> line 1 r 100-200, line 2 x 100-200, until 1800.000
                r  100-200 held
                x  100-200 held
            a checkout -> order of line 1 r 100-200, line 2 x 100-200, total 15.00
                r  100-200 sold
                x  100-200 sold
        "#]],
    );
}

#[test]
fn several_products_out_of_stock_are_named_together() {
    check(
        "product p 1 1.00
         product q 2 1.00
         a hold p 2 + q 3
         a hold p 1 + q 3
         a hold p 1 + q 2",
        expect![[r#"
            product p 1 1.00 -> 1 free, 0 held, 0 sold
            product q 2 1.00 -> 2 free, 0 held, 0 sold
            a hold p 2 + q 3 -> no: out_of_stock, 2 of the lines are refused; the first: 1 of the products are out of stock:
                    0 no: out_of_stock, 1 of the products are out of stock: p wanted 2 free 1
                    1 no: out_of_stock, 1 of the products are out of stock: q wanted 3 free 2
            a hold p 1 + q 3 -> no: out_of_stock, 1 of the lines are refused; the first: 1 of the products are out of stock:
                    1 no: out_of_stock, 1 of the products are out of stock: q wanted 3 free 2
            a hold p 1 + q 2 -> line 1 p 1, line 2 q 2, until 1800.000
                p  0 free, 1 held, 0 sold
                q  0 free, 2 held, 0 sold
        "#]],
    );
}

#[test]
fn one_currency_a_cart() {
    check(
        "product p 5 1.00
         product q 5 1.00 currency USD
         a hold p 1 + q 1
         a hold p 1
         a hold q 1
         a set 1 2
         a checkout",
        expect![[r#"
            product p 5 1.00 -> 5 free, 0 held, 0 sold
            product q 5 1.00 currency USD -> 5 free, 0 held, 0 sold
            a hold p 1 + q 1 -> no: bad_request, bad request: the cart pays in EUR, product/q asks for USD; use another cart
            a hold p 1 -> line 1 p 1, until 1800.000
                p  4 free, 1 held, 0 sold
            a hold q 1 -> no: bad_request, bad request: the cart pays in EUR, product/q asks for USD; use another cart
            a set 1 2 -> active, line 1 p 2, total 2.00, until 1800.000
                p  3 free, 2 held, 0 sold
            a checkout -> order of line 1 p 2, total 2.00
                p  3 free, 0 held, 2 sold
        "#]],
    );
}

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
fn a_quota_spans_carts_and_orders() {
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
            a hold p 2 -> no: bad_request, bad request: product/p is limited per customer: say who buys, `customer`
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
            d hold p 1 for bob -> no: bad_request, bad request: the cart is another customer's
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
            a checkout -> no: bad_request, bad request: product/p is limited per customer: say who buys, `customer`
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
         bank authorize no no
         a pay keep
         wait 9
         a pay keep
         wait 0.999
         a get
         wait 0.001
         a get
         bank",
        expect![[r#"
            product p 9 1.00 ttl 10 -> 9 free, 0 held, 0 sold
            a hold p 1 -> line 1 p 1, until 10.000
                8 free, 1 held, 0 sold
            wait 9
            bank authorize no no
            a pay keep -> no: payment_declined, the payment was declined: no money
            wait 9
            a pay keep -> no: payment_declined, the payment was declined: no money
            wait 0.999
            a get -> active, line 1 p 1, total 1.00, until 19.000
            wait 0.001
                9 free, 0 held, 0 sold
            a get -> expired, line 1 p 1, total 1.00
            bank -> a-1: declined; a-2: declined
        "#]],
    );
}

#[test]
fn a_cart_that_is_being_paid_does_not_expire() {
    check(
        "product p 9 1.00 ttl 10
         bank shut
         a hold p 1
         a pay as pay
         wait 100
         a get
         a hold p 1
         a cancel
         a release 1
         a revoke 1
         bank open
         a pay as pay
         bank",
        expect![[r#"
            product p 9 1.00 ttl 10 -> 9 free, 0 held, 0 sold
            bank shut
            a hold p 1 -> line 1 p 1, until 10.000
                8 free, 1 held, 0 sold
            a pay as pay -> (waits as #3)
            wait 100
            a get -> checking_out, line 1 p 1, total 1.00
            a hold p 1 -> no: cart_not_active, the cart is checking_out
            a cancel -> no: cart_not_active, the cart is checking_out
            a release 1 -> no: cart_not_active, the cart is checking_out
            a revoke 1 -> no: cart_not_active, the cart is checking_out
            bank open
                8 free, 0 held, 1 sold
            a pay as pay -> order of line 1 p 1, total 1.00, Authorized
            bank -> a-1: authorized 100 captured 100
        "#]],
    );
}

#[test]
fn a_decline_that_comes_after_the_deadline_ends_the_cart() {
    check(
        "product p 9 1.00 ttl 10
         bank shut
         bank authorize no
         a hold p 1
         a pay keep
         wait 100
         bank open
         a get
         answers",
        expect![[r#"
            product p 9 1.00 ttl 10 -> 9 free, 0 held, 0 sold
            bank shut
            bank authorize no
            a hold p 1 -> line 1 p 1, until 10.000
                8 free, 1 held, 0 sold
            a pay keep -> (waits as #3)
            wait 100
            bank open
                9 free, 0 held, 0 sold
            a get -> expired, line 1 p 1, total 1.00
            answers
                #3 no: payment_pending, how the payment ended is not known yet; ask again with the same request id
        "#]],
    );
}

#[test]
fn an_operator_gives_a_line_back() {
    check(
        "product p 9 1.00 quota few 3
         hall aaa
         session s
         a hold p 2 + s 0.0 0.1 for ann
         a revoke 1 as op
         a revoke 1 as op
         a revoke 1
         a revoke 2
         a checkout
         a get",
        expect![[r#"
            product p 9 1.00 quota few 3 -> 9 free, 0 held, 0 sold
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a hold p 2 + s 0.0 0.1 for ann -> line 1 p 2, line 2 s 0.0 0.1, until 1800.000
                p  7 free, 2 held, 0 sold
                s  aa.
            a revoke 1 as op -> active, line 2 s 0.0 0.1, total 20.00, until 1800.000
                ann  0 orders
                p  9 free, 0 held, 0 sold
            a revoke 1 as op -> active, line 2 s 0.0 0.1, total 20.00, until 1800.000
            a revoke 1 -> no: no_such_line, the cart has no line 1
            a revoke 2 -> active, until 1800.000
                s  ...
            a checkout -> no: cart_empty, the cart is empty
            a get -> active, until 1800.000
        "#]],
    );
}

#[test]
fn a_line_is_taken_while_it_grows() {
    check(
        "product p 9 1.00
         a hold p 2
         stop p
         a set 1 5
         a revoke 1
         go p
         answers
         a get
         a hold p 1",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            stop p
            a set 1 5 -> (waits as #3)
            a revoke 1 -> active, until 1800.000
            go p
                9 free, 0 held, 0 sold
            answers
                #3 no: no_such_line, the cart has no line 1
            a get -> active, until 1800.000
            a hold p 1 -> line 2 p 1, until 1800.000
                8 free, 1 held, 0 sold
        "#]],
    );
    check(
        "product p 9 1.00
         a hold p 2
         freeze p
         a set 1 5
         a revoke 1
         thaw p
         answers
         a get
         a hold p 1",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            freeze p
            a set 1 5 -> (waits as #3)
            a revoke 1 -> active, until 1800.000
            thaw p
                9 free, 0 held, 0 sold
            answers
                #3 no: no_such_line, the cart has no line 1
            a get -> active, until 1800.000
            a hold p 1 -> line 2 p 1, until 1800.000
                8 free, 1 held, 0 sold
        "#]],
    );
}

#[test]
fn a_canceled_session_takes_everything_back() {
    check(
        "hall aaaa
         session s with stand 10 5.00
         product p 9 1.00
         a hold s 0.0 + p 1 for ann
         b hold s 0.1 + s stand 3 for bob
         c hold s 0.2 + p 2
         b pay
         bank shut
         c pay
         box cancel s
         a get
         b order
         bob
         bank open
         wait 2
         c order
         a hold s 0.3
         a checkout
         box cancel s
         bank",
        expect![[r#"
            hall aaaa -> done
            session s with stand 10 5.00 -> 4 free, 0 held, 0 sold, 0 blocked
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold s 0.0 + p 1 for ann -> line 1 s 0.0, line 2 p 1, until 1800.000
                p  8 free, 1 held, 0 sold
                s  a...
                s  stand 10 free, 0 held, 0 sold
            b hold s 0.1 + s stand 3 for bob -> line 1 s 0.1, line 2 s stand 3, until 1800.000
                s  ab..
                s  stand 7 free, 3 held, 0 sold
            c hold s 0.2 + p 2 -> line 1 s 0.2, line 2 p 2, until 1800.000
                p  6 free, 3 held, 0 sold
                s  abc.
                s  stand 7 free, 3 held, 0 sold
            b pay -> order of line 1 s 0.1, line 2 s stand 3, total 25.00, Authorized
                s  aBc.
                s  stand 7 free, 0 held, 3 sold
            bank shut
            c pay -> (waits as #8)
            box cancel s -> done
                s  ..c.
                s  stand 10 free, 0 held, 0 sold
            a get -> active, line 2 p 1, total 1.00, until 1800.000
            b order -> order of line 1 s 0.1, line 2 s stand 3, total 25.00, Captured, refund 1 of lines [1] 10.00 Pending, refund 2 of lines [2] 15.00 Pending
            bob -> [1 b 25.00]
            bank open
                p  6 free, 1 held, 2 sold
                s  ..C.
                s  stand 10 free, 0 held, 0 sold
            wait 2
                s  ....
                s  stand 10 free, 0 held, 0 sold
            c order -> order of line 1 s 0.2, line 2 p 2, total 12.00, Captured, refund 1 of lines [1] 10.00 Refunded
            a hold s 0.3 -> no: session_closed, the session is not on sale: it is canceled: rain
            a checkout -> order of line 2 p 1, total 1.00
                p  6 free, 0 held, 3 sold
            box cancel s -> no: session_closed, the session is not on sale: it is canceled already: rain
            bank -> b-1: authorized 2500 captured 2500 refunded 1000 refunded 1500; c-1: authorized 1200 captured 1200 refunded 1000
        "#]],
    );
}

#[test]
fn a_canceled_session_asks_until_its_carts_hear() {
    check(
        "hall aaaa
         session s
         a hold s 0.0
         b hold s 0.1
         b checkout
         stop a
         box cancel s
         wait 3
         lose a
         crash s
         wait 3
         lose a
         wait 1
         go a
         wait 2
         a get
         b order",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a...
            b hold s 0.1 -> line 1 s 0.1, until 1800.000
                ab..
            b checkout -> order of line 1 s 0.1, total 10.00
                aB..
            stop a
            box cancel s -> done
                a...
            wait 3
            lose a
            crash s
            wait 3
            lose a
            wait 1
            go a
                ....
            wait 2
            a get -> active, until 1800.000
            b order -> order of line 1 s 0.1, total 10.00, refund 1 of lines [1] 10.00 Recorded
        "#]],
    );
}

#[test]
fn a_refund_waits_for_the_sale() {
    check(
        "hall aaaa
         session s
         product p 9 1.00
         a hold s 0.0 0.1 + p 3 for ann
         stop s
         a pay
         wait 3
         answers
         a refund 1
         go s
         wait 1
         a order
         last sell s
         last refund s
         a refund
         a refund
         bank
         ann",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold s 0.0 0.1 + p 3 for ann -> line 1 s 0.0 0.1, line 2 p 3, until 1800.000
                p  6 free, 3 held, 0 sold
                s  aa..
            stop s
            a pay -> (waits as #5)
                p  6 free, 0 held, 3 sold
            wait 3
            answers
                #5 order of line 1 s 0.0 0.1, line 2 p 3, total 23.00, settling, Authorized
            a refund 1 -> refund 1 of lines [1] 20.00 Pending
            go s
                s  ....
            wait 1
            a order -> order of line 1 s 0.0 0.1, line 2 p 3, total 23.00, Captured, refund 1 of lines [1] 20.00 Refunded
            last sell s
            last refund s
            a refund -> refund 2 of lines [2] 3.00 Pending
                p  9 free, 0 held, 0 sold
            a refund -> no: bad_request, bad request: nothing of the order is left to refund
            bank -> a-1: authorized 2300 captured 2300 refunded 2000 refunded 300
            ann -> [1 a 23.00]
        "#]],
    );
}

#[test]
fn growth_does_not_outrank_what_is_not_committed() {
    check(
        "product p 9 1.00
         a hold p 4
         freeze a
         a set 1 2
         a set 1 3
         crash a
         thaw a
         a get
         a checkout",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 4 -> line 1 p 4, until 1800.000
                5 free, 4 held, 0 sold
            freeze a
            a set 1 2 -> (waits as #3)
            a set 1 3 -> (waits as #4)
            crash a
            thaw a
            a get -> active, line 1 p 4, total 4.00, until 1800.000
            a checkout -> order of line 1 p 4, total 4.00
                5 free, 0 held, 4 sold
        "#]],
    );
}

#[test]
fn a_second_grant_of_what_is_set_aside_for_a_checkout() {
    check(
        "product q 9 1.00 late quota few 5
         bank shut
         a hold q 2 for ann
         a pay
         last granted a
         again granted a
         bank open
         answers
         a get",
        expect![[r#"
            product q 9 1.00 late quota few 5 -> 9 free, 0 held, 0 sold
            bank shut
            a hold q 2 for ann -> line 1 q 2 late, until 1800.000
            a pay -> (waits as #3)
                q  7 free, 2 held, 0 sold
            last granted a
            again granted a
            bank open
                ann  few 0 held 2 sold, 1 orders
                q  7 free, 0 held, 2 sold
            answers
                #3 order of line 1 q 2, total 2.00, Authorized
            a get -> done, line 1 q 2, total 2.00
        "#]],
    );
}

#[test]
fn another_customers_quota_is_not_taken_for_this_ones() {
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
fn a_crash_while_more_is_asked_for() {
    check(
        "product p 9 1.00
         a hold p 2
         freeze a
         a set 1 5
         crash a
         thaw a
         a get
         b hold p 5
         a set 1 3
         b hold p 5
         a checkout",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            freeze a
            a set 1 5 -> (waits as #3)
            crash a
            thaw a
            a get -> active, line 1 p 2, total 2.00, until 1800.000
            b hold p 5 -> line 1 p 5, until 1800.000
                2 free, 7 held, 0 sold
            a set 1 3 -> active, line 1 p 3, total 3.00, until 1800.000
                1 free, 8 held, 0 sold
            b hold p 5 -> no: out_of_stock, 1 of the products are out of stock: p wanted 5 free 1
            a checkout -> order of line 1 p 3, total 3.00
                1 free, 5 held, 3 sold
        "#]],
    );
}

#[test]
fn changes_of_one_line_go_one_by_one() {
    check(
        "product p 9 1.00
         a hold p 2
         stop p
         a set 1 5 as one
         a set 1 1 as two
         a hold p 3 as three
         a release 1 as four
         a set 1 1 as two
         go p
         answers
         a get",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            stop p
            a set 1 5 as one -> (waits as #3)
            a set 1 1 as two -> (waits as #4)
            a hold p 3 as three -> (waits as #5)
            a release 1 as four -> (waits as #6)
            a set 1 1 as two -> (waits as #7)
            go p
                9 free, 0 held, 0 sold
            answers
                #3 active, line 1 p 5, total 5.00, until 1800.000
                #4 active, line 1 p 1, total 1.00, until 1800.000
                #5 line 1 p 4, until 1800.000
                #6 active, until 1800.000
                #7 active, line 1 p 1, total 1.00, until 1800.000
            a get -> active, until 1800.000
        "#]],
    );
}

#[test]
fn a_checkout_waits_for_lines_that_grow() {
    check(
        "product p 9 1.00
         a hold p 2
         stop p
         a set 1 5
         a checkout
         go p
         answers
         b hold p 2
         stop p
         b set 1 4
         b checkout
         wait 2
         answers
         go p
         wait 1
         b get",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            stop p
            a set 1 5 -> (waits as #3)
            a checkout -> (waits as #4)
            go p
                4 free, 0 held, 5 sold
            answers
                #3 active, line 1 p 5, total 5.00, until 1800.000
                #4 order of line 1 p 5, total 5.00
            b hold p 2 -> line 1 p 2, until 1800.000
                2 free, 2 held, 5 sold
            stop p
            b set 1 4 -> (waits as #6)
            b checkout -> (waits as #7)
            wait 2
            answers
                #6 no: cart_not_active, the cart is done
            go p
                2 free, 0 held, 7 sold
            wait 1
            b get -> done, line 1 p 2, total 2.00
        "#]],
    );
}

#[test]
fn an_operator_settles() {
    check(
        "product p 9 1.00
         product q 9 1.00 late
         bank authorize lost lost lost lost lost lost
         a hold p 2 + q 1
         a pay as pay
         wait 10
         answers
         a settle 1 yes
         a pay as pay
         a settle 1 no
         a settle 2 no
         b hold p 1
         bank authorize lost lost lost lost lost lost
         b pay
         b settle 1 no
         b get
         bank says b 1 authorize yes
         bank",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            product q 9 1.00 late -> 9 free, 0 held, 0 sold
            bank authorize lost lost lost lost lost lost
            a hold p 2 + q 1 -> line 1 p 2, line 2 q 1 late, until 1800.000
                p  7 free, 2 held, 0 sold
            a pay as pay -> (waits as #4)
                q  8 free, 1 held, 0 sold
            wait 10
            answers
                #4 no: payment_pending, how the payment ended is not known yet; ask again with the same request id
            a settle 1 yes -> done
                p  7 free, 0 held, 2 sold
                q  8 free, 0 held, 1 sold
            a pay as pay -> order of line 1 p 2, line 2 q 1, total 3.00, Authorized
            a settle 1 no -> done
            a settle 2 no -> no: not_found, payment 00000000000000000000000000000061-2 is not known
            b hold p 1 -> line 1 p 1, until 1810.000
                p  6 free, 1 held, 2 sold
            bank authorize lost lost lost lost lost lost
            b pay -> (waits as #10)
            b settle 1 no -> done
                p  7 free, 0 held, 2 sold
            b get -> canceled, line 1 p 1, total 1.00
            bank says b 1 authorize yes
            bank -> a-1: authorized 300 captured 300; b-1: authorized 100 voided
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
            d hold p 1 for bob -> no: bad_request, bad request: the cart is another customer's
            d checkout for bob -> no: bad_request, bad request: the cart is another customer's
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

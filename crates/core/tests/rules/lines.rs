//! Lines of a cart with units, places, slots and seats, all or nothing.

use expect_test::expect;

use crate::script::check;

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
            a set 1 11 -> no: not_enough_places, 1 places are free in stand, and 0 are in carts
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
fn invalid_quantities_are_refused() {
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
fn repeated_requests_change_nothing() {
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
         gateway",
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
            a refund 2 -> no: already_refunded, already refunded: line 2 of the order
            gateway -> a-1: authorized 1000 captured 1000 refunded 1000
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
                    1 no: not_enough_places, 3 places are free in stand, and 2 are in carts
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

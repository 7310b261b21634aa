//! An order pays the price that its hold captured, regardless of later puts (P7).

use expect_test::expect;

use crate::script::check;

#[test]
pub(crate) fn a_product_that_becomes_dearer() {
    check(
        "product p 9 1.00
         a hold p 2
         product p 9 3.00
         a set 1 3
         a hold p 1
         b hold p 1
         a pay
         b pay
         gateway",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            product p 9 3.00 -> 7 free, 2 held, 0 sold
            a set 1 3 -> active, line 1 p 2, line 2 p 1, total 5.00, until 1800.000
                6 free, 3 held, 0 sold
            a hold p 1 -> line 2 p 2, until 1800.000
                5 free, 4 held, 0 sold
            b hold p 1 -> line 1 p 1, until 1800.000
                4 free, 5 held, 0 sold
            a pay -> order of line 1 p 2, line 2 p 2, total 8.00, Authorized
                4 free, 1 held, 4 sold
            b pay -> order of line 1 p 1, total 3.00, Authorized
                4 free, 0 held, 5 sold
            gateway -> a-1: authorized 800 captured 800; b-1: authorized 300 captured 300
        "#]],
    );
}

/// A late line also keeps its first price.
#[test]
pub(crate) fn a_late_product_that_becomes_dearer() {
    check(
        "product q 9 1.00 late
         a hold q 2
         product q 9 3.00 late
         a set 1 3
         a hold q 1
         b hold q 1
         a pay
         b pay
         gateway",
        expect![[r#"
            product q 9 1.00 late -> 9 free, 0 held, 0 sold
            a hold q 2 -> line 1 q 2 late, until 1800.000
            product q 9 3.00 late -> 9 free, 0 held, 0 sold
            a set 1 3 -> active, line 1 q 2 late, line 2 q 1 late, total 5.00, until 1800.000
            a hold q 1 -> line 2 q 2 late, until 1800.000
            b hold q 1 -> line 1 q 1 late, until 1800.000
            a pay -> order of line 1 q 2, line 2 q 2, total 8.00, Authorized
                5 free, 0 held, 4 sold
            b pay -> order of line 1 q 1, total 3.00, Authorized
                4 free, 0 held, 5 sold
            gateway -> a-1: authorized 800 captured 800; b-1: authorized 300 captured 300
        "#]],
    );
}

#[test]
fn a_room_that_becomes_dearer() {
    check(
        "resource r 12.00
         a hold r 100 200
         resource r 20.00
         b hold r 200 300
         a pay
         b pay
         gateway",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            resource r 20.00 -> 1 bookings
            b hold r 200 300 -> line 1 r 200-300, until 1800.000
                100-200 held, 200-300 held
            a pay -> order of line 1 r 100-200, total 12.00, Authorized
                100-200 sold, 200-300 held
            b pay -> order of line 1 r 200-300, total 20.00, Authorized
                100-200 sold, 200-300 sold
            gateway -> a-1: authorized 1200 captured 1200; b-1: authorized 2000 captured 2000
        "#]],
    );
}

/// Nothing is reserved for a late line, but its product keeps its currency.
#[test]
fn a_late_product_that_would_change_its_currency() {
    check(
        "product q 9 1.00 late
         product p 9 5.00
         a hold q 2
         b hold p 1 + q 1
         product q 9 2.00 late currency USD
         a set 1 3
         a checkout
         a get
         b pay
         b get
         c hold q 1
         c checkout
         gateway",
        expect![[r#"
            product q 9 1.00 late -> 9 free, 0 held, 0 sold
            product p 9 5.00 -> 9 free, 0 held, 0 sold
            a hold q 2 -> line 1 q 2 late, until 1800.000
            b hold p 1 + q 1 -> line 1 p 1, line 2 q 1 late, until 1800.000
                p  8 free, 1 held, 0 sold
            product q 9 2.00 late currency USD -> no: currency_fixed, product/q is sold in EUR for as long as it exists, not in USD; put another one to sell in another currency
            a set 1 3 -> active, line 1 q 3 late, total 3.00, until 1800.000
            a checkout -> order of line 1 q 3, total 3.00
                q  6 free, 0 held, 3 sold
            a get -> done, line 1 q 3, total 3.00
            b pay -> order of line 1 p 1, line 2 q 1, total 6.00, Authorized
                p  8 free, 0 held, 1 sold
                q  5 free, 0 held, 4 sold
            b get -> done, line 1 p 1, line 2 q 1, total 6.00
            c hold q 1 -> line 1 q 1 late, until 1800.000
            c checkout -> order of line 1 q 1, total 1.00
                q  4 free, 0 held, 5 sold
            gateway -> b-1: authorized 600 captured 600
        "#]],
    );
}

#[test]
fn a_product_that_is_validated_late_from_now_on_and_one_that_no_longer_is() {
    check(
        "product p 9 1.00
         a hold p 2
         product p 9 2.00 late
         a hold p 1
         a set 1 4
         b hold p 100
         a checkout
         b checkout",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            product p 9 2.00 late -> 7 free, 2 held, 0 sold
            a hold p 1 -> line 2 p 1 late, until 1800.000
            a set 1 4 -> active, line 1 p 2, line 2 p 3 late, total 8.00, until 1800.000
            b hold p 100 -> line 1 p 100 late, until 1800.000
            a checkout -> order of line 1 p 2, line 2 p 3, total 8.00
                4 free, 0 held, 5 sold
            b checkout -> no: out_of_stock, 1 of the products are out of stock: p wanted 100 free 4
        "#]],
    );
    check(
        "product q 3 1.00 late
         a hold q 5
         product q 3 2.00
         a hold q 1
         a set 1 2
         b hold q 3
         a checkout
         b checkout
         a release 1
         b checkout",
        expect![[r#"
            product q 3 1.00 late -> 3 free, 0 held, 0 sold
            a hold q 5 -> line 1 q 5 late, until 1800.000
            product q 3 2.00 -> 3 free, 0 held, 0 sold
            a hold q 1 -> no: out_of_stock, 1 of the products are out of stock: q wanted 6 free 3
            a set 1 2 -> active, line 1 q 2 late, total 2.00, until 1800.000
            b hold q 3 -> line 1 q 3, until 1800.000
                0 free, 3 held, 0 sold
            a checkout -> no: out_of_stock, 1 of the products are out of stock: q wanted 2 free 0
            b checkout -> order of line 1 q 3, total 6.00
                0 free, 0 held, 3 sold
            a release 1 -> active, until 1800.000
            b checkout -> no: cart_not_active, the cart is done
        "#]],
    );
}

//! Lines that grow and shrink while messages wait, hosts crash and the cart is checked out.

use expect_test::expect;

use crate::script::check;

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
            a revoke 1 -> active, taken by an operator (): line 1 p 2, until 1800.000
            go p
                9 free, 0 held, 0 sold
            answers
                #3 no: no_such_line, the cart has no line 1
            a get -> active, taken by an operator (): line 1 p 2, until 1800.000
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
            a revoke 1 -> active, taken by an operator (): line 1 p 2, until 1800.000
            thaw p
                9 free, 0 held, 0 sold
            answers
                #3 no: no_such_line, the cart has no line 1
            a get -> active, taken by an operator (): line 1 p 2, until 1800.000
            a hold p 1 -> line 2 p 1, until 1800.000
                8 free, 1 held, 0 sold
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

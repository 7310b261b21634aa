//! The worked examples that concern seats.

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

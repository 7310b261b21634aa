//! Deadlines in the same millisecond as a grant or a checkout, and overdue holds. A cart ends exactly once.

use expect_test::expect;

use crate::script::check;

#[test]
fn a_grant_that_comes_with_the_deadline() {
    // The grant arrives in the millisecond in which the cart expires. The expiry wins, and the seats are released.
    check(
        "hall aaaa
         session s
         a open 10
         freeze s
         a hold s 0.0
         stop a
         thaw s
         wait 10
         go a
         answers
         a get
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a open 10 -> active, until 10.000
            freeze s
            a hold s 0.0 -> (waits as #4)
            stop a
            thaw s
                a...
            wait 10
            go a
                ....
            answers
                #4 no: cart_expired, the cart has expired
            a get -> expired
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
    // A millisecond earlier the grant wins, and the cart lives on.
    check(
        "hall aaaa
         session s
         a open 10
         freeze s
         a hold s 0.0
         wait 9.999
         thaw s
         answers
         wait 9.999
         a get
         wait 0.001
         a get",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a open 10 -> active, until 10.000
            freeze s
            a hold s 0.0 -> (waits as #4)
            wait 9.999
            thaw s
                a...
            answers
                #4 line 1 s 0.0, until 19.999
            wait 9.999
            a get -> active, line 1 s 0.0, total 10.00, until 19.999
            wait 0.001
                ....
            a get -> expired, line 1 s 0.0, total 10.00
        "#]],
    );
}

#[test]
fn checkout_against_expiry_at_the_very_millisecond() {
    check(
        "hall aaaa
         session s
         a hold s 0.0
         b hold s 0.1
         freeze a
         wait 1799.999
         a checkout
         wait 0.001
         b checkout
         thaw a
         answers
         a get
         b get
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a...
            b hold s 0.1 -> line 1 s 0.1, until 1800.000
                ab..
            freeze a
            wait 1799.999
            a checkout -> (waits as #5)
            wait 0.001
                a...
            b checkout -> no: cart_expired, the cart has expired
            thaw a
                A...
            answers
                #5 order of line 1 s 0.0, total 10.00
            a get -> done, line 1 s 0.0, total 10.00
            b get -> expired, line 1 s 0.1, total 10.00
            box get s -> 3 free, 0 held, 1 sold, 0 blocked
        "#]],
    );
}

#[test]
fn an_overdue_hold_that_is_still_being_asked_for() {
    // The cart waits for a second session, longer than the first one keeps its hold.
    check(
        "hall aaaa
         session s ttl 5
         session t
         stop t
         a open
         a hold s 0.0 + t 0.0 as both
         wait 3600
         answers
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s ttl 5 -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            stop t
            a open -> active, until 1800.000
            a hold s 0.0 + t 0.0 as both -> (waits as #5)
                s  a...
            wait 3600
                s  ....
            answers
                #5 no: cart_expired, the cart has expired
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
    check(
        "hall aaaa
         session s
         session t
         session u
         stop t
         a open 20
         a hold s 0.0 + t 0.0 as both
         wait 15
         a hold u 0.0
         wait 15
         box get s
         go t
         answers
         a checkout",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            session u -> 4 free, 0 held, 0 sold, 0 blocked
            stop t
            a open 20 -> active, until 20.000
            a hold s 0.0 + t 0.0 as both -> (waits as #6)
                s  a...
            wait 15
            a hold u 0.0 -> line 1 u 0.0, until 35.000
                u  a...
            wait 15
            box get s -> 3 free, 1 held, 0 sold, 0 blocked
            go t
                t  a...
            answers
                #6 line 2 s 0.0, line 3 t 0.0, until 50.000
            a checkout -> order of line 1 u 0.0, line 2 s 0.0, line 3 t 0.0, total 30.00
                s  A...
                t  A...
                u  A...
        "#]],
    );
}

#[test]
fn an_overdue_hold_stays_while_its_cart_lives() {
    // The cart is touched repeatedly. The session asks when the first deadline has passed, and learns the new one.
    check(
        "hall aaaaaa
         session s
         a hold s 0.0
         wait 1000
         a hold s 0.1
         wait 1000
         a hold s 0.2
         wait 1000
         box get s
         a checkout
         box get s",
        expect![[r#"
            hall aaaaaa -> done
            session s -> 6 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a.....
            wait 1000
            a hold s 0.1 -> line 2 s 0.1, until 2800.000
                aa....
            wait 1000
            a hold s 0.2 -> line 3 s 0.2, until 3800.000
                aaa...
            wait 1000
            box get s -> 3 free, 3 held, 0 sold, 0 blocked
            a checkout -> order of line 1 s 0.0, line 2 s 0.1, line 3 s 0.2, total 30.00
                AAA...
            box get s -> 3 free, 0 held, 3 sold, 0 blocked
        "#]],
    );
}

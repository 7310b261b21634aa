//! A hold covers its line even if holds and releases arrive late, twice or out of order. The fixture checks this after every
//! commit. These stories deliver the messages in bad orders.

use expect_test::expect;

use crate::script::check;

#[test]
fn a_grant_that_comes_after_a_cancel() {
    check(
        "hall aaaa
         session s
         a open
         freeze s
         a hold s 0.0 0.1
         a cancel
         answers
         thaw s
         box get s
         a audit",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a open -> active, until 1800.000
            freeze s
            a hold s 0.0 0.1 -> (waits as #4)
            a cancel -> canceled
            answers
                #4 no: cart_not_active, the cart is canceled
            thaw s
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
            a audit -> 0 holds, 0 owed, []
        "#]],
    );
    // The release overtakes the ask for the hold.
    check(
        "hall aaaa
         session s
         a open
         stop s
         a hold s 0.0 0.1
         a cancel
         lose s
         go s
         wait 1
         again hold s
         box get s
         a audit",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a open -> active, until 1800.000
            stop s
            a hold s 0.0 0.1 -> (waits as #4)
            a cancel -> canceled
            lose s
            go s
            wait 1
            again hold s
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
            a audit -> 0 holds, 0 owed, []
        "#]],
    );
}

#[test]
fn a_delayed_hold_does_not_undo_a_release() {
    check(
        "hall aaaa
         session s
         a hold s 0.0 0.1
         a release 1
         again hold s
         box get s
         a audit
         b hold s 0.3
         again hold s
         a hold s 0.1
         a cancel
         again hold s
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1800.000
                aa..
            a release 1 -> active, until 1800.000
                ....
            again hold s
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
            a audit -> 0 holds, 0 owed, []
            b hold s 0.3 -> line 1 s 0.3, until 1800.000
                ...b
            again hold s
            a hold s 0.1 -> line 2 s 0.1, until 1800.000
                .a.b
            a cancel -> canceled, line 2 s 0.1, total 10.00
                ...b
            again hold s
            box get s -> 3 free, 1 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
fn a_delayed_release_does_not_undo_a_hold() {
    check(
        "hall aaaa
         session s
         session t
         b hold t 0.0
         a hold s 0.0 + t 0.0 as both
         b cancel
         a hold s 0.0 + t 0.0 as both
         again release s
         again release t
         a get
         a checkout",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            b hold t 0.0 -> line 1 t 0.0, until 1800.000
                t  b...
            a hold s 0.0 + t 0.0 as both -> no: seats_taken, 1 of the lines are refused; the first: 1 of the seats are taken:
                    1 no: seats_taken, 1 of the seats are taken: 0.0 held
            b cancel -> canceled, line 1 t 0.0, total 10.00
                t  ....
            a hold s 0.0 + t 0.0 as both -> line 1 s 0.0, line 2 t 0.0, until 1800.000
                s  a...
                t  a...
            again release s
            again release t
            a get -> active, line 1 s 0.0, line 2 t 0.0, total 20.00, until 1800.000
            a checkout -> order of line 1 s 0.0, line 2 t 0.0, total 20.00
                s  A...
                t  A...
        "#]],
    );
    // The sale overtakes the partial release.
    check(
        "hall aaaa
         session s
         a hold s 0.0 0.1 0.2
         stop s
         a release 1 0.1
         lose s
         go s
         a checkout
         box get s
         b hold s 0.1
         again release s
         wait 1
         a audit
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 0.2 -> line 1 s 0.0 0.1 0.2, until 1800.000
                aaa.
            stop s
            a release 1 0.1 -> active, line 1 s 0.0 0.2, total 20.00, until 1800.000
            lose s
            go s
            a checkout -> order of line 1 s 0.0 0.2, total 20.00
                A.A.
            box get s -> 2 free, 0 held, 2 sold, 0 blocked
            b hold s 0.1 -> line 1 s 0.1, until 1800.000
                AbA.
            again release s
            wait 1
            a audit -> 1 holds, 0 owed, []
            box get s -> 1 free, 1 held, 2 sold, 0 blocked
        "#]],
    );
}

#[test]
fn concurrent_repeats_wait_for_the_first_answer() {
    check(
        "hall aaaa
         session s
         stop s
         a hold s 0.0 as h
         a hold s 0.0 as h
         a hold s 0.1 as h
         go s
         answers
         a hold s 0.0 as h
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            stop s
            a hold s 0.0 as h -> (waits as #3)
            a hold s 0.0 as h -> (waits as #4)
            a hold s 0.1 as h -> no: request_id_reused, this request id was used before with another body
            go s
                a...
            answers
                #3 line 1 s 0.0, until 1800.000
                #4 line 1 s 0.0, until 1800.000
            a hold s 0.0 as h -> line 1 s 0.0, until 1800.000
            box get s -> 3 free, 1 held, 0 sold, 0 blocked
        "#]],
    );
}

//! Hosts crash between the commits of a session and of a cart. A hold covers its line after each crash.

use expect_test::expect;

use crate::script::check;

#[test]
fn a_crash_between_the_session_and_the_cart() {
    // The client repeats the request and gets the same hold.
    check(
        "hall aaaa
         session s
         freeze a
         a hold s 0.0 0.1 as h
         crash a
         thaw a
         b hold s 0.0
         a hold s 0.0 0.1 as h
         a checkout",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            freeze a
            a hold s 0.0 0.1 as h -> (waits as #3)
                aa..
            crash a
            thaw a
            b hold s 0.0 -> no: seats_taken, 1 of the seats are taken: 0.0 held
            a hold s 0.0 0.1 as h -> line 1 s 0.0 0.1, until 1800.000
            a checkout -> order of line 1 s 0.0 0.1, total 20.00
                AA..
        "#]],
    );
    // With another request, the seats stay taken by the first one until the session has asked.
    check(
        "hall aaaa
         session s
         freeze a
         a hold s 0.0 0.1 as h
         crash a
         thaw a
         a hold s 0.0 0.1 as i
         a hold s 0.2 as j
         wait 1700
         a hold s 0.3
         wait 102
         a hold s 0.0 0.1 as h",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            freeze a
            a hold s 0.0 0.1 as h -> (waits as #3)
                aa..
            crash a
            thaw a
            a hold s 0.0 0.1 as i -> no: seats_taken, 2 of the seats are taken: 0.0 held 0.1 held
            a hold s 0.2 as j -> line 1 s 0.2, until 1800.000
                aaa.
            wait 1700
                ..a.
            a hold s 0.3 -> line 2 s 0.3, until 3500.000
                ..aa
            wait 102
            a hold s 0.0 0.1 as h -> line 3 s 0.0 0.1, until 3602.000
                aaaa
        "#]],
    );
    // The client repeats the request id with another body, which is refused because the first hold is live.
    check(
        "hall aaaa
         session s
         freeze a
         a hold s 0.0 0.1 as h
         crash a
         thaw a
         a hold s 0.2 as h
         a hold s 0.0 0.1 as h",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            freeze a
            a hold s 0.0 0.1 as h -> (waits as #3)
                aa..
            crash a
            thaw a
            a hold s 0.2 as h -> no: request_id_reused, this request id was used before with another body
            a hold s 0.0 0.1 as h -> line 1 s 0.0 0.1, until 1800.000
        "#]],
    );
    // The grant of the first body arrives while the second is requested, and does not count for it.
    check(
        "hall aaaa
         session s
         freeze s
         a hold s 0.0 0.1 as h
         crash a
         stop s
         a hold s 0.2 as h
         thaw s
         answers
         go s
         answers
         a hold s 0.0 0.1 as h",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            freeze s
            a hold s 0.0 0.1 as h -> (waits as #3)
            crash a
            stop s
            a hold s 0.2 as h -> (waits as #4)
            thaw s
                aa..
            answers -> none of 2
            go s
            answers
                #4 no: request_id_reused, this request id was used before with another body
            a hold s 0.0 0.1 as h -> line 1 s 0.0 0.1, until 1800.000
        "#]],
    );
    // The same with another session. The first session's grant makes no line there.
    check(
        "hall aaaa
         session s
         session t
         freeze s
         a hold s 0.0 0.1 as h
         crash a
         stop t
         a hold t 0.2 as h
         thaw s
         go t
         answers
         a get
         box get s
         a checkout",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            freeze s
            a hold s 0.0 0.1 as h -> (waits as #4)
            crash a
            stop t
            a hold t 0.2 as h -> (waits as #5)
            thaw s
            go t
                t  ..a.
            answers
                #5 line 1 t 0.2, until 1800.000
            a get -> active, line 1 t 0.2, total 10.00, until 1800.000
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
            a checkout -> order of line 1 t 0.2, total 10.00
                t  ..A.
        "#]],
    );
}

#[test]
fn a_compensation_survives_a_crash() {
    check(
        "hall aaaa
         session s
         session t
         b hold t 0.0
         stop s
         a hold s 0.0 + t 0.0 as both
         go s
         answers
         a get
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            b hold t 0.0 -> line 1 t 0.0, until 1800.000
                t  b...
            stop s
            a hold s 0.0 + t 0.0 as both -> (waits as #5)
            go s
            answers
                #5 no: seats_taken, 1 of the lines are refused; the first: 1 of the seats are taken:
                    1 no: seats_taken, 1 of the seats are taken: 0.0 held
            a get -> no: not_found, cart 00000000000000000000000000000061 is not known
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
    // The granted part is disowned, and the cart crashes before it can send that. The next host sends it.
    check(
        "hall aaaa
         session s
         session t
         b hold t 0.0
         freeze a
         a hold s 0.0 + t 0.0 as both
         thaw a
         stop s
         crash a
         go s
         wait 1
         box get s
         a hold s 0.0 + t 0.1 as other
         a hold s 0.1 + t 0.2 as both",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            b hold t 0.0 -> line 1 t 0.0, until 1800.000
                t  b...
            freeze a
            a hold s 0.0 + t 0.0 as both -> (waits as #5)
                s  a...
            thaw a
                s  ....
            stop s
            crash a
            go s
            wait 1
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 + t 0.1 as other -> line 1 s 0.0, line 2 t 0.1, until 1801.000
                s  a...
                t  ba..
            a hold s 0.1 + t 0.2 as both -> line 3 s 0.1, line 4 t 0.2, until 1801.000
                s  aa..
                t  baa.
        "#]],
    );
    // The cart committed nothing. The repeat finds the hold and releases it.
    check(
        "hall aaaa
         session s
         session t
         b hold t 0.0
         freeze a
         a hold s 0.0 + t 0.0 as both
         crash a
         thaw a
         box get s
         a hold s 0.0 + t 0.0 as both
         box get s
         b cancel
         a hold s 0.0 + t 0.0 as both",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            b hold t 0.0 -> line 1 t 0.0, until 1800.000
                t  b...
            freeze a
            a hold s 0.0 + t 0.0 as both -> (waits as #5)
                s  a...
            crash a
            thaw a
            box get s -> 3 free, 1 held, 0 sold, 0 blocked
            a hold s 0.0 + t 0.0 as both -> no: seats_taken, 1 of the lines are refused; the first: 1 of the seats are taken:
                    1 no: seats_taken, 1 of the seats are taken: 0.0 held
                s  ....
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
            b cancel -> canceled, line 1 t 0.0, total 10.00
                t  ....
            a hold s 0.0 + t 0.0 as both -> line 1 s 0.0, line 2 t 0.0, until 1800.000
                s  a...
                t  a...
        "#]],
    );
}

/// The session has granted, and the customer grants to a cart that has lost the request in a crash. The session's seats are
/// released when the client repeats.
#[test]
fn an_attempt_with_a_late_quota_leaves_no_seats_held() {
    check(
        "hall aaaa
         session s quota few 3
         freeze ann
         a hold s 0.0 0.1 for ann as h
         crash a
         thaw ann
         a hold s 0.0 0.1 for ann as h
         a release 1
         wait 1",
        expect![[r#"
            hall aaaa -> done
            session s quota few 3 -> 4 free, 0 held, 0 sold, 0 blocked
            freeze ann
            a hold s 0.0 0.1 for ann as h -> (waits as #3)
                aa..
            crash a
            thaw ann
            a hold s 0.0 0.1 for ann as h -> line 1 s 0.0 0.1, until 1800.000
                ann  few 2 held 0 sold, 0 orders
            a release 1 -> active, until 1800.000
                ann  0 orders
                s  ....
            wait 1
        "#]],
    );
}

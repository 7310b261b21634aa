//! A hold covers its line at every instant, however messages, crashes and deadlines fall: the town checks it after every
//! commit, these stories make the falls happen.

use expect_test::expect;

use crate::script::check;

#[test]
fn a_grant_that_comes_with_the_deadline() {
    // The grant is there, at the very millisecond the cart expires: expiry wins, the seats go back.
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
fn a_crash_between_the_session_and_the_cart() {
    // The client repeats the request: it gets the very hold.
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
    // It asks with another request: the seats are taken, by itself, until the session has asked.
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
            a hold s 0.3 -> line 2 s 0.3, until 3500.000
                aaaa
            wait 102
                ..aa
            a hold s 0.0 0.1 as h -> line 3 s 0.0 0.1, until 3602.000
                aaaa
        "#]],
    );
    // It repeats the request id with another body: refused, for the first hold is live.
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
    // The grant of the first body comes while the second is asked for: it is not what was asked for.
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
    // The same with another session: the first session's grant makes no line there.
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
    // The granted part is disowned, the cart dies before it can say so: the next host does.
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
    // Nothing was committed by the cart: the repeat finds the hold and gives it back.
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
    // Of a partial release and the sale, the sale comes first.
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
    // The cart waits for a second session, longer than the first one's patience.
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
fn an_overdue_hold_is_the_cart_s_as_long_as_the_cart_lives() {
    // Touched again and again: the session asks when the first deadline has passed, and is told the new one.
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

#[test]
fn a_checkout_waits_for_lines_under_way() {
    check(
        "hall aaaa
         session s
         session t
         a hold s 0.0
         stop t
         a hold t 0.0
         a checkout as pay
         a hold s 0.1
         a release 1
         a checkout as other
         wait 1
         go t
         answers",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                s  a...
            stop t
            a hold t 0.0 -> (waits as #5)
            a checkout as pay -> (waits as #6)
            a hold s 0.1 -> no: cart_not_active, the cart is checking_out
            a release 1 -> no: cart_not_active, the cart is checking_out
            a checkout as other -> no: cart_not_active, the cart is checking_out
            wait 1
            go t
                s  A...
                t  A...
            answers
                #5 line 2 t 0.0, until 1801.000
                #6 order of line 1 s 0.0, line 2 t 0.0, total 20.00
        "#]],
    );
    // But not for ever.
    check(
        "hall aaaa
         session s
         session t
         a hold s 0.0
         stop t
         a hold t 0.0
         a checkout as pay
         wait 1.999
         answers
         wait 0.001
         answers
         go t
         box get t",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                s  a...
            stop t
            a hold t 0.0 -> (waits as #5)
            a checkout as pay -> (waits as #6)
            wait 1.999
            answers -> none of 2
            wait 0.001
                s  A...
            answers
                #5 no: cart_not_active, the cart is done
                #6 order of line 1 s 0.0, total 10.00
            go t
            box get t -> 4 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
fn a_checkout_is_certain_before_the_sessions_have_sold() {
    check(
        "hall aaaa
         session s
         session t
         a hold s 0.0 + t 0.1
         stop t
         a checkout as pay
         a checkout as pay
         wait 2
         answers
         a order
         go t
         a order
         a checkout as pay
         a audit",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            session t -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 + t 0.1 -> line 1 s 0.0, line 2 t 0.1, until 1800.000
                s  a...
                t  .a..
            stop t
            a checkout as pay -> (waits as #5)
                s  A...
            a checkout as pay -> (waits as #6)
            wait 2
            answers
                #5 order of line 1 s 0.0, line 2 t 0.1, total 20.00, settling
                #6 order of line 1 s 0.0, line 2 t 0.1, total 20.00, settling
            a order -> order of line 1 s 0.0, line 2 t 0.1, total 20.00, settling
            go t
                t  .A..
            a order -> order of line 1 s 0.0, line 2 t 0.1, total 20.00
            a checkout as pay -> order of line 1 s 0.0, line 2 t 0.1, total 20.00
            a audit -> 2 holds, 0 owed, []
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

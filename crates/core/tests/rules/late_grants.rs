//! Grants that come when no client waits for them any more. They are released and become no lines.

use expect_test::expect;

use crate::script::check;

/// The seats come after the client has gone. They are free again, the open cart lives on, and a repeat gets them.
#[test]
pub(crate) fn a_grant_for_a_client_that_has_gone_is_released() {
    check(
        "hall aaaa
         session s
         a open
         timeout 1.5
         freeze s
         a hold s 0.0 0.1 as one
         wait 1.499
         a get
         wait 0.001
         answers
         thaw s
         a get
         box get s
         a hold s 0.0 0.1 as one
         wait 60
         a checkout",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a open -> active, until 1800.000
            timeout 1.5
            freeze s
            a hold s 0.0 0.1 as one -> (waits as #4)
            wait 1.499
            a get -> active, until 1800.000
            wait 0.001
            answers
                #4 no: in_progress, the first request with this id is still under way
            thaw s
            a get -> active, until 1800.000
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 as one -> line 1 s 0.0 0.1, until 1801.500
                aa..
            wait 60
            a checkout -> order of line 1 s 0.0 0.1, total 20.00
                AA..
        "#]],
    );
}

#[test]
fn a_grant_in_time_becomes_a_line() {
    check(
        "hall aaaa
         session s
         timeout 1.5
         freeze s
         a hold s 0.0 0.1 as one
         wait 1.499
         thaw s
         answers
         wait 60
         a get",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            timeout 1.5
            freeze s
            a hold s 0.0 0.1 as one -> (waits as #3)
            wait 1.499
            thaw s
                aa..
            answers
                #3 line 1 s 0.0 0.1, until 1801.499
            wait 60
            a get -> active, line 1 s 0.0 0.1, total 20.00, until 1801.499
        "#]],
    );
}

/// One wait of a repeat is enough.
#[test]
fn a_repeat_that_waits_keeps_its_request_alive() {
    check(
        "hall aaaa
         session s
         timeout 1.5
         freeze s
         a hold s 0.0 as one
         wait 1
         a hold s 0.0 as one
         wait 1
         thaw s
         answers
         a get",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            timeout 1.5
            freeze s
            a hold s 0.0 as one -> (waits as #3)
            wait 1
            a hold s 0.0 as one -> (waits as #4)
            wait 1
            thaw s
                a...
            answers
                #3 line 1 s 0.0, until 1802.000
                #4 line 1 s 0.0, until 1802.000
            a get -> active, line 1 s 0.0, total 10.00, until 1802.000
        "#]],
    );
}

/// Every kind of line, in one request and alone. A part that was granted goes with the one that was not.
#[test]
fn late_grants_of_every_kind_are_released() {
    check(
        "hall aaaaaa
         session s with stand 500 5.00
         product p 100 2.50 quota few 9
         resource r 12.00
         timeout 1.5
         freeze s
         a hold p 2 + s stand 5 + r 100 200 for ann as one
         b best s 3 as two
         freeze p
         c hold p 3 for bob as three
         freeze r
         d hold r 300 400 as four
         wait 2
         answers
         thaw s
         thaw p
         thaw r
         wait 5
         box get s
         ann
         bob
         a hold p 2 + s stand 5 + r 100 200 for ann as one
         b best s 3 as two
         c hold p 3 for bob as three
         d hold r 300 400 as four",
        expect![[r#"
            hall aaaaaa -> done
            session s with stand 500 5.00 -> 6 free, 0 held, 0 sold, 0 blocked
            product p 100 2.50 quota few 9 -> 100 free, 0 held, 0 sold
            resource r 12.00 -> 0 bookings
            timeout 1.5
            freeze s
            a hold p 2 + s stand 5 + r 100 200 for ann as one -> (waits as #5)
                p  98 free, 2 held, 0 sold
                r  100-200 held
            b best s 3 as two -> (waits as #6)
            freeze p
            c hold p 3 for bob as three -> (waits as #7)
            freeze r
            d hold r 300 400 as four -> (waits as #8)
            wait 2
                ann  0 orders
            answers
                #5 no: in_progress, the first request with this id is still under way
                #6 no: in_progress, the first request with this id is still under way
                #7 no: in_progress, the first request with this id is still under way
                #8 no: in_progress, the first request with this id is still under way
            thaw s
            thaw p
                p  100 free, 0 held, 0 sold
            thaw r
                r  free
            wait 5
            box get s -> 6 free, 0 held, 0 sold, 0 blocked
            ann -> []
            bob -> []
            a hold p 2 + s stand 5 + r 100 200 for ann as one -> line 1 p 2, line 2 s stand 5, line 3 r 100-200, until 1807.000
                ann  few 2 held 0 sold, 0 orders
                p  98 free, 2 held, 0 sold
                r  100-200 held
                s  ......
                s  stand 495 free, 5 held, 0 sold
            b best s 3 as two -> line 1 s 0.0 0.1 0.2, until 1807.000
                s  bbb...
                s  stand 495 free, 5 held, 0 sold
            c hold p 3 for bob as three -> line 1 p 3, until 1807.000
                p  95 free, 5 held, 0 sold
            d hold r 300 400 as four -> line 1 r 300-400, until 1807.000
                r  100-200 held, 300-400 held
        "#]],
    );
}

/// A line that was to grow stays as it was, and a change that waits for it begins if its own client still waits.
#[test]
pub(crate) fn a_late_growth_is_undone() {
    check(
        "product p 9 1.00
         a hold p 2
         timeout 1.5
         freeze p
         a set 1 5 as one
         wait 1
         a set 1 3 as two
         wait 1
         answers
         thaw p
         answers
         a get
         freeze p
         a set 1 6 as three
         a set 1 7 as four
         wait 2
         thaw p
         answers
         a get
         a audit",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 2 -> line 1 p 2, until 1800.000
                7 free, 2 held, 0 sold
            timeout 1.5
            freeze p
            a set 1 5 as one -> (waits as #3)
            wait 1
            a set 1 3 as two -> (waits as #4)
            wait 1
            answers
                #3 no: in_progress, the first request with this id is still under way
            thaw p
                6 free, 3 held, 0 sold
            answers
                #4 active, line 1 p 3, total 3.00, until 1802.000
            a get -> active, line 1 p 3, total 3.00, until 1802.000
            freeze p
            a set 1 6 as three -> (waits as #6)
            a set 1 7 as four -> (waits as #7)
            wait 2
            thaw p
            answers
                #6 no: in_progress, the first request with this id is still under way
                #7 no: in_progress, the first request with this id is still under way
            a get -> active, line 1 p 3, total 3.00, until 1802.000
            a audit -> 1 holds, 0 owed, []
        "#]],
    );
}

/// A checkout that waits for a hold is not decided when its client has gone.
#[test]
fn a_late_checkout_is_not_decided() {
    check(
        "hall aaaa
         session s
         a hold s 0.0
         freeze s
         a hold s 0.1
         timeout 0.5
         a checkout as one
         wait 0.5
         answers
         thaw s
         a get
         a checkout as one",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a...
            freeze s
            a hold s 0.1 -> (waits as #4)
            timeout 0.5
            a checkout as one -> (waits as #5)
            wait 0.5
            answers
                #5 no: in_progress, the first request with this id is still under way
            thaw s
                aa..
            a get -> active, line 1 s 0.0, line 2 s 0.1, total 20.00, until 1800.500
            a checkout as one -> order of line 1 s 0.0, line 2 s 0.1, total 20.00
                AA..
        "#]],
    );
}

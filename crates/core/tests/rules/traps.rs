//! Mistakes of earlier systems, each as a story with the right outcome.

use boxoffice_core::{
    answer::Answer,
    command::{Command, VenueCommand},
    refusal::Refusal,
    seat::{Seat, SeatSet, SeatSetError},
};
use expect_test::expect;

use crate::{
    fixture::Fixture,
    script::{check, id, layout, new_session},
};

#[test]
fn theatre_seats_free_follow_every_sale_release_and_expiry() {
    check(
        "hall aaaaaa
         session s
         a hold s 0.0 0.1 0.2
         box get s
         a release 1 0.1
         box get s
         a checkout
         box get s
         b hold s 0.1 0.3
         box get s
         wait 1800
         box get s",
        expect![[r#"
            hall aaaaaa -> done
            session s -> 6 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 0.2 -> line 1 s 0.0 0.1 0.2, until 1800.000
                aaa...
            box get s -> 3 free, 3 held, 0 sold, 0 blocked
            a release 1 0.1 -> active, line 1 s 0.0 0.2, total 20.00, until 1800.000
                a.a...
            box get s -> 4 free, 2 held, 0 sold, 0 blocked
            a checkout -> order of line 1 s 0.0 0.2, total 20.00
                A.A...
            box get s -> 4 free, 0 held, 2 sold, 0 blocked
            b hold s 0.1 0.3 -> line 1 s 0.1 0.3, until 1800.000
                AbAb..
            box get s -> 2 free, 2 held, 2 sold, 0 blocked
            wait 1800
                A.A...
            box get s -> 4 free, 0 held, 2 sold, 0 blocked
        "#]],
    );
}

#[test]
fn theatre_a_late_or_double_release_frees_nothing_of_others() {
    check(
        "hall aaaa
         session s
         a hold s 0.0 0.1 as h
         a release 1 as give
         b hold s 0.0 0.1
         again release s
         a release 1 as give
         a release 1
         b checkout
         again release s
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 as h -> line 1 s 0.0 0.1, until 1800.000
                aa..
            a release 1 as give -> active, until 1800.000
                ....
            b hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1800.000
                bb..
            again release s
            a release 1 as give -> active, until 1800.000
            a release 1 -> no: no_such_line, the cart has no line 1
            b checkout -> order of line 1 s 0.0 0.1, total 20.00
                BB..
            again release s
            box get s -> 2 free, 0 held, 2 sold, 0 blocked
        "#]],
    );
}

#[test]
fn theatre_an_expired_or_done_cart_cannot_check_out_again() {
    check(
        "hall aaaa
         session s
         a hold s 0.0
         b hold s 0.1
         a checkout
         a checkout
         a cancel
         a hold s 0.2
         a release 1
         wait 1800
         b checkout
         b hold s 0.2
         b release 1
         b cancel
         b order
         a order",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a...
            b hold s 0.1 -> line 1 s 0.1, until 1800.000
                ab..
            a checkout -> order of line 1 s 0.0, total 10.00
                Ab..
            a checkout -> no: cart_not_active, the cart is done
            a cancel -> no: cart_not_active, the cart is done
            a hold s 0.2 -> no: cart_not_active, the cart is done
            a release 1 -> no: cart_not_active, the cart is done
            wait 1800
                A...
            b checkout -> no: cart_expired, the cart has expired
            b hold s 0.2 -> no: cart_expired, the cart has expired
            b release 1 -> no: cart_expired, the cart has expired
            b cancel -> no: cart_expired, the cart has expired
            b order -> no: not_found, order 00000000000000000000000000000062 is not known
            a order -> order of line 1 s 0.0, total 10.00
        "#]],
    );
}

#[test]
fn theatre_two_lines_in_one_session_are_both_released() {
    check(
        "hall aaaaaa
         session s
         a hold s 0.0 0.1
         a hold s 0.4
         b hold s 0.2 + s 0.3
         wait 1800
         box get s
         a get
         c hold s 0.5
         c hold s 0.0
         c release 1
         c cancel",
        expect![[r#"
            hall aaaaaa -> done
            session s -> 6 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1800.000
                aa....
            a hold s 0.4 -> line 2 s 0.4, until 1800.000
                aa..a.
            b hold s 0.2 + s 0.3 -> line 1 s 0.2, line 2 s 0.3, until 1800.000
                aabba.
            wait 1800
                ......
            box get s -> 6 free, 0 held, 0 sold, 0 blocked
            a get -> expired, line 1 s 0.0 0.1, line 2 s 0.4, total 30.00
            c hold s 0.5 -> line 1 s 0.5, until 3600.000
                .....c
            c hold s 0.0 -> line 2 s 0.0, until 3600.000
                c....c
            c release 1 -> active, line 2 s 0.0, total 10.00, until 3600.000
                c.....
            c cancel -> canceled, line 2 s 0.0, total 10.00
                ......
        "#]],
    );
}

#[test]
fn theatre_empty_and_double_seat_lists_are_refused() {
    let seat = Seat { row: 0, seat: 1 };
    assert_eq!(SeatSet::new([]), Err(SeatSetError::Empty));
    assert_eq!(SeatSet::new([seat, seat, seat]), Err(SeatSetError::Duplicate(vec![seat])));
    check(
        "hall aaaa
         session s
         a hold s 0.0 0.1 + s 0.1 0.2
         box block s 0.3 0.3
         box block s
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 + s 0.1 0.2 -> no: duplicate_seat, 1 of the seats are named more than once: 0.1
            box block s 0.3 0.3 -> no: duplicate_seat, 1 of the seats are named more than once: 0.3
            box block s -> no: bad_request, bad request: no seats are named; name at least one
            box get s -> 4 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
fn theatre_a_crash_between_session_and_cart_leaves_no_hold_behind() {
    // The client never returns. The session asks the cart, which is not even open, and gets its seats back.
    check(
        "hall aaaa
         session s
         freeze a
         a hold s 0.0 0.1
         crash a
         thaw a
         a get
         wait 11.999
         wait 0.001
         a get
         b hold s 0.0 0.1
         a hold s 0.2",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            freeze a
            a hold s 0.0 0.1 -> (waits as #3)
                aa..
            crash a
            thaw a
            a get -> no: not_found, cart 00000000000000000000000000000061 is not known
            wait 11.999
            wait 0.001
                ....
            a get -> no: not_found, cart 00000000000000000000000000000061 is not known
            b hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1812.000
                bb..
            a hold s 0.2 -> line 1 s 0.2, until 1812.000
                bba.
        "#]],
    );
}

#[test]
fn theatre_one_entry_decides_a_checkout() {
    // The cart crashes right after the decision. Its next host sells the seats.
    check(
        "hall aaaa
         session s
         a hold s 0.0 0.1
         stop s
         a checkout as pay
         crash a
         wait 1
         a get
         a checkout as pay
         go s
         answers
         a checkout as pay
         a order",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1800.000
                aa..
            stop s
            a checkout as pay -> (waits as #4)
            crash a
            wait 1
            a get -> done, line 1 s 0.0 0.1, total 20.00
            a checkout as pay -> (waits as #6)
            go s
                AA..
            answers
                #6 order of line 1 s 0.0 0.1, total 20.00
            a checkout as pay -> order of line 1 s 0.0 0.1, total 20.00
            a order -> order of line 1 s 0.0 0.1, total 20.00
        "#]],
    );
    // It crashes right before the decision. Nothing is sold, and the cart lives on.
    check(
        "hall aaaa
         session s
         a hold s 0.0 0.1
         freeze a
         a checkout as pay
         crash a
         thaw a
         a get
         a checkout as pay",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1800.000
                aa..
            freeze a
            a checkout as pay -> (waits as #4)
            crash a
            thaw a
            a get -> active, line 1 s 0.0 0.1, total 20.00, until 1800.000
            a checkout as pay -> order of line 1 s 0.0 0.1, total 20.00
                AA..
        "#]],
    );
}

#[test]
fn cinema_all_or_nothing_unless_asked_otherwise() {
    check(
        "hall aaaaaa
         session s
         a hold s 0.1 0.2
         b hold s 0.0 0.1 0.3
         b hold s some 0.0 0.1 0.3
         c hold s some 0.0 0.1
         box block s 0.4 0.5
         c hold s 0.4 0.5
         c hold s 0.3 0.4",
        expect![[r#"
            hall aaaaaa -> done
            session s -> 6 free, 0 held, 0 sold, 0 blocked
            a hold s 0.1 0.2 -> line 1 s 0.1 0.2, until 1800.000
                .aa...
            b hold s 0.0 0.1 0.3 -> no: seats_taken, 1 of the seats are taken: 0.1 held
            b hold s some 0.0 0.1 0.3 -> line 1 s 0.0 0.3, until 1800.000
                baab..
            c hold s some 0.0 0.1 -> no: seats_taken, 2 of the seats are taken: 0.0 held 0.1 held
            box block s 0.4 0.5 -> done
                baab##
            c hold s 0.4 0.5 -> no: seat_blocked, 2 of the seats are blocked: 0.4 blocked 0.5 blocked
            c hold s 0.3 0.4 -> no: seats_taken, 2 of the seats are taken: 0.3 held 0.4 blocked
        "#]],
    );
}

#[test]
fn cinema_a_session_is_created_once() {
    check(
        "hall aaaa
         session s 1000 5000
         a hold s 0.0
         session s 1000 5000
         session s 1000 6000
         session t 5999 1000
         session t 6000 1000
         session u 500 501
         session u 500 500
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s 1000 5000 -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a...
            session s 1000 5000 -> 4 free, 0 held, 0 sold, 0 blocked
            session s 1000 6000 -> no: already_exists_differently, it exists already and is different: session s: it ends at 1970-01-01T01:40Z, not 1970-01-01T01:56:40Z
            session t 5999 1000 -> no: hall_occupied, the hall is occupied at that time by session s
            session t 6000 1000 -> 4 free, 0 held, 0 sold, 0 blocked
            session u 500 501 -> no: hall_occupied, the hall is occupied at that time by session s
            session u 500 500 -> 4 free, 0 held, 0 sold, 0 blocked
            box get s -> 3 free, 1 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
fn cinema_seats_count_from_0_and_rows_are_in_their_order() {
    let layout = layout("a/a/a/a/a/a/a/a/a/a/aa");
    let last = Seat { row: 10, seat: 1 };
    assert_eq!((layout.index(last), layout.seat(11)), (Some(11), last));
    assert_eq!((layout.row_label(11).as_str(), layout.seat_label(11).as_str()), ("11", "2"));
    assert_eq!(layout.row_label(1), "2");
    assert_eq!(layout.index(Seat { row: 11, seat: 0 }), None);
    assert_eq!(layout.index(Seat { row: 0, seat: 1 }), None);
}

#[test]
fn a_hall_that_changes_leaves_its_sessions_alone() {
    check(
        "hall aaaa
         session s
         hall bb
         session t
         a hold s 0.3
         a hold t 0.3
         box get s
         box get t",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            hall bb -> done
            session t -> 2 free, 0 held, 0 sold, 0 blocked
            a hold s 0.3 -> line 1 s 0.3, until 1800.000
                s  ...a
            a hold t 0.3 -> no: no_such_seat, 1 of the seats do not exist: 0.3
            box get s -> 3 free, 1 held, 0 sold, 0 blocked
            box get t -> 2 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
pub(crate) fn a_session_id_belongs_to_one_venue() {
    let mut fixture = Fixture::new(boxoffice_core::rules::Rules::default());
    let hall = layout("aa");
    let mut last = 0;
    for venue in ["one", "two", "two"] {
        let to = |command| Command::Venue(id(venue), command);
        fixture.send(Some("put"), to(VenueCommand::Put(crate::script::details())));
        fixture.run();
        let put =
            VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout: hall.clone() };
        fixture.send(Some("hall"), to(put));
        fixture.run();
        last =
            fixture.send(Some("create"), to(VenueCommand::CreateSession(new_session("s", &hall, 1_000, 2_000, None))));
        fixture.run();
    }
    let why = "session s: its venue is one, not two";
    assert_eq!(fixture.answers[&last], Err(Refusal::AlreadyExistsDifferently(why.into())));
    // The hall of the second venue is not booked, so another session fits in at the same time.
    let create = VenueCommand::CreateSession(new_session("t", &hall, 1_000, 2_000, None));
    let other = fixture.send(Some("create"), Command::Venue(id("two"), create));
    fixture.run();
    let outcome = fixture.answers[&other].as_ref().expect("the hall is free");
    assert!(matches!(&outcome.answer, Answer::Session(view) if view.counts.free == 2), "{outcome:?}");
}

//! The promises, each with a story. The fixture checks all of them after every commit of every test.

use boxoffice_core::{
    answer::Answer,
    command::{Command, SessionCommand},
    event::Event,
    id::Entity,
    seat::SeatState,
};
use expect_test::expect;

use crate::{
    fixture::Fixture,
    random_runs,
    script::{check, id},
};

#[test]
fn p1_a_seat_has_one_holder_and_one_buyer() {
    check(
        "hall aa
         session s
         a hold s 0.0
         b hold s 0.0
         a checkout
         b hold s 0.0
         box block s 0.0
         box get s",
        expect![[r#"
            hall aa -> done
            session s -> 2 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a.
            b hold s 0.0 -> no: seats_taken, 1 of the seats are taken: 0.0 held
            a checkout -> order of line 1 s 0.0, total 10.00
                A.
            b hold s 0.0 -> no: seats_taken, 1 of the seats are taken: 0.0 sold
            box block s 0.0 -> no: seats_taken, 1 of the seats are taken: 0.0 sold
            box get s -> 1 free, 0 held, 1 sold, 0 blocked
        "#]],
    );
}

#[test]
fn p2_a_hold_is_all_or_nothing_and_names_what_refused() {
    check(
        "hall aaaa/aaaa
         session s
         a hold s 0.1 0.3
         box block s 1.1
         b hold s 0.0 0.1 0.2 0.3 1.0 1.1
         b hold s 0.0 9.9 0.9
         box get s",
        expect![[r#"
            hall aaaa/aaaa -> done
            session s -> 8 free, 0 held, 0 sold, 0 blocked
            a hold s 0.1 0.3 -> line 1 s 0.1 0.3, until 1800.000
                .a.a
                ....
            box block s 1.1 -> done
                .a.a
                .#..
            b hold s 0.0 0.1 0.2 0.3 1.0 1.1 -> no: seats_taken, 3 of the seats are taken: 0.1 held 0.3 held 1.1 blocked
            b hold s 0.0 9.9 0.9 -> no: no_such_seat, 2 of the seats do not exist: 0.9 9.9
            box get s -> 5 free, 2 held, 0 sold, 1 blocked
        "#]],
    );
}

#[test]
fn p3_lines_of_several_sessions_come_all_or_none() {
    check(
        "hall aaa
         session s
         session t
         session u
         b hold u 0.1
         a hold s 0.0 + t 0.0 + u 0.1
         a hold s 0.0 + t 0.0 + u 0.2
         a checkout",
        expect![[r#"
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            session t -> 3 free, 0 held, 0 sold, 0 blocked
            session u -> 3 free, 0 held, 0 sold, 0 blocked
            b hold u 0.1 -> line 1 u 0.1, until 1800.000
                u  .b.
            a hold s 0.0 + t 0.0 + u 0.1 -> no: seats_taken, 1 of the lines are refused; the first: 1 of the seats are taken:
                    2 no: seats_taken, 1 of the seats are taken: 0.1 held
            a hold s 0.0 + t 0.0 + u 0.2 -> line 1 s 0.0, line 2 t 0.0, line 3 u 0.2, until 1800.000
                s  a..
                t  a..
                u  .ba
            a checkout -> order of line 1 s 0.0, line 2 t 0.0, line 3 u 0.2, total 30.00
                s  A..
                t  A..
                u  .bA
        "#]],
    );
}

#[test]
fn p4_only_the_holder_gives_back_and_only_what_is_its_own() {
    check(
        "hall aaaa
         session s
         a hold s 0.0 0.1
         b hold s 0.2
         b release 1 0.0
         b release 2
         a release 1 0.1 as once
         a release 1 0.1 as once
         c hold s 0.1
         a release 1 0.1
         again release s
         box get s",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1800.000
                aa..
            b hold s 0.2 -> line 1 s 0.2, until 1800.000
                aab.
            b release 1 0.0 -> no: no_such_seat, 1 of the seats do not exist: 0.0
            b release 2 -> no: no_such_line, the cart has no line 2
            a release 1 0.1 as once -> active, line 1 s 0.0, total 10.00, until 1800.000
                a.b.
            a release 1 0.1 as once -> active, line 1 s 0.0, total 10.00, until 1800.000
            c hold s 0.1 -> line 1 s 0.1, until 1800.000
                acb.
            a release 1 0.1 -> no: no_such_seat, 1 of the seats do not exist: 0.1
            again release s
            box get s -> 1 free, 3 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
pub(crate) fn p5_counters_are_the_map() {
    check(
        "hall aaaaaa
         session s
         box block s 0.5 0.4
         a hold s 0.0 0.1
         b hold s 0.2
         b checkout
         box get s
         box unblock s 0.4 0.5
         box block s 0.2
         a cancel
         box get s",
        expect![[r#"
            hall aaaaaa -> done
            session s -> 6 free, 0 held, 0 sold, 0 blocked
            box block s 0.5 0.4 -> done
                ....##
            a hold s 0.0 0.1 -> line 1 s 0.0 0.1, until 1800.000
                aa..##
            b hold s 0.2 -> line 1 s 0.2, until 1800.000
                aab.##
            b checkout -> order of line 1 s 0.2, total 10.00
                aaB.##
            box get s -> 1 free, 2 held, 1 sold, 2 blocked
            box unblock s 0.4 0.5 -> done
                aaB...
            box block s 0.2 -> no: seats_taken, 1 of the seats are taken: 0.2 sold
            a cancel -> canceled, line 1 s 0.0 0.1, total 20.00
                ..B...
            box get s -> 5 free, 0 held, 1 sold, 0 blocked
        "#]],
    );
}

#[test]
fn p6_terminal_carts_accept_nothing_and_stay_readable() {
    check(
        "hall aaa
         session s
         a hold s 0.0
         b hold s 0.1
         c hold s 0.2
         a checkout
         b cancel
         wait 1800
         a get
         b get
         c get
         a open
         b open
         c open
         b hold s 0.1
         b checkout
         b release 1",
        expect![[r#"
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a..
            b hold s 0.1 -> line 1 s 0.1, until 1800.000
                ab.
            c hold s 0.2 -> line 1 s 0.2, until 1800.000
                abc
            a checkout -> order of line 1 s 0.0, total 10.00
                Abc
            b cancel -> canceled, line 1 s 0.1, total 10.00
                A.c
            wait 1800
                A..
            a get -> done, line 1 s 0.0, total 10.00
            b get -> canceled, line 1 s 0.1, total 10.00
            c get -> expired, line 1 s 0.2, total 10.00
            a open -> no: cart_not_active, the cart is done
            b open -> no: cart_not_active, the cart is canceled
            c open -> no: cart_expired, the cart has expired
            b hold s 0.1 -> no: cart_not_active, the cart is canceled
            b checkout -> no: cart_not_active, the cart is canceled
            b release 1 -> no: cart_not_active, the cart is canceled
        "#]],
    );
}

#[test]
fn p7_an_order_if_and_only_if_the_cart_is_done() {
    check(
        "hall aab
         session s
         a open
         a checkout
         a order
         a hold s 0.0 0.2
         a order
         a checkout
         a order
         a audit",
        expect![[r#"
            hall aab -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a open -> active, until 1800.000
            a checkout -> no: cart_empty, the cart is empty
            a order -> no: not_found, order 00000000000000000000000000000061 is not known
            a hold s 0.0 0.2 -> line 1 s 0.0 0.2, until 1800.000
                a.a
            a order -> no: not_found, order 00000000000000000000000000000061 is not known
            a checkout -> order of line 1 s 0.0 0.2, total 30.00
                A.A
            a order -> order of line 1 s 0.0 0.2, total 30.00
            a audit -> 1 holds, 0 owed, []
        "#]],
    );
}

#[test]
fn p8_no_hold_ends_before_its_deadline_nor_more_than_the_grace_after() {
    // The cart's own wake frees the seats at the deadline.
    check(
        "hall aaa
         session s
         a hold s 0.0
         wait 1799.999
         box get s
         wait 0.001
         box get s",
        expect![[r#"
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a..
            wait 1799.999
            box get s -> 2 free, 1 held, 0 sold, 0 blocked
            wait 0.001
                ...
            box get s -> 3 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
    // The cart's messages are lost, so the session asks after the grace.
    check(
        "hall aaa
         session s
         a hold s 0.0
         stop s
         wait 1800
         lose s
         go s
         box get s
         wait 2
         box get s",
        expect![[r#"
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a..
            stop s
            wait 1800
            lose s
            go s
            box get s -> 2 free, 1 held, 0 sold, 0 blocked
                ...
            wait 2
            box get s -> 3 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
    // A session with a shorter lifetime.
    check(
        "hall aaa
         session s ttl 600
         session t
         a hold t 0.0
         a hold s 0.0
         a release 2
         a hold s 0.1
         wait 599.999
         a get
         wait 0.001
         a get",
        expect![[r#"
            hall aaa -> done
            session s ttl 600 -> 3 free, 0 held, 0 sold, 0 blocked
            session t -> 3 free, 0 held, 0 sold, 0 blocked
            a hold t 0.0 -> line 1 t 0.0, until 1800.000
                t  a..
            a hold s 0.0 -> line 2 s 0.0, until 600.000
                s  a..
            a release 2 -> active, line 1 t 0.0, total 10.00, until 1800.000
                s  ...
            a hold s 0.1 -> line 3 s 0.1, until 600.000
                s  .a.
            wait 599.999
            a get -> active, line 1 t 0.0, line 3 s 0.1, total 20.00, until 600.000
            wait 0.001
                s  ...
                t  ...
            a get -> expired, line 1 t 0.0, line 3 s 0.1, total 20.00
        "#]],
    );
}

/// An inventory asks long before the deadline. That must end nothing.
#[test]
fn p8_a_hold_that_is_asked_about_early_lives_on() {
    check(
        "hall aaa
         session s ttl 20
         a hold s 0.0
         wait 13
         box get s
         wait 6.999
         box get s
         wait 0.001
         box get s",
        expect![[r#"
            hall aaa -> done
            session s ttl 20 -> 3 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 20.000
                a..
            wait 13
            box get s -> 2 free, 1 held, 0 sold, 0 blocked
            wait 6.999
            box get s -> 2 free, 1 held, 0 sold, 0 blocked
            wait 0.001
                ...
            box get s -> 3 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
fn p9_a_repeat_gets_the_same_answer_and_changes_nothing() {
    check(
        "hall aaaa
         session s
         a open 60 as 1
         a open 60 as 1
         a open 30 as 1
         a open 30 as 2
         a hold s 0.0 0.1 as 3
         a release 1 0.0 as 4
         a hold s 0.0 0.1 as 3
         a release 1 0.0 as 4
         a release 1 0.1 as 4
         a checkout as 5
         a checkout as 5
         a hold s 0.0 0.1 as 3
         b hold s 0.1 as 6
         b hold s 0.0 as 6
         b hold s 0.0 as 6
         b cancel as 7
         b cancel as 7
         box block s 0.3 as 8
         box unblock s 0.3 as 9
         box block s 0.3 as 8
         box unblock s 0.2 as 8",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a open 60 as 1 -> active, until 60.000
            a open 60 as 1 -> active, until 60.000
            a open 30 as 1 -> no: request_id_reused, this request id was used before with another body
            a open 30 as 2 -> no: cart_open_differently, the cart is open, and lives 60000 ms untouched, not 30000 ms
            a hold s 0.0 0.1 as 3 -> line 1 s 0.0 0.1, until 60.000
                aa..
            a release 1 0.0 as 4 -> active, line 1 s 0.1, total 10.00, until 60.000
                .a..
            a hold s 0.0 0.1 as 3 -> line 1 s 0.0 0.1, until 60.000
            a release 1 0.0 as 4 -> active, line 1 s 0.1, total 10.00, until 60.000
            a release 1 0.1 as 4 -> no: request_id_reused, this request id was used before with another body
            a checkout as 5 -> order of line 1 s 0.1, total 10.00
                .A..
            a checkout as 5 -> order of line 1 s 0.1, total 10.00
            a hold s 0.0 0.1 as 3 -> line 1 s 0.0 0.1, until 60.000
            b hold s 0.1 as 6 -> no: seats_taken, 1 of the seats are taken: 0.1 sold
            b hold s 0.0 as 6 -> line 1 s 0.0, until 1800.000
                bA..
            b hold s 0.0 as 6 -> line 1 s 0.0, until 1800.000
            b cancel as 7 -> canceled, line 1 s 0.0, total 10.00
                .A..
            b cancel as 7 -> canceled, line 1 s 0.0, total 10.00
            box block s 0.3 as 8 -> done
                .A.#
            box unblock s 0.3 as 9 -> done
                .A..
            box block s 0.3 as 8 -> done
            box unblock s 0.2 as 8 -> no: request_id_reused, this request id was used before with another body
        "#]],
    );
}

/// A snapshot at any version and the changes after it give the state at the end (P14).
#[test]
fn p14_a_snapshot_and_what_came_after_are_the_state() {
    let changes: usize = (0..20).map(|seed| check_snapshots(random_runs::after_run(seed))).sum();
    assert!(changes > 100, "the runs are too small: {changes} events");
}

/// Takes a snapshot of a session at every version, and returns their number.
fn check_snapshots(mut fixture: Fixture) -> usize {
    let ticket = fixture.send(None, Command::Session(id("s"), SessionCommand::Map));
    fixture.run();
    let answer = fixture.answers[&ticket].as_ref().expect("the session is open").answer.clone();
    let Answer::Map(last) = answer else { panic!("not a map") };
    let entity = Entity::Session(id("s"));
    let events: Vec<_> = fixture
        .log
        .iter()
        .filter_map(|(of, event)| match event {
            Event::Session(event) if *of == entity => Some(event),
            _ => None,
        })
        .collect();
    assert_eq!(events.len() as u64, last.version);
    for snapshot in 1..events.len() {
        let mut replica = boxoffice_core::state_map::StateMap::new();
        events[..snapshot].iter().for_each(|event| _ = replica.apply(&entity, vec![Event::Session((*event).clone())]));
        let state = replica.get(&entity).expect("opened by its first event");
        let boxoffice_core::state_map::State::Session(session) = &*state else { panic!("not a session") };
        let mut map = session.map();
        assert_eq!(map.version, snapshot as u64);
        for event in &events[snapshot..] {
            map.version += 1;
            let Some((state, seats)) = event.change() else { continue };
            for seat in seats {
                set(&mut map.seats, session.layout().index(*seat).expect("a seat of it"), state);
            }
        }
        assert_eq!((map.version, &map.seats), (last.version, &last.seats), "from version {snapshot}");
    }
    events.len()
}

fn set(map: &mut [u8], index: u32, state: SeatState) {
    let shift = index % 4 * 2;
    let byte = &mut map[index as usize / 4];
    *byte = *byte & !(3 << shift) | (state as u8) << shift;
}

//! Operators release lines of carts, cancel sessions, refund and settle payments.

use boxoffice_core::{
    answer::{Answer, Answered},
    command::{Command, SessionCommand, VenueCommand},
    rules::Rules,
    time::Timestamp,
};
use expect_test::expect;

use crate::{
    fixture::Fixture,
    script::{check, details, id, layout, new_session},
};

#[test]
fn an_operator_releases_a_line() {
    check(
        "product p 9 1.00 quota few 3
         hall aaa
         session s
         a hold p 2 + s 0.0 0.1 for ann
         a revoke 1 as op
         a revoke 1 as op
         a revoke 1
         a revoke 2
         a checkout
         a get",
        expect![[r#"
            product p 9 1.00 quota few 3 -> 9 free, 0 held, 0 sold
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a hold p 2 + s 0.0 0.1 for ann -> line 1 p 2, line 2 s 0.0 0.1, until 1800.000
                p  7 free, 2 held, 0 sold
                s  aa.
            a revoke 1 as op -> active, line 2 s 0.0 0.1, total 20.00, taken by an operator (): line 1 p 2, until 1800.000
                ann  0 orders
                p  9 free, 0 held, 0 sold
            a revoke 1 as op -> active, line 2 s 0.0 0.1, total 20.00, taken by an operator (): line 1 p 2, until 1800.000
            a revoke 1 -> no: no_such_line, the cart has no line 1
            a revoke 2 -> active, taken by an operator (): line 1 p 2, taken by an operator (): line 2 s 0.0 0.1, until 1800.000
                s  ...
            a checkout -> no: cart_empty, the cart is empty
            a get -> active, taken by an operator (): line 1 p 2, taken by an operator (): line 2 s 0.0 0.1, until 1800.000
        "#]],
    );
}

#[test]
fn a_canceled_session_releases_and_refunds_everything_held_or_sold() {
    check(
        "hall aaaa
         session s with stand 10 5.00
         product p 9 1.00
         a hold s 0.0 + p 1 for ann
         b hold s 0.1 + s stand 3 for bob
         c hold s 0.2 + p 2
         b pay
         gateway shut
         c pay
         box cancel s
         a get
         b order
         bob
         gateway open
         wait 2
         c order
         a hold s 0.3
         a checkout
         box cancel s
         gateway",
        expect![[r#"
            hall aaaa -> done
            session s with stand 10 5.00 -> 4 free, 0 held, 0 sold, 0 blocked
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold s 0.0 + p 1 for ann -> line 1 s 0.0, line 2 p 1, until 1800.000
                p  8 free, 1 held, 0 sold
                s  a...
                s  stand 10 free, 0 held, 0 sold
            b hold s 0.1 + s stand 3 for bob -> line 1 s 0.1, line 2 s stand 3, until 1800.000
                s  ab..
                s  stand 7 free, 3 held, 0 sold
            c hold s 0.2 + p 2 -> line 1 s 0.2, line 2 p 2, until 1800.000
                p  6 free, 3 held, 0 sold
                s  abc.
                s  stand 7 free, 3 held, 0 sold
            b pay -> order of line 1 s 0.1, line 2 s stand 3, total 25.00, Authorized
                s  aBc.
                s  stand 7 free, 0 held, 3 sold
            gateway shut
            c pay -> (waits as #8)
            box cancel s -> done
                s  ....
                s  stand 10 free, 0 held, 0 sold
            a get -> active, line 2 p 1, total 1.00, taken by its session (rain): line 1 s 0.0, until 1800.000
            b order -> order of line 1 s 0.1, line 2 s stand 3, total 25.00, Captured, refund 1 of lines [1] 10.00 Pending, refund 2 of lines [2] 15.00 Pending
            bob -> [1 b 25.00]
            gateway open
            wait 2
            c order -> no: not_found, order 00000000000000000000000000000063 is not known
            a hold s 0.3 -> no: session_closed, the session is not on sale: it is canceled: rain
            a checkout -> order of line 2 p 1, total 1.00
                p  6 free, 2 held, 1 sold
            box cancel s -> no: session_closed, the session is not on sale: it is canceled already: rain
            gateway -> b-1: authorized 2500 captured 2500 refunded 1000 refunded 1500; c-1: authorized 1200 voided
        "#]],
    );
}

#[test]
pub(crate) fn a_canceled_session_asks_until_its_carts_acknowledge() {
    check(
        "hall aaaa
         session s
         a hold s 0.0
         b hold s 0.1
         b checkout
         stop a
         box cancel s
         wait 3
         lose a
         crash s
         wait 3
         lose a
         wait 1
         go a
         wait 2
         a get
         b order",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a...
            b hold s 0.1 -> line 1 s 0.1, until 1800.000
                ab..
            b checkout -> order of line 1 s 0.1, total 10.00
                aB..
            stop a
            box cancel s -> done
                a...
            wait 3
            lose a
            crash s
            wait 3
            lose a
            wait 1
            go a
                ....
            wait 2
            a get -> active, taken by its session (rain): line 1 s 0.0, until 1800.000
            b order -> order of line 1 s 0.1, total 10.00, refund 1 of lines [1] 10.00 Recorded
        "#]],
    );
}

#[test]
fn a_refund_waits_for_the_sale() {
    check(
        "hall aaaa
         session s
         product p 9 1.00
         a hold s 0.0 0.1 + p 3 for ann
         stop s
         a pay
         wait 3
         answers
         a refund 1
         go s
         wait 1
         a order
         last sell s
         last refund s
         a refund
         a refund
         gateway
         ann",
        expect![[r#"
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold s 0.0 0.1 + p 3 for ann -> line 1 s 0.0 0.1, line 2 p 3, until 1800.000
                p  6 free, 3 held, 0 sold
                s  aa..
            stop s
            a pay -> (waits as #5)
                p  6 free, 0 held, 3 sold
            wait 3
            answers
                #5 order of line 1 s 0.0 0.1, line 2 p 3, total 23.00, settling, Authorized
            a refund 1 -> refund 1 of lines [1] 20.00 Pending
            go s
                s  ....
            wait 1
            a order -> order of line 1 s 0.0 0.1, line 2 p 3, total 23.00, Captured, refund 1 of lines [1] 20.00 Refunded
            last sell s
            last refund s
            a refund -> refund 2 of lines [2] 3.00 Pending
                p  9 free, 0 held, 0 sold
            a refund -> no: already_refunded, already refunded: everything of the order
            gateway -> a-1: authorized 2300 captured 2300 refunded 2000 refunded 300
            ann -> [1 a 23.00]
        "#]],
    );
}

#[test]
fn an_operator_settles() {
    check(
        "product p 9 1.00
         product q 9 1.00 late
         gateway authorize lost lost lost lost lost lost
         a hold p 2 + q 1
         a pay as pay
         wait 10
         answers
         a settle 1 yes
         a pay as pay
         a settle 1 no
         a settle 2 no
         b hold p 1
         gateway authorize lost lost lost lost lost lost
         b pay
         b settle 1 no
         b get
         gateway says b 1 authorize yes
         gateway",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            product q 9 1.00 late -> 9 free, 0 held, 0 sold
            gateway authorize lost lost lost lost lost lost
            a hold p 2 + q 1 -> line 1 p 2, line 2 q 1 late, until 1800.000
                p  7 free, 2 held, 0 sold
            a pay as pay -> (waits as #4)
                q  8 free, 1 held, 0 sold
            wait 10
            answers
                #4 no: payment_pending, how the payment ended is not known yet; ask again with the same request id
            a settle 1 yes -> done
                p  7 free, 0 held, 2 sold
                q  8 free, 0 held, 1 sold
            a pay as pay -> order of line 1 p 2, line 2 q 1, total 3.00, Authorized
            a settle 1 no -> done
            a settle 2 no -> no: not_found, payment 00000000000000000000000000000061-2 is not known
            b hold p 1 -> line 1 p 1, until 1810.000
                p  6 free, 1 held, 2 sold
            gateway authorize lost lost lost lost lost lost
            b pay -> (waits as #10)
            b settle 1 no -> done
                p  7 free, 0 held, 2 sold
            b get -> canceled (declined by an operator: an operator has said so), line 1 p 1, total 1.00
            gateway says b 1 authorize yes
            gateway -> a-1: authorized 300 captured 300; b-1: authorized 100 voided
        "#]],
    );
}

#[test]
pub(crate) fn a_canceled_session_frees_its_hall() {
    check(
        "hall aa
         session s 100 50
         session t 120 50
         box cancel s
         session t 120 50
         session s 100 50
         session u 149 50
         box cancel t
         box cancel t as again
         session u 149 50",
        expect![[r#"
            hall aa -> done
            session s 100 50 -> 2 free, 0 held, 0 sold, 0 blocked
            session t 120 50 -> no: hall_occupied, the hall is occupied at that time by session s
            box cancel s -> done
            session t 120 50 -> 2 free, 0 held, 0 sold, 0 blocked
            session s 100 50 -> 2 free, 0 held, 0 sold, 0 blocked
            session u 149 50 -> no: hall_occupied, the hall is occupied at that time by session t
            box cancel t -> done
            box cancel t as again -> no: session_closed, the session is not on sale: it is canceled already: rain
            session u 149 50 -> 2 free, 0 held, 0 sold, 0 blocked
        "#]],
    );
}

#[test]
fn a_canceled_session_notifies_its_venue_until_acknowledged() {
    check(
        "hall aa
         session s 100 50
         stop venue
         box cancel s as cancel
         wait 3
         crash s
         lose venue
         wait 3
         box cancel s as cancel
         go venue
         wait 1
         answers
         session t 120 50
         box cancel s as cancel",
        expect![[r#"
            hall aa -> done
            session s 100 50 -> 2 free, 0 held, 0 sold, 0 blocked
            stop venue
            box cancel s as cancel -> (waits as #3)
            wait 3
            crash s
            lose venue
            wait 3
            box cancel s as cancel -> (waits as #4)
            go venue
            wait 1
            answers
                #4 done
            session t 120 50 -> 2 free, 0 held, 0 sold, 0 blocked
            box cancel s as cancel -> done
        "#]],
    );
}

#[test]
pub(crate) fn searches_show_that_a_canceled_session_is_not_open() {
    let mut fixture = Fixture::new(Rules::default());
    let to_venue = |command| Command::Venue(id("venue"), command);
    let layout = layout("aa");
    fixture.send(Some("venue"), to_venue(VenueCommand::Put(details())));
    let hall =
        VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout: layout.clone() };
    fixture.run();
    fixture.send(Some("hall"), to_venue(hall));
    fixture.run();
    for (name, start) in [("s", 1_000), ("t", 3_000)] {
        let session = new_session(name, &layout, start, start + 1_000, None);
        fixture.send(Some("create"), to_venue(VenueCommand::CreateSession(session)));
    }
    fixture.run();
    let open = |fixture: &mut Fixture| {
        let (from, to) = (Timestamp(0), Timestamp(10_000));
        let search = VenueCommand::SearchSessions { hall: None, title: None, from, to, limit: 10, after: None };
        let ticket = fixture.send(None, to_venue(search));
        fixture.run();
        let Some(Ok(Answered { answer: Answer::Sessions(found), .. })) = fixture.answers.get(&ticket) else {
            panic!("a search is answered")
        };
        found.iter().map(|entry| (entry.id.to_string(), entry.open)).collect::<Vec<_>>()
    };
    assert_eq!(open(&mut fixture), [("s".to_string(), true), ("t".to_string(), true)]);
    let cancel = SessionCommand::Cancel { reason: "rain".into() };
    let ticket = fixture.send(Some("cancel"), Command::Session(id("s"), cancel));
    fixture.run();
    assert!(fixture.answers[&ticket].is_ok(), "{:?}", fixture.answers[&ticket]);
    assert_eq!(open(&mut fixture), [("s".to_string(), false), ("t".to_string(), true)]);
}

//! Stories for lines of the rules that no other test covers. Each story fails if its line is changed. The changes are planted
//! bugs, in `planted`.

use boxoffice_core::{
    command::{CartCommand, Command, ProductCommand, Want, WantedLine},
    id::Entity,
    rules::Rules,
};
use expect_test::expect;

use crate::{
    fixture::{Fixture, kind},
    script::{cart, check, euros, hold_lines, id, product},
};

#[test]
pub(crate) fn a_quota_counts_what_is_sold() {
    check(
        "product p 100 1.00 quota few 3
         a hold p 2 for ann
         a checkout
         b hold p 2 for ann
         b hold p 1 for ann
         c hold p 1 for ann",
        expect![[r#"
            product p 100 1.00 quota few 3 -> 100 free, 0 held, 0 sold
            a hold p 2 for ann -> line 1 p 2, until 1800.000
                p  98 free, 2 held, 0 sold
            a checkout -> order of line 1 p 2, total 2.00
                ann  few 0 held 2 sold, 1 orders
                p  98 free, 0 held, 2 sold
            b hold p 2 for ann -> no: limit_per_customer, a customer may have 3 of few and has 2
            b hold p 1 for ann -> line 1 p 1, until 1800.000
                ann  few 1 held 2 sold, 1 orders
                p  97 free, 1 held, 2 sold
            c hold p 1 for ann -> no: limit_per_customer, a customer may have 3 of few and has 3
        "#]],
    );
}

#[test]
pub(crate) fn a_repeated_partial_release_does_not_undo_a_later_growth() {
    check(
        "product p 9 1.00
         a hold p 3
         a set 1 2
         a set 1 3
         again release p
         a checkout",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 3 -> line 1 p 3, until 1800.000
                6 free, 3 held, 0 sold
            a set 1 2 -> active, line 1 p 2, total 2.00, until 1800.000
                7 free, 2 held, 0 sold
            a set 1 3 -> active, line 1 p 3, total 3.00, until 1800.000
                6 free, 3 held, 0 sold
            again release p
            a checkout -> order of line 1 p 3, total 3.00
                6 free, 0 held, 3 sold
        "#]],
    );
}

/// The decision is proposed and never committed. No inventory may sell because of it, even if the cart waits long.
#[test]
pub(crate) fn messages_of_uncommitted_events_are_not_sent_again() {
    check(
        "product p 9 1.00
         a hold p 3
         freeze a
         a checkout
         wait 5
         crash a
         thaw a
         a get",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 3 -> line 1 p 3, until 1800.000
                6 free, 3 held, 0 sold
            freeze a
            a checkout -> (waits as #3)
            wait 5
            crash a
            thaw a
            a get -> active, line 1 p 3, total 3.00, until 1800.000
        "#]],
    );
}

/// The leader that began the checkout may have asked the gateway before it crashed. Its successor cannot know.
#[test]
pub(crate) fn a_resumed_checkout_that_falls_short_voids_its_authorization() {
    check(
        "product p 9 1.00
         product q 1 1.00 late
         a hold q 1
         stop q
         a pay keep
         crash a
         stop a
         lose q
         go q
         b hold q 1
         b pay
         go a
         wait 2
         a get
         gateway",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            product q 1 1.00 late -> 1 free, 0 held, 0 sold
            a hold q 1 -> line 1 q 1 late, until 1800.000
            stop q
            a pay keep -> (waits as #4)
            crash a
            stop a
            lose q
            go q
            b hold q 1 -> line 1 q 1 late, until 1800.000
            b pay -> order of line 1 q 1, total 1.00, Authorized
                q  0 free, 0 held, 1 sold
            go a
            wait 2
            a get -> active, line 1 q 1 late, total 1.00, until 1800.000
            gateway -> a-1: voided; b-1: authorized 100 captured 100
        "#]],
    );
}

/// The cart lives on without a line whose ask is under way. Its inventory receives the disowning before the ask.
#[test]
pub(crate) fn a_disowned_hold_is_remembered_until_its_cart_has_ended() {
    check(
        "product p 9 1.00
         hall aaaa
         session s
         a hold p 1
         stop s
         a hold s 0.0
         gateway shut
         a pay
         wait 2
         lose s
         again release s
         again hold s
         stop a
         go s
         go a
         gateway open
         wait 2
         a get",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            hall aaaa -> done
            session s -> 4 free, 0 held, 0 sold, 0 blocked
            a hold p 1 -> line 1 p 1, until 1800.000
                p  8 free, 1 held, 0 sold
            stop s
            a hold s 0.0 -> (waits as #5)
            gateway shut
            a pay -> (waits as #6)
            wait 2
            lose s
            again release s
            again hold s
            stop a
            go s
            go a
            gateway open
                p  8 free, 0 held, 1 sold
            wait 2
            a get -> done, line 1 p 1, total 1.00
        "#]],
    );
}

/// A touched cart lives longer than its inventory was told. The earlier message comes a second time, late.
#[test]
pub(crate) fn an_old_still_mine_does_not_shorten_a_life() {
    check(
        "product p 9 1.00
         a open 20
         a hold p 1
         wait 12
         wait 7
         a set 1 1
         wait 3.5
         again mine p
         wait 10
         a get",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a open 20 -> active, until 20.000
            a hold p 1 -> line 1 p 1, until 20.000
                8 free, 1 held, 0 sold
            wait 12
            wait 7
            a set 1 1 -> active, line 1 p 1, total 1.00, until 39.000
            wait 3.5
            again mine p
            wait 10
            a get -> active, line 1 p 1, total 1.00, until 39.000
        "#]],
    );
}

/// A release that arrives after its inventory forgot the cart is forgotten too.
#[test]
pub(crate) fn a_late_release_is_forgotten() {
    let mut fixture = Fixture::new(Rules::default());
    let put = ProductCommand::Put(Box::new(product(euros(100), 9)));
    fixture.send(Some("put"), Command::Product(id("p"), put));
    let line = WantedLine::new(Entity::Product(id("p")), Want::Units { quantity: 2, now: false });
    fixture.send(Some("hold"), Command::Cart(cart("a"), hold_lines(vec![line.clone()])));
    fixture.run();
    fixture.send(Some("release"), Command::Cart(cart("a"), CartCommand::Release { line: 1, seats: None }));
    fixture.run();
    fixture.send(Some("again"), Command::Cart(cart("a"), hold_lines(vec![line])));
    fixture.send(Some("cancel"), Command::Cart(cart("a"), CartCommand::Cancel));
    fixture.run();
    let product = Entity::Product(id("p"));
    let remembered =
        |fixture: &Fixture| fixture.states.get(&product).expect("the product is there").remembered_releases();
    assert_eq!(remembered(&fixture), 0, "the cart has ended");
    let mut releases = fixture.posted.iter().filter(|message| message.to == product && kind(message) == "release");
    let late = releases.next().expect("a line was released").clone();
    fixture.post(late);
    fixture.run();
    assert_eq!(remembered(&fixture), 0, "a late release is not remembered");
}

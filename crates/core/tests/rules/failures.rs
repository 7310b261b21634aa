//! An inventory's decision on a hold fails. The client is answered, and nothing stays held.

use boxoffice_core::{
    ask::{Ask, Reply},
    command::{Command, ProductCommand, Want, WantedLine},
    host::Input,
    id::Entity,
    refusal::Refusal,
    rules::Rules,
    state_map::State,
};

use crate::{
    fixture::{Fixture, Message},
    script::{cart, euros, hold_lines, id, product},
};

/// The first ask was granted, but the grant is lost. The decision on the second one fails. The cart does not know of the grant,
/// but releases it nevertheless.
#[test]
fn a_hold_that_may_have_been_granted_before_a_failure_is_released() {
    let mut fixture = Fixture::new(Rules::default());
    for name in ["p", "q"] {
        let put = ProductCommand::Put(Box::new(product(euros(100), 9)));
        fixture.send(Some(name), Command::Product(id(name), put));
    }
    fixture.run();
    let (buyer, failing) = (Entity::Cart(cart("a")), Entity::Product(id("p")));
    let line = |name| WantedLine::new(Entity::Product(id(name)), Want::Units { quantity: 2, now: false });
    let ticket = fixture.send(Some("hold"), Command::Cart(cart("a"), hold_lines(vec![line("p"), line("q")])));
    // The cart asks. Both grant, and their replies are lost.
    let request = fixture.mail.pop_front().expect("the command is on its way");
    fixture.deliver(request);
    fixture.run_but(|to| *to != buyer, |_| true);
    fixture.mail.clear();
    let asked = fixture.posted.iter().rev().find_map(|message| match &message.input {
        Input::Ask { ask: Ask::Hold { hold, revision, .. }, .. } if message.to == failing => Some((*hold, *revision)),
        _ => None,
    });
    let (hold, revision) = asked.expect("a hold was requested");
    let held = |fixture: &Fixture, name| match fixture.states.get(&Entity::Product(id(name))).as_deref() {
        Some(State::Product(product)) => product.counts().held,
        other => panic!("{other:?}"),
    };
    assert_eq!((held(&fixture, "p"), held(&fixture, "q")), (2, 2));

    let reply = Reply::Refused { hold, revision, refusal: Refusal::Internal };
    fixture.post(Message { to: buyer, input: Input::Reply { from: failing, reply } });
    fixture.wait(Rules::default().ask_again_ms + 1, Fixture::run);
    let refusal = fixture.answers[&ticket].clone().expect_err("it is refused");
    assert!(refusal.is_internal(), "{refusal}");
    assert_eq!((held(&fixture, "p"), held(&fixture, "q")), (0, 0), "everything is released");
}

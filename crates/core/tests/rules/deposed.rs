//! A deposed leader that does not know its successor may receive any part of the later messages. Its answers are lost, because
//! none of its decisions can be committed. But it must not panic.

use std::sync::Arc;

use boxoffice_core::{
    ask::{Ask, Reply},
    command::{BestWish, CartCommand, Command, ProductCommand, Want, WantedLine},
    host::{Effect, Host, Input, Turn},
    id::{Entity, HoldId, RequestHash},
    portion::Portion,
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::StateMap,
    time::Timestamp,
};

use crate::{
    catalogue::open,
    fixture::{Fixture, Message, Ticket},
    random_runs::{Rng, after_run},
    script::{cart, euros, id, layout, product},
};

const SEEDS: u64 = 500;

/// Runs a host with the entity's state after `after` events of the log. It then receives some of all messages to the entity.
fn depose(fixture: &Fixture, entity: &Entity, after: usize, rng: &mut Rng) {
    let mut states = StateMap::new();
    let events = fixture.log[..after].iter().filter(|(of, _)| of == entity);
    events.for_each(|(of, event)| _ = states.apply(of, vec![event.clone()]));
    let mut host: Host<Ticket> = Host::new(entity.clone(), states.get(entity), Arc::new(fixture.rules().clone()));
    let mut turn = Turn::default();
    let mut at = Timestamp(0);
    for Message { input, .. } in fixture.posted.iter().filter(|message| message.to == *entity) {
        if rng.below(100) < 30 {
            continue;
        }
        at = at.max(Timestamp(rng.below(fixture.now.0 + 1)));
        turn.clear();
        host.handle(at, input.clone(), &mut turn);
    }
}

#[test]
fn deposed_inventories() {
    for seed in 0..SEEDS {
        let fixture = after_run(seed);
        let mut rng = Rng(seed);
        let entities = fixture.states.entities().map(|(entity, _)| entity.clone());
        let inventories: Vec<Entity> = entities
            .filter(|entity| match entity {
                Entity::Session(_) | Entity::Product(_) | Entity::Resource(_) => true,
                Entity::Customer(_) | Entity::Code(_) => true,
                Entity::Cart(_) | Entity::Venue(_) | Entity::Directory | Entity::Cluster => false,
            })
            .collect();
        for entity in inventories {
            for _ in 0..12 {
                let after = fixture.turns[rng.below(fixture.turns.len() as u64) as usize];
                println!("seed {seed}: {entity} was stopped after event {after}");
                depose(&fixture, &entity, after, &mut rng);
            }
        }
    }
}

/// A deposed leader may give a hold other seats than its successor. It must not apply messages about the successor's seats to
/// its own.
#[test]
pub(crate) fn a_hold_that_has_other_seats_at_the_successor() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aaaaaa"), &["s"]);
    let session = Entity::Session(id("s"));
    let mut host: Host<Ticket> = Host::new(session.clone(), fixture.states.get(&session), Arc::new(Rules::default()));
    let hold = |name| HoldId { cart: cart(name), request: RequestHash(1), part: 0, attempt: 0 };
    let best = |count| {
        Want::Best(BestWish {
            count,
            category: None,
            section: None,
            accessible: 0,
            split: false,
            buy_as: Default::default(),
        })
    };
    let wanted = |name, count| Ask::Hold {
        hold: hold(name),
        revision: 1,
        want: best(count),
        life_ms: 1_000_000,
        holder: None,
        desk: false,
        code: None,
        attributes: Vec::new(),
        customer: None,
    };
    let seats = |seats: &[u16]| {
        Portion::Seats(SeatSet::new(seats.iter().map(|seat| Seat { row: 0, seat: *seat })).expect("seats"))
    };
    // The successor does not know `b`, so there `a` has the seats in the middle.
    for (name, ask, expected) in [
        ("b", wanted("b", 2), 1),
        ("a", wanted("a", 2), 1),
        (
            "a",
            Ask::Release { hold: hold("a"), revision: 1 << 20, left: Some(seats(&[2])), last: false, expired: false },
            0,
        ),
        (
            "a",
            Ask::Sell {
                hold: hold("a"),
                revision: 2 << 20,
                portion: seats(&[2]),
                order: cart("a").order(),
                at: Timestamp(5),
            },
            0,
        ),
    ] {
        let mut turn = Turn::default();
        let what = format!("{ask:?}");
        host.handle(Timestamp(5), Input::Ask { from: Entity::Cart(cart(name)), ask }, &mut turn);
        let replies = turn.committed.iter().chain(&turn.read).filter(|effect| matches!(effect, Effect::Reply { .. }));
        assert_eq!((replies.count(), turn.events.len()), (expected, expected), "{what}: {turn:?}");
    }
}

/// A deposed host of a cart asks for the hold that its successor has made a line of and let grow. It learns that its ask is stale,
/// and must not take the hold away from the line by a higher revision before it has read who leads.
#[test]
pub(crate) fn a_deposed_cart_does_not_outrank_its_successor() {
    let mut fixture = Fixture::new(Rules::default());
    let put = ProductCommand::Put(Box::new(product(euros(250), 9)));
    fixture.send(Some("put"), Command::Product(id("p"), put));
    fixture.run();
    let (of_cart, of_product) = (Entity::Cart(cart("a")), Entity::Product(id("p")));
    let units = |quantity| {
        let lines = vec![WantedLine::new(of_product.clone(), Want::Units { quantity, now: false })];
        Command::Cart(
            cart("a"),
            CartCommand::Hold { lines, customer: None, guest: false, holder: None, attributes: Vec::new() },
        )
    };
    fixture.depose(&of_cart, 0);
    for request in ["three", "two"] {
        fixture.send(Some(request), units(if request == "three" { 3 } else { 2 }));
        if request == "three" {
            let both = fixture.mail.back().expect("the command").input.clone();
            fixture.send_to_deposed(0, both);
            // Its ask arrives after everything else.
            fixture.mail.pop_back();
        }
        fixture.run();
    }
    let asked =
        fixture.posted.iter().find(|message| message.to == of_product && matches!(message.input, Input::Ask { .. }));
    let asked = asked.expect("the hold is asked for").clone();
    let Input::Ask { ask: Ask::Hold { hold, .. }, .. } = asked.input else { panic!("{asked:?} asks for no hold") };
    let held = |fixture: &Fixture| Some(fixture.states.get(&of_product)?.held(hold)?.quantity());
    assert_eq!(held(&fixture), Some(5));
    fixture.deliver(asked);
    fixture.run_but(|entity| *entity != of_cart, |_| true);
    let stale = fixture.mail.pop_back().expect("a reply").input;
    assert!(matches!(stale, Input::Reply { reply: Reply::Stale { .. }, .. }), "{stale:?}");
    fixture.send_to_deposed(0, stale);
    fixture.run();
    assert_eq!(held(&fixture), Some(5));
}

//! Races of many carts for the last unit, and messages of one line in every order.

use boxoffice_core::{
    answer::CartState,
    command::{Area, CartCommand, Command, ProductCommand, ResourceCommand, VenueCommand, Want, WantedLine},
    id::{CartId, Entity},
    rules::Rules,
    state_map::State,
    time::Timestamp,
};

use expect_test::expect;

use crate::{
    catalogue::open,
    fixture::Fixture,
    random_runs::Rng,
    script::{cart, check, check_out, euros, hold_lines, id, layout, new_session, product, resource},
};

const CARTS: u128 = 500;

fn fixture(stock: u64) -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aa");
    open(&mut fixture, &hall, &[]);
    let stand =
        Area { id: id("stand"), name: "Stand".into(), capacity: 1, price: euros(500), names: Default::default() };
    let mut session = new_session("s", &hall, 1_000_000, 2_000_000, None);
    session.areas.push(stand);
    fixture.send(Some("create"), Command::Venue(id("venue"), VenueCommand::CreateSession(session)));
    fixture.send(Some("put"), Command::Product(id("p"), ProductCommand::Put(Box::new(product(euros(100), stock)))));
    fixture.send(Some("put"), Command::Resource(id("r"), ResourceCommand::Put(Box::new(resource(euros(100))))));
    fixture.run();
    fixture
}

fn units(quantity: u32) -> WantedLine {
    WantedLine::new(Entity::Product(id("p")), Want::Units { quantity, now: false })
}

#[test]
fn five_hundred_carts_for_the_last_one() {
    let last_place = WantedLine::new(Entity::Session(id("s")), Want::places(id("stand"), 1));
    let slot = Want::Slot { begin: Timestamp(5_000_000), end: Timestamp(6_000_000), details: "".into() };
    let same_slot = WantedLine::new(Entity::Resource(id("r")), slot);
    for (seed, wanted) in (0..).zip([units(1), last_place, same_slot]) {
        let mut fixture = fixture(1);
        let mut rng = Rng(seed);
        let hold = |cart| Command::Cart(CartId(cart), hold_lines(vec![wanted.clone()]));
        let tickets: Vec<_> = (1..=CARTS).map(|cart| fixture.send(Some("hold"), hold(cart))).collect();
        while !fixture.mail.is_empty() || !fixture.proposing().is_empty() {
            let place = rng.below(1 + fixture.mail.len() as u64) as usize;
            if let Some(message) = fixture.mail.remove(place) {
                fixture.deliver(message);
            } else if let Some(entity) = fixture.proposing().first() {
                fixture.commit(entity);
            }
        }
        let won: Vec<u128> =
            (1..).zip(&tickets).filter(|(_, ticket)| fixture.answers[ticket].is_ok()).map(|(cart, _)| cart).collect();
        let [winner] = won[..] else { panic!("{} carts got {wanted:?}", won.len()) };
        assert_eq!(fixture.answers.len(), tickets.len() + 4 + 1, "every client is answered");
        // The winner buys, and no other cart can.
        let bought = fixture.send(Some("pay"), Command::Cart(CartId(winner), check_out()));
        let late = fixture.send(Some("again"), hold(winner % CARTS + 1));
        fixture.run();
        assert!(fixture.answers[&bought].is_ok() && fixture.answers[&late].is_err());
        assert_eq!(fixture.states.audit().orders, 1);
    }
}

/// Both arrive in the same millisecond, in both orders. The first one at the cart wins.
#[test]
fn checkout_against_expiry_in_the_same_millisecond() {
    for before in [true, false] {
        let mut fixture = fixture(5);
        fixture.send(Some("hold"), Command::Cart(cart("a"), hold_lines(vec![units(2)])));
        fixture.run();
        let deadline = Rules::default().hold_ttl_ms;
        fixture.pass(Timestamp(if before { deadline - 1 } else { deadline }));
        let ticket = fixture.send(Some("pay"), Command::Cart(cart("a"), check_out()));
        let wake = fixture.mail.pop_front().filter(|_| !before);
        fixture.mail.extend(wake);
        fixture.pass(Timestamp(deadline));
        fixture.run();
        fixture.pass(Timestamp(deadline + 60_000));
        fixture.run();
        assert_eq!(
            fixture.answers.get(&ticket).is_some_and(Result::is_ok),
            before && fixture.states.audit().orders == 1
        );
        assert_eq!(fixture.states.audit().units.held, 0);
    }
}

/// One run of an exhaustive search over all orders. Each choice selects one of the possible next steps.
fn one_order(commands: &[CartCommand], choices: &[usize]) -> (Fixture, Vec<usize>) {
    let mut fixture = fixture(6);
    fixture.send(Some("hold"), Command::Cart(cart("a"), hold_lines(vec![units(3)])));
    fixture.run();
    for (number, command) in (0..).zip(commands) {
        fixture.send(Some(&format!("c{number}")), Command::Cart(cart("a"), command.clone()));
    }
    // The number of possible steps at each step.
    let mut options = Vec::new();
    loop {
        let proposing = fixture.proposing();
        let all = fixture.mail.len() + proposing.len();
        if all == 0 {
            return (fixture, options);
        }
        let choice = choices.get(options.len()).copied().unwrap_or(0);
        options.push(all);
        if choice < fixture.mail.len() {
            let message = fixture.mail.remove(choice).expect("one of them");
            fixture.deliver(message);
        } else {
            fixture.commit(&proposing[choice - fixture.mail.len()]);
        }
    }
}

/// Growth, release and checkout of one line, with messages and commits in every order. The first steps are exhaustive, and the
/// rest follows the order of the queue.
#[test]
fn growth_release_and_checkout_of_one_line_in_every_order() {
    let set =
        |quantity| CartCommand::SetQuantity { line: 1, quantity, guest: false, holder: None, attributes: Vec::new() };
    let release = || CartCommand::Release { line: 1, seats: None };
    let revoke = || CartCommand::Revoke { line: 1, reason: "".into() };
    let mut runs = 0;
    for commands in [
        vec![set(5), set(1), check_out()],
        vec![set(5), release(), check_out()],
        vec![set(5), revoke(), check_out()],
        vec![set(2), set(4), check_out()],
        vec![set(9), hold_lines(vec![units(1)]), release()],
    ] {
        let mut choices: Vec<usize> = Vec::new();
        loop {
            let (mut fixture, options) = one_order(&commands, &choices);
            runs += 1;
            for _ in 0..20 {
                let Some(wake) = fixture.next_wake() else { break };
                fixture.pass(wake);
                fixture.run();
            }
            let audit = fixture.states.audit();
            let state = fixture.states.get(&Entity::Cart(cart("a"))).expect("a cart");
            let State::Cart(states) = &*state else { panic!("not a cart") };
            assert_eq!((audit.units.held, audit.owed), (0, 0), "{commands:?} {choices:?}");
            let order = states.order().map_or(0, |order| order.lines.iter().map(|line| line.content.quantity()).sum());
            assert_eq!(audit.units.sold, u64::from(order), "{commands:?} {choices:?}");
            assert!(matches!(states.state(), Some(CartState::Done | CartState::Expired)), "{commands:?} {choices:?}");
            // The next combination of choices, for the first steps only.
            choices.resize(options.len().min(7), 0);
            while let Some(last) = choices.last() {
                if last + 1 < options[choices.len() - 1] {
                    break;
                }
                choices.pop();
            }
            match choices.last_mut() {
                Some(last) => *last += 1,
                None => break,
            }
        }
    }
    println!("{runs} orders");
    assert!(runs > 1_000, "{runs} orders");
}

/// A crash lost the request and left its hold. The inventory asks about it, and the request is repeated at the same moment. The
/// release comes first, so the request is not refused because of its own hold.
#[test]
pub(crate) fn a_repeat_does_not_meet_the_hold_of_its_first_attempt() {
    check(
        "resource r 12.00
         a open
         freeze a
         a hold r 100 200 as one
         crash a
         thaw a
         stop a
         wait 13
         freeze a
         go a
         a hold r 100 200 as one
         thaw a
         answers
         a get",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a open -> active, until 1800.000
            freeze a
            a hold r 100 200 as one -> (waits as #3)
                100-200 held
            crash a
            thaw a
            stop a
            wait 13
            freeze a
            go a
            a hold r 100 200 as one -> (waits as #4)
            thaw a
            answers
                #4 line 1 r 100-200, until 1813.000
            a get -> active, line 1 r 100-200, total 12.00, until 1813.000
        "#]],
    );
}

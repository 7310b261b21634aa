//! Late repeats of operators' changes (P9). After later changes and crashes, a repeat gets the first answer and changes nothing.

use boxoffice_core::{
    answer::{Answer, Outcome},
    calendar::BookingName,
    command::{
        CartCommand, Command, DirectoryCommand, ProductCommand, ProductDetails, ResourceCommand, SessionCommand, Title,
        VenueCommand, VenueDetails, Want, WantedLine, When,
    },
    id::{CartId, Entity},
    money::{Currency, Money},
    payment::{OnDecline, Settlement},
    refusal::Refusal,
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::StateMap,
    time::Timestamp,
};

use crate::{
    catalogue::open,
    fixture::Fixture,
    script::{check_out, details, euros, hold_lines, id, layout, pay, product, resource},
    states::written_and_read,
};

/// An event between a change and its repeat.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    /// Every host crashes.
    Crash,
    /// Another node reads everything from a snapshot.
    Snapshot,
    /// Another node replays the whole log.
    Replay,
}

const BETWEEN: [Between; 4] = [Between::Nothing, Between::Crash, Between::Snapshot, Between::Replay];

fn restart(fixture: &mut Fixture, between: Between) {
    let entities: Vec<Entity> = fixture.states.entities().map(|(entity, _)| entity.clone()).collect();
    let states = match between {
        Between::Nothing => return,
        Between::Crash => fixture.states.clone(),
        Between::Snapshot => written_and_read(&fixture.states),
        Between::Replay => {
            let mut states = StateMap::new();
            fixture.log.iter().for_each(|(entity, event)| _ = states.apply(entity, vec![event.clone()]));
            states
        }
    };
    entities.iter().for_each(|entity| fixture.crash(entity, 0));
    fixture.states = states;
    fixture.run();
}

/// A fixture with a venue, a hall, a session `s` of five seats, and a buyer's cart with a line.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aaa/aa"), &["s"]);
    fixture
}

fn outcome_of(fixture: &mut Fixture, request: &str, command: &Command) -> Outcome {
    let ticket = fixture.send(Some(request), command.clone());
    fixture.run();
    fixture.answers[&ticket].clone()
}

/// Two different puts of an entity.
struct PutPair {
    name: &'static str,
    one: Command,
    other: Command,
}

fn puts() -> Vec<PutPair> {
    let venue = |comments: &str| {
        Command::Venue(id("venue"), VenueCommand::Put(VenueDetails { comments: comments.into(), ..details() }))
    };
    let hall = |name: &'static str, seats: &str| {
        let put =
            VenueCommand::PutHall { hall: id("other"), name: name.into(), comments: "".into(), layout: layout(seats) };
        Command::Venue(id("venue"), put)
    };
    let title = |name: &str| {
        let (director, cast, comments) = ("".into(), Vec::new(), "".into());
        let title = Title { name: name.into(), director, cast, comments, duration_ms: None };
        Command::Directory(DirectoryCommand::PutTitle(id("t"), title))
    };
    let product =
        |price: i64, stock: u64| Command::Product(id("p"), ProductCommand::Put(Box::new(product(euros(price), stock))));
    let resource = |price: i64| Command::Resource(id("r"), ResourceCommand::Put(Box::new(resource(euros(price)))));
    vec![
        PutPair { name: "venue", one: venue("one"), other: venue("other") },
        PutPair { name: "hall", one: hall("One", "aaa"), other: hall("Other", "aaaa") },
        PutPair { name: "hall of one layout", one: hall("One", "aaa"), other: hall("Other", "aaa") },
        PutPair { name: "title", one: title("One"), other: title("Other") },
        PutPair { name: "product", one: product(100, 10), other: product(200, 20) },
        PutPair { name: "resource", one: resource(100), other: resource(200) },
    ]
}

#[test]
fn a_late_repeat_of_a_put_does_not_undo_a_newer_one() {
    for between in BETWEEN {
        for PutPair { name, one, other } in puts() {
            let mut fixture = fixture();
            let first = outcome_of(&mut fixture, "rid 1", &one);
            let second = outcome_of(&mut fixture, "rid 2", &other);
            // The same content is put again, and then another one. Either request may arrive late.
            let third = outcome_of(&mut fixture, "rid 3", &other);
            let fourth = outcome_of(&mut fixture, "rid 4", &one);
            let fifth = outcome_of(&mut fixture, "rid 5", &other);
            restart(&mut fixture, between);
            let (log, states) = (fixture.log.len(), written_and_read(&fixture.states));
            for (request, command, answers) in [
                ("rid 1", &one, &first),
                ("rid 2", &other, &second),
                ("rid 3", &other, &third),
                ("rid 4", &one, &fourth),
                ("rid 5", &other, &fifth),
                ("rid 1", &one, &first),
            ] {
                assert!(answers.is_ok(), "{name}: {answers:?}");
                assert_eq!(outcome_of(&mut fixture, request, command), *answers, "{name}, {request}, {between:?}");
            }
            assert_eq!(outcome_of(&mut fixture, "rid 1", &other), Err(Refusal::RequestIdReused), "{name}, {between:?}");
            assert_eq!(fixture.log.len(), log, "{name}, {between:?}: a repeat changed something");
            assert!(states.entities().eq(fixture.states.entities()), "{name}, {between:?}");
        }
    }
}

#[test]
fn answers_of_puts_show_the_put_content() {
    let [.., product, resource]: [PutPair; 6] = puts().try_into().ok().expect("six puts");
    let mut fixture = fixture();
    let stock = |outcome: Outcome| match outcome.map(|answered| answered.answer) {
        Ok(Answer::Product(view)) => (view.details.stock, view.counts.free, view.details.price.amount),
        other => panic!("not a product: {other:?}"),
    };
    assert_eq!(stock(outcome_of(&mut fixture, "rid 1", &product.one)), (10, 10, 100));
    // Units are held before the second put. Its answer and that of its repeat count them.
    let want = Want::Units { quantity: 3, now: false };
    let lines = vec![WantedLine::new(Entity::Product(id("p")), want)];
    outcome_of(&mut fixture, "hold", &Command::Cart(CartId(1), hold_lines(lines))).expect("there is stock");
    assert_eq!(stock(outcome_of(&mut fixture, "rid 2", &product.other)), (20, 17, 200));
    outcome_of(&mut fixture, "cancel", &Command::Cart(CartId(1), CartCommand::Cancel)).expect("a cart");
    assert_eq!(stock(outcome_of(&mut fixture, "rid 1", &product.one)), (10, 10, 100));
    assert_eq!(stock(outcome_of(&mut fixture, "rid 2", &product.other)), (20, 17, 200));
    let get = Command::Product(id("p"), ProductCommand::Get);
    assert_eq!(stock(outcome_of(&mut fixture, "get", &get)), (20, 20, 200), "the last put counts");

    let rate = |outcome: Outcome| match outcome.map(|answered| answered.answer) {
        Ok(Answer::Resource(view)) => (view.details.rate.amount, view.bookings),
        other => panic!("not a resource: {other:?}"),
    };
    assert_eq!(rate(outcome_of(&mut fixture, "rid 1", &resource.one)), (100, 0));
    outcome_of(&mut fixture, "book", &reserve(1)).expect("it is free");
    assert_eq!(rate(outcome_of(&mut fixture, "rid 2", &resource.other)), (200, 1));
    assert_eq!(rate(outcome_of(&mut fixture, "rid 1", &resource.one)), (100, 0));
    let get = Command::Resource(id("r"), ResourceCommand::Get);
    assert_eq!(rate(outcome_of(&mut fixture, "get", &get)), (200, 1), "the last put counts");
}

#[test]
fn a_put_that_was_committed_and_not_answered_is_found_by_its_repeat() {
    for PutPair { name, one, other } in puts() {
        let mut fixture = fixture();
        let entity = one.entity();
        let ticket = fixture.send(Some("rid 1"), one.clone());
        fixture.run_but(|to| *to == entity, |_| false);
        // The host dies between the commit and the answer.
        fixture.crash(&entity, 1);
        assert!(fixture.is_lost(ticket), "{name}");
        outcome_of(&mut fixture, "rid 2", &other).expect("a put");
        let log = fixture.log.len();
        outcome_of(&mut fixture, "rid 1", &one).expect("the entity was put");
        assert_eq!(fixture.log.len(), log, "{name}: the repeat undid a newer put");
        // If a put was lost with its host, its repeat writes it.
        let third = fixture.send(Some("rid 3"), one.clone());
        fixture.run_but(|to| *to == entity, |_| false);
        fixture.crash(&entity, 0);
        assert!(fixture.is_lost(third), "{name}");
        outcome_of(&mut fixture, "rid 3", &one).expect("a put");
        assert!(fixture.log.len() > log, "{name}: nothing was put");
    }
}

#[test]
fn a_venue_put_twice_is_answered_when_searches_find_it() {
    let mut fixture = fixture();
    let PutPair { one, other, .. } = puts().swap_remove(0);
    let venue = one.entity();
    // The directory is out of reach, so neither the put nor its repeat is answered.
    let first = fixture.send(Some("rid 1"), one.clone());
    fixture.run_but(|to| *to == venue, |_| true);
    let again = fixture.send(Some("rid 1"), one.clone());
    fixture.run_but(|to| *to == venue, |_| true);
    assert!(!fixture.answers.contains_key(&first) && !fixture.answers.contains_key(&again));
    fixture.run();
    assert!(fixture.answers[&first].is_ok());
    assert_eq!(fixture.answers[&first], fixture.answers[&again]);
    // The older details, which the directory knows, are answered at once, while newer ones are on their way.
    let newer = fixture.send(Some("rid 2"), other);
    fixture.run_but(|to| *to == venue, |_| true);
    let late = fixture.send(Some("rid 1"), one);
    fixture.run_but(|to| *to == venue, |_| true);
    assert_eq!(fixture.answers[&late], fixture.answers[&first]);
    assert!(!fixture.answers.contains_key(&newer));
    fixture.run();
    assert!(fixture.answers[&newer].is_ok());
}

#[test]
fn unchanged_details_are_not_listed_again() {
    let mut fixture = fixture();
    let same = Command::Venue(id("venue"), VenueCommand::Put(details()));
    let (log, posted) = (fixture.log.len(), fixture.posted.len());
    outcome_of(&mut fixture, "rid 9", &same).expect("the same details");
    assert_eq!((fixture.log.len(), fixture.posted.len()), (log + 1, posted + 1), "only the request was recorded");
}

#[test]
fn things_are_sold_in_one_currency_for_life() {
    let pounds = Money { amount: 100, currency: Currency::new("GBP").expect("three letters") };
    let of = |price: Money| {
        let details = ProductDetails { price, ..product(price, 10) };
        let product = Command::Product(id("p"), ProductCommand::Put(Box::new(details)));
        let resource = Command::Resource(id("r"), ResourceCommand::Put(Box::new(resource(price))));
        [product, resource]
    };
    let mut fixture = fixture();
    for (known, (foreign, raised)) in of(euros(100)).iter().zip(of(pounds).iter().zip(&of(euros(300)))) {
        outcome_of(&mut fixture, "rid 1", known).expect("it is new");
        let before = fixture.log.len();
        let refusal = outcome_of(&mut fixture, "rid 2", foreign).expect_err("the currency stays");
        let currency = euros(0).currency;
        let asked_currency = pounds.currency;
        assert_eq!(refusal, Refusal::CurrencyFixed { entity: known.entity(), currency, asked_currency });
        assert!([currency, asked_currency].iter().all(|of| refusal.to_string().contains(of.as_str())), "{refusal}");
        assert_eq!((refusal.code(), refusal.name()), (703, "currency_fixed"));
        assert_eq!(fixture.log.len(), before);
        outcome_of(&mut fixture, "rid 3", raised).expect("prices may change");
    }
}

fn reserve(hour: u64) -> Command {
    let when = When::Utc { begin: Timestamp(hour * 3_600_000), end: Timestamp((hour + 1) * 3_600_000) };
    let booking = id("b");
    Command::Resource(id("r"), ResourceCommand::Reserve { booking, when, repeat: None, details: "".into() })
}

/// Granted changes of one entity. Each undoes the one before.
fn histories() -> Vec<(&'static str, Vec<Command>)> {
    let seats = || vec![Seat { row: 0, seat: 0 }];
    let session = |command: SessionCommand| Command::Session(id("s"), command);
    let on_resource = |command: ResourceCommand| Command::Resource(id("r"), command);
    let on_cart = |command: CartCommand| Command::Cart(CartId(7), command);
    let moved = |hour: u64| {
        let when = When::Utc { begin: Timestamp(hour * 3_600_000), end: Timestamp((hour + 1) * 3_600_000) };
        on_resource(ResourceCommand::Move { booking: BookingName::Named(id("b")), when })
    };
    let stock = || Command::Product(id("p"), ProductCommand::Put(Box::new(product(euros(100), 10))));
    let units = |quantity: u32| {
        let want = Want::Units { quantity, now: false };
        on_cart(hold_lines(vec![WantedLine::new(Entity::Product(id("p")), want)]))
    };
    let opened = || on_cart(CartCommand::Open { customer: None, ttl_ms: None, guest: false });
    let settled = |attempt| on_cart(CartCommand::Settle { attempt, outcome: Settlement::Declined });
    let refund = || on_cart(CartCommand::Refund { lines: Some(vec![1]), reason: "rain".into() });
    let paid = |attempt| {
        let outcome = Settlement::Authorized { reference: "auth".into() };
        on_cart(CartCommand::Settle { attempt, outcome })
    };
    let by_gateway = || on_cart(pay(Some(OnDecline::Keep), None));
    vec![
        (
            "session",
            vec![
                session(SessionCommand::Block(seats())),
                session(SessionCommand::Unblock(seats())),
                session(SessionCommand::Block(seats())),
                session(SessionCommand::Unblock(seats())),
                session(SessionCommand::Cancel { reason: "rain".into() }),
            ],
        ),
        (
            "resource",
            vec![
                on_resource(ResourceCommand::Put(Box::new(resource(euros(100))))),
                reserve(1),
                moved(2),
                moved(3),
                on_resource(ResourceCommand::Cancel { booking: BookingName::Named(id("b")), series: false }),
                reserve(1),
                on_resource(ResourceCommand::Put(Box::new(resource(euros(200))))),
            ],
        ),
        (
            "cart",
            vec![
                stock(),
                opened(),
                units(2),
                opened(),
                on_cart(CartCommand::Revoke { line: 1, reason: "".into() }),
                opened(),
                units(1),
                on_cart(CartCommand::Cancel),
            ],
        ),
        ("paid cart", vec![stock(), units(2), by_gateway(), settled(1), by_gateway(), paid(2), refund()]),
    ]
}

#[test]
pub(crate) fn every_other_change_of_an_operator_is_found_by_its_repeat() {
    for between in BETWEEN {
        for (name, commands) in histories() {
            let mut fixture = fixture();
            // The gateway never answers, so an operator settles the attempts.
            fixture.gateway_open = false;
            let mut answers = Vec::new();
            for (number, command) in commands.iter().enumerate() {
                let by_gateway = matches!(command, Command::Cart(_, CartCommand::Checkout { .. }));
                let request = format!("rid {number}");
                let ticket = fixture.send(Some(&request), command.clone());
                fixture.run();
                if by_gateway {
                    assert!(!fixture.answers.contains_key(&ticket), "{name}: the gateway is unreachable");
                    continue;
                }
                let outcome = fixture.answers[&ticket].clone();
                let answered = outcome.unwrap_or_else(|no| panic!("{name}: {command:?} is refused: {no}"));
                answers.push((request, command, answered));
            }
            fixture.calls.clear();
            restart(&mut fixture, between);
            fixture.calls.clear();
            let (log, states) = (fixture.log.len(), written_and_read(&fixture.states));
            for (request, command, first) in answers {
                let again = outcome_of(&mut fixture, &request, command);
                let again = again.unwrap_or_else(|no| panic!("{name}: {request} is refused: {no}"));
                assert_eq!(again, first, "{name}, {request}, {between:?}");
                let other = Command::Cart(CartId(7), CartCommand::Revoke { line: 9, reason: "".into() });
                let other = match command.entity() {
                    Entity::Cart(_) => other,
                    Entity::Session(_) => Command::Session(id("s"), SessionCommand::Block(vec![])),
                    Entity::Resource(_) => reserve(9),
                    Entity::Product(_) => continue,
                    entity => panic!("no history contains {entity}"),
                };
                assert_eq!(
                    outcome_of(&mut fixture, &request, &other),
                    Err(Refusal::RequestIdReused),
                    "{name}, {request}"
                );
            }
            assert_eq!(fixture.log.len(), log, "{name}, {between:?}: a repeat changed something");
            assert!(states.entities().eq(fixture.states.entities()), "{name}, {between:?}");
        }
    }
}

#[test]
fn a_repeat_gets_the_versions_of_the_first_answer() {
    let opened =
        |number: u128| Command::Cart(CartId(number), CartCommand::Open { customer: None, ttl_ms: None, guest: false });
    let hold = |number: u128, seat: u16, units: u32| {
        // The first row has three of them.
        let seats = SeatSet::new([Seat { row: seat / 3, seat: seat % 3 }]).expect("a seat");
        let seats = Want::seats(seats, false);
        let units = Want::Units { quantity: units, now: false };
        let lines =
            vec![WantedLine::new(Entity::Session(id("s")), seats), WantedLine::new(Entity::Product(id("p")), units)];
        Command::Cart(CartId(number), hold_lines(lines))
    };
    let set = |quantity| {
        Command::Cart(
            CartId(1),
            CartCommand::SetQuantity { line: 2, quantity, guest: false, holder: None, attributes: Vec::new() },
        )
    };
    let release = Command::Cart(CartId(1), CartCommand::Release { line: 1, seats: None });
    let stock = Command::Product(id("p"), ProductCommand::Put(Box::new(product(euros(100), 10))));
    let bought = |number: u128| Command::Cart(CartId(number), check_out());
    let story = [
        stock,
        opened(1),
        hold(1, 0, 1),
        hold(2, 1, 1),
        hold(1, 2, 1),
        set(5),
        hold(2, 3, 1),
        set(3),
        release,
        bought(2),
        hold(3, 4, 1),
        bought(1),
        Command::Cart(CartId(3), CartCommand::Cancel),
    ];
    for between in BETWEEN {
        let mut fixture = fixture();
        let describe = |number: usize| format!("rid {number}");
        let first: Vec<Outcome> = story
            .iter()
            .enumerate()
            .map(|(number, command)| outcome_of(&mut fixture, &describe(number), command))
            .collect();
        let versions = |outcome: &Outcome| -> Vec<(String, u64)> {
            let answered = outcome.as_ref().unwrap_or_else(|no| panic!("{between:?}: refused: {no}"));
            answered.at.iter().map(|at| (at.entity.to_string(), at.version)).collect()
        };
        // The third hold is the second of the first cart. It has a new line, and more units of an existing line.
        let answers = [("session/s", 4), ("product/p", 4)].map(|(name, version)| (name.to_owned(), version));
        assert_eq!(versions(&first[4])[1..], answers, "{between:?}");
        // A checkout depends on the versions of all sales.
        let sold: Vec<String> = versions(&first[9]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(sold[1..], ["session/s", "session/s", "product/p"].map(String::from), "{between:?}");
        restart(&mut fixture, between);
        let log = fixture.log.len();
        for (number, command) in story.iter().enumerate().chain(story.iter().enumerate()) {
            let again = outcome_of(&mut fixture, &describe(number), command);
            assert_eq!(versions(&again), versions(&first[number]), "{number}, {between:?}");
        }
        assert_eq!(fixture.log.len(), log, "{between:?}: a repeat changed something");
    }
}

#[test]
fn a_hold_granted_before_a_crash_of_its_cart_has_its_own_version() {
    let mut fixture = fixture();
    let cart = Entity::Cart(CartId(1));
    let seats = |seat: u16| Want::seats(SeatSet::new([Seat { row: 0, seat }]).expect("a seat"), false);
    let hold = |number: u128, seat| {
        Command::Cart(CartId(number), hold_lines(vec![WantedLine::new(Entity::Session(id("s")), seats(seat))]))
    };
    let ticket = fixture.send(Some("rid 1"), hold(1, 0));
    // The session has granted it. The cart crashes before the line is committed.
    fixture.run_but(|_| true, |entity| *entity != cart);
    fixture.crash(&cart, 0);
    assert!(fixture.is_lost(ticket));
    let session_version = |outcome: Outcome| {
        let answered = outcome.expect("the seat is free, or held for it");
        answered.at.iter().find(|at| at.entity == Entity::Session(id("s"))).expect("the session was asked").version
    };
    assert_eq!(session_version(outcome_of(&mut fixture, "rid 1", &hold(2, 1))), 3);
    assert_eq!(
        session_version(outcome_of(&mut fixture, "rid 1", &hold(1, 0))),
        2,
        "the hold is older than the other cart's"
    );
}

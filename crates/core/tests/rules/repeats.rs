//! Late repeats of operators' changes (P9): whatever came after them and whatever crashed in between, a repeat is told what
//! the first was told, and changes nothing.

use boxoffice_core::{
    answer::{Answer, Outcome},
    command::{
        CartCommand, Command, DirectoryCommand, ProductCommand, ProductDetails, ResourceCommand, SessionCommand, Title,
        VenueCommand, VenueDetails, Want, WantedLine, When,
    },
    id::{CartId, Entity},
    state_map::StateMap,
    money::{Currency, Money},
    payment::{OnDecline, Settlement},
    refusal::Refusal,
    rules::Rules,
    seat::{Seat, SeatSet},
    time::Timestamp,
};

use crate::{
    catalogue::open,
    keeping::written_and_read,
    script::{check_out, details, euros, hold_lines, id, layout, pay, product, resource},
    town::Town,
};

/// What happens between a change and its repeat.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    /// Every host dies.
    Crash,
    /// Everything is written to a snapshot, and another node reads it.
    Snapshot,
    /// Another node reads the log from its beginning.
    Replay,
}

const BETWEEN: [Between; 4] = [Between::Nothing, Between::Crash, Between::Snapshot, Between::Replay];

fn restart(town: &mut Town, between: Between) {
    let entities: Vec<Entity> = town.kept.entities().map(|(entity, _)| entity.clone()).collect();
    let kept = match between {
        Between::Nothing => return,
        Between::Crash => town.kept.clone(),
        Between::Snapshot => written_and_read(&town.kept),
        Between::Replay => {
            let mut kept = StateMap::new();
            town.log.iter().for_each(|(entity, event)| _ = kept.apply(entity, vec![event.clone()]));
            kept
        }
    };
    entities.iter().for_each(|entity| town.crash(entity, 0));
    town.kept = kept;
    town.run();
}

/// A town with a venue, a hall, a session `s` of five seats, and a buyer's cart with a line.
fn town() -> Town {
    let mut town = Town::new(Rules::default());
    open(&mut town, &layout("aaa/aa"), &["s"]);
    town
}

fn say(town: &mut Town, request: &str, command: &Command) -> Outcome {
    let ticket = town.send(Some(request), command.clone());
    town.run();
    town.answers[&ticket].clone()
}

/// A thing that is put: two puts of it that differ.
struct Thing {
    name: &'static str,
    one: Command,
    other: Command,
}

fn things() -> Vec<Thing> {
    let venue = |comments: &str| {
        Command::Venue(id("venue"), VenueCommand::Put(VenueDetails { comments: comments.into(), ..details() }))
    };
    let hall = |name: &str, seats: &str| {
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
        Thing { name: "venue", one: venue("one"), other: venue("other") },
        Thing { name: "hall", one: hall("One", "aaa"), other: hall("Other", "aaaa") },
        Thing { name: "hall of one layout", one: hall("One", "aaa"), other: hall("Other", "aaa") },
        Thing { name: "title", one: title("One"), other: title("Other") },
        Thing { name: "product", one: product(100, 10), other: product(200, 20) },
        Thing { name: "resource", one: resource(100), other: resource(200) },
    ]
}

#[test]
fn a_late_repeat_of_a_put_does_not_undo_a_newer_one() {
    for between in BETWEEN {
        for Thing { name, one, other } in things() {
            let mut town = town();
            let first = say(&mut town, "rid 1", &one);
            let second = say(&mut town, "rid 2", &other);
            // What is so already is put again, and then something else: that request, too, may come late.
            let third = say(&mut town, "rid 3", &other);
            let fourth = say(&mut town, "rid 4", &one);
            let fifth = say(&mut town, "rid 5", &other);
            restart(&mut town, between);
            let (log, kept) = (town.log.len(), written_and_read(&town.kept));
            for (request, command, told) in [
                ("rid 1", &one, &first),
                ("rid 2", &other, &second),
                ("rid 3", &other, &third),
                ("rid 4", &one, &fourth),
                ("rid 5", &other, &fifth),
                ("rid 1", &one, &first),
            ] {
                assert!(told.is_ok(), "{name}: {told:?}");
                assert_eq!(say(&mut town, request, command), *told, "{name}, {request}, {between:?}");
            }
            assert_eq!(say(&mut town, "rid 1", &other), Err(Refusal::RequestIdReused), "{name}, {between:?}");
            assert_eq!(town.log.len(), log, "{name}, {between:?}: a repeat changed something");
            assert!(kept.entities().eq(town.kept.entities()), "{name}, {between:?}");
        }
    }
}

#[test]
fn the_answers_of_puts_say_what_was_put() {
    let [.., product, resource]: [Thing; 6] = things().try_into().ok().expect("six things");
    let mut town = town();
    let stock = |outcome: Outcome| match outcome.map(|answered| answered.answer) {
        Ok(Answer::Product(view)) => (view.details.stock, view.counts.free, view.details.price.amount),
        other => panic!("a product is answered {other:?}"),
    };
    assert_eq!(stock(say(&mut town, "rid 1", &product.one)), (10, 10, 100));
    // Units are held before the second put: its answer, and that of its repeat, count them.
    let want = Want::Units { quantity: 3, now: false };
    let lines = vec![WantedLine { entity: Entity::Product(id("p")), want }];
    say(&mut town, "hold", &Command::Cart(CartId(1), hold_lines(lines))).expect("there is stock");
    assert_eq!(stock(say(&mut town, "rid 2", &product.other)), (20, 17, 200));
    say(&mut town, "cancel", &Command::Cart(CartId(1), CartCommand::Cancel)).expect("a cart");
    assert_eq!(stock(say(&mut town, "rid 1", &product.one)), (10, 10, 100));
    assert_eq!(stock(say(&mut town, "rid 2", &product.other)), (20, 17, 200));
    let get = Command::Product(id("p"), ProductCommand::Get);
    assert_eq!(stock(say(&mut town, "get", &get)), (20, 20, 200), "it is as it was put last");

    let rate = |outcome: Outcome| match outcome.map(|answered| answered.answer) {
        Ok(Answer::Resource(view)) => (view.details.rate.amount, view.bookings),
        other => panic!("a resource is answered {other:?}"),
    };
    assert_eq!(rate(say(&mut town, "rid 1", &resource.one)), (100, 0));
    say(&mut town, "book", &reserve(1)).expect("it is free");
    assert_eq!(rate(say(&mut town, "rid 2", &resource.other)), (200, 1));
    assert_eq!(rate(say(&mut town, "rid 1", &resource.one)), (100, 0));
    let get = Command::Resource(id("r"), ResourceCommand::Get);
    assert_eq!(rate(say(&mut town, "get", &get)), (200, 1), "it is as it was put last");
}

#[test]
fn a_put_that_was_committed_and_not_answered_is_found_by_its_repeat() {
    for Thing { name, one, other } in things() {
        let mut town = town();
        let entity = one.entity();
        let ticket = town.send(Some("rid 1"), one.clone());
        town.run_but(|to| *to == entity, |_| false);
        // The host dies between the commit and the answer.
        town.crash(&entity, 1);
        assert!(town.is_lost(ticket), "{name}");
        say(&mut town, "rid 2", &other).expect("a put");
        let log = town.log.len();
        say(&mut town, "rid 1", &one).expect("it was put");
        assert_eq!(town.log.len(), log, "{name}: the repeat undid a newer put");
        // And what died with its host is put when it is repeated.
        let third = town.send(Some("rid 3"), one.clone());
        town.run_but(|to| *to == entity, |_| false);
        town.crash(&entity, 0);
        assert!(town.is_lost(third), "{name}");
        say(&mut town, "rid 3", &one).expect("a put");
        assert!(town.log.len() > log, "{name}: nothing was put");
    }
}

#[test]
fn a_venue_put_twice_is_answered_when_searches_find_it() {
    let mut town = town();
    let Thing { one, other, .. } = things().swap_remove(0);
    let venue = one.entity();
    // The directory is out of reach: neither the put nor its repeat is answered.
    let first = town.send(Some("rid 1"), one.clone());
    town.run_but(|to| *to == venue, |_| true);
    let again = town.send(Some("rid 1"), one.clone());
    town.run_but(|to| *to == venue, |_| true);
    assert!(!town.answers.contains_key(&first) && !town.answers.contains_key(&again));
    town.run();
    assert!(town.answers[&first].is_ok());
    assert_eq!(town.answers[&first], town.answers[&again]);
    // While newer details are on their way the older ones, which the directory knows, are answered at once.
    let newer = town.send(Some("rid 2"), other);
    town.run_but(|to| *to == venue, |_| true);
    let late = town.send(Some("rid 1"), one);
    town.run_but(|to| *to == venue, |_| true);
    assert_eq!(town.answers[&late], town.answers[&first]);
    assert!(!town.answers.contains_key(&newer));
    town.run();
    assert!(town.answers[&newer].is_ok());
}

#[test]
fn details_that_are_so_already_are_not_listed_again() {
    let mut town = town();
    let same = Command::Venue(id("venue"), VenueCommand::Put(details()));
    let (log, posted) = (town.log.len(), town.posted.len());
    say(&mut town, "rid 9", &same).expect("it is so already");
    assert_eq!((town.log.len(), town.posted.len()), (log + 1, posted + 1), "only the request was written down");
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
    let mut town = town();
    for (known, (foreign, dearer)) in of(euros(100)).iter().zip(of(pounds).iter().zip(&of(euros(300)))) {
        say(&mut town, "rid 1", known).expect("it is new");
        let before = town.log.len();
        let refusal = say(&mut town, "rid 2", foreign).expect_err("the currency stays");
        let currency = euros(0).currency;
        assert_eq!(refusal, Refusal::CurrencyFixed { entity: known.entity(), currency });
        assert_eq!((refusal.code(), refusal.name()), (703, "currency_fixed"));
        assert_eq!(town.log.len(), before);
        say(&mut town, "rid 3", dearer).expect("prices may change");
    }
}

fn reserve(hour: u64) -> Command {
    let when = When::Utc { begin: Timestamp(hour * 3_600_000), end: Timestamp((hour + 1) * 3_600_000) };
    let booking = id("b");
    Command::Resource(id("r"), ResourceCommand::Reserve { booking, when, repeat: None, details: "".into() })
}

/// Changes of one entity, all granted, of which each undoes the one before it.
fn histories() -> Vec<(&'static str, Vec<Command>)> {
    let seats = || vec![Seat { row: 0, seat: 0 }];
    let session = |command: SessionCommand| Command::Session(id("s"), command);
    let on_resource = |command: ResourceCommand| Command::Resource(id("r"), command);
    let on_cart = |command: CartCommand| Command::Cart(CartId(7), command);
    let moved = |hour: u64| {
        let when = When::Utc { begin: Timestamp(hour * 3_600_000), end: Timestamp((hour + 1) * 3_600_000) };
        on_resource(ResourceCommand::Move { booking: id("b"), when })
    };
    let stock = || Command::Product(id("p"), ProductCommand::Put(Box::new(product(euros(100), 10))));
    let units = |quantity: u32| {
        let want = Want::Units { quantity, now: false };
        on_cart(hold_lines(vec![WantedLine { entity: Entity::Product(id("p")), want }]))
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
                on_resource(ResourceCommand::Cancel { booking: id("b"), series: false }),
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
fn every_other_change_of_an_operator_is_found_by_its_repeat() {
    for between in BETWEEN {
        for (name, commands) in histories() {
            let mut town = town();
            // The gateway is never heard: an operator says how the attempts ended.
            town.bank_open = false;
            let mut told = Vec::new();
            for (number, command) in commands.iter().enumerate() {
                let by_gateway = matches!(command, Command::Cart(_, CartCommand::Checkout { .. }));
                let request = format!("rid {number}");
                let ticket = town.send(Some(&request), command.clone());
                town.run();
                if by_gateway {
                    assert!(!town.answers.contains_key(&ticket), "{name}: the gateway is out of reach");
                    continue;
                }
                let outcome = town.answers[&ticket].clone();
                let answered = outcome.unwrap_or_else(|no| panic!("{name}: {command:?} is refused: {no}"));
                told.push((request, command, answered));
            }
            town.calls.clear();
            restart(&mut town, between);
            town.calls.clear();
            let (log, kept) = (town.log.len(), written_and_read(&town.kept));
            for (request, command, first) in told {
                let again = say(&mut town, &request, command);
                let again = again.unwrap_or_else(|no| panic!("{name}: {request} is refused: {no}"));
                assert_eq!(again, first, "{name}, {request}, {between:?}");
                let other = Command::Cart(CartId(7), CartCommand::Revoke { line: 9, reason: "".into() });
                let other = match command.entity() {
                    Entity::Cart(_) => other,
                    Entity::Session(_) => Command::Session(id("s"), SessionCommand::Block(vec![])),
                    Entity::Resource(_) => reserve(9),
                    Entity::Product(_) => continue,
                    entity => panic!("{entity} is in none of the histories"),
                };
                assert_eq!(say(&mut town, &request, &other), Err(Refusal::RequestIdReused), "{name}, {request}");
            }
            assert_eq!(town.log.len(), log, "{name}, {between:?}: a repeat changed something");
            assert!(kept.entities().eq(town.kept.entities()), "{name}, {between:?}");
        }
    }
}

#[test]
fn a_repeat_is_told_the_versions_of_its_time() {
    let opened =
        |number: u128| Command::Cart(CartId(number), CartCommand::Open { customer: None, ttl_ms: None, guest: false });
    let hold = |number: u128, seat: u16, units: u32| {
        // The first row has three of them.
        let seats = SeatSet::new([Seat { row: seat / 3, seat: seat % 3 }]).expect("a seat");
        let seats = Want::Seats { seats, best_effort: false };
        let units = Want::Units { quantity: units, now: false };
        let lines = vec![
            WantedLine { entity: Entity::Session(id("s")), want: seats },
            WantedLine { entity: Entity::Product(id("p")), want: units },
        ];
        Command::Cart(CartId(number), hold_lines(lines))
    };
    let set = |quantity| Command::Cart(CartId(1), CartCommand::SetQuantity { line: 2, quantity });
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
        let mut town = town();
        let tell = |number: usize| format!("rid {number}");
        let first: Vec<Outcome> =
            story.iter().enumerate().map(|(number, command)| say(&mut town, &tell(number), command)).collect();
        let versions = |outcome: &Outcome| -> Vec<(String, u64)> {
            let answered = outcome.as_ref().unwrap_or_else(|no| panic!("{between:?}: refused: {no}"));
            answered.at.iter().map(|at| (at.entity.to_string(), at.version)).collect()
        };
        // The third hold is the second of the first cart: a line of its own, and more units of the line it has.
        let told = [("session/s", 4), ("product/p", 4)].map(|(name, version)| (name.to_owned(), version));
        assert_eq!(versions(&first[4])[1..], told, "{between:?}");
        // A checkout rests on everybody who has sold.
        let sold: Vec<String> = versions(&first[9]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(sold[1..], ["session/s", "session/s", "product/p"].map(String::from), "{between:?}");
        restart(&mut town, between);
        let log = town.log.len();
        for (number, command) in story.iter().enumerate().chain(story.iter().enumerate()) {
            let again = say(&mut town, &tell(number), command);
            assert_eq!(versions(&again), versions(&first[number]), "{number}, {between:?}");
        }
        assert_eq!(town.log.len(), log, "{between:?}: a repeat changed something");
    }
}

#[test]
fn a_hold_whose_cart_died_before_it_was_written_down_has_its_own_version() {
    let mut town = town();
    let cart = Entity::Cart(CartId(1));
    let seats =
        |seat: u16| Want::Seats { seats: SeatSet::new([Seat { row: 0, seat }]).expect("a seat"), best_effort: false };
    let hold = |number: u128, seat| {
        Command::Cart(
            CartId(number),
            hold_lines(vec![WantedLine { entity: Entity::Session(id("s")), want: seats(seat) }]),
        )
    };
    let ticket = town.send(Some("rid 1"), hold(1, 0));
    // The session has granted it; the cart dies before the line is committed.
    town.run_but(|_| true, |entity| *entity != cart);
    town.crash(&cart, 0);
    assert!(town.is_lost(ticket));
    let session_version = |outcome: Outcome| {
        let answered = outcome.expect("the seat is free, or held for it");
        answered.at.iter().find(|at| at.entity == Entity::Session(id("s"))).expect("it was asked").version
    };
    assert_eq!(session_version(say(&mut town, "rid 1", &hold(2, 1))), 3);
    assert_eq!(session_version(say(&mut town, "rid 1", &hold(1, 0))), 2, "the hold is older than the other cart's");
}

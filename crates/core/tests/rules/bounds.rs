//! Bad input and limits. Each gets its named refusal and changes nothing.

use boxoffice_core::{
    answer::{Answer, Outcome},
    cart::{CART_CHECKOUTS_MAX, CART_LINES_MAX, CART_OUTCOMES_MORE, CART_REQUESTS_MAX},
    command::{
        CartCommand, Command, HoldPolicy, ProductCommand, ProductDetails, SessionCommand, VenueCommand, Want,
        WantedLine,
    },
    id::{CartId, CartToken, Entity, Id},
    money::{AMOUNT_MAX, Currency, Money, PRICE_MAX},
    payment::{OnDecline, Settlement},
    portion::Note,
    refusal::{LineRefusal, Refusal},
    rules::Rules,
    seat::{HOLD_SEATS_MAX, Seat, SeatSet, SeatSetError},
    time::Timestamp,
};

use crate::{
    catalogue::open,
    fixture::Fixture,
    script::{check_out, details, euros, hold_lines, id, layout, new_session, pay, product},
    states::written_and_read,
    test_gateway::CallFate,
};

fn fixture(picture: &str, sessions: &[&str]) -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout(picture), sessions);
    fixture
}

fn outcome_of(fixture: &mut Fixture, request: &str, command: CartCommand) -> Outcome {
    let ticket = fixture.send(Some(request), Command::Cart(CartId(1), command));
    fixture.run();
    fixture.answers[&ticket].clone()
}

fn line(session: &str, seat: u16) -> WantedLine {
    let seats = SeatSet::new([Seat { row: 0, seat }]).expect("a seat");
    WantedLine::new(Entity::Session(id(session)), Want::seats(seats, false))
}

#[test]
fn seat_sets_have_one_to_twenty_seats() {
    let seats = |count: usize| SeatSet::new((0..count as u16).map(|seat| Seat { row: 0, seat }));
    assert_eq!(seats(HOLD_SEATS_MAX).map(|set| set.len()), Ok(HOLD_SEATS_MAX));
    assert_eq!(seats(HOLD_SEATS_MAX + 1), Err(SeatSetError::TooMany));
    // A million seats are not checked beyond the limit.
    assert_eq!(
        SeatSet::new((0..1_000_000u32).map(|n| Seat { row: (n >> 16) as u16, seat: n as u16 })),
        Err(SeatSetError::TooMany)
    );
}

#[test]
fn every_change_needs_a_request_id() {
    let mut fixture = fixture("aa", &["s"]);
    let changes = [
        Command::Cart(CartId(1), CartCommand::Open { customer: None, ttl_ms: None, guest: false }),
        Command::Cart(CartId(1), hold_lines(vec![line("s", 0)])),
        Command::Cart(CartId(1), CartCommand::Cancel),
        Command::Cart(CartId(1), check_out()),
        Command::Cart(CartId(1), CartCommand::Release { line: 1, seats: None }),
        Command::Session(id("s"), SessionCommand::Block(vec![Seat { row: 0, seat: 0 }])),
        Command::Session(id("s"), SessionCommand::Unblock(vec![Seat { row: 0, seat: 0 }])),
        Command::Venue(id("venue"), VenueCommand::Put(details())),
        Command::Venue(id("venue"), VenueCommand::CreateSession(new_session("x", &layout("a"), 1, 2, None))),
    ];
    let before = fixture.log.len();
    for command in changes {
        let ticket = fixture.send(None, command);
        fixture.run();
        assert_eq!(fixture.answers[&ticket], Err(Refusal::RequestIdMissing));
    }
    assert_eq!(fixture.log.len(), before);
}

#[test]
fn unknown_things_are_not_found() {
    let mut fixture = fixture("aa", &["s"]);
    let cart = || Refusal::NotFound("cart 00000000000000000000000000000001".into());
    assert_eq!(outcome_of(&mut fixture, "1", CartCommand::Get), Err(cart()));
    assert_eq!(outcome_of(&mut fixture, "2", CartCommand::Cancel), Err(cart()));
    assert_eq!(outcome_of(&mut fixture, "3", check_out()), Err(cart()));
    assert_eq!(outcome_of(&mut fixture, "4", CartCommand::Release { line: 1, seats: None }), Err(cart()));
    assert_eq!(outcome_of(&mut fixture, "5", CartCommand::Audit), Err(cart()));
    let order = Refusal::NotFound("order 00000000000000000000000000000001".into());
    assert_eq!(outcome_of(&mut fixture, "6", CartCommand::Order), Err(order));
    let session = Refusal::NotFound("session x".into());
    assert_eq!(
        outcome_of(&mut fixture, "7", hold_lines(vec![line("s", 0), line("x", 0)])),
        Err(Refusal::Lines(vec![LineRefusal { line: 1, refusal: session.clone() }]))
    );
    for command in [SessionCommand::Get, SessionCommand::Map, SessionCommand::Audit, SessionCommand::Block(vec![])] {
        let ticket = fixture.send(Some("request"), Command::Session(id("x"), command));
        fixture.run();
        assert_eq!(fixture.answers[&ticket], Err(session.clone()));
    }
    assert_eq!(fixture.states.audit().seats.held, 0, "the other session's seat was released");
    assert!(outcome_of(&mut fixture, "8", hold_lines(vec![line("s", 0)])).is_ok());
}

#[test]
fn times_to_live_have_bounds() {
    let mut fixture = fixture("aa", &["s"]);
    let max = Rules::default().hold_ttl_max_ms;
    for ttl_ms in [0, max + 1, u64::MAX] {
        let refusal =
            outcome_of(&mut fixture, "open", CartCommand::Open { customer: None, ttl_ms: Some(ttl_ms), guest: false });
        assert!(matches!(refusal, Err(Refusal::BadRequest(_))), "{refusal:?}");
    }
    let opened =
        outcome_of(&mut fixture, "open", CartCommand::Open { customer: None, ttl_ms: Some(max), guest: false })
            .expect("a day");
    let Answer::Cart(view) = opened.answer else { panic!("not a cart") };
    assert_eq!(view.deadline, Timestamp(max));
}

#[test]
fn a_touched_cart_ends_at_its_maximum_age() {
    let mut fixture = fixture("aa", &["s"]);
    let age = Rules::default().cart_age_max_ms;
    let step = Rules::default().hold_ttl_ms - 1;
    let mut touched = 0;
    loop {
        let held = outcome_of(&mut fixture, &format!("h{touched}"), hold_lines(vec![line("s", 0)]));
        let number = match held {
            Ok(held) => {
                let Answer::Held(held) = held.answer else { panic!("not a hold") };
                assert!(held.deadline <= Timestamp(age));
                held.lines[0].line
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::HoldAgeExceeded);
                break;
            }
        };
        outcome_of(&mut fixture, &format!("g{touched}"), CartCommand::Release { line: number, seats: None })
            .expect("its line");
        touched += 1;
        let now = fixture.now.after(step);
        while let Some(wake) = fixture.next_wake().filter(|wake| *wake <= now) {
            fixture.pass(wake);
            fixture.run();
        }
        fixture.pass(now);
        fixture.run();
    }
    assert_eq!(touched, age.div_ceil(step));
}

#[test]
fn a_cart_has_at_most_fifty_lines() {
    let mut fixture = fixture(&"a".repeat(60), &["s"]);
    let lines = |from: u16, to: u16| hold_lines((from..to).map(|seat| line("s", seat)).collect());
    let empty = outcome_of(&mut fixture, "0", hold_lines(vec![]));
    assert!(matches!(empty, Err(Refusal::BadRequest(_))), "{empty:?}");
    let many = outcome_of(&mut fixture, "1", lines(0, 51));
    assert!(matches!(many, Err(Refusal::BadRequest(_))), "{many:?}");
    assert!(outcome_of(&mut fixture, "2", lines(0, 49)).is_ok());
    assert_eq!(outcome_of(&mut fixture, "3", lines(49, 51)), Err(Refusal::TooManyLines(CART_LINES_MAX as u32)));
    assert!(outcome_of(&mut fixture, "4", lines(49, 50)).is_ok());
    assert_eq!(outcome_of(&mut fixture, "5", lines(50, 51)), Err(Refusal::TooManyLines(CART_LINES_MAX as u32)));
    let order = outcome_of(&mut fixture, "6", check_out()).expect("an order");
    assert!(matches!(order.answer, Answer::Order { order, settling: false, .. } if order.total.amount == 50_000));
}

#[test]
fn two_holds_under_way_do_not_add_up_to_too_many_lines() {
    let mut fixture = fixture(&"a".repeat(60), &["s"]);
    let lines =
        |from: u16, to: u16| Command::Cart(CartId(1), hold_lines((from..to).map(|seat| line("s", seat)).collect()));
    let first = fixture.send(Some("1"), lines(0, 30));
    let second = fixture.send(Some("2"), lines(30, 60));
    let third = fixture.send(Some("3"), lines(30, 50));
    fixture.run();
    assert!(fixture.answers[&first].is_ok() && fixture.answers[&third].is_ok());
    assert_eq!(fixture.answers[&second], Err(Refusal::TooManyLines(50)));
}

#[test]
fn a_cart_remembers_a_bounded_number_of_requests() {
    let mut fixture = fixture("aa", &["s"]);
    let mut granted = 0;
    let refusal = loop {
        match outcome_of(&mut fixture, &format!("h{granted}"), hold_lines(vec![line("s", 0)])) {
            Ok(_) => granted += 1,
            Err(refusal) => break refusal,
        }
        match outcome_of(&mut fixture, &format!("g{granted}"), CartCommand::Release { line: granted, seats: None }) {
            Ok(_) => {}
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(refusal, Refusal::BadRequest(_)), "{refusal:?}");
    assert_eq!(granted as usize, CART_REQUESTS_MAX / 2);
    // The cart can still be ended.
    assert!(outcome_of(&mut fixture, "end", CartCommand::Cancel).is_ok());
}

#[test]
fn holds_and_waiters_under_way_are_bounded() {
    let mut fixture = fixture(&"a".repeat(20), &["s"]);
    let session = Entity::Session(id("s"));
    let hold = |seat| Command::Cart(CartId(1), hold_lines(vec![line("s", seat)]));
    let holds: Vec<_> = (0..17).map(|seat| fixture.send(Some(&format!("h{seat}")), hold(seat))).collect();
    let waiters: Vec<_> = (0..256).map(|_| fixture.send(Some("h0"), hold(0))).collect();
    fixture.run_but(|to| *to != session, |_| true);
    assert!(matches!(fixture.answers[&holds[16]], Err(Refusal::BadRequest(_))));
    assert_eq!(fixture.answers[&waiters[255]], Err(Refusal::InProgress));
    assert_eq!(fixture.answers.len(), 2 + 3, "the others wait");
    fixture.run();
    assert!(waiters[..255].iter().chain(&holds[..16]).all(|ticket| fixture.answers[ticket].is_ok()));
}

#[test]
fn one_cart_pays_in_one_currency() {
    let mut fixture = fixture("aa", &["s"]);
    let mut session = new_session("d", &layout("aa"), 1_000, 2_000, None);
    let dollars = Money { amount: 1, currency: Currency::new("USD").expect("three letters") };
    session.prices.iter_mut().for_each(|(_, price)| *price = dollars);
    fixture.send(Some("create"), Command::Venue(id("venue"), VenueCommand::CreateSession(session)));
    fixture.run();
    let both = outcome_of(&mut fixture, "1", hold_lines(vec![line("s", 0), line("d", 0)]));
    let text = "the cart pays in EUR, session/d asks for USD; use another cart";
    assert_eq!(both, Err(Refusal::BadRequest(text.into())));
    assert_eq!(fixture.states.audit().seats.held, 0);
    assert!(outcome_of(&mut fixture, "2", hold_lines(vec![line("d", 0)])).is_ok());
    assert!(outcome_of(&mut fixture, "3", hold_lines(vec![line("s", 0)])).is_err());
    assert_eq!(fixture.states.audit().seats.held, 1);
}

#[test]
fn a_session_that_is_over_sells_only_held_seats() {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aaa");
    open(&mut fixture, &hall, &[]);
    let session = new_session("s", &hall, 1_000, 2_000, None);
    fixture.send(Some("create"), Command::Venue(id("venue"), VenueCommand::CreateSession(session)));
    fixture.run();
    fixture.pass(Timestamp(1_999));
    assert!(outcome_of(&mut fixture, "1", hold_lines(vec![line("s", 0)])).is_ok());
    fixture.pass(Timestamp(2_000));
    let over = outcome_of(&mut fixture, "2", hold_lines(vec![line("s", 1)]));
    assert_eq!(over, Err(Refusal::SessionClosed("it is over".into())));
    assert!(outcome_of(&mut fixture, "3", check_out()).is_ok());
    assert_eq!(fixture.states.audit().seats.sold, 1);
}

#[test]
fn ids_tokens_and_codes() {
    assert!(Id::new("A-z_0.9:x").is_some());
    let long = "x".repeat(65);
    assert!(["", "a b", "ä", "a/b", &long].into_iter().all(|text| Id::new(text).is_none()));
    assert!(["EU", "EURO", "eur", "E1R"].into_iter().all(|code| Currency::new(code).is_none()));
    let (token, other) = (CartToken(1), CartToken(2));
    assert!(boxoffice_core::command::owns(token, token.cart()) && !boxoffice_core::command::owns(other, token.cart()));
    assert_eq!(format!("{token:?}"), "CartToken(secret)");
    assert_eq!(token.cart().order().cart(), token.cart());
    // Placement uses these bytes and must never change.
    let key = |entity: &Entity| entity.with_key(<[u8]>::to_vec);
    assert_eq!(key(&Entity::Session(id("s1"))), b"s/s1");
    assert_eq!(key(&Entity::Venue(id("v"))), b"v/v");
    assert_eq!(key(&Entity::Cart(CartId(258)))[..], *b"c/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02");
}

fn units(quantity: u32) -> WantedLine {
    WantedLine::new(Entity::Product(id("p")), Want::Units { quantity, now: false })
}

fn shop(price: i64, stock: u64) -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    let details = Box::new(product(euros(price), stock));
    fixture.send(Some("put"), Command::Product(id("p"), ProductCommand::Put(details)));
    fixture.run();
    fixture
}

#[test]
fn the_total_of_a_cart_is_bounded() {
    let mut fixture = shop(PRICE_MAX, 1_000_000);
    let most = (AMOUNT_MAX / PRICE_MAX) as u32;
    let refusal = Refusal::BadRequest("the cart would come to more than any cart may".into());
    assert_eq!(outcome_of(&mut fixture, "1", hold_lines(vec![units(1_000_000)])), Err(refusal.clone()));
    assert_eq!(outcome_of(&mut fixture, "2", hold_lines(vec![units(most + 1)])), Err(refusal.clone()));
    assert_eq!(fixture.states.audit().units.held, 0);
    assert!(outcome_of(&mut fixture, "3", hold_lines(vec![units(most)])).is_ok());
    assert_eq!(
        outcome_of(
            &mut fixture,
            "4",
            CartCommand::SetQuantity {
                line: 1,
                quantity: most + 1,
                guest: false,
                holder: None,
                attributes: Vec::new()
            }
        ),
        Err(refusal.clone())
    );
    assert_eq!(outcome_of(&mut fixture, "5", hold_lines(vec![units(1)])), Err(refusal));
    assert_eq!(fixture.states.audit().units.held, u64::from(most));
    assert!(outcome_of(&mut fixture, "6", check_out()).is_ok());
}

#[test]
fn a_cart_that_has_answered_enough_can_still_pay_and_be_refunded() {
    let mut fixture = shop(100, 10);
    assert!(outcome_of(&mut fixture, "hold", hold_lines(vec![units(2)])).is_ok());
    let mut answered = 1;
    loop {
        let set = CartCommand::SetQuantity {
            line: 1,
            quantity: 2 + answered % 2,
            guest: false,
            holder: None,
            attributes: Vec::new(),
        };
        match outcome_of(&mut fixture, &format!("s{answered}"), set) {
            Ok(_) => answered += 1,
            Err(refusal) => break assert!(matches!(refusal, Refusal::BadRequest(_)), "{refusal:?}"),
        }
    }
    // Its product may remember the released hold, which counts as well.
    assert_eq!(answered as usize, CART_REQUESTS_MAX - 1);
    assert!(outcome_of(&mut fixture, "pay", pay(None, None)).is_ok());
    assert!(outcome_of(&mut fixture, "back", CartCommand::Refund { lines: None, reason: "ill".into() }).is_ok());
    assert_eq!(fixture.states.audit().units.free, 10);
}

#[test]
fn changes_that_wait_are_bounded_and_so_are_their_waiters() {
    let mut fixture = shop(100, 100);
    assert!(outcome_of(&mut fixture, "hold", hold_lines(vec![units(1)])).is_ok());
    let product = Entity::Product(id("p"));
    let set = |quantity| {
        Command::Cart(
            CartId(1),
            CartCommand::SetQuantity { line: 1, quantity, guest: false, holder: None, attributes: Vec::new() },
        )
    };
    let sets: Vec<_> = (2..20).map(|quantity| fixture.send(Some(&format!("s{quantity}")), set(quantity))).collect();
    let first: Vec<_> = (0..256).map(|_| fixture.send(Some("s2"), set(2))).collect();
    let queued: Vec<_> = (0..256).map(|_| fixture.send(Some("s3"), set(3))).collect();
    fixture.run_but(|to| *to != product, |_| true);
    assert!(matches!(fixture.answers[&sets[17]], Err(Refusal::BadRequest(_))), "one under way, sixteen wait");
    assert_eq!(fixture.answers[&first[255]], Err(Refusal::InProgress));
    assert_eq!(fixture.answers[&queued[255]], Err(Refusal::InProgress));
    fixture.run();
    let all = sets[..17].iter().chain(&first[..255]).chain(&queued[..255]);
    assert!(all.clone().all(|ticket| fixture.answers[ticket].is_ok()));
    assert_eq!(fixture.states.audit().units.held, 18);
}

/// Products that are reserved at the checkout only, one of each name.
fn late_shop(stocks: &[(&str, u64)]) -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    for (name, stock) in stocks {
        let details = ProductDetails { hold: HoldPolicy::AtCheckout, ..product(euros(100), *stock) };
        fixture.send(Some(&format!("put {name}")), Command::Product(id(name), ProductCommand::Put(Box::new(details))));
    }
    fixture.run();
    fixture
}

fn units_of(name: &str, quantity: u32) -> WantedLine {
    WantedLine::new(Entity::Product(id(name)), Want::Units { quantity, now: false })
}

#[test]
pub(crate) fn checkouts_of_one_cart_are_bounded() {
    for gateway in [false, true] {
        let mut fixture = late_shop(&[("p", 5), ("q", 0)]);
        assert!(outcome_of(&mut fixture, "hold", hold_lines(vec![units_of("p", 1), units_of("q", 1)])).is_ok());
        let checkout = || if gateway { pay(None, None) } else { check_out() };
        let mut refused = 0;
        let refusal = loop {
            match outcome_of(&mut fixture, "pay", checkout()) {
                Err(Refusal::OutOfStock(_)) => {
                    refused += 1;
                    assert!(refused <= CART_CHECKOUTS_MAX, "checkouts are not bounded");
                }
                Err(refusal) => break refusal,
                Ok(answer) => panic!("sold: {answer:?}"),
            }
        };
        assert!(matches!(&refusal, Refusal::BadRequest(why) if why.contains("use another cart")), "{refusal:?}");
        assert_eq!(refused, CART_CHECKOUTS_MAX);
        assert!(fixture.gateway.accounts.is_empty(), "no gateway was asked");
        assert_eq!(fixture.states.audit().units.held, 0, "all units are free again");
        assert!(outcome_of(&mut fixture, "get", CartCommand::Get).is_ok(), "the cart lives on");
        assert!(outcome_of(&mut fixture, "cancel", CartCommand::Cancel).is_ok());
    }
}

#[test]
pub(crate) fn a_checkout_refused_before_the_gateway_is_asked_is_no_attempt() {
    let mut fixture = late_shop(&[("p", 5), ("q", 0)]);
    assert!(outcome_of(&mut fixture, "hold", hold_lines(vec![units_of("p", 1), units_of("q", 1)])).is_ok());
    for turn in 0..3 {
        let no = outcome_of(&mut fixture, &format!("pay {turn}"), pay(None, None));
        assert!(matches!(no, Err(Refusal::OutOfStock(_))), "{no:?}");
    }
    assert!(outcome_of(&mut fixture, "less", CartCommand::Release { line: 2, seats: None }).is_ok());
    assert!(outcome_of(&mut fixture, "pay", pay(None, None)).is_ok());
    let keys: Vec<u32> = fixture.gateway.accounts.keys().map(|key| key.attempt).collect();
    assert_eq!(keys, [1], "the gateway was asked for one attempt, the first");
    fixture.check_money();
}

#[test]
pub(crate) fn traces_of_a_request_id_that_comes_with_other_bodies_are_bounded() {
    let names: Vec<String> = (0..1_100).map(|number| format!("p{number}")).collect();
    let mut fixture = Fixture::new(Rules::default());
    for (name, stock) in names.iter().map(|name| (name.as_str(), 1)).chain([("gone", 0)]) {
        let details = Box::new(product(euros(100), stock));
        fixture.send(Some(&format!("put {name}")), Command::Product(id(name), ProductCommand::Put(details)));
        fixture.run();
    }
    assert!(outcome_of(&mut fixture, "open", CartCommand::Open { customer: None, ttl_ms: None, guest: false }).is_ok());
    let hold = |names: &[String]| {
        let some = names.iter().map(|name| units_of(name, 1));
        hold_lines(some.chain([units_of("gone", 1)]).collect())
    };
    let refusals: Vec<_> = names.chunks(49).map(|some| outcome_of(&mut fixture, "again", hold(some))).collect();
    assert!(refusals.iter().all(Result::is_err));
    let last = refusals.last().expect("many were refused");
    assert!(matches!(last, Err(Refusal::BadRequest(why)) if why.contains("use another cart")), "{last:?}");
    assert_eq!(fixture.states.audit().units.held, 0);
}

/// A settlement can be repeated under new request ids. Each is remembered.
#[test]
pub(crate) fn repeated_settlements_are_bounded() {
    let mut fixture = shop(100, 10);
    assert!(outcome_of(&mut fixture, "hold", hold_lines(vec![units(1)])).is_ok());
    fixture.gateway.plan("authorize", &[CallFate::ReplyLost]);
    fixture.gateway.plan("void", &[CallFate::Declines]);
    fixture.send(Some("pay"), Command::Cart(CartId(1), pay(Some(OnDecline::Keep), None)));
    fixture.run();
    let settle = |outcome| CartCommand::Settle { attempt: 1, outcome };
    assert!(outcome_of(&mut fixture, "not", settle(Settlement::Declined)).is_ok());
    let bound = CART_REQUESTS_MAX + CART_OUTCOMES_MORE;
    let refused = (0..=bound).find_map(|number| {
        let result = outcome_of(&mut fixture, &format!("again {number}"), settle(Settlement::Declined));
        result.err().map(|refusal| (number, refusal))
    });
    let (number, refusal) = refused.expect("settlements are bounded");
    assert!(matches!(&refusal, Refusal::BadRequest(why) if why.contains("use another cart")), "{refusal:?}");
    // The outcome of the payment and the first settlement are remembered as well.
    assert_eq!(number, bound - 3);
    assert!(outcome_of(&mut fixture, "again 7", settle(Settlement::Declined)).is_ok(), "a repeat is not a new request");
    // A full cart still takes a needed settlement.
    assert!(outcome_of(&mut fixture, "by hand", settle(Settlement::Voided)).is_ok());
    assert_eq!(fixture.states.payments().failed, 0);
}

fn notes(outcome: &Outcome) -> Vec<&str> {
    let lines = match &outcome.as_ref().expect("it is granted").answer {
        Answer::Held(held) => &held.lines,
        Answer::Cart(cart) => &cart.lines,
        Answer::Order { order, .. } => &order.lines,
        other => panic!("{other:?} has no lines"),
    };
    lines.iter().map(|line| line.note.as_str()).collect()
}

#[test]
fn a_note_stays_with_its_line_until_it_is_changed() {
    let mut fixture = shop(100, 50);
    let noted = |quantity, note: &'static str| WantedLine { note: note.into(), ..units(quantity) };
    let set = |line, note: &'static str| CartCommand::SetNote { line, note: note.into() };
    let get = |fixture: &mut Fixture| outcome_of(fixture, "get", CartCommand::Get);

    assert_eq!(notes(&outcome_of(&mut fixture, "1", hold_lines(vec![noted(1, "a\tb\r\nc")]))), ["a\tb\r\nc"]);
    // A line that grows keeps its note unless it gets another one, and of several the last counts.
    assert_eq!(notes(&outcome_of(&mut fixture, "2", hold_lines(vec![units(1)]))), ["a\tb\r\nc"]);
    let more = outcome_of(&mut fixture, "3", hold_lines(vec![noted(1, "first"), noted(1, "last"), units(1)]));
    assert_eq!((notes(&more), notes(&get(&mut fixture))), (vec!["last"], vec!["last"]));
    let grown = CartCommand::SetQuantity { line: 1, quantity: 9, guest: false, holder: None, attributes: Vec::new() };
    assert_eq!(notes(&outcome_of(&mut fixture, "4", grown)), ["last"]);
    let reduced = CartCommand::SetQuantity { line: 1, quantity: 2, guest: false, holder: None, attributes: Vec::new() };
    assert_eq!(notes(&outcome_of(&mut fixture, "5", reduced)), ["last"]);

    // A repeat gets the answer of its request, and changes nothing.
    assert_eq!(notes(&outcome_of(&mut fixture, "6", set(1, ""))), [""]);
    assert_eq!(notes(&outcome_of(&mut fixture, "7", set(1, "gift"))), ["gift"]);
    assert_eq!(notes(&outcome_of(&mut fixture, "6", set(1, ""))), [""]);
    assert_eq!(notes(&get(&mut fixture)), ["gift"]);
    assert_eq!(outcome_of(&mut fixture, "8", set(2, "none")), Err(Refusal::NoSuchLine(2)));

    assert_eq!(notes(&outcome_of(&mut fixture, "9", check_out())), ["gift"]);
    assert_eq!(outcome_of(&mut fixture, "10", set(1, "late")), Err(Refusal::CartNotActive("done".into())));
    assert_eq!(notes(&get(&mut fixture)), ["gift"]);
}

/// The bound of a note is one of commands. A version with a lower bound opens what another version has stored.
#[test]
fn a_stored_note_that_is_longer_than_the_bound_is_opened() {
    let mut fixture = shop(100, 50);
    let long = "x".repeat(Note::BYTES_MAX + 1);
    let said = WantedLine { note: Note::as_said(long.as_str()), ..units(1) };
    assert!(said.note.check().is_err(), "a request with it is refused");
    assert_eq!(notes(&outcome_of(&mut fixture, "1", hold_lines(vec![said]))), [long.as_str()]);
    fixture.states = written_and_read(&fixture.states);
    fixture.crash(&Entity::Cart(CartId(1)), 0);
    assert_eq!(notes(&outcome_of(&mut fixture, "get", CartCommand::Get)), [long.as_str()]);
    assert_eq!(notes(&outcome_of(&mut fixture, "2", check_out())), [long.as_str()]);
}

//! Bad input and limits: each gets its named refusal, nothing changes, and life goes on.

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
    refusal::{LineRefusal, Refusal},
    rules::Rules,
    seat::{HOLD_SEATS_MAX, Seat, SeatSet, SeatSetError},
    time::Timestamp,
};

use crate::{
    bank::Mood,
    catalogue::open,
    script::{check_out, details, euros, hold_lines, id, layout, new_session, pay, product},
    town::Town,
};

fn town(picture: &str, sessions: &[&str]) -> Town {
    let mut town = Town::new(Rules::default());
    open(&mut town, &layout(picture), sessions);
    town
}

fn say(town: &mut Town, request: &str, command: CartCommand) -> Outcome {
    let ticket = town.send(Some(request), Command::Cart(CartId(1), command));
    town.run();
    town.answers[&ticket].clone()
}

fn line(session: &str, seat: u16) -> WantedLine {
    let seats = SeatSet::new([Seat { row: 0, seat }]).expect("a seat");
    WantedLine { entity: Entity::Session(id(session)), want: Want::Seats { seats, best_effort: false } }
}

#[test]
fn seat_sets_have_one_to_twenty_seats() {
    let seats = |count: usize| SeatSet::new((0..count as u16).map(|seat| Seat { row: 0, seat }));
    assert_eq!(seats(HOLD_SEATS_MAX).map(|set| set.len()), Ok(HOLD_SEATS_MAX));
    assert_eq!(seats(HOLD_SEATS_MAX + 1), Err(SeatSetError::TooMany));
    // A million seats are looked at no further than the limit.
    assert_eq!(
        SeatSet::new((0..1_000_000u32).map(|n| Seat { row: (n >> 16) as u16, seat: n as u16 })),
        Err(SeatSetError::TooMany)
    );
}

#[test]
fn what_changes_something_needs_a_request() {
    let mut town = town("aa", &["s"]);
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
    let before = town.log.len();
    for command in changes {
        let ticket = town.send(None, command);
        town.run();
        assert_eq!(town.answers[&ticket], Err(Refusal::RequestIdMissing));
    }
    assert_eq!(town.log.len(), before);
}

#[test]
fn unknown_things_are_not_found() {
    let mut town = town("aa", &["s"]);
    let cart = || Refusal::NotFound("cart 00000000000000000000000000000001".into());
    assert_eq!(say(&mut town, "1", CartCommand::Get), Err(cart()));
    assert_eq!(say(&mut town, "2", CartCommand::Cancel), Err(cart()));
    assert_eq!(say(&mut town, "3", check_out()), Err(cart()));
    assert_eq!(say(&mut town, "4", CartCommand::Release { line: 1, seats: None }), Err(cart()));
    assert_eq!(say(&mut town, "5", CartCommand::Audit), Err(cart()));
    let order = Refusal::NotFound("order 00000000000000000000000000000001".into());
    assert_eq!(say(&mut town, "6", CartCommand::Order), Err(order));
    let session = Refusal::NotFound("session x".into());
    assert_eq!(
        say(&mut town, "7", hold_lines(vec![line("s", 0), line("x", 0)])),
        Err(Refusal::Lines(vec![LineRefusal { line: 1, refusal: session.clone() }]))
    );
    for command in [SessionCommand::Get, SessionCommand::Map, SessionCommand::Audit, SessionCommand::Block(vec![])] {
        let ticket = town.send(Some("request"), Command::Session(id("x"), command));
        town.run();
        assert_eq!(town.answers[&ticket], Err(session.clone()));
    }
    assert_eq!(town.kept.audit().seats.held, 0, "the other session's seat was given back");
    assert!(say(&mut town, "8", hold_lines(vec![line("s", 0)])).is_ok());
}

#[test]
fn times_to_live_have_bounds() {
    let mut town = town("aa", &["s"]);
    let max = Rules::default().hold_ttl_max_ms;
    for ttl_ms in [0, max + 1, u64::MAX] {
        let refusal = say(&mut town, "open", CartCommand::Open { customer: None, ttl_ms: Some(ttl_ms), guest: false });
        assert!(matches!(refusal, Err(Refusal::BadRequest(_))), "{refusal:?}");
    }
    let opened =
        say(&mut town, "open", CartCommand::Open { customer: None, ttl_ms: Some(max), guest: false }).expect("a day");
    let Answer::Cart(view) = opened.answer else { panic!("a cart is answered otherwise") };
    assert_eq!(view.deadline, Timestamp(max));
}

#[test]
fn an_active_cart_ends_at_its_highest_age_however_often_it_is_touched() {
    let mut town = town("aa", &["s"]);
    let age = Rules::default().cart_age_max_ms;
    let step = Rules::default().hold_ttl_ms - 1;
    let mut touched = 0;
    loop {
        let held = say(&mut town, &format!("h{touched}"), hold_lines(vec![line("s", 0)]));
        let number = match held {
            Ok(held) => {
                let Answer::Held(held) = held.answer else { panic!("a hold is answered otherwise") };
                assert!(held.deadline <= Timestamp(age));
                held.lines[0].line
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::HoldAgeExceeded);
                break;
            }
        };
        say(&mut town, &format!("g{touched}"), CartCommand::Release { line: number, seats: None }).expect("its line");
        touched += 1;
        let now = town.now.after(step);
        while let Some(wake) = town.next_wake().filter(|wake| *wake <= now) {
            town.pass(wake);
            town.run();
        }
        town.pass(now);
        town.run();
    }
    assert_eq!(touched, age.div_ceil(step));
}

#[test]
fn a_cart_has_at_most_fifty_lines() {
    let mut town = town(&"a".repeat(60), &["s"]);
    let lines = |from: u16, to: u16| hold_lines((from..to).map(|seat| line("s", seat)).collect());
    let empty = say(&mut town, "0", hold_lines(vec![]));
    assert!(matches!(empty, Err(Refusal::BadRequest(_))), "{empty:?}");
    let many = say(&mut town, "1", lines(0, 51));
    assert!(matches!(many, Err(Refusal::BadRequest(_))), "{many:?}");
    assert!(say(&mut town, "2", lines(0, 49)).is_ok());
    assert_eq!(say(&mut town, "3", lines(49, 51)), Err(Refusal::TooManyLines(CART_LINES_MAX as u32)));
    assert!(say(&mut town, "4", lines(49, 50)).is_ok());
    assert_eq!(say(&mut town, "5", lines(50, 51)), Err(Refusal::TooManyLines(CART_LINES_MAX as u32)));
    let order = say(&mut town, "6", check_out()).expect("an order");
    assert!(matches!(order.answer, Answer::Order { order, settling: false, .. } if order.total.amount == 50_000));
}

#[test]
fn two_holds_under_way_do_not_add_up_to_too_many_lines() {
    let mut town = town(&"a".repeat(60), &["s"]);
    let lines =
        |from: u16, to: u16| Command::Cart(CartId(1), hold_lines((from..to).map(|seat| line("s", seat)).collect()));
    let first = town.send(Some("1"), lines(0, 30));
    let second = town.send(Some("2"), lines(30, 60));
    let third = town.send(Some("3"), lines(30, 50));
    town.run();
    assert!(town.answers[&first].is_ok() && town.answers[&third].is_ok());
    assert_eq!(town.answers[&second], Err(Refusal::TooManyLines(50)));
}

#[test]
fn a_cart_remembers_a_bounded_number_of_requests() {
    let mut town = town("aa", &["s"]);
    let mut granted = 0;
    let refusal = loop {
        match say(&mut town, &format!("h{granted}"), hold_lines(vec![line("s", 0)])) {
            Ok(_) => granted += 1,
            Err(refusal) => break refusal,
        }
        match say(&mut town, &format!("g{granted}"), CartCommand::Release { line: granted, seats: None }) {
            Ok(_) => {}
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(refusal, Refusal::BadRequest(_)), "{refusal:?}");
    assert_eq!(granted as usize, CART_REQUESTS_MAX / 2);
    // It may still be ended.
    assert!(say(&mut town, "end", CartCommand::Cancel).is_ok());
}

#[test]
fn holds_and_waiters_under_way_are_bounded() {
    let mut town = town(&"a".repeat(20), &["s"]);
    let session = Entity::Session(id("s"));
    let hold = |seat| Command::Cart(CartId(1), hold_lines(vec![line("s", seat)]));
    let holds: Vec<_> = (0..17).map(|seat| town.send(Some(&format!("h{seat}")), hold(seat))).collect();
    let waiters: Vec<_> = (0..256).map(|_| town.send(Some("h0"), hold(0))).collect();
    town.run_but(|to| *to != session, |_| true);
    assert!(matches!(town.answers[&holds[16]], Err(Refusal::BadRequest(_))));
    assert_eq!(town.answers[&waiters[255]], Err(Refusal::InProgress));
    assert_eq!(town.answers.len(), 2 + 3, "the others wait");
    town.run();
    assert!(waiters[..255].iter().chain(&holds[..16]).all(|ticket| town.answers[ticket].is_ok()));
}

#[test]
fn one_cart_pays_in_one_currency() {
    let mut town = town("aa", &["s"]);
    let mut session = new_session("d", &layout("aa"), 1_000, 2_000, None);
    let dollars = Money { amount: 1, currency: Currency::new("USD").expect("three letters") };
    session.prices.iter_mut().for_each(|(_, price)| *price = dollars);
    town.send(Some("create"), Command::Venue(id("venue"), VenueCommand::CreateSession(session)));
    town.run();
    let both = say(&mut town, "1", hold_lines(vec![line("s", 0), line("d", 0)]));
    let text = "the cart pays in EUR, session/d asks for USD; use another cart";
    assert_eq!(both, Err(Refusal::BadRequest(text.into())));
    assert_eq!(town.kept.audit().seats.held, 0);
    assert!(say(&mut town, "2", hold_lines(vec![line("d", 0)])).is_ok());
    assert!(say(&mut town, "3", hold_lines(vec![line("s", 0)])).is_err());
    assert_eq!(town.kept.audit().seats.held, 1);
}

#[test]
fn a_session_that_is_over_sells_no_more_but_what_is_held() {
    let mut town = Town::new(Rules::default());
    let hall = layout("aaa");
    open(&mut town, &hall, &[]);
    let session = new_session("s", &hall, 1_000, 2_000, None);
    town.send(Some("create"), Command::Venue(id("venue"), VenueCommand::CreateSession(session)));
    town.run();
    town.pass(Timestamp(1_999));
    assert!(say(&mut town, "1", hold_lines(vec![line("s", 0)])).is_ok());
    town.pass(Timestamp(2_000));
    let over = say(&mut town, "2", hold_lines(vec![line("s", 1)]));
    assert_eq!(over, Err(Refusal::SessionClosed("it is over".into())));
    assert!(say(&mut town, "3", check_out()).is_ok());
    assert_eq!(town.kept.audit().seats.sold, 1);
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
    // Placed by these bytes for ever.
    let key = |entity: &Entity| entity.with_key(<[u8]>::to_vec);
    assert_eq!(key(&Entity::Session(id("s1"))), b"s/s1");
    assert_eq!(key(&Entity::Venue(id("v"))), b"v/v");
    assert_eq!(key(&Entity::Cart(CartId(258)))[..], *b"c/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02");
}

fn units(quantity: u32) -> WantedLine {
    WantedLine { entity: Entity::Product(id("p")), want: Want::Units { quantity, now: false } }
}

fn shop(price: i64, stock: u64) -> Town {
    let mut town = Town::new(Rules::default());
    let details = Box::new(product(euros(price), stock));
    town.send(Some("put"), Command::Product(id("p"), ProductCommand::Put(details)));
    town.run();
    town
}

#[test]
fn a_cart_does_not_come_to_more_than_can_be_written() {
    let mut town = shop(PRICE_MAX, 1_000_000);
    let most = (AMOUNT_MAX / PRICE_MAX) as u32;
    let refusal = Refusal::BadRequest("the cart would come to more than any cart may".into());
    assert_eq!(say(&mut town, "1", hold_lines(vec![units(1_000_000)])), Err(refusal.clone()));
    assert_eq!(say(&mut town, "2", hold_lines(vec![units(most + 1)])), Err(refusal.clone()));
    assert_eq!(town.kept.audit().units.held, 0);
    assert!(say(&mut town, "3", hold_lines(vec![units(most)])).is_ok());
    assert_eq!(say(&mut town, "4", CartCommand::SetQuantity { line: 1, quantity: most + 1 }), Err(refusal.clone()));
    assert_eq!(say(&mut town, "5", hold_lines(vec![units(1)])), Err(refusal));
    assert_eq!(town.kept.audit().units.held, u64::from(most));
    assert!(say(&mut town, "6", check_out()).is_ok());
}

#[test]
fn a_cart_that_has_answered_enough_can_still_pay_and_be_refunded() {
    let mut town = shop(100, 10);
    assert!(say(&mut town, "hold", hold_lines(vec![units(2)])).is_ok());
    let mut answered = 1;
    loop {
        let set = CartCommand::SetQuantity { line: 1, quantity: 2 + answered % 2 };
        match say(&mut town, &format!("s{answered}"), set) {
            Ok(_) => answered += 1,
            Err(refusal) => break assert!(matches!(refusal, Refusal::BadRequest(_)), "{refusal:?}"),
        }
    }
    // Its product may remember what was given back: that counts as well.
    assert_eq!(answered as usize, CART_REQUESTS_MAX - 1);
    assert!(say(&mut town, "pay", pay(None, None)).is_ok());
    assert!(say(&mut town, "back", CartCommand::Refund { lines: None, reason: "".into() }).is_ok());
    assert_eq!(town.kept.audit().units.free, 10);
}

#[test]
fn changes_that_wait_are_bounded_and_so_are_their_waiters() {
    let mut town = shop(100, 100);
    assert!(say(&mut town, "hold", hold_lines(vec![units(1)])).is_ok());
    let product = Entity::Product(id("p"));
    let set = |quantity| Command::Cart(CartId(1), CartCommand::SetQuantity { line: 1, quantity });
    let sets: Vec<_> = (2..20).map(|quantity| town.send(Some(&format!("s{quantity}")), set(quantity))).collect();
    let first: Vec<_> = (0..256).map(|_| town.send(Some("s2"), set(2))).collect();
    let queued: Vec<_> = (0..256).map(|_| town.send(Some("s3"), set(3))).collect();
    town.run_but(|to| *to != product, |_| true);
    assert!(matches!(town.answers[&sets[17]], Err(Refusal::BadRequest(_))), "one under way, sixteen wait");
    assert_eq!(town.answers[&first[255]], Err(Refusal::InProgress));
    assert_eq!(town.answers[&queued[255]], Err(Refusal::InProgress));
    town.run();
    let all = sets[..17].iter().chain(&first[..255]).chain(&queued[..255]);
    assert!(all.clone().all(|ticket| town.answers[ticket].is_ok()));
    assert_eq!(town.kept.audit().units.held, 18);
}

/// Products that are set aside only at the checkout, one of each name.
fn late_shop(stocks: &[(&str, u64)]) -> Town {
    let mut town = Town::new(Rules::default());
    for (name, stock) in stocks {
        let details = ProductDetails { hold: HoldPolicy::AtCheckout, ..product(euros(100), *stock) };
        town.send(Some(&format!("put {name}")), Command::Product(id(name), ProductCommand::Put(Box::new(details))));
    }
    town.run();
    town
}

fn units_of(name: &str, quantity: u32) -> WantedLine {
    WantedLine { entity: Entity::Product(id(name)), want: Want::Units { quantity, now: false } }
}

#[test]
pub(crate) fn a_checkout_that_is_refused_again_and_again_is_refused_in_words_at_last() {
    for gateway in [false, true] {
        let mut town = late_shop(&[("p", 5), ("q", 0)]);
        assert!(say(&mut town, "hold", hold_lines(vec![units_of("p", 1), units_of("q", 1)])).is_ok());
        let checkout = || if gateway { pay(None, None) } else { check_out() };
        let mut refused = 0;
        let refusal = loop {
            match say(&mut town, "pay", checkout()) {
                Err(Refusal::OutOfStock(_)) => {
                    refused += 1;
                    assert!(refused <= CART_CHECKOUTS_MAX, "checkouts have no bound");
                }
                Err(refusal) => break refusal,
                Ok(answer) => panic!("sold: {answer:?}"),
            }
        };
        assert!(matches!(&refusal, Refusal::BadRequest(why) if why.contains("use another cart")), "{refusal:?}");
        assert_eq!(refused, CART_CHECKOUTS_MAX);
        assert!(town.bank.accounts.is_empty(), "no gateway was asked");
        assert_eq!(town.kept.audit().units.held, 0, "what was set aside is free again");
        assert!(say(&mut town, "get", CartCommand::Get).is_ok(), "the cart lives on");
        assert!(say(&mut town, "cancel", CartCommand::Cancel).is_ok());
    }
}

#[test]
pub(crate) fn a_checkout_that_was_refused_before_a_gateway_was_asked_is_no_attempt() {
    let mut town = late_shop(&[("p", 5), ("q", 0)]);
    assert!(say(&mut town, "hold", hold_lines(vec![units_of("p", 1), units_of("q", 1)])).is_ok());
    for turn in 0..3 {
        let no = say(&mut town, &format!("pay {turn}"), pay(None, None));
        assert!(matches!(no, Err(Refusal::OutOfStock(_))), "{no:?}");
    }
    assert!(say(&mut town, "less", CartCommand::Release { line: 2, seats: None }).is_ok());
    assert!(say(&mut town, "pay", pay(None, None)).is_ok());
    let keys: Vec<u32> = town.bank.accounts.keys().map(|key| key.attempt).collect();
    assert_eq!(keys, [1], "the gateway was asked for one attempt, the first");
    town.check_money();
}

#[test]
pub(crate) fn traces_of_a_request_id_that_comes_with_other_bodies_are_bounded() {
    let names: Vec<String> = (0..1_100).map(|number| format!("p{number}")).collect();
    let mut town = Town::new(Rules::default());
    for (name, stock) in names.iter().map(|name| (name.as_str(), 1)).chain([("gone", 0)]) {
        let details = Box::new(product(euros(100), stock));
        town.send(Some(&format!("put {name}")), Command::Product(id(name), ProductCommand::Put(details)));
        town.run();
    }
    assert!(say(&mut town, "open", CartCommand::Open { customer: None, ttl_ms: None, guest: false }).is_ok());
    let hold = |names: &[String]| {
        let some = names.iter().map(|name| units_of(name, 1));
        hold_lines(some.chain([units_of("gone", 1)]).collect())
    };
    let refusals: Vec<_> = names.chunks(49).map(|some| say(&mut town, "again", hold(some))).collect();
    assert!(refusals.iter().all(Result::is_err));
    let last = refusals.last().expect("many were refused");
    assert!(matches!(last, Err(Refusal::BadRequest(why)) if why.contains("use another cart")), "{last:?}");
    assert_eq!(town.kept.audit().units.held, 0);
}

/// That a step is over can be said again and again, under new request ids. Each is remembered.
#[test]
pub(crate) fn what_is_settled_already_is_settled_again_so_often_and_no_more() {
    let mut town = shop(100, 10);
    assert!(say(&mut town, "hold", hold_lines(vec![units(1)])).is_ok());
    town.bank.plan("authorize", &[Mood::DoesUnheard]);
    town.bank.plan("void", &[Mood::Refuses]);
    town.send(Some("pay"), Command::Cart(CartId(1), pay(Some(OnDecline::Keep), None)));
    town.run();
    let settle = |outcome| CartCommand::Settle { attempt: 1, outcome };
    assert!(say(&mut town, "not", settle(Settlement::Declined)).is_ok());
    let bound = CART_REQUESTS_MAX + CART_OUTCOMES_MORE;
    let refused = (0..=bound).find_map(|number| {
        let said = say(&mut town, &format!("again {number}"), settle(Settlement::Declined));
        said.err().map(|refusal| (number, refusal))
    });
    let (number, refusal) = refused.expect("what is remembered has a bound");
    assert!(matches!(&refusal, Refusal::BadRequest(why) if why.contains("use another cart")), "{refusal:?}");
    // How the payment ended, and what the operator said first, are remembered as well.
    assert_eq!(number, bound - 3);
    assert!(say(&mut town, "again 7", settle(Settlement::Declined)).is_ok(), "a repeat is no new request");
    // What is still to be settled is taken also by a full cart.
    assert!(say(&mut town, "by hand", settle(Settlement::Voided)).is_ok());
    assert_eq!(town.kept.payments().failed, 0);
}

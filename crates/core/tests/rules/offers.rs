//! Offers and changed terms through carts: what a line freezes, when an offer opens, and what a change leaves as it is.

use boxoffice_core::{
    answer::Answer,
    ask::{Ask, Reply},
    command::{
        Allotment, Area, BuyAs, CartCommand, CodeCommand, CodeDetails, Command, Counter, Offer, Offering, PriceChange,
        PriceType, SessionChange, SessionCommand, VenueCommand, Want, WantedLine,
    },
    event::{Event, SessionEvent},
    host::Input,
    id::{Entity, HoldId, RequestHash},
    portion::Content,
    refusal::Refusal,
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::State,
    time::Timestamp,
};

use crate::{
    catalogue::open,
    fixture::{Fixture, Message},
    script::{cart, check_out, euros, id, layout, new_session},
};

const OPENS: u64 = 60_000;

fn offer(name: &str, types: &[&str]) -> Offer {
    Offer {
        id: id(name),
        name: name.into(),
        names: Default::default(),
        types: types.iter().map(|name| id(name)).collect(),
        categories: vec![],
        areas: vec![],
        from: None,
        until: None,
        closed: false,
        desk: false,
        change: None,
        per_order: None,
        counters: vec![],
        allotments: vec![],
        code_group: None,
        attributes: vec![],
        per_customer: None,
    }
}

fn price_type(name: &str, prices: &[(&str, i64)], area_prices: &[(&str, i64)]) -> PriceType {
    let priced = |zones: &[(&str, i64)]| zones.iter().map(|(zone, price)| (id(zone), *price)).collect();
    let (prices, area_prices) = (priced(prices), priced(area_prices));
    PriceType { id: id(name), name: name.into(), names: Default::default(), prices, area_prices, tax: None }
}

/// Everybody from [`OPENS`], and at most two under 26.
fn offering() -> Offering {
    Offering {
        price_types: vec![price_type("adult", &[], &[]), price_type("young", &[("a", 300)], &[("stand", 200)])],
        offers: vec![
            Offer { from: Some(Timestamp(OPENS)), ..offer("all", &["adult"]) },
            Offer { from: Some(Timestamp(OPENS)), counters: vec![id("young")], ..offer("young", &["young"]) },
        ],
        counters: vec![Counter { id: id("young"), max: 2 }],
        allotments: vec![],
    }
}

fn create(offering: Option<Offering>) -> Command {
    let stand =
        Area { id: id("stand"), name: "Stand".into(), capacity: 9, price: euros(500), names: Default::default() };
    let mut session = new_session("s", &layout("aaaaaa"), 3_600_000, 7_200_000, None);
    session.areas.push(stand);
    session.offering = offering.map(Into::into);
    Command::Venue(id("venue"), VenueCommand::CreateSession(session))
}

fn theatre(offering: Option<Offering>) -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aaaaaa"), &[]);
    granted(&mut fixture, "create", create(offering));
    fixture
}

fn outcome(fixture: &mut Fixture, request: &str, command: Command) -> Result<Answer, Refusal> {
    let ticket = fixture.send(Some(request), command);
    fixture.run();
    fixture.answers[&ticket].clone().map(|answered| answered.answer)
}

fn granted(fixture: &mut Fixture, request: &str, command: Command) -> Answer {
    outcome(fixture, request, command).unwrap_or_else(|no| panic!("{request} is refused: {no}"))
}

fn hold(want: Want) -> CartCommand {
    let lines = vec![WantedLine::new(Entity::Session(id("s")), want)];
    CartCommand::Hold { lines, customer: None, guest: true, holder: None, attributes: Vec::new() }
}

fn seats(numbers: &[u16], types: &[&str]) -> Want {
    let seats = SeatSet::new(numbers.iter().map(|number| Seat { row: 0, seat: *number })).expect("seats");
    Want::Seats { seats, best_effort: false, buy_as: BuyAs::new(types.iter().map(|name| id(name)).collect(), None) }
}

fn places(quantity: u32, of: &str) -> Want {
    Want::Places { area: id("stand"), quantity, buy_as: BuyAs::new(vec![id(of)], None) }
}

fn change(change: SessionChange) -> Command {
    Command::Session(id("s"), SessionCommand::Change(Box::new(change)))
}

fn session(fixture: &Fixture) -> boxoffice_core::session::Session {
    let state = fixture.states.get(&Entity::Session(id("s"))).expect("the session is open");
    let State::Session(session) = &*state else { panic!("not a session: {state:?}") };
    session.clone()
}

fn prices(content: &Content) -> Vec<i64> {
    match content {
        Content::Seats(seats) => seats.iter().map(|priced| priced.price).collect(),
        Content::Places { quantity, price, .. } => vec![*price; *quantity as usize],
        other => panic!("{other:?}"),
    }
}

fn lines(fixture: &mut Fixture, name: &str) -> Vec<Content> {
    match granted(fixture, "get", Command::Cart(cart(name), CartCommand::Get)) {
        Answer::Cart(view) => view.lines.iter().map(|line| line.content.clone()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
pub(crate) fn an_offer_opens_by_itself_and_lines_keep_what_they_were_bought_as() {
    let mut fixture = theatre(Some(offering()));
    let both = || Command::Cart(cart("a"), hold(seats(&[0, 1], &["young", "adult"])));
    let early = outcome(&mut fixture, "early", both()).expect_err("it is not open yet");
    assert!(matches!(early, Refusal::NotOnSale { opens_at: Some(Timestamp(OPENS)), .. }), "{early:?}");
    // Nobody asks, and the timer opens it.
    assert_eq!(session(&fixture).next_opening(), Some(Timestamp(OPENS)));
    fixture.pass(Timestamp(OPENS));
    fixture.run();
    assert_eq!(session(&fixture).next_opening(), None);
    granted(&mut fixture, "hold", both());
    // The prices rise, the line keeps its own, and so does a repeat.
    let dearer = SessionChange { prices: Some(vec![(id("a"), euros(2_000))]), ..Default::default() };
    let Answer::SessionChanged(changed) = granted(&mut fixture, "dearer", change(dearer.clone())) else {
        panic!("not changed")
    };
    assert_eq!((changed.terms, changed.what.len()), (1, 1), "{changed:?}");
    assert_eq!(granted(&mut fixture, "dearer", change(dearer)), Answer::SessionChanged(changed));
    let Answer::Held(held) = granted(&mut fixture, "hold", both()) else { panic!("not held") };
    assert_eq!(prices(&held.lines[0].content), [300, 1_000]);
    let Answer::Order { order, .. } = granted(&mut fixture, "pay", Command::Cart(cart("a"), check_out())) else {
        panic!("no order")
    };
    assert_eq!(order.total, euros(1_300));
    let of = |place: usize| order.lines[0].content.seats()[place].bought_as.clone().expect("it is said");
    assert_eq!((of(0).price_type.clone(), of(0).offer.clone()), (Some(id("young")), Some(id("young"))));
    assert_eq!((of(1).price_type.clone(), of(1).list_price, of(1).terms), (Some(id("adult")), 1_000, 0));
    // What is paid back is free again under its counter.
    let hold_both = |name: &str| Command::Cart(cart(name), hold(seats(&[2, 3], &["young"])));
    assert_eq!(outcome(&mut fixture, "b", hold_both("b")).expect_err("one is left").code(), 214);
    let refund = CartCommand::Refund { lines: None, reason: "ill".into() };
    granted(&mut fixture, "refund", Command::Cart(cart("a"), refund));
    granted(&mut fixture, "c", hold_both("c"));
}

#[test]
pub(crate) fn further_places_at_another_price_are_a_line_of_their_own() {
    let mut fixture = theatre(Some(offering()));
    fixture.now = Timestamp(OPENS);
    let more = |quantity| Command::Cart(cart("a"), hold(places(quantity, "adult")));
    granted(&mut fixture, "1", more(2));
    granted(&mut fixture, "2", more(1));
    assert_eq!(lines(&mut fixture, "a").iter().map(prices).collect::<Vec<_>>(), [[500, 500, 500]]);
    let dearer = |price| {
        let view = session(&fixture).view();
        let areas = view.areas.iter().map(|area| Area { price: euros(price), ..area.clone() }).collect();
        change(SessionChange { areas: Some(areas), ..Default::default() })
    };
    let dearer = dearer(800);
    granted(&mut fixture, "dearer", dearer);
    granted(&mut fixture, "3", more(2));
    let both: Vec<Vec<i64>> = lines(&mut fixture, "a").iter().map(prices).collect();
    assert_eq!(both, [vec![500, 500, 500], vec![800, 800]]);
    // The line at the price of now grows, and so does the newest one that is set to more.
    granted(&mut fixture, "4", more(1));
    granted(&mut fixture, "5", Command::Cart(cart("a"), set(1, 4)));
    let both: Vec<Vec<i64>> = lines(&mut fixture, "a").iter().map(prices).collect();
    assert_eq!(both, [vec![500, 500, 500], vec![800; 4]]);
    granted(&mut fixture, "6", Command::Cart(cart("a"), set(1, 1)));
    granted(&mut fixture, "pay", Command::Cart(cart("a"), check_out()));
    assert_eq!(session(&fixture).area_counts()[0].sold, 5);
}

fn set(line: u32, quantity: u32) -> CartCommand {
    CartCommand::SetQuantity { line, quantity, guest: true, holder: None, attributes: Vec::new() }
}

#[test]
pub(crate) fn a_changed_session_is_not_opened_anew() {
    let mut fixture = theatre(None);
    granted(&mut fixture, "hold", Command::Cart(cart("a"), hold(seats(&[0], &[]))));
    let changed = SessionChange {
        prices: Some(vec![(id("a"), euros(2_000))]),
        offers: Some(offering().offers),
        price_types: Some(offering().price_types),
        counters: Some(offering().counters),
        ..Default::default()
    };
    granted(&mut fixture, "change", change(changed));
    // The venue opens it again, because it did not hear of the opening, and an importer creates it again.
    let opens = |message: &&Message| matches!(&message.input, Input::Ask { ask: Ask::Open(_), .. });
    let again = fixture.posted.iter().find(opens).expect("it was opened").clone();
    let sent = fixture.posted.len();
    fixture.post(again);
    fixture.run();
    let reply = |message: &Message| matches!(&message.input, Input::Reply { reply: Reply::Opened, .. });
    assert!(fixture.posted[sent..].iter().any(reply), "the venue frees the hall otherwise");
    granted(&mut fixture, "create again", create(None));
    // An operator who looks first changes nothing.
    let dry = SessionChange { close: vec![id("all")], dry_run: true, ..Default::default() };
    let Answer::SessionChanged(preview) = granted(&mut fixture, "dry", change(dry)) else { panic!("no preview") };
    assert_eq!(preview.terms, 2);
    assert_eq!(session(&fixture).terms_version(), 1);
    // The line of before keeps its price through the sale.
    granted(&mut fixture, "pay", Command::Cart(cart("a"), check_out()));
    let Answer::Order { order, .. } = granted(&mut fixture, "order", Command::Cart(cart("a"), CartCommand::Order))
    else {
        panic!("no order")
    };
    assert_eq!((order.total, order.lines[0].content.seats()[0].bought_as.clone()), (euros(1_000), None));
    let closed = SessionChange { close: vec![id("nobody")], ..Default::default() };
    assert_eq!(outcome(&mut fixture, "closed", change(closed)), Err(Refusal::NotFound("offer nobody".into())));
}

/// The events of the session, without those about what its venue knows, which come when that answers.
fn written_to_session(log: &[(Entity, Event)]) -> Vec<&Event> {
    let of_session = |(entity, event): &&(Entity, Event)| {
        *entity == Entity::Session(id("s")) && !matches!(event, Event::Session(SessionEvent::SaleTold(_)))
    };
    log.iter().filter(of_session).map(|(_, event)| event).collect()
}

/// A hold at the instant of the opening opens the offer in its own turn, although no timer has fired.
#[test]
pub(crate) fn a_hold_that_sees_the_begin_opens_the_offer_before_it_is_decided() {
    let mut fixture = theatre(Some(offering()));
    fixture.now = Timestamp(OPENS);
    let before = fixture.log.len();
    granted(&mut fixture, "hold", Command::Cart(cart("a"), hold(seats(&[0], &["adult"]))));
    let written = written_to_session(&fixture.log[before..]);
    let opens = matches!(
        written[..],
        [Event::Session(SessionEvent::OffersOpened(_)), Event::Session(SessionEvent::SeatsHeld { .. })]
    );
    assert!(opens, "{written:?}");
    let first =
        fixture.log[..].iter().position(|(_, event)| matches!(event, Event::Session(SessionEvent::OffersOpened(_))));
    let first = first.expect("it opens");
    assert!(!fixture.turns.contains(&(first + 1)), "both are one turn");
}

/// When the sale of the session opens, as its venue's searches say.
fn found_opening(fixture: &mut Fixture) -> Option<Timestamp> {
    let (from, to) = (Timestamp(0), Timestamp(u64::MAX));
    let search = VenueCommand::SearchSessions { hall: None, title: None, from, to, limit: 9, after: None };
    match granted(fixture, "search", Command::Venue(id("venue"), search)) {
        Answer::Sessions(entries) => entries[0].opens_at,
        other => panic!("{other:?}"),
    }
}

/// Searches say when a sale opens: as it was created, after changes, after messages that were lost or overtaken, and after the opening.
#[test]
pub(crate) fn a_search_says_when_a_sale_opens() {
    let mut fixture = theatre(Some(offering()));
    assert_eq!(found_opening(&mut fixture), Some(Timestamp(OPENS)));
    let later = |by: u64| {
        let mut offers = offering().offers;
        offers.iter_mut().for_each(|offer| offer.from = Some(Timestamp(by * OPENS)));
        change(SessionChange { offers: Some(offers), ..Default::default() })
    };
    granted(&mut fixture, "later", later(2));
    fixture.wait(10, Fixture::run);
    assert_eq!(found_opening(&mut fixture), Some(Timestamp(2 * OPENS)));
    let is_told = |message: &&Message| matches!(message.input, Input::Ask { ask: Ask::TellSale(_), .. });
    let old = fixture.posted.iter().rev().find(is_told).expect("it was told").clone();
    // The message about the next change is lost, the session crashes, and tells it again.
    let venue = Entity::Venue(id("venue"));
    fixture.send(Some("later still"), later(3));
    fixture.run_but(|entity| *entity != venue, |_| true);
    fixture.wait(10, |fixture| fixture.run_but(|entity| *entity != venue, |_| true));
    fixture.mail.retain(|message| message.to != venue);
    fixture.crash(&Entity::Session(id("s")), 0);
    fixture.wait(10_000, Fixture::run);
    assert_eq!(found_opening(&mut fixture), Some(Timestamp(3 * OPENS)));
    // One that was overtaken changes nothing.
    fixture.deliver(old);
    fixture.run();
    assert_eq!(found_opening(&mut fixture), Some(Timestamp(3 * OPENS)));
    let state = fixture.states.get(&Entity::Session(id("s"))).expect("it is open");
    assert!(!state.unfinished(), "the venue has answered");

    // The first hold after the opening writes it, and the venue hears of it.
    fixture.now = Timestamp(3 * OPENS);
    granted(&mut fixture, "hold", Command::Cart(cart("a"), hold(seats(&[0], &["adult"]))));
    fixture.wait(10, Fixture::run);
    assert_eq!(found_opening(&mut fixture), None);
}

#[test]
pub(crate) fn an_allotment_is_released_by_itself_and_before_a_hold_that_sees_its_time() {
    let kept = |name: &str, seat: u16, release_at| Allotment {
        id: id(name),
        name: name.into(),
        names: Default::default(),
        seats: vec![Seat { row: 0, seat }],
        release_at: Some(Timestamp(release_at)),
        released: false,
        companions: false,
    };
    let offering = || Offering {
        price_types: offering().price_types,
        allotments: vec![kept("press", 0, OPENS), kept("house", 1, 2 * OPENS)],
        ..Offering::default()
    };
    let mut fixture = theatre(Some(offering()));
    let wanted = |name: &str, seat| Command::Cart(cart(name), hold(seats(&[seat], &["adult"])));
    let blocked = outcome(&mut fixture, "early", wanted("a", 0)).expect_err("it is kept");
    assert_eq!(blocked.code(), 204, "{blocked}");
    // Nobody asks, and the timer releases it.
    assert_eq!(session(&fixture).next_opening(), Some(Timestamp(OPENS)));
    fixture.pass(Timestamp(OPENS));
    fixture.run();
    assert_eq!(session(&fixture).next_opening(), Some(Timestamp(2 * OPENS)));
    granted(&mut fixture, "hold", wanted("a", 0));
    // The other one is released in the turn of the hold that sees its time.
    fixture.now = Timestamp(2 * OPENS);
    let before = fixture.log.len();
    granted(&mut fixture, "hold", wanted("b", 1));
    let written = written_to_session(&fixture.log[before..]);
    let releases = matches!(
        written[..],
        [Event::Session(SessionEvent::AllotmentsReleased(_)), Event::Session(SessionEvent::SeatsHeld { .. })]
    );
    assert!(releases, "{written:?}");
    // The venue opens it with the terms of before.
    granted(&mut fixture, "create", create(Some(offering())));
}

fn members() -> Offering {
    let members =
        Offer { change: Some(PriceChange::Set(100)), code_group: Some(id("members")), ..offer("members", &["adult"]) };
    let mut offering = offering();
    offering.offers.push(members);
    offering
}

fn put_code(fixture: &mut Fixture, request: &str, code: &str, uses: u32) {
    let details = CodeDetails { group: id("members"), uses, ended: false, by_order: false };
    granted(fixture, request, Command::Code(id(code), CodeCommand::Put(details)));
}

/// Uses of a code in carts and in orders.
fn uses(fixture: &mut Fixture, code: &str) -> (u64, u64) {
    match granted(fixture, "get", Command::Code(id(code), CodeCommand::Get)) {
        Answer::Code(view) => (view.held, view.sold),
        other => panic!("{other:?}"),
    }
}

fn seats_with(numbers: &[u16], types: &[&str], code: &str) -> Want {
    let seats = SeatSet::new(numbers.iter().map(|number| Seat { row: 0, seat: *number })).expect("seats");
    let types = types.iter().map(|name| id(name)).collect();
    Want::Seats { seats, best_effort: false, buy_as: BuyAs::with_code(types, None, Some(id(code))) }
}

/// Before the sale begins, members buy with a code: it has as many uses as seats are under it, at every step of their way.
#[test]
pub(crate) fn a_code_is_used_by_the_seats_that_are_bought_with_it() {
    let mut fixture = theatre(Some(members()));
    put_code(&mut fixture, "put", "gold", 3);
    let held = |fixture: &mut Fixture, name: &str, request: &str, want: Want| {
        outcome(fixture, request, Command::Cart(cart(name), hold(want)))
    };
    for code in ["lead", "Gold"] {
        let no = held(&mut fixture, "a", code, seats_with(&[0], &["adult"], code)).expect_err("no such code");
        assert_eq!(no, Refusal::CodeNotValid);
    }
    held(&mut fixture, "a", "two", seats_with(&[0, 1], &["adult"], "gold")).expect("members buy already");
    assert_eq!(uses(&mut fixture, "gold"), (2, 0));
    // Two more are wanted, and one use is left: the code has one, and the second seat is not on sale yet.
    let no = held(&mut fixture, "b", "two", seats_with(&[2, 3], &["adult"], "gold")).expect_err("one is left");
    assert_eq!(no.code(), 214, "{no:?}");
    assert_eq!(uses(&mut fixture, "gold"), (2, 0), "the use of the refused hold is free again");
    // When everybody buys, the code pays for the seats that it can.
    fixture.pass(Timestamp(OPENS));
    fixture.run();
    held(&mut fixture, "b", "both", seats_with(&[2, 3], &["adult"], "gold")).expect("it is open");
    let of_b: Vec<Vec<i64>> = lines(&mut fixture, "b").iter().map(prices).collect();
    assert_eq!((of_b, uses(&mut fixture, "gold")), (vec![vec![100, 1_000]], (3, 0)));
    // A child has a price without the code, so its use is given back.
    let release = |seat: u16| {
        let seats = SeatSet::new([Seat { row: 0, seat }]).expect("a seat");
        CartCommand::Release { line: 1, seats: Some(seats) }
    };
    granted(&mut fixture, "less", Command::Cart(cart("a"), release(0)));
    assert_eq!(uses(&mut fixture, "gold"), (2, 0));
    granted(&mut fixture, "dear", Command::Cart(cart("b"), release(3)));
    assert_eq!(uses(&mut fixture, "gold"), (2, 0), "that seat had no use");
    held(&mut fixture, "c", "child", seats_with(&[4], &["young"], "gold")).expect("young is open");
    assert_eq!(uses(&mut fixture, "gold"), (2, 0), "its use is not needed");
    granted(&mut fixture, "pay", Command::Cart(cart("a"), check_out()));
    granted(&mut fixture, "pay", Command::Cart(cart("c"), check_out()));
    assert_eq!(uses(&mut fixture, "gold"), (1, 1));
    // The cart of the other one ends, and the order is paid back.
    granted(&mut fixture, "end", Command::Cart(cart("b"), CartCommand::Cancel));
    assert_eq!(uses(&mut fixture, "gold"), (0, 1));
    let refund = CartCommand::Refund { lines: None, reason: "ill".into() };
    granted(&mut fixture, "refund", Command::Cart(cart("a"), refund));
    assert_eq!(uses(&mut fixture, "gold"), (0, 0));
    // A release that overtakes its ask is remembered, so that the ask takes no use.
    let late = HoldId { cart: cart("d"), request: RequestHash(7), part: 0, attempt: 0 };
    let code = Entity::Code(id("gold"));
    let ask = |ask| Message { to: code.clone(), input: Input::Ask { from: Entity::Cart(cart("d")), ask } };
    let release = Ask::Release { hold: late, revision: 1 << 32, left: None, last: false, expired: false };
    fixture.post(ask(release));
    let (want, life_ms) = (Want::Uses { count: 1 }, 1_000);
    fixture.post(ask(Ask::Hold {
        hold: late,
        revision: 1,
        want,
        life_ms,
        holder: None,
        desk: false,
        code: None,
        attributes: Vec::new(),
        customer: None,
    }));
    fixture.run();
    assert_eq!(uses(&mut fixture, "gold"), (0, 0));
}

//! The zone of a venue reaches its sessions, and lines and orders keep the one with which they were held, whatever is lost on the way.

use boxoffice_core::{
    answer::Answer,
    ask::{Ask, Reply},
    command::{
        Area, CartCommand, Command, CustomerCommand, SessionCommand, VenueCommand, VenueDetails, Want, WantedLine,
    },
    host::Input,
    id::{Entity, Id},
    refusal::Refusal,
    rules::Rules,
    state_map::State,
    time::Timestamp,
};

use crate::{
    catalogue::open,
    fixture::{Fixture, Message, Ticket},
    random_runs::{Rng, scaled},
    script::{cart, check_out, details, euros, id, layout, new_session},
};

const SEEDS: u64 = 300;
const ROUNDS: u32 = 5;
const STEPS: u32 = 24;
const ZONES: [Option<&str>; 4] = [None, Some("Europe/Copenhagen"), Some("America/New_York"), Some("Asia/Kathmandu")];
const HOUR: u64 = 3_600_000;
/// 20:00 in Copenhagen on the day before its clocks go forward, in 2027.
const EVENING: u64 = 1_806_174_000_000;

fn put(zone: Option<&str>) -> Command {
    let details = VenueDetails { zone: zone.map(Into::into), ..details() };
    Command::Venue(id("venue"), VenueCommand::Put(details))
}

/// A session of an hour with places, at this instant.
fn session(name: &str, begin: u64) -> Command {
    let stand =
        Area { id: id("stand"), name: "Stand".into(), capacity: 9, price: euros(500), names: Default::default() };
    let mut session = new_session(name, &layout("aa"), begin, begin + HOUR, None);
    session.areas.push(stand);
    Command::Venue(id("venue"), VenueCommand::CreateSession(session))
}

fn granted(fixture: &mut Fixture, request: &str, command: Command) -> Answer {
    let ticket = fixture.send(Some(request), command);
    fixture.run();
    fixture.answers[&ticket].clone().unwrap_or_else(|no| panic!("{request} is refused: {no}")).answer
}

fn shifted(answer: Answer) -> u32 {
    let Answer::VenuePut(change) = answer else { panic!("{answer:?} answers no put") };
    change.shifted
}

fn zone_of(fixture: &Fixture, session: &str) -> Option<String> {
    let state = fixture.states.get(&Entity::Session(id(session))).expect("the session is open");
    let State::Session(session) = &*state else { panic!("not a session: {state:?}") };
    session.view().zone.as_deref().map(str::to_owned)
}

fn places(session: &str) -> CartCommand {
    let want = Want::places(id("stand"), 1);
    let lines = vec![WantedLine::new(Entity::Session(id(session)), want)];
    CartCommand::Hold { lines, customer: Some(id("ann")), guest: false, holder: None, attributes: Vec::new() }
}

#[test]
fn a_session_has_the_zone_of_its_venue_and_is_sent_another_one() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aa"), &[]);
    fixture.now = Timestamp(EVENING - 48 * HOUR);
    granted(&mut fixture, "before", session("before", EVENING));
    assert_eq!(zone_of(&fixture, "before"), None);
    assert_eq!(shifted(granted(&mut fixture, "put", put(Some("europe/copenhagen")))), 1);
    assert_eq!(zone_of(&fixture, "before").as_deref(), Some("Europe/Copenhagen"), "as the database writes it");
    granted(&mut fixture, "after", session("after", EVENING + 24 * HOUR));
    assert_eq!(zone_of(&fixture, "after").as_deref(), Some("Europe/Copenhagen"));
    // Algiers differs from Copenhagen in summer only, and the clocks go forward between the two.
    assert_eq!(shifted(granted(&mut fixture, "put 2", put(Some("Africa/Algiers")))), 1);
    assert_eq!(shifted(granted(&mut fixture, "put 3", put(Some("Africa/Algiers")))), 0, "it is the same zone");
    assert_eq!(shifted(granted(&mut fixture, "put 2", put(Some("Africa/Algiers")))), 1, "a repeat has the same answer");
    for name in ["before", "after"] {
        assert_eq!(zone_of(&fixture, name).as_deref(), Some("Africa/Algiers"));
        let Answer::Session(view) = granted(&mut fixture, name, Command::Session(id(name), SessionCommand::Get)) else {
            panic!("not a session")
        };
        assert!([EVENING, EVENING + 24 * HOUR].contains(&view.starts_at.0), "no instant moves");
    }
    let ticket = fixture.send(Some("put 4"), put(Some("Atlantis/City")));
    fixture.run();
    assert_eq!(
        fixture.answers[&ticket],
        Err(Refusal::BadRequest("Atlantis/City is no zone of the IANA database, as Europe/Berlin is".into()))
    );
}

#[test]
fn a_session_that_is_over_keeps_its_zone_and_does_not_count() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aa"), &[]);
    fixture.now = Timestamp(EVENING - HOUR);
    granted(&mut fixture, "a", session("over", EVENING));
    granted(&mut fixture, "b", session("running", EVENING + 2 * HOUR));
    granted(&mut fixture, "c", session("coming", EVENING + 4 * HOUR));
    fixture.now = Timestamp(EVENING + 2 * HOUR + 1);
    assert_eq!(shifted(granted(&mut fixture, "put", put(Some("Asia/Kathmandu")))), 1);
    assert_eq!(zone_of(&fixture, "over"), None);
    assert_eq!(zone_of(&fixture, "running").as_deref(), Some("Asia/Kathmandu"));
    assert_eq!(zone_of(&fixture, "coming").as_deref(), Some("Asia/Kathmandu"));
}

#[test]
fn lines_orders_and_purchases_keep_the_zone_in_which_they_were_held() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aa"), &[]);
    fixture.now = Timestamp(EVENING - HOUR);
    granted(&mut fixture, "put", put(Some("Europe/Copenhagen")));
    granted(&mut fixture, "a", session("s", EVENING));
    let Answer::Held(held) = granted(&mut fixture, "hold", Command::Cart(cart("a"), places("s"))) else {
        panic!("nothing is held")
    };
    assert_eq!(held.lines[0].zone.as_deref(), Some("Europe/Copenhagen"));
    granted(&mut fixture, "put 2", put(Some("America/New_York")));
    assert_eq!(zone_of(&fixture, "s").as_deref(), Some("America/New_York"));
    granted(&mut fixture, "buy", Command::Cart(cart("a"), check_out()));
    let Answer::Order { order, .. } = granted(&mut fixture, "order", Command::Cart(cart("a"), CartCommand::Order))
    else {
        panic!("no order")
    };
    assert_eq!(order.lines[0].zone.as_deref(), Some("Europe/Copenhagen"));
    let purchases = CustomerCommand::Purchases { after: 0, limit: 9, epoch: None };
    let Answer::Purchases(page) = granted(&mut fixture, "purchases", Command::Customer(id("ann"), purchases)) else {
        panic!("no purchases")
    };
    assert_eq!(page.purchases[0].zone.as_deref(), Some("Europe/Copenhagen"));
}

/// The message of this kind that was posted last.
fn last(fixture: &Fixture, is: impl Fn(&Input<Ticket>) -> bool) -> Message {
    fixture.posted.iter().rev().find(|message| is(&message.input)).expect("it was posted").clone()
}

#[test]
pub(crate) fn a_zone_that_comes_again_after_a_newer_one_is_ignored() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aa"), &[]);
    fixture.now = Timestamp(EVENING - HOUR);
    granted(&mut fixture, "a", session("s", EVENING));
    granted(&mut fixture, "put", put(Some("Europe/Copenhagen")));
    let old = last(&fixture, |input| matches!(input, Input::Ask { ask: Ask::SetZone(_), .. }));
    granted(&mut fixture, "put 2", put(Some("America/New_York")));
    fixture.deliver(old);
    fixture.run();
    assert_eq!(zone_of(&fixture, "s").as_deref(), Some("America/New_York"));
}

#[test]
pub(crate) fn a_session_that_knows_an_old_zone_is_sent_the_current_one() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aa"), &[]);
    fixture.now = Timestamp(EVENING - HOUR);
    granted(&mut fixture, "a", session("s", EVENING));
    granted(&mut fixture, "put", put(Some("Europe/Copenhagen")));
    let old = last(&fixture, |input| matches!(input, Input::Reply { reply: Reply::ZoneSet { .. }, .. }));
    let to = Entity::Session(id("s"));
    fixture.send(Some("put 2"), put(Some("America/New_York")));
    fixture.run_but(|entity| *entity != to, |_| true);
    fixture.mail.retain(|message| message.to != to);
    fixture.deliver(old);
    fixture.run();
    fixture.wait(60_000, Fixture::run);
    assert_eq!(zone_of(&fixture, "s").as_deref(), Some("America/New_York"));
}

/// When this session of a run begins.
fn begin_of(number: u64) -> u64 {
    EVENING + (1 + number) * 24 * HOUR
}

/// Puts, sessions and time in any order, with messages that are lost, doubled and reordered, and hosts that crash. After each round
/// everything that is under way arrives, and then every session must know its venue's zone.
pub(crate) fn run(seed: u64) {
    let mut rng = Rng(seed);
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aa"), &[]);
    fixture.now = Timestamp(EVENING);
    let mut sessions: Vec<Id> = Vec::new();
    // Two are open from the beginning, so that there is always one that can miss something.
    for number in 0..2 {
        granted(&mut fixture, &format!("create {number} at first"), session(&format!("s{number}"), begin_of(number)));
        sessions.push(id(&format!("s{number}")));
    }
    for round in 0..ROUNDS {
        // Few, so that the last one of a round is often followed by messages about earlier ones.
        for put_number in 0..1 + rng.below(2) {
            let zone = ZONES[rng.below(ZONES.len() as u64) as usize];
            fixture.send(Some(&format!("put {round} {put_number}")), put(zone));
        }
        if sessions.len() < 4 && rng.chance(25) {
            let name = format!("s{}", sessions.len());
            fixture.send(Some(&format!("create {name}")), session(&name, begin_of(sessions.len() as u64)));
            sessions.push(id(&name));
        }
        for _ in 0..STEPS {
            step(&mut fixture, &mut rng);
        }
        fixture.run();
        fixture.wait(60_000, Fixture::run);
        check(&fixture, &sessions, seed);
    }
}

fn step(fixture: &mut Fixture, rng: &mut Rng) {
    match rng.below(8) {
        0 => {
            let busy = fixture.proposing();
            if rng.chance(30) && !busy.is_empty() {
                let survive = rng.below(2) as usize;
                fixture.crash(&busy[rng.below(busy.len() as u64) as usize], survive);
            }
        }
        1 if !fixture.mail.is_empty() => {
            // Commands are not lost, so that every session is there in the end. The wake of a new host is no message.
            let place = rng.below(fixture.mail.len() as u64) as usize;
            if matches!(fixture.mail[place].input, Input::Ask { .. } | Input::Reply { .. }) {
                fixture.mail.remove(place);
            }
        }
        2 => {
            let asks: Vec<&Message> = fixture.posted.iter().filter(|message| is_of_zones(message)).collect();
            if !asks.is_empty() {
                let again = asks[rng.below(asks.len() as u64) as usize].clone();
                fixture.mail.push_back(again);
            }
        }
        3 => {
            let until = fixture.now.after(rng.below(400));
            fixture.pass(until);
        }
        4 | 5 if !fixture.mail.is_empty() => {
            let place = rng.below(fixture.mail.len() as u64) as usize;
            let message = fixture.mail.remove(place).expect("a place in the mail");
            fixture.deliver(message);
        }
        _ => {
            let busy = fixture.proposing();
            if !busy.is_empty() {
                fixture.commit(&busy[rng.below(busy.len() as u64) as usize]);
            }
        }
    }
}

fn check(fixture: &Fixture, sessions: &[Id], seed: u64) {
    let venue = fixture.states.get(&Entity::Venue(id("venue"))).expect("the venue");
    let State::Venue(venue) = &*venue else { panic!("not a venue") };
    assert!(!venue.unfinished(), "seed {seed}: the venue still owes something");
    let wanted = venue.view().details.zone;
    for session in sessions {
        // A creation may have been lost with its host.
        let Some(state) = fixture.states.get(&Entity::Session(session.clone())) else { continue };
        let State::Session(session) = &*state else { panic!("not a session") };
        assert_eq!(session.view().zone, wanted, "seed {seed}: {} has another zone than its venue", session.view().id);
    }
}

fn is_of_zones(message: &Message) -> bool {
    matches!(
        &message.input,
        Input::Ask { ask: Ask::SetZone(_) | Ask::Open(_), .. } | Input::Reply { reply: Reply::ZoneSet { .. }, .. }
    )
}

#[test]
fn every_coming_session_has_the_zone_of_its_venue_in_the_end() {
    for seed in 0..scaled(SEEDS) {
        run(seed);
    }
}

//! The zone of a venue reaches its sessions, and lines and orders keep the one with which they were held, whatever is lost on the way.

use boxoffice_core::{
    answer::Answer,
    ask::Ask,
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
    fixture::{Fixture, Message},
    random_runs::{Rng, scaled},
    script::{cart, check_out, details, euros, id, layout, new_session},
};

const SEEDS: u64 = 300;
const STEPS: u32 = 120;
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
    let want = Want::Places { area: id("stand"), quantity: 1 };
    let lines = vec![WantedLine::new(Entity::Session(id(session)), want)];
    CartCommand::Hold { lines, customer: Some(id("ann")), guest: false, holder: None }
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
    let purchases = CustomerCommand::Purchases { after: 0, limit: 9 };
    let Answer::Purchases(page) = granted(&mut fixture, "purchases", Command::Customer(id("ann"), purchases)) else {
        panic!("no purchases")
    };
    assert_eq!(page.purchases[0].zone.as_deref(), Some("Europe/Copenhagen"));
}

/// Puts, sessions and time in any order, with messages that are lost, doubled and reordered, and hosts that crash.
pub(crate) fn run(seed: u64) {
    let mut rng = Rng(seed);
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aa"), &[]);
    fixture.now = Timestamp(EVENING);
    let (mut sessions, mut puts): (Vec<Id>, u32) = (Vec::new(), 0);
    for number in 0..STEPS {
        match rng.below(9) {
            0 if puts < 12 => {
                puts += 1;
                let zone = ZONES[rng.below(ZONES.len() as u64) as usize];
                fixture.send(Some(&format!("put {number}")), put(zone));
            }
            1 if sessions.len() < 8 => {
                let name = format!("s{}", sessions.len());
                let begin = EVENING + (1 + sessions.len() as u64) * 24 * HOUR;
                fixture.send(Some(&format!("create {number}")), session(&name, begin));
                sessions.push(id(&name));
            }
            2 => {
                let busy = fixture.proposing();
                if !busy.is_empty() {
                    let survive = rng.below(2) as usize;
                    fixture.crash(&busy[rng.below(busy.len() as u64) as usize], survive);
                }
            }
            3 if !fixture.mail.is_empty() => {
                // Commands are not lost, so that every session is there in the end.
                let place = rng.below(fixture.mail.len() as u64) as usize;
                if !matches!(fixture.mail[place].input, Input::Command { .. }) {
                    fixture.mail.remove(place);
                }
            }
            4 if !fixture.posted.is_empty() => {
                let asks: Vec<&Message> = fixture.posted.iter().filter(|message| is_of_zones(message)).collect();
                if !asks.is_empty() {
                    let again = asks[rng.below(asks.len() as u64) as usize].clone();
                    fixture.mail.push_back(again);
                }
            }
            5 => {
                let until = fixture.now.after(rng.below(400));
                fixture.pass(until);
            }
            6 | 7 if !fixture.mail.is_empty() => {
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
    fixture.run();
    fixture.wait(60_000, Fixture::run);
    let venue = fixture.states.get(&Entity::Venue(id("venue"))).expect("the venue");
    let State::Venue(venue) = &*venue else { panic!("not a venue") };
    assert!(!venue.unfinished(), "seed {seed}: the venue still owes something");
    let wanted = venue.view().details.zone;
    for session in &sessions {
        // A creation may have been lost with its host.
        let Some(state) = fixture.states.get(&Entity::Session(session.clone())) else { continue };
        let State::Session(session) = &*state else { panic!("not a session") };
        assert_eq!(session.view().zone, wanted, "seed {seed}: {} has another zone than its venue", session.view().id);
    }
}

fn is_of_zones(message: &Message) -> bool {
    matches!(&message.input, Input::Ask { ask: Ask::SetZone(_) | Ask::Open(_), .. } | Input::Reply { .. })
}

#[test]
fn every_coming_session_has_the_zone_of_its_venue_in_the_end() {
    for seed in 0..scaled(SEEDS) {
        run(seed);
    }
}

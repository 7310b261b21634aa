//! Refused guests leave nothing in memory, and a released hold id is never reused.

use boxoffice_core::{
    ask::Ask,
    command::{CartCommand, Command, VenueCommand, Want, WantedLine},
    host::Input,
    id::{CartId, Entity},
    rules::Rules,
    seat::{Seat, SeatSet},
};

use crate::{
    fixture::{Fixture, Message},
    random_runs::{Rng, scaled},
    script::{details, hold_lines, id, layout, new_session},
};

const SEEDS: u64 = 100;
const STEPS: u32 = 80;

/// Two sessions of four seats each, in one hall.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    let layout = layout("aaaa");
    let to_venue = |command| Command::Venue(id("venue"), command);
    fixture.send(Some("venue"), to_venue(VenueCommand::Put(details())));
    fixture.run();
    let hall =
        VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout: layout.clone() };
    fixture.send(Some("hall"), to_venue(hall));
    fixture.run();
    for (name, start) in [("s", 1_000), ("t", 3_000)] {
        let session = new_session(name, &layout, start, start + 1_000, None);
        fixture.send(Some("create"), to_venue(VenueCommand::CreateSession(session)));
    }
    fixture.run();
    fixture
}

/// One seat of each of both sessions.
fn both(first: u16, second: u16) -> CartCommand {
    let line = |(name, seat)| {
        let seats = SeatSet::new([Seat { row: 0, seat }]).expect("one seat");
        WantedLine::new(Entity::Session(id(name)), Want::seats(seats, false))
    };
    hold_lines([("s", first), ("t", second)].map(line).into())
}

fn releases(fixture: &Fixture, cart: CartId) -> Vec<Message> {
    let of_cart = |message: &&Message| match &message.input {
        Input::Ask { from, ask: Ask::Release { .. } } => *from == Entity::Cart(cart),
        _ => false,
    };
    fixture.posted.iter().filter(of_cart).cloned().collect()
}

#[test]
pub(crate) fn a_refused_guest_is_evicted_and_its_hold_id_is_not_reused() {
    let mut fixture = fixture();
    let (ann, bob) = (CartId(1), CartId(2));
    fixture.send(Some("bob"), Command::Cart(bob, both(3, 0)));
    fixture.run();
    fixture.send(Some("ann"), Command::Cart(ann, both(0, 0)));
    fixture.run();
    assert!(fixture.answers.values().last().expect("ann is answered").is_err());
    assert!(!fixture.states.contains(&Entity::Cart(ann)), "all releases are acknowledged");
    assert_eq!(fixture.states.tombstones(), 0);
    let late = releases(&fixture, ann);
    assert_eq!(late.len(), 1, "the seat of the first session was released");
    // Bob leaves, and Ann repeats her request. It is granted now.
    fixture.send(Some("leave"), Command::Cart(bob, CartCommand::Cancel));
    fixture.run();
    fixture.send(Some("ann"), Command::Cart(ann, both(0, 0)));
    fixture.run();
    assert!(fixture.answers.values().last().expect("ann is answered").is_ok());
    assert!(fixture.states.contains(&Entity::Cart(ann)));
    // The release of the refused hold comes a second time. The fixture checks that no line loses its hold.
    late.into_iter().for_each(|message| fixture.post(message));
    fixture.run();
}

/// A tombstone is in memory and counted until its messages are acknowledged.
#[test]
fn a_tombstone_is_counted_until_its_eviction() {
    let mut fixture = fixture();
    fixture.send(Some("bob"), Command::Cart(CartId(2), both(3, 0)));
    fixture.run();
    fixture.send(Some("ann"), Command::Cart(CartId(1), both(0, 0)));
    // Delivers everything except the release.
    let is_release = |message: &Message| matches!(message.input, Input::Ask { ask: Ask::Release { .. }, .. });
    loop {
        if let Some(place) = fixture.mail.iter().position(|message| !is_release(message)) {
            let message = fixture.mail.remove(place).expect("just found");
            fixture.deliver(message);
        } else if let Some(entity) = fixture.proposing().first() {
            fixture.commit(entity);
        } else {
            break;
        }
    }
    assert_eq!((fixture.states.tombstones(), fixture.past.len()), (1, 0));
    fixture.run();
    assert_eq!((fixture.states.tombstones(), fixture.past.len()), (0, 1));
}

#[test]
fn random_runs_with_refused_guests() {
    for seed in 0..scaled(SEEDS) {
        guests(seed);
    }
}

/// Prints the seed if the run panics.
struct SeedReport(u64);

impl Drop for SeedReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the guests of seed {} panicked", self.0);
        }
    }
}

/// Guests ask repeatedly for taken seats under the same request ids, while releases come a second time.
pub(crate) fn guests(seed: u64) {
    let _report = SeedReport(seed);
    let (mut fixture, mut rng) = (fixture(), Rng(seed));
    for _ in 0..STEPS {
        let cart = CartId(u128::from(rng.below(3)));
        match rng.below(8) {
            0 | 1 => {
                let late = releases(&fixture, cart);
                if !late.is_empty() {
                    fixture.post(late[rng.below(late.len() as u64) as usize].clone());
                }
            }
            2 => _ = fixture.send(Some("release"), Command::Cart(cart, CartCommand::Release { line: 1, seats: None })),
            _ => {
                // A request id always has the same body.
                let number = rng.below(3);
                let (first, second) = [(0, 0), (1, 0), (0, 1)][number as usize];
                _ = fixture.send(Some(&format!("r{number}")), Command::Cart(cart, both(first, second)));
            }
        }
        fixture.run();
    }
}

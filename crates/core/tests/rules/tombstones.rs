//! Guests who were refused leave nothing in memory, and never get a hold under an id that was given back.

use boxoffice_core::{
    ask::Ask,
    command::{CartCommand, Command, VenueCommand, Want, WantedLine},
    host::Input,
    id::{CartId, Entity},
    rules::Rules,
    seat::{Seat, SeatSet},
};

use crate::{
    script::{details, hold_lines, id, layout, new_session},
    storm::Dice,
    town::{Message, Town},
};

const SEEDS: u64 = 300;
const STEPS: u32 = 80;

/// Two sessions of four seats each, in one hall.
fn town() -> Town {
    let mut town = Town::new(Rules::default());
    let layout = layout("aaaa");
    let to_venue = |command| Command::Venue(id("venue"), command);
    town.send(Some("venue"), to_venue(VenueCommand::Put(details())));
    town.run();
    let hall =
        VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout: layout.clone() };
    town.send(Some("hall"), to_venue(hall));
    town.run();
    for (name, start) in [("s", 1_000), ("t", 3_000)] {
        let session = new_session(name, &layout, start, start + 1_000, None);
        town.send(Some("create"), to_venue(VenueCommand::CreateSession(session)));
    }
    town.run();
    town
}

/// One seat of each of both sessions.
fn both(first: u16, second: u16) -> CartCommand {
    let line = |(name, seat)| {
        let seats = SeatSet::new([Seat { row: 0, seat }]).expect("one seat");
        WantedLine { entity: Entity::Session(id(name)), want: Want::Seats { seats, best_effort: false } }
    };
    hold_lines([("s", first), ("t", second)].map(line).into())
}

fn releases(town: &Town, cart: CartId) -> Vec<Message> {
    let of_cart = |message: &&Message| match &message.input {
        Input::Ask { from, ask: Ask::Release { .. } } => *from == Entity::Cart(cart),
        _ => false,
    };
    town.posted.iter().filter(of_cart).cloned().collect()
}

#[test]
pub(crate) fn a_refused_guest_leaves_memory_and_its_hold_is_never_another() {
    let mut town = town();
    let (ann, bob) = (CartId(1), CartId(2));
    town.send(Some("bob"), Command::Cart(bob, both(3, 0)));
    town.run();
    town.send(Some("ann"), Command::Cart(ann, both(0, 0)));
    town.run();
    assert!(town.answers.values().last().expect("ann is answered").is_err());
    assert!(!town.kept.contains(&Entity::Cart(ann)), "what was given back is acknowledged");
    assert_eq!(town.kept.tombstones(), 0);
    let late = releases(&town, ann);
    assert_eq!(late.len(), 1, "the seat of the first session was given back");
    // Bob leaves, and Ann repeats her request: it is granted now.
    town.send(Some("leave"), Command::Cart(bob, CartCommand::Cancel));
    town.run();
    town.send(Some("ann"), Command::Cart(ann, both(0, 0)));
    town.run();
    assert!(town.answers.values().last().expect("ann is answered").is_ok());
    assert!(town.kept.contains(&Entity::Cart(ann)));
    // The release of the hold that was refused comes a second time. The town sees that no line loses its hold.
    late.into_iter().for_each(|message| town.post(message));
    town.run();
}

/// Until what it owes is acknowledged a tombstone is in memory, and counted.
#[test]
fn a_tombstone_is_counted_until_it_has_left() {
    let mut town = town();
    town.send(Some("bob"), Command::Cart(CartId(2), both(3, 0)));
    town.run();
    town.send(Some("ann"), Command::Cart(CartId(1), both(0, 0)));
    // Everything arrives but the release.
    let is_release = |message: &Message| matches!(message.input, Input::Ask { ask: Ask::Release { .. }, .. });
    loop {
        if let Some(place) = town.mail.iter().position(|message| !is_release(message)) {
            let message = town.mail.remove(place).expect("just found");
            town.deliver(message);
        } else if let Some(entity) = town.proposing().first() {
            town.commit(entity);
        } else {
            break;
        }
    }
    assert_eq!((town.kept.tombstones(), town.past.len()), (1, 0));
    town.run();
    assert_eq!((town.kept.tombstones(), town.past.len()), (0, 1));
}

#[test]
fn guests_who_come_and_go() {
    for seed in 0..SEEDS {
        guests(seed);
    }
}

/// Says which seed it was if it ends badly.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the guests of seed {} ended badly", self.0);
        }
    }
}

/// Guests who ask for seats that others have, again and again under the same request ids, while releases come a second time.
pub(crate) fn guests(seed: u64) {
    let _named = Named(seed);
    let (mut town, mut dice) = (town(), Dice(seed));
    for _ in 0..STEPS {
        let cart = CartId(u128::from(dice.roll(3)));
        match dice.roll(8) {
            0 | 1 => {
                let late = releases(&town, cart);
                if !late.is_empty() {
                    town.post(late[dice.roll(late.len() as u64) as usize].clone());
                }
            }
            2 => _ = town.send(Some("release"), Command::Cart(cart, CartCommand::Release { line: 1, seats: None })),
            _ => {
                // What a request id asks for is always the same.
                let number = dice.roll(3);
                let (first, second) = [(0, 0), (1, 0), (0, 1)][number as usize];
                _ = town.send(Some(&format!("r{number}")), Command::Cart(cart, both(first, second)));
            }
        }
        town.run();
    }
}

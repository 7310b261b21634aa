//! Storms: random commands while messages are delayed, doubled, lost and overtaken, hosts crash, and time passes. Every
//! promise is checked after every commit by the town; when the storm is over everything must come to rest, with nothing
//! held, owed or remembered that should not be.

use std::collections::BTreeSet;

use boxoffice_core::{
    answer::CartState,
    command::{BestWish, CartCommand, Command, SessionCommand, VenueCommand, Want, WantedLine},
    host::Input,
    id::{CartId, Entity},
    keep::State,
    payment::OnDecline,
    seat::{Seat, SeatSet},
    time::Rules,
};

use crate::{
    script::{cart, check_out, details, hold_lines, id, layout, new_session},
    town::{Message, Ticket, Town},
};

const SEEDS: u64 = 1_500;
const STEPS: u32 = 300;

#[test]
fn storms() {
    for seed in 0..SEEDS {
        storm(seed, Weather::ROUGH);
    }
}

#[test]
fn storms_in_which_nothing_is_lost() {
    for seed in 0..SEEDS / 3 {
        storm(seed, Weather { crash: 0, lose: 0, ..Weather::ROUGH });
    }
}

#[test]
fn storms_of_crashes() {
    for seed in 0..SEEDS / 3 {
        storm(seed, Weather { crash: 12, lose: 0, double: 0, ..Weather::ROUGH });
    }
}

/// How often what happens, in hundredths.
#[derive(Clone, Copy)]
struct Weather {
    crash: u32,
    lose: u32,
    double: u32,
    pass: u32,
}

impl Weather {
    const ROUGH: Weather = Weather { crash: 3, lose: 8, double: 10, pass: 6 };
}

/// Numbers from a seed: SplitMix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn chance(&mut self, hundredths: u32) -> bool {
        self.roll(100) < u64::from(hundredths)
    }
}

/// Says which storm it was if it ends badly.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the storm of seed {} ended badly", self.0);
        }
    }
}

fn storm(seed: u64, weather: Weather) -> Town {
    let _named = Named(seed);
    let rules = Rules {
        hold_ttl_ms: 1_000,
        hold_ttl_max_ms: 10_000,
        cart_age_max_ms: 4_000,
        grace_ms: 100,
        settle_ms: 200,
        ask_again_ms: 100,
        payment_wait_ms: 300,
        payment_again_ms: 100,
        on_decline: OnDecline::Release,
    };
    let mut sea = Sea { town: town(rules), dice: Dice(seed), sent: Vec::new(), tickets: BTreeSet::new() };
    for _ in 0..STEPS {
        sea.step(weather);
    }
    sea.calm();
    sea.check_rest(weather.lose == 0 && weather.crash == 0);
    sea.town
}

/// What is left after a rough storm.
pub(crate) fn aftermath(seed: u64) -> Town {
    storm(seed, Weather::ROUGH)
}

/// Two sessions in a hall of seven seats, one of them with a short time to live.
fn town(rules: Rules) -> Town {
    let mut town = Town::new(rules);
    let layout = layout("aaaa/bbB");
    let sessions = [
        new_session("s", &layout, 1_000_000, 2_000_000, None),
        new_session("t", &layout, 3_000_000, 4_000_000, Some(600)),
    ];
    let to_venue = |command| Command::Venue(id("venue"), command);
    town.send(Some("venue"), to_venue(VenueCommand::Put(details())));
    town.run();
    town.send(Some("hall"), to_venue(VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), layout }));
    town.run();
    for session in sessions {
        town.send(Some("create"), to_venue(VenueCommand::CreateSession(session)));
    }
    town.run();
    town
}

struct Sea {
    town: Town,
    dice: Dice,
    /// What clients have sent: they repeat it when they hear nothing, and sometimes when they do.
    sent: Vec<(String, Command)>,
    tickets: BTreeSet<Ticket>,
}

impl Sea {
    fn step(&mut self, weather: Weather) {
        if self.dice.chance(weather.pass) {
            let span = 1 + self.dice.roll(150);
            let until = match self.town.next_wake() {
                // To the very millisecond, every second time.
                Some(wake) if self.dice.chance(50) && wake.0 < self.town.now.0 + 2_000 => wake,
                Some(_) | None => self.town.now.after(span),
            };
            self.town.pass(until);
        }
        if self.dice.chance(weather.crash) {
            let entity = self.somebody();
            let survive = self.dice.roll(3) as usize;
            self.town.crash(&entity, survive);
        }
        match self.dice.roll(10) {
            0 | 1 => self.send(),
            2..6 => self.deliver(weather),
            _ => self.commit(),
        }
    }

    fn somebody(&mut self) -> Entity {
        match self.dice.roll(6) {
            0 => Entity::Session(id("s")),
            1 => Entity::Session(id("t")),
            cart => Entity::Cart(buyer(cart - 2)),
        }
    }

    fn send(&mut self) {
        let (request, command) = match self.sent.len() as u64 {
            many if many > 0 && self.dice.chance(35) => self.sent[self.dice.roll(many) as usize].clone(),
            many => {
                let request = match many {
                    // Another body under a known id, now and then.
                    1.. if self.dice.chance(3) => self.sent[self.dice.roll(many) as usize].0.clone(),
                    _ => format!("r{many}"),
                };
                (request, self.command())
            }
        };
        self.sent.push((request.clone(), command.clone()));
        let ticket = self.town.send(Some(&request), command);
        self.tickets.insert(ticket);
    }

    fn command(&mut self) -> Command {
        let buyer = buyer(self.dice.roll(4));
        let command = match self.dice.roll(20) {
            0 => CartCommand::Open { customer: None, ttl_ms: Some(200 + self.dice.roll(2_000)) },
            1 => CartCommand::Get,
            2 => CartCommand::Cancel,
            3..=5 => check_out(),
            6..=8 => CartCommand::Release { line: 1 + self.dice.roll(3) as u32, seats: None },
            9 => {
                let seats = Some(self.seats());
                CartCommand::Release { line: 1 + self.dice.roll(3) as u32, seats }
            }
            10 => {
                let seats = self.seats().as_slice().to_vec();
                let blocks = self.dice.chance(50);
                let command = if blocks { SessionCommand::Block(seats) } else { SessionCommand::Unblock(seats) };
                return Command::Session(self.session(), command);
            }
            11..=13 => {
                let lines = 2 + self.dice.roll(2);
                hold_lines((0..lines).map(|_| self.wanted()).collect())
            }
            _ => hold_lines(vec![self.wanted()]),
        };
        Command::Cart(buyer, command)
    }

    fn wanted(&mut self) -> WantedLine {
        let want = if self.dice.chance(30) {
            let count = 1 + self.dice.roll(3) as u16;
            Want::Best(BestWish { count, category: None, section: None, accessible: 0, split: self.dice.chance(50) })
        } else {
            Want::Seats { seats: self.seats(), best_effort: self.dice.chance(20) }
        };
        WantedLine { entity: Entity::Session(self.session()), want }
    }

    fn session(&mut self) -> boxoffice_core::id::Id {
        id(if self.dice.chance(60) { "s" } else { "t" })
    }

    fn seats(&mut self) -> SeatSet {
        let row = self.dice.roll(2) as u16;
        let first = self.dice.roll(3) as u16;
        let count = 1 + self.dice.roll(2) as u16;
        SeatSet::new((first..first + count).map(|seat| Seat { row, seat })).expect("one or two seats")
    }

    fn deliver(&mut self, weather: Weather) {
        let waiting = self.town.mail.len() as u64;
        if waiting == 0 {
            return;
        }
        // Mostly in order, sometimes not at all.
        let place = if self.dice.chance(60) { 0 } else { self.dice.roll(waiting) as usize };
        let message = self.town.mail[place].clone();
        if between_entities(&message) {
            if self.dice.chance(weather.lose) {
                self.town.mail.remove(place);
                return;
            }
            if self.dice.chance(weather.double) {
                // It stays in the post, and comes again at any time.
                self.town.mail.push_back(message.clone());
            }
        }
        self.town.mail.remove(place);
        self.town.deliver(message);
    }

    fn commit(&mut self) {
        let proposing = self.town.proposing();
        if !proposing.is_empty() {
            let entity = &proposing[self.dice.roll(proposing.len() as u64) as usize];
            self.town.commit(entity);
        }
    }

    /// The storm is over: everything is delivered and committed, and time passes until nobody wants anything.
    fn calm(&mut self) {
        self.town.run();
        let end = self.town.now.after(20_000);
        while let Some(wake) = self.town.next_wake().filter(|wake| *wake <= end) {
            self.town.pass(wake);
            self.town.run();
        }
        self.town.pass(end);
        self.town.run();
    }

    fn check_rest(&self, nothing_lost: bool) {
        let town = &self.town;
        for ticket in &self.tickets {
            let (answered, lost) = (town.answers.contains_key(ticket), town.is_lost(*ticket));
            assert!(answered != lost, "ticket {ticket}: answered {answered}, lost {lost}");
        }
        let (mut bought, mut sold) = (0, 0);
        for (entity, state) in town.kept.entities() {
            assert!(!state.unfinished(), "{entity} owes something for ever: {state:?}");
            match &**state {
                State::Venue(_) | State::Directory(_) | State::Product(_) | State::Resource(_) | State::Customer(_) => {}
                State::Session(session) => {
                    assert_eq!(session.counts().held, 0, "{entity} holds seats for ever");
                    // A release that comes late, and whose acknowledgement is lost, may be remembered for ever.
                    let releases = session.remembered_releases();
                    assert!(releases == 0 || !nothing_lost, "{entity} remembers {releases} releases for ever");
                    sold += session.counts().sold as usize;
                }
                State::Cart(cart) => {
                    let over = match cart.state() {
                        None | Some(CartState::Done | CartState::Canceled | CartState::Expired) => true,
                        Some(CartState::Active | CartState::CheckingOut) => false,
                    };
                    assert!(over, "{entity} lives for ever");
                    bought += cart.order().map_or(0, |order| order.lines.iter().map(|line| line.content.quantity() as usize).sum());
                }
            }
        }
        assert_eq!(bought, sold, "orders and sessions disagree");
    }
}

fn between_entities(message: &Message) -> bool {
    match message.input {
        Input::Ask { .. } | Input::Reply { .. } => true,
        Input::Command { .. } | Input::Paid { .. } | Input::Wake => false,
    }
}

fn buyer(number: u64) -> CartId {
    cart(["a", "b", "c", "d"][number as usize])
}

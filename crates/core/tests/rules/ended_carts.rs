//! An ended cart frees everything within the grace, even if the message of its end is lost (P8). Operators, canceled sessions and
//! shorter lifetimes end carts earlier than their inventories expect.

use std::collections::BTreeMap;

use boxoffice_core::{
    ask::Ask,
    command::{
        Area, CartCommand, Command, CustomerLimit, Expect, Limits, NewSession, ProductCommand, ProductDetails,
        ResourceCommand, SessionCommand, SessionExtras, VenueCommand, Want, WantedLine,
    },
    event::{CustomerEvent, Event, ProductEvent},
    host::Input,
    id::{CartId, Entity, HoldId, Id},
    payment::OnDecline,
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::State,
    time::Timestamp,
};

use crate::{
    fixture::Fixture,
    random_runs::{Rng, scaled},
    script::{details, euros, id, layout, new_session, pay, product, recorded, resource},
};

const SEEDS: u64 = 200;
const STEPS: u32 = 120;

#[test]
fn holds_of_an_ended_cart_are_free_within_the_grace() {
    for seed in 0..scaled(SEEDS) {
        expiry_run(seed);
    }
}

/// Histories mark a release as an expiry in three cases: after the cart's message, after the question of an inventory that
/// missed it, and after the release that a cart owes to an inventory with a later deadline.
#[test]
pub(crate) fn history_distinguishes_expiries_from_releases() {
    for (received, owner) in [(true, false), (false, false), (true, true)] {
        let mut fixture = ExpiryRun::new(1).fixture;
        let want = Want::Units { quantity: 2, now: false };
        let line = WantedLine::new(Entity::Product(id("p")), want);
        let hold = CartCommand::Hold {
            lines: vec![line],
            customer: Some(id("ann")),
            guest: false,
            holder: None,
            attributes: Vec::new(),
        };
        fixture.send(Some("hold"), Command::Cart(CartId(0), hold));
        fixture.run();
        if owner {
            fixture.send(Some("release"), Command::Cart(CartId(0), CartCommand::Release { line: 1, seats: None }));
            fixture.run();
        }
        fixture.wait(10_000, if received { Fixture::run } else { settle });
        let expiries: Vec<bool> = fixture.log.iter().filter_map(|(_, event)| expired(event)).collect();
        assert_eq!(
            expiries, [!owner; 2],
            "of the product and of the quota; received: {received}, by the owner: {owner}"
        );
    }
    // The inventory believes in 3 s, and the product's lifetime is shorter since. So the cart owes the release.
    let mut fixture = ExpiryRun::new(1).fixture;
    for (request, name) in [("1", "p"), ("2", "q")] {
        let want = Want::Units { quantity: 2, now: false };
        let line = WantedLine::new(Entity::Product(id(name)), want);
        let hold = CartCommand::Hold {
            lines: vec![line],
            customer: Some(id("ann")),
            guest: false,
            holder: None,
            attributes: Vec::new(),
        };
        if name == "q" {
            let details = ProductDetails { hold_ttl_ms: Some(150), ..product(euros(250), 100) };
            fixture.send(Some("put"), Command::Product(id(name), ProductCommand::Put(Box::new(details))));
        }
        fixture.send(Some(request), Command::Cart(CartId(0), hold));
        fixture.run();
    }
    fixture.wait(10_000, settle);
    let expiries: Vec<bool> = fixture.log.iter().filter_map(|(_, event)| expired(event)).collect();
    assert!(expiries.len() >= 3 && expiries.iter().all(|expired| *expired), "{expiries:?}");
}

fn expired(event: &Event) -> Option<bool> {
    match event {
        Event::Product(ProductEvent::UnitsReleased { expired, .. })
        | Event::Customer(CustomerEvent::QuotaReleased { expired, .. }) => Some(*expired),
        _ => None,
    }
}

/// Prints the seed if the run panics.
struct SeedReport(u64);

impl Drop for SeedReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run of seed {} panicked", self.0);
        }
    }
}

/// A fixture whose messages arrive at once, except messages that a cart has expired, which never arrive.
pub(crate) fn expiry_run(seed: u64) {
    let _report = SeedReport(seed);
    let mut expiry_run = ExpiryRun::new(seed);
    for _ in 0..STEPS {
        expiry_run.step();
    }
    expiry_run.pass(20_000);
}

struct ExpiryRun {
    fixture: Fixture,
    rng: Rng,
    ends: Ends,
    requests: u64,
    /// The current cart of each buyer.
    carts: [u128; 3],
}

/// The reference, with the end of each cart.
#[derive(Default)]
struct Ends(BTreeMap<CartId, Timestamp>);

impl Ends {
    /// Checks all carts and all holds, after everything due has happened.
    fn check(&mut self, fixture: &Fixture) {
        for (entity, state) in fixture.states.entities() {
            let (Entity::Cart(id), State::Cart(cart)) = (entity, &**state) else { continue };
            if cart.terminal() {
                self.0.entry(*id).or_insert(fixture.now);
            }
        }
        for (entity, state) in fixture.states.entities() {
            for (hold, deadline) in holds(state) {
                let Some(ended) = self.0.get(&hold.cart) else { continue };
                let free_at = ended.after(fixture.rules().grace_ms);
                assert!(
                    fixture.now < free_at,
                    "{entity} keeps {hold:?} at {:?} and asks at {deadline:?}; its cart has ended at {ended:?}",
                    fixture.now
                );
            }
        }
    }
}

fn holds(state: &State) -> Vec<(HoldId, Timestamp)> {
    let holds = match state {
        State::Session(session) => session.audit().holds,
        State::Product(product) => product.audit().holds,
        State::Resource(resource) => resource.audit().holds,
        State::Customer(customer) => customer.audit().holds,
        State::Code(code) => code.audit().holds,
        State::Venue(_) | State::Cart(_) | State::Directory(_) | State::Cluster(_) => Vec::new(),
    };
    holds.into_iter().map(|hold| (hold.hold, hold.deadline)).collect()
}

/// Runs everything that can happen now. Messages of expiries are lost.
fn settle(fixture: &mut Fixture) {
    for _ in 0..100_000 {
        fixture.mail.retain(|message| !matches!(message.input, Input::Ask { ask: Ask::Expired { .. }, .. }));
        if let Some(message) = fixture.mail.pop_front() {
            fixture.deliver(message);
        } else if !fixture.pay() {
            match fixture.proposing().first() {
                Some(entity) => fixture.commit(entity),
                None => return,
            }
        }
    }
    panic!("the fixture does not become idle");
}

impl ExpiryRun {
    fn new(seed: u64) -> ExpiryRun {
        let rules = Rules {
            hold_ttl_ms: 3_000,
            hold_ttl_max_ms: 20_000,
            cart_age_max_ms: 9_000,
            guest_ttl_max_ms: 2_500,
            guest_age_max_ms: 6_000,
            grace_ms: 100,
            confirm_ms: 400,
            settle_ms: 200,
            ask_again_ms: 50,
            payment_wait_ms: 300,
            payment_again_ms: 100,
            on_decline: OnDecline::Release,
            gateway: true,
            payment_epoch: 0,
            fairness: boxoffice_core::fairness::Fairness::USUAL,
        };
        let mut fixture = Fixture::new(rules);
        let layout = layout("aaaa/bbbb");
        let to_venue = |command| Command::Venue(id("venue"), command);
        fixture.send(Some("venue"), to_venue(VenueCommand::Put(details())));
        fixture.run();
        let hall = VenueCommand::PutHall {
            hall: id("hall"),
            name: "Hall".into(),
            comments: "".into(),
            layout: layout.clone(),
        };
        fixture.send(Some("hall"), to_venue(hall));
        fixture.run();
        let limits = Limits { per_order: None, per_customer: Some(CustomerLimit { quota: id("few"), max: 50 }) };
        for (number, (name, ttl_ms)) in
            [("s", None), ("t", Some(300)), ("u", Some(900)), ("v", Some(8_000))].iter().enumerate()
        {
            let start = 1_000_000 * (number as u64 + 1);
            let plain = new_session(name, &layout, start, start + 1_000, *ttl_ms);
            let stand = Area {
                id: id("stand"),
                name: "Stand".into(),
                capacity: 60,
                price: euros(500),
                names: Default::default(),
            };
            let limits = if number == 2 { limits.clone() } else { Limits::default() };
            let extras = SessionExtras { areas: vec![stand], limits, ..plain.extras };
            let session = NewSession { extras, ..plain };
            fixture.send(Some("create"), to_venue(VenueCommand::CreateSession(session)));
        }
        for name in ["p", "q"] {
            let details = ProductDetails { limits: limits.clone(), ..product(euros(250), 100) };
            fixture.send(Some("put"), Command::Product(id(name), ProductCommand::Put(Box::new(details))));
        }
        let room = Box::new(resource(euros(1_200)));
        fixture.send(Some("put"), Command::Resource(id("r"), ResourceCommand::Put(room)));
        fixture.run();
        fixture.gateway.rng = Some(Rng(!seed));
        ExpiryRun { fixture, rng: Rng(seed), ends: Ends::default(), requests: 0, carts: [0, 1, 2] }
    }

    fn step(&mut self) {
        match self.rng.below(10) {
            0 => {
                let span_ms = 1 + self.rng.below(2_000);
                self.pass(span_ms);
            }
            1..4 => {
                let span_ms = 1 + self.rng.below(200);
                self.pass(span_ms);
            }
            4 if self.rng.below(4) == 0 => {
                let carts: Vec<Entity> = self.carts.iter().map(|cart| Entity::Cart(CartId(*cart))).collect();
                self.fixture.crash(&carts[self.rng.below(3) as usize], 9);
            }
            _ => self.send(),
        }
        settle(&mut self.fixture);
        self.ends.check(&self.fixture);
    }

    fn pass(&mut self, span_ms: u64) {
        let ends = &mut self.ends;
        self.fixture.wait(span_ms, |fixture| {
            settle(fixture);
            ends.check(fixture);
        });
    }

    fn send(&mut self) {
        self.requests += 1;
        let request = format!("r{}", self.requests);
        let command = self.command();
        self.fixture.send(Some(&request), command);
    }

    fn command(&mut self) -> Command {
        let buyer = self.rng.below(3) as usize;
        if self.ends.0.contains_key(&CartId(self.carts[buyer])) {
            self.carts[buyer] += 3;
        }
        let cart = CartId(self.carts[buyer]);
        let line = 1 + self.rng.below(5) as u32;
        let customer = Some(id("ann"));
        let command = match self.rng.below(24) {
            0 => CartCommand::Open {
                customer: None,
                ttl_ms: Some(50 + self.rng.below(6_000)),
                guest: self.rng.chance(50),
            },
            1 => CartCommand::Cancel,
            2 => pay(Some(OnDecline::Keep), customer),
            3 => CartCommand::Checkout {
                payment: recorded(),
                customer,
                shipping: None,
                expect: Expect::default(),
                holder: None,
            },
            4 | 5 => CartCommand::Release { line, seats: None },
            6 | 7 => CartCommand::Revoke { line, reason: "".into() },
            8 | 9 => CartCommand::SetQuantity {
                line,
                quantity: 1 + self.rng.below(4) as u32,
                guest: false,
                holder: None,
                attributes: Vec::new(),
            },
            10 if self.rng.below(8) == 0 => {
                return Command::Session(self.session(), SessionCommand::Cancel { reason: "rain".into() });
            }
            11 | 12 => {
                let ttl = [None, Some(150), Some(700), Some(5_000)][self.rng.below(4) as usize];
                let name = ["p", "q"][self.rng.below(2) as usize];
                let details = ProductDetails { hold_ttl_ms: ttl, ..product(euros(250), 100) };
                return Command::Product(id(name), ProductCommand::Put(Box::new(details)));
            }
            13..16 => {
                let lines = (0..2).map(|_| self.wanted()).collect();
                CartCommand::Hold { lines, customer, guest: false, holder: None, attributes: Vec::new() }
            }
            _ => CartCommand::Hold {
                lines: vec![self.wanted()],
                customer,
                guest: false,
                holder: None,
                attributes: Vec::new(),
            },
        };
        Command::Cart(cart, command)
    }

    fn session(&mut self) -> Id {
        id(["s", "t", "u", "v"][self.rng.below(4) as usize])
    }

    fn wanted(&mut self) -> WantedLine {
        let quantity = 1 + self.rng.below(3) as u32;
        let (entity, want) = match self.rng.below(8) {
            0..3 => (Entity::Product(id("p")), Want::Units { quantity, now: false }),
            3 => (Entity::Product(id("q")), Want::Units { quantity, now: false }),
            4 => {
                // Far in the future, because begun slots are not held.
                let begin = Timestamp(1_000_000_000 + self.rng.below(20) * 1_000);
                (Entity::Resource(id("r")), Want::Slot { begin, end: begin.after(1_000), details: "".into() })
            }
            5 => (Entity::Session(self.session()), Want::places(id("stand"), quantity)),
            _ => {
                let seat = Seat { row: self.rng.below(2) as u16, seat: self.rng.below(4) as u16 };
                let seats = SeatSet::new([seat]).expect("one seat");
                (Entity::Session(self.session()), Want::seats(seats, false))
            }
        };
        WantedLine::new(entity, want)
    }
}

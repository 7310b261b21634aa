//! Storms: random commands while messages are delayed, doubled, lost and overtaken, hosts crash, and time passes. Every
//! promise is checked after every commit by the town; when the storm is over everything must come to rest, with nothing
//! held, owed or remembered that should not be.

use std::collections::BTreeSet;

use boxoffice_core::{
    answer::CartState,
    command::{
        Area, BestWish, CartCommand, Command, CustomerLimit, Expect, HoldPolicy, Limits, NewSession, ProductCommand,
        ProductDetails, ResourceCommand, SessionCommand, VenueCommand, Want, WantedLine,
    },
    host::Input,
    id::{CartId, Entity, HoldId, Id, OrderId},
    state_map::State,
    payment::{OnDecline, PaymentKey, Settlement},
    portion::Portion,
    rules::Rules,
    seat::{Seat, SeatSet},
    time::Timestamp,
};

use crate::{
    script::{cart, details, euros, id, layout, new_session, pay, product, recorded, resource},
    town::{Message, Ticket, Town},
};

const SEEDS: u64 = 900;
const STEPS: u32 = 300;
/// Leaders that were stopped and have not heard of it, at a time.
const STOPPED_MAX: usize = 6;
/// How much a customer may have of what is limited.
const QUOTA_MAX: u32 = 5;

#[test]
fn storms() {
    // Other seeds than those of every day, by hand.
    let from = std::env::var("STORM_FROM").ok().and_then(|from| from.parse().ok()).unwrap_or(0);
    for seed in from..from + SEEDS {
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

#[test]
fn storms_of_operators() {
    for seed in 0..SEEDS / 2 {
        storm(seed, Weather::OF_OPERATORS);
    }
}

#[test]
fn storms_of_stopped_leaders() {
    let from = std::env::var("STORM_FROM").ok().and_then(|from| from.parse().ok()).unwrap_or(0);
    let seeds = std::env::var("STORM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    for seed in from..from + seeds {
        stopped_aftermath(seed);
    }
}

/// How often what happens, in hundredths.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    crash: u32,
    /// A leader is stopped and goes on beside its successor, or one of those hears that it leads no more.
    stop: u32,
    /// Of the other commands, those for the best seats and for less of them.
    choosy: u32,
    lose: u32,
    double: u32,
    pass: u32,
    /// Of the commands, those of operators that take away, cancel, and change terms.
    operators: u32,
}

impl Weather {
    pub(crate) const ROUGH: Weather =
        Weather { crash: 3, stop: 0, choosy: 0, lose: 8, double: 10, pass: 6, operators: 0 };
    pub(crate) const OF_OPERATORS: Weather = Weather { operators: 25, pass: 14, ..Weather::ROUGH };
    pub(crate) const OF_STOPPED_LEADERS: Weather = Weather { stop: 12, crash: 1, pass: 10, ..Weather::ROUGH };
    pub(crate) const OF_OTHER_SEATS: Weather =
        Weather { stop: 18, choosy: 95, pass: 4, lose: 3, double: 5, ..Weather::OF_STOPPED_LEADERS };
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

    pub(crate) fn chance(&mut self, hundredths: u32) -> bool {
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
    let mut sea = Sea::new(seed);
    for _ in 0..STEPS {
        sea.step(weather);
    }
    sea.calm();
    sea.check_rest(weather.lose == 0 && weather.crash == 0);
    sea.town
}

pub(crate) fn rules() -> Rules {
    Rules {
        hold_ttl_ms: 1_000,
        hold_ttl_max_ms: 10_000,
        cart_age_max_ms: 4_000,
        guest_ttl_max_ms: 800,
        guest_age_max_ms: 2_500,
        grace_ms: 100,
        confirm_ms: 400,
        settle_ms: 200,
        ask_again_ms: 100,
        payment_wait_ms: 300,
        payment_again_ms: 100,
        on_decline: OnDecline::Release,
        gateway: true,
    }
}

/// A storm that is not over.
pub(crate) fn midst(seed: u64, steps: u32) -> Town {
    let mut sea = Sea::new(seed);
    for _ in 0..steps {
        sea.step(Weather::ROUGH);
    }
    sea.town
}

/// What is left after a storm in which operators do a lot.
#[cfg(feature = "planted")]
pub(crate) fn operated_aftermath(seed: u64) -> Town {
    storm(seed, Weather::OF_OPERATORS)
}

/// What is left after a storm in which no message and no host is lost.
#[cfg(feature = "planted")]
pub(crate) fn quiet_aftermath(seed: u64) -> Town {
    storm(seed, Weather { crash: 0, lose: 0, ..Weather::ROUGH })
}

/// What is left after storms in which leaders are stopped and go on beside their successors.
pub(crate) fn stopped_aftermath(seed: u64) {
    storm(seed, Weather::OF_STOPPED_LEADERS);
    storm(seed, Weather::OF_OTHER_SEATS);
}

/// What is left after a rough storm.
pub(crate) fn aftermath(seed: u64) -> Town {
    storm(seed, Weather::ROUGH)
}

/// Two sessions in a hall of seven seats, one of them with a short time to live and with places; two products, one of them
/// validated at the checkout and limited per customer, as the places are; and a room.
fn town(rules: Rules) -> Town {
    let mut town = Town::new(rules);
    town.quota_max = Some(u64::from(QUOTA_MAX));
    let layout = layout("aaaa/bbB");
    let sessions = [
        new_session("s", &layout, 1_000_000, 2_000_000, None),
        new_session("t", &layout, 3_000_000, 4_000_000, Some(600)),
    ];
    let to_venue = |command| Command::Venue(id("venue"), command);
    town.send(Some("venue"), to_venue(VenueCommand::Put(details())));
    town.run();
    town.send(
        Some("hall"),
        to_venue(VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout }),
    );
    town.run();
    let [plain, short] = sessions;
    let limits = Limits { per_order: Some(4), per_customer: Some(CustomerLimit { quota: id("few"), max: QUOTA_MAX }) };
    let stand = Area { id: id("stand"), name: "Stand".into(), capacity: 6, price: euros(500) };
    let short = NewSession { areas: vec![stand], limits: limits.clone(), ..short };
    for session in [plain, short] {
        town.send(Some("create"), to_venue(VenueCommand::CreateSession(session)));
    }
    let late = ProductDetails { hold: HoldPolicy::AtCheckout, limits, ..product(euros(300), 4) };
    for (name, details) in [("p", product(euros(250), 5)), ("q", late)] {
        town.send(Some("put"), Command::Product(id(name), ProductCommand::Put(Box::new(details))));
    }
    let room = Box::new(resource(euros(1_200)));
    town.send(Some("put"), Command::Resource(id("r"), ResourceCommand::Put(room)));
    town.run();
    town
}

pub(crate) struct Sea {
    pub(crate) town: Town,
    pub(crate) dice: Dice,
    /// What clients have sent: they repeat it when they hear nothing, and sometimes when they do.
    sent: Vec<(String, Command)>,
    pub(crate) tickets: BTreeSet<Ticket>,
}

impl Sea {
    fn new(seed: u64) -> Sea {
        Sea::of(town(rules()), seed)
    }

    /// A storm over a town that is there already.
    pub(crate) fn of(mut town: Town, seed: u64) -> Sea {
        town.bank.dice = Some(Dice(!seed));
        Sea { town, dice: Dice(seed), sent: Vec::new(), tickets: BTreeSet::new() }
    }

    pub(crate) fn step(&mut self, weather: Weather) {
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
            if let Entity::Cart(cart) = entity
                && self.dice.chance(50)
            {
                // Who asked the gateway for it is gone, and so is the answer.
                self.town.calls.retain(|call| call.key().cart != cart);
                self.town.mail.retain(|mail| mail.to != entity || !matches!(mail.input, Input::Paid { .. }));
            }
        }
        if weather.stop > 0 && self.dice.chance(weather.stop) {
            self.stop(weather);
        }
        match self.dice.roll(10) {
            0 | 1 => self.send(weather),
            2 if !self.town.calls.is_empty() => _ = self.town.pay(),
            2..6 => self.deliver(weather),
            _ => self.commit(),
        }
    }

    /// Something happens about leaders that were stopped.
    fn stop(&mut self, weather: Weather) {
        let many = self.town.stopped();
        match self.dice.roll(8) {
            0..3 if many < STOPPED_MAX => {
                let of_seats = self.dice.chance(weather.choosy);
                let entity = if of_seats { Entity::Session(self.session()) } else { self.somebody() };
                let survive = self.dice.roll(3) as usize;
                self.town.stop(&entity, survive);
            }
            _ if many == 0 => {}
            3 => self.town.end_stopped(self.dice.roll(many as u64) as usize),
            4 | 5 => self.town.wake_stopped(self.dice.roll(many as u64) as usize),
            _ => self.town.commit_stopped(self.dice.roll(many as u64) as usize),
        }
    }

    fn somebody(&mut self) -> Entity {
        match self.dice.roll(12) {
            0 => Entity::Session(id("s")),
            1 => Entity::Session(id("t")),
            2 => Entity::Product(id("p")),
            3 => Entity::Product(id("q")),
            4 => Entity::Resource(id("r")),
            5 => Entity::Customer(id("ann")),
            cart => Entity::Cart(buyer((cart - 6) % 4)),
        }
    }

    fn send(&mut self, weather: Weather) {
        let (request, command) = match self.sent.len() as u64 {
            many if many > 0 && self.dice.chance(35) => self.sent[self.dice.roll(many) as usize].clone(),
            many => {
                let request = match many {
                    // Another body under a known id, now and then.
                    1.. if self.dice.chance(3) => self.sent[self.dice.roll(many) as usize].0.clone(),
                    _ => format!("r{many}"),
                };
                let command = if self.dice.chance(weather.operators) {
                    self.operator()
                } else if weather.choosy > 0 && self.dice.chance(weather.choosy) {
                    self.choosy()
                } else {
                    self.command()
                };
                (request, command)
            }
        };
        self.sent.push((request.clone(), command.clone()));
        let ticket = self.town.send(Some(&request), command);
        self.tickets.insert(ticket);
    }

    /// What operators do to carts and to what they have, beside what they do in any storm.
    fn operator(&mut self) -> Command {
        let line = 1 + self.dice.roll(3) as u32;
        match self.dice.roll(12) {
            0 => {
                let ttl_ms = Some(2_000 + self.dice.roll(6_000));
                Command::Cart(buyer(self.dice.roll(4)), CartCommand::Open { customer: None, ttl_ms, guest: false })
            }
            1..=3 => {
                let hold_ttl_ms = self.dice.chance(60).then(|| 200 + self.dice.roll(3_000));
                let details = ProductDetails { hold_ttl_ms, ..product(euros(250), 5 + self.dice.roll(3)) };
                Command::Product(id("p"), ProductCommand::Put(Box::new(details)))
            }
            4 if self.dice.chance(10) => {
                Command::Session(self.session(), SessionCommand::Cancel { reason: "storm".into() })
            }
            _ => Command::Cart(buyer(self.dice.roll(4)), CartCommand::Revoke { line, reason: "".into() }),
        }
    }

    /// What makes holds of a stopped leader and of its successor differ: the best seats, of which some are given back before
    /// the rest is bought.
    fn choosy(&mut self) -> Command {
        let cart = buyer(self.dice.roll(4));
        let view = match self.town.kept.get(&Entity::Cart(cart)).as_deref() {
            Some(State::Cart(cart)) => cart.view(),
            _ => None,
        };
        let lines: Vec<_> = view.into_iter().flat_map(|view| view.lines).collect();
        let some = lines.iter().find(|line| line.content.seats().len() > 1);
        let command = match (self.dice.roll(10), some) {
            (0..6, Some(line)) => {
                let seats = line.content.seats();
                let one = seats[self.dice.roll(seats.len() as u64) as usize].seat;
                CartCommand::Release { line: line.line, seats: Some(SeatSet::new([one]).expect("one seat")) }
            }
            (0..6, None) if !lines.is_empty() => {
                let (payment, customer) = (recorded(), self.customer());
                CartCommand::Checkout { payment, customer, shipping: None, expect: Expect::default() }
            }
            (9, _) => CartCommand::Release { line: 1, seats: None },
            _ => {
                let (count, split) = (2 + self.dice.roll(2) as u16, self.dice.chance(50));
                let best = BestWish { count, category: None, section: None, accessible: 0, split };
                let want = match self.dice.chance(75) {
                    true => Want::Best(best),
                    false => Want::Seats { seats: self.seats(), best_effort: true },
                };
                let lines = vec![WantedLine { entity: Entity::Session(self.session()), want }];
                CartCommand::Hold { lines, customer: self.customer(), guest: false }
            }
        };
        Command::Cart(cart, command)
    }

    fn command(&mut self) -> Command {
        let buyer = buyer(self.dice.roll(4));
        let line = 1 + self.dice.roll(4) as u32;
        let command = match self.dice.roll(34) {
            0 => CartCommand::Open {
                customer: None,
                ttl_ms: Some(200 + self.dice.roll(2_000)),
                guest: self.dice.chance(30),
            },
            1 => CartCommand::Get,
            2 => CartCommand::Cancel,
            3..=5 => {
                let (customer, expect) = (self.customer(), self.expect(buyer));
                CartCommand::Checkout { payment: recorded(), customer, shipping: None, expect }
            }
            6..=7 => CartCommand::Release { line, seats: None },
            9 => CartCommand::Release { line, seats: Some(self.seats()) },
            10 => {
                let seats = self.seats().as_slice().to_vec();
                let blocks = self.dice.chance(50);
                let command = if blocks { SessionCommand::Block(seats) } else { SessionCommand::Unblock(seats) };
                return Command::Session(self.session(), command);
            }
            11..=14 => {
                let lines = (0..2 + self.dice.roll(3)).map(|_| self.wanted()).collect();
                CartCommand::Hold { lines, customer: self.customer(), guest: self.dice.chance(30) }
            }
            15..=18 => CartCommand::SetQuantity { line, quantity: self.dice.roll(5) as u32 },
            19..=21 => {
                let on_decline = [None, Some(OnDecline::Keep), Some(OnDecline::Release)];
                pay(on_decline[self.dice.roll(3) as usize], self.customer())
            }
            22 | 27 => CartCommand::Revoke { line, reason: "".into() },
            23 => CartCommand::Refund { lines: self.dice.chance(60).then(|| vec![line]), reason: "storm".into() },
            24 => self.settle(buyer),
            25 if self.dice.chance(4) => {
                let reason = "storm".into();
                return Command::Session(self.session(), SessionCommand::Cancel { reason });
            }
            26 if self.dice.chance(60) => {
                let late = self.dice.chance(50);
                let hold = if late { HoldPolicy::AtCheckout } else { HoldPolicy::AtAdd };
                let hold_ttl_ms = self.dice.chance(50).then(|| 200 + self.dice.roll(1_500));
                let details = ProductDetails { hold, hold_ttl_ms, ..product(euros(250), 4 + self.dice.roll(3)) };
                return Command::Product(id("p"), ProductCommand::Put(Box::new(details)));
            }
            _ => {
                CartCommand::Hold { lines: vec![self.wanted()], customer: self.customer(), guest: self.dice.chance(30) }
            }
        };
        Command::Cart(buyer, command)
    }

    /// What the buyer saw of the cart a moment ago, or nothing.
    fn expect(&mut self, cart: CartId) -> Expect {
        let seen = match self.town.kept.get(&Entity::Cart(cart)).as_deref() {
            Some(State::Cart(cart)) if self.dice.chance(50) => cart.view(),
            _ => None,
        };
        match seen {
            Some(view) if self.dice.chance(50) => Expect { lines: Some(view.lines_version), ..Expect::default() },
            Some(view) => Expect { total: view.total, ..Expect::default() },
            None => Expect::default(),
        }
    }

    /// An operator says of an attempt what is true of it, or that it came to nothing.
    fn settle(&mut self, cart: CartId) -> CartCommand {
        let attempt = 1 + self.dice.roll(2) as u32;
        let key = PaymentKey { cart, attempt };
        let account = self.town.bank.accounts.get(&key);
        let there = account.is_some_and(|account| account.authorized.is_some_and(|amount| amount % 2 == 0));
        let outcome = if there && self.dice.chance(50) {
            Settlement::Authorized { reference: format!("auth-{attempt}").into() }
        } else {
            Settlement::Declined
        };
        CartCommand::Settle { attempt, outcome }
    }

    fn customer(&mut self) -> Option<Id> {
        match self.dice.roll(8) {
            0 | 1 => None,
            2 => Some(id("bob")),
            _ => Some(id("ann")),
        }
    }

    fn wanted(&mut self) -> WantedLine {
        let quantity = 1 + self.dice.roll(3) as u32;
        match self.dice.roll(10) {
            0 | 1 => {
                return WantedLine { entity: Entity::Product(id("p")), want: Want::Units { quantity, now: false } };
            }
            2 | 3 => {
                return WantedLine { entity: Entity::Product(id("q")), want: Want::Units { quantity, now: false } };
            }
            4 => {
                // Far ahead: what has begun is not held.
                let begin = Timestamp(1_000_000_000 + self.dice.roll(3) * 1_000);
                let want = Want::Slot { begin, end: begin.after(1_000 + self.dice.roll(1_000)), details: "".into() };
                return WantedLine { entity: Entity::Resource(id("r")), want };
            }
            5 | 6 => {
                let want = Want::Places { area: id("stand"), quantity };
                return WantedLine { entity: Entity::Session(id("t")), want };
            }
            _ => {}
        }
        let want = if self.dice.chance(30) {
            let count = 1 + self.dice.roll(3) as u16;
            Want::Best(BestWish { count, category: None, section: None, accessible: 0, split: self.dice.chance(50) })
        } else {
            Want::Seats { seats: self.seats(), best_effort: self.dice.chance(20) }
        };
        WantedLine { entity: Entity::Session(self.session()), want }
    }

    fn session(&mut self) -> Id {
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
        let stopped = self.town.stopped_of(&message.to);
        if !stopped.is_empty() && self.dice.chance(60) {
            // To one that was stopped, and often to nobody else: entities say it again.
            let only = between_entities(&message) && self.dice.chance(35);
            if only {
                self.town.mail.remove(place);
            }
            let one = stopped[self.dice.roll(stopped.len() as u64) as usize];
            self.town.tell_stopped(one, message.input.clone());
            if only {
                return;
            }
        }
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
    pub(crate) fn calm(&mut self) {
        self.town.bank.dice = None;
        while self.town.stopped() > 0 {
            self.town.end_stopped(0);
        }
        self.town.run();
        let end = self.town.now.after(20_000);
        while let Some(wake) = self.town.next_wake().filter(|wake| *wake <= end) {
            self.town.pass(wake);
            self.town.run();
        }
        self.town.pass(end);
        self.town.run();
    }

    pub(crate) fn check_rest(&self, nothing_lost: bool) {
        let town = &self.town;
        for ticket in &self.tickets {
            let (answered, lost) = (town.answers.contains_key(ticket), town.is_lost(*ticket));
            let sent = || {
                let is_it =
                    |message: &&Message| matches!(message.input, Input::Command { from, .. } if from == *ticket);
                town.posted.iter().find(is_it)
            };
            assert!(answered != lost, "ticket {ticket}: answered {answered}, lost {lost}: {:?}", sent());
        }
        town.check_money();
        let mut sales: Vec<(Entity, HoldId, Portion)> = Vec::new();
        let mut claims: Vec<(Entity, HoldId, Portion)> = Vec::new();
        let mut orders: BTreeSet<(Id, OrderId)> = BTreeSet::new();
        let mut posted: Vec<(Id, OrderId)> = Vec::new();
        for (entity, state) in town.kept.entities() {
            assert!(!state.unfinished(), "{entity} owes something for ever: {state:?}");
            let (holds, sold) = match &**state {
                State::Venue(_) | State::Directory(_) | State::Cluster(_) => continue,
                State::Session(session) => {
                    let audit = session.audit();
                    (audit.holds, audit.sales)
                }
                State::Product(product) => {
                    let audit = product.audit();
                    (audit.holds, audit.sales)
                }
                State::Resource(resource) => {
                    let audit = resource.audit();
                    (audit.holds, audit.sales)
                }
                State::Customer(customer) => {
                    let audit = customer.audit();
                    posted.extend(audit.purchases.iter().map(|order| (audit.customer.clone(), *order)));
                    (audit.holds, audit.sales)
                }
                State::Cart(cart) => {
                    let over = match cart.state() {
                        None | Some(CartState::Done | CartState::Canceled | CartState::Expired) => true,
                        Some(CartState::Active | CartState::CheckingOut) => false,
                    };
                    assert!(over, "{entity} lives for ever");
                    if let Some(order) = cart.order() {
                        orders.extend(order.customer.clone().map(|customer| (customer, order.id)));
                        let there = cart
                            .claims()
                            .into_iter()
                            .filter_map(|claim| claim.portion.map(|portion| (claim.entity, claim.hold, portion)));
                        claims.extend(there);
                    }
                    continue;
                }
            };
            assert!(holds.is_empty(), "{entity} holds something for ever: {holds:?}");
            // A release that comes late, and whose acknowledgement is lost, may be remembered for ever.
            let releases = state.remembered_releases();
            assert!(releases == 0 || !nothing_lost, "{entity} remembers {releases} releases for ever");
            sales.extend(sold.into_iter().map(|sale| (entity.clone(), sale.hold, sale.portion)));
        }
        let by_hold = |(entity, hold, _): &(Entity, HoldId, Portion)| (entity.clone(), *hold);
        sales.sort_by_key(by_hold);
        claims.sort_by_key(by_hold);
        assert_eq!(claims, sales, "orders and what was sold disagree");
        posted.sort_unstable();
        assert!(posted.iter().eq(&orders), "orders {orders:?}, posted {posted:?} (P12)");
    }
}

fn between_entities(message: &Message) -> bool {
    match message.input {
        Input::Ask { .. } | Input::Reply { .. } => true,
        Input::Command { .. } | Input::Paid { .. } | Input::Wake => false,
    }
}

pub(crate) fn buyer(number: u64) -> CartId {
    cart(["a", "b", "c", "d"][number as usize])
}

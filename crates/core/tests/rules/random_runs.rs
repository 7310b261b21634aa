//! Random commands while messages are delayed, duplicated, lost and reordered, hosts crash, and time passes. The fixture checks
//! every promise after every commit. At the end nothing may be held, owed or remembered that should not be.

use std::collections::BTreeSet;

use boxoffice_core::{
    answer::CartState,
    ask::Reply,
    calendar::{BookingKey, BookingName},
    command::{
        Area, BestWish, BuyAs, CartCommand, CodeCommand, CodeDetails, Command, Counter, CustomerLimit, Expect,
        HoldPolicy, Limits, NewSession, Offer, Offering, PriceChange, PriceType, ProductCommand, ProductDetails,
        ResourceCommand, ResourceDetails, SessionChange, SessionCommand, SessionExtras, VenueCommand, Want, WantedLine,
    },
    event::{Event, ProductEvent, ResourceEvent, SessionEvent},
    fairness::Fairness,
    holder::Holder,
    host::Input,
    id::{CartId, Entity, HoldId, Id, OrderId},
    payment::{OnDecline, PaymentKey, Settlement},
    portion::Portion,
    refusal::Refusal,
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::State,
    time::Timestamp,
    version::OLDEST_READ,
};

use crate::{
    fixture::{Fixture, Message, Ticket},
    script::{cart, details, euros, id, layout, new_session, pay, product, recorded, resource},
};

const SEEDS: u64 = 300;

/// This count times `BOXOFFICE_RANDOM`, the factor of all random tests. It is 1 if not set.
pub(crate) fn scaled(count: u64) -> u64 {
    count * std::env::var("BOXOFFICE_RANDOM").map_or(1, |text| text.parse().expect("a number"))
}

/// The same, for tests by proptest.
pub(crate) fn cases(count: u32) -> u32 {
    scaled(count.into()).try_into().expect("fewer than 4 billion cases")
}

const STEPS: u32 = 300;
/// The most deposed hosts at a time.
const DEPOSED_MAX: usize = 6;
/// The limit of a customer.
const QUOTA_MAX: u32 = 5;

/// The codes of runs with offers, and how many uses each has.
const CODES: [&str; 2] = ["gold", "silver"];
const CODE_USES: u32 = 3;
/// An offer with a limit per customer, and that limit.
pub(crate) const FRIENDS: &str = "friends";
pub(crate) const FRIENDS_MAX: u32 = 2;

#[test]
fn random_runs() {
    // Other seeds than the default ones.
    let from = std::env::var("RANDOM_RUNS_FROM").ok().and_then(|from| from.parse().ok()).unwrap_or(0);
    for seed in from..from + scaled(SEEDS) {
        random_run(seed, FaultRates::ROUGH);
    }
}

#[test]
fn random_runs_without_losses() {
    for seed in 0..scaled(SEEDS / 3) {
        random_run(seed, FaultRates { crash: 0, lose: 0, ..FaultRates::ROUGH });
    }
}

#[test]
fn random_runs_with_crashes() {
    for seed in 0..scaled(SEEDS / 3) {
        random_run(seed, FaultRates { crash: 12, lose: 0, double: 0, ..FaultRates::ROUGH });
    }
}

/// A deposed leader is asked for less of a hold than it knows, after the hold has used its holder's time.
#[test]
fn a_run_in_which_a_charged_hold_gets_less() {
    after_runs_with_deposed_leaders(4_086);
}

/// A deposed host of a cart asks for a hold that its successor has already as a line with more units.
#[test]
fn a_run_in_which_a_deposed_cart_asks_for_less() {
    after_runs_with_deposed_leaders(8_974);
}

#[test]
fn random_runs_with_operators() {
    for seed in 0..scaled(SEEDS / 2) {
        random_run(seed, FaultRates::WITH_OPERATORS);
    }
}

/// Until its upgrade is finished, a cluster that comes from the oldest release has nodes with that program.
#[test]
fn random_runs_are_read_by_the_oldest_release() {
    (0..scaled(SEEDS / 4)).for_each(after_run_of_the_oldest_release);
}

/// The end of a run in which the program of the oldest release reads everything.
pub(crate) fn after_run_of_the_oldest_release(seed: u64) {
    let _report = SeedReport(seed);
    let mut run = RandomRun::new(seed);
    run.fixture.version = OLDEST_READ;
    for _ in 0..STEPS {
        run.step(FaultRates { depose: 8, ..FaultRates::WITH_OPERATORS });
    }
    run.run_until_idle();
}

#[test]
fn random_runs_with_offers() {
    for seed in 0..scaled(SEEDS / 2) {
        random_run(seed, FaultRates::WITH_OFFERS);
        random_run(seed, FaultRates { depose: 12, ..FaultRates::WITH_OFFERS });
    }
}

#[test]
fn random_runs_with_deposed_leaders() {
    let from = std::env::var("RANDOM_RUNS_FROM").ok().and_then(|from| from.parse().ok()).unwrap_or(0);
    let seeds =
        std::env::var("RANDOM_RUNS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or_else(|| scaled(SEEDS));
    for seed in from..from + seeds {
        after_runs_with_deposed_leaders(seed);
    }
}

/// How often each fault happens, in percent.
#[derive(Clone, Copy)]
pub(crate) struct FaultRates {
    crash: u32,
    /// A leader is deposed without its knowledge, or a deposed host learns of its successor.
    depose: u32,
    /// The share of commands for the best seats and for releases of some of them.
    selective_command: u32,
    lose: u32,
    double: u32,
    pass: u32,
    /// The share of commands of operators that release, cancel and change terms.
    operators: u32,
    /// The share of commands that read an order.
    orders: u32,
    /// The share of commands that change the terms of a session. With any, the sessions have offers.
    terms: u32,
}

impl FaultRates {
    pub(crate) const ROUGH: FaultRates = FaultRates {
        crash: 3,
        depose: 0,
        selective_command: 0,
        lose: 8,
        double: 10,
        pass: 6,
        operators: 0,
        orders: 0,
        terms: 0,
    };
    pub(crate) const WITH_OPERATORS: FaultRates = FaultRates { operators: 25, pass: 14, ..FaultRates::ROUGH };
    pub(crate) const WITH_OFFERS: FaultRates = FaultRates { terms: 12, pass: 14, ..FaultRates::ROUGH };
    pub(crate) const WITH_DEPOSED_LEADERS: FaultRates =
        FaultRates { depose: 12, crash: 1, pass: 10, ..FaultRates::ROUGH };
    pub(crate) const WITH_OTHER_SEATS: FaultRates = FaultRates {
        depose: 18,
        selective_command: 95,
        pass: 4,
        lose: 3,
        double: 5,
        ..FaultRates::WITH_DEPOSED_LEADERS
    };
}

/// Numbers from a seed by SplitMix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(crate) fn chance(&mut self, hundredths: u32) -> bool {
        self.below(100) < u64::from(hundredths)
    }
}

/// Prints the seed if the run panics.
struct SeedReport(u64);

impl Drop for SeedReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the random run of seed {} panicked", self.0);
        }
    }
}

fn random_run(seed: u64, rates: FaultRates) -> Fixture {
    let _report = SeedReport(seed);
    let mut run = RandomRun::new(seed);
    if rates.terms > 0 {
        run.offer();
    }
    for _ in 0..STEPS {
        run.step(rates);
    }
    run.run_until_idle();
    run.check_idle(rates.lose == 0 && rates.crash == 0);
    run.fixture
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
        payment_epoch: 0,
        fairness: Fairness {
            floor: 1,
            free_part: 2,
            whole_part: 2,
            whole_seconds: 2,
            seat_seconds: 3,
            bonus_seconds: 1,
            life_min_ms: 1_000,
        },
    }
}

/// A run that has not ended.
pub(crate) fn mid_run(seed: u64, steps: u32) -> Fixture {
    let mut run = RandomRun::new(seed);
    for _ in 0..steps {
        run.step(FaultRates::ROUGH);
    }
    run.fixture
}

/// The end of a run with many commands of operators.
#[cfg(feature = "planted")]
pub(crate) fn after_run_with_operators(seed: u64) -> Fixture {
    random_run(seed, FaultRates::WITH_OPERATORS)
}

/// The end of a run in which the terms of sessions change.
#[cfg(feature = "planted")]
pub(crate) fn after_run_with_offers(seed: u64) {
    random_run(seed, FaultRates::WITH_OFFERS);
}

/// The end of a run without losses and crashes.
#[cfg(feature = "planted")]
pub(crate) fn after_run_without_losses(seed: u64) -> Fixture {
    random_run(seed, FaultRates { crash: 0, lose: 0, ..FaultRates::ROUGH })
}

/// Runs with deposed leaders beside their successors.
pub(crate) fn after_runs_with_deposed_leaders(seed: u64) {
    random_run(seed, FaultRates::WITH_DEPOSED_LEADERS);
    random_run(seed, FaultRates::WITH_OTHER_SEATS);
}

/// Runs in which orders are read while their sales and purchases are on the way.
#[cfg(feature = "planted")]
pub(crate) fn after_run_with_orders_read(seed: u64) {
    random_run(seed, FaultRates { orders: 30, ..FaultRates::ROUGH });
}

/// The end of a rough run.
pub(crate) fn after_run(seed: u64) -> Fixture {
    random_run(seed, FaultRates::ROUGH)
}

/// Two sessions in a hall of seven seats, one of them with a short lifetime and with places. There are two products, one of them
/// checked at the checkout and limited per customer, like the places, and a room.
fn fixture(rules: Rules) -> Fixture {
    let mut fixture = Fixture::new(rules);
    fixture.quota_max = Some(u64::from(QUOTA_MAX));
    let layout = layout("aaaa/bbB");
    let sessions = [
        new_session("s", &layout, 1_000_000, 2_000_000, None),
        new_session("t", &layout, 3_000_000, 4_000_000, Some(600)),
    ];
    let to_venue = |command| Command::Venue(id("venue"), command);
    fixture.send(Some("venue"), to_venue(VenueCommand::Put(details())));
    fixture.run();
    fixture.send(
        Some("hall"),
        to_venue(VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout }),
    );
    fixture.run();
    let [plain, short] = sessions;
    let limits = Limits { per_order: Some(4), per_customer: Some(CustomerLimit { quota: id("few"), max: QUOTA_MAX }) };
    let stand =
        Area { id: id("stand"), name: "Stand".into(), capacity: 6, price: euros(500), names: Default::default() };
    let extras = SessionExtras { areas: vec![stand], limits: limits.clone(), ..short.extras };
    let short = NewSession { extras, ..short };
    for session in [plain, short] {
        fixture.send(Some("create"), to_venue(VenueCommand::CreateSession(session)));
    }
    let late = ProductDetails { hold: HoldPolicy::AtCheckout, limits, ..product(euros(300), 4) };
    for (name, details) in [("p", product(euros(250), 5)), ("q", late)] {
        fixture.send(Some("put"), Command::Product(id(name), ProductCommand::Put(Box::new(details))));
    }
    let room = Box::new(ResourceDetails { capacity: 2, ..resource(euros(1_200)) });
    fixture.send(Some("put"), Command::Resource(id("r"), ResourceCommand::Put(room)));
    fixture.run();
    fixture
}

pub(crate) struct RandomRun {
    pub(crate) fixture: Fixture,
    pub(crate) rng: Rng,
    /// Requests that clients have sent. They repeat them without an answer, and sometimes after one.
    sent: Vec<(String, Command)>,
    pub(crate) tickets: BTreeSet<Ticket>,
    /// Whether buyers name price types.
    has_offers: bool,
}

/// Adults, and children at half the price, of whom there are at most four in carts and orders.
fn offering(from: Option<Timestamp>) -> Offering {
    let named = |name: &str| Offer {
        id: id(name),
        name: "".into(),
        names: Default::default(),
        types: vec![],
        categories: vec![],
        areas: vec![],
        from,
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
    };
    let of = |name: &str, prices: Vec<(Id, i64)>, area_prices| PriceType {
        id: id(name),
        name: "".into(),
        names: Default::default(),
        prices,
        area_prices,
        tax: None,
    };
    let half = vec![(id("a"), 500), (id("b"), 250)];
    Offering {
        price_types: vec![of("adult", vec![], vec![]), of("child", half, vec![(id("stand"), 200)])],
        offers: vec![
            Offer { types: vec![id("adult")], ..named("adults") },
            Offer { types: vec![id("child")], counters: vec![id("few")], per_order: Some(3), ..named("children") },
            Offer { desk: true, change: Some(PriceChange::Minus(100)), from: None, ..named("desk") },
            Offer {
                code_group: Some(id("members")),
                change: Some(PriceChange::Minus(150)),
                from: None,
                ..named("members")
            },
            Offer {
                per_customer: Some(FRIENDS_MAX),
                change: Some(PriceChange::Minus(120)),
                from: None,
                ..named(FRIENDS)
            },
        ],
        counters: vec![Counter { id: id("few"), max: 4 }],
        allotments: vec![],
    }
}

impl RandomRun {
    /// Gives the sessions offers, and buyers two codes of few uses.
    fn offer(&mut self) {
        self.has_offers = true;
        self.fixture.code_uses = Some(CODE_USES);
        for code in CODES {
            let details =
                CodeDetails { group: id("members"), uses: CODE_USES, ended: false, by_order: code == CODES[1] };
            self.fixture.send(Some("put"), Command::Code(id(code), CodeCommand::Put(details)));
        }
        for session in ["s", "t"] {
            let offering = offering(Some(self.fixture.now.after(20)));
            let change = SessionChange {
                // That one has no areas.
                price_types: (session == "t").then_some(offering.price_types),
                offers: Some(if session == "t" { offering.offers } else { offering.offers[2..].to_vec() }),
                counters: Some(offering.counters),
                ..Default::default()
            };
            self.fixture.send(Some("offer"), Command::Session(id(session), SessionCommand::Change(Box::new(change))));
        }
        self.fixture.run();
    }

    /// Another price, another begin, or an offer that is closed or opened by hand.
    fn change_of_terms(&mut self) -> Command {
        let session = self.session();
        let dearer = 250 * (1 + self.rng.below(3) as i64);
        let change = match self.rng.below(6) {
            0 | 1 => SessionChange {
                prices: Some(vec![(id("a"), euros(dearer)), (id("b"), euros(2 * dearer))]),
                ..Default::default()
            },
            2 if session == id("t") => {
                let area = |capacity: u32| Area {
                    id: id("stand"),
                    name: "Stand".into(),
                    capacity,
                    price: euros(dearer),
                    names: Default::default(),
                };
                SessionChange { areas: Some(vec![area(4 + self.rng.below(4) as u32)]), ..Default::default() }
            }
            2 | 3 if session == id("t") => {
                let from = Timestamp((self.fixture.now.0 + self.rng.below(400)).saturating_sub(200).max(1));
                SessionChange { offers: Some(offering(Some(from)).offers), ..Default::default() }
            }
            4 => SessionChange { close: vec![id("desk")], ..Default::default() },
            _ => SessionChange { reopen: vec![id("desk")], ..Default::default() },
        };
        Command::Session(session, SessionCommand::Change(Box::new(change)))
    }

    /// The same wish with price types and perhaps a code, if there are any.
    fn typed(&mut self, mut wanted: WantedLine) -> WantedLine {
        if !self.has_offers || !matches!(wanted.entity, Entity::Session(_)) {
            return wanted;
        }
        let code = self.rng.chance(40).then(|| match self.rng.below(8) {
            0 => id("unknown"),
            number => id(CODES[number as usize % 2]),
        });
        // Only the other session has price types.
        let has_types = wanted.entity == Entity::Session(id("t"));
        let named = |rng: &mut Rng, most: u64| -> Vec<Id> {
            let one = |rng: &mut Rng| id(if rng.chance(50) { "adult" } else { "child" });
            let types = if has_types { rng.below(most + 1) } else { 0 };
            (0..types).map(|_| one(rng)).collect()
        };
        match &mut wanted.want {
            Want::Seats { seats, buy_as, .. } => {
                let most = seats.as_slice().len() as u64;
                let types = named(&mut self.rng, most);
                let offer = self.rng.chance(10).then(|| id("children")).filter(|_| has_types);
                *buy_as = BuyAs::with_code(types, offer, code);
            }
            Want::Best(BestWish { buy_as, .. }) | Want::Places { buy_as, .. } => {
                *buy_as = BuyAs::with_code(named(&mut self.rng, 1), None, code);
            }
            Want::Units { .. } | Want::Slot { .. } | Want::Quota { .. } | Want::Uses { .. } => {}
        }
        wanted
    }

    fn new(seed: u64) -> RandomRun {
        RandomRun::of(fixture(rules()), seed)
    }

    /// A run over an existing fixture.
    pub(crate) fn of(mut fixture: Fixture, seed: u64) -> RandomRun {
        fixture.gateway.rng = Some(Rng(!seed));
        RandomRun { fixture, rng: Rng(seed), sent: Vec::new(), tickets: BTreeSet::new(), has_offers: false }
    }

    pub(crate) fn step(&mut self, rates: FaultRates) {
        if self.rng.chance(rates.pass) {
            let span = 1 + self.rng.below(150);
            let until = match self.fixture.next_wake() {
                // Every second time to the exact millisecond.
                Some(wake) if self.rng.chance(50) && wake.0 < self.fixture.now.0 + 2_000 => wake,
                Some(_) | None => self.fixture.now.after(span),
            };
            self.fixture.pass(until);
        }
        if self.rng.chance(rates.crash) {
            let entity = self.any_entity();
            let survive = self.rng.below(3) as usize;
            self.fixture.crash(&entity, survive);
            if let Entity::Cart(cart) = entity
                && self.rng.chance(50)
            {
                // The host that asked the gateway is gone, and the answer is lost.
                self.fixture.calls.retain(|call| call.key().cart != cart);
                self.fixture.mail.retain(|mail| mail.to != entity || !matches!(mail.input, Input::Paid { .. }));
            }
        }
        if rates.depose > 0 && self.rng.chance(rates.depose) {
            self.depose(rates);
        }
        match self.rng.below(10) {
            0 | 1 => self.send(rates),
            2 if !self.fixture.calls.is_empty() => _ = self.fixture.pay(),
            2..6 => self.deliver(rates),
            _ => self.commit(),
        }
    }

    /// Deposes a leader, or lets a deposed host go on or learn of its successor.
    fn depose(&mut self, rates: FaultRates) {
        let many = self.fixture.deposed();
        match self.rng.below(8) {
            0..3 if many < DEPOSED_MAX => {
                let of_seats = self.rng.chance(rates.selective_command);
                let entity = if of_seats { Entity::Session(self.session()) } else { self.any_entity() };
                let survive = self.rng.below(3) as usize;
                self.fixture.depose(&entity, survive);
            }
            _ if many == 0 => {}
            3 => self.fixture.end_deposed(self.rng.below(many as u64) as usize),
            4 | 5 => self.fixture.wake_deposed(self.rng.below(many as u64) as usize),
            _ => self.fixture.commit_deposed(self.rng.below(many as u64) as usize),
        }
    }

    fn any_entity(&mut self) -> Entity {
        if self.has_offers && self.rng.chance(10) {
            return Entity::Code(id(CODES[self.rng.below(2) as usize]));
        }
        match self.rng.below(12) {
            0 => Entity::Session(id("s")),
            1 => Entity::Session(id("t")),
            2 => Entity::Product(id("p")),
            3 => Entity::Product(id("q")),
            4 => Entity::Resource(id("r")),
            5 => Entity::Customer(id("ann")),
            cart => Entity::Cart(buyer((cart - 6) % 4)),
        }
    }

    fn send(&mut self, rates: FaultRates) {
        let (request, command) = match self.sent.len() as u64 {
            many if many > 0 && self.rng.chance(35) => self.sent[self.rng.below(many) as usize].clone(),
            many => {
                let request = match many {
                    // Sometimes another body under a known id.
                    1.. if self.rng.chance(3) => self.sent[self.rng.below(many) as usize].0.clone(),
                    _ => format!("r{many}"),
                };
                let command = if rates.terms > 0 && self.rng.chance(rates.terms) {
                    self.change_of_terms()
                } else if self.rng.chance(rates.operators) {
                    self.operator()
                } else if rates.orders > 0 && self.rng.chance(rates.orders) {
                    Command::Cart(buyer(self.rng.below(4)), CartCommand::Order)
                } else if rates.selective_command > 0 && self.rng.chance(rates.selective_command) {
                    self.selective_command()
                } else {
                    self.command()
                };
                (request, command)
            }
        };
        self.sent.push((request.clone(), command.clone()));
        // Some clients wait less long than a reply may take.
        let timeout_ms = if self.rng.chance(30) { 1 + self.rng.below(400) } else { u64::MAX };
        let ticket = self.fixture.send_within(Some(&request), command, timeout_ms);
        self.tickets.insert(ticket);
    }

    /// Commands of operators to carts and inventories, beside those of every run.
    fn operator(&mut self) -> Command {
        let line = 1 + self.rng.below(3) as u32;
        match self.rng.below(12) {
            0 => {
                let ttl_ms = Some(2_000 + self.rng.below(6_000));
                Command::Cart(buyer(self.rng.below(4)), CartCommand::Open { customer: None, ttl_ms, guest: false })
            }
            1..=3 => {
                let hold_ttl_ms = self.rng.chance(60).then(|| 200 + self.rng.below(3_000));
                let price = euros(250 * (1 + self.rng.below(2) as i64));
                let details = ProductDetails { hold_ttl_ms, ..product(price, 5 + self.rng.below(3)) };
                Command::Product(id("p"), ProductCommand::Put(Box::new(details)))
            }
            4 if self.rng.chance(10) => {
                Command::Session(self.session(), SessionCommand::Cancel { reason: "test".into() })
            }
            5..=7 => self.cancel_booking(),
            _ => Command::Cart(buyer(self.rng.below(4)), CartCommand::Revoke { line, reason: "".into() }),
        }
    }

    /// The desk cancels a booking that a cart made, which may be gone.
    fn cancel_booking(&mut self) -> Command {
        let made: Vec<HoldId> = self.fixture.log.iter().filter_map(|(_, event)| booked(event)).collect();
        let booking = match made.len() as u64 {
            0 => BookingName::Named(id("none")),
            // Mostly one of the last.
            many => {
                let from = if self.rng.chance(80) { many.saturating_sub(3) } else { 0 };
                BookingKey::Hold(made[(from + self.rng.below(many - from)) as usize]).name()
            }
        };
        Command::Resource(id("r"), ResourceCommand::Cancel { booking, series: false })
    }

    /// Commands that make holds of a deposed leader and of its successor differ. They ask for the best seats, some of which are
    /// released before the rest is bought.
    fn selective_command(&mut self) -> Command {
        let cart = buyer(self.rng.below(4));
        let view = match self.fixture.states.get(&Entity::Cart(cart)).as_deref() {
            Some(State::Cart(cart)) => cart.view(),
            _ => None,
        };
        let lines: Vec<_> = view.into_iter().flat_map(|view| view.lines).collect();
        let some = lines.iter().find(|line| line.content.seats().len() > 1);
        let command = match (self.rng.below(10), some) {
            (0..6, Some(line)) => {
                let seats = line.content.seats();
                let one = seats[self.rng.below(seats.len() as u64) as usize].seat;
                CartCommand::Release { line: line.line, seats: Some(SeatSet::new([one]).expect("one seat")) }
            }
            (0..6, None) if !lines.is_empty() => {
                let (payment, customer) = (recorded(), self.customer());
                {
                    let holder = self.holder();
                    CartCommand::Checkout { payment, customer, shipping: None, expect: Expect::default(), holder }
                }
            }
            (9, _) => CartCommand::Release { line: 1, seats: None },
            _ => {
                let (count, split) = (2 + self.rng.below(2) as u16, self.rng.chance(50));
                let best =
                    BestWish { count, category: None, section: None, accessible: 0, split, buy_as: Default::default() };
                let want = match self.rng.chance(75) {
                    true => Want::Best(best),
                    false => Want::seats(self.seats(), true),
                };
                let lines = vec![WantedLine::new(Entity::Session(self.session()), want)];
                CartCommand::Hold {
                    lines,
                    customer: self.customer(),
                    guest: false,
                    holder: self.holder(),
                    attributes: Vec::new(),
                }
            }
        };
        Command::Cart(cart, command)
    }

    fn command(&mut self) -> Command {
        let buyer = buyer(self.rng.below(4));
        let line = 1 + self.rng.below(4) as u32;
        let command = match self.rng.below(34) {
            0 => CartCommand::Open {
                customer: None,
                ttl_ms: Some(200 + self.rng.below(2_000)),
                guest: self.rng.chance(30),
            },
            1 if self.rng.chance(50) => CartCommand::Get,
            1 => CartCommand::Order,
            2 if self.rng.chance(50) => CartCommand::CancelCheckout { by_operator: self.rng.chance(50) },
            2 => CartCommand::Cancel,
            3..=5 => {
                let (customer, expect) = (self.customer(), self.expect(buyer));
                CartCommand::Checkout { payment: recorded(), customer, shipping: None, expect, holder: self.holder() }
            }
            6..=7 => CartCommand::Release { line, seats: None },
            9 => CartCommand::Release { line, seats: Some(self.seats()) },
            10 => {
                let seats = self.seats().as_slice().to_vec();
                let blocks = self.rng.chance(50);
                let command = if blocks { SessionCommand::Block(seats) } else { SessionCommand::Unblock(seats) };
                return Command::Session(self.session(), command);
            }
            11..=14 => {
                let lines = (0..2 + self.rng.below(3)).map(|_| self.wanted()).collect();
                CartCommand::Hold {
                    lines,
                    customer: self.customer(),
                    guest: self.rng.chance(30),
                    holder: self.holder(),
                    attributes: Vec::new(),
                }
            }
            15..=18 => CartCommand::SetQuantity {
                line,
                quantity: self.rng.below(5) as u32,
                guest: false,
                holder: self.holder(),
                attributes: Vec::new(),
            },
            19..=21 => {
                let on_decline = [None, Some(OnDecline::Keep), Some(OnDecline::Release)];
                pay(on_decline[self.rng.below(3) as usize], self.customer())
            }
            28 if self.rng.chance(40) => return self.cancel_booking(),
            22 | 27 => CartCommand::Revoke { line, reason: "".into() },
            23 => CartCommand::Refund { lines: self.rng.chance(60).then(|| vec![line]), reason: "test".into() },
            24 => self.settle(buyer),
            25 if self.rng.chance(4) => {
                let reason = "test".into();
                return Command::Session(self.session(), SessionCommand::Cancel { reason });
            }
            26 if self.rng.chance(60) => {
                let late = self.rng.chance(50);
                let hold = if late { HoldPolicy::AtCheckout } else { HoldPolicy::AtAdd };
                let hold_ttl_ms = self.rng.chance(50).then(|| 200 + self.rng.below(1_500));
                let price = euros(250 * (1 + self.rng.below(2) as i64));
                let details = ProductDetails { hold, hold_ttl_ms, ..product(price, 4 + self.rng.below(3)) };
                return Command::Product(id("p"), ProductCommand::Put(Box::new(details)));
            }
            _ => CartCommand::Hold {
                lines: vec![self.wanted()],
                customer: self.customer(),
                guest: self.rng.chance(30),
                holder: self.holder(),
                attributes: Vec::new(),
            },
        };
        Command::Cart(buyer, command)
    }

    /// The buyer's view of the cart a moment ago, or none.
    fn expect(&mut self, cart: CartId) -> Expect {
        let seen = match self.fixture.states.get(&Entity::Cart(cart)).as_deref() {
            Some(State::Cart(cart)) if self.rng.chance(50) => cart.view(),
            _ => None,
        };
        match seen {
            Some(view) if self.rng.chance(50) => Expect { lines: Some(view.lines_version), ..Expect::default() },
            Some(view) => Expect { total: view.total, ..Expect::default() },
            None => Expect::default(),
        }
    }

    /// An operator settles an attempt as it was, or as declined.
    fn settle(&mut self, cart: CartId) -> CartCommand {
        let attempt = 1 + self.rng.below(2) as u32;
        let key = PaymentKey { cart, attempt };
        let account = self.fixture.gateway.accounts.get(&key);
        let there = account.is_some_and(|account| account.authorized.is_some_and(|amount| amount % 2 == 0));
        let outcome = if there && self.rng.chance(50) {
            Settlement::Authorized { reference: format!("auth-{attempt}").into() }
        } else {
            Settlement::Declined
        };
        CartCommand::Settle { attempt, outcome }
    }

    /// One of three customers, who come from two networks, or nobody with a share.
    fn holder(&mut self) -> Option<Holder> {
        let (own, wider) = (self.rng.below(5), 10 + self.rng.below(2));
        (1..=3).contains(&own).then_some(Holder { own, wider })
    }

    fn customer(&mut self) -> Option<Id> {
        match self.rng.below(8) {
            0 | 1 => None,
            2 => Some(id("bob")),
            _ => Some(id("ann")),
        }
    }

    fn wanted(&mut self) -> WantedLine {
        let wanted = self.any_wanted();
        self.typed(wanted)
    }

    fn any_wanted(&mut self) -> WantedLine {
        let quantity = 1 + self.rng.below(3) as u32;
        match self.rng.below(10) {
            0 | 1 => {
                return WantedLine::new(Entity::Product(id("p")), Want::Units { quantity, now: false });
            }
            2 | 3 => {
                return WantedLine::new(Entity::Product(id("q")), Want::Units { quantity, now: false });
            }
            4 => {
                // Far in the future, because begun slots are not held.
                let begin = Timestamp(1_000_000_000 + self.rng.below(3) * 1_000);
                let want = Want::Slot { begin, end: begin.after(1_000 + self.rng.below(1_000)), details: "".into() };
                return WantedLine::new(Entity::Resource(id("r")), want);
            }
            5 | 6 => {
                let want = Want::places(id("stand"), quantity);
                return WantedLine::new(Entity::Session(id("t")), want);
            }
            _ => {}
        }
        let want = if self.rng.chance(30) {
            let count = 1 + self.rng.below(3) as u16;
            Want::Best(BestWish {
                count,
                category: None,
                section: None,
                accessible: 0,
                split: self.rng.chance(50),
                buy_as: Default::default(),
            })
        } else {
            Want::seats(self.seats(), self.rng.chance(20))
        };
        WantedLine::new(Entity::Session(self.session()), want)
    }

    fn session(&mut self) -> Id {
        id(if self.rng.chance(60) { "s" } else { "t" })
    }

    fn seats(&mut self) -> SeatSet {
        let row = self.rng.below(2) as u16;
        let first = self.rng.below(3) as u16;
        let count = 1 + self.rng.below(2) as u16;
        SeatSet::new((first..first + count).map(|seat| Seat { row, seat })).expect("one or two seats")
    }

    fn deliver(&mut self, rates: FaultRates) {
        let waiting = self.fixture.mail.len() as u64;
        if waiting == 0 {
            return;
        }
        // Mostly in order, sometimes not at all.
        let place = if self.rng.chance(60) { 0 } else { self.rng.below(waiting) as usize };
        let message = self.fixture.mail[place].clone();
        let deposed = self.fixture.deposed_of(&message.to);
        if !deposed.is_empty() && self.rng.chance(60) {
            // To a deposed host, and often only to it, because entities repeat their messages.
            let only = between_entities(&message) && self.rng.chance(35);
            if only {
                self.fixture.mail.remove(place);
            }
            let one = deposed[self.rng.below(deposed.len() as u64) as usize];
            self.fixture.send_to_deposed(one, message.input.clone());
            if only {
                return;
            }
        }
        if between_entities(&message) {
            if self.rng.chance(rates.lose) {
                self.fixture.mail.remove(place);
                return;
            }
            if self.rng.chance(rates.double) {
                // The message stays queued, and arrives again at any time.
                self.fixture.mail.push_back(message.clone());
            }
        }
        self.fixture.mail.remove(place);
        self.fixture.deliver(message);
    }

    fn commit(&mut self) {
        let proposing = self.fixture.proposing();
        if !proposing.is_empty() {
            let entity = &proposing[self.rng.below(proposing.len() as u64) as usize];
            self.fixture.commit(entity);
        }
    }

    /// Ends the faults. It delivers and commits everything, and lets time pass until no entity wants anything.
    pub(crate) fn run_until_idle(&mut self) {
        self.fixture.gateway.rng = None;
        while self.fixture.deposed() > 0 {
            self.fixture.end_deposed(0);
        }
        self.fixture.run();
        let end = self.fixture.now.after(20_000);
        while let Some(wake) = self.fixture.next_wake().filter(|wake| *wake <= end) {
            self.fixture.pass(wake);
            self.fixture.run();
        }
        self.fixture.pass(end);
        self.fixture.run();
    }

    pub(crate) fn check_idle(&self, nothing_lost: bool) {
        let fixture = &self.fixture;
        for ticket in &self.tickets {
            let (answered, lost) = (fixture.answers.contains_key(ticket), fixture.is_lost(*ticket));
            let sent = || {
                let is_it =
                    |message: &&Message| matches!(message.input, Input::Command { from, .. } if from == *ticket);
                fixture.posted.iter().find(is_it)
            };
            assert!(answered != lost, "ticket {ticket}: answered {answered}, lost {lost}: {:?}", sent());
        }
        fixture.check_money();
        for (entity, event) in &fixture.log {
            let Event::Resource(ResourceEvent::BookingRevoked { hold, .. }) = event else { continue };
            let state = fixture.states.get(entity).expect("it has an event");
            assert_eq!(
                (state.held(*hold), state.sold(*hold)),
                (None, None),
                "{hold:?} is canceled and booked for ever"
            );
        }
        let mut sales: Vec<(Entity, HoldId, Portion)> = Vec::new();
        let mut claims: Vec<(Entity, HoldId, Portion)> = Vec::new();
        let mut orders: BTreeSet<(Id, OrderId)> = BTreeSet::new();
        let mut posted: Vec<(Id, OrderId)> = Vec::new();
        for (entity, state) in fixture.states.entities() {
            assert!(!state.unfinished(), "{entity} owes messages for ever: {state:?}");
            self.fixture.check_opening(entity, state);
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
                State::Code(code) => {
                    let audit = code.audit();
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
                    assert!(over, "{entity} never ends");
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
            assert!(holds.is_empty(), "{entity} keeps holds for ever: {holds:?}");
            // A late release whose acknowledgement is lost may be remembered for ever.
            let releases = state.remembered_releases();
            assert!(releases == 0 || !nothing_lost, "{entity} remembers {releases} releases for ever");
            sales.extend(sold.into_iter().map(|sale| (entity.clone(), sale.hold, sale.portion)));
        }
        let by_hold = |(entity, hold, _): &(Entity, HoldId, Portion)| (entity.clone(), *hold);
        sales.sort_by_key(by_hold);
        claims.sort_by_key(by_hold);
        assert_eq!(claims, sales, "orders and sales disagree");
        posted.sort_unstable();
        assert!(posted.iter().eq(&orders), "orders {orders:?}, posted {posted:?} (P12)");
    }
}

/// The hold of an event with which a cart's booking begins.
fn booked(event: &Event) -> Option<HoldId> {
    match event {
        Event::Resource(ResourceEvent::SlotHeld { hold, .. }) => Some(*hold),
        _ => None,
    }
}

pub(crate) fn between_entities(message: &Message) -> bool {
    match message.input {
        Input::Ask { .. } | Input::Reply { .. } => true,
        Input::Command { .. } | Input::Paid { .. } | Input::Wake => false,
    }
}

pub(crate) fn buyer(number: u64) -> CartId {
    cart(["a", "b", "c", "d"][number as usize])
}

/// Random runs come to the rules of holders: holds are charged, live shorter, and are refused.
#[test]
fn random_runs_reach_the_shares_of_holders() {
    let (mut charged, mut shorter, mut refused) = (0, 0, 0);
    for seed in 0..60 {
        let fixture = random_run(seed, FaultRates::ROUGH);
        for (_, event) in &fixture.log {
            let charge = match event {
                Event::Session(SessionEvent::SeatsHeld { charge, .. } | SessionEvent::PlacesHeld { charge, .. })
                | Event::Product(ProductEvent::UnitsHeld { charge, .. })
                | Event::Resource(ResourceEvent::SlotHeld { charge, .. }) => *charge,
                _ => None,
            };
            charged += u32::from(charge.is_some());
            shorter += u32::from(charge.is_some_and(|charge| charge.life_seconds > 0));
        }
        let is_of_share = |message: &&Message| {
            matches!(
                &message.input,
                Input::Reply { reply: Reply::Refused { refusal: Refusal::ShareReached { .. }, .. }, .. }
            )
        };
        refused += fixture.posted.iter().filter(is_of_share).count();
    }
    println!("{charged} holds charged, {shorter} of them live shorter, {refused} refused");
    assert!(charged > 100 && shorter > 20 && refused > 20, "{charged} charged, {shorter} shorter, {refused} refused");
}

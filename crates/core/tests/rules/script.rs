//! Stories in words, with seat maps drawn after whatever changed them.
//!
//! Each line is a step; the answer is written behind it, and below it every map that is not as it was: `.` free, `#`
//! blocked, a small letter held by that cart, a capital bought by it. One-letter names are carts.
//!
//! | line | does |
//! |---|---|
//! | `hall aaaa_aa/bbb` | a hall: rows, `_` a gap, letters are categories, capitals accessible places |
//! | `session s 1000 5000` | a session in it, from 1 000 s on for 5 000 s; `ttl 10` for its own time to live in seconds |
//! | `a open` `a open 20` | opens, with a time to live in seconds |
//! | `product p 100 2.50` | a product with stock and price; behind it `late` (nothing is set aside before the checkout), `ttl 10`, `order 4` and `quota q 3` (limits), `currency USD` |
//! | `resource r 12.00` | a resource, for a price per slot; behind it `capacity 2` and as above |
//! | `session s … with stand 500 5.00` | an area of a session; `order 4`, `quota q 3` as above |
//! | `a hold p 2 + s stand 5 + r 100 200 for ann` | units, places, a slot in seconds; for a customer |
//! | `a set 1 4` | the quantity of a line |
//! | `a checkout for ann` `a pay` `a pay keep` | at once; through the gateway, with what becomes of a decline |
//! | `a refund 1 2` `a revoke 1` `a settle 1 yes` | what they say; an operator releases, or says how an attempt ended |
//! | `box cancel s` | the session does not take place |
//! | `bank authorize no lost deaf more yes` | how the next calls go: declined, done but unheard, unheard, another amount |
//! | `bank says a 1 authorize yes` | the gateway says by itself; the ledger with `bank` |
//! | `ann` | purchases of a customer |
//! | `a hold s 0.3 0.4 + t 1.1` | holds seats, row and seat; `some` before seats: as many as are free |
//! | `a best s 3` | best available; `split`, `accessible 1`, `category b` behind it |
//! | `a release 1 0.3` `a cancel` `a checkout` `a get` `a order` `a audit` | what they say |
//! | `box block s 0.0` `box unblock s 0.0` `box get s` | the box office |
//! | `… as r1` | with this request id; every line has its own otherwise |
//! | `wait 1800` | seconds pass; everything due happens on the way |
//! | `stop s` `go s` `lose s` | messages to it are kept back, delivered, lost |
//! | `freeze s` `thaw s` `crash s` | its commits stop, go on; its host dies with what is not committed |
//! | `last hold s` | the latest message of that kind to it comes once more |
//! | `again hold s` | the first message of that kind to it comes once more |
//! | `answers` | answers that came later |

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};

use boxoffice_core::{
    answer::{Answer, CartState, CartView, LineView, Outcome},
    command::{
        Area, BestWish, CartCommand, Command, CustomerCommand, CustomerLimit, HoldPolicy, Limits, NewSession, Payment,
        ProductCommand, ProductDetails, Rate, ResourceCommand, ResourceDetails, SessionCommand, VenueCommand,
        VenueDetails, Want, WantedLine,
    },
    host::Input,
    id::{CartId, Entity, HoldId, Id},
    keep::{Kept, State},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    payment::{GatewayOutcome, OnDecline, PaymentKey, PaymentStatus, PaymentStep, RefundRecord, Settlement},
    portion::{Content, Portion},
    refusal::Refusal,
    seat::{Seat, SeatSet, SeatState},
    time::{Rules, TIMESTAMP_MAX, Timestamp},
};
use expect_test::Expect;

use crate::{
    bank::Mood,
    town::{Ticket, Town, kind},
};

/// Plays a script and compares the story.
pub(crate) fn check(script: &str, expect: Expect) {
    let mut play = Play::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        play.line(line);
    }
    expect.assert_eq(&play.story);
}

/// A layout from its picture.
pub(crate) fn layout(picture: &str) -> Arc<Layout> {
    let row = |(number, row): (usize, &str)| {
        let mut runs: Vec<Run> = Vec::new();
        let mut gap = 0;
        let mut seats = 0;
        for letter in row.chars() {
            if letter == '_' {
                gap += 1;
                continue;
            }
            seats += 1;
            runs.push(Run {
                gap: std::mem::take(&mut gap),
                count: 1,
                labels: Labels::Numbers { first: seats, step: 1 },
                category: id(&letter.to_ascii_lowercase().to_string()),
                accessible: letter.is_ascii_uppercase(),
                points: Vec::new(),
            });
        }
        Row { label: (number + 1).to_string().into(), section: None, runs }
    };
    Arc::new(Layout::new(picture.split('/').enumerate().map(row).collect(), None).expect("a good picture"))
}

pub(crate) fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

/// The cart that scripts call by this letter.
pub(crate) fn cart(name: &str) -> CartId {
    let [letter] = name.as_bytes() else { panic!("{name} is no cart: carts have one letter") };
    CartId(u128::from(*letter))
}

pub(crate) fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("three letters") }
}

/// A session for every category at 10.00 times its place.
pub(crate) fn new_session(
    name: &str,
    layout: &Layout,
    starts_at: u64,
    ends_at: u64,
    ttl_ms: Option<u64>,
) -> NewSession {
    let price = |(place, category): (usize, &Id)| (category.clone(), euros(1_000 * (place as i64 + 1)));
    NewSession {
        id: id(name),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(starts_at),
        ends_at: Timestamp(ends_at),
        prices: layout.categories().iter().enumerate().map(price).collect(),
        areas: Vec::new(),
        hold_ttl_ms: ttl_ms,
        limits: Limits::default(),
    }
}

pub(crate) fn details() -> VenueDetails {
    VenueDetails { name: "House".into(), city: "Town".into(), position: None, comments: "".into() }
}

pub(crate) fn recorded() -> Payment {
    Payment::Recorded { method: "cash".into(), transaction_id: "1".into() }
}

/// A hold of several lines by nobody in particular.
pub(crate) fn hold_lines(lines: Vec<WantedLine>) -> CartCommand {
    CartCommand::Hold { lines, customer: None }
}

/// A checkout at once.
pub(crate) fn check_out() -> CartCommand {
    CartCommand::Checkout { payment: recorded(), customer: None, shipping: None }
}

/// A checkout through the gateway.
pub(crate) fn pay(on_decline: Option<OnDecline>, customer: Option<Id>) -> CartCommand {
    let payment = Payment::Gateway { source: "card".into(), on_decline };
    CartCommand::Checkout { payment, customer, shipping: None }
}

/// A product that says nothing of itself.
pub(crate) fn product(price: Money, stock: u64) -> ProductDetails {
    ProductDetails {
        name: "Thing".into(),
        properties: Vec::new(),
        blob: Vec::new(),
        price,
        stock,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
    }
}

/// A resource that is always open.
pub(crate) fn resource(price: Money) -> ResourceDetails {
    ResourceDetails {
        name: "Room".into(),
        properties: Vec::new(),
        capacity: 1,
        zone: "UTC".into(),
        hours: None,
        before_ms: 0,
        after_ms: 0,
        notice_ms: 0,
        horizon_ms: None,
        rate: Rate { amount: price.amount, currency: price.currency, per_ms: None },
        hold_ttl_ms: None,
        limits: Limits::default(),
    }
}

struct Play {
    town: Town,
    story: String,
    maps: BTreeMap<Id, String>,
    told: BTreeSet<Ticket>,
    stopped: BTreeSet<Entity>,
    frozen: BTreeSet<Entity>,
    sessions: u64,
    requests: u32,
}

impl Play {
    fn new() -> Play {
        let mut town = Town::new(Rules::default());
        town.send(Some("venue"), Command::Venue(id("venue"), VenueCommand::Put(details())));
        town.run();
        Play {
            town,
            story: String::new(),
            maps: BTreeMap::new(),
            told: BTreeSet::from([0]),
            stopped: BTreeSet::new(),
            frozen: BTreeSet::new(),
            sessions: 0,
            requests: 0,
        }
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (words, request) = match words[..] {
            [ref words @ .., "as", request] => (words.to_vec(), request.to_owned()),
            _ => {
                self.requests += 1;
                (words.clone(), format!("r{}", self.requests))
            }
        };
        let said = match words[..] {
            ["wait", seconds] => {
                self.wait((number::<f64>(seconds) * 1_000.0).round() as u64);
                String::new()
            }
            ["answers"] => self.answers(),
            [verb @ ("stop" | "go" | "lose" | "freeze" | "thaw" | "crash"), name] => {
                self.meddle(verb, entity(name));
                String::new()
            }
            ["again", what, name] => {
                let to = entity(name);
                let mut past = self.town.posted.iter();
                let message = past.find(|message| message.to == to && kind(message) == what);
                let message = message.unwrap_or_else(|| panic!("no {what} was sent to {name}")).clone();
                self.town.post(message);
                String::new()
            }
            ["last", what, name] => {
                let to = entity(name);
                let mut past = self.town.posted.iter().rev();
                let message = past.find(|message| message.to == to && kind(message) == what);
                let message = message.unwrap_or_else(|| panic!("no {what} was sent to {name}")).clone();
                self.town.post(message);
                String::new()
            }
            ["bank"] => format!(" -> {}", self.town.bank.ledger()),
            ["bank", "shut"] => {
                self.town.bank_open = false;
                String::new()
            }
            ["bank", "open"] => {
                self.town.bank_open = true;
                String::new()
            }
            ["bank", "says", name, attempt, step, outcome] => {
                let (key, step) = (PaymentKey { cart: cart(name), attempt: number(attempt) }, payment_step(step));
                let outcome = self.gateway_outcome(key, step, outcome);
                let to = Entity::Cart(key.cart);
                self.town.post(crate::town::Message { to, input: Input::Paid { key, step, outcome } });
                String::new()
            }
            ["bank", step, ref moods @ ..] => {
                let moods: Vec<Mood> = moods.iter().map(|word| mood(word)).collect();
                self.town.bank.plan(crate::bank::word(payment_step(step)), &moods);
                String::new()
            }
            _ => {
                let command = self.command(&words);
                let ticket = self.town.send(Some(&request), command);
                self.settle();
                self.told.insert(ticket);
                format!(" -> {}", self.outcome(ticket))
            }
        };
        self.settle();
        writeln!(self.story, "{line}{said}").expect("strings take everything");
        self.draw();
    }

    fn gateway_outcome(&self, key: PaymentKey, step: PaymentStep, word: &str) -> GatewayOutcome {
        match (word, step) {
            ("unknown", _) => GatewayOutcome::Unknown { reason: "no answer".into() },
            ("no", PaymentStep::Authorize) => GatewayOutcome::Declined { reason: "no money".into() },
            ("no", _) => GatewayOutcome::Failed { reason: "closed".into() },
            ("yes", PaymentStep::Authorize) => {
                let authorized = self.town.bank.accounts.get(&key).and_then(|account| account.authorized);
                let reference = format!("auth-{}", key.attempt).into();
                GatewayOutcome::Authorized { reference, amount: euros(authorized.unwrap_or(0)) }
            }
            ("yes", PaymentStep::Capture) => GatewayOutcome::Captured,
            ("yes", PaymentStep::Void) => GatewayOutcome::Voided,
            ("yes", PaymentStep::Refund(_)) => GatewayOutcome::Refunded,
            _ => panic!("a gateway does not say {word}"),
        }
    }

    fn settle(&mut self) {
        let (stopped, frozen) = (&self.stopped, &self.frozen);
        self.town.run_but(|to| !stopped.contains(to), |entity| !frozen.contains(entity));
    }

    fn wait(&mut self, span_ms: u64) {
        let until = self.town.now.after(span_ms);
        while let Some(wake) = self.town.next_wake().filter(|wake| *wake <= until) {
            self.town.pass(wake);
            self.settle();
        }
        self.town.pass(until);
        self.settle();
    }

    fn meddle(&mut self, verb: &str, entity: Entity) {
        match verb {
            "stop" => _ = self.stopped.insert(entity),
            "go" => _ = self.stopped.remove(&entity),
            "lose" => self.town.mail.retain(|message| message.to != entity),
            "freeze" => _ = self.frozen.insert(entity),
            "thaw" => _ = self.frozen.remove(&entity),
            _ => self.town.crash(&entity, 0),
        }
    }

    fn command(&mut self, words: &[&str]) -> Command {
        match words {
            ["hall", picture] => {
                let (hall, name, layout) = (id("hall"), "Hall".into(), layout(picture));
                Command::Venue(id("venue"), VenueCommand::PutHall { hall, name, layout })
            }
            ["session", name, rest @ ..] => self.session(name, rest),
            ["product", name, stock, price, rest @ ..] => {
                let terms = terms(rest);
                let price = Money { amount: in_cents(price), currency: terms.currency };
                let hold = if terms.late { HoldPolicy::AtCheckout } else { HoldPolicy::AtAdd };
                let plain = product(price, number(stock));
                let details = ProductDetails { hold, hold_ttl_ms: terms.ttl_ms, limits: terms.limits, ..plain };
                Command::Product(id(name), ProductCommand::Put(Box::new(details)))
            }
            ["resource", name, price, rest @ ..] => {
                let terms = terms(rest);
                let plain = resource(Money { amount: in_cents(price), currency: terms.currency });
                let (capacity, hold_ttl_ms, limits) = (terms.capacity, terms.ttl_ms, terms.limits);
                let details = ResourceDetails { capacity, hold_ttl_ms, limits, ..plain };
                Command::Resource(id(name), ResourceCommand::Put(Box::new(details)))
            }
            [name] => Command::Customer(id(name), CustomerCommand::Purchases { after: 0, limit: 100 }),
            ["box", verb, name, seats @ ..] => {
                let command = match *verb {
                    "block" => SessionCommand::Block(seats.iter().map(|text| seat(text)).collect()),
                    "unblock" => SessionCommand::Unblock(seats.iter().map(|text| seat(text)).collect()),
                    "get" => SessionCommand::Get,
                    "cancel" => SessionCommand::Cancel { reason: "rain".into() },
                    _ => panic!("the box office does not {verb}"),
                };
                Command::Session(id(name), command)
            }
            [name, verb, rest @ ..] => Command::Cart(cart(name), cart_command(verb, rest)),
            _ => panic!("{words:?} is no step"),
        }
    }

    fn session(&mut self, name: &str, rest: &[&str]) -> Command {
        let given = rest.iter().take_while(|word| word.parse::<u64>().is_ok()).count();
        let (times, rest) = rest.split_at(given);
        let terms = terms(rest);
        let (starts_at, ends_at) = match times {
            [start, span] => (number::<u64>(start) * 1_000, (number::<u64>(start) + number::<u64>(span)) * 1_000),
            _ => {
                self.sessions += 1;
                (self.sessions * 100_000_000, self.sessions * 100_000_000 + 7_200_000)
            }
        };
        let venue = self.town.kept.get(&Entity::Venue(id("venue"))).expect("it was put");
        let State::Venue(venue) = &*venue else { panic!("a venue is kept as something else") };
        let hall = venue.hall(&id("hall")).expect("a hall comes before its sessions");
        let session = new_session(name, &hall.layout, starts_at, ends_at, terms.ttl_ms);
        let session = NewSession { areas: terms.areas, limits: terms.limits, ..session };
        Command::Venue(id("venue"), VenueCommand::CreateSession(session))
    }

    fn outcome(&self, ticket: Ticket) -> String {
        match self.town.answers.get(&ticket) {
            None if self.town.is_lost(ticket) => "nothing".into(),
            None => format!("(waits as #{ticket})"),
            Some(outcome) => tell(outcome),
        }
    }

    /// Answers that came after their line was told.
    fn answers(&mut self) -> String {
        let waiting = self.story.matches("(waits as #").count();
        let mut said = String::new();
        for (ticket, outcome) in &self.town.answers {
            if self.story.contains(&format!("(waits as #{ticket})"))
                && !self.story.contains(&format!("\n    #{ticket} "))
            {
                write!(said, "\n    #{ticket} {}", tell(outcome)).expect("strings take everything");
            }
        }
        if said.is_empty() { format!(" -> none of {waiting}") } else { said }
    }

    fn draw(&mut self) {
        let maps = draw(&self.town.kept);
        for (id, map) in &maps {
            let before = self.maps.get(id);
            if before.is_some_and(|before| before != map) {
                let name = if maps.len() > 1 { format!("{id}  ") } else { String::new() };
                for row in map.lines() {
                    writeln!(self.story, "    {name}{row}").expect("strings take everything");
                }
            }
        }
        self.maps = maps;
    }
}

fn seats_of(portion: &Portion) -> &[Seat] {
    match portion {
        Portion::Seats(seats) => seats.as_slice(),
        _ => &[],
    }
}

/// What is told of something that has no seats; nothing of what is told otherwise.
fn draw_counted(state: &State) -> Option<(Id, String)> {
    match state {
        State::Product(product) => {
            let (view, c) = (product.view(), product.counts());
            Some((view.id.clone(), format!("{} free, {} held, {} sold\n", c.free, c.held, c.sold)))
        }
        State::Resource(resource) => {
            let all = resource.bookings(Timestamp(0), TIMESTAMP_MAX, 1_000, None).expect("a good window");
            let told = all.iter().map(|booking| {
                format!("{}-{} {:?}", booking.begin.0 / 1_000, booking.end.0 / 1_000, booking.state).to_lowercase()
            });
            let told = if all.is_empty() { "free".into() } else { told.collect::<Vec<_>>().join(", ") };
            Some((resource.view().id.clone(), told + "\n"))
        }
        State::Customer(customer) => {
            let audit = customer.audit();
            let quotas = audit.quotas.iter().map(|(quota, held, sold)| format!("{quota} {held} held {sold} sold, "));
            let told = quotas.collect::<Vec<_>>().concat();
            Some((audit.customer, format!("{told}{} orders\n", audit.purchases.len())))
        }
        State::Venue(_) | State::Session(_) | State::Cart(_) | State::Directory(_) => None,
    }
}

/// The maps of all sessions: who has which seat.
pub(crate) fn draw(kept: &Kept) -> BTreeMap<Id, String> {
    let mut maps = BTreeMap::new();
    for (entity, state) in kept.entities() {
        maps.extend(draw_counted(state));
        let (Entity::Session(id), State::Session(session)) = (entity, &**state) else { continue };
        let mut letters: BTreeMap<Seat, char> = BTreeMap::new();
        let audit = session.audit();
        for hold in &audit.holds {
            letters.extend(seats_of(&hold.portion).iter().map(|seat| (*seat, letter(hold.hold))));
        }
        for sale in &audit.sales {
            let name = sale.order.cart().0 as u8 as char;
            letters.extend(seats_of(&sale.portion).iter().map(|seat| (*seat, name.to_ascii_uppercase())));
        }
        let layout = session.layout();
        let seats = session.map().seats;
        let mut map = String::new();
        for row in 0..layout.rows().len() {
            for index in layout.row_seats(row as u16) {
                if layout.left_neighbour(index).is_none() && layout.seat(index).seat > 0 {
                    map.push(' ');
                }
                let blocked = seats[index as usize / 4] >> (index % 4 * 2) & 3 == SeatState::Blocked as u8;
                let free = if blocked { '#' } else { '.' };
                map.push(letters.get(&layout.seat(index)).copied().unwrap_or(free));
            }
            map.push('\n');
        }
        for area in session.area_counts() {
            writeln!(map, "{} {} free, {} held, {} sold", area.area, area.free, area.held, area.sold)
                .expect("strings take everything");
        }
        maps.insert(id.clone(), map);
    }
    maps
}

fn letter(hold: HoldId) -> char {
    hold.cart.0 as u8 as char
}

fn cart_command(verb: &str, rest: &[&str]) -> CartCommand {
    let (rest, customer) = match rest {
        [rest @ .., "for", name] => (rest, Some(id(name))),
        _ => (rest, None),
    };
    match (verb, rest) {
        ("open", []) => CartCommand::Open { customer, ttl_ms: None },
        ("open", [seconds]) => CartCommand::Open { customer, ttl_ms: Some(number::<u64>(seconds) * 1_000) },
        ("hold", lines) => {
            CartCommand::Hold { lines: lines.split(|word| *word == "+").map(wanted).collect(), customer }
        }
        ("best", [session, count, wish @ ..]) => {
            let (entity, want) = (Entity::Session(id(session)), Want::Best(best(number(count), wish)));
            hold_lines(vec![WantedLine { entity, want }])
        }
        ("set", [line, quantity]) => CartCommand::SetQuantity { line: number(line), quantity: number(quantity) },
        ("release", [line]) => CartCommand::Release { line: number(line), seats: None },
        ("release", [line, seats @ ..]) => CartCommand::Release { line: number(line), seats: Some(seat_set(seats)) },
        ("cancel", []) => CartCommand::Cancel,
        ("checkout", []) => CartCommand::Checkout { payment: recorded(), customer, shipping: None },
        ("pay", []) => pay(None, customer),
        ("pay", ["keep"]) => pay(Some(OnDecline::Keep), customer),
        ("pay", ["release"]) => pay(Some(OnDecline::Release), customer),
        ("refund", lines) => {
            let lines = (!lines.is_empty()).then(|| lines.iter().map(|line| number(line)).collect());
            CartCommand::Refund { lines, reason: "asked".into() }
        }
        ("revoke", [line]) => CartCommand::Revoke { line: number(line) },
        ("settle", [attempt, outcome]) => {
            let outcome = match *outcome {
                "yes" => Settlement::Authorized { reference: format!("auth-{attempt}").into() },
                "no" => Settlement::Declined,
                _ => panic!("an operator says yes or no, not {outcome}"),
            };
            CartCommand::Settle { attempt: number(attempt), outcome }
        }
        ("get", []) => CartCommand::Get,
        ("order", []) => CartCommand::Order,
        ("audit", []) => CartCommand::Audit,
        _ => panic!("carts do not {verb} {rest:?}"),
    }
}

fn wanted(words: &[&str]) -> WantedLine {
    let [name, words @ ..] = words else { panic!("a line names its session, product or resource") };
    let entity = entity(name);
    let want = match (&entity, words) {
        (Entity::Product(_), [quantity]) => Want::Units { quantity: number(quantity), now: false },
        (Entity::Resource(_), [begin, end]) => {
            let at = |seconds: &str| Timestamp(number::<u64>(seconds) * 1_000);
            Want::Slot { begin: at(begin), end: at(end) }
        }
        (Entity::Session(_), ["some", seats @ ..]) => Want::Seats { seats: seat_set(seats), best_effort: true },
        (Entity::Session(_), [area, quantity]) if !area.contains('.') => {
            Want::Places { area: id(area), quantity: number(quantity) }
        }
        (Entity::Session(_), seats) => Want::Seats { seats: seat_set(seats), best_effort: false },
        _ => panic!("{name} has no {words:?}"),
    };
    WantedLine { entity, want }
}

/// What is said behind a product, a resource or a session.
struct Terms {
    late: bool,
    ttl_ms: Option<u64>,
    capacity: u32,
    currency: Currency,
    limits: Limits,
    areas: Vec<Area>,
}

fn terms(mut words: &[&str]) -> Terms {
    let currency = euros(0).currency;
    let (limits, areas) = (Limits::default(), Vec::new());
    let mut terms = Terms { late: false, ttl_ms: None, capacity: 1, currency, limits, areas };
    while let [word, rest @ ..] = words {
        words = match (*word, rest) {
            ("late", rest) => {
                terms.late = true;
                rest
            }
            ("ttl", [seconds, rest @ ..]) => {
                terms.ttl_ms = Some(number::<u64>(seconds) * 1_000);
                rest
            }
            ("capacity", [many, rest @ ..]) => {
                terms.capacity = number(many);
                rest
            }
            ("currency", [code, rest @ ..]) => {
                terms.currency = Currency::new(code).expect("three letters");
                rest
            }
            ("order", [most, rest @ ..]) => {
                terms.limits.per_order = Some(number(most));
                rest
            }
            ("quota", [name, most, rest @ ..]) => {
                terms.limits.per_customer = Some(CustomerLimit { quota: id(name), max: number(most) });
                rest
            }
            ("with", [name, capacity, price, rest @ ..]) => {
                let price = euros(in_cents(price));
                terms.areas.push(Area { id: id(name), name: "Area".into(), capacity: number(capacity), price });
                rest
            }
            _ => panic!("{word} is nothing to say"),
        };
    }
    terms
}

fn in_cents(text: &str) -> i64 {
    (number::<f64>(text) * 100.0).round() as i64
}

fn payment_step(word: &str) -> PaymentStep {
    match word {
        "authorize" => PaymentStep::Authorize,
        "capture" => PaymentStep::Capture,
        "void" => PaymentStep::Void,
        "refund" => PaymentStep::Refund(1),
        _ => panic!("{word} is no step of a payment"),
    }
}

fn mood(word: &str) -> Mood {
    match word {
        "yes" => Mood::Does,
        "no" => Mood::Refuses,
        "lost" => Mood::DoesUnheard,
        "deaf" => Mood::Deaf,
        "more" => Mood::Differs,
        _ => panic!("{word} is no way for a call to go"),
    }
}

fn best(count: u16, mut words: &[&str]) -> BestWish {
    let mut wish = BestWish { count, category: None, section: None, accessible: 0, split: false };
    while let [word, rest @ ..] = words {
        words = match (*word, rest) {
            ("split", rest) => {
                wish.split = true;
                rest
            }
            ("accessible", [count, rest @ ..]) => {
                wish.accessible = number(count);
                rest
            }
            ("category", [name, rest @ ..]) => {
                wish.category = Some(id(name));
                rest
            }
            ("section", [name, rest @ ..]) => {
                wish.section = Some(id(name));
                rest
            }
            _ => panic!("{word} is no wish"),
        };
    }
    wish
}

fn seat_set(words: &[&str]) -> SeatSet {
    SeatSet::new(words.iter().map(|word| seat(word))).expect("one to twenty different seats")
}

fn seat(text: &str) -> Seat {
    let (row, seat) = text.split_once('.').unwrap_or_else(|| panic!("{text} is no seat: row.seat"));
    Seat { row: number(row), seat: number(seat) }
}

fn entity(name: &str) -> Entity {
    match name {
        "venue" => Entity::Venue(id("venue")),
        // Sessions have letters from the end of the alphabet.
        "s" | "t" | "u" => Entity::Session(id(name)),
        "p" | "q" => Entity::Product(id(name)),
        "r" | "x" => Entity::Resource(id(name)),
        "ann" | "bob" => Entity::Customer(id(name)),
        _ => Entity::Cart(cart(name)),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn tell(outcome: &Outcome) -> String {
    match outcome {
        Err(refusal) => tell_refusal(refusal),
        Ok(answered) => match &answered.answer {
            Answer::Done => "done".into(),
            Answer::Cart(view) => tell_cart(view),
            Answer::Held(held) => {
                let lines: Vec<_> = held.lines.iter().map(tell_line).collect();
                format!("{}, until {}", lines.join(", "), seconds(held.deadline))
            }
            Answer::Order { order, settling, payment, refunds } => {
                let lines: Vec<_> = order.lines.iter().map(tell_line).collect();
                let settling = if *settling { ", settling" } else { "" };
                let mut said = format!("order of {}, total {}{settling}", lines.join(", "), cents(order.total.amount));
                if *payment != PaymentStatus::Recorded {
                    write!(said, ", {payment:?}").expect("strings take everything");
                }
                for refund in refunds {
                    write!(said, ", {}", tell_refund(refund)).expect("strings take everything");
                }
                said
            }
            Answer::Refund(refund) => tell_refund(refund),
            Answer::Product(view) => {
                let c = view.counts;
                format!("{} free, {} held, {} sold", c.free, c.held, c.sold)
            }
            Answer::Resource(view) => format!("{} bookings", view.bookings),
            Answer::Purchases(page) => {
                let told = page.purchases.iter().map(|purchase| {
                    let name = purchase.order.cart().0 as u8 as char;
                    format!("{} {name} {}", purchase.cursor, cents(purchase.total.amount))
                });
                format!("[{}]", told.collect::<Vec<_>>().join(", "))
            }
            Answer::Session(view) => {
                let c = view.counts;
                format!("{} free, {} held, {} sold, {} blocked", c.free, c.held, c.sold, c.blocked)
            }
            Answer::CartAudit(audit) => {
                format!("{} holds, {} owed, {:?}", audit.holds.len(), audit.owed, audit.violations)
            }
            answer => format!("{answer:?}"),
        },
    }
}

fn tell_refusal(refusal: &Refusal) -> String {
    let seats = match refusal {
        Refusal::SeatsTaken(taken) | Refusal::SeatBlocked(taken) => {
            taken.iter().map(|taken| format!(" {} {:?}", tell_seat(taken.seat), taken.state)).collect()
        }
        Refusal::NoSuchSeat(seats) | Refusal::DuplicateSeat(seats) => {
            seats.iter().map(|seat| format!(" {}", tell_seat(*seat))).collect()
        }
        Refusal::OutOfStock(short) => short
            .iter()
            .map(|short| format!(" {} wanted {} free {}", short.product, short.wanted, short.free))
            .collect(),
        Refusal::Lines(lines) => {
            let told = lines.iter().map(|line| format!("\n        {} {}", line.line, tell_refusal(&line.refusal)));
            return format!("no: {}, {refusal}:{}", refusal.name(), told.collect::<Vec<_>>().concat());
        }
        Refusal::SlotTaken(conflicts) => conflicts
            .iter()
            .map(|conflict| format!(" {}-{}", conflict.begin.0 / 1_000, conflict.end.0 / 1_000))
            .collect(),
        _ => String::new(),
    };
    format!("no: {}, {refusal}{}{}", refusal.name(), if seats.is_empty() { "" } else { ":" }, seats.to_lowercase())
}

fn tell_cart(view: &CartView) -> String {
    let lines: Vec<_> = view.lines.iter().map(tell_line).collect();
    let mut said = view.state.as_str().to_owned();
    if !lines.is_empty() {
        write!(said, ", {}", lines.join(", ")).expect("strings take everything");
    }
    if let Some(total) = view.total {
        write!(said, ", total {}", cents(total.amount)).expect("strings take everything");
    }
    if view.state == CartState::Active {
        write!(said, ", until {}", seconds(view.deadline)).expect("strings take everything");
    }
    said
}

fn tell_refund(refund: &RefundRecord) -> String {
    let RefundRecord { number, lines, amount, status, .. } = refund;
    format!("refund {number} of lines {lines:?} {} {status:?}", cents(amount.amount))
}

fn tell_line(line: &LineView) -> String {
    let name = match &line.entity {
        Entity::Session(id) | Entity::Product(id) | Entity::Resource(id) => id,
        other => panic!("a line of {other}"),
    };
    let what = match &line.content {
        Content::Seats(seats) => seats.iter().map(|priced| tell_seat(priced.seat)).collect::<Vec<_>>().join(" "),
        Content::Places { area, quantity, .. } => format!("{area} {quantity}"),
        Content::Units { quantity, .. } => quantity.to_string(),
        Content::Slot { begin, end, .. } => format!("{}-{}", begin.0 / 1_000, end.0 / 1_000),
    };
    let late = if line.late { " late" } else { "" };
    format!("line {} {name} {what}{late}", line.line)
}

fn tell_seat(seat: Seat) -> String {
    format!("{}.{}", seat.row, seat.seat)
}

fn seconds(at: Timestamp) -> String {
    format!("{}.{:03}", at.0 / 1_000, at.0 % 1_000)
}

fn cents(amount: i64) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

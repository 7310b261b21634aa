//! Stories as scripts, with the seat maps that each step changes.
//!
//! Each line is a step, followed by its answer and, below it, every map that has changed. In a map `.` is free, `#` is blocked, a
//! small letter is held by that cart, and a capital is bought by it. One-letter names are carts.
//!
//! | line | meaning |
//! |---|---|
//! | `hall aaaa_aa/bbb` | a hall: rows, `_` a gap, letters are categories, capitals accessible places |
//! | `session s 1000 5000` | a session in it from 1 000 s, for 5 000 s; `ttl 10` sets its own time to live in seconds |
//! | `a open` `a open 20` | opens the cart, with a time to live in seconds |
//! | `product p 100 2.50` | a product with stock and price; options: `late` (nothing is reserved before the checkout), `ttl 10`, `order 4` and `quota q 3` (limits), `currency USD` |
//! | `resource r 12.00` | a resource with a price per slot; options: `capacity 2` and as above |
//! | `session s … with stand 500 5.00` | an area of a session; `order 4`, `quota q 3` as above |
//! | `a hold p 2 + s stand 5 + r 100 200 for ann` | units, places, a slot in seconds; for a customer |
//! | `a set 1 4` | sets the quantity of a line |
//! | `a checkout for ann` `a pay` `a pay keep` | pays elsewhere; through the gateway; with the policy for a decline |
//! | `a checkout expect total 3.00` `… lines 4` `… paid 3.00` | refused if the cart differs; `pay` too |
//! | `a stop` | its buyer ends the attempt to pay |
//! | `a refund 1 2` `a revoke 1 why` `a settle 1 yes` | refunds lines; an operator releases a line, or settles an attempt |
//! | `box cancel s` | cancels the session |
//! | `desk cancel r a` `desk cancel r a 100` | cancels the booking that cart a made last, or the last one from 100 s on |
//! | `gateway authorize no lost deaf more yes` | the fates of the next calls: declined, reply lost, call lost, another amount, success |
//! | `gateway says a 1 authorize yes` | a webhook; `gateway` alone prints the ledger |
//! | `ann` | purchases of a customer |
//! | `a hold s 0.3 0.4 + t 1.1` | holds seats, row and seat; `some` before the seats: as many as are free |
//! | `a best s 3` | best available; options: `split`, `accessible 1`, `category b` |
//! | `a release 1 0.3` `a cancel` `a checkout` `a get` `a order` `a audit` | the ops of these names |
//! | `box block s 0.0` `box unblock s 0.0` `box get s` | ops of operators on a session |
//! | `… as r1` | with this request id; otherwise every line has its own |
//! | `timeout 1.5` | from now on clients wait this many seconds for an answer |
//! | `wait 1800` | seconds pass, and everything due happens |
//! | `clock -3600` | the clocks change: from now on true time is this many seconds ahead of running time |
//! | `stop s` `go s` `lose s` | messages to it are queued, delivered, lost |
//! | `freeze s` `thaw s` `crash s` | its commits stop, resume; its host crashes and loses uncommitted proposals |
//! | `last hold s` | delivers the latest message of that kind to it again |
//! | `again hold s` | delivers the first message of that kind to it again |
//! | `answers` | answers that arrived later |

mod describe;
mod parse;
mod picture;
mod samples;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use boxoffice_core::{
    calendar::{BookingKey, BookingName},
    command::{
        Command, CustomerCommand, HoldPolicy, NewSession, ProductCommand, ProductDetails, ResourceCommand,
        ResourceDetails, SessionCommand, SessionExtras, VenueCommand,
    },
    event::{Event, ResourceEvent},
    host::Input,
    id::{CartId, Entity, Id},
    money::Money,
    payment::{GatewayOutcome, PaymentKey, PaymentStep},
    rules::Rules,
    state_map::State,
    time::Timestamp,
};
use expect_test::Expect;

use self::{
    describe::describe,
    parse::{call_fate, cart_command, entity, in_cents, in_ms, number, payment_step, seat, terms},
};
pub(crate) use self::{
    picture::draw,
    samples::{cart, check_out, details, euros, hold_lines, id, layout, new_session, pay, product, recorded, resource},
};
use crate::{
    fixture::{Fixture, Ticket, kind},
    test_gateway::CallFate,
};

/// Plays a script and compares the story.
pub(crate) fn check(script: &str, expect: Expect) {
    let mut play = ScriptRun::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        play.line(line);
    }
    expect.assert_eq(&play.story);
}

struct ScriptRun {
    fixture: Fixture,
    story: String,
    maps: BTreeMap<Id, String>,
    reported: BTreeSet<Ticket>,
    stopped: BTreeSet<Entity>,
    frozen: BTreeSet<Entity>,
    sessions: u64,
    requests: u32,
}

impl ScriptRun {
    fn new() -> ScriptRun {
        let mut fixture = Fixture::new(Rules::default());
        fixture.send(Some("venue"), Command::Venue(id("venue"), VenueCommand::Put(details())));
        fixture.run();
        ScriptRun {
            fixture,
            story: String::new(),
            maps: BTreeMap::new(),
            reported: BTreeSet::from([0]),
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
        let text = match words[..] {
            ["clock", seconds] => {
                self.fixture.distance_ms = (number::<f64>(seconds) * 1_000.0).round() as i64;
                String::new()
            }
            ["timeout", seconds] => {
                self.fixture.timeout_ms = in_ms(seconds);
                String::new()
            }
            ["wait", seconds] => {
                self.wait(in_ms(seconds));
                String::new()
            }
            ["answers"] => self.answers(),
            [verb @ ("stop" | "go" | "lose" | "freeze" | "thaw" | "crash"), name] => {
                self.meddle(verb, entity(name));
                String::new()
            }
            [which @ ("again" | "last"), what, name] => {
                let to = entity(name);
                let mut past = self.fixture.posted.iter().filter(|message| message.to == to && kind(message) == what);
                let message = if which == "again" { past.next() } else { past.next_back() };
                let message = message.unwrap_or_else(|| panic!("no {what} was sent to {name}")).clone();
                self.fixture.post(message);
                String::new()
            }
            ["gateway"] => format!(" -> {}", self.fixture.gateway.ledger()),
            ["gateway", "shut"] => {
                self.fixture.gateway_open = false;
                String::new()
            }
            ["gateway", "open"] => {
                self.fixture.gateway_open = true;
                String::new()
            }
            ["gateway", "says", name, attempt, step, outcome] => {
                let (key, step) = (PaymentKey { cart: cart(name), attempt: number(attempt) }, payment_step(step));
                let outcome = self.gateway_outcome(key, step, outcome);
                let to = Entity::Cart(key.cart);
                self.fixture.post(crate::fixture::Message { to, input: Input::Paid { key, step, outcome } });
                String::new()
            }
            ["gateway", step, ref fates @ ..] => {
                let fates: Vec<CallFate> = fates.iter().map(|word| call_fate(word)).collect();
                self.fixture.gateway.plan(crate::test_gateway::kind(payment_step(step)), &fates);
                String::new()
            }
            _ => {
                let command = self.command(&words);
                let ticket = self.fixture.send(Some(&request), command);
                self.settle();
                self.reported.insert(ticket);
                format!(" -> {}", self.outcome(ticket))
            }
        };
        self.settle();
        writeln!(self.story, "{line}{text}").expect("writes to a string succeed");
        self.draw();
    }

    fn gateway_outcome(&self, key: PaymentKey, step: PaymentStep, word: &str) -> GatewayOutcome {
        match (word, step) {
            ("unknown", _) => GatewayOutcome::Unknown { reason: "no answer".into() },
            ("no", PaymentStep::Authorize) => GatewayOutcome::Declined { reason: "no money".into() },
            ("no", _) => GatewayOutcome::Failed { reason: "closed".into() },
            ("yes", PaymentStep::Authorize) => {
                let authorized = self.fixture.gateway.accounts.get(&key).and_then(|account| account.authorized);
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
        self.fixture.run_but(|to| !stopped.contains(to), |entity| !frozen.contains(entity));
    }

    fn wait(&mut self, span_ms: u64) {
        let (stopped, frozen) = (&self.stopped, &self.frozen);
        let settle =
            |fixture: &mut Fixture| fixture.run_but(|to| !stopped.contains(to), |entity| !frozen.contains(entity));
        self.fixture.wait(span_ms, settle);
    }

    fn meddle(&mut self, verb: &str, entity: Entity) {
        match verb {
            "stop" => _ = self.stopped.insert(entity),
            "go" => _ = self.stopped.remove(&entity),
            "lose" => self.fixture.mail.retain(|message| message.to != entity),
            "freeze" => _ = self.frozen.insert(entity),
            "thaw" => _ = self.frozen.remove(&entity),
            _ => self.fixture.crash(&entity, 0),
        }
    }

    fn command(&mut self, words: &[&str]) -> Command {
        match words {
            ["hall", picture] => {
                let (hall, name, layout) = (id("hall"), "Hall".into(), layout(picture));
                Command::Venue(id("venue"), VenueCommand::PutHall { hall, name, comments: "".into(), layout })
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
            [name] => Command::Customer(id(name), CustomerCommand::Purchases { after: 0, limit: 100, epoch: None }),
            ["desk", "cancel", name, of, rest @ ..] => {
                let begin = rest.first().map(|second| Timestamp(number::<u64>(second) * 1_000));
                let booking = cart_booking(&self.fixture, &id(name), cart(of), begin);
                Command::Resource(id(name), ResourceCommand::Cancel { booking, series: false })
            }
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
        let venue = self.fixture.states.get(&Entity::Venue(id("venue"))).expect("the entity was put");
        let State::Venue(venue) = &*venue else { panic!("a venue is kept as something else") };
        let hall = venue.hall(&id("hall")).expect("a hall comes before its sessions");
        let session = new_session(name, &hall.layout, starts_at, ends_at, terms.ttl_ms);
        let extras = SessionExtras { areas: terms.areas, limits: terms.limits, ..session.extras };
        let session = NewSession { extras, ..session };
        Command::Venue(id("venue"), VenueCommand::CreateSession(session))
    }

    fn outcome(&self, ticket: Ticket) -> String {
        match self.fixture.answers.get(&ticket) {
            None if self.fixture.is_lost(ticket) => "nothing".into(),
            None => format!("(waits as #{ticket})"),
            Some(outcome) => describe(outcome),
        }
    }

    /// Answers that came after their line.
    fn answers(&mut self) -> String {
        let waiting = self.story.matches("(waits as #").count();
        let mut text = String::new();
        for (ticket, outcome) in &self.fixture.answers {
            if self.story.contains(&format!("(waits as #{ticket})"))
                && !self.story.contains(&format!("\n    #{ticket} "))
            {
                write!(text, "\n    #{ticket} {}", describe(outcome)).expect("writes to a string succeed");
            }
        }
        if text.is_empty() { format!(" -> none of {waiting}") } else { text }
    }

    fn draw(&mut self) {
        let maps = draw(&self.fixture.states);
        for (id, map) in &maps {
            let before = self.maps.get(id);
            if before.is_some_and(|before| before != map) {
                let name = if maps.len() > 1 { format!("{id}  ") } else { String::new() };
                for row in map.lines() {
                    writeln!(self.story, "    {name}{row}").expect("writes to a string succeed");
                }
            }
        }
        self.maps = maps;
    }
}

/// The name of the last booking that a cart made at a resource, optionally of the last one with this begin. It may be gone.
pub(crate) fn cart_booking(fixture: &Fixture, of: &Id, cart: CartId, begin: Option<Timestamp>) -> BookingName {
    let made = fixture.log.iter().rev().find_map(|(entity, event)| match event {
        Event::Resource(ResourceEvent::SlotHeld { hold, begin: from, .. })
            if *entity == Entity::Resource(of.clone())
                && hold.cart == cart
                && begin.is_none_or(|begin| begin == *from) =>
        {
            Some(*hold)
        }
        _ => None,
    });
    BookingKey::Hold(made.unwrap_or_else(|| panic!("{cart} booked nothing of {of}"))).name()
}

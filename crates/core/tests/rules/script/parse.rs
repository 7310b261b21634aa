//! Parses the words of a script into commands.

use boxoffice_core::{
    command::{Area, BestWish, CartCommand, CustomerLimit, Expect, Limits, Payment, Want, WantedLine},
    holder::Holder,
    id::Entity,
    money::Currency,
    payment::{OnDecline, PaymentStep, Settlement},
    seat::{Seat, SeatSet},
    text::OptionalReason,
    time::Timestamp,
};

use super::samples::{cart, euros, hold_lines, id, pay, recorded};
use crate::test_gateway::CallFate;

pub(super) fn cart_command(verb: &str, rest: &[&str]) -> CartCommand {
    // The network that holds, if it has a share.
    let (rest, holder) = match rest {
        [rest @ .., "from", network] => (rest, Some(Holder { own: number(network), wider: 0 })),
        _ => (rest, None),
    };
    let (rest, customer) = match rest {
        [rest @ .., "for", name] => (rest, Some(id(name))),
        _ => (rest, None),
    };
    match (verb, rest) {
        ("open", []) => CartCommand::Open { customer, ttl_ms: None, guest: false },
        ("open", [seconds]) => {
            CartCommand::Open { customer, ttl_ms: Some(number::<u64>(seconds) * 1_000), guest: false }
        }
        ("hold", lines) => CartCommand::Hold {
            lines: lines.split(|word| *word == "+").map(wanted).collect(),
            customer,
            guest: false,
            holder,
            attributes: Vec::new(),
        },
        ("best", [session, count, wish @ ..]) => {
            let (entity, want) = (Entity::Session(id(session)), Want::Best(best(number(count), wish)));
            hold_lines(vec![WantedLine::new(entity, want)])
        }
        ("set", [line, quantity]) => CartCommand::SetQuantity {
            line: number(line),
            quantity: number(quantity),
            guest: false,
            holder,
            attributes: Vec::new(),
        },
        ("release", [line]) => CartCommand::Release { line: number(line), seats: None },
        ("release", [line, seats @ ..]) => CartCommand::Release { line: number(line), seats: Some(seat_set(seats)) },
        ("cancel", []) => CartCommand::Cancel,
        ("stop", []) => CartCommand::CancelCheckout { by_operator: false },
        ("checkout", expected) => CartCommand::Checkout {
            payment: recorded(),
            customer,
            shipping: None,
            expect: expect(expected),
            holder: None,
        },
        ("pay", []) => pay(None, customer),
        ("pay", ["keep"]) => from(pay(Some(OnDecline::Keep), customer), holder),
        ("pay", ["release"]) => pay(Some(OnDecline::Release), customer),
        ("pay", expected @ ["expect", ..]) => {
            let payment = Payment::Gateway { source: "card".into(), on_decline: None };
            CartCommand::Checkout { payment, customer, shipping: None, expect: expect(expected), holder: None }
        }
        ("refund", lines) => {
            let lines = (!lines.is_empty()).then(|| lines.iter().map(|line| number(line)).collect());
            CartCommand::Refund { lines, reason: "asked".into() }
        }
        ("revoke", [line, reason @ ..]) => {
            CartCommand::Revoke { line: number(line), reason: OptionalReason::as_said(reason.join(" ")) }
        }
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

/// A buyer's expectation of a total, a version of the lines, or the amount paid elsewhere.
fn expect(words: &[&str]) -> Expect {
    match words {
        [] => Expect::default(),
        ["expect", "total", total] => Expect { total: Some(euros(in_cents(total))), ..Expect::default() },
        ["expect", "lines", version] => Expect { lines: Some(number(version)), ..Expect::default() },
        ["expect", "paid", paid] => Expect { paid: Some(euros(in_cents(paid))), ..Expect::default() },
        _ => panic!("no buyer expects {words:?}"),
    }
}

fn wanted(words: &[&str]) -> WantedLine {
    let [name, words @ ..] = words else { panic!("a line names its session, product or resource") };
    let entity = entity(name);
    let want = match (&entity, words) {
        (Entity::Product(_), [quantity]) => Want::Units { quantity: number(quantity), now: false },
        (Entity::Resource(_), [begin, end]) => {
            let at = |seconds: &str| Timestamp(number::<u64>(seconds) * 1_000);
            Want::Slot { begin: at(begin), end: at(end), details: "".into() }
        }
        (Entity::Session(_), ["some", seats @ ..]) => Want::seats(seat_set(seats), true),
        (Entity::Session(_), [area, quantity]) if !area.contains('.') => Want::places(id(area), number(quantity)),
        (Entity::Session(_), seats) => Want::seats(seat_set(seats), false),
        _ => panic!("{name} has no {words:?}"),
    };
    WantedLine::new(entity, want)
}

/// The options of a product, a resource or a session.
pub(super) struct Terms {
    pub(super) late: bool,
    pub(super) ttl_ms: Option<u64>,
    pub(super) capacity: u32,
    pub(super) currency: Currency,
    pub(super) limits: Limits,
    pub(super) areas: Vec<Area>,
}

pub(super) fn terms(mut words: &[&str]) -> Terms {
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
                terms.areas.push(Area {
                    id: id(name),
                    name: "Area".into(),
                    capacity: number(capacity),
                    price,
                    names: Default::default(),
                });
                rest
            }
            _ => panic!("unknown word: {word}"),
        };
    }
    terms
}

fn best(count: u16, mut words: &[&str]) -> BestWish {
    let mut wish =
        BestWish { count, category: None, section: None, accessible: 0, split: false, buy_as: Default::default() };
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
            _ => panic!("{word} is not an option of a best hold"),
        };
    }
    wish
}

pub(super) fn payment_step(word: &str) -> PaymentStep {
    match word {
        "authorize" => PaymentStep::Authorize,
        "capture" => PaymentStep::Capture,
        "void" => PaymentStep::Void,
        "refund" => PaymentStep::Refund(1),
        _ => panic!("{word} is not a step of a payment"),
    }
}

pub(super) fn call_fate(word: &str) -> CallFate {
    match word {
        "yes" => CallFate::Succeeds,
        "no" => CallFate::Declines,
        "lost" => CallFate::ReplyLost,
        "deaf" => CallFate::CallLost,
        "more" => CallFate::OtherAmount,
        _ => panic!("{word} is not a fate of a call"),
    }
}

pub(super) fn entity(name: &str) -> Entity {
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

fn seat_set(words: &[&str]) -> SeatSet {
    SeatSet::new(words.iter().map(|word| seat(word))).expect("one to twenty different seats")
}

pub(super) fn seat(text: &str) -> Seat {
    let (row, seat) = text.split_once('.').unwrap_or_else(|| panic!("{text} is not a seat (row.seat)"));
    Seat { row: number(row), seat: number(seat) }
}

pub(super) fn in_cents(text: &str) -> i64 {
    (number::<f64>(text) * 100.0).round() as i64
}

pub(super) fn in_ms(seconds: &str) -> u64 {
    (number::<f64>(seconds) * 1_000.0).round() as u64
}

pub(super) fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

/// The same checkout, by this holder.
fn from(command: CartCommand, by: Option<Holder>) -> CartCommand {
    match command {
        CartCommand::Checkout { payment, customer, shipping, expect, holder: _ } => {
            CartCommand::Checkout { payment, customer, shipping, expect, holder: by }
        }
        other => panic!("{other:?} is no checkout"),
    }
}

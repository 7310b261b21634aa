//! The cost of one more command for a full inventory, compared with a fresh one.
//!
//! `full [SAMPLES]`. A node that syncs before it answers has a product with 50 000 holds, an area with 60 000 sales, a
//! resource with 10 000 bookings in a year, and a fresh one of each. It gets one command at a time, for the full one
//! and the fresh one in turn: a hold of one unit or place in a new cart, or a reservation. Prints the medians of the
//! whole commands and their ratio.

use std::time::{Duration, Instant};

use boxoffice_bench::{Alone, euros, id, product};
use boxoffice_core::{
    command::{
        Area, CartCommand, Command, Expect, Limits, NewSession, Payment, ProductCommand, Rate, ResourceCommand,
        ResourceDetails, SessionExtras, VenueCommand, VenueDetails, Want, WantedLine, When,
    },
    id::{CartId, CartToken, Entity},
    layout::Layout,
    time::Timestamp,
};
use boxoffice_load::machine::DiskFloor;
use boxoffice_storage::fsync::Fsync;

const HOLDS: u64 = 50_000;
const SALES: u64 = 60_000;
const BOOKINGS: u64 = 10_000;
/// Far enough in the future for every booking to be in time.
const YEAR_BEGINS_MS: u64 = 4_000_000_000_000;
/// 10 000 slots of 30 minutes, 51 minutes apart, are a year.
const SLOT_MS: u64 = 1_800_000;
const APART_MS: u64 = 3_060_000;

/// Threads free memory that other threads allocated. With the system's allocator they would wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn cart(number: u64, entity: &Entity) -> CartId {
    CartToken::beside(entity, u128::from(number) + 1).cart()
}

fn hold(number: u64, entity: Entity, want: Want) -> Command {
    Command::Cart(
        cart(number, &entity),
        CartCommand::Hold {
            lines: vec![WantedLine::new(entity, want)],
            customer: None,
            guest: false,
            holder: None,
            attributes: Vec::new(),
        },
    )
}

fn unit(number: u64, name: &str) -> Command {
    hold(number, Entity::Product(id(name)), Want::Units { quantity: 1, now: false })
}

fn place(number: u64, name: &str) -> Command {
    hold(number, Entity::Session(id(name)), Want::places(id("floor"), 1))
}

fn slot(number: u64, name: &str) -> Command {
    let begin = Timestamp(YEAR_BEGINS_MS + number * APART_MS);
    let when = When::Utc { begin, end: begin.after(SLOT_MS) };
    let booking = id(&format!("booking-{number}"));
    let reserve = ResourceCommand::Reserve { booking, when, repeat: None, details: "a meeting".into() };
    Command::Resource(id(name), reserve)
}

/// A slot between two of the others.
fn slot_between(number: u64, name: &str) -> Command {
    let Command::Resource(resource, ResourceCommand::Reserve { details, .. }) = slot(number, name) else {
        unreachable!("made above");
    };
    let begin = Timestamp(YEAR_BEGINS_MS + (number % BOOKINGS) * APART_MS + SLOT_MS);
    let when = When::Utc { begin, end: begin.after(APART_MS - SLOT_MS) };
    let booking = id(&format!("between-{number}"));
    Command::Resource(resource, ResourceCommand::Reserve { booking, when, repeat: None, details })
}

fn room() -> ResourceDetails {
    ResourceDetails {
        name: "a desk".into(),
        properties: Vec::new(),
        capacity: 1,
        zone: "Europe/Berlin".into(),
        hours: None,
        before_ms: 0,
        after_ms: 0,
        notice_ms: 0,
        horizon_ms: None,
        rate: Rate { amount: 100, currency: euros(0).currency, per_ms: None },
        hold_ttl_ms: None,
        limits: Limits::default(),
    }
}

fn arena(number: u64, name: &str) -> Command {
    let begin = YEAR_BEGINS_MS + number * 1_000;
    let floor =
        Area { id: id("floor"), name: "Floor".into(), capacity: 200_000, price: euros(100), names: Default::default() };
    let session = NewSession {
        id: id(name),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(begin),
        ends_at: Timestamp(begin + 1_000),
        prices: Vec::new(),
        extras: SessionExtras { areas: vec![floor], ..Default::default() },
    };
    Command::Venue(id("venue"), VenueCommand::CreateSession(session))
}

fn fill(node: &Alone) {
    let venue = |command| Command::Venue(id("venue"), command);
    let details = VenueDetails {
        name: "V".into(),
        city: "C".into(),
        position: None,
        comments: "".into(),
        zone: None,
        address: "".into(),
    };
    node.must(venue(VenueCommand::Put(details)), 1);
    let layout = Layout::new(Vec::new(), None).expect("a hall may have no seats").into();
    node.must(venue(VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout }), 2);
    for (number, name) in ["full", "fresh"].into_iter().enumerate() {
        node.must(arena(number as u64, name), 3 + number as u64);
        node.must(Command::Product(id(name), ProductCommand::Put(Box::new(product()))), 1);
        node.must(Command::Resource(id(name), ResourceCommand::Put(Box::new(room()))), 1);
    }
    node.all((0..HOLDS).map(|number| (unit(number, "full"), 1)));
    node.all((0..SALES).map(|number| (place(HOLDS + number, "full"), 1)));
    node.all((0..SALES).map(|number| {
        let payment = Payment::Recorded { method: "cash".into(), transaction_id: "".into() };
        let pay =
            CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default(), holder: None };
        (Command::Cart(cart(HOLDS + number, &Entity::Session(id("full"))), pay), 2)
    }));
    node.all((0..BOOKINGS).map(|number| (slot(number, "full"), 10 + number)));
}

/// The median times of one command at the full inventory and at the fresh one.
fn compare(node: &Alone, samples: u64, what: &str, first: u64, command: impl Fn(u64, &str) -> Command) {
    let mut took = [Vec::new(), Vec::new()];
    for number in 0..samples {
        for (which, name) in ["full", "fresh"].into_iter().enumerate() {
            let number = first + 2 * number + which as u64;
            let command = command(number, name);
            let began = Instant::now();
            node.must(command, number);
            took[which].push(began.elapsed());
        }
    }
    let [full, fresh] = took.map(|mut took: Vec<Duration>| {
        took.sort_unstable();
        took[took.len() / 2].as_secs_f64() * 1e6
    });
    println!("{what:40} {full:8.0} {fresh:8.0} {:8.2}", full / fresh);
}

fn main() {
    let samples: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let dir = tempfile::tempdir_in(".").expect("a temporary directory on this disk");
    let node = Alone::start(&dir.path().join("data"), Fsync::Always);
    fill(&node);
    println!("{:40} {:>8} {:>8} {:>8}", "the next command, median µs", "full", "fresh", "ratio");
    let free = HOLDS + SALES;
    compare(&node, samples, "a product with 50 000 holds", free, unit);
    compare(&node, samples, "an area with 60 000 sales", free + 2 * samples, place);
    compare(&node, samples, "a resource with 10 000 bookings", free + 4 * samples, slot_between);
    let floor = DiskFloor::measure(dir.path()).expect("a floor");
    println!("raw fdatasync p50/p99 {:.0}/{:.0} µs", floor.p50_us, floor.p99_us);
    node.stop();
}

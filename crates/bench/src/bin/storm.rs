//! A storm of expiries without sockets: N carts with one unit each, all abandoned at one moment.
//!
//! `storm [CARTS]`. Prints how long after their deadline the carts have expired and their units are free again, and how
//! much memory an open cart takes.

use std::{
    thread,
    time::{Duration, Instant},
};

use boxoffice_bench::{Alone, id, product};
use boxoffice_core::{
    command::{CartCommand, Command, ProductCommand, Want, WantedLine},
    id::{CartToken, Entity},
};
use boxoffice_storage::fsync::Fsync;

const PRODUCTS: u64 = 1_000;

/// Memory of this process that is in use, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0) * 1_024
}

/// Threads free memory that other threads allocated. With the system's allocator they would wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let carts: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let dir = tempfile::tempdir_in(".").expect("a temporary directory on this disk");
    let node = Alone::start(&dir.path().join("data"), Fsync::Always);
    let handle = node.handle();
    let put = |number| Command::Product(id(&format!("p{number}")), ProductCommand::Put(Box::new(product())));
    node.all((0..PRODUCTS).map(|number| (put(number), number)));

    let before = resident();
    let began = Instant::now();
    // Long enough to open all carts. Each cart lives for the time that is left.
    let span = Duration::from_millis(20_000 + carts / 5);
    let entity = |number: u64| Entity::Product(id(&format!("p{}", number % PRODUCTS)));
    let cart = |number: u64| CartToken::beside(&entity(number), u128::from(number) + 1).cart();
    let commands = (0..carts).flat_map(|number| {
        let left = span.checked_sub(began.elapsed()).expect("all carts are opened before the first one ends");
        let ttl_ms = Some(left.as_millis() as u64);
        let line = WantedLine::new(entity(number), Want::Units { quantity: 1, now: false });
        let open = CartCommand::Open { customer: None, ttl_ms, guest: false };
        let hold =
            CartCommand::Hold { lines: vec![line], customer: None, guest: false, holder: None, attributes: Vec::new() };
        [(Command::Cart(cart(number), open), 1), (Command::Cart(cart(number), hold), 2)]
    });
    node.all(commands);
    println!("{carts} carts opened in {:.1} s", began.elapsed().as_secs_f64());
    thread::sleep(span.saturating_sub(began.elapsed()).saturating_sub(Duration::from_secs(1)));
    println!("{} bytes a cart", resident().saturating_sub(before) / carts);

    thread::sleep(span.saturating_sub(began.elapsed()));
    let due = Instant::now();
    let mut freed = None;
    while freed.is_none() && due.elapsed() < Duration::from_secs(300) {
        thread::sleep(Duration::from_millis(100));
        let residents = handle.residents().expect("the store can be read");
        // A cart that has ended and owes nothing leaves memory.
        if residents.in_memory <= PRODUCTS + residents.leaving {
            freed = Some(due.elapsed());
        }
    }
    println!("all expired {freed:.1?} after the deadline");
    let mut audit = handle.audit();
    while audit.stock.held > 0 && due.elapsed() < Duration::from_secs(300) {
        thread::sleep(Duration::from_millis(100));
        audit = handle.audit();
    }
    println!("everything free {:.1?} after it", due.elapsed());
    assert!(audit.violations.is_empty(), "{:?}", audit.violations);
    assert_eq!((audit.carts.expired, audit.stock.held), (carts, 0), "every cart expired and gave its unit back");
    node.stop();
}

//! The bytes that each sale, cart and customer keeps in memory, as asked of the allocator. They are the same every time, because
//! nothing else runs in the process. A test starts one for it.
//!
//! A leader has the committed state and, while an entity is busy, its actor's state. Followers have the first only.

use std::{collections::BTreeMap, hint::black_box, process::Command as Process, sync::Arc};

use boxoffice_core::{
    answer::Purchase,
    ask::Ask,
    command::{CartCommand, Command, HoldPolicy, Limits, ProductDetails, Rate, ResourceDetails, Want},
    event::{Event, ProductEvent, ResourceEvent, SessionEvent},
    host::{Effect, Host, Input, Turn},
    id::{CartToken, Entity, HoldId, Request, RequestHash},
    money::{Currency, Money},
    portion::Portion,
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::StateMap,
    time::Timestamp,
};

use crate::costs::{ALLOCATOR, id, opened_in};

const NOW: Timestamp = Timestamp(1_000);
/// How many of each are measured.
const COUNT: u64 = 18_000;
/// Seats of a session, in rows of 30.
const SEATS: u64 = 900;

/// The most bytes of one, about a tenth above what it takes. docs/operate/load.md tells them.
const MARKS: [(&str, u64); 9] = [
    ("a sale of one seat", 210),
    ("a sale of five seats", 260),
    ("a sale of places", 160),
    ("a sale of units", 160),
    ("a sale of a slot", 560),
    ("an empty cart", 640),
    ("a cart with a seat", 1_140),
    ("an ended cart in the store", 0),
    ("a purchase of a customer", 380),
];

/// Entities of a node, as its leader has them.
#[derive(Default)]
struct Node {
    kept: StateMap,
    hosts: BTreeMap<Entity, Host<u32>>,
    turn: Turn<u32>,
}

/// Bytes that are in use.
fn live() -> i64 {
    let stats = ALLOCATOR.stats();
    i64::try_from(stats.bytes_allocated).expect("fewer") - i64::try_from(stats.bytes_deallocated).expect("fewer")
}

fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("three letters") }
}

/// A number that looks random, as ids of carts do.
fn scattered(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn token(entity: &Entity, number: u64) -> CartToken {
    CartToken::beside(entity, u128::from(scattered(number)) << 64 | u128::from(scattered(!number)))
}

fn hold_of(entity: &Entity, number: u64) -> HoldId {
    let request = RequestHash(scattered(number ^ 0x55));
    HoldId { cart: token(entity, number).cart(), request, part: 0, attempt: 0 }
}

impl Node {
    /// Begins an entity with this event.
    fn begin(&mut self, entity: &Entity, event: Event) {
        self.kept.advance(self.kept.index() + 1);
        self.kept.apply(entity, vec![event]);
    }

    /// Lets an entity decide, and commits it. Returns what it asks and replies.
    fn input(&mut self, entity: &Entity, input: Input<u32>) -> Vec<Effect<u32>> {
        let state = self.kept.get(entity);
        let host = self.hosts.entry(entity.clone());
        let host = host.or_insert_with(|| Host::new(entity.clone(), state, Arc::new(Rules::default())));
        self.turn.clear();
        host.handle(NOW, input, &mut self.turn);
        self.kept.advance(self.kept.index() + 1);
        let events = std::mem::take(&mut self.turn.events);
        if !events.is_empty() {
            self.kept.apply(entity, events);
        }
        let turn = &mut self.turn;
        turn.now.drain(..).chain(turn.committed.drain(..)).chain(turn.read.drain(..)).collect()
    }

    /// A cart's hold of an inventory, and its sale.
    fn sell(&mut self, inventory: &Entity, number: u64, want: Want, portion: Portion) {
        let (hold, from) = (hold_of(inventory, number), Entity::Cart(hold_of(inventory, number).cart));
        let ask = Ask::Hold {
            hold,
            revision: 1,
            want,
            life_ms: 1_800_000,
            holder: None,
            desk: false,
            code: None,
            attributes: Vec::new(),
            customer: None,
        };
        self.input(inventory, Input::Ask { from: from.clone(), ask });
        let (order, at) = (hold.cart.order(), NOW);
        self.input(inventory, Input::Ask { from, ask: Ask::Sell { hold, revision: 1 << 20, portion, order, at } });
    }

    /// A command to a cart and everything that follows from it, until nothing is asked any more.
    fn command(&mut self, cart: &Entity, number: u64, command: CartCommand) {
        let Entity::Cart(cart_id) = *cart else { panic!("{cart} is no cart") };
        let request = Some(Request { id: RequestHash(scattered(number)), body: number });
        let command = Command::Cart(cart_id, command);
        let mut waiting = vec![(cart.clone(), Input::Command { from: 0, request, command, timeout_ms: 10_000 })];
        while let Some((to, input)) = waiting.pop() {
            for effect in self.input(&to, input) {
                match effect {
                    Effect::Ask { to: asked, ask } => waiting.push((asked, Input::Ask { from: to.clone(), ask })),
                    Effect::Reply { to: asker, reply } => {
                        waiting.push((asker, Input::Reply { from: to.clone(), reply }));
                    }
                    Effect::Answer { outcome, .. } => assert!(outcome.is_ok(), "{outcome:?}"),
                    Effect::Pay(call) => panic!("{call:?}"),
                }
            }
        }
    }

    fn sessions(&mut self, count: u64) -> Vec<Entity> {
        let open = |number: u64| {
            let Event::Session(SessionEvent::Opened(mut opening)) = opened_in(30, 30) else { panic!("an opening") };
            opening.session.id = id(&format!("session-{number}"));
            opening.session.areas = vec![boxoffice_core::command::Area {
                id: id("stand"),
                name: "Stand".into(),
                capacity: 1_000_000,
                price: euros(500),
                names: Default::default(),
            }];
            let entity = Entity::Session(opening.session.id.clone());
            self.begin(&entity, Event::Session(SessionEvent::Opened(opening)));
            entity
        };
        (0..count).map(open).collect()
    }
}

/// The bytes of one of `count`, beside what was there before. The second figure is without the states of actors.
fn each(node: &mut Node, count: u64, work: impl FnOnce(&mut Node)) -> (u64, u64) {
    let before = live();
    work(node);
    let busy = live() - before;
    node.hosts.clear();
    let idle = live() - before;
    let per = |bytes: i64| u64::try_from(bytes.max(0)).expect("not negative") / count;
    (per(busy), per(idle))
}

fn seat(number: u64) -> Seat {
    let number = u16::try_from(number % SEATS).expect("few seats");
    Seat { row: number / 30, seat: number % 30 }
}

fn seats_sold(a_sale: u64) -> (u64, u64) {
    let mut node = Node::default();
    let of_session = SEATS / a_sale;
    let sessions = node.sessions(COUNT.div_ceil(of_session));
    each(&mut node, COUNT, |node| {
        // The sessions sell at the same time, as in an evening.
        for number in 0..COUNT {
            let session = &sessions[(number % sessions.len() as u64) as usize];
            let first = number / sessions.len() as u64 * a_sale;
            let seats = SeatSet::new((first..first + a_sale).map(seat)).expect("some seats");
            let portion = Portion::Seats(seats.clone());
            node.sell(session, number, Want::seats(seats, false), portion);
        }
    })
}

fn places_sold() -> (u64, u64) {
    let mut node = Node::default();
    let session = node.sessions(1).remove(0);
    each(&mut node, COUNT, |node| {
        for number in 0..COUNT {
            let want = Want::places(id("stand"), 2);
            node.sell(&session, number, want, Portion::Places { area: id("stand"), quantity: 2 });
        }
    })
}

fn units_sold() -> (u64, u64) {
    let mut node = Node::default();
    let details = ProductDetails {
        name: "Thing".into(),
        properties: Vec::new(),
        blob: Vec::new(),
        price: euros(100),
        stock: 1_000_000,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    };
    let product = Entity::Product(id("thing"));
    let request = Request { id: RequestHash(1), body: 1 };
    node.begin(&product, Event::Product(ProductEvent::Put { details: Box::new(details), request }));
    each(&mut node, COUNT, |node| {
        for number in 0..COUNT {
            node.sell(&product, number, Want::Units { quantity: 2, now: false }, Portion::Units(2));
        }
    })
}

fn slots_sold() -> (u64, u64) {
    let mut node = Node::default();
    let details = ResourceDetails {
        name: "Room".into(),
        properties: Vec::new(),
        capacity: 1,
        zone: "UTC".into(),
        hours: None,
        before_ms: 0,
        after_ms: 0,
        notice_ms: 0,
        horizon_ms: None,
        rate: Rate { amount: 1_200, currency: euros(0).currency, per_ms: None },
        hold_ttl_ms: None,
        limits: Limits::default(),
    };
    let room = Entity::Resource(id("room"));
    let request = Request { id: RequestHash(1), body: 1 };
    node.begin(&room, Event::Resource(ResourceEvent::Put { details: Box::new(details), request }));
    const HOUR_MS: u64 = 3_600_000;
    each(&mut node, COUNT, |node| {
        for number in 0..COUNT {
            let (begin, end) = (Timestamp((number + 1) * HOUR_MS), Timestamp((number + 2) * HOUR_MS));
            let want = Want::Slot { begin, end, details: "".into() };
            node.sell(&room, number, want, Portion::Slot { begin, end });
        }
    })
}

fn carts(session: &Entity) -> impl Iterator<Item = (u64, Entity)> {
    (0..COUNT).map(|number| (number, Entity::Cart(token(session, number).cart())))
}

fn empty_carts() -> (u64, u64) {
    let mut node = Node::default();
    let session = node.sessions(1).remove(0);
    each(&mut node, COUNT, |node| {
        for (number, cart) in carts(&session) {
            node.command(&cart, number, CartCommand::Open { customer: None, ttl_ms: None, guest: true });
        }
    })
}

fn holding(session: &Entity, number: u64) -> CartCommand {
    let seats = SeatSet::new([seat(number)]).expect("one seat");
    let want = Want::seats(seats, false);
    let lines = vec![boxoffice_core::command::WantedLine::new(session.clone(), want)];
    CartCommand::Hold { lines, customer: None, guest: true, holder: None, attributes: Vec::new() }
}

fn carts_with_a_seat() -> (u64, u64) {
    let mut node = Node::default();
    let sessions = node.sessions(COUNT / SEATS);
    each(&mut node, COUNT, |node| {
        for number in 0..COUNT {
            let session = &sessions[(number / SEATS) as usize];
            let cart = Entity::Cart(token(session, number).cart());
            node.command(&cart, number, holding(session, number));
        }
    })
}

/// Carts that were opened and canceled, and are in the store.
fn ended_carts() -> (u64, u64) {
    let mut node = Node::default();
    let session = node.sessions(1).remove(0);
    each(&mut node, COUNT, |node| {
        for (number, cart) in carts(&session) {
            node.command(&cart, number, CartCommand::Open { customer: None, ttl_ms: None, guest: true });
            node.command(&cart, !number, CartCommand::Cancel);
            node.hosts.remove(&cart);
            if number % 100 == 99 {
                for ended in node.kept.take_evictable() {
                    assert!(node.kept.evict(&ended.entity, ended.index), "{} is in the store", ended.entity);
                }
            }
        }
        assert_eq!(node.kept.len(), 1, "only the session is left");
    })
}

fn purchases() -> (u64, u64) {
    let mut node = Node::default();
    let customer = Entity::Customer(id("ann"));
    let session = node.sessions(1).remove(0);
    each(&mut node, COUNT, |node| {
        for (_, cart) in carts(&session) {
            let Entity::Cart(of) = cart else { panic!("a cart") };
            let purchase =
                Purchase { cursor: 0, order: of.order(), at: NOW, total: euros(500), zone: None, items: Vec::new() };
            node.input(&customer, Input::Ask { from: cart, ask: Ask::Post { purchase } });
        }
    })
}

fn measured() -> Vec<(&'static str, (u64, u64))> {
    let measures: [fn() -> (u64, u64); MARKS.len()] = [
        || seats_sold(1),
        || seats_sold(5),
        places_sold,
        units_sold,
        slots_sold,
        empty_carts,
        carts_with_a_seat,
        ended_carts,
        purchases,
    ];
    MARKS.into_iter().zip(measures).map(|((what, _), measure)| (what, black_box(measure()))).collect()
}

/// Measures in a process of its own, and once more with a planted bug. `BOXOFFICE_MEMORY` says that this is such a process.
#[test]
fn memory_stays_below_its_marks() {
    match std::env::var("BOXOFFICE_MEMORY") {
        Err(_) => {
            let (success, said) = in_its_own_process("no bug");
            println!("{said}");
            assert!(success, "{said}");
            #[cfg(debug_assertions)]
            {
                let (success, said) = in_its_own_process("leaves that grow to twice their size");
                assert!(!success && said.contains("more bytes than the mark"), "{said}");
            }
        }
        Ok(_bug) => {
            #[cfg(debug_assertions)]
            boxoffice_core::planted::plant_everywhere(&_bug);
            compare_with_marks();
        }
    }
}

/// Whether the test succeeds in a process with this bug, and its output.
fn in_its_own_process(bug: &str) -> (bool, String) {
    let executable = std::env::current_exe().expect("a test is a file");
    let mut process = Process::new(executable);
    let arguments = ["--exact", "memory_costs::memory_stays_below_its_marks", "--test-threads=1", "--nocapture"];
    let ended = process.args(arguments).env("BOXOFFICE_MEMORY", bug).output().expect("a test can be started");
    let said = [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    (ended.status.success() && said.contains("1 passed"), said)
}

fn compare_with_marks() {
    println!("\n{:<28} {:>12} {:>12} {:>8}", "bytes of", "leader, busy", "at rest", "mark");
    let mut beyond = Vec::new();
    for ((what, (busy, idle)), (_, mark)) in measured().into_iter().zip(MARKS) {
        println!("{what:<28} {busy:>12} {idle:>12} {mark:>8}");
        // An actor of a cart leaves it after a moment, and those of inventories stay.
        let bytes = if what.contains("cart") { idle } else { busy };
        if bytes > mark {
            beyond.push(what);
        }
    }
    assert_eq!(beyond, [""; 0], "more bytes than the mark");
}

/// Answers of a node.
struct Answers(std::sync::mpsc::Sender<crate::api::Result>);

impl crate::api::ReplySink for Answers {
    fn answer(&self, _tag: u64, result: crate::api::Result) {
        self.0.send(result).expect("the answer is waited for");
    }
}

/// Prints what sales keep in the memory of a whole node with a real disk, and so what the parts around the states take. Alone in its
/// process: `cargo test -p boxoffice-node --lib whole_node -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute"]
fn bytes_of_a_whole_node() {
    use std::{sync::mpsc, time::Duration};

    use boxoffice_core::command::{Expect, Payment, VenueCommand, VenueDetails, WantedLine};
    use boxoffice_env::World;

    use crate::{
        api::ReplyTo,
        config::{NodeConfig, ReplicationConfig},
        node::{Node, Runtimes},
    };

    const BATCH: u64 = 30_000;
    const AT_ONCE: u64 = 200;
    let data = tempfile::tempdir_in(".").expect("a directory");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let runtimes = Runtimes { selling: runtime.handle().clone(), watching: runtime.handle().clone() };
    let replication = ReplicationConfig { data_dir: data.path().join("node"), ..ReplicationConfig::default() };
    // Nothing is shed, however busy the machine is.
    let overload = crate::admission::OverloadSettings { target_ms: 60_000, ..Default::default() };
    let config = NodeConfig { replication, overload, ..NodeConfig::default() };
    let node = Node::start(config, World::standalone(), &runtimes).expect("an empty directory");
    while node.handle().ready().is_err() {
        std::thread::yield_now();
    }
    let (sender, answers) = mpsc::channel();
    let sink = Arc::new(Answers(sender));
    let mut next = 0_u64;
    let mut send = |command: Command| {
        next += 1;
        let request = Request { id: RequestHash(scattered(next)), body: next };
        node.handle().submit(command, Some(request), ReplyTo::new(Arc::clone(&sink) as _, next).with_timeout(60_000));
    };
    let wait = |count: u64| {
        for _ in 0..count {
            let answer = answers.recv_timeout(Duration::from_secs(60)).expect("an answer");
            assert!(matches!(answer, Ok(Ok(_))), "{answer:?}");
        }
    };
    let Event::Session(SessionEvent::Opened(opening)) = opened_in(30, 30) else { panic!("an opening") };
    let venue = opening.venue.clone();
    let details = VenueDetails {
        name: "V".into(),
        city: "C".into(),
        position: None,
        comments: "".into(),
        zone: None,
        address: "".into(),
    };
    send(Command::Venue(venue.clone(), VenueCommand::Put(details)));
    wait(1);
    let (hall, layout) = (opening.session.hall.clone(), Arc::clone(&opening.layout));
    let hall = VenueCommand::PutHall { hall, name: "H".into(), comments: "".into(), layout };
    send(Command::Venue(venue.clone(), hall));
    wait(1);
    let year_ms = 365 * 86_400_000;
    let now_ms = 1_900_000_000_000_u64 + 20 * year_ms;
    let resting = || {
        std::thread::sleep(Duration::from_secs(12));
        live()
    };
    let mut sold = 0_u64;
    let mut before = resting();
    for batch in 0..4 {
        let sessions = BATCH * 5 / SEATS + 1;
        let all: Vec<Entity> = (0..sessions)
            .map(|number| {
                let number = batch * sessions + number;
                let mut session = opening.session.clone();
                session.id = id(&format!("session-{number}"));
                session.starts_at = Timestamp(now_ms + number * 7_200_000);
                session.ends_at = Timestamp(now_ms + number * 7_200_000 + 3_600_000);
                let entity = Entity::Session(session.id.clone());
                send(Command::Venue(venue.clone(), VenueCommand::CreateSession(session)));
                wait(1);
                entity
            })
            .collect();
        if batch == 3 {
            // Carts without anything.
            for from in (0..BATCH).step_by(AT_ONCE as usize) {
                for number in from..from + AT_ONCE {
                    let cart = token(&all[0], 1 << 40 | number).cart();
                    send(Command::Cart(cart, CartCommand::Open { customer: None, ttl_ms: None, guest: true }));
                }
                wait(AT_ONCE);
            }
        } else {
            for from in (0..BATCH).step_by(AT_ONCE as usize) {
                let cart_of = |number: u64| {
                    let session = &all[(number * 5 / SEATS) as usize];
                    (session, token(session, sold + number).cart())
                };
                for number in from..from + AT_ONCE {
                    let (session, cart) = cart_of(number);
                    let seats = SeatSet::new((number * 5..number * 5 + 5).map(seat)).expect("five seats");
                    let want = Want::seats(seats, false);
                    let lines = vec![WantedLine::new(session.clone(), want)];
                    send(Command::Cart(
                        cart,
                        CartCommand::Hold { lines, customer: None, guest: true, holder: None, attributes: Vec::new() },
                    ));
                }
                wait(AT_ONCE);
                for number in from..from + AT_ONCE {
                    let (_, cart) = cart_of(number);
                    let payment = Payment::Recorded { method: "card".into(), transaction_id: "4711".into() };
                    let expect = Expect::default();
                    send(Command::Cart(
                        cart,
                        CartCommand::Checkout { payment, customer: None, shipping: None, expect, holder: None },
                    ));
                }
                wait(AT_ONCE);
            }
            sold += BATCH;
        }
        let busy = live();
        let after = resting();
        let of = if batch == 3 { "empty cart" } else { "sale of five seats" };
        println!(
            "bytes of each {of}: {} at once, {} at rest",
            (busy - before) / BATCH as i64,
            (after - before) / BATCH as i64
        );
        before = after;
    }
    runtime.block_on(node.stop(1_000)).expect("it stops");
}

//! What price types, offers and codes cost, in one process and without sockets, beside the same without them.
//!
//! Purchases are of five seats in a session with four price types in four categories and one window, and in a plain one. Holds show a
//! code that lives in another shard than their cart and session, or all three in shards of their own, and stand beside holds without a
//! code over two shards. Codes are put by the hundred thousand. Rounds are interleaved, and each ratio is one of figures of the same
//! round. The medians are printed with the least and the greatest.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Instant,
};

use boxoffice_bench::{Alone, euros, id, processor_ns};
use boxoffice_core::{
    command::{
        BuyAs, CartCommand, CodeCommand, CodeDetails, Command, Expect, NewSession, Offer, Offering, Payment, PriceType,
        VenueCommand, VenueDetails, Want, WantedLine,
    },
    id::{CartId, CartToken, Entity, Id, Request, RequestHash},
    layout::{Labels, Layout, Row, Run},
    seat::{Seat, SeatSet},
    time::Timestamp,
};
use boxoffice_load::machine::{DiskFloor, process_memory};
use boxoffice_node::{
    api::{self, ReplySink, ReplyTo},
    node::NodeHandle,
};
use boxoffice_storage::fsync::Fsync;
use clap::Parser;

/// Categories, each with one row, and price types.
const CATEGORIES: u16 = 4;
const ROW_SEATS: u16 = 20;
const TYPES: [&str; 4] = ["adult", "under26", "student", "carer"];
/// Seats of a purchase, and those of a hold. A hold shows a code of its own.
const SEATS: u16 = 5;
const HELD_SEATS: u16 = 2;
/// The bit of a prefix by which places lie in different shards, and another one.
const OTHER_SHARD: u16 = 0x8000;
const THIRD_SHARD: u16 = 0x4000;
/// A begin long ago and an end long after everything.
const WINDOW: (Timestamp, Timestamp) = (Timestamp(1_000), Timestamp(3_900_000_000_000));

/// What is asked of the node.
type Make = dyn Fn(u64, u64) -> Command + Send + Sync;

/// Clients that each begin their next flow when their last one has ended. A flow has some steps.
struct Loop {
    node: NodeHandle,
    make: Box<Make>,
    steps: u64,
    flows: u64,
    next: AtomicU64,
    clients: Vec<Client>,
    began: Instant,
    /// Of all flows, in microseconds.
    latencies_us: Mutex<Vec<u64>>,
    ended: mpsc::SyncSender<()>,
}

#[derive(Default)]
struct Client {
    flow: AtomicU64,
    step: AtomicU64,
    started_us: AtomicU64,
}

struct Sink(Arc<Loop>);

impl Loop {
    fn begin(self: &Arc<Self>, tag: u64) {
        let flow = self.next.fetch_add(1, Ordering::Relaxed);
        if flow >= self.flows {
            // The main thread waits for each client.
            let _ = self.ended.send(());
            return;
        }
        let client = &self.clients[tag as usize];
        client.flow.store(flow, Ordering::Relaxed);
        client.step.store(0, Ordering::Relaxed);
        client.started_us.store(self.began.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.submit(tag, flow, 0);
    }

    fn submit(self: &Arc<Self>, tag: u64, flow: u64, step: u64) {
        let request = Request { id: RequestHash(step + 1), body: 0 };
        let reply = ReplyTo::new(Arc::new(Sink(Arc::clone(self))), tag);
        self.node.submit((self.make)(flow, step), Some(request), reply);
    }
}

impl ReplySink for Sink {
    fn answer(&self, tag: u64, result: api::Result) {
        assert!(matches!(result, Ok(Ok(_))), "a flow failed: {result:?}");
        let client = &self.0.clients[tag as usize];
        let step = client.step.fetch_add(1, Ordering::Relaxed) + 1;
        if step < self.0.steps {
            return self.0.submit(tag, client.flow.load(Ordering::Relaxed), step);
        }
        let now_us = self.0.began.elapsed().as_micros() as u64;
        let took_us = now_us - client.started_us.load(Ordering::Relaxed);
        self.0.latencies_us.lock().expect("no thread panics while it holds the lock").push(took_us);
        self.0.begin(tag);
    }
}

/// The figures of a round.
#[derive(Clone, Debug)]
struct Figures {
    /// Processor time of a flow, in microseconds.
    cpu_us: f64,
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    /// Processor time of a flow by the names of threads, in microseconds.
    by_thread_us: BTreeMap<String, f64>,
}

fn measure(node: &Alone, clients: u64, flows: u64, steps: u64, make: Box<Make>) -> Figures {
    let (ended, all_ended) = mpsc::sync_channel(clients as usize);
    let (cpu_before, began) = (processor_ns("self"), Instant::now());
    let all = Arc::new(Loop {
        node: node.handle().clone(),
        make,
        steps,
        flows,
        next: AtomicU64::new(0),
        clients: (0..clients).map(|_| Client::default()).collect(),
        began,
        latencies_us: Mutex::default(),
        ended,
    });
    (0..clients).for_each(|tag| all.begin(tag));
    (0..clients).for_each(|_| all_ended.recv().expect("every client ends"));
    let took = began.elapsed();
    let each = |(name, ns): (String, u64)| {
        let spent = ns.saturating_sub(cpu_before.get(&name).copied().unwrap_or(0));
        (name, spent as f64 / 1_000.0 / flows as f64)
    };
    let by_thread_us: BTreeMap<String, f64> = processor_ns("self").into_iter().map(each).collect();
    let cpu_us = by_thread_us.values().sum();
    let mut us = std::mem::take(&mut *all.latencies_us.lock().expect("no thread panics while it holds the lock"));
    us.sort_unstable();
    let at = |percent: usize| us[(us.len() * percent / 100).min(us.len() - 1)] as f64;
    Figures { cpu_us, per_s: flows as f64 / took.as_secs_f64(), p50_us: at(50), p99_us: at(99), by_thread_us }
}

fn category(number: u16) -> Id {
    id(&format!("category-{number}"))
}

fn set_up(node: &Alone) {
    let row = |number: u16| Row {
        label: number.to_string().into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count: ROW_SEATS,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: category(number),
            accessible: false,
            points: Vec::new(),
        }],
    };
    let layout = Arc::new(Layout::new((0..CATEGORIES).map(row).collect(), None).expect("a good layout"));
    let details = VenueDetails {
        name: "V".into(),
        city: "C".into(),
        position: None,
        comments: "".into(),
        zone: None,
        address: "".into(),
    };
    node.must(Command::Venue(id("v"), VenueCommand::Put(details)), 1);
    let hall = VenueCommand::PutHall { hall: id("h"), name: "H".into(), comments: "".into(), layout };
    node.must(Command::Venue(id("v"), hall), 2);
}

fn offering() -> Offering {
    let price_type = |(number, name): (usize, &str)| PriceType {
        id: id(name),
        name: name.into(),
        names: Default::default(),
        // The prices of the first type are those of the session.
        prices: if number == 0 { Vec::new() } else { (0..CATEGORIES).map(|of| (category(of), 500)).collect() },
        area_prices: Vec::new(),
        tax: None,
    };
    let offer = |name: &str, code_group: Option<Id>| Offer {
        id: id(name),
        name: name.into(),
        names: Default::default(),
        types: Vec::new(),
        categories: Vec::new(),
        areas: Vec::new(),
        from: Some(WINDOW.0),
        until: Some(WINDOW.1),
        closed: false,
        desk: false,
        change: None,
        per_order: None,
        counters: Vec::new(),
        allotments: Vec::new(),
        code_group,
        attributes: Vec::new(),
        per_customer: None,
    };
    Offering {
        price_types: TYPES.iter().copied().enumerate().map(price_type).collect(),
        offers: vec![offer("web", None)],
        counters: Vec::new(),
        allotments: Vec::new(),
    }
}

/// The same with members instead of everybody.
fn members_offering() -> Offering {
    let mut offering = offering();
    offering.offers[0].code_group = Some(id("members"));
    offering
}

/// Creates as many sessions as the flows of a round need.
fn create_sessions(node: &Alone, round: &str, count: u64, start: &mut u64, offering: Option<&Offering>) {
    let offering = offering.cloned().map(Arc::new);
    let first = *start;
    *start += count;
    node.all((0..count).map(|session| {
        let at = (first + session) * 1_000;
        let mut new = NewSession {
            id: session_id(round, session),
            hall: id("h"),
            title: id("t"),
            starts_at: Timestamp(4_000_000_000_000 + at),
            ends_at: Timestamp(4_000_000_001_000 + at),
            prices: (0..CATEGORIES).map(|of| (category(of), euros(1_000))).collect(),
            extras: Default::default(),
        };
        new.offering = offering.clone();
        (Command::Venue(id("v"), VenueCommand::CreateSession(new)), 1_000 + at)
    }));
}

fn session_id(round: &str, session: u64) -> Id {
    id(&format!("s{round}-{session}"))
}

/// Neighbouring flows go to different sessions, as buyers do.
fn seats_of(flow: u64, sessions: u64, seats: u16) -> (u64, SeatSet) {
    let (session, place) = (flow % sessions, flow / sessions);
    let a_row = u64::from(ROW_SEATS / seats);
    let (row, first) = ((place / a_row) as u16, (place % a_row) as u16 * seats);
    (session, SeatSet::new((0..seats).map(|at| Seat { row, seat: first + at })).expect("some seats"))
}

fn hold(session: Entity, seats: SeatSet, buy_as: BuyAs) -> CartCommand {
    let want = Want::Seats { seats, best_effort: false, buy_as };
    CartCommand::Hold {
        lines: vec![WantedLine::new(session, want)],
        customer: None,
        guest: false,
        holder: None,
        attributes: Vec::new(),
    }
}

/// Purchases of five seats: open, hold, check out.
fn purchase(round: String, sessions: u64, has_types: bool) -> Box<Make> {
    Box::new(move |flow, step| {
        let (session, seats) = seats_of(flow, sessions, SEATS);
        let session = Entity::Session(session_id(&round, session));
        let cart = CartToken::beside(&session, u128::from(flow) + 1).cart();
        let types = (0..SEATS).map(|seat| id(TYPES[usize::from(seat) % TYPES.len()]));
        let buy_as = if has_types { BuyAs::new(types.collect(), None) } else { BuyAs::default() };
        let command = match step {
            0 => CartCommand::Open { customer: None, ttl_ms: None, guest: false },
            1 => hold(session, seats, buy_as),
            _ => CartCommand::Checkout {
                payment: Payment::Recorded { method: "card".into(), transaction_id: "t".into() },
                customer: None,
                shipping: None,
                expect: Expect::default(),
                holder: None,
            },
        };
        Command::Cart(cart, command)
    })
}

/// Where the cart and the code of a hold live, as bits in which their prefixes differ from that of the session.
#[derive(Clone, Copy)]
struct Places {
    name: &'static str,
    cart: u16,
    code: Option<u16>,
}

const PLACES: [Places; 4] = [
    Places { name: "plain, one shard", cart: 0, code: None },
    Places { name: "plain, two shards", cart: OTHER_SHARD, code: None },
    Places { name: "code, two shards", cart: 0, code: Some(OTHER_SHARD) },
    Places { name: "code, three shards", cart: OTHER_SHARD, code: Some(THIRD_SHARD) },
];

/// A code for each flow, in another half or quarter of all prefixes than its session.
fn codes(round: &str, sessions: u64, flows: u64, differs: u16) -> Vec<Id> {
    let mut number = 0;
    let code = |flow: u64| {
        let prefix = Entity::Session(session_id(round, flow % sessions)).hash_prefix();
        loop {
            number += 1;
            let code = id(&format!("c{round}-{number}"));
            let other = Entity::Code(code.clone()).hash_prefix();
            if (other ^ prefix) & (OTHER_SHARD | THIRD_SHARD) == differs {
                return code;
            }
        }
    };
    (0..flows).map(code).collect()
}

fn put(code: Id, uses: u32) -> Command {
    Command::Code(code, CodeCommand::Put(CodeDetails { group: id("members"), uses, ended: false, by_order: false }))
}

/// Holds of two seats.
fn held(round: String, sessions: u64, places: Places, codes: Vec<Id>) -> Box<Make> {
    Box::new(move |flow, _| {
        let (session, seats) = seats_of(flow, sessions, HELD_SEATS);
        let session = Entity::Session(session_id(&round, session));
        // The prefix of a cart's id is that of its token.
        let prefix = u128::from(session.hash_prefix() ^ places.cart) << 112;
        let cart: CartId = CartToken(prefix | (u128::from(flow) + 1)).cart();
        let buy_as = BuyAs::with_code(Vec::new(), None, codes.get(flow as usize).cloned());
        Command::Cart(cart, hold(session, seats, buy_as))
    })
}

/// The median with the least and the greatest.
fn spread(mut figures: Vec<f64>) -> String {
    figures.sort_by(f64::total_cmp);
    let [least, median, greatest] = [0, figures.len() / 2, figures.len() - 1].map(|at| figures[at]);
    format!("{median:.2} ({least:.2} to {greatest:.2})")
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

/// What price types, offers and codes cost.
#[derive(Parser)]
struct Options {
    #[arg(long, default_value_t = 7)]
    rounds: u64,
    /// Purchases of a round.
    #[arg(long, default_value_t = 20_000)]
    purchases: u64,
    /// Holds of a round.
    #[arg(long, default_value_t = 4_000)]
    holds: u64,
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// Clients that hold.
    #[arg(long, default_value_t = 8)]
    holders: u64,
    /// What is measured: purchases, holds, codes.
    #[arg(long, value_delimiter = ',', default_value = "purchases,holds,codes")]
    parts: Vec<String>,
    /// Codes that are put at once.
    #[arg(long, default_value_t = 100_000)]
    codes: u64,
}

fn main() {
    let options = Options::parse();
    println!("load average {} at the start", load_average());
    let dir = tempfile::tempdir_in(".").expect("a temporary directory on this disk");
    let floor = DiskFloor::measure(dir.path()).expect("a floor");
    println!("raw fdatasync p50/p99 {:.0}/{:.0} µs", floor.p50_us, floor.p99_us);
    let mut start = 0;
    for part in &options.parts {
        let fsync = if part == "purchases" { Fsync::Never } else { Fsync::Always };
        let node = Alone::start(&dir.path().join(part), fsync);
        set_up(&node);
        match part.as_str() {
            "purchases" => purchases(&node, &options, &mut start),
            "holds" => holds(&node, &options, &mut start),
            "codes" => many_codes(&node, &options),
            other => panic!("there is no part {other}: give purchases, holds or codes"),
        }
        node.stop();
    }
    println!("load average {} at the end", load_average());
}

fn purchases(node: &Alone, options: &Options, start: &mut u64) {
    let sessions = options.purchases.div_ceil(u64::from(CATEGORIES * (ROW_SEATS / SEATS)));
    let mut all: [Vec<Figures>; 2] = Default::default();
    // The first round only warms.
    for round in 0..=options.rounds {
        for turn in 0..2 {
            // The other one is first in every other round.
            let kind = ((round + turn) % 2) as usize;
            let name = format!("p{round}-{kind}");
            create_sessions(node, &name, sessions, start, (kind == 1).then(offering).as_ref());
            let make = purchase(name, sessions, kind == 1);
            let figures = measure(node, options.clients, options.purchases, 3, make);
            if round > 0 {
                all[kind].push(figures);
            }
        }
    }
    println!("purchases, {} a round, {} clients, fsync never", options.purchases, options.clients);
    for (kind, name) in ["plain", "4 types × 4 categories, a window"].into_iter().enumerate() {
        let of = |figure: fn(&Figures) -> f64| spread(all[kind].iter().map(figure).collect());
        println!("  {name}: processor {} µs, {} a second", of(|it| it.cpu_us), of(|it| it.per_s));
    }
    let ratios = |figure: fn(&Figures) -> f64| {
        spread(all[1].iter().zip(&all[0]).map(|(offered, plain)| figure(offered) / figure(plain)).collect())
    };
    println!("  processor time × plain: {}", ratios(|it| it.cpu_us));
    for name in all[0][0].by_thread_us.keys() {
        let of = |kind: usize| {
            spread(all[kind].iter().map(|it| it.by_thread_us.get(name).copied().unwrap_or(0.0)).collect())
        };
        println!("    thread {name}: plain {} µs, with types {} µs", of(0), of(1));
    }
    println!("  time × plain: {}", ratios(|it| 1.0 / it.per_s));
}

fn holds(node: &Alone, options: &Options, start: &mut u64) {
    let sessions = options.holds.div_ceil(u64::from(CATEGORIES * (ROW_SEATS / HELD_SEATS)));
    let mut all: [Vec<Figures>; PLACES.len()] = Default::default();
    for round in 0..=options.rounds {
        for turn in 0..PLACES.len() {
            let kind = (round as usize + turn) % PLACES.len();
            let (name, places) = (format!("h{round}-{kind}"), PLACES[kind]);
            let offering = if places.code.is_some() { Some(members_offering()) } else { None };
            create_sessions(node, &name, sessions, start, offering.as_ref());
            let shown = places.code.map_or_else(Vec::new, |differs| codes(&name, sessions, options.holds, differs));
            node.all(shown.iter().map(|code| (put(code.clone(), HELD_SEATS.into()), 1)));
            let figures = measure(node, options.holders, options.holds, 1, held(name, sessions, places, shown));
            if round > 0 {
                all[kind].push(figures);
            }
        }
    }
    println!("holds, {} a round, {} clients, fsync always", options.holds, options.holders);
    for (places, figures) in PLACES.iter().zip(&all) {
        let of = |figure: fn(&Figures) -> f64| spread(figures.iter().map(figure).collect());
        println!(
            "  {}: p50 {} µs, p99 {} µs, processor {} µs",
            places.name,
            of(|it| it.p50_us),
            of(|it| it.p99_us),
            of(|it| it.cpu_us)
        );
    }
    for kind in [2, 3] {
        let ratios = |figure: fn(&Figures) -> f64| {
            spread(all[kind].iter().zip(&all[1]).map(|(code, plain)| figure(code) / figure(plain)).collect())
        };
        let name = PLACES[kind].name;
        println!("  {name} × plain, two shards: p50 {}, p99 {}", ratios(|it| it.p50_us), ratios(|it| it.p99_us));
    }
}

fn many_codes(node: &Alone, options: &Options) {
    let memory = || process_memory(std::process::id()).unwrap_or(0);
    let (before, began) = (memory(), Instant::now());
    node.all((0..options.codes).map(|code| (put(id(&format!("many-{code}")), 2), 1)));
    let took = began.elapsed();
    let bytes = memory().saturating_sub(before) as f64 / options.codes as f64;
    println!(
        "codes, {} put one by one, fsync always: {:.2} s, {:.1} µs each, {bytes:.0} bytes of the process each",
        options.codes,
        took.as_secs_f64(),
        took.as_micros() as f64 / options.codes as f64
    );
}

/// Threads free memory that other threads allocated. With the system's allocator they would wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

//! The node without sockets: how many purchases a second its actors, log and replication loop carry.
//!
//! In a closed loop each of C buyers opens a cart, holds five named seats of an 80-seat session and checks out, again
//! and again. Each answer submits the next command from where it arrives. Prints flows a second, the mean latency of a
//! flow and processor time a flow, with fsync and without. With `--features allocations` it also prints how often
//! memory is allocated.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use boxoffice_bench::{Alone, euros, id, processor_ns};
use boxoffice_core::{
    command::{CartCommand, Command, Expect, NewSession, Payment, VenueCommand, VenueDetails, Want, WantedLine},
    id::{CartToken, Entity, Request, RequestHash},
    layout::{Labels, Layout, Row, Run},
    seat::{Seat, SeatSet},
    time::Timestamp,
};
use boxoffice_node::{
    api::{self, ReplySink, ReplyTo},
    node::NodeHandle,
};
use boxoffice_storage::fsync::Fsync;
use clap::Parser;

const ROWS: u16 = 5;
const ROW_SEATS: u16 = 16;
/// Flows that one session of 80 seats serves: three in each row, five seats each.
const FLOWS_A_SESSION: u64 = 15;
const SESSIONS: u64 = 40_000;

fn set_up(node: &Alone) {
    let run = |_| Run {
        gap: 0,
        count: ROW_SEATS,
        labels: Labels::Numbers { first: 1, step: 1 },
        category: id("standard"),
        accessible: false,
        points: Vec::new(),
    };
    let rows =
        (0..ROWS).map(|row| Row { label: format!("{row}").into(), section: None, runs: vec![run(row)] }).collect();
    let layout = Arc::new(Layout::new(rows, None).expect("a good layout"));
    let venue = id("v");
    let details = VenueDetails {
        name: "V".into(),
        city: "C".into(),
        position: None,
        comments: "".into(),
        zone: None,
        address: "".into(),
    };
    node.must(Command::Venue(venue.clone(), VenueCommand::Put(details)), 1);
    let hall = VenueCommand::PutHall { hall: id("h"), name: "H".into(), comments: "".into(), layout };
    node.must(Command::Venue(venue, hall), 2);
}

fn create_sessions(node: &Alone, round: u64) {
    node.all((0..SESSIONS).map(|session| {
        let start = (round * SESSIONS + session) * 1_000;
        let new = NewSession {
            id: id(&format!("s{round}-{session}")),
            hall: id("h"),
            title: id("t"),
            starts_at: Timestamp(4_000_000_000_000 + start),
            ends_at: Timestamp(4_000_000_001_000 + start),
            prices: vec![(id("standard"), euros(1_000))],
            extras: Default::default(),
        };
        (Command::Venue(id("v"), VenueCommand::CreateSession(new)), 1_000 + start)
    }));
}

/// All buyers of a round. A buyer's number is the tag of its requests.
struct Buyers {
    node: NodeHandle,
    round: u64,
    next: AtomicU64,
    until: Instant,
    began: Instant,
    flows: AtomicU64,
    latency_us: AtomicU64,
    buyers: Vec<Buyer>,
    ended: mpsc::SyncSender<()>,
}

/// Where a buyer is in its flow.
#[derive(Default)]
struct Buyer {
    flow: AtomicU64,
    step: AtomicU64,
    started_us: AtomicU64,
}

impl Buyers {
    fn begin(self: &Arc<Self>, tag: u64) {
        let flow = self.next.fetch_add(1, Ordering::Relaxed);
        if Instant::now() >= self.until || flow >= SESSIONS * FLOWS_A_SESSION {
            let _ = self.ended.send(());
            return;
        }
        let buyer = &self.buyers[tag as usize];
        buyer.flow.store(flow, Ordering::Relaxed);
        buyer.step.store(0, Ordering::Relaxed);
        buyer.started_us.store(self.began.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.submit(tag, flow, 0);
    }

    fn submit(self: &Arc<Self>, tag: u64, flow: u64, step: u64) {
        // Neighbouring flows go to different sessions, as buyers do.
        let (session, place) = (flow % SESSIONS, flow / SESSIONS);
        let session = Entity::Session(id(&format!("s{}-{session}", self.round)));
        let cart = CartToken::beside(&session, (u128::from(self.round) << 64) | u128::from(flow)).cart();
        let command = match step {
            0 => CartCommand::Open { customer: None, ttl_ms: None, guest: false },
            1 => {
                let (row, seat) = ((place / 3) as u16, (place % 3) as u16 * 5);
                let seats = SeatSet::new((0..5).map(|at| Seat { row, seat: seat + at })).expect("five seats");
                let want = Want::seats(seats, false);
                let lines = vec![WantedLine::new(session, want)];
                CartCommand::Hold { lines, customer: None, guest: false, holder: None, attributes: Vec::new() }
            }
            _ => CartCommand::Checkout {
                payment: Payment::Recorded { method: "card".into(), transaction_id: "t".into() },
                customer: None,
                shipping: None,
                expect: Expect::default(),
                holder: None,
            },
        };
        let request = Request { id: RequestHash(step), body: 0 };
        self.node.submit(
            Command::Cart(cart, command),
            Some(request),
            ReplyTo::new(Arc::new(Sink(Arc::clone(self))), tag),
        );
    }
}

struct Sink(Arc<Buyers>);

impl ReplySink for Sink {
    fn answer(&self, tag: u64, result: api::Result) {
        let buyers = &self.0;
        assert!(matches!(result, Ok(Ok(_))), "flow failed: {result:?}");
        let buyer = &buyers.buyers[tag as usize];
        let step = buyer.step.fetch_add(1, Ordering::Relaxed) + 1;
        if step == 3 {
            let now_us = buyers.began.elapsed().as_micros() as u64;
            buyers.latency_us.fetch_add(now_us - buyer.started_us.load(Ordering::Relaxed), Ordering::Relaxed);
            buyers.flows.fetch_add(1, Ordering::Relaxed);
            buyers.begin(tag);
        } else {
            buyers.submit(tag, buyer.flow.load(Ordering::Relaxed), step);
        }
    }
}

/// Runs a round. Returns purchases, purchases a second, and the mean time of one in milliseconds.
fn round(node: &Alone, round: u64, clients: u64, span: Duration) -> (u64, f64, f64) {
    let (ended, all_ended) = mpsc::sync_channel(clients as usize);
    let began = Instant::now();
    let buyers = Arc::new(Buyers {
        node: node.handle().clone(),
        round,
        next: AtomicU64::new(0),
        until: began + span,
        began,
        flows: AtomicU64::new(0),
        latency_us: AtomicU64::new(0),
        buyers: (0..clients).map(|_| Buyer::default()).collect(),
        ended,
    });
    (0..clients).for_each(|tag| buyers.begin(tag));
    (0..clients).for_each(|_| all_ended.recv().expect("every buyer ends"));
    let flows = buyers.flows.load(Ordering::Relaxed);
    let mean_ms = buyers.latency_us.load(Ordering::Relaxed) as f64 / flows.max(1) as f64 / 1_000.0;
    (flows, flows as f64 / began.elapsed().as_secs_f64(), mean_ms)
}

/// Threads free memory that other threads allocated. With the system's allocator they would wait for each other.
#[cfg(not(feature = "allocations"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The system's allocator with counters.
#[cfg(feature = "allocations")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// Allocations so far, and their bytes. Zeros if they are not counted.
fn allocated() -> [u64; 2] {
    #[cfg(feature = "allocations")]
    {
        let stats = stats_alloc::INSTRUMENTED_SYSTEM.stats();
        [stats.allocations + stats.reallocations, stats.bytes_allocated].map(|count| count as u64)
    }
    #[cfg(not(feature = "allocations"))]
    [0, 0]
}

/// Purchases of closed loops in one process, without sockets.
#[derive(Parser)]
struct Options {
    /// How long each row takes.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    #[arg(long, value_delimiter = ',', default_value = "1,64,256,1024")]
    clients: Vec<u64>,
    /// always, never.
    #[arg(long, value_delimiter = ',', default_value = "always,never")]
    fsync: Vec<String>,
    /// Threads that replicate.
    #[arg(long, default_value_t = 1)]
    replicating: usize,
}

fn main() {
    let options = Options::parse();
    println!(
        "{:>8} {:>8} {:>9} {:>9} {:>12} {:>12} {:>9}  µs by thread",
        "fsync", "clients", "flows/s", "mean ms", "allocations", "bytes", "CPU µs"
    );
    for fsync in [Fsync::Always, Fsync::Never] {
        if !options.fsync.iter().any(|name| name == fsync.as_str()) {
            continue;
        }
        let dir = tempfile::tempdir_in(".").expect("a temporary directory on this disk");
        let node = Alone::replicating(&dir.path().join("data"), fsync, options.replicating);
        set_up(&node);
        for (number, &clients) in options.clients.iter().enumerate() {
            create_sessions(&node, number as u64);
            let (before, allocated_before) = (processor_ns("self"), allocated());
            let (flows, flows_a_second, mean_ms) =
                round(&node, number as u64, clients, Duration::from_secs(options.seconds));
            let allocated_after = allocated();
            let each = |total: u64| total as f64 / flows.max(1) as f64;
            let [allocations, bytes] = [0, 1].map(|at| each(allocated_after[at] - allocated_before[at]));
            let mut all_us = 0.0;
            let mut by_thread = String::new();
            for (name, ns) in processor_ns("self") {
                let us = each(ns.saturating_sub(before.get(&name).copied().unwrap_or(0))) / 1_000.0;
                all_us += us;
                if us >= 0.5 {
                    by_thread.push_str(&format!(" {name} {us:.1}"));
                }
            }
            println!(
                "{:>8} {clients:>8} {flows_a_second:>9.0} {mean_ms:>9.3} {allocations:>12.1} {bytes:>12.0} {all_us:>9.1} {by_thread}",
                fsync.as_str()
            );
        }
        let audit = node.handle().audit();
        assert!(audit.violations.is_empty(), "{:?}", audit.violations);
        node.stop();
    }
}

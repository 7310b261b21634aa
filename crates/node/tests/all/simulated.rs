//! A node without threads: everything runs on one runtime with simulated time. Events happen in one order, a slow disk costs
//! simulated time, and dropping the node is a crash that ends all its tasks.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use boxoffice_core::{
    answer::Answer,
    command::{
        CartCommand, Command, Expect, HoldPolicy, Limits, Payment, ProductCommand, ProductDetails, Want, WantedLine,
    },
    id::{CartId, CartToken, Entity, Id, Request, RequestHash},
    money::{Currency, Money},
    refusal::Refusal,
};
use boxoffice_env::{Clock, Disk, DiskFile, DiskLock, MemoryDisk, MemoryStores, OpenMode, Rng, World};
#[cfg(debug_assertions)]
use boxoffice_node::contain::planted;
use boxoffice_node::{
    admission::OverloadSettings,
    api::{self, Failure, ReplySink, ReplyTo, TIMEOUT_MS},
    config::{NodeConfig, ReplicationConfig},
    node::Node,
    tasks::Gate,
};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tracing_mutex::parkinglot::Mutex;

/// The initial time of the simulated clock, in 2026.
const BEGIN_MS: u64 = 1_790_000_000_000;

/// Data shards, without the directory.
const SHARDS: u16 = 2;

/// The cart with this number, in any shard.
fn cart_id(number: u64) -> CartId {
    // An odd factor spreads consecutive numbers over the hash prefixes.
    CartToken((u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).cart()
}

struct SimulatedClock {
    /// The start of the machine, and the start of this process.
    begun: Instant,
    started: Instant,
    /// The lead of its wall clock.
    ahead_ms: Arc<AtomicI64>,
}

impl Clock for SimulatedClock {
    fn wall_ms(&self) -> u64 {
        (BEGIN_MS + self.begun.elapsed().as_millis() as u64)
            .saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed))
    }

    fn monotonic_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// A generator with a fixed seed.
struct Counting(Mutex<u64>);

impl Rng for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock();
        for byte in bytes {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (*state >> 56) as u8;
        }
    }
}

/// A disk that delays every change by this long.
struct SlowDisk {
    disk: MemoryDisk,
    change: Duration,
    paid: Mutex<u64>,
}

impl Disk for SlowDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.disk.lock(path)
    }

    fn take_delay(&self) -> Duration {
        let now = self.disk.changes();
        let changes = now - std::mem::replace(&mut *self.paid.lock(), now);
        self.change * u32::try_from(changes).expect("few changes")
    }
}

/// The state that outlives a crash.
struct Machine {
    disk: MemoryDisk,
    stores: MemoryStores,
    rng: Arc<Counting>,
    begun: Instant,
    ahead_ms: Arc<AtomicI64>,
}

struct Answers(mpsc::UnboundedSender<api::Result>);

impl ReplySink for Answers {
    fn answer(&self, _: u64, result: api::Result) {
        // The caller may have given up.
        let _ = self.0.send(result);
    }
}

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

impl Machine {
    fn new() -> Machine {
        Machine {
            disk: MemoryDisk::new(),
            stores: MemoryStores::new(),
            rng: Arc::new(Counting(Mutex::new(1))),
            begun: Instant::now(),
            ahead_ms: Arc::default(),
        }
    }

    fn clock(&self) -> SimulatedClock {
        SimulatedClock { begun: self.begun, started: Instant::now(), ahead_ms: Arc::clone(&self.ahead_ms) }
    }

    fn wall_ms(&self) -> u64 {
        self.clock().wall_ms()
    }

    fn start(&self, change: Duration, gate: Gate) -> Node {
        self.start_with(change, gate, OverloadSettings::default())
    }

    fn start_with(&self, change: Duration, gate: Gate, overload: OverloadSettings) -> Node {
        let config = NodeConfig {
            overload,
            replication: ReplicationConfig {
                data_dir: PathBuf::from("/data"),
                shards: SHARDS,
                log_segment_bytes: 256 << 10,
                snapshot_entries: 50,
                ..ReplicationConfig::default()
            },
            ..NodeConfig::default()
        };
        let paid = Mutex::new(self.disk.changes());
        let world = World {
            clock: Arc::new(self.clock()),
            rng: Arc::<Counting>::clone(&self.rng),
            disk: Arc::new(SlowDisk { disk: self.disk.clone(), change, paid }),
            stores: Arc::new(self.stores.clone()),
            ..World::standalone()
        };
        Node::start_as_tasks(config, world, &Handle::current(), gate).expect("the node starts")
    }
}

async fn ready(node: &Node) {
    while node.handle().ready().is_err() {
        sleep(Duration::from_millis(10)).await;
    }
}

fn submit(node: &Node, command: Command, request: u64) -> mpsc::UnboundedReceiver<api::Result> {
    submit_within(node, command, request, TIMEOUT_MS)
}

fn submit_within(node: &Node, command: Command, request: u64, left_ms: u64) -> mpsc::UnboundedReceiver<api::Result> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let request = Request { id: RequestHash(request), body: 0 };
    node.handle().submit(command, Some(request), ReplyTo::new(Arc::new(Answers(sender)), 0).with_timeout(left_ms));
    receiver
}

async fn answer(mut receiver: mpsc::UnboundedReceiver<api::Result>) -> api::Result {
    timeout(Duration::from_secs(60), receiver.recv()).await.expect("in time").expect("an answer")
}

async fn must(node: &Node, command: Command, request: u64) {
    let result = answer(submit(node, command, request)).await;
    assert!(matches!(result, Ok(Ok(_))), "{result:?}");
}

fn put() -> Command {
    put_called("poster", 1_000)
}

fn put_called(name: &str, stock: u64) -> Command {
    put_held(name, stock, HoldPolicy::AtAdd)
}

fn put_held(name: &str, stock: u64, hold: HoldPolicy) -> Command {
    let details = ProductDetails {
        name: "A poster".into(),
        properties: Vec::new(),
        blob: Vec::new(),
        price: Money { amount: 500, currency: Currency::new("EUR").expect("a currency") },
        stock,
        hold,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    };
    Command::Product(id(name), ProductCommand::Put(Box::new(details)))
}

fn hold(number: u64) -> Command {
    hold_of("poster", number)
}

fn hold_of(name: &str, number: u64) -> Command {
    let lines = vec![WantedLine::new(Entity::Product(id(name)), Want::Units { quantity: 1, now: true })];
    Command::Cart(
        cart_id(number),
        CartCommand::Hold { lines, customer: None, guest: false, holder: None, attributes: Vec::new() },
    )
}

fn pay(number: u64) -> Command {
    let payment = Payment::Recorded { method: "card".into(), transaction_id: "1".into() };
    let checkout =
        CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default(), holder: None };
    Command::Cart(cart_id(number), checkout)
}

/// Sells, loses power in the middle of a write, and resumes. Returns the observed events.
async fn story() -> Vec<String> {
    let machine = Machine::new();
    let (begin, mut seen, mut bought) = (Instant::now(), Vec::new(), 0);
    for life in 0..5 {
        let node = machine.start(Duration::from_millis(2), Gate::new());
        ready(&node).await;
        must(&node, put(), 1).await;
        for number in life * 100..life * 100 + 40 {
            must(&node, hold(number), 1).await;
            if number % 2 == 0 {
                must(&node, pay(number), 2).await;
                bought += 1;
            }
        }
        seen.push(format!("{} ms, {} changes", begin.elapsed().as_millis(), machine.disk.changes()));
        let audit = node.handle().audit();
        assert_eq!((audit.violations, audit.orders), (Vec::new(), bought));

        let waiting = submit(&node, hold(life * 100 + 99), 1);
        sleep(Duration::from_millis(1)).await;
        drop(node);
        let mut draw = life;
        machine.stores.power_cut(&mut || false);
        machine.disk.power_cut(&mut || {
            draw = draw.wrapping_mul(25_214_903_917).wrapping_add(11);
            draw >> 20 & 1 == 0
        });
        assert_eq!(answer(waiting).await, Err(Failure::Unknown));
        let changes = machine.disk.changes();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(machine.disk.changes(), changes, "no task of the node is left");
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_loses_nothing_and_runs_are_deterministic() {
    let first = story().await;
    assert_eq!(first, story().await);
    println!("{first:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_disk_is_waited_for_in_simulated_time() {
    let took = async |change| {
        let node = Machine::new().start(change, Gate::new());
        ready(&node).await;
        must(&node, put(), 1).await;
        let begin = Instant::now();
        must(&node, hold(1), 1).await;
        begin.elapsed()
    };
    assert!(took(Duration::ZERO).await < Duration::from_millis(10));
    // One entry, written and synced, because cart and product are in one shard.
    let slow = took(Duration::from_secs(1)).await;
    assert!(slow >= Duration::from_secs(2), "{slow:?}");
}

/// The cart with this number in the shard of this product.
fn cart_beside(name: &str, number: u64) -> CartId {
    CartToken::beside(&Entity::Product(id(name)), u128::from(number)).cart()
}

fn of_cart(cart: CartId, command: Command) -> Command {
    match command {
        Command::Cart(_, command) => Command::Cart(cart, command),
        other => other,
    }
}

/// A counter of the node's metrics.
fn counted(node: &Node, name: &str) -> u64 {
    let text = node.handle().metrics_text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.expect("the counter is told").parse().expect("a number")
}

/// A hold and a checkout in the shard of their product are one proposal each. One entry has the turns of both, and its answer has
/// its log position.
#[tokio::test(start_paused = true)]
async fn a_purchase_beside_its_product_is_two_proposals() {
    let node = Machine::new().start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put(), 1).await;
    let cart = cart_beside("poster", 1);
    let log = || ["boxoffice_entries_total", "boxoffice_turns_total"].map(|name| counted(&node, name));
    let before = log();
    for (request, command) in [(1, hold(1)), (2, pay(1))] {
        let answered = answer(submit(&node, of_cart(cart, command), request)).await;
        let at = answered.expect("in time").expect("granted").at;
        let entities: Vec<&Entity> = at.iter().map(|at| &at.entity).collect();
        assert_eq!(entities, [&Entity::Cart(cart), &Entity::Product(id("poster"))]);
        assert!(at[0].position > 0 && at[0].position == at[1].position, "{at:?}");
    }
    assert_eq!([log()[0] - before[0], log()[1] - before[1]], [2, 4], "two entries with two turns each");
    assert_eq!(counted(&node, "boxoffice_joint_turns_total"), 2);
    let audit = node.handle().audit();
    assert_eq!((audit.violations, audit.orders), (Vec::new(), 1));
}

/// The acknowledgement of a sale is written with the next proposal, without a pass of its own. Without a next proposal it is
/// written soon.
#[tokio::test(start_paused = true)]
async fn an_acknowledgement_waits_briefly_for_the_next_proposal() {
    let node = Machine::new().start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put(), 1).await;
    let shard = |cart: CartId| boxoffice_shard::ring::shard_of(Entity::Cart(cart).hash_prefix(), SHARDS);
    let product = boxoffice_shard::ring::shard_of(Entity::Product(id("poster")).hash_prefix(), SHARDS);
    let carts: Vec<CartId> = (1..).map(cart_id).filter(|cart| shard(*cart) != product).take(3).collect();
    let counters = || ["boxoffice_log_passes_total", "boxoffice_turns_total"].map(|name| counted(&node, name));
    let before = counters();
    for cart in &carts {
        must(&node, of_cart(*cart, hold(1)), 1).await;
        must(&node, of_cart(*cart, pay(1)), 2).await;
    }
    let after = counters();
    // The grant, the line, the order, the sale. The acknowledgement of the sale is not written yet.
    assert_eq!([after[0] - before[0], after[1] - before[1]], [12, 14]);
    sleep(Duration::from_millis(25)).await;
    let after = counters();
    assert_eq!([after[0] - before[0], after[1] - before[1]], [13, 15]);
}

/// Commands for one entity, of which some are decided where they come and some wait in its mailbox, are decided in the order in which
/// they come. A cart that asks an inventory for which commands wait does not overtake them.
#[tokio::test(start_paused = true)]
async fn nothing_overtakes_messages_that_wait() {
    let node = Machine::new().start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    for number in 1..=32 {
        let name = format!("print-{number}");
        must(&node, put_called(&name, 1_000), 1).await;
        let stocked: Vec<_> = (2..=9).map(|stock| submit(&node, put_called(&name, stock), stock)).collect();
        let of_none = submit(&node, put_called(&name, 0), 10);
        let hold = submit(&node, of_cart(cart_beside(&name, number), hold_of(&name, number)), 1);
        let mut versions = Vec::new();
        for stocked in stocked.into_iter().chain([of_none]) {
            versions.push(answer(stocked).await.expect("in time").expect("granted").at[0].version);
        }
        assert!(versions.is_sorted_by(|one, next| one < next), "{name}: {versions:?}");
        let refused = answer(hold).await;
        assert!(matches!(&refused, Ok(Err(Refusal::OutOfStock(_)))), "{name}: {refused:?}");
    }
}

/// Messages for a cart wait while another actor has its state, and are answered in order.
#[tokio::test(start_paused = true)]
async fn messages_for_a_lent_cart_wait() {
    let node = Machine::new().start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put_called("brochure", 3), 1).await;
    let cart = cart_beside("brochure", 1);
    let command = |command| of_cart(cart, command);
    let waiting = [
        submit(&node, command(hold_of("brochure", 1)), 1),
        submit(&node, command(hold_of("brochure", 1)), 1),
        submit(&node, Command::Cart(cart, CartCommand::Get), 9),
        submit(&node, command(hold_of("brochure", 1)), 2),
        submit(&node, command(pay(1)), 3),
        submit(&node, command(pay(1)), 3),
    ];
    for waiting in waiting {
        let answered = answer(waiting).await;
        assert!(matches!(answered, Ok(Ok(_))), "{answered:?}");
    }
    // One unit is left.
    must(&node, of_cart(cart_beside("brochure", 2), hold_of("brochure", 2)), 1).await;
    let none = answer(submit(&node, of_cart(cart_beside("brochure", 3), hold_of("brochure", 3)), 1)).await;
    assert!(matches!(&none, Ok(Err(Refusal::OutOfStock(_)))), "{none:?}");
    let audit = node.handle().audit();
    assert_eq!((audit.violations, audit.orders), (Vec::new(), 1));
}

/// A checkout that begins asks its product, which is checked late and refuses. The begin is proposed all the same. The checkout
/// is given up after it, and a restart replays the log.
#[tokio::test(start_paused = true)]
async fn a_checkout_that_is_refused_its_hold_has_begun() {
    let machine = Machine::new();
    let node = machine.start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put_held("fan", 1, HoldPolicy::AtCheckout), 1).await;
    let wants = |number| {
        let want = Want::Units { quantity: 1, now: false };
        let lines = vec![WantedLine::new(Entity::Product(id("fan")), want)];
        let cart = cart_beside("fan", number);
        (
            cart,
            Command::Cart(
                cart,
                CartCommand::Hold { lines, customer: None, guest: false, holder: None, attributes: Vec::new() },
            ),
        )
    };
    let carts = [1, 2].map(wants);
    for (_, hold) in &carts {
        must(&node, hold.clone(), 1).await;
    }
    must(&node, of_cart(carts[0].0, pay(1)), 2).await;
    let refused = answer(submit(&node, of_cart(carts[1].0, pay(1)), 2)).await;
    assert!(matches!(&refused, Ok(Err(_))), "{refused:?}");
    let audit = node.handle().audit();
    assert_eq!((audit.violations, audit.orders), (Vec::new(), 1));
    node.stop(1_000).await.expect("an orderly end");
    sleep(Duration::from_millis(1)).await;
    let node = machine.start(Duration::ZERO, Gate::new());
    ready(&node).await;
    let audit = node.handle().audit();
    assert_eq!((audit.violations, audit.orders), (Vec::new(), 1));
}

/// If the cart panics while it decides the inventory's reply, the inventory's part of the joint turn is discarded as well.
#[cfg(debug_assertions)]
async fn a_panic_in_the_carts_half_of_a_joint_turn_leaves_nothing_held() {
    let node = Machine::new().start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put_called("leaflet", 1), 1).await;
    let cart = cart_beside("leaflet", 1);
    planted::plant(&format!("{}:reply", Entity::Cart(cart)));
    let failed = answer(submit(&node, of_cart(cart, hold_of("leaflet", 1)), 1)).await;
    assert!(failed.is_err(), "{failed:?}");
    planted::plant("");
    sleep(Duration::from_secs(5)).await;
    must(&node, of_cart(cart, hold_of("leaflet", 1)), 2).await;
    must(&node, of_cart(cart, pay(1)), 3).await;
    let audit = node.handle().audit();
    assert_eq!((audit.violations, audit.orders), (Vec::new(), 1));
}

#[tokio::test(start_paused = true)]
async fn a_node_behind_a_shut_gate_pauses_and_resumes() {
    let (machine, gate) = (Machine::new(), Gate::new());
    let node = machine.start(Duration::ZERO, gate.clone());
    ready(&node).await;
    must(&node, put(), 1).await;
    gate.shut();
    let mut waiting = submit(&node, hold(1), 1);
    let changes = machine.disk.changes();
    assert!(timeout(Duration::from_secs(60), waiting.recv()).await.is_err());
    assert_eq!(machine.disk.changes(), changes);
    gate.open();
    assert!(matches!(answer(waiting).await, Ok(Ok(_))));
    must(&node, pay(1), 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_orderly_stop_releases_the_data_directory() {
    let machine = Machine::new();
    let node = machine.start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put(), 1).await;
    node.stop(1_000).await.expect("an orderly end");
    // The lock on the data directory ends with the last actor.
    sleep(Duration::from_millis(1)).await;
    let node = machine.start(Duration::ZERO, Gate::new());
    ready(&node).await;
    must(&node, hold(1), 1).await;
}

const HOUR_MS: i64 = 3_600_000;
const LIFE_MS: u64 = 1_800_000;

/// A cart's deadline or an order's date, as the node reports it.
async fn reported_ms(node: &Node, command: Command, request: u64) -> u64 {
    match answer(submit(node, command, request)).await {
        Ok(Ok(answered)) => match answered.answer {
            Answer::Held(held) => held.deadline.0,
            Answer::Cart(view) => view.deadline.0,
            Answer::Order { order, .. } => order.at.0,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn get(number: u64) -> Command {
    Command::Cart(cart_id(number), CartCommand::Get)
}

fn about(reported_ms: u64, expected_ms: u64) {
    assert!(reported_ms.abs_diff(expected_ms) <= 200, "the node reports {reported_ms} instead of {expected_ms}");
}

#[tokio::test(start_paused = true)]
async fn a_changed_clock_and_a_stop_are_distinguished() {
    let machine = Machine::new();
    let begin = || async {
        let node = machine.start(Duration::from_millis(2), Gate::new());
        ready(&node).await;
        node
    };
    let mut node = begin().await;
    must(&node, put(), 1).await;
    for (round, set_ms) in (1..).zip([0, HOUR_MS, -HOUR_MS, 90_000]) {
        let first = round * 10;
        let before_ms = reported_ms(&node, hold(first), 1).await;
        about(before_ms, machine.wall_ms() + LIFE_MS);

        // The clock is changed while the node runs. Lifetimes stay, and reported times follow the clock.
        let was_ms = machine.ahead_ms.swap(set_ms, Ordering::Relaxed);
        sleep(Duration::from_secs(1)).await;
        about(reported_ms(&node, get(first), 2).await, before_ms.saturating_add_signed(set_ms - was_ms));
        about(reported_ms(&node, hold(first + 1), 1).await, machine.wall_ms() + LIFE_MS);
        about(reported_ms(&node, pay(first + 1), 2).await, machine.wall_ms());

        // A stop of 90 s does not move deadlines.
        let before_ms = reported_ms(&node, get(first), 3).await;
        let date_ms = reported_ms(&node, pay(first + 1), 2).await;
        drop(node);
        sleep(Duration::from_secs(90)).await;
        node = begin().await;
        about(reported_ms(&node, hold(first + 2), 1).await, machine.wall_ms() + LIFE_MS);
        assert_eq!(reported_ms(&node, get(first), 4).await, before_ms);
        assert_eq!(reported_ms(&node, pay(first + 1), 2).await, date_ms, "a date does not change");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_while_the_node_was_down_ends_no_hold_early() {
    let machine = Machine::new();
    let node = machine.start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put(), 1).await;
    must(&node, hold(1), 1).await;
    drop(node);
    machine.ahead_ms.store(-HOUR_MS, Ordering::Relaxed);
    sleep(Duration::from_secs(90)).await;
    let node = machine.start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    let reported_ms = reported_ms(&node, get(1), 2).await;
    let left = machine.wall_ms() + LIFE_MS - 10_000..=machine.wall_ms() + LIFE_MS;
    assert!(left.contains(&reported_ms), "{reported_ms} of {left:?}");
}

/// The last unit is held, but the hold is not durable yet, when a decision about the product panics. The next request is answered
/// from a state that has the hold.
#[cfg(debug_assertions)]
async fn a_restart_after_a_panic_has_all_proposals() {
    let node = Machine::new().start(Duration::from_millis(100), Gate::new());
    ready(&node).await;
    must(&node, put_called("flyer", 1), 1).await;
    let first = submit(&node, hold_of("flyer", 1), 1);
    sleep(Duration::from_millis(10)).await;
    planted::plant("product/flyer:command");
    let begin = Instant::now();
    assert_eq!(answer(submit(&node, put_called("flyer", 1), 2)).await, Err(Failure::Internal));
    assert_eq!(begin.elapsed(), Duration::ZERO, "the hold is still under way");
    let second = submit(&node, hold_of("flyer", 2), 1);
    planted::plant("");
    assert!(matches!(answer(first).await, Ok(Ok(_))));
    let refused = answer(second).await;
    assert!(matches!(&refused, Ok(Err(Refusal::OutOfStock(_)))), "the last one is granted twice: {refused:?}");
    assert_eq!(node.handle().audit().violations, [""; 0]);
    assert!(node.handle().metrics_text().contains("boxoffice_panics_contained_total 1\n"));
    must(&node, put_called("flyer", 2), 3).await;
    must(&node, hold_of("flyer", 3), 1).await;
}

/// An entity that panics again on its own cools down, for longer each time, and refuses at once. It resumes once it no longer
/// panics.
#[cfg(debug_assertions)]
async fn an_entity_that_panics_again_by_itself_cools_down() {
    let node = Machine::new().start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put_called("ghost", 1), 1).await;
    planted::plant("product/ghost:command product/ghost:wake");
    assert_eq!(answer(submit(&node, put_called("ghost", 2), 2)).await, Err(Failure::Internal));
    planted::plant("product/ghost:wake");
    let begin = Instant::now();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(answer(submit(&node, put_called("ghost", 2), 3)).await, Err(Failure::Internal));
    // The command, two wakes at once, and those after cooldowns of 1, 2, 4 and 8 s.
    assert!(node.handle().metrics_text().contains("boxoffice_panics_contained_total 7\n"));
    planted::plant("");
    sleep(Duration::from_secs(12)).await;
    must(&node, put_called("ghost", 2), 4).await;
    println!("recovered after {:?}", begin.elapsed());
}

/// In sequence, because planted panics are process-wide.
#[tokio::test(start_paused = true)]
#[cfg(debug_assertions)]
async fn a_panic_of_a_decision_is_contained() {
    a_restart_after_a_panic_has_all_proposals().await;
    an_entity_that_panics_again_by_itself_cools_down().await;
    a_panic_in_the_carts_half_of_a_joint_turn_leaves_nothing_held().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_for_a_caller_that_has_gone() {
    let node = Machine::new().start(Duration::from_millis(2), Gate::new());
    ready(&node).await;
    must(&node, put(), 1).await;
    let late = answer(submit_within(&node, hold(1), 1, 0)).await;
    assert_eq!(late, Err(Failure::Busy(0)), "the command was not executed");
    let got = answer(submit(&node, Command::Cart(cart_id(1), CartCommand::Get), 2)).await;
    assert!(matches!(got, Ok(Err(Refusal::NotFound(_)))), "the cart was never opened: {got:?}");
    assert!(node.handle().metrics_text().contains("boxoffice_too_late_total 1"));
}

#[tokio::test(start_paused = true)]
async fn admitted_requests_and_releases_are_never_shed() {
    let overload = OverloadSettings { under_way_max: 1, ..OverloadSettings::default() };
    let node = Machine::new().start_with(Duration::from_millis(2), Gate::new(), overload);
    ready(&node).await;
    must(&node, put(), 1).await;
    must(&node, hold(1), 1).await;
    let first = submit(&node, hold(2), 1);
    let is_shed = |result: &api::Result| matches!(result, Err(Failure::Busy(1..)));
    let newcomer = answer(submit(&node, hold(3), 1)).await;
    assert!(is_shed(&newcomer), "one command is under way: {newcomer:?}");
    let under_way = answer(submit(&node, hold(2), 1)).await;
    assert!(!is_shed(&under_way), "its first attempt was admitted: {under_way:?}");
    assert!(matches!(answer(first).await, Ok(Ok(_))));

    let first = submit(&node, hold(4), 1);
    let granted = answer(submit(&node, hold(1), 1)).await;
    assert!(matches!(granted, Ok(Ok(_))), "the first attempt was granted: {granted:?}");
    let release = CartCommand::Release { line: 1, seats: None };
    let released = answer(submit(&node, Command::Cart(cart_id(1), release), 2)).await;
    assert!(matches!(released, Ok(Ok(_))), "{released:?}");
    assert!(matches!(answer(first).await, Ok(Ok(_))));
    let text = node.handle().metrics_text();
    assert!(text.contains("boxoffice_shed_total{class=\"begin\"} 1"), "{text}");
}

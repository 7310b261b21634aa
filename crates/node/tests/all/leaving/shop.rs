//! A theatre on a real node, and its buyers.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use boxoffice_core::{
    answer::{Answer, Order},
    command::{
        CartCommand, Command, Expect, NewSession, Payment, SessionCommand, VenueCommand, VenueDetails, Want, WantedLine,
    },
    id::{CartId, CartToken, Entity, Id, Request, RequestHash},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    seat::{Seat, SeatSet},
    time::Timestamp,
};
use boxoffice_env::{FjallStores, MemoryDisk, MemoryStores, StallingStores, World};
use boxoffice_node::{
    api::{self, Failure, ReplySink, ReplyTo},
    audit::Depth,
    config::{NodeConfig, ReplicationConfig},
    error::NodeError,
    node::{Node, NodeHandle, Runtimes},
};
use boxoffice_replication::error::ReplicationError;
use boxoffice_storage::identity::IdentityError;
use tokio::runtime::Runtime;

pub(crate) const ROWS: u16 = 50;
pub(crate) const ROW_SEATS: u16 = 50;
/// Concurrent buyers, each with one command under way.
const BUYERS: usize = 64;
/// Time limit of every wait but the next, with a wide margin.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of a wait for archives, between which the history writer rests, on a busy machine for ten seconds.
const ARCHIVES_PATIENCE: Duration = Duration::from_secs(300);

/// The cart with this number, in any shard.
fn cart_id(number: u64) -> CartId {
    // An odd factor spreads consecutive numbers over the hash prefixes.
    CartToken((u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).cart()
}

pub(crate) fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

pub(crate) fn session(number: u64) -> Entity {
    Entity::Session(id(&format!("s{number}")))
}

/// The entity of buyer `number`'s cart.
pub(crate) fn cart(number: u64) -> Entity {
    Entity::Cart(cart_id(number))
}

pub(crate) fn eventually(what: &str, is: impl FnMut() -> bool) {
    eventually_within(PATIENCE, what, is);
}

fn eventually_within(limit: Duration, what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + limit;
    while !is() {
        assert!(Instant::now() < until, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A machine: the state that outlives a node's process.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) disk: MemoryDisk,
    pub(crate) stores: MemoryStores,
    /// The stores as the node reaches them.
    pub(crate) stalls: StallingStores,
    pub(crate) config: NodeConfig,
    real: bool,
}

impl Machine {
    /// With everything in memory, small log segments and frequent snapshots.
    pub(crate) fn in_memory() -> Machine {
        let config = NodeConfig {
            replication: ReplicationConfig {
                data_dir: PathBuf::from("/data"),
                shards: 2,
                log_segment_bytes: 256 << 10,
                snapshot_entries: 200,
                ..ReplicationConfig::default()
            },
            ..NodeConfig::default()
        };
        let stores = MemoryStores::new();
        let stalls = StallingStores::new(Arc::new(stores.clone()));
        Machine { disk: MemoryDisk::new(), stores, stalls, config, real: false }
    }

    /// On this machine's disk.
    pub(crate) fn real(dir: &Path) -> Machine {
        let stalls = StallingStores::new(Arc::new(FjallStores));
        let mut machine = Machine { real: true, stalls, ..Machine::in_memory() };
        machine.config.replication.data_dir = dir.join("data");
        machine
    }

    pub(crate) fn world(&self) -> World {
        match self.real {
            true => World { stores: Arc::new(self.stalls.clone()), ..World::standalone() },
            false => World {
                disk: Arc::new(self.disk.clone()),
                stores: Arc::new(self.stalls.clone()),
                ..World::standalone()
            },
        }
    }

    pub(crate) fn try_start(&self) -> Result<Shop, NodeError> {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).enable_all().build().expect("a runtime")
        };
        let (selling, watching) = (runtime(), runtime());
        let runtimes = Runtimes { selling: selling.handle().clone(), watching: watching.handle().clone() };
        // A thread of the previous node may not have ended yet.
        let until = Instant::now() + PATIENCE;
        let node = loop {
            match Node::start(self.config.clone(), self.world(), &runtimes) {
                Err(NodeError::Replication(ReplicationError::Identity(IdentityError::InUse { .. })))
                    if Instant::now() < until =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                started => break started?,
            }
        };
        Ok(Shop { node, selling, _watching: watching })
    }

    pub(crate) fn start(&self) -> Shop {
        let shop = self.try_start().expect("the node starts");
        eventually("every shard has a leader", || shop.handle().ready().is_ok());
        shop
    }
}

/// A running node.
pub(crate) struct Shop {
    node: Node,
    selling: Runtime,
    _watching: Runtime,
}

/// Takes answers by their number.
struct Answers(mpsc::Sender<(u64, api::Result)>);

impl ReplySink for Answers {
    fn answer(&self, tag: u64, result: api::Result) {
        // The caller may have given up.
        let _ = self.0.send((tag, result));
    }
}

impl Shop {
    pub(crate) fn handle(&self) -> &NodeHandle {
        self.node.handle()
    }

    /// Stops in good order. Then no task of the node is left.
    pub(crate) fn stop(self) {
        let Shop { node, selling, _watching } = self;
        selling.block_on(node.stop(10_000)).expect("an orderly stop");
    }

    /// Drops a node whose machine has lost power.
    pub(crate) fn drop_after_power_cut(self) {
        let Shop { node, selling, _watching } = self;
        // The stop fails, because its files are from before the power cut.
        let _ = selling.block_on(node.stop(0));
    }

    /// Submits a command of a cart, and does not wait for the answer.
    pub(crate) fn submit(&self, number: u64, command: CartCommand) -> mpsc::Receiver<(u64, api::Result)> {
        let (sender, receiver) = mpsc::channel();
        let Entity::Cart(id) = cart(number) else { panic!("a cart") };
        self.handle().submit(Command::Cart(id, command), None, ReplyTo::new(Arc::new(Answers(sender)), 0));
        receiver
    }

    /// Submits a command, again while the node is too busy for it.
    pub(crate) fn ask(&self, command: Command, request: Option<u64>) -> api::Result {
        let request = request.map(|request| Request { id: RequestHash(request), body: 0 });
        loop {
            let (sender, receiver) = mpsc::channel();
            self.handle().submit(command.clone(), request, ReplyTo::new(Arc::new(Answers(sender)), 0));
            match receiver.recv_timeout(PATIENCE).expect("every command is answered").1 {
                Err(Failure::Busy(retry_after_ms)) => {
                    std::thread::sleep(Duration::from_millis(retry_after_ms.into()));
                }
                result => return result,
            }
        }
    }

    fn must(&self, command: Command, request: u64) {
        let result = self.ask(command, Some(request));
        assert!(matches!(result, Ok(Ok(_))), "{result:?}");
    }

    /// A hall of 50 rows of 50 seats, and this number of sessions in it.
    pub(crate) fn open(&self, sessions: u64) {
        let run = Run {
            gap: 0,
            count: ROW_SEATS,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: id("standard"),
            accessible: false,
            points: Vec::new(),
        };
        let rows = (0..ROWS).map(|row| Row { label: format!("{row}").into(), section: None, runs: vec![run.clone()] });
        let layout = Arc::new(Layout::new(rows.collect(), None).expect("a good layout"));
        let details = VenueDetails {
            name: "V".into(),
            city: "C".into(),
            position: None,
            comments: "".into(),
            zone: None,
            address: "".into(),
        };
        self.must(Command::Venue(id("v"), VenueCommand::Put(details)), 1);
        self.must(
            Command::Venue(
                id("v"),
                VenueCommand::PutHall { hall: id("h"), name: "H".into(), comments: "".into(), layout },
            ),
            2,
        );
        let currency = Currency::new("EUR").expect("a currency");
        for number in 0..sessions {
            let begin = 4_000_000_000_000 + number * 1_000;
            let new = NewSession {
                id: id(&format!("s{number}")),
                hall: id("h"),
                title: id("t"),
                starts_at: Timestamp(begin),
                ends_at: Timestamp(begin + 1_000),
                prices: vec![(id("standard"), Money { amount: 1_000, currency })],
                extras: Default::default(),
            };
            self.must(Command::Venue(id("v"), VenueCommand::CreateSession(new)), 10 + number);
        }
    }

    pub(crate) fn cart(&self, number: u64, command: CartCommand, request: Option<u64>) -> api::Result {
        let Entity::Cart(id) = cart(number) else { panic!("a cart") };
        self.ask(Command::Cart(id, command), request)
    }

    /// Buyer `number` takes its own seat and pays.
    pub(crate) fn buy(&self, number: u64) -> Result<Arc<Order>, Failure> {
        let held = self.cart(number, hold(number), Some(1))?;
        assert!(held.is_ok(), "{held:?}");
        self.checkout(number)
    }

    pub(crate) fn checkout(&self, number: u64) -> Result<Arc<Order>, Failure> {
        match self.cart(number, pay(), Some(2))?.map(|answered| answered.answer) {
            Ok(Answer::Order { order, .. }) => Ok(order),
            other => panic!("buyer {number} has no order: {other:?}"),
        }
    }

    /// The order of a cart, as a caller with its id gets it.
    pub(crate) fn order(&self, number: u64) -> Arc<Order> {
        match self.cart(number, CartCommand::Order, None) {
            Ok(Ok(answered)) => match answered.answer {
                Answer::Order { order, .. } => order,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Waits until more than this many segments of the log are archived. Calls `seen` from time to time.
    pub(crate) fn archives(&self, more_than: u64, seen: &mut dyn FnMut(&NodeHandle)) {
        eventually_within(ARCHIVES_PATIENCE, "segments of the log are archived", || {
            seen(self.handle());
            self.metric(|metrics| &metrics.archived) > more_than
        });
    }

    /// These buyers buy, many at a time. Returns the numbers of acknowledged purchases. Ends early if the node fails. Calls
    /// `seen` from time to time.
    pub(crate) fn rush(&self, buyers: std::ops::Range<u64>, seen: &mut dyn FnMut(&NodeHandle)) -> Vec<u64> {
        let (sender, receiver) = mpsc::channel();
        let sink = Arc::new(Answers(sender));
        let submit = |number: u64, step: u64| {
            let Entity::Cart(id) = cart(number) else { panic!("a cart") };
            let command = if step == 0 { hold(number) } else { pay() };
            let request = Request { id: RequestHash(step + 1), body: 0 };
            let reply = ReplyTo::new(Arc::<Answers>::clone(&sink), number * 2 + step);
            self.handle().submit(Command::Cart(id, command), Some(request), reply);
        };
        let mut next = buyers.clone();
        next.by_ref().take(BUYERS).for_each(|number| submit(number, 0));
        let (mut bought, mut ended) = (Vec::new(), 0);
        while ended < buyers.end - buyers.start {
            let waited = Instant::now();
            let (tag, result) = loop {
                match receiver.recv_timeout(Duration::from_millis(20)) {
                    Ok(answer) => break answer,
                    // A failed node gives no answer, and its process ends.
                    Err(_) if self.handle().ready().is_err() => return bought,
                    Err(_) => assert!(waited.elapsed() < PATIENCE, "a command was never answered"),
                }
            };
            let (number, step) = (tag / 2, tag % 2);
            match result {
                Ok(answer) => assert!(answer.is_ok(), "{answer:?}"),
                Err(Failure::Busy(retry_after_ms)) => {
                    std::thread::sleep(Duration::from_millis(retry_after_ms.into()));
                    submit(number, step);
                    continue;
                }
                Err(_) => return bought,
            }
            if step == 0 {
                submit(number, 1);
                continue;
            }
            bought.push(number);
            ended += 1;
            if let Some(number) = next.next() {
                submit(number, 0);
            }
            if ended.is_multiple_of(64) {
                seen(self.handle());
            }
        }
        bought
    }

    /// How many entities are in memory.
    pub(crate) fn in_memory(&self) -> u64 {
        self.handle().residents().expect("a good store").in_memory
    }

    /// Waits until only this many entities are in memory.
    pub(crate) fn settle(&self, entities: u64) {
        eventually("ended entities leave memory", || self.in_memory() == entities);
    }

    /// Checks every promise, also for evicted entities. Returns the number of orders.
    pub(crate) fn audit(&self) -> u64 {
        eventually("no message is owed", || self.handle().audit().owed == 0);
        let audits = || [Depth::Sales, Depth::Records].map(|depth| self.handle().audit_to(depth));
        // Holds of carts that have left may be released between the two audits.
        eventually("both audits agree", || audits()[0] == audits()[1]);
        let [_, deep] = audits();
        assert_eq!(deep.violations, [""; 0], "{deep:?}");
        assert_eq!(
            (deep.orders, deep.order_totals.iter().map(|total| total.amount).sum()),
            (deep.carts.done, 1_000 * deep.orders as i64)
        );
        deep.orders
    }

    pub(crate) fn map_version(&self, number: u64) -> u64 {
        match self.ask(Command::Session(id(&format!("s{number}")), SessionCommand::Map), None) {
            Ok(Ok(answered)) => match answered.answer {
                Answer::Map(map) => map.version,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn metric(&self, of: impl Fn(&boxoffice_replication::metrics::Metrics) -> &AtomicU64) -> u64 {
        of(self.handle().replication_metrics()).load(Ordering::Relaxed)
    }

    /// A counter of the metrics page.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = self.handle().metrics_text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("a counter");
        value.parse().expect("a number")
    }

    pub(crate) fn block_on<T>(&self, what: impl Future<Output = T>) -> T {
        self.selling.block_on(what)
    }
}

/// Buyer `number`'s own seat, session after session.
pub(crate) fn seat_of(number: u64) -> (u64, Seat) {
    let seats = u64::from(ROWS) * u64::from(ROW_SEATS);
    let place = number % seats;
    let seat = Seat { row: (place / u64::from(ROW_SEATS)) as u16, seat: (place % u64::from(ROW_SEATS)) as u16 };
    (number / seats, seat)
}

fn hold(number: u64) -> CartCommand {
    let (session, seat) = seat_of(number);
    let seats = SeatSet::new([seat]).expect("a seat");
    let want = Want::seats(seats, false);
    let lines = vec![WantedLine::new(Entity::Session(id(&format!("s{session}"))), want)];
    CartCommand::Hold { lines, customer: None, guest: false, holder: None, attributes: Vec::new() }
}

/// The payment reference is long, so that few purchases fill a segment of the log.
fn pay() -> CartCommand {
    let payment = Payment::Recorded { method: "card".into(), transaction_id: "t".repeat(250).into() };
    CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default(), holder: None }
}

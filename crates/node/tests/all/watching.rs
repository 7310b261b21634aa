//! Watches on a whole node: changes are pushed to watchers, and purchases are resumed from a cursor after their carts have left
//! memory and after a restart.

#![allow(clippy::disallowed_methods, reason = "a test reaches the clock as it likes")]

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

use boxoffice_core::{
    answer::{Answer, StockCounts},
    command::{
        CartCommand, Command, Expect, HoldPolicy, Limits, Payment, ProductCommand, ProductDetails, Want, WantedLine,
    },
    id::{CartId, CartToken, Entity, Id, OrderId, Request, RequestHash},
    money::{Currency, Money},
};
use boxoffice_env::{MemoryDisk, MemoryStores, World};
use boxoffice_feeds::{FeedEvent, View, Watcher, Watching};
use boxoffice_node::{
    api::{self, ReplySink, ReplyTo},
    config::{NodeConfig, ReplicationConfig},
    node::{Node, Runtimes},
};
use boxoffice_wire::{
    Encoding,
    body::{PurchaseCursor, Resume},
    call::Since,
    feed::{CartSnapshot, ProductSnapshot, PurchasesSnapshot, SnapshotBody},
    reply::{Event, ServerFrame},
    view::{CartState, CartView},
};
use tokio::runtime::Runtime;

/// Time limit of every wait, with a wide margin.
const PATIENCE: Duration = Duration::from_secs(60);

/// The cart with this number, in any shard.
fn cart_id(number: u64) -> CartId {
    // An odd factor spreads consecutive numbers over the hash prefixes.
    CartToken((u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).cart()
}

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

fn ada() -> Entity {
    Entity::Customer(id("ada"))
}

fn mug() -> Entity {
    Entity::Product(id("mug"))
}

fn cart(number: u64) -> Entity {
    Entity::Cart(cart_id(number))
}

/// The state that outlives a node's process.
struct Machine {
    disk: MemoryDisk,
    stores: MemoryStores,
}

struct Shop {
    node: Node,
    runtime: Runtime,
}

struct Answers(mpsc::Sender<api::Result>);

impl ReplySink for Answers {
    fn answer(&self, _tag: u64, result: api::Result) {
        // The caller may have given up.
        let _ = self.0.send(result);
    }
}

impl Machine {
    fn start(&self) -> Shop {
        let config = NodeConfig {
            replication: ReplicationConfig {
                data_dir: PathBuf::from("/data"),
                shards: 2,
                ..ReplicationConfig::default()
            },
            ..NodeConfig::default()
        };
        let world =
            World { disk: Arc::new(self.disk.clone()), stores: Arc::new(self.stores.clone()), ..World::standalone() };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let runtimes = Runtimes { selling: runtime.handle().clone(), watching: runtime.handle().clone() };
        let node = Node::start(config, world, &runtimes).expect("the node starts");
        eventually("every shard has a leader", || node.handle().ready().is_ok());
        Shop { node, runtime }
    }
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < until, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Shop {
    fn stop(self) {
        self.runtime.block_on(self.node.stop(10_000)).expect("an orderly stop");
    }

    fn must(&self, command: Command, request: u64) -> Answer {
        let (sender, receiver) = mpsc::channel();
        let request = Request { id: RequestHash(request), body: 0 };
        self.node.handle().submit(command, Some(request), ReplyTo::new(Arc::new(Answers(sender)), 0));
        match receiver.recv_timeout(PATIENCE).expect("every command is answered") {
            Ok(Ok(answered)) => answered.answer,
            other => panic!("{other:?}"),
        }
    }

    fn cart(&self, number: u64, command: CartCommand, request: u64) -> Answer {
        let Entity::Cart(id) = cart(number) else { panic!("a cart") };
        self.must(Command::Cart(id, command), request)
    }

    fn open(&self, stock: u64) {
        let details = ProductDetails {
            name: "Mug".into(),
            properties: Vec::new(),
            blob: Vec::new(),
            price: Money { amount: 1_000, currency: Currency::new("EUR").expect("a currency") },
            stock,
            hold: HoldPolicy::AtAdd,
            hold_ttl_ms: None,
            limits: Limits::default(),
            tax: None,
        };
        self.must(Command::Product(id("mug"), ProductCommand::Put(Box::new(details))), 1);
    }

    fn hold(&self, number: u64) {
        let lines = vec![WantedLine::new(mug(), Want::Units { quantity: 1, now: false })];
        self.cart(
            number,
            CartCommand::Hold { lines, customer: Some(id("ada")), guest: false, holder: None, attributes: Vec::new() },
            1,
        );
    }

    fn pay(&self, number: u64) -> OrderId {
        let payment = Payment::Recorded { method: "card".into(), transaction_id: "t".into() };
        match self.cart(
            number,
            CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default(), holder: None },
            2,
        ) {
            Answer::Order { order, .. } => order.id,
            other => panic!("{other:?}"),
        }
    }

    fn buy(&self, number: u64) -> OrderId {
        self.hold(number);
        self.pay(number)
    }

    fn watch(&self, entity: &Entity, since: Option<Since>) -> TestWatcher {
        let mut watcher = self.node.handle().feeds().watcher();
        let watching = watcher.watch(entity, View::Whole, since, 0).unwrap_or_else(|_| panic!("{entity} exists"));
        let feed = match watching {
            Watching::Begun(feed) => feed,
            // Its record is read from the store.
            Watching::Awaited => {
                let mut begun = None;
                eventually("the feed begins", || {
                    watcher.pull(Encoding::MsgPack, 1, |said| match said {
                        FeedEvent::Begun { feed, .. } => begun = Some(feed),
                        other => panic!("unexpected {other:?}"),
                    });
                    begun.is_some()
                });
                begun.expect("it was waited for")
            }
        };
        watcher.release(feed);
        TestWatcher { watcher, runtime: self.runtime.handle().clone(), events: Vec::new() }
    }

    /// Waits until this number of entities in all has left memory.
    fn left(&self, entities: u64) {
        eventually("ended entities leave memory", || {
            self.node.handle().residents().expect("a good store").left == entities
                && self.node.handle().residents().expect("a good store").leaving == 0
        });
    }
}

/// A watcher of one entity.
struct TestWatcher {
    watcher: Watcher,
    runtime: tokio::runtime::Handle,
    events: Vec<bytes::Bytes>,
}

impl TestWatcher {
    fn next<S: SnapshotBody>(&mut self) -> Event<S> {
        while self.events.is_empty() {
            let waiting = async { tokio::time::timeout(PATIENCE, self.watcher.ready()).await };
            self.runtime.block_on(waiting).expect("something comes");
            self.watcher.pull(Encoding::MsgPack, 1, |said| match said {
                FeedEvent::Frame(frame) => self.events.push(frame),
                other => panic!("unexpected {other:?}"),
            });
        }
        let frame = self.events.remove(0);
        match ServerFrame::read(Encoding::MsgPack, &frame).expect("a frame") {
            ServerFrame::Feed(_, event) => event.read(Encoding::MsgPack).expect("an event"),
            other => panic!("{other:?}"),
        }
    }

    /// The orders after `cursor` up to cursor `to`, without gaps and repeats.
    fn purchases(&mut self, mut cursor: u64, to: u64) -> Vec<OrderId> {
        let mut orders = Vec::new();
        while cursor < to {
            let (from, reached, purchases) = match self.next::<PurchasesSnapshot>() {
                Event::Snapshot(page) => (page.from, page.to, page.purchases),
                Event::Delta(delta) => (delta.from, delta.to, delta.purchases),
                other @ (Event::Ended(_) | Event::Stale(_)) => panic!("{other:?}"),
            };
            assert_eq!(from, cursor, "a gap or a repeat");
            assert_eq!(
                purchases.iter().map(|purchase| purchase.cursor).collect::<Vec<_>>(),
                (from + 1..=reached).collect::<Vec<_>>()
            );
            orders.extend(purchases.iter().map(|purchase| purchase.order));
            cursor = reached;
        }
        assert_eq!(cursor, to);
        orders
    }

    fn cart(&mut self) -> Option<(u64, CartView)> {
        match self.next::<CartSnapshot>() {
            Event::Snapshot(snapshot) => Some((snapshot.version, snapshot.cart)),
            Event::Delta(delta) => Some((delta.to, delta.cart)),
            Event::Ended(ended) => {
                assert_eq!(ended.name, "cart_not_active");
                None
            }
            Event::Stale(stale_ms) => panic!("{stale_ms} ms old"),
        }
    }

    fn stock_until(&mut self, query: StockCounts) -> u64 {
        loop {
            let (version, counts) = match self.next::<ProductSnapshot>() {
                Event::Snapshot(snapshot) => (snapshot.version, snapshot.counts),
                Event::Delta(delta) => (delta.to, delta.counts),
                other @ (Event::Ended(_) | Event::Stale(_)) => panic!("{other:?}"),
            };
            assert_eq!(counts.free + counts.held + counts.sold, 100, "P1");
            if counts == query {
                return version;
            }
        }
    }
}

/// A cursor whose epoch is not known.
fn up_to(cursor: u64) -> PurchaseCursor {
    PurchaseCursor { epoch: None, cursor }
}

#[test]
fn purchases_are_pushed_and_resumed_from_the_store_and_after_a_restart() {
    let machine = Machine { disk: MemoryDisk::new(), stores: MemoryStores::new() };
    let shop = machine.start();
    shop.open(100);
    // A customer without purchases.
    let mut live = shop.watch(&ada(), None);
    let Event::Snapshot(none) = live.next::<PurchasesSnapshot>() else { panic!("a feed begins with a snapshot") };
    assert_eq!((none.from, none.to), (0, 0));
    let mut orders = vec![shop.buy(0)];
    assert_eq!(live.purchases(0, 1), orders, "pushed right after the checkout");
    orders.extend((1..6).map(|number| shop.buy(number)));
    assert_eq!(live.purchases(1, 6), orders[1..]);

    // Six carts and the customer leave memory. The customer is watched all the time.
    shop.left(7);
    assert_eq!(shop.watch(&ada(), Some(Since::Cursor(up_to(2)))).purchases(2, 6), orders[2..], "read from the store");
    orders.push(shop.buy(6));
    assert_eq!(live.purchases(6, 7), orders[6..], "a reloaded customer is still watched");
    drop(live);
    shop.left(8);
    shop.stop();

    let shop = machine.start();
    let mut from_six = shop.watch(&ada(), Some(Since::Cursor(up_to(6))));
    let mut from_the_last = shop.watch(&ada(), Some(Since::Cursor(up_to(7))));
    assert_eq!(from_six.purchases(6, 7), orders[6..]);
    orders.push(shop.buy(7));
    assert_eq!(from_six.purchases(7, 8), orders[7..]);
    assert_eq!(from_the_last.purchases(7, 8), orders[7..], "neither skipped nor repeated after the restart");
    let Event::Snapshot(_) = shop.watch(&ada(), None).next::<PurchasesSnapshot>() else { panic!("a snapshot") };
    assert_eq!(shop.watch(&ada(), Some(Since::Cursor(up_to(0)))).purchases(0, 8), orders);
    shop.stop();
}

#[test]
fn a_cart_and_its_product_are_followed_to_the_end() {
    let machine = Machine { disk: MemoryDisk::new(), stores: MemoryStores::new() };
    let shop = machine.start();
    shop.open(100);
    assert!(shop.node.handle().feeds().watcher().watch(&cart(0), View::Whole, None, 0).is_err(), "it was never opened");
    shop.cart(0, CartCommand::Open { customer: Some(id("ada")), ttl_ms: None, guest: false }, 7);
    let (mut mine, mut stock) = (shop.watch(&cart(0), None), shop.watch(&mug(), None));
    let (mut version, opened) = mine.cart().expect("it is open");
    assert_eq!((opened.state, opened.lines.len()), (CartState::Active, 0));
    let free = stock.stock_until(StockCounts { free: 100, held: 0, sold: 0 });
    shop.hold(0);
    stock.stock_until(StockCounts { free: 99, held: 1, sold: 0 });
    let order = shop.pay(0);
    let mut last = opened;
    while let Some((next, cart)) = mine.cart() {
        assert!(next > version);
        (version, last) = (next, cart);
    }
    assert_eq!((last.state, last.order, last.lines.len()), (CartState::Done, Some(order), 1));
    let sold = stock.stock_until(StockCounts { free: 99, held: 0, sold: 1 });
    assert!(sold > free);
    assert!(mine.watcher.is_empty(), "a feed ends with its cart");

    // The cart and the customer have left memory. The cart's last state is read from the store.
    shop.left(2);
    let mut late = shop.watch(&cart(0), None);
    let (version, ended) = late.cart().expect("its last state");
    assert_eq!((ended.state, late.cart()), (CartState::Done, None));
    let epoch = shop.node.handle().feeds().epoch();
    let mut known = shop.watch(&cart(0), Some(Since::Version(Resume { epoch, version })));
    assert_eq!(known.cart(), None, "a watcher with the last state gets only the end");
    drop((mine, late, known, stock));
    eventually("nothing is watched any more", || shop.node.handle().feeds().counts() == (0, 0));
    assert_eq!(
        shop.node.handle().replication_metrics().put_back.load(Ordering::Relaxed),
        0,
        "a read reloads no entity"
    );
    shop.stop();
}

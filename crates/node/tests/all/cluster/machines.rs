//! Machines with disks that outlive their nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use boxoffice_core::{
    answer::{Answer, ClusterView, StockCounts},
    command::{
        Admission, CartCommand, ClusterCommand, Command, Expect, HoldPolicy, Limits, Machine, Payment, ProductDetails,
        Want, WantedLine,
    },
    id::{CartId, CartToken, Entity, Id, Request, RequestHash},
    money::{Currency, Money},
    time::Timestamp,
};
use boxoffice_env::{
    Gateway, MemoryDisk, MemoryStores, Net, PeerAddress, StallingDisk, StallingStores, World, secret::Secret,
};
use boxoffice_feeds::{FeedEvent, NoFeed, View, Watcher};
use boxoffice_links::{PeerConfig, TcpNet};
use boxoffice_node::{
    api::{self, Failure, ReplySink, ReplyTo},
    as_of::{AsOf, AsOfError},
    config::{NodeConfig, ReplicationConfig},
    error::NodeError,
    history::HistoryPart,
    node::{Node, NodeHandle, Runtimes},
};
use boxoffice_replication::error::ReplicationError;
use boxoffice_shard::ring::shard_of;
use boxoffice_storage::identity::{ClusterId, IdentityError, Joining, draw_disk_id};
use boxoffice_wire::{
    Encoding,
    feed::ProductSnapshot,
    reply::{Event, ServerFrame},
    status::NodeStatus,
};
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const SHARDS: u16 = 4;

/// The cart with this number, in any shard.
pub(crate) fn cart_id(number: u64) -> CartId {
    // An odd factor spreads consecutive numbers over the hash prefixes.
    CartToken((u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).cart()
}

#[derive(Default)]
pub(crate) struct Machines {
    nodes: BTreeMap<u64, OneMachine>,
    disks: BTreeMap<u64, Disks>,
    addresses: BTreeMap<u64, String>,
    /// The payment gateway of all of them, if any.
    gateway: Option<Arc<dyn Gateway>>,
}

/// What outlives a node.
#[derive(Clone)]
pub(crate) struct Disks {
    /// The disk as the node reaches it.
    pub(crate) files: StallingDisk,
    pub(crate) stores: MemoryStores,
    /// The stores as the node reaches them.
    pub(crate) stalls: StallingStores,
}

impl Default for Disks {
    fn default() -> Disks {
        let stores = MemoryStores::new();
        Disks {
            files: StallingDisk::new(Arc::new(MemoryDisk::new())),
            stalls: StallingStores::new(Arc::new(stores.clone())),
            stores,
        }
    }
}

struct OneMachine {
    node: Node,
    net: Arc<TcpNet>,
    runtime: Runtime,
}

struct Answers(mpsc::Sender<api::Result>);

impl ReplySink for Answers {
    fn answer(&self, _tag: u64, result: api::Result) {
        // The caller may have given up.
        let _ = self.0.send(result);
    }
}

pub(crate) fn product(number: u64) -> Id {
    Id::new(&format!("mug-{number}")).expect("a good id")
}

pub(crate) fn stock_of(stock: u64) -> Box<ProductDetails> {
    Box::new(ProductDetails {
        name: "Mug".into(),
        properties: Vec::new(),
        blob: Vec::new(),
        price: Money { amount: 1_000, currency: Currency::new("EUR").expect("a currency") },
        stock,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    })
}

/// The output of a future that is ready at once.
fn futures_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

pub(crate) fn hold(machines: &Machines, node: u64, cart: u64, shelf: u64) {
    let line = WantedLine::new(Entity::Product(product(shelf)), Want::Units { quantity: 1, now: false });
    machines.cart(
        node,
        cart,
        CartCommand::Hold { lines: vec![line], customer: None, guest: false, holder: None, attributes: Vec::new() },
        1,
    );
}

pub(crate) fn checkout() -> CartCommand {
    let payment = Payment::Recorded { method: "card".into(), transaction_id: "t".into() };
    CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default(), holder: None }
}

/// Holds a mug and buys it.
pub(crate) fn buy(machines: &Machines, node: u64, cart: u64, shelf: u64) {
    hold(machines, node, cart, shelf);
    let order = machines.cart(node, cart, checkout(), 2);
    assert!(matches!(order, Answer::Order { .. }), "{order:?}");
}

/// A watcher of a product.
pub(crate) struct Watching {
    watcher: Watcher,
    runtime: tokio::runtime::Handle,
    frames: Vec<bytes::Bytes>,
}

impl Watching {
    /// The next version and its counts.
    pub(crate) fn next(&mut self) -> (u64, StockCounts) {
        while self.frames.is_empty() {
            let waiting = async { tokio::time::timeout(PATIENCE, self.watcher.ready()).await };
            self.runtime.block_on(waiting).expect("something comes");
            self.watcher.pull(Encoding::MsgPack, 1, |said| match said {
                FeedEvent::Frame(frame) => self.frames.push(frame),
                other => panic!("unexpected {other:?}"),
            });
        }
        let frame = self.frames.remove(0);
        let event = match ServerFrame::read(Encoding::MsgPack, &frame).expect("a frame") {
            ServerFrame::Feed(_, event) => event.read::<ProductSnapshot>(Encoding::MsgPack).expect("an event"),
            other => panic!("{other:?}"),
        };
        match event {
            Event::Snapshot(snapshot) => (snapshot.version, snapshot.counts),
            Event::Delta(delta) => (delta.to, delta.counts),
            // In some stories a shard has no leader for a while.
            Event::Stale(_) => self.next(),
            Event::Ended(ended) => panic!("{ended:?}"),
        }
    }
}

/// Waits for another node's answer to a pending watch.
fn answered(watcher: &mut Watcher, runtime: &tokio::runtime::Handle) -> Result<u64, NoFeed> {
    let mut answer = None;
    while answer.is_none() {
        runtime.block_on(async { tokio::time::timeout(PATIENCE, watcher.ready()).await }).expect("an answer");
        watcher.pull(Encoding::MsgPack, 1, |said| match said {
            FeedEvent::Begun { feed, .. } => answer = Some(Ok(feed)),
            FeedEvent::Refused { why, .. } => answer = Some(Err(why)),
            FeedEvent::Frame(frame) => panic!("{frame:?} before the answer"),
        });
    }
    answer.expect("it was waited for")
}

impl Machines {
    pub(crate) fn new() -> Machines {
        Machines::default()
    }

    /// Three nodes with three voters each.
    pub(crate) fn of_three() -> Machines {
        Machines::new().all_three()
    }

    /// The same, paying through this gateway.
    pub(crate) fn with_gateway(gateway: Arc<dyn Gateway>) -> Machines {
        Machines { gateway: Some(gateway), ..Machines::default() }.all_three()
    }

    fn all_three(self) -> Machines {
        let mut machines = self;
        machines.found(1);
        machines.join(2);
        machines.join(3);
        machines
            .settled("three voters each", |cluster| cluster.places.iter().all(|place| place.target.voters.len() == 3));
        machines
    }

    fn boot(&mut self, node: u64, joining: Option<Joining>) {
        let Disks { files: disk, stalls: stores, .. } = self.disks.entry(node).or_default().clone();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let mut alone = World::standalone();
        if let Some(gateway) = &self.gateway {
            alone.gateway = Arc::clone(gateway);
        }
        let listen = self.addresses.get(&node).map_or("127.0.0.1:0", String::as_str).parse().expect("an address");
        let config = PeerConfig::new(listen, Secret("only we know this secret".into()));
        let net = TcpNet::new(config, runtime.handle().clone(), Arc::clone(&alone.clock), Arc::clone(&alone.rng));
        let net = Arc::new(net.expect("a port for the others"));
        let address = net.local_addr().to_string();
        self.addresses.insert(node, address.clone());
        let config = NodeConfig {
            replication: ReplicationConfig {
                data_dir: PathBuf::from("/data"),
                node_id: node,
                shards: SHARDS,
                joining,
                snapshot_entries: 40,
                log_segment_bytes: 1 << 20,
                ..ReplicationConfig::default()
            },
            peer_address: address,
            client_address: format!("127.0.0.1:{}", 7_000 + node),
            ..NodeConfig::default()
        };
        let net_of_node = Arc::clone(&net) as Arc<dyn Net>;
        let world = World { disk: Arc::new(disk), stores: Arc::new(stores), net: net_of_node, ..alone };
        let runtimes = Runtimes { selling: runtime.handle().clone(), watching: runtime.handle().clone() };
        // A thread of the previous node may not have ended yet.
        let until = Instant::now() + PATIENCE;
        let started = loop {
            match Node::start(config.clone(), world.clone(), &runtimes) {
                Err(NodeError::Replication(ReplicationError::Identity(IdentityError::InUse { .. })))
                    if Instant::now() < until =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                started => break started.expect("the node starts"),
            }
        };
        self.nodes.insert(node, OneMachine { node: started, net, runtime });
    }

    pub(crate) fn found(&mut self, node: u64) {
        self.boot(node, None);
        self.ready(node);
        self.until("the node has founded a cluster", PATIENCE, |machines| {
            matches!(machines.ask(node, Command::Cluster(ClusterCommand::Get), None), Ok(Ok(Answer::Cluster(_))))
        });
    }

    /// Asks a member for admission, then starts.
    pub(crate) fn join(&mut self, node: u64) {
        let Disks { files: disk, stalls: stores, .. } = self.disks.entry(node).or_default().clone();
        let world = World { disk: Arc::new(disk), stores: Arc::new(stores), ..World::standalone() };
        let disk = draw_disk_id(&world, Path::new("/data")).expect("a data directory");
        let at = *self.nodes.keys().find(|known| **known != node).expect("a member");
        // The port is known only after the bind, so the table's address is corrected once the node has arrived.
        let machine = Machine {
            disk,
            peer: "127.0.0.1:1".into(),
            client: "127.0.0.1:1".into(),
            program: "test".into(),
            versions: None,
        };
        let join = ClusterCommand::Join {
            node: Some(node),
            machine: Box::new(machine),
            proof: None,
            admission: Admission::Vouched,
        };
        let Answer::Cluster(view) = self.must(at, Command::Cluster(join), disk as u64) else { panic!("a cluster") };
        let others = view.members.iter().filter(|(member, _)| **member != node);
        let peers =
            others.map(|(member, known)| PeerAddress { node: *member, address: known.peer.to_string() }).collect();
        let cluster = ClusterId(self.nodes[&at].node.handle().identity().cluster.0);
        let generation_min = view.members[&node].first_generation;
        self.boot(node, Some(Joining { cluster, disk, peers, generation_min }));
        self.ready(node);
    }

    /// The process ends. Its disk keeps at least the synced data.
    pub(crate) fn crash(&mut self, node: u64) {
        let OneMachine { node: crashed, net, runtime } = self.nodes.remove(&node).expect("a running node");
        net.close();
        // Its threads continue but reach no node, so the others see it as dead. Their late writes count as written before the
        // crash.
        runtime.block_on(async { crashed.stop(0).await }).expect("an end");
        runtime.shutdown_background();
    }

    pub(crate) fn lose_disk(&mut self, node: u64) {
        self.disks.remove(&node);
    }

    pub(crate) fn disks(&self, node: u64) -> &Disks {
        &self.disks[&node]
    }

    /// A counter or gauge of a node's metrics page.
    pub(crate) fn counter(&self, node: u64, name: &str) -> u64 {
        let text = self.handle(node).metrics_text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("a counter");
        value.parse().expect("a number")
    }

    /// How many entities have left the memory of a node.
    pub(crate) fn left(&self, node: u64) -> u64 {
        let residents = self.handle(node).residents().expect("a good store");
        if residents.leaving > 0 { 0 } else { residents.left }
    }

    /// The node that leads an entity's shard, as it says itself.
    pub(crate) fn leader_of(&self, entity: &Entity) -> Option<u64> {
        let shard = u32::from(shard_of(entity.hash_prefix(), SHARDS));
        let leads =
            |node: &u64| self.status(*node).shards.iter().any(|known| known.shard == shard && known.role == "leader");
        self.nodes.keys().copied().find(leads)
    }

    pub(crate) fn running(&self) -> Vec<u64> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn violations(&self, node: u64) -> Vec<String> {
        self.handle(node).audit().violations.iter().map(ToString::to_string).collect()
    }

    pub(crate) fn restart(&mut self, node: u64) {
        self.boot(node, None);
    }

    fn handle(&self, node: u64) -> &NodeHandle {
        self.nodes[&node].node.handle()
    }

    pub(crate) fn ready(&self, node: u64) {
        self.until("the node is ready", PATIENCE, |machines| machines.handle(node).ready().is_ok());
    }

    pub(crate) fn all_ready(&self) {
        self.nodes.keys().for_each(|node| self.ready(*node));
    }

    /// Waits until a node has ended by itself.
    pub(crate) fn ended(&mut self, node: u64) {
        let machine = self.nodes.remove(&node).expect("a running node");
        let failed = machine
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, machine.node.handle().failed()).await.expect("it ends") });
        assert!(failed.contains("was drained"), "{failed}");
        machine.net.close();
        machine.runtime.shutdown_background();
    }

    pub(crate) fn until(&self, what: &str, patience: Duration, mut is: impl FnMut(&Machines) -> bool) {
        let until = Instant::now() + patience;
        while !is(self) {
            if Instant::now() >= until {
                for (id, machine) in &self.nodes {
                    let failed = futures_now(machine.node.handle().failed());
                    eprintln!("node {id}: {failed:?}\n{:#?}", machine.node.handle().status());
                }
                panic!("timed out: {what}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a command once.
    pub(crate) fn ask(
        &self,
        node: u64,
        command: Command,
        request: Option<Request>,
    ) -> Result<Result<Answer, boxoffice_core::refusal::Refusal>, Failure> {
        let (sender, receiver) = mpsc::channel();
        self.handle(node).submit(command, request, ReplyTo::new(Arc::new(Answers(sender)), 0));
        let result = receiver.recv_timeout(PATIENCE).expect("every command is answered");
        result.map(|outcome| outcome.map(|answered| answered.answer))
    }

    pub(crate) fn must(&self, node: u64, command: Command, request: u64) -> Answer {
        let request = Request { id: RequestHash(request), body: 0 };
        match self.ask(node, command.clone(), Some(request)) {
            Ok(Ok(answer)) => answer,
            other => panic!("{command:?} at node {node}: {other:?}"),
        }
    }

    pub(crate) fn cart(&self, node: u64, cart: u64, command: CartCommand, request: u64) -> Answer {
        let id = cart_id(cart);
        self.must(node, Command::Cart(id, command), request)
    }

    pub(crate) fn view(&self, node: u64) -> ClusterView {
        match self.ask(node, Command::Cluster(ClusterCommand::Get), None) {
            Ok(Ok(Answer::Cluster(view))) => *view,
            other => panic!("{other:?}"),
        }
    }

    fn cluster_of(&self, node: u64, entity: &Entity) -> bool {
        let shard = shard_of(entity.hash_prefix(), SHARDS);
        let status = self.handle(node).status();
        status.shards.iter().any(|known| known.shard == u32::from(shard) && known.role == "none")
    }

    pub(crate) fn status(&self, node: u64) -> NodeStatus {
        self.handle(node).status()
    }

    /// A node's history of a product.
    pub(crate) fn history(&self, node: u64, shelf: u64, limit: usize, before: Option<u64>) -> HistoryPart {
        let entity = Entity::Product(product(shelf));
        let runtime = &self.nodes[&node].runtime;
        runtime.block_on(self.handle(node).history_of(&entity, None, limit, before)).expect("a history")
    }

    /// A node's clock.
    pub(crate) fn now(&self, node: u64) -> Timestamp {
        Timestamp(self.handle(node).now_ms())
    }

    /// A product as it was, by a node.
    pub(crate) fn as_of(&self, node: u64, shelf: u64, at: Timestamp) -> Result<AsOf, AsOfError> {
        let entity = Entity::Product(product(shelf));
        self.nodes[&node].runtime.block_on(self.handle(node).as_of(&entity, at))
    }

    /// The same in a task of the node, as for a client. It sends how many events it has read.
    pub(crate) fn history_later(&self, node: u64, shelf: u64) -> mpsc::Receiver<usize> {
        let ((sender, receiver), handle) = (mpsc::channel(), self.handle(node).clone());
        self.nodes[&node].runtime.spawn(async move {
            let entity = Entity::Product(product(shelf));
            let history = handle.history_of(&entity, None, 100, None).await;
            // The test may be over.
            let _ = sender.send(history.map_or(0, |history| history.entries.len()));
        });
        receiver
    }

    /// Whether a node has no replica of a product.
    pub(crate) fn is_remote(&self, node: u64, shelf: u64) -> bool {
        self.cluster_of(node, &Entity::Product(product(shelf)))
    }

    pub(crate) fn watch_entity(&self, node: u64, entity: &Entity) -> Result<Watching, NoFeed> {
        let mut watcher = self.handle(node).feeds().watcher();
        let runtime = self.nodes[&node].runtime.handle().clone();
        let feed = match watcher.watch(entity, View::Whole, None, 0)? {
            boxoffice_feeds::Watching::Begun(feed) => feed,
            boxoffice_feeds::Watching::Awaited => answered(&mut watcher, &runtime)?,
        };
        watcher.release(feed);
        Ok(Watching { watcher, runtime, frames: Vec::new() })
    }

    pub(crate) fn watch(&self, node: u64, shelf: u64) -> Watching {
        self.watch_entity(node, &Entity::Product(product(shelf))).expect("it is there")
    }

    /// Waits until every shard has reached its target and `is` holds for the table.
    pub(crate) fn settled(&self, what: &str, is: impl Fn(&ClusterView) -> bool) {
        let node = *self.nodes.keys().next().expect("a node");
        let mut last = None;
        let until = Instant::now() + PATIENCE;
        loop {
            let view = self.view(node);
            if is(&view) && view.places.iter().all(|place| !place.moving()) {
                return;
            }
            if Instant::now() > until {
                self.until(&format!("{what}: {last:#?}"), Duration::ZERO, |_| false);
            }
            last = Some(view);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until all replicas have applied the same position.
    pub(crate) fn applied_alike(&self) {
        self.until("all replicas have applied the same", PATIENCE, |machines| {
            let statuses: Vec<_> = machines.nodes.values().map(|machine| machine.node.handle().status()).collect();
            (0..=usize::from(SHARDS)).all(|shard| {
                let applied = statuses.iter().map(|status| &status.shards[shard]).filter(|shard| shard.role != "none");
                applied.map(|shard| shard.applied).collect::<BTreeSet<_>>().len() == 1
            })
        });
    }

    /// Checks that every running node finds no violation, and in the end the same counts.
    pub(crate) fn audited(&self) {
        let mut audits = Vec::new();
        self.until("all nodes report the same", PATIENCE, |machines| {
            audits = machines.nodes.values().map(|machine| machine.node.handle().audit()).collect();
            audits.iter().all(|audit| audit.violations.is_empty() && audit.orders == audits[0].orders)
        });
        assert!(audits[0].orders > 0);
    }
}

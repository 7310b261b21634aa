//! Three nodes on one runtime with simulated time, on a network that delays frames and loses none. Leaderships move while carts
//! hold and buy. A message between entities that reaches the wrong node must not cost a second.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, ClusterView},
    command::{
        Admission, CartCommand, ClusterCommand, Command, Expect, HoldPolicy, Limits, Machine, Payment, ProductCommand,
        ProductDetails, Want, WantedLine,
    },
    id::{CartId, CartToken, Entity, Id, Request, RequestHash},
    money::{Currency, Money},
    stored,
};
use boxoffice_env::{
    Clock, Lane, LinkStatus, Local, MemoryDisk, MemoryStores, Net, NodeId, NotSent, PeerAddress, PeerHello, PeerInbox,
    Rng, World,
};
use boxoffice_node::{
    api::{self, ReplySink, ReplyTo},
    config::{NodeConfig, ReplicationConfig},
    frame_info::frame_info,
    node::{Node, NodeHandle},
    tasks::Gate,
};
use boxoffice_storage::identity::{ClusterId, Joining, draw_disk_id};
use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing_mutex::parkinglot::Mutex;

/// The initial time of the simulated clock, in 2026.
const BEGIN_MS: u64 = 1_790_000_000_000;
const SHARDS: u16 = 12;
const PRODUCTS: u64 = 24;
const BUYERS: u64 = 48;
/// The time limit of a hold or a checkout. An entity asks again after 1 s by itself.
const TOOK_MAX: Duration = Duration::from_millis(500);
/// Replies of inventories to carts.
const REPLIES: [&str; 4] = ["granted", "released", "sold", "another reply"];
/// How often links are checked.
const LOOK: Duration = Duration::from_millis(50);

struct SimulatedClock(Instant);

impl Clock for SimulatedClock {
    fn wall_ms(&self) -> u64 {
        BEGIN_MS + self.0.elapsed().as_millis() as u64
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// A seeded generator.
struct Seeded(Mutex<u64>);

impl Seeded {
    fn new(seed: u64) -> Seeded {
        Seeded(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    fn below(&self, end: u64) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % end
    }
}

impl Rng for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.below(256) as u8);
    }
}

/// The delay of frames in milliseconds: the shortest and the longest.
#[derive(Clone, Copy)]
struct Delays {
    consensus: (u64, u64),
    others: (u64, u64),
}

type Way = (NodeId, NodeId);

/// The network. Clones share its state.
#[derive(Clone)]
struct Network(Arc<Inside>);

struct Inside {
    runtime: Handle,
    rng: Seeded,
    delays: Delays,
    /// Whether the queues have no room for replies.
    full: AtomicBool,
    /// Replies that inventories sent.
    replies: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<NodeId, (Local, Arc<dyn PeerInbox>)>,
    peers: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// Links that are up in both directions.
    up: BTreeSet<Way>,
    /// Frames in transit, by direction and lane.
    lanes: BTreeMap<(Way, Lane), mpsc::UnboundedSender<(Instant, Bytes)>>,
}

impl Network {
    fn new(seed: u64, delays: Delays) -> Network {
        let (runtime, rng, full) = (Handle::current(), Seeded::new(seed), AtomicBool::new(false));
        Network(Arc::new(Inside { runtime, rng, delays, full, replies: AtomicU64::new(0), state: Mutex::default() }))
    }

    /// A process has ended: the others learn that its links are lost.
    fn end(&self, node: NodeId) {
        let told: Vec<_> = {
            let mut state = self.0.state.lock();
            state.up.retain(|(from, to)| *from != node && *to != node);
            state.nodes.remove(&node);
            state.nodes.values().map(|(_, inbox)| Arc::clone(inbox)).collect()
        };
        told.into_iter().for_each(|inbox| inbox.link(node, false));
    }

    /// Links nodes that list each other.
    async fn link(self) {
        loop {
            sleep(LOOK).await;
            let mut linked = Vec::new();
            {
                let mut state = self.0.state.lock();
                let nodes: Vec<NodeId> = state.nodes.keys().copied().collect();
                for way in nodes.iter().flat_map(|one| nodes.iter().map(move |other| (*one, *other))) {
                    if way.0 < way.1 && !state.up.contains(&way) && state.agree(way) {
                        for (from, to) in [way, (way.1, way.0)] {
                            state.up.insert((from, to));
                            linked.push((Arc::clone(&state.nodes[&to].1), from));
                        }
                    }
                }
            }
            linked.into_iter().for_each(|(inbox, node)| inbox.link(node, true));
        }
    }
}

impl State {
    fn agree(&self, (one, other): Way) -> bool {
        let knows = |one, other| self.peers.get(&one).is_some_and(|peers: &BTreeSet<NodeId>| peers.contains(&other));
        let takes = |one: NodeId, other: NodeId| {
            let (Local { cluster, node, disk }, inbox) = &self.nodes[&other];
            let (table, durable_position, versions) = (inbox.table(), inbox.durable_position(), inbox.versions());
            let (cluster, node, disk, program) = (*cluster, *node, *disk, "simulated".into());
            let hello = PeerHello { cluster, node, disk, version: 1, program, table, durable_position, versions };
            self.nodes[&one].1.admit(&hello).is_ok()
        };
        (knows(one, other) || knows(other, one)) && takes(one, other) && takes(other, one)
    }
}

/// A node's connection to the network.
struct Endpoint(NodeId, Network);

impl Net for Endpoint {
    fn start(&self, local: Local, inbox: Arc<dyn PeerInbox>, _: Option<&Handle>) {
        self.1.0.state.lock().nodes.insert(self.0, (local, inbox));
    }

    fn set_peers(&self, peers: &[PeerAddress]) {
        let peers = peers.iter().map(|peer| peer.node).collect();
        self.1.0.state.lock().peers.insert(self.0, peers);
    }

    fn send(&self, to: NodeId, lane: Lane, frame: Bytes) -> Result<u64, NotSent> {
        let inside = &self.1.0;
        let mut state = inside.state.lock();
        let way = (self.0, to);
        if !state.up.contains(&way) {
            return Err(NotSent::Unreachable(to));
        }
        if lane == Lane::Calls && frame_info(&frame).is_some_and(|it| REPLIES.contains(&it.kind)) {
            if inside.full.load(Ordering::Relaxed) {
                return Err(NotSent::Full(to));
            }
            inside.replies.fetch_add(1, Ordering::Relaxed);
        }
        let delays = inside.delays;
        let (least, most) = if lane == Lane::Consensus { delays.consensus } else { delays.others };
        let at = Instant::now() + Duration::from_millis(least + inside.rng.below(most - least + 1));
        let inbox = Arc::clone(&state.nodes[&to].1);
        let sender = state.lanes.entry((way, lane)).or_insert_with(|| {
            let (sender, mut frames) = mpsc::unbounded_channel::<(Instant, Bytes)>();
            inside.runtime.spawn(async move {
                while let Some((at, frame)) = frames.recv().await {
                    sleep_until(at).await;
                    inbox.frame(way.0, lane, frame);
                }
            });
            sender
        });
        // After the test, frames are dropped.
        let _ = sender.send((at, frame));
        Ok(1)
    }

    fn links(&self) -> Vec<LinkStatus> {
        let state = self.1.0.state.lock();
        let status = |node: &NodeId| LinkStatus {
            node: *node,
            up: state.up.contains(&(self.0, *node)),
            ..LinkStatus::default()
        };
        state.peers.get(&self.0).into_iter().flatten().filter(|node| **node != self.0).map(status).collect()
    }

    fn damaged(&self) -> u64 {
        0
    }
}

struct Answers(mpsc::UnboundedSender<api::Result>);

impl ReplySink for Answers {
    fn answer(&self, _: u64, result: api::Result) {
        // The caller may have given up.
        let _ = self.0.send(result);
    }
}

struct Cluster {
    network: Network,
    begun: Instant,
    nodes: BTreeMap<NodeId, Node>,
}

impl Cluster {
    fn found(seed: u64, delays: Delays) -> Cluster {
        let network = Network::new(seed, delays);
        tokio::spawn(network.clone().link());
        let mut cluster = Cluster { network, begun: Instant::now(), nodes: BTreeMap::new() };
        cluster.boot(1, (MemoryDisk::new(), MemoryStores::new()), None);
        cluster
    }

    fn world(&self, node: NodeId, (disk, stores): (MemoryDisk, MemoryStores)) -> World {
        World {
            clock: Arc::new(SimulatedClock(self.begun)),
            rng: Arc::new(Seeded::new(node)),
            net: Arc::new(Endpoint(node, self.network.clone())),
            disk: Arc::new(disk),
            stores: Arc::new(stores),
            ..World::standalone()
        }
    }

    fn boot(&mut self, node: NodeId, disk: (MemoryDisk, MemoryStores), joining: Option<Joining>) {
        let config = NodeConfig {
            replication: ReplicationConfig {
                data_dir: PathBuf::from("/data"),
                node_id: node,
                shards: SHARDS,
                log_segment_bytes: 1 << 20,
                checksum_entries: 1,
                joining,
                ..ReplicationConfig::default()
            },
            peer_address: format!("node-{node}:1"),
            client_address: format!("node-{node}:2"),
            ..NodeConfig::default()
        };
        let world = self.world(node, disk);
        let started = Node::start_as_tasks(config, world, &Handle::current(), Gate::new());
        self.nodes.insert(node, started.expect("the node starts"));
    }

    async fn join(&mut self, node: NodeId) {
        let disk = (MemoryDisk::new(), MemoryStores::new());
        let drawn = draw_disk_id(&self.world(node, disk.clone()), Path::new("/data")).expect("a data directory");
        let (peer, client) = (format!("node-{node}:1").into(), format!("node-{node}:2").into());
        let machine = Box::new(Machine { disk: drawn, peer, client, program: "test".into(), versions: None });
        let join = Command::Cluster(ClusterCommand::Join {
            node: Some(node),
            machine,
            proof: None,
            admission: Admission::Vouched,
        });
        let Answer::Cluster(view) = must(self.handle(1), join, Some(node)).await else { panic!("a cluster") };
        let others = view.members.iter().filter(|(member, _)| **member != node);
        let peers = others.map(|(node, known)| PeerAddress { node: *node, address: known.peer.to_string() }).collect();
        let cluster = ClusterId(self.handle(1).identity().cluster.0);
        let generation_min = view.members[&node].first_generation;
        self.boot(node, disk, Some(Joining { cluster, disk: drawn, peers, generation_min }));
        ready(self.handle(node)).await;
    }

    fn handle(&self, node: NodeId) -> &NodeHandle {
        self.nodes[&node].handle()
    }

    async fn view(&self) -> Box<ClusterView> {
        match must(self.handle(1), Command::Cluster(ClusterCommand::Get), None).await {
            Answer::Cluster(view) => view,
            other => panic!("{other:?}"),
        }
    }

    fn leads(&self, node: NodeId) -> usize {
        self.handle(node).status().shards.iter().filter(|shard| shard.role == "leader").count()
    }

    /// Waits until every node leads its share of the shards.
    async fn balanced(&self) {
        for _ in 0..1_200 {
            sleep(Duration::from_millis(50)).await;
            if self.nodes.keys().all(|node| self.leads(*node) >= usize::from(SHARDS) / 3)
                && self.view().await.places.iter().all(|place| !place.moving())
            {
                return;
            }
        }
        panic!("{:?} shards are led by the nodes", self.nodes.keys().map(|node| self.leads(*node)).collect::<Vec<_>>());
    }
}

async fn ready(node: &NodeHandle) {
    while node.ready().is_err() {
        sleep(Duration::from_millis(10)).await;
    }
}

async fn ask(node: &NodeHandle, command: Command, request: Option<u64>) -> api::Result {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let request = request.map(|id| Request { id: RequestHash(id), body: 0 });
    node.submit(command, request, ReplyTo::new(Arc::new(Answers(sender)), 0));
    timeout(Duration::from_secs(60), receiver.recv()).await.expect("in time").expect("an answer")
}

/// Repeats a command until it has an outcome, as a client does.
async fn must(node: &NodeHandle, command: Command, request: Option<u64>) -> Answer {
    loop {
        match ask(node, command.clone(), request).await {
            Ok(Ok(answered)) => return answered.answer,
            Ok(Err(refusal)) => panic!("{command:?}: {refusal:?}"),
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

fn product(number: u64) -> Id {
    Id::new(&format!("mug-{number}")).expect("a good id")
}

fn put(number: u64) -> Command {
    let details = ProductDetails {
        name: "Mug".into(),
        properties: Vec::new(),
        blob: Vec::new(),
        price: Money { amount: 500, currency: Currency::new("EUR").expect("a currency") },
        stock: 1_000_000,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    };
    Command::Product(product(number), ProductCommand::Put(Box::new(details)))
}

/// The cart with this number, in any shard.
fn cart_id(number: u64) -> CartId {
    // An odd factor, so that the first bits differ from number to number as the last ones do.
    CartToken((u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).cart()
}

fn hold(cart: u64, shelf: u64) -> Command {
    let want = Want::Units { quantity: 1, now: true };
    let lines = vec![WantedLine::new(Entity::Product(product(shelf)), want)];
    Command::Cart(
        cart_id(cart),
        CartCommand::Hold { lines, customer: None, guest: false, holder: None, attributes: Vec::new() },
    )
}

fn pay(cart: u64) -> Command {
    let payment = Payment::Recorded { method: "card".into(), transaction_id: "1".into() };
    let checkout =
        CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default(), holder: None };
    Command::Cart(cart_id(cart), checkout)
}

/// The duration of a hold or a checkout, its begin, and its kind.
type Took = (Duration, Duration, &'static str);

/// Buyers at all running nodes, until they are stopped.
struct Buyers {
    nodes: Arc<Mutex<Vec<NodeHandle>>>,
    over: Arc<AtomicBool>,
    took: Arc<Mutex<Vec<Took>>>,
}

impl Buyers {
    fn new(seed: u64) -> Buyers {
        let buyers = Buyers { nodes: Arc::default(), over: Arc::default(), took: Arc::default() };
        let (begun, rng) = (Instant::now(), Arc::new(Seeded::new(seed)));
        for buyer in 0..BUYERS {
            let (nodes, over, took) = (Arc::clone(&buyers.nodes), Arc::clone(&buyers.over), Arc::clone(&buyers.took));
            let rng = Arc::clone(&rng);
            tokio::spawn(async move {
                let mut cart = buyer;
                while !over.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(rng.below(30))).await;
                    let node = {
                        let nodes = nodes.lock();
                        if nodes.is_empty() {
                            continue;
                        }
                        nodes[rng.below(nodes.len() as u64) as usize].clone()
                    };
                    let shelf = rng.below(PRODUCTS);
                    for (kind, command, request) in [("hold", hold(cart, shelf), 1), ("checkout", pay(cart), 2)] {
                        let at = Instant::now();
                        must(&node, command, Some(request)).await;
                        took.lock().push((at.elapsed(), at - begun, kind));
                    }
                    cart += BUYERS;
                }
            });
        }
        buyers
    }

    fn go_to(&self, cluster: &Cluster) {
        *self.nodes.lock() = cluster.nodes.values().map(|node| node.handle().clone()).collect();
    }

    /// Stops the buyers and checks their durations.
    async fn end(self, cluster: &Cluster) {
        self.over.store(true, Ordering::Relaxed);
        sleep(Duration::from_secs(5)).await;
        let mut took = self.took.lock().clone();
        took.sort_unstable();
        println!("{} holds and checkouts, the longest: {:?}", took.len(), &took[took.len() - 3..]);
        let late: Vec<_> = took.iter().filter(|(took, ..)| *took > TOOK_MAX).collect();
        assert!(late.is_empty(), "{} of {} took too long: {late:?}", late.len(), took.len());
        // Forwarded replies do not circle. Most need no link, the others one or two.
        let replies = cluster.network.0.replies.load(Ordering::Relaxed);
        assert!(replies <= took.len() as u64, "{replies} replies for {} holds and checkouts", took.len());
        for node in cluster.nodes.values() {
            assert_eq!(node.handle().audit().violations, [""; 0]);
            let [compared, different] = checksums(node.handle());
            assert!(compared > 0 && different == 0, "{different} of {compared} checksums differ");
        }
    }
}

/// A node with products that leads everything, and two more that have just joined it.
async fn three_nodes(seed: u64, delays: Delays) -> Cluster {
    let mut cluster = Cluster::found(seed, delays);
    ready(cluster.handle(1)).await;
    for number in 0..PRODUCTS {
        must(cluster.handle(1), put(number), Some(1)).await;
    }
    cluster.join(2).await;
    cluster.join(3).await;
    cluster
}

/// Buys until each of three nodes leads its share.
async fn selling_while_leaderships_move(seed: u64, delays: Delays, full: bool) {
    let cluster = three_nodes(seed, delays).await;
    let buyers = Buyers::new(seed);
    buyers.go_to(&cluster);
    if full {
        let network = cluster.network.clone();
        tokio::spawn(async move {
            loop {
                for (full, ms) in [(true, 20), (false, 180)] {
                    network.0.full.store(full, Ordering::Relaxed);
                    sleep(Duration::from_millis(ms)).await;
                }
            }
        });
    }
    cluster.balanced().await;
    sleep(Duration::from_secs(1)).await;
    buyers.end(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn no_hold_waits_a_second_while_leaderships_are_handed_over() {
    for seed in 1..=2 {
        selling_while_leaderships_move(seed, Delays { consensus: (0, 2), others: (0, 2) }, false).await;
    }
}

/// Other nodes learn of a new leader after its first message.
#[tokio::test(start_paused = true)]
async fn no_hold_waits_a_second_when_consensus_is_slower_than_calls() {
    for seed in 1..=3 {
        selling_while_leaderships_move(seed, Delays { consensus: (0, 30), others: (0, 2) }, false).await;
    }
}

/// A stopping node transfers its leaderships.
#[tokio::test(start_paused = true)]
async fn no_hold_waits_a_second_while_a_node_stops() {
    let mut cluster = three_nodes(1, Delays { consensus: (0, 10), others: (0, 2) }).await;
    cluster.balanced().await;
    let stopping = cluster.nodes.remove(&3).expect("the process runs");
    let buyers = Buyers::new(1);
    buyers.go_to(&cluster);
    sleep(Duration::from_secs(1)).await;
    stopping.stop(10_000).await.expect("an orderly end");
    cluster.network.end(3);
    sleep(Duration::from_secs(1)).await;
    buyers.end(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_finds_a_full_queue_is_sent_a_moment_later() {
    selling_while_leaderships_move(1, Delays { consensus: (0, 2), others: (0, 2) }, true).await;
}

/// The number of checksums that a node has compared with other replicas, and of differences.
fn checksums(node: &NodeHandle) -> [u64; 2] {
    let metrics = node.replication_metrics();
    [&metrics.checksums_compared, &metrics.checksums_different].map(|count| count.load(Ordering::Relaxed))
}

/// A message with checksums, as another node sends it.
fn checksums_message(checksums: &[(u16, u64, u64)]) -> Bytes {
    // The message has variant 11, with one field.
    stored::append(&(11_u32, checksums), Vec::new()).into()
}

/// A node counts a difference reported by one other node, and ends if two of three voters differ from it. Messages about unknown
/// shards, truncated messages and unknown senders have no effect.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_outvoted_ends() {
    let cluster = three_nodes(1, Delays { consensus: (0, 2), others: (0, 2) }).await;
    cluster.balanced().await;
    for number in 0..PRODUCTS {
        must(cluster.handle(1), put(number), Some(2)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let node = cluster.handle(1);
    let inbox = Arc::clone(&cluster.network.0.state.lock().nodes[&1].1);
    let dropped = || node.replication_metrics().peer_frames_dropped.load(Ordering::Relaxed);
    let [compared, different] = checksums(node);
    assert!(compared > PRODUCTS && different == 0, "{different} of {compared} checksums differ");

    let last =
        |shard: u16| node.status().shards.iter().find(|it| it.shard == u32::from(shard)).map_or(0, |it| it.applied);
    let of_shard = |shard: u16| (last(shard).saturating_sub(3)..=last(shard)).map(move |index| (shard, index, 1));
    let other: Vec<_> = (1..SHARDS).flat_map(of_shard).collect();
    let whole = checksums_message(&other);
    inbox.frame(2, Lane::Calls, checksums_message(&[(SHARDS + 1, 1, 1)]));
    inbox.frame(2, Lane::Calls, whole.slice(..whole.len() - 1));
    assert_eq!(dropped(), 2);
    inbox.frame(9, Lane::Calls, whole.clone());
    sleep(Duration::from_secs(1)).await;
    assert_eq!((dropped(), checksums(node)[1]), (2, 0));

    inbox.frame(2, Lane::Calls, whole.clone());
    sleep(Duration::from_secs(1)).await;
    assert!(checksums(node)[1] > 0 && node.ready().is_ok(), "one voter of three is not a majority");
    inbox.frame(3, Lane::Calls, whole);
    let why = timeout(Duration::from_secs(1), node.failed()).await.expect("it ends");
    assert!(why.contains("0000000000000001 on a majority of the replicas"), "{why}");
}

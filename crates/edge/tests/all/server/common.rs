//! A client port in front of a node that answers as the test requires.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use boxoffice_core::{
    access::{AccessKey, NewKey, Role, Roles},
    answer::{
        Answer, Answered, At, BookingState, BookingView, CartState, CartView, MapView, Order, SeatCounts, SessionEntry,
    },
    calendar::{BookingName, CartBookingName},
    command::{CartCommand, Command, DirectoryCommand, Payment, ResourceCommand, SessionCommand, VenueCommand, Want},
    holder::Holder,
    id::{CartId, CartToken, Entity, HoldId, Id, Request, RequestHash},
    money::{Currency, Money},
    payment::PaymentStatus,
    refusal::{Conflict, LineRefusal, Refusal},
    seat::{Seat, SeatState},
    time::Timestamp,
};
use boxoffice_edge::{
    Backend, Edge, EdgeConfig, Limits,
    backend::{Backup, Member, Reading, Remembering},
    budgets::BudgetConfig,
};
use boxoffice_env::OsClock;
use boxoffice_env::secret::Secret;
use boxoffice_feeds::{Commit, FeedSettings, FeedSource, FeedUpdate, Feeds};
use boxoffice_node::{
    access::KeyRing,
    api::{Failure, ReplyTo},
    as_of::AsOfError,
    backup::BackupError,
    history::{HistoryError, HistoryPart},
    node::Runtimes,
};
use boxoffice_wire::{
    access::ShownKey,
    call::BackupQuery,
    hello::{Durability, Hello},
    status::{NodeAudit, NodeStatus, Rates},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::{Handle, Runtime},
    sync::oneshot,
    task::JoinHandle,
};
use tracing_mutex::parkinglot::Mutex;

pub(crate) use crate::server::client::{Client, Received, in_both, refused, request};
use crate::server::theatre::Theatre;

/// Longer than anything takes here, even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// The secret of the cluster's nodes.
pub(crate) const PEER_SECRET: &[u8] = b"the secret of the nodes";

/// Seat, limit and the version before which a history was asked for.
pub(crate) type HistoryAsked = (Option<Seat>, usize, Option<u64>);

/// The keys as the directory's leader has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    pub(crate) version: u64,
    pub(crate) keys: BTreeMap<Id, Arc<AccessKey>>,
}

/// A node of one session, `hamlet`, whose carts answer at once, later or never.
pub(crate) struct Node {
    feeds: Feeds,
    pub(crate) theatre: Arc<Theatre>,
    /// Commands in order of arrival, as `name begins` and `name ends`.
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    /// Commands that the test will answer.
    pub(crate) waiting: Mutex<Vec<ReplyTo>>,
    pub(crate) keys: Mutex<Vec<Option<Request>>>,
    /// Whether a guest sent it, for each command that may open a cart.
    pub(crate) connections: Mutex<Vec<bool>>,
    /// Who holds, for each command that may hold.
    pub(crate) holders: Mutex<Vec<Option<Holder>>>,
    pub(crate) not_ready: Mutex<Option<String>>,
    /// The leader of carts, if it is another node.
    pub(crate) carts_led_by: Mutex<Option<u64>>,
    pub(crate) members: Mutex<Vec<Member>>,
    /// The venues of the one city.
    pub(crate) city: Mutex<Vec<String>>,
    /// Searches of venues under way, and their maximum so far.
    searches: Arc<Mutex<usize>>,
    pub(crate) searches_most: Mutex<usize>,
    /// The result of the next histories. Busy if there is none.
    pub(crate) history: Mutex<Option<HistoryPart>>,
    /// Why nothing is known of the past. Busy if it is not said.
    pub(crate) past: Mutex<Option<fn() -> AsOfError>>,
    /// The parameters of the histories that were read.
    pub(crate) histories_asked: Mutex<Vec<HistoryAsked>>,
    /// Orders with their customers.
    pub(crate) orders: Mutex<BTreeMap<CartId, Option<Id>>>,
    /// The cursors of the pages of bookings that were read.
    pub(crate) bookings_after: Mutex<Vec<Option<(Timestamp, BookingName)>>>,
    pub(crate) access_keys: Mutex<BTreeMap<Id, Arc<AccessKey>>>,
    pub(crate) key_ring: Mutex<KeyRing>,
    /// What the directory's leader knows, if this node's copy lags. `None` if it does not answer.
    pub(crate) directory: Mutex<Option<Directory>>,
    /// The names of the keys that the directory's leader was asked about.
    pub(crate) keys_asked: Mutex<Vec<Id>>,
    /// How often a key was looked up.
    pub(crate) keys_looked_up: AtomicU64,
    /// How often the status was made.
    pub(crate) statuses_made: AtomicU64,
    /// Each status after the first waits for a message here, if it is set.
    pub(crate) status_gate: Mutex<Option<mpsc::Receiver<()>>>,
    /// The message has not come.
    pub(crate) status_gate_missed: AtomicBool,
    /// The wall clock in milliseconds, and since when it runs. It stands still otherwise.
    pub(crate) wall: Mutex<(u64, Option<tokio::time::Instant>)>,
    runtime: Handle,
}

impl Node {
    /// Changes seats of `hamlet` and publishes it.
    pub(crate) fn sell(&self, seats: &[u32]) {
        let mut sessions = self.theatre.sessions.lock();
        let map = sessions.get_mut(&id("hamlet")).expect("it is open");
        for seat in seats {
            let (byte, shift) = ((*seat / 4) as usize, seat % 4 * 2);
            assert_eq!(map.seats[byte] >> shift & 3, 0, "sold once");
            map.seats[byte] |= (SeatState::Sold as u8) << shift;
        }
        map.counts.free -= seats.len() as u32;
        map.counts.sold += seats.len() as u32;
        map.version += 1;
        let changes = seats.iter().map(|seat| (*seat, SeatState::Sold)).collect();
        let update = FeedUpdate::Session { seats: changes, areas: Vec::new(), sale: None };
        self.publish(Entity::Session(id("hamlet")), map.version - 1, update);
    }

    /// Publishes that an entity has changed from a version, or a customer from a cursor.
    pub(crate) fn publish(&self, entity: Entity, from: u64, update: FeedUpdate) {
        self.feeds.commit(vec![Commit { entity, from, to: from + 1, update }]);
    }

    /// Two sessions of each venue, which start at the venue's number and a hundred later.
    fn search(&self, venue: &Id, after: Option<(Timestamp, Id)>, limit: u32, reply: ReplyTo) {
        match venue.as_str() {
            "busy" => return reply.answer(Err(Failure::Busy(100))),
            // Never answers.
            "silent" => return self.waiting.lock().push(reply),
            _ => {}
        }
        let searches = Arc::clone(&self.searches);
        let now = {
            let mut searches = searches.lock();
            *searches += 1;
            *searches
        };
        let mut most = self.searches_most.lock();
        *most = now.max(*most);
        let number: u64 = venue.as_str()[1..].parse().expect("venues are called v and a number");
        let entry = |starts_at: u64| SessionEntry {
            id: id(&format!("{venue}-{starts_at}")),
            hall: id("main"),
            title: id("play"),
            starts_at: Timestamp(starts_at),
            ends_at: Timestamp(starts_at + 1),
            open: true,
            zone: None,
            opens_at: None,
        };
        let mut entries = vec![entry(number), entry(number + 100)];
        entries.retain(|entry| after.as_ref().is_none_or(|(at, id)| (entry.starts_at, &entry.id) > (*at, id)));
        entries.truncate(limit as usize);
        self.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            *searches.lock() -= 1;
            reply.answer(Ok(Ok(Answered { answer: Answer::Sessions(entries), at: Vec::new() })));
        });
    }

    fn later(&self, name: &'static str, ms: u64, reply: ReplyTo) {
        let log = Arc::clone(&self.log);
        log.lock().push(format!("{name} begins"));
        self.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            log.lock().push(format!("{name} ends"));
            reply.answer(Ok(Ok(Answered { answer: Answer::Done, at: Vec::new() })));
        });
    }
}

impl Backend for Node {
    fn submit(&self, command: Command, request: Option<Request>, reply: ReplyTo) {
        self.keys.lock().push(request);
        if let Command::Cart(_, CartCommand::Open { guest, .. } | CartCommand::Hold { guest, .. }) = &command {
            self.connections.lock().push(*guest);
        }
        if let Command::Cart(
            _,
            CartCommand::Hold { holder, .. }
            | CartCommand::SetQuantity { holder, .. }
            | CartCommand::Checkout { holder, .. },
        ) = &command
        {
            self.holders.lock().push(*holder);
        }
        match command {
            // Answered synchronously.
            Command::Cart(cart, CartCommand::Open { .. }) => reply.answer(Ok(Ok(opened(cart)))),
            // Waits for the test.
            Command::Cart(_, CartCommand::Get) => self.waiting.lock().push(reply),
            // Waits for the test as well, and is logged.
            Command::Cart(_, CartCommand::Revoke { line, .. }) => {
                self.log.lock().push(format!("revoke {line}"));
                self.waiting.lock().push(reply);
            }
            // Dropping the reply means that there is no answer.
            Command::Cart(_, CartCommand::Cancel) => drop(reply),
            Command::Cart(_, CartCommand::Checkout { .. }) => reply.answer(Err(Failure::ReadOnly)),
            Command::Cart(cart, CartCommand::Order) => {
                let bought = self.orders.lock().get(&cart).cloned().map(|customer| order(cart, customer));
                let outcome = bought.map(|answer| Answered { answer, at: Vec::new() });
                reply.answer(Ok(outcome.ok_or(Refusal::NotFound("order".into()))));
            }
            Command::Resource(_, ResourceCommand::Bookings { after, .. }) => {
                self.bookings_after.lock().push(after);
                reply.answer(Ok(Ok(Answered { answer: Answer::Bookings(bookings()), at: Vec::new() })));
            }
            Command::Resource(_, ResourceCommand::IsAvailable(_)) => {
                reply.answer(Ok(Ok(Answered { answer: Answer::Available(vec![conflict()]), at: Vec::new() })));
            }
            Command::Session(session, SessionCommand::Map) => {
                let map = self.theatre.sessions.lock().get(&session).cloned();
                let refused = Refusal::NotFound(format!("session/{session}").into());
                let outcome = map.map(|map| Answered { answer: Answer::Map(map), at: Vec::new() }).ok_or(refused);
                reply.answer(Ok(outcome));
            }
            // Much longer than a busy machine takes to begin the commands of one wave.
            Command::Venue(_, VenueCommand::Put(_)) => self.later("venue", 100, reply),
            Command::Venue(_, VenueCommand::PutHall { .. }) => self.later("hall", 5, reply),
            Command::Venue(_, VenueCommand::Get) => self.later("get", 5, reply),
            Command::Venue(venue, VenueCommand::SearchSessions { after, limit, .. }) => {
                self.search(&venue, after, limit, reply);
            }
            Command::Directory(DirectoryCommand::VenuesOfCity(_)) => {
                let venues = self.city.lock().iter().map(|venue| id(venue)).collect();
                reply.answer(Ok(Ok(Answered { answer: Answer::VenueIds(venues), at: Vec::new() })));
            }
            Command::Directory(DirectoryCommand::Key { name }) => {
                self.keys.lock().pop();
                self.keys_asked.lock().push(name.clone());
                let Some(Directory { version, keys }) = self.directory.lock().clone() else {
                    return self.waiting.lock().push(reply);
                };
                let found = keys.get(&name).map(|key| (name, AccessKey::clone(key))).into_iter().collect();
                let at = vec![At { entity: Entity::Directory, version, position: 7 }];
                self.runtime.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    reply.answer(Ok(Ok(Answered { answer: Answer::Keys(found), at })));
                });
            }
            // The session's name says how many seats are free. No two of them are adjacent.
            Command::Cart(_, CartCommand::Hold { lines, .. }) => match (&lines[0].entity, &lines[0].want) {
                (Entity::Session(session), Want::Places { area, .. }) => {
                    let free = session.as_str().trim_start_matches("free").parse().expect("a number");
                    reply.answer(Ok(Err(Refusal::NotEnoughPlaces { area: area.clone(), free, held: 0 })));
                }
                (Entity::Session(session), Want::Best(wish)) => {
                    let free = session.as_str().trim_start_matches("free").parse().expect("a number");
                    reply.answer(Ok(Err(Refusal::NoAdjacentSeats { count: wish.count, free })));
                }
                // The room is taken by cart 7.
                (Entity::Resource(_), Want::Slot { .. }) => {
                    let taken = |_| Refusal::SlotTaken(vec![conflict()]);
                    let refused: Vec<LineRefusal> =
                        (0..).zip(&lines).map(|(line, _)| LineRefusal { line, refusal: taken(line) }).collect();
                    let refusal = if refused.len() == 1 { taken(0) } else { Refusal::Lines(refused) };
                    reply.answer(Ok(Err(refusal)));
                }
                (other, _) => reply.answer(Ok(Err(Refusal::NotFound(other.to_string().into())))),
            },
            other => reply.answer(Ok(Err(Refusal::NotFound(other.entity().to_string().into())))),
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            cluster: "test".into(),
            node: "n1".into(),
            version: "0".into(),
            protocol: 1,
            minor: 1,
            durability: Durability { replicas: 1, fsync: "never".into() },
            limits: Default::default(),
            time: Timestamp(1_000),
        }
    }

    fn members(&self) -> Vec<Member> {
        self.members.lock().clone()
    }

    fn leaders(&self) -> Vec<u64> {
        vec![1, 2]
    }

    fn leader_elsewhere(&self, entity: &Entity) -> Option<u64> {
        match entity {
            Entity::Venue(_) => Some(2),
            Entity::Cart(_) => *self.carts_led_by.lock(),
            _ => None,
        }
    }

    fn status(&self) -> NodeStatus {
        let made = self.statuses_made.fetch_add(1, Ordering::Relaxed);
        if made > 0
            && let Some(gate) = &*self.status_gate.lock()
            // Other tasks go on meanwhile.
            && tokio::task::block_in_place(|| gate.recv_timeout(TIMEOUT)).is_err()
        {
            self.status_gate_missed.store(true, Ordering::Relaxed);
        }
        NodeStatus {
            node: "n1".into(),
            cluster: "test".into(),
            version: "0".into(),
            uptime_ms: 1,
            durability: Durability { replicas: 1, fsync: "never".into() },
            state: "ready".into(),
            disk_is_slow: false,
            damage: "".into(),
            cluster_version: 17,
            upgrade: "".into(),
            linked: Vec::new(),
            shards: Vec::new(),
            connections: 0,
            watchers: 0,
            under_way: 0,
            actors: 0,
            carts_archived: 0,
            tombstones: 0,
            payments_pending: 0,
            payments_failed: 0,
            rates: Rates::default(),
        }
    }

    fn audit(&self) -> Pin<Box<dyn Future<Output = NodeAudit> + Send>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            NodeAudit { carts: Default::default(), orders: 3, ..NodeAudit::default() }
        })
    }

    fn backup(&self, _query: BackupQuery) -> Backup {
        Box::pin(async { Err(BackupError::Busy) })
    }

    fn history(&self, _entity: &Entity, seat: Option<Seat>, limit: usize, before: Option<u64>) -> Reading {
        self.histories_asked.lock().push((seat, limit, before));
        let found = self.history.lock().clone().ok_or(HistoryError::Busy);
        Box::pin(async move { found })
    }

    fn as_of(&self, _entity: &Entity, _at: Timestamp) -> Remembering {
        let why = self.past.lock().map_or_else(|| HistoryError::Busy.into(), |why| why());
        Box::pin(async { Err(why) })
    }

    fn now(&self) -> Timestamp {
        let (ms, since) = *self.wall.lock();
        Timestamp(ms + since.map_or(0, |since| since.elapsed().as_millis() as u64))
    }

    fn key(&self, name: &Id) -> Option<Arc<AccessKey>> {
        self.keys_looked_up.fetch_add(1, Ordering::Relaxed);
        self.access_keys.lock().get(name).cloned()
    }

    fn key_ring(&self) -> KeyRing {
        *self.key_ring.lock()
    }

    fn peer_secret(&self) -> Option<&Secret> {
        None
    }

    fn is_peer_token(&self, token: &str) -> bool {
        boxoffice_wire::joining::is_token(PEER_SECRET, token)
    }

    fn ready(&self) -> Result<(), String> {
        self.not_ready.lock().clone().map_or(Ok(()), Err)
    }

    fn metrics_text(&self) -> String {
        "boxoffice_node_tested 1\n".into()
    }

    fn feeds(&self) -> &Feeds {
        &self.feeds
    }
}

pub(crate) fn opened(cart: CartId) -> Answered {
    let view = CartView {
        id: cart,
        state: CartState::Active,
        customer: None,
        opened_at: Timestamp(1_000),
        modified_at: Timestamp(1_000),
        deadline: Timestamp(2_000),
        lines: Vec::new(),
        lines_version: 0,
        taken: Vec::new(),
        total: None,
        order: None,
        ended: None,
    };
    Answered { answer: Answer::Cart(view), at: vec![At { entity: Entity::Cart(cart), version: 1, position: 7 }] }
}

/// An order of this customer.
fn order(cart: CartId, customer: Option<Id>) -> Answer {
    let order = Order {
        id: cart.order(),
        customer,
        at: Timestamp(1_000),
        lines: Vec::new(),
        total: Money { amount: 3_000, currency: Currency::new("EUR").expect("a currency") },
        payment: Payment::Recorded { method: "card".into(), transaction_id: "4711".into() },
        shipping: None,
    };
    Answer::Order {
        order: Arc::new(order),
        settling: false,
        payment: PaymentStatus::Recorded,
        refunds: Vec::new(),
        sessions: Vec::new(),
    }
}

/// A booking that operators made, and one that cart 7 bought.
fn bookings() -> Vec<BookingView> {
    let (begin, end) = (Timestamp(1_000), Timestamp(2_000));
    let state = BookingState::Reserved;
    let choir = BookingView { booking: "choir".into(), begin, end, state, details: "with a piano".into(), order: None };
    let (booking, order) = (hold().into(), Some(cart(7).order()));
    vec![choir, BookingView { booking, begin, end, state: BookingState::Sold, details: "".into(), order }]
}

fn conflict() -> Conflict {
    let why = format!("{} is there from 19 to 22", hold()).into();
    Conflict { begin: Timestamp(1_000), end: Timestamp(2_000), why, booking: Some(hold().into()) }
}

/// The public name of the booking of cart 7.
pub(crate) fn hold() -> String {
    let hold = HoldId { cart: cart(7), request: RequestHash(0xaa), part: 0, attempt: 1 };
    CartBookingName::of(hold).to_string()
}

pub(crate) fn id(name: &str) -> Id {
    Id::new(name).expect("a good id")
}

/// The secret of every key here.
pub(crate) const SECRET: &str = "0123456789abcdefghijABCDEFGHIJ-_0123456789x";

/// A key of the cluster with these roles.
pub(crate) fn key_with(name: &str, roles: Roles) -> Arc<AccessKey> {
    let hash = ShownKey { name, secret: SECRET }.hash();
    let terms = NewKey { hash, roles, venues: Vec::new(), requests_per_second: None, held_max: None };
    Arc::new(AccessKey { terms, created_at: Timestamp(1) })
}

/// Gives the cluster a key with these roles. Returns it as its owner shows it.
pub(crate) fn add_key(server: &TestServer, name: &str, roles: Roles) -> String {
    server.node.access_keys.lock().insert(id(name), key_with(name, roles));
    ShownKey { name, secret: SECRET }.written()
}

pub(crate) fn token(number: u128) -> String {
    format!("{number:032x}")
}

pub(crate) fn cart(number: u128) -> CartId {
    CartToken(number).cart()
}

/// A running client port and the node behind it.
pub(crate) struct TestServer {
    /// The port of the tests: the operators' port if it needs no credentials, else the clients' port.
    pub(crate) address: SocketAddr,
    pub(crate) clients: SocketAddr,
    pub(crate) operators: SocketAddr,
    admin_token: Option<String>,
    pub(crate) node: Arc<Node>,
    running: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
    watching: Option<Runtime>,
}

impl TestServer {
    /// Starts with these limits.
    pub(crate) fn open(limits: Limits) -> TestServer {
        TestServer::with(EdgeConfig { limits, ..EdgeConfig::default() })
    }

    /// Starts without budgets. Anonymous callers have the role sell.
    pub(crate) fn with(config: EdgeConfig) -> TestServer {
        let budgets = BudgetConfig {
            connections: 0,
            requests_per_second: 0,
            carts: 0,
            held: 0,
            cart_held: 0,
            seat_seconds: 0,
            ..config.budgets
        };
        TestServer::strict(EdgeConfig { anonymous: Some(Role::Sell), recorded_by_anyone: true, budgets, ..config })
    }

    /// Starts as configured, on free ports.
    pub(crate) fn strict(mut config: EdgeConfig) -> TestServer {
        config.listen.set_port(0);
        config.operators = Some("127.0.0.1:0".parse().expect("an address"));
        config.limits.operator_connections_max = config.limits.connections_max;
        config.limits.operator_descriptors_end = config.limits.descriptors_end;
        if config.limits.auth_failure_step == Limits::default().auth_failure_step {
            config.limits.auth_failure_step = Duration::ZERO;
        }
        let admin_token = config.admin_token.clone();
        let watching = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("watching")
            .enable_all()
            .build()
            .expect("a runtime");
        let theatre = Arc::new(Theatre::default());
        let seats = 1_000;
        let map = MapView {
            session: id("hamlet"),
            epoch: 0,
            version: 5,
            counts: SeatCounts { free: seats, ..SeatCounts::default() },
            areas: Vec::new(),
            seats: vec![0; seats as usize / 4],
            sale: None,
        };
        theatre.sessions.lock().insert(id("hamlet"), map);
        let settings = FeedSettings { coalesce_ms: 0, ..FeedSettings::default() };
        let feeds = Feeds::new(Arc::clone(&theatre) as Arc<dyn FeedSource>, settings, Arc::new(OsClock::new()));
        let running = feeds.clone();
        watching.spawn(async move { running.run().await });
        let node = Arc::new(Node {
            feeds,
            theatre,
            log: Arc::default(),
            waiting: Mutex::default(),
            keys: Mutex::default(),
            connections: Mutex::default(),
            holders: Mutex::default(),
            not_ready: Mutex::default(),
            carts_led_by: Mutex::default(),
            members: Mutex::default(),
            city: Mutex::default(),
            searches: Arc::default(),
            searches_most: Mutex::default(),
            history: Mutex::default(),
            past: Mutex::default(),
            histories_asked: Mutex::default(),
            orders: Mutex::default(),
            bookings_after: Mutex::default(),
            access_keys: Mutex::default(),
            directory: Mutex::new(Some(Directory::default())),
            keys_asked: Mutex::default(),
            keys_looked_up: AtomicU64::default(),
            statuses_made: AtomicU64::default(),
            status_gate: Mutex::default(),
            status_gate_missed: AtomicBool::default(),
            wall: Mutex::new((1_000, None)),
            key_ring: Mutex::new(KeyRing { version: 1, copy_version: 1, has_admin: false, silent_ms: 0 }),
            runtime: Handle::current(),
        });
        let runtimes = Runtimes { selling: Handle::current(), watching: watching.handle().clone() };
        let edge = Edge::bind(config, Arc::clone(&node) as Arc<dyn Backend>, runtimes).expect("a free port");
        let (clients, operators) = (edge.local_addr(), edge.operators_addr().expect("it is asked for"));
        let address = if admin_token.is_some() { clients } else { operators };
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(edge.run(async {
            let _ = stopped.await;
        }));
        TestServer {
            address,
            clients,
            operators,
            admin_token,
            node,
            running: Some(running),
            stop: Some(stop),
            watching: Some(watching),
        }
    }

    /// Begins to close.
    pub(crate) fn close(&mut self) {
        self.stop.take().expect("it is closed once").send(()).expect("it is open");
    }

    /// Waits until it is closed.
    pub(crate) async fn closed(&mut self) {
        let running = self.running.take().expect("it is waited for once");
        tokio::time::timeout(TIMEOUT, running).await.expect("it closes").expect("without a panic");
    }

    /// The value of a counter or gauge.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let token = self.admin_token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n"));
        let head = format!("host: localhost\r\nconnection: close\r\n{}", token.unwrap_or_default());
        let (_, text) = http(self.operators, &format!("GET /metrics HTTP/1.1\r\n{head}\r\n")).await;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    }

    /// Waits until a counter or gauge has this value.
    pub(crate) async fn metric_is(&self, name: &str, value: f64) {
        let begun = tokio::time::Instant::now();
        loop {
            let found = self.metric(name).await;
            if found == value {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{name} is {found}, not {value}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(watching) = self.watching.take() {
            watching.shutdown_background();
        }
    }
}

/// Faults that a debug build can have.
pub(crate) mod planted {
    /// The tests of a module find these faults.
    pub(crate) fn are_found(module: &str, faults: &[(&str, &str)]) {
        if !cfg!(debug_assertions) {
            return;
        }
        std::thread::scope(|scope| {
            for (fault, test) in faults {
                scope.spawn(move || is_found(fault, &format!("{module}::{test}")));
            }
        });
    }

    fn is_found(fault: &str, test: &str) {
        let program = std::env::current_exe().expect("this program");
        let mut command = std::process::Command::new(program);
        command.args(["--exact", test]).env("BOXOFFICE_PLANTED_EDGE", fault);
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 failed"), "{test} does not find that {fault}: {text}");
    }
}

/// Gets a page. Returns its status and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    http(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")).await
}

/// Sends an HTTP request. Returns the answer's status and body.
pub(crate) async fn http(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.expect("an answer in time");
    if let Err(error) = read {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    }
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    (status, body)
}

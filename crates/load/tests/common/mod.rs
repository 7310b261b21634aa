//! A stub server that speaks the protocol. It has one lock and no disk, so a run against it measures the cost of the
//! load generator itself. Tests inject bugs into it to prove that the audit finds each of them.

use std::{
    collections::{BTreeMap, HashMap},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use boxoffice_core::{
    answer::{
        Answer, Answered, At, CartAudit, CartState, CartView, Held, HoldView, LineView, Order, Outcome, SaleView,
        SeatCounts, SessionAudit,
    },
    command::{
        CartCommand, Command, DirectoryCommand, NewSession, Payment, SessionCommand, VenueCommand, Want, WantedLine,
    },
    id::{CartId, Entity, HoldId, Id, RequestHash},
    layout::Layout,
    money::Money,
    payment::PaymentStatus,
    portion::{Content, Portion, PricedSeat},
    refusal::{Refusal, TakenSeat},
    seat::{Seat, SeatSet, SeatState},
    time::Timestamp,
};
use boxoffice_wire::{
    Call, Encoding, Request,
    cluster::ShardMap,
    encode::{self, Verdict},
    hello::{Durability, Hello, Limits},
    status::{CurrencyTotal, NodeAudit, NodeStatus, Rates},
};
use bytes::BytesMut;
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request as Upgrade, Response},
        http::HeaderValue,
    },
};

/// The time to live of carts, in milliseconds.
const TTL_MS: u64 = 30 * 60 * 1000;

/// Every n-th occurrence shows the bug.
const BUG_EVERY: u64 = 7;

/// A bug of the stub server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The server is correct.
    None,
    /// It sells seats that another cart has.
    SellsTwice,
    /// It loses orders that it confirmed.
    LosesOrders,
    RefusesFreeSeats,
    /// It does not reply to some checkouts, which did happen.
    DropsReplies,
    /// It reports totals that are too high.
    Overcharges,
    /// Its counts differ from its map.
    Miscounts,
}

struct Session {
    layout: Arc<Layout>,
    price: Money,
    version: u64,
    taken: BTreeMap<Seat, SeatState>,
    holds: HashMap<CartId, Vec<Seat>>,
    sales: Vec<SaleView>,
}

struct Cart {
    state: CartState,
    version: u64,
    lines: Vec<LineView>,
    total: Option<Money>,
}

#[derive(Default)]
struct ServerState {
    halls: HashMap<Id, Arc<Layout>>,
    sessions: HashMap<Id, Session>,
    carts: HashMap<CartId, Cart>,
    orders: u64,
    seats_sold: u64,
    turn: u64,
}

/// The stub server. It serves until the runtime ends.
pub(crate) struct StubServer {
    state: Mutex<ServerState>,
    bug: Bug,
}

impl StubServer {
    /// Starts the server on a free loopback port.
    pub(crate) async fn start(bug: Bug) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let server = Arc::new(StubServer { state: Mutex::default(), bug });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(server.clone(), stream));
            }
        });
        address
    }

    /// The reply to a frame. `None` if the server drops the reply.
    fn answer(&self, encoding: Encoding, frame: &[u8]) -> Option<BytesMut> {
        let mut out = BytesMut::new();
        let request = Request::read(encoding, frame).expect("the load generator speaks the protocol");
        let mut state = self.state.lock().expect("no thread panics while it holds the lock");
        match request.call {
            Call::Hello(_) => encode::done(encoding, &mut out, request.id),
            Call::Command(command) => {
                let outcome = self.decide(&mut state, command)?;
                encode::outcome(encoding, &mut out, request.id, &outcome, request.shape, None);
            }
            Call::Batch(items) => {
                let verdicts: Vec<Verdict> = items
                    .into_iter()
                    .map(|item| {
                        let item = item.expect("the load generator speaks the protocol");
                        let outcome = self.decide(&mut state, item.command).expect("set-up is always answered");
                        Verdict::decided(outcome, item.shape)
                    })
                    .collect();
                encode::batch(encoding, &mut out, request.id, &verdicts);
            }
            Call::Status => encode::ok(encoding, &mut out, request.id, &status()),
            Call::Shards => encode::ok(encoding, &mut out, request.id, &ShardMap::default()),
            Call::AuditNode => encode::ok(encoding, &mut out, request.id, &state.audit()),
            Call::Watch { .. } | Call::WatchCounts { .. } | Call::Unwatch { .. } => {
                unreachable!("a load run watches nothing")
            }
            Call::SearchCity(_)
            | Call::Backup(_)
            | Call::History { .. }
            | Call::AsOf { .. }
            | Call::NamedOrder(_)
            | Call::AuditWithCarts(_) => {
                unreachable!("a load run searches nothing")
            }
        }
        Some(out)
    }

    fn decide(&self, state: &mut ServerState, command: Command) -> Option<Outcome> {
        Some(match command {
            Command::Venue(_, VenueCommand::PutHall { hall, layout, .. }) => {
                state.halls.insert(hall, layout);
                done()
            }
            Command::Venue(_, VenueCommand::CreateSession(new)) => {
                state.create(new);
                done()
            }
            Command::Venue(_, _) => done(),
            Command::Session(id, SessionCommand::Audit) => state.audit_session(&id, self.bug),
            Command::Session(..) => unreachable!("a load run asks sessions for audits only"),
            Command::Cart(id, CartCommand::Open { .. }) => Ok(state.open_cart(id)),
            Command::Directory(DirectoryCommand::PutTitle(..)) => done(),
            Command::Product(..)
            | Command::Resource(..)
            | Command::Customer(..)
            | Command::Code(..)
            | Command::Directory(_)
            | Command::Cluster(_) => {
                unreachable!("a load run sells seats only")
            }
            Command::Cart(id, CartCommand::Hold { lines, .. }) => state.hold(id, lines, self.bug),
            Command::Cart(id, CartCommand::Checkout { payment, .. }) => state.check_out(id, payment, self.bug)?,
            Command::Cart(id, CartCommand::Audit) => state.audit_cart(id),
            Command::Cart(..) => unreachable!("a load run opens, holds, checks out and audits"),
        })
    }
}

impl ServerState {
    fn misbehaves(&mut self, bug: Bug, this: Bug) -> bool {
        self.turn += u64::from(bug == this);
        bug == this && self.turn.is_multiple_of(BUG_EVERY)
    }

    fn create(&mut self, new: NewSession) {
        let session = Session {
            layout: self.halls[&new.hall].clone(),
            price: new.prices[0].1,
            version: 1,
            taken: BTreeMap::new(),
            holds: HashMap::new(),
            sales: Vec::new(),
        };
        self.sessions.entry(new.id).or_insert(session);
    }

    fn open_cart(&mut self, id: CartId) -> Answered {
        let cart = self.cart(id);
        cart.version += 1;
        let at = vec![at(Entity::Cart(id), cart.version)];
        Answered { answer: Answer::Cart(cart.view(id)), at }
    }

    fn cart(&mut self, id: CartId) -> &mut Cart {
        let new = || Cart { state: CartState::Active, version: 0, lines: Vec::new(), total: None };
        self.carts.entry(id).or_insert_with(new)
    }

    fn hold(&mut self, id: CartId, lines: Vec<WantedLine>, bug: Bug) -> Outcome {
        let [WantedLine { entity: Entity::Session(name), want: Want::Seats { seats, .. }, .. }] = lines.as_slice()
        else {
            unreachable!("a load run holds named seats of one session")
        };
        let Some(session) = self.sessions.get(name) else { return Err(Refusal::NotFound(name.as_str().into())) };
        let state = |seat: &Seat| session.taken.get(seat).copied();
        let mut taken: Vec<TakenSeat> =
            seats.as_slice().iter().filter_map(|&seat| Some(TakenSeat { seat, state: state(&seat)? })).collect();
        if taken.is_empty() && self.misbehaves(bug, Bug::RefusesFreeSeats) {
            taken = vec![TakenSeat { seat: seats.as_slice()[0], state: SeatState::Held }];
        }
        if !taken.is_empty() && !self.misbehaves(bug, Bug::SellsTwice) {
            return Err(Refusal::SeatsTaken(taken));
        }
        let session = self.sessions.get_mut(name).expect("the session was found above");
        session.version += 1;
        for &seat in seats.as_slice() {
            session.taken.insert(seat, SeatState::Held);
        }
        session.holds.entry(id).or_default().extend_from_slice(seats.as_slice());
        let (session_version, price) = (session.version, session.price);
        let priced = |&seat: &Seat| PricedSeat::new(seat, price.amount);
        let name = name.clone();
        let content = Content::Seats(seats.as_slice().iter().map(priced).collect());
        let line = LineView::new(1, Entity::Session(name.clone()), content, false);

        let cart = self.cart(id);
        cart.version += 1;
        cart.lines = vec![line.clone()];
        cart.total = Some(Money { amount: price.amount * seats.len() as i64, currency: price.currency });
        let at = vec![at(Entity::Cart(id), cart.version), at(Entity::Session(name), session_version)];
        let held =
            Held { cart: id, lines: vec![line], currency: price.currency, deadline: deadline(), lines_version: 1 };
        Ok(Answered { answer: Answer::Held(held), at })
    }

    fn check_out(&mut self, id: CartId, payment: Payment, bug: Bug) -> Option<Outcome> {
        let loses = self.misbehaves(bug, Bug::LosesOrders);
        let drops_reply = self.misbehaves(bug, Bug::DropsReplies);
        let overcharges = self.misbehaves(bug, Bug::Overcharges);
        let Some(cart) = self.carts.get_mut(&id) else { return Some(Err(Refusal::CartEmpty)) };
        let (Some(line), Some(mut total)) = (cart.lines.first().cloned(), cart.total) else {
            return Some(Err(Refusal::CartEmpty));
        };
        cart.version += 1;
        cart.state = CartState::Done;
        let cart_version = cart.version;
        let Entity::Session(name) = line.entity.clone() else { unreachable!("a load run sells seats only") };
        let session = self.sessions.get_mut(&name).expect("the line is of a session");
        session.version += 1;
        let seats = session.holds.remove(&id).expect("the cart holds seats");
        if loses {
            self.carts.remove(&id);
            session.taken.retain(|seat, _| !seats.contains(seat));
        } else {
            session.taken.extend(seats.iter().map(|&seat| (seat, SeatState::Sold)));
            self.orders += 1;
            self.seats_sold += seats.len() as u64;
            session.sales.push(SaleView {
                order: id.order(),
                hold: hold_id(id),
                portion: portion(seats),
                at: now(),
                customer: None,
            });
        }
        if drops_reply {
            return None;
        }
        total.amount += i64::from(overcharges);
        let at = vec![at(Entity::Cart(id), cart_version), at(Entity::Session(name), session.version)];
        let order =
            Order { id: id.order(), customer: None, at: now(), lines: vec![line], total, payment, shipping: None };
        let (payment, refunds) = (PaymentStatus::Recorded, Vec::new());
        let answer = Answer::Order { order: Arc::new(order), settling: false, payment, refunds, sessions: Vec::new() };
        Some(Ok(Answered { answer, at }))
    }

    fn audit_session(&self, id: &Id, bug: Bug) -> Outcome {
        let Some(session) = self.sessions.get(id) else { return Err(Refusal::NotFound(id.as_str().into())) };
        let sold: usize = session.sales.iter().map(|sale| sale.portion.quantity() as usize).sum();
        let held: usize = session.holds.values().map(Vec::len).sum();
        let free = (session.layout.seats() as usize).saturating_sub(sold + held) + usize::from(bug == Bug::Miscounts);
        let mut holds: Vec<HoldView> = session
            .holds
            .iter()
            .map(|(&cart, seats)| HoldView {
                hold: hold_id(cart),
                revision: 1,
                deadline: deadline(),
                portion: portion(seats.clone()),
                customer: None,
                since: None,
            })
            .collect();
        holds.sort_unstable_by_key(|hold| hold.hold);
        let audit = SessionAudit {
            session: id.clone(),
            counts: SeatCounts { free: free as u32, held: held as u32, sold: sold as u32, blocked: 0 },
            areas: Vec::new(),
            holds,
            sales: session.sales.clone(),
            violations: Vec::new(),
            holders: Vec::new(),
        };
        Ok(Answered {
            answer: Answer::SessionAudit(audit.into()),
            at: vec![at(Entity::Session(id.clone()), session.version)],
        })
    }

    fn audit_cart(&self, id: CartId) -> Outcome {
        let Some(cart) = self.carts.get(&id) else { return Err(Refusal::NotFound("the cart".into())) };
        let audit = CartAudit {
            cart: cart.view(id),
            holds: Vec::new(),
            payment: None,
            refunds: Vec::new(),
            voids: Vec::new(),
            attempt: None,
            owed: 0,
            violations: Vec::new(),
        };
        Ok(Answered { answer: Answer::CartAudit(audit.into()), at: vec![at(Entity::Cart(id), cart.version)] })
    }

    fn audit(&self) -> NodeAudit {
        NodeAudit {
            sessions: self.sessions.len() as u64,
            sold_seats: self.seats_sold,
            orders: self.orders,
            order_totals: Vec::<CurrencyTotal>::new(),
            ..NodeAudit::default()
        }
    }
}

impl Cart {
    fn view(&self, id: CartId) -> CartView {
        CartView {
            id,
            state: self.state,
            customer: None,
            opened_at: Timestamp(1),
            modified_at: Timestamp(1),
            deadline: deadline(),
            lines: self.lines.clone(),
            lines_version: 0,
            taken: Vec::new(),
            total: self.total,
            order: (self.state == CartState::Done).then(|| id.order()),
            ended: None,
        }
    }
}

/// Serves one connection. It handles all frames that are there before it flushes.
async fn serve(server: Arc<StubServer>, stream: TcpStream) {
    stream.set_nodelay(true).expect("a socket takes its options");
    let mut encoding = Encoding::MsgPack;
    #[expect(clippy::result_large_err, reason = "the library's own type")]
    let upgrade = |request: &Upgrade, mut response: Response| -> Result<Response, ErrorResponse> {
        let wanted = request.headers().get("sec-websocket-protocol").expect("a subprotocol").to_str().expect("a name");
        encoding = Encoding::ALL.into_iter().find(|one| one.subprotocol() == wanted).expect("one of ours");
        response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(encoding.subprotocol()));
        Ok(response)
    };
    let Ok(mut socket) = accept_hdr_async(stream, upgrade).await else { return };
    let mut out = BytesMut::new();
    encode::hello(encoding, &mut out, &hello());
    let message = |frame: BytesMut| match encoding {
        Encoding::MsgPack => Message::Binary(frame.freeze()),
        Encoding::Json => Message::Text(frame.freeze().try_into().expect("JSON is text")),
    };
    if socket.send(message(out)).await.is_err() {
        return;
    }
    while let Some(Ok(first)) = socket.next().await {
        let mut next = Some(first);
        while let Some(frame) = next {
            if let Message::Binary(_) | Message::Text(_) = frame
                && let Some(answer) = server.answer(encoding, &frame.into_data())
                && socket.feed(message(answer)).await.is_err()
            {
                return;
            }
            next = match socket.next().now_or_never() {
                Some(Some(Ok(frame))) => Some(frame),
                Some(_) => return,
                None => None,
            };
        }
        if socket.flush().await.is_err() {
            return;
        }
    }
}

fn at(entity: Entity, version: u64) -> At {
    At { entity, version, position: 0 }
}

fn done() -> Outcome {
    Ok(Answered { answer: Answer::Done, at: Vec::new() })
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp(since.as_millis() as u64)
}

fn deadline() -> Timestamp {
    now().after(TTL_MS)
}

fn hello() -> Hello {
    Hello {
        cluster: "memory".into(),
        node: "n1".into(),
        version: "0".into(),
        protocol: 1,
        minor: 1,
        durability: durability(),
        limits: Limits::default(),
        time: now(),
    }
}

fn durability() -> Durability {
    Durability { replicas: 1, fsync: "never".into() }
}

fn status() -> NodeStatus {
    NodeStatus {
        node: "n1".into(),
        cluster: "memory".into(),
        version: "0".into(),
        uptime_ms: 1,
        durability: durability(),
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

fn hold_id(cart: CartId) -> HoldId {
    HoldId { cart, request: RequestHash(1), part: 0, attempt: 0 }
}

fn portion(seats: Vec<Seat>) -> Portion {
    Portion::Seats(SeatSet::new(seats).expect("a cart has one to twenty seats"))
}

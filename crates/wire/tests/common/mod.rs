//! One sample of every frame: what golden files, round trips and the document are checked against.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::sync::Arc;

use boxoffice_core::{
    answer::{
        Answer, Answered, At, CartAudit, CartState, CartView, HallView, Held, HoldView, LineView, MapView, Order,
        PricedSeat, SaleView, SeatCounts, SessionAudit, SessionEntry, SessionView, VenueView,
    },
    command::{Payment, VenueDetails},
    id::{CartId, CartToken, Entity, HoldId, Id, RequestHash},
    layout::{Labels, Layout, Point, Row, Run},
    money::{Currency, Money},
    refusal::{Refusal, TakenSeat},
    seat::{Seat, SeatState},
    time::Timestamp,
};
use boxoffice_wire::{
    Encoding, Fail, FailKind, Op, Rejection, body, encode,
    encode::Verdict,
    feed::{Delta, Ended, Notice, Snapshot},
    hello::{Durability, Hello, Limits},
    reply,
    request::Shape,
    status::{CurrencyTotal, NodeAudit, NodeStatus, Rates, SeatTotals, ShardStatus},
};
use bytes::BytesMut;
use serde::Serialize;

/// A frame in both encodings.
pub struct Sample {
    pub name: &'static str,
    pub json: String,
    pub msgpack: Vec<u8>,
}

impl Sample {
    pub fn bytes(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Json => self.json.as_bytes(),
            Encoding::MsgPack => &self.msgpack,
        }
    }
}

fn sample(name: &'static str, write: impl Fn(Encoding, &mut BytesMut)) -> Sample {
    let written = |encoding| {
        let mut out = BytesMut::new();
        write(encoding, &mut out);
        out.to_vec()
    };
    let json = String::from_utf8(written(Encoding::Json)).expect("JSON is UTF-8");
    Sample { name, json, msgpack: written(Encoding::MsgPack) }
}

fn request<B: Serialize>(op: Op, rid: Option<&str>, body: &B) -> Sample {
    sample(op.name(), |encoding, out| reply::request(encoding, out, 7, op, rid, Some(2_000), body))
}

pub fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

pub fn seat(row: u16, seat: u16) -> Seat {
    Seat { row, seat }
}

pub fn euro(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("a currency") }
}

pub fn token() -> CartToken {
    CartToken(0x0f1e_2d3c_4b5a_6978_8796_a5b4_c3d2_e1f0)
}

pub fn cart() -> CartId {
    token().cart()
}

pub fn evening() -> Timestamp {
    Timestamp(1_775_995_200_000)
}

pub fn layout() -> Arc<Layout> {
    let run = |gap, count, labels, accessible, points| Run {
        gap,
        count,
        labels,
        category: id("standard"),
        accessible,
        points,
    };
    let rows = vec![
        Row {
            label: "A".into(),
            section: Some(id("stalls")),
            runs: vec![
                run(0, 2, Labels::Numbers { first: 1, step: 1 }, false, Vec::new()),
                run(1, 1, Labels::Numbers { first: 3, step: 1 }, true, Vec::new()),
            ],
        },
        Row {
            label: "B".into(),
            section: None,
            runs: vec![run(
                0,
                2,
                Labels::Names(vec!["left".into(), "right".into()]),
                false,
                vec![Point { x: -50, y: 250 }, Point { x: 50, y: 250 }],
            )],
        },
    ];
    Arc::new(Layout::new(rows, Some(Point { x: 0, y: 0 })).expect("a good layout"))
}

/// A request of every op, as a client writes it.
pub fn requests() -> Vec<Sample> {
    let rid = Some("c1-000042");
    let session = id("hamlet-0412");
    let (only, hamlet) = (body::CartOnly { token: token(), cart: None }, body::Get { id: session.clone() });
    let details = body::VenuePut {
        id: id("globe"),
        name: "The Globe".into(),
        city: "London".into(),
        position: Some(body::Position { lon: -0.0972, lat: 51.5081 }),
        comments: "open roof".into(),
    };
    let hall = body::HallPut { venue: id("globe"), id: id("main"), name: "Main".into(), layout: layout() };
    let create = body::SessionCreate {
        id: session.clone(),
        venue: id("globe"),
        hall: id("main"),
        title: id("hamlet"),
        starts_at: evening(),
        ends_at: evening().after(3 * 60 * 60 * 1000),
        prices: vec![(id("standard"), euro(1_000))],
        hold_ttl_ms: None,
    };
    let search = body::SessionSearch {
        venue: id("globe"),
        title: Some(id("hamlet")),
        hall: None,
        from: Some(evening()),
        to: None,
        limit: Some(2),
        cursor: None,
    };
    let seats = body::SessionSeats { id: session.clone(), seats: vec![seat(0, 0), seat(0, 1)] };
    let open = body::CartOpen { token: token(), cart: Some(cart()), customer: Some(id("ada")), ttl_ms: Some(600_000) };
    let hold = body::HoldSeats {
        token: token(),
        cart: None,
        session: session.clone(),
        seats: vec![seat(1, 5), seat(1, 6), seat(1, 7)],
        best_effort: false,
    };
    let best = body::HoldBest {
        token: token(),
        cart: None,
        session: session.clone(),
        count: 2,
        category: Some(id("standard")),
        section: None,
        accessible: 0,
        split: true,
    };
    let line = |session: &str, seats, count| body::Line {
        session: id(session),
        seats,
        best_effort: false,
        count,
        category: None,
        section: None,
        accessible: 0,
        split: false,
    };
    let all = body::HoldAll {
        token: token(),
        cart: None,
        lines: vec![line("hamlet-0412", Some(vec![seat(1, 5)]), None), line("hamlet-0413", None, Some(1))],
    };
    let release = body::Release { token: token(), cart: None, line: 1, seats: Some(vec![seat(1, 6)]) };
    let paid = body::RecordedPayment { method: "card".into(), transaction_id: "4711".into() };
    let checkout = body::Checkout {
        token: token(),
        cart: None,
        payment: body::PaymentBody { recorded: Some(paid) },
        customer: None,
    };
    let watch =
        body::Watch { entity: Entity::Session(session.clone()), resume: Some(body::Resume { epoch: 1, version: 391 }) };
    let batch = reply::Batch {
        items: vec![
            reply::BatchItem { op: "session.block", rid: Some("i-1".into()), body: &seats },
            reply::BatchItem { op: "session.unblock", rid: Some("i-2".into()), body: &seats },
        ],
    };
    vec![
        request(Op::Hello, None, &body::ClientHello { client: "box office 3".into(), token: None }),
        request(Op::VenuePut, rid, &details),
        request(Op::VenueGet, None, &body::Get { id: id("globe") }),
        request(Op::HallPut, rid, &hall),
        request(Op::HallGet, None, &body::HallGet { venue: id("globe"), id: id("main") }),
        request(Op::SessionCreate, rid, &create),
        request(Op::SessionGet, None, &hamlet),
        request(Op::SessionSearch, None, &search),
        request(Op::SessionMap, None, &body::SessionMap { id: session, view: Some("2,1,0".into()) }),
        request(Op::SessionBlock, rid, &seats),
        request(Op::SessionUnblock, rid, &seats),
        request(Op::CartOpen, rid, &open),
        request(Op::CartGet, None, &only),
        request(Op::CartHoldSeats, rid, &hold),
        request(Op::CartHoldBest, rid, &best),
        request(Op::CartHoldAll, rid, &all),
        request(Op::CartRelease, rid, &release),
        request(Op::CartCancel, rid, &only),
        request(Op::CartCheckout, rid, &checkout),
        request(Op::OrderGet, None, &body::OrderGet { order: cart().order() }),
        request(Op::Watch, None, &watch),
        request(Op::Unwatch, None, &body::Unwatch { feed: 3 }),
        request(Op::Batch, None, &batch),
        request(Op::AdminStatus, None, &body::Empty {}),
        request(Op::AdminAudit, None, &body::Audit { entity: Some(Entity::Cart(cart())) }),
    ]
}

pub fn counts() -> SeatCounts {
    SeatCounts { free: 2, held: 1, sold: 1, blocked: 1 }
}

/// Five seats: free, held, sold, blocked, free.
pub fn packed() -> Vec<u8> {
    vec![0b11_10_01_00, 0b00]
}

pub fn line() -> LineView {
    let priced = |number| PricedSeat { seat: seat(1, number), price: 1_000 };
    LineView { line: 1, session: id("hamlet-0412"), seats: vec![priced(5), priced(6), priced(7)] }
}

pub fn venue_view() -> VenueView {
    let details = VenueDetails {
        name: "The Globe".into(),
        city: "London".into(),
        position: Some((-97_200, 51_508_100)),
        comments: "open roof".into(),
    };
    VenueView { id: id("globe"), details, halls: vec![(id("main"), "Main".into(), 5)] }
}

pub fn hall_view() -> HallView {
    HallView { venue: id("globe"), id: id("main"), name: "Main".into(), layout: layout() }
}

pub fn session_view() -> SessionView {
    SessionView {
        id: id("hamlet-0412"),
        venue: id("globe"),
        hall: id("main"),
        title: id("hamlet"),
        starts_at: evening(),
        ends_at: evening().after(3 * 60 * 60 * 1000),
        prices: vec![(id("standard"), euro(1_000))],
        hold_ttl_ms: Some(600_000),
        counts: counts(),
        layout: layout(),
    }
}

pub fn session_entry() -> SessionEntry {
    SessionEntry {
        id: id("hamlet-0412"),
        hall: id("main"),
        title: id("hamlet"),
        starts_at: evening(),
        ends_at: evening().after(3 * 60 * 60 * 1000),
        open: true,
    }
}

pub fn map_view() -> MapView {
    MapView { session: id("hamlet-0412"), epoch: 1, version: 391, counts: counts(), seats: packed() }
}

pub fn cart_view() -> CartView {
    CartView {
        id: cart(),
        state: CartState::CheckingOut,
        customer: Some(id("ada")),
        opened_at: evening(),
        deadline: evening().after(1_800_000),
        lines: vec![line()],
        total: Some(euro(3_000)),
        order: Some(cart().order()),
    }
}

pub fn empty_cart_view() -> CartView {
    CartView {
        id: cart(),
        state: CartState::Active,
        customer: None,
        opened_at: evening(),
        deadline: evening().after(1_800_000),
        lines: Vec::new(),
        total: None,
        order: None,
    }
}

pub fn held() -> Held {
    Held { cart: cart(), lines: vec![line()], currency: euro(0).currency, deadline: evening().after(1_800_000) }
}

pub fn order() -> Arc<Order> {
    Arc::new(Order {
        id: cart().order(),
        customer: Some(id("ada")),
        at: evening(),
        lines: vec![line()],
        total: euro(3_000),
        payment: Payment::Recorded { method: "card".into(), transaction_id: "4711".into() },
    })
}

pub fn hold_id() -> HoldId {
    HoldId { cart: cart(), request: RequestHash::of("c1-000042"), part: 0, attempt: 1 }
}

pub fn session_audit() -> SessionAudit {
    let hold = HoldView { hold: hold_id(), revision: 2, deadline: evening(), seats: vec![seat(1, 5)] };
    let sale = SaleView { order: cart().order(), seats: vec![seat(1, 6)], at: evening() };
    SessionAudit {
        session: id("hamlet-0412"),
        counts: counts(),
        holds: vec![hold],
        sales: vec![sale],
        violations: vec!["seat 3 is held twice".into()],
    }
}

pub fn cart_audit() -> CartAudit {
    let holds = vec![(id("hamlet-0412"), hold_id(), 2, vec![seat(1, 5)])];
    CartAudit { cart: cart_view(), holds, owed: 1, violations: Vec::new() }
}

pub fn at() -> Vec<At> {
    vec![
        At { entity: Entity::Cart(cart()), version: 2, position: 88_214 },
        At { entity: Entity::Session(id("hamlet-0412")), version: 391, position: 88_213 },
    ]
}

pub fn status() -> NodeStatus {
    NodeStatus {
        node: "n1".into(),
        cluster: "c0ffee".into(),
        version: "0.1.0".into(),
        uptime_ms: 12_000,
        durability: Durability { replicas: 1, fsync: "always".into() },
        state: "ready".into(),
        shards: vec![ShardStatus { shard: 0, role: "leader".into(), term: 3, applied: 88_214, entities: 12 }],
        connections: 4,
        watchers: 2,
        under_way: 17,
        actors: 9,
        rates: Rates { requests: 1_000.5, ok: 990.0, ..Rates::default() },
    }
}

pub fn node_audit() -> NodeAudit {
    NodeAudit {
        venues: 1,
        sessions: 2,
        seats: SeatTotals { free: 10, held: 2, sold: 3, blocked: 1 },
        order_totals: vec![CurrencyTotal { currency: euro(0).currency, orders: 1, amount: 3_000 }],
        violations: vec!["a sale without an order".into()],
        ..NodeAudit::default()
    }
}

pub fn hello() -> Hello {
    Hello {
        cluster: "c0ffee".into(),
        node: "n1".into(),
        version: "0.1.0".into(),
        protocol: 1,
        durability: Durability { replicas: 1, fsync: "always".into() },
        limits: Limits::default(),
        time: evening(),
    }
}

pub fn snapshot() -> Snapshot {
    let entity = Entity::Session(id("hamlet-0412"));
    Snapshot { entity, epoch: 1, version: 391, counts: counts(), seats: packed() }
}

pub fn delta() -> Delta {
    let changes = vec![(0, SeatState::Held), (4, SeatState::Held)];
    Delta { from: 391, to: 392, changes, counts: SeatCounts { free: 0, held: 3, ..counts() } }
}

fn answer(name: &'static str, answer: Answer, shape: Shape) -> Sample {
    let outcome = Ok(Answered { answer, at: at() });
    sample(name, move |encoding, out| encode::outcome(encoding, out, 7, &outcome, shape))
}

fn no(refusal: Refusal) -> Sample {
    let (name, outcome) = (refusal.name(), Err(refusal));
    sample(name, move |encoding, out| encode::outcome(encoding, out, 7, &outcome, Shape::Plain))
}

/// Every refusal of the core, with details where it has some.
pub fn refusals() -> Vec<Refusal> {
    let taken = || {
        vec![
            TakenSeat { seat: seat(1, 5), state: SeatState::Held },
            TakenSeat { seat: seat(1, 7), state: SeatState::Sold },
        ]
    };
    vec![
        Refusal::BadRequest("`seats` is empty".into()),
        Refusal::RequestIdMissing,
        Refusal::RequestIdReused,
        Refusal::InProgress,
        Refusal::Forbidden("not an operator".into()),
        Refusal::SeatsTaken(taken()),
        Refusal::NoSuchSeat(vec![seat(9, 9)]),
        Refusal::DuplicateSeat(vec![seat(1, 5)]),
        Refusal::SeatBlocked(taken()),
        Refusal::NoAdjacentSeats { count: 4, free: 9 },
        Refusal::SessionClosed("not open yet".into()),
        Refusal::HallOccupied(id("hamlet-0411")),
        Refusal::CartNotActive("done".into()),
        Refusal::CartExpired,
        Refusal::NoSuchLine(3),
        Refusal::CartEmpty,
        Refusal::NotYourCart,
        Refusal::TooManyLines(50),
        Refusal::HoldAgeExceeded,
        Refusal::NotFound("session hamlet-0412".into()),
        Refusal::AlreadyExistsDifferently("session hamlet-0412".into()),
    ]
}

/// Every refusal of the door.
pub fn rejections() -> Vec<Rejection> {
    vec![
        Rejection::UnknownOp("cart.steal".into()),
        Rejection::TooLarge("at most 20 seats at once".into()),
        Rejection::Unauthenticated("the token is not known".into()),
        Rejection::RateLimited("at most 256 under way".into()),
        Rejection::UnsupportedVersion("2".into()),
    ]
}

/// Every frame a server sends.
pub fn server_frames() -> Vec<Sample> {
    let sessions = || vec![session_entry(), session_entry()];
    let mut frames = vec![
        sample("hello", |encoding, out| encode::hello(encoding, out, &hello())),
        answer("ok done", Answer::Done, Shape::Plain),
        answer("ok venue", Answer::Venue(venue_view()), Shape::Plain),
        answer("ok hall", Answer::Hall(hall_view()), Shape::Plain),
        answer("ok session", Answer::Session(Arc::new(session_view())), Shape::Plain),
        answer("ok sessions, full page", Answer::Sessions(sessions()), Shape::Page { limit: 2 }),
        answer("ok sessions, last page", Answer::Sessions(sessions()), Shape::Page { limit: 3 }),
        answer("ok map", Answer::Map(map_view()), Shape::Plain),
        answer("ok map 2,1,0", Answer::Map(map_view()), Shape::ThreeStates),
        answer("ok cart", Answer::Cart(cart_view()), Shape::Plain),
        answer("ok cart, empty", Answer::Cart(empty_cart_view()), Shape::Plain),
        answer("ok held", Answer::Held(held()), Shape::Plain),
        answer("ok order", Answer::Order { order: order(), settling: true }, Shape::Plain),
        answer("ok session audit", Answer::SessionAudit(session_audit()), Shape::Plain),
        answer("ok cart audit", Answer::CartAudit(cart_audit()), Shape::Plain),
        sample("ok watching", |encoding, out| encode::watching(encoding, out, 7, 3)),
        sample("ok unwatch, hello", |encoding, out| encode::done(encoding, out, 7)),
        sample("ok status", |encoding, out| encode::status(encoding, out, 7, &status())),
        sample("ok node audit", |encoding, out| encode::audit(encoding, out, 7, &node_audit())),
        sample("ok batch", |encoding, out| {
            let verdicts = [
                Verdict::Ok(Answered { answer: Answer::Done, at: at() }, Shape::Plain),
                Verdict::No(Refusal::CartExpired),
                Verdict::Rejected(Rejection::UnknownOp("cart.steal".into())),
                Verdict::Fail(Fail::new(FailKind::Busy)),
            ];
            encode::batch(encoding, out, 7, &verdicts);
        }),
        sample("no without id", |encoding, out| {
            encode::rejection(encoding, out, None, &Rejection::bad_request("a map was expected"));
        }),
        sample("snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &snapshot())),
        sample("delta", |encoding, out| encode::delta(encoding, out, 3, &delta())),
        sample("ended", |encoding, out| encode::ended(encoding, out, 3, &Ended { name: "not_found".into() })),
        sample("notice", |encoding, out| {
            encode::notice(encoding, out, &Notice { name: "draining".into(), reconnect_ms: Some(1_500) });
        }),
    ];
    frames.extend(refusals().into_iter().map(no));
    frames.extend(
        rejections()
            .into_iter()
            .map(|why| sample(why.name(), move |encoding, out| encode::rejection(encoding, out, Some(7), &why))),
    );
    frames.extend(
        FailKind::ALL
            .into_iter()
            .map(|kind| sample(kind.name(), move |encoding, out| encode::fail(encoding, out, 7, &Fail::new(kind)))),
    );
    frames
}

//! One sample of every frame: what golden files, round trips and the document are checked against.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::sync::Arc;

use boxoffice_core::{
    answer::{
        Answer, Answered, AreaCounts, At, BookingState, BookingView, CartAudit, CartState, CartView, Claim,
        CustomerAudit, HallView, Held, HoldView, LineView, MapView, Order, PricedSeat, ProductAudit, ProductView,
        Purchase, PurchasesPage, ResourceAudit, ResourceView, SaleView, SeatCounts, SessionAudit, SessionEntry,
        SessionView, StockCounts, TitleView, VenueEntry, VenueView, VenuesPage,
    },
    command::{
        Area, CustomerLimit, Every, HoldPolicy, Limits as Quotas, NewSession, OpeningHours, Payment, ProductDetails,
        Rate, Repeat, ResourceDetails, Shipping, Title, Until, VenueDetails, When,
    },
    id::{CartId, CartToken, Entity, HoldId, Id, RequestHash},
    layout::{Labels, Layout, Point, Row, Run},
    money::{Currency, Money},
    payment::{OnDecline, PaymentStatus, RefundRecord, RefundStatus, Settlement, VoidRecord, VoidStatus},
    portion::{Content, Portion},
    refusal::{Conflict, LineRefusal, Refusal, Shortage, TakenSeat},
    seat::{Seat, SeatSet, SeatState},
    time::Timestamp,
};
use boxoffice_wire::{
    Encoding, Fail, FailKind, Op, Rejection, body,
    city::CityPage,
    encode,
    encode::Verdict,
    feed::{
        CartDelta, CartSnapshot, Delta, Ended, Notice, ProductDelta, ProductSnapshot, PurchasesDelta,
        PurchasesSnapshot, ResourceDelta, ResourceSnapshot, Snapshot,
    },
    hello::{Durability, Hello, Limits},
    reply,
    request::{CitySearch, Shape},
    status::{
        CurrencyTotal, HistoryEntry, HistoryPage, NodeAudit, NodeStatus, PaymentTotals, Rates, SeatTotals, ShardStatus,
        UnitTotals,
    },
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
    let hall = body::HallPut { venue: id("globe"), id: id("main"), name: "Main".into(), layout: layout() };
    let create = NewSession {
        id: session.clone(),
        hall: id("main"),
        title: id("hamlet"),
        starts_at: evening(),
        ends_at: evening().after(3 * HOUR),
        prices: vec![(id("standard"), euro(1_000))],
        areas: vec![yard()],
        hold_ttl_ms: None,
        limits: quotas(),
    };
    let search = body::SessionSearch {
        venue: Some(id("globe")),
        title: Some(id("hamlet")),
        from: Some(evening()),
        limit: Some(2),
        ..body::SessionSearch::default()
    };
    let venues = body::VenueSearch {
        city: Some("London".into()),
        near: Some(body::Position { lon: -0.1, lat: 51.5 }),
        limit: Some(2),
        ..body::VenueSearch::default()
    };
    let titles = body::TitleSearch { name: Some("ham".into()), limit: Some(2), cursor: Some("hamlet/Hamlet".into()) };
    let canceled = body::SessionCancel { id: session.clone(), reason: "the roof leaks".into() };
    let (begin, end) = (evening(), evening().after(HOUR));
    let wall = When::Local { begin: "2026-03-29T10:00".into(), end: "2026-03-29T11:30".into() };
    let weekly = Repeat { every: Every::Week(vec![1, 3]), interval: 2, until: Until::Count(10) };
    let room = || id("room-5");
    let reserve = body::ResourceReserve::new(room(), id("choir"), wall, Some(weekly), "with a piano".into());
    let moved = body::ResourceMove::new(room(), id("choir"), When::Utc { begin, end });
    let asked = body::ResourceIsAvailable::new(room(), When::Utc { begin, end });
    let end_choir = body::ResourceCancel { resource: room(), booking: id("choir"), series: true };
    let bookings = body::ResourceBookings { resource: room(), from: begin, to: end, limit: Some(2), cursor: None };
    let free = body::ResourceFreeSlots { resource: room(), from: begin, to: end, length_ms: 1_800_000, count: Some(2) };
    let seats = body::SessionSeats { id: session.clone(), seats: vec![seat(0, 0), seat(0, 1)] };
    let open = body::CartOpen { token: token(), cart: Some(cart()), customer: Some(id("ada")), ttl_ms: Some(600_000) };
    let hold = body::HoldSeats {
        token: token(),
        cart: None,
        customer: None,
        session: session.clone(),
        seats: vec![seat(1, 5), seat(1, 6), seat(1, 7)],
        best_effort: false,
    };
    let best = body::HoldBest {
        token: token(),
        cart: None,
        customer: None,
        session: session.clone(),
        count: 2,
        category: Some(id("standard")),
        section: None,
        accessible: 0,
        split: true,
    };
    let places = body::HoldPlaces {
        token: token(),
        cart: None,
        customer: Some(id("ada")),
        session: session.clone(),
        area: id("yard"),
        quantity: 4.into(),
    };
    let stock =
        body::HoldStock { token: token(), cart: None, customer: None, product: id("programme"), quantity: 2.into() };
    let slot = body::HoldSlot { token: token(), cart: None, customer: None, resource: room(), begin, end };
    let line = |session: &str| body::Line { session: Some(id(session)), ..body::Line::default() };
    let lines = vec![
        body::Line { seats: Some(vec![seat(1, 5)]), ..line("hamlet-0412") },
        body::Line { count: Some(1), ..line("hamlet-0413") },
        body::Line { area: Some(id("yard")), quantity: Some(4.into()), ..line("hamlet-0413") },
        body::Line { product: Some(id("programme")), quantity: Some(2.into()), ..body::Line::default() },
        body::Line { resource: Some(room()), begin: Some(begin), end: Some(end), ..body::Line::default() },
    ];
    let all = body::HoldAll { token: token(), cart: None, customer: None, lines };
    let quantity = body::SetQuantity { token: token(), cart: None, line: 4, quantity: 3.into() };
    let release = body::Release { token: token(), cart: None, line: 1, seats: Some(vec![seat(1, 6)]) };
    let paid = body::RecordedPayment { method: "card".into(), transaction_id: "4711".into() };
    let checkout = body::Checkout {
        token: token(),
        cart: None,
        payment: body::PaymentBody { recorded: Some(paid), gateway: None },
        customer: None,
        shipping: Some(shipping().into()),
    };
    let refund = body::OrderRefund { order: cart().order(), lines: Some(vec![1, 2]), reason: "the roof leaks".into() };
    let purchases = body::CustomerPurchases { customer: id("ada"), cursor: Some(2), limit: Some(10) };
    let resume = body::ResumeBody::version(body::Resume { epoch: 1, version: 391 });
    let watch = body::Watch { entity: Entity::Session(session.clone()), token: None, resume: Some(resume) };
    let history = body::History {
        entity: Entity::Session(session.clone()),
        seat: Some(seat(1, 5)),
        limit: Some(2),
        before: Some(390),
    };
    let authorized = Settlement::Authorized { reference: "au-7".into() };
    let batch = reply::Batch {
        items: vec![
            reply::BatchItem { op: "session.block", rid: Some("i-1".into()), body: &seats },
            reply::BatchItem { op: "session.unblock", rid: Some("i-2".into()), body: &seats },
        ],
    };
    let get = |name: &str| body::Get { id: id(name) };
    vec![
        request(Op::Hello, None, &body::ClientHello { client: "box office 3".into(), token: None }),
        request(Op::VenuePut, rid, &body::VenuePut::new(id("globe"), venue_view().details)),
        request(Op::VenueGet, None, &get("globe")),
        request(Op::VenueSearch, None, &venues),
        request(Op::HallPut, rid, &hall),
        request(Op::HallGet, None, &body::HallGet { venue: id("globe"), id: id("main") }),
        request(Op::TitlePut, rid, &body::TitlePut::new(id("hamlet"), title_view().title)),
        request(Op::TitleGet, None, &get("hamlet")),
        request(Op::TitleSearch, None, &titles),
        request(Op::SessionCreate, rid, &body::SessionCreate::new(id("globe"), create)),
        request(Op::SessionGet, None, &hamlet),
        request(Op::SessionSearch, None, &search),
        request(Op::SessionMap, None, &body::SessionMap { id: session, view: Some("2,1,0".into()) }),
        request(Op::SessionBlock, rid, &seats),
        request(Op::SessionUnblock, rid, &seats),
        request(Op::SessionCancel, rid, &canceled),
        request(Op::ProductPut, rid, &body::ProductPut::new(id("programme"), product_view().details)),
        request(Op::ProductGet, None, &get("programme")),
        request(Op::ResourcePut, rid, &body::ResourcePut::new(room(), resource_view().details)),
        request(Op::ResourceGet, None, &get("room-5")),
        request(Op::ResourceReserve, rid, &reserve),
        request(Op::ResourceCancel, rid, &end_choir),
        request(Op::ResourceMove, rid, &moved),
        request(Op::ResourceIsAvailable, None, &asked),
        request(Op::ResourceBookings, None, &bookings),
        request(Op::ResourceFreeSlots, None, &free),
        request(Op::CartOpen, rid, &open),
        request(Op::CartGet, None, &only),
        request(Op::CartHoldSeats, rid, &hold),
        request(Op::CartHoldBest, rid, &best),
        request(Op::CartHoldPlaces, rid, &places),
        request(Op::CartHoldStock, rid, &stock),
        request(Op::CartHoldSlot, rid, &slot),
        request(Op::CartHoldAll, rid, &all),
        request(Op::CartSetQuantity, rid, &quantity),
        request(Op::CartRelease, rid, &release),
        request(Op::CartCancel, rid, &only),
        request(Op::CartCheckout, rid, &checkout),
        request(Op::OrderGet, None, &body::OrderGet { order: cart().order() }),
        request(Op::OrderRefund, rid, &refund),
        request(Op::CustomerPurchases, None, &purchases),
        request(Op::Watch, None, &watch),
        request(Op::Unwatch, None, &body::Unwatch { feed: 3 }),
        request(Op::Batch, None, &batch),
        request(Op::AdminStatus, None, &body::Empty {}),
        request(Op::AdminAudit, None, &body::Audit { entity: Some(Entity::Cart(cart())) }),
        request(Op::AdminHistory, None, &history),
        request(Op::AdminRelease, rid, &body::AdminRelease { cart: cart(), line: 1 }),
        request(Op::AdminSettle, rid, &body::AdminSettle::new(cart(), 1, authorized)),
    ]
}

/// Requests in another shape than those of [`requests`]; the document shows some.
pub fn other_requests() -> Vec<Sample> {
    let rid = Some("c1-000042");
    let gateway = body::GatewayPayment { source: "tok_visa".into(), on_decline: Some(OnDecline::Keep) };
    let through_gateway = body::Checkout {
        token: token(),
        cart: None,
        payment: body::PaymentBody { recorded: None, gateway: Some(gateway) },
        customer: Some(id("ada")),
        shipping: None,
    };
    let city = body::SessionSearch { city: Some("London".into()), ..body::SessionSearch::default() };
    let watch = |entity, token, resume| body::Watch { entity, token, resume };
    let once = When::Utc { begin: evening(), end: evening().after(HOUR) };
    let reserve = body::ResourceReserve::new(id("room-5"), id("talk"), once, None, "".into());
    let until = Repeat { every: Every::Month, interval: 1, until: Until::Date("2026-12-31".into()) };
    let once = When::Utc { begin: evening(), end: evening().after(HOUR) };
    let monthly = body::ResourceReserve::new(id("room-5"), id("club"), once, Some(until), "".into());
    vec![
        request(Op::CartCheckout, rid, &through_gateway),
        request(Op::SessionSearch, None, &city),
        request(Op::Watch, None, &watch(Entity::Product(id("programme")), None, None)),
        request(Op::Watch, None, &watch(Entity::Resource(id("room-5")), None, None)),
        request(Op::Watch, None, &watch(Entity::Cart(cart()), Some(token()), None)),
        request(Op::Watch, None, &watch(Entity::Customer(id("ada")), None, Some(body::ResumeBody::cursor(2)))),
        request(Op::ResourceReserve, rid, &reserve),
        request(Op::ResourceReserve, rid, &monthly),
        request(Op::AdminAudit, None, &body::Audit { entity: None }),
        request(Op::AdminSettle, rid, &body::AdminSettle::new(cart(), 1, Settlement::Declined)),
        request(Op::AdminSettle, rid, &body::AdminSettle::new(cart(), 1, Settlement::Captured)),
        request(Op::AdminSettle, rid, &body::AdminSettle::new(cart(), 2, Settlement::Voided)),
        request(Op::AdminSettle, rid, &body::AdminSettle::new(cart(), 1, Settlement::Refunded { refund: 2 })),
    ]
}

/// Milliseconds of an hour.
const HOUR: u64 = 60 * 60 * 1000;

pub fn yard() -> Area {
    Area { id: id("yard"), name: "Yard".into(), capacity: 500, price: euro(500) }
}

pub fn area_counts() -> AreaCounts {
    AreaCounts { area: id("yard"), free: 400, held: 40, sold: 60 }
}

pub fn quotas() -> Quotas {
    Quotas { per_order: Some(8), per_customer: Some(CustomerLimit { quota: id("hamlet"), max: 12 }) }
}

pub fn shipping() -> Shipping {
    Shipping { recipient: "Ada".into(), address: "12 St James's Square".into(), method: "post".into() }
}

pub fn title_view() -> TitleView {
    let title = Title {
        name: "Hamlet".into(),
        director: "Kit".into(),
        cast: vec!["Will".into(), "Ann".into()],
        comments: "in four hours".into(),
        duration_ms: Some(4 * HOUR),
    };
    TitleView { id: id("hamlet"), title }
}

pub fn venues_page() -> VenuesPage {
    let venue = VenueEntry {
        id: id("globe"),
        name: "The Globe".into(),
        city: "London".into(),
        position: Some((-97_200, 51_508_100)),
        distance_m: Some(912),
    };
    VenuesPage { venues: vec![venue], next: Some("912/globe".into()) }
}

pub fn stock_counts() -> StockCounts {
    StockCounts { free: 7, held: 2, sold: 1 }
}

pub fn product_view() -> ProductView {
    let details = ProductDetails {
        name: "Programme".into(),
        properties: vec![("colour".into(), "red".into()), ("pages".into(), "40".into())],
        blob: vec![0, 1, 254, 255],
        price: euro(350),
        stock: 10,
        hold: HoldPolicy::AtCheckout,
        hold_ttl_ms: Some(600_000),
        limits: quotas(),
    };
    ProductView { id: id("programme"), details, counts: stock_counts() }
}

pub fn resource_view() -> ResourceView {
    let day = || vec![(540, 720), (780, 1_080)];
    let details = ResourceDetails {
        name: "Room 5".into(),
        properties: vec![("floor".into(), "2".into())],
        capacity: 1,
        zone: "Europe/London".into(),
        hours: Some(OpeningHours {
            week: [day(), day(), day(), day(), day(), vec![(600, 720)], Vec::new()],
            exceptions: vec![("2026-12-24".into(), vec![(540, 720)]), ("2026-12-25".into(), Vec::new())],
        }),
        before_ms: 0,
        after_ms: 900_000,
        notice_ms: HOUR,
        horizon_ms: Some(90 * 24 * HOUR),
        rate: Rate { amount: 2_000, currency: euro(0).currency, per_ms: Some(HOUR) },
        hold_ttl_ms: None,
        limits: Quotas::default(),
    };
    ResourceView { id: id("room-5"), details, bookings: 3 }
}

pub fn booking_view() -> BookingView {
    BookingView {
        booking: "choir".into(),
        begin: evening(),
        end: evening().after(HOUR),
        state: BookingState::Reserved,
        details: "with a piano".into(),
        order: None,
    }
}

pub fn sold_booking() -> BookingView {
    let (state, order) = (BookingState::Sold, Some(cart().order()));
    BookingView { booking: "cart-1".into(), state, details: "".into(), order, ..booking_view() }
}

pub fn conflict() -> Conflict {
    Conflict { begin: evening(), end: evening().after(HOUR), why: "booking choir".into() }
}

pub fn purchase() -> Purchase {
    Purchase { cursor: 3, order: cart().order(), at: evening(), total: euro(3_000) }
}

pub fn purchases_page() -> PurchasesPage {
    PurchasesPage { purchases: vec![purchase()], newest: 4 }
}

pub fn refund() -> RefundRecord {
    RefundRecord {
        number: 1,
        at: evening(),
        lines: vec![1, 2],
        amount: euro(3_000),
        reason: "the roof leaks".into(),
        status: RefundStatus::Failed { reason: "the account is closed".into() },
    }
}

pub fn city_page() -> CityPage {
    let search = CitySearch {
        city: "London".into(),
        title: None,
        from: Timestamp(0),
        to: evening().after(HOUR),
        limit: 1,
        after: None,
    };
    CityPage::new(&search, [(id("globe"), vec![session_entry()])])
}

pub fn history_page() -> HistoryPage {
    let entry = HistoryEntry {
        position: 88_213,
        version: 391,
        at: evening(),
        event: "held".into(),
        details: "by cart 1892ba91625a7bb986fa704738a54551".into(),
    };
    let entity = Entity::Session(id("hamlet-0412"));
    HistoryPage { entity, entries: vec![entry], cursor: Some(391), complete: false }
}

/// A line of every kind.
pub fn lines() -> Vec<LineView> {
    let (begin, end) = (evening(), evening().after(HOUR));
    let line = |line, entity, content, late| LineView { line, entity, content, late };
    let places = Content::Places { area: id("yard"), quantity: 4, price: 500 };
    vec![
        self::line(),
        line(2, Entity::Session(id("hamlet-0412")), places, false),
        line(3, Entity::Product(id("programme")), Content::Units { quantity: 2, price: 350 }, true),
        line(4, Entity::Resource(id("room-5")), Content::Slot { begin, end, price: 2_000 }, false),
    ]
}

/// A portion of every kind.
pub fn portions() -> Vec<Portion> {
    vec![
        Portion::Seats(SeatSet::new([seat(1, 5)]).expect("a seat")),
        Portion::Places { area: id("yard"), quantity: 4 },
        Portion::Units(2),
        Portion::Slot { begin: evening(), end: evening().after(HOUR) },
        Portion::Quota { quota: id("hamlet"), count: 3 },
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
    let content = Content::Seats(vec![priced(5), priced(6), priced(7)]);
    LineView { line: 1, entity: Entity::Session(id("hamlet-0412")), content, late: false }
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
        areas: Vec::new(),
        hold_ttl_ms: Some(600_000),
        limits: Quotas::default(),
        canceled: None,
        counts: counts(),
        area_counts: Vec::new(),
        layout: layout(),
    }
}

/// A session with an area, limits, and an end.
pub fn canceled_session_view() -> SessionView {
    SessionView {
        areas: vec![yard()],
        area_counts: vec![area_counts()],
        limits: quotas(),
        canceled: Some("the roof leaks".into()),
        ..session_view()
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
    MapView { session: id("hamlet-0412"), epoch: 1, version: 391, counts: counts(), areas: Vec::new(), seats: packed() }
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
        shipping: None,
    })
}

/// An order of everything, paid through the gateway.
pub fn long_order() -> Arc<Order> {
    Arc::new(Order {
        lines: lines(),
        total: euro(7_700),
        payment: Payment::Gateway { source: "".into(), on_decline: Some(OnDecline::Release) },
        shipping: Some(shipping()),
        ..(*order()).clone()
    })
}

pub fn hold_id() -> HoldId {
    HoldId { cart: cart(), request: RequestHash::of("c1-000042"), part: 0, attempt: 1 }
}

/// A hold of every kind.
pub fn hold_views() -> Vec<HoldView> {
    let hold = |portion| HoldView { hold: hold_id(), revision: 2, deadline: evening(), portion };
    portions().into_iter().map(hold).collect()
}

/// A sale of every kind.
pub fn sale_views() -> Vec<SaleView> {
    let sale = |portion| SaleView { order: cart().order(), hold: hold_id(), portion, at: evening() };
    portions().into_iter().map(sale).collect()
}

pub fn session_audit() -> SessionAudit {
    SessionAudit {
        session: id("hamlet-0412"),
        counts: counts(),
        areas: vec![area_counts()],
        holds: hold_views()[..2].to_vec(),
        sales: sale_views()[..2].to_vec(),
        violations: vec!["seat 3 is held twice".into()],
    }
}

pub fn cart_audit() -> CartAudit {
    let entities = [
        Entity::Session(id("hamlet-0412")),
        Entity::Session(id("hamlet-0412")),
        Entity::Product(id("programme")),
        Entity::Resource(id("room-5")),
        Entity::Customer(id("ada")),
    ];
    let claim = |(portion, entity)| Claim { line: 1, entity, hold: hold_id(), revision: 2, portion: Some(portion) };
    let mut holds: Vec<Claim> = portions().into_iter().zip(entities).map(claim).collect();
    holds.push(Claim { portion: None, ..holds[0].clone() });
    CartAudit {
        cart: cart_view(),
        holds,
        payment: Some(PaymentStatus::Captured),
        refunds: vec![refund()],
        voids: vec![
            VoidRecord { attempt: 1, status: VoidStatus::Failed { reason: "it is closed".into() } },
            VoidRecord { attempt: 2, status: VoidStatus::Voided },
            VoidRecord { attempt: 3, status: VoidStatus::Pending },
        ],
        owed: 1,
        violations: Vec::new(),
    }
}

pub fn product_audit() -> ProductAudit {
    ProductAudit {
        product: id("programme"),
        counts: stock_counts(),
        holds: hold_views()[2..3].to_vec(),
        sales: sale_views()[2..3].to_vec(),
        violations: Vec::new(),
    }
}

pub fn resource_audit() -> ResourceAudit {
    ResourceAudit {
        resource: id("room-5"),
        bookings: 3,
        holds: hold_views()[3..4].to_vec(),
        sales: sale_views()[3..4].to_vec(),
        violations: Vec::new(),
    }
}

pub fn customer_audit() -> CustomerAudit {
    CustomerAudit {
        customer: id("ada"),
        quotas: vec![(id("hamlet"), 3, 4)],
        holds: hold_views()[4..].to_vec(),
        sales: sale_views()[4..].to_vec(),
        purchases: vec![cart().order()],
        violations: Vec::new(),
    }
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
        carts_archived: 120,
        payments_pending: 1,
        payments_failed: 2,
        rates: Rates { requests: 1_000.5, ok: 990.0, ..Rates::default() },
    }
}

pub fn node_audit() -> NodeAudit {
    NodeAudit {
        venues: 1,
        sessions: 2,
        seats: SeatTotals { free: 10, held: 2, sold: 3, blocked: 1 },
        areas: UnitTotals { free: 400, held: 40, sold: 60 },
        stock: UnitTotals { free: 7, held: 2, sold: 1 },
        payments: PaymentTotals { recorded: 1, ..PaymentTotals::default() },
        payments_pending: 3,
        payments_failed: 1,
        failed_keys: vec!["000000000000000000000000000000ab-1-void".into()],
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
    Snapshot { entity, epoch: 1, version: 391, counts: counts(), areas: Vec::new(), seats: packed() }
}

pub fn delta() -> Delta {
    let changes = vec![(0, SeatState::Held), (4, SeatState::Held)];
    Delta { from: 391, to: 392, changes, counts: SeatCounts { free: 0, held: 3, ..counts() }, areas: Vec::new() }
}

pub fn area_snapshot() -> Snapshot {
    Snapshot { areas: vec![area_counts()], ..snapshot() }
}

pub fn area_delta() -> Delta {
    Delta { changes: Vec::new(), counts: counts(), areas: vec![area_counts()], ..delta() }
}

pub fn product_snapshot() -> ProductSnapshot {
    ProductSnapshot { entity: Entity::Product(id("programme")), epoch: 1, version: 12, counts: stock_counts() }
}

pub fn product_delta() -> ProductDelta {
    ProductDelta { from: 12, to: 13, counts: StockCounts { free: 6, held: 3, sold: 1 } }
}

pub fn resource_snapshot() -> ResourceSnapshot {
    ResourceSnapshot { entity: Entity::Resource(id("room-5")), epoch: 1, version: 7, bookings: 3 }
}

pub fn resource_delta() -> ResourceDelta {
    ResourceDelta { from: 7, to: 8, days: vec![20_555, 20_556], bookings: 4 }
}

pub fn cart_snapshot() -> CartSnapshot {
    CartSnapshot { entity: Entity::Cart(cart()), epoch: 1, version: 2, cart: empty_cart_view() }
}

pub fn cart_delta() -> CartDelta {
    CartDelta { from: 2, to: 3, cart: cart_view() }
}

pub fn purchases_snapshot() -> PurchasesSnapshot {
    PurchasesSnapshot { entity: Entity::Customer(id("ada")), from: 2, to: 3, purchases: vec![purchase()] }
}

pub fn purchases_delta() -> PurchasesDelta {
    PurchasesDelta { from: 3, to: 4, purchases: vec![Purchase { cursor: 4, ..purchase() }] }
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
        Refusal::NotEnoughPlaces { area: id("yard"), free: 3 },
        Refusal::NoAdjacentSeats { count: 4, free: 9 },
        Refusal::SessionClosed("not open yet".into()),
        Refusal::HallOccupied(id("hamlet-0411")),
        Refusal::LimitPerCustomer { quota: id("hamlet"), max: 12, taken: 11 },
        Refusal::LimitPerOrder { entity: Entity::Product(id("programme")), max: 8 },
        Refusal::CartNotActive("done".into()),
        Refusal::CartExpired,
        Refusal::NoSuchLine(3),
        Refusal::CartEmpty,
        Refusal::NotYourCart,
        Refusal::TooManyLines(50),
        Refusal::HoldAgeExceeded,
        Refusal::OutOfStock(vec![Shortage { product: id("programme"), wanted: 3, free: 1 }]),
        Refusal::BadQuantity("`quantity` is a whole number from 1 to 1000000, not 0".into()),
        Refusal::NoSuchProduct(id("programme")),
        Refusal::SlotTaken(vec![conflict()]),
        Refusal::BadInterval("it is longer than 366 days".into()),
        Refusal::IdInUse(id("choir")),
        Refusal::OutsideHours("it closes at 18:00".into()),
        Refusal::NoSuchBooking(id("choir")),
        Refusal::TooSoonOrFar("it begins in less than an hour".into()),
        Refusal::PaymentDeclined("the card is blocked".into()),
        Refusal::PaymentPending,
        Refusal::AmountMismatch { asked: 3_000, got: 300 },
        Refusal::NotFound("session hamlet-0412".into()),
        Refusal::AlreadyExistsDifferently("session hamlet-0412".into()),
    ]
}

/// Several lines refused at once: it has the number of the first.
pub fn refused_lines() -> Refusal {
    let seats = vec![TakenSeat { seat: seat(1, 5), state: SeatState::Held }];
    let shortages = vec![Shortage { product: id("programme"), wanted: 3, free: 1 }];
    Refusal::Lines(vec![
        LineRefusal { line: 0, refusal: Refusal::SeatsTaken(seats) },
        LineRefusal { line: 3, refusal: Refusal::OutOfStock(shortages) },
    ])
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
        answer("ok session, canceled", Answer::Session(Arc::new(canceled_session_view())), Shape::Plain),
        answer("ok held, of every kind", Answer::Held(Held { lines: lines(), ..held() }), Shape::Plain),
        answer(
            "ok order",
            Answer::Order { order: order(), settling: true, payment: PaymentStatus::Recorded, refunds: Vec::new() },
            Shape::Plain,
        ),
        answer(
            "ok order, refunded",
            Answer::Order {
                order: long_order(),
                settling: false,
                payment: PaymentStatus::CaptureFailed { reason: "the card is blocked".into() },
                refunds: vec![refund()],
            },
            Shape::Plain,
        ),
        answer("ok refund", Answer::Refund(refund()), Shape::Plain),
        answer("ok title", Answer::Title(title_view()), Shape::Plain),
        answer("ok titles, full page", Answer::Titles(vec![title_view()]), Shape::Page { limit: 1 }),
        answer("ok venues", Answer::Venues(venues_page()), Shape::Plain),
        answer("ok product", Answer::Product(Arc::new(product_view())), Shape::Plain),
        answer("ok resource", Answer::Resource(Arc::new(resource_view())), Shape::Plain),
        answer("ok booked", Answer::Booked(vec![booking_view()]), Shape::Plain),
        answer("ok available", Answer::Available(Vec::new()), Shape::Plain),
        answer("ok not available", Answer::Available(vec![conflict()]), Shape::Plain),
        answer("ok bookings, full page", Answer::Bookings(vec![sold_booking()]), Shape::Page { limit: 1 }),
        answer("ok free slots", Answer::FreeSlots(vec![(evening(), evening().after(HOUR))]), Shape::Plain),
        answer("ok purchases", Answer::Purchases(purchases_page()), Shape::Plain),
        answer("ok product audit", Answer::ProductAudit(Box::new(product_audit())), Shape::Plain),
        answer("ok resource audit", Answer::ResourceAudit(Box::new(resource_audit())), Shape::Plain),
        answer("ok customer audit", Answer::CustomerAudit(Box::new(customer_audit())), Shape::Plain),
        sample("ok sessions of a city", |encoding, out| encode::city(encoding, out, 7, &city_page())),
        sample("ok history", |encoding, out| encode::history(encoding, out, 7, &history_page())),
        answer("ok session audit", Answer::SessionAudit(Box::new(session_audit())), Shape::Plain),
        answer("ok cart audit", Answer::CartAudit(Box::new(cart_audit())), Shape::Plain),
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
        sample("snapshot with areas", |encoding, out| encode::snapshot(encoding, out, 3, &area_snapshot())),
        sample("delta with areas", |encoding, out| encode::delta(encoding, out, 3, &area_delta())),
        sample("product snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &product_snapshot())),
        sample("product delta", |encoding, out| encode::delta(encoding, out, 3, &product_delta())),
        sample("resource snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &resource_snapshot())),
        sample("resource delta", |encoding, out| encode::delta(encoding, out, 3, &resource_delta())),
        sample("cart snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &cart_snapshot())),
        sample("cart delta", |encoding, out| encode::delta(encoding, out, 3, &cart_delta())),
        sample("purchases snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &purchases_snapshot())),
        sample("purchases delta", |encoding, out| encode::delta(encoding, out, 3, &purchases_delta())),
        sample("ended", |encoding, out| encode::ended(encoding, out, 3, &Ended { name: "not_found".into() })),
        sample("notice", |encoding, out| {
            encode::notice(encoding, out, &Notice { name: "draining".into(), reconnect_ms: Some(1_500) });
        }),
    ];
    frames.extend(refusals().into_iter().map(no));
    frames.push(no(refused_lines()));
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

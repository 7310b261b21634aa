//! Samples of requests.

use boxoffice_core::{
    command::{NewSession, SessionExtras},
    id::Entity,
    payment::OnDecline,
};
use boxoffice_wire::{Op, OpBody, body, customer, envelope::with_patience, reply, status::ShardIndex};
use bytes::BytesMut;
use serde::Serialize;

use super::{
    HOUR, Sample, cart, euro, evening, id, layout, product_view, quotas, resource_view, sample, seat, shipping,
    title_view, token, venue_view, yard,
};

fn request<B: Serialize>(op: Op, rid: Option<&str>, body: &B) -> Sample {
    sample(op.name(), |encoding, out| reply::request(encoding, out, 7, op, rid, Some(2_000), body))
}

/// The request with the body of an op.
fn of<B: OpBody>(rid: Option<&str>, body: &B) -> Sample {
    request(B::OP, rid, body)
}

/// The same of a buyer who will be there for five minutes.
fn patient<B: Serialize>(op: Op, rid: Option<&str>, body: &B) -> Sample {
    sample(op.name(), |encoding, out| {
        let mut plain = BytesMut::new();
        reply::request(encoding, &mut plain, 7, op, rid, Some(2_000), body);
        out.unsplit(with_patience(encoding, &plain, 300_000));
    })
}

/// A request of every op, as a client writes it.
pub fn requests() -> Vec<Sample> {
    let rid = Some("c1-000042");
    let join = body::AdminJoin {
        node: Some(2),
        disk: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        peer: "10.0.0.2:7280".into(),
        client: "10.0.0.2:7180".into(),
        program: "0.1.0".into(),
        reads_from: Some(17),
        reads_up_to: Some(17),
        proof: Some("0123456789abcdef".repeat(4).into()),
        invitation: Some("fedcba9876543210".repeat(4).into()),
        admin_proof: None,
    };
    let invite = body::AdminInvite { hash: "0123456789abcdef".repeat(4).into(), for_ms: Some(HOUR) };
    let session = id("hamlet-tonight");
    let (only, hamlet) = (body::CartOnly { token: token(), cart: None }, body::SessionGet::of(session.clone()));
    let hall = body::HallPut {
        venue: id("globe"),
        id: id("main"),
        name: "Main".into(),
        comments: "a curved screen".into(),
        layout: layout(),
    };
    let create = NewSession {
        id: session.clone(),
        hall: id("main"),
        title: id("hamlet"),
        starts_at: evening(),
        ends_at: evening().after(3 * HOUR),
        prices: vec![(id("standard"), euro(1_000))],
        extras: SessionExtras { areas: vec![yard()], limits: quotas(), ..Default::default() },
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
    let changed = body::SessionChange {
        expect: Some(2),
        comments: Some("a matinee".into()),
        offers: Some([super::offer::everybody()].into_iter().map(body::OfferBody::from).collect()),
        close: [id("members")].into_iter().collect(),
        ..body::SessionChange::of(session.clone())
    };
    let canceled = body::SessionCancel { id: session.clone(), reason: "the roof leaks".into() };
    let (begin, end) = (evening(), evening().after(HOUR));
    let weekly = body::RepeatBody {
        interval: Some(2),
        weekdays: vec![1, 3],
        count: Some(10),
        ..body::RepeatBody::of("week".into())
    };
    let room = || id("room-5");
    let reserve = body::ResourceReserve {
        local_begin: Some("2026-03-29T10:00".into()),
        local_end: Some("2026-03-29T11:30".into()),
        repeat: Some(weekly),
        details: "with a piano".into(),
        ..body::ResourceReserve::of(room(), id("choir"))
    };
    let moved =
        body::ResourceMove { begin: Some(begin), end: Some(end), ..body::ResourceMove::of(room(), id("choir")) };
    let asked =
        body::ResourceIsAvailable { begin: Some(begin), end: Some(end), ..body::ResourceIsAvailable::of(room()) };
    let end_choir = body::ResourceCancel { resource: room(), booking: id("choir"), series: true };
    let bookings = body::ResourceBookings { resource: room(), from: begin, to: end, limit: Some(2), cursor: None };
    let free = body::ResourceFreeSlots {
        resource: room(),
        from: begin,
        to: end,
        length_ms: 1_800_000,
        count: Some(2),
        step_ms: None,
        align_ms: 0,
    };
    let seats = body::SessionSeats { id: session.clone(), seats: [seat(0, 0), seat(0, 1)].into_iter().collect() };
    let open = body::CartOpen { token: token(), cart: Some(cart()), customer: Some(id("ada")), ttl_ms: Some(600_000) };
    let hold = body::HoldSeats::of(token(), session.clone(), vec![seat(1, 5), seat(1, 6), seat(1, 7)]);
    let best = body::HoldBest {
        code: Some(id("GLOBE-7Q2M")),
        category: Some(id("standard")),
        split: true,
        ..body::HoldBest::of(token(), session.clone(), 2)
    };
    let places = body::HoldPlaces {
        customer: Some(id("ada")),
        ..body::HoldPlaces::of(token(), session.clone(), id("yard"), 4.into())
    };
    let stock = body::HoldStock::of(token(), id("programme"), 2.into());
    let slot = body::HoldSlot { details: "with a piano".into(), ..body::HoldSlot::of(token(), room(), begin, end) };
    let line = |session: &str| body::Line { session: Some(id(session)), ..body::Line::default() };
    let lines = vec![
        body::Line { seats: Some(vec![seat(1, 5)]), ..line("hamlet-tonight") },
        body::Line { count: Some(1), ..line("hamlet-matinee") },
        body::Line { area: Some(id("yard")), quantity: Some(4.into()), ..line("hamlet-matinee") },
        body::Line { product: Some(id("programme")), quantity: Some(2.into()), ..body::Line::default() },
        body::Line { resource: Some(room()), begin: Some(begin), end: Some(end), ..body::Line::default() },
    ];
    let all = body::HoldAll::of(token(), lines.into_iter().collect());
    let quantity = body::SetQuantity { token: token(), cart: None, line: 4, quantity: 3.into() };
    let note = body::SetNote::of(token(), 4, "as a gift,\r\n\tplease".into());
    let release = body::Release { token: token(), cart: None, line: 1, seats: Some(vec![seat(1, 6)]) };
    let paid = body::RecordedPayment { method: "card".into(), transaction_id: "4711".into(), amount: None };
    let checkout = body::Checkout {
        token: token(),
        cart: None,
        payment: body::PaymentBody { recorded: Some(paid), gateway: None },
        customer: None,
        shipping: Some(shipping().into()),
        expect: None,
    };
    let refund = body::OrderRefund {
        order: cart().order(),
        lines: Some([1, 2].into_iter().collect()),
        reason: "the roof leaks".into(),
    };
    let purchases = body::CustomerPurchases { customer: id("ada"), cursor: Some(2), epoch: Some(1), limit: Some(10) };
    let resume = body::ResumeBody::version(body::Resume { epoch: 1, version: 391 });
    let watch =
        body::Watch { entity: Some(Entity::Session(session.clone())), resume: Some(resume), ..body::Watch::default() };
    let history = body::History {
        entity: Entity::Session(session.clone()),
        seat: Some(seat(1, 5)),
        limit: Some(2),
        before: Some(390),
    };
    let map = body::AdminMap { entity: Entity::Session(session.clone()), at: evening() };
    let authorized =
        body::AdminSettle { reference: Some("au-7".into()), ..body::AdminSettle::of(cart(), 1, "authorized".into()) };
    let batch = reply::Batch {
        items: vec![
            reply::BatchItem { op: "session.block", rid: Some("i-1".into()), body: &seats },
            reply::BatchItem { op: "session.unblock", rid: Some("i-2".into()), body: &seats },
        ],
    };
    let get = |name: &str| body::Get { id: id(name) };
    let code = body::CodePut { code: id("GLOBE-7Q2M"), group: id("members"), uses: 4, ended: true, by_order: true };
    let key = body::KeyCreate {
        id: id("till-3"),
        hash: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        roles: vec!["desk".into()],
        venues: vec![id("globe")],
        requests_per_second: Some(20),
        held_max: None,
    };
    vec![
        of(None, &body::ClientHello { client: "box office 3".into(), ..Default::default() }),
        of(None, &body::Shards(body::Empty {})),
        of(rid, &body::VenuePut::new(id("globe"), venue_view().details)),
        of(None, &body::VenueGet(get("globe"))),
        of(None, &venues),
        of(rid, &hall),
        of(None, &body::HallGet { venue: id("globe"), id: id("main") }),
        of(rid, &body::TitlePut::new(id("hamlet"), title_view().title)),
        of(None, &body::TitleGet(get("hamlet"))),
        of(None, &titles),
        of(rid, &body::SessionCreate::new(id("globe"), create)),
        of(None, &hamlet),
        of(None, &search),
        of(None, &body::SessionMap { id: session, view: Some("2,1,0".into()) }),
        of(rid, &body::SessionBlock(seats.clone())),
        of(rid, &body::SessionUnblock(seats.clone())),
        of(rid, &changed),
        of(rid, &canceled),
        of(rid, &body::ProductPut::new(id("programme"), product_view().details)),
        of(None, &body::ProductGet(get("programme"))),
        of(rid, &code),
        of(None, &body::CodeGet { code: id("GLOBE-7Q2M") }),
        of(rid, &body::ResourcePut::new(room(), resource_view().details)),
        of(None, &body::ResourceGet(get("room-5"))),
        of(rid, &reserve),
        of(rid, &end_choir),
        of(rid, &moved),
        of(None, &asked),
        of(None, &bookings),
        of(None, &free),
        of(rid, &open),
        of(None, &body::CartGet(only.clone())),
        of(rid, &hold),
        of(rid, &best),
        of(rid, &places),
        of(rid, &stock),
        of(rid, &slot),
        of(rid, &all),
        of(rid, &quantity),
        of(rid, &note),
        of(rid, &release),
        of(rid, &body::CartCancel(only.clone())),
        of(rid, &body::CartCheckoutCancel(only.clone())),
        of(rid, &checkout),
        of(None, &body::OrderGet { order: cart().order(), names: true }),
        of(rid, &refund),
        of(None, &purchases),
        of(None, &watch),
        of(None, &body::Unwatch { feed: 3 }),
        request(Op::Batch, None, &batch),
        of(None, &body::AdminStatus(body::Empty {})),
        of(None, &body::Audit::about(Entity::Cart(cart()))),
        of(None, &history),
        of(None, &map),
        of(rid, &body::AdminRelease { cart: cart(), line: 1, reason: "sold out".into() }),
        of(rid, &body::AdminCheckoutCancel { cart: cart() }),
        of(rid, &authorized),
        of(None, &body::AdminNodes(body::Empty {})),
        of(rid, &join),
        of(rid, &invite),
        of(rid, &body::AdminDrain(body::AdminLeave { node: 2, force: false })),
        of(rid, &body::AdminUndrain(body::AdminNode { node: 2 })),
        of(rid, &body::AdminRemove(body::AdminLeave { node: 2, force: true })),
        of(rid, &body::AdminReplace(body::AdminNode { node: 2 })),
        of(rid, &body::AdminFinishUpgrade(body::Empty {})),
        of(None, &body::AdminBackup { after: vec![ShardIndex { shard: 7, index: 4_711 }], mark: true }),
        of(None, &body::AdminBackupRead { records: Some(7), from: Some("5fc1".into()), ..Default::default() }),
        of(None, &body::AdminKeys(body::Empty {})),
        of(rid, &key),
        of(rid, &body::AdminKeyRevoke(get("till-3"))),
    ]
}

/// Requests in another shape than those of [`requests`]. The document shows some.
pub fn other_requests() -> Vec<Sample> {
    let rid = Some("c1-000042");
    let gateway = body::GatewayPayment { source: "tok_visa".into(), on_decline: Some(OnDecline::Keep) };
    let through_gateway = body::Checkout {
        token: token(),
        cart: None,
        payment: body::PaymentBody { recorded: None, gateway: Some(gateway) },
        customer: Some(id("ada")),
        shipping: None,
        expect: Some(body::Figure { total: None, lines: Some(4) }),
    };
    let city = body::SessionSearch { city: Some("London".into()), ..body::SessionSearch::default() };
    let watch = |entity, token, resume| body::Watch { entity: Some(entity), sessions: None, token, resume };
    let counts =
        body::Watch { sessions: Some(vec![id("hamlet-tonight"), id("hamlet-matinee")]), ..body::Watch::default() };
    let reserve = |booking: &str, repeat: Option<body::RepeatBody>| body::ResourceReserve {
        begin: Some(evening()),
        end: Some(evening().after(HOUR)),
        repeat,
        ..body::ResourceReserve::of(id("room-5"), id(booking))
    };
    let monthly = body::RepeatBody {
        interval: Some(1),
        until: Some("2026-12-31".into()),
        ..body::RepeatBody::of("month".into())
    };
    let settle = |attempt: u32, outcome: &str| body::AdminSettle::of(cart(), attempt, outcome.into());
    let open = body::CartOpen { token: token(), cart: None, customer: None, ttl_ms: None };
    let secret = b"the secret of the shop";
    let hello = body::ClientHello {
        client: "box office 3".into(),
        token: None,
        customer: Some(id("ada")),
        customer_token: Some(customer::token(secret, &id("ada")).into()),
    };
    vec![
        request(Op::Hello, None, &hello),
        request(Op::CartCheckout, rid, &through_gateway),
        patient(Op::CartOpen, rid, &open),
        request(Op::SessionSearch, None, &city),
        request(Op::Watch, None, &watch(Entity::Product(id("programme")), None, None)),
        request(Op::Watch, None, &watch(Entity::Resource(id("room-5")), None, None)),
        request(Op::Watch, None, &watch(Entity::Cart(cart()), Some(token()), None)),
        request(Op::Watch, None, &counts),
        request(
            Op::Watch,
            None,
            &watch(
                Entity::Customer(id("ada")),
                None,
                Some(body::ResumeBody::cursor(body::PurchaseCursor { epoch: Some(1), cursor: 2 })),
            ),
        ),
        request(Op::ResourceReserve, rid, &reserve("talk", None)),
        request(Op::ResourceReserve, rid, &reserve("club", Some(monthly))),
        request(Op::AdminAudit, None, &body::Audit::default()),
        request(Op::AdminSettle, rid, &settle(1, "declined")),
        request(Op::AdminSettle, rid, &settle(1, "captured")),
        request(Op::AdminSettle, rid, &settle(2, "voided")),
        request(Op::AdminSettle, rid, &body::AdminSettle { refund: Some(2), ..settle(1, "refunded") }),
    ]
}

//! Samples of every frame a server sends.

use std::sync::Arc;

use boxoffice_core::{
    answer::{Answer, Answered, At, Held, Order},
    id::Entity,
    payment::PaymentStatus,
    refusal::Refusal,
};
use boxoffice_wire::{
    Fail, FailKind, Rejection,
    call::Shape,
    cluster::{NodeAddress, ShardMap},
    encode::{self, Verdict},
    feed::{CountsDelta, Delta, Ended, Notice},
    hello::{Durability, Hello, Limits},
    rejection::unknown_op,
};

use super::{
    HOUR, Sample, access_key, area_delta, area_snapshot, as_of, backup_piece, backup_places, booking_view,
    canceled_session_view, cart, cart_audit, cart_delta, cart_snapshot, cart_view, changed, city_page, cluster_view,
    code_audit, code_view, conflict, counts_delta, counts_snapshot, customer_audit, delta, empty_cart_view,
    ended_cart_view, evening, hall_view, held, history_page, id, invitation_view, lines, long_order, map_view, mark,
    node_audit, offered_lines, offered_session_view, order, product_audit, product_delta, product_snapshot,
    product_view, purchases_delta, purchases_page, purchases_snapshot, refund, refusals, refused_lines, rejections,
    resource_audit, resource_delta, resource_snapshot, resource_view, sample, session_audit, session_entry,
    session_names, session_view, snapshot, sold_booking, status, title_view, venue_view, venues_page, watching_counts,
};

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
        answer("ok cart, ended", Answer::Cart(ended_cart_view()), Shape::Plain),
        answer("ok held", Answer::Held(held()), Shape::Plain),
        answer("ok session, with offers", Answer::Session(Arc::new(offered_session_view())), Shape::Plain),
        answer("ok session, changed", Answer::SessionChanged(changed()), Shape::Plain),
        answer("ok session, canceled", Answer::Session(Arc::new(canceled_session_view())), Shape::Plain),
        answer("ok held, under offers", Answer::Held(Held { lines: offered_lines(), ..held() }), Shape::Plain),
        answer("ok held, of every kind", Answer::Held(Held { lines: lines(), ..held() }), Shape::Plain),
        answer(
            "ok order",
            Answer::Order {
                order: order(),
                settling: true,
                payment: PaymentStatus::Recorded,
                refunds: Vec::new(),
                sessions: Vec::new(),
            },
            Shape::Plain,
        ),
        answer(
            "ok order, with taxes",
            Answer::Order {
                order: Arc::new(Order { lines: offered_lines(), ..Order::clone(&order()) }),
                settling: false,
                payment: PaymentStatus::Recorded,
                refunds: Vec::new(),
                sessions: Vec::new(),
            },
            Shape::Plain,
        ),
        answer(
            "ok order, with names",
            Answer::Order {
                order: Arc::new(Order { lines: offered_lines(), ..Order::clone(&order()) }),
                settling: false,
                payment: PaymentStatus::Recorded,
                refunds: Vec::new(),
                sessions: vec![session_names()],
            },
            Shape::Plain,
        ),
        answer(
            "ok order, refunded",
            Answer::Order {
                order: long_order(),
                settling: false,
                payment: PaymentStatus::CaptureFailed { reason: "the card is blocked".into() },
                refunds: vec![refund()],
                sessions: Vec::new(),
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
        answer("ok code", Answer::Code(code_view()), Shape::Plain),
        answer("ok code audit", Answer::CodeAudit(Box::new(code_audit())), Shape::Plain),
        answer("ok customer audit", Answer::CustomerAudit(Box::new(customer_audit())), Shape::Plain),
        answer("ok keys", Answer::Keys(vec![(id("till-3"), access_key())]), Shape::Plain),
        answer("ok invitation", Answer::Invitation(Box::new(invitation_view())), Shape::Plain),
        answer("ok cluster", Answer::Cluster(Box::new(cluster_view())), Shape::Plain),
        sample("ok sessions of a city", |encoding, out| encode::ok(encoding, out, 7, &city_page())),
        sample("ok history", |encoding, out| encode::ok(encoding, out, 7, &history_page())),
        sample("ok backup places", |encoding, out| encode::ok(encoding, out, 7, &backup_places())),
        sample("ok backup piece", |encoding, out| encode::ok(encoding, out, 7, &backup_piece())),
        sample("ok as of", |encoding, out| encode::ok(encoding, out, 7, &as_of())),
        answer("ok session audit", Answer::SessionAudit(Box::new(session_audit())), Shape::Plain),
        answer("ok cart audit", Answer::CartAudit(Box::new(cart_audit())), Shape::Plain),
        sample("ok watching counts", |encoding, out| encode::ok(encoding, out, 7, &watching_counts())),
        sample("ok watching", |encoding, out| encode::watching(encoding, out, 7, 3)),
        sample("ok unwatch, hello", |encoding, out| encode::done(encoding, out, 7)),
        sample("ok shards", |encoding, out| encode::ok(encoding, out, 7, &shard_map())),
        sample("ok led by another node", |encoding, out| {
            let outcome = Ok(Answered { answer: Answer::Done, at: at() });
            encode::outcome(encoding, out, 7, &outcome, Shape::Plain, Some(2));
        }),
        sample("no led by another node", |encoding, out| {
            encode::outcome(encoding, out, 7, &Err(Refusal::CartExpired), Shape::Plain, Some(2));
        }),
        sample("ok status", |encoding, out| encode::ok(encoding, out, 7, &status())),
        sample("ok node audit", |encoding, out| encode::ok(encoding, out, 7, &node_audit())),
        sample("ok batch", |encoding, out| {
            let verdicts = [
                Verdict::Ok(Answered { answer: Answer::Done, at: at() }, Shape::Plain),
                Verdict::No(Refusal::CartExpired),
                Verdict::Rejected(unknown_op("cart.steal")),
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
        sample("counts snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &counts_snapshot())),
        sample("counts delta", |encoding, out| encode::delta(encoding, out, 3, &counts_delta())),
        sample("delta with a mark", |encoding, out| {
            encode::delta(encoding, out, 3, &Delta { sale: Some(mark()), ..area_delta() });
        }),
        sample("counts delta with a mark", |encoding, out| {
            encode::delta(encoding, out, 3, &CountsDelta { sale: Some(mark()), ..counts_delta() });
        }),
        sample("product snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &product_snapshot())),
        sample("product delta", |encoding, out| encode::delta(encoding, out, 3, &product_delta())),
        sample("resource snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &resource_snapshot())),
        sample("resource delta", |encoding, out| encode::delta(encoding, out, 3, &resource_delta())),
        sample("cart snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &cart_snapshot())),
        sample("cart delta", |encoding, out| encode::delta(encoding, out, 3, &cart_delta())),
        sample("purchases snapshot", |encoding, out| encode::snapshot(encoding, out, 3, &purchases_snapshot())),
        sample("purchases delta", |encoding, out| encode::delta(encoding, out, 3, &purchases_delta())),
        sample("ended", |encoding, out| encode::ended(encoding, out, 3, &Ended { name: "not_found".into() })),
        sample("stale", |encoding, out| encode::stale(encoding, out, 3, 2_300)),
        sample("current again", |encoding, out| encode::stale(encoding, out, 3, 0)),
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

fn answer(name: &'static str, answer: Answer, shape: Shape) -> Sample {
    let outcome = Ok(Answered { answer, at: at() });
    sample(name, move |encoding, out| encode::outcome(encoding, out, 7, &outcome, shape, None))
}

fn no(refusal: Refusal) -> Sample {
    let (name, outcome) = (refusal.name(), Err(refusal));
    sample(name, move |encoding, out| encode::outcome(encoding, out, 7, &outcome, Shape::Plain, None))
}

pub fn shard_map() -> ShardMap {
    let node = |node, client: &str| NodeAddress { node, client: client.into() };
    let nodes = vec![node(1, "http://10.0.0.1:7180"), node(2, "http://two.tickets.example:7180")];
    ShardMap { leaders: vec![1, 2, 0, 1], nodes }
}

pub fn at() -> Vec<At> {
    vec![
        At { entity: Entity::Cart(cart()), version: 2, position: 88_214 },
        At { entity: Entity::Session(id("hamlet-tonight")), version: 391, position: 88_213 },
    ]
}

pub fn hello() -> Hello {
    Hello {
        cluster: "c0ffee".into(),
        node: "n1".into(),
        version: "0.1.0".into(),
        protocol: 1,
        minor: 5,
        durability: Durability { replicas: 1, fsync: "always".into() },
        limits: Limits::default(),
        time: evening(),
    }
}

//! Frames of the server decode unchanged at the client, in both encodings.

use std::{fmt::Debug, sync::Arc};

use boxoffice_core::{
    answer::{Answer, Answered, Order},
    command::Payment,
    id::Entity,
    money::Currency,
    payment::PaymentStatus,
    refusal::{Refusal, Shortage},
};
use bytes::BytesMut;

use super::common::*;
use crate::{
    Encoding, Fail, FailKind,
    call::Shape,
    encode,
    encode::Verdict,
    feed::{Ended, SnapshotBody},
    http,
    reply::{
        Available, BookingPage, Event, FreeSlots, FromBody, OrderView, Reply, ServerFrame, SessionPage, Slot,
        ThreeStates, TitlePage,
    },
};

/// The verdict of a frame that answers request 7.
fn verdict<T: FromBody>(encoding: Encoding, write: impl Fn(Encoding, &mut BytesMut)) -> Reply<T> {
    let mut out = BytesMut::new();
    write(encoding, &mut out);
    let frame = ServerFrame::read(encoding, &out).expect("a frame");
    let ServerFrame::Answer(Some(7), verdict, _) = frame else { panic!("{frame:?} does not answer 7") };
    verdict.read(encoding).expect("a body that fits")
}

fn check<T: FromBody + PartialEq + Debug>(answer: Answer, shape: Shape, expected: &T) {
    let outcome = Ok(Answered { answer, at: at() });
    for encoding in Encoding::ALL {
        let reply = verdict::<T>(encoding, |encoding, out| encode::outcome(encoding, out, 7, &outcome, shape, None));
        let Reply::Ok(value, store_batches) = reply else { panic!("not ok") };
        assert_eq!((&value, store_batches), (expected, at()));
    }
}

#[test]
fn answers_round_trip() {
    check(Answer::Done, Shape::Plain, &());
    check(Answer::Venue(venue_view()), Shape::Plain, &venue_view());
    check(Answer::Hall(hall_view()), Shape::Plain, &hall_view());
    check(Answer::Session(session_view().into()), Shape::Plain, &session_view());
    check(Answer::Map(map_view()), Shape::Plain, &map_view());
    check(Answer::Cart(cart_view()), Shape::Plain, &cart_view());
    check(Answer::Cart(empty_cart_view()), Shape::Plain, &empty_cart_view());
    check(Answer::Held(held()), Shape::Plain, &held());
    check(Answer::SessionAudit(Box::new(session_audit())), Shape::Plain, &session_audit());
    check(Answer::CartAudit(Box::new(cart_audit())), Shape::Plain, &cart_audit());
    check(Answer::Session(canceled_session_view().into()), Shape::Plain, &canceled_session_view());
    check(Answer::Venues(venues_page()), Shape::Plain, &venues_page());
    check(Answer::Title(title_view()), Shape::Plain, &title_view());
    check(Answer::Product(product_view().into()), Shape::Plain, &product_view());
    check(Answer::Resource(resource_view().into()), Shape::Plain, &resource_view());
    check(Answer::Refund(refund()), Shape::Plain, &refund());
    check(Answer::Purchases(purchases_page()), Shape::Plain, &purchases_page());
    check(Answer::ProductAudit(Box::new(product_audit())), Shape::Plain, &product_audit());
    check(Answer::ResourceAudit(Box::new(resource_audit())), Shape::Plain, &resource_audit());
    check(Answer::CustomerAudit(Box::new(customer_audit())), Shape::Plain, &customer_audit());
    let bookings = vec![booking_view(), sold_booking()];
    let page = |cursor: Option<&str>| BookingPage { bookings: bookings.clone(), cursor: cursor.map(Into::into) };
    check(Answer::Booked(bookings.clone()), Shape::Plain, &page(None));
    let full = page(Some("1775995200000/hold:068f372e3fcdfb0ac81a3f0c8c30d381"));
    check(Answer::Bookings(bookings.clone()), Shape::Page { limit: 2 }, &full);
    let titles = TitlePage { titles: vec![title_view()], cursor: Some("hamlet/Hamlet".into()) };
    check(Answer::Titles(vec![title_view()]), Shape::Page { limit: 1 }, &titles);
    check(Answer::Available(Vec::new()), Shape::Plain, &Available { available: true, conflicts: Vec::new() });
    let taken = Available { available: false, conflicts: vec![conflict()] };
    check(Answer::Available(vec![conflict()]), Shape::Plain, &taken);
    let slot = (evening(), evening().after(1));
    check(Answer::FreeSlots(vec![slot]), Shape::Plain, &FreeSlots { slots: vec![Slot(slot.0, slot.1)] });
    for lines in [Vec::new(), lines()] {
        let held = boxoffice_core::answer::Held { lines, ..held() };
        check(Answer::Held(held.clone()), Shape::Plain, &held);
    }
}

#[test]
fn orders_round_trip_with_payment_and_refunds() {
    let failed = PaymentStatus::CaptureFailed { reason: "the card is blocked".into() };
    let stands = [PaymentStatus::Recorded, PaymentStatus::Authorized, PaymentStatus::Captured, failed];
    for (order, payment) in [order(), long_order()].into_iter().zip(stands) {
        for (settling, refunds) in [(true, Vec::new()), (false, vec![refund()])] {
            let expected =
                OrderView { order: order.clone(), settling, payment: payment.clone(), refunds: refunds.clone() };
            let answer = Answer::Order { order: order.clone(), settling, payment: payment.clone(), refunds };
            check(answer, Shape::Plain, &expected);
        }
    }
    // The gateway's source is private. The order's id is not a secret.
    let gateway = Payment::Gateway { source: "tok_visa".into(), on_decline: None };
    let secret = Arc::new(Order { payment: gateway, ..(*order()).clone() });
    let (payment, refunds) = (PaymentStatus::Captured, Vec::new());
    let answer = Answer::Order { order: secret, settling: false, payment, refunds };
    for encoding in Encoding::ALL {
        let mut out = BytesMut::new();
        let answered = Answered { answer: answer.clone(), at: Vec::new() };
        encode::answer(encoding, &mut out, &answered, Shape::Plain);
        assert!(!String::from_utf8_lossy(&out).contains("tok_visa"), "the source is shown");
    }
}

#[test]
fn the_cursor_of_a_full_page_leads_to_the_next_page() {
    let sessions = vec![session_entry()];
    let page = |cursor: Option<&str>| SessionPage { sessions: sessions.clone(), cursor: cursor.map(Into::into) };
    check(Answer::Sessions(sessions.clone()), Shape::Page { limit: 2 }, &page(None));
    let cursor = "1775995200000/hamlet-tonight";
    check(Answer::Sessions(sessions.clone()), Shape::Page { limit: 1 }, &page(Some(cursor)));
    let frame = format!(r#"{{"id":1,"op":"session.search","body":{{"venue":"globe","cursor":"{cursor}"}}}}"#);
    let request = crate::Request::read(Encoding::Json, frame.as_bytes()).expect("a good request");
    let after = format!("{:?}", request.call);
    assert!(after.contains("after: Some((Timestamp(1775995200000), hamlet-tonight))"), "{after}");
}

#[test]
fn the_three_numbers_of_cinemas() {
    let view = map_view();
    let states = vec![2, 1, 0, 0, 2];
    let expected = ThreeStates { session: view.session.clone(), epoch: 1, version: 391, counts: counts(), states };
    check(Answer::Map(view), Shape::ThreeStates, &expected);
}

/// What a client has read of a refusal, written again, is the body that the server wrote. So no field is lost.
#[test]
fn refusals_keep_their_details() {
    let refused = refusals().into_iter().chain(other_refusals()).chain([refused_lines()]).map(Verdict::No);
    for refused in refused.chain(rejections().into_iter().chain(other_rejections()).map(Verdict::Rejected)) {
        let mut body = BytesMut::new();
        http::verdict(Encoding::Json, &mut body, &refused);
        let written: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        for encoding in Encoding::ALL {
            let reply = verdict::<()>(encoding, |encoding, out| encode::verdict(encoding, out, 7, &refused));
            let Reply::No(no) = reply else { panic!("not a no") };
            assert_eq!(serde_json::to_value(&no).expect("JSON"), written["no"]);
        }
    }
}

#[test]
fn the_details_of_refusals_are_read() {
    let no = |refusal: Refusal, encoding| {
        let outcome = Err(refusal);
        let write = |encoding, out: &mut BytesMut| encode::outcome(encoding, out, 7, &outcome, Shape::Plain, None);
        let Reply::No(no) = verdict::<()>(encoding, write) else { panic!("not a no") };
        no
    };
    for encoding in Encoding::ALL {
        let places = no(Refusal::NotEnoughPlaces { area: id("yard"), free: 3, held: 2 }, encoding);
        assert_eq!((places.area, places.free), (Some(id("yard")), Some(3)));
        let customer = no(Refusal::LimitPerCustomer { quota: id("q"), max: 12, taken: 11 }, encoding);
        assert_eq!((customer.quota, customer.max, customer.taken), (Some(id("q")), Some(12), Some(11)));
        let product = Entity::Product(id("p"));
        let order = no(Refusal::LimitPerOrder { entity: product.clone(), max: 8 }, encoding);
        assert_eq!((order.entity, order.max), (Some(product), Some(8)));
        let shortages = vec![Shortage { product: id("p"), wanted: 3, free: 1, held: 6 }];
        assert_eq!(no(Refusal::OutOfStock(shortages.clone()), encoding).shortages, shortages);
        assert_eq!(no(Refusal::NoSuchProduct(id("p")), encoding).product, Some(id("p")));
        assert_eq!(no(Refusal::SlotTaken(vec![conflict()]), encoding).conflicts, [conflict()]);
        assert_eq!(no(Refusal::IdInUse(id("b")), encoding).booking, Some(id("b")));
        assert_eq!(no(Refusal::NoSuchBooking(id("b")), encoding).booking, Some(id("b")));
        let amount = no(Refusal::AmountMismatch { asked: euro(3_000), got: euro(300) }, encoding);
        assert_eq!((amount.asked, amount.got), (Some(3_000), Some(300)));
        let (entity, currency) = (Entity::Product(id("p")), euro(0).currency);
        let asked_currency = Currency::new("USD").expect("a currency");
        let fixed = no(Refusal::CurrencyFixed { entity: entity.clone(), currency, asked_currency }, encoding);
        assert_eq!((fixed.entity, fixed.currency), (Some(entity), Some(currency)));
        assert_eq!(fixed.asked_currency, Some(asked_currency));
        let several = no(refused_lines(), encoding);
        assert_eq!((several.code, several.seats.len(), several.shortages.len()), (201, 1, 0));
        assert_eq!(several.message, refused_lines().to_string());
        let lines: Vec<(Option<u32>, u16)> = several.lines.iter().map(|no| (no.line, no.code)).collect();
        assert_eq!(lines, [(Some(0), 201), (Some(3), 401)]);
        assert_eq!(several.lines[1].shortages[0].free, 1);
    }
}

#[test]
fn failures_keep_their_kind() {
    for kind in FailKind::ALL {
        for encoding in Encoding::ALL {
            let sent = Fail::new(kind).saying("because");
            let reply = verdict::<()>(encoding, |encoding, out| encode::fail(encoding, out, 7, &sent));
            assert_eq!(reply, Reply::Fail(sent));
        }
    }
}

#[test]
fn rejections_and_bodies_round_trip() {
    for encoding in Encoding::ALL {
        let reply = verdict(encoding, |encoding, out| encode::ok(encoding, out, 7, &shard_map()));
        assert_eq!(reply, Reply::Ok(shard_map(), Vec::new()));
        let reply = verdict(encoding, |encoding, out| encode::ok(encoding, out, 7, &status()));
        assert_eq!(reply, Reply::Ok(status(), Vec::new()));
        let reply = verdict(encoding, |encoding, out| encode::ok(encoding, out, 7, &node_audit()));
        assert_eq!(reply, Reply::Ok(node_audit(), Vec::new()));
        let reply = verdict(encoding, |encoding, out| encode::ok(encoding, out, 7, &history_page()));
        assert_eq!(reply, Reply::Ok(history_page(), Vec::new()));
        let reply = verdict(encoding, |encoding, out| encode::ok(encoding, out, 7, &city_page()));
        assert_eq!(reply, Reply::Ok(city_page(), Vec::new()));
        assert_eq!(city_page().cursor.as_deref(), Some("1775995200000/hamlet-tonight"));
        for why in rejections() {
            let reply = verdict::<()>(encoding, |encoding, out| encode::rejection(encoding, out, Some(7), &why));
            let Reply::No(no) = reply else { panic!("not a no") };
            assert_eq!((no.code, no.name.as_str(), no.message), (why.code(), why.name(), why.to_string()));
        }
    }
}

#[test]
fn a_batch_is_answered_item_by_item() {
    let verdicts = [
        Verdict::Ok(Answered { answer: Answer::Done, at: at() }, Shape::Plain),
        Verdict::No(refusals().remove(5)),
        Verdict::Fail(Fail::new(FailKind::Busy)),
    ];
    for encoding in Encoding::ALL {
        let write = |encoding, out: &mut BytesMut| encode::batch(encoding, out, 7, &verdicts);
        let Reply::Ok(replies, _) = verdict::<Vec<Reply<()>>>(encoding, write) else { panic!("not ok") };
        assert_eq!(replies[0], Reply::Ok((), at()));
        let Reply::No(no) = &replies[1] else { panic!("not a no") };
        assert_eq!((no.name.as_str(), no.seats.len()), ("seats_taken", 2));
        assert_eq!(replies[2], Reply::Fail(Fail::new(FailKind::Busy)));
    }
}

#[test]
fn feeds_round_trip() {
    fn check<S: SnapshotBody + Clone + PartialEq + Debug>(snapshot: S, delta: S::Delta)
    where
        S::Delta: Clone + PartialEq + Debug,
    {
        let ended = Ended { name: "not_found".into() };
        for encoding in Encoding::ALL {
            let read = |write: &dyn Fn(&mut BytesMut)| {
                let mut out = BytesMut::new();
                write(&mut out);
                let frame = ServerFrame::read(encoding, &out).expect("a frame");
                let ServerFrame::Feed(3, event) = frame else { panic!("{frame:?} is not of feed 3") };
                event.read::<S>(encoding).expect("an event")
            };
            assert_eq!(read(&|out| encode::snapshot(encoding, out, 3, &snapshot)), Event::Snapshot(snapshot.clone()));
            assert_eq!(read(&|out| encode::delta(encoding, out, 3, &delta)), Event::Delta(delta.clone()));
            assert_eq!(read(&|out| encode::ended(encoding, out, 3, &ended)), Event::Ended(ended.clone()));
        }
    }
    check(snapshot(), delta());
    check(area_snapshot(), area_delta());
    check(counts_snapshot(), counts_delta());
    check(product_snapshot(), product_delta());
    check(resource_snapshot(), resource_delta());
    check(cart_snapshot(), cart_delta());
    check(purchases_snapshot(), purchases_delta());
}

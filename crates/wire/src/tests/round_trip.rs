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
        Available, BookingPage, Event, FreeSlots, FromBody, Reply, ServerFrame, SessionPage, Slot, ThreeStates,
        TitlePage,
    },
    repr::{ToWire, WireWrite},
};

/// The verdict of a frame that answers request 7.
fn verdict<T: FromBody>(encoding: Encoding, write: impl Fn(Encoding, &mut BytesMut)) -> Reply<T> {
    let mut out = BytesMut::new();
    write(encoding, &mut out);
    let frame = ServerFrame::read(encoding, &out).expect("a frame");
    let ServerFrame::Answer(Some(7), verdict, _) = frame else { panic!("{frame:?} does not answer 7") };
    verdict.read(encoding).expect("a body that fits")
}

/// The body of a value in an encoding.
fn body<T: WireWrite>(encoding: Encoding, value: &T) -> BytesMut {
    let mut out = BytesMut::new();
    encode::body(encoding, &mut out, &ToWire(value));
    out
}

/// A client reads all of an answer: what it has read is written as the server wrote it. Returns what it has read.
fn check<T: FromBody + WireWrite>(answer: Answer, shape: Shape) -> T {
    let answered = Answered { answer, at: at() };
    let outcome = Ok(answered.clone());
    let [json, _] = Encoding::ALL.map(|encoding| {
        let reply = verdict::<T>(encoding, |encoding, out| encode::outcome(encoding, out, 7, &outcome, shape, None));
        let Reply::Ok(value, versions) = reply else { panic!("not ok") };
        let mut sent = BytesMut::new();
        encode::answer(encoding, &mut sent, &answered, shape);
        assert_eq!(body(encoding, &value), sent);
        assert_eq!(body(encoding, &versions), body(encoding, &at()));
        value
    });
    json
}

#[test]
fn answers_round_trip() {
    use crate::view::*;

    let plain = Shape::Plain;
    check::<VenueView>(Answer::Venue(venue_view()), plain);
    check::<HallView>(Answer::Hall(hall_view()), plain);
    check::<SessionView>(Answer::Session(session_view().into()), plain);
    check::<SessionView>(Answer::Session(canceled_session_view().into()), plain);
    check::<SessionView>(Answer::Session(offered_session_view().into()), plain);
    check::<SessionChanged>(Answer::SessionChanged(changed()), plain);
    check::<MapView>(Answer::Map(map_view()), plain);
    check::<CartView>(Answer::Cart(cart_view()), plain);
    check::<CartView>(Answer::Cart(empty_cart_view()), plain);
    check::<SessionAudit>(Answer::SessionAudit(Box::new(session_audit())), plain);
    check::<CartAudit>(Answer::CartAudit(Box::new(cart_audit())), plain);
    check::<VenuesPage>(Answer::Venues(venues_page()), plain);
    check::<TitleView>(Answer::Title(title_view()), plain);
    check::<ProductView>(Answer::Product(product_view().into()), plain);
    check::<ResourceView>(Answer::Resource(resource_view().into()), plain);
    check::<RefundRecord>(Answer::Refund(refund()), plain);
    check::<PurchasesPage>(Answer::Purchases(purchases_page()), plain);
    check::<ProductAudit>(Answer::ProductAudit(Box::new(product_audit())), plain);
    check::<ResourceAudit>(Answer::ResourceAudit(Box::new(resource_audit())), plain);
    check::<CustomerAudit>(Answer::CustomerAudit(Box::new(customer_audit())), plain);
    for lines in [Vec::new(), lines()] {
        check::<Held>(Answer::Held(boxoffice_core::answer::Held { lines, ..held() }), plain);
    }
    let bookings = vec![booking_view(), sold_booking()];
    assert_eq!(check::<BookingPage>(Answer::Booked(bookings.clone()), plain).cursor, None);
    let full: BookingPage = check(Answer::Bookings(bookings), Shape::Page { limit: 2 });
    assert_eq!(full.cursor.as_deref(), Some("1775995200000/hold:068f372e3fcdfb0ac81a3f0c8c30d381"));
    let titles: TitlePage = check(Answer::Titles(vec![title_view()]), Shape::Page { limit: 1 });
    assert_eq!(titles.cursor.as_deref(), Some("hamlet/Hamlet"));
    assert!(check::<Available>(Answer::Available(Vec::new()), plain).available);
    let taken = Available { available: false, conflicts: vec![conflict()] };
    assert_eq!(check::<Available>(Answer::Available(vec![conflict()]), plain), taken);
    let slot = (evening(), evening().after(1));
    let slots = FreeSlots { slots: vec![Slot(slot.0, slot.1)] };
    assert_eq!(check::<FreeSlots>(Answer::FreeSlots(vec![slot]), plain), slots);
    let done = Ok(Answered { answer: Answer::Done, at: at() });
    for encoding in Encoding::ALL {
        let reply = verdict::<()>(encoding, |encoding, out| encode::outcome(encoding, out, 7, &done, plain, None));
        assert!(matches!(reply, Reply::Ok((), _)), "{reply:?}");
    }
}

#[test]
fn orders_round_trip_with_payment_and_refunds() {
    let failed = PaymentStatus::CaptureFailed { reason: "the card is blocked".into() };
    let stands = [PaymentStatus::Recorded, PaymentStatus::Authorized, PaymentStatus::Captured, failed];
    for (order, payment) in [order(), long_order()].into_iter().zip(stands) {
        for (settling, refunds) in [(true, Vec::new()), (false, vec![refund()])] {
            let (order, payment) = (order.clone(), payment.clone());
            let sessions = if settling { vec![session_names()] } else { Vec::new() };
            let answer = Answer::Order { order, settling, payment, refunds, sessions };
            let read: crate::view::Order = check(answer, Shape::Plain);
            assert_eq!((read.settling, read.refunds.len()), (settling, usize::from(!settling)));
            assert_eq!(read.sessions.len(), usize::from(settling));
        }
    }
    // The gateway's source is private. The order's id is not a secret.
    let gateway = Payment::Gateway { source: "tok_visa".into(), on_decline: None };
    let secret = Arc::new(Order { payment: gateway, ..(*order()).clone() });
    let (payment, refunds) = (PaymentStatus::Captured, Vec::new());
    let answer = Answer::Order { order: secret, settling: false, payment, refunds, sessions: Vec::new() };
    for encoding in Encoding::ALL {
        let mut out = BytesMut::new();
        let answered = Answered { answer: answer.clone(), at: Vec::new() };
        encode::answer(encoding, &mut out, &answered, Shape::Plain);
        assert!(!String::from_utf8_lossy(&out).contains("tok_visa"), "the source is shown");
    }
}

#[test]
fn the_cursor_of_a_full_page_leads_to_the_next_page() {
    let page = |limit| check::<SessionPage>(Answer::Sessions(vec![session_entry()]), Shape::Page { limit });
    assert_eq!(page(2).cursor, None);
    let cursor = page(1).cursor.expect("the page is full");
    assert_eq!(cursor, "1775995200000/hamlet-tonight");
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
    assert_eq!(check::<ThreeStates>(Answer::Map(view), Shape::ThreeStates), expected);
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
        let (entity, floor) = (Entity::Session(id("hamlet")), evening());
        let old = no(Refusal::NotKept { entity: entity.clone(), floor }, encoding);
        assert_eq!((old.entity, old.floor), (Some(entity), Some(floor)));
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
        let reply = verdict(encoding, |encoding, out| encode::ok(encoding, out, 7, &backup_places()));
        assert_eq!(reply, Reply::Ok(backup_places(), Vec::new()));
        let reply = verdict(encoding, |encoding, out| encode::ok(encoding, out, 7, &backup_piece()));
        assert_eq!(reply, Reply::Ok(backup_piece(), Vec::new()));
        let reply = verdict(encoding, |encoding, out| encode::ok(encoding, out, 7, &history_page()));
        assert_eq!(reply, Reply::Ok(history_page(), Vec::new()));
        let reply = verdict::<crate::view::AsOf>(encoding, |encoding, out| encode::ok(encoding, out, 7, &as_of()));
        let Reply::Ok(then, _) = reply else { panic!("not ok") };
        let mut again = BytesMut::new();
        encode::ok(encoding, &mut again, 7, &as_of());
        let mut written = BytesMut::new();
        encode::ok(encoding, &mut written, 7, &then);
        assert_eq!(written, again);
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
        assert!(matches!(&replies[0], Reply::Ok((), versions) if versions.len() == at().len()));
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

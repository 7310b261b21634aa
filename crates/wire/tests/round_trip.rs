//! What a server says is what a client understands, in both encodings.

mod common;

use std::fmt::Debug;

use boxoffice_core::answer::{Answer, Answered};
use boxoffice_wire::{
    Encoding, Fail, FailKind, encode,
    encode::Verdict,
    feed::Ended,
    reply::{Event, FromAnswer, OrderView, Reply, ServerFrame, SessionPage, ThreeStates},
    request::Shape,
};
use bytes::BytesMut;
use common::*;

/// The verdict of a frame that answers request 7.
fn verdict<T: FromAnswer>(encoding: Encoding, write: impl Fn(Encoding, &mut BytesMut)) -> Reply<T> {
    let mut out = BytesMut::new();
    write(encoding, &mut out);
    let frame = ServerFrame::read(encoding, &out).expect("a frame");
    let ServerFrame::Answer(Some(7), verdict) = frame else { panic!("{frame:?} does not answer 7") };
    verdict.read(encoding).expect("a body that fits")
}

fn check<T: FromAnswer + PartialEq + Debug>(answer: Answer, shape: Shape, expected: &T) {
    let outcome = Ok(Answered { answer, at: at() });
    for encoding in Encoding::ALL {
        let reply = verdict::<T>(encoding, |encoding, out| encode::outcome(encoding, out, 7, &outcome, shape));
        let Reply::Ok(value, rests_on) = reply else { panic!("not ok") };
        assert_eq!((&value, rests_on), (expected, at()));
    }
}

#[test]
fn answers_come_back_as_they_were() {
    check(Answer::Done, Shape::Plain, &());
    check(Answer::Venue(venue_view()), Shape::Plain, &venue_view());
    check(Answer::Hall(hall_view()), Shape::Plain, &hall_view());
    check(Answer::Session(session_view().into()), Shape::Plain, &session_view());
    check(Answer::Map(map_view()), Shape::Plain, &map_view());
    check(Answer::Cart(cart_view()), Shape::Plain, &cart_view());
    check(Answer::Cart(empty_cart_view()), Shape::Plain, &empty_cart_view());
    check(Answer::Held(held()), Shape::Plain, &held());
    check(Answer::SessionAudit(session_audit()), Shape::Plain, &session_audit());
    check(Answer::CartAudit(cart_audit()), Shape::Plain, &cart_audit());
    for settling in [true, false] {
        check(Answer::Order { order: order(), settling }, Shape::Plain, &OrderView { order: order(), settling });
    }
}

#[test]
fn a_full_page_says_where_it_ended_and_the_next_request_takes_it() {
    let sessions = vec![session_entry()];
    let page = |cursor: Option<&str>| SessionPage { sessions: sessions.clone(), cursor: cursor.map(Into::into) };
    check(Answer::Sessions(sessions.clone()), Shape::Page { limit: 2 }, &page(None));
    let cursor = "1775995200000/hamlet-0412";
    check(Answer::Sessions(sessions.clone()), Shape::Page { limit: 1 }, &page(Some(cursor)));
    let frame = format!(r#"{{"id":1,"op":"session.search","body":{{"venue":"globe","cursor":"{cursor}"}}}}"#);
    let request = boxoffice_wire::Request::read(Encoding::Json, frame.as_bytes()).expect("a good request");
    let after = format!("{:?}", request.call);
    assert!(after.contains("after: Some((Timestamp(1775995200000), hamlet-0412))"), "{after}");
}

#[test]
fn the_three_numbers_of_cinemas() {
    let view = map_view();
    let states = vec![2, 1, 0, 0, 2];
    let expected = ThreeStates { session: view.session.clone(), epoch: 1, version: 391, counts: counts(), states };
    check(Answer::Map(view), Shape::ThreeStates, &expected);
}

#[test]
fn refusals_keep_their_details() {
    for refusal in refusals() {
        for encoding in Encoding::ALL {
            let outcome = Err(refusal.clone());
            let write = |encoding, out: &mut BytesMut| encode::outcome(encoding, out, 7, &outcome, Shape::Plain);
            let Reply::No(no) = verdict::<()>(encoding, write) else { panic!("not a no") };
            assert_eq!((no.code, no.name.as_str()), (refusal.code(), refusal.name()));
            assert_eq!(no.message, refusal.to_string());
            assert_eq!(no.states.is_empty(), !matches!(no.code, 201 | 204), "{refusal:?}");
            assert_eq!(no.seats.is_empty(), !matches!(no.code, 201..=204), "{refusal:?}");
        }
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
fn the_door_answers_for_itself() {
    for encoding in Encoding::ALL {
        let reply = verdict(encoding, |encoding, out| encode::status(encoding, out, 7, &status()));
        assert_eq!(reply, Reply::Ok(status(), Vec::new()));
        let reply = verdict(encoding, |encoding, out| encode::audit(encoding, out, 7, &node_audit()));
        assert_eq!(reply, Reply::Ok(node_audit(), Vec::new()));
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
fn feeds_come_back_as_they_were() {
    let ended = Ended { name: "not_found".into() };
    for encoding in Encoding::ALL {
        let read = |write: &dyn Fn(&mut BytesMut)| {
            let mut out = BytesMut::new();
            write(&mut out);
            let frame = ServerFrame::read(encoding, &out).expect("a frame");
            let ServerFrame::Feed(3, event) = frame else { panic!("{frame:?} is not of feed 3") };
            event.read(encoding).expect("an event")
        };
        assert_eq!(read(&|out| encode::snapshot(encoding, out, 3, &snapshot())), Event::Snapshot(snapshot()));
        assert_eq!(read(&|out| encode::delta(encoding, out, 3, &delta())), Event::Delta(delta()));
        assert_eq!(read(&|out| encode::ended(encoding, out, 3, &ended)), Event::Ended(ended.clone()));
    }
}

//! Frames of the server: answers, feeds, notices. They are written from the core's types directly into the caller's buffer.

use std::sync::Arc;

use boxoffice_core::{
    answer::{Answer, Answered, At, BookingView, MapView, Outcome, SessionEntry, SessionView, TitleView},
    cursor::by_time,
    layout::Layout,
    refusal::Refusal,
    seat::SeatState,
};
use bytes::BytesMut;
use serde::{Serialize, Serializer, ser::SerializeStruct};
use smol_str::SmolStr;

pub use crate::repr::layout_cache::{SharedPart, sharing};
use crate::{
    Encoding, Fail, Rejection,
    access::KeyList,
    call::Shape,
    cluster::{ClusterStatus, InvitationStatus},
    convert,
    feed::{DeltaBody, Ended, Notice, SnapshotBody},
    hello::Hello,
    refusal::RefusalBody,
    reply::{Available, FreeSlots, Slot, Watching},
    repr::{Done, ListOf, ToWire, WireWrite, layout_cache, order::write_order},
};

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Granted.
    Ok(Answered, Shape),
    /// Refused by an entity.
    No(Refusal),
    /// Refused before it reached an entity.
    Rejected(Rejection),
    Fail(Fail),
}

impl Verdict {
    /// The verdict on a decided command.
    pub fn decided(outcome: Outcome, shape: Shape) -> Verdict {
        match outcome {
            Ok(answered) => Verdict::Ok(answered, shape),
            Err(refusal) => Verdict::No(refusal),
        }
    }
}

/// Answers a decided command. `leader` is the node that leads its entity's shard, if that is another node.
pub fn outcome(encoding: Encoding, out: &mut BytesMut, id: u64, outcome: &Outcome, shape: Shape, leader: Option<u64>) {
    match outcome {
        Ok(answered) => {
            let ok = &AnswerBody(&answered.answer, shape);
            encoding.write(out, &OkFrame { id: Some(id), ok, at: &answered.at, leader });
        }
        Err(refusal) => encoding.write(out, &NoFrame { id: Some(id), no: RefusalBody::Refusal(refusal), leader }),
    }
}

/// Answers with a rejection. Without an id if it could not be read.
pub fn rejection(encoding: Encoding, out: &mut BytesMut, id: Option<u64>, why: &Rejection) {
    encoding.write(out, &NoFrame { id, no: RefusalBody::of(why), leader: None });
}

/// Answers with a failure.
pub fn fail(encoding: Encoding, out: &mut BytesMut, id: u64, fail: &Fail) {
    encoding.write(out, &FailFrame { id: Some(id), fail });
}

/// Answers with a verdict.
pub fn verdict(encoding: Encoding, out: &mut BytesMut, id: u64, verdict: &Verdict) {
    encoding.write(out, &VerdictFrame { id: Some(id), verdict });
}

/// Answers a batch with a verdict for each item, in their order.
pub fn batch(encoding: Encoding, out: &mut BytesMut, id: u64, verdicts: &[Verdict]) {
    write_ok(encoding, out, Some(id), &items(verdicts));
}

/// Answers with an empty ok.
pub fn done(encoding: Encoding, out: &mut BytesMut, id: u64) {
    write_ok(encoding, out, Some(id), &Done);
}

/// Answers `watch` with the number of the feed.
pub fn watching(encoding: Encoding, out: &mut BytesMut, id: u64, feed: u64) {
    ok(encoding, out, id, &Watching { feed });
}

/// Answers with a body that is not an entity's answer, such as a status.
pub fn ok<T: WireWrite>(encoding: Encoding, out: &mut BytesMut, id: u64, body: &T) {
    write_ok(encoding, out, Some(id), &ToWire(body));
}

/// Sends a snapshot to the watchers of a feed.
pub fn snapshot<B: SnapshotBody>(encoding: Encoding, out: &mut BytesMut, feed: u64, snapshot: &B) {
    encoding.write(out, &FeedFrame { feed, event: "snapshot", body: snapshot });
}

/// Sends a delta to the watchers of a feed.
pub fn delta<B: DeltaBody>(encoding: Encoding, out: &mut BytesMut, feed: u64, delta: &B) {
    encoding.write(out, &FeedFrame { feed, event: "delta", body: delta });
}

/// Tells the watchers of a feed that nothing more will come.
pub fn ended(encoding: Encoding, out: &mut BytesMut, feed: u64, ended: &Ended) {
    encoding.write(out, &FeedFrame { feed, event: "ended", body: ended });
}

/// Tells the watchers of a feed for how many milliseconds it may have been out of date, because the node is cut off from the
/// leader. 0 means that it is up to date again.
pub fn stale(encoding: Encoding, out: &mut BytesMut, feed: u64, stale_ms: u64) {
    encoding.write(out, &FeedFrame { feed, event: "stale_ms", body: &stale_ms });
}

/// Sends a notice to a connection.
pub fn notice(encoding: Encoding, out: &mut BytesMut, notice: &Notice) {
    #[derive(Serialize)]
    struct Frame<'a> {
        notice: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reconnect_ms: Option<u64>,
    }
    encoding.write(out, &Frame { notice: &notice.name, reconnect_ms: notice.reconnect_ms });
}

/// The first frame of a connection.
pub fn hello(encoding: Encoding, out: &mut BytesMut, hello: &Hello) {
    #[derive(Serialize)]
    struct Frame<'a> {
        hello: &'a Hello,
    }
    encoding.write(out, &Frame { hello });
}

/// The body of an ok without its envelope.
pub fn answer(encoding: Encoding, out: &mut BytesMut, answered: &Answered, shape: Shape) {
    encoding.write(out, &AnswerBody(&answered.answer, shape));
}

/// Another body without its envelope, such as a status.
pub fn body<T: Serialize>(encoding: Encoding, out: &mut BytesMut, body: &T) {
    encoding.write(out, body);
}

/// Writes an answer that rests on no versions. Without an id over HTTP.
pub(crate) fn write_ok<T: Serialize>(encoding: Encoding, out: &mut BytesMut, id: Option<u64>, ok: &T) {
    encoding.write(out, &OkFrame { id, ok, at: &[], leader: None });
}

/// The body of the answer to a batch.
pub(crate) fn items(verdicts: &[Verdict]) -> impl Serialize {
    #[derive(Serialize)]
    struct Items<I: Serialize> {
        items: I,
    }
    Items { items: ListOf(|| verdicts.iter().map(|verdict| VerdictFrame { id: None, verdict })) }
}

/// An answer with a verdict. Without an id over HTTP and in a batch.
pub(crate) struct VerdictFrame<'a> {
    pub(crate) id: Option<u64>,
    pub(crate) verdict: &'a Verdict,
}

impl Serialize for VerdictFrame<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (id, leader) = (self.id, None);
        match self.verdict {
            Verdict::Ok(Answered { answer, at }, shape) => {
                OkFrame { id, ok: &AnswerBody(answer, *shape), at, leader }.serialize(serializer)
            }
            Verdict::No(refusal) => NoFrame { id, no: RefusalBody::Refusal(refusal), leader }.serialize(serializer),
            Verdict::Rejected(why) => NoFrame { id, no: RefusalBody::of(why), leader }.serialize(serializer),
            Verdict::Fail(fail) => FailFrame { id, fail }.serialize(serializer),
        }
    }
}

#[derive(Serialize)]
struct OkFrame<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    ok: &'a T,
    #[serde(skip_serializing_if = "<[At]>::is_empty", serialize_with = "write_list")]
    at: &'a [At],
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<u64>,
}

#[derive(Serialize)]
struct NoFrame<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    no: RefusalBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<u64>,
}

#[derive(Serialize)]
struct FailFrame<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    fail: &'a Fail,
}

/// A frame of a feed.
struct FeedFrame<'a, T> {
    feed: u64,
    /// The name of the other field.
    event: &'static str,
    body: &'a T,
}

impl<T: Serialize> Serialize for FeedFrame<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut frame = serializer.serialize_struct("Feed", 2)?;
        frame.serialize_field("feed", &self.feed)?;
        frame.serialize_field(self.event, self.body)?;
        frame.end()
    }
}

fn write_list<T: WireWrite, S: Serializer>(entries: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    ListOf(|| entries.iter().map(ToWire)).serialize(serializer)
}

/// The body of an ok.
struct AnswerBody<'a>(&'a Answer, Shape);

impl Serialize for AnswerBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Answer::Done => Done.serialize(serializer),
            Answer::VenuePut(change) => ToWire(change).serialize(serializer),
            Answer::Venue(venue) => ToWire(venue).serialize(serializer),
            Answer::Hall(hall) => ToWire(hall).serialize(serializer),
            Answer::Session(session) if self.1 == Shape::WithoutRows => {
                let layout = Arc::new(Layout::new(Vec::new(), None).expect("no rows are no fault"));
                ToWire(&SessionView { layout, ..SessionView::clone(session) }).serialize(serializer)
            }
            Answer::Session(session) => ToWire(session).serialize(serializer),
            Answer::Sessions(sessions) => {
                let cursor = |last: &SessionEntry| by_time(last.starts_at, last.id.as_str());
                page("sessions", sessions, cursor, self.1, serializer)
            }
            Answer::Map(map) => MapBody(map, self.1 == Shape::ThreeStates).serialize(serializer),
            Answer::Cart(cart) => ToWire(cart).serialize(serializer),
            Answer::Held(held) => ToWire(held).serialize(serializer),
            Answer::Order { order, settling, payment, refunds, sessions } => {
                write_order(order, *settling, payment, (refunds, sessions), serializer)
            }
            Answer::Refund(refund) => ToWire(refund).serialize(serializer),
            Answer::Title(title) => ToWire(title).serialize(serializer),
            Answer::Titles(titles) => {
                let cursor = |last: &TitleView| convert::title_cursor(&last.title.name, &last.id);
                page("titles", titles, cursor, self.1, serializer)
            }
            Answer::Venues(venues) => ToWire(venues).serialize(serializer),
            Answer::VenueIds(ids) => list("ids", ids, serializer),
            Answer::Product(product) => ToWire(product).serialize(serializer),
            Answer::Resource(resource) => ToWire(resource).serialize(serializer),
            Answer::Booked(bookings) => list("bookings", bookings, serializer),
            Answer::Available(conflicts) => {
                Available { available: conflicts.is_empty(), conflicts: conflicts.clone() }.serialize(serializer)
            }
            Answer::Bookings(bookings) => {
                let cursor = |last: &BookingView| by_time(last.begin, &last.booking);
                page("bookings", bookings, cursor, self.1, serializer)
            }
            Answer::FreeSlots(free) => {
                let slots = free.iter().map(|(begin, end)| Slot(*begin, *end)).collect();
                FreeSlots { slots }.serialize(serializer)
            }
            Answer::Purchases(purchases) => ToWire(purchases).serialize(serializer),
            Answer::SessionAudit(audit) => ToWire(&**audit).serialize(serializer),
            Answer::CartAudit(audit) => ToWire(&**audit).serialize(serializer),
            Answer::ProductAudit(audit) => ToWire(&**audit).serialize(serializer),
            Answer::ResourceAudit(audit) => ToWire(&**audit).serialize(serializer),
            Answer::CustomerAudit(audit) => ToWire(&**audit).serialize(serializer),
            Answer::Cluster(view) => ClusterStatus::from(&**view).serialize(serializer),
            Answer::Invitation(view) => InvitationStatus::from(&**view).serialize(serializer),
            Answer::Keys(keys) => KeyList::from(&**keys).serialize(serializer),
            Answer::SessionChanged(changed) => ToWire(changed).serialize(serializer),
            Answer::Code(code) => ToWire(code).serialize(serializer),
            Answer::CodeAudit(audit) => ToWire(&**audit).serialize(serializer),
            Answer::SessionNames(names) => ToWire(&**names).serialize(serializer),
        }
    }
}

/// A list under its name, with the cursor of its last entry if the page is full.
fn page<T: WireWrite, S: Serializer>(
    name: &'static str,
    entries: &[T],
    cursor: impl FnOnce(&T) -> SmolStr,
    shape: Shape,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let full = matches!(shape, Shape::Page { limit } if entries.len() >= limit as usize);
    let cursor = entries.last().filter(|_| full).map(cursor);
    let mut map = serializer.serialize_struct("Page", 1 + usize::from(cursor.is_some()))?;
    map.serialize_field(name, &ListOf(|| entries.iter().map(ToWire)))?;
    if let Some(cursor) = cursor {
        map.serialize_field("cursor", &cursor)?;
    }
    map.end()
}

/// A whole list under its name.
fn list<T: WireWrite, S: Serializer>(name: &'static str, entries: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_struct("List", 1)?;
    map.serialize_field(name, &ListOf(|| entries.iter().map(ToWire)))?;
    map.end()
}

/// A seat map, in three numbers if need be.
struct MapBody<'a>(&'a MapView, bool);

impl Serialize for MapBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        layout_cache::map(self.0, self.1, &PlainMap(self.0, self.1), serializer)
    }
}

/// The same, encoded here.
struct PlainMap<'a>(&'a MapView, bool);

impl Serialize for PlainMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.1 { three_states(self.0, serializer) } else { ToWire(self.0).serialize(serializer) }
    }
}

/// A layout that is encoded once for all answers.
struct SharedLayout<'a>(&'a Arc<Layout>);

impl Serialize for SharedLayout<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        layout_cache::serialize(self.0, serializer)
    }
}

/// Answers with a layout alone, without an id.
pub(crate) fn layout(encoding: Encoding, out: &mut BytesMut, layout: &Arc<Layout>) {
    write_ok(encoding, out, None, &SharedLayout(layout));
}

/// Answers with a map alone, without an id.
pub(crate) fn map(encoding: Encoding, out: &mut BytesMut, map: &MapView) {
    write_ok(encoding, out, None, &MapBody(map, false));
}

/// A seat map in the three numbers of cinemas.
fn three_states<S: Serializer>(view: &MapView, serializer: S) -> Result<S::Ok, S::Error> {
    let counts = view.counts;
    let seats = (counts.free + counts.held + counts.sold + counts.blocked) as usize;
    assert!(seats.div_ceil(4) == view.seats.len(), "{seats} seats counted, {} bytes of map", view.seats.len());
    let number = |index: usize| match (view.seats[index / 4] >> (index % 4 * 2)) & 3 {
        state if state == SeatState::Free as u8 => 2u8,
        state if state == SeatState::Held as u8 => 1,
        _ => 0,
    };
    let mut map = serializer.serialize_struct("Map", 5)?;
    map.serialize_field("session", &ToWire(&view.session))?;
    map.serialize_field("epoch", &view.epoch)?;
    map.serialize_field("version", &view.version)?;
    map.serialize_field("counts", &ToWire(&view.counts))?;
    map.serialize_field("states", &ListOf(|| (0..seats).map(number)))?;
    map.end()
}

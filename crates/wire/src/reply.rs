//! The client's side: writes requests, and reads the server's frames into views.

use std::{borrow::Cow, fmt};

use boxoffice_core::{
    answer::SeatCounts,
    id::{Entity, Id},
    money::Currency,
    refusal::{Conflict, Shortage, rows},
    seat::{Seat, SeatState},
    time::Timestamp,
};
use bytes::BytesMut;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::{
    Encoding, Fail, Op,
    access::KeyList,
    city::CityPage,
    cluster::{ClusterStatus, InvitationStatus, ShardMap},
    decode,
    feed::{Ended, Notice, Snapshot, SnapshotBody},
    from_body::bodies,
    hello::Hello,
    raw,
    rejection::FailRepr,
    repr::{
        self, WireRepr, WireWrite,
        shape::{Each, Shapes, shapes},
    },
    status::{BackupPiece, BackupPlaces, HistoryPage, NodeAudit, NodeStatus},
    view::{
        AsOf, At, BookingView, CartAudit, CartView, CodeAudit, CodeView, CustomerAudit, HallView, Held, MapView, Order,
        ProductAudit, ProductView, PurchasesPage, RefundRecord, ResourceAudit, ResourceView, SessionAudit,
        SessionChanged, SessionEntry, SessionView, TitleView, VenueChange, VenueView, VenuesPage,
    },
};
pub use crate::{
    from_body::{FromBody, Unreadable},
    repr::payment::Figure,
};

/// Writes a request.
pub fn request<B: Serialize>(
    encoding: Encoding,
    out: &mut BytesMut,
    id: u64,
    op: Op,
    rid: Option<&str>,
    deadline_ms: Option<u64>,
    body: &B,
) {
    #[derive(Serialize)]
    struct Frame<'a, B> {
        id: u64,
        op: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        rid: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
        body: &'a B,
    }
    encoding.write(out, &Frame { id, op: op.name(), rid, deadline_ms, body });
}

/// An item of a batch.
#[derive(Clone, Debug, Serialize)]
pub struct BatchItem<'a, B> {
    /// The op's name.
    pub op: &'static str,
    /// The request id of a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rid: Option<Cow<'a, str>>,
    pub body: B,
}

/// The body of a batch.
#[derive(Clone, Debug, Serialize)]
pub struct Batch<'a, B> {
    pub items: Vec<BatchItem<'a, B>>,
}

/// A frame of the server. The body of an answer is still bytes, since only the caller knows its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerFrame<'a> {
    /// The answer to the request with this id. Without an id if the server could not read it.
    Answer(Option<u64>, RawVerdict<'a>, Leader),
    /// An event of the feed with this number.
    Feed(u64, RawEvent<'a>),
    Notice(Notice),
    Hello(Box<Hello>),
    /// A frame of a newer server, which the client ignores.
    Other,
}

/// The node that leads the entity's shard, if another node answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leader(pub Option<u64>);

/// An answer whose body has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawVerdict<'a> {
    /// Granted, with the body and the versions that it rests on.
    Ok(&'a [u8], Option<&'a [u8]>),
    No(&'a [u8]),
    Fail(&'a [u8]),
}

/// An event of a feed whose body has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawEvent<'a> {
    Snapshot(&'a [u8]),
    Delta(&'a [u8]),
    Ended(&'a [u8]),
    /// For how many milliseconds the feed may have been out of date. 0 means that it is up to date again.
    Stale(u64),
}

/// The fields of a server's frame seen so far.
#[derive(Default)]
struct Fields<'a> {
    id: Option<u64>,
    verdict: Option<RawVerdict<'a>>,
    at: Option<&'a [u8]>,
    leader: Leader,
    feed: Option<u64>,
    event: Option<RawEvent<'a>>,
    notice: Option<SmolStr>,
    reconnect_ms: Option<u64>,
    hello: Option<&'a [u8]>,
}

impl<'a> ServerFrame<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`Unreadable`] if the bytes are not a frame.
    pub fn read(encoding: Encoding, frame: &'a [u8]) -> Result<ServerFrame<'a>, Unreadable> {
        raw::check_depth(encoding, frame)?;
        let mut seen = Fields::default();
        raw::fields(encoding, frame, |name, value| {
            match name {
                "id" => seen.id = raw::number(encoding, value),
                "ok" => seen.verdict = Some(RawVerdict::Ok(value, None)),
                "no" => seen.verdict = Some(RawVerdict::No(value)),
                "fail" => seen.verdict = Some(RawVerdict::Fail(value)),
                "at" => seen.at = Some(value),
                "leader" => seen.leader = Leader(raw::number(encoding, value)),
                "feed" => seen.feed = raw::number(encoding, value),
                "snapshot" => seen.event = Some(RawEvent::Snapshot(value)),
                "delta" => seen.event = Some(RawEvent::Delta(value)),
                "ended" => seen.event = Some(RawEvent::Ended(value)),
                "stale_ms" => seen.event = raw::number(encoding, value).map(RawEvent::Stale),
                "notice" => seen.notice = raw::text(encoding, value).map(SmolStr::new),
                "reconnect_ms" => seen.reconnect_ms = raw::number(encoding, value),
                "hello" => seen.hello = Some(value),
                _ => {}
            }
            Ok(())
        })?;
        Ok(match seen {
            Fields { verdict: Some(RawVerdict::Ok(body, _)), id, at, leader, .. } => {
                ServerFrame::Answer(id, RawVerdict::Ok(body, at), leader)
            }
            Fields { verdict: Some(verdict), id, leader, .. } => ServerFrame::Answer(id, verdict, leader),
            Fields { feed: Some(feed), event: Some(event), .. } => ServerFrame::Feed(feed, event),
            Fields { notice: Some(name), reconnect_ms, .. } => ServerFrame::Notice(Notice { name, reconnect_ms }),
            Fields { hello: Some(hello), .. } => ServerFrame::Hello(Box::new(Hello::from_body(encoding, hello)?)),
            Fields { .. } => ServerFrame::Other,
        })
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<T> {
    /// Granted, with the answer and the versions that it rests on.
    Ok(T, Vec<At>),
    No(No),
    Fail(Fail),
}

impl RawVerdict<'_> {
    /// Reads the answer.
    ///
    /// # Errors
    /// [`Unreadable`] if the body is not an answer to the op.
    pub fn read<T: FromBody>(self, encoding: Encoding) -> Result<Reply<T>, Unreadable> {
        self.read_with(encoding, |body| T::from_body(encoding, body))
    }

    /// [`RawVerdict::read`] with another way to read the body of a granted request.
    ///
    /// # Errors
    /// [`Unreadable`] if `read` says so, or if the rest is not an answer.
    pub fn read_with<T>(
        self,
        encoding: Encoding,
        read: impl FnOnce(&[u8]) -> Result<T, Unreadable>,
    ) -> Result<Reply<T>, Unreadable> {
        match self {
            RawVerdict::Ok(body, at) => {
                let at = at.map_or(Ok(Vec::new()), |at| FromBody::from_body(encoding, at))?;
                Ok(Reply::Ok(read(body)?, at))
            }
            RawVerdict::No(body) => Ok(Reply::No(No::from_body(encoding, body)?)),
            RawVerdict::Fail(body) => Ok(Reply::Fail(Fail::from_body(encoding, body)?)),
        }
    }
}

/// An event of a feed, of a session by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<S: SnapshotBody = Snapshot> {
    Snapshot(S),
    Delta(S::Delta),
    Ended(Ended),
    /// For how many milliseconds the feed may have been out of date. 0 means that it is up to date again.
    Stale(u64),
}

impl RawEvent<'_> {
    /// Reads the event.
    ///
    /// # Errors
    /// [`Unreadable`] if the bytes are not such an event.
    pub fn read<S: SnapshotBody>(self, encoding: Encoding) -> Result<Event<S>, Unreadable> {
        match self {
            RawEvent::Snapshot(body) => S::from_body(encoding, body).map(Event::Snapshot),
            RawEvent::Delta(body) => S::Delta::from_body(encoding, body).map(Event::Delta),
            RawEvent::Ended(body) => Ended::from_body(encoding, body).map(Event::Ended),
            RawEvent::Stale(stale_ms) => Ok(Event::Stale(stale_ms)),
        }
    }
}

impl std::error::Error for No {}

impl fmt::Display for No {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.message, self.code, self.name)
    }
}

impl No {
    /// Whether it says how a payment ended, as [`boxoffice_core::refusal::Refusal::is_outcome`]. A repeat gets the same answer,
    /// and an earlier attempt cannot be granted any more.
    pub fn is_outcome(&self) -> bool {
        rows().any(|row| row.code == self.code && row.is_outcome)
    }
}

/// Declares [`No`] with the fields of all refusals.
macro_rules! no {
    ($($(#[doc = $words:literal])? $name:ident: $type:ty,)+) => { shapes! {
        /// A refusal. Nothing changed. 601 and 603 say how a payment ended.
        #[derive(Default, Eq)]
        pub struct No {
            pub code: u16,
            pub name: SmolStr,
            pub message!: String,
            $($(#[doc = $words])? pub $name?: $type,)+
            /// Every refused line, if several lines of a request were refused. The other fields are those of the first.
            pub lines?: Vec<No>,
        }
    } };
}

boxoffice_core::refusal_fields!(no);

shapes! {
    /// The sessions of a venue.
    #[derive(Eq)]
    pub struct SessionPage {
        /// Sessions by start, then id.
        pub sessions: Vec<SessionEntry>,
        /// The cursor of the next page, if there may be more.
        pub cursor?: Option<SmolStr>,
    }

    #[derive(Eq)]
    pub struct TitlePage {
        /// Titles by name, then id.
        pub titles: Vec<TitleView>,
        /// The cursor of the next page, if there may be more.
        pub cursor?: Option<SmolStr>,
    }

    /// The bookings by begin, then id.
    #[derive(Eq)]
    pub struct BookingPage {
        /// Bookings by begin, then id.
        pub bookings: Vec<BookingView>,
        /// The cursor of the next page, if there may be more.
        pub cursor?: Option<SmolStr>,
    }

    #[derive(Eq)]
    pub struct Available {
        /// Whether it could be booked now.
        pub available: bool,
        /// The conflicts. Empty if it is available.
        pub conflicts!: Vec<Conflict>,
    }

    #[derive(Eq)]
    pub struct FreeSlots {
        /// The slots by begin.
        pub slots: Vec<Slot>,
    }
}

/// A time: `[begin, end)`, written as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot(
    /// From.
    #[serde(with = "repr")]
    pub Timestamp,
    /// Up to, exclusive.
    #[serde(with = "repr")]
    pub Timestamp,
);

impl WireWrite for Slot {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }
}

impl WireRepr for Slot {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Slot, D::Error> {
        Slot::deserialize(deserializer)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        json!({"type": "array", "items": Timestamp::schema(shapes), "minItems": 2, "maxItems": 2})
    }
}

shapes! {
    /// A seat map in the three numbers of cinemas.
    #[derive(Eq)]
    pub struct ThreeStates {
        pub session: Id,
        /// The epoch of the version.
        pub epoch!: u64,
        /// The version of the state.
        pub version: u64,
        /// Seats by state, in four states.
        pub counts: SeatCounts,
        /// One number for each seat in layout order: 2 on sale, 1 locked, 0 sold or blocked.
        pub states: Vec<u8> = Each(0..=2),
    }

    #[derive(Copy, Eq)]
    pub struct Watching {
        /// The number of the feed.
        pub feed: u64,
    }

    #[derive(Default, Eq)]
    pub struct CountsWatching {
        /// The feeds that have begun, in the order of the request.
        pub feeds: Vec<SessionFeed>,
        /// Sessions that do not exist.
        pub missing: Vec<Id>,
        /// Sessions that no reachable node has. Ask for them again in a moment.
        pub unreachable?: Vec<Id>,
    }

    /// A session whose counts are watched.
    #[derive(Eq)]
    pub struct SessionFeed {
        pub session: Id,
        /// The number of its feed.
        pub feed: u64,
    }
}

bodies! {
    AsOf, Available, BackupPiece, BackupPlaces, BookingPage, CartAudit, CartView, CityPage, ClusterStatus, CodeAudit, CodeView, CountsWatching, CustomerAudit, FreeSlots,
    HallView, Held, HistoryPage, InvitationStatus, KeyList, MapView, No, NodeAudit, NodeStatus, Order, ProductAudit, ProductView,
    PurchasesPage, RefundRecord, ResourceAudit, ResourceView, SessionAudit, SessionChanged, SessionPage, SessionView, ShardMap,
    ThreeStates, TitlePage, TitleView, VenueChange, Vec<At>, VenueView, VenuesPage, Watching,
}

impl FromBody for Fail {
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<Fail, Unreadable> {
        decode::read::<FailRepr>(encoding, body).map(Fail::from).map_err(Unreadable)
    }
}

impl FromBody for Hello {
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<Hello, Unreadable> {
        decode::read(encoding, body).map_err(Unreadable)
    }
}

/// Done. Any fields are ignored.
impl FromBody for () {
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<(), Unreadable> {
        raw::fields(encoding, body, |_, _| Ok(())).map_err(Unreadable::from)
    }
}

/// The answer of `batch`: one for each item, all of one type.
impl<T: FromBody> FromBody for Vec<Reply<T>> {
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<Vec<Reply<T>>, Unreadable> {
        let list = raw::field(encoding, body, "items")?.ok_or_else(|| Unreadable("`items` is missing".into()))?;
        let mut replies = Vec::new();
        raw::elements(encoding, list, |element| {
            let reply = match ServerFrame::read(encoding, element) {
                Ok(ServerFrame::Answer(_, verdict, _)) => verdict.read(encoding),
                Ok(_) => Err(Unreadable("an item is no answer".into())),
                Err(unreadable) => Err(unreadable),
            };
            replies.push(reply);
            Ok(())
        })?;
        replies.into_iter().collect()
    }
}

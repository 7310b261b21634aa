//! The calls of valid requests.

use std::collections::BTreeMap;

use boxoffice_core::{
    command::{Command, VenueCommand},
    id::{Entity, Id, Request as RequestKey},
    seat::Seat,
    time::Timestamp,
};
use smol_str::SmolStr;

use crate::{Op, feed_kind::FeedKind, rejection::Rejection};

/// The shape of the answer to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    #[default]
    Plain,
    /// A seat map in three numbers: 2 on sale, 1 locked, 0 sold or blocked.
    ThreeStates,
    /// A session whose layout has no rows.
    WithoutRows,
    /// A page. A full page has a cursor.
    Page { limit: u32 },
}

/// What the rule of an op makes of its body.
pub(crate) trait Called {
    /// The call, and the shape of its answer.
    fn into_call(self) -> (Call, Shape);
}

impl Called for Command {
    fn into_call(self) -> (Call, Shape) {
        (Call::Command(self), Shape::Plain)
    }
}

impl Called for (Command, Shape) {
    fn into_call(self) -> (Call, Shape) {
        let (command, shape) = self;
        (Call::Command(command), shape)
    }
}

impl Called for Call {
    fn into_call(self) -> (Call, Shape) {
        (self, Shape::Plain)
    }
}

impl Called for (Call, Shape) {
    fn into_call(self) -> (Call, Shape) {
        self
    }
}

/// The call that a request makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Hello(HelloFields),
    Command(Command),
    /// `session.search` over a city, which asks all of its venues.
    SearchCity(CitySearch),
    /// Watch an entity, from now on or from the client's version. The token of a cart was checked.
    Watch {
        /// Its row of the permission table.
        kind: FeedKind,
        /// A session, a product, a resource, a cart or a customer.
        entity: Entity,
        /// The client's version, or its cursor for a customer.
        since: Option<Since>,
    },
    /// Watch the counts of sessions from now on.
    WatchCounts {
        /// 1 to [`limits::FEEDS_MAX`] sessions, each once, in the order of the request.
        sessions: Vec<Id>,
    },
    /// End a feed.
    Unwatch {
        feed: u64,
    },
    /// Several commands. Each has its own answer, in their order. An invalid one is answered with its rejection.
    Batch(Vec<Result<Item, Rejection>>),
    /// The node's status.
    Status,
    /// The leaders of the shards.
    Shards,
    /// The audit of the whole node.
    AuditNode,
    /// The audit of an inventory, with what the carts of its holds and sales know about them.
    AuditWithCarts(Command),
    /// An order, with what it says by id and number in words. Its sessions are asked for that.
    NamedOrder(Command),
    /// What a backup reads.
    Backup(BackupQuery),
    History {
        /// A session, product, resource, cart or customer.
        entity: Entity,
        /// Only events of this seat of a session.
        seat: Option<Seat>,
        /// The maximum of entries, 1 to 1 000.
        limit: u32,
        /// Only events before this version.
        before: Option<u64>,
    },
    /// A session, product or resource as it was at an instant.
    AsOf {
        entity: Entity,
        at: Timestamp,
    },
}

/// What a backup asks a node for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupQuery {
    /// Its shards, and the segments of its log.
    Places {
        /// By shard, the last entry that is known.
        after: BTreeMap<u16, u64>,
        /// Whether the mark is raised.
        mark: bool,
    },
    /// A piece of a part.
    Read {
        part: BackupPart,
        /// Where the piece before ended.
        from: Option<SmolStr>,
    },
}

/// A part of what a node has on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupPart {
    /// The newest snapshot of a shard.
    Snapshot(u16),
    /// The records of a shard's ended entities.
    Records(u16),
    /// A segment of the log.
    Segment(u64),
}

/// Who a client says it is, in its first frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelloFields {
    pub client: SmolStr,
    /// The operators' token or a key.
    pub token: Option<SmolStr>,
    /// The customer that the connection acts for.
    pub customer: Option<Id>,
    /// That customer's token.
    pub customer_token: Option<SmolStr>,
}

/// The version that a watcher has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    pub epoch: u64,
    pub version: u64,
}

/// The state that a watcher has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// A version.
    Version(Resume),
    /// A customer's purchases up to a cursor.
    Cursor(PurchaseCursor),
}

/// A place among the purchases of a customer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurchaseCursor {
    /// The epoch in which the cursor was given, which a restore from a backup ends. Without it, cursors of any epoch are compared.
    pub epoch: Option<u64>,
    /// The last purchase that is known. 0 is before the first.
    pub cursor: u64,
}

/// Sessions of all venues of a city, by start, then id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CitySearch {
    pub city: SmolStr,
    /// Only this title.
    pub title: Option<Id>,
    /// Only sessions that start at this time or later.
    pub from: Timestamp,
    /// Only sessions that start before this time.
    pub to: Timestamp,
    /// The maximum of sessions, 1 to 1 000.
    pub limit: u32,
    /// Only sessions after this one, the last of the page before.
    pub after: Option<(Timestamp, Id)>,
}

impl CitySearch {
    /// The search in one venue. The page is the first `limit` of all answers, by start, then id.
    pub fn at(&self, venue: Id) -> Command {
        let CitySearch { city: _, title, from, to, limit, after } = self.clone();
        Command::Venue(venue, VenueCommand::SearchSessions { hall: None, title, from, to, limit, after })
    }
}

/// One command of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub op: Op,
    /// Its request id and hash, as in [`Request`](crate::Request).
    pub key: Option<RequestKey>,
    /// The shape of its ok answer.
    pub shape: Shape,
    pub command: Command,
}

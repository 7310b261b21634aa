//! What a request asks for, once it is read and checked.

use boxoffice_core::{
    command::{Command, VenueCommand},
    id::{Entity, Id, Request as RequestKey},
    seat::Seat,
    time::Timestamp,
};
use smol_str::SmolStr;

use crate::{Op, body, rejection::Rejection};

/// How the answer to a command is written where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// As usual.
    #[default]
    Plain,
    /// A seat map in three numbers: 2 on sale, 1 locked, 0 sold or blocked.
    ThreeStates,
    /// A page. A full page says where it ended.
    Page {
        /// The most entries.
        limit: u32,
    },
}

/// What is to be done about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The client says who it is.
    Hello(body::ClientHello),
    /// A command for the core.
    Command(Command),
    /// `session.search` over a city: to be spread over its venues.
    SearchCity(CitySearch),
    /// Follow an entity from now on, or from where the client is. Whose cart it is was checked.
    Watch {
        /// Which: a session, a product, a resource, a cart or a customer.
        entity: Entity,
        /// What the client has already; of a customer always a cursor, of the others always a version.
        since: Option<Since>,
    },
    /// Follow sessions in counts only, from now on.
    WatchCounts {
        /// Which: 1 to [`limits::FEEDS_MAX`], each once, in the order in which they were named.
        sessions: Vec<Id>,
    },
    /// Follow a feed no longer.
    Unwatch {
        /// Which feed.
        feed: u64,
    },
    /// Several commands, each answered by itself, in order; what is wrong with one of them is that one's answer.
    Batch(Vec<Result<Item, Rejection>>),
    /// How the node is.
    Status,
    /// Who leads which shard.
    Shards,
    /// What the whole node holds.
    AuditNode,
    /// What happened to an entity, from its log.
    History {
        /// Which.
        entity: Entity,
        /// Only what happened to this seat; only of a session.
        seat: Option<Seat>,
        /// The most entries to return, 1 to 1 000.
        limit: u32,
        /// Only what is older than this version of the entity.
        before: Option<u64>,
    },
}

/// What a watcher has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// A version.
    Version(body::Resume),
    /// A customer's purchases up to this cursor.
    Cursor(u64),
}

/// Sessions of all venues of a city, by start, then id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CitySearch {
    /// Which city.
    pub city: SmolStr,
    /// Only this title.
    pub title: Option<Id>,
    /// Starting at or after.
    pub from: Timestamp,
    /// Starting before.
    pub to: Timestamp,
    /// The most sessions to return, 1 to 1 000.
    pub limit: u32,
    /// Go on after this session: the last one of the page before.
    pub after: Option<(Timestamp, Id)>,
}

impl CitySearch {
    /// The same asked of one venue. The first `limit` of what all venues answer, by start, then id, are the page.
    pub fn at(&self, venue: Id) -> Command {
        let CitySearch { city: _, title, from, to, limit, after } = self.clone();
        Command::Venue(venue, VenueCommand::SearchSessions { hall: None, title, from, to, limit, after })
    }
}

/// One command of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What is asked.
    pub op: Op,
    /// Its request id and hash, as in [`Request`](crate::Request).
    pub key: Option<RequestKey>,
    /// How its ok is to be written.
    pub shape: Shape,
    /// The command.
    pub command: Command,
}

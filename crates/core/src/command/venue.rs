//! Commands to a venue.

use alloc::sync::Arc;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::session::NewSession;
use crate::{
    id::Id,
    layout::Layout,
    text::{Comments, Name},
    time::Timestamp,
};

/// Commands to a venue.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum VenueCommand {
    /// `venue.put` creates or changes the venue, which remembers its last puts.
    #[n(0)]
    Put(#[n(0)] VenueDetails),
    /// `venue.get` of its details, and its halls by name and size.
    #[n(1)]
    Get,
    /// `hall.put` creates or changes a hall. Existing sessions keep their layout.
    #[n(2)]
    PutHall {
        #[n(0)]
        hall: Id,
        #[n(1)]
        name: Name,
        #[n(2)]
        comments: Comments,
        #[n(3)]
        layout: Arc<Layout>,
    },
    /// `hall.get` of name, comments and layout.
    #[n(3)]
    GetHall {
        #[n(0)]
        hall: Id,
    },
    /// `session.create` books the hall for the time (P13 for halls), then opens the session. Idempotent by id.
    #[n(4)]
    CreateSession(#[n(0)] NewSession),
    /// `session.search` of sessions of this venue that start in `[from, to)`, by start, then id.
    #[n(5)]
    SearchSessions {
        /// Only in this hall.
        #[n(3)]
        hall: Option<Id>,
        /// Only this title.
        #[n(4)]
        title: Option<Id>,
        /// Starting at or after.
        #[n(0)]
        from: Timestamp,
        /// Starting before.
        #[n(1)]
        to: Timestamp,
        /// The most entries, 1 to 1 000.
        #[n(2)]
        limit: u32,
        /// Continue after this session, the last one of the page before.
        #[n(5)]
        after: Option<(Timestamp, Id)>,
    },
}

/// The details of a venue.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct VenueDetails {
    #[n(0)]
    pub name: SmolStr,
    #[n(1)]
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    #[n(4)]
    pub position: Option<(i32, i32)>,
    /// Free text.
    #[n(2)]
    pub comments: SmolStr,
    /// The IANA name of its time zone. Its sessions are told in UTC if it has none.
    #[n(5)]
    pub zone: Option<SmolStr>,
    /// Street and number, or what else leads there. May be empty.
    #[n(3)]
    pub address: SmolStr,
}

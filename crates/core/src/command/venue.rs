//! Commands to a venue.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::session::NewSession;
use crate::{
    id::Id,
    layout::Layout,
    text::{Comments, Name},
    time::Timestamp,
};

/// Commands to a venue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueCommand {
    /// `venue.put` creates or changes the venue, which remembers its last puts.
    Put(VenueDetails),
    /// `venue.get` of its details, and its halls by name and size.
    Get,
    /// `hall.put` creates or changes a hall. Existing sessions keep their layout.
    PutHall { hall: Id, name: Name, comments: Comments, layout: Arc<Layout> },
    /// `hall.get` of name, comments and layout.
    GetHall { hall: Id },
    /// `session.create` books the hall for the time (P13 for halls), then opens the session. Idempotent by id.
    CreateSession(NewSession),
    /// `session.search` of sessions of this venue that start in `[from, to)`, by start, then id.
    SearchSessions {
        /// Only in this hall.
        hall: Option<Id>,
        /// Only this title.
        title: Option<Id>,
        /// Starting at or after.
        from: Timestamp,
        /// Starting before.
        to: Timestamp,
        /// The most entries, 1 to 1 000.
        limit: u32,
        /// Continue after this session, the last one of the page before.
        after: Option<(Timestamp, Id)>,
    },
}

/// The details of a venue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueDetails {
    pub name: SmolStr,
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
    /// Free text.
    pub comments: SmolStr,
    /// The IANA name of its time zone. Its sessions are told in UTC if it has none.
    pub zone: Option<SmolStr>,
    /// Street and number, or what else leads there. May be empty.
    pub address: SmolStr,
}

//! Commands to a venue.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::session::NewSession;
use crate::{id::Id, layout::Layout, time::Timestamp};

/// Commands to a venue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueCommand {
    /// Create or change it: `venue.put`. It remembers its last puts.
    Put(VenueDetails),
    /// `venue.get`: its details, and its halls by name and size.
    Get,
    /// Create or change a hall: `hall.put`. Existing sessions keep their layout.
    PutHall {
        /// Which hall.
        hall: Id,
        /// Its name.
        name: SmolStr,
        /// Free text.
        comments: SmolStr,
        /// Its seats.
        layout: Arc<Layout>,
    },
    /// `hall.get`: name, comments and layout.
    GetHall {
        /// Which hall.
        hall: Id,
    },
    /// `session.create`: books the hall for the time (P13 for halls), then opens the session. Idempotent by id.
    CreateSession(NewSession),
    /// `session.search`: sessions of this venue that start in `[from, to)`, by start, then id.
    SearchSessions {
        /// Only in this hall.
        hall: Option<Id>,
        /// Only this title.
        title: Option<Id>,
        /// Starting at or after.
        from: Timestamp,
        /// Starting before.
        to: Timestamp,
        /// The most entries; 1 to 1 000.
        limit: u32,
        /// Continue after this session, the last one of the page before.
        after: Option<(Timestamp, Id)>,
    },
}

/// The details of a venue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueDetails {
    /// Its name.
    pub name: SmolStr,
    /// Its city.
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
    /// Free text.
    pub comments: SmolStr,
}

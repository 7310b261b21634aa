//! What a venue is told or asked.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::session::NewSession;
use crate::{id::Id, layout::Layout, time::Timestamp};

/// What a venue is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueCommand {
    /// Create or change it: `venue.put`. It remembers its last puts.
    Put(VenueDetails),
    /// `venue.get`: its details, and its halls by name and size.
    Get,
    /// Create or change a hall: `hall.put`. Sessions that exist keep the layout they were made with.
    PutHall {
        /// Which hall.
        hall: Id,
        /// What it is called.
        name: SmolStr,
        /// Anything worth saying.
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
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on after this session: the last one of the page before.
        after: Option<(Timestamp, Id)>,
    },
}

/// What is known of a venue besides its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueDetails {
    /// What it is called.
    pub name: SmolStr,
    /// Where it is.
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
    /// Anything worth saying.
    pub comments: SmolStr,
}

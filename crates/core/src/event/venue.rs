//! Events of venues.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    command::{NewSession, VenueDetails},
    id::{Id, Request},
    layout::Layout,
    time::Timestamp,
};

/// Events of venues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueEvent {
    /// It was created or changed, or put without a change.
    Put {
        details: VenueDetails,
        request: Request,
        /// When it was put. If the zone is another one, sessions that end later are sent it.
        at: Timestamp,
        /// How many coming sessions show another hour because of it.
        shifted: u32,
    },
    /// A hall was created or changed, or put without a change.
    HallPut {
        hall: Id,
        name: SmolStr,
        comments: SmolStr,
        /// Its seats. `None` if they did not change.
        layout: Option<Arc<Layout>>,
        request: Request,
    },
    /// The hall is booked for the session, and the venue owes the session its opening.
    SessionBooked {
        /// The session as the client asked for it.
        session: NewSession,
        /// The hall's layout at that moment.
        layout: Arc<Layout>,
    },
    SessionOpened(Id),
    /// The session could not be opened under this id. The hall's time is free again.
    SessionRefused(Id),
    /// The session is canceled. The hall's time is free again.
    SessionCanceled(Id),
    /// The directory knows the venue's details of this version.
    Listed {
        /// The version of the details.
        version: u64,
    },
    /// The session knows the venue's zone.
    SessionZoned(Id),
}

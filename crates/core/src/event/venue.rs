//! Events of venues.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    command::{NewSession, VenueDetails},
    id::{Id, Request},
    layout::Layout,
};

/// Events of venues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueEvent {
    /// It was created or changed, or put without a change.
    Put {
        /// The new content.
        details: VenueDetails,
        /// The request.
        request: Request,
    },
    /// A hall was created or changed, or put without a change.
    HallPut {
        /// Which hall.
        hall: Id,
        /// Its name.
        name: SmolStr,
        /// Its comments.
        comments: SmolStr,
        /// Its seats; absent if they did not change.
        layout: Option<Arc<Layout>>,
        /// The request.
        request: Request,
    },
    /// The hall is booked for the session and the session is owed its opening.
    SessionBooked {
        /// The session as the client asked for it.
        session: NewSession,
        /// The hall's layout at that moment.
        layout: Arc<Layout>,
    },
    /// The session is open.
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
}

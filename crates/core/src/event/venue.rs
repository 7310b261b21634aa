//! What happens to venues.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    command::{NewSession, VenueDetails},
    id::{Id, Request},
    layout::Layout,
};

/// What happens to venues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueEvent {
    /// Created or changed, or put as it was.
    Put {
        /// What it is now.
        details: VenueDetails,
        /// The request.
        request: Request,
    },
    /// A hall was created or changed, or put as it was.
    HallPut {
        /// Which hall.
        hall: Id,
        /// What it is called.
        name: SmolStr,
        /// What is said of it.
        comments: SmolStr,
        /// Its seats; absent if they are as they were.
        layout: Option<Arc<Layout>>,
        /// The request.
        request: Request,
    },
    /// The hall is booked for the session and the session is owed its opening.
    SessionBooked {
        /// As asked.
        session: NewSession,
        /// The hall's layout at that moment.
        layout: Arc<Layout>,
    },
    /// The session has said that it is open.
    SessionOpened(Id),
    /// The session could not be opened under this id: the hall's time is free again.
    SessionRefused(Id),
    /// The session has said that it is canceled: the hall's time is free again.
    SessionCanceled(Id),
    /// The directory has said that it knows the venue as it was at this version.
    Listed {
        /// The venue's version that it was told.
        version: u64,
    },
}

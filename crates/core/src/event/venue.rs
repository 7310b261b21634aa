//! Events of venues.

use alloc::sync::Arc;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{
    answer::SaleMark,
    command::{NewSession, VenueDetails},
    id::{Id, Request},
    layout::Layout,
    time::Timestamp,
};

/// Events of venues.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum VenueEvent {
    /// It was created or changed, or put without a change.
    #[n(0)]
    Put {
        #[n(0)]
        details: VenueDetails,
        #[n(1)]
        request: Request,
        /// When it was put. If the zone is another one, sessions that end later are sent it.
        #[n(2)]
        at: Timestamp,
        /// How many coming sessions show another hour because of it.
        #[n(3)]
        shifted: u32,
    },
    /// A hall was created or changed, or put without a change.
    #[n(1)]
    HallPut {
        #[n(0)]
        hall: Id,
        #[n(2)]
        name: SmolStr,
        #[n(3)]
        comments: SmolStr,
        /// Its seats. `None` if they did not change.
        #[n(4)]
        layout: Option<Arc<Layout>>,
        #[n(1)]
        request: Request,
    },
    /// The hall is booked for the session, and the venue owes the session its opening.
    #[n(2)]
    SessionBooked {
        /// The session as the client asked for it.
        #[n(0)]
        session: NewSession,
        /// The hall's layout at that moment.
        #[n(1)]
        layout: Arc<Layout>,
    },
    #[n(3)]
    SessionOpened(#[n(0)] Id),
    /// The session could not be opened under this id. The hall's time is free again.
    #[n(4)]
    SessionRefused(#[n(0)] Id),
    /// The session is canceled. The hall's time is free again.
    #[n(5)]
    SessionCanceled(#[n(0)] Id),
    /// The directory knows the venue's details of this version.
    #[n(6)]
    Listed {
        /// The version of the details.
        #[n(0)]
        version: u64,
    },
    /// The session knows the venue's zone.
    #[n(7)]
    SessionZoned(#[n(0)] Id),
    /// The session has told when its sale opens.
    #[n(8)]
    SaleTold {
        #[n(0)]
        session: Id,
        #[n(1)]
        mark: SaleMark,
    },
}

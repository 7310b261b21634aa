//! What happens to the directory.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{
    access::AccessKey,
    command::{Title, VenueDetails},
    id::{Id, Request},
};

/// What happens to the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryEvent {
    /// A title was created or changed, or put as it was.
    TitlePut {
        /// Which title.
        id: Id,
        /// What it is now.
        title: Title,
        /// The request.
        request: Request,
    },
    /// A venue has said where it is.
    VenueListed {
        /// Which venue.
        venue: Id,
        /// Name, city and position.
        details: VenueDetails,
        /// The venue's version with them.
        version: u64,
    },
    /// An operator made a key.
    KeyCreated {
        /// Its name.
        name: Id,
        /// What it may do.
        key: Box<AccessKey>,
        /// The request.
        request: Request,
    },
    /// An operator revoked a key.
    KeyRevoked {
        /// Its name.
        name: Id,
        /// The request.
        request: Request,
    },
}

//! Events of the directory.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{
    access::AccessKey,
    command::{Title, VenueDetails},
    id::{Id, Request},
};

/// Events of the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryEvent {
    /// A title was created or changed, or put without a change.
    TitlePut { id: Id, title: Title, request: Request },
    /// A venue sent its details.
    VenueListed {
        venue: Id,
        /// Name, city and position.
        details: VenueDetails,
        /// The venue's version with them.
        version: u64,
    },
    /// An operator made a key.
    KeyCreated { name: Id, key: Box<AccessKey>, request: Request },
    /// An operator revoked a key.
    KeyRevoked { name: Id, request: Request },
}

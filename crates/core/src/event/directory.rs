//! Events of the directory.

use alloc::boxed::Box;

use boxoffice_declare::Stored;

use crate::{
    access::AccessKey,
    command::{Title, VenueDetails},
    id::{Id, Request},
};

/// Events of the directory.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum DirectoryEvent {
    /// A title was created or changed, or put without a change.
    #[n(0)]
    TitlePut {
        #[n(0)]
        id: Id,
        #[n(1)]
        title: Title,
        #[n(2)]
        request: Request,
    },
    /// A venue sent its details.
    #[n(1)]
    VenueListed {
        #[n(0)]
        venue: Id,
        /// Name, city and position.
        #[n(1)]
        details: VenueDetails,
        /// The venue's version with them.
        #[n(2)]
        version: u64,
    },
    /// An operator made a key.
    #[n(2)]
    KeyCreated {
        #[n(0)]
        name: Id,
        #[n(1)]
        key: Box<AccessKey>,
        #[n(2)]
        request: Request,
    },
    /// An operator revoked a key.
    #[n(3)]
    KeyRevoked {
        #[n(0)]
        name: Id,
        #[n(1)]
        request: Request,
    },
}

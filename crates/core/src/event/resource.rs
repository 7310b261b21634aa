//! Events of resources.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{HoldEvent, Remembered};
use crate::{
    command::ResourceDetails,
    id::{HoldId, Id, Request},
    time::Timestamp,
};

/// Events of resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceEvent {
    /// It was created or changed, or put without a change.
    Put {
        /// The new content.
        details: Box<ResourceDetails>,
        /// The request.
        request: Request,
    },
    /// A hold got a slot.
    SlotHeld {
        /// The hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of the ask.
        want_hash: u64,
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
        /// Minor units.
        price: i64,
        /// Its details.
        details: SmolStr,
        /// When the cart is asked about it: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// The time of a hold is free again.
    SlotReleased {
        /// Which hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Whether the revision is remembered.
        remember: bool,
        /// Whether the cart expired.
        expired: bool,
    },
    /// The hold is sold.
    SlotSold {
        /// Which hold.
        hold: HoldId,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is refunded. Its time is free again.
    SlotRefunded {
        /// Which hold.
        hold: HoldId,
    },
    /// Booked without a cart.
    Reserved {
        /// Id, begin and end of every booking, by begin.
        bookings: Vec<(Id, Timestamp, Timestamp)>,
        /// The id of the series, if it is one.
        series: Option<Id>,
        /// Their details.
        details: SmolStr,
        /// The request.
        remembered: Remembered,
    },
    /// Bookings were canceled. Their time is free again.
    BookingsCanceled {
        bookings: Vec<Id>,
        /// The request.
        remembered: Remembered,
    },
    /// A booking moved to another time.
    BookingMoved {
        booking: Id,
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// An event of a hold.
    Hold(HoldEvent),
}

//! What happens to resources.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{HoldEvent, Remembered};
use crate::{
    command::ResourceDetails,
    id::{HoldId, Id, Request},
    time::Timestamp,
};

/// What happens to resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceEvent {
    /// Created or changed, or put as it was.
    Put {
        /// What it is now.
        details: Box<ResourceDetails>,
        /// The request.
        request: Request,
    },
    /// Time was given to a cart.
    SlotHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
        /// Minor units.
        price: i64,
        /// What was said of it.
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
        /// Whether the cart's time was over; otherwise it was given back.
        expired: bool,
    },
    /// The hold is sold.
    SlotSold {
        /// Which hold.
        hold: HoldId,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is over, its time is free again.
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
        /// What was said of them.
        details: SmolStr,
        /// The request.
        remembered: Remembered,
    },
    /// Bookings were canceled; their time is free again.
    BookingsCanceled {
        /// Which.
        bookings: Vec<Id>,
        /// The request.
        remembered: Remembered,
    },
    /// A booking is at another time.
    BookingMoved {
        /// Which.
        booking: Id,
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// To a hold.
    Hold(HoldEvent),
}

//! Events of resources.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{HoldEvent, Remembered};
use crate::{
    command::ResourceDetails,
    fairness::Charge,
    id::{HoldId, Id, Request},
    time::Timestamp,
};

/// Events of resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceEvent {
    /// It was created or changed, or put without a change.
    Put {
        details: Box<ResourceDetails>,
        request: Request,
    },
    /// A hold got a slot.
    SlotHeld {
        hold: HoldId,
        revision: u64,
        /// Hash of the ask.
        want_hash: u64,
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
        /// In minor units.
        price: i64,
        details: SmolStr,
        /// When the cart is asked about it, the grace included.
        deadline: Timestamp,
        /// The account that the hold is charged to, if its holder has a share.
        charge: Option<Charge>,
    },
    /// The time of a hold is free again.
    SlotReleased {
        hold: HoldId,
        revision: u64,
        /// Whether the revision is remembered.
        remember: bool,
        /// Whether the cart expired.
        expired: bool,
        /// When it happened, in running time, if the hold is charged to an account.
        freed_at: Option<Timestamp>,
    },
    /// The hold is sold.
    SlotSold {
        hold: HoldId,
        /// When the order was decided.
        at: Timestamp,
        /// When the sale was written, in running time, if the hold is charged to an account.
        freed_at: Option<Timestamp>,
    },
    /// The sale of this hold is refunded. Its time is free again.
    SlotRefunded {
        hold: HoldId,
    },
    /// Time was booked without a cart.
    Reserved {
        /// Every booking with id, begin and end, by begin.
        bookings: Vec<(Id, Timestamp, Timestamp)>,
        /// The id of the series, if it is one.
        series: Option<Id>,
        details: SmolStr,
        remembered: Remembered,
    },
    /// Bookings were canceled. Their time is free again.
    BookingsCanceled {
        bookings: Vec<Id>,
        remembered: Remembered,
    },
    /// A booking moved to another time.
    BookingMoved {
        booking: Id,
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
        remembered: Remembered,
    },
    Hold(HoldEvent),
    /// An operator canceled the booking of a cart. The cart is asked to release the hold, or to refund its sale.
    BookingRevoked {
        hold: HoldId,
        remembered: Remembered,
    },
}

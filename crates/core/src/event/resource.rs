//! Events of resources.

use alloc::{boxed::Box, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::{HoldEvent, Remembered};
use crate::{
    command::ResourceDetails,
    fairness::Charge,
    id::{HoldId, Id, Request},
    time::Timestamp,
};

/// Events of resources.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum ResourceEvent {
    /// It was created or changed, or put without a change.
    #[n(0)]
    Put {
        #[n(0)]
        details: Box<ResourceDetails>,
        #[n(1)]
        request: Request,
    },
    /// A hold got a slot.
    #[n(1)]
    SlotHeld {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        /// Hash of the ask.
        #[n(2)]
        want_hash: u64,
        #[n(3)]
        begin: Timestamp,
        /// Up to, exclusive.
        #[n(4)]
        end: Timestamp,
        /// In minor units.
        #[n(5)]
        price: i64,
        #[n(7)]
        details: SmolStr,
        /// When the cart is asked about it, the grace included.
        #[n(6)]
        deadline: Timestamp,
        /// The account that the hold is charged to, if its holder has a share.
        #[n(8)]
        charge: Option<Charge>,
    },
    /// The time of a hold is free again.
    #[n(2)]
    SlotReleased {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        /// Whether the revision is remembered.
        #[n(2)]
        remember: bool,
        /// Whether the cart expired.
        #[n(3)]
        expired: bool,
        /// When it happened, in running time, if the hold is charged to an account.
        #[n(4)]
        freed_at: Option<Timestamp>,
    },
    /// The hold is sold.
    #[n(3)]
    SlotSold {
        #[n(0)]
        hold: HoldId,
        /// When the order was decided.
        #[n(1)]
        at: Timestamp,
        /// When the sale was written, in running time, if the hold is charged to an account.
        #[n(2)]
        freed_at: Option<Timestamp>,
    },
    /// The sale of this hold is refunded. Its time is free again.
    #[n(4)]
    SlotRefunded {
        #[n(0)]
        hold: HoldId,
    },
    /// Time was booked without a cart.
    #[n(5)]
    Reserved {
        /// Every booking with id, begin and end, by begin.
        #[n(1)]
        bookings: Vec<(Id, Timestamp, Timestamp)>,
        /// The id of the series, if it is one.
        #[n(3)]
        series: Option<Id>,
        #[n(2)]
        details: SmolStr,
        #[n(0)]
        remembered: Remembered,
    },
    /// Bookings were canceled. Their time is free again.
    #[n(6)]
    BookingsCanceled {
        #[n(1)]
        bookings: Vec<Id>,
        #[n(0)]
        remembered: Remembered,
    },
    /// A booking moved to another time.
    #[n(7)]
    BookingMoved {
        #[n(0)]
        booking: Id,
        #[n(1)]
        begin: Timestamp,
        /// Up to, exclusive.
        #[n(2)]
        end: Timestamp,
        #[n(3)]
        remembered: Remembered,
    },
    #[n(8)]
    Hold(#[n(0)] HoldEvent),
    /// An operator canceled the booking of a cart. The cart is asked to release the hold, or to refund its sale.
    #[n(9)]
    BookingRevoked {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        remembered: Remembered,
    },
}

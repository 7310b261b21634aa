//! Events of customers.

use boxoffice_declare::Stored;

use super::HoldEvent;
use crate::{
    answer::Purchase,
    id::{HoldId, Id},
    time::Timestamp,
};

/// Events of customers.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum CustomerEvent {
    /// A hold got a part of a quota, or more of it.
    #[n(0)]
    QuotaHeld {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        /// Hash of the ask.
        #[n(2)]
        want_hash: u64,
        #[n(3)]
        quota: Id,
        /// How many it has altogether.
        #[n(4)]
        count: u32,
        /// When the cart is asked about it, the grace included.
        #[n(5)]
        deadline: Timestamp,
    },
    /// A part of a hold, or all of it, may be used again.
    #[n(1)]
    QuotaReleased {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        /// How many are left. 0 ends the hold.
        #[n(2)]
        left: u32,
        /// Whether the revision is remembered when nothing is left.
        #[n(3)]
        remember: bool,
        /// Whether the cart expired.
        #[n(4)]
        expired: bool,
    },
    /// The rest of the hold is sold.
    #[n(2)]
    QuotaSold {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        count: u32,
        /// When the order was decided.
        #[n(2)]
        at: Timestamp,
    },
    /// The sale of this hold is refunded. Its part may be used again.
    #[n(3)]
    QuotaRefunded {
        #[n(0)]
        hold: HoldId,
    },
    #[n(4)]
    Hold(#[n(0)] HoldEvent),
    /// An order was added to the purchases, under the next cursor.
    #[n(5)]
    Posted(#[n(0)] Purchase),
}

//! Events of customers.

use serde::{Deserialize, Serialize};

use super::HoldEvent;
use crate::{
    answer::Purchase,
    id::{HoldId, Id},
    time::Timestamp,
};

/// Events of customers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CustomerEvent {
    /// A hold got a part of a quota, or more of it.
    QuotaHeld {
        hold: HoldId,
        revision: u64,
        /// Hash of the ask.
        want_hash: u64,
        quota: Id,
        /// How many it has altogether.
        count: u32,
        /// When the cart is asked about it, the grace included.
        deadline: Timestamp,
    },
    /// A part of a hold, or all of it, may be used again.
    QuotaReleased {
        hold: HoldId,
        revision: u64,
        /// How many are left. 0 ends the hold.
        left: u32,
        /// Whether the revision is remembered when nothing is left.
        remember: bool,
        /// Whether the cart expired.
        expired: bool,
    },
    /// The rest of the hold is sold.
    QuotaSold {
        hold: HoldId,
        count: u32,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is refunded. Its part may be used again.
    QuotaRefunded {
        hold: HoldId,
    },
    Hold(HoldEvent),
    /// An order was added to the purchases, under the next cursor.
    Posted(Purchase),
}

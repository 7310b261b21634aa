//! What happens to customers.

use serde::{Deserialize, Serialize};

use super::HoldEvent;
use crate::{
    answer::Purchase,
    id::{HoldId, Id},
    time::Timestamp,
};

/// What happens to customers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CustomerEvent {
    /// Part of a quota was given to a cart, or more of it to a hold that it has.
    QuotaHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// Which quota.
        quota: Id,
        /// How many it has altogether.
        count: u32,
        /// When the cart is asked about it: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// Part of a hold, or all of it, may be used again.
    QuotaReleased {
        /// Which hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// How many are left; the hold is over with 0.
        left: u32,
        /// Whether the revision is remembered when nothing is left.
        remember: bool,
        /// Whether the cart's time was over; otherwise it was given back.
        expired: bool,
    },
    /// What the hold has left is used up for good.
    QuotaSold {
        /// Which hold.
        hold: HoldId,
        /// How many.
        count: u32,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is over: it may be used again.
    QuotaRefunded {
        /// Which hold.
        hold: HoldId,
    },
    /// To a hold.
    Hold(HoldEvent),
    /// An order is among the purchases, under the next cursor.
    Posted(Purchase),
}

//! What happens to products.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use super::HoldEvent;
use crate::{
    command::ProductDetails,
    id::{HoldId, Request},
    time::Timestamp,
};

/// What happens to products.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProductEvent {
    /// Created or changed, or put as it was.
    Put {
        /// What it is now.
        details: Box<ProductDetails>,
        /// The request.
        request: Request,
    },
    /// Units were given to a cart, or more of them to a hold that it has.
    UnitsHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// How many it has altogether.
        quantity: u32,
        /// Minor units for one, captured when it was held first.
        price: i64,
        /// When the cart is asked about them: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// Units of a hold are free again.
    UnitsReleased {
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
    /// All units the hold has left are sold, the hold is over. What is not sold was released by the event before.
    UnitsSold {
        /// Which hold.
        hold: HoldId,
        /// How many.
        quantity: u32,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is over, its units are free again.
    UnitsRefunded {
        /// Which hold.
        hold: HoldId,
    },
    /// To a hold, whatever it has.
    Hold(HoldEvent),
}

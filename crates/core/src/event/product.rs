//! Events of products.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use super::HoldEvent;
use crate::{
    command::ProductDetails,
    fairness::Charge,
    id::{HoldId, Request},
    time::Timestamp,
};

/// Events of products.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProductEvent {
    /// It was created or changed, or put without a change.
    Put {
        details: Box<ProductDetails>,
        request: Request,
    },
    /// A hold got units, or more of them.
    UnitsHeld {
        hold: HoldId,
        revision: u64,
        /// Hash of the ask.
        want_hash: u64,
        /// How many it has altogether.
        quantity: u32,
        /// The price of one unit in minor units, captured when it was held first.
        price: i64,
        /// When the cart is asked about them, the grace included.
        deadline: Timestamp,
        /// The account that the hold is charged to, if its holder has a share.
        charge: Option<Charge>,
    },
    /// Units of a hold are free again.
    UnitsReleased {
        hold: HoldId,
        revision: u64,
        /// How many are left. 0 ends the hold.
        left: u32,
        /// Whether the revision is remembered when nothing is left.
        remember: bool,
        /// Whether the cart expired.
        expired: bool,
        /// When it happened, in running time, if the hold is charged to an account.
        freed_at: Option<Timestamp>,
    },
    /// All units of the hold are sold, and it ends. The event before released the others.
    UnitsSold {
        hold: HoldId,
        quantity: u32,
        /// When the order was decided.
        at: Timestamp,
        /// When the sale was written, in running time, if the hold is charged to an account.
        freed_at: Option<Timestamp>,
    },
    /// The sale of this hold is refunded. Its units are free again.
    UnitsRefunded {
        hold: HoldId,
    },
    Hold(HoldEvent),
}

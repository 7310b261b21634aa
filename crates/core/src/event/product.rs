//! Events of products.

use alloc::boxed::Box;

use boxoffice_declare::Stored;

use super::HoldEvent;
use crate::{
    command::ProductDetails,
    fairness::Charge,
    id::{HoldId, Request},
    time::Timestamp,
};

/// Events of products.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum ProductEvent {
    /// It was created or changed, or put without a change.
    #[n(0)]
    Put {
        #[n(0)]
        details: Box<ProductDetails>,
        #[n(1)]
        request: Request,
    },
    /// A hold got units, or more of them.
    #[n(1)]
    UnitsHeld {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        /// Hash of the ask.
        #[n(2)]
        want_hash: u64,
        /// How many it has altogether.
        #[n(3)]
        quantity: u32,
        /// The price of one unit in minor units, captured when it was held first.
        #[n(4)]
        price: i64,
        /// When the cart is asked about them, the grace included.
        #[n(5)]
        deadline: Timestamp,
        /// The account that the hold is charged to, if its holder has a share.
        #[n(6)]
        charge: Option<Charge>,
    },
    /// Units of a hold are free again.
    #[n(2)]
    UnitsReleased {
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
        /// When it happened, in running time, if the hold is charged to an account.
        #[n(5)]
        freed_at: Option<Timestamp>,
    },
    /// All units of the hold are sold, and it ends. The event before released the others.
    #[n(3)]
    UnitsSold {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        quantity: u32,
        /// When the order was decided.
        #[n(2)]
        at: Timestamp,
        /// When the sale was written, in running time, if the hold is charged to an account.
        #[n(3)]
        freed_at: Option<Timestamp>,
    },
    /// The sale of this hold is refunded. Its units are free again.
    #[n(4)]
    UnitsRefunded {
        #[n(0)]
        hold: HoldId,
    },
    #[n(5)]
    Hold(#[n(0)] HoldEvent),
}

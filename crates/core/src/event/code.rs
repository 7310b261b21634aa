//! Events of codes.

use boxoffice_declare::Stored;

use super::HoldEvent;
use crate::{
    command::CodeDetails,
    id::{HoldId, Request},
    time::Timestamp,
};

/// Events of codes.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum CodeEvent {
    /// It was created or changed, or put without a change.
    #[n(0)]
    Put {
        #[n(0)]
        details: CodeDetails,
        #[n(1)]
        request: Request,
    },
    /// A hold got uses.
    #[n(1)]
    UsesHeld {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        /// Hash of the ask.
        #[n(2)]
        want_hash: u64,
        /// How many it has altogether.
        #[n(3)]
        count: u32,
        /// When the cart is asked about it, the grace included.
        #[n(4)]
        deadline: Timestamp,
    },
    /// Uses of a hold, or all of them, are free again.
    #[n(2)]
    UsesReleased {
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
    #[n(3)]
    UsesSold {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        count: u32,
        /// When the order was decided.
        #[n(2)]
        at: Timestamp,
    },
    /// The sale of this hold is refunded. Its uses are free again.
    #[n(4)]
    UsesRefunded {
        #[n(0)]
        hold: HoldId,
    },
    #[n(5)]
    Hold(#[n(0)] HoldEvent),
}

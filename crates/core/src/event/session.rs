//! Events of sessions.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::HoldEvent;
use crate::{
    ask::{Opening, VenueZone},
    fairness::Charge,
    id::{HoldId, Id, OrderId, Request},
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// Events of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionEvent {
    /// It is on sale.
    Opened(Opening),
    /// A hold got free seats.
    SeatsHeld {
        hold: HoldId,
        revision: u64,
        /// Hash of the ask.
        want_hash: u64,
        /// Ascending.
        seats: Vec<Seat>,
        /// When the cart is asked about them, the grace included.
        deadline: Timestamp,
        /// The account that the hold is charged to, if its holder has a share.
        charge: Option<Charge>,
    },
    /// Seats of a hold are free again.
    SeatsReleased {
        hold: HoldId,
        revision: u64,
        seats: Vec<Seat>,
        /// Whether the revision is remembered when nothing is left.
        remember: bool,
        /// Whether the cart expired.
        expired: bool,
        /// When it happened, in running time, if the hold is charged to an account.
        freed_at: Option<Timestamp>,
    },
    /// All seats of the hold are sold, and it ends. The event before released the others.
    SeatsSold {
        hold: HoldId,
        /// Ascending.
        seats: Vec<Seat>,
        order: OrderId,
        /// When the order was decided.
        at: Timestamp,
        /// When the sale was written, in running time, if the hold is charged to an account.
        freed_at: Option<Timestamp>,
    },
    /// The sale of this hold is refunded. Its seats or places are free again.
    SaleRefunded {
        hold: HoldId,
        /// Its seats, if it had seats.
        seats: Vec<Seat>,
    },
    /// A hold got places, or more of them.
    PlacesHeld {
        hold: HoldId,
        revision: u64,
        /// Hash of the ask.
        want_hash: u64,
        area: Id,
        /// How many it has altogether.
        quantity: u32,
        /// When the cart is asked about them, the grace included.
        deadline: Timestamp,
        /// The account that the hold is charged to, if its holder has a share.
        charge: Option<Charge>,
    },
    /// Places of a hold are free again.
    PlacesReleased {
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
    /// All places of the hold are sold, and it ends. The event before released the others.
    PlacesSold {
        hold: HoldId,
        quantity: u32,
        /// When the order was decided.
        at: Timestamp,
        /// When the sale was written, in running time, if the hold is charged to an account.
        freed_at: Option<Timestamp>,
    },
    Hold(HoldEvent),
    /// The session is canceled. Nothing more is held, and every cart is asked to release its holds.
    Canceled {
        reason: SmolStr,
        request: Request,
    },
    /// The venue of the canceled session has freed its hall.
    Vacated,
    /// The box office keeps these seats off sale.
    SeatsBlocked {
        /// All of them were free before.
        seats: Vec<Seat>,
        request: Request,
    },
    /// These seats are on sale again.
    SeatsUnblocked {
        /// All of them were blocked before.
        seats: Vec<Seat>,
        request: Request,
    },
    /// Its venue sent another zone. No instant moves.
    ZoneSet(VenueZone),
}

impl SessionEvent {
    /// The new state of the changed seats, which is all that a watcher needs (P14). `None` if no seat changes.
    pub fn change(&self) -> Option<(SeatState, &[Seat])> {
        match self {
            SessionEvent::SeatsHeld { seats, .. } => Some((SeatState::Held, seats)),
            SessionEvent::SeatsReleased { seats, .. }
            | SessionEvent::SeatsUnblocked { seats, .. }
            | SessionEvent::SaleRefunded { seats, .. } => Some((SeatState::Free, seats)),
            SessionEvent::SeatsSold { seats, .. } => Some((SeatState::Sold, seats)),
            SessionEvent::SeatsBlocked { seats, .. } => Some((SeatState::Blocked, seats)),
            SessionEvent::Opened(_)
            | SessionEvent::PlacesHeld { .. }
            | SessionEvent::PlacesReleased { .. }
            | SessionEvent::PlacesSold { .. }
            | SessionEvent::Hold(_)
            | SessionEvent::Canceled { .. }
            | SessionEvent::Vacated
            | SessionEvent::ZoneSet(_) => None,
        }
    }
}

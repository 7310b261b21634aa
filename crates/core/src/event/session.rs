//! What happens to sessions.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::HoldEvent;
use crate::{
    ask::Opening,
    id::{HoldId, Id, OrderId, Request},
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// What happens to sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionEvent {
    /// It is on sale.
    Opened(Opening),
    /// Free seats were given to a cart.
    SeatsHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// Which seats, ascending.
        seats: Vec<Seat>,
        /// When the cart is asked about them: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// Seats of a hold are free again.
    SeatsReleased {
        /// Which hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Which seats.
        seats: Vec<Seat>,
        /// Whether the revision is remembered after the last seat of the hold is given back.
        remember: bool,
        /// Whether the cart's time was over; otherwise it was given back.
        expired: bool,
    },
    /// All seats the hold has left are sold, the hold is over. What is not sold was released by the event before.
    SeatsSold {
        /// Which hold.
        hold: HoldId,
        /// Which seats, ascending.
        seats: Vec<Seat>,
        /// To whom.
        order: OrderId,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is over, its seats or places are free again.
    SaleRefunded {
        /// Which hold.
        hold: HoldId,
        /// Its seats, if it had seats.
        seats: Vec<Seat>,
    },
    /// Places were given to a cart, or more of them to a hold that it has.
    PlacesHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// In which area.
        area: Id,
        /// How many it has altogether.
        quantity: u32,
        /// When the cart is asked about them: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// Places of a hold are free again.
    PlacesReleased {
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
    /// All places the hold has left are sold, the hold is over. What is not sold was released by the event before.
    PlacesSold {
        /// Which hold.
        hold: HoldId,
        /// How many.
        quantity: u32,
        /// When the order was decided.
        at: Timestamp,
    },
    /// To a hold, whatever it has.
    Hold(HoldEvent),
    /// It will not take place: nothing more is held, and every cart is asked to give back what it has.
    Canceled {
        /// Why.
        reason: SmolStr,
        /// The request.
        request: Request,
    },
    /// The venue of the canceled session has said that its hall is free again.
    Vacated,
    /// The box office keeps these seats off sale.
    SeatsBlocked {
        /// Which, all of them free before.
        seats: Vec<Seat>,
        /// The request.
        request: Request,
    },
    /// These seats are on sale again.
    SeatsUnblocked {
        /// Which, all of them blocked before.
        seats: Vec<Seat>,
        /// The request.
        request: Request,
    },
}

impl SessionEvent {
    /// What becomes of which seats: all a watcher needs to keep its map right (P14). `None` if no seat changes.
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
            | SessionEvent::Vacated => None,
        }
    }
}

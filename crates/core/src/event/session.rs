//! Events of sessions.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::HoldEvent;
use crate::{
    ask::{Opening, VenueZone},
    command::SessionExtras,
    fairness::Charge,
    id::{HoldId, Id, OrderId, Request},
    portion::SeatPrice,
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// Events of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum SessionEvent {
    /// It is on sale.
    #[n(0)]
    Opened(#[n(0)] Opening),
    /// A hold got free seats.
    #[n(1)]
    SeatsHeld {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        /// Hash of the ask.
        #[n(2)]
        want_hash: u64,
        /// Ascending.
        #[n(4)]
        seats: Vec<Seat>,
        /// When the cart is asked about them, the grace included.
        #[n(3)]
        deadline: Timestamp,
        /// The account that the hold is charged to, if its holder has a share.
        #[n(5)]
        charge: Option<Charge>,
        /// The price of each seat. Absent if they are those that the session was opened with.
        #[n(6)]
        prices: Option<Arc<[SeatPrice]>>,
        /// The customer of the cart, if an offer counts what each customer has under it.
        #[n(7)]
        customer: Option<Id>,
    },
    /// Seats of a hold are free again.
    #[n(2)]
    SeatsReleased {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        #[n(2)]
        seats: Vec<Seat>,
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
    /// All seats of the hold are sold, and it ends. The event before released the others.
    #[n(3)]
    SeatsSold {
        #[n(0)]
        hold: HoldId,
        /// Ascending.
        #[n(3)]
        seats: Vec<Seat>,
        #[n(1)]
        order: OrderId,
        /// When the order was decided.
        #[n(2)]
        at: Timestamp,
        /// When the sale was written, in running time, if the hold is charged to an account.
        #[n(4)]
        freed_at: Option<Timestamp>,
    },
    /// The sale of this hold is refunded. Its seats or places are free again.
    #[n(4)]
    SaleRefunded {
        #[n(0)]
        hold: HoldId,
        /// Its seats, if it had seats.
        #[n(1)]
        seats: Vec<Seat>,
    },
    /// A hold got places, or more of them.
    #[n(5)]
    PlacesHeld {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
        /// Hash of the ask.
        #[n(2)]
        want_hash: u64,
        #[n(3)]
        area: Id,
        /// How many it has altogether.
        #[n(4)]
        quantity: u32,
        /// When the cart is asked about them, the grace included.
        #[n(5)]
        deadline: Timestamp,
        /// The account that the hold is charged to, if its holder has a share.
        #[n(6)]
        charge: Option<Charge>,
        /// The price of one. Absent if it is the one that the session was opened with.
        #[n(7)]
        price: Option<SeatPrice>,
        /// The customer of the cart, if the offer counts what each customer has under it.
        #[n(8)]
        customer: Option<Id>,
    },
    /// Places of a hold are free again.
    #[n(6)]
    PlacesReleased {
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
    /// All places of the hold are sold, and it ends. The event before released the others.
    #[n(7)]
    PlacesSold {
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
    #[n(8)]
    Hold(#[n(0)] HoldEvent),
    /// The session is canceled. Nothing more is held, and every cart is asked to release its holds.
    #[n(9)]
    Canceled {
        #[n(1)]
        reason: SmolStr,
        #[n(0)]
        request: Request,
    },
    /// The venue of the canceled session has freed its hall.
    #[n(10)]
    Vacated,
    /// The box office keeps these seats off sale.
    #[n(11)]
    SeatsBlocked {
        /// All of them were free before.
        #[n(1)]
        seats: Vec<Seat>,
        #[n(0)]
        request: Request,
    },
    /// These seats are on sale again.
    #[n(12)]
    SeatsUnblocked {
        /// All of them were blocked before.
        #[n(1)]
        seats: Vec<Seat>,
        #[n(0)]
        request: Request,
    },
    /// Its venue sent another zone. No instant moves.
    #[n(13)]
    ZoneSet(#[n(0)] VenueZone),
    /// Its terms changed. What is held or sold keeps its own.
    #[n(14)]
    Changed {
        #[n(0)]
        request: Request,
        /// When, in true time.
        #[n(1)]
        at: Timestamp,
        /// In minor units, by category ordinal.
        #[n(2)]
        prices: Vec<i64>,
        #[n(3)]
        extras: Box<SessionExtras>,
        /// What is different now, in words.
        #[n(4)]
        what: Vec<SmolStr>,
    },
    /// These offers have reached their begin. They stay open, whatever a clock says later.
    #[n(15)]
    OffersOpened(#[n(0)] Vec<Id>),
    /// These allotments are released: their free seats are on sale like all others, whatever a clock says later.
    #[n(16)]
    AllotmentsReleased(#[n(0)] Vec<Id>),
    /// The venue knows when its sale opens, as of this version of the session.
    #[n(17)]
    SaleTold(#[n(0)] u64),
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
            | SessionEvent::ZoneSet(_)
            | SessionEvent::Changed { .. }
            | SessionEvent::OffersOpened(_)
            | SessionEvent::AllotmentsReleased(_)
            | SessionEvent::SaleTold(_) => None,
        }
    }
}

//! What happened: the content of the log. Events carry absolute values and are applied without a question.

use alloc::{sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    answer::{Answer, Order, PricedSeat},
    ask::{Ask, Opening},
    command::{NewSession, VenueDetails},
    id::{CartId, HoldId, Id, OrderId, Request},
    layout::Layout,
    money::Currency,
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// Something that happened to an entity. Each raises the entity's version by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// To a venue.
    Venue(VenueEvent),
    /// To a session.
    Session(SessionEvent),
    /// To a cart.
    Cart(CartEvent),
}

/// An answer kept so that a repeat of its request gets the same (P9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The request.
    pub request: Request,
    /// What it was answered.
    pub answer: Answer,
}

/// What happens to venues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueEvent {
    /// Created or changed.
    Put(VenueDetails),
    /// A hall was created or changed.
    HallPut {
        /// Which hall.
        hall: Id,
        /// What it is called.
        name: SmolStr,
        /// Its seats.
        layout: Arc<Layout>,
    },
    /// The hall is booked for the session and the session is owed its opening.
    SessionBooked {
        /// As asked.
        session: NewSession,
        /// The hall's layout at that moment.
        layout: Arc<Layout>,
    },
    /// The session has said that it is open.
    SessionOpened(Id),
    /// The session could not be opened under this id: the hall's time is free again.
    SessionRefused(Id),
}

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
    /// The cart said that the hold is its own for longer.
    HoldExtended {
        /// Which hold.
        hold: HoldId,
        /// When the cart is asked again: what it said, and the grace.
        deadline: Timestamp,
    },
    /// The cart is terminal: its released holds need not be remembered.
    Forgotten(CartId),
    /// The box office keeps these seats off sale.
    SeatsBlocked {
        /// Which, all of them free before.
        seats: Vec<Seat>,
        /// The request.
        remembered: Option<Remembered>,
    },
    /// These seats are on sale again.
    SeatsUnblocked {
        /// Which, all of them blocked before.
        seats: Vec<Seat>,
        /// The request.
        remembered: Option<Remembered>,
    },
}

impl SessionEvent {
    /// What becomes of which seats: all a watcher needs to keep its map right (P14). `None` if no seat changes.
    pub fn change(&self) -> Option<(SeatState, &[Seat])> {
        match self {
            SessionEvent::SeatsHeld { seats, .. } => Some((SeatState::Held, seats)),
            SessionEvent::SeatsReleased { seats, .. } | SessionEvent::SeatsUnblocked { seats, .. } => {
                Some((SeatState::Free, seats))
            }
            SessionEvent::SeatsSold { seats, .. } => Some((SeatState::Sold, seats)),
            SessionEvent::SeatsBlocked { seats, .. } => Some((SeatState::Blocked, seats)),
            SessionEvent::Opened(_) | SessionEvent::HoldExtended { .. } | SessionEvent::Forgotten(_) => None,
        }
    }
}

/// A line as it is added to a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLine {
    /// Of which session.
    pub session: Id,
    /// The hold it rests on.
    pub hold: HoldId,
    /// The hold's revision.
    pub revision: u64,
    /// Its seats with the prices captured now.
    pub seats: Vec<PricedSeat>,
    /// How long the session lets carts live untouched, if it says so.
    pub ttl_ms: Option<u64>,
}

/// A message owed to another entity until it is acknowledged: an entry of the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// To which session.
    pub session: Id,
    /// What it is told.
    pub ask: Ask,
}

/// What happens to carts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CartEvent {
    /// It exists.
    Opened {
        /// When.
        at: Timestamp,
        /// Whose, as the client said.
        customer: Option<Id>,
        /// How long it lives untouched, if the client or the rules said so.
        ttl_ms: u64,
        /// When it expires if it is not touched.
        deadline: Timestamp,
        /// The request, unless a hold opened it.
        remembered: Option<Remembered>,
    },
    /// Lines were added; the cart was touched.
    LinesAdded {
        /// The new lines, in order.
        lines: Vec<NewLine>,
        /// Their currency; the same for every line of the cart.
        currency: Currency,
        /// The new deadline of the cart.
        deadline: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// A line lost seats, or ended; the session is owed the release.
    LineReleased {
        /// Which line.
        line: u32,
        /// Which seats.
        seats: Vec<Seat>,
        /// The hold's new revision.
        revision: u64,
        /// The new deadline of the cart.
        deadline: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// These holds can never become lines; their sessions are owed releases.
    Disowned {
        /// Session and hold, and the revision of the release.
        holds: Vec<(Id, HoldId, u64)>,
    },
    /// Given up by its owner; every session is owed its seats.
    Canceled {
        /// When.
        at: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// Its deadline passed; every session is owed its seats.
    Expired {
        /// When.
        at: Timestamp,
    },
    /// The decision: done, with this order; every session is owed the sale.
    CheckedOut {
        /// What was bought.
        order: Arc<Order>,
        /// The request.
        request: Request,
    },
    /// Owed messages were acknowledged: their numbers in the outbox.
    Delivered(Vec<u64>),
}

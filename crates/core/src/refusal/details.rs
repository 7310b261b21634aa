//! What refusals tell in more than a word or a number.

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::{Refusal, stored};
use crate::{
    id::Id,
    money::Money,
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// A seat that stood in the way, and what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct TakenSeat {
    #[n(0)]
    pub seat: Seat,
    /// Held, sold or blocked.
    #[n(1)]
    pub state: SeatState,
}

/// What of a cart is not as its buyer expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Stored)]
pub enum CartDifference {
    /// What it comes to.
    #[error(
        "it comes to {} minor units of {:?}, not to {} of {:?}",
        .actual.amount, .actual.currency, .expected.amount, .expected.currency
    )]
    #[n(0)]
    Total {
        /// What the buyer expects to pay, or has paid.
        #[n(0)]
        expected: Money,
        /// What the lines come to.
        #[n(1)]
        actual: Money,
    },
    /// The version of its lines.
    #[error("its lines are at version {actual}, not at {expected}")]
    #[n(1)]
    Lines {
        #[n(0)]
        expected: u64,
        #[n(1)]
        actual: u64,
    },
}

/// A product with fewer free units than were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Shortage {
    #[n(0)]
    pub product: Id,
    /// How many more were asked for.
    #[n(1)]
    pub wanted: u32,
    #[n(2)]
    pub free: u64,
    /// How many are only held, by other lines of carts: they may come back.
    #[n(3)]
    pub held: u64,
}

/// A booking in the way, or a time that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Conflict {
    /// The time asked for that it is about.
    #[n(0)]
    pub begin: Timestamp,
    /// Up to.
    #[n(1)]
    pub end: Timestamp,
    /// Why: the booking in the way, or what is wrong with the time.
    #[n(2)]
    pub why: SmolStr,
    /// The booking in the way by the name that `resource.bookings` gives it; none if the time itself is wrong.
    #[n(3)]
    pub booking: Option<SmolStr>,
}

/// One line of a request, and why it was refused.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct LineRefusal {
    /// The index of the line in the request, from 0.
    #[n(0)]
    pub line: u16,
    /// Why; not for lines of its own.
    #[stored(with = stored::of_line)]
    #[n(1)]
    pub refusal: Refusal,
}

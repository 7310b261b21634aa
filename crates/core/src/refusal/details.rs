//! What refusals tell in more than a word or a number.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{Refusal, stored};
use crate::{
    id::Id,
    money::Money,
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// A seat that stood in the way, and what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenSeat {
    pub seat: Seat,
    /// Held, sold or blocked.
    pub state: SeatState,
}

/// What of a cart is not as its buyer expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum CartDifference {
    /// What it comes to.
    #[error(
        "it comes to {} minor units of {:?}, not to {} of {:?}",
        .actual.amount, .actual.currency, .expected.amount, .expected.currency
    )]
    Total {
        /// What the buyer expects to pay, or has paid.
        expected: Money,
        /// What the lines come to.
        actual: Money,
    },
    /// The version of its lines.
    #[error("its lines are at version {actual}, not at {expected}")]
    Lines { expected: u64, actual: u64 },
}

/// A product with fewer free units than were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    pub product: Id,
    /// How many more were asked for.
    pub wanted: u32,
    pub free: u64,
    /// How many are only held, by other lines of carts: they may come back.
    pub held: u64,
}

/// A booking in the way, or a time that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The time asked for that it is about.
    pub begin: Timestamp,
    /// Up to.
    pub end: Timestamp,
    /// Why: the booking in the way, or what is wrong with the time.
    pub why: SmolStr,
    /// The booking in the way by the name that `resource.bookings` gives it; none if the time itself is wrong.
    pub booking: Option<SmolStr>,
}

/// One line of a request, and why it was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRefusal {
    /// The index of the line in the request, from 0.
    pub line: u16,
    /// Why; not for lines of its own.
    #[serde(deserialize_with = "stored::of_line")]
    pub refusal: Refusal,
}

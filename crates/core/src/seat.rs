//! Seats and sets of them.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// The most seats one hold may ask for.
pub const HOLD_SEATS_MAX: usize = 20;

/// A seat by its row in the layout and its place in the row, both from 0. The layout has the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seat {
    pub row: u16,
    /// Gaps are not counted.
    pub seat: u16,
}

/// The seats of a hold. There are one to twenty, none twice, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Seat>")]
pub struct SeatSet(Vec<Seat>);

impl TryFrom<Vec<Seat>> for SeatSet {
    type Error = &'static str;

    fn try_from(seats: Vec<Seat>) -> Result<SeatSet, &'static str> {
        SeatSet::new(seats).map_err(|_| "a set of seats has one to twenty, none of them twice")
    }
}

/// Why a list of seats does not form a [`SeatSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeatSetError {
    Empty,
    /// More than [`HOLD_SEATS_MAX`].
    TooMany,
    /// These seats are named more than once.
    Duplicate(Vec<Seat>),
}

impl SeatSet {
    /// The set of these seats.
    ///
    /// # Errors
    /// [`SeatSetError`] if there are none, more than twenty, or one of them twice.
    pub fn new(seats: impl IntoIterator<Item = Seat>) -> Result<SeatSet, SeatSetError> {
        let mut seats: Vec<Seat> = seats.into_iter().take(HOLD_SEATS_MAX + 1).collect();
        if seats.is_empty() {
            return Err(SeatSetError::Empty);
        }
        if seats.len() > HOLD_SEATS_MAX {
            return Err(SeatSetError::TooMany);
        }
        seats.sort_unstable();
        let mut twice: Vec<Seat> = seats.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        twice.dedup();
        if twice.is_empty() { Ok(SeatSet(seats)) } else { Err(SeatSetError::Duplicate(twice)) }
    }

    /// The seats, ascending.
    pub fn as_slice(&self) -> &[Seat] {
        &self.0
    }

    /// How many seats there are, never 0.
    #[expect(clippy::len_without_is_empty, reason = "a seat set is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The state of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum SeatState {
    Free = 0,
    /// In a cart.
    Held = 1,
    Sold = 2,
    /// Kept off sale by the box office.
    Blocked = 3,
}

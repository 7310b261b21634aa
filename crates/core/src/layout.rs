//! Layouts: which seats a hall has, where they stand and what they are called. Rows may be of any length, with gaps.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::id::Id;

/// The most seats of one layout.
pub const LAYOUT_SEATS_MAX: usize = 200_000;

/// A place on the plan, in hundredths of a seat's width; y grows away from the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// To the right.
    pub x: i32,
    /// Away from the stage.
    pub y: i32,
}

/// How the seats of a run are called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Labels {
    /// `first`, `first + step`, …
    Numbers {
        /// The label of the first seat.
        first: i32,
        /// What the next label adds.
        step: i32,
    },
    /// One text a seat.
    Names(Vec<SmolStr>),
}

/// Seats side by side that share a category: the unit in which layouts are written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Seat widths left free before this run; 0 means its first seat is the neighbour of the last one before it.
    pub gap: u16,
    /// How many seats; at least 1.
    pub count: u16,
    /// What they are called.
    pub labels: Labels,
    /// The category that prices them.
    pub category: Id,
    /// Places for wheelchair users: offered by best available only when asked for.
    pub accessible: bool,
    /// Where each seat stands; empty for a straight row, which is then centred on x = 0 at y = 100 × row.
    pub points: Vec<Point>,
}

/// One row of seats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What the row is called.
    pub label: SmolStr,
    /// The part of the house it is in (stalls, balcony), if the house has parts.
    pub section: Option<Id>,
    /// Its seats, from left to right.
    pub runs: Vec<Run>,
}

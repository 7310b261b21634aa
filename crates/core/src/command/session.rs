//! What a session is told or asked, and what it is made of.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::limits::Limits;
use crate::{id::Id, money::Money, seat::Seat, time::Timestamp};

/// What a session is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionCommand {
    /// `session.get`: what, where, when, prices, counts, layout.
    Get,
    /// `session.map`: the state of every seat, with the version.
    Map,
    /// `session.block`: keeps free seats off sale, all or none. Seats blocked already stay so.
    Block(Vec<Seat>),
    /// `session.unblock`: puts blocked seats back on sale, all or none. Free seats stay free.
    Unblock(Vec<Seat>),
    /// `session.cancel`: it will not take place. Holds are given back and orders refunded, through their carts.
    Cancel {
        /// Why, for everyone to read.
        reason: SmolStr,
    },
    /// `admin.audit`: counts, holds and sales, counted afresh from the seats.
    Audit,
}

/// A session to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id, chosen by the client.
    pub id: Id,
    /// In which hall of the venue.
    pub hall: Id,
    /// What is shown.
    pub title: Id,
    /// When it starts; the hall is booked for `[starts_at, ends_at)`.
    pub starts_at: Timestamp,
    /// When it ends.
    pub ends_at: Timestamp,
    /// A price for every category of the hall's layout; all in one currency.
    pub prices: Vec<(Id, Money)>,
    /// Places without seats.
    pub areas: Vec<Area>,
    /// How long carts with seats of this session live untouched, if not as the rules say.
    pub hold_ttl_ms: Option<u64>,
    /// How many seats and places one order and one customer may have.
    pub limits: Limits,
    /// Anything worth saying.
    pub comments: SmolStr,
}

/// Interchangeable places of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Its id, unique in the session.
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// How many places.
    pub capacity: u32,
    /// For one place; in the currency of all prices of the session.
    pub price: Money,
}

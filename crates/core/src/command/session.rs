//! Commands to a session, and the content of a new one.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::limits::Limits;
use crate::{id::Id, money::Money, names::Names, seat::Seat, text::Reason, time::Timestamp};

/// Commands to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionCommand {
    /// `session.get` of title, place, times, prices, counts and layout.
    Get,
    /// `session.map` of the state of every seat, with the version.
    Map,
    /// `session.block` keeps free seats off sale, all or none. Blocked seats stay blocked.
    Block(Vec<Seat>),
    /// `session.unblock` puts blocked seats back on sale, all or none. Free seats stay free.
    Unblock(Vec<Seat>),
    /// `session.cancel`. The session will not take place. Its carts release holds and refund orders.
    Cancel {
        /// Why, for everyone to read.
        reason: Reason,
    },
    /// `admin.audit` of counts, holds and sales, counted anew from the seats.
    Audit,
}

/// What a session is, from its creation to its view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id, chosen by the client.
    pub id: Id,
    pub hall: Id,
    pub title: Id,
    /// The hall is booked for `[starts_at, ends_at)`.
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
    /// A price for every category of the hall's layout, all in one currency.
    pub prices: Vec<(Id, Money)>,
    pub extras: SessionExtras,
}

impl Deref for NewSession {
    type Target = SessionExtras;

    fn deref(&self) -> &SessionExtras {
        &self.extras
    }
}

impl DerefMut for NewSession {
    fn deref_mut(&mut self) -> &mut SessionExtras {
        &mut self.extras
    }
}

/// What may be left out of a session. Commands, events, states and views have it from here, so a new fact is told once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionExtras {
    /// Places without seats.
    pub areas: Vec<Area>,
    /// How long carts with seats of this session live untouched. By default, as the rules say.
    pub hold_ttl_ms: Option<u64>,
    pub limits: Limits,
    /// Free text.
    pub comments: SmolStr,
    /// Whether everybody may still hold after it has begun. Otherwise only the desk may.
    pub sells_after_begin: bool,
}

/// Interchangeable places of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Its id, unique in the session.
    pub id: Id,
    pub name: SmolStr,
    pub capacity: u32,
    /// The price of one place, in the currency of the session.
    pub price: Money,
    /// Its names for people, by locale.
    pub names: Names,
}

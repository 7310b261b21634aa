//! Commands to a session, and the content of a new one.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::ops::{Deref, DerefMut};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::{
    limits::Limits,
    offer::{Allotment, Counter, Offer, Offering, PriceType},
};
use crate::{id::Id, money::Money, names::Names, seat::Seat, text::Reason, time::Timestamp};

/// Commands to a session.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum SessionCommand {
    /// `session.get` of title, place, times, prices, counts and layout.
    #[n(0)]
    Get,
    /// `session.map` of the state of every seat, with the version.
    #[n(1)]
    Map,
    /// `session.block` keeps free seats off sale, all or none. Blocked seats stay blocked.
    #[n(2)]
    Block(#[n(0)] Vec<Seat>),
    /// `session.unblock` puts blocked seats back on sale, all or none. Free seats stay free.
    #[n(3)]
    Unblock(#[n(0)] Vec<Seat>),
    /// `session.cancel`. The session will not take place. Its carts release holds and refund orders.
    #[n(4)]
    Cancel {
        /// Why, for everyone to read.
        #[n(0)]
        reason: Reason,
    },
    /// `admin.audit` of counts, holds and sales, counted anew from the seats.
    #[n(5)]
    Audit,
    /// `session.change` of prices, areas, texts, limits and offers. What is held keeps its terms.
    #[n(6)]
    Change(#[n(0)] Box<SessionChange>),
    /// What orders say by id and number, in words. `order.get` asks for it.
    #[n(7)]
    Names {
        /// The versions of the terms under which the lines were held.
        #[n(0)]
        terms: Vec<u32>,
        #[n(1)]
        seats: Vec<Seat>,
    },
}

/// What is changed of a session's terms. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct SessionChange {
    /// The version of the terms that this is a change of. Refused if there are later ones.
    #[n(0)]
    pub expect: Option<u32>,
    /// A price for every category, in the currency of the session.
    #[n(1)]
    pub prices: Option<Vec<(Id, Money)>>,
    /// The areas that there are, in their order, and new ones behind them.
    #[n(2)]
    pub areas: Option<Vec<Area>>,
    #[n(3)]
    pub hold_ttl_ms: Option<u64>,
    #[n(4)]
    pub limits: Option<Limits>,
    #[n(5)]
    pub comments: Option<SmolStr>,
    #[n(6)]
    pub sells_after_begin: Option<bool>,
    #[n(7)]
    pub price_types: Option<Vec<PriceType>>,
    #[n(8)]
    pub offers: Option<Vec<Offer>>,
    #[n(9)]
    pub counters: Option<Vec<Counter>>,
    #[n(13)]
    pub allotments: Option<Vec<Allotment>>,
    #[n(15)]
    pub no_single_seats: Option<bool>,
    /// 1 asks for none.
    #[n(16)]
    pub min_party: Option<u16>,
    /// Offers that are closed by hand.
    #[n(10)]
    pub close: Vec<Id>,
    /// Offers that are no longer closed by hand.
    #[n(11)]
    pub reopen: Vec<Id>,
    /// Allotments that are released now.
    #[n(14)]
    pub release: Vec<Id>,
    /// Only say what would be different.
    #[n(12)]
    pub dry_run: bool,
}

/// What a session is, from its creation to its view.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct NewSession {
    /// Its id, chosen by the client.
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub hall: Id,
    #[n(2)]
    pub title: Id,
    /// The hall is booked for `[starts_at, ends_at)`.
    #[n(3)]
    pub starts_at: Timestamp,
    #[n(4)]
    pub ends_at: Timestamp,
    /// A price for every category of the hall's layout, all in one currency.
    #[n(6)]
    pub prices: Vec<(Id, Money)>,
    #[n(5)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct SessionExtras {
    /// Places without seats.
    #[n(1)]
    pub areas: Vec<Area>,
    /// How long carts with seats of this session live untouched. By default, as the rules say.
    #[n(3)]
    pub hold_ttl_ms: Option<u64>,
    #[n(0)]
    pub limits: Limits,
    /// Free text.
    #[n(2)]
    pub comments: SmolStr,
    /// Whether everybody may still hold after it has begun. Otherwise only the desk may.
    #[n(4)]
    pub sells_after_begin: bool,
    /// `None` if there is one price a category, on sale for everybody.
    #[n(5)]
    pub offering: Option<Arc<Offering>>,
    /// Whether a hold by name may not leave a free seat alone. The desk may.
    #[n(6)]
    pub no_single_seats: bool,
    /// The fewest seats of one hold, except of the desk. A run of fewer free seats is sold in smaller parts.
    #[n(7)]
    pub min_party: Option<u16>,
}

/// Interchangeable places of a session.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Area {
    /// Its id, unique in the session.
    #[n(0)]
    pub id: Id,
    #[n(4)]
    pub name: SmolStr,
    #[n(1)]
    pub capacity: u32,
    /// The price of one place, in the currency of the session.
    #[n(2)]
    pub price: Money,
    /// Its names for people, by locale.
    #[n(3)]
    pub names: Names,
}

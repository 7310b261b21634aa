//! Bodies of the ops on sessions.

use boxoffice_core::{
    command::NewSession, id::Id, layout::LAYOUT_SEATS_MAX, money::Money, seat::Seat, time::Timestamp,
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::LimitsBody;
use crate::{
    form::{self, AtMost},
    limits::AREAS_MAX,
    quantity::Quantity,
};

/// Of `session.create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreate {
    /// Its id, chosen by the client.
    #[serde(with = "form")]
    pub id: Id,
    /// In which venue.
    #[serde(with = "form")]
    pub venue: Id,
    /// In which hall.
    #[serde(with = "form")]
    pub hall: Id,
    /// What is shown.
    #[serde(with = "form")]
    pub title: Id,
    /// When it starts.
    #[serde(with = "form")]
    pub starts_at: Timestamp,
    /// When it ends.
    #[serde(with = "form")]
    pub ends_at: Timestamp,
    /// A price for every category of the hall's layout.
    #[serde(with = "form::prices", default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<(Id, Money)>,
    /// Places without seats.
    #[serde(with = "AtMost::<AREAS_MAX>", default, skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<AreaBody>,
    /// How long carts with seats of it live untouched, if not as the rules say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ttl_ms: Option<u64>,
    /// How many seats and places one order and one customer may have.
    #[serde(default, skip_serializing_if = "LimitsBody::is_none")]
    pub limits: LimitsBody,
    /// Anything worth saying.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub comments: SmolStr,
}

impl SessionCreate {
    /// The body that says this.
    pub fn new(venue: Id, session: NewSession) -> SessionCreate {
        let NewSession { id, hall, title, starts_at, ends_at, prices, areas, hold_ttl_ms, limits, comments } = session;
        let areas = areas
            .into_iter()
            .map(|area| AreaBody { id: area.id, name: area.name, capacity: area.capacity.into(), price: area.price })
            .collect();
        let limits = LimitsBody::from(limits);
        SessionCreate { id, venue, hall, title, starts_at, ends_at, prices, areas, hold_ttl_ms, limits, comments }
    }
}

/// An area of `session.create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaBody {
    /// Its id, unique in the session.
    #[serde(with = "form")]
    pub id: Id,
    /// What it is called.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
    /// How many places.
    pub capacity: Quantity,
    /// For one place.
    #[serde(with = "form")]
    pub price: Money,
}

form::plain_form!(AreaBody);

/// Of `session.search`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSearch {
    /// Of which venue.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub venue: Option<Id>,
    /// Of which city, if no venue is named: of all its venues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub city: Option<SmolStr>,
    /// Only this title.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Id>,
    /// Only in this hall of the venue.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub hall: Option<Id>,
    /// Starting at or after.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Starting before.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where the page before ended, as its answer said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<SmolStr>,
}

/// Of `session.map`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMap {
    /// Which session.
    #[serde(with = "form")]
    pub id: Id,
    /// `2,1,0` for the three numbers of cinemas: on sale, locked, sold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<SmolStr>,
}

/// Of `session.block` and `session.unblock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSeats {
    /// Which session.
    #[serde(with = "form")]
    pub id: Id,
    /// Which seats.
    #[serde(with = "AtMost::<LAYOUT_SEATS_MAX>")]
    pub seats: Vec<Seat>,
}

/// Of `session.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCancel {
    /// Which session.
    #[serde(with = "form")]
    pub id: Id,
    /// Why, for everyone to read.
    pub reason: SmolStr,
}

//! The bodies of requests: plain shapes, one set for both encodings. Absent and `null` are the same; what is not known is ignored.

use std::sync::Arc;

use boxoffice_core::{
    id::{CartId, CartToken, Entity, Id, OrderId},
    layout::{LAYOUT_SEATS_MAX, Layout},
    money::Money,
    seat::{HOLD_SEATS_MAX, Seat},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

pub use crate::form_answer::{PaymentBody, Position, RecordedPayment};
use crate::{
    form::{self, AtMost, AtMostIfAny},
    limits::CART_LINES_MAX,
};

/// Of `hello`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientHello {
    /// What the client calls itself.
    #[serde(default)]
    pub client: SmolStr,
    /// Who it is, where the server wants to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SmolStr>,
}

/// Of `venue.put`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VenuePut {
    /// Which venue.
    #[serde(with = "form")]
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// Where it is.
    #[serde(default)]
    pub city: SmolStr,
    /// Where exactly, in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Anything worth saying.
    #[serde(default)]
    pub comments: SmolStr,
}

/// Of `venue.get` and `session.get`: the one with this id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Get {
    /// Its id.
    #[serde(with = "form")]
    pub id: Id,
}

/// Of `hall.put`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HallPut {
    /// In which venue.
    #[serde(with = "form")]
    pub venue: Id,
    /// Which hall.
    #[serde(with = "form")]
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// Its seats.
    #[serde(with = "form")]
    pub layout: Arc<Layout>,
}

/// Of `hall.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HallGet {
    /// In which venue.
    #[serde(with = "form")]
    pub venue: Id,
    /// Which hall.
    #[serde(with = "form")]
    pub id: Id,
}

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
    #[serde(with = "form::prices")]
    pub prices: Vec<(Id, Money)>,
    /// How long carts with seats of it live untouched, if not as the rules say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ttl_ms: Option<u64>,
}

/// Of `session.search`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSearch {
    /// Of which venue.
    #[serde(with = "form")]
    pub venue: Id,
    /// Only this title.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Id>,
    /// Only in this hall.
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

/// Of `cart.open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartOpen {
    /// The cart's token.
    #[serde(with = "form")]
    pub token: CartToken,
    /// The cart's id, if the client wants it compared.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub cart: Option<CartId>,
    /// Whose it is.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<Id>,
    /// How long it lives untouched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// Of `cart.get` and `cart.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartOnly {
    /// The cart's token.
    #[serde(with = "form")]
    pub token: CartToken,
    /// The cart's id, if the client wants it compared.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub cart: Option<CartId>,
}

/// Of `cart.hold_seats`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldSeats {
    /// The cart's token.
    #[serde(with = "form")]
    pub token: CartToken,
    /// The cart's id, if the client wants it compared.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub cart: Option<CartId>,
    /// Of which session.
    #[serde(with = "form")]
    pub session: Id,
    /// Which seats.
    #[serde(with = "AtMost::<HOLD_SEATS_MAX>")]
    pub seats: Vec<Seat>,
    /// Take what is free and leave the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best_effort: bool,
}

/// Of `cart.hold_best`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldBest {
    /// The cart's token.
    #[serde(with = "form")]
    pub token: CartToken,
    /// The cart's id, if the client wants it compared.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub cart: Option<CartId>,
    /// Of which session.
    #[serde(with = "form")]
    pub session: Id,
    /// How many.
    pub count: u16,
    /// Only of this category.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Id>,
    /// Only in this section.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub section: Option<Id>,
    /// Exactly so many of them accessible.
    #[serde(default)]
    pub accessible: u16,
    /// If no run is long enough, take several.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub split: bool,
}

/// Of `cart.hold_all`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldAll {
    /// The cart's token.
    #[serde(with = "form")]
    pub token: CartToken,
    /// The cart's id, if the client wants it compared.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub cart: Option<CartId>,
    /// What is wanted, all or none.
    #[serde(with = "AtMost::<CART_LINES_MAX>")]
    pub lines: Vec<Line>,
}

/// A line of `cart.hold_all`: the fields of `cart.hold_seats` (with `seats`) or of `cart.hold_best` (with `count`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Of which session.
    #[serde(with = "form")]
    pub session: Id,
    /// Which seats.
    #[serde(with = "AtMostIfAny::<HOLD_SEATS_MAX>", default, skip_serializing_if = "Option::is_none")]
    pub seats: Option<Vec<Seat>>,
    /// Take what is free of them and leave the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best_effort: bool,
    /// How many of the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u16>,
    /// Only of this category.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Id>,
    /// Only in this section.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub section: Option<Id>,
    /// Exactly so many of them accessible.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accessible: u16,
    /// If no run is long enough, take several.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub split: bool,
}

impl form::Form for Line {
    fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }

    fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Line, D::Error> {
        Line::deserialize(deserializer)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// Of `cart.release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The cart's token.
    #[serde(with = "form")]
    pub token: CartToken,
    /// The cart's id, if the client wants it compared.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub cart: Option<CartId>,
    /// Which line.
    pub line: u32,
    /// Which seats of it; all if absent.
    #[serde(with = "AtMostIfAny::<HOLD_SEATS_MAX>", default, skip_serializing_if = "Option::is_none")]
    pub seats: Option<Vec<Seat>>,
}

/// Of `cart.checkout`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// The cart's token.
    #[serde(with = "form")]
    pub token: CartToken,
    /// The cart's id, if the client wants it compared.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub cart: Option<CartId>,
    /// How it is paid.
    pub payment: PaymentBody,
    /// Who buys, if not said before.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<Id>,
}

/// Of `order.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderGet {
    /// Which order.
    #[serde(with = "form")]
    pub order: OrderId,
}

/// Of `watch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// What to follow; a session.
    #[serde(with = "form")]
    pub entity: Entity,
    /// What the client has already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// A version a watcher has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// In which epoch.
    pub epoch: u64,
    /// Which version.
    pub version: u64,
}

/// Of `unwatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unwatch {
    /// Which feed.
    pub feed: u64,
}

/// Of `admin.status`, and of whatever else has no fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// Of `admin.audit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Of what; the whole node if absent.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<Entity>,
}

//! Bodies of the ops on carts.

use boxoffice_core::{
    command::{BestWish, Want, WantedLine},
    id::{CartId, CartToken, Entity, Id},
    seat::{HOLD_SEATS_MAX, Seat},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

pub use crate::form_payment::{Figure, GatewayPayment, PaymentBody, RecordedPayment, ShippingBody};
use crate::{
    form::{self, AtMost, AtMostIfAny},
    limits::CART_LINES_MAX,
    quantity::Quantity,
};

/// The body of an op on a cart: what opens the cart, then the op's own fields.
macro_rules! of_a_cart {
    ($(#[$doc:meta])* $body:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $body {
            /// The cart's token.
            #[serde(with = "form")]
            pub token: CartToken,
            /// The cart's id, if the client wants it compared.
            #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
            pub cart: Option<CartId>,
            $($fields)*
        }
    };
}

/// The body of a hold: what opens the cart, whose it is, then what is wanted.
macro_rules! of_a_hold {
    ($(#[$doc:meta])* $body:ident { $($fields:tt)* }) => {
        of_a_cart! {
            $(#[$doc])*
            $body {
                /// Whose the cart is, if that was not said before.
                #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
                pub customer: Option<Id>,
                $($fields)*
            }
        }
    };
}

of_a_cart! {
    /// Of `cart.open`.
    CartOpen {
        /// Whose it is.
        #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
        pub customer: Option<Id>,
        /// How long it lives untouched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ttl_ms: Option<u64>,
    }
}

of_a_cart! {
    /// Of `cart.get` and `cart.cancel`.
    CartOnly {}
}

of_a_hold! {
    /// Of `cart.hold_seats`.
    HoldSeats {
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
}

of_a_hold! {
    /// Of `cart.hold_best`.
    HoldBest {
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
}

of_a_hold! {
    /// Of `cart.hold_places`.
    HoldPlaces {
        /// Of which session.
        #[serde(with = "form")]
        pub session: Id,
        /// In which area.
        #[serde(with = "form")]
        pub area: Id,
        /// How many.
        pub quantity: Quantity,
    }
}

of_a_hold! {
    /// Of `cart.hold_stock`.
    HoldStock {
        /// Of which product.
        #[serde(with = "form")]
        pub product: Id,
        /// How many.
        pub quantity: Quantity,
    }
}

of_a_hold! {
    /// Of `cart.hold_slot`.
    HoldSlot {
        /// Of which resource.
        #[serde(with = "form")]
        pub resource: Id,
        /// From.
        #[serde(with = "form")]
        pub begin: Timestamp,
        /// Up to, exclusive.
        #[serde(with = "form")]
        pub end: Timestamp,
        /// Anything worth saying.
        #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
        pub details: SmolStr,
    }
}

of_a_hold! {
    /// Of `cart.hold_all`.
    HoldAll {
        /// What is wanted, all or none.
        #[serde(with = "AtMost::<CART_LINES_MAX>")]
        pub lines: Vec<Line>,
    }
}

/// A line of `cart.hold_all`: the fields of one of `cart.hold_seats` (with `seats`), `cart.hold_best` (with `count`),
/// `cart.hold_places` (with `area`), `cart.hold_stock` (with `product`), `cart.hold_slot` (with `resource`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Of which session.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Id>,
    /// Of which product.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub product: Option<Id>,
    /// Of which resource.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Id>,
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
    /// In which area.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub area: Option<Id>,
    /// How many places or units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Quantity>,
    /// From.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// Up to, exclusive.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// Anything worth saying of the slot.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub details: SmolStr,
}

impl From<WantedLine> for Line {
    /// The line that says this. What no line can say (a quota, a line of a cart) is left out, for the server to refuse.
    fn from(WantedLine { entity, want }: WantedLine) -> Line {
        let none = match entity {
            Entity::Session(id) => Line { session: Some(id), ..Line::default() },
            Entity::Product(id) => Line { product: Some(id), ..Line::default() },
            Entity::Resource(id) => Line { resource: Some(id), ..Line::default() },
            Entity::Venue(_) | Entity::Cart(_) | Entity::Customer(_) | Entity::Directory | Entity::Cluster => {
                Line::default()
            }
        };
        match want {
            Want::Seats { seats, best_effort } => Line { seats: Some(seats.as_slice().to_vec()), best_effort, ..none },
            Want::Best(BestWish { count, category, section, accessible, split }) => {
                Line { count: Some(count), category, section, accessible, split, ..none }
            }
            Want::Places { area, quantity } => Line { area: Some(area), quantity: Some(quantity.into()), ..none },
            Want::Units { quantity, now: _ } => Line { quantity: Some(quantity.into()), ..none },
            Want::Slot { begin, end, details } => Line { begin: Some(begin), end: Some(end), details, ..none },
            Want::Quota { .. } => none,
        }
    }
}

form::plain_form!(Line);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

of_a_cart! {
    /// Of `cart.set_quantity`.
    SetQuantity {
        /// Which line.
        pub line: u32,
        /// How many altogether; 0 ends the line.
        pub quantity: Quantity,
    }
}

of_a_cart! {
    /// Of `cart.release`.
    Release {
        /// Which line.
        pub line: u32,
        /// Which seats of it; all if absent.
        #[serde(with = "AtMostIfAny::<HOLD_SEATS_MAX>", default, skip_serializing_if = "Option::is_none")]
        pub seats: Option<Vec<Seat>>,
    }
}

of_a_cart! {
    /// Of `cart.checkout`.
    Checkout {
        /// How it is paid.
        pub payment: PaymentBody,
        /// Who buys, if not said before.
        #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
        pub customer: Option<Id>,
        /// Where it goes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub shipping: Option<ShippingBody>,
        /// What the buyer believes to buy: refused if the cart is not that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub expect: Option<Figure>,
    }
}

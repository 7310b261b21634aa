//! Bodies of the ops on carts.

use boxoffice_core::{
    command::{BestWish, Want, WantedLine},
    id::{CartId, CartToken, Entity, Id},
    portion::LINE_QUANTITY_MAX,
    seat::{HOLD_SEATS_MAX, Seat},
    time::Timestamp,
};
use smol_str::SmolStr;

pub use crate::repr::payment::{Figure, GatewayPayment, PaymentBody, RecordedPayment, ShippingBody};
use crate::{
    limits::{CART_LINES_MAX, DETAILS_BYTES_MAX},
    quantity::Quantity,
    repr::{
        Bounded, OptionalBounded,
        shape::{WHOLE_MAX, shapes},
    },
};

/// Defines bodies of ops on a cart: the token, then the op's own fields.
macro_rules! of_a_cart {
    ($($body:ident { $($fields:tt)* })+) => {
        shapes! {$(
            #[derive(Eq)]
            pub struct $body {
                pub token: CartToken,
                /// The op is refused if the token does not open this cart.
                pub cart?: Option<CartId>,
                $($fields)*
            }
        )+}
    };
}

/// Defines bodies of holds: the token, the customer, then the op's own fields.
macro_rules! of_a_hold {
    ($($body:ident { $($fields:tt)* })+) => {
        of_a_cart! {$(
            $body {
                /// The owner of the cart, if it has none yet.
                pub customer?: Option<Id>,
                $($fields)*
            }
        )+}
    };
}

of_a_cart! {
    CartOpen {
        pub customer?: Option<Id>,
        /// The time to live of the cart after its last change.
        pub ttl_ms?: Option<u64> = 1..=WHOLE_MAX,
    }
    CartOnly {}
    SetQuantity {
        pub line: u32 = 0..=u32::MAX,
        /// The new quantity of the line. 0 ends the line.
        pub quantity: Quantity = 0..=LINE_QUANTITY_MAX,
    }
    Release {
        pub line: u32 = 0..=u32::MAX,
        /// The seats to release. The whole line if absent.
        pub seats?: Option<Vec<Seat>> as "OptionalBounded::<HOLD_SEATS_MAX>" = 1..=HOLD_SEATS_MAX,
    }
    Checkout {
        pub payment: PaymentBody,
        /// The buyer, if the cart has no owner yet.
        pub customer?: Option<Id>,
        pub shipping?: Option<ShippingBody>,
        /// What the buyer has seen. The checkout is refused if the cart differs.
        pub expect?: Option<Figure>,
    }
}

of_a_hold! {
    HoldSeats {
        pub session: Id,
        pub seats: Vec<Seat> as "Bounded::<HOLD_SEATS_MAX>" = 1..=HOLD_SEATS_MAX,
        /// Hold the seats that are free, if others are taken.
        pub best_effort?: bool,
    }
    HoldBest {
        pub session: Id,
        pub count: u16 = 1..=HOLD_SEATS_MAX,
        pub category?: Option<Id>,
        pub section?: Option<Id>,
        /// The exact number of accessible seats among them.
        pub accessible??: u16 = 0..=HOLD_SEATS_MAX,
        /// If no run of neighbours is long enough, hold several runs.
        pub split?: bool,
    }
    HoldPlaces {
        pub session: Id,
        pub area: Id,
        pub quantity: Quantity = 1..=LINE_QUANTITY_MAX,
    }
    HoldStock {
        pub product: Id,
        pub quantity: Quantity = 1..=LINE_QUANTITY_MAX,
    }
    HoldSlot {
        pub resource: Id,
        pub begin: Timestamp,
        /// The end, exclusive.
        pub end: Timestamp,
        /// Details of the booking.
        pub details?: SmolStr = 0..=DETAILS_BYTES_MAX,
    }
    HoldAll {
        pub lines: Vec<Line> as "Bounded::<CART_LINES_MAX>" = 1..=CART_LINES_MAX,
    }
}

shapes! {
    /// The fields of `cart.hold_seats`, `cart.hold_best`, `cart.hold_places`, `cart.hold_stock` or `cart.hold_slot`.
    #[derive(Default, Eq)]
    #[one_of([session, seats] [session, count] [session, area, quantity] [product, quantity] [resource, begin, end])]
    pub struct Line as WantedLine {
        pub session?: Option<Id>,
        pub product?: Option<Id>,
        pub resource?: Option<Id>,
        pub seats?: Option<Vec<Seat>> as "OptionalBounded::<HOLD_SEATS_MAX>" = 1..=HOLD_SEATS_MAX,
        /// Hold the seats that are free, if others are taken.
        pub best_effort?: bool,
        pub count?: Option<u16> = 1..=HOLD_SEATS_MAX,
        pub category?: Option<Id>,
        pub section?: Option<Id>,
        /// The exact number of accessible seats among them.
        pub accessible?: u16 = 0..=HOLD_SEATS_MAX,
        /// If no run of neighbours is long enough, hold several runs.
        pub split?: bool,
        pub area?: Option<Id>,
        /// The number of places or units.
        pub quantity?: Option<Quantity> = 1..=LINE_QUANTITY_MAX,
        pub begin?: Option<Timestamp>,
        /// The end, exclusive.
        pub end?: Option<Timestamp>,
        /// Details of the booking.
        pub details?: SmolStr = 0..=DETAILS_BYTES_MAX,
    }
}

impl From<WantedLine> for Line {
    /// The line for this want. A want that no line has (a quota, a line of a cart) is omitted, and the server refuses it.
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

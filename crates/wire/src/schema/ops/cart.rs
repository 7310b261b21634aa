//! The ops on carts, up to the checkout.

use boxoffice_core::seat::HOLD_SEATS_MAX;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{OTHER_TOKEN, OpSchema, THIRD_TOKEN, TOKEN, asks, quantity};
use crate::{
    body,
    limits::{CART_LINES_MAX, DETAILS_BYTES_MAX},
    schema::build::{
        Field, about, component, flag, id, milliseconds, needed, object, one_set, optional, some, text, time, whole,
    },
};

/// An op on a cart: its token, its id if that is to be compared, and these fields.
pub(super) fn in_cart<T: DeserializeOwned>(summary: &'static str, fields: impl IntoIterator<Item = Field>) -> OpSchema {
    asks::<T>(
        summary,
        [needed("token", component("Token")), optional("cart", component("CartId"))].into_iter().chain(fields),
    )
}

/// An op that adds to a cart.
fn holds<T: DeserializeOwned>(summary: &'static str, fields: impl IntoIterator<Item = Field>) -> OpSchema {
    let customer = about(id(), "Whose the cart is, if that was not said before.");
    in_cart::<T>(summary, [optional("customer", customer)].into_iter().chain(fields)).answers(component("Held"))
}

pub(super) fn open() -> OpSchema {
    in_cart::<body::CartOpen>("Open a cart.", [optional("customer", id()), optional("ttl_ms", milliseconds())])
        .example(json!({"token": TOKEN, "customer": "ada", "ttl_ms": 600_000}))
        .example(json!({"token": OTHER_TOKEN}))
        .answers(component("Cart"))
}

pub(super) fn get() -> OpSchema {
    in_cart::<body::CartOnly>("Read a cart.", []).example(json!({"token": TOKEN})).answers(component("Cart"))
}

pub(super) fn hold_seats() -> OpSchema {
    holds::<body::HoldSeats>(
        "Hold named seats.",
        [needed("session", id()), needed("seats", seats()), optional("best_effort", best_effort())],
    )
    .example(json!({"token": TOKEN, "session": "hamlet-tonight", "seats": [[1, 5], [1, 6], [1, 7]]}))
}

pub(super) fn hold_best() -> OpSchema {
    holds::<body::HoldBest>(
        "Hold the best seats there are.",
        [
            needed("session", id()),
            needed("count", up_to_seats(1)),
            optional("category", id()),
            optional("section", id()),
            optional("accessible", about(up_to_seats(0), "The exact number of accessible seats among them.")),
            optional("split", split()),
        ],
    )
    .example(json!({"token": TOKEN, "session": "hamlet-tonight", "count": 2, "category": "standard", "split": true}))
}

pub(super) fn hold_places() -> OpSchema {
    holds::<body::HoldPlaces>(
        "Hold places in an area.",
        [needed("session", id()), needed("area", id()), needed("quantity", quantity(1))],
    )
    .example(json!({"token": TOKEN, "session": "hamlet-matinee", "area": "yard", "quantity": 4}))
}

pub(super) fn hold_stock() -> OpSchema {
    holds::<body::HoldStock>("Hold units of a product.", [needed("product", id()), needed("quantity", quantity(1))])
        .example(json!({"token": TOKEN, "product": "programme", "quantity": 2}))
        .example(json!({"token": TOKEN, "product": "poster", "quantity": 1}))
        .example(json!({"token": THIRD_TOKEN, "customer": "ben", "product": "programme", "quantity": 1}))
}

pub(super) fn hold_slot() -> OpSchema {
    holds::<body::HoldSlot>(
        "Hold time of a resource.",
        [
            needed("resource", id()),
            needed("begin", time()),
            needed("end", about(time(), "Exclusive.")),
            optional("details", details()),
        ],
    )
    .example(json!({
        "token": TOKEN, "resource": "room-5", "begin": "2099-04-15T09:00:00Z", "end": "2099-04-15T10:30:00Z",
        "details": "with a piano",
    }))
}

pub(super) fn hold_all() -> OpSchema {
    holds::<body::HoldAll>("Hold several lines, all or none.", [needed("lines", some(line(), CART_LINES_MAX))]).example(
        json!({"token": TOKEN, "lines": [
            {"session": "hamlet-tonight", "seats": [[3, 5]]},
            {"session": "hamlet-matinee", "count": 1},
            {"session": "hamlet-matinee", "area": "yard", "quantity": 2},
            {"product": "programme", "quantity": 1},
            {"resource": "projector", "begin": "2099-04-15T09:00:00Z", "end": "2099-04-15T10:30:00Z"},
        ]}),
    )
}

pub(super) fn set_quantity() -> OpSchema {
    in_cart::<body::SetQuantity>(
        "Hold more or less of a line of places or units.",
        [needed("line", line_number()), needed("quantity", about(quantity(0), "Altogether; 0 ends the line."))],
    )
    .example(json!({"token": TOKEN, "line": 4, "quantity": 5}))
    .answers(component("Cart"))
}

pub(super) fn release() -> OpSchema {
    in_cart::<body::Release>(
        "Give a line, or seats of it, back.",
        [needed("line", line_number()), optional("seats", seats())],
    )
    .example(json!({"token": TOKEN, "line": 1, "seats": [[1, 6]]}))
    .answers(component("Cart"))
}

pub(super) fn cancel() -> OpSchema {
    in_cart::<body::CartOnly>("Give everything back.", [])
        .example(json!({"token": OTHER_TOKEN}))
        .answers(component("Cart"))
}

/// The number of a line.
pub(super) fn line_number() -> Value {
    whole(0, i64::from(u32::MAX))
}

fn seats() -> Value {
    some(component("Seat"), HOLD_SEATS_MAX)
}

fn up_to_seats(least: i64) -> Value {
    whole(least, HOLD_SEATS_MAX as i64)
}

fn best_effort() -> Value {
    about(flag(), "Take what is free and leave the rest.")
}

fn split() -> Value {
    about(flag(), "If no run of neighbours is long enough, take several.")
}

fn details() -> Value {
    about(text(DETAILS_BYTES_MAX), "Anything worth saying of the slot.")
}

fn line() -> Value {
    let line = object::<body::Line>([
        optional("session", id()),
        optional("product", id()),
        optional("resource", id()),
        optional("seats", seats()),
        optional("best_effort", best_effort()),
        optional("count", up_to_seats(1)),
        optional("category", id()),
        optional("section", id()),
        optional("accessible", about(up_to_seats(0), "The exact number of accessible seats among them.")),
        optional("split", split()),
        optional("area", id()),
        optional("quantity", quantity(1)),
        optional("begin", time()),
        optional("end", time()),
        optional("details", details()),
    ]);
    let line = one_set(
        line,
        &[
            &["session", "seats"],
            &["session", "count"],
            &["session", "area", "quantity"],
            &["product", "quantity"],
            &["resource", "begin", "end"],
        ],
    );
    about(
        line,
        "As one of `cart.hold_seats`, `cart.hold_best`, `cart.hold_places`, `cart.hold_stock`, `cart.hold_slot`.",
    )
}

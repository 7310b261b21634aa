//! Carts and their lines.

use boxoffice_core::{
    answer::{CartView, Ended, Held, LineView, TakenLine},
    money::PRICE_MAX,
};

use super::Group;
use crate::{
    form::Of,
    limits::CART_LINES_MAX,
    schema::build::{
        about, at_most, component, count, flag, id, lines, list, needed, object, one_of, one_set, optional, time,
        whole, words,
    },
};

pub(super) fn carts() -> Group {
    let price = || whole(0, PRICE_MAX);
    let minor_units = || serde_json::json!({"type": "integer"});
    let line = object::<Of<LineView>>([
        needed("line", count()),
        optional("session", id()),
        optional("product", id()),
        optional("resource", id()),
        optional("seats", list(component("Seat"))),
        optional("prices", about(list(price()), "One a seat, in minor units.")),
        optional("area", id()),
        optional("quantity", count()),
        optional("begin", time()),
        optional("end", time()),
        optional("price", about(price(), "Of one place or unit, or of the slot, in minor units.")),
        optional("details", about(words(), "Of a slot.")),
        optional("late", about(flag(), "Nothing is set aside before the checkout.")),
    ]);
    let line = one_set(
        line,
        &[
            &["session", "seats", "prices"],
            &["session", "area", "quantity", "price"],
            &["product", "quantity", "price"],
            &["resource", "begin", "end", "price"],
        ],
    );
    let states = one_of(&["active", "checking_out", "done", "canceled", "expired"]);
    let cart = object::<Of<CartView>>([
        needed("id", component("CartId")),
        needed("state", states),
        optional("customer", id()),
        needed("opened_at", time()),
        needed("deadline", time()),
        needed("lines", lines()),
        needed("lines_version", about(count(), "Moves when lines, quantities or prices do.")),
        optional("taken", about(at_most(component("TakenLine"), CART_LINES_MAX), "Lines that were taken away.")),
        optional("total", component("Money")),
        optional("order", component("OrderId")),
        optional("ended", component("CartEnd")),
    ]);
    let taken = object::<Of<TakenLine>>([
        needed("line", component("Line")),
        needed("by", one_of(&["operator", "session"])),
        optional("reason", words()),
    ]);
    let ended = object::<Of<Ended>>([
        needed("why", one_of(&["expired", "too_old", "canceled", "declined", "amount_mismatch"])),
        optional("by", one_of(&["buyer", "gateway", "operator"])),
        optional("reason", about(words(), "Of a decline.")),
        optional("asked", about(minor_units(), "Of another amount: what the gateway was asked for.")),
        optional("got", about(minor_units(), "Of another amount: what it set aside.")),
    ]);
    let held = object::<Of<Held>>([
        needed("cart", component("CartId")),
        needed("lines", lines()),
        needed("currency", component("Currency")),
        needed("deadline", time()),
        needed("lines_version", count()),
    ]);
    vec![
        ("Line", about(line, "Of seats, of places in an area, of units of a product, or of a slot of a resource.")),
        ("TakenLine", about(taken, "A line that was taken away from the cart's owner.")),
        ("CartEnd", about(ended, "Why a cart ended without an order, and who decided it.")),
        ("Cart", cart),
        ("Held", held),
    ]
}

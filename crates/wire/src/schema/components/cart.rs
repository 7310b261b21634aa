//! Carts and their lines.

use boxoffice_core::{
    answer::{CartView, Held, LineView},
    money::PRICE_MAX,
};

use super::Group;
use crate::{
    form::Of,
    schema::build::{
        about, component, count, flag, id, lines, list, needed, object, one_of, one_set, optional, time, whole,
    },
};

pub(super) fn carts() -> Group {
    let price = || whole(0, PRICE_MAX);
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
        optional("total", component("Money")),
        optional("order", component("OrderId")),
    ]);
    let held = object::<Of<Held>>([
        needed("cart", component("CartId")),
        needed("lines", lines()),
        needed("currency", component("Currency")),
        needed("deadline", time()),
    ]);
    vec![
        ("Line", about(line, "Of seats, of places in an area, of units of a product, or of a slot of a resource.")),
        ("Cart", cart),
        ("Held", held),
    ]
}

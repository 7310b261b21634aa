//! The ops on what is bought: the checkout, orders, purchases.

use serde_json::json;

use super::{
    OpSchema, TOKEN, asks,
    cart::{in_cart, line_number},
    cart_of, limit,
};
use crate::{
    body,
    limits::{CART_LINES_MAX, REASON_BYTES_MAX},
    schema::build::{about, component, count, id, name, needed, optional, some},
};

pub(super) fn checkout() -> OpSchema {
    in_cart::<body::Checkout>(
        "Buy what the cart holds.",
        [
            needed("payment", component("Payment")),
            optional("customer", about(id(), "Who buys, if that was not said before.")),
            optional("shipping", component("Shipping")),
            optional("expect", about(component("Figure"), "Refused if the cart is not that.")),
        ],
    )
    .example(json!({
        "token": TOKEN, "payment": {"recorded": {"method": "card", "transaction_id": "4711"}},
        "shipping": {"recipient": "Ada", "address": "12 St James's Square", "method": "post"},
    }))
    .answers(component("Order"))
}

pub(super) fn get() -> OpSchema {
    asks::<body::OrderGet>("Read an order.", [needed("order", component("OrderId"))])
        .example(json!({"order": cart_of(TOKEN)}))
        .answers(component("Order"))
}

pub(super) fn refund() -> OpSchema {
    let lines = some(line_number(), CART_LINES_MAX);
    asks::<body::OrderRefund>(
        "Pay lines of an order back and put them on sale again.",
        [
            needed("order", component("OrderId")),
            optional("lines", about(lines, "All that are left if absent.")),
            needed("reason", name(REASON_BYTES_MAX)),
        ],
    )
    .example(json!({"order": cart_of(TOKEN), "lines": [1, 4], "reason": "the roof leaks"}))
    .example(json!({"order": cart_of(TOKEN), "reason": "the roof leaks more"}))
    .answers(component("Refund"))
}

pub(super) fn purchases() -> OpSchema {
    asks::<body::CustomerPurchases>(
        "The orders of a customer.",
        [
            needed("customer", id()),
            optional("cursor", about(count(), "Go on after this purchase; from the first if absent.")),
            optional("limit", limit()),
        ],
    )
    .example(json!({"customer": "ada", "limit": 10}))
    .answers(component("PurchasesPage"))
}

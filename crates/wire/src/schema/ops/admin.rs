//! The ops of operators.

use serde_json::json;

use super::{OpSchema, THIRD_TOKEN, TOKEN, asks, cart::line_number, cart_of, limit};
use crate::{
    body,
    limits::{PAYMENT_TEXT_BYTES_MAX, REASON_BYTES_MAX},
    schema::build::{about, component, count, either, name, needed, one_of, optional, text},
};

pub(super) fn status() -> OpSchema {
    asks::<body::Empty>("How the node is.", []).example(json!({})).answers(component("NodeStatus"))
}

pub(super) fn audit() -> OpSchema {
    let audits = ["NodeAudit", "SessionAudit", "CartAudit", "ProductAudit", "ResourceAudit", "CustomerAudit"];
    asks::<body::Audit>(
        "What a session, a cart, a product, a resource, a customer or the whole node holds, counted afresh.",
        [optional("entity", component("Entity"))],
    )
    .example(json!({}))
    .example(json!({"entity": "session/hamlet-matinee"}))
    .example(json!({"entity": format!("cart/{}", cart_of(TOKEN))}))
    .example(json!({"entity": format!("cart/{}", cart_of(THIRD_TOKEN))}))
    .example(json!({"entity": "product/programme"}))
    .example(json!({"entity": "resource/room-5"}))
    .example(json!({"entity": "customer/ada"}))
    .answers(either(&audits.map(component)))
}

pub(super) fn history() -> OpSchema {
    asks::<body::History>(
        "What happened to an entity, or to one of its seats: the newest page first, in it the oldest first.",
        [
            needed("entity", component("Entity")),
            optional("seat", about(component("Seat"), "Of a session: only what happened to it.")),
            optional("limit", limit()),
            optional("before", about(count(), "Only what is older than this version: the cursor of the page before.")),
        ],
    )
    .example(json!({"entity": "session/hamlet-tonight", "seat": [1, 5], "limit": 100}))
    .example(json!({"entity": "product/programme", "limit": 1}))
    .answers(component("HistoryPage"))
}

pub(super) fn release() -> OpSchema {
    asks::<body::AdminRelease>(
        "Release a line of a cart.",
        [
            needed("cart", component("CartId")),
            needed("line", line_number()),
            optional("reason", about(text(REASON_BYTES_MAX), "Its owner is shown it.")),
        ],
    )
    .example(json!({"cart": cart_of(THIRD_TOKEN), "line": 1}))
    .answers(component("Cart"))
}

pub(super) fn settle() -> OpSchema {
    let reference = about(name(PAYMENT_TEXT_BYTES_MAX), "The gateway's name for what it set aside; of `authorized`.");
    asks::<body::AdminSettle>(
        "Say how a step of an attempt to pay ended, of which the gateway tells nothing or that it failed.",
        [
            needed("cart", component("CartId")),
            needed("attempt", line_number()),
            needed("outcome", one_of(&["authorized", "declined", "captured", "voided", "refunded"])),
            optional("reference", reference),
            optional("refund", about(line_number(), "Which refund of the order; of `refunded`.")),
        ],
    )
    .example(json!({"cart": cart_of(TOKEN), "attempt": 1, "outcome": "authorized", "reference": "au-7"}))
    .example(json!({"cart": cart_of(TOKEN), "attempt": 1, "outcome": "declined"}))
    .example(json!({"cart": cart_of(TOKEN), "attempt": 1, "outcome": "refunded", "refund": 1}))
    .needing("a payment attempt whose outcome is unknown")
}

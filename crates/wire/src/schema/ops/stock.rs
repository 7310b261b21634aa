//! The ops on what is offered by quantity and by time: products and resources.

use serde_json::json;

use super::{OpSchema, asks, by_id};
use crate::{
    body,
    limits::{
        AHEAD_MS_MAX, BLOB_BYTES_MAX, BUFFER_MS_MAX, NAME_BYTES_MAX, RESOURCE_CAPACITY_MAX, STOCK_MAX, ZONE_BYTES_MAX,
    },
    schema::build::{about, base64, component, id, milliseconds, name, needed, optional, whole},
};

pub(super) fn product_put() -> OpSchema {
    asks::<body::ProductPut>(
        "Create or change a product.",
        [
            needed("id", id()),
            needed("name", name(NAME_BYTES_MAX)),
            optional("properties", component("Properties")),
            optional("blob", about(base64(BLOB_BYTES_MAX), "Anything else, opaque.")),
            needed("price", component("Price")),
            needed("stock", about(whole(0, STOCK_MAX as i64), "Units free, held and sold together.")),
            optional(
                "hold",
                about(component("HoldPolicy"), "When units are set aside for a cart; `at_add` if absent."),
            ),
            optional("hold_ttl_ms", milliseconds()),
            optional("limits", component("Limits")),
        ],
    )
    .example(json!({
        "id": "programme", "name": "Programme", "properties": {"pages": "40"}, "blob": "AAH+/w==",
        "price": {"amount": 350, "currency": "EUR"}, "stock": 100, "limits": {"per_order": 8},
    }))
    .example(json!({
        "id": "poster", "name": "Poster", "price": {"amount": 1200, "currency": "EUR"}, "stock": 10,
        "hold": "at_checkout",
    }))
    .answers(component("Product"))
}

pub(super) fn product_get() -> OpSchema {
    by_id("Read a product with its counts.").example(json!({"id": "programme"})).answers(component("Product"))
}

pub(super) fn resource_put() -> OpSchema {
    let capacity = whole(1, i64::from(RESOURCE_CAPACITY_MAX));
    let zone = json!({"type": "string", "pattern": format!("^[A-Za-z0-9/_+-]{{1,{ZONE_BYTES_MAX}}}$")});
    let buffer = || whole(0, BUFFER_MS_MAX as i64);
    asks::<body::ResourcePut>(
        "Create or change a resource.",
        [
            needed("id", id()),
            needed("name", name(NAME_BYTES_MAX)),
            optional("properties", component("Properties")),
            optional("capacity", about(capacity, "Bookings at an instant; 1 if absent.")),
            needed("zone", about(zone, "The IANA name of the zone it stands in.")),
            optional("hours", about(component("Hours"), "When it may be booked; always if absent.")),
            optional("before_ms", about(buffer(), "Kept free before every booking.")),
            optional("after_ms", about(buffer(), "Kept free after every booking.")),
            optional("notice_ms", about(whole(0, AHEAD_MS_MAX as i64), "The least time from now to a booking.")),
            optional("horizon_ms", about(whole(1, AHEAD_MS_MAX as i64), "The most time from now to a booking.")),
            needed("rate", component("Rate")),
            optional("hold_ttl_ms", milliseconds()),
            optional("limits", component("Limits")),
        ],
    )
    .example(json!({
        "id": "room-5", "name": "Room 5", "properties": {"floor": "2"}, "zone": "Europe/London",
        "hours": {
            "week": [
                [[540, 720], [780, 1080]], [[540, 720], [780, 1080]], [[540, 720], [780, 1080]],
                [[540, 720], [780, 1080]], [[540, 720], [780, 1080]], [[600, 720]], [],
            ],
            "exceptions": {"2099-12-24": [[540, 720]], "2099-12-25": []},
        },
        "after_ms": 900_000, "notice_ms": 3_600_000,
        "rate": {"amount": 2000, "currency": "EUR", "per_ms": 3_600_000},
    }))
    .example(json!({
        "id": "projector", "name": "Projectors", "capacity": 2, "zone": "Europe/London",
        "rate": {"amount": 1500, "currency": "EUR"},
    }))
    .answers(component("Resource"))
}

pub(super) fn resource_get() -> OpSchema {
    by_id("Read a resource.").example(json!({"id": "room-5"})).answers(component("Resource"))
}

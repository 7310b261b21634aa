//! Products and resources.

use boxoffice_core::{
    answer::{ProductView, ResourceView, StockCounts},
    command::{OpeningHours, Rate},
    money::PRICE_MAX,
};
use serde_json::json;

use super::Group;
use crate::{
    form::Of,
    limits::{BLOB_BYTES_MAX, EXCEPTIONS_MAX, INTERVAL_MS_MAX, SPANS_MAX},
    schema::build::{
        about, at_most, base64, component, count, id, milliseconds_up_to, needed, object, one_of, optional, pair,
        whole, words,
    },
};

/// Minutes of a day.
const DAY_MINUTES: i64 = 24 * 60;

pub(super) fn stock() -> Group {
    let counts = object::<Of<StockCounts>>(["free", "held", "sold"].map(|state| needed(state, count())));
    let product = object::<Of<ProductView>>([
        needed("id", id()),
        needed("name", words()),
        optional("properties", component("Properties")),
        optional("blob", base64(BLOB_BYTES_MAX)),
        needed("price", component("Price")),
        needed("stock", about(count(), "Units free, held and sold together.")),
        needed("hold", component("HoldPolicy")),
        optional("hold_ttl_ms", count()),
        optional("limits", component("Limits")),
        needed("counts", component("StockCounts")),
    ]);
    let spans = at_most(pair(whole(0, DAY_MINUTES)), SPANS_MAX);
    let week = json!({"type": "array", "items": component("OpenTimes"), "minItems": 7, "maxItems": 7});
    let exceptions = json!({
        "type": "object", "propertyNames": component("Day"), "additionalProperties": component("OpenTimes"),
        "maxProperties": EXCEPTIONS_MAX,
    });
    let hours = object::<Of<OpeningHours>>([
        needed("week", about(week, "Monday first.")),
        optional("exceptions", about(exceptions, "Days that differ.")),
    ]);
    let per_ms = about(milliseconds_up_to(INTERVAL_MS_MAX), "For every so much time begun; for a slot if absent.");
    let rate = object::<Of<Rate>>([
        needed("amount", whole(0, PRICE_MAX)),
        needed("currency", component("Currency")),
        optional("per_ms", per_ms),
    ]);
    let resource = object::<Of<ResourceView>>([
        needed("id", id()),
        needed("name", words()),
        optional("properties", component("Properties")),
        needed("capacity", about(count(), "Bookings at an instant.")),
        needed("zone", about(words(), "The IANA name of the zone it stands in.")),
        optional("hours", component("Hours")),
        needed("before_ms", count()),
        needed("after_ms", count()),
        needed("notice_ms", count()),
        optional("horizon_ms", count()),
        needed("rate", component("Rate")),
        optional("hold_ttl_ms", count()),
        optional("limits", component("Limits")),
        needed("bookings", about(count(), "How many there are, held ones counted.")),
    ]);
    vec![
        ("StockCounts", about(counts, "Units of a product by state.")),
        ("HoldPolicy", one_of(&["at_add", "at_checkout"])),
        ("Product", product),
        ("OpenTimes", about(spans, "`[open, close]` in minutes of the day, ascending and apart.")),
        ("Hours", about(hours, "When a resource may be booked.")),
        ("Rate", about(rate, "What a slot costs in a cart, in minor units.")),
        ("Resource", resource),
    ]
}

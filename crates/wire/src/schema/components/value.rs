//! Plain values: ids, times, money, seats.

use boxoffice_core::{
    answer::At,
    id::ID_BYTES_MAX,
    money::{Money, PRICE_MAX},
};
use serde_json::json;

use super::Group;
use crate::{
    body::{CustomerLimitBody, LimitsBody, Position},
    form::Of,
    limits::{CATEGORIES_MAX, PROPERTIES_MAX, PROPERTY_NAME_BYTES_MAX, PROPERTY_VALUE_BYTES_MAX},
    schema::{
        build::{about, component, count, id, name, needed, object, one_of, optional, pair, text, whole},
        ops::quantity,
    },
};

pub(super) fn values() -> Group {
    let hexadecimal = |words| about(json!({"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}), words);
    let entity = format!(
        "^((venue|session|product|resource|customer)/[A-Za-z0-9._:-]{{1,{ID_BYTES_MAX}}}|cart/[0-9a-fA-F]{{32}}|directory|cluster)$"
    );
    let money =
        object::<Of<Money>>([needed("amount", whole(-(1 << 53), 1 << 53)), needed("currency", component("Currency"))]);
    let price = object::<Of<Money>>([needed("amount", whole(0, PRICE_MAX)), needed("currency", component("Currency"))]);
    let id_pattern = format!("^[A-Za-z0-9._:-]{{1,{ID_BYTES_MAX}}}$");
    let position = object::<Position>([
        needed("lon", json!({"type": "number", "minimum": -180, "maximum": 180})),
        needed("lat", json!({"type": "number", "minimum": -90, "maximum": 90})),
    ]);
    let at = object::<Of<At>>([
        needed("entity", component("Entity")),
        needed("version", count()),
        needed("position", count()),
    ]);
    let customer_limit = object::<CustomerLimitBody>([needed("quota", id()), needed("max", quantity(1))]);
    let limits = object::<LimitsBody>([
        optional("per_order", quantity(1)),
        optional("per_customer", component("CustomerLimit")),
    ]);
    let entity_words =
        "`venue/…`, `session/…`, `product/…`, `resource/…`, `customer/…`, `cart/…`, `directory` or `cluster`.";
    let wall = json!({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?$"});
    vec![
        ("Id", about(json!({"type": "string", "pattern": id_pattern}), "An id that the client chooses.")),
        ("Token", hexadecimal("A cart's token: 128 bits that the client keeps secret; the last 112 are random.")),
        (
            "CartId",
            hexadecimal("A cart: the first 16 bits of its token, then the first 112 bits of the token's BLAKE3 hash."),
        ),
        ("OrderId", hexadecimal("An order: the cart it came from.")),
        ("Entity", about(json!({"type": "string", "pattern": entity}), entity_words)),
        ("Time", about(json!({"type": "string", "format": "date-time"}), "RFC 3339, from 1970 to 9999.")),
        ("Day", json!({"type": "string", "format": "date"})),
        ("WallTime", about(wall, "A time on a wall, as `2026-03-29T10:00`.")),
        ("Currency", about(json!({"type": "string", "pattern": "^[A-Z]{3}$"}), "An ISO 4217 code.")),
        ("Money", about(money, "An amount in minor units.")),
        ("Price", about(price, "The price of one seat, place or unit in minor units.")),
        (
            "Prices",
            json!({
                "type": "object", "propertyNames": id(), "additionalProperties": component("Price"),
                "maxProperties": CATEGORIES_MAX, "description": "A price for each category, all in one currency.",
            }),
        ),
        (
            "Properties",
            json!({
                "type": "object", "propertyNames": name(PROPERTY_NAME_BYTES_MAX),
                "additionalProperties": text(PROPERTY_VALUE_BYTES_MAX), "maxProperties": PROPERTIES_MAX,
                "description": "Whatever else is said of it, by name.",
            }),
        ),
        ("CustomerLimit", about(customer_limit, "By one customer, over everything that names the same quota.")),
        ("Limits", about(limits, "How many one order and one customer may have.")),
        ("Seat", about(pair(whole(0, 65_535)), "`[row, seat]`, counted from 0 in layout order.")),
        ("SeatState", one_of(&["free", "held", "sold", "blocked"])),
        ("Position", about(position, "Degrees.")),
        ("At", about(at, "A version that the answer rests on, and its place in the log (0 where not known).")),
    ]
}

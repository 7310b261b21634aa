//! The ops on sessions.

use boxoffice_core::layout::LAYOUT_SEATS_MAX;
use serde_json::{Value, json};

use super::{OpSchema, asks, by_id, cursor, limit};
use crate::{
    body,
    limits::{AREA_CAPACITY_MAX, AREAS_MAX, COMMENTS_BYTES_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX},
    schema::build::{
        about, at_most, component, either, id, milliseconds, name, needed, object, one_of, optional, some, text, time,
        whole,
    },
};

pub(super) fn create() -> OpSchema {
    let area = object::<body::AreaBody>([
        needed("id", id()),
        optional("name", text(NAME_BYTES_MAX)),
        needed("capacity", whole(1, i64::from(AREA_CAPACITY_MAX))),
        needed("price", component("Price")),
    ]);
    let hamlet = |name: &str, day: u32| -> Value {
        json!({
            "id": format!("hamlet-{name}"), "venue": "globe", "hall": "main", "title": "hamlet",
            "starts_at": format!("2099-04-{day}T19:00:00Z"), "ends_at": format!("2099-04-{day}T22:00:00Z"),
            "prices": {"standard": {"amount": 1000, "currency": "EUR"}},
        })
    };
    let mut with_yard = hamlet("matinee", 13);
    with_yard["areas"] =
        json!([{"id": "yard", "name": "Yard", "capacity": 500, "price": {"amount": 500, "currency": "EUR"}}]);
    with_yard["comments"] = json!("first night");
    with_yard["limits"] = json!({"per_order": 8, "per_customer": {"quota": "hamlet", "max": 12}});
    asks::<body::SessionCreate>(
        "Create a session; it has the hall for its time.",
        [
            needed("id", id()),
            needed("venue", id()),
            needed("hall", id()),
            needed("title", id()),
            needed("starts_at", time()),
            needed("ends_at", time()),
            optional("prices", component("Prices")),
            optional("areas", about(at_most(area, AREAS_MAX), "Places without seats.")),
            optional("hold_ttl_ms", milliseconds()),
            optional("limits", component("Limits")),
            optional("comments", text(COMMENTS_BYTES_MAX)),
        ],
    )
    .example(hamlet("tonight", 12))
    .example(with_yard)
    .example(hamlet("late", 14))
    .answers(component("Session"))
}

pub(super) fn get() -> OpSchema {
    by_id("Read a session.")
        .example(json!({"id": "hamlet-tonight"}))
        .example(json!({"id": "hamlet-matinee"}))
        .answers(component("Session"))
}

pub(super) fn search() -> OpSchema {
    asks::<body::SessionSearch>(
        "Sessions of a venue, or of all venues of a city, by start.",
        [
            optional("venue", id()),
            optional("city", name(NAME_BYTES_MAX)),
            optional("title", id()),
            optional("hall", about(id(), "With `venue` only.")),
            optional("from", about(time(), "Starting at or after.")),
            optional("to", about(time(), "Starting before.")),
            optional("limit", limit()),
            optional("cursor", cursor()),
        ],
    )
    .with_one_of(&[&["venue"], &["city"]])
    .example(json!({"venue": "globe", "title": "hamlet", "from": "2099-04-01T00:00:00Z", "limit": 1}))
    .example(json!({"venue": "globe"}))
    .example(json!({"city": "London", "title": "hamlet"}))
    .answers(either(&[component("SessionPage"), component("CityPage")]))
}

pub(super) fn map() -> OpSchema {
    asks::<body::SessionMap>(
        "The state of every seat of a session.",
        [needed("id", id()), optional("view", one_of(&["2,1,0"]))],
    )
    .example(json!({"id": "hamlet-tonight"}))
    .example(json!({"id": "hamlet-tonight", "view": "2,1,0"}))
    .example(json!({"id": "hamlet-matinee"}))
    .answers(either(&[component("Map"), component("ThreeStates")]))
}

pub(super) fn seats(summary: &'static str) -> OpSchema {
    let seats = some(component("Seat"), LAYOUT_SEATS_MAX);
    asks::<body::SessionSeats>(summary, [needed("id", id()), needed("seats", seats)])
        .example(json!({"id": "hamlet-tonight", "seats": [[0, 0], [0, 1]]}))
}

pub(super) fn cancel() -> OpSchema {
    let reason = about(name(REASON_BYTES_MAX), "For everyone to read.");
    asks::<body::SessionCancel>(
        "It will not take place: holds are given back, orders refunded.",
        [needed("id", id()), needed("reason", reason)],
    )
    .example(json!({"id": "hamlet-late", "reason": "the roof leaks"}))
}

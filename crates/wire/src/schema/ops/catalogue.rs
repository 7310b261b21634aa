//! The ops on venues, halls and titles.

use serde_json::json;

use super::{OpSchema, asks, by_id, cursor, limit};
use crate::{
    body,
    limits::{CAST_MAX, COMMENTS_BYTES_MAX, DURATION_MS_MAX, NAME_BYTES_MAX},
    schema::build::{about, at_most, component, id, name, needed, optional, text, whole},
};

pub(super) fn venue_put() -> OpSchema {
    asks::<body::VenuePut>(
        "Create or change a venue.",
        [
            needed("id", id()),
            needed("name", name(NAME_BYTES_MAX)),
            optional("city", text(NAME_BYTES_MAX)),
            optional("position", component("Position")),
            optional("comments", text(COMMENTS_BYTES_MAX)),
        ],
    )
    .example(
        json!({"id": "globe", "name": "The Globe", "city": "London", "position": {"lon": -0.0972, "lat": 51.5081}}),
    )
}

pub(super) fn venue_get() -> OpSchema {
    by_id("Read a venue.").example(json!({"id": "globe"})).answers(component("Venue"))
}

pub(super) fn venue_search() -> OpSchema {
    asks::<body::VenueSearch>(
        "Venues by city and name; nearest first, if it is said to what.",
        [
            optional("city", name(NAME_BYTES_MAX)),
            optional("name", about(name(NAME_BYTES_MAX), "A part of it.")),
            optional("near", component("Position")),
            optional("limit", limit()),
            optional("cursor", cursor()),
        ],
    )
    .example(json!({"city": "London", "name": "glo"}))
    .example(json!({"near": {"lon": -0.1, "lat": 51.5}, "limit": 1}))
    .answers(component("VenuePage"))
}

pub(super) fn hall_put() -> OpSchema {
    asks::<body::HallPut>(
        "Create or change a hall.",
        [
            needed("venue", id()),
            needed("id", id()),
            needed("name", name(NAME_BYTES_MAX)),
            optional("comments", text(COMMENTS_BYTES_MAX)),
            needed("layout", component("WrittenLayout")),
        ],
    )
    .example(json!({"venue": "globe", "id": "main", "name": "Main", "layout": {"rows": 5, "seats": 16}}))
    .example(json!({"venue": "globe", "id": "studio", "name": "Studio", "comments": "a curved screen", "layout": {"rows": [
        {"label": "A", "section": "stalls", "count": 8, "gaps": [4]},
        {"label": "B", "category": "box", "seats": [{"label": "left", "accessible": true}, null, {"label": "right"}]},
    ]}}))
}

pub(super) fn hall_get() -> OpSchema {
    asks::<body::HallGet>("Read a hall.", [needed("venue", id()), needed("id", id())])
        .example(json!({"venue": "globe", "id": "studio"}))
        .answers(component("Hall"))
}

pub(super) fn title_put() -> OpSchema {
    asks::<body::TitlePut>(
        "Create or change a title.",
        [
            needed("id", id()),
            needed("name", name(NAME_BYTES_MAX)),
            optional("director", text(NAME_BYTES_MAX)),
            optional("cast", at_most(name(NAME_BYTES_MAX), CAST_MAX)),
            optional("comments", text(COMMENTS_BYTES_MAX)),
            optional("duration_ms", whole(1, DURATION_MS_MAX as i64)),
        ],
    )
    .example(json!({"id": "hamlet", "name": "Hamlet", "cast": ["Sarah Bernhardt"], "duration_ms": 9_000_000}))
    .example(json!({"id": "macbeth", "name": "Macbeth", "director": "Orson Welles", "comments": "in black and white"}))
}

pub(super) fn title_get() -> OpSchema {
    by_id("Read a title.").example(json!({"id": "hamlet"})).answers(component("Title"))
}

pub(super) fn title_search() -> OpSchema {
    asks::<body::TitleSearch>(
        "Titles by name.",
        [
            optional("name", about(name(NAME_BYTES_MAX), "A part of it.")),
            optional("limit", limit()),
            optional("cursor", cursor()),
        ],
    )
    .example(json!({"name": "ham"}))
    .example(json!({"limit": 1}))
    .answers(component("TitlePage"))
}

//! The ops on the calendar of a resource.

use serde::de::DeserializeOwned;
use serde_json::json;

use super::{OpSchema, asks, cursor, limit};
use crate::{
    body,
    limits::{DETAILS_BYTES_MAX, INTERVAL_MS_MAX, PAGE_ENTRIES, PAGE_ENTRIES_MAX, SERIES_INTERVAL_MAX, SERIES_MAX},
    schema::build::{
        Field, about, component, flag, id, milliseconds_up_to, needed, object, one_of, one_set, optional, text, time,
        whole,
    },
};

/// An op about a time: two instants, or two times on the wall where the resource is.
fn about_a_time<T: DeserializeOwned>(summary: &'static str, fields: impl IntoIterator<Item = Field>) -> OpSchema {
    let wall = || about(component("WallTime"), "On the wall where the resource is.");
    let time = [
        optional("begin", time()),
        optional("end", about(time(), "Exclusive.")),
        optional("local_begin", wall()),
        optional("local_end", wall()),
    ];
    asks::<T>(summary, [needed("resource", id())].into_iter().chain(time).chain(fields))
        .with_one_of(&[&["begin", "end"], &["local_begin", "local_end"]])
}

pub(super) fn reserve() -> OpSchema {
    let weekdays = json!({"type": "array", "items": whole(1, 7), "maxItems": 7, "uniqueItems": true});
    let repeat = object::<body::RepeatBody>([
        needed("every", one_of(&["day", "week", "month"])),
        optional("interval", about(whole(1, i64::from(SERIES_INTERVAL_MAX)), "Every how many of them; 1 if absent.")),
        optional("weekdays", about(weekdays, "With `week` only: 1 is Monday, 7 Sunday.")),
        optional("count", whole(1, i64::from(SERIES_MAX))),
        optional("until", component("Day")),
    ]);
    let repeat = one_set(repeat, &[&["count"], &["until"]]);
    about_a_time::<body::ResourceReserve>(
        "Book time of a resource without a cart, once or again and again; all of it or nothing.",
        [
            needed("booking", id()),
            optional("repeat", about(repeat, "When again: a number of times, the first one included, or up to a day.")),
            optional("details", text(DETAILS_BYTES_MAX)),
        ],
    )
    .example(json!({
        "resource": "room-5", "booking": "talk", "begin": "2099-04-13T08:00:00Z", "end": "2099-04-13T09:00:00Z",
    }))
    .example(json!({
        "resource": "room-5", "booking": "choir",
        "local_begin": "2099-04-13T13:00", "local_end": "2099-04-13T14:30",
        "repeat": {"every": "week", "interval": 2, "weekdays": [1, 3], "count": 10}, "details": "with a piano",
    }))
    .answers(component("Booked"))
}

pub(super) fn cancel() -> OpSchema {
    asks::<body::ResourceCancel>(
        "End a booking, or all bookings of a series.",
        [
            needed("resource", id()),
            needed("booking", id()),
            optional("series", about(flag(), "Whether `booking` is the name of a series: all of it ends.")),
        ],
    )
    .example(json!({"resource": "room-5", "booking": "choir", "series": true}))
}

pub(super) fn change() -> OpSchema {
    about_a_time::<body::ResourceMove>("Put a booking to another time.", [needed("booking", id())])
        .example(json!({
            "resource": "room-5", "booking": "talk", "begin": "2099-04-14T09:00:00Z", "end": "2099-04-14T10:00:00Z",
        }))
        .answers(component("Booked"))
}

pub(super) fn is_available() -> OpSchema {
    about_a_time::<body::ResourceIsAvailable>("Whether a time is free, and what is in the way.", [])
        .example(json!({"resource": "room-5", "begin": "2099-04-13T08:00:00Z", "end": "2099-04-13T09:00:00Z"}))
        .example(json!({"resource": "room-5", "local_begin": "2099-04-14T10:30", "local_end": "2099-04-14T11:30"}))
        .answers(component("Available"))
}

pub(super) fn bookings() -> OpSchema {
    asks::<body::ResourceBookings>(
        "The bookings of a time, those in carts and those that were bought as well.",
        [
            needed("resource", id()),
            needed("from", about(time(), "Bookings that end after.")),
            needed("to", about(time(), "Bookings that begin before.")),
            optional("limit", limit()),
            optional("cursor", cursor()),
        ],
    )
    .example(json!({
        "resource": "room-5", "from": "2099-04-13T00:00:00Z", "to": "2099-04-20T00:00:00Z", "limit": 1,
    }))
    .answers(component("BookingPage"))
}

pub(super) fn free_slots() -> OpSchema {
    let count = about(whole(1, i64::from(PAGE_ENTRIES_MAX)), &format!("How many; {PAGE_ENTRIES} if absent."));
    asks::<body::ResourceFreeSlots>(
        "The first free slots of a length.",
        [
            needed("resource", id()),
            needed("from", about(time(), "No slot begins before.")),
            needed("to", about(time(), "No slot ends after.")),
            needed("length_ms", milliseconds_up_to(INTERVAL_MS_MAX)),
            optional("count", count),
        ],
    )
    .example(json!({
        "resource": "room-5", "from": "2099-04-13T00:00:00Z", "to": "2099-04-20T00:00:00Z",
        "length_ms": 3_600_000, "count": 3,
    }))
    .answers(component("FreeSlots"))
}

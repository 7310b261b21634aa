//! Layouts: as they may be written, and as they are answered.

use boxoffice_core::layout::{LABEL_BYTES_MAX, LAYOUT_SEATS_MAX, Layout, POINT_MAX};
use serde_json::json;

use super::Group;
use crate::{
    form::Of,
    layout::{RowBody, RunBody, SeatBody},
    schema::build::{
        about, component, count, either, flag, id, list, map, name, needed, object, optional, pair, some, whole, words,
    },
};

pub(super) fn layouts() -> Group {
    let point = || pair(whole(-i64::from(POINT_MAX), i64::from(POINT_MAX)));
    let number = || whole(i64::from(i32::MIN), i64::from(i32::MAX));
    let label = || name(LABEL_BYTES_MAX);
    let written_run = object::<RunBody>([
        optional("gap", whole(0, 65_535)),
        needed("count", whole(1, 65_535)),
        optional("first", number()),
        optional("step", number()),
        optional("names", list(label())),
        optional("category", id()),
        optional("accessible", flag()),
        optional("points", list(point())),
    ]);
    let written_seat = object::<SeatBody>([
        needed("label", label()),
        optional("category", id()),
        optional("accessible", flag()),
        optional("x", number()),
        optional("y", number()),
    ]);
    let written_row = object::<RowBody>([
        needed("label", label()),
        optional("section", id()),
        optional("category", id()),
        optional("count", whole(1, 65_535)),
        optional("first", number()),
        optional("step", number()),
        optional("gaps", list(whole(1, 65_535))),
        optional("seats", list(either(&[component("WrittenSeat"), json!({"type": "null"})]))),
        optional("runs", list(component("WrittenRun"))),
    ]);
    let written = object::<Of<Layout>>([
        needed("rows", either(&[whole(1, 65_535), some(component("WrittenRow"), 65_535)])),
        optional("seats", whole(1, 65_535)),
        optional("category", id()),
        optional("focal", point()),
    ]);
    let run = map([
        needed("gap", count()),
        needed("count", count()),
        optional("first", number()),
        optional("step", number()),
        optional("names", list(words())),
        needed("category", id()),
        needed("accessible", flag()),
        optional("points", list(point())),
    ]);
    let row = map([needed("label", words()), optional("section", id()), needed("runs", list(component("Run")))]);
    let layout = map([optional("focal", point()), needed("rows", list(component("Row")))]);
    let forms = format!(
        "A grid (`rows` and `seats` as numbers) or rows, each with one of `count`, `seats` and `runs`; at most \
         {LAYOUT_SEATS_MAX} seats."
    );
    vec![
        ("WrittenRun", written_run),
        ("WrittenSeat", written_seat),
        ("WrittenRow", about(written_row, "A row with one of `count`, `seats` and `runs`.")),
        ("WrittenLayout", about(written, &forms)),
        ("Run", about(run, "Neighbours alike.")),
        ("Row", row),
        ("Layout", about(layout, "The seats of a hall, in full.")),
    ]
}

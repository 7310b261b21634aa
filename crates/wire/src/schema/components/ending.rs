//! How requests end besides ok, and the answers that are no view of anything.

use serde_json::json;

use super::Group;
use crate::{
    FailKind,
    limits::{BATCH_ITEMS_MAX, REQUEST_ID_BYTES_MAX},
    reply::{CountsWatching, No, SessionFeed, Watching},
    schema::build::{
        about, component, count, either, id, list, map, name, needed, object, one_of, optional, some, words,
    },
};

pub(super) fn endings() -> Group {
    let minor_units = || json!({"type": "integer"});
    let lines = list(component("No"));
    let no = object::<No>([
        needed("code", about(count(), "For life.")),
        needed("name", about(words(), "For life.")),
        needed("message", about(words(), "For people.")),
        optional("seats", list(component("Seat"))),
        optional("states", list(component("SeatState"))),
        optional("count", count()),
        optional("free", count()),
        optional("area", id()),
        optional("quota", id()),
        optional("max", count()),
        optional("serving", count()),
        optional("taken", count()),
        optional("entity", component("Entity")),
        optional("shortages", list(component("Shortage"))),
        optional("product", id()),
        optional("conflicts", list(component("Conflict"))),
        optional("booking", id()),
        optional("asked", minor_units()),
        optional("got", minor_units()),
        optional("expected", component("Figure")),
        optional("actual", component("Figure")),
        optional("currency", component("Currency")),
        optional("session", id()),
        optional("line", about(count(), "Of the cart; in `lines`, of the request, from 0.")),
        optional("limit", count()),
        optional("retry_after_ms", about(count(), "Of 109: when it is worth asking again.")),
        optional("node", about(count(), "Of the cluster.")),
        optional("shards", about(list(count()), "By number; 0 is the directory's.")),
        optional("version", about(count(), "Of the cluster's table.")),
        optional("lines", about(lines, "Each line of the request that was refused; this no is then the first's.")),
    ]);
    let codes: Vec<u16> = FailKind::ALL.into_iter().map(FailKind::code).collect();
    let names: Vec<&str> = FailKind::ALL.into_iter().map(FailKind::name).collect();
    let fail = map([
        needed("code", json!({"type": "integer", "enum": codes})),
        needed("name", one_of(&names)),
        needed("message", words()),
        optional("retry_after_ms", count()),
    ]);
    let item = map([
        needed("op", words()),
        optional("rid", name(REQUEST_ID_BYTES_MAX)),
        optional("body", component("Fields")),
    ]);
    let granted = map([needed("ok", component("Fields")), optional("at", list(component("At")))]);
    let ended = either(&["Granted", "Refused", "Failed"].map(component));
    vec![
        ("Done", about(json!({"type": "object"}), "Done.")),
        ("Watching", object::<Watching>([needed("feed", count())])),
        (
            "CountsWatching",
            object::<CountsWatching>([
                needed("feeds", list(object::<SessionFeed>([needed("session", id()), needed("feed", count())]))),
                needed("missing", about(list(id()), "Those that there are not.")),
                optional(
                    "unreachable",
                    about(list(id()), "Those that no node that answers has: ask again in a moment."),
                ),
            ]),
        ),
        ("No", about(no, "A refusal: nothing changed. With 601 and 603 it says how a payment ended.")),
        ("Fail", about(fail, "A failure, which is no refusal.")),
        ("Refused", map([needed("no", component("No"))])),
        ("Failed", map([needed("fail", component("Fail"))])),
        ("Fields", about(json!({"type": "object"}), "The body of some op.")),
        ("BatchItem", item),
        ("BatchAnswer", map([needed("items", some(component("BatchEnded"), BATCH_ITEMS_MAX))])),
        ("Granted", granted),
        ("BatchEnded", about(ended, "How one item of a batch ended.")),
    ]
}

//! The ops about keys.

use boxoffice_core::access::{KEY_VENUES_MAX, Role};
use serde_json::json;

use super::{OpSchema, asks};
use crate::{
    body,
    schema::build::{about, at_most, component, id, needed, optional, some, whole},
};

pub(super) fn list() -> OpSchema {
    asks::<body::Empty>("Every key: its name and what it may do.", []).example(json!({})).answers(component("Keys"))
}

pub(super) fn create() -> OpSchema {
    let hash = json!({"type": "string", "pattern": "^[0-9a-f]{64}$"});
    asks::<body::KeyCreate>(
        "Make a key. Its owner shows `bok.ID.SECRET`; the cluster is told only the hash of the secret.",
        [
            needed("id", about(id(), "Its name, in the record of what is done with it.")),
            needed("hash", about(hash, "SHA-256 of the secret.")),
            needed("roles", some(component("Role"), Role::ALL.len())),
            optional("venues", about(at_most(id(), KEY_VENUES_MAX), "Those it is limited to; all if absent.")),
            optional("requests_per_second", about(whole(1, u32::MAX.into()), "On one node.")),
            optional(
                "held_max",
                about(whole(0, u32::MAX.into()), "What its carts hold at the same time, on one node."),
            ),
        ],
    )
    .example(json!({
        "id": "till-3",
        "hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "roles": ["desk"],
        "venues": ["globe"],
    }))
}

pub(super) fn revoke() -> OpSchema {
    asks::<body::Get>("Revoke a key: every node refuses it within a second.", [needed("id", id())])
        .example(json!({"id": "till-3"}))
}

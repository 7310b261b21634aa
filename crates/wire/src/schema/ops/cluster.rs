//! The ops about the cluster: its members come, are drained, removed and replaced.

use serde_json::json;

use super::{OpSchema, asks};
use crate::{
    body,
    schema::build::{about, component, flag, needed, optional},
};

/// What the examples need: with one node there is nobody else to move anything to.
const SEVERAL: &str = "a cluster of several nodes";

pub(super) fn nodes() -> OpSchema {
    asks::<body::Empty>("The members of the cluster, and where each shard should be.", [])
        .example(json!({}))
        .answers(component("Cluster"))
        .needing(SEVERAL)
}

pub(super) fn shards() -> OpSchema {
    asks::<body::Empty>("Who leads which shard, and where clients reach each node.", [])
        .example(json!({}))
        .answers(component("ShardMap"))
}

pub(super) fn join() -> OpSchema {
    let disk = json!({"type": "string", "pattern": "^[0-9a-fA-F]{32}$"});
    let proof = json!({"type": "string", "pattern": "^[0-9a-f]{64}$"});
    asks::<body::AdminJoin>(
        "Become a member of the cluster; asked again by the same disk, it is the same member.",
        [
            optional("node", about(component("Node"), "Which; the next free one if absent.")),
            needed("disk", about(disk, "The random name of its data directory.")),
            needed("peer", about(component("Address"), "Where other members reach it.")),
            needed("client", about(component("Address"), "Where clients reach it.")),
            needed("program", about(component("Address"), "The version of the program it runs.")),
            optional("proof", about(proof, "What shows that it knows the secret of the cluster's nodes.")),
        ],
    )
    .example(json!({
        "disk": "00112233445566778899aabbccddeeff",
        "peer": "10.0.0.2:7280",
        "client": "10.0.0.2:7180",
        "program": "0.1.0",
    }))
    .answers(component("Cluster"))
    .needing(SEVERAL)
}

pub(super) fn drain() -> OpSchema {
    leaving("Move everything away from a member; it goes when it has nothing left.")
}

pub(super) fn undrain() -> OpSchema {
    of_node("Let a member that is drained keep what it has, and get more.")
}

pub(super) fn remove() -> OpSchema {
    leaving("Say that a member will not come back. Its shards are copied anew; its id is never given again.")
}

pub(super) fn replace() -> OpSchema {
    of_node("Say that a member has lost its disk; a machine with another one joins in its place, under its id.")
}

fn leaving(summary: &'static str) -> OpSchema {
    let force = about(flag(), "Even if each shard is left with a single voter.");
    asks::<body::AdminLeave>(summary, [needed("node", component("Node")), optional("force", force)])
        .example(json!({"node": 2}))
        .example(json!({"node": 2, "force": true}))
        .needing(SEVERAL)
}

fn of_node(summary: &'static str) -> OpSchema {
    asks::<body::AdminNode>(summary, [needed("node", component("Node"))]).example(json!({"node": 2})).needing(SEVERAL)
}

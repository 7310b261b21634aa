//! The cluster: members, and where shards should be.

use boxoffice_core::{
    access::Role,
    cluster::{ADDRESS_BYTES_MAX, NODE_MAX, REPLICAS_MAX},
};
use serde_json::json;

use super::Group;
use crate::{
    access::{KeyList, KeyStatus},
    cluster::{ClusterStatus, CopiesStatus, MemberStatus, NodeAddress, PlaceStatus, ShardMap},
    schema::build::{about, component, count, flag, id, list, needed, object, one_of, optional, time, whole, words},
};

pub(super) fn cluster() -> Group {
    let address = json!({"type": "string", "pattern": format!("^[!-~]{{1,{ADDRESS_BYTES_MAX}}}$")});
    let node = whole(1, i64::try_from(NODE_MAX).expect("ids of members are small"));
    let member = object::<MemberStatus>([
        needed("node", component("Node")),
        needed("state", one_of(&["joining", "serving", "draining", "gone"])),
        optional("awaits_disk", about(flag(), "Whether another disk is awaited in the place of one that was lost.")),
        needed("peer", component("Address")),
        needed("client", component("Address")),
        needed("program", words()),
        needed("since", about(time(), "When its state last changed.")),
        needed("first_generation", about(count(), "Its replicas of lower generations were on a disk that was lost.")),
    ]);
    let replica = json!({"type": "string", "pattern": "^[0-9]+\\.[0-9]+$"});
    let copies = object::<CopiesStatus>(["voters", "learners"].map(|kind| needed(kind, list(component("Replica")))));
    let place = object::<PlaceStatus>([
        needed("shard", about(count(), "0 is the directory's.")),
        needed("voters", list(component("Replica"))),
        needed("learners", list(component("Replica"))),
        needed("leader", about(component("Replica"), "Which should lead.")),
        optional("from", about(component("Copies"), "Where it comes from, while it is on its way.")),
    ]);
    let cluster = object::<ClusterStatus>([
        needed("version", about(count(), "How many changes the cluster has had.")),
        optional("node", about(component("Node"), "Of `admin.join`: the member the asker is.")),
        needed("replicas", about(whole(1, REPLICAS_MAX.into()), "How many copies each data shard is to have.")),
        needed("members", about(list(component("Member")), "Every one there ever was, by id.")),
        needed("places", about(list(component("Place")), "Every shard, by number.")),
    ]);
    let node_address = object::<NodeAddress>([
        needed("node", component("Node")),
        needed("client", about(component("Address"), "Its URL.")),
    ]);
    let leader = whole(0, i64::try_from(NODE_MAX).expect("ids of members are small"));
    let shards = object::<ShardMap>([
        needed(
            "leaders",
            about(list(leader), "The node that leads each shard, by the shard's number; 0 where none is known."),
        ),
        needed("nodes", about(list(component("NodeAddress")), "The members that clients can reach by themselves.")),
    ]);
    let key = object::<KeyStatus>([
        needed("id", id()),
        needed("roles", list(component("Role"))),
        optional("venues", about(list(id()), "Those it is limited to; all if absent.")),
        optional("requests_per_second", count()),
        optional("held_max", count()),
        needed("created_at", time()),
    ]);
    vec![
        ("Key", about(key, "What opens the nodes to its owner.")),
        ("Role", one_of(&Role::ALL.map(Role::name))),
        ("Keys", object::<KeyList>([needed("keys", about(list(component("Key")), "By name."))])),
        ("Node", about(node, "A member of the cluster.")),
        ("Address", about(address, "Host and port, or another name without spaces.")),
        ("Replica", about(replica, "A copy of a shard: the node it is on, and its generation.")),
        ("Member", member),
        ("Copies", about(copies, "The replicas of a shard.")),
        ("Place", about(place, "Where a shard should be.")),
        ("Cluster", cluster),
        ("NodeAddress", about(node_address, "Where clients reach a node.")),
        ("ShardMap", shards),
    ]
}

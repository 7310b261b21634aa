//! Keys in a cluster: created at one node and valid at all, revoked at one and invalid at all.

use std::{net::SocketAddr, time::Duration};

use boxoffice_wire::access::ShownKey;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    THREE,
    cluster::{Cluster, LinkFault::Cut},
    common::{Encoding, Port, Rng, eventually, http},
};

/// The shard of the directory, which keeps the keys.
const DIRECTORY: u64 = 0;

/// The promised second, and a second more for a busy machine.
const REVOKED_WITHIN: Duration = Duration::from_secs(2);

/// Sends a change that needs the role `desk`. Returns 0 or the code of the refusal or failure.
async fn desk_work(address: SocketAddr, key: &str, rid: &str) -> u64 {
    let (_, answer) =
        http::post_as(Some(key), address, "title.put", Some(rid), &json!({"id": rid, "name": "Ours"})).await;
    ["no", "fail"].iter().find_map(|kind| answer[*kind]["code"].as_u64()).unwrap_or(0)
}

/// Creates a key for a desk. Returns the key.
async fn make_key(cluster: &Cluster, rng: &mut Rng, name: &str) -> String {
    let secret = format!("{}{}", rng.token(), rng.token())[..43].to_owned();
    let shown = ShownKey { name, secret: &secret };
    let hash: String = shown.hash().iter().map(|byte| format!("{byte:02x}")).collect();
    cluster.admin("admin.key_create", json!({"id": name, "roles": ["desk"], "hash": hash})).await;
    shown.written()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_revoked_at_every_node() {
    let mut rng = Rng::of_test("a_key_is_revoked_at_every_node");
    let cluster = Cluster::start(THREE).await;
    let key = make_key(&cluster, &mut rng, "till").await;
    let mut sockets = Vec::new();
    for id in cluster.running() {
        assert_eq!(desk_work(cluster.client(id), &key, &format!("good-{id}")).await, 0, "node {id}");
        let socket = Port::show(cluster.client(id), Encoding::Json, Some(&key)).await.expect("it is good");
        sockets.push((id, socket));
    }

    cluster.admin("admin.key_revoke", json!({"id": "till"})).await;
    let revoked = Instant::now();
    let mut last = Duration::ZERO;
    for (id, socket) in &sockets {
        let refused = async || (desk_work(cluster.client(*id), &key, &format!("bad-{id}")).await == 107).then_some(());
        eventually("the key is refused", refused).await;
        // The connection does nothing.
        assert_eq!(socket.closed().await, 4001, "node {id} closes connections of the key");
        last = revoked.elapsed();
    }
    println!("refused at all nodes after {last:?}");
    assert!(last < REVOKED_WITHIN, "refused at all nodes after {last:?}");
}

/// At the nodes whose copy of the directory is a moment older as well. They ask the directory's leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_just_made_works_at_every_node() {
    let mut rng = Rng::of_test("a_key_just_made_works_at_every_node");
    let cluster = Cluster::start(THREE).await;
    eventually("the directory has a leader", async || cluster.leaders().await.get(&DIRECTORY).copied()).await;
    let mut hellos = Vec::new();
    for number in 0..20 {
        for id in cluster.running() {
            hellos.push((number, id, Port::guest(cluster.client(id), Encoding::Json).await));
        }
    }
    for number in 0..20 {
        let key = make_key(&cluster, &mut rng, &format!("till-{number}")).await;
        let uses = cluster.running().into_iter().map(|id| {
            let (address, key, rid) = (cluster.client(id), key.clone(), format!("t-{number}-{id}"));
            let hello = hellos.iter().find(|(of, at, _)| (*of, *at) == (number, id)).map(|(_, _, port)| port);
            async move {
                let hello = hello.expect("every node has one").frame(json!({"op": "hello", "body": {"token": key}}));
                let (by_http, by_upgrade, by_hello) = tokio::join!(
                    desk_work(address, &key, &rid),
                    Port::show(address, Encoding::Json, Some(&key)),
                    hello
                );
                assert_eq!(by_http, 0, "key {number} by HTTP at node {id}");
                by_upgrade.unwrap_or_else(|why| panic!("key {number} in an upgrade at node {id}: {why}"));
                by_hello.ok();
            }
        });
        join_all(uses).await;
    }
    // Their connections live on when the copies have caught up, and end with the key.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(hellos.iter().all(|(_, _, port)| !port.is_closed()), "a good key's connection was closed");
    cluster.admin("admin.key_revoke", json!({"id": "till-0"})).await;
    for (number, id, port) in hellos.iter().filter(|(number, ..)| *number == 0) {
        assert_eq!(port.closed().await, 4001, "key {number} at node {id}");
    }
}

/// A node that cannot hear of revocations soon accepts no keys, and still serves callers without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_isolated_node_stops_accepting_keys() {
    let mut rng = Rng::of_test("an_isolated_node_stops_accepting_keys");
    let cluster = Cluster::start(THREE).await;
    let key = make_key(&cluster, &mut rng, "till").await;
    let leader =
        eventually("the directory has a leader", async || cluster.leaders().await.get(&DIRECTORY).copied()).await;
    let cut = cluster.running().into_iter().find(|id| *id != leader).expect("there are three");
    eventually("the key is accepted", async || (desk_work(cluster.client(cut), &key, "good").await == 0).then_some(()))
        .await;

    cluster.links.around(cut, Cut);
    revoke_at(&cluster, leader).await;
    let silent = Instant::now();
    let mut rid = 0;
    let code = loop {
        rid += 1;
        // Before it notices, it cannot decide anything either, because no leader is reachable.
        match desk_work(cluster.client(cut), &key, &format!("late-{rid}")).await {
            0 => panic!("a revoked key changed something after {:?}", silent.elapsed()),
            903 if silent.elapsed() > Duration::from_secs(6) => break 903,
            107 => panic!("the node cannot know of the revocation"),
            _ => sleep(Duration::from_millis(200)).await,
        }
    };
    assert_eq!(code, 903);
    let (status, hello) = http::get(cluster.client(cut), "/healthz").await;
    assert_eq!(status, 200, "{hello}");
    cluster.links.heal();
    eventually("the node learns of the revocation", async || {
        (desk_work(cluster.client(cut), &key, "healed").await == 107).then_some(())
    })
    .await;
}

/// Revokes the key at this node.
async fn revoke_at(cluster: &Cluster, at: u64) {
    let revoke = async || {
        let (_, answer): (u16, Value) =
            http::post(cluster.client(at), "admin.key_revoke", Some("revoke"), &json!({"id": "till"})).await;
        answer.get("ok").is_some().then_some(())
    };
    eventually("the key is revoked", revoke).await;
}

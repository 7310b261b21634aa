//! Members join and leave, and foreign nodes are refused.

use serde_json::{Value, json};

use crate::{
    REFUSED, THREE,
    cluster::{Cluster, Plan, SECRET, Stage},
    common::{Answer, Home, Refused, Rng, Server, TIMEOUT, http},
};

/// Waits until a member of the cluster table is in this state.
async fn member_is(cluster: &Cluster, node: u64, state: &str) {
    cluster
        .until(&format!("node {node} is {state}"), async || {
            let table = cluster.table().await.ok_or("no node returns the table")?;
            let members = table["members"].as_array().ok_or("no members")?;
            let found = members.iter().find(|member| member["node"] == node).ok_or(format!("{members:?}"))?;
            if found["state"] == state { Ok(()) } else { Err(table.to_string()) }
        })
        .await;
}

/// Waits until the page of each of these nodes lists exactly these nodes.
async fn pages_list(cluster: &Cluster, nodes: &[u64]) {
    let endpoints = |node: &u64| json!({"node": node.to_string(), "url": format!("http://{}", cluster.client(*node))});
    let expected: Vec<Value> = nodes.iter().map(endpoints).collect();
    for node in nodes {
        cluster
            .until(&format!("the page of node {node} knows nodes {nodes:?}"), async || {
                let (_, body) = http::get(cluster.client(*node), "/page.json").await;
                let page: Value = serde_json::from_str(&body).map_err(|why| format!("{why}: {body}"))?;
                if page["nodes"] == json!(expected) && page["node"] == json!(node.to_string()) {
                    Ok(())
                } else {
                    Err(body)
                }
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_join_and_leave() {
    let plan = Plan { nodes: 3, places: 5, faults: false, clocks: false, gateway: false };
    let mut stage = Stage::new(Rng::of_test("members_join_and_leave"), plan).await;
    stage
        .story("a fourth node joins", async |cluster, buyers, _| {
            cluster.start_node(4).await;
            cluster.ready().await;
            let table = cluster.table().await.expect("a table");
            let used = table["places"].as_array().expect("places").iter().skip(1);
            let voters = used.flat_map(|place| place["voters"].as_array().expect("voters"));
            let on_it = voters.filter(|replica| replica.as_str().is_some_and(|replica| replica.starts_with("4.")));
            assert!(on_it.count() > 0, "the new node got no shard: {table}");
            pages_list(cluster, &[1, 2, 3, 4]).await;
            buyers.orders(10).await;
        })
        .await;
    stage
        .story("the founder is drained", async |cluster, buyers, _| {
            cluster.admin("admin.drain", json!({"node": 1})).await;
            // The node ends by itself once everything has moved.
            let (code, output) = cluster.ended(1);
            println!("node 1 ended with {code:?}: {output}");
            assert_eq!(code, Some(0), "a drained node ends with 0: {output}");
            member_is(cluster, 1, "gone").await;
            pages_list(cluster, &[2, 3, 4]).await;
            buyers.orders(10).await;
        })
        .await;
    stage
        .story("a dead node is removed", async |cluster, buyers, _| {
            cluster.kill(2);
            cluster.start_node(5).await;
            cluster.admin("admin.remove", json!({"node": 2})).await;
            cluster.ready().await;
            buyers.orders(10).await;
            // It cannot rejoin.
            let refused = cluster.refused(cluster.command(2)).await;
            assert_eq!(refused.code, Some(REFUSED), "{}", refused.stderr);
            assert!(refused.stderr.contains("node 2 was removed from cluster"), "{}", refused.stderr);
        })
        .await;
    stage
        .story("fewer than three nodes only by force", async |cluster, buyers, _| {
            let drain = |force: bool| json!({"node": 5, "force": force});
            let refused = cluster.failover_client(1).ask_within("admin.drain", "too few", drain(false), TIMEOUT).await;
            let Answer::No(no) = refused else { panic!("three serve, and two would be left: {refused:?}") };
            assert_eq!((no.code, no.name.as_str()), (811, "too_few_left"));
            buyers.orders(1).await;
        })
        .await;
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_nodes_are_refused() {
    let mut stage = Stage::new(Rng::of_test("foreign_nodes_are_refused"), THREE).await;
    stage
        .story("two nodes with one id", async |cluster, _, _| {
            let home = Home::new();
            let foreign = cluster.foreign_command(&home, 2, &SECRET, Some(cluster.client(1)));
            let refused = cluster.refused(foreign).await;
            names(&refused, "node 2");
        })
        .await;
    stage
        .story("a node of another cluster", async |cluster, _, _| {
            let home = Home::new();
            let founder = cluster.foreign_command(&home, 4, &SECRET, None);
            Server::spawn(founder).unwrap_or_else(|refused| panic!("it serves alone: {refused:?}")).stop();
            let foreign = cluster.foreign_command(&home, 4, &SECRET, Some(cluster.client(1)));
            let refused = cluster.refused(foreign).await;
            names(&refused, "cluster");
        })
        .await;
    let members = stage.cluster.members().await;
    assert_eq!(members.len(), 3, "a foreign node became a member: {members:?}");
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_without_the_secret_are_refused() {
    let mut stage = Stage::new(Rng::of_test("nodes_without_the_secret_are_refused"), THREE).await;
    stage
        .story("a node without the secret", async |cluster, _, _| {
            let home = Home::new();
            let foreign = cluster.foreign_command(&home, 4, "not-what-these-nodes-know", Some(cluster.client(1)));
            let refused = cluster.refused(foreign).await;
            names(&refused, "wrong_secret");
            names(&refused, "peers.secret");
        })
        .await;
    let members = stage.cluster.members().await;
    assert_eq!(members.len(), 3, "a foreign node became a member: {members:?}");
    stage
        .story("a member without the secret", async |cluster, buyers, _| {
            cluster.terminate(3);
            let changed = cluster.foreign_command(cluster.home(3), 3, "not-what-these-nodes-know", None);
            buyers.orders(1).await;
            let refused = cluster.refused(changed).await;
            names(&refused, "every other member refuses it");
            names(&refused, "does not know the secret of the node that it dials");
            cluster.start_node(3).await;
        })
        .await;
    stage.check_everything().await;
}

fn names(refused: &Refused, word: &str) {
    println!("refused: {}", refused.stderr.trim());
    assert_eq!(refused.code, Some(REFUSED), "{}", refused.stderr);
    assert!(refused.stderr.contains(word), "{word:?} is not named: {}", refused.stderr);
}

//! Members come and go, and strangers are kept out.

use serde_json::{Value, json};

use crate::{
    REFUSED, THREE,
    cluster::{Cluster, Plan, SECRET, Stage},
    common::{Answer, Dice, Home, PATIENCE, Refused, Server, http},
};

/// Waits until a member of the cluster's table is in this state.
async fn member_is(cluster: &Cluster, node: u64, state: &str) {
    cluster
        .until(&format!("node {node} is {state}"), async || {
            let table = cluster.table().await.ok_or("no node tells the table")?;
            let members = table["members"].as_array().ok_or("no members")?;
            let found = members.iter().find(|member| member["node"] == node).ok_or(format!("{members:?}"))?;
            if found["state"] == state { Ok(()) } else { Err(table.to_string()) }
        })
        .await;
}

/// Waits until the page of each of these nodes knows all of them, and no other.
async fn pages_know(cluster: &Cluster, nodes: &[u64]) {
    let doors = |node: &u64| json!({"node": node.to_string(), "url": format!("http://{}", cluster.client(*node))});
    let expected: Vec<Value> = nodes.iter().map(doors).collect();
    for node in nodes {
        cluster
            .until(&format!("the page of node {node} knows nodes {nodes:?}"), async || {
                let (_, told) = http::get(cluster.client(*node), "/page.json").await;
                let page: Value = serde_json::from_str(&told).map_err(|why| format!("{why}: {told}"))?;
                if page["nodes"] == json!(expected) && page["node"] == json!(node.to_string()) {
                    Ok(())
                } else {
                    Err(told)
                }
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go() {
    let plan = Plan { nodes: 3, places: 5, faults: false, clocks: false, gateway: false };
    let mut stage = Stage::new(Dice::of_test("members_come_and_go"), plan).await;
    stage
        .story("a fourth node comes", async |cluster, buyers, _| {
            cluster.start_node(4).await;
            cluster.ready().await;
            let table = cluster.table().await.expect("a table");
            let used = table["places"].as_array().expect("places").iter().skip(1);
            let voters = used.flat_map(|place| place["voters"].as_array().expect("voters"));
            let on_it = voters.filter(|replica| replica.as_str().is_some_and(|replica| replica.starts_with("4.")));
            assert!(on_it.count() > 0, "nothing was given to the new node: {table}");
            pages_know(cluster, &[1, 2, 3, 4]).await;
            buyers.orders(10).await;
        })
        .await;
    stage
        .story("the founder is drained", async |cluster, buyers, _| {
            cluster.admin("admin.drain", json!({"node": 1})).await;
            // It goes by itself when everything is elsewhere.
            let (code, said) = cluster.ended(1);
            println!("node 1 ended with {code:?}: {said}");
            assert_eq!(code, Some(0), "that is how it was to end: {said}");
            member_is(cluster, 1, "gone").await;
            pages_know(cluster, &[2, 3, 4]).await;
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
            // It does not come back.
            let refused = cluster.refused(cluster.command(2)).await;
            assert_eq!(refused.code, Some(REFUSED), "{}", refused.stderr);
            assert!(refused.stderr.contains("node 2 was removed from cluster"), "{}", refused.stderr);
        })
        .await;
    stage
        .story("fewer than three only by force", async |cluster, buyers, _| {
            let drain = |force: bool| json!({"node": 5, "force": force});
            let refused = cluster.anywhere(1).ask_within("admin.drain", "too few", drain(false), PATIENCE).await;
            let Answer::No(no) = refused else { panic!("three serve, and two would be left: {refused:?}") };
            assert_eq!((no.code, no.name.as_str()), (811, "too_few_left"));
            buyers.orders(1).await;
        })
        .await;
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_kept_out() {
    let mut stage = Stage::new(Dice::of_test("strangers_are_kept_out"), THREE).await;
    stage
        .story("two nodes with one id", async |cluster, _, _| {
            let home = Home::new();
            let stranger = cluster.stranger(&home, 2, SECRET, Some(cluster.client(1)));
            let refused = cluster.refused(stranger).await;
            names(&refused, "node 2");
        })
        .await;
    stage
        .story("a node of another cluster", async |cluster, _, _| {
            let home = Home::new();
            let founder = cluster.stranger(&home, 4, SECRET, None);
            Server::spawn(founder).unwrap_or_else(|refused| panic!("it serves alone: {refused:?}")).stop();
            let stranger = cluster.stranger(&home, 4, SECRET, Some(cluster.client(1)));
            let refused = cluster.refused(stranger).await;
            names(&refused, "cluster");
        })
        .await;
    let members = stage.cluster.members().await;
    assert_eq!(members.len(), 3, "a stranger became a member: {members:?}");
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_know_the_secret_is_kept_out() {
    let mut stage = Stage::new(Dice::of_test("who_does_not_know_the_secret_is_kept_out"), THREE).await;
    stage
        .story("a node without the secret", async |cluster, _, _| {
            let home = Home::new();
            let stranger = cluster.stranger(&home, 4, "not-what-these-nodes-know", Some(cluster.client(1)));
            let refused = cluster.refused(stranger).await;
            names(&refused, "wrong_secret");
            names(&refused, "peers.secret");
        })
        .await;
    let members = stage.cluster.members().await;
    assert_eq!(members.len(), 3, "a stranger became a member: {members:?}");
    stage
        .story("a member that has forgotten the secret", async |cluster, buyers, _| {
            cluster.terminate(3);
            let forgetful = cluster.stranger(cluster.home(3), 3, "not-what-these-nodes-know", None);
            buyers.orders(1).await;
            let refused = cluster.refused(forgetful).await;
            names(&refused, "every other member refuses it");
            names(&refused, "does not know the secret that node");
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

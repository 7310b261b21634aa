//! What happens to the disks: power cuts, unfinished ends, no space, nothing left.

use std::fs;

use serde_json::json;

use crate::{
    NODE, REFUSED,
    cluster::{Plan, Stage},
    common::{Dice, Faults, eventually},
};

#[ignore = "a node whose disk is full does not come back by itself in a cluster"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_fail() {
    let plan = Plan { nodes: 3, places: 3, faults: true, clocks: false };
    let mut stage = Stage::new(Dice::of_test("disks_fail"), plan).await;
    stage
        .story("the power of one node is cut", async |cluster, buyers, _| {
            let leader = cluster.a_leader().await;
            cluster.kill(leader);
            buyers.orders(20).await;
            cluster.start_node(leader).await;
        })
        .await;
    stage
        .story("the power of all nodes is cut", async |cluster, _, _| {
            let nodes = cluster.running();
            nodes.iter().for_each(|id| cluster.kill(*id));
            cluster.start_nodes(&nodes).await;
        })
        .await;
    stage
        .story("the power goes within a record", async |cluster, buyers, dice| {
            for bytes in [0, 40, 64 + dice.below(128) as u32] {
                let leader = cluster.a_leader().await;
                cluster.fault(leader, Faults::Torn(bytes));
                let (code, said) = cluster.ended(leader);
                assert_eq!(code, None, "the power goes, and with it the process: {said}");
                cluster.fault(leader, Faults::None);
                buyers.orders(5).await;
                cluster.start_node(leader).await;
                cluster.ready().await;
            }
        })
        .await;
    stage
        .story("a disk is full", async |cluster, buyers, _| {
            let leader = cluster.a_leader().await;
            cluster.fault(leader, Faults::NoSpace);
            eventually("a node with a full disk is read-only and leads nothing", async || {
                let status = cluster.read(leader, "admin.status", json!({})).await?;
                let leads = status["shards"].as_array()?.iter().any(|shard| shard["role"] == "leader");
                (status["state"] == "read_only" && !leads).then_some(())
            })
            .await;
            // The others go on.
            buyers.orders(20).await;
            cluster.fault(leader, Faults::None);
        })
        .await;
    stage
        .story("a disk does not sync", async |cluster, buyers, _| {
            let leader = cluster.a_leader().await;
            cluster.fault(leader, Faults::SyncFails);
            let (code, said) = cluster.ended(leader);
            assert_eq!(code, Some(NODE), "{said}");
            assert!(said.contains("cannot sync"), "the reason is not named: {said}");
            cluster.fault(leader, Faults::None);
            buyers.orders(10).await;
            cluster.start_node(leader).await;
        })
        .await;
    stage
        .story("a data directory is lost", async |cluster, buyers, _| {
            let lost = cluster.a_leader().await;
            cluster.kill(lost);
            fs::remove_dir_all(cluster.home(lost).data_dir()).expect("a data directory");
            fs::create_dir_all(cluster.home(lost).data_dir()).expect("an empty directory");
            cluster.joins(lost);
            // An empty disk under an old name could vote for what it has forgotten.
            let refused = cluster.refused(cluster.command(lost)).await;
            assert_eq!(refused.code, Some(REFUSED), "{}", refused.stderr);
            assert!(refused.stderr.contains(&format!("node {lost}")), "{}", refused.stderr);
            buyers.orders(10).await;
            // What little it wrote is not wanted either.
            fs::remove_dir_all(cluster.home(lost).data_dir()).expect("a data directory");
            fs::create_dir_all(cluster.home(lost).data_dir()).expect("an empty directory");
            cluster.admin("admin.replace", json!({"node": lost})).await;
            cluster.start_node(lost).await;
        })
        .await;
    stage.check_everything().await;
}

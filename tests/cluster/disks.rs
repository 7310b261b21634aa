//! What happens to the disks: power cuts, unfinished ends, no space, nothing left.

use std::fs;

use serde_json::json;

use crate::{
    NODE, REFUSED,
    cluster::{Cluster, Plan, Stage, lasts},
    common::{Answer, Dice, Faults, flip, written_to},
};

const PLAN: Plan = Plan { nodes: 3, places: 3, faults: true, clocks: false, gateway: false };

/// How much longer a slow disk takes to sync, in milliseconds.
const SLOW_MS: u32 = 1_000;

/// The head of a segment of the log, in bytes.
const HEAD: usize = 4_096;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_fail() {
    let mut stage = Stage::new(Dice::of_test("disks_fail"), PLAN).await;
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
        .story("a disk is full", async |cluster, buyers, dice| {
            let leader = cluster.a_leader().await;
            cluster.fault(leader, Faults::NoSpace);
            cluster
                .until("a node with a full disk is read-only and leads nothing", async || {
                    let status = cluster.read(leader, "admin.status", json!({})).await.ok_or("it does not answer")?;
                    let shards = status["shards"].as_array().ok_or("no shards")?;
                    let leads = shards.iter().filter(|shard| shard["role"] == "leader").count();
                    let is_read_only = status["state"].as_str().is_some_and(|state| state.starts_with("read-only"));
                    match is_read_only && leads == 0 {
                        true => Ok(()),
                        false => Err(format!("it is {} and leads {leads}", status["state"])),
                    }
                })
                .await;
            // The others go on, and it passes on what comes to it; reads are reads.
            buyers.orders(20).await;
            let (port, token) = (cluster.port(leader).await, dice.token());
            let opened = port.ask("cart.open", "at-the-full-one", json!({"token": token})).await;
            assert!(matches!(opened, Answer::Ok(..)), "{opened:?}");
            port.read("cart.get", json!({"token": token})).await.ok();
            // Until there is no room for what the others decide either: it does not end of that.
            cluster
                .until("it leaves what the others decide", async || {
                    let said = cluster.said(leader);
                    if said.contains("no room for what other nodes lead") {
                        Ok(())
                    } else {
                        Err("it has room".to_owned())
                    }
                })
                .await;
            buyers.orders(20).await;
            // It comes back by itself: the story goes on when it is ready.
            cluster.fault(leader, Faults::None);
        })
        .await;
    stage
        .story("a disk is slow", async |cluster, buyers, _| {
            let leader = cluster.a_leader().await;
            cluster.fault(leader, Faults::SlowSync(SLOW_MS));
            lasts(buyers).await;
            cluster.fault(leader, Faults::None);
        })
        .await;
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_are_lost() {
    let mut stage = Stage::new(Dice::of_test("disks_are_lost"), PLAN).await;
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
            replace(cluster, lost).await;
        })
        .await;
    stage
        .story("a record is damaged", async |cluster, buyers, dice| {
            let damaged = cluster.a_leader().await;
            cluster.kill(damaged);
            let segments = cluster.home(damaged).segments();
            let segment = segments.into_iter().find(|segment| written_to(segment) > 4 * HEAD).expect("a used segment");
            let end = written_to(&segment);
            // In the first half: the last record may have been torn.
            flip(&segment, HEAD + dice.below((end - HEAD) / 2), dice);
            let refused = cluster.refused(cluster.command(damaged)).await;
            assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
            assert!(refused.stderr.contains(segment.to_str().expect("a path")), "no file is named: {}", refused.stderr);
            buyers.orders(10).await;
            replace(cluster, damaged).await;
        })
        .await;
    stage.check_everything().await;
}

/// The node comes back under its id with an empty disk, as an operator has it.
async fn replace(cluster: &mut Cluster, node: u64) {
    fs::remove_dir_all(cluster.home(node).data_dir()).expect("a data directory");
    fs::create_dir_all(cluster.home(node).data_dir()).expect("an empty directory");
    cluster.joins(node);
    cluster.admin("admin.replace", json!({"node": node})).await;
    cluster.start_node(node).await;
}

//! Disk faults: power cuts, torn records, no space, lost disks.

use std::fs;

use serde_json::json;

use crate::{
    NODE, REFUSED,
    cluster::{Cluster, Plan, Stage, sustain_fault},
    common::{Answer, Faults, Rng, flip, written_to},
    repair::{kill_with_used_logs, used_segment},
};

const PLAN: Plan = Plan { nodes: 3, places: 3, faults: true, clocks: false, gateway: false };

/// How much longer a slow disk takes to sync, in milliseconds.
const SLOW_MS: u32 = 1_000;

/// The header of a log segment, in bytes.
const HEAD: usize = 4_096;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_fail() {
    let mut stage = Stage::new(Rng::of_test("disks_fail"), PLAN).await;
    stage
        .story("one node loses power", async |cluster, buyers, _| {
            let leader = cluster.a_leader().await;
            cluster.kill(leader);
            buyers.orders(20).await;
            cluster.start_node(leader).await;
        })
        .await;
    stage
        .story("all nodes lose power", async |cluster, _, _| {
            let nodes = cluster.running();
            nodes.iter().for_each(|id| cluster.kill(*id));
            cluster.start_nodes(&nodes).await;
        })
        .await;
    stage
        .story("the power fails within a record", async |cluster, buyers, rng| {
            for bytes in [0, 40, 64 + rng.below(128) as u32] {
                let leader = cluster.a_leader().await;
                cluster.fault(leader, Faults::Torn(bytes));
                let (code, output) = cluster.ended(leader);
                assert_eq!(code, None, "a power cut has no exit code: {output}");
                cluster.fault(leader, Faults::None);
                buyers.orders(5).await;
                cluster.start_node(leader).await;
                cluster.ready().await;
            }
        })
        .await;
    stage
        .story("a disk is full", async |cluster, buyers, rng| {
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
            // The other nodes take over. The full node forwards requests, and reads work.
            buyers.orders(20).await;
            let (port, token) = (cluster.port(leader).await, rng.token());
            let opened = port.ask("cart.open", "at-the-full-one", json!({"token": token})).await;
            assert!(matches!(opened, Answer::Ok(..)), "{opened:?}");
            port.read("cart.get", json!({"token": token})).await.ok();
            // Once it has no room for entries of other leaders either, it must not end.
            cluster
                .until("it skips entries of other leaders", async || {
                    let output = cluster.stderr(leader);
                    if output.contains("no room for what other nodes lead") {
                        Ok(())
                    } else {
                        Err("the node has room".to_owned())
                    }
                })
                .await;
            buyers.orders(20).await;
            // It recovers by itself, so the story continues once it is ready.
            cluster.fault(leader, Faults::None);
        })
        .await;
    stage
        .story("a disk is slow", async |cluster, buyers, _| {
            let leader = cluster.a_leader().await;
            cluster.fault(leader, Faults::SlowSync(SLOW_MS));
            cluster
                .until("a node with a slow disk leads nothing", async || match leads(cluster, leader).await? {
                    (true, 0) => Ok(()),
                    (is_slow, leads) => Err(format!("slow: {is_slow}, leads {leads}")),
                })
                .await;
            sustain_fault(buyers).await;
            assert_eq!(leads(cluster, leader).await, Ok((true, 0)), "leaderships went back to a slow disk");
            cluster.fault(leader, Faults::None);
            cluster
                .until("a node whose disk is quick again leads", async || match leads(cluster, leader).await? {
                    (false, leads) if leads > 0 => Ok(()),
                    (is_slow, leads) => Err(format!("slow: {is_slow}, leads {leads}")),
                })
                .await;
        })
        .await;
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_are_lost() {
    let mut stage = Stage::new(Rng::of_test("disks_are_lost"), PLAN).await;
    stage
        .story("a disk does not sync", async |cluster, buyers, _| {
            let leader = cluster.a_leader().await;
            cluster.fault(leader, Faults::SyncFails);
            let (code, output) = cluster.ended(leader);
            assert_eq!(code, Some(NODE), "{output}");
            assert!(output.contains("cannot sync"), "the reason is not named: {output}");
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
            cluster.start_as_joining(lost);
            // A node with an empty disk under its old id could vote against entries that it has lost.
            let refused = cluster.refused(cluster.command(lost)).await;
            assert_eq!(refused.code, Some(REFUSED), "{}", refused.stderr);
            assert!(refused.stderr.contains(&format!("node {lost}")), "{}", refused.stderr);
            buyers.orders(10).await;
            // The little that it wrote is not accepted either.
            replace(cluster, lost).await;
        })
        .await;
    stage
        .story("a record is damaged", async |cluster, buyers, rng| {
            let damaged = cluster.a_leader().await;
            kill_with_used_logs(cluster, buyers, &[damaged]).await;
            let segment = used_segment(cluster, damaged).expect("a used segment");
            let end = written_to(&segment);
            // In the first half, because the last record may look like a torn write.
            flip(&segment, HEAD + rng.below((end - HEAD) / 2), rng);
            // It replaces its disk by itself.
            cluster.start_node(damaged).await;
            let output = cluster.stderr(damaged);
            assert!(output.contains(segment.to_str().expect("a path")), "no file is named: {output}");
            assert!(output.contains("has another disk"), "{output}");
            buyers.orders(10).await;
        })
        .await;
    stage.check_everything().await;
}

/// Whether a node says that its disk is slow, and how many shards it leads.
async fn leads(cluster: &Cluster, node: u64) -> Result<(bool, usize), String> {
    let status = cluster.read(node, "admin.status", json!({})).await.ok_or("it does not answer")?;
    let shards = status["shards"].as_array().ok_or("no shards")?;
    let leads = shards.iter().filter(|shard| shard["role"] == "leader").count();
    Ok((status["disk_is_slow"] == true, leads))
}

/// The node returns under its id with an empty disk, on an operator's order.
async fn replace(cluster: &mut Cluster, node: u64) {
    fs::remove_dir_all(cluster.home(node).data_dir()).expect("a data directory");
    fs::create_dir_all(cluster.home(node).data_dir()).expect("an empty directory");
    cluster.start_as_joining(node);
    cluster.admin("admin.replace", json!({"node": node})).await;
    cluster.start_node(node).await;
}

//! A disk restored from an old copy: the node has lost acknowledged entries. The cluster refuses it, and it replaces its disk.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    THREE,
    cluster::{Cluster, Stage},
    common::{Buyers, Rng},
};

/// A node that is paused for this long is behind when it resumes.
const LAGGING: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_copies_of_disks_are_detected() {
    let mut stage = Stage::new(Rng::of_test("old_copies_of_disks_are_detected"), THREE).await;
    stage
        .story("a disk is restored from an old copy", async |cluster, buyers, _| {
            let node = cluster.a_leader().await;
            take_copy(cluster, node, buyers).await;
            buyers.orders(20).await;
            cluster.kill(node);
            refused(cluster, node).await;
            buyers.orders(10).await;
        })
        .await;
    stage
        .story("all nodes are stopped, copied, and started on their copies", async |cluster, _, _| {
            let nodes = cluster.running();
            for node in &nodes {
                cluster.terminate(*node);
            }
            for node in &nodes {
                cluster.copy_disk(*node);
                cluster.put_copy_back(*node);
            }
            cluster.start_nodes(&nodes).await;
        })
        .await;
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `tests/run long` runs it"]
async fn old_copies_are_detected_while_the_others_are_behind_or_restart() {
    let mut stage =
        Stage::new(Rng::of_test("old_copies_are_detected_while_the_others_are_behind_or_restart"), THREE).await;
    stage
        .story("a disk is restored from an old copy while another node is behind", async |cluster, buyers, _| {
            let node = cluster.a_leader().await;
            let behind = cluster.running().into_iter().find(|id| *id != node).expect("three nodes");
            take_copy(cluster, node, buyers).await;
            cluster.ready().await;
            // With it the old copy forms a majority that lacks these orders.
            cluster.pause(behind);
            sleep(LAGGING).await;
            buyers.orders(20).await;
            cluster.kill(node);
            cluster.resume(behind);
            refused(cluster, node).await;
            buyers.orders(10).await;
        })
        .await;
    stage
        .story("the others were restarted in between", async |cluster, buyers, _| {
            let node = cluster.a_leader().await;
            take_copy(cluster, node, buyers).await;
            cluster.ready().await;
            buyers.orders(20).await;
            // The peers' recorded positions reach the disk from time to time.
            sleep(Duration::from_secs(12)).await;
            cluster.kill(node);
            for other in cluster.running() {
                cluster.terminate(other);
                cluster.start_node(other).await;
            }
            refused(cluster, node).await;
        })
        .await;
    stage.check_everything().await;
}

/// Stops the node, copies its disk and starts it again.
async fn take_copy(cluster: &mut Cluster, node: u64, buyers: &mut Buyers) {
    cluster.terminate(node);
    cluster.copy_disk(node);
    cluster.start_node(node).await;
    buyers.orders(5).await;
}

/// Replaces the disk with the copy. The node must not serve from it, and gets everything anew.
async fn refused(cluster: &mut Cluster, node: u64) {
    cluster.put_copy_back(node);
    cluster.start_node(node).await;
    let output = cluster.stderr(node);
    for words in ["an old copy of its disk", "has another disk"] {
        assert!(output.contains(words), "{words:?} is missing: {output}");
    }
}

//! A disk that was put back from an old copy: the node has forgotten what it acknowledged, and is not let in.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::{
    REFUSED, THREE,
    cluster::{Cluster, Stage},
    common::{Buyers, Dice},
};

/// A node that stands still for so long is behind when it goes on.
const LAGGING: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_copies_of_disks_are_recognised() {
    let mut stage = Stage::new(Dice::of_test("old_copies_of_disks_are_recognised"), THREE).await;
    stage
        .story("a disk is put back from an old copy", async |cluster, buyers, _| {
            let node = cluster.a_leader().await;
            take_copy(cluster, node, buyers).await;
            buyers.orders(20).await;
            cluster.kill(node);
            refused(cluster, node).await;
            buyers.orders(10).await;
            replace(cluster, node).await;
        })
        .await;
    stage
        .story("the same beside a node that is behind", async |cluster, buyers, _| {
            let node = cluster.a_leader().await;
            let behind = cluster.running().into_iter().find(|id| *id != node).expect("three nodes");
            take_copy(cluster, node, buyers).await;
            cluster.ready().await;
            // Together with it the old copy is a majority that knows nothing of these orders.
            cluster.pause(behind);
            sleep(LAGGING).await;
            buyers.orders(20).await;
            cluster.kill(node);
            cluster.resume(behind);
            refused(cluster, node).await;
            buyers.orders(10).await;
            replace(cluster, node).await;
        })
        .await;
    stage
        .story("the others were started again in between", async |cluster, buyers, _| {
            let node = cluster.a_leader().await;
            take_copy(cluster, node, buyers).await;
            cluster.ready().await;
            buyers.orders(20).await;
            // What they were told is written down now and then.
            sleep(Duration::from_secs(12)).await;
            cluster.kill(node);
            for other in cluster.running() {
                cluster.terminate(other);
                cluster.start_node(other).await;
            }
            refused(cluster, node).await;
            replace(cluster, node).await;
        })
        .await;
    stage.check_everything().await;
}

/// Copies a node's disk as it is when the node was told to stop, and starts the node again.
async fn take_copy(cluster: &mut Cluster, node: u64, buyers: &mut Buyers) {
    cluster.terminate(node);
    cluster.copy_disk(node);
    cluster.start_node(node).await;
    buyers.orders(5).await;
}

/// Puts the copy in the place of the disk; the node must not serve from it, and must say what to do.
async fn refused(cluster: &mut Cluster, node: u64) {
    cluster.put_copy_back(node);
    let refused = cluster.refused(cluster.command(node)).await;
    println!("refused: {}", refused.stderr.trim());
    assert_eq!(refused.code, Some(REFUSED), "{}", refused.stderr);
    for said in ["an old copy of its disk", &format!("admin replace {node}")] {
        assert!(refused.stderr.contains(said), "{said:?} is not said: {}", refused.stderr);
    }
}

/// The node comes back with an empty disk, as it was told to.
async fn replace(cluster: &mut Cluster, node: u64) {
    cluster.lose_disk(node);
    cluster.admin("admin.replace", json!({"node": node})).await;
    cluster.start_node(node).await;
}

//! Every node's door is full of clients that say nothing, and there are few file descriptors.

use crate::{
    THREE,
    cluster::{Cluster, Stage},
    common::{Crowd, Dice, eventually},
};

/// Descriptors of each node.
const DESCRIPTORS: u64 = 256;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crowds_fill_every_door() {
    let cluster = Cluster::start_limited(THREE, DESCRIPTORS).await;
    let mut stage = Stage::of(cluster, Dice::of_test("crowds_fill_every_door"));
    stage
        .story("every door is full", async |cluster, buyers, _| {
            let doors = cluster.running().into_iter().map(|id| cluster.client(id));
            let crowds: Vec<Crowd> = doors.map(|door| Crowd::gather(door, DESCRIPTORS as usize)).collect();
            eventually("the doors are full", async || {
                crowds.iter().all(|crowd| crowd.came() > DESCRIPTORS as usize).then_some(())
            })
            .await;
            buyers.orders(100).await;
            drop(crowds);
            for id in cluster.running() {
                let said = cluster.said(id);
                assert!(!said.contains("there is no file descriptor left"), "node {id} had none left: {said}");
            }
        })
        .await;
    stage.check_everything().await;
}

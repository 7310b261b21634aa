//! Idle clients fill every connection of every node, and there are few file descriptors.

use crate::{
    THREE,
    cluster::{Cluster, Stage},
    common::{IdleClients, Rng, eventually},
};

/// Descriptors of each node.
const DESCRIPTORS: u64 = 256;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_clients_fill_every_node() {
    let cluster = Cluster::start_limited(THREE, DESCRIPTORS).await;
    let mut stage = Stage::of(cluster, Rng::of_test("idle_clients_fill_every_node"));
    stage
        .story("every node is full", async |cluster, buyers, _| {
            let endpoints = cluster.running().into_iter().map(|id| cluster.client(id));
            let idle_clients: Vec<IdleClients> =
                endpoints.map(|address| IdleClients::connect(address, DESCRIPTORS as usize)).collect();
            eventually("the connections are full", async || {
                idle_clients.iter().all(|clients| clients.connections() > DESCRIPTORS as usize).then_some(())
            })
            .await;
            buyers.orders(100).await;
            drop(idle_clients);
            for id in cluster.running() {
                let output = cluster.stderr(id);
                assert!(!output.contains("there is no file descriptor left"), "node {id} had none left: {output}");
            }
        })
        .await;
    stage.check_everything().await;
}

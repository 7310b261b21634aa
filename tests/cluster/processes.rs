//! Nodes that are killed or stopped.

use crate::{THREE, cluster::Stage, common::Rng};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_killed_and_restarted() {
    let mut stage = Stage::new(Rng::of_test("nodes_are_killed_and_restarted"), THREE).await;
    stage
        .story("a leader is killed, three times", async |cluster, buyers, _| {
            for _ in 0..3 {
                let leader = cluster.a_leader().await;
                cluster.kill(leader);
                // The others take over without it.
                buyers.orders(10).await;
                cluster.start_node(leader).await;
                cluster.ready().await;
            }
        })
        .await;
    stage
        .story("a follower of the directory is killed", async |cluster, buyers, _| {
            let leader = cluster.leaders().await[&0];
            let follower = cluster.running().into_iter().find(|id| *id != leader).expect("a follower");
            cluster.kill(follower);
            buyers.orders(20).await;
            cluster.start_node(follower).await;
        })
        .await;
    stage
        .story("every node is killed at once", async |cluster, _, _| {
            let nodes = cluster.running();
            nodes.iter().for_each(|id| cluster.kill(*id));
            cluster.start_nodes(&nodes).await;
        })
        .await;
    stage
        .story("nodes are restarted one after the other", async |cluster, buyers, _| {
            for id in cluster.running() {
                cluster.terminate(id);
                buyers.orders(3).await;
                cluster.start_node(id).await;
                cluster.ready().await;
            }
        })
        .await;
    stage.check_everything().await;
}

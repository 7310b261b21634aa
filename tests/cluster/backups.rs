//! Backups of a cluster that sells while a leader dies and a node joins, and a new cluster from them.

use std::{path::Path, process::Command};

use serde_json::json;

use crate::{
    cluster::{Cluster, Plan, Stage},
    common::{ADMIN, BOXOFFICE, Encoding, Home, Rng},
};

/// Starts a backup by all nodes that can be reached. Returns its exit code and output when it has ended.
fn back_up(cluster: &Cluster, dir: &Path, nodes: u64) -> tokio::task::JoinHandle<(Option<i32>, String)> {
    let mut command = Command::new(BOXOFFICE);
    command.arg("backup").arg(dir).args(["--wait", "30s"]).env("BOXOFFICE_ADMIN_TOKEN", ADMIN);
    command.arg("--address").arg(cluster.client(1).to_string());
    (2..=nodes).for_each(|node| _ = command.arg("--member").arg(cluster.client(node).to_string()));
    tokio::task::spawn_blocking(move || {
        let output = command.output().expect("the program runs");
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), text.concat())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_backed_up_while_a_leader_dies_and_a_node_joins() {
    let plan = Plan { nodes: 3, places: 4, ..Plan::default() };
    let mut stage = Stage::new(Rng::of_test("a_cluster_is_backed_up_while_a_leader_dies_and_a_node_joins"), plan).await;
    let files = tempfile::tempdir().expect("a directory");
    let backup = files.path().join("backup");
    stage
        .story("backups while a leader dies and a node joins", async |cluster, buyers, _| {
            let (code, text) = back_up(cluster, &backup, 3).await.expect("it ends");
            assert!(code == Some(0) && text.contains("a full backup"), "{text}");
            let running = back_up(cluster, &backup, 3);
            let leader = cluster.a_leader().await;
            cluster.kill(leader);
            buyers.orders(20).await;
            let (code, text) = running.await.expect("it ends");
            assert_eq!(code, Some(0), "{text}");
            let running = back_up(cluster, &backup, 3);
            cluster.start_node(leader).await;
            cluster.start_node(4).await;
            buyers.orders(20).await;
            let (code, text) = running.await.expect("it ends");
            assert_eq!(code, Some(0), "{text}");
            cluster.ready().await;
            let (code, text) = back_up(cluster, &backup, 4).await.expect("it ends");
            assert_eq!(code, Some(0), "{text}");
        })
        .await;
    stage.check_everything().await;
    let (code, text) = back_up(&stage.cluster, &backup, 4).await.expect("it ends");
    assert_eq!(code, Some(0), "{text}");
    let status = stage.cluster.port(1).await.read("admin.status", json!({})).await.ok();
    let shards = status["shards"].as_array().expect("shards").len() - 1;
    let Stage { cluster, mut record, theatre, .. } = stage;
    cluster.stop();

    // As many shards as the cluster had, and another number.
    for shards in [shards, 5] {
        let restored = Home::with_config(&format!("[node]\nshards = {shards}\n"));
        let output = Command::new(BOXOFFICE)
            .arg("restore")
            .args([&backup, &restored.data_dir()])
            .args(["--shards", &shards.to_string()])
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        restored.is_whole();
        let server = restored.start();
        let port = server.port(Encoding::Json).await;
        record.check_carts(&port, 0).await;
        record.check_maps(&port, &theatre).await;
        record.check_repeats(&port).await;
        record.check_audit(&port).await;
        server.stop();
    }
}

//! Single bits of the store's tables that are wrong, at a node that runs alone and at one of three.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    THREE,
    cluster::{Cluster, Stage},
    common::{Answer, Buyers, Encoding, Home, Port, Record, Rng, Server, Theatre, eventually, flip, http},
};

/// Carts leave memory soon, and the store writes tables as small as it can.
const CONFIG: &str = "[node]\nshards = 4\n\n[snapshots]\nentries = 2_000\n\n[history]\nmemtable_bytes = 1_048_576\n";

/// Buyers at the node.
const BUYERS: usize = 64;

/// Tables of records have more.
const TABLE_BYTES_MIN: u64 = 64 << 10;

/// The answer to a read of something that cannot be read.
const INTERNAL: u64 = 906;

/// The tables of records, the largest first.
fn tables(home: &Home) -> Vec<PathBuf> {
    fn below(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => below(&path, found),
                path if path.parent().is_some_and(|parent| parent.ends_with("tables")) => found.push(path),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    below(&home.data_dir().join("history"), &mut found);
    let bytes = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    // The store has small tables of its own.
    found.retain(|path| bytes(path) > TABLE_BYTES_MIN);
    found.sort_by_key(|path| std::cmp::Reverse(bytes(path)));
    found
}

/// The orders that cannot be read. All others are right.
async fn unreadable(port: &Port, record: &Record) -> Vec<String> {
    let mut unreadable = Vec::new();
    for (order, total) in record.carts.iter().filter_map(|cart| cart.order.as_ref()) {
        match port.read("order.get", json!({"order": order})).await {
            Answer::Ok(found, _) => assert_eq!(found["total"]["amount"], *total, "{order}: {found}"),
            Answer::Fail(INTERNAL) => unreadable.push(order.clone()),
            other => panic!("{order}: {other:?}"),
        }
    }
    unreadable
}

/// One buyer who looks at an old order does not stop the house, and neither does a start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_wrong_bit_in_its_store_sells_on() {
    let mut rng = Rng::of_test("a_node_with_a_wrong_bit_in_its_store_sells_on");
    let home = Home::with_config(CONFIG);
    let mut server = home.start();
    let theatre = Theatre::open(&server.port(Encoding::MsgPack).await, 40, (40, 50), None).await;
    let mut record = Record::default();
    while tables(&home).is_empty() {
        let mut buyers = Buyers::start(&server, &theatre, record, BUYERS, &mut rng).await;
        buyers.orders(500).await;
        record = buyers.stop().await;
    }
    server.stop();
    let table = tables(&home).remove(0);
    let length = fs::metadata(&table).expect("a table").len() as usize;
    // Some blocks hold no order.
    let mut lost = Vec::new();
    while lost.is_empty() {
        // The first half has blocks of records. What describes them is at the end.
        flip(&table, rng.below(length / 2), &mut rng);
        server = home.start();
        lost = unreadable(&server.port(Encoding::MsgPack).await, &record).await;
        server.stop();
    }

    for _ in 0..2 {
        server = home.start();
        let port = server.port(Encoding::MsgPack).await;
        let again = unreadable(&port, &record).await;
        assert_eq!(again, lost);
        assert!(lost.len() < 200, "{} of {} orders", lost.len(), record.orders());
        // What is damaged is named everywhere, and the house sells on.
        let (status, body) = http::get(server.operators(), "/readyz").await;
        assert_eq!(status, 200, "{body}");
        assert!(body.contains("damaged"), "{body}");
        let audit = port.read("admin.audit", json!({})).await.ok();
        assert!(audit.to_string().contains("damaged"), "{audit}");
        assert!(server.stderr().contains("damaged"), "{}", server.stderr());
        let mut buyers = Buyers::start(&server, &theatre, Record::default(), BUYERS, &mut rng).await;
        buyers.orders(100).await;
        drop(buyers.stop().await);
        server.stop();
    }
}

/// Buyers at a node until something of its store is true.
async fn sell_until(server: &Server, theatre: &Theatre, rng: &mut Rng, is: impl Fn() -> bool) {
    let mut buyers = Buyers::start(server, theatre, Record::default(), BUYERS, rng).await;
    while !is() {
        buyers.orders(200).await;
    }
    drop(buyers.stop().await);
}

/// The store merges its tables, and one of them has a wrong bit. It leaves that table alone, names it, and merges the others. So does
/// the next process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_wrong_bit_in_a_table_that_is_merged_sells_on() {
    let mut rng = Rng::of_test("a_node_with_a_wrong_bit_in_a_table_that_is_merged_sells_on");
    let home = Home::with_config(CONFIG);
    let mut server = home.start();
    let theatre = Theatre::open(&server.port(Encoding::MsgPack).await, 60, (40, 50), None).await;
    sell_until(&server, &theatre, &mut rng, || !tables(&home).is_empty()).await;
    server.stop();
    let table = tables(&home).remove(0);
    let length = fs::metadata(&table).expect("a table").len() as usize;
    flip(&table, rng.below(length / 2), &mut rng);
    let name = table.strip_prefix(home.data_dir().join("history")).expect("in the store").display().to_string();

    server = home.start();
    let told = |server: &Server| server.stderr().contains("merged no more") && server.stderr().contains(&name);
    sell_until(&server, &theatre, &mut rng, || told(&server)).await;
    let (status, body) = http::get(server.operators(), "/readyz").await;
    assert!(status == 200 && body.contains("damaged"), "{status} {body}");
    let audit = server.port(Encoding::MsgPack).await.read("admin.audit", json!({})).await.ok();
    assert!(audit.to_string().contains(&name), "{audit}");
    server.stop();
    server = home.start();
    eventually("the next process names it", async || told(&server).then_some(())).await;
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), BUYERS, &mut rng).await;
    buyers.orders(200).await;
    drop(buyers.stop().await);
    server.stop();
}

/// Replaces a node's disk by an empty one.
async fn replace(cluster: &mut Cluster, node: u64) {
    fs::remove_dir_all(cluster.home(node).data_dir()).expect("a data directory");
    fs::create_dir_all(cluster.home(node).data_dir()).expect("an empty directory");
    cluster.start_as_joining(node);
    cluster.admin("admin.replace", json!({"node": node})).await;
    cluster.start_node(node).await;
    cluster.ready().await;
}

/// One of three nodes has a damaged block. Another one's disk is lost and replaced, for which the good node sends the history, and
/// then the damaged node replaces its own disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_damaged_block_does_not_hold_up_the_replacement_of_another() {
    let test = "a_node_with_a_damaged_block_does_not_hold_up_the_replacement_of_another";
    let mut stage = Stage::new(Rng::of_test(test), THREE).await;
    stage
        .story("a block is damaged, and another disk is lost", async |cluster, buyers, rng| {
            let damaged = cluster.a_leader().await;
            let other = 1 + damaged % 3;
            while tables(cluster.home(damaged)).is_empty() {
                buyers.orders(100).await;
            }
            // While another node is down, it may not replace its disk, and serves on.
            cluster.kill(other);
            cluster.kill(damaged);
            let table = tables(cluster.home(damaged)).remove(0);
            let length = fs::metadata(&table).expect("a table").len() as usize;
            flip(&table, rng.below(length / 2), rng);
            cluster.start_node(damaged).await;
            cluster
                .until("the damage is known", async || match cluster.stderr(damaged).contains("the store is damaged") {
                    true => Ok(()),
                    false => Err("it is not".to_owned()),
                })
                .await;
            replace(cluster, other).await;
            buyers.orders(20).await;
            let (before, after) = (cluster.stderr(other), cluster.running());
            assert!(after.len() == 3 && !before.contains("is damaged"), "{before}");
            cluster
                .until("the damaged node has another disk", async || {
                    let output = cluster.stderr(damaged);
                    match output.contains("has another disk") && output.contains("serves on and asks again") {
                        true => Ok(()),
                        false => Err(output),
                    }
                })
                .await;
        })
        .await;
    stage.check_everything().await;
}

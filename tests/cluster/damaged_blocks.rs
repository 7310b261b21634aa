//! Single bits of the store's tables that are wrong, at a node that runs alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::common::{Answer, Buyers, Encoding, Home, Port, Record, Rng, Theatre, flip, http};

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
    // The first half has blocks of records. What describes them is at the end.
    flip(&table, rng.below(length / 2), &mut rng);

    for _ in 0..2 {
        server = home.start();
        let port = server.port(Encoding::MsgPack).await;
        let lost = unreadable(&port, &record).await;
        assert!(!lost.is_empty() && lost.len() < 200, "{} of {} orders", lost.len(), record.orders());
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

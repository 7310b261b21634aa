//! Few file descriptors: clients that exhaust the connections take none from the log and the store, and end no node.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::common::{Buyers, Encoding, Home, IdleClients, Record, Rng, Server, Theatre, eventually};

/// Small segments and frequent snapshots open and close files all the time.
const SMALL: &str = "[node]\nshards = 4\n\n[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 60\n\n";

/// Exit code of a node with an invalid configuration.
const USAGE: i32 = 2;

/// Concurrent buyers. They are connected before the idle clients.
const BUYERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_clients_exhaust_no_file_descriptors() {
    let mut rng = Rng::of_test("idle_clients_exhaust_no_file_descriptors");
    for limit in [256, 1_024] {
        let home = Home::with_config(SMALL);
        let server = Server::spawn(home.limited(limit)).unwrap_or_else(|refused| panic!("{refused:?}"));
        let output = server.stderr();
        assert!(
            output.contains("file descriptors for fewer connections than usual"),
            "the node logs no warning: {output}"
        );
        let port = server.port(Encoding::MsgPack).await;
        let theatre = Theatre::open(&port, 40, (12, 20), None).await;
        let mut buyers = Buyers::start(&server, &theatre, Record::default(), BUYERS, &mut rng).await;
        buyers.orders(20).await;
        let clients = IdleClients::connect(server.address(), 2 * limit as usize);
        eventually("the connections are full", async || (clients.connections() > 2 * limit as usize).then_some(()))
            .await;
        // Long enough to create and remove segments, snapshots and archives.
        buyers.orders(300).await;
        drop(clients);
        let mut record = buyers.stop().await;
        eventually("the node accepts a new client", async || {
            let connected = crate::common::Port::try_connect(server.address(), Encoding::Json).await;
            connected.is_ok().then_some(())
        })
        .await;
        record.check(&server, &theatre).await;
        let output = server.stderr();
        assert!(
            !output.contains("there is no file descriptor left"),
            "clients took the node's own descriptors: {output}"
        );
        server.stop();
        let server = home.start();
        record.check(&server, &theatre).await;
    }
}

#[test]
fn the_limit_is_raised_and_excess_connections_are_refused() {
    let home = Home::with_config("[limits]\nconnections = 2000\n\n[log]\nsegment_bytes = 262_144\n");
    let Err(refused) = Server::spawn(home.limited(1_024)) else { panic!("2000 connections do not fit into 1024") };
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    for words in ["limits.connections = 2000", "1024 file descriptors", "ulimit -n", "set limits.connections to"] {
        assert!(refused.stderr.contains(words), "{words:?} is missing: {}", refused.stderr);
    }
    assert!(!home.data_dir().exists(), "a data directory was made");
    // Only the soft limit is low, and the node may raise it.
    let server = Server::spawn(home.limited_softly(256)).unwrap_or_else(|refused| panic!("{refused:?}"));
    assert_eq!(server.stderr(), "");
    server.stop();
    let home = Home::new();
    let Err(refused) = Server::spawn(home.limited(100)) else { panic!("100 descriptors are too few") };
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    assert!(refused.stderr.contains("100 file descriptors are not enough for a node"), "{}", refused.stderr);
}

/// Only the node's user can read the data directory, also if an operator created it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_reads_a_data_directory() {
    let mut rng = Rng::of_test("only_the_owner_reads_a_data_directory");
    let home = Home::with_config(SMALL);
    fs::create_dir(home.data_dir()).expect("a directory");
    fs::set_permissions(home.data_dir(), fs::Permissions::from_mode(0o755)).expect("a directory of our own");
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 20, (12, 20), None).await;
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), BUYERS, &mut rng).await;
    buyers.orders(60).await;
    buyers.stop().await;
    server.stop();
    let mut open = Vec::new();
    collect_open(&home.data_dir(), &mut open);
    assert!(open.is_empty(), "others may read {open:?}");
}

/// Lists everything at and below `place` that others may use.
fn collect_open(place: &Path, open: &mut Vec<(PathBuf, u32)>) {
    let status = fs::symlink_metadata(place).expect("it is there");
    let (mode, wanted) = (status.permissions().mode() & 0o777, if status.is_dir() { 0o700 } else { 0o600 });
    if mode != wanted {
        open.push((place.to_owned(), mode));
    }
    if status.is_dir() {
        fs::read_dir(place)
            .expect("a directory")
            .for_each(|entry| collect_open(&entry.expect("an entry").path(), open));
    }
}

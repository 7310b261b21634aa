//! Few file descriptors: clients that fill the door take none from the log and the store, and end no node.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::common::{Buyers, Crowd, Dice, Encoding, Home, Record, Server, Theatre, eventually};

/// Small segments, frequent snapshots: files are opened and closed all the time.
const SMALL: &str = "[node]\nshards = 4\n\n[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 60\n\n";

/// The number a node ends with whose configuration is wrong.
const USAGE: i32 = 2;

/// Buyers at once: they are in before the crowd comes.
const BUYERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_fills_the_door_ends_no_node() {
    let mut dice = Dice::of_test("a_crowd_that_fills_the_door_ends_no_node");
    for limit in [256, 1_024] {
        let home = Home::with_config(SMALL);
        let server = Server::spawn(home.limited(limit)).unwrap_or_else(|refused| panic!("{refused:?}"));
        let said = server.stderr();
        assert!(said.contains("file descriptors for fewer connections than usual"), "it says nothing: {said}");
        let port = server.port(Encoding::MsgPack).await;
        let theatre = Theatre::open(&port, 40, (12, 20), None).await;
        let mut buyers = Buyers::start(&server, &theatre, Record::default(), BUYERS, &mut dice).await;
        buyers.orders(20).await;
        let crowd = Crowd::gather(server.address(), 2 * limit as usize);
        eventually("the door is full", async || (crowd.came() > 2 * limit as usize).then_some(())).await;
        // Enough for segments, snapshots and archives to come and go.
        buyers.orders(300).await;
        drop(crowd);
        let mut record = buyers.stop().await;
        eventually("a new client is let in", async || {
            let connected = crate::common::Port::try_connect(server.address(), Encoding::Json).await;
            connected.is_ok().then_some(())
        })
        .await;
        record.check(&server, &theatre).await;
        let said = server.stderr();
        assert!(!said.contains("there is no file descriptor left"), "the node's own share was taken: {said}");
        server.stop();
        let server = home.start();
        record.check(&server, &theatre).await;
    }
}

#[test]
fn the_limit_is_raised_and_what_does_not_fit_is_refused() {
    let home = Home::with_config("[limits]\nconnections = 2000\n\n[log]\nsegment_bytes = 262_144\n");
    let Err(refused) = Server::spawn(home.limited(1_024)) else { panic!("2000 connections do not fit into 1024") };
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    for said in ["limits.connections = 2000", "1024 file descriptors", "ulimit -n", "set limits.connections to"] {
        assert!(refused.stderr.contains(said), "{said:?} is not said: {}", refused.stderr);
    }
    assert!(!home.data_dir().exists(), "a data directory was made");
    // Only the soft limit is low: that is the node's to raise.
    let server = Server::spawn(home.limited_softly(256)).unwrap_or_else(|refused| panic!("{refused:?}"));
    assert_eq!(server.stderr(), "");
    server.stop();
    let home = Home::new();
    let Err(refused) = Server::spawn(home.limited(100)) else { panic!("100 descriptors are too few") };
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    assert!(refused.stderr.contains("100 file descriptors are not enough for a node"), "{}", refused.stderr);
}

/// Only the node's user can read the data directory, also if an operator made the directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_reads_a_data_directory() {
    let mut dice = Dice::of_test("nobody_else_reads_a_data_directory");
    let home = Home::with_config(SMALL);
    fs::create_dir(home.data_dir()).expect("a directory");
    fs::set_permissions(home.data_dir(), fs::Permissions::from_mode(0o755)).expect("a directory of our own");
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 20, (12, 20), None).await;
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), BUYERS, &mut dice).await;
    buyers.orders(60).await;
    buyers.stop().await;
    server.stop();
    let mut open = Vec::new();
    look(&home.data_dir(), &mut open);
    assert!(open.is_empty(), "others may read {open:?}");
}

/// Everything at and below `place` that others may use.
fn look(place: &Path, open: &mut Vec<(PathBuf, u32)>) {
    let status = fs::symlink_metadata(place).expect("it is there");
    let (mode, wanted) = (status.permissions().mode() & 0o777, if status.is_dir() { 0o700 } else { 0o600 });
    if mode != wanted {
        open.push((place.to_owned(), mode));
    }
    if status.is_dir() {
        fs::read_dir(place).expect("a directory").for_each(|entry| look(&entry.expect("an entry").path(), open));
    }
}

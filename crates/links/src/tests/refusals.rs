//! Refused nodes, and the reasons they receive.

use std::sync::atomic::Ordering::Relaxed;

use boxoffice_env::{Lane, Net, secret::Secret};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    common::{CLUSTER, Node, SECRET, TABLE, config, link_all, open, until},
    raw::{DISMISSAL, HELLO, PROOF, REFUSAL, VERSION, WELCOME, raw},
};
use crate::{PeerConfig, PeersError};

/// A hello for one of the two connections of a link, of a node that speaks only this version.
fn hello(version: u16, kind_of_connection: u8) -> Vec<u8> {
    hello_from(version, version, kind_of_connection)
}

/// The same of a node that speaks versions from an older one on.
fn hello_from(oldest: u16, newest: u16, kind_of_connection: u8) -> Vec<u8> {
    let versions = [newest.to_le_bytes(), oldest.to_le_bytes()].concat();
    [b"boxoffic", &versions[..], &[7_u8; 32], &[kind_of_connection]].concat()
}

async fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 13];
    stream.read_exact(&mut head).await.expect("a frame");
    let mut body = vec![0; u32::from_le_bytes(head[..4].try_into().unwrap()) as usize];
    stream.read_exact(&mut body).await.expect("its body");
    (head[4], body)
}

/// Answers the hello of a dialer, for the connection that it dials. Returns the dialer's proof.
async fn proof_for(stream: &mut TcpStream) -> Vec<u8> {
    let (kind, dialed) = frame(stream).await;
    assert_eq!((kind, dialed.len()), (HELLO, 45));
    stream.write_all(&raw(0, HELLO, &hello(VERSION, dialed[44]))).await.unwrap();
    let (kind, proof) = frame(stream).await;
    assert_eq!(kind, PROOF);
    proof
}

/// The refusal of the other side after these first bytes.
async fn refused(to: &Node, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to.address()).await.expect("the node listens");
    stream.write_all(bytes).await.expect("it is read");
    let (kind, reason) = frame(&mut stream).await;
    assert_eq!(kind, REFUSAL);
    String::from_utf8(reason).expect("words")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_cluster() {
    let (one, two) = (Node::new(1), Node::of_cluster(0xc2, 2, config()));
    one.knows(&[(2, two.address())]);
    two.knows(&[(1, one.address())]);
    let words =
        "node 1 is of cluster 000000000000000000000000000000c1, node 2 of cluster 000000000000000000000000000000c2";
    one.reports(2, &format!("refused by the other side: {words}")).await;
    two.reports(1, &format!("a caller from 127.0.0.1: refused: {words}")).await;
    assert!(two.net.port_counts().refused > 0);
    assert_eq!(two.seen.offered.lock().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_secret() {
    let eager = || PeerConfig { dial_late_ms: 0, ..config() };
    let (one, two) = (Node::with(1, eager()), Node::with(2, PeerConfig { secrets: secrets(&["another"]), ..eager() }));
    one.knows(&[(2, two.address())]);
    two.knows(&[(1, one.address())]);
    let words = "refused by the other side: the node that dials does not know the secret of the node that it dials; give \
                 all nodes of a cluster the same (peers.secret)";
    one.reports(2, words).await;
    two.reports(1, words).await;
    until("the status says so", || one.link(2).refused.is_some()).await;
    let refused = one.link(2).refused.unwrap_or_default();
    assert!(refused.contains("peers.secret"), "{refused}");
    until("both count the refusals", || [&one, &two].iter().all(|node| node.net.port_counts().refused > 0)).await;
    assert!(one.seen.offered.lock().is_empty() && two.seen.offered.lock().is_empty());
    let short = open(PeerConfig { secrets: vec![Secret(SECRET.into()), Secret(SECRET[..15].into())], ..config() });
    assert!(matches!(short, Err(PeersError::ShortSecret)));
    for wrong in [vec![], secrets(&["one", "two", "three"])] {
        assert!(matches!(open(PeerConfig { secrets: wrong, ..config() }), Err(PeersError::Setting(_))));
    }
}

fn secrets(names: &[&str]) -> Vec<Secret> {
    names.iter().map(|name| Secret(format!("the secret of the cluster: {name}"))).collect()
}

/// A cluster changes its secret in two restarts of each node, in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_linked_if_they_share_a_secret() {
    let sets: [&[&str]; 4] = [&["old"], &["new", "old"], &["old", "new"], &["new"]];
    for dialer in sets {
        for acceptor in sets {
            let node = |id, names| Node::with(id, PeerConfig { secrets: secrets(names), ..config() });
            let (one, two) = (node(1, dialer), node(2, acceptor));
            two.knows(&[(1, one.address())]);
            one.knows(&[(2, two.address())]);
            if dialer.iter().any(|name| acceptor.contains(name)) {
                one.linked(2).await;
                two.linked(1).await;
                one.reaches(&two, Lane::Calls, b"a call").await;
                two.reaches(&one, Lane::Calls, b"an answer").await;
                assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![true], vec![true]));
            } else {
                one.reports(2, "does not know the secret of the node that it dials").await;
                assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![], vec![]), "{dialer:?} {acceptor:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acceptor_without_the_secret_is_refused() {
    let one = Node::new(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    one.knows(&[(2, listener.local_addr().unwrap())]);
    let forger = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let proof = proof_for(&mut stream).await;
            // The dialer's own proof does not prove the acceptor.
            stream.write_all(&raw(1, WELCOME, &proof[1..])).await.unwrap();
            // The dialer closes the connection, with or without a refusal.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    one.reports(2, "refused: node 2 does not know the secret that node 1 has").await;
    assert!(one.link_changes(2).is_empty());
    forger.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version() {
    let one = Node::new(1);
    one.knows(&[(2, one.address())]);
    for other in [VERSION + 1, VERSION - 1] {
        let words = format!(
            "it speaks versions {other} to {other} of the link's protocol, and this node {VERSION} to {VERSION}: the releases are \
             too far apart, so upgrade to one between them first"
        );
        assert_eq!(refused(&one, &raw(0, HELLO, &hello(other, 0))).await, words);
    }
    // A later program speaks this version as well, and its hello says more.
    let mut stream = TcpStream::connect(one.address()).await.expect("the node listens");
    let later = [&hello_from(VERSION, VERSION + 1, 0)[..], b"and more"].concat();
    stream.write_all(&raw(0, HELLO, &later)).await.expect("it is read");
    assert_eq!(frame(&mut stream).await.0, HELLO, "the node answers with its own hello");
    assert_eq!(refused(&one, &raw(0, HELLO, b"what?")).await, "this is no hello of a node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_with_one_number() {
    let (one, other) = (Node::new(1), Node::new(1));
    other.knows(&[(2, one.address())]);
    other.reports(2, "refused by the other side: two processes run as node 1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_other_nodes_are_refused() {
    let (one, three) = (Node::new(1), Node::new(3));
    one.knows(&[(2, one.address())]);
    one.reports(2, "the address of node 2 leads back to node 1 itself").await;
    one.knows(&[(2, three.address())]);
    one.reports(2, "the address of node 2 leads to node 3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlisted_node_is_refused() {
    let (one, two) = (Node::new(1), Node::new(2));
    one.knows(&[(2, two.address())]);
    one.reports(2, "node 1 is not in the table of the node it calls").await;
    two.knows(&[(1, one.address())]);
    one.linked(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_later_table_is_accepted() {
    let (one, two) = (Node::new(1), Node::new(2));
    two.seen.open.store(true, Relaxed);
    one.knows(&[(2, two.address())]);
    one.linked(2).await;
    assert!(two.seen.offered.lock().iter().all(|hello| (hello.node, hello.table) == (1, TABLE)));
    two.reaches(&one, Lane::Calls, b"who led?").await;
    // The table has arrived and does not list node 1.
    two.seen.open.store(false, Relaxed);
    two.knows(&[]);
    one.reports(2, "node 1 is not in the table of the node it calls").await;
    assert_eq!(two.net.links(), [], "it is in no table");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_node_is_refused() {
    let (one, two) = (Node::new(1), Node::new(2));
    two.seen.strict.store(true, Relaxed);
    one.knows(&[(2, two.address())]);
    two.knows(&[(1, one.address())]);
    one.reports(2, "refused by the other side: node 2 does not take node 1: disk d1 was removed").await;
    let offered = two.seen.offered.lock().first().cloned().expect("it was asked");
    assert_eq!((offered.cluster, offered.node, offered.disk, offered.version), (CLUSTER, 1, 0xd1, VERSION));
    assert_eq!(offered.program, concat!("boxoffice ", env!("CARGO_PKG_VERSION")));
    one.seen.strict.store(true, Relaxed);
    two.seen.strict.store(false, Relaxed);
    one.reports(2, "refused: node 1 does not take node 2: disk d2 was removed").await;
    two.reports(1, "refused by the other side: node 1 does not take node 2").await;
    assert!(two.link_changes(1).is_empty(), "a link is up only when both sides have accepted it");
    one.seen.strict.store(false, Relaxed);
    one.linked(2).await;
    two.linked(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_nodes_with_the_secret_can_report_a_removal() {
    let (one, two) = (Node::new(1), Node::new(2));
    two.seen.strict.store(true, Relaxed);
    two.seen.permanent.store(true, Relaxed);
    // A removed node learns so, although no table lists it.
    one.knows(&[(2, two.address())]);
    one.reports(2, "refused by the other side for good: disk d1 was removed").await;
    until("the node itself is notified", || one.seen.removals.lock().contains(&(2, "disk d1 was removed".into())))
        .await;
    assert_eq!(one.link(2).refused.as_deref(), Some("refused by the other side for good: disk d1 was removed"));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let three = Node::new(3);
    three.knows(&[(4, listener.local_addr().unwrap())]);
    let forger = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let proof = proof_for(&mut stream).await;
            stream.write_all(&raw(1, DISMISSAL, &[&proof[1..33], b"you were removed"].concat())).await.unwrap();
            // The dialer dials again after a close, with or without a refusal.
            let _ = stream.read(&mut [0; 64]).await;
        }
    });
    three.reports(4, "refused: node 4 does not know the secret that node 3 has").await;
    assert_eq!(*three.seen.removals.lock(), []);
    forger.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_callers_cost_little_and_are_counted() {
    let (one, two) = (Node::new(1), Node::with(2, PeerConfig { handshake_ms: 1_000, ..config() }));
    link_all(&[&one, &two]).await;
    let before = two.net.port_counts();
    let huge = [&u32::MAX.to_le_bytes()[..], &[HELLO; 9]].concat();
    let forged = raw(0, HELLO, &hello(VERSION, 0));
    let guessed = [&forged[..], &raw(1, PROOF, &[&[1], &[0; 150][..]].concat())].concat();
    let says: [&[u8]; 7] = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", &huge, &forged[..40], &forged, &guessed];
    let mut open = Vec::new();
    for bytes in says {
        for _ in 0..10 {
            let mut stream = TcpStream::connect(two.address()).await.expect("the node listens");
            stream.write_all(bytes).await.expect("it is read");
            open.push(stream);
        }
    }
    // The node closes each, and none becomes a link.
    let mut rest = Vec::new();
    for mut stream in open {
        let _ = stream.read_to_end(&mut rest).await;
    }
    until("all are counted", || {
        let now = two.net.port_counts();
        (now.aborted - before.aborted, now.refused - before.refused) == (60, 10)
    })
    .await;
    assert_eq!(two.net.port_counts().corrupt, 0);
    one.reaches(&two, Lane::Calls, b"as before").await;
    assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![true], vec![true]));
}

//! Links come up, are lost, and come back.

use std::{net::SocketAddr, sync::mpsc, thread, time::Duration};

use boxoffice_env::{Lane, Net, NotSent, PeerAddress};
use bytes::Bytes;
use tokio::{net::TcpStream, runtime, sync::oneshot, time::sleep};

use super::{
    common::{Node, config, link_all, open, until},
    encrypted::Authority,
    proxy::{Flow, Proxy},
};
use crate::PeerConfig;

/// An address without a listener.
fn nowhere() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_is_linked_again() {
    let (one, two) = (Node::new(1), Node::new(2));
    link_all(&[&one, &two]).await;
    let address = two.address();
    drop(two);
    one.lost(2).await;
    until("sends are refused", || one.net.send(2, Lane::Calls, Bytes::new()) == Err(NotSent::Unreachable(2))).await;
    let two = restarted(2, address).await;
    two.knows(&[(1, one.address())]);
    two.linked(1).await;
    one.linked(2).await;
    one.reaches(&two, Lane::Consensus, b"after").await;
    two.reaches(&one, Lane::Calls, b"back").await;
    assert_eq!(one.link_changes(2), [true, false, true]);
}

/// A node on an address that was just in use. The port closes shortly after its net was dropped.
async fn restarted(id: u64, listen: SocketAddr) -> Node {
    let mut net = None;
    until("the port is free", || {
        net = open(PeerConfig { listen, ..config() }).ok();
        net.is_some()
    })
    .await;
    Node::around(id, net.expect("it is open"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_larger_number_dials_when_it_is_not_dialed() {
    let one = Node::new(1);
    let two = Node::with(2, PeerConfig { dial_late_ms: 20, ..config() });
    one.knows(&[(2, nowhere())]);
    two.knows(&[(1, one.address())]);
    one.linked(2).await;
    two.linked(1).await;
    one.reaches(&two, Lane::Consensus, b"one way is enough").await;
    assert!(one.link(2).last_error.is_some_and(|error| error.contains("refused")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_dial_at_once_settle() {
    for _ in 0..20 {
        let eager = || PeerConfig { dial_late_ms: 0, ..config() };
        let (one, two) = (Node::with(1, eager()), Node::with(2, eager()));
        link_all(&[&one, &two]).await;
        one.reaches(&two, Lane::Consensus, b"ping").await;
        two.reaches(&one, Lane::Bulk, b"pong").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_does_not_wait_for_its_old_connections_to_be_given_up() {
    let with_long_timeouts = || PeerConfig { silence_ms: 3_600_000, ..config() };
    let (one, two) = (Node::with(1, with_long_timeouts()), Node::with(2, with_long_timeouts()));
    let proxy = Proxy::to(two.address()).await;
    one.knows(&[(2, proxy.address)]);
    two.knows(&[(1, nowhere())]);
    one.linked(2).await;
    // The old process ends unnoticed by this node.
    proxy.set(Flow::Swallowed, Flow::Swallowed);
    drop(two);
    assert!(one.link(2).up);
    let two = Node::with(2, PeerConfig { dial_late_ms: 20, ..with_long_timeouts() });
    two.knows(&[(1, one.address())]);
    two.linked(1).await;
    until("the old link was lost first", || one.link_changes(2) == [true, false, true]).await;
    one.reaches(&two, Lane::Consensus, b"new").await;
    one.reaches(&two, Lane::Calls, b"new").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_decides_which_nodes_are_linked() {
    let (one, two, three) = (Node::new(1), Node::new(2), Node::new(3));
    link_all(&[&one, &two, &three]).await;
    one.knows(&[(3, three.address())]);
    one.lost(2).await;
    two.lost(1).await;
    assert_eq!(one.net.send(2, Lane::Calls, Bytes::new()), Err(NotSent::Unreachable(2)));
    assert_eq!(one.net.links().iter().map(|link| link.node).collect::<Vec<_>>(), [3]);
    one.knows(&[(3, three.address()), (2, two.address())]);
    one.linked(2).await;
    two.linked(1).await;
    one.reaches(&two, Lane::Calls, b"again").await;
    // The next dial uses a new address. Existing connections stay.
    one.net.set_peers(&[
        PeerAddress { node: 2, address: "nowhere.invalid:1".into() },
        PeerAddress { node: 3, address: three.address().to_string() },
    ]);
    one.reaches(&two, Lane::Calls, b"still").await;
    assert_eq!((one.link_changes(3), three.link_changes(1)), (vec![true], vec![true]));
    assert_eq!(one.link_changes(2), [true, false, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_looked_up() {
    let (one, two) = (Node::new(1), Node::new(2));
    two.knows(&[(1, one.address())]);
    one.net.set_peers(&[PeerAddress { node: 2, address: "no port".into() }]);
    one.reports(2, "no port: the address cannot be looked up").await;
    one.net.set_peers(&[PeerAddress { node: 2, address: format!("localhost:{}", two.address().port()) }]);
    one.linked(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_is_reported_and_a_dropped_net_frees_its_port() {
    let one = Node::new(1);
    let listen = one.address();
    let taken = open(PeerConfig { listen, ..config() }).err().expect("it is taken").to_string();
    assert!(taken.contains(&format!("cannot listen for other nodes on {listen}")), "{taken}");
    let guest = TcpStream::connect(listen).await.expect("the node listens");
    drop(one);
    until("the port is free", || open(PeerConfig { listen, ..config() }).is_ok()).await;
    drop(guest);
}

/// The replication thread also carries consensus, and sometimes waits for the disk. The link must stay up meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_for_its_disk_stays_linked() {
    wait_for_the_disk(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_for_its_disk_stays_linked_by_encrypted_links() {
    wait_for_the_disk(Some(&Authority::new())).await;
}

async fn wait_for_the_disk(authority: Option<&Authority>) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    let (block, told_to_block) = oneshot::channel::<()>();
    let (go_on, blocked) = mpsc::channel::<()>();
    let (end, ended) = oneshot::channel::<()>();
    let replicating = thread::spawn(move || {
        runtime.block_on(async {
            told_to_block.await.expect("the thread is notified");
            blocked.recv().expect("the thread is released");
            ended.await.expect("the thread is notified");
        });
    });
    let quick = |name| {
        let tls = authority.map(|authority| authority.files(name));
        PeerConfig { heartbeat_ms: 50, silence_ms: 400, tls, ..config() }
    };
    let (one, two) = (Node::with(1, quick("node-1")), Node::replicating_on(&handle, 2, quick("node-2")));
    link_all(&[&one, &two]).await;
    one.reaches(&two, Lane::Consensus, b"before").await;

    block.send(()).expect("the process runs");
    // Longer than the silence that ends a link. Node two sends nothing else.
    for turn in 0..15_u8 {
        sleep(Duration::from_millis(100)).await;
        one.net.send(2, Lane::Consensus, Bytes::copy_from_slice(&[turn])).expect("the nodes are linked");
    }
    two.net.send(1, Lane::Consensus, Bytes::from_static(b"waiting")).expect("the nodes are linked");
    until("the frame of the waiting node arrives", || {
        one.received(2, Lane::Consensus).iter().any(|message| message[..] == *b"waiting")
    })
    .await;
    assert_eq!(two.received(1, Lane::Consensus).len(), 1, "the frame is not read meanwhile");
    go_on.send(()).expect("it waits");
    until("frames that arrived meanwhile are read", || two.received(1, Lane::Consensus).len() == 16).await;
    assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![true], vec![true]));
    end.send(()).expect("the process runs");
    replicating.join().expect("the thread ends without a panic");
}

/// The pushing thread writes as much as the socket takes, and the writer task the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consensus_that_the_socket_does_not_take_at_once_comes_whole_and_in_order() {
    let authority = Authority::new();
    for authority in [None, Some(&authority)] {
        let with = |name| PeerConfig { tls: authority.map(|authority| authority.files(name)), ..config() };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (one, two) = (Node::with(1, with("node-1")), Node::replicating_on(runtime.handle(), 2, with("node-2")));
        let (end, ended) = oneshot::channel::<()>();
        let (go_on, blocked) = mpsc::channel::<()>();
        let (block, told_to_block) = oneshot::channel::<()>();
        let replicating = thread::spawn(move || {
            runtime.block_on(async {
                told_to_block.await.expect("the thread is notified");
                blocked.recv().expect("the thread is released");
                ended.await.expect("the thread is notified");
            });
        });
        link_all(&[&one, &two]).await;
        one.reaches(&two, Lane::Consensus, b"linked").await;
        block.send(()).expect("the thread runs");
        let frames: Vec<Bytes> =
            (0..400_usize).map(|number| vec![number as u8; 1 + number * number % 100_000].into()).collect();
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        for frame in &frames {
            assert!(one.net.send(2, Lane::Consensus, frame.clone()).is_ok(), "{bytes} bytes wait");
        }
        // Nobody has read more than the frame of before, so most of the bytes wait here.
        assert_eq!(two.received(1, Lane::Consensus).len(), 1);
        assert!(one.link(2).queued > 0, "the kernel has taken {bytes} bytes");
        go_on.send(()).expect("it waits");
        until("all have come", || two.received(1, Lane::Consensus).len() == 1 + frames.len()).await;
        assert_eq!(two.received(1, Lane::Consensus)[1..], frames);
        assert_eq!(one.link_changes(2), [true]);
        end.send(()).expect("the thread runs");
        replicating.join().expect("the thread ends without a panic");
    }
}

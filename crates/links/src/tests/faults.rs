//! Faulty links become slow or are closed. No wrong frame is delivered, and no queue grows without bound.

use boxoffice_env::{Lane, Net, NotSent};
use bytes::Bytes;

use super::{
    common::{Node, config, until},
    proxy::{Flow, Proxy},
};
use crate::{LaneBound, PeerConfig, QueueBounds};

/// Two linked nodes. The first one dials the second one through a proxy.
async fn apart(config: PeerConfig) -> (Node, Proxy, Node) {
    let (one, two) = (Node::with(1, config.clone()), Node::with(2, config));
    let proxy = Proxy::to(two.address()).await;
    one.knows(&[(2, proxy.address)]);
    two.knows(&[(1, one.address())]);
    one.linked(2).await;
    two.linked(1).await;
    (one, proxy, two)
}

fn numbered(number: usize, bytes: usize) -> Bytes {
    let mut frame = vec![0; bytes];
    frame[..8].copy_from_slice(&number.to_le_bytes());
    frame.into()
}

/// A configuration that never closes a slow connection.
fn without_timeouts() -> PeerConfig {
    PeerConfig { silence_ms: 3_600_000, stall_ms: 3_600_000, ..config() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_byte_closes_the_connection_and_no_changed_frame_is_delivered() {
    let (one, proxy, two) = apart(config()).await;
    for round in 1..=5 {
        proxy.corrupt_one();
        let mut number = 0;
        until("the damage is seen", || {
            number += 1;
            // A link that is down accepts no frame.
            let _ = one.net.send(2, Lane::Calls, numbered(number, 3_000));
            two.net.port_counts().corrupt == round
        })
        .await;
        two.reports(1, "what came is damaged").await;
        until("it is linked again", || one.link(2).up && two.link(1).up).await;
    }
    let came = two.received(1, Lane::Calls);
    assert!(came.iter().all(|frame| frame.len() == 3_000 && frame[8..].iter().all(|byte| *byte == 0)));
    assert!(
        one.link_changes(2).iter().enumerate().all(|(index, up)| *up == (index % 2 == 0)),
        "{:?}",
        one.link_changes(2)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_closes_both_sides_and_the_link_is_restored() {
    let quiet = PeerConfig { heartbeat_ms: 50, silence_ms: 700, ..config() };
    let (one, proxy, two) = apart(quiet).await;
    proxy.set(Flow::Swallowed, Flow::Swallowed);
    one.lost(2).await;
    two.lost(1).await;
    two.reports(1, "nothing came for 700 ms").await;
    proxy.set(Flow::Open, Flow::Open);
    // Bytes lost in the middle of a handshake are not sent again.
    proxy.cut();
    one.linked(2).await;
    two.linked(1).await;
    one.reaches(&two, Lane::Consensus, b"again").await;
    // One direction only stops.
    proxy.set(Flow::Held, Flow::Open);
    one.lost(2).await;
    two.lost(1).await;
    proxy.set(Flow::Open, Flow::Open);
    one.linked(2).await;
    assert!(two.link_changes(1).starts_with(&[true, false, true, false]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_in_the_middle_of_a_frame_loses_it_whole() {
    let (one, proxy, two) = apart(config()).await;
    for number in 0..40 {
        one.send(2, Lane::Bulk, numbered(number, 250_000)).await;
        if number % 10 == 9 {
            let before = one.link_changes(2).len();
            proxy.cut();
            until("it is noticed", || one.link_changes(2).len() >= before + 2 && one.link(2).up).await;
        }
    }
    one.reaches(&two, Lane::Calls, b"last").await;
    let numbers: Vec<_> = two.received(1, Lane::Bulk).iter().map(|frame| (frame[0], frame.len())).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(numbers.iter().all(|(_, length)| *length == 250_000));
    assert!(one.link_changes(2).iter().filter(|up| !**up).count() >= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_of_one_byte_each_5_ms_is_only_slow() {
    let (one, proxy, two) = apart(PeerConfig { heartbeat_ms: 1_000, ..without_timeouts() }).await;
    proxy.set(Flow::Trickling, Flow::Trickling);
    for number in 0..3 {
        one.send(2, Lane::Consensus, numbered(number, 100)).await;
        two.send(1, Lane::Calls, numbered(number, 100)).await;
    }
    until("all have arrived", || {
        two.received(1, Lane::Consensus).len() == 3 && one.received(2, Lane::Calls).len() == 3
    })
    .await;
    assert_eq!(two.received(1, Lane::Consensus)[2], numbered(2, 100));
    assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![true], vec![true]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_reader_fills_one_queue_and_no_more() {
    let bound = LaneBound { frames: 20, bytes: 1 << 20 };
    let queues = QueueBounds { consensus: bound, calls: bound, feeds: bound, bulk: bound };
    let (one, proxy, two) = apart(PeerConfig { queues, ..without_timeouts() }).await;
    proxy.set(Flow::Held, Flow::Held);
    let mut taken = 0;
    let frame = |number| numbered(number, 200_000);
    // Wait until the queue stays full, because the kernel's buffers may drain a little at first.
    let mut refusals = 0;
    until("the queue is full", || {
        match one.net.send(2, Lane::Consensus, frame(taken)) {
            Ok(_) => (taken, refusals) = (taken + 1, 0),
            Err(refused) => {
                assert_eq!(refused, NotSent::Full(2));
                refusals += 1;
            }
        }
        refusals == 100
    })
    .await;
    let full = one.link(2);
    assert!((1..=5).contains(&full.queued), "{full:?}");
    assert!(full.dropped >= 100);
    // The other lanes have room of their own.
    one.net.send(2, Lane::Calls, frame(0)).expect("room for calls");
    proxy.set(Flow::Open, Flow::Open);
    until("every accepted frame has arrived", || two.received(1, Lane::Consensus).len() == taken).await;
    let came = two.received(1, Lane::Consensus);
    assert!(came.iter().enumerate().all(|(number, came)| *came == frame(number)));
    assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![true], vec![true]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_never_reads_is_disconnected() {
    let (one, proxy, _two) = apart(PeerConfig { stall_ms: 500, silence_ms: 3_600_000, ..config() }).await;
    proxy.set(Flow::Held, Flow::Open);
    until("the link is lost", || {
        // Frames are queued until the queue is full, then refused, and finally the node is unreachable.
        let _ = one.net.send(2, Lane::Consensus, numbered(0, 1 << 20));
        one.link_changes(2).get(1) == Some(&false)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_bulk_keeps_a_call_waiting_for_a_frame_or_two() {
    let flood = 64 << 20;
    let bulk = LaneBound { frames: 1_000, bytes: flood };
    let (one, proxy, two) =
        apart(PeerConfig { queues: QueueBounds { bulk, ..QueueBounds::default() }, ..without_timeouts() }).await;
    proxy.set(Flow::Held, Flow::Open);
    let frames = flood / (256 << 10);
    for number in 0..frames {
        one.send(2, Lane::Bulk, numbered(number, 256 << 10)).await;
    }
    // When nothing moves any more, the kernel's buffers are full.
    let mut still = (0, 0);
    until("nothing moves", || {
        let sent = one.link(2).frames_sent;
        still = if still.0 == sent { (sent, still.1 + 1) } else { (sent, 0) };
        still.1 == 100
    })
    .await;
    let gone = usize::try_from(still.0).unwrap();
    one.send(2, Lane::Calls, Bytes::from_static(b"a call")).await;
    proxy.set(Flow::Open, Flow::Open);
    until("the flood has arrived", || two.received(1, Lane::Bulk).len() == frames).await;
    let before = two.seen.frames.lock().iter().take_while(|(_, lane, _)| *lane != Lane::Calls).count();
    // One frame is being written, and one may be next.
    assert!(before <= gone + 2, "{before} of {frames} frames arrived before the call, {gone} had been sent before it");
    assert!(gone + 2 < frames / 2, "the kernel took {gone} of {frames} frames: the test shows nothing");
}

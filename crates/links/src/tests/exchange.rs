//! Frames arrive whole, unchanged and in order on every lane.

use boxoffice_env::{Lane, Net, NotSent};
use bytes::Bytes;

use super::common::{LANES, Node, config, link_all, until};
use crate::PeerConfig;

/// Frame `number` of a lane, with its own length and bytes.
fn frame(lane: usize, number: usize) -> Bytes {
    let length = [0, 1, 8, 200, 4_096, 70_000][(number + lane) % 6];
    let mut bytes = vec![u8::try_from(number % 251).unwrap(); length];
    bytes.extend_from_slice(&[u8::try_from(lane).unwrap(), u8::try_from(number % 256).unwrap()]);
    bytes.into()
}

async fn exchange(from: &Node, to: &Node, frames: usize) {
    for number in 0..frames {
        for (index, lane) in LANES.into_iter().enumerate() {
            from.send(to.id, lane, frame(index, number)).await;
        }
    }
    for (index, lane) in LANES.into_iter().enumerate() {
        until(&format!("{lane:?} from {} to {}", from.id, to.id), || to.received(from.id, lane).len() >= frames).await;
        let sent: Vec<_> = (0..frames).map(|number| frame(index, number)).collect();
        assert!(
            to.received(from.id, lane) == sent,
            "{lane:?} from {} to {} differs from the sent frames",
            from.id,
            to.id
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_exchange_frames_of_any_length_on_all_lanes_in_order() {
    let (one, two) = (Node::new(1), Node::new(2));
    link_all(&[&one, &two]).await;
    tokio::join!(exchange(&one, &two, 300), exchange(&two, &one, 300));
    let turn = Bytes::from(vec![7; 20 << 20]);
    two.send(1, Lane::Consensus, turn.clone()).await;
    until("the long frame arrives", || one.received(2, Lane::Consensus).last() == Some(&turn)).await;
    until("the counts of sent and received frames agree", || two.link(1).frames_sent == one.link(2).frames_received)
        .await;
    let (sent, received) = (two.link(1), one.link(2));
    assert_eq!((sent.frames_sent, sent.bytes_sent), (received.frames_received, received.bytes_received));
    assert_eq!(sent.frames_sent, 4 * 300 + 1);
    assert_eq!((sent.queued, sent.up), (0, true));
    assert_eq!(sent.program.as_deref(), Some(concat!("boxoffice ", env!("CARGO_PKG_VERSION"))));
    assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![true], vec![true]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_exchange_frames_each_with_each() {
    let nodes = [Node::new(1), Node::new(2), Node::new(300)];
    let [one, two, three] = &nodes;
    link_all(&[one, two, three]).await;
    tokio::join!(
        exchange(one, two, 60),
        exchange(one, three, 60),
        exchange(two, one, 60),
        exchange(two, three, 60),
        exchange(three, one, 60),
        exchange(three, two, 60),
    );
    assert_eq!(one.net.links().iter().map(|link| link.node).collect::<Vec<_>>(), [2, 300]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_is_too_long_or_for_an_unknown_node_is_refused() {
    let short = || PeerConfig { frame_bytes_max: 1_000, ..config() };
    let (one, two) = (Node::with(1, short()), Node::with(2, short()));
    assert_eq!(one.net.send(2, Lane::Calls, Bytes::new()), Err(NotSent::Unreachable(2)));
    link_all(&[&one, &two]).await;
    let long = Bytes::from(vec![0; 1_001]);
    assert_eq!(one.net.send(2, Lane::Calls, long.clone()), Err(NotSent::TooLong { node: 2, bytes: 1_001 }));
    one.send(2, Lane::Calls, long.slice(1..)).await;
    until("the longest frame", || two.received(1, Lane::Calls).len() == 1).await;
    assert_eq!(one.net.send(3, Lane::Calls, Bytes::new()), Err(NotSent::Unreachable(3)));
}

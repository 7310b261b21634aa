//! Watches against a server that skips versions, forgets and breaks connections: every map is consistent.

use boxoffice_core::refusal::Refusal;
use boxoffice_wire::{
    encode,
    feed::{Ended, Snapshot},
};
use tokio::time::timeout;

use super::common::*;
use crate::{Change, Encoding, Error, SeatState, Watch};

/// The version of the next map, and how many of its seats are held. Checks the map's counts.
async fn next(watch: &mut Watch) -> (u64, u32) {
    let map = timeout(TIMEOUT, watch.next()).await.expect("a map in time").expect("a map");
    assert_eq!(map.recount(), map.counts());
    (map.version(), map.counts().held)
}

#[tokio::test]
async fn a_watch_gets_a_snapshot_then_deltas_in_both_encodings() {
    for encoding in Encoding::ALL {
        let server = Server::new(encoding).await;
        let (client, mut peer) = server.connected(server.config()).await;
        let mut watch = client.watch(&id("hamlet"));
        let (first, ()) = tokio::join!(next(&mut watch), async {
            let request = peer.request().await;
            assert_eq!(watched(&request), ("hamlet".into(), None));
            peer.watching(&request, 3).await;
            peer.snapshot(3, snapshot(0, 0)).await;
            peer.delta(3, delta(0)).await;
            peer.delta(4, delta(3)).await;
            peer.delta(3, delta(0)).await;
            peer.delta(3, delta(1)).await;
        });
        assert_eq!(first, (0, 0));
        assert_eq!(next(&mut watch).await, (1, 1));
        assert_eq!(next(&mut watch).await, (2, 2), "a repeated delta is not new");
        let map = watch.map().expect("a map");
        assert_eq!(map.change(), &Change::Seats { from: 1, seats: vec![(1, SeatState::Held)] });
        assert_eq!(map.states().collect::<Vec<_>>()[1..3], [SeatState::Held, SeatState::Free]);
    }
}

#[tokio::test]
async fn after_a_gap_the_watch_resumes_from_its_last_version() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch(&id("hamlet"));
    let (first, mut peer) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(0, 0)).await;
        peer.delta(3, delta(1)).await;
        peer
    });
    assert_eq!(first, (0, 0));
    let (second, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        assert_eq!(watched(&request), ("hamlet".into(), Some((1, 0))));
        peer.watching(&request, 3).await;
        peer.delta(3, delta(0)).await;
        peer.delta(3, delta(1)).await;
        peer.snapshot(3, snapshot(1, 1)).await;
        peer.snapshot(3, snapshot(3, 3)).await;
    });
    assert_eq!(second, (1, 1));
    assert_eq!(next(&mut watch).await, (2, 2));
    assert_eq!(next(&mut watch).await, (3, 3), "an older snapshot is ignored, a newer one applied");
}

#[tokio::test]
async fn a_watch_resumes_after_a_reconnect() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch(&id("hamlet"));
    let (first, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(1, 1)).await;
    });
    assert_eq!(first, (1, 1));
    peer.reset();
    let (second, ()) = tokio::join!(next(&mut watch), async {
        let mut peer = server.accept().await;
        let request = peer.request().await;
        assert_eq!(watched(&request), ("hamlet".into(), Some((1, 1))));
        peer.watching(&request, 9).await;
        peer.delta(9, delta(1)).await;
    });
    assert_eq!(second, (2, 2));
}

#[tokio::test]
async fn a_snapshot_of_another_epoch_replaces_the_map() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch(&id("hamlet"));
    let (first, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(9, 2)).await;
        peer.snapshot(3, Snapshot { epoch: 2, ..snapshot(1, 1) }).await;
    });
    assert_eq!(first, (9, 2));
    assert_eq!(next(&mut watch).await, (1, 1));
    assert_eq!(watch.map().expect("a map").epoch(), 2);
}

#[tokio::test]
async fn a_watch_whose_feed_ended_asks_again_for_the_reason() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch(&id("hamlet"));
    let (first, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(1, 1)).await;
        peer.send(|encoding, out| encode::ended(encoding, out, 3, &Ended { name: "not_found".into() })).await;
    });
    assert_eq!(first, (1, 1));
    let (end, ()) = tokio::join!(watch.next(), async {
        let request = peer.request().await;
        peer.no(&request, Refusal::NotFound("session hamlet".into())).await;
    });
    assert!(matches!(end, Err(Error::Refused(no)) if no.code == 701));
}

#[tokio::test]
async fn after_a_contradiction_the_watch_reports_an_error_and_starts_over() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch(&id("hamlet"));
    let (first, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(0, 0)).await;
        let mut wrong = delta(0);
        wrong.counts.held = 3;
        peer.delta(3, wrong).await;
    });
    assert_eq!(first, (0, 0));
    let wrong = watch.next().await.map(|map| map.version());
    assert!(matches!(wrong, Err(Error::Protocol(_))), "{wrong:?}");
    let (second, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        assert_eq!(watched(&request), ("hamlet".into(), None));
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(2, 2)).await;
    });
    assert_eq!(second, (2, 2));
}

#[tokio::test]
async fn the_client_ends_abandoned_feeds_before_it_asks_for_another() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch(&id("hamlet"));
    let (first, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(1, 1)).await;
    });
    assert_eq!(first, (1, 1));
    drop(watch);
    let mut watch = client.watch(&id("hamlet"));
    let (second, ()) = tokio::join!(next(&mut watch), async {
        let unwatch = peer.request().await;
        assert_eq!(unwatch.call, boxoffice_wire::Call::Unwatch { feed: 3 });
        let request = peer.request().await;
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(2, 2)).await;
    });
    assert_eq!(second, (2, 2));
}

/// The server has one feed for an entity that a connection watches twice.
#[tokio::test]
async fn a_watch_that_was_dropped_before_its_answer_does_not_end_the_next_watch_of_its_session() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut dropped = client.watch(&id("hamlet"));
    let unanswered = tokio::select! {
        request = peer.request() => request,
        _ = dropped.next() => unreachable!("the watch has no answer"),
    };
    drop(dropped);
    let (mut watch, mut other) = (client.watch(&id("hamlet")), client.watch(&id("macbeth")));
    let (first, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        peer.watching(&unanswered, 3).await;
        // The client has read the answer when it has answered the ping.
        peer.ping().await;
        let refused = tokio::join!(other.next(), async {
            let request = peer.request().await;
            assert_eq!(watched(&request).0, "macbeth", "the feed of hamlet is not ended");
            peer.no(&request, Refusal::NotFound("session macbeth".into())).await;
        });
        assert!(matches!(refused.0, Err(Error::Refused(_))));
        peer.watching(&request, 3).await;
        peer.snapshot(3, snapshot(1, 1)).await;
    });
    assert_eq!(first, (1, 1));
    peer.delta(3, delta(1)).await;
    assert_eq!(next(&mut watch).await, (2, 2));
}

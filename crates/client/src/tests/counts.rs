//! Watches of the counts of many sessions, against a server that lacks some sessions, forgets and breaks connections.

use std::time::Duration;

use boxoffice_core::refusal::Refusal;
use boxoffice_wire::{
    Call, Request, encode,
    feed::{CountsDelta, CountsSnapshot, Ended},
    reply::{CountsWatching, SessionFeed},
};
use tokio::time::timeout;

use super::common::*;
use crate::{AreaCounts, CountsWatch, Encoding, Entity, Error, Id, SeatCounts};

/// The session of the next counts, its version, and how many seats are held.
async fn next(watch: &mut CountsWatch) -> (String, u64, u32) {
    let counts = timeout(TIMEOUT, watch.next()).await.expect("counts in time").expect("counts");
    (counts.session().to_string(), counts.version(), counts.counts().held)
}

/// The sessions of a `watch` request.
fn requested(request: &Request) -> Vec<&str> {
    let Call::WatchCounts { sessions } = &request.call else { panic!("{:?} does not watch counts", request.call) };
    sessions.iter().map(Id::as_str).collect()
}

fn ids(names: &[&str]) -> Vec<Id> {
    names.iter().map(|name| id(name)).collect()
}

/// Grants these feeds. Reports sessions that do not exist (`missing`) and sessions that no node has (`unreachable`).
async fn grant(peer: &mut Peer, request: &Request, feeds: &[(&str, u64)], missing: &[&str], unreachable: &[&str]) {
    let feeds = feeds.iter().map(|(session, feed)| SessionFeed { session: id(session), feed: *feed }).collect();
    let watching = CountsWatching { feeds, missing: ids(missing), unreachable: ids(unreachable) };
    peer.send(|encoding, out| encode::ok(encoding, out, request.id, &watching)).await;
}

fn seats(held: u32) -> SeatCounts {
    SeatCounts { free: 9 - held, held, ..SeatCounts::default() }
}

fn yard(held: u32) -> Vec<AreaCounts> {
    vec![AreaCounts { area: id("yard"), free: 40 - held, held, sold: 0 }]
}

/// Sends a snapshot in which the version is also the number of held seats and of held places of the yard.
async fn snapshot(peer: &mut Peer, feed: u64, session: &str, version: u32) {
    let (entity, areas) = (Entity::Session(id(session)), yard(version));
    let snapshot =
        CountsSnapshot { entity, epoch: 1, version: version.into(), counts: seats(version), areas, sale: None };
    peer.send(|encoding, out| encode::snapshot(encoding, out, feed, &snapshot)).await;
}

/// Sends a delta after which one more seat and one more place are held.
async fn delta(peer: &mut Peer, feed: u64, from: u32) {
    let to = from + 1;
    let delta = CountsDelta { from: from.into(), to: to.into(), counts: seats(to), areas: yard(to), sale: None };
    peer.send(|encoding, out| encode::delta(encoding, out, feed, &delta)).await;
}

#[tokio::test]
async fn next_returns_each_session_whose_counts_are_new() {
    for encoding in Encoding::ALL {
        let server = Server::new(encoding).await;
        let (client, mut peer) = server.connected(server.config()).await;
        let mut watch = client.watch_counts(ids(&["hamlet", "lear", "hamlet", "nowhere"]));
        let (first, ()) = tokio::join!(next(&mut watch), async {
            let request = peer.request().await;
            assert_eq!(requested(&request), ["hamlet", "lear", "nowhere"]);
            // The first delta comes before the feed's snapshot. The second is of a feed that the client did not ask
            // for.
            grant(&mut peer, &request, &[("hamlet", 3), ("lear", 4)], &["nowhere"], &[]).await;
            delta(&mut peer, 4, 1).await;
            delta(&mut peer, 5, 0).await;
            snapshot(&mut peer, 4, "lear", 2).await;
            snapshot(&mut peer, 3, "hamlet", 0).await;
            delta(&mut peer, 3, 0).await;
            delta(&mut peer, 3, 0).await;
            snapshot(&mut peer, 3, "hamlet", 1).await;
            delta(&mut peer, 4, 2).await;
        });
        assert_eq!(first, ("lear".into(), 2, 2));
        assert_eq!(next(&mut watch).await, ("hamlet".into(), 0, 0));
        assert_eq!(next(&mut watch).await, ("hamlet".into(), 1, 1));
        assert_eq!(next(&mut watch).await, ("lear".into(), 3, 3), "repeated frames are not new");
        assert_eq!(watch.get(&id("lear")).expect("counts").areas(), yard(3));
        assert_eq!(watch.iter().map(|counts| counts.session().as_str()).collect::<Vec<_>>(), ["hamlet", "lear"]);
        assert_eq!(watch.missing().map(Id::as_str).collect::<Vec<_>>(), ["nowhere"]);
    }
}

#[tokio::test]
async fn only_sessions_without_a_feed_are_asked_for_again() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch_counts(ids(&["hamlet", "lear"]));
    let (first, mut peer) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        grant(&mut peer, &request, &[("hamlet", 3)], &[], &["lear"]).await;
        snapshot(&mut peer, 3, "hamlet", 0).await;
        peer
    });
    assert_eq!(first, ("hamlet".into(), 0, 0));
    let (second, mut peer) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        assert_eq!(requested(&request), ["lear"]);
        grant(&mut peer, &request, &[("lear", 4)], &[], &[]).await;
        snapshot(&mut peer, 4, "lear", 5).await;
        peer.send(|encoding, out| encode::ended(encoding, out, 3, &Ended { name: "unreachable".into() })).await;
        peer
    });
    assert_eq!(second, ("lear".into(), 5, 5));
    let (third, ()) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        assert_eq!(requested(&request), ["hamlet"]);
        grant(&mut peer, &request, &[("hamlet", 7)], &[], &[]).await;
        snapshot(&mut peer, 7, "hamlet", 1).await;
        delta(&mut peer, 4, 5).await;
    });
    assert_eq!(third, ("hamlet".into(), 1, 1));
    assert_eq!(next(&mut watch).await, ("lear".into(), 6, 6));
}

#[tokio::test]
async fn after_a_gap_or_a_lost_connection_all_sessions_are_asked_for_and_only_new_counts_returned() {
    let server = Server::new(Encoding::Json).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch_counts(ids(&["hamlet", "lear"]));
    let (first, mut peer) = tokio::join!(next(&mut watch), async {
        let request = peer.request().await;
        grant(&mut peer, &request, &[("hamlet", 3), ("lear", 4)], &[], &[]).await;
        snapshot(&mut peer, 3, "hamlet", 1).await;
        snapshot(&mut peer, 4, "lear", 1).await;
        // The delta before this one is missing.
        delta(&mut peer, 4, 2).await;
        peer
    });
    assert_eq!(first, ("hamlet".into(), 1, 1));
    assert_eq!(next(&mut watch).await, ("lear".into(), 1, 1));
    let (third, peer) = tokio::join!(next(&mut watch), async {
        for feed in [3, 4] {
            assert_eq!(peer.request().await.call, Call::Unwatch { feed });
        }
        let request = peer.request().await;
        assert_eq!(requested(&request), ["hamlet", "lear"]);
        grant(&mut peer, &request, &[("hamlet", 3), ("lear", 4)], &[], &[]).await;
        snapshot(&mut peer, 3, "hamlet", 1).await;
        snapshot(&mut peer, 4, "lear", 3).await;
        // The node reports that it is cut off. Its connection is lost afterwards.
        peer.send(|encoding, out| encode::stale(encoding, out, 4, 2_300)).await;
        peer
    });
    assert_eq!(third, ("lear".into(), 3, 3));
    assert!(watch.get(&id("lear")).expect("counts").stale_for().is_none());
    assert_eq!(next(&mut watch).await, ("lear".into(), 3, 3));
    let age = watch.get(&id("lear")).expect("counts").stale_for().expect("the counts may be out of date");
    assert!(age >= Duration::from_millis(2_300), "{age:?}");
    peer.reset();
    let (fourth, mut peer) = tokio::join!(next(&mut watch), async {
        let mut peer = server.accept().await;
        let request = peer.request().await;
        grant(&mut peer, &request, &[("hamlet", 1), ("lear", 2)], &[], &[]).await;
        snapshot(&mut peer, 1, "hamlet", 2).await;
        snapshot(&mut peer, 2, "lear", 3).await;
        peer
    });
    assert_eq!(fourth, ("lear".into(), 3, 3), "the counts come again, since they are up to date now");
    assert!(watch.get(&id("lear")).expect("counts").stale_for().is_none());
    assert_eq!(next(&mut watch).await, ("hamlet".into(), 2, 2));
    delta(&mut peer, 2, 3).await;
    assert_eq!(next(&mut watch).await, ("lear".into(), 4, 4));
}

#[tokio::test]
async fn a_list_without_any_existing_session_is_refused() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let mut watch = client.watch_counts(ids(&["nowhere"]));
    let (none, mut peer) = tokio::join!(watch.next(), async {
        let request = peer.request().await;
        grant(&mut peer, &request, &[], &["nowhere"], &[]).await;
        peer
    });
    assert_eq!(
        none.expect_err("no session exists").to_string(),
        "refused: session/nowhere is not known (701 not_found)"
    );
    let (refused, ()) = tokio::join!(watch.next(), async {
        let request = peer.request().await;
        peer.no(&request, Refusal::NotFound("any".into())).await;
    });
    assert!(matches!(refused, Err(Error::Refused(no)) if no.code == 701));
}

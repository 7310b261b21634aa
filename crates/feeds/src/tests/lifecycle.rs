//! Channels begin, lose their source and end.

use std::sync::atomic::Ordering;

use boxoffice_core::seat::SeatState;
use boxoffice_wire::Encoding;

use super::{
    super::{Commit, NoFeed},
    Reader, Replica, commit, hub, session_of, story, wait,
};

#[test]
fn the_source_is_released_after_the_last_watcher() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        let feed = reader.watch("hamlet").expect("the entity exists");
        drop(reader);
        wait(900).await;
        assert!(replica.is_watched("hamlet"), "the watcher may come back");
        let mut back = Reader::new(&replica, &feeds, Encoding::Json);
        assert_eq!(back.watch("hamlet"), Ok(feed));
        wait(2_000).await;
        assert!(replica.is_watched("hamlet"));
        assert_eq!(feeds.counts(), (1, 1));
        drop(back);
        wait(1_100).await;
        assert!(!replica.is_watched("hamlet"));
        assert_eq!(feeds.counts(), (0, 0));
        // The initial state of the next feed contains commits without watchers.
        commit(&feeds, &replica, "hamlet", &[(3, SeatState::Sold)]);
        let mut next = Reader::new(&replica, &feeds, Encoding::Json);
        next.watch("hamlet").expect("the entity exists");
        next.settle();
        assert_eq!(next.maps["hamlet"].0, 2);
    });
}

#[test]
fn a_missing_session_has_no_channel_and_may_come_later() {
    story(async {
        let replica = Replica::with(&[]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        assert_eq!(reader.watch("hamlet"), Err(NoFeed::NotFound));
        assert_eq!((feeds.counts(), reader.watcher.is_empty()), ((0, 0), true));
        replica.open("hamlet", 10);
        reader.watch("hamlet").expect("the entity exists now");
        reader.settle();
        assert_eq!(reader.snapshots, 1);
    });
}

#[test]
fn an_unreachable_feed_stays_and_restarts_later() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        replica.out_of_reach.store(true, Ordering::Relaxed);
        replica.change("hamlet", &[(1, SeatState::Held)], &[]);
        feeds.commit(vec![Commit::lost(session_of("hamlet"))]);
        wait(1_000).await;
        reader.settle();
        assert_eq!((reader.maps["hamlet"].0, reader.snapshots, reader.ended), (1, 1, 0), "the watcher keeps its state");
        let mut late = Reader::new(&replica, &feeds, Encoding::Json);
        assert_eq!(late.watch("macbeth"), Err(NoFeed::Unreachable), "it may exist");
        replica.out_of_reach.store(false, Ordering::Relaxed);
        wait(1_000).await;
        reader.settle();
        assert_eq!((reader.maps["hamlet"].0, reader.snapshots, reader.ended), (2, 2, 0));
    });
}

#[test]
fn a_feed_does_not_go_back_to_a_source_that_is_behind() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("hamlet").expect("the entity exists");
        commit(&feeds, &replica, "hamlet", &[(1, SeatState::Held)]);
        wait(100).await;
        reader.settle();
        replica.behind.store(true, Ordering::Relaxed);
        replica.change("hamlet", &[(1, SeatState::Sold)], &[]);
        feeds.commit(vec![Commit::lost(session_of("hamlet"))]);
        wait(1_000).await;
        reader.settle();
        assert_eq!((reader.maps["hamlet"].0, reader.ended), (2, 0));
        replica.behind.store(false, Ordering::Relaxed);
        wait(1_000).await;
        reader.settle();
        assert_eq!((reader.maps["hamlet"].0, reader.ended), (3, 0));
    });
}

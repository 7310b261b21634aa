//! Watchers are notified of feeds that may be stale.

use tokio::time::Instant;

use super::{
    super::{Commit, NoFeed, View, Watching},
    EPOCH,
    elsewhere::{Elsewhere, Received, at, begin, receive, session, to, watch_pending},
    since, story, wait,
};
use crate::{Feeds, Watcher};

/// A watcher that has seen version 2.
async fn watching(feeds: &Feeds) -> Watcher {
    let mut watcher = feeds.watcher();
    watch_pending(&mut watcher, 1);
    feeds.initial_state(session(), Ok(at(2)));
    wait(1).await;
    assert_eq!(receive(&mut watcher), [Received::Begun(1), Received::Snapshot(2)]);
    watcher
}

fn is_led(source: &Elsewhere, feeds: &Feeds, led: bool) {
    *source.unled_since.lock() = (!led).then(Instant::now);
    feeds.leaders_changed();
}

#[test]
fn watchers_are_notified_once_of_a_long_time_without_a_leader() {
    story(async {
        let (source, feeds) = begin();
        let mut watcher = watching(&feeds).await;
        is_led(&source, &feeds, false);
        wait(1_990).await;
        is_led(&source, &feeds, true);
        wait(5_000).await;
        assert!(receive(&mut watcher).is_empty(), "an election does not make a feed stale");
        is_led(&source, &feeds, false);
        wait(1_990).await;
        assert!(receive(&mut watcher).is_empty());
        // Another shard's leader changes.
        feeds.leaders_changed();
        wait(20).await;
        assert_eq!(receive(&mut watcher), [Received::Stale(2_010)]);
        wait(5_000).await;
        assert!(receive(&mut watcher).is_empty());
        // A new watcher is notified after the snapshot, or without one.
        let (mut late, mut resumed) = (feeds.watcher(), feeds.watcher());
        for (watcher, has) in [(&mut late, None), (&mut resumed, Some(since(EPOCH, 4)))] {
            let Ok(Watching::Begun(feed)) = watcher.watch(&session(), View::Whole, has, 2) else {
                panic!("a watch that began")
            };
            watcher.release(feed);
        }
        assert_eq!(receive(&mut late), [Received::Snapshot(2), Received::Stale(7_010)]);
        assert_eq!(receive(&mut resumed), [Received::Stale(7_010)]);
        is_led(&source, &feeds, true);
        feeds.commit(vec![to(3)]);
        wait(30).await;
        for watcher in [&mut watcher, &mut late] {
            assert_eq!(receive(watcher), [Received::Delta(2, 3), Received::Stale(0)]);
        }
        assert_eq!(receive(&mut resumed), [Received::Stale(0)]);
    });
}

#[test]
fn a_feed_that_begins_without_a_leader_is_stale_at_once() {
    story(async {
        let (source, feeds) = begin();
        is_led(&source, &feeds, false);
        wait(10_000).await;
        let mut watcher = feeds.watcher();
        watch_pending(&mut watcher, 1);
        feeds.initial_state(session(), Ok(at(2)));
        wait(1).await;
        assert_eq!(receive(&mut watcher), [Received::Begun(1), Received::Snapshot(2), Received::Stale(10_001)]);
    });
}

#[test]
fn a_feed_that_cannot_restart_is_stale() {
    story(async {
        let (source, feeds) = begin();
        let mut watcher = watching(&feeds).await;
        *source.says.lock() = Some(NoFeed::Unreachable);
        feeds.commit(vec![Commit::lost(session())]);
        wait(1_990).await;
        assert!(receive(&mut watcher).is_empty());
        wait(20).await;
        let event = receive(&mut watcher);
        assert!(matches!(event[..], [Received::Stale(2_000..2_020)]), "{event:?}");
        // A node is reachable again, and answers after a while.
        *source.says.lock() = None;
        wait(400).await;
        assert!(receive(&mut watcher).is_empty());
        feeds.initial_state(session(), Ok(at(5)));
        wait(1).await;
        assert_eq!(receive(&mut watcher), [Received::Snapshot(5), Received::Stale(0)]);
    });
}

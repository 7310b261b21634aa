//! Watchers that resume from a version.

use std::{sync::atomic::Ordering, time::Duration};

use boxoffice_core::seat::SeatState;
use boxoffice_wire::Encoding;

use super::{EPOCH, Reader, Replica, commit, hub, id, session_of, since, story, wait, watch};

#[test]
fn a_resume_gives_the_missed_deltas_or_a_snapshot() {
    story(async {
        let replica = Replica::with(&[("hamlet", 400)]);
        let feeds = hub(&replica, 0);
        let mut other = Reader::new(&replica, &feeds, Encoding::Json);
        other.watch("hamlet").expect("the entity exists");
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        let feed = reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        assert!(reader.watcher.unwatch(feed) && !reader.watcher.unwatch(feed));
        for seat in 0..3 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
        }
        wait(1).await;
        assert!(!reader.pull(1_000) && reader.deltas == 0, "nothing comes without a watch");
        assert_eq!(reader.watch("hamlet"), Ok(feed), "the node assigns the feed's number");
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (1, 3), "inside the ring: the missed deltas");
        // A second watch of the same session replaces the version. Here nothing is missing.
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas, reader.watcher.len()), (1, 3, 1));
        reader.watcher.unwatch(feed);
        for seat in 0..300 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Sold)]);
            wait(1).await;
        }
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (2, 3), "beyond the ring: a snapshot");
        // A version of another epoch cannot be resumed.
        watch(&mut reader.watcher, &session_of("hamlet"), Some(since(EPOCH + 1, 304))).expect("the entity exists");
        reader.settle();
        assert_eq!(reader.snapshots, 3);
    });
}

/// A map that was read in the middle of a tick has changes that were undone before its end. The delta must contain
/// those too.
#[test]
fn a_resume_inside_a_tick_gets_the_delta_around_it() {
    for (encoding, inside) in [(Encoding::Json, 3), (Encoding::MsgPack, 4), (Encoding::Json, 5), (Encoding::Json, 6)] {
        story(async {
            let replica = Replica::with(&[("hamlet", 10)]);
            let feeds = hub(&replica, 20);
            let mut other = Reader::new(&replica, &feeds, Encoding::Json);
            other.watch("hamlet").expect("the entity exists");
            other.settle();
            commit(&feeds, &replica, "hamlet", &[(9, SeatState::Blocked)]);
            wait(1).await;
            // One tick with versions 3 to 7, in which seat 0 is held and free again, and so are places.
            let steps = [(0, SeatState::Held), (1, SeatState::Sold), (2, SeatState::Held), (0, SeatState::Free)];
            for (number, change) in steps.into_iter().enumerate() {
                let held = [(0, [7, 9, 8, 0][number])];
                feeds.commit(replica.change("hamlet", &[change], &held).into_iter().collect());
            }
            commit(&feeds, &replica, "hamlet", &[(2, SeatState::Sold)]);
            let shown = replica.at("hamlet", inside).expect("an existing version");
            wait(30).await;
            commit(&feeds, &replica, "hamlet", &[(4, SeatState::Sold)]);
            wait(30).await;
            let mut reader = Reader::new(&replica, &feeds, encoding);
            reader.maps.insert("hamlet".into(), (inside, shown));
            reader.watch("hamlet").expect("the entity exists");
            reader.settle();
            assert_eq!((reader.snapshots, reader.deltas), (0, 2), "from version {inside}");
            other.settle();
            assert_eq!(reader.maps, other.maps);
        });
    }
}

/// The data was rolled back from version 6, and version 3 is another state now.
#[test]
fn another_epoch_restarts_every_feed_at_once() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        for seat in 0..5 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
        }
        wait(1).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas, reader.maps["hamlet"].0), (1, 5, 6));
        replica.sessions.lock().get_mut(&id("hamlet")).expect("the entity exists").versions.split_off(&3);
        replica.change("hamlet", &[(9, SeatState::Sold)], &[]);
        feeds.set_epoch(EPOCH + 1);
        reader.epoch = EPOCH + 1;
        wait(1).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.maps["hamlet"].0), (2, 3), "watchers get the new state at once");
        commit(&feeds, &replica, "hamlet", &[(8, SeatState::Sold)]);
        wait(1).await;
        reader.settle();
        assert_eq!((reader.deltas, reader.maps["hamlet"].0), (6, 4));
        // A watcher with a version of the old epoch receives a snapshot, even if that version exists again.
        let mut late = Reader::new(&replica, &feeds, Encoding::MsgPack);
        late.epoch = EPOCH + 1;
        let feed = watch(&mut late.watcher, &session_of("hamlet"), Some(since(EPOCH, 4))).expect("the entity exists");
        late.names.insert(feed, "hamlet".into());
        late.settle();
        assert_eq!((late.snapshots, late.maps["hamlet"].0), (1, 4));
    });
}

#[test]
fn a_watcher_ahead_of_the_hub_resumes_or_gets_a_snapshot() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        commit(&feeds, &replica, "hamlet", &[(0, SeatState::Held)]);
        wait(1).await;
        reader.settle();
        // The map was loaded in the middle of a tick.
        for seat in 1..4 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
        }
        let mut loaded = Reader::new(&replica, &feeds, Encoding::Json);
        let latest = replica.latest("hamlet");
        loaded.maps.insert("hamlet".into(), (latest, replica.at("hamlet", latest).expect("the latest")));
        loaded.watch("hamlet").expect("the entity exists");
        loaded.settle();
        assert_eq!((loaded.snapshots, loaded.deltas), (0, 0), "the watcher has the next version already");
        wait(20).await;
        loaded.settle();
        assert_eq!((loaded.snapshots, loaded.deltas), (0, 0));
        commit(&feeds, &replica, "hamlet", &[(9, SeatState::Held)]);
        wait(20).await;
        loaded.settle();
        assert_eq!((loaded.snapshots, loaded.deltas), (0, 1));
        // The hub does not wait for a version that never existed.
        loaded.maps.get_mut("hamlet").expect("loaded").0 = 10_000;
        loaded.watch("hamlet").expect("the entity exists");
        loaded.settle();
        assert_eq!(loaded.snapshots, 1);
    });
}

#[test]
fn a_pause_of_the_node_does_not_count_as_waiting() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        replica.lags.store(true, Ordering::Relaxed);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.maps.insert("hamlet".into(), (7, replica.at("hamlet", 1).expect("the first")));
        reader.watch("hamlet").expect("the entity exists");
        wait(1_500).await;
        // The node is paused.
        tokio::time::advance(Duration::from_secs(90)).await;
        reader.settle();
        assert_eq!(reader.snapshots, 0, "the pause must not count as waiting time");
        wait(55_000).await;
        reader.settle();
        assert_eq!(reader.snapshots, 0);
        wait(5_000).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.maps["hamlet"].0), (1, 1), "the wait is over");
    });
}

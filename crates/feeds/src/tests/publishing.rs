//! Commits become deltas, and gaps become snapshots.

use std::sync::Arc;

use boxoffice_core::seat::SeatState;
use boxoffice_wire::Encoding;

use super::{
    super::{Commit, FeedSource},
    Reader, Replica, commit, frame_of, hub, session_of, story, wait,
};

#[test]
fn a_snapshot_then_a_delta_for_each_commit() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        assert!(!replica.is_watched("hamlet"));
        reader.watch("hamlet").expect("the entity exists");
        assert!(replica.is_watched("hamlet"));
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (1, 0));
        for seat in 0..5 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
        }
        reader.watcher.ready().await;
        wait(1).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (1, 5));
        assert_eq!(reader.maps["hamlet"].0, 6);
    });
}

#[test]
fn a_tick_makes_one_delta_of_many_commits() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        commit(&feeds, &replica, "hamlet", &[(9, SeatState::Blocked)]);
        wait(1).await;
        reader.settle();
        assert_eq!(reader.deltas, 1, "the first commit after a pause is published at once");
        for seat in 0..5 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Free), (5, SeatState::Sold)]);
        }
        wait(18).await;
        reader.settle();
        assert_eq!(reader.deltas, 1, "nothing is published within the tick");
        wait(2).await;
        reader.settle();
        assert_eq!((reader.deltas, reader.maps["hamlet"].0), (2, 12));
    });
}

/// During a publication an answer and a commit of another entity wake the hub once. The commit is published after the
/// tick, without any further wake-up.
#[test]
fn a_commit_during_a_fan_out_is_published() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10), ("lear", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        for name in ["hamlet", "lear"] {
            reader.watch(name).expect("the entity exists");
        }
        reader.settle();
        let (busy, others) = (feeds.clone(), Arc::clone(&replica));
        *replica.on_begin.lock() = Some(Box::new(move || {
            // The published state of one session is behind.
            others.change("lear", &[(1, SeatState::Held)], &[]);
            let newer = others.begin(&session_of("lear"));
            commit(&busy, &others, "hamlet", &[(2, SeatState::Held)]);
            busy.initial_state(session_of("lear"), newer);
        }));
        feeds.commit(vec![Commit::lost(session_of("hamlet"))]);
        wait(100).await;
        reader.settle();
        assert_eq!((reader.maps["hamlet"].0, reader.maps["lear"].0), (2, 2));
    });
}

#[test]
fn changed_places_are_published_without_changed_seats() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        let mut frames = Vec::new();
        for held in [7, 3] {
            feeds.commit(replica.change("hamlet", &[], &[(1, held)]).into_iter().collect());
        }
        wait(20).await;
        reader.watcher.pull(Encoding::Json, 1_000, |event| frames.push(frame_of(event)));
        let texts: Vec<_> = frames.iter().map(|frame| std::str::from_utf8(frame).expect("JSON")).collect();
        let [text] = texts[..] else { panic!("one delta per tick: {texts:?}") };
        assert!(text.contains(r#""changes":[]"#), "{text}");
        assert!(text.contains(r#""areas":[{"area":"lawn","free":47,"held":3,"sold":0}]"#), "{text}");
        reader.take(&frames[0]);
        assert_eq!(reader.maps["hamlet"].0, 3);
    });
}

#[test]
fn a_gap_in_the_commits_gives_a_snapshot_and_the_end_of_a_session_an_end() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        // A replica that received a snapshot from its leader lacks the commits in between.
        let lost = replica.change("hamlet", &[(1, SeatState::Held)], &[]);
        assert!(lost.is_some());
        commit(&feeds, &replica, "hamlet", &[(2, SeatState::Held)]);
        wait(1).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.maps["hamlet"].0), (2, 3));
        replica.change("hamlet", &[(3, SeatState::Held)], &[]);
        let last = replica.change("hamlet", &[(4, SeatState::Held)], &[]).expect("watched");
        replica.sessions.lock().clear();
        feeds.commit(vec![last]);
        wait(1).await;
        reader.settle();
        assert_eq!((reader.ended, reader.watcher.len()), (1, 0));
    });
}

#[test]
fn an_old_commit_does_not_hide_a_lost_one() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("hamlet").expect("the entity exists");
        reader.settle();
        replica.change("hamlet", &[(1, SeatState::Held)], &[]);
        let old =
            Commit { from: 0, to: 1, ..replica.change("hamlet", &[(2, SeatState::Held)], &[]).expect("it is watched") };
        // Nothing new for the feed, in the same tick.
        feeds.commit(vec![Commit::lost(session_of("hamlet")), old]);
        wait(100).await;
        reader.settle();
        assert_eq!(reader.maps["hamlet"].0, 3);
    });
}

#[test]
fn a_slow_watcher_gets_the_newest_snapshot() {
    story(async {
        let replica = Replica::with(&[("hamlet", 400)]);
        let feeds = hub(&replica, 0);
        let mut slow = Reader::new(&replica, &feeds, Encoding::MsgPack);
        let mut quick = Reader::new(&replica, &feeds, Encoding::MsgPack);
        for reader in [&mut slow, &mut quick] {
            reader.watch("hamlet").expect("the entity exists");
            reader.settle();
        }
        for seat in 0..300 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Sold)]);
            wait(1).await;
            quick.settle();
        }
        slow.settle();
        assert_eq!((slow.snapshots, slow.deltas), (2, 0), "300 deltas are more than the ring has");
        assert_eq!((quick.snapshots, quick.deltas), (1, 300));
        assert_eq!(slow.maps, quick.maps);
    });
}

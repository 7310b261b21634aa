//! Watchers of a session's counts see the counts of each published version, next to watchers of the whole map.

use boxoffice_core::seat::SeatState;
use boxoffice_wire::{
    Encoding,
    feed::CountsSnapshot,
    reply::{Event, ServerFrame},
};

use super::{
    super::{FeedEvent, NoFeed, View, Watcher, Watching},
    EPOCH, Reader, Replica, commit, counts, hub, session_of, story, wait,
};

/// The counts of the newest received version.
struct Counter {
    watcher: Watcher,
    encoding: Encoding,
    version: u64,
    snapshots: usize,
    deltas: usize,
    bytes: usize,
}

impl Counter {
    fn new(feeds: &super::Feeds, encoding: Encoding) -> Counter {
        Counter { watcher: feeds.watcher(), encoding, version: 0, snapshots: 0, deltas: 0, bytes: 0 }
    }

    fn watch(&mut self, name: &str) -> Result<u64, NoFeed> {
        let Watching::Begun(feed) = self.watcher.watch(&session_of(name), View::Counts, None, 0)? else {
            panic!("{name} is pending")
        };
        self.watcher.release(feed);
        Ok(feed)
    }

    /// Pulls all frames and checks each against the replica at its version.
    fn settle(&mut self, replica: &Replica, name: &str) {
        let mut frames = Vec::new();
        while self.watcher.pull(self.encoding, 1_000, |event| frames.push(event)) {}
        for event in frames {
            let FeedEvent::Frame(frame) = event else { panic!("unexpected {event:?}") };
            self.bytes += frame.len();
            let Ok(ServerFrame::Feed(_, event)) = ServerFrame::read(self.encoding, &frame) else { panic!("{frame:?}") };
            let (seats, areas) = match event.read::<CountsSnapshot>(self.encoding).expect("a readable event") {
                Event::Snapshot(snapshot) => {
                    assert_eq!((snapshot.epoch, &snapshot.entity), (EPOCH, &session_of(name)));
                    self.snapshots += 1;
                    self.version = snapshot.version;
                    (snapshot.counts, Some(snapshot.areas))
                }
                Event::Delta(delta) => {
                    assert_eq!(delta.from, self.version, "a gap in the counts of {name}");
                    self.deltas += 1;
                    self.version = delta.to;
                    (delta.counts, None)
                }
                other @ (Event::Ended(_) | Event::Stale(_)) => panic!("{other:?}"),
            };
            let shown = replica.at(name, self.version).expect("an existing version");
            assert_eq!(seats, counts(&shown.seats), "the counts of {name} at {} (P5)", self.version);
            if let Some(areas) = areas {
                assert_eq!(areas, shown.areas, "the areas of {name} at {}", self.version);
            }
        }
    }
}

#[test]
fn counts_come_without_seats_and_with_their_own_feed_number() {
    story(async {
        let replica = Replica::with(&[("hamlet", 8_000)]);
        let feeds = hub(&replica, 0);
        let mut whole = Reader::new(&replica, &feeds, Encoding::Json);
        let feed = whole.watch("hamlet").expect("the entity exists");
        for encoding in [Encoding::Json, Encoding::MsgPack] {
            let mut counter = Counter::new(&feeds, encoding);
            assert_ne!(counter.watch("hamlet").expect("the entity exists"), feed);
            counter.settle(&replica, "hamlet");
            assert_eq!((counter.snapshots, counter.deltas), (1, 0));
            assert!(counter.bytes < 400, "a frame of counts has {} bytes", counter.bytes);
            for seat in 0..5 {
                commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
            }
            feeds.commit(replica.change("hamlet", &[], &[(1, 7)]).into_iter().collect());
            wait(1).await;
            counter.settle(&replica, "hamlet");
            assert_eq!((counter.snapshots, counter.deltas), (1, 6));
        }
        whole.settle();
        assert_eq!((whole.maps["hamlet"].0, feeds.counts()), (13, (2, 1)), "the channel outlives its counters");
    });
}

#[test]
fn one_view_continues_without_watchers_of_the_other() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut counter = Counter::new(&feeds, Encoding::Json);
        counter.watch("hamlet").expect("the entity exists");
        let mut whole = Reader::new(&replica, &feeds, Encoding::Json);
        whole.watch("hamlet").expect("the entity exists");
        drop(whole);
        wait(2_000).await;
        assert_eq!(feeds.counts(), (1, 1));
        assert!(replica.is_watched("hamlet"), "by the counter");
        commit(&feeds, &replica, "hamlet", &[(1, SeatState::Sold)]);
        wait(30).await;
        counter.settle(&replica, "hamlet");
        assert_eq!(counter.version, 2);
        drop(counter);
        wait(2_000).await;
        assert!(!replica.is_watched("hamlet"));
    });
}

#[test]
fn a_slow_watcher_of_counts_gets_a_snapshot() {
    story(async {
        let replica = Replica::with(&[("hamlet", 100)]);
        let feeds = hub(&replica, 0);
        let mut counter = Counter::new(&feeds, Encoding::MsgPack);
        counter.watch("hamlet").expect("the entity exists");
        counter.settle(&replica, "hamlet");
        for seat in 0..50 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Sold)]);
            wait(1).await;
        }
        counter.settle(&replica, "hamlet");
        assert_eq!((counter.version, counter.snapshots, counter.deltas), (51, 2, 0));
    });
}

//! Feeds of entities on another node. No thread waits for its answer, and nothing is lost while it is pending.

use std::sync::Arc;

use boxoffice_core::{
    answer::{MapView, Purchase},
    id::{Entity, Id, OrderId},
    money::{Currency, Money},
    seat::SeatState,
    time::Timestamp,
};
use boxoffice_wire::{
    Encoding,
    feed::{PurchasesSnapshot, Snapshot},
    reply::{Event, ServerFrame},
};
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

use super::{
    super::{Commit, FeedEvent, FeedSource, FeedUpdate, Feeds, InitialState, NoFeed, View, Watcher, Watching},
    counts, hub, id, session_of, story, wait,
};

/// Seats of the only session.
const SEATS: usize = 8;

/// A source that never answers by itself. The test sends its answers.
#[derive(Default)]
pub(super) struct Elsewhere {
    asked: Mutex<Vec<&'static str>>,
    pages: Mutex<Vec<u64>>,
    /// The immediate answer to the next request.
    pub(super) says: Mutex<Option<NoFeed>>,
    /// The time without a leader.
    pub(super) unled_since: Mutex<Option<Instant>>,
}

impl Elsewhere {
    fn asked(&self, what: &'static str) -> NoFeed {
        self.asked.lock().push(what);
        self.says.lock().unwrap_or(NoFeed::Pending)
    }

    fn requests(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.asked.lock())
    }
}

impl FeedSource for Elsewhere {
    fn begin(&self, _entity: &Entity) -> Result<InitialState, NoFeed> {
        Err(self.asked("begin"))
    }

    fn may_lag(&self, _entity: &Entity) -> bool {
        true
    }

    fn begin_elsewhere(&self, _entity: &Entity) -> Result<InitialState, NoFeed> {
        Err(self.asked("elsewhere"))
    }

    fn leaderless_ms(&self, _entity: &Entity) -> Option<u64> {
        self.unled_since.lock().map(|since| since.elapsed().as_millis() as u64)
    }

    fn end(&self, _entity: &Entity) {
        self.asked.lock().push("end");
    }

    fn purchases(&self, _customer: &Id, after: u64, _limit: u32) -> Option<Vec<Purchase>> {
        self.pages.lock().push(after);
        None
    }
}

pub(super) fn session() -> Entity {
    session_of("hamlet")
}

/// The session at a version with as many sold seats.
pub(super) fn at(version: u64) -> InitialState {
    let seats: Vec<SeatState> =
        (0..SEATS as u64).map(|seat| if seat < version { SeatState::Sold } else { SeatState::Free }).collect();
    let mut packed = vec![0; SEATS.div_ceil(4)];
    for (index, state) in seats.iter().enumerate() {
        packed[index / 4] |= (*state as u8) << (index % 4 * 2);
    }
    let (session, counts) = (id("hamlet"), counts(&seats));
    InitialState::Session(MapView { session, epoch: 0, version, counts, areas: Vec::new(), seats: packed, sale: None })
}

/// The commit that sells the next seat.
pub(super) fn to(version: u64) -> Commit {
    let seats = vec![(version as u32 - 1, SeatState::Sold)];
    Commit {
        entity: session(),
        from: version - 1,
        to: version,
        update: FeedUpdate::Session { seats, areas: Vec::new(), sale: None },
    }
}

pub(super) fn watch_pending(watcher: &mut Watcher, tag: u64) {
    assert_eq!(watcher.watch(&session(), View::Whole, None, tag), Ok(Watching::Awaited));
}

/// An event that a connection receives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Begun(u64),
    Refused(u64, NoFeed),
    Snapshot(u64),
    Delta(u64, u64),
    Ended,
    Stale(u64),
}

/// All due events. Watches that begin are released at once.
pub(super) fn receive(watcher: &mut Watcher) -> Vec<Received> {
    let mut received = Vec::new();
    loop {
        let mut event = Vec::new();
        watcher.pull(Encoding::Json, 1 << 20, |word| event.push(word));
        if event.is_empty() {
            return received;
        }
        for word in event {
            received.push(match word {
                FeedEvent::Begun { tag, feed } => {
                    watcher.release(feed);
                    Received::Begun(tag)
                }
                FeedEvent::Refused { tag, why } => Received::Refused(tag, why),
                FeedEvent::Frame(frame) => match ServerFrame::read(Encoding::Json, &frame).expect("a frame") {
                    ServerFrame::Feed(_, event) => match event.read::<Snapshot>(Encoding::Json).expect("an event") {
                        Event::Snapshot(snapshot) => {
                            assert_eq!(u64::from(snapshot.counts.sold), snapshot.version);
                            Received::Snapshot(snapshot.version)
                        }
                        Event::Delta(delta) => {
                            assert_eq!(u64::from(delta.counts.sold), delta.to);
                            Received::Delta(delta.from, delta.to)
                        }
                        Event::Ended(_) => Received::Ended,
                        Event::Stale(stale_ms) => Received::Stale(stale_ms),
                    },
                    other => panic!("{other:?}"),
                },
            });
        }
    }
}

pub(super) fn begin() -> (Arc<Elsewhere>, Feeds) {
    let source = Arc::new(Elsewhere::default());
    let feeds = hub(&source, 20);
    (source, feeds)
}

#[test]
fn a_watch_waits_for_the_answer_and_earlier_commits_are_not_lost() {
    story(async {
        let (source, feeds) = begin();
        let (mut one, mut other) = (feeds.watcher(), feeds.watcher());
        watch_pending(&mut one, 5);
        watch_pending(&mut other, 6);
        assert_eq!(source.requests(), ["begin"], "one request for all waiting watches");
        feeds.commit(vec![to(3)]);
        wait(50).await;
        feeds.commit(vec![to(4)]);
        wait(50).await;
        assert!(receive(&mut one).is_empty());
        // The answer is older than the commits.
        feeds.initial_state(session(), Ok(at(2)));
        wait(1).await;
        assert_eq!(receive(&mut one), [Received::Begun(5), Received::Snapshot(4)]);
        assert_eq!(receive(&mut other), [Received::Begun(6), Received::Snapshot(4)]);
        feeds.commit(vec![to(5)]);
        wait(50).await;
        assert_eq!(receive(&mut one), [Received::Delta(4, 5)]);
    });
}

#[test]
fn a_gap_before_the_answer_repeats_the_request() {
    story(async {
        let (source, feeds) = begin();
        let mut watcher = feeds.watcher();
        watch_pending(&mut watcher, 1);
        feeds.commit(vec![to(5)]);
        wait(50).await;
        feeds.initial_state(session(), Ok(at(2)));
        wait(1).await;
        assert_eq!(source.requests(), ["begin", "begin"]);
        assert_eq!(receive(&mut watcher), [Received::Begun(1), Received::Snapshot(2)]);
        feeds.initial_state(session(), Ok(at(5)));
        wait(1).await;
        assert_eq!(receive(&mut watcher), [Received::Snapshot(5)]);
    });
}

#[test]
fn another_node_is_asked_in_time_and_a_refusal_reaches_all_watchers() {
    story(async {
        let (source, feeds) = begin();
        let mut watcher = feeds.watcher();
        watch_pending(&mut watcher, 1);
        wait(290).await;
        assert_eq!(source.requests(), ["begin"]);
        wait(20).await;
        assert_eq!(source.requests(), ["elsewhere"]);
        wait(300).await;
        assert_eq!(source.requests(), ["elsewhere"]);
        *source.says.lock() = Some(NoFeed::Unreachable);
        wait(300).await;
        assert_eq!(source.requests(), ["elsewhere"]);
        assert_eq!(receive(&mut watcher), [Received::Refused(1, NoFeed::Unreachable)]);
        assert_eq!((feeds.counts(), watcher.len()), ((0, 0), 0));
        *source.says.lock() = None;
        watch_pending(&mut watcher, 2);
        feeds.initial_state(session(), Err(NoFeed::NotFound));
        wait(1).await;
        assert_eq!(receive(&mut watcher), [Received::Refused(2, NoFeed::NotFound)]);
    });
}

#[test]
fn two_watches_get_two_answers_and_an_ended_one_gets_none() {
    story(async {
        let (source, feeds) = begin();
        let mut watcher = feeds.watcher();
        watch_pending(&mut watcher, 1);
        watch_pending(&mut watcher, 2);
        let mut gone = feeds.watcher();
        watch_pending(&mut gone, 3);
        drop(gone);
        assert_eq!(feeds.counts(), (1, 1));
        feeds.initial_state(session(), Ok(at(1)));
        wait(1).await;
        // Again, with an answer that was not pulled yet.
        assert_eq!(watcher.watch(&session(), View::Whole, None, 4), Ok(Watching::Awaited));
        assert_eq!(
            receive(&mut watcher),
            [Received::Begun(1), Received::Begun(2), Received::Begun(4), Received::Snapshot(1)]
        );
        drop(watcher);
        wait(6_000).await;
        assert_eq!(source.requests(), ["begin", "end"]);
        assert_eq!(feeds.counts(), (0, 0));
    });
}

#[test]
fn a_lost_source_is_replaced_at_once() {
    story(async {
        let (source, feeds) = begin();
        let mut watcher = feeds.watcher();
        watch_pending(&mut watcher, 1);
        feeds.commit(vec![Commit::lost(session())]);
        wait(1).await;
        assert_eq!(source.requests(), ["begin", "begin"]);
        feeds.initial_state(session(), Ok(at(1)));
        wait(1).await;
        assert_eq!(receive(&mut watcher), [Received::Begun(1), Received::Snapshot(1)]);
        // During the restart watchers keep their state and never go back.
        feeds.commit(vec![Commit::lost(session())]);
        wait(30).await;
        feeds.commit(vec![to(3)]);
        wait(30).await;
        assert!(receive(&mut watcher).is_empty());
        feeds.initial_state(session(), Ok(at(2)));
        wait(1).await;
        assert_eq!(receive(&mut watcher), [Received::Snapshot(3)]);
        assert_eq!(source.requests(), ["begin"]);
    });
}

#[test]
fn both_views_begin_with_one_answer() {
    story(async {
        let (source, feeds) = begin();
        let (mut whole, mut counter) = (feeds.watcher(), feeds.watcher());
        watch_pending(&mut whole, 1);
        feeds.initial_state(session(), Ok(at(1)));
        wait(1).await;
        assert_eq!(receive(&mut whole), [Received::Begun(1), Received::Snapshot(1)]);
        assert_eq!(counter.watch(&session(), View::Counts, None, 2), Ok(Watching::Awaited));
        assert_eq!(source.requests(), ["begin", "begin"]);
        // Commits in between went to the earlier watch and do not come again.
        feeds.initial_state(session(), Ok(at(3)));
        wait(1).await;
        assert_eq!(receive(&mut whole), [Received::Snapshot(3)]);
        let mut event = Vec::new();
        counter.pull(Encoding::Json, 1_000, |word| event.push(word));
        assert!(matches!(event[..], [FeedEvent::Begun { tag: 2, .. }]), "{event:?}");
    });
}

#[test]
fn a_watcher_from_a_node_that_was_ahead_never_goes_back() {
    story(async {
        let (_source, feeds) = begin();
        let (mut watcher, mut other) = (feeds.watcher(), feeds.watcher());
        let has = |version| Some(super::since(super::EPOCH, version));
        assert_eq!(watcher.watch(&session(), View::Whole, has(4), 1), Ok(Watching::Awaited));
        assert_eq!(other.watch(&session(), View::Whole, has(7), 2), Ok(Watching::Awaited));
        feeds.initial_state(session(), Ok(at(2)));
        wait(1).await;
        assert_eq!(receive(&mut watcher), [Received::Begun(1)], "the watcher is ahead of this node");
        feeds.commit(vec![to(3)]);
        wait(30).await;
        assert!(receive(&mut watcher).is_empty());
        feeds.commit(vec![to(4), to(5)]);
        wait(30).await;
        assert_eq!(receive(&mut watcher), [Received::Delta(3, 5)], "the delta that spans its version");
        assert_eq!(receive(&mut other), [Received::Begun(2)]);
        wait(30_000).await;
        let mut late = feeds.watcher();
        for _ in 0..10 {
            let Ok(Watching::Begun(feed)) = late.watch(&session(), View::Whole, has(7), 3) else {
                panic!("a watch that began")
            };
            late.release(feed);
        }
        wait(30_000).await;
        assert_eq!(receive(&mut other), [Received::Snapshot(5)], "its version never existed here");
        assert!(receive(&mut late).is_empty(), "this watch has not waited long enough");
        wait(60_000).await;
        assert_eq!(receive(&mut late), [Received::Snapshot(5)]);
    });
}

fn purchase(cursor: u64) -> Purchase {
    let total = Money { amount: 1_000, currency: Currency::new("EUR").expect("a currency") };
    Purchase { cursor, order: OrderId(u128::from(cursor)), at: Timestamp(0), total, zone: None, items: Vec::new() }
}

#[test]
fn requests_for_pages_of_purchases_are_repeated() {
    story(async {
        let (source, feeds) = begin();
        let ada = Entity::Customer(id("ada"));
        let mut watcher = feeds.watcher();
        assert_eq!(watcher.watch(&ada, View::Whole, None, 1), Ok(Watching::Awaited));
        feeds.initial_state(ada.clone(), Ok(InitialState::Customer { newest: 3 }));
        wait(1).await;
        let read = |watcher: &mut Watcher| {
            let mut pages = Vec::new();
            while watcher.pull(Encoding::MsgPack, 1 << 20, |event| match event {
                FeedEvent::Begun { .. } => {}
                FeedEvent::Frame(frame) => {
                    let frame = ServerFrame::read(Encoding::MsgPack, &frame).expect("a frame");
                    let ServerFrame::Feed(_, event) = frame else { panic!("{frame:?}") };
                    let event = event.read::<PurchasesSnapshot>(Encoding::MsgPack).expect("an event");
                    let Event::Snapshot(page) = event else { panic!("{event:?}") };
                    pages.push((page.from, page.to));
                }
                event => panic!("{event:?}"),
            }) {}
            pages
        };
        assert!(read(&mut watcher).is_empty());
        watcher.release(1);
        assert!(read(&mut watcher).is_empty());
        wait(100).await;
        assert!(read(&mut watcher).is_empty());
        assert_eq!(*source.pages.lock(), [0], "once");
        wait(250).await;
        assert!(read(&mut watcher).is_empty());
        assert_eq!(*source.pages.lock(), [0, 0], "repeated without an answer");
        feeds.purchases_page(id("ada"), 7, vec![purchase(8)]);
        feeds.purchases_page(id("ada"), 0, (1..=2).map(purchase).collect());
        wait(1).await;
        assert_eq!(read(&mut watcher), [(0, 2)]);
        assert_eq!(*source.pages.lock(), [0, 0, 2]);
        feeds.purchases_page(id("ada"), 2, (3..=4).map(purchase).collect());
        wait(1).await;
        assert_eq!(read(&mut watcher), [(2, 3)], "unpublished purchases are not sent");
    });
}

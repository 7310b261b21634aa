//! Watchers of every kind rebuild the map of a session and never see a gap, whatever is committed and however they read.
//! Those of everything else are in `kinds`.

mod counts;
mod elsewhere;
mod kinds;
mod random;
mod staleness;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use boxoffice_core::{
    answer::{AreaCounts, MapView, Purchase, SeatCounts},
    id::{Entity, Id},
    seat::SeatState,
};
use boxoffice_env::Clock;
use boxoffice_wire::{
    Encoding,
    body::Resume,
    call::Since,
    feed::Snapshot,
    reply::{Event, ServerFrame},
};
use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    Commit, FeedEvent, FeedSettings, FeedSource, FeedUpdate, Feeds, InitialState, NoFeed, View, Watcher, Watching,
};

const EPOCH: u64 = 7;

/// The places of each of a session's two areas.
const PLACES: u32 = 50;

/// The sessions of a replica, every version of them.
#[derive(Default)]
struct Replica {
    sessions: Mutex<BTreeMap<Id, Session>>,
    /// Nobody who has them answers.
    out_of_reach: AtomicBool,
    /// Who answers has only their first version.
    behind: AtomicBool,
    /// Versions that it has not may come.
    lags: AtomicBool,
    /// What happens the next time that a feed begins.
    on_begin: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

struct Session {
    versions: BTreeMap<u64, Shown>,
    watched: bool,
}

/// What a watcher is to see of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    seats: Vec<SeatState>,
    areas: Vec<AreaCounts>,
}

impl Replica {
    fn with(sessions: &[(&str, usize)]) -> Arc<Replica> {
        let replica = Replica::default();
        for (name, seats) in sessions {
            replica.open(name, *seats);
        }
        Arc::new(replica)
    }

    fn open(&self, name: &str, seats: usize) {
        let areas = ["stalls", "lawn"].map(|area| places(area, 0));
        let shown = Shown { seats: vec![SeatState::Free; seats], areas: areas.into() };
        let versions = BTreeMap::from([(1, shown)]);
        self.sessions.lock().insert(id(name), Session { versions, watched: false });
    }

    /// Changes seats, and of areas how many places are held; the commit, if the session is watched.
    fn change(&self, name: &str, changes: &[(u32, SeatState)], held: &[(usize, u32)]) -> Option<Commit> {
        let mut sessions = self.sessions.lock();
        let session = sessions.get_mut(&id(name))?;
        let (from, shown) = session.versions.last_key_value()?;
        let (from, mut shown) = (*from, shown.clone());
        for (seat, state) in changes {
            shown.seats[*seat as usize] = *state;
        }
        let mut areas = Vec::new();
        for (area, held) in held {
            let area = &mut shown.areas[*area];
            *area = places(area.area.as_str(), *held);
            areas.push(area.clone());
        }
        session.versions.insert(from + 1, shown);
        let update = FeedUpdate::Session { seats: changes.to_vec(), areas };
        session.watched.then(|| Commit { entity: session_of(name), from, to: from + 1, update })
    }

    fn at(&self, name: &str, version: u64) -> Option<Shown> {
        self.sessions.lock()[&id(name)].versions.get(&version).cloned()
    }

    fn latest(&self, name: &str) -> u64 {
        *self.sessions.lock()[&id(name)].versions.last_key_value().expect("there is a first version").0
    }

    fn initial(&self, id: &Id) -> Result<InitialState, NoFeed> {
        let mut sessions = self.sessions.lock();
        let found = sessions.get_mut(id).ok_or(NoFeed::NotFound)?;
        found.watched = true;
        let newest = match self.behind.load(Ordering::Relaxed) {
            true => found.versions.first_key_value(),
            false => found.versions.last_key_value(),
        };
        let (version, Shown { seats, areas }) = newest.expect("there is a first version");
        let mut packed = vec![0; seats.len().div_ceil(4)];
        for (index, state) in seats.iter().enumerate() {
            packed[index / 4] |= (*state as u8) << (index % 4 * 2);
        }
        let (version, counts, areas) = (*version, counts(seats), areas.clone());
        Ok(InitialState::Session(MapView { session: id.clone(), epoch: 0, version, counts, areas, seats: packed }))
    }

    fn is_watched(&self, name: &str) -> bool {
        self.sessions.lock()[&id(name)].watched
    }
}

impl FeedSource for Replica {
    fn begin(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        if self.out_of_reach.load(Ordering::Relaxed) {
            return Err(NoFeed::Unreachable);
        }
        let Entity::Session(id) = entity else { return Err(NoFeed::NotFound) };
        let initial = self.initial(id);
        let happens = self.on_begin.lock().take();
        happens.into_iter().for_each(|happens| happens());
        initial
    }

    fn may_lag(&self, _entity: &Entity) -> bool {
        self.lags.load(Ordering::Relaxed)
    }

    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        panic!("{entity} is not awaited")
    }

    fn end(&self, entity: &Entity) {
        let Entity::Session(id) = entity else { panic!("{entity} was never begun") };
        if let Some(session) = self.sessions.lock().get_mut(id) {
            session.watched = false;
        }
    }

    fn purchases(&self, _customer: &Id, _after: u64, _limit: u32) -> Option<Vec<Purchase>> {
        panic!("no customer is watched")
    }
}

/// A client that keeps the maps it is told of, and believes nothing.
struct Reader {
    replica: Arc<Replica>,
    watcher: Watcher,
    encoding: Encoding,
    names: BTreeMap<u64, String>,
    maps: BTreeMap<String, (u64, Shown)>,
    epoch: u64,
    snapshots: usize,
    deltas: usize,
    ended: usize,
}

impl Reader {
    fn new(replica: &Arc<Replica>, feeds: &Feeds, encoding: Encoding) -> Reader {
        Reader {
            replica: Arc::clone(replica),
            watcher: feeds.watcher(),
            encoding,
            names: BTreeMap::new(),
            maps: BTreeMap::new(),
            epoch: EPOCH,
            snapshots: 0,
            deltas: 0,
            ended: 0,
        }
    }

    fn watch(&mut self, name: &str) -> Result<u64, NoFeed> {
        let since = self.maps.get(name).map(|(version, _)| since(self.epoch, *version));
        let feed = watch(&mut self.watcher, &session_of(name), since)?;
        self.names.insert(feed, name.to_owned());
        Ok(feed)
    }

    /// Pulls once; whether there is more.
    fn pull(&mut self, bytes_max: usize) -> bool {
        let mut frames = Vec::new();
        let more = self.watcher.pull(self.encoding, bytes_max, |event| frames.push(frame_of(event)));
        for frame in frames {
            self.take(&frame);
        }
        more
    }

    fn take(&mut self, frame: &Bytes) {
        let Ok(ServerFrame::Feed(feed, event)) = ServerFrame::read(self.encoding, frame) else {
            panic!("no frame of a feed: {frame:?}");
        };
        let name = self.names[&feed].clone();
        match event.read::<Snapshot>(self.encoding).expect("a readable event") {
            Event::Snapshot(snapshot) => {
                assert_eq!(snapshot.epoch, self.epoch);
                assert_eq!(snapshot.entity.to_string(), format!("session/{name}"));
                let seats = (0..self.replica.at(&name, 1).expect("the first").seats.len())
                    .map(|seat| state(snapshot.seats[seat / 4] >> (seat % 4 * 2) & 3))
                    .collect::<Vec<_>>();
                assert_eq!(snapshot.counts, counts(&seats), "counts of a snapshot (P5)");
                self.maps.insert(name.clone(), (snapshot.version, Shown { seats, areas: snapshot.areas }));
                self.snapshots += 1;
            }
            Event::Delta(delta) => {
                let (version, Shown { seats, areas }) = self.maps.get_mut(&name).expect("a delta follows a snapshot");
                assert!(delta.from <= *version, "a gap in the feed of {name}");
                assert!(delta.to > *version, "a delta of {name} that says nothing new");
                for (seat, state) in &delta.changes {
                    seats[*seat as usize] = *state;
                }
                for area in delta.areas {
                    let mine = areas.iter_mut().find(|mine| mine.area == area.area).expect("an area of the session");
                    *mine = area;
                }
                *version = delta.to;
                assert_eq!(delta.counts, counts(seats), "counts of a delta (P5)");
                self.deltas += 1;
            }
            Event::Ended(ended) => {
                assert_eq!(ended.name, "not_found");
                self.ended += 1;
                return;
            }
            Event::Stale(stale_ms) => panic!("{name} is {stale_ms} ms old"),
        }
        let (version, shown) = &self.maps[&name];
        assert_eq!(Some(shown), self.replica.at(&name, *version).as_ref(), "{name} was never so at {version} (P14)");
    }

    fn settle(&mut self) {
        while self.pull(1_000) {}
    }
}

/// Watches what begins at once, and takes its frames from now on.
fn watch(watcher: &mut Watcher, entity: &Entity, since: Option<Since>) -> Result<u64, NoFeed> {
    let Watching::Begun(feed) = watcher.watch(entity, View::Whole, since, 0)? else { panic!("{entity} is awaited") };
    watcher.release(feed);
    Ok(feed)
}

fn frame_of(event: FeedEvent) -> Bytes {
    let FeedEvent::Frame(frame) = event else { panic!("{event:?}, and nothing is awaited") };
    frame
}

fn id(name: &str) -> Id {
    Id::new(name).expect("a good id")
}

fn session_of(name: &str) -> Entity {
    Entity::Session(id(name))
}

fn since(epoch: u64, version: u64) -> Since {
    Since::Version(Resume { epoch, version })
}

fn places(area: &str, held: u32) -> AreaCounts {
    AreaCounts { area: id(area), free: PLACES - held, held, sold: 0 }
}

fn state(number: u8) -> SeatState {
    [SeatState::Free, SeatState::Held, SeatState::Sold, SeatState::Blocked][usize::from(number)]
}

fn counts(seats: &[SeatState]) -> SeatCounts {
    let count = |state| seats.iter().filter(|seat| **seat == state).count() as u32;
    SeatCounts {
        free: count(SeatState::Free),
        held: count(SeatState::Held),
        sold: count(SeatState::Sold),
        blocked: count(SeatState::Blocked),
    }
}

/// Runs a story on a clock that is only as late as the story waits.
fn story<F: Future<Output = ()>>(story: F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(tokio::task::LocalSet::new().run_until(story));
}

/// The clock of a story.
struct StoryClock(tokio::time::Instant);

impl Clock for StoryClock {
    fn wall_ms(&self) -> u64 {
        panic!("feeds have no use for the wall's time")
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).expect("a story is short")
    }
}

fn hub<S: FeedSource>(replica: &Arc<S>, coalesce_ms: u64) -> Feeds {
    let settings = FeedSettings { coalesce_ms, linger_ms: 1_000, epoch: EPOCH, ..FeedSettings::default() };
    let clock = Arc::new(StoryClock(tokio::time::Instant::now()));
    let feeds = Feeds::new(Arc::clone(replica) as Arc<dyn FeedSource>, settings, clock);
    let running = feeds.clone();
    tokio::task::spawn_local(async move { running.run().await });
    feeds
}

async fn wait(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn commit(feeds: &Feeds, replica: &Replica, name: &str, changes: &[(u32, SeatState)]) {
    feeds.commit(replica.change(name, changes, &[]).into_iter().collect());
}

#[test]
fn a_snapshot_then_a_delta_for_each_commit() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        assert!(!replica.is_watched("hamlet"));
        reader.watch("hamlet").expect("it is there");
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
        reader.watch("hamlet").expect("it is there");
        reader.settle();
        commit(&feeds, &replica, "hamlet", &[(9, SeatState::Blocked)]);
        wait(1).await;
        reader.settle();
        assert_eq!(reader.deltas, 1, "the first commit after a rest goes out at once");
        for seat in 0..5 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Free), (5, SeatState::Sold)]);
        }
        wait(18).await;
        reader.settle();
        assert_eq!(reader.deltas, 1, "within the tick nothing goes out");
        wait(2).await;
        reader.settle();
        assert_eq!((reader.deltas, reader.maps["hamlet"].0), (2, 12));
    });
}

/// While the hub publishes, an answer comes and a commit of something else: they wake it once. The commit is published when
/// the tick is over, also if nothing else ever happens.
#[test]
fn what_comes_while_others_are_being_told_is_published() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10), ("lear", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        for name in ["hamlet", "lear"] {
            reader.watch(name).expect("it is there");
        }
        reader.settle();
        let (busy, others) = (feeds.clone(), Arc::clone(&replica));
        *replica.on_begin.lock() = Some(Box::new(move || {
            // What is published of one is behind.
            others.change("lear", &[(1, SeatState::Held)], &[]);
            let newer = others.begin(&session_of("lear"));
            commit(&busy, &others, "hamlet", &[(2, SeatState::Held)]);
            busy.begun(session_of("lear"), newer);
        }));
        feeds.commit(vec![Commit::lost(session_of("hamlet"))]);
        wait(100).await;
        reader.settle();
        assert_eq!((reader.maps["hamlet"].0, reader.maps["lear"].0), (2, 2));
    });
}

/// A map that was read in the middle of a tick has what came back before its end: the delta says that as well.
#[test]
fn a_resume_from_a_version_inside_a_tick_is_answered_by_the_delta_around_it() {
    for (encoding, inside) in [(Encoding::Json, 3), (Encoding::MsgPack, 4), (Encoding::Json, 5), (Encoding::Json, 6)] {
        story(async {
            let replica = Replica::with(&[("hamlet", 10)]);
            let feeds = hub(&replica, 20);
            let mut other = Reader::new(&replica, &feeds, Encoding::Json);
            other.watch("hamlet").expect("it is there");
            other.settle();
            commit(&feeds, &replica, "hamlet", &[(9, SeatState::Blocked)]);
            wait(1).await;
            // One tick, of versions 3 to 7: seat 0 is held and free again, and so are places.
            let steps = [(0, SeatState::Held), (1, SeatState::Sold), (2, SeatState::Held), (0, SeatState::Free)];
            for (number, change) in steps.into_iter().enumerate() {
                let held = [(0, [7, 9, 8, 0][number])];
                feeds.commit(replica.change("hamlet", &[change], &held).into_iter().collect());
            }
            commit(&feeds, &replica, "hamlet", &[(2, SeatState::Sold)]);
            let shown = replica.at("hamlet", inside).expect("it was so");
            wait(30).await;
            commit(&feeds, &replica, "hamlet", &[(4, SeatState::Sold)]);
            wait(30).await;
            let mut reader = Reader::new(&replica, &feeds, encoding);
            reader.maps.insert("hamlet".into(), (inside, shown));
            reader.watch("hamlet").expect("it is there");
            reader.settle();
            assert_eq!((reader.snapshots, reader.deltas), (0, 2), "from version {inside}");
            other.settle();
            assert_eq!(reader.maps, other.maps);
        });
    }
}

/// The data was set back: what was version 6 is version 3 now, and something else.
#[test]
fn another_epoch_begins_every_feed_anew_at_once() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("hamlet").expect("it is there");
        reader.settle();
        for seat in 0..5 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
        }
        wait(1).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas, reader.maps["hamlet"].0), (1, 5, 6));
        replica.sessions.lock().get_mut(&id("hamlet")).expect("it is there").versions.split_off(&3);
        replica.change("hamlet", &[(9, SeatState::Sold)], &[]);
        feeds.set_epoch(EPOCH + 1);
        reader.epoch = EPOCH + 1;
        wait(1).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.maps["hamlet"].0), (2, 3), "who watches is told at once");
        commit(&feeds, &replica, "hamlet", &[(8, SeatState::Sold)]);
        wait(1).await;
        reader.settle();
        assert_eq!((reader.deltas, reader.maps["hamlet"].0), (6, 4));
        // Who comes back with a version of before is told everything, also if there is such a version again.
        let mut late = Reader::new(&replica, &feeds, Encoding::MsgPack);
        late.epoch = EPOCH + 1;
        let feed = watch(&mut late.watcher, &session_of("hamlet"), Some(since(EPOCH, 4))).expect("it is there");
        late.names.insert(feed, "hamlet".into());
        late.settle();
        assert_eq!((late.snapshots, late.maps["hamlet"].0), (1, 4));
    });
}

#[test]
fn who_is_too_slow_gets_the_newest_snapshot() {
    story(async {
        let replica = Replica::with(&[("hamlet", 400)]);
        let feeds = hub(&replica, 0);
        let mut slow = Reader::new(&replica, &feeds, Encoding::MsgPack);
        let mut quick = Reader::new(&replica, &feeds, Encoding::MsgPack);
        for reader in [&mut slow, &mut quick] {
            reader.watch("hamlet").expect("it is there");
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

#[test]
fn a_resume_gives_what_was_missed_or_a_snapshot() {
    story(async {
        let replica = Replica::with(&[("hamlet", 400)]);
        let feeds = hub(&replica, 0);
        let mut other = Reader::new(&replica, &feeds, Encoding::Json);
        other.watch("hamlet").expect("it is there");
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        let feed = reader.watch("hamlet").expect("it is there");
        reader.settle();
        assert!(reader.watcher.unwatch(feed) && !reader.watcher.unwatch(feed));
        for seat in 0..3 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Held)]);
        }
        wait(1).await;
        assert!(!reader.pull(1_000) && reader.deltas == 0, "nothing comes when nothing is watched");
        assert_eq!(reader.watch("hamlet"), Ok(feed), "the number is the node's");
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (1, 3), "inside the ring: what was missed");
        // Watching again what is watched sets the version anew; here nothing is missing.
        reader.watch("hamlet").expect("it is there");
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas, reader.watcher.len()), (1, 3, 1));
        reader.watcher.unwatch(feed);
        for seat in 0..300 {
            commit(&feeds, &replica, "hamlet", &[(seat, SeatState::Sold)]);
            wait(1).await;
        }
        reader.watch("hamlet").expect("it is there");
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (2, 3), "beyond the ring: a snapshot");
        // A version of another epoch says nothing.
        watch(&mut reader.watcher, &session_of("hamlet"), Some(since(EPOCH + 1, 304))).expect("it is there");
        reader.settle();
        assert_eq!(reader.snapshots, 3);
    });
}

#[test]
fn who_is_ahead_of_the_hub_goes_on_where_it_was_or_gets_a_snapshot() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch("hamlet").expect("it is there");
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
        loaded.watch("hamlet").expect("it is there");
        loaded.settle();
        assert_eq!((loaded.snapshots, loaded.deltas), (0, 0), "it has what is to be published");
        wait(20).await;
        loaded.settle();
        assert_eq!((loaded.snapshots, loaded.deltas), (0, 0));
        commit(&feeds, &replica, "hamlet", &[(9, SeatState::Held)]);
        wait(20).await;
        loaded.settle();
        assert_eq!((loaded.snapshots, loaded.deltas), (0, 1));
        // A version that was never there is not waited for.
        loaded.maps.get_mut("hamlet").expect("loaded").0 = 10_000;
        loaded.watch("hamlet").expect("it is there");
        loaded.settle();
        assert_eq!(loaded.snapshots, 1);
    });
}

#[test]
fn a_node_that_stood_still_has_not_waited_for_what_a_watcher_has() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        replica.lags.store(true, Ordering::Relaxed);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.maps.insert("hamlet".into(), (7, replica.at("hamlet", 1).expect("the first")));
        reader.watch("hamlet").expect("it is there");
        wait(1_500).await;
        // Nothing runs meanwhile.
        tokio::time::advance(Duration::from_secs(90)).await;
        reader.settle();
        assert_eq!(reader.snapshots, 0, "an older map, although the newer one had no time to come");
        wait(55_000).await;
        reader.settle();
        assert_eq!(reader.snapshots, 0);
        wait(5_000).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.maps["hamlet"].0), (1, 1), "it was waited for long enough");
    });
}

#[test]
fn the_source_is_told_when_the_last_watcher_has_gone() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        let feed = reader.watch("hamlet").expect("it is there");
        drop(reader);
        wait(900).await;
        assert!(replica.is_watched("hamlet"), "somebody may come back");
        let mut back = Reader::new(&replica, &feeds, Encoding::Json);
        assert_eq!(back.watch("hamlet"), Ok(feed));
        wait(2_000).await;
        assert!(replica.is_watched("hamlet"));
        assert_eq!(feeds.counts(), (1, 1));
        drop(back);
        wait(1_100).await;
        assert!(!replica.is_watched("hamlet"));
        assert_eq!(feeds.counts(), (0, 0));
        // What is committed meanwhile is in the map the next feed begins with.
        commit(&feeds, &replica, "hamlet", &[(3, SeatState::Sold)]);
        let mut next = Reader::new(&replica, &feeds, Encoding::Json);
        next.watch("hamlet").expect("it is there");
        next.settle();
        assert_eq!(next.maps["hamlet"].0, 2);
    });
}

#[test]
fn a_session_that_is_not_there_is_not_kept_and_may_come() {
    story(async {
        let replica = Replica::with(&[]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        assert_eq!(reader.watch("hamlet"), Err(NoFeed::NotFound));
        assert_eq!((feeds.counts(), reader.watcher.is_empty()), ((0, 0), true));
        replica.open("hamlet", 10);
        reader.watch("hamlet").expect("it is there now");
        reader.settle();
        assert_eq!(reader.snapshots, 1);
    });
}

#[test]
fn a_feed_that_is_out_of_reach_stays_and_goes_on_when_it_can() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch("hamlet").expect("it is there");
        reader.settle();
        replica.out_of_reach.store(true, Ordering::Relaxed);
        replica.change("hamlet", &[(1, SeatState::Held)], &[]);
        feeds.commit(vec![Commit::lost(session_of("hamlet"))]);
        wait(1_000).await;
        reader.settle();
        assert_eq!((reader.maps["hamlet"].0, reader.snapshots, reader.ended), (1, 1, 0), "it keeps what it has");
        let mut late = Reader::new(&replica, &feeds, Encoding::Json);
        assert_eq!(late.watch("macbeth"), Err(NoFeed::Unreachable), "nobody can tell whether it is there");
        replica.out_of_reach.store(false, Ordering::Relaxed);
        wait(1_000).await;
        reader.settle();
        assert_eq!((reader.maps["hamlet"].0, reader.snapshots, reader.ended), (2, 2, 0));
    });
}

#[test]
fn what_comes_with_a_lost_commit_does_not_hide_that_it_was_lost() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("hamlet").expect("it is there");
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
fn a_feed_does_not_go_back_with_one_who_is_behind() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("hamlet").expect("it is there");
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

#[test]
fn a_gap_in_the_commits_gives_a_snapshot_and_the_end_of_a_session_an_end() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch("hamlet").expect("it is there");
        reader.settle();
        // A replica that was given a snapshot by its leader has no commits in between.
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
fn places_that_change_are_told_also_without_seats() {
    story(async {
        let replica = Replica::with(&[("hamlet", 10)]);
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("hamlet").expect("it is there");
        reader.settle();
        let mut frames = Vec::new();
        for held in [7, 3] {
            feeds.commit(replica.change("hamlet", &[], &[(1, held)]).into_iter().collect());
        }
        wait(20).await;
        reader.watcher.pull(Encoding::Json, 1_000, |event| frames.push(frame_of(event)));
        let texts: Vec<_> = frames.iter().map(|frame| std::str::from_utf8(frame).expect("JSON")).collect();
        let [text] = texts[..] else { panic!("one delta a tick: {texts:?}") };
        assert!(text.contains(r#""changes":[]"#), "{text}");
        assert!(text.contains(r#""areas":[{"area":"lawn","free":47,"held":3,"sold":0}]"#), "{text}");
        reader.take(&frames[0]);
        assert_eq!(reader.maps["hamlet"].0, 3);
    });
}

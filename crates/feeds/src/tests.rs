//! Watchers rebuild the map of a session without gaps. `kinds` has the watchers of all other entities.

mod behind;
mod counts;
mod elsewhere;
mod kinds;
mod lifecycle;
mod publishing;
mod random;
mod resuming;
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
use tracing_mutex::parkinglot::Mutex;

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
    /// No node with the sessions can be reached.
    out_of_reach: AtomicBool,
    /// The source has only the first versions.
    behind: AtomicBool,
    /// Newer versions may come.
    lags: AtomicBool,
    /// Runs at the next start of a feed.
    on_begin: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

struct Session {
    versions: BTreeMap<u64, Shown>,
    watched: bool,
}

/// The state of a session that a watcher must see.
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

    /// Changes seats and the held places of areas. Returns the commit if the session is watched.
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
        let update = FeedUpdate::Session { seats: changes.to_vec(), areas, sale: None };
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
        Ok(InitialState::Session(MapView {
            session: id.clone(),
            epoch: 0,
            version,
            counts,
            areas,
            seats: packed,
            sale: None,
        }))
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
        panic!("unexpected request for {entity} elsewhere")
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

/// A client that rebuilds maps and checks each of them against the replica.
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
    /// The length of the longest frame that it got while it was behind.
    longest: usize,
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
            longest: 0,
        }
    }

    fn watch(&mut self, name: &str) -> Result<u64, NoFeed> {
        let since = self.maps.get(name).map(|(version, _)| since(self.epoch, *version));
        let feed = watch(&mut self.watcher, &session_of(name), since)?;
        self.names.insert(feed, name.to_owned());
        Ok(feed)
    }

    /// Pulls once and returns whether there is more.
    fn pull(&mut self, bytes_max: usize) -> bool {
        let mut frames = Vec::new();
        let more = self.watcher.pull(self.encoding, bytes_max, |event| frames.push(frame_of(event)));
        for frame in frames {
            self.take(&frame);
        }
        more
    }

    /// As [`Reader::pull`], as a watcher that is behind.
    fn pull_behind(&mut self, bytes_max: usize) -> bool {
        let mut frames = Vec::new();
        let more = self.watcher.pull_behind(self.encoding, bytes_max, |event| frames.push(frame_of(event)));
        for frame in frames {
            self.longest = self.longest.max(frame.len());
            self.take(&frame);
        }
        more
    }

    fn take(&mut self, frame: &Bytes) {
        let Ok(ServerFrame::Feed(feed, event)) = ServerFrame::read(self.encoding, frame) else {
            panic!("not a frame of a feed: {frame:?}");
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
                assert!(delta.to > *version, "a delta of {name} without changes");
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
        assert_eq!(
            Some(shown),
            self.replica.at(&name, *version).as_ref(),
            "{name} had another state at {version} (P14)"
        );
    }

    fn settle(&mut self) {
        while self.pull(1_000) {}
    }
}

/// Starts a watch that must begin at once, and releases its frames.
fn watch(watcher: &mut Watcher, entity: &Entity, since: Option<Since>) -> Result<u64, NoFeed> {
    let Watching::Begun(feed) = watcher.watch(entity, View::Whole, since, 0)? else { panic!("{entity} is pending") };
    watcher.release(feed);
    Ok(feed)
}

fn frame_of(event: FeedEvent) -> Bytes {
    let FeedEvent::Frame(frame) = event else { panic!("unexpected {event:?}") };
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

/// Runs a test on a paused clock, which only advances while the test waits.
fn story<F: Future<Output = ()>>(story: F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(tokio::task::LocalSet::new().run_until(story));
}

/// The clock of a story.
struct StoryClock(tokio::time::Instant);

impl Clock for StoryClock {
    fn wall_ms(&self) -> u64 {
        panic!("feeds do not use wall time")
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

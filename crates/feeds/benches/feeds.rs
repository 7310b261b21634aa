//! The cost of a fan-out without sockets: one delta from its commit until every watcher's task has taken the frame.
//! Tokio's channels, which do less (no rings, positions or encodings, and one feed for each connection), are measured
//! beside it.
//!
//! `cargo bench -p boxoffice-feeds --bench feeds`

#![allow(clippy::disallowed_methods, reason = "a bench reaches the clock as it likes")]

use std::{
    cell::Cell,
    hint::black_box,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use boxoffice_core::{
    answer::{MapView, Purchase, SeatCounts},
    id::{Entity, Id},
    seat::SeatState,
};
use boxoffice_env::OsClock;
use boxoffice_feeds::{
    Commit, FeedEvent, FeedSettings, FeedSource, FeedUpdate, Feeds, InitialState, NoFeed, View, Watching,
};
use boxoffice_wire::Encoding;
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokio::{
    runtime::Builder,
    sync::{Notify, broadcast, watch},
    task::{LocalSet, spawn_local},
};

/// Seats of the session.
const SEATS: u32 = 900;

/// Bytes of a delta of one seat.
const FRAME_BYTES: usize = 90;

/// One session, all free.
struct Theatre;

impl FeedSource for Theatre {
    fn begin(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        let Entity::Session(session) = entity else { return Err(NoFeed::NotFound) };
        let counts = SeatCounts { free: SEATS, held: 0, sold: 0, blocked: 0 };
        let (session, seats) = (session.clone(), vec![0; SEATS.div_ceil(4) as usize]);
        Ok(InitialState::Session(MapView {
            session,
            epoch: 0,
            version: 1,
            counts,
            areas: Vec::new(),
            seats,
            sale: None,
        }))
    }

    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        self.begin(entity)
    }

    fn may_lag(&self, _entity: &Entity) -> bool {
        false
    }

    fn end(&self, _entity: &Entity) {}

    fn purchases(&self, _customer: &Id, _after: u64, _limit: u32) -> Option<Vec<Purchase>> {
        None
    }
}

/// The number of watchers that have taken the frame, and the waiting bench.
#[derive(Default)]
struct Taken {
    count: Cell<usize>,
    all: Notify,
}

impl Taken {
    fn take(&self, frame: &Bytes, watchers: usize) {
        black_box(frame.len());
        self.count.set(self.count.get() + 1);
        if self.count.get() == watchers {
            self.all.notify_one();
        }
    }
}

/// Times rounds of `tell`, each until all watchers have taken its frame.
async fn rounds(rounds: u64, taken: &Taken, mut tell: impl FnMut(u64)) -> Duration {
    let began = Instant::now();
    for round in 0..rounds {
        taken.count.set(0);
        tell(round);
        taken.all.notified().await;
    }
    began.elapsed()
}

/// Feeds of a node, as connections use them.
async fn ours(watchers: usize, times: u64) -> Duration {
    let settings = FeedSettings { coalesce_ms: 0, ..FeedSettings::default() };
    let feeds = Feeds::new(Arc::new(Theatre), settings, Arc::new(OsClock::new()));
    let session = Entity::Session(Id::new("hamlet").expect("an id"));
    let running = feeds.clone();
    spawn_local(async move { running.run().await });
    let taken = Rc::new(Taken::default());
    for _ in 0..watchers {
        let (mut watcher, taken) = (feeds.watcher(), Rc::clone(&taken));
        let watching = watcher.watch(&session, View::Whole, None, 0);
        let Ok(Watching::Begun(feed)) = watching else { panic!("{watching:?}") };
        watcher.release(feed);
        spawn_local(async move {
            loop {
                watcher.ready().await;
                watcher.pull(Encoding::MsgPack, 1 << 16, |said| match said {
                    FeedEvent::Frame(frame) => taken.take(&frame, watchers),
                    said => panic!("{said:?}"),
                });
            }
        });
    }
    // Snapshots first.
    taken.all.notified().await;
    rounds(times, &taken, |round| {
        let state = if round % 2 == 0 { SeatState::Held } else { SeatState::Free };
        let update = FeedUpdate::Session { seats: vec![(7, state)], areas: Vec::new(), sale: None };
        feeds.commit(vec![Commit { entity: session.clone(), from: round + 1, to: round + 2, update }]);
    })
    .await
}

/// Sends every frame to every receiver. A slow receiver loses frames and learns how many.
async fn broadcasts(watchers: usize, times: u64) -> Duration {
    let (tell, _) = broadcast::channel::<Bytes>(256);
    let taken = Rc::new(Taken::default());
    for _ in 0..watchers {
        let (mut told, taken) = (tell.subscribe(), Rc::clone(&taken));
        spawn_local(async move {
            while let Ok(frame) = told.recv().await {
                taken.take(&frame, watchers);
            }
        });
    }
    tokio::task::yield_now().await;
    let frame = Bytes::from(vec![0; FRAME_BYTES]);
    rounds(times, &taken, |_| _ = tell.send(frame.clone())).await
}

/// Gives every receiver only the newest frame.
async fn newest(watchers: usize, times: u64) -> Duration {
    let (tell, told) = watch::channel(Bytes::new());
    let taken = Rc::new(Taken::default());
    for _ in 0..watchers {
        let (mut told, taken) = (told.clone(), Rc::clone(&taken));
        spawn_local(async move {
            while told.changed().await.is_ok() {
                let frame = told.borrow_and_update().clone();
                taken.take(&frame, watchers);
            }
        });
    }
    tokio::task::yield_now().await;
    let frame = Bytes::from(vec![0; FRAME_BYTES]);
    rounds(times, &taken, |_| _ = tell.send(frame.clone())).await
}

fn timed(story: Pin<Box<dyn Future<Output = Duration>>>) -> Duration {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, story)
}

fn telling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("telling watchers");
    for watchers in [100, 10_000] {
        group.throughput(Throughput::Elements(watchers as u64));
        group.bench_function(BenchmarkId::new("feeds", watchers), |bencher| {
            bencher.iter_custom(|times| timed(Box::pin(ours(watchers, times))));
        });
        group.bench_function(BenchmarkId::new("tokio broadcast", watchers), |bencher| {
            bencher.iter_custom(|times| timed(Box::pin(broadcasts(watchers, times))));
        });
        group.bench_function(BenchmarkId::new("tokio watch", watchers), |bencher| {
            bencher.iter_custom(|times| timed(Box::pin(newest(watchers, times))));
        });
    }
    group.finish();
}

criterion_group!(benches, telling);
criterion_main!(benches);

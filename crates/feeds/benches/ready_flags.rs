//! Ready flags alone, beside the same made of tokio's primitives. One round is a few changes of each feed of each
//! connection, until every connection has taken the numbers of all its feeds.
//!
//! `cargo bench -p boxoffice-feeds --bench ready_flags`

#![allow(clippy::disallowed_methods, reason = "a bench reaches the clock as it likes")]

use std::{
    cell::Cell,
    collections::VecDeque,
    pin::Pin,
    rc::Rc,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokio::{
    runtime::Builder,
    sync::{Notify, mpsc, watch},
    task::{LocalSet, spawn_local},
};

use sync::{Arc, Mutex, Ordering};

#[path = "../src/sync.rs"]
mod sync;

#[expect(dead_code, reason = "the bench leaves out what a watcher does that is behind")]
#[path = "../src/ready.rs"]
mod ready;

/// Changes of a feed before the connection looks. They wake it once.
const CHANGES: usize = 3;

/// A notification of one feed.
trait Told {
    /// Notifies of one change.
    fn set(&self);
}

/// The number of taken feeds, and the waiting bench.
#[derive(Default)]
struct Taken {
    count: Cell<usize>,
    all: Notify,
}

impl Taken {
    fn take(&self, feeds: usize, of: usize) {
        self.count.set(self.count.get() + feeds);
        if self.count.get() == of {
            self.all.notify_one();
        }
    }
}

/// Times rounds, each until all feeds were taken.
async fn rounds(times: u64, taken: &Taken, told: &[impl Told]) -> Duration {
    // All connections wait now.
    tokio::task::yield_now().await;
    let began = Instant::now();
    for _ in 0..times {
        taken.count.set(0);
        for ready in told {
            for _ in 0..CHANGES {
                ready.set();
            }
        }
        taken.all.notified().await;
    }
    began.elapsed()
}

/// [`ready::ReadyFlag`].
impl Told for Arc<ready::ReadyFlag> {
    fn set(&self) {
        ready::ReadyFlag::set(self);
    }
}

async fn ours(connections: usize, feeds: usize, times: u64) -> Duration {
    let taken = Rc::new(Taken::default());
    let mut told = Vec::new();
    for _ in 0..connections {
        let ready_list = Arc::new(ready::ReadyList::default());
        let ready_flags: Vec<Arc<ready::ReadyFlag>> =
            (0..feeds).map(|feed| Arc::new(ready::ReadyFlag::new(feed as u64, Arc::clone(&ready_list)))).collect();
        told.extend(ready_flags.iter().cloned());
        let taken = Rc::clone(&taken);
        spawn_local(async move {
            let mut due = VecDeque::new();
            loop {
                ready_list.some().await;
                ready_list.take(&mut due);
                due.iter().for_each(|feed| ready_flags[*feed as usize].clear());
                taken.take(due.len(), connections * feeds);
                due.clear();
            }
        });
    }
    rounds(times, &taken, &told).await
}

/// The same with [`Notify`] in the place of the waker.
struct Notified {
    feed: u64,
    marked: AtomicBool,
    due: Arc<(Mutex<Vec<u64>>, Notify)>,
}

impl Told for Arc<Notified> {
    fn set(&self) {
        if !self.marked.swap(true, Ordering::AcqRel) {
            self.due.0.lock().push(self.feed);
            self.due.1.notify_one();
        }
    }
}

async fn notified(connections: usize, feeds: usize, times: u64) -> Duration {
    let taken = Rc::new(Taken::default());
    let mut told = Vec::new();
    for _ in 0..connections {
        let due = Arc::new((Mutex::default(), Notify::new()));
        let ready_flags: Vec<Arc<Notified>> = (0..feeds as u64)
            .map(|feed| Arc::new(Notified { feed, marked: AtomicBool::new(false), due: Arc::clone(&due) }))
            .collect();
        told.extend(ready_flags.iter().cloned());
        let taken = Rc::clone(&taken);
        spawn_local(async move {
            let mut looked = Vec::new();
            loop {
                due.1.notified().await;
                looked.append(&mut *due.0.lock());
                for feed in &looked {
                    ready_flags[*feed as usize].marked.swap(false, Ordering::AcqRel);
                }
                taken.take(looked.len(), connections * feeds);
                looked.clear();
            }
        });
    }
    rounds(times, &taken, &told).await
}

/// A channel of numbers of feeds for each connection.
struct Sent {
    feed: u64,
    marked: AtomicBool,
    due: mpsc::UnboundedSender<u64>,
}

impl Told for Arc<Sent> {
    fn set(&self) {
        if !self.marked.swap(true, Ordering::AcqRel) {
            self.due.send(self.feed).expect("the connection is there");
        }
    }
}

async fn sent(connections: usize, feeds: usize, times: u64) -> Duration {
    let taken = Rc::new(Taken::default());
    let mut told = Vec::new();
    for _ in 0..connections {
        let (send, mut due) = mpsc::unbounded_channel();
        let ready_flags: Vec<Arc<Sent>> = (0..feeds as u64)
            .map(|feed| Arc::new(Sent { feed, marked: AtomicBool::new(false), due: send.clone() }))
            .collect();
        told.extend(ready_flags.iter().cloned());
        let taken = Rc::clone(&taken);
        spawn_local(async move {
            let mut looked = Vec::new();
            while due.recv_many(&mut looked, feeds).await > 0 {
                for feed in &looked {
                    ready_flags[*feed as usize].marked.swap(false, Ordering::AcqRel);
                }
                taken.take(looked.len(), connections * feeds);
                looked.clear();
            }
        });
    }
    rounds(times, &taken, &told).await
}

/// A watch channel for each feed, and a waiting task for each feed and connection.
impl Told for watch::Sender<()> {
    fn set(&self) {
        self.send_replace(());
    }
}

async fn newest(connections: usize, feeds: usize, times: u64) -> Duration {
    let taken = Rc::new(Taken::default());
    let mut told = Vec::new();
    for _ in 0..connections * feeds {
        let (send, mut due) = watch::channel(());
        told.push(send);
        let taken = Rc::clone(&taken);
        spawn_local(async move {
            while due.changed().await.is_ok() {
                taken.take(1, connections * feeds);
            }
        });
    }
    rounds(times, &taken, &told).await
}

fn timed(story: Pin<Box<dyn Future<Output = Duration>>>) -> Duration {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, story)
}

fn telling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("marks");
    for (connections, feeds) in [(10_000, 1), (100, 100)] {
        let name = format!("{connections} connections, {feeds} feeds each");
        group.throughput(Throughput::Elements((connections * feeds) as u64));
        group.bench_function(BenchmarkId::new("ours", &name), |bencher| {
            bencher.iter_custom(|times| timed(Box::pin(ours(connections, feeds, times))));
        });
        group.bench_function(BenchmarkId::new("tokio notify", &name), |bencher| {
            bencher.iter_custom(|times| timed(Box::pin(notified(connections, feeds, times))));
        });
        group.bench_function(BenchmarkId::new("tokio mpsc", &name), |bencher| {
            bencher.iter_custom(|times| timed(Box::pin(sent(connections, feeds, times))));
        });
        group.bench_function(BenchmarkId::new("tokio watch", &name), |bencher| {
            bencher.iter_custom(|times| timed(Box::pin(newest(connections, feeds, times))));
        });
    }
    group.finish();
}

criterion_group!(benches, telling);
criterion_main!(benches);

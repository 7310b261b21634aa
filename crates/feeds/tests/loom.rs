//! Marks between who publishes and who watches, in every order of a model of weak memory (loom): whatever is published is read, or
//! told of once more.

use std::collections::VecDeque;

use sync::{Arc, AtomicU64, Ordering};

/// What `ready.rs` is built of, from loom.
mod sync {
    use std::task::Waker;

    pub(super) use loom::sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    };

    /// As `parking_lot`'s: it is not poisoned.
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(T::default()))
        }
    }

    impl<T> Mutex<T> {
        pub(super) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("nobody panics with it")
        }
    }

    /// As that of futures.
    #[derive(Default)]
    pub(super) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(super) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }

        pub(super) fn wake(&self) {
            self.0.wake();
        }
    }
}

#[path = "../src/ready.rs"]
mod ready;

use ready::{ReadyFlag, ReadyList};

const FEED: u64 = 3;

/// Every order of the threads with so many switches that nobody asked for.
fn explore(story: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(story);
}

/// Waits for the mark and takes it, as a connection does.
fn look(ready_list: &ReadyList, ready: &ReadyFlag) {
    let mut due = VecDeque::new();
    loom::future::block_on(ready_list.some());
    ready_list.take(&mut due);
    assert!(due.iter().all(|feed| *feed == FEED) && due.len() == 1, "each feed once: {due:?}");
    ready.clear();
}

/// What is published of an entity: a version that is read without a lock, which is the weakest a reader may rely on.
#[test]
fn what_is_published_is_read_or_told_of_again() {
    explore(|| {
        let ready_list = Arc::new(ReadyList::default());
        let ready = Arc::new(ReadyFlag::new(FEED, Arc::clone(&ready_list)));
        let published = Arc::new(AtomicU64::new(0));
        let publisher = {
            let (ready, published) = (Arc::clone(&ready), Arc::clone(&published));
            loom::thread::spawn(move || {
                for version in 1..=2 {
                    published.store(version, Ordering::Relaxed);
                    ready.set();
                }
            })
        };
        // It would wait for ever if what it has not read were not told of.
        while published_after(&ready_list, &ready, &published) < 2 {}
        publisher.join().expect("it publishes");
    });
}

fn published_after(ready_list: &ReadyList, ready: &ReadyFlag, published: &AtomicU64) -> u64 {
    look(ready_list, ready);
    published.load(Ordering::Relaxed)
}

#[test]
fn two_feeds_of_a_connection_are_both_told_of() {
    explore(|| {
        let ready_list = Arc::new(ReadyList::default());
        let publishers: Vec<_> = [FEED, FEED + 1]
            .into_iter()
            .map(|feed| {
                let ready = ReadyFlag::new(feed, Arc::clone(&ready_list));
                loom::thread::spawn(move || ready.set())
            })
            .collect();
        let mut due = VecDeque::new();
        while due.len() < 2 {
            loom::future::block_on(ready_list.some());
            ready_list.take(&mut due);
        }
        due.make_contiguous().sort_unstable();
        assert_eq!(due, [FEED, FEED + 1]);
        publishers.into_iter().for_each(|publisher| publisher.join().expect("it publishes"));
    });
}

#[test]
fn two_publishers_mark_a_feed_once() {
    explore(|| {
        let ready_list = Arc::new(ReadyList::default());
        let ready = Arc::new(ReadyFlag::new(FEED, Arc::clone(&ready_list)));
        let publishers: Vec<_> = (0..2)
            .map(|_| {
                let ready = Arc::clone(&ready);
                loom::thread::spawn(move || ready.set())
            })
            .collect();
        publishers.into_iter().for_each(|publisher| publisher.join().expect("it publishes"));
        look(&ready_list, &ready);
        let mut due = VecDeque::new();
        ready_list.take(&mut due);
        assert!(due.is_empty(), "{due:?}");
    });
}

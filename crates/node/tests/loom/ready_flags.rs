//! Each publication of a feed is read, or flagged once more.

use std::collections::VecDeque;

use crate::{
    explore,
    ready::{ReadyFlag, ReadyList},
    sync::{Arc, AtomicU64, Ordering},
};

const FEED: u64 = 3;

/// Waits for the ready feed and takes it, as a connection does.
fn take_ready(ready_list: &ReadyList, ready: &ReadyFlag) {
    let mut due = VecDeque::new();
    loom::future::block_on(ready_list.some());
    ready_list.take(&mut due);
    assert!(due.iter().all(|feed| *feed == FEED) && due.len() == 1, "each feed once: {due:?}");
    ready.clear();
}

/// The publication is a version that is read without a lock, the weakest order that a reader may rely on.
#[test]
fn a_publication_is_read_or_flagged_again() {
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
        // Otherwise it would wait for ever for a publication that is neither read nor flagged.
        while published_after(&ready_list, &ready, &published) < 2 {}
        publisher.join().expect("the publisher ends without a panic");
    });
}

fn published_after(ready_list: &ReadyList, ready: &ReadyFlag, published: &AtomicU64) -> u64 {
    take_ready(ready_list, ready);
    published.load(Ordering::Relaxed)
}

/// A connection that has not read everything keeps the feed among its due ones and pulls again.
#[test]
fn a_publication_is_read_or_flagged_again_while_the_feed_stays_due() {
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
        take_ready(&ready_list, &ready);
        match ready.keep() {
            true => take_ready(&ready_list, &ready),
            false => ready.clear(),
        }
        let read = published.load(Ordering::Relaxed);
        publisher.join().expect("the publisher ends without a panic");
        let mut due = VecDeque::new();
        ready_list.take(&mut due);
        assert!(read == 2 || due == [FEED], "version {read} was read, and {due:?} is ready");
    });
}

#[test]
fn two_feeds_of_a_connection_both_become_ready() {
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
        publishers.into_iter().for_each(|publisher| publisher.join().expect("the publisher ends without a panic"));
    });
}

#[test]
fn two_publishers_flag_a_feed_once() {
    explore(|| {
        let ready_list = Arc::new(ReadyList::default());
        let ready = Arc::new(ReadyFlag::new(FEED, Arc::clone(&ready_list)));
        let publishers: Vec<_> = (0..2)
            .map(|_| {
                let ready = Arc::clone(&ready);
                loom::thread::spawn(move || ready.set())
            })
            .collect();
        publishers.into_iter().for_each(|publisher| publisher.join().expect("the publisher ends without a panic"));
        take_ready(&ready_list, &ready);
        let mut due = VecDeque::new();
        ready_list.take(&mut due);
        assert!(due.is_empty(), "{due:?}");
    });
}

//! What threads tell each other without a lock, in every order of a model of weak memory (loom). Marks between who publishes
//! and who watches: whatever is published is read, or told of once more. A queue whose reader sleeps: nothing stays in it. An
//! actor that leaves its entity, or begins it anew: no message is lost, nothing is in flight, and it does.

use std::collections::VecDeque;

use sync::{Arc, AtomicU64, Mutex, Ordering};

/// What `mark.rs` is built of, from loom.
mod sync {
    use std::task::Waker;

    pub(super) use loom::sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    };

    /// As `parking_lot`'s: it is not poisoned.
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(T::default()))
        }
    }

    impl<T> Mutex<T> {
        pub(super) fn new(inside: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(inside))
        }

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

#[path = "../src/feeds/mark.rs"]
mod mark;

#[path = "../src/queue.rs"]
mod queue;

#[expect(dead_code, reason = "the models leave out what only the actor calls")]
#[path = "../src/under_way.rs"]
mod under_way;

use mark::{Dirty, Mark};
use queue::Queue;
use under_way::UnderWay;

const FEED: u64 = 3;

/// Every order of the threads with so many switches that nobody asked for.
fn explore(story: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(story);
}

/// Waits for the mark and takes it, as a connection does.
fn look(dirty: &Dirty, mark: &Mark) {
    let mut due = VecDeque::new();
    loom::future::block_on(dirty.some());
    dirty.take(&mut due);
    assert!(due.iter().all(|feed| *feed == FEED) && due.len() == 1, "each feed once: {due:?}");
    mark.clear();
}

/// What is published of an entity: a version that is read without a lock, which is the weakest a reader may rely on.
#[test]
fn what_is_published_is_read_or_told_of_again() {
    explore(|| {
        let dirty = Arc::new(Dirty::default());
        let mark = Arc::new(Mark::new(FEED, Arc::clone(&dirty)));
        let published = Arc::new(AtomicU64::new(0));
        let publisher = {
            let (mark, published) = (Arc::clone(&mark), Arc::clone(&published));
            loom::thread::spawn(move || {
                for version in 1..=2 {
                    published.store(version, Ordering::Relaxed);
                    mark.set();
                }
            })
        };
        // It would wait for ever if what it has not read were not told of.
        while published_after(&dirty, &mark, &published) < 2 {}
        publisher.join().expect("it publishes");
    });
}

fn published_after(dirty: &Dirty, mark: &Mark, published: &AtomicU64) -> u64 {
    look(dirty, mark);
    published.load(Ordering::Relaxed)
}

#[test]
fn two_feeds_of_a_connection_are_both_told_of() {
    explore(|| {
        let dirty = Arc::new(Dirty::default());
        let publishers: Vec<_> = [FEED, FEED + 1]
            .into_iter()
            .map(|feed| {
                let mark = Mark::new(feed, Arc::clone(&dirty));
                loom::thread::spawn(move || mark.set())
            })
            .collect();
        let mut due = VecDeque::new();
        while due.len() < 2 {
            loom::future::block_on(dirty.some());
            dirty.take(&mut due);
        }
        due.make_contiguous().sort_unstable();
        assert_eq!(due, [FEED, FEED + 1]);
        publishers.into_iter().for_each(|publisher| publisher.join().expect("it publishes"));
    });
}

#[test]
fn two_publishers_mark_a_feed_once() {
    explore(|| {
        let dirty = Arc::new(Dirty::default());
        let mark = Arc::new(Mark::new(FEED, Arc::clone(&dirty)));
        let publishers: Vec<_> = (0..2)
            .map(|_| {
                let mark = Arc::clone(&mark);
                loom::thread::spawn(move || mark.set())
            })
            .collect();
        publishers.into_iter().for_each(|publisher| publisher.join().expect("it publishes"));
        look(&dirty, &mark);
        let mut due = VecDeque::new();
        dirty.take(&mut due);
        assert!(due.is_empty(), "{due:?}");
    });
}

/// The reader of a queue as a thread is: it sleeps without a bound, so it would for ever if it were not woken.
fn read(queue: &Queue<u32>, into: &mut Vec<u32>) {
    if queue.falls_asleep(into) {
        loom::thread::park();
        queue.awakes(into);
    }
}

#[test]
fn a_reader_that_sleeps_is_woken_by_whoever_pushes() {
    explore(|| {
        let queue = Arc::new(Queue::default());
        let reader = loom::thread::current();
        let writers: Vec<_> = (1..=2)
            .map(|message| {
                let (queue, reader) = (Arc::clone(&queue), reader.clone());
                loom::thread::spawn(move || {
                    if queue.push(message) {
                        reader.unpark();
                    }
                })
            })
            .collect();
        let mut found = Vec::new();
        while found.len() < 2 {
            read(&queue, &mut found);
        }
        found.sort_unstable();
        assert_eq!(found, [1, 2], "each once");
        writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
    });
}

#[test]
fn a_reader_that_sleeps_is_woken_by_the_end() {
    explore(|| {
        let queue = Arc::new(Queue::default());
        let reader = loom::thread::current();
        let writer = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || {
                let pushed = queue.push(1);
                if pushed {
                    reader.unpark();
                }
                if queue.close() {
                    reader.unpark();
                }
            })
        };
        let mut found = Vec::new();
        while !queue.is_closed() {
            read(&queue, &mut found);
        }
        queue.take(&mut found);
        assert_eq!(found, [1], "what came before the end");
        writer.join().expect("it writes");
    });
}

/// What an actor is sent.
#[derive(PartialEq)]
enum Letter {
    Input,
    Leave,
}

/// An entity's actor as others see it: whether it serves, its mailbox, and what is under way.
struct Desk {
    serves: Mutex<bool>,
    mail: Mutex<VecDeque<Letter>>,
    under_way: UnderWay,
    applied: AtomicU64,
}

impl Desk {
    fn new(in_flight: usize) -> Arc<Desk> {
        let under_way = UnderWay::default();
        (0..in_flight).for_each(|_| under_way.proposed());
        let (mail, applied) = (Mutex::new(VecDeque::new()), AtomicU64::new(0));
        Arc::new(Desk { serves: Mutex::new(true), mail, under_way, applied })
    }

    /// Sends to the actor, or to the next one if this one has left; whether it was this one.
    fn send(&self) -> bool {
        let serves = self.serves.lock();
        if *serves {
            self.under_way.sent();
            self.mail.lock().push_back(Letter::Input);
        }
        *serves
    }

    /// The relay settles one turn.
    fn settle(&self) {
        // Applied by another thread: what the actor begins anew from must have it.
        self.applied.fetch_add(1, Ordering::Relaxed);
        if self.under_way.settled() {
            self.mail.lock().push_back(Letter::Leave);
        }
    }

    /// As the actor leaves.
    fn leave(&self) {
        let _ = self.under_way.rests();
        let mut serves = self.serves.lock();
        if self.under_way.is_quiet() {
            *serves = false;
        }
    }

    /// Handles what is in the mailbox; how many inputs.
    fn work(&self) -> usize {
        let mut inputs = 0;
        loop {
            let Some(letter) = self.mail.lock().pop_front() else { return inputs };
            if letter == Letter::Input {
                assert!(*self.serves.lock(), "a message came to an actor that has left");
                self.under_way.taken();
                inputs += 1;
            }
            if *self.serves.lock() {
                self.leave();
            }
        }
    }
}

#[test]
fn an_actor_that_has_ended_leaves_when_nothing_is_in_flight_and_loses_no_message() {
    explore(|| {
        let desk = Desk::new(1);
        let relay = {
            let desk = Arc::clone(&desk);
            loom::thread::spawn(move || desk.settle())
        };
        let sender = {
            let desk = Arc::clone(&desk);
            loom::thread::spawn(move || desk.send())
        };
        desk.leave();
        let mut inputs = desk.work();
        relay.join().expect("it settles");
        let sent = sender.join().expect("it sends");
        inputs += desk.work();
        assert_eq!(inputs, usize::from(sent));
        assert!(!*desk.serves.lock(), "nobody tells it to leave");
    });
}

#[test]
fn an_actor_that_begins_anew_has_everything_that_was_applied() {
    explore(|| {
        let desk = Desk::new(2);
        let relays: Vec<_> = (0..2)
            .map(|_| {
                let desk = Arc::clone(&desk);
                loom::thread::spawn(move || desk.settle())
            })
            .collect();
        let begins = |desk: &Desk| {
            let begins = desk.under_way.rests();
            if begins {
                assert_eq!(desk.applied.load(Ordering::Relaxed), 2, "it begins from a state that others are ahead of");
            }
            begins
        };
        let mut begun = begins(&desk);
        relays.into_iter().for_each(|relay| relay.join().expect("it settles"));
        while !begun {
            assert!(desk.mail.lock().pop_front().is_some(), "nobody tells it to begin");
            begun = begins(&desk);
        }
    });
}

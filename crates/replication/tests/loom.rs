//! A queue whose reader sleeps, in every order of a model of weak memory (loom): nothing stays in it.

use sync::Arc;

/// What the queue is built of, from loom.
mod sync {
    pub(super) use loom::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    /// As `parking_lot`'s: it is not poisoned.
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(inside: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(inside))
        }

        pub(super) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no thread panics with it")
        }
    }
}

#[path = "../src/queue.rs"]
mod queue;

use queue::Queue;

/// Every order of the threads with at most three switches that no thread asked for.
fn explore(story: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(story);
}

/// The reader of a queue as a thread is: it sleeps without a bound, so it would for ever if it were not woken.
fn read(queue: &Queue<u32>, into: &mut Vec<u32>) {
    if queue.falls_asleep(into) {
        loom::thread::park();
        queue.awakes(into);
    }
}

#[test]
fn a_reader_that_sleeps_is_woken_by_a_push() {
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

/// A quiet push does not wake the reader. A later nudge does.
#[test]
fn what_is_pushed_quietly_is_read_after_a_nudge() {
    explore(|| {
        let queue = Arc::new(Queue::default());
        let reader = loom::thread::current();
        let writer = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || {
                queue.push_quietly(1);
                if queue.nudge() {
                    reader.unpark();
                }
            })
        };
        let mut found = Vec::new();
        while found.is_empty() {
            read(&queue, &mut found);
        }
        assert_eq!(found, [1]);
        writer.join().expect("it writes");
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

/// A message that comes while the reader ends is dropped with the others, or not taken: it does not stay.
#[test]
fn nothing_stays_in_a_queue_whose_reader_has_ended() {
    explore(|| {
        let queue = Arc::new(Queue::default());
        let message = Arc::new(());
        let writer = {
            let (queue, message) = (Arc::clone(&queue), Arc::clone(&message));
            loom::thread::spawn(move || _ = queue.push(message))
        };
        queue.end();
        writer.join().expect("it writes");
        assert_eq!(Arc::strong_count(&message), 1, "no one has it any more");
    });
}

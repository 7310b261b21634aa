//! A queue whose reader sleeps: no message stays in it.

use crate::{explore, queue::Queue, sync::Arc};

/// Reads like the queue's thread: it sleeps without a time limit, so a lost wake would block it for ever.
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
        writers.into_iter().for_each(|writer| writer.join().expect("the writer ends without a panic"));
    });
}

/// A quiet push does not wake the reader. A later nudge does.
#[test]
fn quiet_pushes_are_read_after_a_nudge() {
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
        writer.join().expect("the writer ends without a panic");
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
        assert_eq!(found, [1], "messages before the end");
        writer.join().expect("the writer ends without a panic");
    });
}

/// A message that is pushed while the reader ends is dropped with the others, or refused. It does not stay.
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
        writer.join().expect("the writer ends without a panic");
        assert_eq!(Arc::strong_count(&message), 1, "the message was dropped");
    });
}

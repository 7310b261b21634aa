//! Layouts that every stranger may read, compressed once for all who load them.
//!
//! A layout of 20 000 seats is 400 KB of JSON and a fifth of that when it is compressed. In a rush all buyers load it at the same
//! moment, so the first one has it compressed and the others wait for that.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use boxoffice_wire::Encoding;
use bytes::Bytes;
use tokio::sync::{OnceCell, Semaphore};
use tracing_mutex::parkinglot::Mutex;

use crate::coding;

/// The maximum of compressed bytes and of layouts that are kept. Those that were not asked for longest go first.
const BYTES_MAX: usize = 16 << 20;
const LAYOUTS_MAX: usize = 256;

/// A shorter answer fits into a packet as it is.
const PLAIN_BYTES_MIN: usize = 1_024;

/// Half as long as the quickest level makes it, and higher levels take several times as long for a few percent.
const LEVEL: u32 = 6;

/// What a compressed answer is of: a layout's digest, as in its entity tag, and an encoding.
type Key = (u64, Encoding);

/// The compressed answer, or `None` if compressing it does not pay.
type Slot = Arc<OnceCell<Option<Bytes>>>;

/// The compressed layouts of a node.
#[derive(Debug)]
pub(crate) struct PackedLayouts {
    kept: Mutex<Kept>,
    /// One thread compresses at a time. The others are for selling.
    turn: Semaphore,
}

/// In the order of the last use, the latest first.
#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<(Key, Slot)>,
}

/// A compressed answer.
pub(crate) struct Packed {
    /// `None` if compressing it does not pay.
    pub(crate) bytes: Option<Bytes>,
    /// The bytes that were compressed for this request, 0 if it was done before.
    pub(crate) worked_on: usize,
}

impl Default for PackedLayouts {
    fn default() -> PackedLayouts {
        PackedLayouts { kept: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl PackedLayouts {
    /// The answer with a layout, compressed. `plain` makes the answer to compress.
    pub(crate) async fn get(&self, key: Key, plain: impl FnOnce() -> Bytes + Send + 'static) -> Packed {
        let slot = self.kept.lock().slot(key);
        let worked_on = Arc::new(OnceLock::new());
        let tell = Arc::clone(&worked_on);
        let made = slot.get_or_init(async || {
            let _turn = self.turn.acquire().await.expect("it is never closed");
            let work = tokio::task::spawn_blocking(move || {
                let plain = plain();
                let _ = tell.set(plain.len());
                let packed =
                    Some(plain).filter(|plain| plain.len() >= PLAIN_BYTES_MIN).map(|plain| coding::gzip(&plain, LEVEL));
                packed.filter(|packed| packed.len() < *tell.get().unwrap_or(&0))
            });
            work.await.expect("compressing does not panic")
        });
        let bytes = made.await.clone();
        let worked_on = worked_on.get().copied().unwrap_or(0);
        if worked_on > 0 {
            self.kept.lock().bound();
        }
        Packed { bytes, worked_on }
    }
}

impl Kept {
    fn slot(&mut self, key: Key) -> Slot {
        let place = self.entries.iter().position(|(known, _)| *known == key);
        let entry = place.and_then(|place| self.entries.remove(place)).unwrap_or_else(|| (key, Slot::default()));
        let slot = Arc::clone(&entry.1);
        self.entries.push_front(entry);
        self.entries.truncate(LAYOUTS_MAX);
        slot
    }

    /// Drops the oldest answers until the others are within the bound.
    fn bound(&mut self) {
        let length = |slot: &Slot| slot.get().and_then(Option::as_ref).map_or(0, Bytes::len);
        let mut bytes: usize = self.entries.iter().map(|(_, slot)| length(slot)).sum();
        while bytes > BYTES_MAX && self.entries.len() > 1 {
            let (_, slot) = self.entries.pop_back().expect("there are several");
            bytes -= length(&slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Bytes that hardly become shorter.
    fn noise(length: usize, seed: u64) -> Bytes {
        let mut state = seed | 1;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Digits, so that there is something to save.
            b'0' + (state % 16) as u8
        };
        (0..length).map(|_| draw()).collect::<Vec<_>>().into()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_layout_is_compressed_once_for_all_who_ask_at_the_same_moment() {
        let packed = Arc::new(PackedLayouts::default());
        let works = Arc::new(AtomicUsize::new(0));
        let ask = |digest: u64| {
            let (packed, works) = (Arc::clone(&packed), Arc::clone(&works));
            tokio::spawn(async move {
                let work = move || {
                    works.fetch_add(1, Ordering::Relaxed);
                    noise(100_000, digest)
                };
                packed.get((digest, Encoding::Json), work).await
            })
        };
        let asked: Vec<_> = (0..40).map(|number| ask(2 + 2 * (number % 2))).collect();
        let mut answers = Vec::new();
        for each in asked {
            answers.push(each.await.expect("an answer"));
        }
        assert_eq!(works.load(Ordering::Relaxed), 2);
        assert_eq!(answers.iter().filter(|answer| answer.worked_on == 100_000).count(), 2);
        let addresses = answers.iter().map(|answer| answer.bytes.as_ref().expect("it pays").as_ptr());
        assert_eq!(addresses.collect::<std::collections::BTreeSet<_>>().len(), 2, "the bytes are shared");
        assert_ne!(answers[0].bytes, answers[1].bytes);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_a_short_answer_stays_as_it_is() {
        let packed = PackedLayouts::default();
        let short = packed.get((0, Encoding::Json), || noise(1_023, 7)).await;
        assert_eq!((short.bytes, short.worked_on), (None, 1_023));
        for digest in 1..40 {
            packed.get((digest, Encoding::MsgPack), move || noise(1 << 20, digest)).await;
        }
        let kept = |packed: &PackedLayouts| {
            let kept = packed.kept.lock();
            let length = |slot: &Slot| slot.get().and_then(Option::as_ref).map_or(0, Bytes::len);
            (kept.entries.len(), kept.entries.iter().map(|(_, slot)| length(slot)).sum::<usize>())
        };
        let (layouts, bytes) = kept(&packed);
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2, "{layouts} layouts of {bytes} bytes");
        for digest in 100..500 {
            packed.get((digest, Encoding::Json), move || noise(2_000, digest)).await;
        }
        assert_eq!(kept(&packed).0, LAYOUTS_MAX);
        let again = packed.get((499, Encoding::Json), || unreachable!("it is kept")).await;
        assert_eq!(again.worked_on, 0);
    }
}

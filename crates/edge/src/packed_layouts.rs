//! Layouts that every stranger may read, compressed once for all who load them.
//!
//! A layout of 20 000 seats is 400 KB of JSON and a fifth of that as gzip. In a rush all buyers load it at the same moment, so the
//! first one has it compressed and the others wait for that. As brotli it is a third shorter still, but making that takes half a
//! second, so a thread that yields to all others makes it, and it is sent from then on.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
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

/// The quality from which brotli is clearly shorter than gzip. The next one saves 4 % and takes twice as long.
const QUALITY: i32 = 10;

/// The thread that makes brotli has the lowest priority.
const NICE: i32 = 19;

/// What a compressed answer is of: a layout's digest, as in its entity tag, and an encoding.
type Key = (u64, Encoding);

/// The compressed answers of a layout.
type LayoutCell = Arc<PackedLayout>;

#[derive(Debug, Default)]
struct PackedLayout {
    /// `None` if compressing it does not pay.
    gzip: OnceCell<Option<Bytes>>,
    brotli: OnceLock<Bytes>,
}

impl PackedLayout {
    fn bytes(&self) -> usize {
        let gzip = self.gzip.get().and_then(Option::as_ref);
        gzip.map_or(0, Bytes::len) + self.brotli.get().map_or(0, Bytes::len)
    }
}

/// The compressed layouts of a node.
#[derive(Debug)]
pub(crate) struct PackedLayouts {
    kept: Arc<Mutex<Kept>>,
    /// One thread compresses at a time. The others are for selling.
    turn: Semaphore,
    /// A thread makes brotli. There is one at a time.
    is_shrinking: Arc<AtomicBool>,
}

/// In the order of the last use, the latest first.
#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<(Key, LayoutCell)>,
}

/// A compressed answer.
pub(crate) struct Packed {
    /// With gzip. `None` if compressing it does not pay.
    pub(crate) gzip: Option<Bytes>,
    /// With brotli, if it is made.
    pub(crate) brotli: Option<Bytes>,
    /// The bytes that were compressed for this request, 0 if it was done before.
    pub(crate) worked_on: usize,
}

impl Default for PackedLayouts {
    fn default() -> PackedLayouts {
        PackedLayouts { kept: Arc::default(), turn: Semaphore::new(1), is_shrinking: Arc::default() }
    }
}

impl PackedLayouts {
    /// The answer with a layout, compressed. `plain` makes the answer to compress.
    pub(crate) async fn get(&self, key: Key, plain: impl FnOnce() -> Bytes + Send + 'static) -> Packed {
        let cell = self.kept.lock().cell_of(key);
        let worked_on = Arc::new(OnceLock::new());
        let tell = Arc::clone(&worked_on);
        let made = cell.gzip.get_or_init(async || {
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
        let gzip = made.await.clone();
        let worked_on = worked_on.get().copied().unwrap_or(0);
        if worked_on > 0 {
            self.kept.lock().bound();
        }
        Packed { gzip, brotli: cell.brotli.get().cloned(), worked_on }
    }

    /// Begins to make the brotli of an answer that was asked for before. Does nothing while another one is made: the next client
    /// asks again.
    pub(crate) fn shrink(&self, key: Key, plain: impl FnOnce() -> Bytes + Send + 'static) {
        let cell = self.kept.lock().cell_of(key);
        if cell.brotli.get().is_some() || self.is_shrinking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (is_shrinking, kept) = (Arc::clone(&self.is_shrinking), Arc::clone(&self.kept));
        let work = move || {
            // Without the lower priority it only competes with what sells.
            let _ = rustix::process::setpriority_process(None, NICE);
            let _ = cell.brotli.set(coding::brotli(&plain(), QUALITY));
            kept.lock().bound();
            is_shrinking.store(false, Ordering::Release);
        };
        if thread::Builder::new().name("brotli".into()).spawn(work).is_err() {
            // The gzip is sent as long as there is no other thread.
            self.is_shrinking.store(false, Ordering::Release);
        }
    }
}

impl Kept {
    fn cell_of(&mut self, key: Key) -> LayoutCell {
        let place = self.entries.iter().position(|(known, _)| *known == key);
        let entry = place.and_then(|place| self.entries.remove(place)).unwrap_or_else(|| (key, LayoutCell::default()));
        let cell = Arc::clone(&entry.1);
        self.entries.push_front(entry);
        self.entries.truncate(LAYOUTS_MAX);
        cell
    }

    /// Drops the oldest answers until the others are within the bound.
    fn bound(&mut self) {
        let mut bytes: usize = self.entries.iter().map(|(_, cell)| cell.bytes()).sum();
        while bytes > BYTES_MAX && self.entries.len() > 1 {
            let (_, cell) = self.entries.pop_back().expect("there are several");
            bytes -= cell.bytes();
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
        let addresses = answers.iter().map(|answer| answer.gzip.as_ref().expect("it pays").as_ptr());
        assert_eq!(addresses.collect::<std::collections::BTreeSet<_>>().len(), 2, "the bytes are shared");
        assert_ne!(answers[0].gzip, answers[1].gzip);
    }

    #[tokio::test]
    async fn brotli_is_made_once_beside_and_sent_from_then_on() {
        let (packed, key) = (PackedLayouts::default(), (5, Encoding::Json));
        let first = packed.get(key, || noise(50_000, 5)).await;
        assert!(first.gzip.is_some() && first.brotli.is_none());
        packed.shrink(key, || noise(50_000, 5));
        packed.shrink((6, Encoding::Json), || unreachable!("another one is made"));
        let brotli = loop {
            let again = packed.get(key, || unreachable!("it is kept")).await;
            assert_eq!((&again.gzip, again.worked_on), (&first.gzip, 0));
            match again.brotli {
                Some(brotli) => break brotli,
                None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        };
        packed.shrink(key, || unreachable!("it is made"));
        let mut plain = Vec::new();
        brotli::BrotliDecompress(&mut &brotli[..], &mut plain).expect("brotli");
        assert_eq!(plain, noise(50_000, 5));
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_a_short_answer_stays_as_it_is() {
        let packed = PackedLayouts::default();
        let short = packed.get((0, Encoding::Json), || noise(1_023, 7)).await;
        assert_eq!((short.gzip, short.worked_on), (None, 1_023));
        for digest in 1..40 {
            packed.get((digest, Encoding::MsgPack), move || noise(1 << 20, digest)).await;
        }
        let kept = |packed: &PackedLayouts| {
            let kept = packed.kept.lock();
            (kept.entries.len(), kept.entries.iter().map(|(_, cell)| cell.bytes()).sum::<usize>())
        };
        let (layouts, bytes) = kept(&packed);
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2, "{layouts} layouts of {bytes} bytes");
        // What is made later counts as well.
        packed.shrink((39, Encoding::MsgPack), || noise(1 << 20, 39));
        while packed.is_shrinking.load(Ordering::Acquire) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(kept(&packed).1 <= BYTES_MAX, "{} bytes", kept(&packed).1);
        for digest in 100..500 {
            packed.get((digest, Encoding::Json), move || noise(2_000, digest)).await;
        }
        assert_eq!(kept(&packed).0, LAYOUTS_MAX);
        let again = packed.get((499, Encoding::Json), || unreachable!("it is kept")).await;
        assert_eq!(again.worked_on, 0);
    }
}

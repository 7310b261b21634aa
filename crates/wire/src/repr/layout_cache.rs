//! A cache of encoded layouts. Large layouts are sent again and again, so they are encoded once and copied into answers.
//!
//! The serializers do not take bytes that are already encoded. So a placeholder is written in the layout's place, and
//! replaced when the frame is complete.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use boxoffice_core::layout::Layout;
use bytes::{Bytes, BytesMut};
use serde::{Serialize, Serializer};

use crate::{Encoding, repr::ToWire};

/// Layouts with fewer seats are encoded each time, which is fast enough.
const SEATS_MIN: u32 = 1_000;

/// The maximum of bytes and of encodings in the cache.
const BYTES_MAX: usize = 64 << 20;
const ENTRIES_MAX: usize = 256;

thread_local! {
    /// The encoding of the frame that is being written.
    static ENCODING: Cell<Option<Encoding>> = const { Cell::new(None) };
    /// The encodings that replace the placeholders, in their order.
    static PENDING: RefCell<Vec<Bytes>> = const { RefCell::new(Vec::new()) };
}

static CACHE: Mutex<LayoutCache> =
    Mutex::new(LayoutCache { entries: VecDeque::new(), bytes: 0, requested: VecDeque::new() });

/// An encoding of a layout.
struct Entry {
    /// Keeps the address from being reused by another layout.
    layout: Weak<Layout>,
    encoding: Encoding,
    bytes: Bytes,
}

/// The cache, in the order of the last use.
struct LayoutCache {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Layouts that were requested once. Layouts from other nodes are decoded anew for each answer, and never come again.
    requested: VecDeque<(usize, Encoding)>,
}

impl LayoutCache {
    /// Looks an encoding up.
    fn find(&mut self, layout: &Arc<Layout>, encoding: Encoding) -> Lookup {
        let address = Arc::as_ptr(layout);
        let is_it = |entry: &Entry| std::ptr::eq(entry.layout.as_ptr(), address) && entry.encoding == encoding;
        if let Some(entry) = self.entries.iter().position(is_it).and_then(|place| self.entries.remove(place)) {
            let bytes = entry.bytes.clone();
            self.entries.push_front(entry);
            return Lookup::Cached(bytes);
        }
        let requested = (address.addr(), encoding);
        let Some(place) = self.requested.iter().position(|known| *known == requested) else {
            self.requested.push_front(requested);
            self.requested.truncate(ENTRIES_MAX);
            return Lookup::New;
        };
        self.requested.remove(place);
        Lookup::Repeated
    }

    fn insert(&mut self, entry: Entry) {
        self.bytes += entry.bytes.len();
        self.entries.push_front(entry);
        let gone = |entry: &Entry| entry.layout.strong_count() == 0;
        while self.entries.len() > 1
            && (self.bytes > BYTES_MAX || self.entries.len() > ENTRIES_MAX || self.entries.back().is_some_and(gone))
        {
            let last = self.entries.pop_back().expect("there are several");
            self.bytes -= last.bytes.len();
        }
    }
}

/// The result of a look-up.
enum Lookup {
    Cached(Bytes),
    /// The layout was requested before.
    Repeated,
    /// The layout was not requested before.
    New,
}

/// The encoding of a layout, if the cache has it or takes it now.
fn encoding_of(layout: &Arc<Layout>, encoding: Encoding) -> Option<Bytes> {
    let kept = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kept().find(layout, encoding);
    match found {
        Lookup::Cached(bytes) => Some(bytes),
        Lookup::New => None,
        Lookup::Repeated => {
            let mut out = BytesMut::new();
            encoding.write(&mut out, &ToWire(&**layout));
            let bytes = out.freeze();
            kept().insert(Entry { layout: Arc::downgrade(layout), encoding, bytes: bytes.clone() });
            Some(bytes)
        }
    }
}

/// A random text that clients cannot know.
fn placeholder() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let [first, second] = [(); 2].map(|()| RandomState::new().hash_one(()));
        format!("{first:016x}{second:016x}")
    })
}

/// Writes a layout, or the placeholder if the cache has its encoding.
pub(crate) fn serialize<S: Serializer>(layout: &Arc<Layout>, serializer: S) -> Result<S::Ok, S::Error> {
    let kept = match ENCODING.get() {
        Some(encoding) if layout.seats() >= SEATS_MIN => encoding_of(layout, encoding),
        Some(_) | None => None,
    };
    match kept {
        None => ToWire(&**layout).serialize(serializer),
        Some(bytes) => {
            PENDING.with_borrow_mut(|pending| pending.push(bytes));
            serializer.serialize_str(placeholder())
        }
    }
}

pub(crate) use crate::repr::deserialize;

/// Lets `write` append a frame to `out`, and replaces the placeholders in it.
pub(crate) fn with_layouts(encoding: Encoding, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let begin = out.len();
    let before = ENCODING.replace(Some(encoding));
    let pending_before = PENDING.with_borrow(Vec::len);
    write(out);
    ENCODING.set(before);
    if PENDING.with_borrow(Vec::len) > pending_before {
        let pending = PENDING.with_borrow_mut(|pending| pending.split_off(pending_before));
        replace_placeholders(encoding, out, begin, &pending);
    }
}

/// Replaces the placeholders by the pending encodings.
fn replace_placeholders(encoding: Encoding, out: &mut BytesMut, begin: usize, pending: &[Bytes]) {
    // A placeholder has a quote on both sides, or its type and length before it.
    let (before, behind) = match encoding {
        Encoding::Json => (1, 1),
        Encoding::MsgPack => (2, 0),
    };
    let placeholder = placeholder().as_bytes();
    let written = out.split_off(begin);
    let mut rest = &written[..];
    out.reserve(rest.len() + pending.iter().map(Bytes::len).sum::<usize>());
    for bytes in pending {
        let at = rest
            .windows(placeholder.len())
            .position(|window| window == placeholder)
            .expect("a placeholder was written");
        out.extend_from_slice(&rest[..at - before]);
        out.extend_from_slice(bytes);
        rest = &rest[at + placeholder.len() + behind..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use boxoffice_core::{
        answer::{Answer, Answered, HallView},
        id::Id,
        layout::{Labels, Row, Run},
    };

    use super::*;
    use crate::{call::Shape, encode};

    fn layout(rows: u16) -> Arc<Layout> {
        let run = Run {
            gap: 0,
            count: 100,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: Id::new("stalls").expect("an id"),
            accessible: false,
            points: Vec::new(),
        };
        let row = |number| Row { label: format!("row {number}").into(), section: None, runs: vec![run.clone()] };
        Arc::new(Layout::new((0..rows).map(row).collect(), None).expect("a layout"))
    }

    fn hall(layout: &Arc<Layout>, comments: &str) -> Answered {
        let id = || Id::new("royal").expect("an id");
        let (name, comments, layout) = ("The hall".into(), comments.into(), Arc::clone(layout));
        Answered { answer: Answer::Hall(HallView { venue: id(), id: id(), name, comments, layout }), at: Vec::new() }
    }

    /// The frames of these answers, one after the other, in a buffer that is not empty.
    fn frames(encoding: Encoding, answers: &[(u64, Answered)]) -> Vec<u8> {
        let mut out = BytesMut::from("before");
        for (id, answered) in answers {
            encode::outcome(encoding, &mut out, *id, &Ok(answered.clone()), Shape::default(), None);
        }
        out.split_off("before".len()).to_vec()
    }

    #[test]
    fn a_cached_layout_is_written_as_any_other() {
        // A text that resembles the surroundings of a placeholder.
        const TEXT: &str = "\"layout\":\"";
        for encoding in Encoding::ALL {
            for rows in [9, 10, 200] {
                // A layout that was not requested before is encoded directly.
                let fresh = |id, text| frames(encoding, &[(id, hall(&layout(rows), text))]);
                let expected = [fresh(1, TEXT), fresh(300, "")].concat();
                let known = layout(rows);
                for _ in 0..3 {
                    let both = frames(encoding, &[(1, hall(&known, TEXT)), (300, hall(&known, ""))]);
                    assert!(both == expected, "{encoding:?}, {rows} rows");
                }
                let kept = CACHE.lock().expect("whole");
                let is_kept = kept.entries.iter().any(|entry| std::ptr::eq(entry.layout.as_ptr(), Arc::as_ptr(&known)));
                assert_eq!(is_kept, rows >= 10, "{rows} rows");
            }
        }
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut kept = LayoutCache { entries: VecDeque::new(), bytes: 0, requested: VecDeque::new() };
        let layouts: Vec<_> = (0..100).map(|_| layout(10)).collect();
        let entry = |layout: &Arc<Layout>| {
            let bytes = Bytes::from(vec![0; 1 << 20]);
            Entry { layout: Arc::downgrade(layout), encoding: Encoding::Json, bytes }
        };
        layouts.iter().for_each(|layout| kept.insert(entry(layout)));
        assert_eq!((kept.entries.len(), kept.bytes), (64, BYTES_MAX));
        assert!(matches!(kept.find(&layouts[99], Encoding::Json), Lookup::Cached(_)), "the newest stay");
        assert!(matches!(kept.find(&layouts[99], Encoding::MsgPack), Lookup::New), "the other encoding is not cached");
        assert!(matches!(kept.find(&layouts[0], Encoding::Json), Lookup::New));
        assert!(matches!(kept.find(&layouts[0], Encoding::Json), Lookup::Repeated));
        drop(layouts);
        kept.insert(entry(&layout(10)));
        assert_eq!(kept.entries.len(), 1, "encodings of dropped layouts are removed");
    }
}

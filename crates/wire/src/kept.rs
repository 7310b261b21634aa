//! Encodings of large layouts that are sent again and again: made once, and put into each answer as they are.
//!
//! No serializer can be handed bytes that are encoded already, in both encodings. So a mark is written in the layout's place,
//! and replaced when the frame is there.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use boxoffice_core::layout::Layout;
use bytes::{Bytes, BytesMut};
use serde::{Serialize, Serializer};

use crate::{Encoding, form::On};

/// Layouts of fewer seats are encoded each time: that is soon done.
const SEATS_MIN: u32 = 1_000;

/// Bytes that are kept at most, and how many encodings.
const KEPT_BYTES_MAX: usize = 64 << 20;
const KEPT_MAX: usize = 256;

thread_local! {
    /// The encoding of the frame that is being written.
    static ENCODING: Cell<Option<Encoding>> = const { Cell::new(None) };
    /// What is to stand where the marks are, in their order.
    static PENDING: RefCell<Vec<Bytes>> = const { RefCell::new(Vec::new()) };
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { entries: VecDeque::new(), bytes: 0, asked: VecDeque::new() });

/// An encoding of a layout.
struct Entry {
    /// It keeps the address from being another layout's.
    layout: Weak<Layout>,
    encoding: Encoding,
    bytes: Bytes,
}

/// What is kept, the last used first.
struct Kept {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Layouts that were asked for once. Those of other nodes are read anew for each answer, and never asked for again.
    asked: VecDeque<(usize, Encoding)>,
}

impl Kept {
    /// Whether the layout's encoding is kept, or should be.
    fn find(&mut self, layout: &Arc<Layout>, encoding: Encoding) -> Found {
        let address = Arc::as_ptr(layout);
        let is_it = |entry: &Entry| std::ptr::eq(entry.layout.as_ptr(), address) && entry.encoding == encoding;
        if let Some(entry) = self.entries.iter().position(is_it).and_then(|place| self.entries.remove(place)) {
            let bytes = entry.bytes.clone();
            self.entries.push_front(entry);
            return Found::Kept(bytes);
        }
        let asked = (address.addr(), encoding);
        let Some(place) = self.asked.iter().position(|known| *known == asked) else {
            self.asked.push_front(asked);
            self.asked.truncate(KEPT_MAX);
            return Found::New;
        };
        self.asked.remove(place);
        Found::Again
    }

    fn keep(&mut self, entry: Entry) {
        self.bytes += entry.bytes.len();
        self.entries.push_front(entry);
        let gone = |entry: &Entry| entry.layout.strong_count() == 0;
        while self.entries.len() > 1
            && (self.bytes > KEPT_BYTES_MAX || self.entries.len() > KEPT_MAX || self.entries.back().is_some_and(gone))
        {
            let last = self.entries.pop_back().expect("there are several");
            self.bytes -= last.bytes.len();
        }
    }
}

/// What is known of a layout's encoding.
enum Found {
    /// It is kept.
    Kept(Bytes),
    /// The layout was asked for before.
    Again,
    /// It was not.
    New,
}

/// The encoding of a layout if it is kept, or is now.
fn encoding_of(layout: &Arc<Layout>, encoding: Encoding) -> Option<Bytes> {
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kept().find(layout, encoding);
    match found {
        Found::Kept(bytes) => Some(bytes),
        Found::New => None,
        Found::Again => {
            let mut out = BytesMut::new();
            encoding.write(&mut out, &On(&**layout));
            let bytes = out.freeze();
            kept().keep(Entry { layout: Arc::downgrade(layout), encoding, bytes: bytes.clone() });
            Some(bytes)
        }
    }
}

/// A random text that stands nowhere else, whatever clients write.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let [first, second] = [(); 2].map(|()| RandomState::new().hash_one(()));
        format!("{first:016x}{second:016x}")
    })
}

/// Writes a layout, by its mark if its encoding is kept.
pub(crate) fn serialize<S: Serializer>(layout: &Arc<Layout>, serializer: S) -> Result<S::Ok, S::Error> {
    let kept = match ENCODING.get() {
        Some(encoding) if layout.seats() >= SEATS_MIN => encoding_of(layout, encoding),
        Some(_) | None => None,
    };
    match kept {
        None => On(&**layout).serialize(serializer),
        Some(bytes) => {
            PENDING.with_borrow_mut(|pending| pending.push(bytes));
            serializer.serialize_str(mark())
        }
    }
}

pub(crate) use crate::form::deserialize;

/// Has `write` append a frame to `out`, in which kept layouts may stand.
pub(crate) fn writing(encoding: Encoding, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let begin = out.len();
    let before = ENCODING.replace(Some(encoding));
    let pending_before = PENDING.with_borrow(Vec::len);
    write(out);
    ENCODING.set(before);
    if PENDING.with_borrow(Vec::len) > pending_before {
        let pending = PENDING.with_borrow_mut(|pending| pending.split_off(pending_before));
        replace(encoding, out, begin, &pending);
    }
}

/// Puts what is pending where the marks are.
fn replace(encoding: Encoding, out: &mut BytesMut, begin: usize, pending: &[Bytes]) {
    // A quote before and one behind it, or its type and length before it.
    let (before, behind) = match encoding {
        Encoding::Json => (1, 1),
        Encoding::MsgPack => (2, 0),
    };
    let mark = mark().as_bytes();
    let written = out.split_off(begin);
    let mut rest = &written[..];
    out.reserve(rest.len() + pending.iter().map(Bytes::len).sum::<usize>());
    for bytes in pending {
        let marked = rest.windows(mark.len()).position(|window| window == mark).expect("a mark was written");
        out.extend_from_slice(&rest[..marked - before]);
        out.extend_from_slice(bytes);
        rest = &rest[marked + mark.len() + behind..];
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

    /// The frames of these answers, one after the other, behind what stood in the buffer before.
    fn frames(encoding: Encoding, answers: &[(u64, Answered)]) -> Vec<u8> {
        let mut out = BytesMut::from("before");
        for (id, answered) in answers {
            encode::outcome(encoding, &mut out, *id, &Ok(answered.clone()), Shape::default(), None);
        }
        out.split_off("before".len()).to_vec()
    }

    #[test]
    fn what_is_kept_is_what_would_be_written() {
        // A text that looks like what stands around a mark.
        const TEXT: &str = "\"layout\":\"";
        for encoding in Encoding::ALL {
            for rows in [9, 10, 200] {
                // A layout that nobody asked for before is written as it is.
                let fresh = |id, text| frames(encoding, &[(id, hall(&layout(rows), text))]);
                let expected = [fresh(1, TEXT), fresh(300, "")].concat();
                let known = layout(rows);
                for _ in 0..3 {
                    let both = frames(encoding, &[(1, hall(&known, TEXT)), (300, hall(&known, ""))]);
                    assert!(both == expected, "{encoding:?}, {rows} rows");
                }
                let kept = KEPT.lock().expect("whole");
                let is_kept = kept.entries.iter().any(|entry| std::ptr::eq(entry.layout.as_ptr(), Arc::as_ptr(&known)));
                assert_eq!(is_kept, rows >= 10, "{rows} rows");
            }
        }
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut kept = Kept { entries: VecDeque::new(), bytes: 0, asked: VecDeque::new() };
        let layouts: Vec<_> = (0..100).map(|_| layout(10)).collect();
        let entry = |layout: &Arc<Layout>| {
            let bytes = Bytes::from(vec![0; 1 << 20]);
            Entry { layout: Arc::downgrade(layout), encoding: Encoding::Json, bytes }
        };
        layouts.iter().for_each(|layout| kept.keep(entry(layout)));
        assert_eq!((kept.entries.len(), kept.bytes), (64, KEPT_BYTES_MAX));
        assert!(matches!(kept.find(&layouts[99], Encoding::Json), Found::Kept(_)), "the newest stay");
        assert!(matches!(kept.find(&layouts[99], Encoding::MsgPack), Found::New), "of the other encoding");
        assert!(matches!(kept.find(&layouts[0], Encoding::Json), Found::New));
        assert!(matches!(kept.find(&layouts[0], Encoding::Json), Found::Again));
        drop(layouts);
        kept.keep(entry(&layout(10)));
        assert_eq!(kept.entries.len(), 1, "those of layouts that are gone go");
    }
}

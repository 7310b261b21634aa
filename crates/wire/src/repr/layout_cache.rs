//! A cache of encoded layouts and maps. Large ones are sent again and again, so they are encoded once and shared by answers.
//!
//! The serializers do not take bytes that are already encoded. So a placeholder is written in the layout's place, and
//! replaced when the frame is complete, or removed where the frame is sent in parts.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use boxoffice_core::{answer::MapView, layout::Layout};
use bytes::{Bytes, BytesMut};
use serde::{Serialize, Serializer};

use crate::{Encoding, repr::ToWire};

/// Layouts with fewer seats are encoded each time, which is fast enough.
const SEATS_MIN: u32 = 1_000;

/// The maximum of bytes and of encodings in the cache.
const BYTES_MAX: usize = 32 << 20;
const ENTRIES_MAX: usize = 256;

/// Maps with fewer bytes are encoded each time.
const MAP_BYTES_MIN: usize = 4_096;

/// The maximum of bytes and of encodings of maps. A map changes all the time, so only the newest ones are asked for again.
const MAP_BYTES_MAX: usize = 8 << 20;
const MAPS_MAX: usize = 64;

/// Shorter parts are copied into the frame. A part of its own costs a system call.
const SHARED_BYTES_MIN: usize = 16 * 1024;

thread_local! {
    /// The encoding of the frame that is being written.
    static ENCODING: Cell<Option<Encoding>> = const { Cell::new(None) };
    /// The encodings that replace the placeholders, in their order.
    static PENDING: RefCell<Vec<Bytes>> = const { RefCell::new(Vec::new()) };
    /// The parts that the next frame does not copy, if it is sent in parts.
    static SHARED: RefCell<Option<Vec<SharedPart>>> = const { RefCell::new(None) };
}

/// A part of a frame that other answers share.
#[derive(Clone, Debug)]
pub struct SharedPart {
    /// Its place in the other bytes of the frame.
    pub at: usize,
    pub bytes: Bytes,
}

/// Lets `write` append one frame to `out`, without its large parts that are shared. Returns these, in their order.
pub fn sharing(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> Vec<SharedPart> {
    SHARED.set(Some(Vec::new()));
    write(out);
    SHARED.take().unwrap_or_default()
}

static CACHE: Mutex<LayoutCache> =
    Mutex::new(LayoutCache { entries: VecDeque::new(), bytes: 0, requested: VecDeque::new() });

static MAPS: Mutex<MapCache> = Mutex::new(MapCache { entries: VecDeque::new(), bytes: 0 });

/// An encoding of a layout.
struct Entry {
    layout: Arc<Layout>,
    encoding: Encoding,
    bytes: Bytes,
}

/// An encoding of a map.
struct MapEntry {
    map: MapView,
    in_three_states: bool,
    encoding: Encoding,
    bytes: Bytes,
}

/// The cache of maps, in the order of the last use.
struct MapCache {
    entries: VecDeque<MapEntry>,
    bytes: usize,
}

impl MapCache {
    fn find(&mut self, map: &MapView, in_three_states: bool, encoding: Encoding) -> Option<Bytes> {
        // Nodes of tests share the cache, so the version alone does not say which map it is.
        let is_it = |entry: &MapEntry| {
            (entry.encoding, entry.in_three_states, entry.map.version) == (encoding, in_three_states, map.version)
                && entry.map == *map
        };
        let entry = self.entries.iter().position(is_it).and_then(|place| self.entries.remove(place))?;
        let bytes = entry.bytes.clone();
        self.entries.push_front(entry);
        Some(bytes)
    }

    fn insert(&mut self, entry: MapEntry) {
        let size = |entry: &MapEntry| entry.bytes.len() + entry.map.seats.len();
        self.bytes += size(&entry);
        self.entries.push_front(entry);
        while self.entries.len() > 1 && (self.bytes > MAP_BYTES_MAX || self.entries.len() > MAPS_MAX) {
            let last = self.entries.pop_back().expect("there are several");
            self.bytes -= size(&last);
        }
    }
}

/// The cache, in the order of the last use.
struct LayoutCache {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Digests of layouts that were requested once.
    requested: VecDeque<(u64, Encoding)>,
}

impl LayoutCache {
    /// Looks an encoding up.
    fn find(&mut self, layout: &Arc<Layout>, encoding: Encoding) -> Lookup {
        // A layout from another node is decoded anew for each answer.
        let is_same = |other: &Arc<Layout>| Arc::ptr_eq(other, layout) || **other == **layout;
        let is_it = |entry: &Entry| entry.encoding == encoding && is_same(&entry.layout);
        if let Some(entry) = self.entries.iter().position(is_it).and_then(|place| self.entries.remove(place)) {
            let bytes = entry.bytes.clone();
            self.entries.push_front(entry);
            return Lookup::Cached(bytes);
        }
        let requested = (layout.digest(), encoding);
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
        let gone = |entry: &Entry| Arc::strong_count(&entry.layout) == 1;
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
            kept().insert(Entry { layout: Arc::clone(layout), encoding, bytes: bytes.clone() });
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

/// Writes a map with `write`, or the placeholder for its encoding.
pub(crate) fn map<S: Serializer>(
    map: &MapView,
    in_three_states: bool,
    write: &impl Serialize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let Some(encoding) = ENCODING.get().filter(|_| map.seats.len() >= MAP_BYTES_MIN) else {
        return write.serialize(serializer);
    };
    let kept = || MAPS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kept().find(map, in_three_states, encoding);
    let bytes = found.unwrap_or_else(|| {
        let mut out = BytesMut::new();
        encoding.write(&mut out, write);
        let bytes = out.freeze();
        kept().insert(MapEntry { map: map.clone(), in_three_states, encoding, bytes: bytes.clone() });
        bytes
    });
    PENDING.with_borrow_mut(|pending| pending.push(bytes));
    serializer.serialize_str(placeholder())
}

pub(crate) use crate::repr::deserialize;

/// Lets `write` append a frame to `out`, and replaces the placeholders in it.
pub(crate) fn with_layouts(encoding: Encoding, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let begin = out.len();
    let before = ENCODING.replace(Some(encoding));
    let pending_before = PENDING.with_borrow(Vec::len);
    // What is written inside is no frame, and is copied.
    let mut shared = SHARED.take();
    write(out);
    ENCODING.set(before);
    if PENDING.with_borrow(Vec::len) > pending_before {
        let pending = PENDING.with_borrow_mut(|pending| pending.split_off(pending_before));
        replace_placeholders(encoding, out, begin, &pending, shared.as_mut());
    }
    SHARED.set(shared);
}

/// Replaces the placeholders by the pending encodings. Large ones become `shared`, if the frame is sent in parts.
fn replace_placeholders(
    encoding: Encoding,
    out: &mut BytesMut,
    begin: usize,
    pending: &[Bytes],
    mut shared: Option<&mut Vec<SharedPart>>,
) {
    // A placeholder has a quote on both sides, or its type and length before it.
    let (before, behind) = match encoding {
        Encoding::Json => (1, 1),
        Encoding::MsgPack => (2, 0),
    };
    let placeholder = placeholder().as_bytes();
    let written = out.split_off(begin);
    let mut rest = &written[..];
    let is_shared = |bytes: &Bytes| bytes.len() >= SHARED_BYTES_MIN;
    let copied = pending.iter().filter(|bytes| shared.is_none() || !is_shared(bytes)).map(Bytes::len);
    out.reserve(rest.len() + copied.sum::<usize>());
    for bytes in pending {
        let at = rest
            .windows(placeholder.len())
            .position(|window| window == placeholder)
            .expect("a placeholder was written");
        out.extend_from_slice(&rest[..at - before]);
        match &mut shared {
            Some(shared) if is_shared(bytes) => shared.push(SharedPart { at: out.len(), bytes: bytes.clone() }),
            Some(_) | None => out.extend_from_slice(bytes),
        }
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
                let is_kept = kept.entries.iter().any(|entry| *entry.layout == *known);
                assert_eq!(is_kept, rows >= 10, "{rows} rows");
            }
        }
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut kept = LayoutCache { entries: VecDeque::new(), bytes: 0, requested: VecDeque::new() };
        let layouts: Vec<_> = (0..100).map(|number| layout(10 + number)).collect();
        let entry = |layout: &Arc<Layout>| {
            let bytes = Bytes::from(vec![0; 1 << 20]);
            Entry { layout: Arc::clone(layout), encoding: Encoding::Json, bytes }
        };
        layouts.iter().for_each(|layout| kept.insert(entry(layout)));
        assert_eq!((kept.entries.len(), kept.bytes), (32, BYTES_MAX));
        assert!(matches!(kept.find(&layouts[99], Encoding::Json), Lookup::Cached(_)), "the newest stay");
        assert!(matches!(kept.find(&layouts[99], Encoding::MsgPack), Lookup::New), "the other encoding is not cached");
        assert!(matches!(kept.find(&layouts[0], Encoding::Json), Lookup::New));
        assert!(matches!(kept.find(&layouts[0], Encoding::Json), Lookup::Repeated));
        drop(layouts);
        kept.insert(entry(&layout(10)));
        assert_eq!(kept.entries.len(), 1, "encodings of dropped layouts are removed");
    }

    /// A frame with its shared parts in their places.
    fn joined(encoding: Encoding, outcome: &Answered, shape: Shape) -> (Vec<u8>, Vec<SharedPart>) {
        let mut out = BytesMut::new();
        let parts = sharing(&mut out, |out| encode::outcome(encoding, out, 7, &Ok(outcome.clone()), shape, None));
        let (mut whole, mut at) = (Vec::new(), 0);
        for part in &parts {
            whole.extend_from_slice(&out[at..part.at]);
            whole.extend_from_slice(&part.bytes);
            at = part.at;
        }
        whole.extend_from_slice(&out[at..]);
        (whole, parts)
    }

    #[test]
    fn large_parts_are_shared_and_not_copied() {
        let seats = 200_000;
        let map = |version| MapView {
            session: Id::new("huge").expect("an id"),
            epoch: 3,
            version,
            counts: boxoffice_core::answer::SeatCounts { free: seats, ..Default::default() },
            areas: Vec::new(),
            seats: vec![0; seats as usize / 4],
            sale: None,
        };
        for encoding in Encoding::ALL {
            // Made anew for each answer, as from another node.
            let named = |text: &'static str| {
                move || {
                    let names: Vec<_> = (0..100).map(|number| format!("{text}{number}").into()).collect();
                    let mut rows = layout(200).rows().to_vec();
                    rows.iter_mut().for_each(|row| row.runs[0].labels = Labels::Names(names.clone()));
                    hall(&Arc::new(Layout::new(rows, None).expect("a layout")), "")
                }
            };
            let maps = |version| move || Answered { answer: Answer::Map(map(version)), at: Vec::new() };
            type Make<'a> = &'a dyn Fn() -> Answered;
            let pairs: [[Make<'_>; 2]; 2] = [[&named("a"), &named("b")], [&maps(1), &maps(2)]];
            for [first, other] in pairs {
                for shape in [Shape::Plain, Shape::ThreeStates] {
                    let rounds: Vec<_> = (0..4).map(|_| joined(encoding, &first(), shape)).collect();
                    if shape == Shape::Plain {
                        let expected = frames(encoding, &[(7, first())]);
                        assert!(rounds.iter().all(|(whole, _)| *whole == expected), "{encoding:?}");
                    }
                    let [.., (_, before), (_, last)] = &rounds[..] else { panic!("four") };
                    let address = |parts: &[SharedPart]| parts[0].bytes.as_ptr();
                    assert_eq!(address(before), address(last), "the same bytes");
                    for _ in 0..3 {
                        assert!(joined(encoding, &other(), shape).0 != rounds[0].0, "another one");
                    }
                }
            }
        }
    }
}

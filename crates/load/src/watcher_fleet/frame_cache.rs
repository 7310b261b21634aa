//! The parsed frames of a node. The server sends the same bytes to all watchers of an entity, so the cache parses each
//! frame once and finds it again by its text.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use boxoffice_core::seat::SeatState;
use rustc_hash::FxHashMap;
use serde::Deserialize;

/// The most frames that the cache finds by their text. Beyond this it forgets all texts, and parses a frame again when
/// it comes again.
const CACHED_TEXTS_MAX: usize = 8_192;

/// The content of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameContent {
    /// The watch with this request id is granted. Its feed has this number.
    WatchGranted {
        request: u64,
        feed: u64,
    },
    /// A list of sessions is watched. These are the feeds of the sessions that exist.
    CountsGranted {
        feeds: Vec<(String, u64)>,
        missing: usize,
    },
    /// A watch was not granted. A temporary refusal may be repeated.
    WatchRefused {
        request: Option<u64>,
        name: String,
        is_temporary: bool,
    },
    /// A feed begins, or begins again.
    Snapshot {
        feed: u64,
        entity: String,
        epoch: u64,
        version: u64,
        seats: Vec<u8>,
    },
    Delta {
        feed: u64,
        from: u64,
        to: u64,
        changes: Vec<(u32, u8)>,
    },
    /// A feed has ended.
    Ended {
        feed: u64,
    },
    /// A frame that the fleet ignores.
    Other,
}

/// A parsed frame and its receipts, in microseconds since counting began.
pub(super) struct CachedFrame {
    pub(super) content: FrameContent,
    /// The session of the frame, known once a watcher received it.
    pub(super) session: usize,
    pub(super) receipts: Vec<u32>,
}

/// The frames of one node.
#[derive(Default)]
pub(super) struct FrameCache {
    by_text: FxHashMap<Box<[u8]>, usize>,
    pub(super) seen: Vec<CachedFrame>,
}

impl FrameCache {
    /// Finds or parses the frame with this text. Returns its index.
    pub(super) fn lookup(&mut self, text: &[u8]) -> Result<usize, serde_json::Error> {
        if let Some(index) = self.by_text.get(text) {
            return Ok(*index);
        }
        let content = read(text)?;
        if self.by_text.len() == CACHED_TEXTS_MAX {
            self.by_text.clear();
        }
        let index = self.seen.len();
        self.seen.push(CachedFrame { content, session: 0, receipts: Vec::new() });
        self.by_text.insert(text.into(), index);
        Ok(index)
    }

    /// Forgets the texts of all frames. The frames stay.
    pub(super) fn forget(&mut self) {
        self.by_text.clear();
    }

    /// Removes all frames and their receipts.
    pub(super) fn clear(&mut self) {
        *self = FrameCache::default();
    }
}

#[derive(Deserialize)]
struct Frame {
    id: Option<u64>,
    ok: Option<Granted>,
    no: Option<Named>,
    fail: Option<Named>,
    feed: Option<u64>,
    snapshot: Option<Snapshot>,
    delta: Option<Delta>,
    ended: Option<Named>,
}

#[derive(Deserialize)]
struct Granted {
    feed: Option<u64>,
    feeds: Option<Vec<Feed>>,
    #[serde(default)]
    missing: Vec<String>,
}

#[derive(Deserialize)]
struct Feed {
    session: String,
    feed: u64,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Snapshot {
    entity: String,
    epoch: u64,
    version: u64,
    #[serde(default)]
    seats: String,
}

#[derive(Deserialize)]
struct Delta {
    from: u64,
    to: u64,
    #[serde(default)]
    changes: Vec<(u32, String)>,
}

fn read(text: &[u8]) -> Result<FrameContent, serde_json::Error> {
    let frame: Frame = serde_json::from_slice(text)?;
    let bad = |what: &str| <serde_json::Error as serde::de::Error>::custom(what);
    Ok(match (frame.feed, frame) {
        (Some(feed), Frame { snapshot: Some(snapshot), .. }) => {
            let Snapshot { entity, epoch, version, seats } = snapshot;
            let seats = STANDARD.decode(seats).map_err(|_| bad("seats are base64"))?;
            FrameContent::Snapshot { feed, entity, epoch, version, seats }
        }
        (Some(feed), Frame { delta: Some(Delta { from, to, changes }), .. }) => {
            let state = |(seat, name): (u32, String)| Some((seat, bits(&name)?));
            let changes = changes.into_iter().map(state).collect::<Option<_>>();
            FrameContent::Delta { feed, from, to, changes: changes.ok_or_else(|| bad("a state has another name"))? }
        }
        (Some(feed), Frame { ended: Some(_), .. }) => FrameContent::Ended { feed },
        (None, Frame { id: Some(request), ok: Some(Granted { feed: Some(feed), .. }), .. }) => {
            FrameContent::WatchGranted { request, feed }
        }
        (None, Frame { ok: Some(Granted { feeds: Some(feeds), missing, .. }), .. }) => {
            let feeds = feeds.into_iter().map(|Feed { session, feed }| (session, feed)).collect();
            FrameContent::CountsGranted { feeds, missing: missing.len() }
        }
        (None, Frame { id: request, no: Some(Named { name }), .. }) => {
            FrameContent::WatchRefused { request, name, is_temporary: false }
        }
        (None, Frame { id: request, fail: Some(Named { name }), .. }) => {
            FrameContent::WatchRefused { request, name, is_temporary: true }
        }
        _ => FrameContent::Other,
    })
}

/// The two bits of a seat's state.
fn bits(name: &str) -> Option<u8> {
    let state = match name {
        "free" => SeatState::Free,
        "held" => SeatState::Held,
        "sold" => SeatState::Sold,
        "blocked" => SeatState::Blocked,
        _ => return None,
    };
    Some(state as u8)
}

/// Changes seats of a packed map. Returns whether the map has all of them.
pub(super) fn change(map: &mut [u8], changes: &[(u32, u8)]) -> bool {
    changes.iter().all(|(seat, state)| {
        let shift = seat % 4 * 2;
        let byte = map.get_mut(*seat as usize / 4);
        byte.map(|byte| *byte = *byte & !(3 << shift) | state << shift).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_parsed_once() {
        let mut frames = FrameCache::default();
        let delta =
            br#"{"feed":3,"delta":{"from":391,"to":392,"changes":[[0,"held"],[4,"sold"]],"counts":{"free":0}}}"#;
        assert_eq!(frames.lookup(delta).ok(), Some(0));
        assert_eq!(frames.lookup(br#"{"hello":{"node":"n1"}}"#).ok(), Some(1));
        assert_eq!(frames.lookup(delta).ok(), Some(0));
        let expected = FrameContent::Delta { feed: 3, from: 391, to: 392, changes: vec![(0, 1), (4, 2)] };
        assert_eq!(frames.seen[0].content, expected);
        assert_eq!(frames.seen[1].content, FrameContent::Other);
        assert!(frames.lookup(b"{").is_err());
    }

    #[test]
    fn a_packed_map_changes_in_place() {
        let mut map = [0b11_10_01_00, 0];
        assert!(change(&mut map, &[(0, 2), (3, 0), (4, 1)]));
        assert_eq!(map, [0b00_10_01_10, 1]);
        assert!(!change(&mut map, &[(8, 1)]));
    }
}

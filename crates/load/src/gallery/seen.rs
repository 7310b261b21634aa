//! Frames as they are understood: a server sends all watchers of an entity the same bytes, so each is read once, and
//! recognized when it comes again.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use boxoffice_core::seat::SeatState;
use rustc_hash::FxHashMap;
use serde::Deserialize;

/// Frames that are recognized; those seen before are read again when they come again.
const KNOWN_MAX: usize = 8_192;

/// What a frame says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The request with this number is granted, and its feed has this number.
    Watching { request: u64, feed: u64 },
    /// A list of sessions is watched: the feeds of each that is there.
    Counting { feeds: Vec<(String, u64)>, missing: usize },
    /// The request with this number is not granted.
    NotGranted { request: Option<u64>, name: String, for_now: bool },
    /// A feed begins, or begins anew.
    Snapshot { feed: u64, entity: String, epoch: u64, version: u64, seats: Vec<u8> },
    /// What changed.
    Delta { feed: u64, from: u64, to: u64, changes: Vec<(u32, u8)> },
    /// A feed is over.
    Ended { feed: u64 },
    /// Something that is of no matter here.
    Other,
}

/// A frame that was read, and when watchers received it, in microseconds since the measurement began.
pub(super) struct Seen {
    pub(super) content: Content,
    /// Which session it is of, once somebody received it.
    pub(super) session: usize,
    pub(super) receipts: Vec<u32>,
}

/// The frames of one node.
#[derive(Default)]
pub(super) struct Frames {
    known: FxHashMap<Box<[u8]>, usize>,
    pub(super) seen: Vec<Seen>,
}

impl Frames {
    /// The frame with this text, by its number.
    pub(super) fn recognize(&mut self, text: &[u8]) -> Result<usize, serde_json::Error> {
        if let Some(place) = self.known.get(text) {
            return Ok(*place);
        }
        let content = read(text)?;
        if self.known.len() == KNOWN_MAX {
            self.known.clear();
        }
        let place = self.seen.len();
        self.seen.push(Seen { content, session: 0, receipts: Vec::new() });
        self.known.insert(text.into(), place);
        Ok(place)
    }

    /// Recognizes nothing that it has seen so far.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Forgets all frames with their receipts.
    pub(super) fn clear(&mut self) {
        *self = Frames::default();
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

fn read(text: &[u8]) -> Result<Content, serde_json::Error> {
    let frame: Frame = serde_json::from_slice(text)?;
    let bad = |what: &str| <serde_json::Error as serde::de::Error>::custom(what);
    Ok(match (frame.feed, frame) {
        (Some(feed), Frame { snapshot: Some(snapshot), .. }) => {
            let Snapshot { entity, epoch, version, seats } = snapshot;
            let seats = STANDARD.decode(seats).map_err(|_| bad("seats are base64"))?;
            Content::Snapshot { feed, entity, epoch, version, seats }
        }
        (Some(feed), Frame { delta: Some(Delta { from, to, changes }), .. }) => {
            let state = |(seat, name): (u32, String)| Some((seat, bits(&name)?));
            let changes = changes.into_iter().map(state).collect::<Option<_>>();
            Content::Delta { feed, from, to, changes: changes.ok_or_else(|| bad("a state has another name"))? }
        }
        (Some(feed), Frame { ended: Some(_), .. }) => Content::Ended { feed },
        (None, Frame { id: Some(request), ok: Some(Granted { feed: Some(feed), .. }), .. }) => {
            Content::Watching { request, feed }
        }
        (None, Frame { ok: Some(Granted { feeds: Some(feeds), missing, .. }), .. }) => {
            let feeds = feeds.into_iter().map(|Feed { session, feed }| (session, feed)).collect();
            Content::Counting { feeds, missing: missing.len() }
        }
        (None, Frame { id: request, no: Some(Named { name }), .. }) => {
            Content::NotGranted { request, name, for_now: false }
        }
        (None, Frame { id: request, fail: Some(Named { name }), .. }) => {
            Content::NotGranted { request, name, for_now: true }
        }
        _ => Content::Other,
    })
}

/// A state as it is packed.
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

/// Changes seats of a packed map; says whether all of them are there.
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
    fn a_frame_is_read_once() {
        let mut frames = Frames::default();
        let delta =
            br#"{"feed":3,"delta":{"from":391,"to":392,"changes":[[0,"held"],[4,"sold"]],"counts":{"free":0}}}"#;
        assert_eq!(frames.recognize(delta).ok(), Some(0));
        assert_eq!(frames.recognize(br#"{"hello":{"node":"n1"}}"#).ok(), Some(1));
        assert_eq!(frames.recognize(delta).ok(), Some(0));
        let expected = Content::Delta { feed: 3, from: 391, to: 392, changes: vec![(0, 1), (4, 2)] };
        assert_eq!(frames.seen[0].content, expected);
        assert_eq!(frames.seen[1].content, Content::Other);
        assert!(frames.recognize(b"{").is_err());
    }

    #[test]
    fn a_map_is_changed_in_place() {
        let mut map = [0b11_10_01_00, 0];
        assert!(change(&mut map, &[(0, 2), (3, 0), (4, 1)]));
        assert_eq!(map, [0b00_10_01_10, 1]);
        assert!(!change(&mut map, &[(8, 1)]));
    }
}

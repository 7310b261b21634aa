//! The channel of one session: its published map, the ring of the last deltas, and who is to be told.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use boxoffice_core::{
    answer::MapView,
    id::{Entity, Id},
};
use boxoffice_wire::{
    Encoding,
    body::Resume,
    encode,
    feed::{Delta, Ended, Snapshot},
};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::{Commit, FeedSource, NotFound, published::Published, watcher::Dirty};

/// Deltas a watcher may be behind before it gets the newest snapshot instead: five seconds of a busy session.
const RING_DELTAS: usize = 256;

/// Changes of all deltas of a ring together: what a snapshot would say in fewer bytes.
const RING_CHANGES: usize = 65_536;

/// One session's feed on this node.
pub(super) struct Channel {
    /// The node's number for it, the same for every connection.
    pub(super) feed: u64,
    /// Which session.
    pub(super) session: Id,
    epoch: u64,
    state: Mutex<State>,
    watchers: Mutex<Watchers>,
    /// Whether the hub looks at it again when nobody has watched for a while.
    pub(super) lingers: AtomicBool,
}

enum State {
    /// There is a map.
    Open(Box<Open>),
    /// The source has not been asked yet, or there was no such session when it was.
    Gone,
}

struct Open {
    published: Published,
    ring: VecDeque<(Delta, Encoded)>,
    changes_in_ring: usize,
    /// The published map, encoded when first asked for.
    snapshot: Encoded,
}

/// A frame in each encoding, made when the first watcher wants it.
#[derive(Default)]
struct Encoded([Option<Bytes>; 2]);

impl Encoded {
    fn get(&mut self, encoding: Encoding, write: impl FnOnce(&mut BytesMut)) -> Bytes {
        let place = match encoding {
            Encoding::Json => &mut self.0[0],
            Encoding::MsgPack => &mut self.0[1],
        };
        place.get_or_insert_with(|| written(write)).clone()
    }
}

fn written(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut frame = BytesMut::new();
    write(&mut frame);
    // Cut to size: it may be kept for as long as the ring lasts.
    Bytes::copy_from_slice(&frame)
}

/// Where a watcher stands in a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// It needs a snapshot.
    Nothing,
    /// It has this version.
    At(u64),
    /// It has a version the hub has yet to publish; at the next publication it goes on from there or gets a snapshot.
    Ahead {
        /// The version it has.
        version: u64,
        /// What was published when it came.
        published: u64,
    },
    /// It was told that the session is gone.
    Ended,
}

/// Who watches, in slots that stay where they are while others come and go.
#[derive(Default)]
struct Watchers {
    slots: Vec<Option<Arc<Mark>>>,
    free: Vec<usize>,
}

/// "Something is due" of one feed of one connection.
pub(super) struct Mark {
    feed: u64,
    marked: AtomicBool,
    connection: Arc<Dirty>,
}

impl Mark {
    pub(super) fn new(feed: u64, connection: Arc<Dirty>) -> Mark {
        Mark { feed, marked: AtomicBool::new(false), connection }
    }

    /// Tells the connection, unless it has been told and has not looked yet.
    pub(super) fn set(&self) {
        if !self.marked.swap(true, Ordering::AcqRel) {
            self.connection.push(self.feed);
        }
    }

    /// The connection looks now: whatever is published after this is told again.
    pub(super) fn clear(&self) {
        self.marked.store(false, Ordering::Release);
    }
}

impl Channel {
    pub(super) fn new(feed: u64, session: Id, epoch: u64) -> Channel {
        Channel {
            feed,
            session,
            epoch,
            state: Mutex::new(State::Gone),
            watchers: Mutex::default(),
            lingers: AtomicBool::new(false),
        }
    }

    /// Where a watcher who has `resume` begins. The first one has the feed begun; others wait for that. `waits` says
    /// whether commits of the session wait to be published.
    pub(super) fn begin(
        &self,
        source: &dyn FeedSource,
        resume: Option<Resume>,
        waits: impl FnOnce() -> bool,
    ) -> Result<Position, NotFound> {
        let mut state = self.state.lock();
        if matches!(*state, State::Gone) {
            *state = State::begun(source, &self.session);
        }
        let State::Open(open) = &*state else { return Err(NotFound) };
        let published = open.published.version();
        Ok(match resume {
            Some(Resume { epoch, .. }) if epoch != self.epoch => Position::Nothing,
            Some(Resume { version, .. }) if version <= published => Position::At(version),
            Some(Resume { version, .. }) if waits() => Position::Ahead { version, published },
            Some(_) | None => Position::Nothing,
        })
    }

    /// Publishes a commit. A gap in front of it has the feed begun anew, which gives every watcher a snapshot.
    /// Says whether watchers have something to look at.
    pub(super) fn publish(&self, mut commit: Commit, source: &dyn FeedSource) -> bool {
        let mut state = self.state.lock();
        let State::Open(open) = &mut *state else { return false };
        let version = open.published.version();
        if commit.to <= version {
            // The map the feed began with has it already.
            return false;
        }
        if commit.from > version {
            *state = State::begun(source, &self.session);
            return true;
        }
        open.published.apply(commit.to, &mut commit.changes);
        open.snapshot = Encoded::default();
        open.changes_in_ring += commit.changes.len();
        let counts = open.published.map().counts;
        let delta = Delta { from: version, to: commit.to, changes: commit.changes, counts, areas: Vec::new() };
        open.ring.push_back((delta, Encoded::default()));
        while open.ring.len() > RING_DELTAS || open.changes_in_ring > RING_CHANGES {
            let (oldest, _) = open.ring.pop_front().expect("changes are in deltas");
            open.changes_in_ring -= oldest.changes.len();
        }
        true
    }

    /// Gives the frames that bring a watcher from `position` to what is published, at most about `bytes_max` of them, and
    /// moves its position. Says whether there are more.
    pub(super) fn pull(
        &self,
        position: &mut Position,
        encoding: Encoding,
        bytes_max: usize,
        frame: &mut dyn FnMut(Bytes),
    ) -> bool {
        let mut state = self.state.lock();
        let open = match &mut *state {
            State::Open(open) => open,
            State::Gone => {
                if *position != Position::Ended {
                    let ended = Ended { name: SmolStr::new_static("not_found") };
                    frame(written(|out| encode::ended(encoding, out, self.feed, &ended)));
                    *position = Position::Ended;
                }
                return false;
            }
        };
        let version = open.published.version();
        let at = match *position {
            Position::At(at) => Some(at),
            Position::Ahead { published, .. } if published == version => return false,
            Position::Ahead { version: at, .. } => Some(at),
            Position::Nothing => None,
            Position::Ended => return false,
        };
        if at == Some(version) {
            *position = Position::At(version);
            return false;
        }
        let Some(next) = at.and_then(|at| open.ring.binary_search_by_key(&at, |(delta, _)| delta.from).ok()) else {
            let Open { published, snapshot, .. } = &mut **open;
            frame(snapshot.get(encoding, |out| {
                encode::snapshot(encoding, out, self.feed, &self.snapshot_of(published.map()));
            }));
            *position = Position::At(version);
            return false;
        };
        let mut given = 0;
        for (delta, encoded) in open.ring.range_mut(next..) {
            if given >= bytes_max {
                return true;
            }
            let bytes = encoded.get(encoding, |out| encode::delta(encoding, out, self.feed, delta));
            given += bytes.len();
            frame(bytes);
            *position = Position::At(delta.to);
        }
        false
    }

    fn snapshot_of(&self, map: &MapView) -> Snapshot {
        Snapshot {
            entity: Entity::Session(self.session.clone()),
            epoch: self.epoch,
            version: map.version,
            counts: map.counts,
            areas: map.areas.clone(),
            seats: map.seats.clone(),
        }
    }

    /// Adds a watcher; the number it is removed by.
    pub(super) fn join(&self, mark: Arc<Mark>) -> usize {
        let mut watchers = self.watchers.lock();
        match watchers.free.pop() {
            Some(slot) => {
                watchers.slots[slot] = Some(mark);
                slot
            }
            None => {
                watchers.slots.push(Some(mark));
                watchers.slots.len() - 1
            }
        }
    }

    /// Removes a watcher; says whether it was the last one.
    pub(super) fn leave(&self, slot: usize) -> bool {
        let mut watchers = self.watchers.lock();
        assert!(watchers.slots[slot].take().is_some(), "a watcher of {} left twice", self.session);
        watchers.free.push(slot);
        watchers.free.len() == watchers.slots.len()
    }

    /// Whether the source hands in commits for it.
    pub(super) fn is_open(&self) -> bool {
        matches!(*self.state.lock(), State::Open(_))
    }

    /// How many watch.
    pub(super) fn watching(&self) -> usize {
        let watchers = self.watchers.lock();
        watchers.slots.len() - watchers.free.len()
    }

    /// Tells the watchers in `slots` that there is something; whether there are slots beyond.
    pub(super) fn tell(&self, slots: std::ops::Range<usize>) -> bool {
        let watchers = self.watchers.lock();
        let end = slots.end.min(watchers.slots.len());
        // Who comes meanwhile sees what is published already; who leaves leaves its slot empty. Nobody is passed over.
        for mark in watchers.slots[slots.start.min(end)..end].iter().flatten() {
            mark.set();
        }
        end < watchers.slots.len()
    }
}

impl State {
    fn begun(source: &dyn FeedSource, session: &Id) -> State {
        match source.begin(session) {
            Some(map) => State::Open(Box::new(Open {
                published: Published::new(map),
                ring: VecDeque::new(),
                changes_in_ring: 0,
                snapshot: Encoded::default(),
            })),
            None => State::Gone,
        }
    }
}

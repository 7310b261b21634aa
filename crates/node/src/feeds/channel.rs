//! The channel of one entity: what is published of it, and who is to be told.

use std::sync::{Arc, atomic::AtomicBool};

use boxoffice_core::id::Entity;
use boxoffice_wire::{body::Resume, encode, feed::Ended, request::Since};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::{
    Commit, FeedSource, NoFeed,
    line::{self, Line, Reader},
    ring::written,
    watchers::{Mark, Watchers},
};

/// One entity's feed on this node.
pub(super) struct Channel {
    /// The node's number for it, the same for every connection.
    pub(super) feed: u64,
    /// Which entity.
    pub(super) entity: Entity,
    epoch: u64,
    state: Mutex<State>,
    watchers: Mutex<Watchers>,
    /// Whether the hub looks at it again when nobody has watched for a while.
    pub(super) lingers: AtomicBool,
}

enum State {
    /// There is something to tell.
    Open(Box<dyn Line>),
    /// The source has not been asked yet, or there was no such entity when it was.
    Gone,
}

/// What came of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// There is nothing new in it.
    Nothing,
    /// Watchers have something to look at.
    News,
    /// The feed is to begin anew and cannot yet: watchers keep what they have.
    Later,
}

/// Where a watcher stands in a feed. Versions of a customer are cursors.
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
    /// It was told that nothing more will come.
    Ended,
}

impl Channel {
    pub(super) fn new(feed: u64, entity: Entity, epoch: u64) -> Channel {
        Channel {
            feed,
            entity,
            epoch,
            state: Mutex::new(State::Gone),
            watchers: Mutex::default(),
            lingers: AtomicBool::new(false),
        }
    }

    /// Where a watcher who has `since` begins. The first one has the feed begun; others wait for that. `waits` says
    /// whether commits of the entity wait to be published.
    pub(super) fn begin(
        &self,
        source: &dyn FeedSource,
        since: Option<Since>,
        waits: impl FnOnce() -> bool,
    ) -> Result<Position, NoFeed> {
        let mut state = self.state.lock();
        if matches!(*state, State::Gone) {
            let beginning = source.begin(&self.entity)?;
            *state = State::Open(line::begun(&self.entity, self.epoch, beginning));
        }
        let State::Open(line) = &*state else { return Err(NoFeed::NotFound) };
        let published = line.published();
        Ok(match self.version_of(since) {
            Some(version) if version <= published => Position::At(version),
            Some(version) if waits() => Position::Ahead { version, published },
            Some(_) | None => Position::Nothing,
        })
    }

    /// What a watcher has of this entity; `None` if that is nothing, or of another epoch.
    fn version_of(&self, since: Option<Since>) -> Option<u64> {
        match (since?, &self.entity) {
            (Since::Cursor(cursor), Entity::Customer(_)) => Some(cursor),
            (Since::Version(_), Entity::Customer(_)) | (Since::Cursor(_), _) => None,
            (Since::Version(Resume { epoch, version }), _) => (epoch == self.epoch).then_some(version),
        }
    }

    /// Publishes a commit. A gap in front of it has the feed begun anew, which gives every watcher a snapshot.
    pub(super) fn publish(&self, commit: Commit, source: &dyn FeedSource) -> Published {
        let mut state = self.state.lock();
        let State::Open(line) = &mut *state else { return Published::Nothing };
        let published = line.published();
        if commit.to <= published {
            // What the feed began with has it already.
            return Published::Nothing;
        }
        if commit.from <= published {
            line.publish(commit.to, commit.news);
            return Published::News;
        }
        let line = match source.begin(&self.entity) {
            Ok(beginning) => line::begun(&self.entity, self.epoch, beginning),
            Err(NoFeed::NotFound) => {
                *state = State::Gone;
                return Published::News;
            }
            Err(NoFeed::Unreachable) => return Published::Later,
        };
        if line.published() < published {
            // Whoever has it is behind what was shown here already, and may stay so.
            return Published::Later;
        }
        *state = State::Open(line);
        Published::News
    }

    /// Gives the frames that bring a watcher from `position` to what is published, and moves its position. Says whether
    /// there are more.
    pub(super) fn pull(&self, position: &mut Position, reader: &mut Reader<'_>) -> bool {
        let mut state = self.state.lock();
        let line = match &mut *state {
            State::Open(line) => line,
            State::Gone => {
                self.end(position, "not_found", reader);
                return false;
            }
        };
        let at = match *position {
            Position::At(at) => Some(at),
            Position::Ahead { published, .. } if published == line.published() => return false,
            Position::Ahead { version, .. } => Some(version),
            Position::Nothing => None,
            Position::Ended => return false,
        };
        let (reached, more) = line.pull(at, reader);
        *position = Position::At(reached);
        if let (false, Some(why)) = (more, line.over()) {
            self.end(position, why, reader);
        }
        more
    }

    fn end(&self, position: &mut Position, why: &'static str, reader: &mut Reader<'_>) {
        if *position != Position::Ended {
            let ended = Ended { name: SmolStr::new_static(why) };
            let (encoding, feed) = (reader.encoding, self.feed);
            reader.give(written(|out| encode::ended(encoding, out, feed, &ended)));
            *position = Position::Ended;
        }
    }

    /// Adds a watcher; the number it is removed by.
    pub(super) fn join(&self, mark: Arc<Mark>) -> usize {
        self.watchers.lock().join(mark)
    }

    /// Removes a watcher; says whether it was the last one.
    pub(super) fn leave(&self, slot: usize) -> bool {
        self.watchers.lock().leave(slot)
    }

    /// Whether the source hands in commits for it.
    pub(super) fn is_open(&self) -> bool {
        matches!(*self.state.lock(), State::Open(_))
    }

    /// How many watch.
    pub(super) fn watching(&self) -> usize {
        self.watchers.lock().len()
    }

    /// Tells the watchers in `slots` that there is something; whether there are slots beyond.
    pub(super) fn tell(&self, slots: std::ops::Range<usize>) -> bool {
        self.watchers.lock().tell(slots)
    }
}

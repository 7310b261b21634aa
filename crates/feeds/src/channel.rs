//! The channel of one entity: what is published of it, and who is to be told.

use std::sync::{Arc, atomic::AtomicBool};

use boxoffice_core::{answer::Purchase, id::Entity};
use boxoffice_wire::{body::Resume, call::Since, encode, feed::Ended};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::{
    Beginning, Commit, FeedSource, News, NoFeed, View, kinds,
    line::Line,
    mark::Mark,
    reader::{Pulled, Reader},
    ring::written,
    watchers::Watchers,
};

/// Entries of what is committed while an answer is awaited, before they are reduced to one a seat and an area.
const ENTRIES_MAX: usize = 4_096;

/// One entity's feed on this node, in one view of it.
pub(super) struct Channel {
    /// The node's number for it, the same for every connection.
    pub(super) feed: u64,
    /// Which entity.
    pub(super) entity: Entity,
    /// How much of it.
    pub(super) view: View,
    /// Deltas that a watcher may be behind.
    depth: usize,
    inside: Mutex<Inside>,
    watchers: Mutex<Watchers>,
    /// Whether the hub looks at it again when nobody has watched for a while.
    pub(super) lingers: AtomicBool,
}

struct Inside {
    state: State,
    /// The epoch that it begins in the next time.
    epoch: u64,
    /// The epoch of what is published.
    begun_in: u64,
    /// How it begins, or begins anew, was asked for and is not known yet.
    asked: bool,
    /// How often it was asked for.
    asks: u64,
    /// What was committed since it was asked.
    meanwhile: Option<Commit>,
    /// Since which monotonic millisecond it is to begin anew and cannot.
    cut_off_ms: Option<u64>,
    /// Since which monotonic millisecond it may be behind, when watchers are to know.
    stale_since_ms: Option<u64>,
}

enum State {
    /// There is something to tell.
    Open(Box<dyn Line>),
    /// The source has not been asked, or has not answered yet.
    Unknown,
    /// Why it did not begin, when it was last asked.
    Refused(NoFeed),
    /// There is no such entity any more.
    Gone,
}

/// How old what a channel publishes may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Age {
    /// Watchers are to know.
    pub(super) is_stale: bool,
    /// They were not told, or were told otherwise.
    pub(super) is_news: bool,
    /// In how many milliseconds they are to know if nothing comes until then.
    pub(super) again_ms: Option<u64>,
}

/// What came of a commit, or of the source's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// There is nothing new in it.
    Nothing,
    /// Watchers have something to look at.
    News,
    /// The feed is to begin anew, which was asked for: watchers keep what they have.
    Asked,
    /// The feed is to begin anew and cannot yet: watchers keep what they have.
    Later,
}

/// Where a watcher stands in a feed. Versions of a customer are cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// It needs a snapshot.
    Nothing,
    /// It has this version, of this epoch.
    At {
        /// The epoch.
        epoch: u64,
        /// The version.
        version: u64,
    },
    /// It has a version the hub has yet to publish: it was told by a node that was quicker, and goes on from there. Or that
    /// was never there, and when it was waited for long enough the watcher gets a snapshot.
    Ahead {
        /// The epoch.
        epoch: u64,
        /// The version it has.
        version: u64,
        /// The waiting time of the hub until which the node waits for it.
        waits_until_ms: u64,
    },
    /// It was told that nothing more will come.
    Ended,
}

impl Inside {
    fn ask(&mut self) {
        self.asked = true;
        self.asks += 1;
    }
}

impl Channel {
    pub(super) fn new(feed: u64, entity: Entity, view: View, (epoch, depth): (u64, usize)) -> Channel {
        Channel {
            feed,
            entity,
            view,
            depth,
            inside: Mutex::new(Inside {
                state: State::Unknown,
                epoch,
                begun_in: epoch,
                asked: false,
                asks: 0,
                meanwhile: None,
                cut_off_ms: None,
                stale_since_ms: None,
            }),
            watchers: Mutex::default(),
            lingers: AtomicBool::new(false),
        }
    }

    /// Asks how it begins, if nobody has; says whether the answer is awaited from now on.
    pub(super) fn open(&self, source: &dyn FeedSource) -> bool {
        let mut inside = self.inside.lock();
        if matches!(inside.state, State::Open(_)) || inside.asked {
            return false;
        }
        inside.begun_in = inside.epoch;
        inside.state = match source.begin(&self.entity) {
            Ok(beginning) => State::Open(self.begun_with(inside.epoch, beginning)),
            Err(NoFeed::Asked) => {
                inside.ask();
                State::Unknown
            }
            Err(why) => State::Refused(why),
        };
        inside.asked
    }

    /// Where a watcher who has `since` begins. `may_come` says until when a version that is not published yet is waited for,
    /// if it may come.
    pub(super) fn place(
        &self,
        since: Option<Since>,
        may_come: impl FnOnce() -> Option<u64>,
    ) -> Result<Position, NoFeed> {
        let inside = self.inside.lock();
        let line = match &inside.state {
            State::Open(line) => line,
            State::Unknown => return Err(NoFeed::Asked),
            State::Refused(why) => return Err(*why),
            State::Gone => return Err(NoFeed::NotFound),
        };
        let (published, epoch) = (line.published(), inside.begun_in);
        Ok(match self.version_of(epoch, since) {
            Some(version) if version <= published => Position::At { epoch, version },
            Some(version) => {
                let ahead = |waits_until_ms| Position::Ahead { epoch, version, waits_until_ms };
                may_come().map_or(Position::Nothing, ahead)
            }
            None => Position::Nothing,
        })
    }

    /// What a watcher has of this entity; `None` if that is nothing, or of another epoch.
    fn version_of(&self, known: u64, since: Option<Since>) -> Option<u64> {
        match (since?, &self.entity) {
            (Since::Cursor(cursor), Entity::Customer(_)) => Some(cursor),
            (Since::Version(_), Entity::Customer(_)) | (Since::Cursor(_), _) => None,
            (Since::Version(Resume { epoch, version }), _) => (epoch == known).then_some(version),
        }
    }

    fn begun_with(&self, epoch: u64, beginning: Beginning) -> Box<dyn Line> {
        kinds::begun(&self.entity, self.view, (epoch, self.depth), beginning)
    }

    /// Publishes a commit. A gap in front of it has the feed begun anew, which gives every watcher a snapshot.
    pub(super) fn publish(&self, commit: Commit, source: &dyn FeedSource) -> Published {
        let mut inside = self.inside.lock();
        if inside.asked && !matches!(commit.news, News::Lost) {
            // The answer may be from before it.
            match &mut inside.meanwhile {
                Some(before) if before.to == commit.from => {
                    before.absorb(commit);
                    if before.entries() > ENTRIES_MAX {
                        before.reduce();
                    }
                }
                other => *other = Some(commit),
            }
            return Published::Nothing;
        }
        let State::Open(line) = &mut inside.state else {
            // Whoever was asked is lost: somebody else is asked.
            return if inside.asked { self.begin_anew(&mut inside, source) } else { Published::Nothing };
        };
        let published = line.published();
        if commit.to <= published {
            // What the feed began with has it already.
            return Published::Nothing;
        }
        if commit.from <= published {
            line.publish(commit.to, commit.news);
            return Published::News;
        }
        self.begin_anew(&mut inside, source)
    }

    fn begin_anew(&self, inside: &mut Inside, source: &dyn FeedSource) -> Published {
        (inside.asked, inside.meanwhile) = (false, None);
        let outcome = source.begin(&self.entity);
        self.begin_with(inside, outcome)
    }

    /// Versions belong to another epoch: it begins anew, at whatever version it has now.
    pub(super) fn begin_epoch(&self, epoch: u64, source: &dyn FeedSource) -> Published {
        let mut inside = self.inside.lock();
        let before = std::mem::replace(&mut inside.epoch, epoch);
        match before != epoch && matches!(inside.state, State::Open(_)) {
            true => self.begin_anew(&mut inside, source),
            false => Published::Nothing,
        }
    }

    /// The source has answered, or is asked no more.
    pub(super) fn answered(&self, outcome: Result<Beginning, NoFeed>, source: &dyn FeedSource) -> Published {
        let mut inside = self.inside.lock();
        let asked = std::mem::replace(&mut inside.asked, false);
        if !asked && !self.is_behind(&inside, &outcome) {
            return Published::Nothing;
        }
        let meanwhile = inside.meanwhile.take();
        let begun = self.begin_with(&mut inside, outcome);
        drop(inside);
        match (begun, meanwhile) {
            (Published::News, Some(commit)) => match self.publish(commit, source) {
                Published::Nothing => Published::News,
                published => published,
            },
            (begun, _) => begun,
        }
    }

    /// Whether another view of the entity was told more than is published here: then commits between may never come.
    fn is_behind(&self, inside: &Inside, outcome: &Result<Beginning, NoFeed>) -> bool {
        match (&inside.state, outcome) {
            (State::Open(line), Ok(beginning)) => {
                inside.begun_in != inside.epoch || line.published() < beginning.version()
            }
            _ => false,
        }
    }

    fn begin_with(&self, inside: &mut Inside, outcome: Result<Beginning, NoFeed>) -> Published {
        let published = match &inside.state {
            State::Open(line) => Some(line.published()),
            _ => None,
        };
        match (outcome, published) {
            (Err(NoFeed::Asked), _) => {
                inside.ask();
                Published::Asked
            }
            // Whoever has it is behind what was shown here already, and may stay so; in another epoch that says nothing.
            (Ok(beginning), Some(published)) if inside.begun_in == inside.epoch && beginning.version() < published => {
                Published::Later
            }
            (Ok(beginning), _) => {
                inside.cut_off_ms = None;
                inside.begun_in = inside.epoch;
                inside.state = State::Open(self.begun_with(inside.epoch, beginning));
                Published::News
            }
            (Err(NoFeed::Unreachable), Some(_)) => Published::Later,
            (Err(NoFeed::NotFound), Some(_)) => {
                inside.state = State::Gone;
                Published::News
            }
            (Err(why), None) => {
                inside.state = State::Refused(why);
                Published::News
            }
        }
    }

    /// It is to begin anew and cannot yet.
    pub(super) fn is_cut_off(&self, now_ms: u64) {
        let mut inside = self.inside.lock();
        if matches!(inside.state, State::Open(_)) {
            inside.cut_off_ms.get_or_insert(now_ms);
        }
    }

    /// Looks at how old what is published may be: for how long whoever hands in commits is `unled_ms`, or nobody does.
    /// Watchers are to know from `stale_ms` on.
    pub(super) fn look_at_age(&self, now_ms: u64, unled_ms: Option<u64>, stale_ms: u64) -> Age {
        let mut inside = self.inside.lock();
        if !matches!(inside.state, State::Open(_)) {
            return Age::default();
        }
        let age_ms = inside.cut_off_ms.map(|since_ms| now_ms.saturating_sub(since_ms)).max(unled_ms);
        let was_stale = inside.stale_since_ms.is_some();
        inside.stale_since_ms = age_ms.filter(|age_ms| *age_ms >= stale_ms).map(|age_ms| now_ms.saturating_sub(age_ms));
        let is_stale = inside.stale_since_ms.is_some();
        let again_ms = age_ms.filter(|_| !is_stale).map(|age_ms| stale_ms - age_ms);
        Age { is_stale, is_news: is_stale != was_stale, again_ms }
    }

    /// How often the source was asked so far.
    pub(super) fn asks(&self) -> u64 {
        self.inside.lock().asks
    }

    /// Whether the source's answer is awaited.
    pub(super) fn is_asked(&self) -> bool {
        self.inside.lock().asked
    }

    /// A page of a customer's purchases came. Whether a watcher has asked for it.
    pub(super) fn turned_to(&self, after: u64, page: Vec<Purchase>) -> bool {
        match &mut self.inside.lock().state {
            State::Open(line) => line.turned_to(after, page),
            _ => false,
        }
    }

    /// A page that was asked for has not come, if so; whether somebody may wait for one.
    pub(super) fn ask_again(&self) -> bool {
        match &mut self.inside.lock().state {
            State::Open(line) => {
                line.ask_again();
                true
            }
            _ => false,
        }
    }

    /// Gives the frames that bring a watcher from `position` to what is published, and moves its position; `told_stale` is
    /// whether it knows that this may be old.
    pub(super) fn pull(&self, position: &mut Position, told_stale: &mut bool, reader: &mut Reader<'_>) -> Pulled {
        let mut inside = self.inside.lock();
        let (stale_since_ms, begun_in) = (inside.stale_since_ms, inside.begun_in);
        let line = match &mut inside.state {
            State::Open(line) => line,
            State::Gone | State::Refused(_) | State::Unknown => {
                self.end(position, "not_found", reader);
                return Pulled::All;
            }
        };
        if let Position::At { epoch, version } | Position::Ahead { epoch, version, .. } = *position
            && epoch != begun_in
            // Cursors are good for ever, unless there never was such a purchase.
            && (!matches!(self.entity, Entity::Customer(_)) || version > line.published())
        {
            *position = Position::Nothing;
        }
        let at = match *position {
            Position::At { version, .. } => Some(version),
            Position::Ahead { version, .. } if version <= line.published() => Some(version),
            Position::Ahead { waits_until_ms, .. } if reader.waited_ms < waits_until_ms => {
                self.tell_age(stale_since_ms, told_stale, reader);
                return Pulled::All;
            }
            Position::Ahead { .. } => None,
            Position::Nothing => None,
            Position::Ended => return Pulled::All,
        };
        let (reached, pulled) = line.pull(at, reader);
        if let Some(reached) = reached {
            *position = Position::At { epoch: begun_in, version: reached };
        }
        if let (Pulled::All, Some(why)) = (pulled, line.over()) {
            self.end(position, why, reader);
        } else if pulled == Pulled::All {
            self.tell_age(stale_since_ms, told_stale, reader);
        }
        pulled
    }

    /// Tells a watcher that what it sees may be old, or no longer is, unless it knows.
    fn tell_age(&self, stale_since_ms: Option<u64>, told_stale: &mut bool, reader: &mut Reader<'_>) {
        if *told_stale != stale_since_ms.is_some() {
            *told_stale = stale_since_ms.is_some();
            let stale_ms = stale_since_ms.map_or(0, |since_ms| (reader.now_ms)().saturating_sub(since_ms).max(1));
            let (encoding, feed) = (reader.encoding, self.feed);
            reader.give(written(|out| encode::stale(encoding, out, feed, stale_ms)));
        }
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

    /// Whether the source hands in commits for it, or is about to.
    pub(super) fn is_begun(&self) -> bool {
        let inside = self.inside.lock();
        inside.asked || matches!(inside.state, State::Open(_))
    }

    /// How many watch.
    pub(super) fn watching(&self) -> usize {
        self.watchers.lock().len()
    }

    /// All watchers are to be told that there is something; whether none were being told already.
    pub(super) fn has_news(&self) -> bool {
        self.watchers.lock().has_news()
    }

    /// Tells so many watchers; whether there are more to be told.
    pub(super) fn tell(&self, count: usize) -> bool {
        self.watchers.lock().tell(count)
    }
}

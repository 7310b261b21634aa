//! The channel of one entity: what is published of it, and who is to be told.

use std::sync::{Arc, atomic::AtomicBool};

use boxoffice_core::{answer::Purchase, id::Entity};
use boxoffice_wire::{body::Resume, call::Since, encode, feed::Ended};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::{
    Commit, FeedSource, FeedUpdate, InitialState, NoFeed, View, kinds,
    publisher::Publisher,
    reader::{Pulled, Reader},
    ready::ReadyFlag,
    ring::frame_from,
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
    state: Mutex<ChannelState>,
    watchers: Mutex<Watchers>,
    /// Whether the hub looks at it again when nobody has watched for a while.
    pub(super) lingers: AtomicBool,
}

struct ChannelState {
    phase: Phase,
    /// The epoch that it begins in the next time.
    epoch: u64,
    /// The epoch of what is published.
    published_epoch: u64,
    /// How it begins, or begins anew, was asked for and is not known yet.
    pending: bool,
    /// How often it was asked for.
    requests: u64,
    /// What was committed since it was asked.
    buffered: Option<Commit>,
    /// Since which monotonic millisecond it is to begin anew and cannot.
    disconnected_ms: Option<u64>,
    /// Since which monotonic millisecond it may be behind, when watchers are to know.
    stale_since_ms: Option<u64>,
}

enum Phase {
    /// There is something to tell.
    Open(Box<dyn Publisher>),
    /// The source has not been asked, or has not answered yet.
    Unknown,
    /// Why it did not begin, when it was last asked.
    Refused(NoFeed),
    /// There is no such entity any more.
    Gone,
}

/// How old what a channel publishes may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Staleness {
    /// Watchers are to know.
    pub(super) is_stale: bool,
    /// They were not told, or were told otherwise.
    pub(super) changed: bool,
    /// In how many milliseconds they are to know if nothing comes until then.
    pub(super) again_ms: Option<u64>,
}

/// What came of a commit, or of the source's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublishOutcome {
    /// There is nothing new in it.
    Nothing,
    /// Watchers have something to look at.
    Updated,
    /// The feed is to begin anew, which was asked for: watchers keep what they have.
    Requested,
    /// The feed is to begin anew and cannot yet: watchers keep what they have.
    RetryLater,
}

/// Where a watcher stands in a feed. Versions of a customer are cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// It needs a snapshot.
    NeedsSnapshot,
    /// It has this version, of this epoch.
    At {
        /// The epoch.
        epoch: u64,
        /// The version.
        version: u64,
    },
    /// It has a version the hub has yet to publish: it was told by a node that was quicker, and goes on from there. Or that
    /// was never there, and when it was waited for long enough the watcher gets a snapshot.
    ResumeAhead {
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

impl ChannelState {
    fn start_request(&mut self) {
        self.pending = true;
        self.requests += 1;
    }
}

impl Channel {
    pub(super) fn new(feed: u64, entity: Entity, view: View, (epoch, depth): (u64, usize)) -> Channel {
        Channel {
            feed,
            entity,
            view,
            depth,
            state: Mutex::new(ChannelState {
                phase: Phase::Unknown,
                epoch,
                published_epoch: epoch,
                pending: false,
                requests: 0,
                buffered: None,
                disconnected_ms: None,
                stale_since_ms: None,
            }),
            watchers: Mutex::default(),
            lingers: AtomicBool::new(false),
        }
    }

    /// Asks how it begins, if nobody has; says whether the answer is awaited from now on.
    pub(super) fn open(&self, source: &dyn FeedSource) -> bool {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Open(_)) || state.pending {
            return false;
        }
        state.published_epoch = state.epoch;
        state.phase = match source.begin(&self.entity) {
            Ok(initial) => Phase::Open(self.publisher_from(state.epoch, initial)),
            Err(NoFeed::Pending) => {
                state.start_request();
                Phase::Unknown
            }
            Err(why) => Phase::Refused(why),
        };
        state.pending
    }

    /// Where a watcher who has `since` begins. `may_come` says until when a version that is not published yet is waited for,
    /// if it may come.
    pub(super) fn resume_position(
        &self,
        since: Option<Since>,
        may_come: impl FnOnce() -> Option<u64>,
    ) -> Result<Position, NoFeed> {
        let state = self.state.lock();
        let publisher = match &state.phase {
            Phase::Open(publisher) => publisher,
            Phase::Unknown => return Err(NoFeed::Pending),
            Phase::Refused(why) => return Err(*why),
            Phase::Gone => return Err(NoFeed::NotFound),
        };
        let (published, epoch) = (publisher.published(), state.published_epoch);
        Ok(match self.version_of(epoch, since) {
            Some(version) if version <= published => Position::At { epoch, version },
            Some(version) => {
                let ahead = |waits_until_ms| Position::ResumeAhead { epoch, version, waits_until_ms };
                may_come().map_or(Position::NeedsSnapshot, ahead)
            }
            None => Position::NeedsSnapshot,
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

    fn publisher_from(&self, epoch: u64, initial: InitialState) -> Box<dyn Publisher> {
        kinds::publisher(&self.entity, self.view, (epoch, self.depth), initial)
    }

    /// Publishes a commit. A gap in front of it has the feed begun anew, which gives every watcher a snapshot.
    pub(super) fn publish(&self, commit: Commit, source: &dyn FeedSource) -> PublishOutcome {
        let mut state = self.state.lock();
        if state.pending && !matches!(commit.update, FeedUpdate::Lost) {
            // The answer may be from before it.
            match &mut state.buffered {
                Some(before) if before.to == commit.from => {
                    before.absorb(commit);
                    if before.entries() > ENTRIES_MAX {
                        before.reduce();
                    }
                }
                other => *other = Some(commit),
            }
            return PublishOutcome::Nothing;
        }
        let Phase::Open(publisher) = &mut state.phase else {
            // Whoever was asked is lost: somebody else is asked.
            return if state.pending { self.restart(&mut state, source) } else { PublishOutcome::Nothing };
        };
        let published = publisher.published();
        if commit.to <= published {
            // What the feed began with has it already.
            return PublishOutcome::Nothing;
        }
        if commit.from <= published {
            publisher.publish(commit.to, commit.update);
            return PublishOutcome::Updated;
        }
        self.restart(&mut state, source)
    }

    fn restart(&self, state: &mut ChannelState, source: &dyn FeedSource) -> PublishOutcome {
        (state.pending, state.buffered) = (false, None);
        let outcome = source.begin(&self.entity);
        self.begin_with(state, outcome)
    }

    /// Versions belong to another epoch: it begins anew, at whatever version it has now.
    pub(super) fn begin_epoch(&self, epoch: u64, source: &dyn FeedSource) -> PublishOutcome {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.epoch, epoch);
        match before != epoch && matches!(state.phase, Phase::Open(_)) {
            true => self.restart(&mut state, source),
            false => PublishOutcome::Nothing,
        }
    }

    /// The source has answered, or is asked no more.
    pub(super) fn on_answer(&self, outcome: Result<InitialState, NoFeed>, source: &dyn FeedSource) -> PublishOutcome {
        let mut state = self.state.lock();
        let pending = std::mem::replace(&mut state.pending, false);
        if !pending && !self.is_behind(&state, &outcome) {
            return PublishOutcome::Nothing;
        }
        let buffered = state.buffered.take();
        let begun = self.begin_with(&mut state, outcome);
        drop(state);
        match (begun, buffered) {
            (PublishOutcome::Updated, Some(commit)) => match self.publish(commit, source) {
                PublishOutcome::Nothing => PublishOutcome::Updated,
                published => published,
            },
            (begun, _) => begun,
        }
    }

    /// Whether another view of the entity was told more than is published here: then commits between may never come.
    fn is_behind(&self, state: &ChannelState, outcome: &Result<InitialState, NoFeed>) -> bool {
        match (&state.phase, outcome) {
            (Phase::Open(publisher), Ok(initial)) => {
                state.published_epoch != state.epoch || publisher.published() < initial.version()
            }
            _ => false,
        }
    }

    fn begin_with(&self, state: &mut ChannelState, outcome: Result<InitialState, NoFeed>) -> PublishOutcome {
        let published = match &state.phase {
            Phase::Open(publisher) => Some(publisher.published()),
            _ => None,
        };
        match (outcome, published) {
            (Err(NoFeed::Pending), _) => {
                state.start_request();
                PublishOutcome::Requested
            }
            // Whoever has it is behind what was shown here already, and may stay so; in another epoch that says nothing.
            (Ok(initial), Some(published)) if state.published_epoch == state.epoch && initial.version() < published => {
                PublishOutcome::RetryLater
            }
            (Ok(initial), _) => {
                state.disconnected_ms = None;
                state.published_epoch = state.epoch;
                state.phase = Phase::Open(self.publisher_from(state.epoch, initial));
                PublishOutcome::Updated
            }
            (Err(NoFeed::Unreachable), Some(_)) => PublishOutcome::RetryLater,
            (Err(NoFeed::NotFound), Some(_)) => {
                state.phase = Phase::Gone;
                PublishOutcome::Updated
            }
            (Err(why), None) => {
                state.phase = Phase::Refused(why);
                PublishOutcome::Updated
            }
        }
    }

    /// It is to begin anew and cannot yet.
    pub(super) fn mark_disconnected(&self, now_ms: u64) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Open(_)) {
            state.disconnected_ms.get_or_insert(now_ms);
        }
    }

    /// Looks at how old what is published may be: for how long whoever hands in commits is `leaderless_ms`, or nobody does.
    /// Watchers are to know from `stale_ms` on.
    pub(super) fn update_staleness(&self, now_ms: u64, leaderless_ms: Option<u64>, stale_ms: u64) -> Staleness {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Open(_)) {
            return Staleness::default();
        }
        let age_ms = state.disconnected_ms.map(|since_ms| now_ms.saturating_sub(since_ms)).max(leaderless_ms);
        let was_stale = state.stale_since_ms.is_some();
        state.stale_since_ms = age_ms.filter(|age_ms| *age_ms >= stale_ms).map(|age_ms| now_ms.saturating_sub(age_ms));
        let is_stale = state.stale_since_ms.is_some();
        let again_ms = age_ms.filter(|_| !is_stale).map(|age_ms| stale_ms - age_ms);
        Staleness { is_stale, changed: is_stale != was_stale, again_ms }
    }

    /// How often the source was asked so far.
    pub(super) fn requests(&self) -> u64 {
        self.state.lock().requests
    }

    /// Whether the source's answer is awaited.
    pub(super) fn is_pending(&self) -> bool {
        self.state.lock().pending
    }

    /// A page of a customer's purchases came. Whether a watcher has asked for it.
    pub(super) fn purchases_page(&self, after: u64, page: Vec<Purchase>) -> bool {
        match &mut self.state.lock().phase {
            Phase::Open(publisher) => publisher.purchases_page(after, page),
            _ => false,
        }
    }

    /// A page that was asked for has not come, if so; whether somebody may wait for one.
    pub(super) fn ask_again(&self) -> bool {
        match &mut self.state.lock().phase {
            Phase::Open(publisher) => {
                publisher.ask_again();
                true
            }
            _ => false,
        }
    }

    /// Gives the frames that bring a watcher from `position` to what is published, and moves its position; `knows_stale` is
    /// whether it knows that this may be old.
    pub(super) fn pull(&self, position: &mut Position, knows_stale: &mut bool, reader: &mut Reader<'_>) -> Pulled {
        let mut state = self.state.lock();
        let (stale_since_ms, published_epoch) = (state.stale_since_ms, state.published_epoch);
        let publisher = match &mut state.phase {
            Phase::Open(publisher) => publisher,
            Phase::Gone | Phase::Refused(_) | Phase::Unknown => {
                self.end(position, "not_found", reader);
                return Pulled::All;
            }
        };
        if let Position::At { epoch, version } | Position::ResumeAhead { epoch, version, .. } = *position
            && epoch != published_epoch
            // Cursors are good for ever, unless there never was such a purchase.
            && (!matches!(self.entity, Entity::Customer(_)) || version > publisher.published())
        {
            *position = Position::NeedsSnapshot;
        }
        let at = match *position {
            Position::At { version, .. } => Some(version),
            Position::ResumeAhead { version, .. } if version <= publisher.published() => Some(version),
            Position::ResumeAhead { waits_until_ms, .. } if reader.waited_ms < waits_until_ms => {
                self.send_staleness(stale_since_ms, knows_stale, reader);
                return Pulled::All;
            }
            Position::ResumeAhead { .. } => None,
            Position::NeedsSnapshot => None,
            Position::Ended => return Pulled::All,
        };
        let (reached, pulled) = publisher.pull(at, reader);
        if let Some(reached) = reached {
            *position = Position::At { epoch: published_epoch, version: reached };
        }
        if let (Pulled::All, Some(why)) = (pulled, publisher.end_reason()) {
            self.end(position, why, reader);
        } else if pulled == Pulled::All {
            self.send_staleness(stale_since_ms, knows_stale, reader);
        }
        pulled
    }

    /// Tells a watcher that what it sees may be old, or no longer is, unless it knows.
    fn send_staleness(&self, stale_since_ms: Option<u64>, knows_stale: &mut bool, reader: &mut Reader<'_>) {
        if *knows_stale != stale_since_ms.is_some() {
            *knows_stale = stale_since_ms.is_some();
            let stale_ms = stale_since_ms.map_or(0, |since_ms| (reader.now_ms)().saturating_sub(since_ms).max(1));
            let (encoding, feed) = (reader.encoding, self.feed);
            reader.give(frame_from(|out| encode::stale(encoding, out, feed, stale_ms)));
        }
    }

    fn end(&self, position: &mut Position, why: &'static str, reader: &mut Reader<'_>) {
        if *position != Position::Ended {
            let ended = Ended { name: SmolStr::new_static(why) };
            let (encoding, feed) = (reader.encoding, self.feed);
            reader.give(frame_from(|out| encode::ended(encoding, out, feed, &ended)));
            *position = Position::Ended;
        }
    }

    /// Adds a watcher; the number it is removed by.
    pub(super) fn join(&self, ready: Arc<ReadyFlag>) -> usize {
        self.watchers.lock().join(ready)
    }

    /// Removes a watcher; says whether it was the last one.
    pub(super) fn leave(&self, slot: usize) -> bool {
        self.watchers.lock().leave(slot)
    }

    /// Whether the source hands in commits for it, or is about to.
    pub(super) fn is_begun(&self) -> bool {
        let state = self.state.lock();
        state.pending || matches!(state.phase, Phase::Open(_))
    }

    /// How many watch.
    pub(super) fn watching(&self) -> usize {
        self.watchers.lock().len()
    }

    /// All watchers are to be told that there is something; whether none were being told already.
    pub(super) fn start_fan_out(&self) -> bool {
        self.watchers.lock().start_fan_out()
    }

    /// Tells so many watchers; whether there are more to be told.
    pub(super) fn notify(&self, count: usize) -> bool {
        self.watchers.lock().notify(count)
    }
}

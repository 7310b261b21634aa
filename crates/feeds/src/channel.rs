//! The channel of one entity: its publisher and its watchers.

use std::sync::{Arc, atomic::AtomicBool};

use boxoffice_core::{answer::Purchase, id::Entity};
use boxoffice_wire::{
    body::{PurchaseCursor, Resume},
    call::Since,
    encode,
    feed::Ended,
};
use smol_str::SmolStr;
use tracing_mutex::parkinglot::Mutex;

use super::{
    Commit, FeedSource, FeedUpdate, InitialState, NoFeed, View, kinds,
    publisher::Publisher,
    reader::{Pulled, Reader},
    ready::ReadyFlag,
    ring::frame_from,
    watchers::Watchers,
};

/// Buffered entries before they are reduced to one for each seat and area.
const ENTRIES_MAX: usize = 4_096;

/// The feed of one entity on this node, in one view.
pub(super) struct Channel {
    /// The node's number for it, the same for every connection.
    pub(super) feed: u64,
    pub(super) entity: Entity,
    pub(super) view: View,
    /// Deltas kept in the ring.
    depth: usize,
    state: Mutex<ChannelState>,
    watchers: Mutex<Watchers>,
    /// Whether a timer of the hub removes it if it has no watchers.
    pub(super) lingers: AtomicBool,
}

struct ChannelState {
    phase: Phase,
    /// The epoch of the next restart.
    epoch: u64,
    published_epoch: u64,
    /// The initial state was requested and has not come yet.
    pending: bool,
    /// The number of requests so far.
    requests: u64,
    /// Commits since the request, as one.
    buffered: Option<Commit>,
    /// The monotonic millisecond since which it must restart and cannot.
    disconnected_ms: Option<u64>,
    /// The monotonic millisecond since which it may be stale, if watchers must know.
    stale_since_ms: Option<u64>,
}

enum Phase {
    /// The feed has begun.
    Open(Box<dyn Publisher>),
    /// The source has not been asked, or has not answered yet.
    Unknown,
    /// The source refused the last request.
    Refused(NoFeed),
    /// The entity does not exist any more.
    Gone,
}

/// Whether a channel's published state may be stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Staleness {
    /// Watchers must know that it may be stale.
    pub(super) is_stale: bool,
    /// Watchers do not know this value yet.
    pub(super) changed: bool,
    /// Milliseconds until it becomes stale without a change.
    pub(super) again_ms: Option<u64>,
}

/// The result of a commit, or of the source's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublishOutcome {
    Nothing,
    /// Watchers have something to pull.
    Updated,
    /// The feed restarts when an answer comes. Watchers keep what they have.
    Requested,
    /// The feed must restart and cannot yet. Watchers keep what they have.
    RetryLater,
}

/// The position of a watcher in a feed. A customer's versions are cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// It needs a snapshot.
    NeedsSnapshot,
    /// It has this version of this epoch.
    At { epoch: u64, version: u64 },
    /// It has a version that the hub has not published yet, from a node that was ahead, and resumes there. If the
    /// version does not come until this waiting time of the hub, it receives a snapshot.
    ResumeAhead { epoch: u64, version: u64, waits_until_ms: u64 },
    /// It has received the end of the feed.
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

    /// Requests the initial state unless that was done, and returns whether an answer is pending.
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

    /// The position of a new watcher that has `since`. If that is not published yet, `may_come` returns until when the
    /// hub waits for it, if it may come.
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

    /// The version that a watcher has, `None` without one or in another epoch.
    fn version_of(&self, known: u64, since: Option<Since>) -> Option<u64> {
        match (since?, &self.entity) {
            (Since::Cursor(PurchaseCursor { epoch, cursor }), Entity::Customer(_)) => {
                epoch.is_none_or(|epoch| epoch == known).then_some(cursor)
            }
            (Since::Version(_), Entity::Customer(_)) | (Since::Cursor(_), _) => None,
            (Since::Version(Resume { epoch, version }), _) => (epoch == known).then_some(version),
        }
    }

    fn publisher_from(&self, epoch: u64, initial: InitialState) -> Box<dyn Publisher> {
        kinds::publisher(&self.entity, self.view, (epoch, self.depth), initial)
    }

    /// Publishes a commit. After a gap the feed restarts, which gives every watcher a snapshot.
    pub(super) fn publish(&self, commit: Commit, source: &dyn FeedSource) -> PublishOutcome {
        let mut state = self.state.lock();
        if state.pending && !matches!(commit.update, FeedUpdate::Lost) {
            // The pending answer may be older than this commit.
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
            // The node that was asked is lost, so another one is asked.
            return if state.pending { self.restart(&mut state, source) } else { PublishOutcome::Nothing };
        };
        let published = publisher.published();
        if commit.to <= published {
            // The initial state contains it.
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

    /// Restarts the feed in another epoch, at its current version.
    pub(super) fn begin_epoch(&self, epoch: u64, source: &dyn FeedSource) -> PublishOutcome {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.epoch, epoch);
        match before != epoch && matches!(state.phase, Phase::Open(_)) {
            true => self.restart(&mut state, source),
            false => PublishOutcome::Nothing,
        }
    }

    /// The source has answered, or its answer has timed out.
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

    /// Whether an answer for another view of the entity is newer than the published state. Then commits in between may
    /// never come.
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
            // The source is behind the state that watchers have, and may stay behind. Other epochs cannot be compared.
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

    /// Records that the feed must restart and cannot.
    pub(super) fn mark_disconnected(&self, now_ms: u64) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Open(_)) {
            state.disconnected_ms.get_or_insert(now_ms);
        }
    }

    /// Updates the staleness from the time without a leader (`leaderless_ms`) or without a source. From `stale_ms` on
    /// watchers must know.
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

    /// The number of requests to the source so far.
    pub(super) fn requests(&self) -> u64 {
        self.state.lock().requests
    }

    /// Whether an answer of the source is pending.
    pub(super) fn is_pending(&self) -> bool {
        self.state.lock().pending
    }

    /// Stores a page of a customer's purchases, and returns whether a watcher has asked for it.
    pub(super) fn purchases_page(&self, after: u64, page: Vec<Purchase>) -> bool {
        match &mut self.state.lock().phase {
            Phase::Open(publisher) => publisher.purchases_page(after, page),
            _ => false,
        }
    }

    /// Forgets requests for pages that have not come. Returns whether watchers may wait for one.
    pub(super) fn forget_page_requests(&self) -> bool {
        match &mut self.state.lock().phase {
            Phase::Open(publisher) => {
                publisher.forget_page_requests();
                true
            }
            _ => false,
        }
    }

    /// Gives the frames that bring a watcher from `position` to the published state, and moves its position.
    /// `knows_stale` is whether it knows that this state may be stale.
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
        if let Position::At { epoch, .. } | Position::ResumeAhead { epoch, .. } = *position
            && epoch != published_epoch
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

    /// Tells a watcher that its state may be stale, or no longer is, unless it knows.
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

    /// Adds a watcher and returns its slot.
    pub(super) fn join(&self, ready: Arc<ReadyFlag>) -> usize {
        self.watchers.lock().join(ready)
    }

    /// Removes a watcher and returns whether it was the last one.
    pub(super) fn leave(&self, slot: usize) -> bool {
        self.watchers.lock().leave(slot)
    }

    /// Whether the source hands in its commits, or is about to.
    pub(super) fn is_begun(&self) -> bool {
        let state = self.state.lock();
        state.pending || matches!(state.phase, Phase::Open(_))
    }

    /// The number of watchers.
    pub(super) fn watching(&self) -> usize {
        self.watchers.lock().len()
    }

    /// Has all watchers notified. Returns whether no fan-out was under way.
    pub(super) fn start_fan_out(&self) -> bool {
        self.watchers.lock().start_fan_out()
    }

    /// Notifies up to `count` watchers and returns whether more are left.
    pub(super) fn notify(&self, count: usize) -> bool {
        self.watchers.lock().notify(count)
    }
}

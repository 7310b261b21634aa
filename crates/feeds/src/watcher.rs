//! A connection's side of the hub: its feeds, and the ready ones.

use std::{collections::VecDeque, sync::Arc};

use boxoffice_core::id::Entity;
use boxoffice_wire::{Encoding, call::Since};
use bytes::Bytes;

use super::{
    NoFeed, View,
    channel::{Channel, Position},
    hub::Hub,
    reader::{Pulled, Reader},
    ready::{ReadyFlag, ReadyList},
};

/// The feeds of one connection. Dropping it ends them.
pub struct Watcher {
    hub: Arc<Hub>,
    ready_list: Arc<ReadyList>,
    /// Sorted by number. A vector, because most connections watch one feed.
    feeds: Vec<Watched>,
    /// Feeds to be pulled, in the order in which they became ready.
    due: VecDeque<u64>,
}

/// The result of [`Watcher::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// It has begun, with the node's number for the feed. Frames come after [`Watcher::release`].
    Begun(u64),
    /// Another node is asked, and [`Watcher::pull`] gives the result.
    Awaited,
}

/// An event from [`Watcher::pull`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedEvent {
    /// A complete frame for the client.
    Frame(Bytes),
    /// An awaited watch has begun. Frames come after [`Watcher::release`].
    Begun {
        /// The connection's tag of the watch.
        tag: u64,
        /// The node's number for the feed.
        feed: u64,
    },
    /// An awaited watch does not begin.
    Refused {
        /// The connection's tag of the watch.
        tag: u64,
        why: NoFeed,
    },
}

/// What a pull gives.
#[derive(Clone, Copy)]
struct Portion {
    encoding: Encoding,
    bytes_max: usize,
    /// The longest frame for a watcher that is behind. `None` for one that keeps up.
    frame_bytes_max: Option<usize>,
}

/// What a feed has after a pull.
enum Left {
    Nothing,
    /// There is more, and the feed stays due.
    Due,
    /// There is more, and the feed is in the ready list.
    ReadyAgain,
}

/// One feed of the connection.
struct Watched {
    channel: Arc<Channel>,
    slot: usize,
    ready: Arc<ReadyFlag>,
    state: WatchState,
    /// The client knows that its state may be stale.
    knows_stale: bool,
}

enum WatchState {
    /// The answer of another node is pending: the tags of the waiting watches, and the version that the last one has.
    Pending(Vec<u64>, Option<Since>),
    /// It has begun, and the client does not know its number yet.
    Held(Position),
    /// The client receives frames.
    Open(Position),
}

impl Watcher {
    pub(super) fn new(hub: Arc<Hub>) -> Watcher {
        Watcher { hub, ready_list: Arc::default(), feeds: Vec::new(), due: VecDeque::new() }
    }

    /// Watches an entity from the version that the client has, or from a snapshot. Another watch of the same entity
    /// replaces the position. The caller has checked the permission. `tag` is the connection's name of this watch.
    ///
    /// May wait for the node's replication thread and its disk, for the first watcher of an entity.
    ///
    /// # Errors
    /// [`NoFeed`]. Customers always exist.
    pub fn watch(&mut self, entity: &Entity, view: View, since: Option<Since>, tag: u64) -> Result<Watching, NoFeed> {
        let ready = |feed| Arc::new(ReadyFlag::new(feed, Arc::clone(&self.ready_list)));
        let (channel, slot, ready) = self.hub.join(entity, view, ready);
        let feed = channel.feed;
        let (state, watching) = match self.hub.begin(&channel, since) {
            Ok(position) => (WatchState::Held(position), Watching::Begun(feed)),
            Err(NoFeed::Pending) => (WatchState::Pending(vec![tag], since), Watching::Awaited),
            Err(why) => {
                self.hub.leave(&channel, slot);
                return Err(why);
            }
        };
        ready.set();
        let mut watched = Watched { channel, slot, ready, state, knows_stale: false };
        let mut watching = watching;
        let index = self.index_of(feed);
        if let Ok(index) = index {
            let before = self.feeds.remove(index);
            self.hub.leave(&before.channel, before.slot);
            // Earlier watches that still wait are answered together with this one.
            if let WatchState::Pending(mut tags, _) = before.state {
                tags.push(tag);
                watched.state = WatchState::Pending(tags, since);
                watching = Watching::Awaited;
            }
        }
        let (Ok(index) | Err(index)) = index;
        self.feeds.insert(index, watched);
        Ok(watching)
    }

    /// The index of a feed, or where it would be inserted.
    fn index_of(&self, feed: u64) -> Result<usize, usize> {
        self.feeds.binary_search_by_key(&feed, |watched| watched.channel.feed)
    }

    fn watched(&mut self, feed: u64) -> Option<&mut Watched> {
        let index = self.index_of(feed).ok()?;
        self.feeds.get_mut(index)
    }

    /// The client knows the number of a feed, so [`Watcher::pull`] gives its frames from now on.
    pub fn release(&mut self, feed: u64) {
        if let Some(watched) = self.watched(feed)
            && let WatchState::Held(position) = watched.state
        {
            watched.state = WatchState::Open(position);
            watched.ready.set();
        }
    }

    /// Ends a feed and returns whether it was watched.
    pub fn unwatch(&mut self, feed: u64) -> bool {
        if matches!(self.watched(feed), None | Some(Watched { state: WatchState::Pending(..), .. })) {
            return false;
        }
        self.forget(feed);
        true
    }

    /// Ends the feeds that the connection may follow no longer. Returns the numbers of those that had begun, and the tags of
    /// the watches that still waited.
    pub fn end_others(&mut self, may_stay: impl Fn(&Entity, View) -> bool) -> (Vec<u64>, Vec<u64>) {
        let (mut begun, mut waiting) = (Vec::new(), Vec::new());
        let hub = &self.hub;
        self.feeds.retain_mut(|watched| {
            if may_stay(&watched.channel.entity, watched.channel.view) {
                return true;
            }
            hub.leave(&watched.channel, watched.slot);
            match &mut watched.state {
                WatchState::Pending(tags, _) => waiting.append(tags),
                WatchState::Held(_) | WatchState::Open(_) => begun.push(watched.channel.feed),
            }
            false
        });
        (begun, waiting)
    }

    fn forget(&mut self, feed: u64) {
        if let Ok(index) = self.index_of(feed) {
            let watched = self.feeds.remove(index);
            self.hub.leave(&watched.channel, watched.slot);
        }
    }

    /// The number of watched or awaited feeds.
    pub fn len(&self) -> usize {
        self.feeds.len()
    }

    /// The number of due feeds, counting a feed twice that is due twice.
    #[cfg(test)]
    pub(super) fn due_feeds(&self) -> usize {
        self.due.len()
    }

    /// Whether no feed is watched or awaited.
    pub fn is_empty(&self) -> bool {
        self.feeds.is_empty()
    }

    /// Whether an entity is watched in any view.
    pub fn is_watching(&self, entity: &Entity) -> bool {
        self.feeds.iter().any(|watched| watched.channel.entity == *entity)
    }

    /// Waits until [`Watcher::pull`] may give something.
    pub async fn ready(&self) {
        if self.due.is_empty() {
            self.ready_list.some().await;
        }
    }

    /// Gives about `bytes_max` of the due frames, in order within each feed, and returns whether more are due.
    ///
    /// May wait for the disk, for old purchases.
    pub fn pull(&mut self, encoding: Encoding, bytes_max: usize, emit: impl FnMut(FeedEvent)) -> bool {
        self.pull_portion(Portion { encoding, bytes_max, frame_bytes_max: None }, emit)
    }

    /// As [`Watcher::pull`], for a client that reads more slowly than its feeds go on. Gives `bytes_max`, and less than a frame
    /// more, in frames of at most `bytes_max`. Deltas that wait are merged, and where a snapshot is shorter it takes their place. The
    /// feeds take turns.
    ///
    /// Two frames may be longer than `bytes_max`: a snapshot, and a single delta that has fewer bytes than the snapshot.
    pub fn pull_behind(&mut self, encoding: Encoding, bytes_max: usize, emit: impl FnMut(FeedEvent)) -> bool {
        self.pull_portion(Portion { encoding, bytes_max, frame_bytes_max: Some(bytes_max) }, emit)
    }

    /// Pulls from the due feeds until the portion is full. Returns whether more are due.
    fn pull_portion(&mut self, portion: Portion, mut emit: impl FnMut(FeedEvent)) -> bool {
        self.ready_list.take(&mut self.due);
        let (mut given, mut is_ready_again) = (0, false);
        while let Some(feed) = self.due.front().copied() {
            if given >= portion.bytes_max {
                return true;
            }
            match self.pull_one(feed, portion, &mut given, &mut emit) {
                Left::Nothing => _ = self.due.pop_front(),
                Left::Due if portion.frame_bytes_max.is_some() => self.due.rotate_left(1),
                Left::Due => {}
                Left::ReadyAgain => {
                    self.due.pop_front();
                    is_ready_again = true;
                }
            }
        }
        is_ready_again
    }

    /// Pulls from one feed.
    fn pull_one(&mut self, feed: u64, portion: Portion, given: &mut usize, emit: &mut impl FnMut(FeedEvent)) -> Left {
        let Portion { encoding, bytes_max, frame_bytes_max } = portion;
        // The feed may have ended since it became ready.
        let Ok(index) = self.index_of(feed) else { return Left::Nothing };
        let watched = &mut self.feeds[index];
        watched.ready.clear();
        match &mut watched.state {
            WatchState::Pending(tags, since) => {
                let placed = self.hub.resume_position(&watched.channel, *since);
                let tags = match placed {
                    Err(NoFeed::Pending) => return Left::Nothing,
                    _ => std::mem::take(tags),
                };
                match placed {
                    Ok(position) => {
                        watched.state = WatchState::Held(position);
                        tags.into_iter().for_each(|tag| emit(FeedEvent::Begun { tag, feed }));
                    }
                    Err(why) => {
                        self.forget(feed);
                        tags.into_iter().for_each(|tag| emit(FeedEvent::Refused { tag, why }));
                    }
                }
                Left::Nothing
            }
            WatchState::Held(_) => Left::Nothing,
            WatchState::Open(position) => {
                let mut frame = |bytes: Bytes| {
                    *given += bytes.len();
                    emit(FeedEvent::Frame(bytes));
                };
                let mut reader = Reader {
                    feed,
                    encoding,
                    source: self.hub.source(),
                    now_ms: &|| self.hub.now_ms(),
                    waited_ms: self.hub.waited_ms(),
                    bytes_left: bytes_max,
                    frame_bytes_max,
                    frame: &mut frame,
                };
                let pulled = watched.channel.pull(position, &mut watched.knows_stale, &mut reader);
                if pulled == (Pulled::Awaited { newly: true }) {
                    self.hub.await_answer(&watched.channel);
                }
                if *position == Position::Ended {
                    self.forget(feed);
                }
                match pulled {
                    Pulled::All | Pulled::Awaited { .. } => Left::Nothing,
                    // Otherwise each publication would make it due once more.
                    Pulled::More if self.feeds[index].ready.keep() => Left::ReadyAgain,
                    Pulled::More => Left::Due,
                }
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        for watched in &self.feeds {
            self.hub.leave(&watched.channel, watched.slot);
        }
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watcher({} feeds)", self.feeds.len())
    }
}

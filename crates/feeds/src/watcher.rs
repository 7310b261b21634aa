//! A connection's side of the hub: the feeds it watches, and what of them is due.

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
    /// By their numbers. A tree's smallest node has room for eleven, and most connections watch one.
    feeds: Vec<Watched>,
    /// Feeds to be pulled from, in the order they became dirty.
    due: VecDeque<u64>,
}

/// What came of [`Watcher::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// It has begun, with the node's number for the feed; frames come after [`Watcher::release`].
    Begun(u64),
    /// Another node is asked: [`Watcher::pull`] says what comes of it.
    Awaited,
}

/// What a connection gets from [`Watcher::pull`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedEvent {
    /// A frame for the client, whole.
    Frame(Bytes),
    /// A watch that was awaited has begun; frames come after [`Watcher::release`].
    Begun {
        /// What the connection calls the watch.
        tag: u64,
        /// The node's number for the feed.
        feed: u64,
    },
    /// A watch that was awaited does not begin.
    Refused {
        /// What the connection calls the watch.
        tag: u64,
        /// Why.
        why: NoFeed,
    },
}

/// One feed of the connection.
struct Watched {
    channel: Arc<Channel>,
    slot: usize,
    ready: Arc<ReadyFlag>,
    state: WatchState,
    /// The client knows that what it sees may be old.
    knows_stale: bool,
}

/// How far a feed of the connection has come.
enum WatchState {
    /// Whether it begins is not known yet: who waits for it, by their tags, and what the last of them has.
    Pending(Vec<u64>, Option<Since>),
    /// It has begun, and the client is not told its number yet.
    Held(Position),
    /// Frames are given.
    Open(Position),
}

impl Watcher {
    pub(super) fn new(hub: Arc<Hub>) -> Watcher {
        Watcher { hub, ready_list: Arc::default(), feeds: Vec::new(), due: VecDeque::new() }
    }

    /// Watches an entity from what the client has, or from a snapshot. Watching it again sets that anew. Whose cart or
    /// customer it is was looked at before; `tag` is what the connection calls this watch.
    ///
    /// May wait for the node's replication thread and for its disk, for the first watcher of an entity.
    ///
    /// # Errors
    /// [`NoFeed`]: there is no such entity, or nothing of it to watch, or it is out of reach; a customer is always there.
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
            // Who waits since before is told together with this one.
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

    /// Where a feed is, or would be.
    fn index_of(&self, feed: u64) -> Result<usize, usize> {
        self.feeds.binary_search_by_key(&feed, |watched| watched.channel.feed)
    }

    fn watched(&mut self, feed: u64) -> Option<&mut Watched> {
        let index = self.index_of(feed).ok()?;
        self.feeds.get_mut(index)
    }

    /// The client knows the number of a feed: from now on [`Watcher::pull`] gives its frames.
    pub fn release(&mut self, feed: u64) {
        if let Some(watched) = self.watched(feed)
            && let WatchState::Held(position) = watched.state
        {
            watched.state = WatchState::Open(position);
            watched.ready.set();
        }
    }

    /// Ends a feed; says whether it was watched.
    pub fn unwatch(&mut self, feed: u64) -> bool {
        if matches!(self.watched(feed), None | Some(Watched { state: WatchState::Pending(..), .. })) {
            return false;
        }
        self.forget(feed);
        true
    }

    fn forget(&mut self, feed: u64) {
        if let Ok(index) = self.index_of(feed) {
            let watched = self.feeds.remove(index);
            self.hub.leave(&watched.channel, watched.slot);
        }
    }

    /// How many feeds are watched, or asked for.
    pub fn len(&self) -> usize {
        self.feeds.len()
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.feeds.is_empty()
    }

    /// Whether an entity is watched, in whatever view.
    pub fn is_watching(&self, entity: &Entity) -> bool {
        self.feeds.iter().any(|watched| watched.channel.entity == *entity)
    }

    /// Waits until [`Watcher::pull`] may have something to give.
    pub async fn ready(&self) {
        if self.due.is_empty() {
            self.ready_list.some().await;
        }
    }

    /// Gives the frames that are due, whole, in order within each feed, and about `bytes_max` of them at most.
    /// Says whether more are due.
    ///
    /// May wait for the disk, for purchases of long ago.
    pub fn pull(&mut self, encoding: Encoding, bytes_max: usize, mut emit: impl FnMut(FeedEvent)) -> bool {
        self.ready_list.take(&mut self.due);
        let mut given = 0;
        while let Some(feed) = self.due.front().copied() {
            if given >= bytes_max {
                return true;
            }
            if !self.pull_one(feed, encoding, bytes_max, &mut given, &mut emit) {
                self.due.pop_front();
            }
        }
        false
    }

    /// Pulls from one feed; whether there is more in it.
    fn pull_one(
        &mut self,
        feed: u64,
        encoding: Encoding,
        bytes_max: usize,
        given: &mut usize,
        emit: &mut impl FnMut(FeedEvent),
    ) -> bool {
        // It may have been given up since it was marked.
        let Ok(index) = self.index_of(feed) else { return false };
        let watched = &mut self.feeds[index];
        watched.ready.clear();
        match &mut watched.state {
            WatchState::Pending(tags, since) => {
                let placed = self.hub.resume_position(&watched.channel, *since);
                let tags = match placed {
                    Err(NoFeed::Pending) => return false,
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
                false
            }
            WatchState::Held(_) => false,
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
                    frame: &mut frame,
                };
                let pulled = watched.channel.pull(position, &mut watched.knows_stale, &mut reader);
                if pulled == (Pulled::Awaited { newly: true }) {
                    self.hub.await_answer(&watched.channel);
                }
                if *position == Position::Ended {
                    self.forget(feed);
                }
                pulled == Pulled::More
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

//! A connection's side of the hub: the feeds it watches, and what of them is due.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use boxoffice_core::id::Entity;
use boxoffice_wire::{Encoding, request::Since};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    NoFeed,
    channel::{Channel, Position},
    hub::Hub,
    line::Reader,
    watchers::Mark,
};

/// Which feeds of a connection have something: each of them once.
#[derive(Default)]
pub(super) struct Dirty {
    feeds: Mutex<Vec<u64>>,
    wake: Notify,
}

impl Dirty {
    pub(super) fn push(&self, feed: u64) {
        let mut feeds = self.feeds.lock();
        feeds.push(feed);
        if feeds.len() == 1 {
            self.wake.notify_one();
        }
    }
}

/// The feeds of one connection. Dropping it ends them.
pub struct Watcher {
    hub: Arc<Hub>,
    dirty: Arc<Dirty>,
    feeds: BTreeMap<u64, Watched>,
    /// Feeds to be pulled from, in the order they became dirty.
    due: VecDeque<u64>,
}

/// One feed of the connection.
struct Watched {
    channel: Arc<Channel>,
    slot: usize,
    mark: Arc<Mark>,
    position: Position,
}

impl Watcher {
    pub(super) fn new(hub: Arc<Hub>) -> Watcher {
        Watcher { hub, dirty: Arc::default(), feeds: BTreeMap::new(), due: VecDeque::new() }
    }

    /// Watches an entity from what the client has, or from a snapshot. Watching it again sets that anew. Gives the node's
    /// number for the feed. Whose cart or customer it is was looked at before.
    ///
    /// May wait for the node's replication thread and for its disk, for the first watcher of an entity.
    ///
    /// # Errors
    /// [`NoFeed`]: there is no such entity, or nothing of it to watch, or it is out of reach; a customer is always there.
    pub fn watch(&mut self, entity: &Entity, since: Option<Since>) -> Result<u64, NoFeed> {
        let (channel, slot, mark) = self.hub.join(entity, |feed| Arc::new(Mark::new(feed, Arc::clone(&self.dirty))));
        let feed = channel.feed;
        let begun = self.hub.begin(&channel, since);
        let position = match begun {
            Ok(position) => position,
            Err(why) => {
                self.hub.leave(&channel, slot);
                return Err(why);
            }
        };
        mark.set();
        let watched = Watched { channel, slot, mark, position };
        if let Some(before) = self.feeds.insert(feed, watched) {
            self.hub.leave(&before.channel, before.slot);
        }
        Ok(feed)
    }

    /// Ends a feed; says whether it was watched.
    pub fn unwatch(&mut self, feed: u64) -> bool {
        match self.feeds.remove(&feed) {
            Some(watched) => {
                self.hub.leave(&watched.channel, watched.slot);
                true
            }
            None => false,
        }
    }

    /// How many feeds are watched.
    pub fn len(&self) -> usize {
        self.feeds.len()
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.feeds.is_empty()
    }

    /// Whether an entity is watched.
    pub fn is_watching(&self, entity: &Entity) -> bool {
        self.feeds.values().any(|watched| watched.channel.entity == *entity)
    }

    /// Waits until [`Watcher::pull`] may have something to give.
    pub async fn dirty(&self) {
        while self.due.is_empty() && self.dirty.feeds.lock().is_empty() {
            self.dirty.wake.notified().await;
        }
    }

    /// Gives the frames that are due, whole, in order within each feed, and about `bytes_max` of them at most.
    /// Says whether more are due.
    ///
    /// May wait for the disk, for purchases of long ago.
    pub fn pull(&mut self, encoding: Encoding, bytes_max: usize, mut frame: impl FnMut(Bytes)) -> bool {
        self.due.extend(self.dirty.feeds.lock().drain(..));
        let mut given = 0;
        while let Some(feed) = self.due.front().copied() {
            if given >= bytes_max {
                return true;
            }
            // It may have been given up since it was marked.
            if let Some(watched) = self.feeds.get_mut(&feed) {
                watched.mark.clear();
                let mut counted = |bytes: Bytes| {
                    given += bytes.len();
                    frame(bytes);
                };
                let mut reader = Reader::new(feed, encoding, self.hub.source(), bytes_max, &mut counted);
                if watched.channel.pull(&mut watched.position, &mut reader) {
                    continue;
                }
                if watched.position == Position::Ended {
                    self.unwatch(feed);
                }
            }
            self.due.pop_front();
        }
        false
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        for watched in self.feeds.values() {
            self.hub.leave(&watched.channel, watched.slot);
        }
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watcher({} feeds)", self.feeds.len())
    }
}

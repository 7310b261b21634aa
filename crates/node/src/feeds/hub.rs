//! The hub: which entities have a channel, and the task that publishes to them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::id::Entity;
use boxoffice_wire::request::Since;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

use super::{
    Commit, FeedSettings, FeedSource, NoFeed,
    channel::{Channel, Position, Published},
    inbox::Inbox,
    watchers::Mark,
};
use crate::world::Clock;

/// Watchers told in one go, before others on the runtime have their turn.
const WATCHERS_SLICE: usize = 64;

/// Milliseconds before a feed that could not begin anew is tried again.
const AGAIN_MS: u64 = 250;

/// What the driver, the connections and the publishing task share.
pub(super) struct Hub {
    source: Arc<dyn FeedSource>,
    settings: FeedSettings,
    clock: Arc<dyn Clock>,
    /// The only lock the driver takes: never held while anything else is waited for.
    inbox: Mutex<Inbox>,
    table: Mutex<Table>,
    wake: Notify,
}

/// The channels of the node.
struct Table {
    channels: BTreeMap<Entity, Arc<Channel>>,
    next_feed: u64,
    /// Channels whose last watcher left, and the monotonic millisecond at which they are looked at again.
    lingering: VecDeque<(u64, Arc<Channel>)>,
    /// Entities whose feed could not begin anew, and the monotonic millisecond at which that is tried again.
    later: VecDeque<(u64, Entity)>,
}

impl Hub {
    pub(super) fn new(source: Arc<dyn FeedSource>, settings: FeedSettings, clock: Arc<dyn Clock>) -> Hub {
        Hub {
            source,
            settings,
            clock,
            inbox: Mutex::default(),
            table: Mutex::new(Table {
                channels: BTreeMap::new(),
                next_feed: 1,
                lingering: VecDeque::new(),
                later: VecDeque::new(),
            }),
            wake: Notify::new(),
        }
    }

    pub(super) fn commit(&self, commits: Vec<Commit>) {
        if commits.is_empty() {
            return;
        }
        let mut inbox = self.inbox.lock();
        for commit in commits {
            let Commit { entity, from, to, .. } = &commit;
            assert!(from < to, "a commit of {entity} goes from {from} to {to}");
            inbox.push(commit, self.settings.coalesce_ms > 0);
        }
        drop(inbox);
        self.wake.notify_one();
    }

    /// A place among the watchers of an entity's channel, which is made if there is none.
    pub(super) fn join(
        &self,
        entity: &Entity,
        mark: impl FnOnce(u64) -> Arc<Mark>,
    ) -> (Arc<Channel>, usize, Arc<Mark>) {
        let mut table = self.table.lock();
        let channel = match table.channels.get(entity) {
            Some(channel) => Arc::clone(channel),
            None => {
                let channel = Arc::new(Channel::new(table.next_feed, entity.clone(), self.settings.epoch));
                table.next_feed += 1;
                table.channels.insert(entity.clone(), Arc::clone(&channel));
                channel
            }
        };
        let mark = mark(channel.feed);
        // Under the table's lock, so that a channel with watchers is never swept away.
        let slot = channel.join(Arc::clone(&mark));
        (channel, slot, mark)
    }

    /// Where a watcher begins.
    pub(super) fn begin(&self, channel: &Channel, since: Option<Since>) -> Result<Position, NoFeed> {
        channel.begin(&*self.source, since, || self.inbox.lock().waits(&channel.entity))
    }

    /// Where a watcher reads what is not in its channel.
    pub(super) fn source(&self) -> &dyn FeedSource {
        &*self.source
    }

    /// Gives a place up; the channel lingers a while when it was the last one.
    pub(super) fn leave(&self, channel: &Arc<Channel>, slot: usize) {
        if !channel.leave(slot) {
            return;
        }
        let now_ms = self.clock.monotonic_ms();
        let mut table = self.table.lock();
        if !channel.is_open() {
            // There is nothing to come back to.
            table.remove_unwatched(channel, &*self.source);
        } else if !channel.lingers.swap(true, Ordering::Relaxed) {
            table.lingering.push_back((now_ms + self.settings.linger_ms, Arc::clone(channel)));
            drop(table);
            self.wake.notify_one();
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.settings.epoch
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.channels.len(), table.channels.values().map(|channel| channel.watching()).sum())
    }

    /// Publishes what is committed: the first commit after a rest at once, then once a tick.
    pub(super) async fn run(&self) {
        let mut next_ms = self.clock.monotonic_ms();
        loop {
            match self.sweep(self.clock.monotonic_ms()) {
                Some(until_ms) => tokio::select! {
                    biased;
                    () = self.wake.notified() => {}
                    () = self.wait_until(until_ms) => continue,
                },
                None => self.wake.notified().await,
            }
            if self.settings.coalesce_ms > 0 {
                self.wait_until(next_ms).await;
                next_ms = self.clock.monotonic_ms() + self.settings.coalesce_ms;
            }
            self.publish().await;
        }
    }

    async fn wait_until(&self, until_ms: u64) {
        let wait_ms = until_ms.saturating_sub(self.clock.monotonic_ms());
        if wait_ms > 0 {
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    async fn publish(&self) {
        let commits = self.inbox.lock().take();
        for commit in commits {
            let channel = self.table.lock().channels.get(&commit.entity).cloned();
            let Some(channel) = channel else { continue };
            match channel.publish(commit, &*self.source) {
                Published::Nothing => {}
                Published::News => {
                    let mut slot = 0;
                    while channel.tell(slot..slot + WATCHERS_SLICE) {
                        slot += WATCHERS_SLICE;
                        tokio::task::yield_now().await;
                    }
                }
                Published::Later => {
                    let at_ms = self.clock.monotonic_ms() + AGAIN_MS;
                    self.table.lock().later.push_back((at_ms, channel.entity.clone()));
                }
            }
        }
    }

    /// Ends the channels that nobody came back to, and has begin anew what could not before; when to look again.
    fn sweep(&self, now_ms: u64) -> Option<u64> {
        let mut table = self.table.lock();
        let due = table.later.iter().take_while(|(at_ms, _)| *at_ms <= now_ms).count();
        let due: Vec<Commit> = table.later.drain(..due).map(|(_, entity)| Commit::lost(entity)).collect();
        self.commit(due);
        let later = table.later.front().map(|(at_ms, _)| *at_ms);
        while let Some((until, channel)) = table.lingering.front() {
            if *until > now_ms {
                return Some(later.map_or(*until, |later| later.min(*until)));
            }
            let channel = Arc::clone(channel);
            channel.lingers.store(false, Ordering::Relaxed);
            table.remove_unwatched(&channel, &*self.source);
            table.lingering.pop_front();
        }
        later
    }
}

impl Table {
    /// Removes a channel that nobody watches. Under the table's lock, so that a feed that begins again does so after this.
    fn remove_unwatched(&mut self, channel: &Arc<Channel>, source: &dyn FeedSource) {
        let known = self.channels.get(&channel.entity).is_some_and(|known| Arc::ptr_eq(known, channel));
        if known && channel.watching() == 0 {
            self.channels.remove(&channel.entity);
            if channel.is_open() {
                source.end(&channel.entity);
            }
        }
    }
}

//! Dispatches the frames of feeds to the watches that follow them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use boxoffice_core::id::Entity;
use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::mpsc;

/// Frames queued for one watch. Further frames are dropped. The watch then notices the gap and asks again.
pub(crate) const WATCH_QUEUE: usize = 256;

/// An item of the channel to a watch.
#[derive(Debug)]
pub(crate) enum FeedItem {
    /// A frame of a feed that the watch follows.
    Frame(Bytes),
    /// Nothing more arrives over this connection, or frames were dropped. The watch has to ask for its feed again.
    Lost,
}

/// The sending end of the channel to a watch.
#[derive(Clone, Debug)]
pub(crate) struct FeedSink {
    /// The entities that the watch follows.
    entities: Arc<[Entity]>,
    frames: mpsc::Sender<FeedItem>,
    lost: Arc<AtomicBool>,
}

/// The receiving end of the channel to a watch.
#[derive(Debug)]
pub(crate) struct FeedSource {
    frames: mpsc::Receiver<FeedItem>,
    lost: Arc<AtomicBool>,
}

/// A channel for a watch of one entity.
pub(crate) fn feed_channel(entity: Entity) -> (FeedSink, FeedSource) {
    feed_channel_with_capacity([entity].into(), WATCH_QUEUE)
}

/// A channel for a watch of several entities. The capacity is in frames.
pub(crate) fn feed_channel_with_capacity(entities: Arc<[Entity]>, capacity: usize) -> (FeedSink, FeedSource) {
    let (sender, receiver) = mpsc::channel(capacity);
    let lost = Arc::new(AtomicBool::new(false));
    (FeedSink { entities, frames: sender, lost: Arc::clone(&lost) }, FeedSource { frames: receiver, lost })
}

impl FeedSink {
    fn send(&self, item: FeedItem) {
        if self.frames.try_send(item).is_err() {
            // If the queue is full, the watch sees the flag once it has read the queued frames. If the watch is gone, the
            // flag has no effect.
            self.lost.store(true, Ordering::Release);
        }
    }
}

impl FeedSource {
    /// The next frame. [`FeedItem::Lost`] if frames are missing after the one before.
    pub(crate) async fn next(&mut self) -> FeedItem {
        // Frames that were queued before the first dropped one are still in order.
        if let Ok(item) = self.frames.try_recv() {
            return item;
        }
        if self.lost.load(Ordering::Acquire) {
            return FeedItem::Lost;
        }
        self.frames.recv().await.unwrap_or(FeedItem::Lost)
    }
}

/// The feeds of one connection, and the watches that follow them.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    sinks: FxHashMap<u64, Vec<FeedSink>>,
}

impl Feeds {
    /// Adds a watch that follows this feed.
    pub(crate) fn follow(&mut self, feed: u64, sink: FeedSink) {
        self.sinks.entry(feed).or_default().push(sink);
    }

    /// Hands a frame to all watches that follow its feed.
    pub(crate) fn dispatch(&mut self, feed: u64, frame: &Bytes) {
        if let Some(sinks) = self.sinks.get(&feed) {
            sinks.iter().for_each(|sink| sink.send(FeedItem::Frame(frame.clone())));
        }
    }

    /// Removes a feed that the server has ended.
    pub(crate) fn ended(&mut self, feed: u64) {
        self.sinks.remove(&feed);
    }

    /// Removes the feeds that no watch follows any more, and returns them. The feeds of entities for which a watch is
    /// pending stay. The server has one feed for an entity that a connection watches twice, so the end of the first watch
    /// would be the end of the second.
    pub(crate) fn take_abandoned<'a>(&mut self, pending: impl Iterator<Item = &'a FeedSink>) -> Vec<u64> {
        let mut abandoned = Vec::new();
        for (feed, sinks) in &mut self.sinks {
            if sinks.iter().all(|sink| sink.frames.is_closed()) {
                abandoned.push(*feed);
            } else {
                sinks.retain(|sink| !sink.frames.is_closed());
            }
        }
        if !abandoned.is_empty() {
            let asked_for: FxHashSet<&Entity> = pending.flat_map(|sink| sink.entities.iter()).collect();
            let is_asked_for = |sink: &FeedSink| sink.entities.iter().any(|entity| asked_for.contains(entity));
            abandoned.retain(|feed| !self.sinks[feed].iter().any(is_asked_for));
            abandoned.iter().for_each(|feed| drop(self.sinks.remove(feed)));
            abandoned.sort_unstable();
        }
        abandoned
    }

    /// Tells all watches that the connection is lost, and removes all feeds.
    pub(crate) fn connection_lost(&mut self) {
        self.sinks.drain().for_each(|(_, sinks)| sinks.iter().for_each(|sink| sink.send(FeedItem::Lost)));
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use boxoffice_core::id::Id;

    use super::*;

    fn channel(session: &str) -> (FeedSink, FeedSource) {
        feed_channel(Entity::Session(Id::new(session).expect("a valid id")))
    }

    #[tokio::test]
    async fn a_full_queue_is_read_to_its_end_before_lost() {
        let mut feeds = Feeds::default();
        let (sink, mut source) = channel("hamlet");
        feeds.follow(3, sink);
        for number in 0..=WATCH_QUEUE {
            feeds.dispatch(3, &Bytes::copy_from_slice(&number.to_be_bytes()));
        }
        for number in 0..WATCH_QUEUE {
            let FeedItem::Frame(frame) = source.next().await else { panic!("frame {number} is missing") };
            assert_eq!(frame[..], number.to_be_bytes());
        }
        assert!(matches!(source.next().await, FeedItem::Lost));
    }

    #[tokio::test]
    async fn a_feed_without_watches_is_abandoned_once() {
        let mut feeds = Feeds::default();
        let (one, source) = channel("hamlet");
        let (other, _kept) = channel("hamlet");
        feeds.follow(3, one.clone());
        feeds.follow(4, one);
        feeds.follow(4, other);
        assert!(feeds.take_abandoned(iter::empty()).is_empty());
        drop(source);
        assert_eq!(feeds.take_abandoned(iter::empty()), [3]);
        assert!(feeds.take_abandoned(iter::empty()).is_empty());
    }

    #[tokio::test]
    async fn a_feed_stays_while_its_entity_is_asked_for() {
        let mut feeds = Feeds::default();
        let [hamlet, macbeth, again] = ["hamlet", "macbeth", "hamlet"].map(|session| channel(session).0);
        feeds.follow(3, hamlet);
        feeds.follow(4, macbeth);
        assert_eq!(feeds.take_abandoned(iter::once(&again)), [4]);
        assert_eq!(feeds.take_abandoned(iter::empty()), [3]);
    }
}

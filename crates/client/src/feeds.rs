//! Who is sent the frames of which feed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

/// Frames waiting for one watch; beyond this they are dropped, and the watch notices the gap and asks again.
pub(crate) const WATCH_QUEUE: usize = 256;

/// What a watch is sent.
#[derive(Debug)]
pub(crate) enum FeedItem {
    /// A frame of its feed.
    Frame(Bytes),
    /// Nothing more comes on this connection: it has to be asked for again.
    Lost,
}

/// Where the frames of one watch go.
#[derive(Clone, Debug)]
pub(crate) struct FeedSink {
    frames: mpsc::Sender<FeedItem>,
    lost: Arc<AtomicBool>,
}

/// Where one watch takes its frames from.
#[derive(Debug)]
pub(crate) struct FeedSource {
    frames: mpsc::Receiver<FeedItem>,
    lost: Arc<AtomicBool>,
}

pub(crate) fn feed() -> (FeedSink, FeedSource) {
    feed_of(WATCH_QUEUE)
}

/// Of several feeds, with room for so many frames.
pub(crate) fn feed_of(frames: usize) -> (FeedSink, FeedSource) {
    let (sender, receiver) = mpsc::channel(frames);
    let lost = Arc::new(AtomicBool::new(false));
    (FeedSink { frames: sender, lost: Arc::clone(&lost) }, FeedSource { frames: receiver, lost })
}

impl FeedSink {
    fn send(&self, item: FeedItem) {
        if self.frames.try_send(item).is_err() {
            // Full: the watch will see the mark once it has read what is queued. Or gone: then nobody will.
            self.lost.store(true, Ordering::Release);
        }
    }
}

impl FeedSource {
    /// The next frame; `Lost` when frames are missing from here on.
    pub(crate) async fn next(&mut self) -> FeedItem {
        // Frames that were queued before others were dropped are still in order.
        if let Ok(item) = self.frames.try_recv() {
            return item;
        }
        if self.lost.load(Ordering::Acquire) {
            return FeedItem::Lost;
        }
        self.frames.recv().await.unwrap_or(FeedItem::Lost)
    }
}

/// The feeds of one connection.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    sinks: FxHashMap<u64, Vec<FeedSink>>,
}

impl Feeds {
    /// Sends the frames of this feed there as well.
    pub(crate) fn follow(&mut self, feed: u64, sink: FeedSink) {
        self.sinks.entry(feed).or_default().push(sink);
    }

    /// Hands a frame to all who follow its feed.
    pub(crate) fn frame(&mut self, feed: u64, frame: &Bytes) {
        if let Some(sinks) = self.sinks.get(&feed) {
            sinks.iter().for_each(|sink| sink.send(FeedItem::Frame(frame.clone())));
        }
    }

    /// The server ended this feed.
    pub(crate) fn ended(&mut self, feed: u64) {
        self.sinks.remove(&feed);
    }

    /// Feeds that nobody follows any more; they are forgotten here.
    pub(crate) fn abandoned(&mut self) -> Vec<u64> {
        let mut abandoned = Vec::new();
        self.sinks.retain(|feed, sinks| {
            sinks.retain(|sink| !sink.frames.is_closed());
            if sinks.is_empty() {
                abandoned.push(*feed);
            }
            !sinks.is_empty()
        });
        abandoned.sort_unstable();
        abandoned
    }

    /// Tells all that the connection is gone.
    pub(crate) fn lose(&mut self) {
        self.sinks.drain().for_each(|(_, sinks)| sinks.iter().for_each(|sink| sink.send(FeedItem::Lost)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_queue_is_read_to_its_end_and_then_lost() {
        let mut feeds = Feeds::default();
        let (sink, mut source) = feed();
        feeds.follow(3, sink);
        for number in 0..=WATCH_QUEUE {
            feeds.frame(3, &Bytes::copy_from_slice(&number.to_be_bytes()));
        }
        for number in 0..WATCH_QUEUE {
            let FeedItem::Frame(frame) = source.next().await else { panic!("frame {number} is missing") };
            assert_eq!(frame[..], number.to_be_bytes());
        }
        assert!(matches!(source.next().await, FeedItem::Lost));
    }

    #[tokio::test]
    async fn a_feed_without_followers_is_given_up() {
        let mut feeds = Feeds::default();
        let (one, source) = feed();
        let (other, _kept) = feed();
        feeds.follow(3, one.clone());
        feeds.follow(4, one);
        feeds.follow(4, other);
        assert!(feeds.abandoned().is_empty());
        drop(source);
        assert_eq!(feeds.abandoned(), [3]);
        assert!(feeds.abandoned().is_empty());
    }
}

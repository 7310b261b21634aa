//! The op `watch`. It is answered when the feed has begun, on this node at once, and elsewhere when the other node has
//! answered. The answer comes before the feed's frames.

use std::collections::BTreeMap;

use boxoffice_core::{
    id::{Entity, Id},
    refusal::Refusal,
};
use boxoffice_feeds::{NoFeed, View, Watching};
use boxoffice_wire::{
    FailKind, Op, Rejection, call::Since, encode, feed::Ended as FeedEnded, feed_kind::FeedKind, reply::CountsWatching,
};
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::{
    awaited::{List, Watch},
    frames::End,
    state::Connection,
};
use crate::{access::Denied, metrics::Ended};

/// The name of the refusal that ends a feed whose watcher has lost the right to it.
const FORBIDDEN: &str = "forbidden";

impl Connection {
    /// Begins a watch of an entity.
    pub(super) fn watch(&mut self, id: u64, entity: Entity, since: Option<Since>, at: Instant) -> Result<(), End> {
        if let Err(why) = self.has_room_for(1) {
            return self.refuse(id, Op::Watch, &why, at);
        }
        let tag = self.awaited.tag();
        let watcher = self.watcher.as_mut().expect("it was made when the connection moved");
        let begun = match watcher.watch(&entity, View::Whole, since, tag) {
            Ok(Watching::Awaited) => {
                self.awaited.watches.insert(tag, Watch::Request { id, entity, at });
                return Ok(());
            }
            Ok(Watching::Begun(feed)) => Ok(feed),
            Err(why) => Err(why),
        };
        self.watched(id, &entity, begun, at)
    }

    /// Begins a watch of the counts of sessions.
    pub(super) fn watch_counts(&mut self, id: u64, sessions: Vec<Id>, at: Instant) -> Result<(), End> {
        if let Err(why) = self.has_room_for(sessions.len()) {
            return self.refuse(id, Op::Watch, &why, at);
        }
        let list_tag = self.awaited.tag();
        let (feeds, missing, unreachable) = <(BTreeMap<_, _>, BTreeMap<_, _>, BTreeMap<_, _>)>::default();
        let mut list = List { id, at, awaited: 0, feeds, missing, unreachable };
        let watcher = self.watcher.as_mut().expect("it was made when the connection moved");
        for (place, session) in sessions.into_iter().enumerate() {
            let tag = self.awaited.tag();
            match watcher.watch(&Entity::Session(session.clone()), View::Counts, None, tag) {
                Ok(Watching::Begun(feed)) => list.ended(place, session, Ok(feed)),
                Ok(Watching::Awaited) => {
                    list.awaited += 1;
                    self.awaited.watches.insert(tag, Watch::Listed { list: list_tag, place, session });
                }
                Err(why) => list.ended(place, session, Err(why)),
            }
        }
        if list.awaited > 0 {
            self.awaited.lists.insert(list_tag, list);
            return Ok(());
        }
        self.listed(list)
    }

    /// A watch that waited has begun or has failed.
    pub(super) fn watch_ended(&mut self, tag: u64, outcome: Result<u64, NoFeed>) -> Result<(), End> {
        match self.awaited.watches.remove(&tag) {
            Some(Watch::Request { id, entity, at }) => self.watched(id, &entity, outcome, at),
            Some(Watch::Listed { list: list_tag, place, session }) => {
                let list = self.awaited.lists.get_mut(&list_tag).expect("a list waits for its sessions");
                list.ended(place, session, outcome);
                list.awaited -= 1;
                if list.awaited > 0 {
                    return Ok(());
                }
                let list = self.awaited.lists.remove(&list_tag).expect("it was there just now");
                self.listed(list)
            }
            None => Ok(()),
        }
    }

    fn watched(&mut self, id: u64, entity: &Entity, outcome: Result<u64, NoFeed>, at: Instant) -> Result<(), End> {
        match outcome {
            Ok(feed) => {
                self.ended(Op::Watch, Ended::Ok, at, Instant::now());
                // An earlier watch of the same entity ends.
                self.frames.drop_feed(feed);
                self.frames.write(|encoding, out| encode::watching(encoding, out, id, feed))?;
                self.release(feed);
                Ok(())
            }
            Err(NoFeed::NotFound) => {
                let why = Refusal::NotFound(format_smolstr!("{entity}")).into();
                self.refuse(id, Op::Watch, &why, at)
            }
            Err(NoFeed::Unreachable | NoFeed::Pending) => {
                self.fail(id, Op::Watch, FailKind::NotReady, at, Instant::now())
            }
        }
    }

    fn listed(&mut self, list: List) -> Result<(), End> {
        let List { id, at, feeds, missing, unreachable, .. } = list;
        let watching = CountsWatching {
            feeds: feeds.into_values().collect(),
            missing: missing.into_values().collect(),
            unreachable: unreachable.into_values().collect(),
        };
        self.ended(Op::Watch, Ended::Ok, at, Instant::now());
        watching.feeds.iter().for_each(|begun| self.frames.drop_feed(begun.feed));
        self.frames.write(|encoding, out| encode::ok(encoding, out, id, &watching))?;
        watching.feeds.iter().for_each(|begun| self.release(begun.feed));
        Ok(())
    }

    /// Ends the feeds that the caller may follow no longer. It has shown another key or token.
    pub(super) fn end_feeds_without_right(&mut self) -> Result<(), End> {
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        let (caller, shared) = (&self.caller, &self.shared);
        let (begun, waiting) = watcher.end_others(|entity, view| {
            let kind = match view {
                View::Whole => FeedKind::of(entity),
                View::Counts => Some(FeedKind::SessionCounts),
            };
            // A node that cannot know goes on, as it does with the connection.
            let denied = kind.map(|kind| caller.may_follow(shared, kind, entity));
            matches!(denied, Some(Ok(()) | Err(Denied::Failed(_))))
        });
        let ended = FeedEnded { name: SmolStr::new_static(FORBIDDEN) };
        for feed in begun {
            self.frames.drop_feed(feed);
            self.frames.write(|encoding, out| encode::ended(encoding, out, feed, &ended))?;
        }
        // The client asks again, and is refused then.
        waiting.into_iter().try_for_each(|tag| self.watch_ended(tag, Err(NoFeed::Unreachable)))
    }

    fn release(&mut self, feed: u64) {
        if let Some(watcher) = &mut self.watcher {
            watcher.release(feed);
        }
    }

    fn has_room_for(&self, feeds: usize) -> Result<(), Rejection> {
        let feeds_max = self.shared.config.limits.feeds_max;
        let has = self.watcher.as_ref().map_or(0, |watcher| watcher.len());
        // A client that repeats the same request has one feed, but many watches that wait.
        if has.max(self.awaited.watches.len()) + feeds > feeds_max {
            return Err(Rejection::RateLimited {
                why: format_smolstr!("at most {feeds_max} feeds on one connection"),
                retry_after_ms: None,
            });
        }
        Ok(())
    }
}

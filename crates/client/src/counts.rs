//! Watches the counts of a list of sessions, without their seats.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use boxoffice_core::{
    answer::{AreaCounts, SaleMark, SeatCounts},
    id::{Entity, Id},
    refusal::Refusal,
};
use boxoffice_wire::{
    Op, body,
    feed::{CountsDelta, CountsSnapshot},
    reply::{CountsWatching, Event, ServerFrame, SessionFeed, Unreadable},
};
use bytes::Bytes;
use rustc_hash::FxHashMap;
use tokio::time::{Duration, Instant, sleep, timeout_at};
use tracing::debug;

use crate::{
    client::Client,
    error::Error,
    feeds::{FeedItem, FeedSink, FeedSource, WATCH_QUEUE, feed_channel_with_capacity},
    live::{Applied, compare_versions, merge_areas},
    watch::{RETRY_AFTER, refused},
};

/// How many seats and places of a session are free, held and sold, at a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveCounts {
    session: Id,
    epoch: u64,
    version: u64,
    counts: SeatCounts,
    areas: Vec<AreaCounts>,
    sale: Option<SaleMark>,
    stale_since: Option<Instant>,
}

impl LiveCounts {
    /// The session that is counted.
    pub fn session(&self) -> &Id {
        &self.session
    }

    /// The session's version. Versions of different epochs cannot be compared.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The epoch of the version.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Seats by state.
    pub fn counts(&self) -> SeatCounts {
        self.counts
    }

    /// Places by area and state.
    pub fn areas(&self) -> &[AreaCounts] {
        &self.areas
    }

    /// The mark of the session's offers and terms. Read the session again when it changes.
    pub fn sale(&self) -> Option<SaleMark> {
        self.sale
    }

    /// For how long the counts may have been out of date. See [`crate::Watch::stale_for`].
    pub fn stale_for(&self) -> Option<Duration> {
        self.stale_since.map(|since| since.elapsed())
    }

    fn from_snapshot(session: Id, snapshot: CountsSnapshot) -> LiveCounts {
        let CountsSnapshot { entity: _, epoch, version, counts, areas, sale } = snapshot;
        LiveCounts { session, epoch, version, counts, areas, sale, stale_since: None }
    }

    fn apply_snapshot(&mut self, snapshot: CountsSnapshot) -> Applied {
        if snapshot.epoch == self.epoch && snapshot.version <= self.version {
            return Applied::Unchanged;
        }
        (self.epoch, self.version) = (snapshot.epoch, snapshot.version);
        (self.counts, self.areas, self.sale) = (snapshot.counts, snapshot.areas, snapshot.sale);
        Applied::Newer
    }

    fn apply_delta(&mut self, delta: CountsDelta) -> Result<Applied, Unreadable> {
        let applied = compare_versions(self.version, delta.from, delta.to);
        if applied == Applied::Newer {
            merge_areas(&mut self.areas, delta.areas);
            self.sale = delta.sale.or(self.sale);
            (self.version, self.counts) = (delta.to, delta.counts);
        }
        Ok(applied)
    }
}

/// A stream of new counts of a list of sessions, across reconnects. Each item is the counts of one session. Slow
/// readers miss versions, but never the newest one.
#[derive(Debug)]
pub struct CountsWatch {
    client: Client,
    sessions: Vec<Id>,
    /// The channel for the frames of all feeds.
    channel: Option<(FeedSink, FeedSource)>,
    /// Whether the watch was granted and has lost no frames since then.
    is_following: bool,
    session_by_feed: FxHashMap<u64, Id>,
    counts: BTreeMap<Id, LiveCounts>,
    missing: BTreeSet<Id>,
    /// Sessions to ask for again at `retry_at`. No node that answered had them, or their feeds have ended.
    to_retry: BTreeSet<Id>,
    retry_at: Instant,
    /// Sessions to return from [`CountsWatch::next`] before the next frame is read.
    ready: VecDeque<Id>,
}

impl Client {
    /// `watch` of a list: follows the free, held and sold places of each session. The watch starts with the first
    /// [`CountsWatch::next`]. All watches of a connection together may have as many feeds as `limits.feeds` of the
    /// server's hello says.
    pub fn watch_counts(&self, sessions: impl IntoIterator<Item = Id>) -> CountsWatch {
        CountsWatch::new(self.clone(), sessions)
    }
}

impl CountsWatch {
    fn new(client: Client, sessions: impl IntoIterator<Item = Id>) -> CountsWatch {
        let mut seen = BTreeSet::new();
        let sessions = sessions.into_iter().filter(|session| seen.insert(session.clone())).collect();
        CountsWatch {
            client,
            sessions,
            channel: None,
            is_following: false,
            session_by_feed: FxHashMap::default(),
            counts: BTreeMap::new(),
            missing: BTreeSet::new(),
            to_retry: BTreeSet::new(),
            retry_at: Instant::now(),
            ready: VecDeque::new(),
        }
    }

    /// The newest counts of a session received so far.
    pub fn get(&self, session: &Id) -> Option<&LiveCounts> {
        self.counts.get(session)
    }

    /// The newest counts received so far, by session.
    pub fn iter(&self) -> impl Iterator<Item = &LiveCounts> {
        self.counts.values()
    }

    /// Sessions of the list that do not exist.
    pub fn missing(&self) -> impl Iterator<Item = &Id> {
        self.missing.iter()
    }

    /// Waits for the next counts. They are newer than the session's counts before, or of another epoch. The same counts
    /// come once more when [`LiveCounts::stale_for`] begins or ends. The future may be dropped and `next` called again
    /// at any time.
    ///
    /// # Errors
    /// [`Error::Refused`] if none of the sessions exists, or if there are more than a connection may follow.
    /// [`Error::Closed`] if the client is closed. [`Error::Protocol`] if the server contradicts itself. The watch
    /// retries after all other errors.
    pub async fn next(&mut self) -> Result<&LiveCounts, Error> {
        let session = self.next_session().await?;
        Ok(self.counts.get(&session).expect("the session just got new counts"))
    }

    /// Waits for the next session with new counts.
    async fn next_session(&mut self) -> Result<Id, Error> {
        loop {
            if !self.is_following {
                self.follow_all().await?;
            }
            if let Some(session) = self.ready.pop_front() {
                return Ok(session);
            }
            if self.missing.len() == self.sessions.len() {
                self.is_following = false;
                let names: Vec<String> = self.missing.iter().take(3).map(|id| format!("session/{id}")).collect();
                return Err(refused(&Refusal::NotFound(names.join(" or ").into())));
            }
            let (_, source) = self.channel.as_mut().expect("a granted watch has a channel");
            let item = if self.to_retry.is_empty() {
                source.next().await
            } else {
                match timeout_at(self.retry_at, source.next()).await {
                    Ok(item) => item,
                    Err(_) => {
                        self.retry().await?;
                        continue;
                    }
                }
            };
            match item {
                FeedItem::Lost => self.is_following = false,
                FeedItem::Frame(frame) => match self.on_frame(&frame) {
                    Ok(Some(session)) => return Ok(session),
                    Ok(None) => {}
                    Err(error) => {
                        // The state is not used after a contradiction. The next call starts over with snapshots.
                        self.is_following = false;
                        self.counts.clear();
                        return Err(error.into());
                    }
                },
            }
        }
    }

    /// Asks for all sessions.
    async fn follow_all(&mut self) -> Result<(), Error> {
        // Drops the old channel first, which gives up its feeds, because a connection may not allow all feeds twice.
        self.channel = None;
        let entities = self.sessions.iter().cloned().map(Entity::Session).collect();
        let (sink, source) = feed_channel_with_capacity(entities, WATCH_QUEUE + 2 * self.sessions.len());
        let answer = loop {
            if let Some(answer) = self.request_watch(&self.sessions, &sink).await? {
                break answer;
            }
            sleep(self.client.jittered(RETRY_AFTER)).await;
        };
        self.channel = Some((sink, source));
        self.is_following = true;
        self.session_by_feed.clear();
        self.missing.clear();
        // If the counts are still out of date, the node says so again on the new feed.
        for (session, counts) in &mut self.counts {
            if counts.stale_since.take().is_some() && !self.ready.contains(session) {
                self.ready.push_back(session.clone());
            }
        }
        self.to_retry = self.sessions.iter().cloned().collect();
        self.on_granted(answer);
        Ok(())
    }

    /// Asks again for the sessions that have no feed.
    async fn retry(&mut self) -> Result<(), Error> {
        let (sink, _) = self.channel.as_ref().expect("a granted watch has a channel");
        let sessions: Vec<Id> = self.to_retry.iter().cloned().collect();
        match self.request_watch(&sessions, sink).await? {
            Some(answer) => self.on_granted(answer),
            None => self.retry_at = Instant::now() + self.client.jittered(RETRY_AFTER),
        }
        Ok(())
    }

    /// Sends the op `watch` for these sessions. `None` if the caller should try again.
    async fn request_watch(&self, sessions: &[Id], sink: &FeedSink) -> Result<Option<CountsWatching>, Error> {
        let body = body::Watch { entity: None, sessions: Some(sessions.to_vec()), token: None, resume: None };
        match self.client.call_with::<CountsWatching, _>(None, Op::Watch, None, &body, Some(sink)).await {
            Ok(answer) => Ok(Some(answer.value)),
            Err(error @ (Error::Refused(_) | Error::Closed(_) | Error::Protocol(_))) => Err(error),
            Err(error @ (Error::Failed(_) | Error::Unknown(_))) => {
                debug!(sessions = sessions.len(), %error, "the watch failed and is retried");
                Ok(None)
            }
        }
    }

    fn on_granted(&mut self, answer: CountsWatching) {
        let CountsWatching { feeds, missing, unreachable } = answer;
        for SessionFeed { session, feed } in feeds {
            self.to_retry.remove(&session);
            self.session_by_feed.insert(feed, session);
        }
        for session in missing {
            self.to_retry.remove(&session);
            self.counts.remove(&session);
            self.ready.retain(|ready| *ready != session);
            self.missing.insert(session);
        }
        if !unreachable.is_empty() {
            debug!(sessions = unreachable.len(), "no node that answered has these sessions");
        }
        self.retry_at = Instant::now() + self.client.jittered(RETRY_AFTER);
    }

    /// Applies one frame. Returns the session if its counts are new.
    fn on_frame(&mut self, frame: &Bytes) -> Result<Option<Id>, Unreadable> {
        let encoding = self.client.connection.config.encoding;
        let ServerFrame::Feed(feed, event) = ServerFrame::read(encoding, frame)? else {
            unreachable!("the connection task hands watches nothing but frames of feeds");
        };
        let event = event.read::<CountsSnapshot>(encoding)?;
        if let Event::Snapshot(snapshot) = event {
            let Entity::Session(session) = &snapshot.entity else {
                return Err(Unreadable(format!("a watch of session counts got a snapshot of {}", snapshot.entity)));
            };
            let session = session.clone();
            let applied = match self.counts.get_mut(&session) {
                Some(counts) => counts.apply_snapshot(snapshot),
                None => {
                    self.counts.insert(session.clone(), LiveCounts::from_snapshot(session.clone(), snapshot));
                    Applied::Newer
                }
            };
            self.to_retry.remove(&session);
            self.session_by_feed.insert(feed, session.clone());
            return Ok((applied == Applied::Newer).then_some(session));
        }
        let Some(session) = self.session_by_feed.get(&feed).cloned() else { return Ok(None) };
        // A delta before the first snapshot is already part of that snapshot.
        let counts = self.counts.get_mut(&session);
        let applied = match (event, counts) {
            (Event::Delta(delta), Some(counts)) => counts.apply_delta(delta)?,
            (Event::Stale(stale_ms), Some(counts)) => {
                let age = Duration::from_millis(stale_ms);
                counts.stale_since =
                    (stale_ms > 0).then(|| Instant::now().checked_sub(age).unwrap_or_else(Instant::now));
                Applied::Newer
            }
            (Event::Ended(_), _) => {
                self.session_by_feed.remove(&feed);
                self.to_retry.insert(session);
                self.retry_at = Instant::now() + self.client.jittered(RETRY_AFTER);
                return Ok(None);
            }
            (Event::Delta(_) | Event::Stale(_) | Event::Snapshot(_), _) => Applied::Unchanged,
        };
        if applied == Applied::Gap {
            self.is_following = false;
        }
        Ok((applied == Applied::Newer).then_some(session))
    }
}

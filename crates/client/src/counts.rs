//! Lists of sessions, followed in counts only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use boxoffice_core::{
    answer::{AreaCounts, SeatCounts},
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
    feeds::{FeedItem, FeedSink, FeedSource, WATCH_QUEUE, feed_of},
    live::{Applied, merge, order},
    watch::{ASK_AGAIN, refused},
};

/// How many places of a session are free, held and sold, at a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveCounts {
    session: Id,
    epoch: u64,
    version: u64,
    counts: SeatCounts,
    areas: Vec<AreaCounts>,
    stale_since: Option<Instant>,
}

impl LiveCounts {
    /// Which session.
    pub fn session(&self) -> &Id {
        &self.session
    }

    /// Its version; versions of different epochs have nothing to do with each other.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its epoch.
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

    /// For how long this may have been behind, as [`crate::Watch::stale_for`].
    pub fn stale_for(&self) -> Option<Duration> {
        self.stale_since.map(|since| since.elapsed())
    }

    fn begin(session: Id, snapshot: CountsSnapshot) -> LiveCounts {
        let CountsSnapshot { entity: _, epoch, version, counts, areas } = snapshot;
        LiveCounts { session, epoch, version, counts, areas, stale_since: None }
    }

    fn replace(&mut self, snapshot: CountsSnapshot) -> Applied {
        if snapshot.epoch == self.epoch && snapshot.version <= self.version {
            return Applied::Nothing;
        }
        (self.epoch, self.version) = (snapshot.epoch, snapshot.version);
        (self.counts, self.areas) = (snapshot.counts, snapshot.areas);
        Applied::Newer
    }

    fn apply(&mut self, delta: CountsDelta) -> Result<Applied, Unreadable> {
        let applied = order(self.version, delta.from, delta.to);
        if applied == Applied::Newer {
            merge(&mut self.areas, delta.areas)?;
            (self.version, self.counts) = (delta.to, delta.counts);
        }
        Ok(applied)
    }
}

/// A list of sessions as a stream of what is new in the counts of one of them, across reconnects. Slow readers miss versions,
/// never the newest one.
#[derive(Debug)]
pub struct CountsWatch {
    client: Client,
    sessions: Vec<Id>,
    /// Where the frames of all their feeds come from.
    feeds: Option<(FeedSink, FeedSource)>,
    is_whole: bool,
    /// Which session a feed is of.
    numbers: FxHashMap<u64, Id>,
    counts: BTreeMap<Id, LiveCounts>,
    missing: BTreeSet<Id>,
    /// To be asked for again then: no node that answered had them, or their feeds have ended.
    owed: BTreeSet<Id>,
    owed_at: Instant,
    /// To be told of, before what comes next.
    told: VecDeque<Id>,
}

impl CountsWatch {
    pub(crate) fn new(client: Client, sessions: impl IntoIterator<Item = Id>) -> CountsWatch {
        let mut seen = BTreeSet::new();
        let sessions = sessions.into_iter().filter(|session| seen.insert(session.clone())).collect();
        CountsWatch {
            client,
            sessions,
            feeds: None,
            is_whole: false,
            numbers: FxHashMap::default(),
            counts: BTreeMap::new(),
            missing: BTreeSet::new(),
            owed: BTreeSet::new(),
            owed_at: Instant::now(),
            told: VecDeque::new(),
        }
    }

    /// The newest counts seen of a session so far.
    pub fn get(&self, session: &Id) -> Option<&LiveCounts> {
        self.counts.get(session)
    }

    /// The newest counts seen so far, by session.
    pub fn iter(&self) -> impl Iterator<Item = &LiveCounts> {
        self.counts.values()
    }

    /// Sessions of the list that there are not.
    pub fn missing(&self) -> impl Iterator<Item = &Id> {
        self.missing.iter()
    }

    /// Waits for the next counts: newer than those of this session before, or of another epoch; or the same once more when
    /// [`LiveCounts::stale_for`] begins or ends. May be dropped and called again at any time.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none of the sessions, or more of them than a connection may follow; [`Error::Closed`]
    /// if the client is, [`Error::Protocol`] if the server contradicts itself. Everything else is tried again.
    pub async fn next(&mut self) -> Result<&LiveCounts, Error> {
        let session = self.newer().await?;
        Ok(self.counts.get(&session).expect("it was just told of"))
    }

    /// The session whose counts are new.
    async fn newer(&mut self) -> Result<Id, Error> {
        loop {
            if !self.is_whole {
                self.begin().await?;
            }
            if let Some(session) = self.told.pop_front() {
                return Ok(session);
            }
            if self.missing.len() == self.sessions.len() {
                self.is_whole = false;
                let names: Vec<String> = self.missing.iter().take(3).map(|id| format!("session/{id}")).collect();
                return Err(refused(&Refusal::NotFound(names.join(" or ").into())));
            }
            let (_, source) = self.feeds.as_mut().expect("it was just asked for");
            let item = if self.owed.is_empty() {
                source.next().await
            } else {
                match timeout_at(self.owed_at, source.next()).await {
                    Ok(item) => item,
                    Err(_) => {
                        self.ask_for_owed().await?;
                        continue;
                    }
                }
            };
            match item {
                FeedItem::Lost => self.is_whole = false,
                FeedItem::Frame(frame) => match self.take(&frame) {
                    Ok(Some(session)) => return Ok(session),
                    Ok(None) => {}
                    Err(error) => {
                        // What contradicts itself is not gone on with: the next call starts with snapshots.
                        self.is_whole = false;
                        self.counts.clear();
                        return Err(error.into());
                    }
                },
            }
        }
    }

    /// Asks for all of them.
    async fn begin(&mut self) -> Result<(), Error> {
        // They are given up first: all of them twice may be more than a connection may follow.
        self.feeds = None;
        let (sink, source) = feed_of(WATCH_QUEUE + 2 * self.sessions.len());
        let answer = loop {
            if let Some(answer) = self.ask(&self.sessions, &sink).await? {
                break answer;
            }
            sleep(self.client.jittered(ASK_AGAIN)).await;
        };
        self.feeds = Some((sink, source));
        self.is_whole = true;
        self.numbers.clear();
        self.missing.clear();
        // A node says so anew where it begins.
        for (session, counts) in &mut self.counts {
            if counts.stale_since.take().is_some() && !self.told.contains(session) {
                self.told.push_back(session.clone());
            }
        }
        self.owed = self.sessions.iter().cloned().collect();
        self.granted(answer);
        Ok(())
    }

    /// Asks once more for those that are not there yet.
    async fn ask_for_owed(&mut self) -> Result<(), Error> {
        let (sink, _) = self.feeds.as_ref().expect("others were asked for before");
        let owed: Vec<Id> = self.owed.iter().cloned().collect();
        match self.ask(&owed, sink).await? {
            Some(answer) => self.granted(answer),
            None => self.owed_at = Instant::now() + self.client.jittered(ASK_AGAIN),
        }
        Ok(())
    }

    /// `None` if it is to be tried again.
    async fn ask(&self, sessions: &[Id], sink: &FeedSink) -> Result<Option<CountsWatching>, Error> {
        let body = body::Watch { entity: None, sessions: Some(sessions.to_vec()), token: None, resume: None };
        match self.client.call_with::<CountsWatching, _>(None, Op::Watch, None, &body, Some(sink)).await {
            Ok(answer) => Ok(Some(answer.value)),
            Err(error @ (Error::Refused(_) | Error::Closed(_) | Error::Protocol(_))) => Err(error),
            Err(error @ (Error::Failed(_) | Error::Unknown(_))) => {
                debug!(sessions = sessions.len(), %error, "watching is tried again");
                Ok(None)
            }
        }
    }

    fn granted(&mut self, answer: CountsWatching) {
        let CountsWatching { feeds, missing, unreachable } = answer;
        for SessionFeed { session, feed } in feeds {
            self.owed.remove(&session);
            self.numbers.insert(feed, session);
        }
        for session in missing {
            self.owed.remove(&session);
            self.counts.remove(&session);
            self.told.retain(|told| *told != session);
            self.missing.insert(session);
        }
        if !unreachable.is_empty() {
            debug!(sessions = unreachable.len(), "no node that answers has them");
        }
        self.owed_at = Instant::now() + self.client.jittered(ASK_AGAIN);
    }

    /// Takes one frame; the session, if its counts are new.
    fn take(&mut self, frame: &Bytes) -> Result<Option<Id>, Unreadable> {
        let encoding = self.client.shared.config.encoding;
        let ServerFrame::Feed(feed, event) = ServerFrame::read(encoding, frame)? else {
            unreachable!("the post hands watches nothing but frames of feeds");
        };
        let event = event.read::<CountsSnapshot>(encoding)?;
        if let Event::Snapshot(snapshot) = event {
            let Entity::Session(session) = &snapshot.entity else {
                return Err(Unreadable(format!("a snapshot of {} came where sessions are counted", snapshot.entity)));
            };
            let session = session.clone();
            let applied = match self.counts.get_mut(&session) {
                Some(counts) => counts.replace(snapshot),
                None => {
                    self.counts.insert(session.clone(), LiveCounts::begin(session.clone(), snapshot));
                    Applied::Newer
                }
            };
            self.owed.remove(&session);
            self.numbers.insert(feed, session.clone());
            return Ok((applied == Applied::Newer).then_some(session));
        }
        let Some(session) = self.numbers.get(&feed).cloned() else { return Ok(None) };
        // What came before its first snapshot is in it.
        let counts = self.counts.get_mut(&session);
        let applied = match (event, counts) {
            (Event::Delta(delta), Some(counts)) => counts.apply(delta)?,
            (Event::Stale(stale_ms), Some(counts)) => {
                let age = Duration::from_millis(stale_ms);
                counts.stale_since =
                    (stale_ms > 0).then(|| Instant::now().checked_sub(age).unwrap_or_else(Instant::now));
                Applied::Newer
            }
            (Event::Ended(_), _) => {
                self.numbers.remove(&feed);
                self.owed.insert(session);
                self.owed_at = Instant::now() + self.client.jittered(ASK_AGAIN);
                return Ok(None);
            }
            (Event::Delta(_) | Event::Stale(_) | Event::Snapshot(_), _) => Applied::Nothing,
        };
        if applied == Applied::Gap {
            self.is_whole = false;
        }
        Ok((applied == Applied::Newer).then_some(session))
    }
}

//! A watch of one entity.

use boxoffice_core::{
    id::{CartToken, Entity, Id},
    refusal::Refusal,
};
use boxoffice_wire::{
    Op, body,
    feed::SnapshotBody,
    reply::{Event, No, ServerFrame, Unreadable, Watching},
};
use bytes::Bytes;
use tokio::time::{Duration, Instant, sleep};
use tracing::debug;

use crate::{
    client::Client,
    error::Error,
    feeds::{FeedItem, FeedSource, feed_channel},
    live::{Applied, Live},
    map_state::MapState,
};

/// How long a watch waits before it retries after a failure.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A stream of consistent states of one entity, across reconnects: a snapshot, then every change. By default the state
/// is the seat map of a session. Slow readers miss versions, but every state they get is consistent.
#[derive(Debug)]
pub struct Watch<T = MapState> {
    client: Client,
    entity: Entity,
    token: Option<CartToken>,
    /// The source of the feed's frames. A source that has lost frames stays in place until another feed is granted, so
    /// that the feed does not look abandoned meanwhile.
    source: Option<FeedSource>,
    /// Whether the feed was granted and has lost no frames since then.
    is_following: bool,
    state: Option<T>,
    /// Since when the state may be out of date.
    stale_since: Option<Instant>,
}

impl Client {
    /// `watch`: follows a session as a stream of consistent seat maps. The watch starts with the first [`Watch::next`].
    pub fn watch(&self, session: &Id) -> Watch {
        Watch::new(self.clone(), Entity::Session(session.clone()), None, None)
    }
}

impl Watch<MapState> {
    /// The newest map received so far.
    pub fn map(&self) -> Option<&MapState> {
        self.state.as_ref()
    }
}

impl<T: Live> Watch<T> {
    pub(crate) fn new(client: Client, entity: Entity, token: Option<CartToken>, state: Option<T>) -> Watch<T> {
        Watch { client, entity, token, source: None, is_following: false, state, stale_since: None }
    }

    /// The newest state received so far.
    pub fn state(&self) -> Option<&T> {
        self.state.as_ref()
    }

    /// For how long the state may have been out of date. `None` while it is up to date. A state goes out of date when
    /// the node is cut off from the nodes that decide and receives no changes.
    pub fn stale_for(&self) -> Option<Duration> {
        self.stale_since.map(|since| since.elapsed())
    }

    /// Waits for the next state. It is newer than the state before, or of another epoch. The same state comes once more
    /// when [`Watch::stale_for`] begins or ends. The future may be dropped and `next` called again at any time.
    ///
    /// # Errors
    /// [`Error::Refused`] if the entity does not exist (any more) or has ended, as a cart does after its last state.
    /// [`Error::Closed`] if the client is closed. [`Error::Protocol`] if the server contradicts itself. The watch
    /// retries after all other errors.
    pub async fn next(&mut self) -> Result<&T, Error> {
        loop {
            if !self.is_following {
                self.follow().await?;
            }
            let source = self.source.as_mut().expect("a granted feed has a source");
            let applied = match source.next().await {
                FeedItem::Frame(frame) => self.on_frame(&frame),
                FeedItem::Lost => Ok(Some(Applied::Gap)),
            };
            match applied {
                Ok(Some(Applied::Newer)) => break,
                Ok(Some(Applied::Unchanged)) => {}
                Ok(Some(Applied::Gap)) => self.is_following = false,
                // The feed ended. The watch asks again to learn why. The wait keeps it from asking in a tight loop.
                Ok(None) => {
                    self.is_following = false;
                    if let Some(end) = self.state.as_ref().and_then(T::end) {
                        return Err(refused(&end));
                    }
                    sleep(self.client.jittered(RETRY_AFTER)).await;
                }
                Err(error) => {
                    // The state is not used after a contradiction. The next call starts over with a snapshot.
                    self.is_following = false;
                    self.state = self.state.take().and_then(T::reset);
                    return Err(error);
                }
            }
        }
        Ok(self.state.as_ref().expect("a frame just made the state newer"))
    }

    /// Asks for the entity's feed, from the version of the current state on.
    async fn follow(&mut self) -> Result<(), Error> {
        loop {
            let (sink, source) = feed_channel(self.entity.clone());
            let resume = self.state.as_ref().map(T::resume);
            let entity = Some(self.entity.clone());
            let body = body::Watch { entity, sessions: None, token: self.token, resume };
            let answer = self.client.call_with::<Watching, _>(None, Op::Watch, None, &body, Some(&sink)).await;
            match answer {
                Ok(_) => {
                    // If the state is still out of date, the node says so again on the new feed.
                    self.stale_since = None;
                    self.source = Some(source);
                    self.is_following = true;
                    return Ok(());
                }
                Err(error @ (Error::Refused(_) | Error::Closed(_) | Error::Protocol(_))) => {
                    return Err(error);
                }
                Err(error @ (Error::Failed(_) | Error::Unknown(_))) => {
                    debug!(entity = %self.entity, %error, "the watch failed and is retried");
                    sleep(self.client.jittered(RETRY_AFTER)).await;
                }
            }
        }
    }

    /// Applies one frame of the feed. `None` if the frame ends the feed.
    fn on_frame(&mut self, frame: &Bytes) -> Result<Option<Applied>, Error> {
        let encoding = self.client.connection.config.encoding;
        let ServerFrame::Feed(_, event) = ServerFrame::read(encoding, frame)? else {
            unreachable!("the connection task hands watches nothing but frames of feeds");
        };
        let applied = match (event.read::<T::Snapshot>(encoding)?, &mut self.state) {
            (Event::Snapshot(snapshot), _) if *snapshot.entity() != self.entity => {
                Err(Unreadable(format!("a watch of {} got a snapshot of {}", self.entity, snapshot.entity())))
            }
            (Event::Snapshot(snapshot), Some(state)) => state.apply_snapshot(snapshot),
            (Event::Snapshot(snapshot), state @ None) => {
                *state = Some(T::from_snapshot(snapshot)?);
                Ok(Applied::Newer)
            }
            (Event::Delta(delta), Some(state)) => state.apply_delta(delta),
            // The delta is for watches that started earlier. This watch's snapshot is still to come.
            (Event::Delta(_), None) => Ok(Applied::Unchanged),
            (Event::Ended(_), _) => return Ok(None),
            (Event::Stale(stale_ms), state) => {
                let age = Duration::from_millis(stale_ms);
                self.stale_since = (stale_ms > 0).then(|| Instant::now().checked_sub(age).unwrap_or_else(Instant::now));
                Ok(if state.is_some() { Applied::Newer } else { Applied::Unchanged })
            }
        };
        Ok(Some(applied?))
    }
}

/// A refusal that the client itself makes.
pub(crate) fn refused(refusal: &Refusal) -> Error {
    let (code, name) = (refusal.code(), refusal.name().into());
    Error::Refused(Box::new(No { code, name, message: refusal.to_string(), ..No::default() }))
}

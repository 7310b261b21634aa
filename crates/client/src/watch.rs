//! An entity followed live.

use boxoffice_core::{
    id::{CartToken, Entity},
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
    feeds::{FeedItem, FeedSource, feed},
    live::{Applied, Live},
    map_state::MapState,
};

/// How long to wait before an entity is asked for again after a failure.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(500);

/// An entity as a stream of consistent states (the seats of a session, unless said otherwise): a snapshot, then every
/// change, across reconnects. Slow readers miss versions, never consistency.
#[derive(Debug)]
pub struct Watch<T = MapState> {
    client: Client,
    entity: Entity,
    token: Option<CartToken>,
    /// Where its frames come from. One that misses frames stays in place until another is granted, so that the feed does
    /// not look abandoned in between.
    source: Option<FeedSource>,
    is_whole: bool,
    state: Option<T>,
    /// Since when the state may be behind.
    stale_since: Option<Instant>,
}

impl Watch<MapState> {
    /// The newest map seen so far.
    pub fn map(&self) -> Option<&MapState> {
        self.state.as_ref()
    }
}

impl<T: Live> Watch<T> {
    pub(crate) fn new(client: Client, entity: Entity, token: Option<CartToken>, state: Option<T>) -> Watch<T> {
        Watch { client, entity, token, source: None, is_whole: false, state, stale_since: None }
    }

    /// The newest state seen so far.
    pub fn state(&self) -> Option<&T> {
        self.state.as_ref()
    }

    /// For how long the state may have been behind: the node is cut off from those that decide, and hears of nothing; `None`
    /// while it is not.
    pub fn stale_for(&self) -> Option<Duration> {
        self.stale_since.map(|since| since.elapsed())
    }

    /// Waits for the next state: newer than the one before, or of another epoch; or the same once more when
    /// [`Watch::stale_for`] begins or ends. May be dropped and called again at any time.
    ///
    /// # Errors
    /// [`Error::Refused`] if the entity is not known (any more) or has ended, as carts do after their last state;
    /// [`Error::Closed`] if the client is, [`Error::Protocol`] if the server contradicts itself. Everything else is tried
    /// again.
    pub async fn next(&mut self) -> Result<&T, Error> {
        loop {
            if !self.is_whole {
                self.ask().await?;
            }
            let source = self.source.as_mut().expect("it was just asked for");
            let applied = match source.next().await {
                FeedItem::Frame(frame) => self.take(&frame),
                FeedItem::Lost => Ok(Some(Applied::Gap)),
            };
            match applied {
                Ok(Some(Applied::Newer)) => break,
                Ok(Some(Applied::Nothing)) => {}
                Ok(Some(Applied::Gap)) => self.is_whole = false,
                // Asking again says why, but not in a tight circle.
                Ok(None) => {
                    self.is_whole = false;
                    if let Some(over) = self.state.as_ref().and_then(T::over) {
                        return Err(refused(&over));
                    }
                    sleep(self.client.jittered(ASK_AGAIN)).await;
                }
                Err(error) => {
                    // What contradicts itself is not gone on with: the next call starts with a snapshot.
                    self.is_whole = false;
                    self.state = self.state.take().and_then(T::forget);
                    return Err(error);
                }
            }
        }
        Ok(self.state.as_ref().expect("a state was just taken"))
    }

    /// Asks for the entity's feed, from the version that is there.
    async fn ask(&mut self) -> Result<(), Error> {
        loop {
            let (sink, source) = feed();
            let resume = self.state.as_ref().map(T::resume);
            let entity = Some(self.entity.clone());
            let body = body::Watch { entity, sessions: None, token: self.token, resume };
            let asked = self.client.call_with::<Watching, _>(None, Op::Watch, None, &body, Some(&sink)).await;
            match asked {
                Ok(_) => {
                    // A node says so anew where it begins.
                    self.stale_since = None;
                    self.source = Some(source);
                    self.is_whole = true;
                    return Ok(());
                }
                Err(error @ (Error::Refused(_) | Error::Closed(_) | Error::Protocol(_))) => {
                    return Err(error);
                }
                Err(error @ (Error::Failed(_) | Error::Unknown(_))) => {
                    debug!(entity = %self.entity, %error, "watching is tried again");
                    sleep(self.client.jittered(ASK_AGAIN)).await;
                }
            }
        }
    }

    /// Takes one frame of the feed; `None` if it is the last.
    fn take(&mut self, frame: &Bytes) -> Result<Option<Applied>, Error> {
        let encoding = self.client.shared.config.encoding;
        let ServerFrame::Feed(_, event) = ServerFrame::read(encoding, frame)? else {
            unreachable!("the post hands watches nothing but frames of feeds");
        };
        let applied = match (event.read::<T::Snapshot>(encoding)?, &mut self.state) {
            (Event::Snapshot(snapshot), _) if *snapshot.entity() != self.entity => {
                Err(Unreadable(format!("a snapshot of {} came where {} is watched", snapshot.entity(), self.entity)))
            }
            (Event::Snapshot(snapshot), Some(state)) => state.replace(snapshot),
            (Event::Snapshot(snapshot), state @ None) => {
                *state = Some(T::begin(snapshot)?);
                Ok(Applied::Newer)
            }
            (Event::Delta(delta), Some(state)) => state.apply(delta),
            // A change for those who watched before; this watch's snapshot is still to come.
            (Event::Delta(_), None) => Ok(Applied::Nothing),
            (Event::Ended(_), _) => return Ok(None),
            (Event::Stale(stale_ms), state) => {
                let age = Duration::from_millis(stale_ms);
                self.stale_since = (stale_ms > 0).then(|| Instant::now().checked_sub(age).unwrap_or_else(Instant::now));
                Ok(if state.is_some() { Applied::Newer } else { Applied::Nothing })
            }
        };
        Ok(Some(applied?))
    }
}

pub(crate) fn refused(refusal: &Refusal) -> Error {
    let (code, name) = (refusal.code(), refusal.name().into());
    Error::Refused(Box::new(No { code, name, message: refusal.to_string(), ..No::default() }))
}

//! What a connection waits for by the clock, besides the deadlines of its requests.

use std::time::Duration;

use boxoffice_wire::limits::close;
use tokio::time::Instant;

use super::frames::End;
use crate::config::Limits;

/// The times a connection is held to.
pub(super) struct Clocks {
    /// The first frame must be there by then; `None` once it was.
    first_frame: Option<Instant>,
    /// The message in the middle of which the stream is: how many came before it, and until when it must be whole.
    whole_frame: Option<(u64, Instant)>,
    next_ping: Instant,
    /// A ping is out, and the pong must be there by then.
    pong: Option<Instant>,
    /// The node drains, and this connection's turn to go comes then.
    farewell: Option<Instant>,
    /// That turn has come; the connection goes when nobody waits for an answer.
    is_farewell: bool,
}

impl Clocks {
    pub(super) fn new(now: Instant, limits: &Limits) -> Clocks {
        Clocks {
            first_frame: Some(now + limits.first_frame_timeout),
            whole_frame: None,
            next_ping: now + limits.ping_every,
            pong: None,
            farewell: None,
            is_farewell: false,
        }
    }

    /// A frame came.
    pub(super) fn frame_came(&mut self) {
        self.first_frame = None;
    }

    /// A pong came.
    pub(super) fn pong_came(&mut self) {
        self.pong = None;
    }

    /// Everything was read, and the stream is in the middle of the message after so many; or of none.
    pub(super) fn in_the_middle(&mut self, after: Option<u64>, now: Instant, limits: &Limits) {
        self.whole_frame = match (after, self.whole_frame) {
            (Some(messages), Some((same, until))) if messages == same => Some((same, until)),
            (Some(messages), _) => Some((messages, now + limits.whole_frame_timeout)),
            (None, _) => None,
        };
    }

    /// The node drains; this connection goes in `wait`.
    pub(super) fn drain(&mut self, now: Instant, wait: Duration) {
        self.farewell = Some(now + wait);
    }

    /// Whether the node drains.
    pub(super) fn is_draining(&self) -> bool {
        self.farewell.is_some()
    }

    /// Whether the node drains and this connection's turn to go has come.
    pub(super) fn is_farewell(&self) -> bool {
        self.is_farewell
    }

    /// Whether a ping is due, which then counts as sent.
    ///
    /// # Errors
    /// What the peer was too late with.
    pub(super) fn check(&mut self, now: Instant, limits: &Limits) -> Result<bool, End> {
        let over = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        if over(self.first_frame) {
            return Err(End::Close(close::NO_HELLO, "no frame came in time".into()));
        }
        if over(self.whole_frame.map(|(_, until)| until)) {
            return Err(End::Close(close::NO_HELLO, "a frame did not arrive whole in time".into()));
        }
        if over(self.pong) {
            return Err(End::Close(close::NO_PONG, "no pong came in time".into()));
        }
        self.is_farewell |= over(self.farewell);
        if self.next_ping > now {
            return Ok(false);
        }
        self.next_ping = now + limits.ping_every;
        // A second ping does not give more time for the first one's pong.
        self.pong.get_or_insert(now + limits.pong_timeout);
        Ok(true)
    }

    /// When to look again.
    pub(super) fn next(&self) -> Instant {
        let whole_frame = self.whole_frame.map(|(_, until)| until);
        // Once the turn to go has come, answers are waited for and not the clock.
        let farewell = self.farewell.filter(|_| !self.is_farewell);
        [self.first_frame, whole_frame, self.pong, farewell].into_iter().flatten().fold(self.next_ping, Instant::min)
    }
}

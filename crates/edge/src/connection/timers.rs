//! The timers of a connection, apart from the deadlines of its requests.

use std::time::Duration;

use boxoffice_wire::limits::close;
use tokio::time::Instant;

use super::frames::End;
use crate::config::Limits;

/// The timers.
pub(super) struct Timers {
    /// When the first frame must have arrived. `None` once it has.
    first_frame: Option<Instant>,
    /// The incomplete message: how many came before it, and when it must be complete.
    whole_frame: Option<(u64, Instant)>,
    next_ping: Instant,
    /// When the pong to the last ping must have arrived.
    pong: Option<Instant>,
    /// When the connection should close, because the node drains.
    close_at: Option<Instant>,
    /// That time has come. The connection closes when nothing is under way.
    must_close: bool,
}

impl Timers {
    pub(super) fn new(now: Instant, limits: &Limits) -> Timers {
        Timers {
            first_frame: Some(now + limits.first_frame_timeout),
            whole_frame: None,
            next_ping: now + limits.ping_every,
            pong: None,
            close_at: None,
            must_close: false,
        }
    }

    pub(super) fn on_frame(&mut self) {
        self.first_frame = None;
    }

    pub(super) fn on_pong(&mut self) {
        self.pong = None;
    }

    /// Everything was read, and the message after this many is incomplete, if any is.
    pub(super) fn on_incomplete(&mut self, after: Option<u64>, now: Instant, limits: &Limits) {
        self.whole_frame = match (after, self.whole_frame) {
            (Some(messages), Some((same, until))) if messages == same => Some((same, until)),
            (Some(messages), _) => Some((messages, now + limits.whole_frame_timeout)),
            (None, _) => None,
        };
    }

    /// The node drains, and the connection should close after `wait`.
    pub(super) fn drain(&mut self, now: Instant, wait: Duration) {
        self.close_at = Some(now + wait);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.close_at.is_some()
    }

    /// Whether the connection should close as soon as nothing is under way.
    pub(super) fn must_close(&self) -> bool {
        self.must_close
    }

    /// Returns whether a ping is due, which then counts as sent.
    ///
    /// # Errors
    /// The peer was too late.
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
        self.must_close |= over(self.close_at);
        if self.next_ping > now {
            return Ok(false);
        }
        self.next_ping = now + limits.ping_every;
        // A second ping does not extend the time for the first one's pong.
        self.pong.get_or_insert(now + limits.pong_timeout);
        Ok(true)
    }

    /// When to check again.
    pub(super) fn next(&self) -> Instant {
        let whole_frame = self.whole_frame.map(|(_, until)| until);
        // Once the connection should close, it waits for answers and not for the clock.
        let close_at = self.close_at.filter(|_| !self.must_close);
        [self.first_frame, whole_frame, self.pong, close_at].into_iter().flatten().fold(self.next_ping, Instant::min)
    }
}

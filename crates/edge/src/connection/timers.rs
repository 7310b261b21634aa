//! The timers of a connection, apart from the deadlines of its requests.

use std::time::Duration;

use boxoffice_wire::limits::close;
use tokio::time::Instant;

use super::frames::End;
use crate::config::Limits;

/// Bytes that a peer reads in a second, or more. A ping may wait behind what the kernels keep for it.
const BYTES_PER_SECOND_MIN: u64 = 5_000;

/// Bytes that the kernels keep for a peer that reads slowly, or fewer.
const KEPT_BYTES_MAX: u64 = 256 * 1024;

/// The timers.
pub(super) struct Timers {
    /// When the first frame must have arrived. `None` once it has.
    first_frame: Option<Instant>,
    /// The incomplete message: how many came before it, and when it must be complete.
    whole_frame: Option<(u64, Instant)>,
    next_ping: Instant,
    /// When the pong to the ping under way must have arrived.
    pong: Option<Instant>,
    /// Bytes that were given to the connection before the last ping.
    pinged: u64,
    /// Bytes that the peer has read, by its last pong.
    confirmed: u64,
    /// Bytes that the peer had taken when it left some, and when it must have taken more.
    stall: Option<(u64, Instant)>,
    /// When the connection should close, because the node drains.
    close_at: Option<Instant>,
    /// That time has come. The connection closes when nothing is under way.
    must_close: bool,
    /// When a connection without a role that has nothing under way must end.
    no_role: Option<Instant>,
}

impl Timers {
    pub(super) fn new(now: Instant, limits: &Limits) -> Timers {
        Timers {
            first_frame: Some(now + limits.first_frame_timeout),
            whole_frame: None,
            next_ping: now + limits.ping_every,
            pong: None,
            pinged: 0,
            confirmed: 0,
            stall: None,
            close_at: None,
            must_close: false,
            no_role: None,
        }
    }

    /// Whether a connection of the operators' port has had neither a role nor anything under way for too long.
    pub(super) fn is_idle_without_role(&mut self, has_role: bool, now: Instant, limits: &Limits) -> bool {
        self.no_role = match self.no_role {
            _ if has_role => None,
            Some(until) => Some(until),
            None => Some(now + limits.no_role_timeout),
        };
        self.no_role.is_some_and(|until| until <= now)
    }

    pub(super) fn on_frame(&mut self) {
        self.first_frame = None;
    }

    pub(super) fn on_pong(&mut self) {
        if self.pong.take().is_some() {
            self.confirmed = self.pinged;
        }
    }

    /// The peer has taken `bytes` so far, and whether it has left some.
    ///
    /// # Errors
    /// It has taken nothing for too long.
    pub(super) fn on_flush(&mut self, leaves_some: bool, bytes: u64, now: Instant, limits: &Limits) -> Result<(), End> {
        self.stall = match self.stall {
            _ if !leaves_some => None,
            Some((before, until)) if before == bytes && until <= now => return Err(End::Stalled),
            Some((before, until)) if before == bytes => Some((before, until)),
            _ => Some((bytes, now + limits.stall_timeout)),
        };
        Ok(())
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

    /// Returns whether a ping is due, which then counts as sent. `given` bytes were written or wait for it. `has_heard` is whether
    /// everything was read that has arrived. Otherwise what is missing may be there.
    ///
    /// # Errors
    /// The peer was too late.
    pub(super) fn check(&mut self, given: u64, has_heard: bool, now: Instant, limits: &Limits) -> Result<bool, End> {
        let over = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        if has_heard && over(self.first_frame) {
            return Err(End::Close(close::NO_HELLO, "no frame came in time".into()));
        }
        if has_heard && over(self.whole_frame.map(|(_, until)| until)) {
            return Err(End::Close(close::NO_HELLO, "a frame did not arrive whole in time".into()));
        }
        if has_heard && over(self.pong) {
            return Err(End::Close(close::NO_PONG, "no pong came in time".into()));
        }
        self.must_close |= over(self.close_at);
        if self.next_ping > now {
            return Ok(false);
        }
        self.next_ping = now + limits.ping_every;
        if self.pong.is_some() {
            return Ok(false);
        }
        // A slow peer has to read what was given to it before the ping.
        let before = (given - self.confirmed).min(KEPT_BYTES_MAX);
        self.pong = Some(now + limits.pong_timeout + Duration::from_millis(before * 1_000 / BYTES_PER_SECOND_MIN));
        self.pinged = given;
        Ok(true)
    }

    /// When to check again. `hears` as `has_heard` of [`Timers::check`].
    pub(super) fn next(&self, hears: bool) -> Instant {
        let whole_frame = self.whole_frame.map(|(_, until)| until);
        let arrivals = [self.first_frame, whole_frame, self.pong].map(|until| until.filter(|_| hears));
        // Once the connection should close, it waits for answers and not for the clock.
        let close_at = self.close_at.filter(|_| !self.must_close);
        let stall = self.stall.map(|(_, until)| until);
        arrivals.into_iter().chain([close_at, stall, self.no_role]).flatten().fold(self.next_ping, Instant::min)
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_PER_SECOND_MIN, Duration, End, Instant, KEPT_BYTES_MAX, Limits, Timers, close};

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Timers after the first frame, and after their first ping.
    fn pinged(given: u64) -> (Timers, Instant, Limits) {
        let (begin, limits) = (Instant::now(), Limits::default());
        let mut timers = Timers::new(begin, &limits);
        timers.on_frame();
        let now = begin + limits.ping_every;
        assert_eq!(timers.check(given, true, now, &limits), Ok(true), "a ping is due");
        (timers, now, limits)
    }

    #[test]
    fn a_ping_behind_many_bytes_has_time_to_be_read() {
        for (given, more_s) in
            [(0, 0), (10 * BYTES_PER_SECOND_MIN, 10), (1 << 40, KEPT_BYTES_MAX / BYTES_PER_SECOND_MIN)]
        {
            let (mut timers, now, limits) = pinged(given);
            let until = now + limits.pong_timeout + seconds(more_s);
            assert!(timers.check(given, true, until - seconds(1), &limits).is_ok(), "{given} bytes");
            let missed = timers.check(given, true, until + seconds(1), &limits);
            assert!(matches!(missed, Err(End::Close(close::NO_PONG, _))), "{given} bytes: {missed:?}");
        }
    }

    #[test]
    fn what_a_pong_has_confirmed_gives_no_further_time() {
        let (mut timers, now, limits) = pinged(100_000);
        timers.on_pong();
        let again = now + limits.ping_every;
        assert_eq!(timers.check(100_000, true, again, &limits), Ok(true));
        assert!(timers.check(100_000, true, again + limits.pong_timeout, &limits).is_err());
    }

    #[test]
    fn nothing_is_missed_that_may_have_arrived() {
        let (mut timers, now, limits) = pinged(0);
        let late = now + seconds(60);
        assert!(timers.check(0, false, late, &limits).is_ok(), "the pong may be there unread");
        assert!(timers.next(false) > late, "the timer does not run for it");
        timers.on_pong();
        assert!(timers.check(0, true, late, &limits).is_ok());
    }

    #[test]
    fn a_peer_that_takes_some_is_no_stalled_one() {
        let (mut timers, mut now, limits) = pinged(0);
        for bytes in 0..10 {
            assert!(timers.on_flush(true, bytes, now, &limits).is_ok());
            now += limits.stall_timeout - seconds(1);
            assert!(timers.on_flush(true, bytes, now, &limits).is_ok());
            now += seconds(2);
        }
        assert_eq!(timers.on_flush(true, 9, now, &limits), Err(End::Stalled));
        assert!(timers.on_flush(false, 9, now, &limits).is_ok(), "everything is taken");
    }
}

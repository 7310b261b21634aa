//! Limits how many first commands a client has under way at an overloaded node.
//!
//! A node that answers `busy` says when to try again. Until then the client sends it no first commands. Afterwards half
//! as many are under way as before, and each answer raises the limit a little (additive increase, multiplicative
//! decrease). All clients together then send about as much as the node can take. The rest waits in the clients, where
//! it costs the node nothing.
//!
//! Commands that continue something are not limited. The client sends checkouts and releases at once.

use std::{sync::Mutex, time::Duration};

use boxoffice_wire::Op;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// The limit of one connection, as a function of the node's answers. The caller passes the time in.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    max: f64,
    window: f64,
    under_way: usize,
    paused_until: Option<Instant>,
}

impl ConcurrencyLimit {
    /// A limit of `max` requests at first.
    pub fn new(max: usize) -> ConcurrencyLimit {
        ConcurrencyLimit { max: max.max(1) as f64, window: max.max(1) as f64, under_way: 0, paused_until: None }
    }

    /// Counts another request as under way if it may be sent now. Returns whether it may.
    pub fn try_acquire(&mut self, now: Instant) -> bool {
        let paused = self.paused_until.is_some_and(|until| now < until);
        let acquired = !paused && self.has_room();
        self.under_way += usize::from(acquired);
        acquired
    }

    /// Whether fewer requests are under way than the limit allows.
    pub fn has_room(&self) -> bool {
        self.under_way < self.window as usize
    }

    /// A request was answered, whatever the answer.
    pub fn on_answer(&mut self) {
        self.release();
        self.window = (self.window + 1.0 / self.window).min(self.max);
    }

    /// A request was refused as `busy`, with the advice to try again after `wait`.
    pub fn on_busy(&mut self, wait: Duration, now: Instant) {
        self.release();
        // Requests sent together are refused together. They count as one refusal.
        if self.paused_until.is_none_or(|until| until <= now) {
            self.window = (self.window / 2.0).max(1.0);
            self.paused_until = Some(now + wait);
        }
    }

    /// The caller of a request has given up.
    pub fn release(&mut self) {
        self.under_way -= 1;
    }

    /// Until when no request is sent, if the node said `busy`. May be in the past.
    pub fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }
}

/// The limit of a connection, and the requests that wait for a permit.
#[derive(Debug)]
pub(crate) struct Limiter {
    limit: Mutex<ConcurrencyLimit>,
    released: Notify,
}

/// The permission to have one request under way.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    /// `None` once the permit is given back, or if the request does not need one.
    limiter: Option<&'a Limiter>,
}

impl Limiter {
    pub(crate) fn new(max: usize) -> Limiter {
        Limiter { limit: Mutex::new(ConcurrencyLimit::new(max)), released: Notify::new() }
    }

    /// Waits until a request of this op may be sent. `None` if that is not before the deadline.
    pub(crate) async fn acquire(&self, op: Op, deadline: Instant) -> Option<Permit<'_>> {
        if !is_limited(op) {
            return Some(Permit { limiter: None });
        }
        loop {
            let released = self.released.notified();
            let (acquired, has_room, paused_until) = {
                let mut limit = self.limit();
                (limit.try_acquire(Instant::now()), limit.has_room(), limit.paused_until())
            };
            if acquired {
                if has_room {
                    // The window may have grown by more than the permit that was given back.
                    self.released.notify_one();
                }
                return Some(Permit { limiter: Some(self) });
            }
            let until = paused_until.filter(|until| *until > Instant::now()).unwrap_or(deadline).min(deadline);
            // The end of the pause and a released permit are both reasons to try again.
            let _ = timeout_at(until, released).await;
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    fn limit(&self) -> std::sync::MutexGuard<'_, ConcurrencyLimit> {
        self.limit.lock().expect("no thread panics while it holds the lock")
    }
}

impl Permit<'_> {
    /// The request was answered, or refused as `busy` with this wait.
    pub(crate) fn finish(mut self, busy: Option<Duration>) {
        let Some(limiter) = self.limiter.take() else { return };
        match busy {
            Some(wait) => limiter.limit().on_busy(wait, Instant::now()),
            None => limiter.limit().on_answer(),
        }
        limiter.released.notify_one();
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(limiter) = self.limiter.take() {
            limiter.limit().release();
            limiter.released.notify_one();
        }
    }
}

/// Whether the op begins something, so that an overloaded node may refuse it and the client may delay it.
fn is_limited(op: Op) -> bool {
    matches!(
        op,
        Op::CartOpen
            | Op::CartHoldSeats
            | Op::CartHoldBest
            | Op::CartHoldPlaces
            | Op::CartHoldStock
            | Op::CartHoldSlot
            | Op::CartHoldAll
            | Op::ResourceReserve
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(100);

    #[test]
    fn refusals_halve_the_window_once_and_answers_open_it_again() {
        let (mut limit, mut now) = (ConcurrencyLimit::new(64), Instant::now());
        assert_eq!((0..100).filter(|_| limit.try_acquire(now)).count(), 64);
        (0..64).for_each(|_| limit.on_busy(WAIT, now));
        assert!(!limit.try_acquire(now), "the node named the time to retry");
        now += WAIT;
        assert_eq!((0..100).filter(|_| limit.try_acquire(now)).count(), 32);
        (0..32).for_each(|_| limit.on_answer());
        assert_eq!((0..100).filter(|_| limit.try_acquire(now)).count(), 32, "one more needs a whole window of answers");
        (0..32).for_each(|_| limit.on_answer());
        assert_eq!((0..100).filter(|_| limit.try_acquire(now)).count(), 33);
        for _ in 0..20 {
            now += WAIT;
            limit.on_busy(WAIT, now);
        }
        (0..13).for_each(|_| limit.release());
        now += WAIT;
        assert_eq!((0..100).filter(|_| limit.try_acquire(now)).count(), 1, "one request is always allowed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_permit_until_its_deadline() {
        let limiter = Limiter::new(2);
        let deadline = Instant::now() + Duration::from_secs(1);
        let first = limiter.acquire(Op::CartHoldSeats, deadline).await.expect("there is room");
        let second = limiter.acquire(Op::CartHoldSeats, deadline).await.expect("there is room");
        assert!(limiter.acquire(Op::CartHoldSeats, deadline).await.is_none(), "no permit was released");
        assert!(limiter.acquire(Op::CartCheckout, deadline).await.is_some(), "a checkout needs no permit");
        first.finish(Some(WAIT));
        drop(second);
        let begin = Instant::now();
        let third = limiter.acquire(Op::CartOpen, begin + Duration::from_secs(1)).await;
        assert!(third.is_some() && begin.elapsed() >= WAIT, "after {:?}", begin.elapsed());
    }
}

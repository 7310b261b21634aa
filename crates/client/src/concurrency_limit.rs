//! Limits how many first commands a client has under way at an overloaded node, and chooses which of those that wait begins next.
//!
//! A node that answers `busy` says when to try again. Until then the client sends it no first commands. Afterwards fewer are under
//! way than before, and each answer raises the limit a little (additive increase, multiplicative decrease). All clients together
//! then send about as much as the node can take. The rest waits in the clients, where it costs the node nothing.
//!
//! While the node sheds, more requests come than are ever answered. If the oldest one began next, each request would wait until it
//! had hardly any time left, and would often be begun in vain. So the youngest one begins, and one that cannot be finished before its
//! deadline any more is given up at once. That goes on until nothing waits any more. Otherwise the oldest one begins.
//!
//! Commands that continue something are not limited. The client sends checkouts and releases at once.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use boxoffice_wire::{Op, needed::NeededTime, op::Pace};
use tokio::{
    sync::{
        Notify,
        oneshot::{self, error::TryRecvError},
    },
    time::{Instant, sleep_until},
};

/// How long after the last pause the node is taken to shed, also if nothing waits. It sheds for half a second at least.
const SHEDS_FOR: Duration = Duration::from_secs(1);

/// The part of the limit that is left after a refusal.
const DECREASE: f64 = 0.5;

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
            self.window = (self.window * DECREASE).max(1.0);
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

    /// Whether the node has refused something lately.
    pub fn is_shedding(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until + SHEDS_FOR)
    }
}

/// Names a waiting request: when it came, and its number among those that came then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingKey {
    came: Instant,
    number: u64,
}

/// What becomes of a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextCall<T> {
    /// It is counted as under way, and is to be sent.
    Begin(T),
    /// It cannot be finished before its deadline any more. It was not sent.
    GiveUp(T),
}

/// The requests that wait for the limit of a connection. The caller passes the time in.
#[derive(Debug)]
pub struct WaitingRequests<T> {
    limit: ConcurrencyLimit,
    by_age: BTreeMap<WaitingKey, (T, Instant)>,
    /// The same requests by their deadlines.
    by_deadline: BTreeMap<(Instant, u64), WaitingKey>,
    next_number: u64,
    /// The node has shed, and something has waited ever since.
    youngest_first: bool,
    needed: NeededTime,
    /// The zero of the times in `needed`.
    began: Instant,
}

impl<T> WaitingRequests<T> {
    /// Nothing waits, and at most `max` requests may be under way.
    pub fn new(max: usize, now: Instant) -> WaitingRequests<T> {
        WaitingRequests {
            limit: ConcurrencyLimit::new(max),
            by_age: BTreeMap::new(),
            by_deadline: BTreeMap::new(),
            next_number: 0,
            youngest_first: false,
            needed: NeededTime::default(),
            began: now,
        }
    }

    /// Adds a request. One that was refused as `busy` comes again with the time at which it came first.
    pub fn push(&mut self, request: T, came: Instant, deadline: Instant) -> WaitingKey {
        let number = self.next_number;
        self.next_number += 1;
        let key = WaitingKey { came, number };
        self.by_age.insert(key, (request, deadline));
        self.by_deadline.insert((deadline, number), key);
        key
    }

    /// Takes a request out. `None` if it has had its turn.
    pub fn remove(&mut self, key: WaitingKey) -> Option<T> {
        let (request, deadline) = self.by_age.remove(&key)?;
        self.by_deadline.remove(&(deadline, key.number));
        Some(request)
    }

    /// The next request whose turn has come, if there is one.
    pub fn next(&mut self, now: Instant) -> Option<NextCall<T>> {
        // A queue from the overload is no reason to begin with its oldest ones, which are near their deadlines.
        self.youngest_first &= !self.by_age.is_empty() || self.limit.is_shedding(now);
        let needed = if self.youngest_first { self.needed(now) } else { Duration::ZERO };
        if let Some((&(deadline, _), &key)) = self.by_deadline.first_key_value()
            && deadline <= now + needed
        {
            return self.remove(key).map(NextCall::GiveUp);
        }
        let youngest = self.by_age.last_key_value();
        let (&key, _) = if self.youngest_first { youngest } else { self.by_age.first_key_value() }?;
        if !self.limit.try_acquire(now) {
            return None;
        }
        self.remove(key).map(NextCall::Begin)
    }

    /// When a turn may come next if no request is answered and none comes. `None` if nothing waits.
    pub fn wakes_at(&mut self, now: Instant) -> Option<Instant> {
        let needed = if self.youngest_first { self.needed(now) } else { Duration::ZERO };
        let (&(deadline, _), _) = self.by_deadline.first_key_value()?;
        let gives_up = deadline.checked_sub(needed).unwrap_or(now);
        let paused_until = self.limit.paused_until().filter(|until| *until > now);
        Some(paused_until.map_or(gives_up, |until| until.min(gives_up)))
    }

    /// How long lately a request needed that began, so that it is worth to begin another one.
    pub fn needed(&mut self, now: Instant) -> Duration {
        let now_ms = self.since_ms(now);
        Duration::from_millis(self.needed.ms(now_ms))
    }

    /// Something that began was finished, and this long after it began.
    pub fn finished_after(&mut self, took: Duration, now: Instant) {
        let now_ms = self.since_ms(now);
        self.needed.note(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), now_ms);
    }

    /// A request was answered, whatever the answer.
    pub fn on_answer(&mut self) {
        self.limit.on_answer();
    }

    /// A request was refused as `busy`, with the advice to try again after `wait`.
    pub fn on_busy(&mut self, wait: Duration, now: Instant) {
        self.limit.on_busy(wait, now);
        self.youngest_first = true;
    }

    /// The caller of a request that had begun has given up.
    pub fn release(&mut self) {
        self.limit.release();
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// Takes out all requests that wait.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.by_deadline.clear();
        std::mem::take(&mut self.by_age).into_values().map(|(request, _)| request)
    }

    fn since_ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

/// The limit of a connection, and the calls that wait for a permit.
#[derive(Debug)]
pub(crate) struct Limiter {
    waiting: Mutex<WaitingRequests<oneshot::Sender<()>>>,
    /// A pause has begun, so that calls that wait wake at its end.
    paused: Notify,
}

/// The permission to have one request under way.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    /// `None` once the permit is given back, or if the request does not need one.
    limiter: Option<&'a Limiter>,
    began: Instant,
}

/// A call that waits for a permit.
struct WaitingCall<'a> {
    limiter: &'a Limiter,
    key: WaitingKey,
    /// `None` once its turn has come.
    turn: Option<oneshot::Receiver<()>>,
}

impl Limiter {
    pub(crate) fn new(max: usize) -> Limiter {
        Limiter { waiting: Mutex::new(WaitingRequests::new(max, Instant::now())), paused: Notify::new() }
    }

    /// Waits until a request of this op may be sent. `came` is when its caller asked for it. `None` if it could not be answered before
    /// the deadline.
    pub(crate) async fn acquire(&self, op: Op, came: Instant, deadline: Instant) -> Option<Permit<'_>> {
        if !is_limited(op) {
            return Some(Permit { limiter: None, began: came });
        }
        let (sender, receiver) = oneshot::channel();
        let key = self.waiting().push(sender, came, deadline);
        let mut call = WaitingCall { limiter: self, key, turn: Some(receiver) };
        loop {
            let paused = self.paused.notified();
            // The end of a pause wakes every call that waits. The first of them gives the turns to those that are next.
            let wakes_at = self.give_turns().map_or(deadline, |at| at.min(deadline));
            let turn = call.turn.as_mut().expect("its turn has not come");
            // A call that need not wait needs no timer, and so no runtime.
            let come = match turn.try_recv() {
                Ok(()) => Some(true),
                Err(TryRecvError::Closed) => Some(false),
                Err(TryRecvError::Empty) => None,
            };
            if let Some(is_granted) = come {
                call.turn = None;
                return is_granted.then(|| Permit { limiter: Some(self), began: Instant::now() });
            }
            tokio::select! {
                biased;
                turn = turn => {
                    call.turn = None;
                    return turn.ok().map(|()| Permit { limiter: Some(self), began: Instant::now() });
                }
                () = paused => {}
                () = sleep_until(wakes_at) => {
                    if Instant::now() >= deadline {
                        return None;
                    }
                }
            }
        }
    }

    /// Gives turns to the calls that are next. Returns when there may be another one.
    fn give_turns(&self) -> Option<Instant> {
        let (mut waiting, now) = (self.waiting(), Instant::now());
        while let Some(turn) = waiting.next(now) {
            match turn {
                // Without its sender the call gives up.
                NextCall::GiveUp(_) => {}
                NextCall::Begin(call) => {
                    if call.send(()).is_err() {
                        waiting.release();
                    }
                }
            }
        }
        waiting.wakes_at(now)
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingRequests<oneshot::Sender<()>>> {
        self.waiting.lock().expect("no thread panics while it holds the lock")
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let Some(mut turn) = self.turn.take() else { return };
        let was_waiting = self.limiter.waiting().remove(self.key).is_some();
        // Its turn came, and its caller has gone before it could use it.
        if !was_waiting && turn.try_recv().is_ok() {
            self.limiter.waiting().release();
            self.limiter.give_turns();
        }
    }
}

impl Permit<'_> {
    /// Whether its request had to wait for its turn, so that it waits again after `busy`.
    pub(crate) fn is_limited(&self) -> bool {
        self.limiter.is_some()
    }

    /// The request was answered, or refused as `busy` with this wait.
    pub(crate) fn finish(mut self, busy: Option<Duration>) {
        let Some(limiter) = self.limiter.take() else { return };
        let now = Instant::now();
        match busy {
            Some(wait) => {
                limiter.waiting().on_busy(wait, now);
                limiter.paused.notify_waiters();
            }
            None => {
                let mut waiting = limiter.waiting();
                waiting.on_answer();
                waiting.finished_after(now - self.began, now);
            }
        }
        limiter.give_turns();
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(limiter) = self.limiter.take() {
            limiter.waiting().release();
            limiter.give_turns();
        }
    }
}

/// Whether the op begins something, so that an overloaded node may refuse it and the client may delay it.
pub(crate) fn is_limited(op: Op) -> bool {
    match op.pace() {
        Pace::Limited => true,
        Pace::AtOnce => false,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const WAIT: Duration = Duration::from_millis(100);

    /// The ops that an overloaded node lets wait in its clients. A change of the list is one that operators notice.
    #[test]
    fn what_begins_something_waits() {
        let limited: Vec<&str> = Op::ALL.into_iter().filter(|op| is_limited(*op)).map(Op::name).collect();
        let expected = [
            "resource.reserve",
            "cart.open",
            "cart.hold_seats",
            "cart.hold_best",
            "cart.hold_places",
            "cart.hold_stock",
            "cart.hold_slot",
            "cart.hold_all",
        ];
        assert_eq!(limited, expected);
    }

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
        let now = Instant::now();
        let first = limiter.acquire(Op::CartHoldSeats, now, deadline).await.expect("there is room");
        let second = limiter.acquire(Op::CartHoldSeats, now, deadline).await.expect("there is room");
        assert!(limiter.acquire(Op::CartHoldSeats, now, deadline).await.is_none(), "no permit was released");
        assert!(limiter.acquire(Op::CartCheckout, now, deadline).await.is_some(), "a checkout needs no permit");
        first.finish(Some(WAIT));
        drop(second);
        let begin = Instant::now();
        let third = limiter.acquire(Op::CartOpen, begin, begin + Duration::from_secs(1)).await;
        assert!(third.is_some() && begin.elapsed() >= WAIT, "after {:?}", begin.elapsed());
    }

    fn begun(waiting: &mut WaitingRequests<u64>, now: Instant) -> Vec<NextCall<u64>> {
        std::iter::from_fn(|| waiting.next(now)).collect()
    }

    #[test]
    fn the_oldest_begins_first_and_the_youngest_while_the_node_sheds() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut waiting = WaitingRequests::new(1, begin);
        for ms in [3, 1, 2, 1] {
            waiting.push(ms, at(ms), at(10_000));
        }
        assert_eq!(begun(&mut waiting, at(4)), [NextCall::Begin(1)], "the limit is one");
        waiting.on_answer();
        assert_eq!(begun(&mut waiting, at(4)), [NextCall::Begin(1)]);
        waiting.on_busy(WAIT, at(5));
        assert_eq!((begun(&mut waiting, at(104)), waiting.wakes_at(at(104))), (vec![], Some(at(105))));
        assert_eq!(begun(&mut waiting, at(105)), [NextCall::Begin(3)], "the youngest one");
        waiting.push(4, at(200), at(10_000));
        waiting.release();
        assert_eq!(begun(&mut waiting, at(300)), [NextCall::Begin(4)], "it came last");
        waiting.on_busy(WAIT, at(400));
        // It keeps its age when it comes again.
        waiting.push(4, at(200), at(10_000));
        let key = waiting.push(5, at(201), at(10_000));
        assert_eq!((waiting.remove(key), waiting.remove(key)), (Some(5), None));
        assert_eq!(begun(&mut waiting, at(500)), [NextCall::Begin(4)]);
        waiting.push(6, at(600), at(10_000));
        waiting.on_answer();
        assert_eq!(begun(&mut waiting, at(9_000)), [NextCall::Begin(6)], "the queue is still that of the overload");
        assert_eq!((waiting.len(), waiting.take_all().collect::<Vec<_>>()), (1, vec![2]));
        assert!(waiting.is_empty() && waiting.wakes_at(at(9_000)).is_none());
        waiting.on_answer();
        assert_eq!(begun(&mut waiting, at(9_000)), []);
        for ms in [9_001, 9_002] {
            waiting.push(ms, at(ms), at(20_000));
        }
        assert_eq!(begun(&mut waiting, at(9_003)), [NextCall::Begin(9_001)], "the overload is over");
    }

    #[test]
    fn a_request_that_cannot_be_finished_is_given_up_while_the_node_sheds() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut waiting = WaitingRequests::new(1, begin);
        (0..100).for_each(|_| waiting.finished_after(Duration::from_millis(95), at(0)));
        assert_eq!(waiting.needed(at(0)), Duration::from_millis(95));
        waiting.push(1, at(0), at(150));
        assert_eq!(begun(&mut waiting, at(100)), [NextCall::Begin(1)], "it may be quicker than usual");
        waiting.on_busy(WAIT, at(100));
        waiting.push(1, at(0), at(350));
        waiting.push(2, at(0), at(296));
        waiting.push(3, at(0), at(295));
        assert_eq!(begun(&mut waiting, at(199)), []);
        assert_eq!(begun(&mut waiting, at(200)), [NextCall::GiveUp(3), NextCall::Begin(2)]);
        assert_eq!(waiting.wakes_at(at(200)), Some(at(255)));
        assert_eq!(begun(&mut waiting, at(255)), [NextCall::GiveUp(1)]);
        assert_eq!(begun(&mut waiting, at(1_300)), [], "the overload is over");
        waiting.push(4, at(1_300), at(1_400));
        assert_eq!(begun(&mut waiting, at(1_399)), [], "what waits for a permit has its whole time otherwise");
        assert_eq!(begun(&mut waiting, at(1_400)), [NextCall::GiveUp(4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_begin_in_their_turn_and_a_caller_that_goes_away_keeps_no_permit() {
        let limiter = Limiter::new(1);
        let now = Instant::now();
        let deadline = now + Duration::from_secs(10);
        let first = limiter.acquire(Op::CartOpen, now, deadline).await.expect("there is room");
        let order = Mutex::new(Vec::new());
        let call = async |name: u64| {
            let came = now + Duration::from_millis(name);
            let permit = limiter.acquire(Op::CartOpen, came, deadline).await;
            order.lock().expect("no thread panics").push((name, permit.is_some()));
            if let Some(permit) = permit {
                tokio::time::sleep(Duration::from_millis(10)).await;
                permit.finish(None);
            }
        };
        {
            // It gets its turn and is dropped before it runs again.
            let mut gone = Box::pin(limiter.acquire(Op::CartOpen, now, deadline));
            assert!((&mut gone).now_or_never().is_none());
            first.finish(None);
        }
        let first = limiter.acquire(Op::CartOpen, now, deadline).await.expect("the permit came back");
        tokio::join!(call(2), call(3), call(1), async { first.finish(Some(WAIT)) });
        let order = std::mem::take(&mut *order.lock().expect("no thread panics"));
        assert_eq!(order, [(3, true), (2, true), (1, true)], "the node sheds");
    }
}

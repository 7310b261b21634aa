//! How many first commands a client has under way at a node that is overloaded.
//!
//! A node that answers `busy` says when to try again. Until then nothing new is sent there, and afterwards half as many
//! requests are under way as before; each answer makes room for a little more. All clients together then send about what
//! the node can take, and the rest waits in the clients, where it costs the node nothing. What was begun is not held up: checkouts and
//! releases are sent at once.

use std::{sync::Mutex, time::Duration};

use boxoffice_wire::Op;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// The limit on one connection, as a function of what the node answers. Time is handed in.
#[derive(Clone, Debug)]
pub struct Pace {
    most: f64,
    window: f64,
    under_way: usize,
    rests_until: Option<Instant>,
}

impl Pace {
    /// Up to `most` requests are under way at first.
    pub fn new(most: usize) -> Pace {
        Pace { most: most.max(1) as f64, window: most.max(1) as f64, under_way: 0, rests_until: None }
    }

    /// Whether another request may be sent now; it counts as under way then.
    pub fn begins(&mut self, now: Instant) -> bool {
        let rests = self.rests_until.is_some_and(|until| now < until);
        let begins = !rests && self.has_room();
        self.under_way += usize::from(begins);
        begins
    }

    /// Whether fewer are under way than may be.
    pub fn has_room(&self) -> bool {
        self.under_way < self.window as usize
    }

    /// A request was answered, in whatever way.
    pub fn answered(&mut self) {
        self.gave_up();
        self.window = (self.window + 1.0 / self.window).min(self.most);
    }

    /// A request was refused as `busy`, to be tried again after `wait`.
    pub fn busy(&mut self, wait: Duration, now: Instant) {
        self.gave_up();
        // What was sent together is refused together, which says no more than one refusal.
        if self.rests_until.is_none_or(|until| until <= now) {
            self.window = (self.window / 2.0).max(1.0);
            self.rests_until = Some(now + wait);
        }
    }

    /// The caller of a request has given up.
    pub fn gave_up(&mut self) {
        self.under_way -= 1;
    }

    /// Until when nothing is sent, if there is such a time.
    pub fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }
}

/// The pace of a connection, and those who wait for their turn.
#[derive(Debug)]
pub(crate) struct Pacing {
    pace: Mutex<Pace>,
    freed: Notify,
}

/// A request's place among those under way.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// `None` once the place is given back, or if the request does not need one.
    pacing: Option<&'a Pacing>,
}

impl Pacing {
    pub(crate) fn new(most: usize) -> Pacing {
        Pacing { pace: Mutex::new(Pace::new(most)), freed: Notify::new() }
    }

    /// Waits until a request of this op may be sent; `None` if that is not before the deadline.
    pub(crate) async fn place(&self, op: Op, deadline: Instant) -> Option<Place<'_>> {
        if !is_first(op) {
            return Some(Place { pacing: None });
        }
        loop {
            let freed = self.freed.notified();
            let (begins, has_room, rests_until) = {
                let mut pace = self.pace();
                (pace.begins(Instant::now()), pace.has_room(), pace.rests_until())
            };
            if begins {
                if has_room {
                    // The window may have grown by more than the place that was given back.
                    self.freed.notify_one();
                }
                return Some(Place { pacing: Some(self) });
            }
            let until = rests_until.filter(|until| *until > Instant::now()).unwrap_or(deadline).min(deadline);
            // Either of the two is a reason to look again.
            let _ = timeout_at(until, freed).await;
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().expect("no thread panics while it holds the lock")
    }
}

impl Place<'_> {
    /// The request was answered, or refused as `busy` with this wait.
    pub(crate) fn ended(mut self, busy: Option<Duration>) {
        let Some(pacing) = self.pacing.take() else { return };
        match busy {
            Some(wait) => pacing.pace().busy(wait, Instant::now()),
            None => pacing.pace().answered(),
        }
        pacing.freed.notify_one();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(pacing) = self.pacing.take() {
            pacing.pace().gave_up();
            pacing.freed.notify_one();
        }
    }
}

/// Whether the op begins something, so that an overloaded node may refuse it and it may wait in the client.
fn is_first(op: Op) -> bool {
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
        let (mut pace, mut now) = (Pace::new(64), Instant::now());
        assert_eq!((0..100).filter(|_| pace.begins(now)).count(), 64);
        (0..64).for_each(|_| pace.busy(WAIT, now));
        assert!(!pace.begins(now), "the node said when");
        now += WAIT;
        assert_eq!((0..100).filter(|_| pace.begins(now)).count(), 32);
        (0..32).for_each(|_| pace.answered());
        assert_eq!((0..100).filter(|_| pace.begins(now)).count(), 32, "room for one more needs a whole window");
        (0..32).for_each(|_| pace.answered());
        assert_eq!((0..100).filter(|_| pace.begins(now)).count(), 33);
        for _ in 0..20 {
            now += WAIT;
            pace.busy(WAIT, now);
        }
        (0..13).for_each(|_| pace.gave_up());
        now += WAIT;
        assert_eq!((0..100).filter(|_| pace.begins(now)).count(), 1, "one request goes on asking");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_turn_gets_it_or_gives_up_at_the_deadline() {
        let pacing = Pacing::new(2);
        let deadline = Instant::now() + Duration::from_secs(1);
        let first = pacing.place(Op::CartHoldSeats, deadline).await.expect("there is room");
        let second = pacing.place(Op::CartHoldSeats, deadline).await.expect("there is room");
        assert!(pacing.place(Op::CartHoldSeats, deadline).await.is_none(), "no room was made");
        assert!(pacing.place(Op::CartCheckout, deadline).await.is_some(), "what was begun goes on");
        first.ended(Some(WAIT));
        drop(second);
        let asked = Instant::now();
        let third = pacing.place(Op::CartOpen, asked + Duration::from_secs(1)).await;
        assert!(third.is_some() && asked.elapsed() >= WAIT, "after {:?}", asked.elapsed());
    }
}

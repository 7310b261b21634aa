//! What a session decides about holds. Everything is looked at before anything is written.

use alloc::{vec, vec::Vec};

use super::{Hold, Session};
use crate::{
    answer::PricedSeat,
    ask::{Granted, Reply},
    best,
    command::{BestWish, Want},
    event::SessionEvent,
    id::{HoldId, OrderId},
    refusal::{Refusal, TakenSeat},
    seat::{Seat, SeatSet, SeatState},
    time::Timestamp,
};

impl Session {
    /// A cart asks for seats. `deadline` is when the session will ask the cart about them. The event, or what is replied without one.
    pub(crate) fn decide_hold(
        &self,
        at: Timestamp,
        hold: HoldId,
        revision: u64,
        want: &Want,
        deadline: Timestamp,
    ) -> Result<SessionEvent, Reply> {
        let want_hash = want.hash();
        if let Some(book) = self.book.as_deref() {
            if let Some(live) = book.holds.get(&hold) {
                return Err(self.repeated(hold, live, want_hash));
            }
            if let Some(&released) = book.released.get(&hold) {
                return Err(Reply::Stale { hold, revision: released });
            }
            if book.sales.contains_key(&hold) {
                return Err(Reply::Stale { hold, revision });
            }
        }
        let refused = |refusal| Reply::Refused { hold, refusal };
        if at >= self.terms.ends_at {
            return Err(refused(Refusal::SessionClosed("it is over".into())));
        }
        let seats = self.wanted(want).map_err(refused)?;
        Ok(SessionEvent::SeatsHeld { hold, revision, want_hash, seats, deadline })
    }

    /// The reply to a hold that is live: what it has now.
    pub(crate) fn granted(&self, id: HoldId) -> Granted {
        let hold = self.book.as_deref().and_then(|book| book.holds.get(&id));
        self.granted_of(id, hold.expect("only live holds are granted"))
    }

    /// A cart gives seats of a hold back, all if `seats` is absent. `None` if there is nothing to write: it is so already.
    pub(crate) fn decide_release(
        &self,
        hold: HoldId,
        revision: u64,
        seats: Option<&SeatSet>,
        last: bool,
    ) -> Option<SessionEvent> {
        let remember = !last;
        let book = self.book.as_deref();
        let Some(live) = book.and_then(|book| book.holds.get(&hold)) else {
            let over = book.is_some_and(|book| book.released.contains_key(&hold) || book.sales.contains_key(&hold));
            // Remembered although there is no such hold: the ask for it may still be on its way.
            let unheard = remember && !over;
            return unheard.then(|| SessionEvent::SeatsReleased { hold, revision, seats: Vec::new(), remember });
        };
        if revision <= live.revision {
            return None;
        }
        let all = || live.seats.iter().map(|index| self.terms.layout.seat(*index));
        let seats = match seats {
            None => all().collect(),
            Some(some) => all().filter(|seat| some.as_slice().binary_search(seat).is_ok()).collect(),
        };
        Some(SessionEvent::SeatsReleased { hold, revision, seats, remember })
    }

    /// A cart has sold these seats of its hold to itself; the rest is free. The events, and none if it is sold already.
    ///
    /// # Panics
    /// If the hold is neither live nor sold, or lacks a seat: a hold covers its line at every instant.
    pub(crate) fn decide_sell(
        &self,
        hold: HoldId,
        revision: u64,
        seats: &SeatSet,
        order: OrderId,
        at: Timestamp,
    ) -> Vec<SessionEvent> {
        if self.sale_version(hold).is_some() {
            return Vec::new();
        }
        let live = self.book.as_deref().and_then(|book| book.holds.get(&hold));
        let live = live.unwrap_or_else(|| panic!("cart sells {hold:?}, which session {} does not hold", self.terms.id));
        assert!(revision > live.revision, "cart sells {hold:?} by an old revision: {revision}");
        let held: Vec<Seat> = live.seats.iter().map(|index| self.terms.layout.seat(*index)).collect();
        let (sold, rest): (Vec<Seat>, Vec<Seat>) =
            held.iter().partition(|seat| seats.as_slice().binary_search(seat).is_ok());
        assert_eq!(sold, seats.as_slice(), "cart sells seats that {hold:?} does not hold");
        let sale = SessionEvent::SeatsSold { hold, seats: sold, order, at };
        if rest.is_empty() {
            return vec![sale];
        }
        vec![SessionEvent::SeatsReleased { hold, revision, seats: rest, remember: false }, sale]
    }

    /// The session's version with the sale of this hold, if it is sold.
    pub(crate) fn sale_version(&self, hold: HoldId) -> Option<u64> {
        self.book.as_deref()?.sales.get(&hold).map(|sale| sale.version)
    }

    /// The cart says the hold is its own, to be asked about at `deadline`. `None` if there is no such hold, or no news.
    pub(crate) fn decide_extend(&self, hold: HoldId, deadline: Timestamp) -> Option<SessionEvent> {
        let live = self.book.as_deref()?.holds.get(&hold)?;
        (deadline > live.deadline).then_some(SessionEvent::HoldExtended { hold, deadline })
    }

    /// The cart says that the hold can never be its own. `None` if it is gone already.
    pub(crate) fn decide_disowned(&self, hold: HoldId) -> Option<SessionEvent> {
        let live = self.book.as_deref()?.holds.get(&hold)?;
        let seats = live.seats.iter().map(|index| self.terms.layout.seat(*index)).collect();
        Some(SessionEvent::SeatsReleased { hold, revision: live.revision + 1, seats, remember: false })
    }

    /// The cart is terminal. `None` if nothing of it is remembered.
    pub(crate) fn decide_forget(&self, cart: crate::id::CartId) -> Option<SessionEvent> {
        let mut released = self.book.as_deref()?.released.range(HoldId::all_of(cart));
        released.next().map(|_| SessionEvent::Forgotten(cart))
    }

    fn repeated(&self, id: HoldId, live: &Hold, want_hash: u64) -> Reply {
        if live.want_hash == want_hash {
            Reply::Granted(self.granted_of(id, live))
        } else {
            Reply::Refused { hold: id, refusal: Refusal::RequestIdReused }
        }
    }

    fn granted_of(&self, id: HoldId, hold: &Hold) -> Granted {
        let layout = &*self.terms.layout;
        let priced = |index: &u32| PricedSeat {
            seat: layout.seat(*index),
            price: self.terms.prices[usize::from(layout.category(*index))],
        };
        Granted {
            hold: id,
            revision: hold.revision,
            want_hash: hold.want_hash,
            seats: hold.seats.iter().map(priced).collect(),
            currency: self.terms.currency,
            ttl_ms: self.terms.hold_ttl_ms,
            version: self.version,
            position: 0,
        }
    }

    /// The seats a want comes to, ascending.
    fn wanted(&self, want: &Want) -> Result<Vec<Seat>, Refusal> {
        match want {
            Want::Seats { seats, best_effort } => self.named(seats.as_slice(), *best_effort),
            Want::Best(wish) => self.best(wish),
        }
    }

    fn named(&self, seats: &[Seat], best_effort: bool) -> Result<Vec<Seat>, Refusal> {
        let layout = &*self.terms.layout;
        let unknown = |seats: &[Seat]| seats.iter().copied().filter(|seat| layout.index(*seat).is_none()).collect();
        let mut free = Vec::with_capacity(seats.len());
        let mut taken = Vec::new();
        for &seat in seats {
            let Some(index) = layout.index(seat) else {
                return Err(Refusal::NoSuchSeat(unknown(seats)));
            };
            match self.state(index) {
                SeatState::Free => free.push(seat),
                state @ (SeatState::Held | SeatState::Sold | SeatState::Blocked) => {
                    taken.push(TakenSeat { seat, state })
                }
            }
        }
        if taken.is_empty() || (best_effort && !free.is_empty()) {
            return Ok(free);
        }
        let blocked = taken.iter().all(|taken| taken.state == SeatState::Blocked);
        Err(if blocked { Refusal::SeatBlocked(taken) } else { Refusal::SeatsTaken(taken) })
    }

    fn best(&self, wish: &BestWish) -> Result<Vec<Seat>, Refusal> {
        let indexes = best::choose(&self.terms.layout, |number| self.free_word(number), wish)?;
        Ok(indexes.into_iter().map(|index| self.terms.layout.seat(index)).collect())
    }
}

//! What a session decides about holds. Everything is looked at before anything is written.

use alloc::vec::Vec;

use smol_str::format_smolstr;

use super::{Session, book::Share};
use crate::{
    ask::{Granted, Reply},
    best,
    command::{BestWish, Want},
    event::{Event, HoldEvent, SessionEvent},
    holds::{Known, Parting},
    id::{CartId, HoldId, OrderId},
    inventory::{HoldAsk, Inventory},
    portion::PricedSeat,
    portion::{Content, Portion},
    refusal::{Refusal, TakenSeat},
    seat::{Seat, SeatSet, SeatState},
    terms::unfit,
    time::Timestamp,
};

impl Inventory for Session {
    fn decide_hold(&self, at: Timestamp, ask: &HoldAsk<'_>) -> Result<Event, Reply> {
        let want_hash = ask.want.hash();
        let counted = matches!(ask.want, Want::Places { .. }) && self.is_counted(ask.hold);
        let known = match self.book.as_deref().map(|book| book.holds.recognise(ask, want_hash, counted)) {
            None => Known::New,
            Some(Known::Repeat) => return Err(Reply::Granted(self.granted(ask.hold))),
            Some(Known::Late(reply)) => return Err(reply),
            Some(known @ (Known::New | Known::Change(_))) => known,
        };
        let decided = self.decide_new(at, ask, want_hash, &known);
        decided.map(Event::Session).map_err(|refusal| Reply::Refused {
            hold: ask.hold,
            revision: ask.revision,
            refusal,
        })
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        self.terms.hold_ttl_ms
    }

    fn asks_at(&self, hold: HoldId) -> Option<Timestamp> {
        self.book.as_deref()?.holds.live(hold).map(|live| live.deadline)
    }

    fn granted(&self, hold: HoldId) -> Granted {
        let live = self.book.as_deref().and_then(|book| book.holds.live(hold));
        let live = live.expect("only live holds are granted");
        Granted {
            hold,
            revision: live.revision,
            want_hash: live.want_hash,
            content: Some(self.content(&live.what)),
            currency: Some(self.terms.currency),
            ttl_ms: self.hold_ttl_ms(),
            believed_ms: 0,
            limits: self.limits(),
            late: false,
            version: live.version,
            position: 0,
        }
    }

    fn decide_release(&self, hold: HoldId, revision: u64, left: Option<&Portion>, last: bool) -> Option<Event> {
        let remember = !last;
        let parting = self.book.as_deref().map(|book| book.holds.parting(hold, revision, last));
        let live = match parting {
            Some(Parting::Live(live)) => live,
            Some(Parting::So) => return None,
            Some(Parting::Unheard) => return Some(remembered(hold, revision)),
            None => return remember.then(|| remembered(hold, revision)),
        };
        let event = match (&live.what, left) {
            (Share::Seats(has), None) => {
                SessionEvent::SeatsReleased { hold, revision, seats: self.seats(has), remember, expired: false }
            }
            (Share::Seats(has), Some(Portion::Seats(left))) => {
                let mut seats = self.seats(has);
                seats.retain(|seat| left.as_slice().binary_search(seat).is_err());
                SessionEvent::SeatsReleased { hold, revision, seats, remember, expired: false }
            }
            (Share::Places { .. }, None) => {
                SessionEvent::PlacesReleased { hold, revision, left: 0, remember, expired: false }
            }
            (Share::Places { quantity: has, .. }, Some(Portion::Places { quantity, .. })) => {
                SessionEvent::PlacesReleased { hold, revision, left: *quantity.min(has), remember, expired: false }
            }
            (Share::Seats(_) | Share::Places { .. }, Some(left)) => panic!("of {hold:?} is to be left {left:?}"),
        };
        Some(Event::Session(event))
    }

    fn decide_sell(&self, hold: HoldId, revision: u64, portion: &Portion, order: OrderId, at: Timestamp) -> Vec<Event> {
        let book = self.book.as_deref().unwrap_or_else(|| panic!("a cart sells {hold:?}, which is not held"));
        let Some(live) = book.holds.to_sell(hold, revision, order) else { return Vec::new() };
        let (rest, sale) = match (&live.what, portion) {
            (Share::Seats(has), Portion::Seats(wanted)) => {
                let is_sold = |seat: &Seat| wanted.as_slice().binary_search(seat).is_ok();
                let (sold, rest): (Vec<Seat>, Vec<Seat>) = self.seats(has).into_iter().partition(is_sold);
                assert_eq!(sold, wanted.as_slice(), "a cart sells seats that {hold:?} does not hold");
                let release = || SessionEvent::SeatsReleased {
                    hold,
                    revision,
                    seats: rest.clone(),
                    remember: false,
                    expired: false,
                };
                ((!rest.is_empty()).then(release), SessionEvent::SeatsSold { hold, seats: sold, order, at })
            }
            (Share::Places { area, quantity: has }, Portion::Places { area: wanted, quantity }) => {
                let (area, quantity) = (&self.areas()[usize::from(*area)].id, *quantity);
                assert_eq!(area, wanted, "{hold:?} is sold in another area");
                assert!((1..=*has).contains(&quantity), "a cart sells {quantity} places of {has} of {hold:?}");
                let release =
                    || SessionEvent::PlacesReleased { hold, revision, left: quantity, remember: false, expired: false };
                ((quantity < *has).then(release), SessionEvent::PlacesSold { hold, quantity, at })
            }
            (Share::Seats(_) | Share::Places { .. }, wanted) => panic!("of {hold:?} is sold {wanted:?}"),
        };
        rest.into_iter().chain([sale]).map(Event::Session).collect()
    }

    fn knows(&self, hold: HoldId) -> bool {
        self.book.as_deref().is_some_and(|book| book.holds.knows(hold))
    }

    fn sale_version(&self, hold: HoldId) -> Option<u64> {
        self.book.as_deref()?.holds.sale(hold).map(|sale| sale.version)
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        let seats = match self.book.as_deref()?.holds.to_refund(hold)? {
            Share::Seats(seats) => self.seats(seats),
            Share::Places { .. } => Vec::new(),
        };
        Some(Event::Session(SessionEvent::SaleRefunded { hold, seats }))
    }

    fn decide_extend(&self, hold: HoldId, deadline: Timestamp) -> Option<Event> {
        let event = self.book.as_deref()?.holds.decide_extend(hold, deadline)?;
        Some(Event::Session(SessionEvent::Hold(event)))
    }

    fn decide_disowned(&self, hold: HoldId) -> Option<Event> {
        let live = self.book.as_deref()?.holds.live(hold)?;
        self.decide_release(hold, live.revision.saturating_add(1), None, true)
    }

    fn decide_forget(&self, cart: CartId) -> Option<Event> {
        let event = self.book.as_deref()?.holds.decide_forget(cart)?;
        Some(Event::Session(SessionEvent::Hold(event)))
    }

    fn overdue(&self, after: (Timestamp, HoldId), now: Timestamp, max: usize) -> Vec<(Timestamp, HoldId)> {
        self.book.as_deref().map_or_else(Vec::new, |book| book.holds.overdue(after, now, max))
    }

    fn unwanted(&self, after: Option<HoldId>, max: usize) -> Vec<HoldId> {
        let canceled = self.book.as_deref().filter(|book| book.canceled.is_some());
        canceled.map_or_else(Vec::new, |book| book.holds.taken(after, max))
    }
}

impl Session {
    /// A hold that is new, or a change of one that is live.
    fn decide_new(
        &self,
        at: Timestamp,
        ask: &HoldAsk<'_>,
        want_hash: u64,
        known: &Known<'_, Share>,
    ) -> Result<SessionEvent, Refusal> {
        if let Some(reason) = self.canceled() {
            return Err(Refusal::SessionClosed(format_smolstr!("it is canceled: {reason}")));
        }
        if at >= self.terms.ends_at {
            return Err(Refusal::SessionClosed("it is over".into()));
        }
        let seats = match ask.want {
            Want::Seats { seats, best_effort } => self.named(seats.as_slice(), *best_effort)?,
            Want::Best(wish) => self.best(wish)?,
            Want::Places { area, quantity } => return self.decide_places(ask, want_hash, known, area, *quantity),
            Want::Units { .. } | Want::Slot { .. } | Want::Quota { .. } => {
                return Err(unfit("session", &self.terms.id, ask.want));
            }
        };
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        Ok(SessionEvent::SeatsHeld { hold, revision, want_hash, seats, deadline })
    }

    /// A share with its prices.
    fn content(&self, share: &Share) -> Content {
        let layout = &*self.terms.layout;
        let priced = |index: &u32| PricedSeat {
            seat: layout.seat(*index),
            price: self.terms.prices[usize::from(layout.category(*index))],
        };
        match share {
            Share::Seats(seats) => Content::Seats(seats.iter().map(priced).collect()),
            Share::Places { area, quantity } => {
                let area = &self.areas()[usize::from(*area)];
                Content::Places { area: area.id.clone(), quantity: *quantity, price: area.price.amount }
            }
        }
    }

    /// A share without prices.
    pub(super) fn portion(&self, share: &Share) -> Portion {
        match share {
            Share::Seats(seats) => {
                Portion::Seats(SeatSet::new(self.seats(seats)).expect("a hold has one to twenty seats, none twice"))
            }
            Share::Places { area, quantity } => {
                Portion::Places { area: self.areas()[usize::from(*area)].id.clone(), quantity: *quantity }
            }
        }
    }

    fn seats(&self, indexes: &[u32]) -> Vec<Seat> {
        indexes.iter().map(|index| self.terms.layout.seat(*index)).collect()
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

/// A hold that has nothing was released.
fn remembered(hold: HoldId, revision: u64) -> Event {
    Event::Session(SessionEvent::Hold(HoldEvent::Remembered { hold, revision }))
}

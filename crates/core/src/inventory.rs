//! Inventories, which are sessions, products, resources and customers' quotas. Carts hold things of them, by one set of rules.

use alloc::{boxed::Box, vec::Vec};

use smol_str::SmolStr;

use crate::{
    ask::{Granted, Reply},
    command::{Limits, ShownCode},
    event::{Event, HoldEvent},
    holds::{HoldAsk, HoldCase, HoldIndex, LiveHold, ReleaseCase},
    id::{CartId, HoldId, OrderId},
    money::Currency,
    portion::{Content, Portion},
    refusal::Refusal,
    time::Timestamp,
};

/// The side of an entity that carts hold things of. Every method decides on the whole before anything is written.
pub(crate) trait Inventory {
    /// Its holds and sales, or `None` if it has neither.
    fn holds(&self) -> Option<&dyn HoldIndex>;

    /// An event of its holds as an event of this kind of entity.
    fn hold_event(&self, event: HoldEvent) -> Event;

    /// How long a hold of it lives at most while its cart is not touched, in milliseconds. `None` leaves that to the cart.
    fn hold_ttl_ms(&self) -> Option<u64>;

    /// The currency of its prices, and how many one order and one customer may have.
    fn sale_terms(&self) -> (Option<Currency>, Limits);

    /// The IANA name of the zone in which its times are told, if it has a place and one is known.
    fn zone(&self) -> Option<SmolStr> {
        None
    }

    /// The content of a live hold or its line, with prices. `None` for a quota.
    fn content(&self, hold: HoldId) -> Option<Content>;

    /// What a live hold of a code lets its cart hold. `None` for every other inventory.
    fn shown_code(&self, _hold: HoldId) -> Option<ShownCode> {
        None
    }

    /// The content of a live hold, or `None` if there is no such hold.
    fn held(&self, hold: HoldId) -> Option<Portion>;

    /// The content that a hold was sold with, or `None` if it was not sold, or was refunded.
    fn sold(&self, hold: HoldId) -> Option<Portion>;

    /// Whether a higher revision of this hold may ask for more or less. Places, units and quotas are counted, seats and slots are
    /// not.
    fn is_counted(&self, ask: &HoldAsk<'_>) -> bool;

    /// Decides on a new hold, or on another quantity for a live one. The reply comes without an event.
    #[expect(clippy::result_large_err, reason = "a reply is no error, and goes on its way at once")]
    fn decide_new(&self, now: Timestamp, ask: &HoldAsk<'_>, want_hash: u64) -> Result<Event, Reply>;

    /// Releases everything of a live hold except `left`. `None` if nothing changes.
    fn release_live(&self, hold: HoldId, revision: u64, left: Option<&Portion>, remember: bool) -> Option<Event>;

    /// The sale of the whole content of a live hold, which is `portion`.
    fn sale(&self, hold: HoldId, portion: &Portion, order: OrderId, at: Timestamp) -> Event;

    /// Refunds the sale of a hold. `None` if it is refunded already.
    fn decide_refund(&self, hold: HoldId) -> Option<Event>;

    /// Up to `max` holds and sales after `after` that an inventory wants back from their carts, because they were canceled.
    fn unwanted(&self, _after: Option<HoldId>, _max: usize) -> Vec<HoldId> {
        Vec::new()
    }

    /// Decides on a hold that a cart asks for, or on more or less of one that it has. A repeat, a refusal and a stale ask get a
    /// reply without an event.
    #[expect(clippy::result_large_err, reason = "a reply is no error, and goes on its way at once")]
    fn decide_hold(&self, now: Timestamp, ask: &HoldAsk<'_>) -> Result<Event, Reply> {
        let want_hash = ask.want.hash();
        let counted = self.is_counted(ask);
        match self.holds().map_or(HoldCase::New, |holds| holds.classify_hold(ask, want_hash, counted)) {
            HoldCase::New | HoldCase::Change => self.decide_new(now, ask, want_hash),
            HoldCase::Repeat => Err(Reply::Granted(self.granted(ask.hold))),
            HoldCase::Reused => Err(ask.refused(Refusal::RequestIdReused)),
            HoldCase::Stale { revision, live } => Err(Reply::Stale { hold: ask.hold, revision, live }),
        }
    }

    /// The reply to a hold that is live, with its content now.
    fn granted(&self, hold: HoldId) -> Granted {
        let live = self.live(hold).expect("only live holds are granted");
        self.grant(hold, &live, self.content(hold))
    }

    /// A grant of this content.
    fn grant(&self, hold: HoldId, live: &LiveHold, content: Option<Content>) -> Granted {
        let LiveHold { revision, want_hash, version, .. } = *live;
        let ((currency, limits), ttl_ms) = (self.sale_terms(), self.hold_ttl_ms());
        let (life_ms, believed_ms, late, position, zone) = (None, 0, false, 0, self.zone());
        let code = self.shown_code(hold).map(Box::new);
        Granted {
            hold,
            revision,
            want_hash,
            content,
            currency,
            ttl_ms,
            life_ms,
            believed_ms,
            limits,
            zone,
            late,
            version,
            position,
            code,
        }
    }

    /// Everything about a live hold but its content.
    fn live(&self, hold: HoldId) -> Option<LiveHold> {
        self.holds()?.live_hold(hold)
    }

    /// Releases everything of a hold except `left`. With `last` the cart will send no more messages about the hold. `None` if
    /// nothing changes.
    fn decide_release(&self, hold: HoldId, revision: u64, left: Option<&Portion>, last: bool) -> Option<Event> {
        let unknown = if last { ReleaseCase::Noop } else { ReleaseCase::Unknown };
        match self.holds().map_or(unknown, |holds| holds.classify_release(hold, revision, last)) {
            ReleaseCase::Noop => None,
            ReleaseCase::Unknown => Some(self.hold_event(HoldEvent::Remembered { hold, revision })),
            ReleaseCase::Live => self.release_live(hold, revision, left, !last),
        }
    }

    /// Sells this part of a hold to its cart, and frees the rest. No events if it is sold already. `None` if the hold is unknown or
    /// lacks something. Only a deposed leader is asked for that, because a hold covers its line at every instant.
    ///
    /// # Panics
    /// If the hold was released, or has a later revision.
    fn decide_sell(
        &self,
        hold: HoldId,
        revision: u64,
        portion: &Portion,
        order: OrderId,
        at: Timestamp,
    ) -> Option<Vec<Event>> {
        let holds = self.holds().filter(|holds| holds.knows(hold))?;
        let held = self.held(hold);
        if held.as_ref().is_some_and(|held| !held.covers(portion)) {
            return None;
        }
        if !holds.is_for_sale(hold, revision, order) {
            return Some(Vec::new());
        }
        let is_whole = held.as_ref() == Some(portion);
        let rest = if is_whole { None } else { self.release_live(hold, revision, Some(portion), false) };
        Some(rest.into_iter().chain([self.sale(hold, portion, order, at)]).collect())
    }

    /// The version with the sale of this hold, if it is sold and was not refunded.
    fn sale_version(&self, hold: HoldId) -> Option<u64> {
        self.holds()?.sale_version(hold)
    }

    /// The cart keeps the hold until `deadline`. `None` if there is no such hold, or the deadline is not later.
    fn decide_extend(&self, hold: HoldId, deadline: Timestamp) -> Option<Event> {
        self.holds()?.decide_extend(hold, deadline).map(|event| self.hold_event(event))
    }

    /// The cart has disowned the hold. `None` if it is gone already.
    fn decide_disowned(&self, hold: HoldId) -> Option<Event> {
        let live = self.live(hold)?;
        self.decide_release(hold, live.revision.saturating_add(1), None, true)
    }

    /// The cart is terminal. `None` if none of its released holds is remembered.
    fn decide_forget(&self, cart: CartId) -> Option<Event> {
        self.holds()?.decide_forget(cart).map(|event| self.hold_event(event))
    }

    /// Up to `max` holds whose cart is to be asked, after `after` and up to `now`, in the order of their deadlines.
    fn overdue(&self, after: (Timestamp, HoldId), now: Timestamp, max: usize) -> Vec<(Timestamp, HoldId)> {
        self.holds().map_or_else(Vec::new, |holds| holds.overdue(after, now, max))
    }

    /// When the first cart is to be asked about its hold.
    fn deadline(&self) -> Option<Timestamp> {
        self.holds()?.deadline()
    }
}

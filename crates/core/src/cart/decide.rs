//! What a cart decides. Everything is looked at before anything is written.

use alloc::{sync::Arc, vec::Vec};

use smol_str::format_smolstr;

use super::{Body, CART_LINES_MAX, CART_REQUESTS_MAX, Cart};
use crate::{
    answer::{Answer, CartState, Held, LineView, Order},
    ask::Granted,
    command::{Payment, Want, WantedLine},
    event::{CartEvent, NewLine, Remembered},
    id::{CartId, HoldId, Id, Request, RequestHash},
    money::Money,
    refusal::Refusal,
    seat::{HOLD_SEATS_MAX, Seat, SeatSet},
    time::{Rules, Timestamp},
};

/// A line that was asked for, and what its session granted.
pub(crate) struct Asked<'a> {
    /// Of which session.
    pub(crate) session: &'a Id,
    /// Its reply.
    pub(crate) granted: &'a Granted,
}

impl Cart {
    /// Opens the cart. Nobody has opened it yet.
    pub(crate) fn decide_open(
        id: CartId,
        at: Timestamp,
        rules: &Rules,
        request: Request,
        customer: Option<Id>,
        ttl_ms: Option<u64>,
    ) -> Result<CartEvent, Refusal> {
        let ttl_ms = ttl_ms.unwrap_or(rules.hold_ttl_ms);
        if !(1..=rules.hold_ttl_max_ms).contains(&ttl_ms) {
            let text = format_smolstr!("a cart lives 1 to {} ms untouched, not {ttl_ms}", rules.hold_ttl_max_ms);
            return Err(Refusal::BadRequest(text));
        }
        let deadline = at.after(ttl_ms.min(rules.cart_age_max_ms));
        let view = Cart::fresh_view(id, customer.clone(), at, deadline);
        let remembered = Some(Remembered { request, answer: Answer::Cart(view) });
        Ok(CartEvent::Opened { at, customer, ttl_ms, deadline, remembered })
    }

    /// Whether lines may be asked for, as far as the cart alone can say. `others` are lines under way.
    pub(crate) fn may_ask(&self, wanted: &[WantedLine], others: usize) -> Result<(), Refusal> {
        self.may_change()?;
        self.may_remember()?;
        let lines = self.body.as_ref().map_or(0, |body| body.lines.len());
        if lines + others + wanted.len() > CART_LINES_MAX {
            return Err(Refusal::TooManyLines(CART_LINES_MAX as u32));
        }
        Ok(())
    }

    /// The hold to ask for next, for a request and part. Refused if there were too many.
    pub(crate) fn next_hold(&self, request: RequestHash, part: u16) -> Result<HoldId, Refusal> {
        let attempt = self.disowned.get(&(request, part)).copied().unwrap_or(0);
        if attempt == u16::MAX {
            return Err(Refusal::BadRequest("too many attempts with this request id; use another".into()));
        }
        Ok(HoldId { cart: self.id, request, part, attempt })
    }

    /// The deadline the cart would have if it were touched now, with lines of sessions with these times to live.
    pub(crate) fn touched(&self, at: Timestamp, rules: &Rules, ttls: impl Iterator<Item = Option<u64>>) -> Timestamp {
        match &self.body {
            None => at.after(ttls.flatten().fold(rules.hold_ttl_ms.min(rules.cart_age_max_ms), u64::min)),
            Some(body) => body.touched(at, rules, ttls, 0),
        }
    }

    /// Adds lines that every session has granted; opens the cart if need be. The events, and the answer.
    pub(crate) fn decide_add(
        &self,
        at: Timestamp,
        rules: &Rules,
        request: Request,
        asked: &[Asked<'_>],
    ) -> Result<(Vec<CartEvent>, Held), Refusal> {
        self.may_change()?;
        if self.body.as_ref().map_or(0, |body| body.lines.len()) + asked.len() > CART_LINES_MAX {
            return Err(Refusal::TooManyLines(CART_LINES_MAX as u32));
        }
        let known = self.body.as_ref().and_then(|body| body.currency);
        let currency = known.unwrap_or(asked[0].granted.currency);
        if let Some(other) = asked.iter().find(|line| line.granted.currency != currency) {
            let (session, theirs) = (other.session, other.granted.currency);
            let text = format_smolstr!(
                "the cart pays in {currency:?}, session {session} asks for {theirs:?}; use another cart"
            );
            return Err(Refusal::BadRequest(text));
        }
        let mut events = Vec::with_capacity(2);
        let deadline = self.touched(at, rules, asked.iter().map(|line| line.granted.ttl_ms));
        if self.body.is_none() {
            let ttl_ms = rules.hold_ttl_ms;
            events.push(CartEvent::Opened { at, customer: None, ttl_ms, deadline, remembered: None });
        }
        let first = self.body.as_ref().map_or(1, |body| body.next_line);
        let view = |(number, line): (u32, &Asked<'_>)| LineView {
            line: number,
            session: line.session.clone(),
            seats: line.granted.seats.clone(),
        };
        let views = (first..).zip(asked).map(view).collect();
        let held = Held { cart: self.id, lines: views, currency, deadline };
        let line = |line: &Asked<'_>| NewLine {
            session: line.session.clone(),
            hold: line.granted.hold,
            revision: line.granted.revision,
            seats: line.granted.seats.clone(),
            ttl_ms: line.granted.ttl_ms,
        };
        let lines = asked.iter().map(line).collect();
        let remembered = Remembered { request, answer: Answer::Held(held.clone()) };
        events.push(CartEvent::LinesAdded { lines, currency, deadline, remembered });
        Ok((events, held))
    }

    /// Gives a line back, or some of its seats.
    pub(crate) fn decide_release(
        &self,
        at: Timestamp,
        rules: &Rules,
        request: Request,
        number: u32,
        seats: Option<&SeatSet>,
    ) -> Result<CartEvent, Refusal> {
        let body = self.may_change()?.ok_or_else(|| self.not_found())?;
        self.may_remember()?;
        let line = body.lines.iter().find(|line| line.number == number).ok_or(Refusal::NoSuchLine(number))?;
        let has = |seat: &Seat| line.seats.iter().any(|priced| priced.seat == *seat);
        let all = || line.seats.iter().map(|priced| priced.seat).collect();
        let released: Vec<Seat> = seats.map_or_else(all, |some| some.as_slice().to_vec());
        let foreign: Vec<Seat> = released.iter().copied().filter(|seat| !has(seat)).collect();
        if !foreign.is_empty() {
            return Err(Refusal::NoSuchSeat(foreign));
        }
        let over = released.len() == line.seats.len();
        let deadline = body.touched(at, rules, core::iter::empty(), if over { number } else { 0 });
        let mut view = self.view().expect("an active cart is open");
        for line in view.lines.iter_mut().filter(|line| line.line == number) {
            line.seats.retain(|priced| !released.contains(&priced.seat));
        }
        view.lines.retain(|line| !line.seats.is_empty());
        view.total = total(&view.lines).and_then(|amount| Some(Money { amount, currency: body.currency? }));
        view.deadline = deadline;
        let remembered = Remembered { request, answer: Answer::Cart(view) };
        Ok(CartEvent::LineReleased { line: number, seats: released, revision: line.revision + 1, deadline, remembered })
    }

    /// Gives everything back and ends the cart.
    pub(crate) fn decide_cancel(&self, at: Timestamp, request: Request) -> Result<CartEvent, Refusal> {
        self.may_change()?.ok_or_else(|| self.not_found())?;
        let mut view = self.view().expect("an active cart is open");
        view.state = CartState::Canceled;
        Ok(CartEvent::Canceled { at, remembered: Remembered { request, answer: Answer::Cart(view) } })
    }

    /// Whether the cart's deadline has come; every input looks at this first.
    pub(crate) fn decide_expiry(&self, at: Timestamp) -> Option<CartEvent> {
        self.deadline().is_some_and(|deadline| at >= deadline).then_some(CartEvent::Expired { at })
    }

    /// The decision: this cart becomes an order.
    pub(crate) fn decide_checkout(
        &self,
        at: Timestamp,
        request: Request,
        payment: &Payment,
        customer: Option<&Id>,
    ) -> Result<CartEvent, Refusal> {
        let body = self.may_change()?.ok_or_else(|| self.not_found())?;
        let lines = self.lines();
        let (Some(amount), Some(currency)) = (total(&lines), body.currency) else {
            return Err(Refusal::CartEmpty);
        };
        let order = Order {
            id: self.id.order(),
            customer: body.customer.as_ref().or(customer).cloned(),
            at,
            lines,
            total: Money { amount, currency },
            payment: payment.clone(),
        };
        Ok(CartEvent::CheckedOut { order: Arc::new(order), request })
    }

    /// Disowns holds, each after the revision the session is known to have.
    pub(crate) fn decide_disown(&self, holds: Vec<(Id, HoldId, u64)>) -> CartEvent {
        let later = |(session, hold, revision): (Id, HoldId, u64)| {
            let owed = self.outbox.releases(&session, hold).map(|(revision, _)| revision).max().unwrap_or(0);
            (session, hold, revision.max(owed) + 1)
        };
        CartEvent::Disowned { holds: holds.into_iter().map(later).collect() }
    }

    /// Whether a session's hold is a line that is held or sold. The hold's id alone does not say: a request id that was
    /// used again with another body after a crash makes the same id in another session.
    pub(crate) fn owns(&self, session: &Id, hold: HoldId) -> bool {
        self.body.as_ref().is_some_and(|body| match body.state {
            CartState::Active | CartState::CheckingOut | CartState::Done => {
                body.lines.iter().any(|line| line.hold == hold && line.session == *session)
            }
            CartState::Canceled | CartState::Expired => false,
        })
    }

    /// Whether it is certain, from what is kept, that a hold which is no line will never be one.
    pub(crate) fn has_disowned(&self, hold: HoldId) -> bool {
        let count = self.disowned.get(&(hold.request, hold.part)).copied().unwrap_or(0);
        let answered = |body: &Body| body.remembered.iter().any(|memory| memory.request.id == hold.request);
        self.terminal() || hold.attempt < count || self.body.as_ref().is_some_and(answered)
    }

    /// Whether the cart takes changes; its body if it is open.
    pub(crate) fn may_change(&self) -> Result<Option<&Body>, Refusal> {
        match self.state() {
            None => Ok(None),
            Some(CartState::Active) => Ok(self.body.as_ref()),
            Some(CartState::Expired) => Err(Refusal::CartExpired),
            Some(state @ (CartState::CheckingOut | CartState::Done | CartState::Canceled)) => {
                Err(Refusal::CartNotActive(state.as_str().into()))
            }
        }
    }

    /// There is no such cart: nobody opened it.
    pub(crate) fn not_found(&self) -> Refusal {
        Refusal::NotFound(format_smolstr!("cart {}", self.id))
    }

    fn may_remember(&self) -> Result<(), Refusal> {
        let remembered = self.body.as_ref().map_or(0, |body| body.remembered.len());
        if remembered + self.disowned.len() >= CART_REQUESTS_MAX {
            let text = format_smolstr!("the cart has answered {CART_REQUESTS_MAX} requests; use another cart");
            return Err(Refusal::BadRequest(text));
        }
        Ok(())
    }
}

impl Body {
    /// `without` is the number of a line that is about to end.
    fn touched(
        &self,
        at: Timestamp,
        rules: &Rules,
        ttls: impl Iterator<Item = Option<u64>>,
        without: u32,
    ) -> Timestamp {
        let own = self.lines.iter().filter(|line| line.number != without).map(|line| line.ttl_ms);
        let ttl = own.chain(ttls).flatten().fold(self.ttl_ms, u64::min);
        at.after(ttl).min(self.opened_at.after(rules.cart_age_max_ms))
    }
}

/// Checks what a hold asks for as far as it can be without any state.
pub(crate) fn check_wanted(wanted: &[WantedLine]) -> Result<(), Refusal> {
    if wanted.is_empty() || wanted.len() > CART_LINES_MAX {
        return Err(Refusal::BadRequest(format_smolstr!("a hold asks for 1 to {CART_LINES_MAX} lines")));
    }
    let mut named: Vec<(&Id, Seat)> = Vec::new();
    for line in wanted {
        match &line.want {
            Want::Seats { seats, .. } => named.extend(seats.as_slice().iter().map(|seat| (&line.session, *seat))),
            Want::Best(wish) => {
                let count = usize::from(wish.count);
                if !(1..=HOLD_SEATS_MAX).contains(&count) || wish.accessible > wish.count {
                    return Err(bad_wish());
                }
            }
        }
    }
    if wanted.len() == 1 {
        // A seat set has no seat twice.
        return Ok(());
    }
    named.sort_unstable();
    let mut twice: Vec<Seat> = named.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].1).collect();
    twice.dedup();
    if twice.is_empty() { Ok(()) } else { Err(Refusal::DuplicateSeat(twice)) }
}

fn bad_wish() -> Refusal {
    let text = format_smolstr!("best available gives 1 to {HOLD_SEATS_MAX} seats, and no more of them accessible");
    Refusal::BadRequest(text)
}

/// Σ of the prices (P7); `None` of no lines.
pub(super) fn total(lines: &[LineView]) -> Option<i64> {
    let prices = lines.iter().flat_map(|line| &line.seats).map(|priced| priced.price);
    (!lines.is_empty()).then(|| prices.sum())
}

#[cfg(test)]
mod tests {
    use super::CART_LINES_MAX;
    use crate::{money::PRICE_MAX, seat::HOLD_SEATS_MAX};

    #[test]
    fn the_dearest_cart_has_a_total() {
        let seats = i64::try_from(CART_LINES_MAX * HOLD_SEATS_MAX).expect("a thousand");
        assert!(PRICE_MAX.checked_mul(seats).is_some());
    }
}

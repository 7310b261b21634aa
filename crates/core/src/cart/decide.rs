//! Decisions of a cart about its lines, apart from adding them.

use alloc::vec::Vec;

use smol_str::format_smolstr;

use super::{Body, CART_LINES_MAX, CART_OUTCOMES_MORE, CART_REQUESTS_MAX, Cart, Line, committed_after, keep_taken};
use crate::{
    answer::{CartState, CartView, Ended, KeptAnswer, TakenAway, TakenLine},
    command::{Want, WantedLine},
    event::{CartEvent, QuotaClaim, Remembered},
    id::{Entity, HoldId, Id, Request, RequestHash},
    money::Money,
    planted,
    portion::{Content, SeatPrice, total},
    refusal::Refusal,
    rules::Rules,
    seat::{Seat, SeatSet},
    terms::bad,
    time::Timestamp,
};

/// The holds of a line.
pub(crate) struct HoldsOfLine<'a> {
    /// The hold with its revision. `None` while it is to be validated at the checkout.
    pub(crate) hold: Option<(HoldId, u64)>,
    /// The hold on the customer's quota, if there is a limit.
    pub(crate) quota: Option<&'a QuotaClaim>,
    /// The revision of the hold on uses of a code, if it has any.
    pub(crate) code_revision: Option<u64>,
}

impl Cart {
    /// Opens the cart, which no client has opened yet.
    pub(crate) fn decide_open(
        &self,
        at: Timestamp,
        rules: &Rules,
        request: Request,
        customer: Option<Id>,
        ttl_ms: Option<u64>,
        guest: bool,
    ) -> Result<CartEvent, Refusal> {
        let (ttl_max_ms, age_max_ms) = rules.bounds_of_carts(guest);
        let ttl_ms = ttl_ms.unwrap_or(rules.hold_ttl_ms.min(ttl_max_ms));
        if guest && ttl_ms > ttl_max_ms && ttl_ms <= rules.hold_ttl_max_ms {
            let text = format_smolstr!("a cart that lives longer than {ttl_max_ms} ms needs a key with the role desk");
            return Err(Refusal::Forbidden(text));
        }
        if !(1..=ttl_max_ms).contains(&ttl_ms) {
            return bad(format_smolstr!("a cart lives 1 to {ttl_max_ms} ms untouched, not {ttl_ms}"));
        }
        let age_ends_at = at.after(age_max_ms);
        let deadline = at.after(ttl_ms).min(age_ends_at);
        let view = Cart::fresh_view(self.id, customer.clone(), at, deadline);
        let remembered = Some(Remembered::alone(request, KeptAnswer::Cart(view)));
        Ok(CartEvent::Opened { at, customer, ttl_ms, age_ends_at, deadline, remembered, known: self.version > 0 })
    }

    /// Opens a cart that is open already. The answer is the cart as it is now, and a repeat gets the same answer later. A customer is
    /// set if there is none.
    pub(crate) fn decide_open_again(
        &self,
        at: Timestamp,
        request: Request,
        customer: Option<Id>,
        ttl_ms: Option<u64>,
    ) -> Result<CartEvent, Refusal> {
        let body = self.check_takes_request()?;
        if let (Some(known), Some(named)) = (&body.customer, &customer)
            && known != named
        {
            let text = format_smolstr!("is customer {known}'s, not customer {named}'s");
            return Err(Refusal::CartOpenDifferently(text));
        }
        if let Some(ttl_ms) = ttl_ms.filter(|ttl_ms| *ttl_ms != body.ttl_ms) {
            let text = format_smolstr!("lives {} ms untouched, not {ttl_ms} ms", body.ttl_ms);
            return Err(Refusal::CartOpenDifferently(text));
        }
        let mut view = self.view().expect("an active cart is open");
        let Some(customer) = customer.filter(|_| body.customer.is_none()) else {
            return Ok(CartEvent::Granted(Remembered::alone(request, KeptAnswer::Cart(view))));
        };
        (view.customer, view.modified_at) = (Some(customer.clone()), at);
        Ok(CartEvent::CustomerSet { at, customer, remembered: Remembered::alone(request, KeptAnswer::Cart(view)) })
    }

    /// Ends the attempt to pay of a cart that has none. The answer is the cart as it is.
    ///
    /// # Errors
    /// [`Refusal::CartNotActive`] and its like if the cart has ended.
    pub(crate) fn decide_no_checkout(&self, request: Request) -> Result<CartEvent, Refusal> {
        self.check_takes_request()?;
        let view = self.view().expect("an active cart is open");
        Ok(CartEvent::Granted(Remembered::alone(request, KeptAnswer::Cart(view))))
    }

    /// The end of an attempt to pay, after the attempt was given up. Its buyer is still there, so the cart is touched unless its
    /// highest age has come.
    pub(crate) fn decide_checkout_canceled(&self, at: Timestamp, request: Request) -> CartEvent {
        let body = self.body.as_ref().expect("only opened carts are paid");
        let touched = body.touched(at);
        let deadline = if touched > at { touched } else { body.deadline };
        let view = CartView { deadline, modified_at: at, ..self.view().expect("an active cart is open") };
        let remembered = Remembered::alone(request, KeptAnswer::Cart(view));
        CartEvent::Touched { at, deadline, remembered }
    }

    /// Whether lines may be asked for, as far as the cart alone can tell. `others` counts new lines under way.
    pub(crate) fn may_ask(&self, wanted: &[WantedLine], others: usize) -> Result<(), Refusal> {
        self.may_change()?;
        self.may_remember()?;
        let grows = |line: &&WantedLine| self.same_item(&line.entity, &line.want).is_some();
        let lines = self.body.as_ref().map_or(0, |body| body.lines.len());
        if lines + others + wanted.len() - wanted.iter().filter(grows).count() > CART_LINES_MAX {
            return Err(Refusal::TooManyLines(CART_LINES_MAX as u32));
        }
        Ok(())
    }

    /// The customer after a request that names one.
    pub(crate) fn customer_with(&self, named: Option<&Id>) -> Result<Option<Id>, Refusal> {
        match (self.customer(), named) {
            (Some(known), Some(named)) if known != named => {
                bad(format_smolstr!("the cart is customer {known}'s, not customer {named}'s"))
            }
            (known, named) => Ok(known.or(named).cloned()),
        }
    }

    /// The owner of the cart, as the client said.
    pub(crate) fn customer(&self) -> Option<&Id> {
        self.body.as_ref()?.customer.as_ref()
    }

    /// The hold to ask for next, for a request and part. Refused after too many attempts.
    pub(crate) fn next_hold(&self, request: RequestHash, part: u16) -> Result<HoldId, Refusal> {
        let again = planted::is("a hold id used again") && self.body.is_none();
        let attempt = self.disowned.get(&(request, part)).copied().filter(|_| !again).unwrap_or(0);
        if attempt == u16::MAX {
            return bad("too many attempts with this request id; use another".into());
        }
        Ok(HoldId { cart: self.id, request, part, attempt })
    }

    /// A hold that is never asked for.
    pub(crate) fn no_hold(&self, request: RequestHash) -> HoldId {
        HoldId { cart: self.id, request, part: u16::MAX, attempt: u16::MAX }
    }

    /// The line with the same kind of units or places, by its number and content. Of several with different prices, the newest.
    pub(crate) fn same_item(&self, entity: &Entity, want: &Want) -> Option<(u32, &Content)> {
        let same = |line: &&Line| {
            line.entity == *entity
                && match (want, &line.content) {
                    (Want::Units { .. }, Content::Units { .. }) => true,
                    (Want::Places { area, buy_as, .. }, Content::Places { area: known, bought_as, .. }) => {
                        let known_type = bought_as.as_ref().and_then(|bought_as| bought_as.price_type.as_ref());
                        // Which type a buyer gets who names none, only the session knows. Uses of a code are never more than at first.
                        let is_plain = buy_as.offer().is_none() && buy_as.code().is_none() && line.code.is_none();
                        area == known && buy_as.type_of(0) == known_type && is_plain
                    }
                    _ => false,
                }
        };
        let line = self.body.as_ref()?.lines.iter().rev().find(same)?;
        Some((line.number, &line.content))
    }

    /// The line of units or places like these at this price, by its number and content. With `late` it is one that is set aside only at
    /// the checkout, and otherwise one that is held.
    pub(crate) fn line_at_price(
        &self,
        entity: &Entity,
        like: &Content,
        wanted: &SeatPrice,
        late: bool,
    ) -> Option<(u32, &Content)> {
        let costs = |line: &&Line| match (&line.content, like) {
            (Content::Units { price, .. }, Content::Units { .. }) => *price == wanted.price,
            (Content::Places { area, price, bought_as, .. }, Content::Places { area: like, .. }) => {
                area == like && SeatPrice { price: *price, bought_as: bought_as.clone() }.is_same(wanted)
            }
            _ => false,
        };
        let mut lines = self.body.as_ref()?.lines.iter().rev();
        let line = lines.find(|line| line.entity == *entity && line.hold.is_none() == late && costs(line))?;
        Some((line.number, &line.content))
    }

    /// Hold, revision and quota of a line, to ask for more of it.
    pub(crate) fn line_hold(&self, number: u32) -> Option<HoldsOfLine<'_>> {
        let line = self.body.as_ref()?.line(number)?;
        let hold = line.hold.map(|hold| (hold.id(self.id), hold.revision));
        let code_revision = line.code.as_ref().map(|claim| claim.revision);
        Some(HoldsOfLine { hold, quota: line.quota.as_deref(), code_revision })
    }

    /// A line's entity and content.
    pub(crate) fn line(&self, number: u32) -> Result<(&Entity, &Content), Refusal> {
        let line = self.body.as_ref().and_then(|body| body.line(number));
        line.map(|line| (&line.entity, &line.content)).ok_or(Refusal::NoSuchLine(number))
    }

    /// The deadline that the cart would have if it were touched now, or `None` if it is not open.
    pub(crate) fn touched(&self, at: Timestamp) -> Option<Timestamp> {
        self.body.as_ref().map(|body| body.touched(at))
    }

    /// Gives a line back, or some of its seats.
    pub(crate) fn decide_release(
        &self,
        at: Timestamp,
        request: Request,
        number: u32,
        seats: Option<&SeatSet>,
    ) -> Result<CartEvent, Refusal> {
        self.check_takes_request()?;
        let (_, content) = self.line(number)?;
        let left = match seats {
            None => None,
            Some(seats) => {
                let has = |seat: &&Seat| content.seats().iter().any(|priced| priced.seat == **seat);
                let foreign: Vec<Seat> = seats.as_slice().iter().filter(|seat| !has(seat)).copied().collect();
                if !foreign.is_empty() {
                    return Err(Refusal::NoSuchSeat(foreign));
                }
                content.without(seats.as_slice())
            }
        };
        Ok(self.reduced(at, number, left, Some(request)))
    }

    /// Reduces the quantity of a line. 0 ends it.
    pub(crate) fn decide_less(
        &self,
        at: Timestamp,
        request: Request,
        number: u32,
        quantity: u32,
    ) -> Result<CartEvent, Refusal> {
        self.check_takes_request()?;
        let (_, content) = self.line(number)?;
        let left = if quantity == 0 { None } else { content.with_quantity(quantity) };
        Ok(self.reduced(at, number, left, Some(request)))
    }

    /// An operator, or a canceled inventory, takes a line away. The cart is not touched by it.
    pub(crate) fn decide_revoke(
        &self,
        at: Timestamp,
        number: u32,
        taken: TakenAway,
        request: Option<Request>,
    ) -> Result<CartEvent, Refusal> {
        let body = self.may_change()?.ok_or_else(|| self.not_found())?;
        self.line(number)?;
        Ok(self.reduced_until((at, body.deadline), number, None, Some(taken), request))
    }

    fn reduced(&self, at: Timestamp, number: u32, left: Option<Content>, request: Option<Request>) -> CartEvent {
        let body = self.body.as_ref().expect("only opened carts have lines");
        let kept = body.lines.iter().filter(|line| line.number != number || left.is_some());
        let deadline = body.touched_with(at, kept.map(|line| line.ttl_ms));
        self.reduced_until((at, deadline), number, left, None, request)
    }

    fn reduced_until(
        &self,
        (at, deadline): (Timestamp, Timestamp),
        number: u32,
        left: Option<Content>,
        taken: Option<TakenAway>,
        request: Option<Request>,
    ) -> CartEvent {
        let HoldsOfLine { hold, quota, code_revision } = self.line_hold(number).expect("looked up by the caller");
        let revision = hold.map_or(0, |(_, revision)| committed_after(revision));
        let uses = |content: Option<&Content>| content.map_or(0, Content::uses);
        let before = self.line(number).map_or(0, |(_, content)| content.uses());
        let code_revision = code_revision.filter(|_| uses(left.as_ref()) < before).map(committed_after);
        let quota_revision = quota.map_or(0, |quota| committed_after(quota.revision));
        let mut view = self.view().expect("an active cart is open");
        if let Some(taken) = &taken {
            let line = view.lines.iter().find(|line| line.line == number).expect("looked up by the caller").clone();
            let TakenAway { by, reason } = taken.clone();
            keep_taken(&mut view.taken, TakenLine { line, by, reason });
        }
        match &left {
            None => view.lines.retain(|line| line.line != number),
            Some(content) => {
                let line = view.lines.iter_mut().find(|line| line.line == number).expect("looked up by the caller");
                line.content = content.clone();
            }
        }
        view.lines_version = self.version + 1;
        view.total = self.total_of(view.lines.iter().map(|line| &line.content));
        (view.deadline, view.modified_at) = (deadline, at);
        let remembered = request.map(|request| Remembered::alone(request, KeptAnswer::Cart(view)));
        let line = number;
        CartEvent::LineReduced { at, line, left, revision, quota_revision, code_revision, deadline, taken, remembered }
    }

    /// The sum of lines of this cart (P7), or `None` without lines.
    pub(super) fn total_of<'a>(&self, lines: impl ExactSizeIterator<Item = &'a Content>) -> Option<Money> {
        let currency = self.body.as_ref()?.currency?;
        let has_lines = lines.len() > 0;
        let amount = total(lines).expect("checked whenever a line was added");
        has_lines.then_some(Money { amount, currency })
    }

    /// The sum of its lines (P7), or `None` without lines.
    pub(super) fn total(&self) -> Option<Money> {
        self.total_of(self.body.as_ref()?.lines.iter().map(|line| &line.content))
    }

    /// Gives everything back and ends the cart.
    pub(crate) fn decide_cancel(&self, at: Timestamp, request: Request) -> Result<CartEvent, Refusal> {
        self.may_change()?.ok_or_else(|| self.not_found())?;
        let mut view = self.view().expect("an active cart is open");
        (view.state, view.ended, view.modified_at) = (CartState::Canceled, Some(Ended::Canceled), at);
        Ok(CartEvent::Canceled { at, remembered: Remembered::alone(request, KeptAnswer::Cart(view)) })
    }

    /// Expires the cart if its deadline has come. Every input checks this first.
    pub(crate) fn decide_expiry(&self, at: Timestamp) -> Option<CartEvent> {
        let early_ms = if planted::is("a cart that expires early") { 20_000 } else { 0 };
        let deadline = self.deadline().filter(|deadline| at.after(early_ms) >= *deadline)?;
        let aged = self.body.as_ref().is_some_and(|body| deadline >= body.age_ends_at);
        Some(CartEvent::Expired { at, aged })
    }

    /// Disowns holds, each with a revision above the one that its inventory is known to have.
    pub(crate) fn decide_disown(&self, holds: Vec<(Entity, HoldId, u64)>) -> CartEvent {
        let later = |(entity, hold, revision): (Entity, HoldId, u64)| {
            let owed = self.outbox.releases(&entity, hold).map(|(revision, _)| revision).max().unwrap_or(0);
            (entity, hold, committed_after(revision.max(owed)))
        };
        CartEvent::Disowned { holds: holds.into_iter().map(later).collect() }
    }

    /// Undoes growth that was granted and is not wanted. Each entry is a line, its granted revision, and the granted revision of
    /// its quota (0 if none). `None` if there is nothing to undo.
    pub(crate) fn decide_undo(&self, grown: &[(u32, u64, u64)]) -> Option<CartEvent> {
        let later = |revision: u64| if revision == 0 { 0 } else { committed_after(revision) };
        let kept = grown.iter().filter(|(line, main, quota)| (*main > 0 || *quota > 0) && self.line(*line).is_ok());
        let lines: Vec<_> = kept.map(|(line, main, quota)| (*line, later(*main), later(*quota))).collect();
        (!lines.is_empty()).then_some(CartEvent::GrowthUndone { lines })
    }

    /// Whether a line that is held or sold rests on a hold. The inventory matters too. After a crash, a request id that is used
    /// again with another body gives the same hold id in another inventory.
    pub(crate) fn owns(&self, entity: &Entity, hold: HoldId) -> bool {
        self.line_on(entity, hold).is_some()
    }

    /// The number of the line that rests on a hold, while it is held or sold.
    pub(crate) fn line_on(&self, entity: &Entity, hold: HoldId) -> Option<u32> {
        let body = self.body.as_ref()?;
        let line = match body.state {
            CartState::Active | CartState::CheckingOut | CartState::Done => {
                body.lines.iter().find(|line| line.depends_on(self.id, body.customer.as_ref(), entity, hold))
            }
            CartState::Canceled | CartState::Expired => None,
        };
        line.map(|line| line.number)
    }

    /// Whether a hold that is no line can never become one.
    pub(crate) fn has_disowned(&self, hold: HoldId) -> bool {
        let count = self.disowned.get(&(hold.request, hold.part)).copied().unwrap_or(0);
        self.terminal() || hold.attempt < count || self.remembers(hold.request)
    }

    /// Checks that the cart takes changes. Returns its body if it is open.
    pub(crate) fn may_change(&self) -> Result<Option<&Body>, Refusal> {
        let Some(body) = &self.body else { return Ok(None) };
        match body.state {
            CartState::Active => Ok(Some(body)),
            CartState::Expired if body.ended.as_deref() == Some(&Ended::TooOld) => Err(Refusal::HoldAgeExceeded),
            CartState::Expired => Err(Refusal::CartExpired),
            state @ (CartState::CheckingOut | CartState::Done | CartState::Canceled) => {
                Err(Refusal::CartNotActive(state.as_str().into()))
            }
        }
    }

    /// The refusal of a cart that no client opened.
    pub(crate) fn not_found(&self) -> Refusal {
        Refusal::NotFound(format_smolstr!("cart {}", self.id))
    }

    /// The open cart, if it takes another change that it has to remember.
    pub(super) fn check_takes_request(&self) -> Result<&Body, Refusal> {
        let body = self.may_change()?.ok_or_else(|| self.not_found())?;
        self.may_remember()?;
        Ok(body)
    }

    /// Whether there is room for another request.
    pub(crate) fn may_remember(&self) -> Result<(), Refusal> {
        self.may_remember_up_to(CART_REQUESTS_MAX)
    }

    /// Whether there is room for the outcome of another payment.
    pub(crate) fn may_remember_outcome(&self) -> Result<(), Refusal> {
        self.may_remember_up_to(CART_REQUESTS_MAX + CART_OUTCOMES_MORE)
    }

    fn may_remember_up_to(&self, max: usize) -> Result<(), Refusal> {
        let remembered = self.body.as_ref().map_or(0, |body| body.remembered.len());
        // A request id that is refused may come again for other inventories. It disowns no more holds, but leaves traces.
        let traces = if planted::is("traces without a bound") { 0 } else { self.traces.len() };
        if remembered + self.disowned.len() + traces >= max {
            return bad(format_smolstr!("the cart has answered {max} requests; use another cart"));
        }
        Ok(())
    }
}

//! What a cart decides about its lines. Everything is looked at before anything is written.

use alloc::{collections::BTreeMap, vec::Vec};

use smol_str::format_smolstr;

use super::{Body, CART_LINES_MAX, CART_OUTCOMES_MORE, CART_REQUESTS_MAX, Cart, Line, committed_after, keep_taken};
use crate::{
    answer::{Answer, At, CartState, CartView, Ended, Held, LineView, TakenAway, TakenLine},
    ask::Granted,
    command::{Want, WantedLine},
    event::{CartEvent, GrownLine, NewLine, QuotaClaim, Remembered},
    id::{Entity, HoldId, Id, Request, RequestHash},
    money::{Currency, Money},
    planted,
    portion::{Content, LINE_QUANTITY_MAX, total},
    refusal::Refusal,
    rules::Rules,
    seat::{HOLD_SEATS_MAX, Seat, SeatSet},
    terms::check_details,
    time::Timestamp,
};

/// A line that was asked for, and what was granted.
pub(crate) struct Asked<'a> {
    /// Of which inventory.
    pub(crate) entity: &'a Entity,
    /// Its reply.
    pub(crate) granted: &'a Granted,
    /// The line it makes grow; a new one if absent.
    pub(crate) line: Option<u32>,
    /// What was granted of the customer's quota, if there is a limit.
    pub(crate) quota: Option<QuotaClaim>,
    /// Until when those who granted it may believe in it without asking the cart.
    pub(crate) believed_until: Timestamp,
}

/// What a line rests on.
pub(crate) struct HoldsOfLine<'a> {
    /// The hold with its revision; `None` while it is to be validated at the checkout.
    pub(crate) hold: Option<(HoldId, u64)>,
    /// The hold on the customer's quota, if there is a limit.
    pub(crate) quota: Option<&'a QuotaClaim>,
}

/// What an add came to, before it is written.
pub(crate) struct Added {
    /// What happens.
    pub(crate) events: Vec<CartEvent>,
    /// What the client is told.
    pub(crate) answer: Answer,
    /// Where those stood that were asked, in the order of the lines.
    pub(crate) asked: Vec<At>,
}

impl Cart {
    /// Opens the cart. Nobody has opened it yet.
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
            let text = format_smolstr!("a cart lives 1 to {ttl_max_ms} ms untouched, not {ttl_ms}");
            return Err(Refusal::BadRequest(text));
        }
        let age_ends_at = at.after(age_max_ms);
        let deadline = at.after(ttl_ms).min(age_ends_at);
        let view = Cart::fresh_view(self.id, customer.clone(), at, deadline);
        let remembered = Some(Remembered::alone(request, Answer::Cart(view)));
        Ok(CartEvent::Opened { at, customer, ttl_ms, age_ends_at, deadline, remembered, known: self.version > 0 })
    }

    /// Opens the cart, which is open already: it is told as it is, and a repeat is told the same whatever has become of it.
    pub(crate) fn decide_open_again(&self, request: Request, customer: Option<&Id>) -> Result<CartEvent, Refusal> {
        self.customer_with(customer)?;
        self.may_remember()?;
        let view = self.view().expect("an active cart is open");
        Ok(CartEvent::Granted(Remembered::alone(request, Answer::Cart(view))))
    }

    /// Whether lines may be asked for, as far as the cart alone can say. `others` are lines under way.
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
                Err(Refusal::BadRequest("the cart is another customer's".into()))
            }
            (known, named) => Ok(known.or(named).cloned()),
        }
    }

    /// Whose the cart is, as the client said.
    pub(crate) fn customer(&self) -> Option<&Id> {
        self.body.as_ref()?.customer.as_ref()
    }

    /// The hold to ask for next, for a request and part. Refused if there were too many.
    pub(crate) fn next_hold(&self, request: RequestHash, part: u16) -> Result<HoldId, Refusal> {
        let again = planted::is("a hold id used again") && self.body.is_none();
        let attempt = self.disowned.get(&(request, part)).copied().filter(|_| !again).unwrap_or(0);
        if attempt == u16::MAX {
            return Err(Refusal::BadRequest("too many attempts with this request id; use another".into()));
        }
        Ok(HoldId { cart: self.id, request, part, attempt })
    }

    /// A hold that is never asked for.
    pub(crate) fn no_hold(&self, request: RequestHash) -> HoldId {
        HoldId { cart: self.id, request, part: u16::MAX, attempt: u16::MAX }
    }

    /// The line that has more of the same interchangeable things: number and what it has.
    pub(crate) fn same_item(&self, entity: &Entity, want: &Want) -> Option<(u32, &Content)> {
        let same = |line: &&Line| {
            line.entity == *entity
                && match (want, &line.content) {
                    (Want::Units { .. }, Content::Units { .. }) => true,
                    (Want::Places { area, .. }, Content::Places { area: known, .. }) => area == known,
                    _ => false,
                }
        };
        let line = self.body.as_ref()?.lines.iter().find(same)?;
        Some((line.number, &line.content))
    }

    /// Hold, revision and quota of a line, to ask for more of it.
    pub(crate) fn line_hold(&self, number: u32) -> Option<HoldsOfLine<'_>> {
        let line = self.body.as_ref()?.lines.iter().find(|line| line.number == number)?;
        let hold = line.hold.map(|hold| (hold.id(self.id), hold.revision));
        Some(HoldsOfLine { hold, quota: line.quota.as_deref() })
    }

    /// A line's entity and what it has.
    pub(crate) fn line(&self, number: u32) -> Result<(&Entity, &Content), Refusal> {
        let line = self.body.as_ref().and_then(|body| body.lines.iter().find(|line| line.number == number));
        line.map(|line| (&line.entity, &line.content)).ok_or(Refusal::NoSuchLine(number))
    }

    /// The deadline the cart would have if it were touched now; `None` if it is not open.
    pub(crate) fn touched(&self, at: Timestamp) -> Option<Timestamp> {
        self.body.as_ref().map(|body| body.touched(at, core::iter::empty(), 0))
    }

    /// Adds lines that everyone has granted, and makes others grow; opens the cart if need be, with this time to live and
    /// highest age. `setting` is the request of a quantity, which is answered with the cart.
    pub(crate) fn decide_add(
        &self,
        at: Timestamp,
        request: Request,
        customer: Option<&Id>,
        asked: &[Asked<'_>],
        setting: bool,
        (ttl_ms, age_max_ms): (u64, u64),
    ) -> Result<Added, Refusal> {
        self.may_change()?;
        // An operator or a canceled session may have taken a line away while more of it was asked for.
        asked.iter().filter_map(|line| line.line).try_for_each(|number| self.line(number).map(|_| ()))?;
        let customer = self.customer_with(customer)?;
        let fresh = asked.iter().filter(|line| line.line.is_none()).count();
        if self.body.as_ref().map_or(0, |body| body.lines.len()) + fresh > CART_LINES_MAX {
            return Err(Refusal::TooManyLines(CART_LINES_MAX as u32));
        }
        let next_line = self.body.as_ref().map_or(1, |body| body.next_line);
        if next_line.checked_add(fresh as u32).is_none() {
            return Err(Refusal::BadRequest("the cart has had too many lines; use another cart".into()));
        }
        let currency = self.one_currency(asked)?;
        let contents: Vec<Content> = asked.iter().map(|line| self.content_of(line)).collect();
        self.check_limits(asked, &contents)?;
        self.check_total(asked, &contents)?;

        let mut events = Vec::with_capacity(2);
        let ttls = asked.iter().map(|line| line.granted.ttl_ms);
        let deadline = match &self.body {
            Some(body) => body.touched(at, ttls, 0),
            None => {
                let age_ends_at = at.after(age_max_ms);
                let deadline = at.after(ttls.flatten().fold(ttl_ms, u64::min)).min(age_ends_at);
                let (customer, known) = (customer.clone(), self.version > 0);
                events.push(CartEvent::Opened { at, customer, ttl_ms, age_ends_at, deadline, remembered: None, known });
                deadline
            }
        };
        let mut number = next_line;
        let (mut lines, mut grown) = (Vec::with_capacity(fresh), Vec::with_capacity(asked.len() - fresh));
        let mut views = Vec::with_capacity(asked.len());
        for (asked, content) in asked.iter().zip(contents) {
            let Granted { hold, revision, late, ttl_ms, .. } = *asked.granted;
            let (entity, believed_until) = (asked.entity.clone(), asked.believed_until);
            let line = asked.line.unwrap_or(number);
            views.push(LineView { line, entity: entity.clone(), content: content.clone(), late });
            if asked.line.is_some() {
                let quota_revision = asked.quota.as_ref().map_or(0, |quota| quota.revision);
                grown.push(GrownLine { line, revision, quota_revision, content, believed_until });
            } else {
                number += 1;
                let hold = (!late).then_some((hold, revision));
                let quota = asked.quota.clone();
                lines.push(NewLine { entity, hold, quota, content, ttl_ms, believed_until });
            }
        }
        let lines_version = self.version + events.len() as u64 + 1;
        let held = Held { cart: self.id, lines: views, currency, deadline, lines_version };
        let answer = if setting { Answer::Cart(self.view_with(&held)) } else { Answer::Held(held) };
        let at = |line: &Asked<'_>| {
            let Granted { version, position, .. } = *line.granted;
            At { entity: line.entity.clone(), version, position }
        };
        let asked: Vec<At> = asked.iter().map(at).collect();
        let remembered = Remembered { request, answer: answer.clone(), asked: asked.clone() };
        let known = self.body.is_none() || self.customer().is_some();
        let customer = customer.filter(|_| !known);
        events.push(CartEvent::LinesAdded { lines, grown, customer, currency, deadline, remembered });
        Ok(Added { events, answer, asked })
    }

    /// What a granted line has: at the price it had before if it grows.
    fn content_of(&self, asked: &Asked<'_>) -> Content {
        let granted = asked.granted.content.as_ref().expect("a grant of a line says what it has");
        let before = asked.line.and_then(|number| self.line(number).ok());
        let grown = before.and_then(|(_, content)| content.with_quantity(granted.quantity()));
        grown.unwrap_or_else(|| granted.clone())
    }

    fn one_currency(&self, asked: &[Asked<'_>]) -> Result<Currency, Refusal> {
        let known = self.body.as_ref().and_then(|body| body.currency);
        let theirs = |line: &Asked<'_>| line.granted.currency.expect("a grant of a line has a currency");
        let currency = known.unwrap_or_else(|| theirs(&asked[0]));
        match asked.iter().find(|line| theirs(line) != currency) {
            None => Ok(currency),
            Some(other) => {
                let (entity, theirs) = (other.entity, theirs(other));
                let text =
                    format_smolstr!("the cart pays in {currency:?}, {entity} asks for {theirs:?}; use another cart");
                Err(Refusal::BadRequest(text))
            }
        }
    }

    /// How many of each entity the cart would have, against what one order may.
    fn check_limits(&self, asked: &[Asked<'_>], contents: &[Content]) -> Result<(), Refusal> {
        for one in asked {
            let Some(max) = one.granted.limits.per_order else { continue };
            let added = asked.iter().zip(contents).filter(|(other, _)| other.entity == one.entity);
            let added: u64 = added.map(|(_, content)| u64::from(content.quantity())).sum();
            let kept = self.lines_but(asked).filter(|line| line.entity == *one.entity);
            let kept: u64 = kept.map(|line| u64::from(line.content.quantity())).sum();
            if added + kept > u64::from(max) {
                return Err(Refusal::LimitPerOrder { entity: one.entity.clone(), max });
            }
        }
        Ok(())
    }

    fn check_total(&self, asked: &[Asked<'_>], contents: &[Content]) -> Result<(), Refusal> {
        let all = self.lines_but(asked).map(|line| &line.content).chain(contents);
        let too_much = || Refusal::BadRequest("the cart would come to more than any cart may".into());
        total(all).map(|_| ()).ok_or_else(too_much)
    }

    /// The lines that do not grow.
    fn lines_but<'a>(&'a self, asked: &'a [Asked<'_>]) -> impl Iterator<Item = &'a Line> {
        let lines = self.body.as_ref().map_or(&[][..], |body| &body.lines);
        lines.iter().filter(|line| asked.iter().all(|grown| grown.line != Some(line.number)))
    }

    /// Gives a line back, or some of its seats.
    pub(crate) fn decide_release(
        &self,
        at: Timestamp,
        request: Request,
        number: u32,
        seats: Option<&SeatSet>,
    ) -> Result<CartEvent, Refusal> {
        self.may_change()?.ok_or_else(|| self.not_found())?;
        self.may_remember()?;
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

    /// Sets a line to less than it has; 0 ends it.
    pub(crate) fn decide_less(
        &self,
        at: Timestamp,
        request: Request,
        number: u32,
        quantity: u32,
    ) -> Result<CartEvent, Refusal> {
        self.may_change()?.ok_or_else(|| self.not_found())?;
        self.may_remember()?;
        let (_, content) = self.line(number)?;
        let left = if quantity == 0 { None } else { content.with_quantity(quantity) };
        Ok(self.reduced(at, number, left, Some(request)))
    }

    /// Sets a line to what it has: the cart is touched, and remembers the request, so that a repeat of it changes nothing
    /// whatever the line has by then.
    pub(crate) fn decide_same(&self, at: Timestamp, request: Request) -> Result<CartEvent, Refusal> {
        let body = self.may_change()?.ok_or_else(|| self.not_found())?;
        self.may_remember()?;
        let deadline = body.touched(at, core::iter::empty(), 0);
        let view = CartView { deadline, ..self.view().expect("an active cart is open") };
        let remembered = Remembered::alone(request, Answer::Cart(view));
        let currency = body.currency.expect("a cart with lines has a currency");
        let (lines, grown) = (Vec::new(), Vec::new());
        Ok(CartEvent::LinesAdded { lines, grown, customer: None, currency, deadline, remembered })
    }

    /// An operator, or a canceled inventory, takes a line away. The cart is not touched by it.
    pub(crate) fn decide_revoke(
        &self,
        number: u32,
        taken: TakenAway,
        request: Option<Request>,
    ) -> Result<CartEvent, Refusal> {
        let body = self.may_change()?.ok_or_else(|| self.not_found())?;
        self.line(number)?;
        Ok(self.reduced_until(body.deadline, number, None, Some(taken), request))
    }

    fn reduced(&self, at: Timestamp, number: u32, left: Option<Content>, request: Option<Request>) -> CartEvent {
        let body = self.body.as_ref().expect("only opened carts have lines");
        let without = if left.is_none() { number } else { 0 };
        self.reduced_until(body.touched(at, core::iter::empty(), without), number, left, None, request)
    }

    fn reduced_until(
        &self,
        deadline: Timestamp,
        number: u32,
        left: Option<Content>,
        taken: Option<TakenAway>,
        request: Option<Request>,
    ) -> CartEvent {
        let HoldsOfLine { hold, quota } = self.line_hold(number).expect("looked up by the caller");
        let revision = hold.map_or(0, |(_, revision)| committed_after(revision));
        let quota_revision = quota.map_or(0, |quota| committed_after(quota.revision));
        let mut view = self.view().expect("an active cart is open");
        if let Some(taken) = &taken {
            let line = view.lines.iter().find(|line| line.line == number).expect("looked up by the caller").clone();
            let TakenAway { by, reason } = taken.clone();
            keep_taken(&mut view.taken, TakenLine { line, by, reason });
        }
        for line in view.lines.iter_mut().filter(|line| line.line == number) {
            if let Some(content) = &left {
                line.content = content.clone();
            }
        }
        view.lines.retain(|line| line.line != number || left.is_some());
        view.lines_version = self.version + 1;
        view.total = self.total_of(&view.lines);
        view.deadline = deadline;
        let remembered = request.map(|request| Remembered::alone(request, Answer::Cart(view)));
        CartEvent::LineReduced { line: number, left, revision, quota_revision, deadline, taken, remembered }
    }

    /// Σ of lines of this cart (P7); `None` of no lines.
    pub(super) fn total_of(&self, lines: &[LineView]) -> Option<Money> {
        let currency = self.body.as_ref()?.currency?;
        let amount = total(lines.iter().map(|line| &line.content)).expect("checked whenever a line was added");
        (!lines.is_empty()).then_some(Money { amount, currency })
    }

    /// Σ of the lines that it has (P7); `None` if it has none.
    pub(super) fn total(&self) -> Option<Money> {
        let body = self.body.as_ref()?;
        let amount = total(body.lines.iter().map(|line| &line.content)).expect("checked whenever a line was added");
        (!body.lines.is_empty()).then_some(Money { amount, currency: body.currency? })
    }

    /// Gives everything back and ends the cart.
    pub(crate) fn decide_cancel(&self, at: Timestamp, request: Request) -> Result<CartEvent, Refusal> {
        self.may_change()?.ok_or_else(|| self.not_found())?;
        let mut view = self.view().expect("an active cart is open");
        (view.state, view.ended) = (CartState::Canceled, Some(Ended::Canceled));
        Ok(CartEvent::Canceled { at, remembered: Remembered::alone(request, Answer::Cart(view)) })
    }

    /// Whether the cart's deadline has come; every input looks at this first.
    pub(crate) fn decide_expiry(&self, at: Timestamp) -> Option<CartEvent> {
        let early_ms = if planted::is("a cart that expires early") { 20_000 } else { 0 };
        let deadline = self.deadline().filter(|deadline| at.after(early_ms) >= *deadline)?;
        let aged = self.body.as_ref().is_some_and(|body| deadline >= body.age_ends_at);
        Some(CartEvent::Expired { at, aged })
    }

    /// Disowns holds, each after the revision its inventory is known to have.
    pub(crate) fn decide_disown(&self, holds: Vec<(Entity, HoldId, u64)>) -> CartEvent {
        let later = |(entity, hold, revision): (Entity, HoldId, u64)| {
            let owed = self.outbox.releases(&entity, hold).map(|(revision, _)| revision).max().unwrap_or(0);
            (entity, hold, committed_after(revision.max(owed)))
        };
        CartEvent::Disowned { holds: holds.into_iter().map(later).collect() }
    }

    /// Makes lines what they were, after growth that was granted and is not wanted: line, revision granted, revision of the
    /// quota granted (0: nothing was). `None` if there is nothing to undo.
    pub(crate) fn decide_undo(&self, grown: &[(u32, u64, u64)]) -> Option<CartEvent> {
        let later = |revision: u64| if revision == 0 { 0 } else { committed_after(revision) };
        let kept = grown.iter().filter(|(line, main, quota)| (*main > 0 || *quota > 0) && self.line(*line).is_ok());
        let lines: Vec<_> = kept.map(|(line, main, quota)| (*line, later(*main), later(*quota))).collect();
        (!lines.is_empty()).then_some(CartEvent::GrowthUndone { lines })
    }

    /// Whether a hold is of a line that is held or sold. The hold's id alone does not say: a request id that was used
    /// again with another body after a crash makes the same id in another inventory.
    pub(crate) fn owns(&self, entity: &Entity, hold: HoldId) -> bool {
        self.line_on(entity, hold).is_some()
    }

    /// The number of the line that rests on a hold, while it is held or sold.
    pub(crate) fn line_on(&self, entity: &Entity, hold: HoldId) -> Option<u32> {
        let body = self.body.as_ref()?;
        let line = match body.state {
            CartState::Active | CartState::CheckingOut | CartState::Done => {
                body.lines.iter().find(|line| line.store_batches(self.id, body.customer.as_ref(), entity, hold))
            }
            CartState::Canceled | CartState::Expired => None,
        };
        line.map(|line| line.number)
    }

    /// Whether it is certain, from what is kept, that a hold which is no line will never be one.
    pub(crate) fn has_disowned(&self, hold: HoldId) -> bool {
        let count = self.disowned.get(&(hold.request, hold.part)).copied().unwrap_or(0);
        self.terminal() || hold.attempt < count || self.remembers(hold.request)
    }

    /// Whether the cart takes changes; its body if it is open.
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

    /// There is no such cart: nobody opened it.
    pub(crate) fn not_found(&self) -> Refusal {
        Refusal::NotFound(format_smolstr!("cart {}", self.id))
    }

    /// Whether there is room for another request.
    pub(crate) fn may_remember(&self) -> Result<(), Refusal> {
        self.may_remember_up_to(CART_REQUESTS_MAX)
    }

    /// Whether there is room for how another payment ends.
    pub(crate) fn may_remember_outcome(&self) -> Result<(), Refusal> {
        self.may_remember_up_to(CART_REQUESTS_MAX + CART_OUTCOMES_MORE)
    }

    fn may_remember_up_to(&self, max: usize) -> Result<(), Refusal> {
        let remembered = self.body.as_ref().map_or(0, |body| body.remembered.len());
        // A request id that is refused may come again for other inventories: it disowns no more holds, but leaves traces.
        let traces = if planted::is("traces without a bound") { 0 } else { self.traces.len() };
        if remembered + self.disowned.len() + traces >= max {
            let text = format_smolstr!("the cart has answered {max} requests; use another cart");
            return Err(Refusal::BadRequest(text));
        }
        Ok(())
    }
}

impl Body {
    /// `without` is the number of a line that is about to end.
    pub(super) fn touched(&self, at: Timestamp, ttls: impl Iterator<Item = Option<u64>>, without: u32) -> Timestamp {
        let own = self.lines.iter().filter(|line| line.number != without).map(|line| line.ttl_ms);
        let ttl = own.chain(ttls).flatten().fold(self.ttl_ms, u64::min);
        at.after(ttl).min(self.age_ends_at)
    }
}

/// Checks what a hold asks for as far as it can be without any state, and puts lines of the same units or places together:
/// they are counted as one.
pub(crate) fn check_wanted(wanted: Vec<WantedLine>) -> Result<Vec<WantedLine>, Refusal> {
    if wanted.is_empty() || wanted.len() > CART_LINES_MAX {
        return Err(Refusal::BadRequest(format_smolstr!("a hold asks for 1 to {CART_LINES_MAX} lines")));
    }
    wanted.iter().try_for_each(check_line)?;
    if wanted.len() == 1 {
        // A seat set has no seat twice.
        return Ok(wanted);
    }
    let seats = wanted.iter().flat_map(|line| match &line.want {
        Want::Seats { seats, .. } => seats.as_slice().iter().map(|seat| (&line.entity, *seat)).collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let mut named: Vec<(&Entity, Seat)> = seats.collect();
    named.sort_unstable();
    let mut twice: Vec<Seat> = named.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].1).collect();
    twice.dedup();
    if !twice.is_empty() {
        return Err(Refusal::DuplicateSeat(twice));
    }
    summed(wanted)
}

fn check_line(line: &WantedLine) -> Result<(), Refusal> {
    let quantity = |quantity: u32| match quantity {
        1..=LINE_QUANTITY_MAX => Ok(()),
        _ => Err(Refusal::BadQuantity(format_smolstr!("a line has 1 to {LINE_QUANTITY_MAX}, not {quantity}"))),
    };
    match (&line.want, &line.entity) {
        (Want::Seats { .. }, Entity::Session(_)) => Ok(()),
        (Want::Best(wish), Entity::Session(_)) => {
            let fits = (1..=HOLD_SEATS_MAX).contains(&usize::from(wish.count)) && wish.accessible <= wish.count;
            if fits { Ok(()) } else { Err(bad_wish()) }
        }
        (Want::Places { quantity: wanted, .. }, Entity::Session(_)) => quantity(*wanted),
        (Want::Units { quantity: wanted, .. }, Entity::Product(_)) => quantity(*wanted),
        (Want::Slot { begin, end, details }, Entity::Resource(_)) if begin < end => check_details(details),
        (Want::Slot { .. }, Entity::Resource(_)) => Err(Refusal::BadInterval("it ends before it begins".into())),
        (_, entity) => Err(Refusal::BadRequest(format_smolstr!("{entity} has nothing of the kind"))),
    }
}

fn bad_wish() -> Refusal {
    let text = format_smolstr!("best available gives 1 to {HOLD_SEATS_MAX} seats, and no more of them accessible");
    Refusal::BadRequest(text)
}

/// Lines of the same units or places as one.
fn summed(wanted: Vec<WantedLine>) -> Result<Vec<WantedLine>, Refusal> {
    let mut places: BTreeMap<(Entity, Option<Id>), usize> = BTreeMap::new();
    let mut lines: Vec<WantedLine> = Vec::with_capacity(wanted.len());
    for line in wanted {
        let key = match &line.want {
            Want::Units { .. } => (line.entity.clone(), None),
            Want::Places { area, .. } => (line.entity.clone(), Some(area.clone())),
            _ => {
                lines.push(line);
                continue;
            }
        };
        let Some(&place) = places.get(&key) else {
            places.insert(key, lines.len());
            lines.push(line);
            continue;
        };
        match (&mut lines[place].want, line.want) {
            (Want::Units { quantity, .. }, Want::Units { quantity: more, .. })
            | (Want::Places { quantity, .. }, Want::Places { quantity: more, .. }) => *quantity += more,
            (first, second) => panic!("{first:?} and {second:?} are not the same"),
        }
        check_line(&lines[place])?;
    }
    Ok(lines)
}

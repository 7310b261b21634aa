//! A cart: one buyer's lines, what it owes to sessions, and the order it became.
//!
//! This file writes: [`Cart::apply`] and what it needs. What may happen is decided in `decide`, what is told of it is in
//! `view`. A cart that was only ever asked about a hold it does not know is a *tombstone*: it remembers that it disowned
//! the hold, and nobody has opened it.

mod decide;
mod outbox;
mod view;

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    answer::{Answer, CartState, Order, PricedSeat},
    ask::Ask,
    event::{CartEvent, NewLine, Remembered},
    id::{CartId, HoldId, Id, Request, RequestHash},
    money::Currency,
    refusal::Refusal,
    seat::{Seat, SeatSet},
    time::Timestamp,
};

pub(crate) use decide::{Asked, check_wanted};
pub(crate) use outbox::Outbox;

/// The most lines of a cart.
pub const CART_LINES_MAX: usize = 50;

/// Requests a cart answers and holds it disowns in its life; beyond this it takes no more holds and releases, so that what
/// it must remember stays small.
pub const CART_REQUESTS_MAX: usize = 1_024;

/// A cart as kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cart {
    version: u64,
    id: CartId,
    /// `None` for a tombstone.
    body: Option<Body>,
    /// How many holds of a request and part were disowned: the number of the next attempt.
    disowned: BTreeMap<(RequestHash, u16), u16>,
    outbox: Outbox,
    /// Sessions that may remember released holds of this cart; they are owed a `Forget` when it ends.
    traces: Vec<Id>,
}

/// What an opened cart has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Body {
    state: CartState,
    opened_at: Timestamp,
    customer: Option<Id>,
    ttl_ms: u64,
    deadline: Timestamp,
    currency: Option<Currency>,
    next_line: u32,
    /// Ascending by number. Of a terminal cart: those it ended with.
    lines: Vec<Line>,
    remembered: Vec<Memory>,
    order: Option<Arc<Order>>,
    /// The version with the order.
    decided: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    number: u32,
    session: Id,
    hold: HoldId,
    revision: u64,
    /// Ascending.
    seats: Vec<PricedSeat>,
    ttl_ms: Option<u64>,
}

/// A request that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    request: Request,
    /// `None` for the checkout: its answer is the order.
    answer: Option<Box<Answer>>,
}

/// What is remembered of a request.
pub(crate) enum Recalled {
    /// It was granted, and this is the answer.
    Answer(Box<Answer>),
    /// It was the checkout that made the order.
    Order,
}

impl Cart {
    /// A cart nothing has happened to.
    pub(crate) fn blank(id: CartId) -> Cart {
        Cart { version: 0, id, body: None, disowned: BTreeMap::new(), outbox: Outbox::default(), traces: Vec::new() }
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Where it stands; `None` if nobody opened it.
    pub fn state(&self) -> Option<CartState> {
        self.body.as_ref().map(|body| body.state)
    }

    /// Whether it has ended.
    pub(crate) fn terminal(&self) -> bool {
        match self.state() {
            None | Some(CartState::Active | CartState::CheckingOut) => false,
            Some(CartState::Done | CartState::Canceled | CartState::Expired) => true,
        }
    }

    /// When it expires if it is not touched; `None` if it cannot expire.
    pub fn deadline(&self) -> Option<Timestamp> {
        let body = self.body.as_ref()?;
        match body.state {
            CartState::Active => Some(body.deadline),
            CartState::CheckingOut | CartState::Done | CartState::Canceled | CartState::Expired => None,
        }
    }

    /// The order it became.
    pub fn order(&self) -> Option<&Arc<Order>> {
        self.body.as_ref()?.order.as_ref()
    }

    /// The version with the order it became.
    pub(crate) fn decided(&self) -> Option<u64> {
        self.body.as_ref().filter(|body| body.order.is_some()).map(|body| body.decided)
    }

    /// What it owes to sessions.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Whether it owes anything.
    pub fn unfinished(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    pub(crate) fn apply(&mut self, event: &CartEvent) {
        self.version += 1;
        match event {
            CartEvent::Opened { at, customer, ttl_ms, deadline, remembered } => {
                assert!(self.body.is_none(), "cart {} is opened twice", self.id);
                self.body = Some(Body {
                    state: CartState::Active,
                    opened_at: *at,
                    customer: customer.clone(),
                    ttl_ms: *ttl_ms,
                    deadline: *deadline,
                    currency: None,
                    next_line: 1,
                    lines: Vec::new(),
                    remembered: Vec::new(),
                    order: None,
                    decided: 0,
                });
                if let Some(remembered) = remembered {
                    self.active().remember(remembered);
                }
            }
            CartEvent::LinesAdded { lines, currency, deadline, remembered } => {
                let body = self.active();
                assert!(body.currency.is_none_or(|known| known == *currency), "a cart has one currency");
                body.currency = Some(*currency);
                lines.iter().for_each(|line| body.add(line));
                body.deadline = *deadline;
                body.remember(remembered);
            }
            CartEvent::LineReleased { line, seats, revision, deadline, remembered } => {
                self.release(*line, seats, *revision);
                let body = self.active();
                body.deadline = *deadline;
                body.remember(remembered);
            }
            CartEvent::Disowned { holds } => {
                for (session, hold, revision) in holds {
                    self.disown(session, *hold, *revision);
                }
            }
            CartEvent::Canceled { at: _, remembered } => {
                self.active().remember(remembered);
                self.give_up(CartState::Canceled);
            }
            CartEvent::Expired { at } => {
                assert!(*at >= self.active().deadline, "cart {} expires before its deadline", self.id);
                self.give_up(CartState::Expired);
            }
            CartEvent::CheckedOut { order, request } => self.check_out(order, *request),
            CartEvent::Delivered(numbers) => self.outbox.deliver(numbers),
        }
    }

    /// What is remembered of a request, if it was granted; refused if it had another body.
    pub(crate) fn recall(&self, request: Request) -> Option<Result<Recalled, Refusal>> {
        let body = self.body.as_ref()?;
        let memory = body.remembered.iter().find(|memory| memory.request.id == request.id)?;
        if memory.request.body != request.body {
            return Some(Err(Refusal::RequestIdReused));
        }
        Some(Ok(match &memory.answer {
            Some(answer) => Recalled::Answer(answer.clone()),
            None => Recalled::Order,
        }))
    }

    fn active(&mut self) -> &mut Body {
        let body = self.body.as_mut().expect("only opened carts have lines");
        assert_eq!(body.state, CartState::Active, "cart {} has ended", self.id);
        body
    }

    fn release(&mut self, number: u32, seats: &[Seat], revision: u64) {
        let body = self.active();
        let place = body.lines.iter().position(|line| line.number == number);
        let line = &mut body.lines[place.expect("only lines of the cart are released")];
        assert!(revision > line.revision, "line {number} is released by an old revision");
        let before = line.seats.len();
        line.seats.retain(|priced| !seats.contains(&priced.seat));
        assert_eq!(line.seats.len() + seats.len(), before, "line {number} releases seats that are not its own");
        line.revision = revision;
        let (session, hold, over) = (line.session.clone(), line.hold, line.seats.is_empty());
        if over {
            body.lines.remove(place.expect("found above"));
        }
        let some = || SeatSet::new(seats.iter().copied()).expect("a part of a line is a seat set");
        let seats = if over { None } else { Some(some()) };
        self.trace(&session);
        self.outbox.owe(&session, Ask::Release { hold, revision, seats, last: false });
    }

    fn disown(&mut self, session: &Id, hold: HoldId, revision: u64) {
        assert_eq!(hold.cart, self.id, "cart {} disowns a hold of another cart", self.id);
        assert!(!self.owns(session, hold), "cart {} disowns {hold:?}, which is a line", self.id);
        let next = self.disowned.entry((hold.request, hold.part)).or_default();
        *next = (*next).max(hold.attempt.saturating_add(1));
        // An ended cart has nothing more to say of its holds, and a tombstone has nobody who would.
        let last = self.body.is_none() || self.terminal();
        if !last {
            self.trace(session);
        }
        self.outbox.owe(session, Ask::Release { hold, revision, seats: None, last });
    }

    fn give_up(&mut self, state: CartState) {
        let body = self.active();
        body.state = state;
        let lines = core::mem::take(&mut body.lines);
        for line in &lines {
            let release = Ask::Release { hold: line.hold, revision: line.revision + 1, seats: None, last: true };
            self.outbox.owe(&line.session, release);
        }
        self.body.as_mut().expect("active until now").lines = lines;
        self.owe_forgets();
    }

    fn check_out(&mut self, order: &Arc<Order>, request: Request) {
        let decided = self.version;
        let body = self.active();
        assert!(!body.lines.is_empty(), "an order of nothing");
        body.decided = decided;
        body.state = CartState::Done;
        body.customer.clone_from(&order.customer);
        body.order = Some(Arc::clone(order));
        body.remembered.push(Memory { request, answer: None });
        let lines = core::mem::take(&mut body.lines);
        for line in &lines {
            let seats = SeatSet::new(line.seats.iter().map(|priced| priced.seat)).expect("a line is a seat set");
            let (hold, revision) = (line.hold, line.revision + 1);
            self.outbox.owe(&line.session, Ask::Sell { hold, revision, seats, order: order.id, at: order.at });
        }
        self.body.as_mut().expect("active until now").lines = lines;
        self.owe_forgets();
    }

    fn trace(&mut self, session: &Id) {
        if !self.traces.contains(session) {
            self.traces.push(session.clone());
        }
    }

    fn owe_forgets(&mut self) {
        for session in core::mem::take(&mut self.traces) {
            self.outbox.owe(&session, Ask::Forget);
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let Some(body) = &self.body else { return 0 };
        let seats: usize = body.lines.iter().map(|line| line.seats.capacity() * size_of::<PricedSeat>()).sum();
        let lines = body.lines.capacity() * size_of::<Line>();
        let memories = body.remembered.capacity() * size_of::<Memory>() + body.remembered.len() * size_of::<Answer>();
        seats + lines + memories + self.outbox.heap_bytes()
    }
}

impl Body {
    fn add(&mut self, line: &NewLine) {
        assert!(self.lines.iter().all(|known| known.hold != line.hold), "two lines on one hold: {:?}", line.hold);
        self.lines.push(Line {
            number: self.next_line,
            session: line.session.clone(),
            hold: line.hold,
            revision: line.revision,
            seats: line.seats.clone(),
            ttl_ms: line.ttl_ms,
        });
        self.next_line += 1;
    }

    fn remember(&mut self, remembered: &Remembered) {
        let Remembered { request, answer } = remembered;
        self.remembered.push(Memory { request: *request, answer: Some(Box::new(answer.clone())) });
    }
}

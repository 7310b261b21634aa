//! A cart: one buyer's lines, what it owes to others, and the order it became.
//!
//! This file writes: [`Cart::apply`] and what it needs. What may happen is decided in `decide`, `checkout` and `refund`,
//! what is told of it is in `view`. A cart that was only ever asked about a hold it does not know is a *tombstone*: it
//! remembers that it disowned the hold, and nobody has opened it.

mod body;
mod checkout;
mod decide;
mod line;
mod memory;
mod outbox;
mod paying;
mod refund;
mod view;

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    answer::{At, CartState, Ended, Order, TakenAway, TakenLine},
    ask::Ask,
    event::{CartEvent, Reserved},
    id::{CartId, Entity, HoldId, Request, RequestHash},
    payment::{GatewayCall, PaymentFailure, PaymentKey, PaymentStatus, RefundRecord, VoidRecord, VoidStatus},
    planted,
    portion::Content,
    time::{TIMESTAMP_MAX, Timestamp},
};

pub(crate) use body::Body;
pub(crate) use decide::{Asked, check_wanted};
use line::{Line, LineHold};
use memory::Memory;
pub(crate) use memory::Recalled;
pub(crate) use outbox::Outbox;
pub(crate) use paying::Checkout;
use paying::{Done, Paying};

/// The most lines of a cart.
pub const CART_LINES_MAX: usize = 50;

/// Requests a cart answers, holds it disowns and inventories that may remember released holds of it; beyond this it takes no
/// more holds and releases, so that what it must remember stays small.
pub const CART_REQUESTS_MAX: usize = 1_024;

/// Outcomes of payments a cart remembers beyond that: a cart that takes nothing more can still be paid, and another card be
/// tried.
pub const CART_OUTCOMES_MORE: usize = 16;

/// Checkouts of more than one step that a cart begins in its life: each asks inventories or a gateway, and a refused one can
/// be repeated for ever.
pub const CART_CHECKOUTS_MAX: u32 = 2_048;

/// Of a revision: below is counted what is asked for and may never be committed, above what the cart has committed. So
/// whatever the cart commits outranks everything it ever asked for before.
const COMMITTED_SHIFT: u32 = 20;

/// The highest revision that a cart takes up from an inventory: above it there must be room for all that it commits itself.
pub(crate) const REVISION_MAX: u64 = u64::MAX - (1 << 41);

/// The revision of what the cart commits about a hold, above everything that was asked for since.
pub(crate) fn committed_after(revision: u64) -> u64 {
    ((revision >> COMMITTED_SHIFT) + 1).min(u64::MAX >> COMMITTED_SHIFT) << COMMITTED_SHIFT
}

/// Adds to the lines that were taken away. An operator can take as many as the owner adds, so only the newest are kept.
fn keep_taken(all: &mut Vec<TakenLine>, line: TakenLine) {
    if all.len() == CART_LINES_MAX {
        all.remove(0);
    }
    all.reserve_exact(1);
    all.push(line);
}

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
    /// Inventories that may remember released holds of this cart; they are owed a `Forget` when it ends.
    traces: Vec<Entity>,
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
    pub fn terminal(&self) -> bool {
        match self.state() {
            None | Some(CartState::Active | CartState::CheckingOut) => false,
            Some(CartState::Done | CartState::Canceled | CartState::Expired) => true,
        }
    }

    /// Whether nobody has opened it: it only remembers holds that it disowned.
    pub fn is_tombstone(&self) -> bool {
        self.body.is_none()
    }

    /// Whether it has disowned any hold, as every tombstone has.
    pub(crate) fn has_disowned_any(&self) -> bool {
        !self.disowned.is_empty()
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
        Some(&self.body.as_ref()?.done.as_ref()?.order)
    }

    /// The version with the order it became.
    pub(crate) fn decided(&self) -> Option<u64> {
        Some(self.body.as_ref()?.done.as_ref()?.decided)
    }

    /// What the answer to the checkout rests on: the cart with the decision, then everybody who has sold. `more` have, and
    /// that is not written down yet.
    pub(crate) fn sold_at(&self, more: impl Iterator<Item = At>) -> Option<Vec<At>> {
        let done = self.body.as_ref()?.done.as_ref()?;
        let mut at = Vec::from([At { entity: Entity::Cart(self.id), version: done.decided, position: 0 }]);
        at.extend(done.sold.iter().cloned().chain(more));
        at[1..].sort();
        Some(at)
    }

    /// The checkout under way.
    pub(crate) fn checkout(&self) -> Option<&Checkout> {
        self.body.as_ref()?.payment.as_ref()?.checkout.as_ref()
    }

    /// What it owes to others.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// How many messages it owes.
    pub fn owed(&self) -> u64 {
        self.outbox.len() as u64
    }

    /// Whether the release of this hold is owed.
    pub fn owes_release(&self, to: &Entity, hold: HoldId) -> bool {
        self.outbox.releases(to, hold).next().is_some()
    }

    /// Whether it owes anything, or is in the middle of paying: it is woken when its shard gets a leader.
    pub fn unfinished(&self) -> bool {
        !self.outbox.is_empty() || self.checkout().is_some()
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    pub(crate) fn apply(&mut self, event: &CartEvent) {
        self.version += 1;
        let version = self.version;
        match event {
            CartEvent::Opened { at, customer, ttl_ms, age_ends_at, deadline, remembered, known } => {
                assert!(self.body.is_none(), "cart {} is opened twice", self.id);
                assert_eq!(*known, version > 1, "cart {} is opened as if it were another", self.id);
                let mut body = Body::opened(*at, customer.clone(), *ttl_ms, *age_ends_at, *deadline);
                if let Some(remembered) = remembered {
                    body.remember(version, remembered);
                }
                self.body = Some(body);
            }
            CartEvent::LinesAdded { lines, grown, customer, currency, deadline, remembered } => {
                let body = self.active();
                assert!(body.currency.is_none_or(|known| known == *currency), "a cart has one currency");
                body.currency = Some(*currency);
                if customer.is_some() {
                    assert!(body.customer.is_none(), "a cart has one customer");
                    body.customer.clone_from(customer);
                }
                body.lines.reserve_exact(lines.len());
                lines.iter().for_each(|line| body.add(line));
                grown.iter().for_each(|line| body.grow(line));
                if !(lines.is_empty() && grown.is_empty()) {
                    body.lines_version = version;
                }
                body.live_until(*deadline);
                body.remember(version, remembered);
            }
            CartEvent::LineReduced { line, left, revision, quota_revision, deadline, taken, remembered } => {
                if let Some(taken) = taken {
                    self.note_taken(*line, taken);
                }
                self.reduce(*line, left.as_ref(), *revision, *quota_revision);
                let body = self.active();
                body.lines_version = version;
                body.live_until(*deadline);
                if let Some(remembered) = remembered {
                    body.remember(version, remembered);
                }
            }
            CartEvent::GrowthUndone { lines } => {
                for (line, revision, quota_revision) in lines {
                    self.undo_growth(*line, *revision, *quota_revision);
                }
            }
            CartEvent::Disowned { holds } => {
                for (entity, hold, revision) in holds {
                    self.disown(entity, *hold, *revision);
                }
            }
            CartEvent::Canceled { at: _, remembered } => {
                self.active().remember(version, remembered);
                self.give_up(CartState::Canceled, Ended::Canceled);
            }
            CartEvent::Expired { at, aged } => {
                let (id, body) = (self.id, self.active());
                assert!(*at >= body.deadline, "cart {id} expires before its deadline");
                self.give_up(CartState::Expired, if *aged { Ended::TooOld } else { Ended::Expired });
            }
            CartEvent::CheckoutBegun { attempt, at: _, payment, customer, shipping, amount, deadline, request } => {
                let (payment, customer) = ((**payment).clone(), customer.clone());
                let (shipping, amount, request) = (shipping.as_deref().cloned(), *amount, *request);
                let checkout = Checkout { attempt: *attempt, payment, customer, shipping, amount, request };
                self.active().begin_checkout(checkout, *deadline);
            }
            CartEvent::CheckoutAbandoned { at: _, failure, release, asked, void, reference } => {
                self.abandon(failure.as_ref(), (*release, *asked, *void), reference.clone());
            }
            CartEvent::CheckedOut { order, reserved, reference, request } => {
                self.check_out(order, reserved, reference.clone(), *request);
            }
            CartEvent::PaymentChanged(status) => self.done().payment = status.clone(),
            CartEvent::Refunded { refund, remembered } => {
                self.refund(refund);
                if let Some(remembered) = remembered {
                    self.body.as_mut().expect("a done cart was opened").remember(version, remembered);
                }
            }
            CartEvent::RefundChanged { number, status } => {
                let refund = self.done().refunds.iter_mut().find(|refund| refund.number == *number);
                refund.expect("only refunds of the order change").status = status.clone();
            }
            CartEvent::StrayAuthorized { attempt, reference } => {
                self.owe_void(*attempt, Some(reference.clone()));
            }
            CartEvent::VoidChanged { attempt, status } => {
                let void = self.paying().voids.iter_mut().find(|void| void.attempt == *attempt);
                void.expect("only attempts that are given up change so").status = status.clone();
            }
            CartEvent::Delivered { numbers, sold } => {
                self.outbox.deliver(numbers);
                if !sold.is_empty() {
                    self.done().note_sold(sold);
                }
            }
            CartEvent::Granted(remembered) => {
                self.body.as_mut().expect("only opened carts grant").remember(version, remembered);
            }
        }
    }

    fn active(&mut self) -> &mut Body {
        let body = self.body.as_mut().expect("only opened carts have lines");
        assert_eq!(body.state, CartState::Active, "cart {} has ended, or is being paid", self.id);
        body
    }

    fn done(&mut self) -> &mut Done {
        let body = self.body.as_mut().expect("only opened carts become orders");
        body.done.as_mut().expect("only done carts have orders")
    }

    fn paying(&mut self) -> &mut Paying {
        let body = self.body.as_mut().expect("only opened carts are paid");
        body.payment.as_mut().expect("only carts that began to pay have attempts")
    }

    /// Keeps a line for its owner to see, which is about to be taken away.
    fn note_taken(&mut self, number: u32, taken: &TakenAway) {
        if planted::is("a line taken away without a word") {
            return;
        }
        let line = self.lines().into_iter().find(|line| line.line == number).expect("only lines of the cart are taken");
        let TakenAway { by, reason } = taken.clone();
        keep_taken(&mut self.active().taken, TakenLine { line, by, reason });
    }

    fn reduce(&mut self, number: u32, left: Option<&Content>, revision: u64, quota_revision: u64) {
        let id = self.id;
        let body = self.active();
        let customer = body.customer.clone();
        let place = body.lines.iter().position(|line| line.number == number).expect("only lines of the cart have less");
        let line = &mut body.lines[place];
        let mut owed: Vec<(Entity, Ask)> = Vec::new();
        if let Some(hold) = &mut line.hold {
            assert!(revision > hold.revision, "line {number} is reduced by an old revision");
            hold.revision = revision;
            let (hold, left) = (hold.id(id), left.map(Content::portion));
            owed.push((line.entity.clone(), Ask::Release { hold, revision, left, last: false, expired: false }));
        }
        if let Some(content) = left {
            let (before, after) = (line.content.quantity(), content.quantity());
            assert!(after < before, "line {number} is reduced from {before} to {after}");
            line.content = content.clone();
        }
        if let Some(mut quota) = line.quota.take() {
            assert!(quota_revision > quota.revision, "the quota of line {number} is reduced by an old revision");
            quota.revision = quota_revision;
            let left = left.map(|_| line.quota_portion(&quota));
            let to = Entity::Customer(customer.expect("a quota is somebody's"));
            owed.push((
                to,
                Ask::Release { hold: quota.hold, revision: quota_revision, left, last: false, expired: false },
            ));
            line.quota = Some(quota);
        }
        if left.is_none() {
            body.lines.remove(place);
        }
        for (entity, ask) in owed {
            self.trace(&entity);
            self.outbox.owe(Some(entity), ask);
        }
    }

    fn undo_growth(&mut self, number: u32, revision: u64, quota_revision: u64) {
        let id = self.id;
        let body = self.body.as_mut().expect("only opened carts have lines");
        let customer = body.customer.clone();
        let line = body.lines.iter_mut().find(|line| line.number == number).expect("only lines of the cart are undone");
        // Until when the inventory believes in what it granted, perhaps without being heard, is not known.
        line.believed_until = TIMESTAMP_MAX;
        let mut owed: Vec<(Entity, Ask)> = Vec::new();
        if let Some(hold) = line.hold.as_mut().filter(|_| revision > 0) {
            assert!(revision > hold.revision, "the growth of line {number} is undone by an old revision");
            hold.revision = revision;
            let left = Some(line.content.portion());
            owed.push((
                line.entity.clone(),
                Ask::Release { hold: hold.id(id), revision, left, last: false, expired: false },
            ));
        }
        if let Some(mut quota) = line.quota.take() {
            if quota_revision > 0 {
                assert!(quota_revision > quota.revision, "the quota of line {number} is undone by an old revision");
                quota.revision = quota_revision;
                let left = Some(line.quota_portion(&quota));
                let to = Entity::Customer(customer.expect("a quota is somebody's"));
                owed.push((
                    to,
                    Ask::Release { hold: quota.hold, revision: quota_revision, left, last: false, expired: false },
                ));
            }
            line.quota = Some(quota);
        }
        for (entity, ask) in owed {
            // One that comes after the end of the hold is remembered.
            self.trace(&entity);
            self.outbox.owe(Some(entity), ask);
        }
    }

    fn disown(&mut self, entity: &Entity, hold: HoldId, revision: u64) {
        assert_eq!(hold.cart, self.id, "cart {} disowns a hold of another cart", self.id);
        assert!(!self.owns(entity, hold), "cart {} disowns {hold:?}, which is a line", self.id);
        let next = self.disowned.entry((hold.request, hold.part)).or_default();
        *next = (*next).max(hold.attempt.saturating_add(1));
        // An ended cart has nothing more to say of its holds, and a tombstone has nobody who would.
        let last = self.body.is_none() || self.terminal();
        let last = last || planted::is("every disowned hold released as the last");
        if !last {
            self.trace(entity);
        }
        self.outbox.owe(Some(entity.clone()), Ask::Release { hold, revision, left: None, last, expired: false });
    }

    fn give_up(&mut self, state: CartState, why: Ended) {
        let id = self.id;
        let body = self.active();
        (body.state, body.ended) = (state, Some(Box::new(why)));
        let (customer, deadline) = (body.customer.clone(), body.deadline);
        let lines = core::mem::take(&mut body.lines);
        // An expired cart owes the release only to those who may believe in a later deadline than its own. The others ask
        // by themselves if they miss the news: the hold is overdue now.
        let expired = state == CartState::Expired;
        let forgets = planted::is("a deadline that was told and forgotten");
        for line in &lines {
            let release = |hold, revision| Ask::Release { hold, revision, left: None, last: true, expired };
            let asks_itself = expired && (line.believed_until <= deadline || forgets);
            if let Some(hold) = line.hold.as_ref().filter(|_| !asks_itself) {
                let ask = release(hold.id(id), committed_after(hold.revision));
                self.outbox.owe(Some(line.entity.clone()), ask);
            }
            if let Some(quota) = line.quota.as_ref().filter(|_| !asks_itself) {
                let to = customer.clone().map(Entity::Customer);
                self.outbox.owe(to, release(quota.hold, committed_after(quota.revision)));
            }
        }
        self.body.as_mut().expect("active until now").lines = lines;
        self.owe_forgets();
    }

    fn abandon(
        &mut self,
        failure: Option<&PaymentFailure>,
        (release, asked, void): (bool, bool, bool),
        reference: Option<SmolStr>,
    ) {
        let version = self.version;
        let paying = self.paying();
        let checkout = paying.checkout.take().expect("only a checkout under way is abandoned");
        if !asked && !planted::is("a refused checkout that keeps its number") {
            assert!(!void, "attempt {} is given up, and no gateway was asked for it", checkout.attempt);
            paying.attempts -= 1;
        }
        if void {
            self.owe_void(checkout.attempt, reference);
        }
        let body = self.body.as_mut().expect("it is being paid");
        body.state = CartState::Active;
        if let Some(failure) = failure {
            body.remember_failure(version, checkout.request, failure);
        }
        // While it was being paid, inventories were put off for longer than the cart may have left.
        body.lines.iter_mut().for_each(|line| line.believed_until = TIMESTAMP_MAX);
        if release {
            let failure = failure.expect("only a payment that came to nothing ends a cart").clone();
            self.give_up(CartState::Canceled, Ended::Unpaid(failure));
        }
    }

    fn check_out(&mut self, order: &Arc<Order>, reserved: &[Reserved], reference: Option<SmolStr>, request: Request) {
        let (decided, id) = (self.version, self.id);
        let body = self.body.as_mut().expect("only opened carts are paid");
        let attempt = match body.state {
            CartState::Active => 0,
            CartState::CheckingOut => {
                let paying = body.payment.as_mut().expect("a checkout under way has an attempt");
                paying.checkout.take().expect("a checkout is under way").attempt
            }
            ended @ (CartState::Done | CartState::Canceled | CartState::Expired) => panic!("cart {id} is {ended:?}"),
        };
        assert!(!body.lines.is_empty(), "an order of nothing");
        body.state = CartState::Done;
        body.customer.clone_from(&order.customer);
        body.remember_order(request);
        for found in reserved {
            let line = body.lines.iter_mut().find(|line| line.number == found.line);
            let line = line.expect("only lines of the cart are reserved");
            line.hold = Some(LineHold::new(found.hold, found.revision));
            line.quota = found.quota.clone().map(Box::new);
        }
        let key = PaymentKey { cart: id, attempt };
        let capture = reference.clone().map(|reference| GatewayCall::Capture { key, reference, amount: order.total });
        let payment = if capture.is_some() { PaymentStatus::Authorized } else { PaymentStatus::Recorded };
        let order = Arc::clone(order);
        body.done = Some(Box::new(Done {
            order: Arc::clone(&order),
            decided,
            attempt,
            reference,
            payment,
            refunds: Vec::new(),
            sold: Vec::new(),
        }));
        let lines = core::mem::take(&mut body.lines);
        for line in &lines {
            let hold = line.hold.as_ref().expect("every line of an order is held");
            let sell = |hold, revision, portion| {
                let revision = committed_after(revision);
                Ask::Sell { hold, revision, portion, order: order.id, at: order.at }
            };
            let ask = sell(hold.id(id), hold.revision, line.content.portion());
            self.outbox.owe(Some(line.entity.clone()), ask);
            if let Some(quota) = &line.quota {
                let to = order.customer.clone().map(Entity::Customer);
                self.outbox.owe(to, sell(quota.hold, quota.revision, line.quota_portion(quota)));
            }
        }
        self.body.as_mut().expect("done now").lines = lines;
        self.owe_forgets();
        if let Some(capture) = capture {
            self.outbox.owe(None, Ask::Pay(capture));
        }
        if let Some(customer) = &order.customer {
            let purchase = crate::answer::Purchase { cursor: 0, order: order.id, at: order.at, total: order.total };
            self.outbox.owe(Some(Entity::Customer(customer.clone())), Ask::Post { purchase });
        }
    }

    fn refund(&mut self, refund: &RefundRecord) {
        let id = self.id;
        let body = self.body.as_mut().expect("only opened carts become orders");
        let done = body.done.as_mut().expect("only orders are refunded");
        let (attempt, customer) = (done.attempt, done.order.customer.clone());
        let call = done.reference.clone().filter(|_| refund.status == crate::payment::RefundStatus::Pending);
        done.refunds.push(refund.clone());
        let lines = body.lines.iter().filter(|line| refund.lines.contains(&line.number));
        for line in lines {
            let hold = line.hold.as_ref().expect("every line of an order is held").id(id);
            self.outbox.owe(Some(line.entity.clone()), Ask::Refund { hold });
            if let Some(quota) = &line.quota {
                self.outbox.owe(customer.clone().map(Entity::Customer), Ask::Refund { hold: quota.hold });
            }
        }
        if let Some(reference) = call {
            let key = PaymentKey { cart: id, attempt };
            let call = GatewayCall::Refund { key, refund: refund.number, reference, amount: refund.amount };
            self.outbox.owe(None, Ask::Pay(call));
        }
    }

    fn owe_void(&mut self, attempt: u32, reference: Option<SmolStr>) {
        let (key, voids) = (PaymentKey { cart: self.id, attempt }, &mut self.paying().voids);
        assert!(voids.iter().all(|void| void.attempt != attempt), "payment {key} is given up twice");
        voids.push(VoidRecord { attempt, status: VoidStatus::Pending });
        self.outbox.owe(None, Ask::Pay(GatewayCall::Void { key, reference }));
    }

    fn trace(&mut self, entity: &Entity) {
        if !self.traces.contains(entity) {
            self.traces.push(entity.clone());
        }
    }

    fn owe_forgets(&mut self) {
        for entity in core::mem::take(&mut self.traces) {
            self.outbox.owe(Some(entity), Ask::Forget);
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let Some(body) = &self.body else { return 0 };
        let contents: usize = body.lines.iter().map(|line| line.content.heap_bytes()).sum();
        let lines = body.lines.capacity() * size_of::<Line>();
        let memories: usize = body.remembered.iter().map(Memory::heap_bytes).sum();
        let memories = memories + body.remembered.capacity() * size_of::<Memory>();
        let sold = body.done.as_ref().map_or(0, |done| done.sold.capacity() * size_of::<At>());
        let taken = body.taken.capacity() * size_of::<TakenLine>();
        let ended = body.ended.as_ref().map_or(0, |_| size_of::<Ended>());
        contents + lines + taken + ended + memories + sold + self.outbox.heap_bytes()
    }
}

//! A cart, with one buyer's lines, the messages that it owes, and the order that it became.
//!
//! [`Cart::apply`] writes, with `sale` for checkouts and refunds. `add`, `decide`, `checkout` and `refund` decide what may
//! happen. `view` shows the cart. A *tombstone* is a cart that no client opened. It was asked about a hold that it does not
//! know, and remembers that it disowned the hold.

mod add;
mod attempts;
mod body;
mod checkout;
mod decide;
mod line;
mod memory;
mod order;
mod outbox;
mod refund;
mod sale;
mod view;
mod wanted;

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};

use boxoffice_declare::Stored;

use crate::{
    answer::{At, CartState, Ended, Order, TakenAway, TakenLine},
    ask::Ask,
    event::CartEvent,
    id::{CartId, Entity, HoldId, RequestHash},
    planted,
    portion::Content,
    time::{TIMESTAMP_MAX, Timestamp},
};

pub(crate) use add::GrantedLine;
pub(crate) use attempts::Checkout;
use attempts::PaymentAttempts;
pub(crate) use body::{Body, PAYMENT_STOPS_MS};
use line::{Line, NewRevisions};
use memory::Memory;
pub(crate) use memory::Recalled;
use order::OrderRecord;
pub(crate) use outbox::Outbox;
pub(crate) use wanted::check_wanted;

/// The most lines of a cart.
pub const CART_LINES_MAX: usize = 50;

/// The most requests that a cart answers, holds that it disowns, and inventories that may remember its released holds, together.
/// Beyond this it takes no more holds and releases, so that its memory stays small.
pub const CART_REQUESTS_MAX: usize = 1_024;

/// How many outcomes of payments a full cart still remembers. So it can be paid, and another card can be tried.
pub const CART_OUTCOMES_MORE: usize = 16;

/// How many checkouts of more than one step a cart begins in its life. Each asks inventories or a gateway, and a client could
/// repeat a refused one for ever.
pub const CART_CHECKOUTS_MAX: u32 = 2_048;

/// The low bits of a revision count asks, which may never be committed. The high bits count what the cart has committed. So
/// everything that the cart commits outranks every ask before it.
const COMMITTED_SHIFT: u32 = 20;

/// The highest revision that a cart takes up from an inventory. Above it there is room for the cart's own commits.
pub(crate) const REVISION_MAX: u64 = u64::MAX - (1 << 41);

/// The revision with which the cart commits something about a hold. It is above all asks since the last commit.
pub(crate) fn committed_after(revision: u64) -> u64 {
    ((revision >> COMMITTED_SHIFT) + 1).min(u64::MAX >> COMMITTED_SHIFT) << COMMITTED_SHIFT
}

/// Adds to the lines that were taken away. Only the newest are kept, because an operator can take any number of lines.
fn keep_taken(all: &mut Vec<TakenLine>, line: TakenLine) {
    if all.len() == CART_LINES_MAX {
        all.remove(0);
    }
    all.reserve_exact(1);
    all.push(line);
}

/// The state of a cart.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Cart {
    #[n(0)]
    version: u64,
    #[n(1)]
    id: CartId,
    /// `None` for a tombstone.
    #[n(5)]
    body: Option<Body>,
    /// How many holds of a request and part were disowned. It is the number of the next attempt.
    #[n(3)]
    disowned: BTreeMap<(RequestHash, u16), u16>,
    #[n(2)]
    outbox: Outbox,
    /// Inventories that may remember released holds of this cart. Each is owed a `Forget` when the cart ends.
    #[n(4)]
    traces: Vec<Entity>,
}

impl Cart {
    /// A cart without any event.
    pub(crate) fn blank(id: CartId) -> Cart {
        Cart { version: 0, id, body: None, disowned: BTreeMap::new(), outbox: Outbox::default(), traces: Vec::new() }
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its state, or `None` if no client opened it.
    pub fn state(&self) -> Option<CartState> {
        self.body.as_ref().map(|body| body.state)
    }

    /// Whether something is in the cart.
    pub fn has_lines(&self) -> bool {
        self.body.as_ref().is_some_and(|body| !body.lines.is_empty())
    }

    /// Whether it has ended.
    pub fn terminal(&self) -> bool {
        match self.state() {
            None | Some(CartState::Active | CartState::CheckingOut) => false,
            Some(CartState::Done | CartState::Canceled | CartState::Expired) => true,
        }
    }

    /// Whether no client has opened it. It only remembers holds that it disowned.
    pub fn is_tombstone(&self) -> bool {
        self.body.is_none()
    }

    /// Whether it has disowned any hold, as every tombstone has.
    pub(crate) fn has_disowned_any(&self) -> bool {
        !self.disowned.is_empty()
    }

    /// When it expires if it is not touched, or `None` if it cannot expire.
    pub fn deadline(&self) -> Option<Timestamp> {
        let body = self.body.as_ref()?;
        match body.state {
            CartState::Active => Some(body.deadline),
            CartState::CheckingOut | CartState::Done | CartState::Canceled | CartState::Expired => None,
        }
    }

    /// The order it became.
    pub fn order(&self) -> Option<&Arc<Order>> {
        Some(&self.record()?.order)
    }

    /// The order it became, with everything about it that still changes.
    fn record(&self) -> Option<&OrderRecord> {
        self.body.as_ref()?.order.as_deref()
    }

    /// The version with the order it became.
    pub(crate) fn decided(&self) -> Option<u64> {
        Some(self.record()?.decided)
    }

    /// The versions that the answer to the checkout rests on. The cart with the decision comes first, then the inventories with
    /// their sales. `more` are sales that were acknowledged and are not written yet.
    pub(crate) fn sold_at(&self, more: impl Iterator<Item = At>) -> Option<Vec<At>> {
        let record = self.record()?;
        let mut at = Vec::from([At { entity: Entity::Cart(self.id), version: record.decided, position: 0 }]);
        at.extend(record.sold.iter().cloned().chain(more));
        at[1..].sort();
        Some(at)
    }

    fn attempts(&self) -> Option<&PaymentAttempts> {
        self.body.as_ref()?.attempts.as_deref()
    }

    /// The checkout under way.
    pub(crate) fn checkout(&self) -> Option<&Checkout> {
        self.attempts()?.checkout.as_ref()
    }

    /// The messages it owes.
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

    /// Whether it owes messages or is being paid. Then it is woken when its shard gets a leader.
    pub fn unfinished(&self) -> bool {
        !self.outbox.is_empty() || self.checkout().is_some()
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    pub(crate) fn apply(&mut self, event: &CartEvent) {
        self.version += 1;
        let version = self.version;
        self.write(version, event);
        if let (Some(at), Some(body)) = (event.modified_at(), &mut self.body) {
            body.modified_at = at;
        }
        if let Some(remembered) = event.remembered() {
            self.body_mut().remember(Memory::answered(version, remembered));
        }
    }

    fn write(&mut self, version: u64, event: &CartEvent) {
        match event {
            CartEvent::Opened { at, customer, ttl_ms, age_ends_at, deadline, remembered: _, known } => {
                assert!(self.body.is_none(), "cart {} is opened twice", self.id);
                assert_eq!(*known, version > 1, "cart {} is opened as if it were another", self.id);
                self.body = Some(Body::opened(*at, customer.clone(), *ttl_ms, *age_ends_at, *deadline));
            }
            CartEvent::LinesAdded { .. } => self.add_lines(event),
            CartEvent::LineReduced {
                at: _,
                line,
                left,
                revision,
                quota_revision,
                code_revision,
                deadline,
                taken,
                remembered: _,
            } => {
                if let Some(taken) = taken {
                    self.note_taken(*line, taken);
                }
                let (hold, quota) = (Some(*revision), Some(*quota_revision));
                self.reduce(*line, left.as_ref(), NewRevisions { hold, quota, code: *code_revision });
                let body = self.active();
                body.lines_version = version + u64::from(planted::is("an event that is applied otherwise"));
                body.live_until(*deadline);
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
            CartEvent::Canceled { at: _, remembered: _ } => self.give_up(CartState::Canceled, Ended::Canceled),
            CartEvent::Expired { at, aged } => {
                let (id, body) = (self.id, self.active());
                assert!(*at >= body.deadline, "cart {id} expires before its deadline");
                self.give_up(CartState::Expired, if *aged { Ended::TooOld } else { Ended::Expired });
            }
            CartEvent::CheckoutBegun { deadline, .. } => {
                let body = self.active();
                body.attempts.get_or_insert_default().apply(event);
                body.state = CartState::CheckingOut;
                body.live_until(*deadline);
            }
            CartEvent::CheckoutAbandoned { .. } => self.abandon(event),
            CartEvent::CheckedOut { at: _, order, reserved, reference, request } => {
                self.check_out(event, order, reserved, reference.as_ref(), *request);
            }
            CartEvent::Refunded { refund, remembered: _ } => self.refund(event, refund),
            CartEvent::PaymentChanged(_) | CartEvent::RefundChanged { .. } => self.order_mut().apply(event),
            CartEvent::StrayAuthorized { attempt, reference } => {
                self.attempts_mut().apply(event);
                self.owe_void(*attempt, Some(reference.clone()));
            }
            CartEvent::VoidChanged { .. } => self.attempts_mut().apply(event),
            CartEvent::Delivered { numbers, sold } => {
                self.outbox.deliver(numbers);
                if !sold.is_empty() {
                    self.order_mut().apply(event);
                }
            }
            CartEvent::Granted(_) => {}
            CartEvent::CustomerSet { at: _, customer, remembered: _ } => {
                let body = self.active();
                assert!(body.customer.is_none(), "a cart has one customer");
                body.customer = Some(customer.clone());
            }
            CartEvent::Touched { at: _, deadline, remembered: _ } => self.active().live_until(*deadline),
            #[cfg(debug_assertions)]
            CartEvent::Rehearsed => self.body_mut().rehearsed = true,
        }
    }

    fn body_mut(&mut self) -> &mut Body {
        self.body.as_mut().expect("only opened carts have lines and grant requests")
    }

    fn active(&mut self) -> &mut Body {
        let id = self.id;
        let body = self.body_mut();
        assert_eq!(body.state, CartState::Active, "cart {id} has ended, or is being paid");
        body
    }

    fn attempts_mut(&mut self) -> &mut PaymentAttempts {
        self.body_mut().attempts.as_mut().expect("only carts that began to pay have attempts")
    }

    fn order_mut(&mut self) -> &mut OrderRecord {
        self.body_mut().order.as_mut().expect("only done carts have orders")
    }

    /// Keeps a line that is about to be taken away, for its owner to see.
    fn note_taken(&mut self, number: u32, taken: &TakenAway) {
        if planted::is("a line taken away without a word") {
            return;
        }
        let line = self.lines().into_iter().find(|line| line.line == number).expect("only lines of the cart are taken");
        let TakenAway { by, reason } = taken.clone();
        keep_taken(&mut self.active().taken, TakenLine { line, by, reason });
    }

    fn reduce(&mut self, number: u32, left: Option<&Content>, revisions: NewRevisions) {
        let id = self.id;
        let body = self.active();
        let customer = body.customer.clone();
        let line = body.line_mut(number);
        if let Some(content) = left {
            let (before, after) = (line.content.quantity(), content.quantity());
            assert!(after < before, "line {number} is reduced from {before} to {after}");
            line.content = content.clone();
        }
        let releases = line.release(id, customer.as_ref(), revisions, left.is_none());
        if left.is_none() {
            body.lines.retain(|line| line.number != number);
        }
        self.owe_releases(releases);
    }

    fn undo_growth(&mut self, number: u32, revision: u64, quota_revision: u64) {
        let id = self.id;
        let body = self.body_mut();
        let customer = body.customer.clone();
        let line = body.line_mut(number);
        // A grant of more may have been lost on its way to the cart, so the deadline that the inventory believes in is not known.
        line.believed_until = TIMESTAMP_MAX;
        let changed = |revision: u64| (revision > 0).then_some(revision);
        let revisions = NewRevisions { hold: changed(revision), quota: changed(quota_revision), code: None };
        let releases = line.release(id, customer.as_ref(), revisions, false);
        self.owe_releases(releases);
    }

    /// Adds releases to the outbox. Their inventories may remember them.
    fn owe_releases(&mut self, releases: Vec<(Entity, Ask)>) {
        for (entity, ask) in releases {
            self.trace(&entity);
            self.outbox.owe(Some(entity), ask);
        }
    }

    fn disown(&mut self, entity: &Entity, hold: HoldId, revision: u64) {
        assert_eq!(hold.cart, self.id, "cart {} disowns a hold of another cart", self.id);
        assert!(!self.owns(entity, hold), "cart {} disowns {hold:?}, which is a line", self.id);
        let next = self.disowned.entry((hold.request, hold.part)).or_default();
        *next = (*next).max(hold.attempt.saturating_add(1));
        // An ended cart sends no more messages about its holds, and neither does a tombstone.
        let last = self.is_tombstone() || self.terminal();
        let last = last || planted::is("every disowned hold released as the last");
        if !last {
            self.trace(entity);
        }
        self.outbox.owe(Some(entity.clone()), Ask::Release { hold, revision, left: None, last, expired: false });
    }

    fn give_up(&mut self, state: CartState, why: Ended) {
        self.active();
        let Cart { id, body, outbox, .. } = self;
        let body = body.as_mut().expect("active until now");
        (body.state, body.ended) = (state, Some(Box::new(why)));
        // An expired cart owes releases only to inventories that may believe in a later deadline than its own. For the others the
        // hold is overdue now, so they ask by themselves if they miss the message.
        let expired = state == CartState::Expired;
        let forgets = planted::is("a deadline that was told and forgotten");
        for line in &body.lines {
            if expired && (line.believed_until <= body.deadline || forgets) {
                continue;
            }
            for claim in line.claims(*id, body.customer.as_ref()) {
                let (hold, revision) = (claim.hold, committed_after(claim.revision));
                outbox.owe(Some(claim.entity), Ask::Release { hold, revision, left: None, last: true, expired });
            }
        }
        self.owe_forgets();
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
        let contents: usize = body.lines.iter().map(|line| line.item.heap_bytes()).sum();
        let lines = body.lines.capacity() * size_of::<Line>();
        let memories: usize = body.remembered.iter().map(Memory::heap_bytes).sum();
        let memories = memories + body.remembered.capacity() * size_of::<Memory>();
        let sold = body.order.as_ref().map_or(0, |order| order.sold.capacity() * size_of::<At>());
        let taken = body.taken.capacity() * size_of::<TakenLine>();
        let ended = body.ended.as_ref().map_or(0, |_| size_of::<Ended>());
        contents + lines + taken + ended + memories + sold + self.outbox.heap_bytes()
    }
}

//! Answers that entities remember, and other types that are a part of answers and also of events or states.
//!
//! They are stored, so a new field of one changes the stored formats. All other answers only travel between nodes and to clients.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::Answer;
use crate::{
    command::{Payment, Shipping},
    id::{CartId, Entity, Id, OrderId},
    money::{Currency, Money},
    payment::{PaymentFailure, RefundRecord},
    portion::{Content, LineItem},
    push_exact::push_exact,
    time::Timestamp,
};

/// An answer that a cart or a resource remembers, so that a repeat of its request gets the same. Every kind is an [`Answer`] as
/// well.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum KeptAnswer {
    /// [`Answer::Done`].
    #[n(0)]
    Done,
    /// [`Answer::Cart`].
    #[n(1)]
    Cart(#[n(0)] CartView),
    /// [`Answer::Held`].
    #[n(2)]
    Held(#[n(0)] Held),
    /// [`Answer::Refund`].
    #[n(3)]
    Refund(#[n(0)] RefundRecord),
    /// [`Answer::Booked`].
    #[n(4)]
    Booked(#[n(0)] Vec<BookingView>),
}

impl From<KeptAnswer> for Answer {
    fn from(kept: KeptAnswer) -> Answer {
        match kept {
            KeptAnswer::Done => Answer::Done,
            KeptAnswer::Cart(view) => Answer::Cart(view),
            KeptAnswer::Held(held) => Answer::Held(held),
            KeptAnswer::Refund(refund) => Answer::Refund(refund),
            KeptAnswer::Booked(bookings) => Answer::Booked(bookings),
        }
    }
}

/// A point in an entity's history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub struct At {
    #[n(0)]
    pub entity: Entity,
    /// The number of events that the entity has had.
    #[n(1)]
    pub version: u64,
    /// The place of that event in the log of the entity's shard. 0 if it is not known, as for reads.
    #[n(2)]
    pub position: u64,
}

/// A cart as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct CartView {
    #[n(0)]
    pub id: CartId,
    #[n(1)]
    pub state: CartState,
    /// Its customer, as the client said.
    #[n(8)]
    pub customer: Option<Id>,
    #[n(2)]
    pub opened_at: Timestamp,
    /// When its lines, customer, deadline or state changed last.
    #[n(3)]
    pub modified_at: Timestamp,
    /// Its deadline if it is not touched. An ended cart keeps its last one.
    #[n(4)]
    pub deadline: Timestamp,
    /// Its lines. An expired or canceled cart keeps its last ones.
    #[n(6)]
    pub lines: Vec<LineView>,
    /// The version of the cart with which lines, quantities or prices changed last. 0 if it never had a line.
    #[n(5)]
    pub lines_version: u64,
    /// Lines that were taken away from its owner, the newest [`crate::cart::CART_LINES_MAX`].
    #[n(7)]
    pub taken: Vec<TakenLine>,
    /// The sum of the lines, absent without lines.
    #[n(9)]
    pub total: Option<Money>,
    /// The order it became.
    #[n(10)]
    pub order: Option<OrderId>,
    /// Why it ended, if it did without an order.
    #[n(11)]
    pub ended: Option<Ended>,
}

/// The state of a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum CartState {
    /// Lines may be added and released.
    #[n(0)]
    Active,
    /// A checkout is under way. Lines are frozen and do not expire.
    #[n(1)]
    CheckingOut,
    /// It became an order.
    #[n(2)]
    Done,
    /// Its owner canceled it, or its payment failed.
    #[n(3)]
    Canceled,
    /// Its deadline passed.
    #[n(4)]
    Expired,
}

impl CartState {
    /// Its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            CartState::Active => "active",
            CartState::CheckingOut => "checking_out",
            CartState::Done => "done",
            CartState::Canceled => "canceled",
            CartState::Expired => "expired",
        }
    }
}

/// One line of a cart or an order.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct LineView {
    /// The line's number in its cart. It is never reused.
    #[n(0)]
    pub line: u32,
    #[n(1)]
    pub item: LineItem,
    /// It is set aside only at the checkout.
    #[n(2)]
    pub late: bool,
}

impl LineView {
    /// A line without anything that may be left out.
    pub fn new(line: u32, entity: Entity, content: Content, late: bool) -> LineView {
        LineView { line, item: LineItem::new(entity, content), late }
    }
}

/// A line is read as its item.
impl Deref for LineView {
    type Target = LineItem;

    fn deref(&self) -> &LineItem {
        &self.item
    }
}

impl DerefMut for LineView {
    fn deref_mut(&mut self) -> &mut LineItem {
        &mut self.item
    }
}

/// Why a cart ended without an order.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Ended {
    /// It was not touched until its deadline.
    #[n(0)]
    Expired,
    /// It reached the highest age of a cart.
    #[n(1)]
    TooOld,
    /// Its owner canceled it.
    #[n(2)]
    Canceled,
    /// Its payment failed, and everything was released.
    #[n(3)]
    Unpaid(#[n(0)] PaymentFailure),
}

/// A line that was taken away from its owner.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct TakenLine {
    /// The line as it was.
    #[n(0)]
    pub line: LineView,
    #[n(1)]
    pub by: Taker,
    /// Why, in the operator's words.
    #[n(2)]
    pub reason: SmolStr,
}

/// Why a line was taken away from a cart.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct TakenAway {
    #[n(0)]
    pub by: Taker,
    /// Why, in the operator's words.
    #[n(1)]
    pub reason: SmolStr,
}

/// The party that took a line away from a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum Taker {
    /// An operator, with `admin.release` or `resource.cancel`.
    #[n(0)]
    Operator,
    /// Its session, which is canceled.
    #[n(1)]
    Session,
}

/// Lines just added to a cart.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Held {
    #[n(0)]
    pub cart: CartId,
    /// The new lines, in the order asked for.
    #[n(4)]
    pub lines: Vec<LineView>,
    #[n(1)]
    pub currency: Currency,
    /// The cart's new deadline.
    #[n(2)]
    pub deadline: Timestamp,
    /// The new version of the cart's lines.
    #[n(3)]
    pub lines_version: u64,
}

/// A booking as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct BookingView {
    /// Its id, or a text that names the hold if a cart made it.
    #[n(3)]
    pub booking: SmolStr,
    #[n(0)]
    pub begin: Timestamp,
    /// Up to, exclusive.
    #[n(1)]
    pub end: Timestamp,
    #[n(2)]
    pub state: BookingState,
    #[n(4)]
    pub details: SmolStr,
    /// The order that bought it.
    #[n(5)]
    pub order: Option<OrderId>,
}

/// The state of a booking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum BookingState {
    /// Made with `resource.reserve`.
    #[n(0)]
    Reserved,
    /// In a cart.
    #[n(1)]
    Held,
    #[n(2)]
    Sold,
}

/// The order of a done cart. It is written once and never changes.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Order {
    #[n(0)]
    pub id: OrderId,
    /// The buyer, as the client said.
    #[n(5)]
    pub customer: Option<Id>,
    /// When it was decided.
    #[n(1)]
    pub at: Timestamp,
    #[n(4)]
    pub lines: Vec<LineView>,
    /// Σ of the prices captured when held (P7).
    #[n(2)]
    pub total: Money,
    #[n(3)]
    pub payment: Payment,
    #[n(6)]
    pub shipping: Option<Shipping>,
}

/// An order in its customer's purchases.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Purchase {
    /// Its position among the customer's purchases, from 1. It is 0 until the customer has it.
    #[n(0)]
    pub cursor: u64,
    #[n(1)]
    pub order: OrderId,
    /// When it was decided.
    #[n(2)]
    pub at: Timestamp,
    #[n(3)]
    pub total: Money,
    /// The IANA name of the zone of the first line that has one.
    #[n(5)]
    pub zone: Option<SmolStr>,
    /// What it was for, in the order of its lines.
    #[n(4)]
    pub items: Vec<PurchasedItem>,
}

/// How much of one thing an order was for.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct PurchasedItem {
    /// The session, product or resource.
    #[n(0)]
    pub entity: Entity,
    /// The number of seats, places or units. Each slot counts as one.
    #[n(1)]
    pub quantity: u32,
}

impl PurchasedItem {
    /// The lines of an order, summed by what they are of.
    pub(crate) fn of_lines(lines: &[LineView]) -> Vec<PurchasedItem> {
        let mut items: Vec<PurchasedItem> = Vec::new();
        for line in lines {
            let quantity = line.content.quantity();
            match items.iter_mut().find(|item| item.entity == line.entity) {
                Some(item) => item.quantity = item.quantity.saturating_add(quantity),
                None => push_exact(&mut items, PurchasedItem { entity: line.entity.clone(), quantity }),
            }
        }
        items
    }
}

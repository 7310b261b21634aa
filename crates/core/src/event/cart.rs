//! Events of carts.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::Remembered;
use crate::{
    answer::{At, Order, TakenAway},
    ask::Ask,
    command::{Payment, Shipping},
    holder::Holder,
    id::{Entity, HoldId, Id, Request},
    money::{Currency, Money},
    payment::{PaymentFailure, PaymentStatus, RefundRecord, RefundStatus, VoidStatus},
    portion::{Content, LineItem},
    time::Timestamp,
};

/// Events of carts.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum CartEvent {
    #[n(0)]
    Opened {
        #[n(0)]
        at: Timestamp,
        /// Its customer, as the client said.
        #[n(4)]
        customer: Option<Id>,
        /// How long it lives untouched, in milliseconds.
        #[n(1)]
        ttl_ms: u64,
        /// When it ends even if it is touched.
        #[n(2)]
        age_ends_at: Timestamp,
        /// Its deadline if it is not touched.
        #[n(3)]
        deadline: Timestamp,
        /// The remembered request, unless a hold opened it.
        #[n(5)]
        remembered: Option<Remembered>,
        /// Whether it was a tombstone, which has disowned holds and may have been evicted since.
        #[n(6)]
        known: bool,
    },
    /// Lines were added, grew, or got another note. The cart was touched.
    #[n(1)]
    LinesAdded {
        #[n(0)]
        at: Timestamp,
        /// The new lines, in order.
        #[n(4)]
        lines: Vec<NewLine>,
        /// Lines that have more than before.
        #[n(5)]
        grown: Vec<GrownLine>,
        /// Known lines with another note.
        #[n(6)]
        noted: Vec<(u32, SmolStr)>,
        /// The customer, if the cart had none.
        #[n(7)]
        customer: Option<Id>,
        /// The same for every line of the cart.
        #[n(1)]
        currency: Currency,
        /// The new deadline of the cart.
        #[n(2)]
        deadline: Timestamp,
        #[n(3)]
        remembered: Remembered,
    },
    /// A line has less, or ended. The cart owes its inventory the release.
    #[n(2)]
    LineReduced {
        #[n(0)]
        at: Timestamp,
        #[n(1)]
        line: u32,
        /// Its new content. `None` if it ended.
        #[n(5)]
        left: Option<Content>,
        /// The hold's new revision.
        #[n(2)]
        revision: u64,
        /// The new revision of the hold on the customer's quota. 0 if there is none.
        #[n(3)]
        quota_revision: u64,
        /// The new deadline of the cart.
        #[n(4)]
        deadline: Timestamp,
        /// Why it was taken away, if its owner did not release it.
        #[n(6)]
        taken: Option<TakenAway>,
        /// The request. `None` if a canceled session took the line.
        #[n(7)]
        remembered: Option<Remembered>,
        /// The new revision of the hold on the code's uses, if the line has one and needs fewer.
        #[n(8)]
        code_revision: Option<u64>,
    },
    /// Growth of holds is undone. The holds get what the lines have, and the cart owes their inventories releases.
    #[n(3)]
    GrowthUndone {
        /// Line, new revision of its hold, new revision of the hold on the customer's quota (0 if untouched).
        #[n(0)]
        lines: Vec<(u32, u64, u64)>,
    },
    /// These holds can never become lines. The cart owes their inventories releases.
    #[n(4)]
    Disowned {
        /// Inventory and hold, and the revision of the release.
        #[n(0)]
        holds: Vec<(Entity, HoldId, u64)>,
    },
    /// Its owner canceled it. It owes every inventory a release.
    #[n(5)]
    Canceled {
        #[n(0)]
        at: Timestamp,
        #[n(1)]
        remembered: Remembered,
    },
    /// Its deadline passed.
    #[n(6)]
    Expired {
        #[n(0)]
        at: Timestamp,
        /// Whether it had reached the highest age of a cart.
        #[n(1)]
        aged: bool,
    },
    /// A checkout of more than one step began. Lines are frozen and do not expire until it is decided or abandoned.
    #[n(7)]
    CheckoutBegun {
        /// The number of the attempt, from 1.
        #[n(0)]
        attempt: u32,
        #[n(1)]
        at: Timestamp,
        #[n(2)]
        payment: Box<Payment>,
        #[n(6)]
        customer: Option<Id>,
        #[n(7)]
        shipping: Option<Box<Shipping>>,
        /// The total.
        #[n(3)]
        amount: Money,
        /// The cart's deadline if it is active again.
        #[n(4)]
        deadline: Timestamp,
        #[n(5)]
        request: Request,
        /// Who holds the lines that are held only now.
        #[n(8)]
        holder: Option<Holder>,
    },
    /// The checkout under way ended without an order. The event before disowned the holds that were only for it.
    #[n(8)]
    CheckoutAbandoned {
        #[n(0)]
        at: Timestamp,
        /// Why there is no order, which is remembered under the checkout's request. `None` if something could not be set aside.
        #[n(1)]
        failure: Option<PaymentFailure>,
        /// Whether the cart ends and releases everything. Otherwise it is active again.
        #[n(2)]
        release: bool,
        /// Whether a gateway may have been asked. If not, the attempt's number is free again.
        #[n(3)]
        asked: bool,
        /// Whether the gateway is owed a void.
        #[n(4)]
        void: bool,
        /// The gateway's name for the authorization, if it is known.
        #[n(5)]
        reference: Option<SmolStr>,
    },
    /// The cart is done, with this order. It owes every inventory the sale, the gateway the capture, and the customer the
    /// purchase.
    #[n(9)]
    CheckedOut {
        /// In running time. The order has the true time.
        #[n(0)]
        at: Timestamp,
        #[n(1)]
        order: Arc<Order>,
        /// Holds of lines that were validated at the checkout.
        #[n(3)]
        reserved: Vec<Reserved>,
        /// The gateway's name for the authorization.
        #[n(4)]
        reference: Option<SmolStr>,
        #[n(2)]
        request: Request,
    },
    /// The state of the order's money changed.
    #[n(10)]
    PaymentChanged(#[n(0)] PaymentStatus),
    /// Lines of the order are paid back. The cart owes the refund to their inventories and to the gateway.
    #[n(11)]
    Refunded {
        #[n(0)]
        refund: RefundRecord,
        /// The request. `None` if a session was canceled.
        #[n(1)]
        remembered: Option<Remembered>,
    },
    /// The state of a refund's money changed.
    #[n(12)]
    RefundChanged {
        /// Its number in the order.
        #[n(0)]
        number: u32,
        #[n(1)]
        status: RefundStatus,
    },
    /// An attempt that was given up had set money aside. The gateway is owed a void.
    #[n(13)]
    StrayAuthorized {
        #[n(0)]
        attempt: u32,
        /// The gateway's name for it.
        #[n(1)]
        reference: SmolStr,
    },
    /// The state of an attempt's void changed.
    #[n(14)]
    VoidChanged {
        #[n(0)]
        attempt: u32,
        #[n(1)]
        status: VoidStatus,
    },
    /// Owed messages were acknowledged.
    #[n(15)]
    Delivered {
        /// Their numbers in the outbox.
        #[n(0)]
        numbers: Vec<u64>,
        /// The versions of inventories with their sales, which are a part of the answer to the checkout.
        #[n(1)]
        sold: Vec<At>,
    },
    /// A request was granted without a change of its own, and is remembered.
    #[n(16)]
    Granted(#[n(0)] Remembered),
    /// The cart has a customer from now on.
    #[n(17)]
    CustomerSet {
        #[n(0)]
        at: Timestamp,
        #[n(1)]
        customer: Id,
        #[n(2)]
        remembered: Remembered,
    },
    /// The cart was touched without a change of its lines.
    #[n(18)]
    Touched {
        #[n(0)]
        at: Timestamp,
        /// The new deadline of the cart.
        #[n(1)]
        deadline: Timestamp,
        #[n(2)]
        remembered: Remembered,
    },
    /// What only the next version has: the cart was opened.
    #[cfg(debug_assertions)]
    #[n(1000)]
    #[stored(next)]
    Rehearsed,
}

/// A new line of a cart.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct NewLine {
    /// What it is, with the prices captured now.
    #[n(0)]
    pub item: LineItem,
    /// Its hold and revision. `None` for a line that is validated at the checkout.
    #[n(2)]
    pub hold: Option<(HoldId, u64)>,
    /// The hold on the customer's quota, if there is a limit.
    #[n(3)]
    pub quota: Option<QuotaClaim>,
    /// How long the inventory lets carts live untouched, if it has a limit.
    #[n(4)]
    pub ttl_ms: Option<u64>,
    /// When its hold ends even if the cart is touched.
    #[n(5)]
    pub ends_at: Option<Timestamp>,
    /// Until when the inventory and the customer may believe in its holds without asking the cart.
    #[n(1)]
    pub believed_until: Timestamp,
    /// The hold on uses of a code, if its buyer showed one.
    #[n(6)]
    pub code: Option<Box<CodeUse>>,
}

/// A line with more than before.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct GrownLine {
    #[n(0)]
    pub line: u32,
    /// The hold's revision. 0 for a line that is validated at the checkout.
    #[n(1)]
    pub revision: u64,
    /// The revision of the hold on the customer's quota. 0 if there is none.
    #[n(2)]
    pub quota_revision: u64,
    /// Its new content.
    #[n(3)]
    pub content: Content,
    /// When its hold ends even if the cart is touched.
    #[n(5)]
    pub ends_at: Option<Timestamp>,
    /// Until when the inventory and the customer may believe in its holds without asking the cart.
    #[n(4)]
    pub believed_until: Timestamp,
}

/// The hold of a line on its customer's quota.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct QuotaClaim {
    /// The hold of the customer.
    #[n(0)]
    pub hold: HoldId,
    #[n(1)]
    pub revision: u64,
    #[n(2)]
    pub quota: Id,
    /// How many of it the customer may have.
    #[n(3)]
    pub max: u32,
}

/// The hold of a line on uses of a code. Uses that the line does not need are released with the line.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct CodeUse {
    /// The id of the code's entity.
    #[n(0)]
    pub code: Id,
    #[n(1)]
    pub hold: HoldId,
    #[n(2)]
    pub revision: u64,
    /// How many the code has granted.
    #[n(3)]
    pub granted: u32,
}

/// A hold that the checkout set aside for a line.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Reserved {
    #[n(0)]
    pub line: u32,
    #[n(1)]
    pub hold: HoldId,
    #[n(2)]
    pub revision: u64,
    /// The hold on the customer's quota, if there is a limit.
    #[n(3)]
    pub quota: Option<QuotaClaim>,
}

/// An entry of the outbox. It is a message that is owed until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Owed {
    /// The receiver, or `None` for the gateway.
    #[n(1)]
    pub to: Option<Entity>,
    #[n(0)]
    pub ask: Ask,
}

impl CartEvent {
    /// The request that is remembered with it.
    pub(crate) fn remembered(&self) -> Option<&Remembered> {
        match self {
            CartEvent::LinesAdded { remembered, .. }
            | CartEvent::Canceled { remembered, .. }
            | CartEvent::CustomerSet { remembered, .. }
            | CartEvent::Touched { remembered, .. }
            | CartEvent::Granted(remembered) => Some(remembered),
            CartEvent::Opened { remembered, .. }
            | CartEvent::LineReduced { remembered, .. }
            | CartEvent::Refunded { remembered, .. } => remembered.as_ref(),
            CartEvent::GrowthUndone { .. }
            | CartEvent::Disowned { .. }
            | CartEvent::Expired { .. }
            | CartEvent::CheckoutBegun { .. }
            | CartEvent::CheckoutAbandoned { .. }
            | CartEvent::CheckedOut { .. }
            | CartEvent::PaymentChanged(_)
            | CartEvent::RefundChanged { .. }
            | CartEvent::StrayAuthorized { .. }
            | CartEvent::VoidChanged { .. }
            | CartEvent::Delivered { .. } => None,
            #[cfg(debug_assertions)]
            CartEvent::Rehearsed => None,
        }
    }

    /// When it happened, if it changes what a cart's owner sees of lines, customer, deadline or state.
    pub(crate) fn modified_at(&self) -> Option<Timestamp> {
        match self {
            CartEvent::Opened { at, .. }
            | CartEvent::LinesAdded { at, .. }
            | CartEvent::LineReduced { at, .. }
            | CartEvent::Canceled { at, .. }
            | CartEvent::Expired { at, .. }
            | CartEvent::CheckoutBegun { at, .. }
            | CartEvent::CheckoutAbandoned { at, .. }
            | CartEvent::CheckedOut { at, .. }
            | CartEvent::CustomerSet { at, .. }
            | CartEvent::Touched { at, .. } => Some(*at),
            CartEvent::GrowthUndone { .. }
            | CartEvent::Disowned { .. }
            | CartEvent::PaymentChanged(_)
            | CartEvent::Refunded { .. }
            | CartEvent::RefundChanged { .. }
            | CartEvent::StrayAuthorized { .. }
            | CartEvent::VoidChanged { .. }
            | CartEvent::Delivered { .. }
            | CartEvent::Granted(_) => None,
            #[cfg(debug_assertions)]
            CartEvent::Rehearsed => None,
        }
    }
}

//! Events of carts.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CartEvent {
    Opened {
        at: Timestamp,
        /// Its customer, as the client said.
        customer: Option<Id>,
        /// How long it lives untouched, in milliseconds.
        ttl_ms: u64,
        /// When it ends even if it is touched.
        age_ends_at: Timestamp,
        /// Its deadline if it is not touched.
        deadline: Timestamp,
        /// The remembered request, unless a hold opened it.
        remembered: Option<Remembered>,
        /// Whether it was a tombstone, which has disowned holds and may have been evicted since.
        known: bool,
    },
    /// Lines were added, grew, or got another note. The cart was touched.
    LinesAdded {
        at: Timestamp,
        /// The new lines, in order.
        lines: Vec<NewLine>,
        /// Lines that have more than before.
        grown: Vec<GrownLine>,
        /// Known lines with another note.
        noted: Vec<(u32, SmolStr)>,
        /// The customer, if the cart had none.
        customer: Option<Id>,
        /// The same for every line of the cart.
        currency: Currency,
        /// The new deadline of the cart.
        deadline: Timestamp,
        remembered: Remembered,
    },
    /// A line has less, or ended. The cart owes its inventory the release.
    LineReduced {
        at: Timestamp,
        line: u32,
        /// Its new content. `None` if it ended.
        left: Option<Content>,
        /// The hold's new revision.
        revision: u64,
        /// The new revision of the hold on the customer's quota. 0 if there is none.
        quota_revision: u64,
        /// The new deadline of the cart.
        deadline: Timestamp,
        /// Why it was taken away, if its owner did not release it.
        taken: Option<TakenAway>,
        /// The request. `None` if a canceled session took the line.
        remembered: Option<Remembered>,
    },
    /// Growth of holds is undone. The holds get what the lines have, and the cart owes their inventories releases.
    GrowthUndone {
        /// Line, new revision of its hold, new revision of the hold on the customer's quota (0 if untouched).
        lines: Vec<(u32, u64, u64)>,
    },
    /// These holds can never become lines. The cart owes their inventories releases.
    Disowned {
        /// Inventory and hold, and the revision of the release.
        holds: Vec<(Entity, HoldId, u64)>,
    },
    /// Its owner canceled it. It owes every inventory a release.
    Canceled { at: Timestamp, remembered: Remembered },
    /// Its deadline passed.
    Expired {
        at: Timestamp,
        /// Whether it had reached the highest age of a cart.
        aged: bool,
    },
    /// A checkout of more than one step began. Lines are frozen and do not expire until it is decided or abandoned.
    CheckoutBegun {
        /// The number of the attempt, from 1.
        attempt: u32,
        at: Timestamp,
        payment: Box<Payment>,
        customer: Option<Id>,
        shipping: Option<Box<Shipping>>,
        /// The total.
        amount: Money,
        /// The cart's deadline if it is active again.
        deadline: Timestamp,
        request: Request,
        /// Who holds the lines that are held only now.
        holder: Option<Holder>,
    },
    /// The checkout under way ended without an order. The event before disowned the holds that were only for it.
    CheckoutAbandoned {
        at: Timestamp,
        /// Why there is no order, which is remembered under the checkout's request. `None` if something could not be set aside.
        failure: Option<PaymentFailure>,
        /// Whether the cart ends and releases everything. Otherwise it is active again.
        release: bool,
        /// Whether a gateway may have been asked. If not, the attempt's number is free again.
        asked: bool,
        /// Whether the gateway is owed a void.
        void: bool,
        /// The gateway's name for the authorization, if it is known.
        reference: Option<SmolStr>,
    },
    /// The cart is done, with this order. It owes every inventory the sale, the gateway the capture, and the customer the
    /// purchase.
    CheckedOut {
        /// In running time. The order has the true time.
        at: Timestamp,
        order: Arc<Order>,
        /// Holds of lines that were validated at the checkout.
        reserved: Vec<Reserved>,
        /// The gateway's name for the authorization.
        reference: Option<SmolStr>,
        request: Request,
    },
    /// The state of the order's money changed.
    PaymentChanged(PaymentStatus),
    /// Lines of the order are paid back. The cart owes the refund to their inventories and to the gateway.
    Refunded {
        refund: RefundRecord,
        /// The request. `None` if a session was canceled.
        remembered: Option<Remembered>,
    },
    /// The state of a refund's money changed.
    RefundChanged {
        /// Its number in the order.
        number: u32,
        status: RefundStatus,
    },
    /// An attempt that was given up had set money aside. The gateway is owed a void.
    StrayAuthorized {
        attempt: u32,
        /// The gateway's name for it.
        reference: SmolStr,
    },
    /// The state of an attempt's void changed.
    VoidChanged { attempt: u32, status: VoidStatus },
    /// Owed messages were acknowledged.
    Delivered {
        /// Their numbers in the outbox.
        numbers: Vec<u64>,
        /// The versions of inventories with their sales, which are a part of the answer to the checkout.
        sold: Vec<At>,
    },
    /// A request was granted without a change of its own, and is remembered.
    Granted(Remembered),
    /// The cart has a customer from now on.
    CustomerSet { at: Timestamp, customer: Id, remembered: Remembered },
    /// The cart was touched without a change of its lines.
    Touched {
        at: Timestamp,
        /// The new deadline of the cart.
        deadline: Timestamp,
        remembered: Remembered,
    },
}

/// A new line of a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLine {
    /// What it is, with the prices captured now.
    pub item: LineItem,
    /// Its hold and revision. `None` for a line that is validated at the checkout.
    pub hold: Option<(HoldId, u64)>,
    /// The hold on the customer's quota, if there is a limit.
    pub quota: Option<QuotaClaim>,
    /// How long the inventory lets carts live untouched, if it has a limit.
    pub ttl_ms: Option<u64>,
    /// When its hold ends even if the cart is touched.
    pub ends_at: Option<Timestamp>,
    /// Until when the inventory and the customer may believe in its holds without asking the cart.
    pub believed_until: Timestamp,
}

/// A line with more than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrownLine {
    pub line: u32,
    /// The hold's revision. 0 for a line that is validated at the checkout.
    pub revision: u64,
    /// The revision of the hold on the customer's quota. 0 if there is none.
    pub quota_revision: u64,
    /// Its new content.
    pub content: Content,
    /// When its hold ends even if the cart is touched.
    pub ends_at: Option<Timestamp>,
    /// Until when the inventory and the customer may believe in its holds without asking the cart.
    pub believed_until: Timestamp,
}

/// The hold of a line on its customer's quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaClaim {
    /// The hold of the customer.
    pub hold: HoldId,
    pub revision: u64,
    pub quota: Id,
    /// How many of it the customer may have.
    pub max: u32,
}

/// A hold that the checkout set aside for a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    pub line: u32,
    pub hold: HoldId,
    pub revision: u64,
    /// The hold on the customer's quota, if there is a limit.
    pub quota: Option<QuotaClaim>,
}

/// An entry of the outbox. It is a message that is owed until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// The receiver, or `None` for the gateway.
    pub to: Option<Entity>,
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
        }
    }
}

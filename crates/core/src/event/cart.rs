//! What happens to carts, and what it is made of.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::Remembered;
use crate::{
    answer::{At, Order, TakenAway},
    ask::Ask,
    command::{Payment, Shipping},
    id::{Entity, HoldId, Id, Request},
    money::{Currency, Money},
    payment::{PaymentFailure, PaymentStatus, RefundRecord, RefundStatus, VoidStatus},
    portion::Content,
    time::Timestamp,
};

/// What happens to carts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CartEvent {
    /// It exists.
    Opened {
        /// When.
        at: Timestamp,
        /// Whose, as the client said.
        customer: Option<Id>,
        /// How long it lives untouched, if the client or the rules said so.
        ttl_ms: u64,
        /// When it ends however often it is touched.
        age_ends_at: Timestamp,
        /// When it expires if it is not touched.
        deadline: Timestamp,
        /// The request, unless a hold opened it.
        remembered: Option<Remembered>,
        /// Things have happened to it: it has disowned holds, and may have left memory since.
        known: bool,
    },
    /// Lines were added, or grew; the cart was touched.
    LinesAdded {
        /// The new lines, in order.
        lines: Vec<NewLine>,
        /// Lines that have more than before.
        grown: Vec<GrownLine>,
        /// Whose the cart is, if that was not known before.
        customer: Option<Id>,
        /// Their currency; the same for every line of the cart.
        currency: Currency,
        /// The new deadline of the cart.
        deadline: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// A line has less, or ended; the inventory is owed the release.
    LineReduced {
        /// Which line.
        line: u32,
        /// What it has now; nothing if it ended.
        left: Option<Content>,
        /// The hold's new revision.
        revision: u64,
        /// The new revision of the hold on the customer's quota; 0 if there is none.
        quota_revision: u64,
        /// The new deadline of the cart.
        deadline: Timestamp,
        /// Who took it, if its owner did not give it back.
        taken: Option<TakenAway>,
        /// The request; none if a canceled session took it.
        remembered: Option<Remembered>,
    },
    /// Grown holds did not become lines: they are to be what the lines have. Their inventories are owed releases.
    GrowthUndone {
        /// Line, new revision of its hold, new revision of the hold on the customer's quota (0: untouched).
        lines: Vec<(u32, u64, u64)>,
    },
    /// These holds can never become lines; their inventories are owed releases.
    Disowned {
        /// Inventory and hold, and the revision of the release.
        holds: Vec<(Entity, HoldId, u64)>,
    },
    /// Given up by its owner; every inventory is owed what it held.
    Canceled {
        /// When.
        at: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// Its deadline passed; every inventory is owed what it held.
    Expired {
        /// When.
        at: Timestamp,
        /// It had reached the highest age of a cart: touching it would not have helped.
        aged: bool,
    },
    /// A checkout that takes more than one step: lines are frozen and do not expire until it is decided or abandoned.
    CheckoutBegun {
        /// The how-manieth attempt, from 1.
        attempt: u32,
        /// When.
        at: Timestamp,
        /// How it is to be paid.
        payment: Box<Payment>,
        /// Who buys.
        customer: Option<Id>,
        /// Where it goes.
        shipping: Option<Box<Shipping>>,
        /// What it comes to.
        amount: Money,
        /// The cart's deadline if it is active again.
        deadline: Timestamp,
        /// The request.
        request: Request,
    },
    /// The checkout under way came to nothing. What was held for it only is disowned by the event before.
    CheckoutAbandoned {
        /// When.
        at: Timestamp,
        /// How the payment ended, which is remembered under the checkout's request. `None` if the gateway was not asked.
        failure: Option<PaymentFailure>,
        /// Whether the cart ends and everything is given back, or it is active again.
        release: bool,
        /// Whether a gateway may have been asked: if not, the attempt's number is free again.
        asked: bool,
        /// Whether the gateway is owed a void.
        void: bool,
        /// The gateway's name for what it set aside, if it is known.
        reference: Option<SmolStr>,
    },
    /// The decision: done, with this order; every inventory is owed the sale, the gateway the capture, the customer the
    /// purchase.
    CheckedOut {
        /// What was bought.
        order: Arc<Order>,
        /// Holds of lines that were validated at the checkout.
        reserved: Vec<Reserved>,
        /// The gateway's name for what it set aside.
        reference: Option<SmolStr>,
        /// The request.
        request: Request,
    },
    /// How the money of the order stands.
    PaymentChanged(PaymentStatus),
    /// Lines of the order are paid back: their inventories are owed the refund, and so is the gateway.
    Refunded {
        /// What, how much and why.
        refund: RefundRecord,
        /// The request; none if a session was canceled.
        remembered: Option<Remembered>,
    },
    /// How the money of a refund stands.
    RefundChanged {
        /// The how-manieth of the order.
        number: u32,
        /// How it stands.
        status: RefundStatus,
    },
    /// An attempt that had been given up turned out to have set money aside: the gateway is owed a void.
    StrayAuthorized {
        /// Which attempt.
        attempt: u32,
        /// The gateway's name for it.
        reference: SmolStr,
    },
    /// How the void of an attempt stands.
    VoidChanged {
        /// Which attempt.
        attempt: u32,
        /// How it stands.
        status: VoidStatus,
    },
    /// Owed messages were acknowledged.
    Delivered {
        /// Their numbers in the outbox.
        numbers: Vec<u64>,
        /// Where those stood that have sold: it is part of what the checkout is answered.
        sold: Vec<At>,
    },
    /// A request was granted that changed nothing, or all that it changed is in the events before; it is remembered.
    Granted(Remembered),
}

/// A line as it is added to a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLine {
    /// Of which session, product or resource.
    pub entity: Entity,
    /// The hold it rests on and its revision; `None` for one that is validated at the checkout.
    pub hold: Option<(HoldId, u64)>,
    /// The hold on the customer's quota, if there is a limit.
    pub quota: Option<QuotaClaim>,
    /// What it has, with the prices captured now.
    pub content: Content,
    /// How long the inventory lets carts live untouched, if it says so.
    pub ttl_ms: Option<u64>,
    /// Until when those who granted it may believe in its holds without asking the cart.
    pub believed_until: Timestamp,
}

/// A line with more than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrownLine {
    /// Which line.
    pub line: u32,
    /// The hold's revision; 0 for a line that is validated at the checkout.
    pub revision: u64,
    /// The revision of the hold on the customer's quota; 0 if there is none.
    pub quota_revision: u64,
    /// What it has altogether.
    pub content: Content,
    /// Until when those who granted it may believe in its holds without asking the cart.
    pub believed_until: Timestamp,
}

/// The hold of a line on its customer's quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaClaim {
    /// Which hold of the customer's.
    pub hold: HoldId,
    /// Its revision.
    pub revision: u64,
    /// Which quota.
    pub quota: Id,
    /// How many the customer may have of it.
    pub max: u32,
}

/// What was set aside at the checkout for a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// Which line.
    pub line: u32,
    /// The hold it rests on.
    pub hold: HoldId,
    /// The hold's revision.
    pub revision: u64,
    /// The hold on the customer's quota, if there is a limit.
    pub quota: Option<QuotaClaim>,
}

/// A message owed to another entity until it is acknowledged: an entry of the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// To whom; `None` is the gateway.
    pub to: Option<Entity>,
    /// What it is told.
    pub ask: Ask,
}

impl CartEvent {
    /// The request that is remembered with it.
    pub(crate) fn remembered(&self) -> Option<&Remembered> {
        match self {
            CartEvent::LinesAdded { remembered, .. }
            | CartEvent::Canceled { remembered, .. }
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
}

//! What a cart knows of its attempts to pay, and of the order that one of them made.

use alloc::{sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    answer::{At, Order},
    command::{Payment, Shipping},
    id::{Id, Request},
    money::Money,
    payment::{OnDecline, PaymentStatus, RefundRecord, VoidRecord},
};

/// What a cart knows of its attempts to pay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Paying {
    /// Checkouts that were begun, whatever came of them.
    pub(super) begun: u32,
    /// Attempts for which a gateway may have been asked, the one under way included. A checkout that was refused before it
    /// was gives its number back.
    pub(super) attempts: u32,
    /// Attempts whose money was given up, or is to be.
    pub(super) voids: Vec<VoidRecord>,
    /// The checkout under way, while the cart is checking out.
    pub(super) checkout: Option<Checkout>,
}

/// A checkout of more than one step, under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkout {
    pub(crate) attempt: u32,
    pub(crate) payment: Payment,
    pub(crate) customer: Option<Id>,
    pub(crate) shipping: Option<Shipping>,
    pub(crate) amount: Money,
    pub(crate) request: Request,
}

/// What a done cart has beside its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) order: Arc<Order>,
    /// The version with the order.
    pub(super) decided: u64,
    /// The attempt that paid; 0 if no gateway was asked.
    pub(super) attempt: u32,
    /// The gateway's name for the authorization.
    pub(super) reference: Option<SmolStr>,
    pub(super) payment: PaymentStatus,
    pub(super) refunds: Vec<RefundRecord>,
    /// Where those stood that have sold, ascending: the order in which they said so may be another one at each time.
    pub(super) sold: Vec<At>,
}

impl Checkout {
    /// Whether a gateway is asked: what costs nothing needs none to be sold.
    pub(super) fn asks_gateway(&self) -> bool {
        !self.payment.is_recorded() && self.amount.amount != 0
    }

    /// What becomes of the cart if it is declined.
    pub(crate) fn on_decline(&self, usual: OnDecline) -> OnDecline {
        match &self.payment {
            Payment::Recorded { .. } => OnDecline::Keep,
            Payment::Gateway { on_decline, .. } => on_decline.unwrap_or(usual),
        }
    }
}

impl Done {
    pub(super) fn note_sold(&mut self, sold: &[At]) {
        self.sold.reserve_exact(sold.len());
        self.sold.extend_from_slice(sold);
        self.sold.sort();
    }
}

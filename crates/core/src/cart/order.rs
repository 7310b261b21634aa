//! The order that a cart became, with the state of its money and the acknowledged sales.

use alloc::{sync::Arc, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{
    answer::{At, Order},
    event::CartEvent,
    payment::{PaymentStatus, RefundRecord},
};

/// An order with everything about it that still changes.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(super) struct OrderRecord {
    #[n(0)]
    pub(super) order: Arc<Order>,
    /// The version with the order.
    #[n(1)]
    pub(super) decided: u64,
    /// The attempt that paid. 0 if no gateway was asked.
    #[n(2)]
    pub(super) attempt: u32,
    /// The gateway's name for the authorization.
    #[n(6)]
    pub(super) reference: Option<SmolStr>,
    #[n(3)]
    pub(super) payment: PaymentStatus,
    #[n(4)]
    pub(super) refunds: Vec<RefundRecord>,
    /// Versions of the inventories with their sales. They are sorted, because acknowledgements come in any order.
    #[n(5)]
    pub(super) sold: Vec<At>,
}

impl OrderRecord {
    /// An order that was just decided.
    pub(super) fn new(order: &Arc<Order>, decided: u64, attempt: u32, reference: Option<SmolStr>) -> OrderRecord {
        let payment = if reference.is_some() { PaymentStatus::Authorized } else { PaymentStatus::Recorded };
        let (refunds, sold) = (Vec::new(), Vec::new());
        OrderRecord { order: Arc::clone(order), decided, attempt, reference, payment, refunds, sold }
    }

    /// Writes what happened to the order.
    pub(super) fn apply(&mut self, event: &CartEvent) {
        match event {
            CartEvent::PaymentChanged(status) => self.payment = status.clone(),
            CartEvent::Refunded { refund, .. } => self.refunds.push(refund.clone()),
            CartEvent::RefundChanged { number, status } => {
                let refund = self.refunds.iter_mut().find(|refund| refund.number == *number);
                refund.expect("only refunds of the order change").status = status.clone();
            }
            CartEvent::Delivered { sold, .. } => {
                self.sold.reserve_exact(sold.len());
                self.sold.extend_from_slice(sold);
                self.sold.sort();
            }
            other => panic!("{other:?} happens to no order"),
        }
    }

    /// Whether a line was paid back.
    pub(super) fn is_refunded(&self, line: u32) -> bool {
        self.refunds.iter().any(|refund| refund.lines.contains(&line))
    }
}

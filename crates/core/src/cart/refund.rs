//! Decisions of a cart about its order after the sale, and about money that it gave up.

use alloc::vec::Vec;

use smol_str::{SmolStr, format_smolstr};

use super::{Cart, OrderRecord};
use crate::{
    answer::KeptAnswer,
    event::{CartEvent, Remembered},
    id::Request,
    money::Money,
    payment::{PaymentKey, PaymentStatus, PaymentStep, RefundRecord, RefundStatus, VoidRecord, VoidStatus},
    portion::total,
    refusal::Refusal,
    time::Timestamp,
};

impl Cart {
    /// Pays lines of the order back. Without named lines it pays all that are left.
    pub(crate) fn decide_refund(
        &self,
        at: Timestamp,
        lines: Option<&[u32]>,
        reason: &SmolStr,
        request: Option<Request>,
    ) -> Result<CartEvent, Refusal> {
        let (Some(body), Some(record)) = (&self.body, self.record()) else {
            return Err(Refusal::NotFound(format_smolstr!("order {}", self.id.order())));
        };
        let chosen: Vec<u32> = match lines {
            None => body.lines.iter().map(|line| line.number).filter(|number| !record.is_refunded(*number)).collect(),
            Some(named) => {
                let mut named = named.to_vec();
                named.sort_unstable();
                named.dedup();
                named
            }
        };
        if chosen.is_empty() {
            return Err(Refusal::AlreadyRefunded("everything of the order".into()));
        }
        for number in &chosen {
            self.line(*number)?;
            if record.is_refunded(*number) {
                return Err(Refusal::AlreadyRefunded(format_smolstr!("line {number} of the order")));
            }
        }
        let contents = body.lines.iter().filter(|line| chosen.contains(&line.number)).map(|line| &line.content);
        let amount = total(contents).expect("a part of the order's total");
        let status = match &record.payment {
            PaymentStatus::Recorded => RefundStatus::Recorded,
            PaymentStatus::Authorized | PaymentStatus::Captured => RefundStatus::Pending,
            PaymentStatus::CaptureFailed { .. } => {
                RefundStatus::Failed { reason: "the order's money was never captured".into() }
            }
        };
        let refund = RefundRecord {
            number: record.refunds.len() as u32 + 1,
            at,
            lines: chosen,
            amount: Money { amount, currency: record.order.total.currency },
            reason: reason.clone(),
            status,
        };
        let remembered = request.map(|request| Remembered::alone(request, KeptAnswer::Refund(refund.clone())));
        Ok(CartEvent::Refunded { refund, remembered })
    }

    /// Whether a line was refunded.
    pub(crate) fn is_refunded(&self, number: u32) -> bool {
        self.record().is_some_and(|record| record.is_refunded(number))
    }

    /// The order that an attempt paid.
    fn paid_by(&self, attempt: u32) -> Option<&OrderRecord> {
        self.record().filter(|record| record.attempt == attempt)
    }

    /// The gateway has captured the money, or cannot. `None` if that is known already.
    pub(crate) fn decide_captured(&self, attempt: u32, failed: Option<&SmolStr>) -> Option<CartEvent> {
        (self.paid_by(attempt)?.payment == PaymentStatus::Authorized).then(|| {
            let failed = failed.map(|reason| PaymentStatus::CaptureFailed { reason: reason.clone() });
            CartEvent::PaymentChanged(failed.unwrap_or(PaymentStatus::Captured))
        })
    }

    /// The gateway has voided an authorization, or cannot. `None` if that is known already.
    pub(crate) fn decide_voided(&self, attempt: u32, failed: Option<&SmolStr>) -> Option<CartEvent> {
        let void = self.void_of(attempt)?;
        (void.status == VoidStatus::Pending).then(|| {
            let failed = failed.map(|reason| VoidStatus::Failed { reason: reason.clone() });
            CartEvent::VoidChanged { attempt, status: failed.unwrap_or(VoidStatus::Voided) }
        })
    }

    /// The gateway has paid a refund back, or cannot. `None` if that is known already.
    pub(crate) fn decide_paid_back(&self, attempt: u32, number: u32, failed: Option<&SmolStr>) -> Option<CartEvent> {
        let refund = self.paid_by(attempt)?.refunds.iter().find(|refund| refund.number == number)?;
        (refund.status == RefundStatus::Pending).then(|| {
            let failed = failed.map(|reason| RefundStatus::Failed { reason: reason.clone() });
            CartEvent::RefundChanged { number, status: failed.unwrap_or(RefundStatus::Refunded) }
        })
    }

    /// An operator says that a step after the authorization was done. `None` if that is known already.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if there is no such step.
    pub(crate) fn decide_done(&self, attempt: u32, step: PaymentStep) -> Result<Option<CartEvent>, Refusal> {
        let key = PaymentKey { cart: self.id, attempt };
        let unknown = || Refusal::NotFound(format_smolstr!("{step:?} of payment {key}"));
        let paid = || self.paid_by(attempt).ok_or_else(unknown);
        match step {
            PaymentStep::Authorize => panic!("payment {key}: an authorization has a reference, or was declined"),
            PaymentStep::Capture => match paid()?.payment {
                PaymentStatus::Recorded => Err(unknown()),
                PaymentStatus::Captured => Ok(None),
                PaymentStatus::Authorized | PaymentStatus::CaptureFailed { .. } => {
                    Ok(Some(CartEvent::PaymentChanged(PaymentStatus::Captured)))
                }
            },
            PaymentStep::Void => match self.void_of(attempt).ok_or_else(unknown)?.status {
                VoidStatus::Voided => Ok(None),
                VoidStatus::Pending | VoidStatus::Failed { .. } => {
                    Ok(Some(CartEvent::VoidChanged { attempt, status: VoidStatus::Voided }))
                }
            },
            PaymentStep::Refund(number) => {
                let refunds = &paid()?.refunds;
                match refunds.iter().find(|refund| refund.number == number).ok_or_else(unknown)?.status {
                    RefundStatus::Recorded | RefundStatus::Refunded => Ok(None),
                    RefundStatus::Pending | RefundStatus::Failed { .. } => {
                        Ok(Some(CartEvent::RefundChanged { number, status: RefundStatus::Refunded }))
                    }
                }
            }
        }
    }

    fn void_of(&self, attempt: u32) -> Option<&VoidRecord> {
        self.attempts()?.void(attempt)
    }
}

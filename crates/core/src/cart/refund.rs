//! What a cart decides about its order after the sale, and about money it gave up: refunds, and how the money stands.

use alloc::vec::Vec;

use smol_str::{SmolStr, format_smolstr};

use super::Cart;
use crate::{
    answer::Answer,
    event::{CartEvent, Remembered},
    id::Request,
    money::Money,
    payment::{PaymentKey, PaymentStatus, PaymentStep, RefundRecord, RefundStatus, VoidRecord, VoidStatus},
    portion::total,
    refusal::Refusal,
    time::Timestamp,
};

impl Cart {
    /// Pays lines of the order back, all that are left if none is named.
    pub(crate) fn decide_refund(
        &self,
        at: Timestamp,
        lines: Option<&[u32]>,
        reason: &SmolStr,
        request: Option<Request>,
    ) -> Result<CartEvent, Refusal> {
        let order = || Refusal::NotFound(format_smolstr!("order {}", self.id.order()));
        let body = self.body.as_ref().ok_or_else(order)?;
        let done = body.done.as_ref().ok_or_else(order)?;
        let gone = |number: u32| done.refunds.iter().any(|refund| refund.lines.contains(&number));
        let chosen: Vec<u32> = match lines {
            None => body.lines.iter().map(|line| line.number).filter(|number| !gone(*number)).collect(),
            Some(named) => {
                let mut named = named.to_vec();
                named.sort_unstable();
                named.dedup();
                named
            }
        };
        if chosen.is_empty() {
            return Err(Refusal::BadRequest("nothing of the order is left to refund".into()));
        }
        for number in &chosen {
            self.line(*number)?;
            if gone(*number) {
                return Err(Refusal::BadRequest(format_smolstr!("line {number} was refunded before")));
            }
        }
        let contents = body.lines.iter().filter(|line| chosen.contains(&line.number)).map(|line| &line.content);
        let amount = total(contents).expect("a part of the order's total");
        let status = match &done.payment {
            PaymentStatus::Recorded => RefundStatus::Recorded,
            PaymentStatus::Authorized | PaymentStatus::Captured => RefundStatus::Pending,
            PaymentStatus::CaptureFailed { .. } => {
                RefundStatus::Failed { reason: "the order's money was never captured".into() }
            }
        };
        let refund = RefundRecord {
            number: done.refunds.len() as u32 + 1,
            at,
            lines: chosen,
            amount: Money { amount, currency: done.order.total.currency },
            reason: reason.clone(),
            status,
        };
        let remembered = request.map(|request| Remembered::alone(request, Answer::Refund(refund.clone())));
        Ok(CartEvent::Refunded { refund, remembered })
    }

    /// The line that rests on a hold was refunded.
    pub(crate) fn is_refunded(&self, number: u32) -> bool {
        let done = self.body.as_ref().and_then(|body| body.done.as_ref());
        done.is_some_and(|done| done.refunds.iter().any(|refund| refund.lines.contains(&number)))
    }

    /// The gateway has captured, or cannot. `None` if that is known.
    pub(crate) fn decide_captured(&self, attempt: u32, failed: Option<&SmolStr>) -> Option<CartEvent> {
        let done = self.body.as_ref()?.done.as_ref().filter(|done| done.attempt == attempt)?;
        (done.payment == PaymentStatus::Authorized).then(|| {
            let failed = failed.map(|reason| PaymentStatus::CaptureFailed { reason: reason.clone() });
            CartEvent::PaymentChanged(failed.unwrap_or(PaymentStatus::Captured))
        })
    }

    /// The gateway has given an attempt's money up, or cannot. `None` if that is known.
    pub(crate) fn decide_voided(&self, attempt: u32, failed: Option<&SmolStr>) -> Option<CartEvent> {
        let void = self.void_of(attempt)?;
        (void.status == VoidStatus::Pending).then(|| {
            let failed = failed.map(|reason| VoidStatus::Failed { reason: reason.clone() });
            CartEvent::VoidChanged { attempt, status: failed.unwrap_or(VoidStatus::Voided) }
        })
    }

    /// The gateway has paid a refund back, or cannot. `None` if that is known.
    pub(crate) fn decide_paid_back(&self, attempt: u32, number: u32, failed: Option<&SmolStr>) -> Option<CartEvent> {
        let done = self.body.as_ref()?.done.as_ref().filter(|done| done.attempt == attempt)?;
        let refund = done.refunds.iter().find(|refund| refund.number == number)?;
        (refund.status == RefundStatus::Pending).then(|| {
            let failed = failed.map(|reason| RefundStatus::Failed { reason: reason.clone() });
            CartEvent::RefundChanged { number, status: failed.unwrap_or(RefundStatus::Refunded) }
        })
    }

    /// An operator says that a step after the authorization was done, whatever the gateway says of it. `None` if that is known.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if there is no such step.
    pub(crate) fn decide_done(&self, attempt: u32, step: PaymentStep) -> Result<Option<CartEvent>, Refusal> {
        let key = PaymentKey { cart: self.id, attempt };
        let unknown = || Refusal::NotFound(format_smolstr!("{step:?} of payment {key}"));
        let done = self.body.as_ref().and_then(|body| body.done.as_ref()).filter(|done| done.attempt == attempt);
        match step {
            PaymentStep::Authorize => panic!("payment {key}: an authorization has a reference, or was declined"),
            PaymentStep::Capture => match done.ok_or_else(unknown)?.payment {
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
                let refunds = &done.ok_or_else(unknown)?.refunds;
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
        self.voids().iter().find(|void| void.attempt == attempt)
    }
}

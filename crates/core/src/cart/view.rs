//! A cart as clients and audits see it.

use alloc::vec::Vec;

use smol_str::format_smolstr;

use super::{Cart, Line};
use crate::{
    answer::{Answer, CartAudit, CartState, CartView, Claim, Held, LineView},
    id::{CartId, Id},
    payment::{
        OpenPayment, PaymentCounts, PaymentKey, PaymentStatus, PaymentStep, RefundRecord, RefundStatus, VoidRecord,
        VoidStatus,
    },
    time::Timestamp,
};

impl Cart {
    /// The cart as its owner sees it, or `None` if no client opened it.
    pub fn view(&self) -> Option<CartView> {
        let body = self.body.as_ref()?;
        Some(CartView {
            id: self.id,
            state: body.state,
            customer: body.customer.clone(),
            opened_at: body.opened_at,
            modified_at: body.modified_at,
            deadline: body.deadline,
            lines: self.lines(),
            lines_version: body.lines_version,
            taken: body.taken.clone(),
            total: self.total(),
            order: self.order().map(|order| order.id),
            ended: body.ended.as_deref().cloned(),
        })
    }

    /// The cart as it will be with lines that were just held.
    pub(super) fn view_with(&self, at: Timestamp, held: &Held) -> CartView {
        let mut view = self.view().expect("only lines of opened carts are set to a quantity");
        view.modified_at = at;
        for changed in &held.lines {
            match view.lines.iter_mut().find(|line| line.line == changed.line) {
                Some(line) => line.item = changed.item.clone(),
                None => view.lines.push(changed.clone()),
            }
        }
        view.total = self.total_of(view.lines.iter().map(|line| &line.content));
        view.deadline = held.deadline;
        view.lines_version = held.lines_version;
        view
    }

    /// The order as it was decided. Its checkout and each repeat get this answer, and a read gets the order as it is now. `None`
    /// if the cart is not done.
    pub(crate) fn checkout_answer(&self, settling: bool) -> Option<Answer> {
        let done = self.record()?;
        let payment = if done.reference.is_some() { PaymentStatus::Authorized } else { PaymentStatus::Recorded };
        Some(Answer::Order { order: done.order.clone(), settling, payment, refunds: Vec::new(), sessions: Vec::new() })
    }

    /// The order with the state of its money, or `None` if the cart is not done.
    pub(crate) fn order_answer(&self, settling: bool) -> Option<Answer> {
        let done = self.record()?;
        let (payment, refunds) = (done.payment.clone(), done.refunds.clone());
        Some(Answer::Order { order: done.order.clone(), settling, payment, refunds, sessions: Vec::new() })
    }

    /// The state of the money of its order, and the refunds, or `None` if the cart is not done.
    pub fn money(&self) -> Option<(&PaymentStatus, &[RefundRecord])> {
        let done = self.record()?;
        Some((&done.payment, &done.refunds))
    }

    /// Attempts whose money was given up, or is to be.
    pub(super) fn voids(&self) -> &[VoidRecord] {
        self.attempts().map_or(&[], |attempts| &attempts.voids)
    }

    /// Steps of payments that are not over, or that failed and wait for an operator. A failed capture needs no operator once the
    /// whole order is refunded. Money that was never captured is not paid back.
    pub fn open_payments(&self) -> impl Iterator<Item = OpenPayment> {
        let open = |attempt, step, failed| {
            let key = PaymentKey { cart: self.id, attempt };
            OpenPayment { key, step, failed }
        };
        let asked = self.checkout().filter(|checkout| checkout.asks_gateway());
        let asked = asked.map(move |checkout| open(checkout.attempt, PaymentStep::Authorize, false));
        let voids = self.voids().iter().filter_map(move |void| match void.status {
            VoidStatus::Pending => Some(open(void.attempt, PaymentStep::Void, false)),
            VoidStatus::Failed { .. } => Some(open(void.attempt, PaymentStep::Void, true)),
            VoidStatus::Voided => None,
        });
        let done = self.record();
        let captured = done.and_then(move |done| match done.payment {
            PaymentStatus::Authorized => Some(open(done.attempt, PaymentStep::Capture, false)),
            PaymentStatus::CaptureFailed { .. } => {
                let sold = done.order.lines.iter().any(|line| !self.is_refunded(line.line));
                sold.then(|| open(done.attempt, PaymentStep::Capture, true))
            }
            PaymentStatus::Recorded | PaymentStatus::Captured => None,
        });
        let refunds = done.into_iter().flat_map(move |done| {
            let taken = !matches!(done.payment, PaymentStatus::CaptureFailed { .. });
            done.refunds.iter().filter_map(move |refund| match refund.status {
                RefundStatus::Pending => Some(open(done.attempt, PaymentStep::Refund(refund.number), false)),
                RefundStatus::Failed { .. } if taken => {
                    Some(open(done.attempt, PaymentStep::Refund(refund.number), true))
                }
                RefundStatus::Failed { .. } | RefundStatus::Recorded | RefundStatus::Refunded => None,
            })
        });
        asked.into_iter().chain(voids).chain(captured).chain(refunds)
    }

    /// How many of those steps there are, by state.
    pub fn payments(&self) -> PaymentCounts {
        let mut counts = PaymentCounts::default();
        self.open_payments().for_each(|open| counts.count(&open));
        counts
    }

    /// The holds of its lines.
    pub fn claims(&self) -> Vec<Claim> {
        let Some(body) = &self.body else { return Vec::new() };
        let mut claims = Vec::with_capacity(body.lines.len());
        for line in &body.lines {
            let there = !self.is_refunded(line.number);
            claims.extend(line.claims(self.id, body.customer.as_ref()).map(|claim| Claim {
                line: line.number,
                since: line.added_at,
                hold: claim.hold,
                revision: claim.revision,
                portion: there.then(|| claim.portion()),
                entity: claim.entity,
            }));
        }
        claims
    }

    /// How many seats its lines hold or have bought, without those that were refunded.
    pub fn seats(&self) -> u64 {
        let lines = self.body.iter().flat_map(|body| &body.lines);
        let there = lines.filter(|line| line.hold.is_some() && !self.is_refunded(line.number));
        there.map(|line| line.content.seats().len() as u64).sum()
    }

    /// Everything about it, or `None` if no client opened it.
    pub fn audit(&self) -> Option<CartAudit> {
        let cart = self.view()?;
        let mut violations = Vec::new();
        let done = cart.state == CartState::Done;
        match self.order() {
            Some(_) if !done => violations.push(format_smolstr!("an order, but the cart is {}", cart.state.as_str())),
            None if done => violations.push("done, but no order".into()),
            Some(order) if order.lines != cart.lines => violations.push("the order's lines are not the cart's".into()),
            Some(order) if Some(order.total) != cart.total => {
                violations.push("the order's total is not the lines'".into())
            }
            Some(_) | None => {}
        }
        if cart.lines.iter().any(|line| line.content.quantity() == 0) {
            violations.push("a line of nothing".into());
        }
        if self.checkout().is_some() != (cart.state == CartState::CheckingOut) {
            violations.push(format_smolstr!("the cart is {}, and its checkout says otherwise", cart.state.as_str()));
        }
        if cart.ended.is_some() != matches!(cart.state, CartState::Canceled | CartState::Expired) {
            violations.push(format_smolstr!("the cart is {}, and {:?} is why", cart.state.as_str(), cart.ended));
        }
        let payment = self.record().map(|record| record.payment.clone());
        let refunds = self.record().map_or_else(Vec::new, |record| record.refunds.clone());
        let paid: i128 = refunds.iter().map(|refund| i128::from(refund.amount.amount)).sum();
        if cart.total.is_some_and(|total| paid > i128::from(total.amount)) {
            violations.push("more was refunded than the order came to".into());
        }
        if self.payments().pending > 0 && !self.unfinished() {
            violations.push("a payment is open, but the cart does not ask for it".into());
        }
        let (voids, owed) = (self.voids().to_vec(), self.outbox.len() as u32);
        let attempt = self.attempts().map(|attempts| attempts.count).filter(|count| *count > 0);
        Some(CartAudit { holds: self.claims(), cart, payment, refunds, voids, attempt, owed, violations })
    }

    /// The view of a cart that is about to be opened.
    pub(super) fn fresh_view(id: CartId, customer: Option<Id>, at: Timestamp, deadline: Timestamp) -> CartView {
        CartView {
            id,
            state: CartState::Active,
            customer,
            opened_at: at,
            modified_at: at,
            deadline,
            lines: Vec::new(),
            lines_version: 0,
            taken: Vec::new(),
            total: None,
            order: None,
            ended: None,
        }
    }

    pub(super) fn lines(&self) -> Vec<LineView> {
        let lines = self.body.as_ref().map_or(&[][..], |body| &body.lines);
        let done = self.state() == Some(CartState::Done);
        let view =
            |line: &Line| LineView { line: line.number, item: line.item.clone(), late: !done && line.hold.is_none() };
        lines.iter().map(view).collect()
    }
}

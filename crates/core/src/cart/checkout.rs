//! What a cart decides about paying: the attempt, its end, and the order.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{CART_CHECKOUTS_MAX, Cart, Checkout, Line};
use crate::{
    answer::{CartState, LineView, Order},
    command::{Expect, Payment, Shipping},
    event::{CartEvent, Reserved},
    id::{Entity, HoldId, Id, Request, RequestHash},
    payment::{GatewayCall, PaymentKey},
    planted,
    portion::Content,
    refusal::{CartDifference, Refusal},
    time::Timestamp,
};

impl Cart {
    /// Begins a checkout, in running time and true time: at once the decision, if nothing has to be asked before it; else
    /// the first step, by which lines are frozen.
    pub(crate) fn decide_checkout(
        &self,
        (at, now): (Timestamp, Timestamp),
        request: Request,
        payment: &Payment,
        customer: Option<&Id>,
        shipping: Option<&Shipping>,
    ) -> Result<CartEvent, Refusal> {
        let body = self.may_change()?.ok_or_else(|| self.not_found())?;
        let Some(amount) = self.total() else { return Err(Refusal::CartEmpty) };
        let customer = self.customer_with(customer)?;
        let late = body.lines.iter().any(|line| line.hold.is_none());
        let (payment, shipping) = (payment.clone(), shipping.cloned());
        // What costs nothing needs no gateway to be sold.
        let free = amount.amount == 0;
        match &payment {
            Payment::Recorded { .. } | Payment::Gateway { .. } if !late && (free || payment.is_recorded()) => {
                let order = self.order_of(now, customer, payment, shipping);
                Ok(CartEvent::CheckedOut { order: Arc::new(order), reserved: Vec::new(), reference: None, request })
            }
            Payment::Recorded { .. } | Payment::Gateway { .. } => {
                if late {
                    // What cannot be set aside is disowned, and that is remembered.
                    self.may_remember()?;
                }
                // So is how the payment ends: there must be room for it before the gateway is asked.
                if !planted::is("outcomes of payments without a bound") {
                    self.may_remember_outcome()?;
                }
                let (begun, attempts) = body.payment.as_ref().map_or((0, 0), |paying| (paying.begun, paying.attempts));
                if begun >= CART_CHECKOUTS_MAX && !planted::is("checkouts without a bound") {
                    let text = format_smolstr!("the cart has begun {CART_CHECKOUTS_MAX} checkouts; use another cart");
                    return Err(Refusal::BadRequest(text));
                }
                for (number, ..) in self.late_lines() {
                    self.late_hold(request.id, number)?;
                }
                // Paying may take a while: it extends the cart's life once, like any other use.
                let deadline = if begun == 0 { body.touched(at, core::iter::empty(), 0) } else { body.deadline };
                let Some(attempt) = attempts.checked_add(1) else {
                    return Err(Refusal::BadRequest("the cart has tried to pay too often; use another cart".into()));
                };
                let (payment, shipping) = (Box::new(payment), shipping.map(Box::new));
                Ok(CartEvent::CheckoutBegun { attempt, at, payment, customer, shipping, amount, deadline, request })
            }
        }
    }

    /// Whether the cart is what its buyer believes to buy. Lines may have been taken away since the buyer saw it.
    pub(crate) fn check_expected(&self, expect: &Expect) -> Result<(), Refusal> {
        if planted::is("an expectation not looked at") {
            return Ok(());
        }
        let Some(actual) = self.total() else { return Err(Refusal::CartEmpty) };
        let mut totals = [expect.total, expect.paid].into_iter().flatten();
        if let Some(expected) = totals.find(|expected| *expected != actual) {
            return Err(Refusal::CartDiffers(CartDifference::Total { expected, actual }));
        }
        let actual = self.body.as_ref().map_or(0, |body| body.lines_version);
        match expect.lines.filter(|expected| *expected != actual) {
            Some(expected) => Err(Refusal::CartDiffers(CartDifference::Lines { expected, actual })),
            None => Ok(()),
        }
    }

    /// The decision, when everything asked for the checkout under way was granted.
    pub(crate) fn decide_paid(&self, at: Timestamp, reserved: Vec<Reserved>, reference: Option<SmolStr>) -> CartEvent {
        let checkout = self.checkout().expect("only a checkout under way is decided");
        let Checkout { customer, payment, shipping, request, .. } = checkout.clone();
        let order = self.order_of(at, customer, payment, shipping);
        CartEvent::CheckedOut { order: Arc::new(order), reserved, reference, request }
    }

    fn order_of(&self, at: Timestamp, customer: Option<Id>, payment: Payment, shipping: Option<Shipping>) -> Order {
        let mut lines: Vec<LineView> = self.lines();
        lines.iter_mut().for_each(|line| line.late = false);
        let total = self.total_of(&lines).expect("a cart that is paid has lines");
        Order { id: self.id.order(), customer, at, lines, total, payment, shipping }
    }

    /// Lines that are set aside only now: number, entity and what they need.
    pub(crate) fn late_lines(&self) -> impl Iterator<Item = (u32, &Entity, &Content)> {
        let lines: &[Line] = self.body.as_ref().map_or(&[], |body| &body.lines);
        let late = lines.iter().filter(|line| line.hold.is_none());
        late.map(|line| (line.number, &line.entity, &line.content))
    }

    /// The hold that a checkout asks for, for a line that is set aside only then. Refused if there were too many.
    pub(crate) fn late_hold(&self, request: RequestHash, line: u32) -> Result<HoldId, Refusal> {
        // Numbers of lines are fewer than requests times lines of a request.
        let part = u16::try_from(line).map_err(|_| Refusal::BadRequest("the cart has had too many lines".into()))?;
        self.next_hold(request, part)
    }

    /// What the gateway is asked for the checkout under way; `None` if it is not asked.
    pub(crate) fn authorization(&self) -> Option<GatewayCall> {
        let checkout = self.checkout().filter(|checkout| checkout.asks_gateway())?;
        match &checkout.payment {
            Payment::Recorded { .. } => None,
            Payment::Gateway { source, .. } => {
                let key = PaymentKey { cart: self.id, attempt: checkout.attempt };
                let (amount, source) = (checkout.amount, source.clone());
                Some(GatewayCall::Authorize { key, amount, source, order: self.id.order() })
            }
        }
    }

    /// Money was set aside for an attempt that is not under way. `None` if there is nothing to be done about it: it paid the
    /// order, or is given up already.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if there never was such an attempt.
    pub(crate) fn decide_stray(&self, attempt: u32, reference: &SmolStr) -> Result<Option<CartEvent>, Refusal> {
        let body = self.body.as_ref().ok_or_else(|| self.not_found())?;
        let paying = body.payment.as_ref().filter(|paying| (1..=paying.attempts).contains(&attempt));
        let Some(paying) = paying else {
            let key = PaymentKey { cart: self.id, attempt };
            return Err(Refusal::NotFound(smol_str::format_smolstr!("payment {key}")));
        };
        let paid = body.done.as_ref().is_some_and(|done| done.attempt == attempt);
        let known = paid || paying.voids.iter().any(|void| void.attempt == attempt);
        Ok((!known).then(|| CartEvent::StrayAuthorized { attempt, reference: reference.clone() }))
    }

    /// Whether an attempt is the one under way.
    pub(crate) fn is_paying(&self, attempt: u32) -> bool {
        self.state() == Some(CartState::CheckingOut)
            && self.checkout().is_some_and(|checkout| checkout.attempt == attempt)
    }
}

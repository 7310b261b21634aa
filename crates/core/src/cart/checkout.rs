//! Decisions of a cart about a checkout, its attempt, its end, and the order.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{Body, CART_CHECKOUTS_MAX, Cart, Checkout, Line};
use crate::{
    answer::{CartState, LineView, Order},
    command::{Expect, Payment, Shipping},
    event::{CartEvent, Reserved},
    holder::Holder,
    id::{Entity, HoldId, Id, Request, RequestHash},
    payment::{GatewayCall, PaymentKey, next_attempt},
    planted,
    portion::Content,
    refusal::{CartDifference, Refusal},
    rules::Rules,
    terms::bad,
    time::Timestamp,
};

impl Cart {
    /// Decides a checkout at once if nothing has to be asked before. Otherwise the first step begins it and freezes the lines.
    /// The instants are running time and true time.
    pub(crate) fn decide_checkout(
        &self,
        (at, now, rules): (Timestamp, Timestamp, &Rules),
        request: Request,
        payment: &Payment,
        (customer, shipping): (Option<&Id>, Option<&Shipping>),
        holder: Option<Holder>,
    ) -> Result<CartEvent, Refusal> {
        let body = self.may_change()?.ok_or_else(|| self.not_found())?;
        let Some(amount) = self.total() else { return Err(Refusal::CartEmpty) };
        let customer = self.customer_with(customer)?;
        let late = body.lines.iter().any(|line| line.hold.is_none());
        let (payment, shipping) = (payment.clone(), shipping.cloned());
        let asks_gateway = amount.amount != 0 && !payment.is_recorded();
        if !late && !asks_gateway {
            let order = self.order_of(now, customer, payment, shipping);
            return Ok(CartEvent::CheckedOut {
                at,
                order: Arc::new(order),
                reserved: Vec::new(),
                reference: None,
                request,
            });
        }
        let (attempt, deadline) = self.check_attempt((at, rules), body, request, late)?;
        let (payment, shipping) = (Box::new(payment), shipping.map(Box::new));
        let holder = holder.filter(|_| late);
        Ok(CartEvent::CheckoutBegun { attempt, at, payment, customer, shipping, amount, deadline, request, holder })
    }

    /// The number of the next attempt to pay, and the deadline of a cart that begins it.
    fn check_attempt(
        &self,
        (at, rules): (Timestamp, &Rules),
        body: &Body,
        request: Request,
        late: bool,
    ) -> Result<(u32, Timestamp), Refusal> {
        if late {
            // A hold that cannot be set aside is disowned, and that is remembered.
            self.may_remember()?;
        }
        // The outcome of the payment is remembered too. There must be room for it before the gateway is asked.
        if !planted::is("outcomes of payments without a bound") {
            self.may_remember_outcome()?;
        }
        let (begun, attempts) = self.attempts().map_or((0, 0), |attempts| (attempts.begun, attempts.count));
        if begun >= CART_CHECKOUTS_MAX && !planted::is("checkouts without a bound") {
            return bad(format_smolstr!("the cart has begun {CART_CHECKOUTS_MAX} checkouts; use another cart"));
        }
        for (number, ..) in self.late_lines() {
            self.late_hold(request.id, number)?;
        }
        let Some(attempt) = next_attempt(attempts, rules.payment_epoch) else {
            return bad("the cart has tried to pay too often; use another cart".into());
        };
        // A payment may take a while. The first one extends the cart's life, like any other use.
        Ok((attempt, if begun == 0 { body.touched(at) } else { body.deadline }))
    }

    /// Checks that the cart has what its buyer expects to buy. Lines may have been taken away since the buyer saw it.
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

    /// Decides the checkout under way, when everything that was asked for it is granted.
    /// The instants are running time and true time.
    pub(crate) fn decide_paid(
        &self,
        (at, now): (Timestamp, Timestamp),
        reserved: Vec<Reserved>,
        reference: Option<SmolStr>,
    ) -> CartEvent {
        let checkout = self.checkout().expect("only a checkout under way is decided");
        let Checkout { customer, payment, shipping, request, .. } = checkout.clone();
        let order = self.order_of(now, customer, payment, shipping);
        CartEvent::CheckedOut { at, order: Arc::new(order), reserved, reference, request }
    }

    fn order_of(&self, at: Timestamp, customer: Option<Id>, payment: Payment, shipping: Option<Shipping>) -> Order {
        let mut lines: Vec<LineView> = self.lines();
        lines.iter_mut().for_each(|line| line.late = false);
        let total = self.total().expect("a cart that is paid has lines");
        Order { id: self.id.order(), customer, at, lines, total, payment, shipping }
    }

    /// Lines that are set aside only at the checkout, each with number, entity and content.
    pub(crate) fn late_lines(&self) -> impl Iterator<Item = (u32, &Entity, &Content)> {
        let lines: &[Line] = self.body.as_ref().map_or(&[], |body| &body.lines);
        let late = lines.iter().filter(|line| line.hold.is_none());
        late.map(|line| (line.number, &line.entity, &line.content))
    }

    /// The hold that a checkout asks for, for a line that is set aside only now. Refused after too many attempts.
    pub(crate) fn late_hold(&self, request: RequestHash, line: u32) -> Result<HoldId, Refusal> {
        // A cart has fewer line numbers than requests times lines of a request.
        let part = u16::try_from(line).map_err(|_| Refusal::BadRequest("the cart has had too many lines".into()))?;
        self.next_hold(request, part)
    }

    /// The call to the gateway for the checkout under way, or `None` if the gateway is not asked.
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

    /// When the payment under way has to be over. `None` if its lines have no share that ends.
    pub(crate) fn payment_ends_at(&self) -> Option<Timestamp> {
        self.checkout().filter(|checkout| checkout.asks_gateway())?;
        self.body.as_ref()?.payment_ends_at().filter(|_| !planted::is("a payment that nobody confirms keeps its seats"))
    }

    /// Gives up money that was set aside for an attempt that is not under way. `None` if the attempt paid the order, or is given
    /// up already.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if there never was such an attempt.
    pub(crate) fn decide_stray(&self, attempt: u32, reference: &SmolStr) -> Result<Option<CartEvent>, Refusal> {
        if self.is_tombstone() {
            return Err(self.not_found());
        }
        let attempts = self.attempts().filter(|attempts| (1..=attempts.count).contains(&attempt));
        let Some(attempts) = attempts else {
            let key = PaymentKey { cart: self.id, attempt };
            return Err(Refusal::NotFound(format_smolstr!("payment {key}")));
        };
        let paid = self.record().is_some_and(|record| record.attempt == attempt);
        let known = paid || attempts.void(attempt).is_some();
        Ok((!known).then(|| CartEvent::StrayAuthorized { attempt, reference: reference.clone() }))
    }

    /// Whether an attempt is the one under way.
    pub(crate) fn is_paying(&self, attempt: u32) -> bool {
        self.state() == Some(CartState::CheckingOut)
            && self.checkout().is_some_and(|checkout| checkout.attempt == attempt)
    }
}

//! A checkout of more than one step. Late lines are set aside, the gateway is asked, and only then the cart decides. The next
//! leader can repeat all of it from the cart's committed state.

use alloc::{boxed::Box, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{
    CartHost,
    parts::{Buyer, Part, Parts, answer_all, granted_line, one_refusal},
};
use crate::{
    cart::{Cart, PAYMENT_STOPS_MS},
    command::{Want, WantedLine},
    event::{CartEvent, Reserved},
    host::{Effect, Stage},
    id::{Entity, HoldId, Id},
    money::Money,
    payment::{GatewayCall, GatewayOutcome, OnDecline, PaymentFailure, PaymentKey, PaymentStep, Settlement},
    planted,
    portion::Content,
    refusal::{Refusal, Shortage},
    time::{TIMESTAMP_MAX, Timestamp},
};

/// A checkout under way.
pub(super) struct PendingCheckout<R> {
    pub(super) waiting: Vec<R>,
    /// When waiting clients are answered that the outcome is not known yet.
    pub(super) until: Timestamp,
    /// Lines being set aside.
    reserve: Option<Parts>,
    /// When the gateway is asked again, if its last answer was an unknown outcome.
    again_at: Option<Timestamp>,
    tries: u32,
    /// Holds that were set aside, for the decision.
    reserved: Vec<Reserved>,
    /// When the payment has to be over, if these holds end.
    ends_at: Option<Timestamp>,
    /// Whether another host began it, and may have asked the gateway.
    resumed: bool,
}

impl<R> PendingCheckout<R> {
    /// Whether this hold may still become the hold of a line.
    pub(super) fn expects(&self, entity: &Entity, hold: HoldId) -> bool {
        let reserved = |reserved: &Reserved| match entity {
            Entity::Customer(_) => reserved.quota.as_ref().is_some_and(|quota| quota.hold == hold),
            _ => reserved.hold == hold,
        };
        self.reserve.as_ref().is_some_and(|parts| parts.expects(entity, hold)) || self.reserved.iter().any(reserved)
    }

    /// Lines being set aside.
    pub(super) fn reserving(&mut self) -> Option<&mut Parts> {
        self.reserve.as_mut()
    }

    /// When the payment has to be over, because something that the cart holds or has set aside ends.
    fn payment_ends_at(&self, cart: &Cart) -> Option<Timestamp> {
        let set_aside = self.ends_at.filter(|_| !planted::is("a payment that nobody confirms keeps its seats"));
        cart.payment_ends_at().into_iter().chain(set_aside).min()
    }

    /// When it wants to be woken.
    pub(super) fn timers(&self) -> impl Iterator<Item = Timestamp> {
        let asks = self.reserve.as_ref().map(|parts| parts.again_at);
        let waits = (!self.waiting.is_empty()).then_some(self.until);
        asks.into_iter().chain(waits).chain(self.again_at)
    }
}

impl<R> CartHost<R> {
    /// Asks for the first thing that the checkout under way needs. The effects are to be carried out when its beginning is
    /// committed.
    pub(super) fn begin_paying(&mut self, stage: &mut Stage<'_, R>, waiting: Vec<R>, resumed: bool) -> Vec<Effect<R>> {
        let cart = stage.entity.cart().expect("a cart that is checking out is kept");
        let checkout = cart.checkout().expect("a checkout is under way");
        let (request, customer, holder) = (checkout.request.id, checkout.customer.clone(), checkout.holder);
        let mut list = Vec::new();
        for (number, entity, content) in cart.late_lines() {
            let want = match content {
                Content::Units { quantity, .. } => Want::Units { quantity: *quantity, now: true },
                other => panic!("only units are validated at the checkout, not {other:?}"),
            };
            let mut part = match cart.late_hold(request, number) {
                Ok(hold) => Part::new(WantedLine::new(entity.clone(), want), hold),
                Err(refusal) => Part::refused(WantedLine::new(entity.clone(), want), cart.no_hold(request), refusal),
            };
            part.line = Some(number);
            list.push(part);
        }
        let again_at = stage.at.after(stage.rules.ask_again_ms);
        let until = stage.at.after(stage.rules.payment_wait_ms);
        let mut paying = PendingCheckout {
            waiting,
            until,
            reserve: None,
            again_at: None,
            tries: 0,
            reserved: Vec::new(),
            ends_at: None,
            resumed,
        };
        let effects = if list.is_empty() {
            let call = cart.authorization().expect("without late lines only a gateway is waited for");
            Vec::from([Effect::Pay(call)])
        } else {
            // Lines of sessions were set aside when they were held.
            // A session has set its lines aside already, so attributes decide nothing here.
            let tells_customer = stage.has_offers();
            let buyer = Buyer { customer, holder, desk: false, attributes: Vec::new(), tells_customer };
            let parts = Parts { list, buyer, again_at };
            let asks = parts.asks(stage.life_ms()).collect();
            paying.reserve = Some(parts);
            asks
        };
        self.paying = Some(Box::new(paying));
        // A checkout that goes on at another host may have no hold left to ask for.
        self.conclude_reserving(stage);
        effects
    }

    /// Whether lines are being set aside for the checkout. The gateway was not asked yet.
    fn is_reserving(&self) -> bool {
        self.paying.as_ref().is_some_and(|paying| paying.reserve.is_some())
    }

    /// Goes on when everything late is set aside, or gives up if something cannot be.
    pub(super) fn conclude_reserving(&mut self, stage: &mut Stage<'_, R>) {
        let Some(paying) = &mut self.paying else { return };
        let Some(parts) = paying.reserve.take_if(|parts| parts.complete()) else { return };
        let numbered = |(place, refusal): (u16, Refusal)| {
            let line = parts.list[usize::from(place)].line.unwrap_or_default();
            (u16::try_from(line).unwrap_or(u16::MAX), refusal)
        };
        let refusals: Vec<(u16, Refusal)> = parts.refusals().into_iter().map(numbered).collect();
        if let Some(refusal) = shortage(&refusals).or_else(|| one_refusal(refusals, parts.list.len())) {
            // Granted holds can only be disowned while the checkout is under way, because they are no lines yet.
            let asked = stage.entity.cart().and_then(Cart::authorization).is_some();
            let asked = paying.resumed && asked;
            let void = asked && !planted::is("a void left out when a resumed checkout falls short");
            self.undo(stage, &parts);
            let why = Failure::Short(refusal);
            return self.give_up(stage, Abandonment { why, release: false, asked, void, reference: None });
        }
        let reserved = |part: &Part| {
            let line = granted_line(part).expect("every part is granted");
            let (hold, revision) = (line.granted.hold, line.granted.revision);
            Reserved { line: part.line.expect("late lines are lines"), hold, revision, quota: line.quota }
        };
        paying.reserved = parts.list.iter().map(reserved).collect();
        let lives_ms = parts.list.iter().filter_map(|part| granted_line(part)?.granted.life_ms);
        paying.ends_at = lives_ms.min().map(|life_ms| stage.at.after(life_ms).after(PAYMENT_STOPS_MS));
        let cart = stage.entity.cart().expect("a cart that is checking out is kept");
        match cart.authorization() {
            // Only after a read. A repeated ask may be granted before the beginning of the checkout is committed, and only the
            // deposed leader knows of a checkout that it began.
            Some(call) if planted::is("a gateway asked before the checkout is committed") => {
                stage.turn.now.push(Effect::Pay(call));
            }
            Some(call) => stage.turn.read.push(Effect::Pay(call)),
            None => self.decide(stage, None),
        }
    }

    /// Decides the checkout.
    fn decide(&mut self, stage: &mut Stage<'_, R>, reference: Option<SmolStr>) {
        let paying = *self.paying.take().expect("a checkout is under way");
        let cart = stage.entity.cart().expect("a cart that is checking out is kept");
        let event = cart.decide_paid((stage.at, stage.now), paying.reserved, reference);
        stage.write(event);
        for from in paying.waiting {
            self.answer_when_sold(stage, from);
        }
    }

    /// Ends the checkout without an order.
    fn give_up(&mut self, stage: &mut Stage<'_, R>, how: Abandonment) {
        let paying = *self.paying.take().expect("a checkout is under way");
        let held: Vec<_> = paying.reserve.iter().flat_map(Parts::perhaps_held).collect();
        let reserved = paying.reserved.iter().flat_map(|reserved| {
            let cart = stage.entity.cart();
            let entity = cart.and_then(|cart| cart.line(reserved.line).ok()).map(|(entity, _)| entity.clone());
            let customer: Option<&Id> = cart.and_then(Cart::checkout).and_then(|checkout| checkout.customer.as_ref());
            let quota = reserved.quota.as_ref().zip(customer);
            let quota = quota.map(|(quota, customer)| (Entity::Customer(customer.clone()), quota.hold, quota.revision));
            entity.map(|entity| (entity, reserved.hold, reserved.revision)).into_iter().chain(quota)
        });
        let held: Vec<_> = held.into_iter().chain(reserved).collect();
        if !held.is_empty() {
            self.disown(stage, held);
        }
        let Abandonment { why, release, asked, void, reference } = how;
        let (failure, refusal) = match why {
            Failure::Short(refusal) => (None, refusal),
            Failure::Payment(failure) => {
                let refusal = failure.refusal();
                (Some(failure), refusal)
            }
        };
        // The end of the payment and the state of the cart after it are one event. A repeat never finds one without the other.
        let event = CartEvent::CheckoutAbandoned { at: stage.at, failure, release, asked, void, reference };
        stage.write(event);
        answer_all(stage, paying.waiting, Err(refusal));
    }

    /// Ends the checkout, because the payment failed. With `void` the gateway may have set money aside.
    fn fail_payment(
        &mut self,
        stage: &mut Stage<'_, R>,
        failure: PaymentFailure,
        void: bool,
        reference: Option<SmolStr>,
    ) {
        let checkout = stage.entity.cart().and_then(Cart::checkout).expect("a checkout is under way");
        let release = checkout.on_decline(stage.rules.on_decline) == OnDecline::Release;
        let why = Failure::Payment(failure);
        self.give_up(stage, Abandonment { why, release, asked: true, void, reference });
    }

    /// Ends the checkout before it is decided, and leaves the cart active. The gateway may set the money aside later or have done so,
    /// so it is owed a void if it was asked.
    pub(super) fn withdraw(&mut self, stage: &mut Stage<'_, R>, failure: PaymentFailure) {
        let has_gateway = stage.entity.cart().and_then(Cart::authorization).is_some();
        let paying = self.paying.as_ref().expect("a checkout is under way");
        // While late lines are being set aside, only an earlier host can have asked.
        let asked = has_gateway && (paying.resumed || paying.reserve.is_none());
        let void = asked && !planted::is("a void left out when a checkout is withdrawn");
        let why = Failure::Payment(failure);
        self.give_up(stage, Abandonment { why, release: false, asked, void, reference: None });
    }

    /// The gateway, or an operator in its place, reports how a step of an attempt ended.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if there is no such attempt.
    pub(super) fn paid(
        &mut self,
        stage: &mut Stage<'_, R>,
        key: PaymentKey,
        step: PaymentStep,
        outcome: GatewayOutcome,
    ) -> Result<(), Refusal> {
        let cart = stage.entity.cart().ok_or_else(|| stage.entity.not_found())?;
        if key.cart != stage.cart_id() {
            return Err(Refusal::NotFound(format_smolstr!("payment {key}")));
        }
        let outcome = fitting(step, outcome);
        match (step, outcome) {
            (PaymentStep::Authorize, GatewayOutcome::Authorized { reference, amount }) => {
                return self.authorized(stage, key.attempt, reference, amount);
            }
            (PaymentStep::Authorize, GatewayOutcome::Declined { reason } | GatewayOutcome::Failed { reason }) => {
                if cart.is_paying(key.attempt) && !self.is_reserving() {
                    self.fail_payment(stage, PaymentFailure::Declined { by_operator: false, reason }, false, None);
                }
            }
            (PaymentStep::Authorize, GatewayOutcome::Unknown { .. }) => {
                if let Some(paying) = self.paying.as_mut().filter(|_| cart.is_paying(key.attempt)) {
                    let ends_at = paying.payment_ends_at(cart).unwrap_or(TIMESTAMP_MAX);
                    let again_at = stage.at.after(stage.rules.payment_again_after(paying.tries));
                    paying.again_at = Some(again_at.min(ends_at.max(stage.at)));
                    paying.tries = paying.tries.saturating_add(1);
                }
            }
            (step, GatewayOutcome::Unknown { .. }) => {
                if let Some((number, _)) = cart.outbox().payment(key, step) {
                    self.mail.note_unknown(number, stage.rules, stage.at);
                }
            }
            (step, outcome) => {
                let failed = match &outcome {
                    GatewayOutcome::Declined { reason } | GatewayOutcome::Failed { reason } => Some(reason),
                    _ => None,
                };
                let event = match step {
                    PaymentStep::Capture => cart.decide_captured(key.attempt, failed),
                    PaymentStep::Void => cart.decide_voided(key.attempt, failed),
                    PaymentStep::Refund(number) => cart.decide_paid_back(key.attempt, number, failed),
                    PaymentStep::Authorize => None,
                };
                self.close_step(stage, key, step, event);
            }
        }
        Ok(())
    }

    /// The gateway has authorized an attempt.
    fn authorized(
        &mut self,
        stage: &mut Stage<'_, R>,
        attempt: u32,
        reference: SmolStr,
        amount: Money,
    ) -> Result<(), Refusal> {
        let cart = stage.entity.cart().ok_or_else(|| stage.entity.not_found())?;
        if !cart.is_paying(attempt) {
            let event = cart.decide_stray(attempt, &reference)?;
            stage.write(event);
            return Ok(());
        }
        if self.is_reserving() {
            // The gateway was not asked yet. It will answer again when it is.
            return Ok(());
        }
        let asked = cart.checkout().expect("it is being paid").amount;
        if amount == asked {
            self.decide(stage, Some(reference));
        } else {
            let failure = PaymentFailure::AmountMismatch { asked, got: amount };
            self.fail_payment(stage, failure, true, Some(reference));
        }
        Ok(())
    }

    /// Records that a step after the authorization is over. The gateway is not asked for it any more.
    fn close_step(&mut self, stage: &mut Stage<'_, R>, key: PaymentKey, step: PaymentStep, event: Option<CartEvent>) {
        let owed = stage.entity.cart().and_then(|cart| cart.outbox().payment(key, step));
        let number = owed.map(|(number, _)| number);
        stage.write(event);
        number.into_iter().for_each(|number| self.mail.acknowledge_payment(number));
    }

    /// An operator reports how a step of an attempt ended.
    ///
    /// # Errors
    /// Why the report does not fit the attempt.
    pub(super) fn settle_attempt(
        &mut self,
        stage: &mut Stage<'_, R>,
        attempt: u32,
        outcome: Settlement,
    ) -> Result<(), Refusal> {
        let cart = stage.entity.cart().ok_or_else(|| stage.entity.not_found())?;
        let key = PaymentKey { cart: stage.cart_id(), attempt };
        match (outcome, cart.authorization().filter(|_| cart.is_paying(attempt))) {
            (Settlement::Authorized { reference }, Some(GatewayCall::Authorize { amount, .. })) => {
                if self.is_reserving() {
                    return Err(Refusal::BadRequest("the gateway was not asked for this attempt yet".into()));
                }
                self.paid(stage, key, PaymentStep::Authorize, GatewayOutcome::Authorized { reference, amount })
            }
            (Settlement::Authorized { reference }, _) => {
                let event = cart.decide_stray(attempt, &reference)?;
                stage.write(event);
                Ok(())
            }
            (Settlement::Declined, Some(_)) => {
                let reason = "an operator has said so".into();
                // The gateway may have set the money aside nevertheless.
                self.fail_payment(stage, PaymentFailure::Declined { by_operator: true, reason }, true, None);
                Ok(())
            }
            (Settlement::Declined, None) => cart.decide_stray(attempt, &SmolStr::default()).map(|_| ()),
            (Settlement::Captured, _) => self.settle_step(stage, key, PaymentStep::Capture),
            (Settlement::Voided, _) => self.settle_step(stage, key, PaymentStep::Void),
            (Settlement::Refunded { refund }, _) => self.settle_step(stage, key, PaymentStep::Refund(refund)),
        }
    }

    fn settle_step(&mut self, stage: &mut Stage<'_, R>, key: PaymentKey, step: PaymentStep) -> Result<(), Refusal> {
        let cart = stage.entity.cart().ok_or_else(|| stage.entity.not_found())?;
        let event = cart.decide_done(key.attempt, step)?;
        self.close_step(stage, key, step, event);
        Ok(())
    }

    /// Asks the gateway again after an unknown outcome, and answers clients that have waited long enough.
    pub(super) fn pay_again(&mut self, stage: &mut Stage<'_, R>) {
        let Some(paying) = &mut self.paying else { return };
        if stage.at >= paying.until {
            let waiting = core::mem::take(&mut paying.waiting);
            answer_all(stage, waiting, Err(Refusal::PaymentPending));
        }
        if paying.again_at.is_some_and(|again_at| stage.at >= again_at) {
            paying.again_at = None;
            // The gateway said last that it does not know, and may still set the money aside. A void ends that in any state.
            let ends_at = stage.entity.cart().and_then(|cart| paying.payment_ends_at(cart));
            if paying.reserve.is_none() && ends_at.is_some_and(|ends_at| stage.at >= ends_at) {
                let reason = "the payment took longer than these may be held".into();
                return self.fail_payment(stage, PaymentFailure::Declined { by_operator: false, reason }, true, None);
            }
            // The gateway is not asked before everything is set aside. The unknown outcome was of another host's call.
            let cart = stage.entity.cart().filter(|_| paying.reserve.is_none());
            let call = cart.and_then(Cart::authorization);
            stage.turn.read.extend(call.map(Effect::Pay));
        }
    }
}

/// The outcome if it fits its step. Any other outcome counts as unknown, and the step is asked for again.
fn fitting(step: PaymentStep, outcome: GatewayOutcome) -> GatewayOutcome {
    let fits = match &outcome {
        GatewayOutcome::Authorized { .. } => step == PaymentStep::Authorize,
        GatewayOutcome::Captured => step == PaymentStep::Capture,
        GatewayOutcome::Voided => step == PaymentStep::Void,
        GatewayOutcome::Refunded => matches!(step, PaymentStep::Refund(_)),
        GatewayOutcome::Declined { .. } | GatewayOutcome::Failed { .. } | GatewayOutcome::Unknown { .. } => true,
    };
    if fits {
        return outcome;
    }
    GatewayOutcome::Unknown { reason: format_smolstr!("{step:?} was answered with {outcome:?}") }
}

/// Why a checkout is given up.
enum Failure {
    /// Late lines could not be set aside. Nothing has changed, and a repeat tries again.
    Short(Refusal),
    /// The payment failed. A repeat gets the same answer.
    Payment(PaymentFailure),
}

/// How a checkout is abandoned.
struct Abandonment {
    why: Failure,
    release: bool,
    asked: bool,
    void: bool,
    reference: Option<SmolStr>,
}

/// One refusal that names every product that fell short, if that is all that is wrong.
fn shortage(refusals: &[(u16, Refusal)]) -> Option<Refusal> {
    let mut all: Vec<Shortage> = Vec::new();
    for (_, refusal) in refusals {
        let Refusal::OutOfStock(short) = refusal else { return None };
        all.extend(short.iter().cloned());
    }
    (!all.is_empty()).then_some(Refusal::OutOfStock(all))
}

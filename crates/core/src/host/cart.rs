//! The host of a cart. It asks inventories for holds, writes lines, pays, and sends its decisions.
//!
//! It never waits inside a turn. Asks without a reply are pending here, and are lost in a crash. Inventories then ask about holds
//! that the cart does not know, and a checkout begins again from the committed state. Messages that are owed after a decision are
//! in the cart's outbox and survive.

mod adding;
mod parts;
mod paying;

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{Effect, Input, Stage, Turn, WAITERS_MAX, mail::Mail, speculation::Speculation};
use crate::{
    answer::{Answer, Answered, CartState, KeptAnswer, Outcome, TakenAway, Taker},
    ask::{Ask, Reply},
    cart::{Cart, Recalled, committed_after},
    command::{CartCommand, Command, Expect, Payment, Shipping},
    event::{CartEvent, Remembered},
    holder::Holder,
    id::{CartId, Entity, HoldId, Id, Request},
    payment::{PaymentFailure, Settlement},
    planted,
    portion::SeatPrice,
    push_exact::push_exact,
    refusal::Refusal,
    time::Timestamp,
};
#[cfg(debug_assertions)]
use crate::{
    event::Event,
    version::{NEXT, newest},
};
use adding::{Adding, LineChange, Queued};
use parts::Buyer;
use paying::PendingCheckout;

pub(super) struct CartHost<R> {
    resumed: bool,
    /// Lines that were asked for.
    adding: Vec<Adding<R>>,
    /// Changes that wait for them.
    queued: VecDeque<Queued<R>>,
    /// A checkout that waits for them. Boxed, as few carts have one at a time.
    checkout: Option<Box<WaitingCheckout<R>>>,
    /// A checkout that takes more than one step.
    paying: Option<Box<PendingCheckout<R>>>,
    /// Clients that wait for the sales of the order.
    settling: Option<Settling<R>>,
    mail: Mail,
}

struct WaitingCheckout<R> {
    request: Request,
    payment: Payment,
    customer: Option<Id>,
    shipping: Option<Shipping>,
    expect: Expect,
    holder: Option<Holder>,
    waiting: Vec<R>,
    /// The deadline of its last waiting client. From then on the checkout is not decided.
    waits_until: Timestamp,
    until: Timestamp,
}

struct Settling<R> {
    waiting: Vec<R>,
    until: Timestamp,
}

impl<R> CartHost<R> {
    pub(super) fn new() -> CartHost<R> {
        CartHost {
            resumed: false,
            adding: Vec::new(),
            queued: VecDeque::new(),
            checkout: None,
            paying: None,
            settling: None,
            mail: Mail::default(),
        }
    }

    pub(super) fn idle(&self, entity: &Speculation) -> bool {
        let owes = entity.cart().is_some_and(Cart::unfinished);
        let waits = self.checkout.is_some() || self.paying.is_some() || self.settling.is_some();
        self.adding.is_empty() && self.queued.is_empty() && !waits && !owes
    }

    /// Handles an input. What the time has ended is ended before it, and what the input has made possible follows in the same turn.
    pub(super) fn handle(&mut self, stage: &mut Stage<'_, R>, input: Input<R>) {
        if !self.resumed {
            self.resumed = true;
            self.mail.resume(stage);
            if stage.entity.cart().is_some_and(|cart| cart.checkout().is_some()) {
                let effects = self.begin_paying(stage, Vec::new(), true);
                stage.turn.now.extend(effects);
            }
        }
        self.expire_if_due(stage);
        self.give_up_late(stage);
        match input {
            Input::Command { from, request, command, timeout_ms } => {
                self.command(stage, (from, stage.at.after(timeout_ms)), request, command);
            }
            Input::Ask { from, ask } => self.on_ask(stage, from, ask),
            Input::Reply { from, reply } => self.on_reply(stage, from, reply),
            Input::Paid { key, step, outcome } => {
                // An outcome of an unknown attempt is the gateway's mistake, and has no receiver.
                let _ = self.paid(stage, key, step, outcome);
            }
            Input::Wake => {
                self.ask_again(stage);
                self.pay_again(stage);
            }
        }
        // A checkout that was given up may leave a cart whose time is over.
        self.expire_if_due(stage);
        self.check_out_if_ready(stage);
        self.mail.send_due(stage);
        self.answer_if_sold(stage);
        self.set_timers(stage.turn);
        #[cfg(debug_assertions)]
        rehearse(stage);
    }

    /// Expires the cart before any input if its time is over (P8).
    fn expire_if_due(&mut self, stage: &mut Stage<'_, R>) {
        let Some(cart) = stage.entity.cart() else { return };
        let Some(event) = cart.decide_expiry(stage.at) else { return };
        let news = cart.claims().into_iter().map(|claim| {
            let ask = Ask::Expired { hold: claim.hold, revision: committed_after(claim.revision) };
            Effect::Ask { to: claim.entity, ask }
        });
        stage.turn.committed.extend(news);
        stage.write(event);
        self.end_pending(stage);
    }

    /// `waiter` is the receiver of the answer, and until when it waits.
    fn command(
        &mut self,
        stage: &mut Stage<'_, R>,
        waiter: (R, Timestamp),
        request: Option<Request>,
        command: Command,
    ) {
        let Command::Cart(id, command) = command else {
            panic!("{} was handed a command to {}", stage.entity.entity(), command.entity());
        };
        let (from, waits_until) = waiter;
        match command {
            CartCommand::Get | CartCommand::Order | CartCommand::Audit => {
                let outcome = self.read(stage.entity, id, &command);
                stage.turn.answer(from, outcome);
            }
            CartCommand::Paid { key, step, outcome } => {
                let result = self.paid(stage, key, step, outcome);
                let outcome = result.and_then(|()| stage.entity.ok(Answer::Done));
                stage.turn.answer(from, outcome);
            }
            CartCommand::Open { .. }
            | CartCommand::Hold { .. }
            | CartCommand::SetQuantity { .. }
            | CartCommand::SetNote { .. }
            | CartCommand::Release { .. }
            | CartCommand::Cancel
            | CartCommand::Checkout { .. }
            | CartCommand::CancelCheckout { .. }
            | CartCommand::Refund { .. }
            | CartCommand::Revoke { .. }
            | CartCommand::Settle { .. } => match request {
                None => stage.turn.answer(from, Err(Refusal::RequestIdMissing)),
                Some(request) => {
                    if let Some(from) = self.repeated(stage, (from, waits_until), request) {
                        self.change(stage, (from, waits_until), request, command);
                    }
                }
            },
        }
    }

    /// Answers a repeated request as before, or lets it wait for the answer. Gives `from` back if the request is new.
    fn repeated(&mut self, stage: &mut Stage<'_, R>, waiter: (R, Timestamp), request: Request) -> Option<R> {
        let (from, waits_until) = waiter;
        let known = stage.entity.cart().and_then(|cart| cart.recall(request));
        match known.filter(|_| !planted::is("a repeat taken for new")) {
            Some(Err(refusal)) => stage.turn.answer(from, Err(refusal)),
            Some(Ok(Recalled::Answer(answered))) => stage.turn.answer(from, Ok(*answered)),
            Some(Ok(Recalled::Order)) => self.answer_when_sold(stage, from),
            Some(Ok(Recalled::Failed(failure))) => stage.turn.answer(from, Err(failure.refusal())),
            None => return self.join(stage, (from, waits_until), request),
        }
        None
    }

    /// Lets a repeat wait for the answer of its request that is under way, which goes on for as long as one of them waits.
    fn join(&mut self, stage: &mut Stage<'_, R>, waiter: (R, Timestamp), request: Request) -> Option<R> {
        let (from, until) = waiter;
        let paid = stage.entity.cart().and_then(|cart| Some(cart.checkout()?.request));
        let adding = self.adding.iter_mut();
        let adding = adding.map(|adding| (adding.request, &mut adding.waiting, Some(&mut adding.waits_until)));
        let queued = self.queued.iter_mut();
        let queued = queued.map(|queued| (queued.request, &mut queued.waiting, Some(&mut queued.waits_until)));
        let checkout = self.checkout.iter_mut();
        let checkout =
            checkout.map(|checkout| (checkout.request, &mut checkout.waiting, Some(&mut checkout.waits_until)));
        // A checkout that has begun ends by itself.
        let paying = self.paying.iter_mut().filter_map(|paying| Some((paid?, &mut paying.waiting, None)));
        let mut under_way = adding.chain(queued).chain(checkout).chain(paying);
        let Some((first, waiting, waits_until)) = under_way.find(|(first, ..)| first.id == request.id) else {
            return Some(from);
        };
        if first.body != request.body {
            stage.turn.answer(from, Err(Refusal::RequestIdReused));
        } else if waiting.len() == WAITERS_MAX {
            stage.turn.answer(from, Err(Refusal::InProgress));
        } else {
            waiting.push(from);
            if let Some(waits_until) = waits_until {
                *waits_until = until.max(*waits_until);
            }
            if let Some(paying) = self.paying.as_mut().filter(|paying| paying.waiting.len() == 1) {
                // The first client to wait again after a bound, or after a restart.
                paying.until = paying.until.max(stage.at.after(stage.rules.payment_wait_ms));
            }
        }
        None
    }

    /// Takes a change that is no repeat. Changes of lines and checkouts may have to wait for inventories. The others are decided here.
    fn change(&mut self, stage: &mut Stage<'_, R>, waiter: (R, Timestamp), request: Request, command: CartCommand) {
        let decided = match command {
            CartCommand::Hold { .. }
            | CartCommand::SetQuantity { .. }
            | CartCommand::SetNote { .. }
            | CartCommand::Release { .. }
                if self.checkout.is_some() =>
            {
                Err(Refusal::CartNotActive(CartState::CheckingOut.as_str().into()))
            }
            CartCommand::Hold { lines, customer, guest, holder, attributes } => {
                let tells_customer = stage.has_offers();
                let buyer = Buyer { customer, holder, desk: !guest, attributes, tells_customer };
                return self.change_lines(stage, waiter, request, LineChange::Hold { lines, buyer });
            }
            CartCommand::SetQuantity { line, quantity, guest, holder, attributes } => {
                let tells_customer = stage.has_offers();
                let buyer = Buyer { customer: None, holder, desk: !guest, attributes, tells_customer };
                return self.change_lines(stage, waiter, request, LineChange::Set { line, quantity, buyer });
            }
            CartCommand::Release { line, seats } => {
                return self.change_lines(stage, waiter, request, LineChange::Release { line, seats });
            }
            CartCommand::Checkout { payment, customer, shipping, expect, holder } => {
                let (from, waits_until) = waiter;
                let (waiting, until) = (Vec::from([from]), stage.at.after(stage.rules.settle_ms));
                let checkout = WaitingCheckout {
                    request,
                    payment,
                    customer,
                    shipping,
                    expect,
                    holder,
                    waiting,
                    waits_until,
                    until,
                };
                return self.check_out_later(stage, checkout);
            }
            CartCommand::Settle { attempt, outcome } => self.settle(stage, request, attempt, outcome),
            CartCommand::CancelCheckout { by_operator } => self.cancel_checkout(stage, request, by_operator),
            other => decide(stage, request, other),
        };
        let (from, _) = waiter;
        match decided {
            Err(refusal) => stage.turn.answer(from, Err(refusal)),
            Ok(event) => {
                stage.write(event);
                let outcome = changed(stage.entity, request);
                stage.turn.answer(from, outcome);
                if stage.entity.cart().is_some_and(Cart::terminal) {
                    self.end_pending(stage);
                }
            }
        }
    }

    /// An operator says how a step of an attempt to pay ended.
    fn settle(
        &mut self,
        stage: &mut Stage<'_, R>,
        request: Request,
        attempt: u32,
        outcome: Settlement,
    ) -> Result<CartEvent, Refusal> {
        let before = stage.entity.version();
        self.settle_attempt(stage, attempt, outcome)?;
        // Settlements that change something are limited by themselves. A settlement that repeats another one needs a bound.
        if stage.entity.version() == before
            && let Some(cart) = stage.entity.cart()
            && !planted::is("settlements without a bound")
        {
            cart.may_remember_outcome()?;
        }
        Ok(CartEvent::Granted(Remembered::alone(request, KeptAnswer::Done)))
    }

    /// The buyer, or an operator, ends the attempt to pay that is under way. A cart without one is left as it is, because the
    /// attempt may have ended by itself in the meantime.
    fn cancel_checkout(
        &mut self,
        stage: &mut Stage<'_, R>,
        request: Request,
        by_operator: bool,
    ) -> Result<CartEvent, Refusal> {
        if self.checkout.is_some() {
            // It waits for lines under way, for a moment, and is no attempt yet.
            return Err(Refusal::InProgress);
        }
        let cart = stage.entity.cart().ok_or_else(|| stage.entity.not_found())?;
        if cart.checkout().is_none() {
            return cart.decide_no_checkout(request);
        }
        self.withdraw(stage, PaymentFailure::Canceled { by_operator });
        let cart = stage.entity.cart().expect("it was being paid");
        Ok(cart.decide_checkout_canceled(stage.at, request))
    }

    /// Keeps a checkout. It is decided in this turn unless lines are under way.
    fn check_out_later(&mut self, stage: &mut Stage<'_, R>, checkout: WaitingCheckout<R>) {
        let open = stage.entity.cart().map_or(Ok(None), Cart::may_change);
        let refusal = match open {
            // Without a gateway the checkout would never end.
            _ if !checkout.payment.is_recorded() && !stage.rules.gateway => {
                Refusal::BadRequest("no gateway is configured".into())
            }
            Err(refusal) => refusal,
            Ok(_) if self.checkout.is_some() => Refusal::CartNotActive(CartState::CheckingOut.as_str().into()),
            Ok(None) if self.adding.is_empty() => stage.entity.not_found(),
            Ok(_) => {
                self.checkout = Some(Box::new(checkout));
                return;
            }
        };
        parts::answer_all(stage, checkout.waiting, Err(refusal));
    }

    /// Begins or decides a checkout when nothing is under way any more, or it has waited long enough.
    fn check_out_if_ready(&mut self, stage: &mut Stage<'_, R>) {
        let quiet = self.adding.is_empty() && self.queued.is_empty();
        if !self.checkout.as_ref().is_some_and(|checkout| quiet || stage.at >= checkout.until) {
            return;
        }
        let checkout = self.checkout.take().expect("it is ready");
        let WaitingCheckout { request, payment, customer, shipping, expect, holder, waiting, waits_until: _, until: _ } =
            *checkout;
        let moment = (stage.at, stage.now, stage.rules);
        let decided = match stage.entity.cart() {
            None => Err(stage.entity.not_found()),
            Some(cart) => {
                let (customer, shipping) = (customer.as_ref(), shipping.as_ref());
                let decided = cart.decide_checkout(moment, request, &payment, (customer, shipping), holder);
                decided.and_then(|event| cart.check_expected(&expect).map(|()| event))
            }
        };
        match decided {
            Err(refusal) => parts::answer_all(stage, waiting, Err(refusal)),
            Ok(event) => {
                // Changes that are still under way are too late.
                let begun = matches!(event, CartEvent::CheckoutBegun { .. });
                let state = if begun { CartState::CheckingOut } else { CartState::Done };
                self.drop_pending(stage, &Refusal::CartNotActive(state.as_str().into()));
                stage.write(event);
                if begun {
                    let effects = self.begin_paying(stage, waiting, false);
                    stage.turn.committed.extend(effects);
                } else {
                    for from in waiting {
                        self.answer_when_sold(stage, from);
                    }
                }
            }
        }
    }

    /// Answers with the order when everything is sold, or after a bound.
    fn answer_when_sold(&mut self, stage: &mut Stage<'_, R>, from: R) {
        if !stage.entity.cart().is_some_and(|cart| cart.outbox().owes_sales()) {
            let outcome = self.checked_out(stage.entity, false);
            return stage.turn.answer(from, outcome);
        }
        let settling = self
            .settling
            .get_or_insert_with(|| Settling { waiting: Vec::new(), until: stage.at.after(stage.rules.settle_ms) });
        if settling.waiting.len() < WAITERS_MAX {
            settling.waiting.push(from);
        } else {
            let outcome = self.checked_out(stage.entity, true);
            stage.turn.answer(from, outcome);
        }
    }

    /// All sales being acknowledged does not prove that they are ours. A paused ex-leader may receive acknowledgements for its
    /// successor's order. Until its own decision is known to be committed, the answer waits for a commit or a read.
    fn answer_if_sold(&mut self, stage: &mut Stage<'_, R>) {
        let Some(settling) = &self.settling else { return };
        let sold = self.mail.sold(stage.entity);
        if !sold && stage.at < settling.until {
            return;
        }
        let settling = self.settling.take().expect("looked at above");
        let version = stage.entity.cart().and_then(Cart::decided).expect("a done cart was decided");
        let outcome = self.checked_out(stage.entity, !sold);
        if version > stage.turn.known {
            return parts::answer_all(stage, settling.waiting, outcome);
        }
        for from in settling.waiting {
            push_exact(&mut stage.turn.now, Effect::Answer { to: from, outcome: outcome.clone() });
        }
    }

    /// Sales that are acknowledged but not written yet count. An order is not settling again after a checkout said that it is
    /// sold.
    fn read(&self, entity: &Speculation, id: CartId, command: &CartCommand) -> Outcome {
        let unknown = || entity.not_found();
        let cart = entity.cart();
        let answer = match command {
            CartCommand::Get => Answer::Cart(cart.and_then(Cart::view).ok_or_else(unknown)?),
            CartCommand::Audit => Answer::CartAudit(Box::new(cart.and_then(Cart::audit).ok_or_else(unknown)?)),
            CartCommand::Order => {
                let planted = planted::is("an order that settles again");
                let settling = |cart: &Cart| if planted { cart.outbox().owes_sales() } else { !self.mail.sold(entity) };
                let order = cart.and_then(|cart| cart.order_answer(settling(cart)));
                order.ok_or_else(|| Refusal::NotFound(format_smolstr!("order {}", id.order())))?
            }
            other => panic!("{other:?} is no read"),
        };
        entity.ok(answer)
    }

    /// The answer to a checkout and to its repeats. It follows from the decision and the sales, except for `settling`.
    fn checked_out(&self, entity: &Speculation, settling: bool) -> Outcome {
        let cart = entity.cart().expect("a done cart is kept");
        let answer = cart.checkout_answer(settling).expect("a done cart has an order");
        let at = cart.sold_at(self.mail.sales()).expect("a done cart has an order");
        Ok(Answered { answer, at })
    }

    fn on_ask(&mut self, stage: &mut Stage<'_, R>, from: Entity, ask: Ask) {
        let reply = match ask {
            Ask::Overdue { hold } => Some(self.overdue(stage, &from, hold)),
            Ask::Revoke { hold, reason } => self.revoked(stage, &from, hold, &reason),
            other => panic!("{} was asked {other:?} by {from}", stage.entity.entity()),
        };
        match reply {
            Some(reply @ Reply::NotMine { .. }) if planted::is("\"not mine\" told before it is committed") => {
                stage.turn.now.push(Effect::Reply { to: from, reply });
            }
            Some(reply) => stage.turn.reply(from, reply),
            None => {}
        }
    }

    /// Answers an inventory that asks about an overdue hold. After "not mine" the hold can never become a line.
    fn overdue(&mut self, stage: &mut Stage<'_, R>, from: &Entity, hold: HoldId) -> Reply {
        let soon_ms = stage.rules.ask_again_ms;
        if let Some(adding) = self.adding.iter_mut().find(|adding| adding.parts.expects(from, hold)) {
            adding.parts.believed_until(from, hold, stage.at.after(soon_ms));
            return Reply::MineFor { hold, life_ms: soon_ms };
        }
        if self.paying.as_ref().is_some_and(|paying| paying.expects(from, hold)) {
            return Reply::MineFor { hold, life_ms: soon_ms };
        }
        if let Some(cart) = stage.entity.cart() {
            match cart.deadline() {
                Some(deadline) if cart.owns(from, hold) && !planted::is("a hold disowned by its owner") => {
                    return Reply::MineFor { hold, life_ms: deadline.0.saturating_sub(stage.at.0) };
                }
                None if cart.checkout().is_some() && cart.owns(from, hold) => {
                    return Reply::MineFor { hold, life_ms: soon_ms };
                }
                _ if cart.outbox().owes_sale(from, hold) && !planted::is("an expiry that beats a sale") => {
                    return Reply::MineFor { hold, life_ms: soon_ms };
                }
                Some(_) | None if cart.has_disowned(hold) => return Reply::NotMine { hold },
                Some(_) | None => {}
            }
        }
        self.disown(stage, Vec::from([(from.clone(), hold, 1)]));
        Reply::NotMine { hold }
    }

    /// A canceled session, or the resource of a canceled booking, wants a hold or its sale back. The line ends, or is refunded. If
    /// the cart is being paid, the order is not decided yet, so the attempt is given up and no money is taken.
    fn revoked(&mut self, stage: &mut Stage<'_, R>, from: &Entity, hold: HoldId, reason: &SmolStr) -> Option<Reply> {
        let line = stage.entity.cart().and_then(|cart| cart.line_on(from, hold));
        let Some(line) = line else { return Some(self.overdue(stage, from, hold)) };
        let paying = stage.entity.cart().is_some_and(|cart| cart.checkout().is_some());
        if paying && !planted::is("a canceled session that lets its buyers pay") {
            self.withdraw(stage, PaymentFailure::Withdrawn { reason: reason.clone() });
        }
        let cart = stage.entity.cart().expect("it has the line");
        let event = match cart.state() {
            Some(CartState::Active) => {
                let by = match from {
                    Entity::Session(_) => Taker::Session,
                    // An operator canceled the booking.
                    _ => Taker::Operator,
                };
                let taken = TakenAway { by, reason: reason.clone() };
                cart.decide_revoke(stage.at, line, taken, None).ok()
            }
            Some(CartState::Done) if !cart.is_refunded(line) => {
                cart.decide_refund(stage.now, Some(&[line]), reason, None).ok()
            }
            // The line is being released. The inventory asks again.
            _ => None,
        };
        stage.write(event);
        None
    }

    /// Takes the reply of an inventory: to an ask of a change or a checkout under way, or to a message of the outbox. One that nothing
    /// waits for is late, and what it grants is given back.
    fn on_reply(&mut self, stage: &mut Stage<'_, R>, from: Entity, reply: Reply) {
        match reply {
            Reply::Granted(granted) => self.granted(stage, &from, granted),
            Reply::Refused { hold, revision, refusal } => self.refused(stage, &from, hold, revision, &refusal),
            Reply::Repriced { hold, revision, price, bought_as } => {
                self.repriced(stage, &from, (hold, revision), &SeatPrice { price, bought_as });
            }
            Reply::Stale { hold, revision, live } => self.stale(stage, &from, hold, revision, live),
            Reply::Released { .. } => {
                let stray = self.mail.acknowledge(stage.entity, &from, &reply).is_none();
                let stray = stray && !planted::is("late releases never forgotten");
                if stray && stage.entity.cart().is_some_and(Cart::terminal) {
                    // The inventory may remember a late release, although it was told to forget.
                    stage.turn.read.push(Effect::Ask { to: from, ask: Ask::Forget });
                }
            }
            Reply::Forgotten | Reply::Refunded { .. } | Reply::Posted { .. } | Reply::Sold { .. } => {
                _ = self.mail.acknowledge(stage.entity, &from, &reply);
            }
            // These replies are not for carts.
            Reply::MineFor { .. }
            | Reply::NotMine { .. }
            | Reply::Opened
            | Reply::OpenRefused(_)
            | Reply::Vacated
            | Reply::Listed { .. }
            | Reply::ZoneSet { .. }
            | Reply::SaleTold { .. } => {}
        }
    }

    fn disown(&mut self, stage: &mut Stage<'_, R>, holds: Vec<(Entity, HoldId, u64)>) {
        let event = stage.entity.cart_or_blank().decide_disown(holds);
        stage.write(event);
    }

    /// The cart has ended. Everything under way is refused, and every hold that was asked for is released.
    fn end_pending(&mut self, stage: &mut Stage<'_, R>) {
        let refusal = match stage.entity.cart().map(Cart::may_change) {
            Some(Err(refusal)) => refusal,
            Some(Ok(_)) | None => panic!("{} has not ended", stage.entity.entity()),
        };
        self.drop_pending(stage, &refusal);
        if let Some(checkout) = self.checkout.take() {
            parts::answer_all(stage, checkout.waiting, Err(refusal));
        }
    }

    /// Refuses changes under way, and releases the holds that they asked for.
    fn drop_pending(&mut self, stage: &mut Stage<'_, R>, refusal: &Refusal) {
        for adding in core::mem::take(&mut self.adding) {
            self.undo(stage, &adding.parts);
            parts::answer_all(stage, adding.waiting, Err(refusal.clone()));
        }
        for queued in core::mem::take(&mut self.queued) {
            parts::answer_all(stage, queued.waiting, Err(refusal.clone()));
        }
    }

    fn set_timers(&self, turn: &mut Turn<R>) {
        self.adding.iter().for_each(|adding| turn.wake(adding.parts.again_at.min(adding.waits_until)));
        self.queued.iter().for_each(|queued| turn.wake(queued.waits_until));
        self.checkout.iter().for_each(|checkout| turn.wake(checkout.until.min(checkout.waits_until)));
        self.settling.iter().for_each(|settling| turn.wake(settling.until));
        if let Some(paying) = &self.paying {
            paying.timers().for_each(|at| turn.wake(at));
        }
    }
}

impl<R> Stage<'_, R> {
    /// Writes an event of the cart, if there is one.
    fn write(&mut self, event: impl Into<Option<CartEvent>>) {
        if let Some(event) = event.into() {
            self.entity.apply_cart(event, self.turn);
        }
    }

    /// The id of the cart.
    fn cart_id(&self) -> CartId {
        let Entity::Cart(id) = *self.entity.entity() else { panic!("{} is no cart", self.entity.entity()) };
        id
    }

    /// How long the cart would live if it were touched now, in milliseconds.
    fn life_ms(&self) -> u64 {
        self.deadline().0.saturating_sub(self.at.0)
    }

    /// The cart's deadline if it were touched now. One that is not open yet may get an earlier one, for a guest.
    fn deadline(&self) -> Timestamp {
        let touched = self.entity.cart().and_then(|cart| cart.touched(self.at));
        touched.unwrap_or_else(|| self.at.after(self.rules.hold_ttl_ms.min(self.rules.cart_age_max_ms)))
    }
}

/// Decides a change that needs nothing but the cart.
fn decide<R>(stage: &Stage<'_, R>, request: Request, command: CartCommand) -> Result<CartEvent, Refusal> {
    let cart = stage.entity.cart_or_blank();
    match command {
        CartCommand::Open { customer, ttl_ms, guest } => match cart.may_change()? {
            None => cart.decide_open(stage.at, stage.rules, request, customer, ttl_ms, guest),
            Some(_) => cart.decide_open_again(stage.at, request, customer, ttl_ms),
        },
        CartCommand::SetNote { line, note } => cart.decide_note(stage.at, request, line, note),
        CartCommand::Cancel => cart.decide_cancel(stage.at, request),
        CartCommand::Refund { lines, reason } => {
            cart.decide_refund(stage.now, lines.as_deref(), &reason.into_plain(), Some(request))
        }
        CartCommand::Revoke { line, reason } => {
            let taken = TakenAway { by: Taker::Operator, reason: reason.into_plain() };
            cart.decide_revoke(stage.at, line, taken, Some(request))
        }
        other => panic!("{other:?} is decided elsewhere"),
    }
}

/// The answer to a change that was just written down.
fn changed(entity: &Speculation, request: Request) -> Outcome {
    let recalled = entity.cart().and_then(|cart| cart.recall(request));
    let Some(Ok(Recalled::Answer(answered))) = recalled else { panic!("a change is remembered") };
    Ok(*answered)
}

/// Counts the opening of a cart in the next version, which has this event more.
#[cfg(debug_assertions)]
fn rehearse<R>(stage: &mut Stage<'_, R>) {
    let opens = |event: &Event| matches!(event, Event::Cart(CartEvent::Opened { .. }));
    let may = stage.version.has(NEXT) || (newest() == NEXT && planted::is("an event before its version"));
    if may && stage.turn.events.iter().any(opens) {
        stage.write(CartEvent::Rehearsed);
    }
}

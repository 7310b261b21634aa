//! A cart at work: the coordinator. It asks sessions for seats, writes lines down, and tells sessions what it decided.
//!
//! It never waits inside a turn. What was asked and not replied is pending here, and lost in a crash; sessions then ask
//! about the holds nobody knows. What is owed after a decision is in the cart's outbox, and survives.

mod adding;

use alloc::vec::Vec;

use smol_str::format_smolstr;

use super::{Effect, Input, Stage, Turn, WAITERS_MAX, mail::Mail, speculation::Speculation};
use crate::{
    answer::{Answer, Answered, At, CartState, Outcome},
    ask::{Ask, Reply},
    cart::{Cart, Recalled},
    command::{CartCommand, Command, Payment},
    id::{CartId, Entity, HoldId, Id, Request},
    refusal::Refusal,
    time::Timestamp,
};
use adding::Adding;

/// Holds of one cart under way at a time.
const ADDING_MAX: usize = 16;

pub(super) struct CartHost<R> {
    resumed: bool,
    /// Lines that were asked for.
    adding: Vec<Adding<R>>,
    /// A checkout that waits for them.
    checkout: Option<Checkout<R>>,
    /// Clients that wait for the sells of the order.
    settling: Option<Settling<R>>,
    mail: Mail,
}

struct Checkout<R> {
    request: Request,
    payment: Payment,
    customer: Option<Id>,
    waiting: Vec<R>,
    until: Timestamp,
}

struct Settling<R> {
    waiting: Vec<R>,
    until: Timestamp,
    /// The sessions that have sold.
    sold: Vec<At>,
}

impl<R> CartHost<R> {
    pub(super) fn new() -> CartHost<R> {
        CartHost { resumed: false, adding: Vec::new(), checkout: None, settling: None, mail: Mail::default() }
    }

    pub(super) fn idle(&self, entity: &Speculation) -> bool {
        let owes = entity.cart().is_some_and(Cart::unfinished);
        self.adding.is_empty() && self.checkout.is_none() && self.settling.is_none() && !owes
    }

    pub(super) fn handle(&mut self, stage: &mut Stage<'_, R>, input: Input<R>) {
        if !self.resumed {
            self.resumed = true;
            self.mail.resume(stage);
        }
        // Whatever comes, it comes to a cart that has expired if its time is over (P8).
        if let Some(event) = stage.entity.cart().and_then(|cart| cart.decide_expiry(stage.at)) {
            stage.entity.apply_cart(event, stage.turn);
            self.end_pending(stage);
        }
        match input {
            Input::Command { from, request, command } => self.command(stage, from, request, command),
            Input::Ask { from, ask } => self.asked(stage, from, ask),
            Input::Reply { from, reply } => self.hear(stage, from, reply),
            Input::Wake => self.ask_again(stage),
        }
        self.check_out_if_ready(stage);
        self.answer_settled(stage);
        self.mail.carry(stage);
        self.set_timers(stage.turn);
    }

    fn command(&mut self, stage: &mut Stage<'_, R>, from: R, request: Option<Request>, command: Command) {
        let Command::Cart(id, command) = command else {
            panic!("{} was handed a command to {}", stage.entity.entity(), command.entity());
        };
        match command {
            CartCommand::Get | CartCommand::Order | CartCommand::Audit => {
                let outcome = read(stage.entity, id, &command);
                stage.turn.answer(from, outcome);
            }
            CartCommand::Open { .. }
            | CartCommand::Hold(_)
            | CartCommand::Release { .. }
            | CartCommand::Cancel
            | CartCommand::Checkout { .. } => match request {
                None => stage.turn.answer(from, Err(Refusal::RequestIdMissing)),
                Some(request) => {
                    if let Some(from) = self.repeated(stage, from, request) {
                        self.change(stage, from, id, request, command);
                    }
                }
            },
        }
    }

    /// A request that came before gets the same answer, or waits for it. Gives `from` back if it is a new one.
    fn repeated(&mut self, stage: &mut Stage<'_, R>, from: R, request: Request) -> Option<R> {
        match stage.entity.cart().and_then(|cart| cart.recall(request)) {
            Some(Err(refusal)) => stage.turn.answer(from, Err(refusal)),
            Some(Ok(Recalled::Answer(answer))) => {
                let outcome = stage.entity.ok(*answer);
                stage.turn.answer(from, outcome);
            }
            Some(Ok(Recalled::Order)) => self.settle(stage, from),
            None => return self.join(stage, from, request),
        }
        None
    }

    /// Waits with the first one if the same request is under way.
    fn join(&mut self, stage: &mut Stage<'_, R>, from: R, request: Request) -> Option<R> {
        let adding = self.adding.iter_mut().map(|adding| (adding.request, &mut adding.waiting));
        let checkout = self.checkout.iter_mut().map(|checkout| (checkout.request, &mut checkout.waiting));
        let Some((first, waiting)) = adding.chain(checkout).find(|(first, _)| first.id == request.id) else {
            return Some(from);
        };
        if first.body != request.body {
            stage.turn.answer(from, Err(Refusal::RequestIdReused));
        } else if waiting.len() == WAITERS_MAX {
            stage.turn.answer(from, Err(Refusal::InProgress));
        } else {
            waiting.push(from);
        }
        None
    }

    fn change(&mut self, stage: &mut Stage<'_, R>, from: R, id: CartId, request: Request, command: CartCommand) {
        let blank;
        let cart = match stage.entity.cart() {
            Some(cart) => cart,
            None => {
                blank = Cart::blank(id);
                &blank
            }
        };
        let frozen = || Err(Refusal::CartNotActive(CartState::CheckingOut.as_str().into()));
        let decided = match command {
            CartCommand::Open { customer, ttl_ms } => match cart.may_change() {
                Err(refusal) => Err(refusal),
                Ok(None) => Cart::decide_open(id, stage.at, stage.rules, request, customer, ttl_ms),
                Ok(Some(_)) => {
                    let view = cart.view().expect("an active cart is open");
                    let outcome = stage.entity.ok(Answer::Cart(view));
                    return stage.turn.answer(from, outcome);
                }
            },
            CartCommand::Hold(_) | CartCommand::Release { .. } if self.checkout.is_some() => frozen(),
            CartCommand::Hold(wanted) => return self.add(stage, from, request, wanted),
            CartCommand::Release { line, seats } => {
                cart.decide_release(stage.at, stage.rules, request, line, seats.as_ref())
            }
            CartCommand::Cancel => cart.decide_cancel(stage.at, request),
            CartCommand::Checkout { payment, customer } => {
                return self.check_out_later(stage, from, request, payment, customer);
            }
            CartCommand::Get | CartCommand::Order | CartCommand::Audit => panic!("{command:?} changes nothing"),
        };
        match decided {
            Err(refusal) => stage.turn.answer(from, Err(refusal)),
            Ok(event) => {
                stage.entity.apply_cart(event, stage.turn);
                let recalled = stage.entity.cart().and_then(|cart| cart.recall(request));
                let Some(Ok(Recalled::Answer(answer))) = recalled else { panic!("a change is remembered") };
                let outcome = stage.entity.ok(*answer);
                stage.turn.answer(from, outcome);
                if stage.entity.cart().is_some_and(Cart::terminal) {
                    self.end_pending(stage);
                }
            }
        }
    }

    /// Puts a checkout down; it is decided in this turn unless lines are under way.
    fn check_out_later(
        &mut self,
        stage: &mut Stage<'_, R>,
        from: R,
        request: Request,
        payment: Payment,
        customer: Option<Id>,
    ) {
        let open = stage.entity.cart().map_or(Ok(None), Cart::may_change);
        let refusal = match open {
            Err(refusal) => refusal,
            Ok(_) if self.checkout.is_some() => Refusal::CartNotActive(CartState::CheckingOut.as_str().into()),
            Ok(None) if self.adding.is_empty() => stage.entity.not_found(),
            Ok(_) => {
                let until = stage.at.after(stage.rules.settle_ms);
                self.checkout = Some(Checkout { request, payment, customer, waiting: Vec::from([from]), until });
                return;
            }
        };
        stage.turn.answer(from, Err(refusal));
    }

    /// Decides a checkout when nothing is under way any more, or it has waited long enough.
    fn check_out_if_ready(&mut self, stage: &mut Stage<'_, R>) {
        if !self.checkout.as_ref().is_some_and(|checkout| self.adding.is_empty() || stage.at >= checkout.until) {
            return;
        }
        let checkout = self.checkout.take().expect("it is ready");
        let decided = match stage.entity.cart() {
            None => Err(stage.entity.not_found()),
            Some(cart) => {
                cart.decide_checkout(stage.at, checkout.request, &checkout.payment, checkout.customer.as_ref())
            }
        };
        match decided {
            Err(refusal) => {
                for from in checkout.waiting {
                    stage.turn.answer(from, Err(refusal.clone()));
                }
            }
            Ok(event) => {
                stage.entity.apply_cart(event, stage.turn);
                for from in checkout.waiting {
                    self.settle(stage, from);
                }
                self.end_pending(stage);
            }
        }
    }

    /// Answers with the order when every session has sold, or after a bound.
    fn settle(&mut self, stage: &mut Stage<'_, R>, from: R) {
        if !stage.entity.cart().is_some_and(|cart| cart.outbox().owes_sales()) {
            let outcome = stage.entity.ok(order_answer(stage.entity, false));
            return stage.turn.answer(from, outcome);
        }
        let settling = self.settling.get_or_insert_with(|| Settling {
            waiting: Vec::new(),
            until: stage.at.after(stage.rules.settle_ms),
            sold: Vec::new(),
        });
        if settling.waiting.len() < WAITERS_MAX {
            settling.waiting.push(from);
        } else {
            let outcome = stage.entity.ok(order_answer(stage.entity, true));
            stage.turn.answer(from, outcome);
        }
    }

    fn answer_settled(&mut self, stage: &mut Stage<'_, R>) {
        let Some(settling) = &self.settling else { return };
        let sold = self.mail.sold(stage.entity);
        if !sold && stage.at < settling.until {
            return;
        }
        let settling = self.settling.take().expect("looked at above");
        let answer = order_answer(stage.entity, !sold);
        // It rests on the decision, not on what was written down since.
        let version = stage.entity.cart().and_then(Cart::decided).expect("a done cart was decided");
        let mut at = Vec::from([At { version, ..stage.entity.at() }]);
        at.extend(settling.sold);
        for from in settling.waiting {
            stage.turn.settled(from, Ok(Answered { answer: answer.clone(), at: at.clone() }), sold);
        }
    }

    fn asked(&mut self, stage: &mut Stage<'_, R>, from: Entity, ask: Ask) {
        let (Ask::Overdue { hold }, Entity::Session(session)) = (&ask, &from) else {
            panic!("{} was asked {ask:?} by {from}", stage.entity.entity());
        };
        let reply = self.overdue(stage, session, *hold);
        stage.turn.reply(from, reply);
    }

    /// Whose is a hold whose time is over? Once "not mine" is said, it can never become a line.
    fn overdue(&mut self, stage: &mut Stage<'_, R>, session: &Id, hold: HoldId) -> Reply {
        let soon = stage.at.after(stage.rules.ask_again_ms);
        if self.adding.iter().any(|adding| adding.expects(session, hold)) {
            return Reply::MineUntil { hold, deadline: soon };
        }
        if let Some(cart) = stage.entity.cart() {
            match cart.deadline() {
                Some(deadline) if cart.owns(session, hold) => return Reply::MineUntil { hold, deadline },
                _ if cart.outbox().owes_sale(session, hold) => return Reply::MineUntil { hold, deadline: soon },
                Some(_) | None if cart.has_disowned(hold) => return Reply::NotMine { hold },
                Some(_) | None => {}
            }
        }
        self.disown(stage, Vec::from([(session.clone(), hold, 1)]));
        Reply::NotMine { hold }
    }

    fn hear(&mut self, stage: &mut Stage<'_, R>, from: Entity, reply: Reply) {
        let Entity::Session(session) = from else { return };
        match reply {
            Reply::Granted(granted) => self.granted(stage, &session, granted),
            Reply::Refused { hold, refusal } => self.refused(stage, &session, hold, refusal),
            Reply::Stale { hold, revision } => self.stale(stage, &session, hold, revision),
            Reply::Released { .. } => {
                let stray = self.mail.acknowledge(stage.entity, &session, &reply).is_none();
                if stray && stage.entity.cart().is_some_and(Cart::terminal) {
                    // A release that came late may be remembered although the session was told to forget.
                    let effect = Effect::Ask { to: Entity::Session(session), ask: Ask::Forget };
                    stage.turn.read.push(effect);
                }
            }
            Reply::Forgotten => _ = self.mail.acknowledge(stage.entity, &session, &reply),
            Reply::Sold { version, position, .. } => {
                if self.mail.acknowledge(stage.entity, &session, &reply).is_some()
                    && let Some(settling) = &mut self.settling
                {
                    settling.sold.push(At { entity: Entity::Session(session), version, position });
                }
            }
            // Not for carts.
            Reply::MineUntil { .. } | Reply::NotMine { .. } | Reply::Opened | Reply::OpenRefused => {}
        }
    }

    fn disown(&mut self, stage: &mut Stage<'_, R>, holds: Vec<(Id, HoldId, u64)>) {
        let Entity::Cart(id) = *stage.entity.entity() else { panic!("only carts disown") };
        let event = match stage.entity.cart() {
            Some(cart) => cart.decide_disown(holds),
            None => Cart::blank(id).decide_disown(holds),
        };
        stage.entity.apply_cart(event, stage.turn);
    }

    /// The cart has ended: whatever is under way is refused, and what was asked for is given back.
    fn end_pending(&mut self, stage: &mut Stage<'_, R>) {
        let refusal = match stage.entity.cart().map(Cart::may_change) {
            Some(Err(refusal)) => refusal,
            Some(Ok(_)) | None => panic!("{} has not ended", stage.entity.entity()),
        };
        let mut holds = Vec::new();
        for adding in self.adding.drain(..) {
            holds.extend(adding.perhaps_held());
            for from in adding.waiting {
                stage.turn.answer(from, Err(refusal.clone()));
            }
        }
        if !holds.is_empty() {
            self.disown(stage, holds);
        }
        if let Some(checkout) = self.checkout.take() {
            for from in checkout.waiting {
                stage.turn.answer(from, Err(refusal.clone()));
            }
        }
    }

    fn set_timers(&self, turn: &mut Turn<R>) {
        self.adding.iter().for_each(|adding| turn.wake(adding.again_at));
        self.checkout.iter().for_each(|checkout| turn.wake(checkout.until));
        self.settling.iter().for_each(|settling| turn.wake(settling.until));
    }
}

fn read(entity: &Speculation, id: CartId, command: &CartCommand) -> Outcome {
    let unknown = || entity.not_found();
    let cart = entity.cart();
    let answer = match command {
        CartCommand::Get => Answer::Cart(cart.and_then(Cart::view).ok_or_else(unknown)?),
        CartCommand::Audit => Answer::CartAudit(cart.and_then(Cart::audit).ok_or_else(unknown)?),
        CartCommand::Order => match cart.and_then(Cart::order) {
            Some(_) => order_answer(entity, cart.is_some_and(|cart| cart.outbox().owes_sales())),
            None => return Err(Refusal::NotFound(format_smolstr!("order {}", id.order()))),
        },
        CartCommand::Open { .. }
        | CartCommand::Hold(_)
        | CartCommand::Release { .. }
        | CartCommand::Cancel
        | CartCommand::Checkout { .. } => panic!("{command:?} is no read"),
    };
    entity.ok(answer)
}

fn order_answer(entity: &Speculation, settling: bool) -> Answer {
    let order = entity.cart().and_then(Cart::order).expect("a done cart has an order");
    Answer::Order { order: order.clone(), settling }
}

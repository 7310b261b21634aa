//! An inventory at work: a session, a product, a resource or a customer. Carts ask it for holds; it asks carts about holds
//! whose time is over, and, when it is canceled, for everything back.

use alloc::sync::Arc;

use super::{Effect, Input, Stage, Turn, speculation::Speculation};
use crate::{
    answer::{Answer, Outcome},
    ask::{Ask, Reply},
    command::{Command, CustomerCommand, ProductCommand, ResourceCommand, SessionCommand},
    event::{CustomerEvent, Event, ProductEvent, ResourceEvent, SessionEvent},
    id::{CartId, Entity, HoldId, Request, RequestHash},
    inventory::{HoldAsk, Inventory},
    keep::State,
    product::Product,
    refusal::Refusal,
    resource::Resource,
    session::Session,
    time::{Rules, Timestamp},
};

/// Carts asked in one turn about holds. The others are asked in turns that follow, so that neither a turn nor its messages
/// grow with the number of holds.
const ASKED_BATCH: usize = 256;

/// How long the next batch waits, in milliseconds: the carts have other things to do.
const BATCH_PAUSE_MS: u64 = 5;

/// Before every hold.
const FIRST: (Timestamp, HoldId) =
    (Timestamp(0), HoldId { cart: CartId(0), request: RequestHash(0), part: 0, attempt: 0 });

/// How far the round of questions about holds has come.
pub(super) struct InventoryHost {
    /// Holds up to here were asked about in this round.
    asked: (Timestamp, HoldId),
    /// Holds and sales up to here were asked back in this round.
    revoked: Option<HoldId>,
    /// When the next round starts from the beginning.
    round_ends: Timestamp,
}

impl InventoryHost {
    pub(super) fn new() -> InventoryHost {
        InventoryHost { asked: FIRST, revoked: None, round_ends: Timestamp(0) }
    }

    pub(super) fn handle<R>(&mut self, stage: &mut Stage<'_, R>, input: Input<R>) {
        let Stage { entity, rules, at, turn } = stage;
        let (rules, at) = (*rules, *at);
        match input {
            Input::Command { from, request, command } => {
                let outcome = command_outcome(entity, rules, at, request, command, turn);
                turn.answer(from, outcome);
                // A session that was just canceled asks its carts.
                self.ask_carts(entity, rules, at, turn);
            }
            Input::Ask { from, ask } => answer_ask(entity, rules, at, from, ask, turn),
            Input::Reply { from: _, reply } => hear(entity, rules, reply, turn),
            Input::Wake => self.ask_carts(entity, rules, at, turn),
            Input::Paid { key, .. } => panic!("{} was told of payment {key}", entity.entity()),
        }
    }

    fn ask_carts<R>(&mut self, entity: &Speculation, rules: &Rules, at: Timestamp, turn: &mut Turn<R>) {
        let Some(inventory) = entity.inventory() else { return };
        if at >= self.round_ends {
            self.asked = FIRST;
            self.revoked = None;
            self.round_ends = at.after(rules.ask_again_ms);
        }
        let overdue = inventory.overdue(self.asked, at, ASKED_BATCH);
        let unwanted = inventory.unwanted(self.revoked, ASKED_BATCH);
        let full = overdue.len() == ASKED_BATCH || unwanted.len() == ASKED_BATCH;
        let some = !overdue.is_empty() || !unwanted.is_empty();
        for (deadline, hold) in overdue {
            self.asked = (deadline, hold);
            turn.now.push(Effect::Ask { to: Entity::Cart(hold.cart), ask: Ask::Overdue { hold } });
        }
        let reason = entity.state().and_then(State::canceled);
        for hold in unwanted {
            self.revoked = Some(hold);
            let reason = reason.clone().expect("only what is canceled wants holds back");
            // Only after a read: the cancellation may not be committed yet.
            turn.read.push(Effect::Ask { to: Entity::Cart(hold.cart), ask: Ask::Revoke { hold, reason } });
        }
        if full {
            turn.wake(at.after(BATCH_PAUSE_MS));
        } else if some || entity.state().is_some_and(|state| state.asks_back(at)) {
            turn.wake(self.round_ends);
        }
    }
}

fn hear<R>(entity: &mut Speculation, rules: &Rules, reply: Reply, turn: &mut Turn<R>) {
    let Some(inventory) = entity.inventory() else { return };
    let event = match reply {
        Reply::MineUntil { hold, deadline } => inventory.decide_extend(hold, deadline.after(rules.grace_ms)),
        Reply::NotMine { hold } => inventory.decide_disowned(hold),
        Reply::Granted(_)
        | Reply::Refused { .. }
        | Reply::Stale { .. }
        | Reply::Released { .. }
        | Reply::Sold { .. }
        | Reply::Refunded { .. }
        | Reply::Forgotten
        | Reply::Opened
        | Reply::OpenRefused
        | Reply::Listed { .. }
        | Reply::Posted { .. } => None,
    };
    if let Some(event) = event {
        entity.apply(event, turn);
    }
}

fn answer_ask<R>(entity: &mut Speculation, rules: &Rules, at: Timestamp, from: Entity, ask: Ask, turn: &mut Turn<R>) {
    let reply = match ask {
        Ask::Hold { hold, revision, want, deadline } => {
            let ask = HoldAsk { hold, revision, want: &want, deadline: deadline.after(rules.grace_ms) };
            let decided = match (entity.inventory(), entity.entity()) {
                (Some(inventory), _) => inventory.decide_hold(at, &ask),
                // Customers are what they have done.
                (None, Entity::Customer(id)) => crate::customer::Customer::new(id.clone()).decide_hold(at, &ask),
                (None, _) => Err(Reply::Refused { hold, revision, refusal: entity.not_found() }),
            };
            match decided {
                Err(reply) => reply,
                Ok(event) => {
                    entity.apply(event, turn);
                    Reply::Granted(entity.inventory().expect("it has just held").granted(hold))
                }
            }
        }
        Ask::Release { hold, revision, left, last } => {
            let inventory = entity.inventory();
            let decided = inventory.and_then(|it| it.decide_release(hold, revision, left.as_ref(), last));
            if let Some(event) = decided {
                entity.apply(event, turn);
            }
            Reply::Released { hold, revision }
        }
        Ask::Sell { hold, revision, portion, order, at } => {
            let inventory = entity.inventory();
            let inventory = inventory.unwrap_or_else(|| panic!("{hold:?} is sold by {}, which never was", entity.entity()));
            for event in inventory.decide_sell(hold, revision, &portion, order, at) {
                entity.apply(event, turn);
            }
            let version = entity.inventory().and_then(|inventory| inventory.sale_version(hold));
            Reply::Sold { hold, version: version.unwrap_or_else(|| entity.at().version), position: 0 }
        }
        Ask::Refund { hold } => {
            if let Some(event) = entity.inventory().and_then(|inventory| inventory.decide_refund(hold)) {
                entity.apply(event, turn);
            }
            Reply::Refunded { hold }
        }
        Ask::Forget => {
            let Entity::Cart(cart) = from else { panic!("{from} is no cart and asks to be forgotten") };
            if let Some(event) = entity.inventory().and_then(|inventory| inventory.decide_forget(cart)) {
                entity.apply(event, turn);
            }
            Reply::Forgotten
        }
        Ask::Open(opening) => match entity.session() {
            Some(session) if session.opening() == *opening => Reply::Opened,
            Some(_) => Reply::OpenRefused,
            None => {
                entity.apply(Event::Session(SessionEvent::Opened(*opening)), turn);
                Reply::Opened
            }
        },
        Ask::Post { purchase } => {
            let posted = match entity.customer() {
                Some(customer) => customer.decide_post(&purchase),
                None => {
                    let Entity::Customer(id) = entity.entity() else { panic!("only customers have purchases") };
                    crate::customer::Customer::new(id.clone()).decide_post(&purchase)
                }
            };
            if let Some(event) = posted {
                entity.apply(Event::Customer(event), turn);
            }
            Reply::Posted { order: purchase.order }
        }
        other @ (Ask::Overdue { .. } | Ask::Revoke { .. } | Ask::List { .. } | Ask::Pay(_)) => {
            panic!("{} was asked {other:?} by {from}", entity.entity())
        }
    };
    turn.reply(from, reply);
}

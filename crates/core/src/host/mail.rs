//! Delivery of a cart's outbox: what was told, what was acknowledged, and when the rest is told again.

use alloc::{collections::BTreeSet, vec::Vec};

use super::{Effect, Stage, speculation::Speculation};
use crate::{
    ask::{Ask, Reply},
    event::{CartEvent, Owed},
    id::{Entity, Id},
    time::{Rules, Timestamp},
};

#[derive(Default)]
pub(super) struct Mail {
    /// Numbers told and not acknowledged yet.
    told: BTreeSet<u64>,
    /// Numbers acknowledged that are still in the outbox.
    acknowledged: BTreeSet<u64>,
    again_at: Option<Timestamp>,
}

impl Mail {
    /// Tells what was owed when the cart was loaded: all of it is committed.
    pub(super) fn resume<R>(&mut self, stage: &mut Stage<'_, R>) {
        let Some(cart) = stage.entity.cart() else { return };
        for (number, owed) in cart.outbox().sendable() {
            self.told.insert(*number);
            stage.turn.now.push(effect(owed));
        }
        self.rearm(stage.rules, stage.at);
    }

    /// Notes what a reply of `session` acknowledges; the number of the message.
    pub(super) fn acknowledge(&mut self, entity: &Speculation, session: &Id, reply: &Reply) -> Option<u64> {
        let number = entity.cart()?.outbox().acknowledged_by(session, reply)?;
        // A message that this host never told was told by the one before it.
        self.told.remove(&number);
        self.acknowledged.insert(number).then_some(number)
    }

    /// Whether every sale was acknowledged.
    pub(super) fn sold(&self, entity: &Speculation) -> bool {
        let sale =
            |(number, owed): &&(u64, Owed)| matches!(owed.ask, Ask::Sell { .. }) && !self.acknowledged.contains(number);
        entity.cart().is_some_and(|cart| cart.outbox().entries().iter().find(sale).is_none())
    }

    /// Writes down what was acknowledged once nothing more is expected, or the time has come; tells what is new, and what
    /// was not acknowledged in time once more.
    pub(super) fn carry<R>(&mut self, stage: &mut Stage<'_, R>) {
        let Stage { entity, rules, at, turn } = stage;
        let (rules, at) = (*rules, *at);
        let late = self.again_at.is_some_and(|again_at| at >= again_at);
        if !self.acknowledged.is_empty() && (self.told.is_empty() || late) {
            let numbers: Vec<u64> = core::mem::take(&mut self.acknowledged).into_iter().collect();
            entity.apply_cart(CartEvent::Delivered(numbers), turn);
        }
        let Some(cart) = entity.cart() else { return };
        let mut told = false;
        for (number, owed) in cart.outbox().sendable() {
            if self.acknowledged.contains(number) {
                continue;
            }
            if self.told.insert(*number) {
                assert!(!turn.events.is_empty(), "{owed:?} is owed, but nothing happened that would owe it");
                turn.committed.push(effect(owed));
                told = true;
            } else if late {
                // Only after a read: what owes it may not be committed yet.
                turn.read.push(effect(owed));
                told = true;
            }
        }
        if late || (told && self.again_at.is_none()) {
            self.rearm(rules, at);
        }
        match self.again_at {
            Some(again_at) if !self.told.is_empty() => turn.wake(again_at),
            Some(_) | None => self.again_at = None,
        }
    }

    fn rearm(&mut self, rules: &Rules, at: Timestamp) {
        self.again_at = (!self.told.is_empty()).then(|| at.after(rules.ask_again_ms));
    }
}

fn effect<R>(owed: &Owed) -> Effect<R> {
    Effect::Ask { to: Entity::Session(owed.session.clone()), ask: owed.ask.clone() }
}

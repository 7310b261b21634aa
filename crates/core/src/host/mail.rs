//! Delivery of a cart's outbox. It knows which messages were sent and acknowledged, and when the others are sent again.

use alloc::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    vec::Vec,
};

use super::{Effect, Stage, speculation::Speculation};
use crate::{
    answer::At,
    ask::{Ask, Reply},
    event::{CartEvent, Owed},
    id::Entity,
    planted,
    push_exact::push_exact,
    rules::Rules,
    time::Timestamp,
};

#[derive(Default)]
pub(super) struct Mail {
    /// Numbers of messages that were sent to entities and are not acknowledged yet.
    sent: BTreeSet<u64>,
    /// Numbers of messages that were sent to the gateway, with the count of unknown outcomes and the time of the next try.
    paying: BTreeMap<u64, (u32, Option<Timestamp>)>,
    /// Acknowledged numbers that are still in the outbox. A sale comes with its version.
    acknowledged: BTreeMap<u64, Option<At>>,
    again_at: Option<Timestamp>,
}

impl Mail {
    /// Sends the messages that were owed when the cart was loaded. All of them are committed.
    pub(super) fn resume<R>(&mut self, stage: &mut Stage<'_, R>) {
        let Some(cart) = stage.entity.cart() else { return };
        for (number, owed) in cart.outbox().sendable() {
            self.mark_sent(*number, owed);
            stage.turn.now.push(effect(owed));
        }
        self.rearm(stage.rules, stage.at);
    }

    /// Notes the message that a reply of `from` acknowledges, and returns its number.
    pub(super) fn acknowledge(&mut self, entity: &Speculation, from: &Entity, reply: &Reply) -> Option<u64> {
        let number = entity.cart()?.outbox().acknowledged_by(from, reply)?;
        // A message that this host never sent was sent by the one before it.
        self.sent.remove(&number);
        let sold = match reply {
            Reply::Sold { version, position, .. } => {
                Some(At { entity: from.clone(), version: *version, position: *position })
            }
            _ => None,
        };
        // The first acknowledgement counts.
        match self.acknowledged.entry(number) {
            Entry::Vacant(place) => {
                place.insert(sold);
                Some(number)
            }
            Entry::Occupied(_) => None,
        }
    }

    /// Notes that the gateway has done the step of this message, or never will.
    pub(super) fn acknowledge_payment(&mut self, number: u64) {
        self.paying.remove(&number);
        self.acknowledged.insert(number, None);
    }

    /// Notes that the gateway does not know the outcome of this message, which is sent again after a while.
    pub(super) fn note_unknown(&mut self, number: u64, rules: &Rules, at: Timestamp) {
        if self.acknowledged.contains_key(&number) {
            // The outcome is known, so this one is late.
            return;
        }
        let (tries, again_at) = self.paying.entry(number).or_default();
        *again_at = Some(at.after(rules.payment_again_after(*tries)));
        *tries = tries.saturating_add(1);
    }

    /// Whether every sale was acknowledged.
    pub(super) fn sold(&self, entity: &Speculation) -> bool {
        let sale = |(number, owed): &&(u64, Owed)| {
            matches!(owed.ask, Ask::Sell { .. }) && !self.acknowledged.contains_key(number)
        };
        entity.cart().is_some_and(|cart| cart.outbox().entries().iter().find(sale).is_none())
    }

    /// The versions of acknowledged sales that are not written yet.
    pub(super) fn sales(&self) -> impl Iterator<Item = At> {
        self.acknowledged.values().flatten().cloned()
    }

    /// Writes acknowledgements when no more are expected of entities, or after a while. Sends new messages, and repeats those
    /// without an acknowledgement in time.
    pub(super) fn send_due<R>(&mut self, stage: &mut Stage<'_, R>) {
        let Stage { entity, rules, at, turn, .. } = stage;
        let (rules, at) = (*rules, *at);
        let late = self.again_at.is_some_and(|again_at| at >= again_at);
        if !self.acknowledged.is_empty() && (self.sent.is_empty() || late) {
            let (numbers, sold): (Vec<u64>, Vec<Option<At>>) =
                core::mem::take(&mut self.acknowledged).into_iter().unzip();
            let sold = sold.into_iter().flatten().collect();
            entity.apply_cart(CartEvent::Delivered { numbers, sold }, turn);
        }
        let Some(cart) = entity.cart() else { return };
        let mut sent = false;
        for (number, owed) in cart.outbox().sendable() {
            if self.acknowledged.contains_key(number) {
                continue;
            }
            if self.mark_sent(*number, owed) {
                assert!(!turn.events.is_empty(), "{owed:?} is owed, but nothing happened that would owe it");
                push_exact(&mut turn.committed, effect(owed));
                sent = true;
            } else if self.is_due(*number, owed, at, late) {
                // Only after a read, because the event that owes it may not be committed yet.
                let effects = if planted::is("resends before a read") { &mut turn.now } else { &mut turn.read };
                push_exact(effects, effect(owed));
                sent = true;
            }
        }
        if late || (sent && self.again_at.is_none()) {
            self.rearm(rules, at);
        }
        match self.again_at {
            Some(again_at) if !self.sent.is_empty() => turn.wake(again_at),
            Some(_) | None => self.again_at = None,
        }
        self.paying.values().filter_map(|(_, again_at)| *again_at).for_each(|again_at| turn.wake(again_at));
    }

    /// Notes that a message is sent. Returns whether it is the first time.
    fn mark_sent(&mut self, number: u64, owed: &Owed) -> bool {
        match &owed.to {
            Some(_) => self.sent.insert(number),
            None if self.paying.contains_key(&number) => false,
            None => self.paying.insert(number, (0, None)).is_none(),
        }
    }

    /// Whether a message is to be sent again. A message to the gateway is, after an unknown outcome.
    fn is_due(&mut self, number: u64, owed: &Owed, at: Timestamp, late: bool) -> bool {
        match &owed.to {
            Some(_) => late,
            None => {
                self.paying.get_mut(&number).is_some_and(|(_, again_at)| again_at.take_if(|due| *due <= at).is_some())
            }
        }
    }

    fn rearm(&mut self, rules: &Rules, at: Timestamp) {
        self.again_at = (!self.sent.is_empty()).then(|| at.after(rules.ask_again_ms));
    }
}

fn effect<R>(owed: &Owed) -> Effect<R> {
    match (&owed.to, &owed.ask) {
        (Some(to), ask) => Effect::Ask { to: to.clone(), ask: ask.clone() },
        (None, Ask::Pay(call)) => Effect::Pay(call.clone()),
        (None, ask) => panic!("{ask:?} has no receiver"),
    }
}

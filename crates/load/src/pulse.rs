//! The pulse: when which shard did what it was asked, as seen by those who asked.

use std::sync::Mutex;

use boxoffice_client::{CartId, Entity};
use boxoffice_shard::ring::shard_of;
use boxoffice_workload::history::{ChangeOutcome, CheckoutOutcome, GoodsHoldOutcome, HoldOutcome, Span};

use crate::{flow::Flow, plan::Plan};

/// Successes by shard. A command that several shards took part in is a success of each.
pub(crate) struct Pulse {
    shards: u16,
    /// Of data shard 1 first; in the order flows ended.
    beats: Mutex<Vec<Vec<Span>>>,
}

impl Pulse {
    /// Of a cluster with so many data shards; of none nothing is noted.
    pub(crate) fn new(shards: u16) -> Pulse {
        Pulse { shards, beats: Mutex::new(vec![Vec::new(); shards.into()]) }
    }

    /// Notes everything that a flow was granted.
    pub(crate) fn note(&self, plan: &Plan, flow: &Flow) {
        if self.shards == 0 {
            return;
        }
        let mut beats = self.beats.lock().expect("nobody panics with the beats");
        let mut beat = |shard: u16, span: Span| beats[usize::from(shard) - 1].push(span);
        let record = &flow.record;
        let cart = self.of_cart(record.cart);
        if let Some(span) = flow.opened
            // Nothing is held where the cart could not be opened.
            && !(record.versions.is_empty() && record.holds.is_empty())
        {
            beat(cart, span);
        }
        for hold in record.holds.iter().filter(|hold| matches!(hold.outcome, HoldOutcome::Granted { .. })) {
            beat(cart, hold.span);
            self.of_session(plan, hold.session).into_iter().for_each(|shard| beat(shard, hold.span));
        }
        for take in record.goods_holds.iter().filter(|take| matches!(take.outcome, GoodsHoldOutcome::Granted { .. })) {
            beat(cart, take.span);
            beat(self.of(&plan.goods.entity(take.good)), take.span);
        }
        for change in flow.changes.iter().filter(|change| change.outcome == ChangeOutcome::Done) {
            beat(self.of(&Entity::Resource(plan.goods.resource_id(change.resource))), change.span);
        }
        if let Some(checkout) = &record.checkout
            && matches!(checkout.outcome, CheckoutOutcome::Bought { .. })
        {
            beat(cart, checkout.span);
        }
    }

    /// The shards that a flow had to do with.
    pub(crate) fn shards_of(&self, plan: &Plan, flow: &Flow) -> Vec<u16> {
        let record = &flow.record;
        let takes = record.goods_holds.iter().map(|take| self.of(&plan.goods.entity(take.good)));
        let changes = flow.changes.iter().map(|change| plan.goods.resource_id(change.resource));
        let mut shards: Vec<u16> = record.holds.iter().filter_map(|hold| self.of_session(plan, hold.session)).collect();
        shards.extend(takes);
        shards.extend(changes.map(|resource| self.of(&Entity::Resource(resource))));
        if flow.changes.is_empty() {
            shards.push(self.of_cart(record.cart));
        }
        shards
    }

    /// Whether every shard has done something that was asked for at this time or later, in microseconds since the start.
    pub(crate) fn all_since(&self, from_us: u64) -> bool {
        let beats = self.beats.lock().expect("nobody panics with the beats");
        beats.iter().all(|beats| beats.iter().rev().take(LOOK_BACK_MAX).any(|span| span.called_us >= from_us))
    }

    /// The successes of each shard, in the order of their answers.
    pub(crate) fn take(&self) -> Vec<Vec<Span>> {
        let mut beats = std::mem::take(&mut *self.beats.lock().expect("nobody panics with the beats"));
        beats.iter_mut().for_each(|beats| beats.sort_unstable_by_key(|span| span.returned_us));
        beats
    }

    /// How many data shards there are.
    pub(crate) fn shards(&self) -> u16 {
        self.shards
    }

    fn of(&self, entity: &Entity) -> u16 {
        shard_of(entity.hash_prefix(), self.shards)
    }

    fn of_cart(&self, cart: CartId) -> u16 {
        self.of(&Entity::Cart(cart))
    }

    fn of_session(&self, plan: &Plan, session: u32) -> Option<u16> {
        Some(self.of(&Entity::Session(plan.picker.as_ref()?.house().session_id(session))))
    }
}

/// How many of the last successes of a shard are looked at for one that was asked for late enough.
const LOOK_BACK_MAX: usize = 1_000;

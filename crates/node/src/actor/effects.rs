//! Carries out effects, at once or when the log has the turn that they depend on.

use std::{borrow::Cow, sync::Arc, sync::atomic::Ordering};

use boxoffice_core::{
    answer::{Answer, Answered},
    host::{Effect, Input, Turn},
    id::Entity,
    payment::{GatewayCall, GatewayOutcome},
    time::Timestamp,
};

use super::{nothing_in_flight, take::send};
use crate::{
    api::Failure, caller::Caller, message::Message, pending_commit::PendingCommit, shard_lead::ActorHandle,
    shared::Shared,
};

/// Carries out an effect of the entity `from`. The caller has waited for what the effect rests on, as the list of the
/// [`Turn`](boxoffice_core::host::Turn) that it was in says.
pub(super) fn carry_out(shared: &Arc<Shared>, from: &Entity, effect: Effect<Caller>) {
    // An ask or reply that cannot be delivered is lost as on a broken link, and the asker asks again.
    match effect {
        Effect::Answer { to, outcome: Err(refusal) } if refusal.is_internal() => to.answer(Err(Failure::Internal)),
        Effect::Answer { to, mut outcome } => {
            // Only the node knows the epoch its watchers resume in.
            match &mut outcome {
                Ok(Answered { answer: Answer::Map(map), .. }) => map.epoch = shared.feeds.epoch(),
                Ok(Answered { answer: Answer::Purchases(page), .. }) => page.epoch = Some(shared.feeds.epoch()),
                _ => {}
            }
            to.answer(Ok(outcome));
        }
        Effect::Ask { to, ask } => {
            shared.outbound.note_ask(&to, from, &ask);
            if let Err(Input::Ask { from, ask }) = send(shared, &to, Input::Ask { from: from.clone(), ask }) {
                shared.outbound.ask_remote(&to, &from, &ask, shared.mark());
            }
        }
        Effect::Reply { to, reply } => {
            shared.outbound.replied(&to, from, &reply);
            if let Err(Input::Reply { from, reply }) = send(shared, &to, Input::Reply { from: from.clone(), reply }) {
                let mark = shared.mark();
                let (from, reply) = (Cow::Borrowed(&from), Cow::Borrowed(&reply));
                shared.outbound.reply_remote(&to, Message::Reply { to: Cow::Borrowed(&to), from, reply, mark });
            }
        }
        Effect::Pay(call) => pay(shared, call),
    }
}

/// Sets the timer that a turn decided at `at` wants.
pub(super) fn arm_wake(shared: &Shared, mono_ms: u64, at: Timestamp, entity: &Entity, turn: &mut Turn<Caller>) {
    if let Some(wake_at) = turn.wake_at.take() {
        shared.timers.arm(mono_ms + wake_at.0.saturating_sub(at.0), entity);
    }
}

/// Calls the gateway. The outcome goes to the cart that pays.
fn pay(shared: &Arc<Shared>, call: GatewayCall) {
    let (key, step) = (call.key(), call.step());
    shared.metrics.gateway_calls.fetch_add(1, Ordering::Relaxed);
    let weak = Arc::downgrade(shared);
    let done = move |outcome: GatewayOutcome| {
        let Some(shared) = weak.upgrade() else { return };
        shared.metrics.paid(&outcome);
        if let GatewayOutcome::Failed { reason } = &outcome {
            tracing::warn!(%key, ?step, %reason, "the payment gateway failed for good: an operator has to see to it");
        }
        // If the shard is led elsewhere by now, its new leader asks the gateway itself.
        drop(send(&shared, &Entity::Cart(key.cart), Input::Paid { key, step, outcome }));
    };
    shared.world.gateway.call(call, Box::new(done));
}

/// Carries out the effects that were held back until the log had the turn at `index`.
pub(crate) fn release_effects(shared: &Arc<Shared>, completion: PendingCommit, index: u64) {
    let parts = || std::iter::once(&completion).chain(completion.cart.as_deref());
    for PendingCommit { versions: (_, until), actor, .. } in parts() {
        if let Some(actor) = actor {
            actor.committed.fetch_max(*until, Ordering::Release);
        }
    }
    let inventory = completion.cart.is_some().then(|| (completion.entity.clone(), completion.versions.0));
    let PendingCommit { entity, versions: (after, _), events: _, effects, actor, reloaded: _, cart } = completion;
    release_effects_of(shared, &entity, (actor, after), effects, index, None);
    if let Some(cart) = cart {
        let PendingCommit { entity, versions: (after, _), events: _, effects, actor, reloaded: _, cart: _ } = *cart;
        release_effects_of(shared, &entity, (actor, after), effects, index, inventory);
    }
}

/// The same for one entity. A cart's answer also gets the position of the inventory in a joint turn.
fn release_effects_of(
    shared: &Arc<Shared>,
    entity: &Entity,
    (actor, after): (Option<Arc<ActorHandle>>, u64),
    effects: Vec<Effect<Caller>>,
    index: u64,
    inventory: Option<(Entity, u64)>,
) {
    for mut effect in effects {
        if actor.is_some() {
            set_position(&mut effect, entity, after, index);
        }
        if let Some((inventory, after)) = &inventory {
            set_position_in_answer(&mut effect, inventory, *after, index);
        }
        carry_out(shared, entity, effect);
    }
    if let Some(actor) = actor.filter(|actor| actor.under_way.turn_applied()) {
        nothing_in_flight(shared, &actor);
    }
}

/// Sets the log position in a reply, and in an answer for the versions after the one that the turn began with.
fn set_position(effect: &mut Effect<Caller>, entity: &Entity, after: u64, index: u64) {
    if let Effect::Reply { reply, .. } = effect {
        reply.set_position(index);
    }
    set_position_in_answer(effect, entity, after, index);
}

fn set_position_in_answer(effect: &mut Effect<Caller>, entity: &Entity, after: u64, index: u64) {
    if let Effect::Answer { outcome: Ok(answered), .. } = effect {
        for at in answered.at.iter_mut().filter(|at| at.entity == *entity && at.version > after) {
            at.position = index;
        }
    }
}

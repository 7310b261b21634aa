//! The ways into actors: a command, an input, a joint ask.

use std::sync::{Arc, atomic::Ordering};

use boxoffice_core::{
    command::{Admission, CartCommand, ClusterCommand, Command, CustomerCommand},
    host::Input,
    id::{Entity, Request},
};

use super::{EntityActorState, actor_of, here::Level};
use crate::{
    api::{Failure, ReplyTo},
    caller::{Caller, key_of},
    cluster_copy,
    recovery::Health,
    shard_lead::{EntityMessage, JointAsk, JointPlace, TakenEntity},
    shared::Shared,
};

/// Further facts about a command for an entity that this node leads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallContext {
    /// The command is decided only in this term.
    pub(crate) term: Option<u64>,
    /// An attempt before this one may have been admitted.
    pub(crate) is_repeat: bool,
}

/// Refuses a command because of overload, and counts that.
fn is_busy(shared: &Shared, retry_after_ms: u32, reply: ReplyTo) {
    shared.metrics.busy.fetch_add(1, Ordering::Relaxed);
    reply.answer(Err(Failure::Busy(retry_after_ms)));
}

/// Takes a command for an entity that this node leads, as far as its sender knows.
pub(crate) fn take_here(
    shared: &Arc<Shared>,
    mut command: Command,
    request: Option<Request>,
    given: CallContext,
    reply: ReplyTo,
) {
    // An outcome from a gateway has no request id and changes something all the same.
    let changes = request.is_some() || matches!(command, Command::Cart(_, CartCommand::Paid { .. }));
    if changes && shared.replication.is_read_only() {
        return reply.answer(Err(Failure::ReadOnly));
    }
    if matches!(command, Command::Cluster(ClusterCommand::FinishUpgrade { .. })) && cluster_copy::has_none(shared) {
        return reply.answer(cluster_copy::finish_alone(shared));
    }
    // The table does not know which members are up. This node knows to which of them it has a link.
    match &mut command {
        Command::Cluster(ClusterCommand::FinishUpgrade { down }) => *down = cluster_copy::down(shared),
        Command::Cluster(ClusterCommand::Join { admission: Admission::Replacing(replacing), .. }) => {
            replacing.down = cluster_copy::down(shared);
            replacing.rest_ms = shared.config.repair_rest_ms;
        }
        Command::Customer(_, CustomerCommand::Purchases { after, epoch: Some(epoch), .. })
            if *epoch != shared.feeds.epoch() =>
        {
            *after = 0;
        }
        _ => {}
    }
    let entity = command.entity();
    let lead = shared.lead_of(&entity);
    if lead.state.waits.load(Ordering::Relaxed) {
        return reply.answer(Err(Failure::NotReady));
    }
    let class = || if given.is_repeat { None } else { lead.class_of(&entity, &command, request) };
    let buys = matches!(command, Command::Cart(_, CartCommand::Checkout { .. }));
    let (times, now_ms) = (reply.times().of(&command), shared.world.clock.monotonic_ms());
    let mut pass = match shared.admission.admit(buys, class, times, now_ms) {
        Ok(pass) => pass,
        Err(retry_after_ms) => return is_busy(shared, retry_after_ms, reply),
    };
    if let Command::Cart(cart, command) = &command {
        pass.purchase = shared.admission.purchase_of(*cart, command, pass.came_ms());
    }
    let from = lead.enter(pass, request.map(|request| key_of(&entity, request.id)), reply);
    // Set when it is decided.
    let timeout_ms = 0;
    let input = Input::Command { from, request, command, timeout_ms };
    if let Err(Input::Command { from, .. }) = send_in(shared, &entity, given.term, input) {
        from.answer(Err(Failure::NotReady));
    }
}

/// Decides on an input if the entity is idle and this thread may, or else puts it into the mailbox of the entity's actor,
/// starting one if need be. Returns the input if this node does not lead the entity's shard.
#[expect(clippy::result_large_err, reason = "it goes back to its sender; a box would cost every command")]
pub(crate) fn send(shared: &Arc<Shared>, entity: &Entity, input: Input<Caller>) -> Result<(), Input<Caller>> {
    send_in(shared, entity, None, input)
}

/// The same. If a term is given, only while this node leads in it.
#[expect(clippy::result_large_err, reason = "as above")]
fn send_in(
    shared: &Arc<Shared>,
    entity: &Entity,
    term: Option<u64>,
    input: Input<Caller>,
) -> Result<(), Input<Caller>> {
    let lead = shared.lead_of(entity);
    let mut leader_state = lead.leader_state.lock();
    let leads_in = leader_state.leadership.map(|leadership| leadership.epoch.0);
    if term.is_some_and(|term| leads_in != Some(term)) {
        return Err(input);
    }
    let Some(actor) = actor_of(shared, lead, &mut leader_state, entity) else { return Err(input) };
    // No message can be sent while the lock is held, so the entity decides in the order of its messages.
    if actor.under_way.has_no_messages()
        && let Some(_level) = Level::enter(shared)
        && let Some(assignment) = actor.slot.borrow_if(|assignment| matches!(assignment.health, Health::Healthy))
    {
        drop(leader_state);
        EntityActorState::decide_here(shared, TakenEntity { actor, assignment }, input);
        return Ok(());
    }
    actor.under_way.message_sent();
    // Sent under the lock, so that an actor that leaves its entity has seen every message for it.
    actor.cast(EntityMessage::Input(input));
    Ok(())
}

/// Takes the state of an inventory for a cart that asks it. If messages wait for the inventory, it gets the ask as a message
/// instead.
pub(crate) fn begin_joint_turn(shared: &Arc<Shared>, term: u64, asked: Box<JointAsk>) -> JointPlace {
    let lead = shared.lead_of(&asked.inventory);
    let mut leader_state = lead.leader_state.lock();
    if leader_state.leadership.is_none_or(|leadership| leadership.epoch.0 != term) {
        return JointPlace::Nowhere(asked);
    }
    let Some(actor) = actor_of(shared, lead, &mut leader_state, &asked.inventory) else {
        return JointPlace::Nowhere(asked);
    };
    // No message can be sent while the lock is held, so the inventory gets its messages in order.
    if actor.under_way.has_no_messages()
        && let Some(assignment) = actor.slot.borrow_if(|assignment| assignment.may_be_borrowed())
    {
        drop(leader_state);
        return JointPlace::AtTheCart(asked, TakenEntity { actor, assignment });
    }
    actor.under_way.message_sent();
    actor.cast(EntityMessage::JointAsk(asked));
    JointPlace::AtTheInventory
}

/// Wakes an entity only if an actor serves it. An entity without an actor had nothing under way.
pub(crate) fn wake_if_assigned(shared: &Shared, entity: &Entity) {
    let leader_state = shared.lead_of(entity).leader_state.lock();
    if let Some(actor) = leader_state.actors.get(entity) {
        actor.under_way.message_sent();
        actor.cast(EntityMessage::Input(Input::Wake));
    }
}

//! Takes commands of clients.

use std::sync::{Arc, atomic::Ordering};

use boxoffice_core::{
    command::{Admission, ClusterCommand, Command, Machine, PROOF_BYTES, Replacing},
    id::{Entity, Request},
    refusal::Refusal,
    version::RENEWS,
};
use boxoffice_env::secret::Secret;
use boxoffice_wire::{FirstCommand, joining};
use smol_str::format_smolstr;

use super::calls::begin_call;
use crate::{
    actor::{CallContext, take_here},
    admission::Class,
    api::{CallTimes, Failure, ReplyTo},
    cluster_copy::{cluster, table},
    shared::Shared,
};

/// Takes a client's command. A node that is alone hands it to its entity's actor. Otherwise it becomes a call, which may be sent to
/// the node that leads. It is counted by the admission of the node that decides it.
pub(crate) fn submit(shared: &Arc<Shared>, mut command: Command, request: Option<Request>, reply: ReplyTo) {
    shared.metrics.commands.fetch_add(1, Ordering::Relaxed);
    if shared.draining.load(Ordering::Relaxed) {
        return reply.answer(Err(Failure::Draining));
    }
    if let Command::Cluster(ClusterCommand::Join { node, machine, proof, admission }) = &mut command {
        match replaced(shared, *node, machine, proof.as_ref()) {
            Ok(Some(replacing)) => *admission = Admission::Replacing(replacing),
            Ok(None) if knows_secret(shared, *node, machine, proof.as_ref()) => {}
            Ok(None) => return reply.answer(Ok(Err(Refusal::WrongSecret))),
            Err(refusal) => return reply.answer(Ok(Err(refusal))),
        }
    }
    if matches!(command, Command::Cluster(ClusterCommand::Invite { .. })) && shared.config.peer_secrets.is_empty() {
        let why = "no machine can join this node: set peers.listen (--peers-listen) and start it again";
        return reply.answer(Ok(Err(Refusal::BadRequest(why.into()))));
    }
    if shared.is_alone() {
        return take_here(shared, command, request, CallContext::default(), reply);
    }
    if let Some(retry_after_ms) = sheds_remote(shared, &command, request, reply.times()) {
        return reply.answer(Err(Failure::Busy(retry_after_ms)));
    }
    begin_call(shared, command, request, reply);
}

/// Whether a client's command that comes now is shed, and then after how many milliseconds its client should try again. Such
/// a command is counted, and must not be submitted.
pub(crate) fn sheds(shared: &Shared, command: &Command, request: Option<Request>, times: CallTimes) -> Option<u32> {
    if !shared.admission.may_shed() || shared.draining.load(Ordering::Relaxed) {
        return None;
    }
    let entity = command.entity();
    let lead = shared.lead_of(&entity);
    if !shared.is_alone() && !lead.leads() {
        return sheds_remote(shared, command, request, times);
    }
    let class = || match request {
        Some(request) if shared.calls.knows(&entity, request.id) => None,
        Some(_) | None => lead.class_of(&entity, command, request),
    };
    sheds_now(shared, class, times.of(command))
}

/// The same for a command of which only the head was read. `None` also if the class depends on the rest.
pub(crate) fn sheds_first(shared: &Shared, command: &dyn Fn() -> Option<FirstCommand>, unread_ms: u64) -> Option<u32> {
    if !shared.admission.may_shed() || shared.draining.load(Ordering::Relaxed) {
        return None;
    }
    let command = command()?;
    let patience_ms = match command {
        FirstCommand::Read => u64::MAX,
        FirstCommand::OpenCart { patience_ms, .. } => patience_ms,
    };
    let class = || match command {
        FirstCommand::Read => Some(Class::Read),
        FirstCommand::OpenCart { cart, rid, .. } => {
            let cart = Entity::Cart(cart);
            match shared.calls.knows(&cart, rid) {
                true => None,
                false => shared.lead_of(&cart).class_of_opening(&cart, rid),
            }
        }
    };
    sheds_now(shared, class, CallTimes { unread_ms, patience_ms })
}

/// The same for a command that another node decides. Only reads are shed here, and commands that begin a cart unknown to this
/// node. The other node may have admitted any other before.
fn sheds_remote(shared: &Shared, command: &Command, request: Option<Request>, times: CallTimes) -> Option<u32> {
    if !shared.admission.may_shed() {
        return None;
    }
    let entity = command.entity();
    let lead = shared.lead_of(&entity);
    if lead.leads() {
        return None;
    }
    let class = || match request {
        Some(request) if shared.calls.knows(&entity, request.id) => None,
        Some(_) | None => lead.class_of(&entity, command, request).filter(|class| *class <= Class::Begin),
    };
    sheds_now(shared, class, times.of(command))
}

/// Asks the admission whether a command of this class is shed now, and counts it if so.
fn sheds_now(shared: &Shared, class: impl FnOnce() -> Option<Class>, times: CallTimes) -> Option<u32> {
    let retry_after_ms = shared.admission.sheds(class, times, shared.world.clock.monotonic_ms())?;
    shared.metrics.busy.fetch_add(1, Ordering::Relaxed);
    Some(retry_after_ms)
}

/// Whether a machine that wants to join proves that it knows the secret of the nodes. Without the secret, it would become a
/// member that no node deals with.
fn knows_secret(shared: &Shared, node: Option<u64>, machine: &Machine, proof: Option<&[u8; PROOF_BYTES]>) -> bool {
    let shown = proof.map_or(&[][..], |proof| &proof[..]);
    let secrets = &shared.config.peer_secrets;
    let is_proof =
        |secret: &Secret| joining::is_proof(secret.as_ref(), &shared.cluster.to_string(), node, machine, shown);
    secrets.is_empty() || secrets.iter().any(is_proof)
}

/// The damaged data directory that a machine proves to have, and to be a member's. It may be the one before, if the answer to the
/// machine was lost. `None` if it proves no such thing.
fn replaced(
    shared: &Shared,
    node: Option<u64>,
    machine: &Machine,
    proof: Option<&[u8; PROOF_BYTES]>,
) -> Result<Option<Replacing>, Refusal> {
    let (Some(node), Some(proof), Some(state)) = (node, proof, table(shared)) else { return Ok(None) };
    let Some(member) = cluster(&state).members().get(&node) else { return Ok(None) };
    let disks = member.disk.into_iter().chain(member.renewed.map(|renewed| renewed.from));
    let of_cluster = shared.cluster.to_string();
    let is_proven = |disk: &u128| {
        let is_proof =
            |secret: &Secret| joining::is_renewal_proof(secret.as_ref(), &of_cluster, node, machine, *disk, proof);
        shared.config.peer_secrets.iter().any(is_proof)
    };
    match disks.into_iter().find(is_proven) {
        // A leader with an older program could not read the command.
        Some(_) if !cluster(&state).cluster_version().has(RENEWS) => Err(Refusal::NotRenewed {
            node,
            why: format_smolstr!("that comes with version {RENEWS} of the cluster, so finish the upgrade first"),
        }),
        found => Ok(found.map(Replacing::of)),
    }
}

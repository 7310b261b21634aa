//! The host of the cluster's table. Operators change members, and nodes report their progress.

use alloc::boxed::Box;

use super::{Input, Stage, Turn, speculation::Speculation};
use crate::{
    answer::{Answer, Outcome},
    cluster_table::{self, ClusterTable},
    command::{ClusterCommand, Command, INVITATION_HASH_BYTES},
    event::{ClusterEvent, Event},
    id::Request,
    refusal::Refusal,
    time::Timestamp,
};

pub(super) fn handle<R>(stage: &mut Stage<'_, R>, input: Input<R>) {
    let Stage { entity, turn, at, now, .. } = stage;
    match input {
        Input::Command { from, request, command, timeout_ms: _ } => {
            let Command::Cluster(command) = command else {
                panic!("the cluster was handed a command to {}", command.entity());
            };
            let outcome = outcome(entity, (*at, *now), request, command, turn);
            turn.answer(from, outcome);
        }
        Input::Ask { from, .. } => panic!("the cluster was asked something by {from}, which no entity does"),
        // It never asks, waits or pays.
        Input::Reply { .. } | Input::Wake | Input::Paid { .. } => {}
    }
}

fn outcome<R>(
    entity: &mut Speculation,
    (at, now): (Timestamp, Timestamp),
    request: Option<Request>,
    command: ClusterCommand,
    turn: &mut Turn<R>,
) -> Outcome {
    match command {
        ClusterCommand::Get => entity.ok(view(there(entity)?, None)),
        ClusterCommand::Join { node, machine, proof: _, admission } => {
            let cluster = there(entity)?;
            let request = request.ok_or(Refusal::RequestIdMissing)?;
            if let Some(known) = cluster.answered(request) {
                let (version, own) = known?;
                return entity.ok_again(view(cluster, Some(own)), version);
            }
            let (own, joined) = cluster.join((at, now), node, &machine, &admission, request)?;
            write(entity, joined, turn);
            entity.ok(view(there(entity)?, Some(own)))
        }
        ClusterCommand::Invite { hash, for_ms } => {
            let cluster = there(entity)?;
            let request = request.ok_or(Refusal::RequestIdMissing)?;
            if let Some(known) = cluster.answered(request) {
                let (version, _) = known?;
                return entity.ok_again(invitation(cluster, &hash)?, version);
            }
            let invited = cluster.invite(at, hash, for_ms, request)?;
            write(entity, Some(invited), turn);
            entity.ok(invitation(there(entity)?, &hash)?)
        }
        ClusterCommand::Drain { node, force } => {
            once(entity, request, turn, |cluster, by| cluster.drain(now, node, force, by))
        }
        ClusterCommand::Undrain { node } => once(entity, request, turn, |cluster, by| cluster.undrain(now, node, by)),
        ClusterCommand::Remove { node, force } => {
            once(entity, request, turn, |cluster, by| cluster.remove(now, node, force, by))
        }
        ClusterCommand::Replace { node } => once(entity, request, turn, |cluster, by| cluster.replace(now, node, by)),
        ClusterCommand::FinishUpgrade { down } => {
            let cluster = there(entity)?;
            if let Some(known) = request.and_then(|request| cluster.answered(request)) {
                let (version, _) = known?;
                return entity.ok_again(Answer::Done, version);
            }
            let raised = cluster.finish_upgrade(&down, request)?;
            write(entity, raised, turn);
            entity.ok(Answer::Done)
        }
        // Reports of nodes. A repeat changes nothing.
        ClusterCommand::Found { node, machine, shards, replicas } => {
            let founded = cluster_table::found(entity.cluster(), now, node, &machine, (shards, replicas))?;
            write(entity, founded, turn);
            entity.ok(Answer::Done)
        }
        ClusterCommand::Arrived { node, machine } => {
            let arrived = there(entity)?.arrived(now, node, &machine)?;
            write(entity, arrived, turn);
            entity.ok(view(there(entity)?, Some(node)))
        }
        ClusterCommand::Place { based_on, moves } => {
            let placed = there(entity)?.place(based_on, &moves)?;
            write(entity, placed, turn);
            entity.ok(Answer::Done)
        }
        ClusterCommand::Reached { shard, version } => {
            let reached = there(entity)?.reached(shard, version)?;
            write(entity, reached, turn);
            entity.ok(Answer::Done)
        }
        ClusterCommand::Retire { node } => {
            let retired = there(entity)?.retire(now, node)?;
            write(entity, retired, turn);
            entity.ok(Answer::Done)
        }
    }
}

/// Carries out an operator's change, once for each request id (P9).
fn once<R>(
    entity: &mut Speculation,
    request: Option<Request>,
    turn: &mut Turn<R>,
    decide: impl FnOnce(&ClusterTable, Request) -> Result<Option<ClusterEvent>, Refusal>,
) -> Outcome {
    let cluster = there(entity)?;
    let request = request.ok_or(Refusal::RequestIdMissing)?;
    if let Some(known) = cluster.answered(request) {
        let (version, _) = known?;
        return entity.ok_again(Answer::Done, version);
    }
    let decided = decide(cluster, request)?;
    write(entity, decided, turn);
    entity.ok(Answer::Done)
}

fn there(entity: &Speculation) -> Result<&ClusterTable, Refusal> {
    entity.cluster().ok_or_else(|| entity.not_found())
}

fn view(cluster: &ClusterTable, own: Option<u64>) -> Answer {
    Answer::Cluster(Box::new(cluster.view(own)))
}

fn invitation(cluster: &ClusterTable, hash: &[u8; INVITATION_HASH_BYTES]) -> Result<Answer, Refusal> {
    let known = cluster.invitation(hash).ok_or_else(|| Refusal::NotFound("this invitation, which has ended".into()))?;
    Ok(Answer::Invitation(Box::new(known)))
}

fn write<R>(entity: &mut Speculation, event: Option<ClusterEvent>, turn: &mut Turn<R>) {
    if let Some(event) = event {
        entity.apply(Event::Cluster(event), turn);
    }
}

//! The machines become one cluster: one founds it, the others join, and every shard gets its copies.

use std::time::Duration;

use boxoffice_core::{
    answer::{Answer, ClusterView},
    cluster::{Place, Replica},
    command::{ClusterCommand, Command},
};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use tokio::time::sleep;

use crate::{
    desk::Desk,
    faults::{Toll, start},
    machine::{Machine, Role},
    operator::join,
};

/// How long places may take to be as they should when nothing is in the way, in milliseconds.
const SETTLED_MS: u64 = 300_000;
/// With so many nodes every shard has so many voters.
const VOTERS: usize = 3;

/// Starts the first `nodes` machines as one cluster.
pub(crate) async fn assemble(desk: &Desk, nodes: usize, toll: &Mutex<Toll>, dice: &mut SmallRng) {
    let [first, others @ ..] = &desk.machines[..nodes] else { return };
    first.set_role(Role::Member);
    start(first, toll);
    recovered(first, toll).await;
    let Some(handle) = first.handle() else { return };
    desk.set_cluster_id(handle.identity().cluster.0);
    for machine in others {
        if let Err(reason) = join(desk, machine, dice).await {
            return toll.lock().violations.push(format!("node {} does not join: {reason}", machine.number));
        }
        recovered(machine, toll).await;
    }
    settled(desk, toll, dice).await;
}

/// Waits until a machine that nothing troubles serves.
pub(crate) async fn recovered(machine: &Machine, toll: &Mutex<Toll>) {
    if let Err(reason) = machine.serves().await {
        let what = format!("node {} does not serve although nothing is in its way: {reason}", machine.number);
        toll.lock().violations.push(what);
    }
}

/// Waits until every shard has its copies where they should be.
pub(crate) async fn settled(desk: &Desk, toll: &Mutex<Toll>, dice: &mut SmallRng) {
    let until_ms = desk.trace.now_ms() + SETTLED_MS;
    while !is_settled(desk, dice).await {
        if desk.trace.now_ms() > until_ms {
            let view = view(desk, dice).await;
            let what = format!("places are not as they should be {SETTLED_MS} ms after they could: {view:?}");
            return toll.lock().violations.push(what);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Whether every shard has its copies where they should be, as far as one node says.
pub(crate) async fn is_settled(desk: &Desk, dice: &mut SmallRng) -> bool {
    let voters = if desk.members().len() < VOTERS { 1 } else { VOTERS };
    let Some(view) = view(desk, dice).await else { return false };
    // Nothing moves yet where the place of a lost copy has not been thought out anew.
    let is_whole = |replica: &Replica| {
        view.members.get(&replica.node).is_some_and(|member| replica.generation >= member.first_generation)
    };
    let is_in_place =
        |place: &Place| !place.moving() && place.aim.voters.len() >= voters && place.aim.voters.iter().all(is_whole);
    view.places.iter().all(is_in_place)
}

/// Puts into the trace how far everything is.
pub(crate) async fn tell(desk: &Desk, dice: &mut SmallRng) {
    let view = view(desk, dice).await;
    desk.trace.note(&format!("{view:?}"));
    for machine in desk.members() {
        if let Some(handle) = machine.handle() {
            desk.trace.note(&format!("node {}: {:?}, {:?}", machine.number, handle.ready(), handle.status()));
        }
    }
}

/// The cluster as some node tells it, if it does.
pub(crate) async fn view(desk: &Desk, dice: &mut SmallRng) -> Option<Box<ClusterView>> {
    let answered = desk.attempt(dice, Command::Cluster(ClusterCommand::Get), None).await.ok()?;
    match answered.ok()?.answer {
        Answer::Cluster(view) => Some(view),
        other => panic!("the cluster reads {other:?}"),
    }
}

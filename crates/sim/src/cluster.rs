//! Makes the machines one cluster. One founds it, the others join, and every shard gets its replicas.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, ClusterView},
    cluster::{MemberState, Place, Replica},
    command::{Admission, ClusterCommand, Command, Machine as Described, Replacing},
};
use rand::{rngs::SmallRng, seq::IndexedRandom};
use tokio::time::{sleep, timeout};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    client_stub::ClientStub,
    faults::{FaultStats, start},
    machine::{Machine, Role, address},
};

/// The limit until all replicas are in place without faults, in milliseconds.
const SETTLED_MS: u64 = 300_000;
/// How long the cluster is asked for another disk at a time, and the pause afterwards, in milliseconds.
const ASK_MS: u64 = 10_000;
const AGAIN_MS: u64 = 1_000;
/// The voters of each shard, if there are as many nodes.
const VOTERS: usize = 3;

/// Starts the first `nodes` machines as one cluster.
pub(crate) async fn assemble(client: &ClientStub, nodes: usize, stats: &Mutex<FaultStats>, rng: &mut SmallRng) {
    let [first, others @ ..] = &client.machines[..nodes] else { return };
    first.set_role(Role::Member);
    start(first, stats);
    recovered(first, stats).await;
    let Some(handle) = first.handle() else { return };
    client.set_cluster_id(handle.identity().cluster.0);
    for machine in others {
        if let Err(reason) = join(client, machine, rng).await {
            return stats.lock().violations.push(format!("node {} does not join: {reason}", machine.number));
        }
        recovered(machine, stats).await;
    }
    wait_until_placed(client, stats, rng).await;
}

/// Asks the cluster to take a machine in, and starts it. The operator has locked the machine.
pub(crate) async fn join(client: &ClientStub, machine: &Machine, rng: &mut SmallRng) -> Result<(), String> {
    let disk = machine.disk_identity();
    let at = address(machine.number);
    let described =
        Described { disk, peer: (&*at).into(), client: (&*at).into(), program: "sim".into(), versions: None };
    let join = ClusterCommand::Join {
        node: Some(machine.number),
        machine: Box::new(described),
        proof: None,
        admission: Admission::Vouched,
    };
    let ended = client.change(rng, "operator", Command::Cluster(join), u32::MAX).await;
    let Some(Answer::Cluster(view)) = ended.granted().map(|answered| &answered.answer) else {
        return Err(format!("{ended:?}"));
    };
    let others = view.members.iter().filter(|(_, member)| member.state != MemberState::Gone).map(|(node, _)| *node);
    let others: Vec<u64> = others.filter(|node| *node != machine.number).collect();
    let generation_min = view.members[&machine.number].first_generation;
    machine.join(client.cluster_id(), &others, disk, generation_min)
}

/// A member, drawn.
pub(crate) fn member(client: &ClientStub, rng: &mut SmallRng) -> Arc<Machine> {
    Arc::clone(client.members().choose(rng).expect("a cluster has members"))
}

/// Asks the cluster once whether a machine may replace its damaged disk. Returns the cluster after it was granted.
///
/// # Errors
/// The name of the refusal, or that nothing was decided.
pub(crate) async fn ask_for_disk(
    client: &ClientStub,
    machine: &Machine,
    (disk, next): (u128, u128),
    rng: &mut SmallRng,
) -> Result<Box<ClusterView>, String> {
    let at = address(machine.number);
    let described =
        Described { disk: next, peer: (&*at).into(), client: (&*at).into(), program: "sim".into(), versions: None };
    let join = ClusterCommand::Join {
        node: Some(machine.number),
        machine: Box::new(described),
        proof: None,
        admission: Admission::Replacing(Replacing::of(disk)),
    };
    let change = client.change(rng, "a damaged node", Command::Cluster(join), u32::MAX);
    // Without a majority of the directory nothing is decided.
    let Ok(ended) = timeout(Duration::from_millis(ASK_MS), change).await else { return Err("not decided".into()) };
    match ended.granted().map(|answered| &answered.answer) {
        Some(Answer::Cluster(view)) => Ok(view.clone()),
        _ => Err(ended.refused().map_or_else(|| "not decided".into(), |refusal| refusal.name().to_owned())),
    }
}

/// Starts a machine on another disk, as the cluster has granted it.
pub(crate) fn start_on_next_disk(client: &ClientStub, machine: &Machine, view: &ClusterView) -> Result<(), String> {
    let others = view.members.iter().filter(|(_, member)| member.state != MemberState::Gone).map(|(node, _)| *node);
    let others: Vec<u64> = others.filter(|node| *node != machine.number).collect();
    machine.renew(client.cluster_id(), &others, view.members[&machine.number].first_generation)
}

/// Replaces the damaged disk of a machine whose process has ended, as soon as the cluster allows it.
pub(crate) async fn renew(client: &ClientStub, machine: &Machine, why: &str, rng: &mut SmallRng) -> Result<(), String> {
    machine.kill();
    machine.disk().fail_syncs(false);
    let disks = machine.note_damage(why);
    loop {
        if let Ok(view) = ask_for_disk(client, machine, disks, rng).await {
            client.trace.note(&format!("node {} replaces its disk", machine.number));
            return start_on_next_disk(client, machine, &view);
        }
        sleep(Duration::from_millis(AGAIN_MS)).await;
    }
}

/// Waits until a machine without faults serves.
pub(crate) async fn recovered(machine: &Machine, stats: &Mutex<FaultStats>) {
    if let Err(reason) = machine.serves().await {
        let what = format!("node {} does not serve although nothing is in its way: {reason}", machine.number);
        stats.lock().violations.push(what);
    }
}

/// Waits until all replicas are in place.
pub(crate) async fn wait_until_placed(client: &ClientStub, stats: &Mutex<FaultStats>, rng: &mut SmallRng) {
    let until_ms = client.trace.now_ms() + SETTLED_MS;
    while !is_placed(client, rng).await {
        if client.trace.now_ms() > until_ms {
            let view = view(client, rng).await;
            let what = format!("places are not as they should be {SETTLED_MS} ms after they could: {view:?}");
            return stats.lock().violations.push(what);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Whether all replicas are in place, according to one node.
pub(crate) async fn is_placed(client: &ClientStub, rng: &mut SmallRng) -> bool {
    let voters = if client.members().len() < VOTERS { 1 } else { VOTERS };
    let Some(view) = view(client, rng).await else { return false };
    // A lost replica may not have a new place yet, and then nothing moves.
    let is_whole = |replica: &Replica| {
        view.members.get(&replica.node).is_some_and(|member| replica.generation >= member.first_generation)
    };
    let is_in_place = |place: &Place| {
        !place.moving() && place.target.voters.len() >= voters && place.target.voters.iter().all(is_whole)
    };
    view.places.iter().all(is_in_place)
}

/// Writes the state of the cluster to the trace.
pub(crate) async fn trace_state(client: &ClientStub, rng: &mut SmallRng) {
    let view = view(client, rng).await;
    client.trace.note(&format!("{view:?}"));
    for machine in client.members() {
        if let Some(handle) = machine.handle() {
            client.trace.note(&format!("node {}: {:?}, {:?}", machine.number, handle.ready(), handle.status()));
        }
    }
}

/// The cluster's table from a random node.
pub(crate) async fn view(client: &ClientStub, rng: &mut SmallRng) -> Option<Box<ClusterView>> {
    let answered = client.attempt(rng, Command::Cluster(ClusterCommand::Get), None).await.ok()?;
    match answered.ok()?.answer {
        Answer::Cluster(view) => Some(view),
        other => panic!("the cluster reads {other:?}"),
    }
}

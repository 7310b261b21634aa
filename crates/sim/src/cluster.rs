//! The machines become one cluster: one founds it, the others join, and every shard gets its copies.

use std::time::Duration;

use boxoffice_core::{
    answer::{Answer, ClusterView},
    command::{ClusterCommand, Command, Machine as Described},
};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use tokio::time::sleep;

use crate::{
    desk::Desk,
    faults::{Toll, start},
    machine::{Machine, address},
};

/// How long places may take to be as they should when nothing is in the way, in milliseconds.
const SETTLED_MS: u64 = 300_000;
/// With so many nodes every shard has so many voters.
const VOTERS: usize = 3;

/// Starts all machines as one cluster.
pub(crate) async fn assemble(desk: &Desk, toll: &Mutex<Toll>, dice: &mut SmallRng) {
    let [first, others @ ..] = &desk.machines[..] else { return };
    start(first, toll);
    recovered(first, toll).await;
    for (place, machine) in others.iter().enumerate() {
        let disk = machine.disk_identity();
        let known = address(machine.number);
        let described = Described { disk, peer: (&*known).into(), client: (&*known).into(), program: "sim".into() };
        let join = ClusterCommand::Join { node: Some(machine.number), machine: Box::new(described) };
        let ended = desk.change(dice, "cluster", Command::Cluster(join), u32::MAX).await;
        if ended.granted().is_none() {
            return toll.lock().violations.push(format!("node {} may not join: {ended:?}", machine.number));
        }
        let Some(handle) = first.handle() else { return };
        let before: Vec<u64> = desk.machines[..=place].iter().map(|machine| machine.number).collect();
        if let Err(reason) = machine.join(handle.identity().cluster.0, &before, disk) {
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
    let voters = if desk.machines.len() < VOTERS { 1 } else { VOTERS };
    let until_ms = desk.trace.now_ms() + SETTLED_MS;
    loop {
        let view = view(desk, dice).await;
        let is_settled = view
            .as_ref()
            .is_some_and(|view| view.places.iter().all(|place| !place.moving() && place.aim.voters.len() >= voters));
        if is_settled {
            return;
        }
        if desk.trace.now_ms() > until_ms {
            let what = format!("places are not as they should be {SETTLED_MS} ms after they could: {view:?}");
            return toll.lock().violations.push(what);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

async fn view(desk: &Desk, dice: &mut SmallRng) -> Option<Box<ClusterView>> {
    match desk.read(dice, "cluster", Command::Cluster(ClusterCommand::Get)).await.map(|answered| answered.answer) {
        Ok(Answer::Cluster(view)) => Some(view),
        // It is being founded.
        Ok(_) | Err(_) => None,
    }
}

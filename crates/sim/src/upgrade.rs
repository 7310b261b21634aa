//! The upgrade of a cluster while it sells. The nodes get the next program one after the other, sometimes go back, and get it again.
//! Then the version of the cluster is raised, so that they write what only the next program knows.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    command::{ClusterCommand, Command},
    version::NEXT,
};
use rand::{Rng, rngs::SmallRng, seq::SliceRandom};
use tokio::{sync::watch, time::sleep};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    client_stub::ClientStub,
    cluster,
    faults::{self, FaultStats},
    machine::Machine,
    rng::rng,
    settings::Settings,
    swarm::Fault,
};

/// The mean time between two nodes, in milliseconds.
const MEAN_MS: u64 = 6_000;
/// The time between two attempts to finish, in milliseconds.
const AGAIN_MS: u64 = 1_000;
/// The time in which every node writes under a raised version after healing, in milliseconds.
const RAISED_MS: u64 = 60_000;

/// Upgrades until told to stop. Then some nodes may have the next program and others not.
pub(crate) async fn upgrade(
    client: Arc<ClientStub>,
    stats: Arc<Mutex<FaultStats>>,
    settings: Settings,
    mut stop: watch::Receiver<bool>,
) {
    let mut rng = rng(settings.seed, "upgrade", 1);
    let goes_back = rng.random_ratio(1, 3);
    let rounds = if goes_back { &[true, false, true][..] } else { &[true] };
    for (round, has_next) in (1..).zip(rounds) {
        let mut machines = client.machines.clone();
        machines.shuffle(&mut rng);
        for machine in machines {
            if pause(&mut rng, MEAN_MS, &mut stop).await {
                return;
            }
            restart(&client, &stats, &machine, *has_next).await;
            // A request that was refused may come again late, so no node may go back after it.
            if round == rounds.len() && rng.random_ratio(1, 4) && finish(&client, &stats, &mut rng).await {
                // Machines that join later must read what the cluster writes.
                return client.machines.iter().for_each(|machine| machine.set_program(true));
            }
        }
    }
    loop {
        if pause(&mut rng, AGAIN_MS, &mut stop).await || finish(&client, &stats, &mut rng).await {
            return;
        }
    }
}

/// Asks to finish. A member that is down, or has the older program, holds it back.
async fn finish(client: &ClientStub, stats: &Mutex<FaultStats>, rng: &mut SmallRng) -> bool {
    let older = || -> Vec<u64> {
        client.members().iter().filter(|machine| !machine.has_next()).map(|machine| machine.number).collect()
    };
    let older_before = older();
    let finish = Command::Cluster(ClusterCommand::FinishUpgrade { down: Vec::new() });
    client.change(rng, "operator", finish, u32::MAX).await;
    let view = loop {
        match cluster::view(client, rng).await {
            Some(view) => break view,
            None => sleep(Duration::from_millis(AGAIN_MS)).await,
        }
    };
    // As long as no member has said that it has a newer program, there is nothing to finish.
    if view.cluster_version < NEXT {
        return false;
    }
    client.trace.note("the operator: the upgrade is finished");
    let mut stats = stats.lock();
    *stats.faults.entry(Fault::FinishedUpgrade).or_default() += 1;
    if !older_before.is_empty() && older() == older_before {
        stats.violations.push(format!("the upgrade was finished while nodes {older_before:?} have the older program"));
    }
    true
}

/// Waits. Whether it is told to stop.
async fn pause(rng: &mut SmallRng, mean_ms: u64, stop: &mut watch::Receiver<bool>) -> bool {
    let pause_ms = rng.random_range(1..2 * mean_ms);
    tokio::select! {
        biased;
        _ = stop.wait_for(|stops| *stops) => true,
        () = sleep(Duration::from_millis(pause_ms)) => false,
    }
}

/// Ends a process and starts the other program on the same disk. A machine that is off gets it for its next start.
async fn restart(client: &ClientStub, stats: &Mutex<FaultStats>, machine: &Machine, has_next: bool) {
    let _locked = machine.fault_lock.lock().await;
    machine.set_program(has_next);
    if machine.is_member() {
        *stats.lock().faults.entry(Fault::OtherProgram).or_default() += 1;
        client.trace.note(&format!("node {} gets the next program: {has_next}", machine.number));
        machine.kill();
        faults::heal(machine);
        faults::start(machine, stats);
    }
}

/// Checks that every member writes under the raised version, if it was raised.
pub(crate) async fn check(client: &ClientStub, stats: &Mutex<FaultStats>) {
    if !stats.lock().faults.contains_key(&Fault::FinishedUpgrade) {
        return;
    }
    let is_behind = |machine: &Arc<Machine>| machine.handle().is_none_or(|handle| handle.cluster_version() < NEXT);
    for _ in 0..RAISED_MS / AGAIN_MS {
        if !client.members().iter().any(is_behind) {
            return;
        }
        sleep(Duration::from_millis(AGAIN_MS)).await;
    }
    let behind: Vec<u64> = client.members().iter().filter(|machine| is_behind(machine)).map(|one| one.number).collect();
    stats.lock().violations.push(format!("nodes {behind:?} do not write under the version that was raised"));
}

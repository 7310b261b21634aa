//! The operator: takes nodes into the cluster and out of it, and puts new ones in the place of lost ones, while everything
//! else goes wrong; by the commands that operators have.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, ClusterView},
    cluster::MemberState,
    command::{ClusterCommand, Command, Machine as Described},
};
use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tokio::{sync::watch, time::sleep};

use crate::{
    cluster,
    desk::Desk,
    dice::{around, dice},
    faults::{Fault, Toll, one_of},
    machine::{Machine, Role, address},
    settings::Settings,
};

/// The least time between two pieces of work, in milliseconds.
const REST_MS: u64 = 15_000;
/// How often the cluster is asked how far it has come, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// Who does it, and to whom.
struct Operator {
    desk: Arc<Desk>,
    toll: Arc<Mutex<Toll>>,
    dice: SmallRng,
    stop: watch::Receiver<bool>,
}

/// Works until told to stop; what is begun is gone through with.
pub(crate) async fn operate(
    desk: Arc<Desk>,
    toll: Arc<Mutex<Toll>>,
    settings: Settings,
    mut stop: watch::Receiver<bool>,
) {
    let dice = dice(settings.seed, "operator", 0);
    let mut operator = Operator { desk, toll, dice, stop: stop.clone() };
    loop {
        let rest_ms = REST_MS + around(&mut operator.dice, 30_000).min(180_000);
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = sleep(Duration::from_millis(rest_ms)) => {}
        }
        if operator.settled().await && !*stop.borrow() {
            operator.work().await;
        }
    }
}

/// Asks the cluster to take a machine in, and starts it. A piece of work of the operator's, who has the machine in hand.
pub(crate) async fn join(desk: &Desk, machine: &Machine, dice: &mut SmallRng) -> Result<(), String> {
    let disk = machine.disk_identity();
    let at = address(machine.number);
    let described = Described { disk, peer: (&*at).into(), client: (&*at).into(), program: "sim".into() };
    let join = ClusterCommand::Join { node: Some(machine.number), machine: Box::new(described), proof: None };
    let ended = desk.change(dice, "operator", Command::Cluster(join), u32::MAX).await;
    let Some(Answer::Cluster(view)) = ended.granted().map(|answered| &answered.answer) else {
        return Err(format!("{ended:?}"));
    };
    let others = view.members.iter().filter(|(_, member)| member.state != MemberState::Gone).map(|(node, _)| *node);
    let others: Vec<u64> = others.filter(|node| *node != machine.number).collect();
    let generation_min = view.members[&machine.number].first_generation;
    machine.join(desk.cluster_id(), &others, disk, generation_min)
}

impl Operator {
    /// Waits until the cluster is as it should be; `false` if it was told to stop before.
    async fn settled(&mut self) -> bool {
        loop {
            if cluster::is_settled(&self.desk, &mut self.dice).await {
                return true;
            }
            if *self.stop.borrow() {
                return false;
            }
            sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }

    async fn work(&mut self) {
        let members = self.desk.members();
        let machine = Arc::clone(members.choose(&mut self.dice).expect("a cluster has members"));
        let spare = self.desk.machines.iter().find(|machine| machine.role() == Role::Spare).cloned();
        match (self.dice.random_range(0..5), spare) {
            (0, Some(spare)) => self.exchange(spare, machine).await,
            (1, Some(spare)) => self.remove(machine, spare).await,
            (2, _) => self.rot(machine).await,
            (3, Some(spare)) if members.len() < 5 => self.add(spare).await,
            _ => self.replace(machine).await,
        }
    }

    fn note(&self, fault: Fault, machine: &Machine) {
        *self.toll.lock().faults.entry(fault).or_default() += 1;
        self.desk.trace.note(&format!("the operator: {} of node {}", fault.as_str(), machine.number));
    }

    fn violation(&self, what: String) {
        self.toll.lock().violations.push(what);
    }

    async fn asks(&mut self, command: ClusterCommand) -> bool {
        let command = Command::Cluster(command);
        self.desk.change(&mut self.dice, "operator", command, u32::MAX).await.granted().is_some()
    }

    async fn view(&mut self) -> Option<Box<ClusterView>> {
        cluster::view(&self.desk, &mut self.dice).await
    }

    /// A node with an empty disk comes.
    async fn add(&mut self, spare: Arc<Machine>) {
        let _hand = spare.hand.lock().await;
        self.note(Fault::Join, &spare);
        self.joins(&spare).await;
    }

    async fn joins(&mut self, machine: &Machine) {
        if let Err(reason) = join(&self.desk, machine, &mut self.dice).await {
            self.violation(format!("node {} does not join: {reason}", machine.number));
        }
    }

    /// A node comes, and another one is drained.
    async fn exchange(&mut self, spare: Arc<Machine>, old: Arc<Machine>) {
        self.add(spare).await;
        let node = old.number;
        // It may leave before whoever asked for it hears of it.
        old.set_role(Role::Leaving);
        // The new one has first to be known as one that serves.
        while !self.asks(ClusterCommand::Drain { node, force: false }).await {
            sleep(Duration::from_millis(LOOK_MS)).await;
        }
        self.note(Fault::Drain, &old);
        loop {
            let view = self.view().await;
            if view.is_some_and(|view| view.members[&node].state == MemberState::Gone) {
                break;
            }
            sleep(Duration::from_millis(LOOK_MS)).await;
        }
        let _hand = old.hand.lock().await;
        old.set_role(Role::Gone);
        old.kill();
    }

    /// A node dies for good, and another one comes.
    async fn remove(&mut self, dead: Arc<Machine>, spare: Arc<Machine>) {
        let hand = dead.hand.lock().await;
        dead.power_cut();
        if !self.asks(ClusterCommand::Remove { node: dead.number, force: true }).await {
            // Too much would be lost with it.
            self.starts(&dead);
            return;
        }
        self.note(Fault::Remove, &dead);
        dead.set_role(Role::Gone);
        drop(hand);
        self.add(spare).await;
    }

    /// A node loses its disk, and comes back under its id.
    async fn replace(&mut self, machine: Arc<Machine>) {
        let _hand = machine.hand.lock().await;
        self.note(Fault::LostDisk, &machine);
        self.replaces(&machine).await;
    }

    async fn replaces(&mut self, machine: &Machine) {
        machine.power_cut();
        machine.lose_disk();
        // It may have to wait until something else has moved.
        while !self.asks(ClusterCommand::Replace { node: machine.number }).await {
            sleep(Duration::from_millis(LOOK_MS)).await;
        }
        self.joins(machine).await;
    }

    /// A byte of what is on a node's disk changes by itself. It starts without what is damaged only if it has it twice.
    async fn rot(&mut self, machine: Arc<Machine>) {
        let _hand = machine.hand.lock().await;
        machine.power_cut();
        let of_log = one_of(&mut self.dice, &[true, false]);
        let Some(place) = machine.disk().rot(of_log, &mut self.dice) else { return self.starts(&machine) };
        self.note(Fault::BitRot, &machine);
        match machine.start() {
            Err(reason) => {
                self.desk.trace.note(&format!("node {} does not start: {reason} ({place})", machine.number));
                self.replaces(&machine).await;
            }
            Ok(()) if of_log => self.violation(format!("node {} starts with a damaged log: {place}", machine.number)),
            Ok(()) => self.desk.trace.note(&format!("node {} does without {place}", machine.number)),
        }
    }

    fn starts(&self, machine: &Machine) {
        crate::faults::start(machine, &self.toll);
    }
}

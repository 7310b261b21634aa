//! The operator. It adds, removes and replaces nodes with the operators' commands, while all other faults happen.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    answer::ClusterView,
    cluster::{Copies, MemberState, Replica},
    command::{ClusterCommand, Command},
};
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tokio::{sync::watch, time::sleep};
use tracing_mutex::parkinglot::Mutex;

mod flips;

use crate::{
    client_stub::ClientStub,
    cluster,
    faults::FaultStats,
    machine::{Machine, Role},
    network::SimNetwork,
    rng::{around, one_of, rng},
    settings::{Flips, Settings},
    swarm::Fault,
};

/// The shortest time between two operations, in milliseconds.
const REST_MS: u64 = 15_000;
/// The interval of polling, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// The age of a restored copy of a disk, in milliseconds.
const COPY_AGE_MS: std::ops::Range<u64> = 5_000..120_000;
/// The longest lag of another node during a restore, in milliseconds.
const LAG_MS: u64 = 20_000;
/// The limit for the refusal of a node on an old copy, in milliseconds.
const REFUSED_MS: u64 = 30_000;
/// Within this time a damaged record is found and the disk is replaced, if nothing else happens, in milliseconds.
const FOUND_MS: u64 = 120_000;
/// How often a node whose disk is damaged asks, while another one is getting everything again.
const IN_TURN_TRIES: u64 = 4;
/// Attempts to find all other nodes serving before a restore.
const ORDER_TRIES: u64 = 120;

struct Operator {
    client: Arc<ClientStub>,
    network: SimNetwork,
    stats: Arc<Mutex<FaultStats>>,
    rng: SmallRng,
    stop: watch::Receiver<bool>,
}

/// Works until told to stop, and finishes the operation under way.
pub(crate) async fn operate(
    client: Arc<ClientStub>,
    network: SimNetwork,
    stats: Arc<Mutex<FaultStats>>,
    settings: Settings,
    mut stop: watch::Receiver<bool>,
) {
    let rng = rng(settings.seed, "operator", 0);
    let mut operator = Operator { client, network, stats, rng, stop: stop.clone() };
    loop {
        let rest_ms = match settings.flips {
            Flips::Drawn => REST_MS + around(&mut operator.rng, 30_000).min(180_000),
            Flips::OneByOne | Flips::TwoAtOnce => operator.rng.random_range(0..flips::REST_MS),
        };
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = sleep(Duration::from_millis(rest_ms)) => {}
        }
        if operator.wait_until_placed().await && !*stop.borrow() {
            match settings.flips {
                Flips::Drawn => operator.work().await,
                Flips::OneByOne => operator.flip().await,
                Flips::TwoAtOnce => operator.flip_two().await,
            }
        }
    }
}

impl Operator {
    /// Waits until all replicas are in place. `false` if it was told to stop before.
    async fn wait_until_placed(&mut self) -> bool {
        loop {
            if cluster::is_placed(&self.client, &mut self.rng).await {
                return true;
            }
            if *self.stop.borrow() {
                return false;
            }
            sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }

    async fn work(&mut self) {
        let members = self.client.members();
        let machine = Arc::clone(members.choose(&mut self.rng).expect("a cluster has members"));
        let spare = self.client.machines.iter().find(|machine| machine.role() == Role::Spare).cloned();
        match (self.rng.random_range(0..7), spare) {
            (0, Some(spare)) => self.exchange(spare, machine).await,
            (1, Some(spare)) => self.remove(machine, spare).await,
            (2, _) => match self.rng.random_range(0..4) {
                0 => self.rot_two(machine).await,
                1 => self.rot_in_turn(machine).await,
                2 => self.rot_record(machine).await,
                _ => self.rot(machine).await,
            },
            (3, Some(spare)) if members.len() < 5 => self.add(spare).await,
            (5.., _) => self.put_back(machine).await,
            _ => self.replace(machine).await,
        }
    }

    fn note(&self, fault: Fault, machine: &Machine) {
        *self.stats.lock().faults.entry(fault).or_default() += 1;
        self.client.trace.note(&format!("the operator: {} of node {}", fault.as_str(), machine.number));
    }

    fn violation(&self, what: String) {
        self.stats.lock().violations.push(what);
    }

    async fn asks(&mut self, command: ClusterCommand) -> bool {
        let command = Command::Cluster(command);
        self.client.change(&mut self.rng, "operator", command, u32::MAX).await.granted().is_some()
    }

    async fn view(&mut self) -> Option<Box<ClusterView>> {
        cluster::view(&self.client, &mut self.rng).await
    }

    /// Adds a node with an empty disk.
    async fn add(&mut self, spare: Arc<Machine>) {
        let _locked = spare.fault_lock.lock().await;
        self.note(Fault::Join, &spare);
        self.joins(&spare).await;
    }

    async fn joins(&mut self, machine: &Machine) {
        if let Err(reason) = cluster::join(&self.client, machine, &mut self.rng).await {
            self.violation(format!("node {} does not join: {reason}", machine.number));
        }
    }

    /// Adds a node and drains another one.
    async fn exchange(&mut self, spare: Arc<Machine>, old: Arc<Machine>) {
        self.add(spare).await;
        let node = old.number;
        // The node may leave before the operator receives the answer.
        old.set_role(Role::Leaving);
        // The new node must be known to serve first.
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
        let _locked = old.fault_lock.lock().await;
        old.set_role(Role::Gone);
        old.kill();
    }

    /// Removes a dead node and adds another one.
    async fn remove(&mut self, dead: Arc<Machine>, spare: Arc<Machine>) {
        let fault_lock = dead.fault_lock.lock().await;
        dead.power_cut();
        if !self.asks(ClusterCommand::Remove { node: dead.number, force: true }).await {
            // The removal was refused because data would be lost.
            self.starts(&dead);
            return;
        }
        self.note(Fault::Remove, &dead);
        dead.set_role(Role::Gone);
        drop(fault_lock);
        self.add(spare).await;
    }

    /// Replaces a node that lost its disk under the same id.
    async fn replace(&mut self, machine: Arc<Machine>) {
        let _locked = machine.fault_lock.lock().await;
        self.note(Fault::LostDisk, &machine);
        self.replaces(&machine).await;
    }

    async fn replaces(&mut self, machine: &Machine) {
        machine.power_cut();
        machine.lose_disk();
        // The command may have to wait for other moves.
        while !self.asks(ClusterCommand::Replace { node: machine.number }).await {
            sleep(Duration::from_millis(LOOK_MS)).await;
        }
        self.joins(machine).await;
    }

    /// Stops a node, copies its disk, and later starts it on that copy, at times beside a lagging node. Another node
    /// must refuse it and name the remedy, which is then applied. A majority of running nodes must know its lost
    /// entries for that, so all others serve meanwhile.
    async fn put_back(&mut self, machine: Arc<Machine>) {
        let copy = {
            let _locked = machine.fault_lock.lock().await;
            if !machine.is_member() {
                return;
            }
            machine.power_cut();
            let copy = machine.copy_disk();
            self.starts(&machine);
            copy
        };
        let age_ms = self.rng.random_range(COPY_AGE_MS);
        sleep(Duration::from_millis(age_ms)).await;
        let network = self.network.clone();
        let _links = network.fault_lock().lock().await;
        let members = self.client.members();
        let mut tries = 0;
        let locks = loop {
            let serves = |machine: &Arc<Machine>| machine.handle().is_some_and(|handle| handle.ready().is_ok());
            let locks: Vec<_> = members.iter().filter_map(|machine| machine.fault_lock.try_lock().ok()).collect();
            if locks.len() == members.len() && members.iter().all(serves) {
                break locks;
            }
            drop(locks);
            tries += 1;
            if tries > ORDER_TRIES || self.client.members().len() != members.len() {
                return self.client.trace.note("the operator: nothing is put back while others are not in order");
            }
            sleep(Duration::from_millis(LOOK_MS / 2)).await;
        };
        let others: Vec<u64> =
            members.iter().map(|other| other.number).filter(|node| *node != machine.number).collect();
        let lagging = if self.rng.random() { others.choose(&mut self.rng).copied() } else { None };
        let ways =
            |node: u64| self.client.machines.iter().map(move |other| (node, other.number)).filter(|(a, b)| a != b);
        if let Some(node) = lagging {
            self.client.trace.note(&format!("the operator: node {node} lags"));
            network.change(|link_model| {
                ways(node).for_each(|(one, other)| _ = (link_model.cut(one, other), link_model.cut(other, one)))
            });
            let lag_ms = self.rng.random_range(0..LAG_MS);
            sleep(Duration::from_millis(lag_ms)).await;
        }
        self.note(Fault::OldCopy, &machine);
        machine.power_cut();
        machine.put_disk(copy);
        let started = machine.start();
        if let Some(node) = lagging {
            network.change(|link_model| {
                ways(node).for_each(|(one, other)| _ = (link_model.mend(one, other), link_model.mend(other, one)))
            });
        }
        let refused = match started {
            Err(reason) => Some(reason),
            Ok(()) => tokio::select! {
                biased;
                reason = machine.failed() => Some(reason),
                () = sleep(Duration::from_millis(REFUSED_MS)) => None,
            },
        };
        let node = machine.number;
        self.client.trace.note(&format!("node {node} on an old copy: {refused:?}"));
        match refused {
            Some(reason) if reason.contains("admin replace") => {}
            refused => self.violation(format!(
                "node {node} was started on a copy of its disk {age_ms} ms old, beside {lagging:?} that lags: {refused:?}"
            )),
        }
        // This machine stays locked.
        let of_machine = members.iter().position(|other| other.number == node);
        let _locked = locks.into_iter().enumerate().find(|(place, _)| Some(*place) == of_machine);
        drop(_links);
        self.replaces(&machine).await;
    }

    /// Changes a byte on a node's disk. The node may start only if it has another copy of the data. Otherwise it replaces its disk.
    async fn rot(&mut self, machine: Arc<Machine>) {
        let _locked = machine.fault_lock.lock().await;
        machine.power_cut();
        let of_log = one_of(&mut self.rng, &[true, false]);
        let Some(place) = machine.disk().rot(of_log, &mut self.rng) else { return self.starts(&machine) };
        self.note(Fault::BitRot, &machine);
        match machine.start() {
            Err(reason) => {
                self.client.trace.note(&format!("node {} does not start: {reason} ({place})", machine.number));
                self.renews(&machine, &reason).await;
            }
            Ok(()) if of_log => self.violation(format!("node {} starts with a damaged log: {place}", machine.number)),
            Ok(()) => {
                self.client.trace.note(&format!("node {} does without {place}", machine.number));
                machine.note_rotted(place.split(',').next().unwrap_or(&place));
            }
        }
    }

    async fn renews(&mut self, machine: &Machine, why: &str) {
        if let Err(reason) = cluster::renew(&self.client, machine, why, &mut self.rng).await {
            self.violation(format!("node {} does not replace its disk: {reason}", machine.number));
        }
    }

    /// Changes a byte of a record of the store of a node that runs. The node finds it when it reads everything, and replaces its disk.
    async fn rot_record(&mut self, machine: Arc<Machine>) {
        let _locked = machine.fault_lock.lock().await;
        if !machine.is_member() || !machine.runs() {
            return;
        }
        let Some(place) = machine.disk().rot_record(&mut self.rng) else { return };
        self.note(Fault::BitRot, &machine);
        let found = tokio::select! {
            biased;
            reason = machine.failed() => Some(reason),
            () = sleep(Duration::from_millis(FOUND_MS)) => None,
        };
        self.client.trace.note(&format!("node {}: {place}: {found:?}", machine.number));
        match found {
            Some(why) if machine.found_damage() => self.renews(&machine, &why).await,
            Some(why) => self.violation(format!("node {} ended without a reason: {why}", machine.number)),
            // The record was replaced before it was read, or the others could not do without the node for all the time.
            None => self.replaces(&machine).await,
        }
    }

    /// Changes a byte of the log of a machine that is off, so that it does not start. `None` if its log is too short.
    fn damage_log(&mut self, machine: &Machine) -> Option<String> {
        machine.disk().rot(true, &mut self.rng)?;
        self.note(Fault::BitRot, machine);
        match machine.start() {
            Err(reason) => Some(reason),
            Ok(()) => {
                self.violation(format!("node {} starts with a damaged log", machine.number));
                None
            }
        }
    }

    /// Another member, drawn.
    fn another(&mut self, machine: &Machine) -> Option<Arc<Machine>> {
        let members = self.client.members();
        let others: Vec<_> = members.into_iter().filter(|other| other.number != machine.number).collect();
        others.choose(&mut self.rng).cloned()
    }

    /// Damages the logs of two nodes. Where a shard has both, neither may replace its disk. One of them gets its log back.
    async fn rot_two(&mut self, machine: Arc<Machine>) {
        let Some(other) = self.another(&machine) else { return };
        let _locked = machine.fault_lock.lock().await;
        let Ok(_other_locked) = other.fault_lock.try_lock() else { return };
        if !machine.is_member() || !other.is_member() {
            return;
        }
        let before = self.view().await;
        machine.power_cut();
        other.power_cut();
        let copy = other.copy_disk();
        let Some(why) = self.damage_log(&machine) else {
            self.starts(&machine);
            return self.starts(&other);
        };
        let is_damaged = self.damage_log(&other).is_some();
        let disks = machine.note_damage(&why);
        let granted = cluster::ask_for_disk(&self.client, &machine, disks, &mut self.rng).await.ok();
        let both = |voters: &[Replica]| {
            let has = |node: u64| voters.iter().any(|voter| voter.node == node);
            has(machine.number) && has(other.number)
        };
        let has_both =
            before.is_some_and(|view| view.places.iter().all(|place| !place.moving() && both(&place.target.voters)));
        if granted.is_some() && is_damaged && has_both {
            self.violation(format!("node {} replaces its disk without a majority of every shard", machine.number));
        }
        other.put_disk(copy);
        self.starts(&other);
        match granted {
            Some(view) => {
                if let Err(reason) = cluster::start_on_next_disk(&self.client, &machine, &view) {
                    self.violation(format!("node {} does not replace its disk: {reason}", machine.number));
                }
            }
            None => self.renews(&machine, &why).await,
        }
    }

    /// Damages the log of a node, and that of another one as soon as the first has another disk. The second one may replace its disk
    /// only when the first has everything again.
    async fn rot_in_turn(&mut self, machine: Arc<Machine>) {
        let Some(other) = self.another(&machine) else { return };
        let _locked = machine.fault_lock.lock().await;
        let Ok(_other_locked) = other.fault_lock.try_lock() else { return };
        if !machine.is_member() || !other.is_member() {
            return;
        }
        machine.power_cut();
        let Some(why) = self.damage_log(&machine) else { return self.starts(&machine) };
        self.renews(&machine, &why).await;
        // The directory moves first, and decides without the second node then.
        let rest_ms = self.rng.random_range(0..20_000);
        sleep(Duration::from_millis(rest_ms)).await;
        other.power_cut();
        let copy = other.copy_disk();
        let Some(why) = self.damage_log(&other) else { return self.starts(&other) };
        let disks = other.note_damage(&why);
        for _ in 0..IN_TURN_TRIES {
            let Ok(view) = cluster::ask_for_disk(&self.client, &other, disks, &mut self.rng).await else { continue };
            let first = &view.members[&machine.number];
            let lacks = |copies: &Copies| {
                copies
                    .all()
                    .any(|replica| replica.node == machine.number && replica.generation < first.first_generation)
            };
            if view.places.iter().any(|place| lacks(&place.last_reached) || lacks(&place.target)) {
                self.violation(format!("nodes {} and {} replace their disks at once", machine.number, other.number));
            }
            if let Err(reason) = cluster::start_on_next_disk(&self.client, &other, &view) {
                self.violation(format!("node {} does not replace its disk: {reason}", other.number));
            }
            return;
        }
        // The first one cannot get everything without the second one, whose log is put back.
        other.put_disk(copy);
        self.starts(&other);
    }

    /// Starts a locked machine. A fault may have been cut short without its end.
    fn starts(&self, machine: &Machine) {
        crate::faults::heal(machine);
        crate::faults::start(machine, &self.stats);
    }
}

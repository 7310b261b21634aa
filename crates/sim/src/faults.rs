//! Injects the faults of a run into machines and links.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rand::{Rng, rngs::SmallRng, seq::SliceRandom};
use tokio::time::sleep;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    client_stub::ClientStub,
    fixture::Fixture,
    link_model::LinkFaults,
    machine::{Machine, Role},
    network::SimNetwork,
    rng::{around, one_of, rng},
    stale_reads,
    swarm::{Fault, Swarm},
    tally::Tally,
    trace::Trace,
};

/// The shortest time between two blackouts, in milliseconds.
const BLACKOUT_LEAST_MS: u64 = 20_000;

/// The shortest time between two settings of all clocks, in milliseconds. It leaves time to check answers.
const SET_LEAST_MS: u64 = 60_000;

/// The shortest time between two outages, in milliseconds.
const OUTAGE_LEAST_MS: u64 = 25_000;

/// The limit for messages of any kind before a planned kill.
const AIMED_MESSAGES: u64 = 20;
/// The kinds of messages before a planned kill. `None` is any.
const AIMED_AT: [Option<&str>; 8] =
    [None, None, Some("hold"), Some("granted"), Some("overdue"), Some("not mine"), Some("not mine"), Some("sell")];
/// The limit for the wait for these messages, in milliseconds.
const AIMED_MS: u64 = 5_000;

/// The most granted changes between two power cuts at an answer.
const CUT_ANSWERS: u64 = 60;

/// The longest additional delay of a link, in milliseconds.
pub(crate) const SLOWEST_MS: u64 = 5_000;

/// The interval of checks whether a process has ended, in milliseconds.
const LOOK_MS: u64 = 500;

/// The faults so far, and violations of processes.
#[derive(Debug, Default)]
pub(crate) struct FaultStats {
    /// Injected faults by kind.
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Processes that ended without a reason, or did not start.
    pub(crate) violations: Vec<String>,
    /// The longest time until a node with a changed bit was whole again, in milliseconds, and the place of the bit.
    pub(crate) longest_repair: (u64, String),
    /// Changed bits by part of the disk.
    pub(crate) flips: Tally,
}

/// Injects faults into links until it is dropped. Call [`mend`] afterwards.
pub(crate) async fn inject_link_faults(
    network: SimNetwork,
    swarm: Swarm,
    (seed, nodes): (u64, u64),
    trace: Arc<Trace>,
    stats: Arc<Mutex<FaultStats>>,
) {
    let mut rng = rng(seed, "links", 0);
    loop {
        sleep(Duration::from_millis(around(&mut rng, swarm.mean_ms))).await;
        let _locked = network.fault_lock().lock().await;
        let fault = one_of(&mut rng, &swarm.of_links);
        let one = rng.random_range(1..=nodes);
        let other = (one + rng.random_range(0..nodes - 1)) % nodes + 1;
        *stats.lock().faults.entry(fault).or_default() += 1;
        trace.note(&format!("links: {} of {one} and {other}", fault.as_str()));
        let others: Vec<u64> = (1..=nodes).filter(|node| *node != one).collect();
        let ways: Vec<(u64, u64)> = match fault {
            Fault::Cut => vec![(one, other), (other, one)],
            Fault::OneWay => vec![(one, other)],
            Fault::Isolation => others.into_iter().flat_map(|other| [(one, other), (other, one)]).collect(),
            _ => Vec::new(),
        };
        network.change(|link_model| ways.iter().for_each(|&(from, to)| _ = link_model.cut(from, to)));
        match fault {
            Fault::SlowLink => {
                let more_us = one_of(&mut rng, &[50_000, 500_000, 1_000 * SLOWEST_MS]);
                network.change(|link_model| link_model.set_slow(one, other, more_us));
            }
            Fault::Storm => {
                let lost_permille = one_of(&mut rng, &[10, 100, 300]);
                let jitter_us = one_of(&mut rng, &[1_000, 20_000, 200_000]);
                network.set_link_faults(LinkFaults { lost_permille, twice_permille: 50, jitter_us, ..FAIR });
            }
            _ => {}
        }
        // A cut lasts long enough to be noticed.
        let for_ms = 1_000 + around(&mut rng, 15_000).min(90_000);
        sleep(Duration::from_millis(for_ms)).await;
        mend(&network);
        trace.note("links: mended");
    }
}

/// Injects faults into all machines at once until it is dropped. Call [`heal`] afterwards.
pub(crate) async fn inject_all(client: Arc<ClientStub>, swarm: Swarm, seed: u64, stats: Arc<Mutex<FaultStats>>) {
    let mut rng = rng(seed, "all", 0);
    loop {
        sleep(Duration::from_millis(BLACKOUT_LEAST_MS + around(&mut rng, swarm.mean_ms))).await;
        *stats.lock().faults.entry(Fault::Blackout).or_default() += 1;
        client.trace.note("all: blackout");
        let members = client.members();
        // A machine that another task has locked has its fault already.
        let mut dark: Vec<_> = members
            .iter()
            .filter_map(|machine| Some((machine, machine.fault_lock.try_lock().ok()?)))
            .filter(|(machine, _)| machine.is_member())
            .map(|(machine, fault_lock)| (off_ms(&mut rng), machine, fault_lock))
            .collect();
        dark.iter().for_each(|(_, machine, _)| machine.power_cut());
        dark.sort_by_key(|(off_ms, machine, _)| (*off_ms, machine.number));
        let since_ms = client.trace.now_ms();
        // Nothing happens while all machines are off, so hours of it take no time of the run.
        if client.machines.iter().all(|machine| machine.is_off()) && rng.random_ratio(1, 3) {
            let for_ms = rng.random_range(60_000..4 * 3_600_000);
            *stats.lock().faults.entry(Fault::Outage).or_default() += 1;
            client.trace.note(&format!("all: off for {for_ms} ms more than is told"));
            client.wall_clocks.were_off(for_ms, since_ms);
        }
        for (off_ms, machine, _locked) in dark {
            let passed_ms = client.trace.now_ms() - since_ms;
            sleep(Duration::from_millis(off_ms.saturating_sub(passed_ms))).await;
            start(machine, &stats);
        }
    }
}

/// Cuts the power of machines in the moment in which they answer a change, until it is dropped. Call [`heal`] afterwards.
pub(crate) async fn cut_at_answers(client: Arc<ClientStub>, seed: u64, stats: Arc<Mutex<FaultStats>>) {
    let mut rng = rng(seed, "answers", 0);
    let mut granted = client.granted.subscribe();
    loop {
        let next = granted.borrow_and_update().0 + rng.random_range(1..=CUT_ANSWERS);
        let Ok(number) = granted.wait_for(|(count, _)| *count >= next).await.map(|granted| granted.1) else { return };
        let members = client.members();
        let Some(machine) = members.iter().find(|machine| machine.number == number) else { continue };
        // Another task that has locked the machine has a fault for it already.
        let Ok(_locked) = machine.fault_lock.try_lock() else { continue };
        *stats.lock().faults.entry(Fault::CutAtAnswer).or_default() += 1;
        machine.power_cut();
        sleep(Duration::from_millis(off_ms(&mut rng))).await;
        start(machine, &stats);
    }
}

/// Switches all machines off now and then, for a time that does not pass in the run, until it is dropped. Call [`heal`]
/// afterwards.
pub(crate) async fn inject_outages(client: Arc<ClientStub>, seed: u64, stats: Arc<Mutex<FaultStats>>) {
    let mut rng = rng(seed, "outages", 0);
    loop {
        sleep(Duration::from_millis(OUTAGE_LEAST_MS + around(&mut rng, OUTAGE_LEAST_MS))).await;
        let members = loop {
            let members = client.members();
            let is_free = |machine: &Arc<Machine>| machine.fault_lock.try_lock().is_ok();
            if members.iter().all(is_free) {
                break members;
            }
            sleep(Duration::from_millis(LOOK_MS)).await;
        };
        // No other task has run since the check.
        let mut dark: Vec<_> =
            members.iter().filter_map(|machine| Some((machine, machine.fault_lock.try_lock().ok()?))).collect();
        let is_planned = rng.random();
        for (machine, _) in &dark {
            // A failed process reports its failure before it is stopped.
            match is_planned && machine.failure().is_none() {
                true => machine.kill(),
                false => machine.power_cut(),
            }
            machine.disk().fail_syncs(false);
        }
        if client.machines.iter().all(|machine| machine.is_off()) {
            let longest_ms = one_of(&mut rng, &[20_000, 300_000, 4 * 3_600_000]);
            let for_ms = rng.random_range(longest_ms / 10..longest_ms);
            *stats.lock().faults.entry(Fault::Outage).or_default() += 1;
            client.trace.note(&format!("all: off for {for_ms} ms, planned: {is_planned}"));
            client.wall_clocks.were_off(for_ms, client.trace.now_ms());
        }
        dark.shuffle(&mut rng);
        for (machine, _locked) in dark {
            sleep(Duration::from_millis(rng.random_range(0..2_000))).await;
            start(machine, &stats);
        }
    }
}

/// Sets all wall clocks together now and then until it is dropped.
pub(crate) async fn set_clocks(client: Arc<ClientStub>, swarm: Swarm, seed: u64, stats: Arc<Mutex<FaultStats>>) {
    let mut rng = rng(seed, "walls", 0);
    loop {
        sleep(Duration::from_millis(SET_LEAST_MS + around(&mut rng, swarm.mean_ms))).await;
        let hour_ms = 3_600_000;
        let ahead_ms = one_of(&mut rng, &[-hour_ms, -90_000, -1_000, 0, 1_000, 90_000, hour_ms, 24 * hour_ms]);
        *stats.lock().faults.entry(Fault::ClocksSet).or_default() += 1;
        client.trace.note(&format!("all: clocks are set to {ahead_ms} ms ahead"));
        client.wall_clocks.set_all(ahead_ms, client.trace.now_ms());
    }
}

/// How long a machine stays off. At times it is shorter than an election.
fn off_ms(rng: &mut SmallRng) -> u64 {
    match rng.random_ratio(1, 3) {
        true => rng.random_range(0..200),
        false => around(rng, 2_000).min(30_000),
    }
}

/// Links without faults.
const FAIR: LinkFaults = LinkFaults { delay_us: 300, jitter_us: 1_000, lost_permille: 0, twice_permille: 0 };

/// Ends all faults of links.
pub(crate) fn mend(network: &SimNetwork) {
    network.change(|link_model| link_model.mend_all());
    network.set_link_faults(FAIR);
}

/// Injects faults into one machine until it is dropped. Call [`heal`] afterwards.
pub(crate) async fn inject(
    machine: Arc<Machine>,
    swarm: Swarm,
    seed: u64,
    (client, fixture, network): (Arc<ClientStub>, Arc<Fixture>, SimNetwork),
    stats: Arc<Mutex<FaultStats>>,
) {
    let (rng, trace) = (rng(seed, "fate", machine.number), Arc::clone(&client.trace));
    let mut faults = MachineFaults { rng, machine, client, fixture, network, trace, stats };
    loop {
        let rest_ms = around(&mut faults.rng, swarm.mean_ms);
        faults.rest(rest_ms).await;
        let machine = Arc::clone(&faults.machine);
        let _locked = machine.fault_lock.lock().await;
        if !machine.is_member() {
            continue;
        }
        let kind = one_of(&mut faults.rng, &swarm.of_machines);
        faults.inject_fault(kind).await;
    }
}

struct MachineFaults {
    rng: SmallRng,
    machine: Arc<Machine>,
    client: Arc<ClientStub>,
    fixture: Arc<Fixture>,
    network: SimNetwork,
    trace: Arc<Trace>,
    stats: Arc<Mutex<FaultStats>>,
}

impl MachineFaults {
    /// Waits, while other tasks may lock the machine.
    async fn rest(&mut self, ms: u64) {
        let until_ms = self.trace.now_ms() + ms;
        let machine = Arc::clone(&self.machine);
        while self.trace.now_ms() < until_ms {
            let left_ms = until_ms - self.trace.now_ms();
            sleep(Duration::from_millis(left_ms.min(LOOK_MS))).await;
            if machine.failure().is_none() {
                continue;
            }
            let _locked = machine.fault_lock.lock().await;
            if let Some(reason) = machine.failure() {
                self.ended(&reason, None).await;
            }
        }
    }

    /// Waits. A process that ends meanwhile must have this reason, and is started again.
    async fn watch(&mut self, ms: u64, because: Option<Fault>) {
        let until_ms = self.trace.now_ms() + ms;
        loop {
            let left_ms = until_ms.saturating_sub(self.trace.now_ms());
            let machine = Arc::clone(&self.machine);
            tokio::select! {
                biased;
                reason = machine.failed() => self.ended(&reason, because).await,
                () = sleep(Duration::from_millis(left_ms)) => return,
            }
        }
    }

    async fn ended(&mut self, reason: &str, because: Option<Fault>) {
        let number = self.machine.number;
        self.trace.note(&format!("node {number} ends: {reason}"));
        if self.machine.role() == Role::Leaving && reason.contains("no member") {
            self.machine.set_role(Role::Gone);
            return self.machine.kill();
        }
        if because.is_none() {
            self.stats.lock().violations.push(format!("node {number} ended without a reason: {reason}"));
        }
        // After a failed sync the content of the disk is unknown. With power the next process reads all of it, and may
        // lose it later.
        let reads_it = self.rng.random();
        match reads_it {
            true => self.machine.kill(),
            false => self.machine.power_cut(),
        }
        self.machine.disk().fail_syncs(false);
        self.restart().await;
        if reads_it && self.rng.random() {
            let for_ms = self.rng.random_range(0..5_000);
            sleep(Duration::from_millis(for_ms)).await;
            self.trace.note(&format!("node {number}: and the power goes"));
            self.machine.power_cut();
            self.restart().await;
        }
    }

    async fn restart(&mut self) {
        let off_ms = off_ms(&mut self.rng);
        sleep(Duration::from_millis(off_ms)).await;
        start(&self.machine, &self.stats);
    }

    /// Resumes a paused process. By chance it reads requests of clients before messages of other nodes, so it may still
    /// believe that it leads.
    async fn resume_process(&mut self) {
        if self.rng.random() {
            return self.machine.resume();
        }
        self.machine.go_on();
        for _ in 0..self.rng.random_range(1..4) {
            stale_reads::look_at(&self.client, &self.fixture, &self.machine);
            sleep(Duration::from_millis(self.rng.random_range(1..30))).await;
        }
        self.machine.hear();
    }

    async fn inject_fault(&mut self, fault: Fault) {
        *self.stats.lock().faults.entry(fault).or_default() += 1;
        self.trace.note(&format!("node {}: {}", self.machine.number, fault.as_str()));
        match fault {
            Fault::Kill => {
                self.machine.kill();
                self.restart().await;
            }
            Fault::AimedKill => {
                let kind = one_of(&mut self.rng, &AIMED_AT);
                let messages = self.rng.random_range(0..if kind.is_some() { 3 } else { AIMED_MESSAGES });
                self.network.plan_kill(self.machine.number, kind, messages);
                let is_due = tokio::select! {
                    biased;
                    () = self.network.kill_is_due(self.machine.number) => true,
                    // The process sends nothing, or has ended.
                    _ = self.machine.failed() => false,
                    () = sleep(Duration::from_millis(AIMED_MS)) => false,
                };
                self.trace.note(&format!("node {}: after {kind:?}: {is_due}", self.machine.number));
                self.machine.kill();
                self.machine.disk().fail_syncs(false);
                self.restart().await;
            }
            Fault::PowerCut => {
                self.machine.power_cut();
                self.restart().await;
            }
            Fault::TornWrite => {
                self.machine.disk().stop_after(self.rng.random_range(0..40));
                let machine = Arc::clone(&self.machine);
                tokio::select! {
                    biased;
                    _ = machine.failed() => {}
                    () = sleep(Duration::from_millis(10_000)) => {}
                }
                self.machine.power_cut();
                self.restart().await;
            }
            Fault::Pause => {
                self.machine.pause();
                // Every third pause is shorter than an election.
                let for_ms = match self.rng.random_ratio(1, 3) {
                    true => self.rng.random_range(1..900),
                    false => around(&mut self.rng, 10_000).min(90_000),
                };
                sleep(Duration::from_millis(for_ms)).await;
                self.resume_process().await;
            }
            Fault::SlowDisk => {
                let change = Duration::from_millis(one_of(&mut self.rng, &[5, 50, 500]));
                self.machine.disk().set_pace(change);
                self.watch(20_000, None).await;
                self.machine.disk().set_pace(Duration::ZERO);
            }
            Fault::FailedSync => {
                self.machine.disk().fail_syncs(true);
                self.watch(10_000, Some(fault)).await;
                self.machine.disk().fail_syncs(false);
            }
            Fault::FullDisk => {
                self.machine.disk().set_room(Some(self.rng.random_range(0..400_000)));
                if self.rng.random() {
                    self.machine.disk().cut_next_write(self.rng.random_range(0..5_000));
                }
                self.watch(20_000, Some(fault)).await;
                self.machine.disk().set_room(None);
            }
            Fault::ClockJump => {
                let hour_ms = 3_600_000;
                let skew = if self.rng.random() { 0 } else { self.rng.random_range(-hour_ms..=hour_ms) };
                self.machine.skew.set(skew);
                self.client.wall_clocks.set_one(self.machine.number, skew, self.trace.now_ms());
            }
            Fault::Cut | Fault::OneWay | Fault::Isolation | Fault::SlowLink | Fault::Storm => {
                unreachable!("{fault:?} is a fault of links")
            }
            Fault::Blackout | Fault::Outage | Fault::ClocksSet | Fault::CutAtAnswer => {
                unreachable!("{fault:?} has a task of its own")
            }
            Fault::Join
            | Fault::Drain
            | Fault::Remove
            | Fault::LostDisk
            | Fault::OldCopy
            | Fault::BitRot
            | Fault::OtherProgram
            | Fault::FinishedUpgrade => {
                unreachable!("{fault:?} is the operator's work")
            }
        }
    }
}

/// Starts a machine's process. A failure is a violation.
pub(crate) fn start(machine: &Machine, stats: &Mutex<FaultStats>) {
    if let Err(reason) = machine.start() {
        stats.lock().violations.push(format!("node {} does not start: {reason}", machine.number));
    }
}

/// Ends all faults of a machine. Call [`revive`] afterwards.
pub(crate) fn heal(machine: &Machine) {
    let disk = machine.disk();
    disk.set_pace(Duration::ZERO);
    disk.set_room(None);
    disk.fail_syncs(false);
    disk.stop_after(u64::MAX);
    machine.resume();
}

/// Restarts a healed machine, unless it runs and `keeps_running`.
pub(crate) fn revive(machine: &Machine, keeps_running: bool, stats: &Mutex<FaultStats>) {
    // The task that has locked the machine starts it.
    let Ok(_locked) = machine.fault_lock.try_lock() else { return };
    if !machine.is_member() || (keeps_running && machine.runs()) {
        return;
    }
    // A fault may have been cut short at any point.
    machine.power_cut();
    start(machine, stats);
}

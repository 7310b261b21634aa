//! What befalls the machines: which kinds of trouble a run has, and how rough, is drawn from its seed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tokio::time::sleep;

use crate::{
    dice::{around, dice},
    machine::Machine,
    settings::Settings,
    trace::Trace,
};

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process is killed; what it wrote stays.
    Kill,
    /// The power goes: what was not synced may be lost.
    PowerCut,
    /// The power goes in the middle of writing.
    TornWrite,
    /// The process stands still for a while.
    Pause,
    /// The disk is slow for a while.
    SlowDisk,
    /// Syncs fail; the process must end.
    FailedSync,
    /// The disk is full for a while.
    FullDisk,
    /// The wall clock jumps.
    ClockJump,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 8] = [
        Fault::Kill,
        Fault::PowerCut,
        Fault::TornWrite,
        Fault::Pause,
        Fault::SlowDisk,
        Fault::FailedSync,
        Fault::FullDisk,
        Fault::ClockJump,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::PowerCut => "power cut",
            Fault::TornWrite => "torn write",
            Fault::Pause => "pause",
            Fault::SlowDisk => "slow disk",
            Fault::FailedSync => "failed sync",
            Fault::FullDisk => "full disk",
            Fault::ClockJump => "clock jump",
        }
    }
}

/// The trouble of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swarm {
    /// Kinds that occur.
    pub kinds: Vec<Fault>,
    /// The mean time between two of a machine, in milliseconds.
    pub mean_ms: u64,
}

impl Swarm {
    /// What the seed says: each kind with one chance in two, and something at least.
    pub fn draw(settings: &Settings) -> Swarm {
        let mut dice = dice(settings.seed, "swarm", 0);
        let mut kinds: Vec<Fault> = Fault::ALL.into_iter().filter(|_| dice.random()).collect();
        if kinds.is_empty() {
            kinds.push(*Fault::ALL.choose(&mut dice).expect("there are some"));
        }
        Swarm { kinds, mean_ms: *[5_000, 20_000, 60_000].choose(&mut dice).expect("there are some") }
    }
}

/// What befell, and what should not have.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    /// How often each kind befell.
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Processes that ended without a reason, or did not start.
    pub(crate) violations: Vec<String>,
}

/// What befalls one machine, until it is dropped: then [`heal`] is to follow.
pub(crate) async fn befall(
    machine: Arc<Machine>,
    swarm: Swarm,
    settings: Settings,
    trace: Arc<Trace>,
    toll: Arc<Mutex<Toll>>,
) {
    let mut fate = Fate { dice: dice(settings.seed, "fate", machine.number), machine, trace, toll };
    loop {
        let rest_ms = around(&mut fate.dice, swarm.mean_ms);
        fate.watch(rest_ms, None).await;
        let kind = *swarm.kinds.choose(&mut fate.dice).expect("a swarm has kinds");
        fate.fall(kind).await;
    }
}

struct Fate {
    dice: SmallRng,
    machine: Arc<Machine>,
    trace: Arc<Trace>,
    toll: Arc<Mutex<Toll>>,
}

impl Fate {
    /// Lets time go by; a process that ends meanwhile must have this reason, and is started again.
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
        if because.is_none() {
            self.toll.lock().violations.push(format!("node {number} ended without a reason: {reason}"));
        }
        // What a failed sync has left on the disk is anybody's guess.
        self.machine.power_cut();
        self.machine.disk.fail_syncs(false);
        self.restart().await;
    }

    async fn restart(&mut self) {
        let off_ms = around(&mut self.dice, 2_000).min(30_000);
        sleep(Duration::from_millis(off_ms)).await;
        start(&self.machine, &self.toll);
    }

    async fn fall(&mut self, fault: Fault) {
        *self.toll.lock().faults.entry(fault).or_default() += 1;
        self.trace.note(&format!("node {}: {}", self.machine.number, fault.as_str()));
        match fault {
            Fault::Kill => {
                self.machine.kill();
                self.restart().await;
            }
            Fault::PowerCut => {
                self.machine.power_cut();
                self.restart().await;
            }
            Fault::TornWrite => {
                self.machine.disk.stop_after(self.dice.random_range(0..40));
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
                sleep(Duration::from_millis(around(&mut self.dice, 10_000).min(90_000))).await;
                self.machine.resume();
            }
            Fault::SlowDisk => {
                let change = Duration::from_millis(*[5, 50, 500].choose(&mut self.dice).expect("there are some"));
                self.machine.disk.set_pace(change);
                self.watch(20_000, None).await;
                self.machine.disk.set_pace(Duration::ZERO);
            }
            Fault::FailedSync => {
                self.machine.disk.fail_syncs(true);
                self.watch(10_000, Some(fault)).await;
                self.machine.disk.fail_syncs(false);
            }
            Fault::FullDisk => {
                self.machine.disk.set_room(Some(self.dice.random_range(0..400_000)));
                self.watch(20_000, Some(fault)).await;
                self.machine.disk.set_room(None);
            }
            Fault::ClockJump => {
                let hour_ms = 3_600_000;
                let skew = if self.dice.random() { 0 } else { self.dice.random_range(-hour_ms..=hour_ms) };
                self.machine.skew.set(skew);
            }
        }
    }
}

/// Starts a machine's process; that it does not start is noted.
pub(crate) fn start(machine: &Machine, toll: &Mutex<Toll>) {
    if let Err(reason) = machine.start() {
        toll.lock().violations.push(format!("node {} does not start: {reason}", machine.number));
    }
}

/// Ends all trouble of a machine and has its process serve.
pub(crate) async fn heal(machine: &Machine, toll: &Mutex<Toll>) {
    machine.disk.set_pace(Duration::ZERO);
    machine.disk.set_room(None);
    machine.disk.fail_syncs(false);
    machine.resume();
    // Trouble may have been cut short at any point: whatever process there is begins again.
    machine.power_cut();
    start(machine, toll);
    if let Err(reason) = machine.serves().await {
        toll.lock()
            .violations
            .push(format!("node {} does not serve after everything was healed: {reason}", machine.number));
    }
}

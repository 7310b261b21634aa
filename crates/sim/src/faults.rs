//! What befalls the machines: which kinds of trouble a run has, and how rough, is drawn from its seed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tokio::time::sleep;

use crate::{
    dice::{around, dice},
    ether::Ether,
    fabric::Weather,
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
    /// Two nodes do not hear each other for a while.
    Cut,
    /// One node does not hear another for a while.
    OneWay,
    /// One node hears nobody and nobody hears it for a while.
    Isolation,
    /// One node is slow to hear another for a while.
    SlowLink,
    /// Consensus' frames are lost, repeated and overtaken for a while.
    Storm,
}

impl Fault {
    /// What befalls links.
    pub const OF_LINKS: [Fault; 5] = [Fault::Cut, Fault::OneWay, Fault::Isolation, Fault::SlowLink, Fault::Storm];

    /// What befalls machines.
    pub const OF_MACHINES: [Fault; 8] = [
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
            Fault::Cut => "cut",
            Fault::OneWay => "one-way cut",
            Fault::Isolation => "isolation",
            Fault::SlowLink => "slow link",
            Fault::Storm => "storm",
        }
    }
}

/// The trouble of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swarm {
    /// Kinds that befall machines.
    pub of_machines: Vec<Fault>,
    /// Kinds that befall links.
    pub of_links: Vec<Fault>,
    /// The mean time between two of a machine, or of the links, in milliseconds.
    pub mean_ms: u64,
}

impl Swarm {
    /// What the seed says: each kind with one chance in two, and something at least.
    pub fn draw(settings: &Settings) -> Swarm {
        let mut dice = dice(settings.seed, "swarm", 0);
        let mut of_machines: Vec<Fault> = Fault::OF_MACHINES.into_iter().filter(|_| dice.random()).collect();
        let mut of_links: Vec<Fault> = Fault::OF_LINKS.into_iter().filter(|_| dice.random()).collect();
        if settings.nodes == 1 {
            of_links.clear();
        }
        if of_machines.is_empty() && of_links.is_empty() {
            of_machines.push(one_of(&mut dice, &Fault::OF_MACHINES));
        }
        Swarm { of_machines, of_links, mean_ms: one_of(&mut dice, &[5_000, 20_000, 60_000]) }
    }
}

/// One of these.
fn one_of<T: Copy>(dice: &mut SmallRng, all: &[T]) -> T {
    *all.choose(dice).expect("there are some")
}

/// What befell, and what should not have.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    /// How often each kind befell.
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Processes that ended without a reason, or did not start.
    pub(crate) violations: Vec<String>,
}

/// What befalls the links, until it is dropped: then they are to be mended.
pub(crate) async fn befall_links(
    ether: Ether,
    swarm: Swarm,
    settings: Settings,
    trace: Arc<Trace>,
    toll: Arc<Mutex<Toll>>,
) {
    let mut dice = dice(settings.seed, "links", 0);
    loop {
        sleep(Duration::from_millis(around(&mut dice, swarm.mean_ms))).await;
        let fault = one_of(&mut dice, &swarm.of_links);
        let one = dice.random_range(1..=settings.nodes);
        let other = (one + dice.random_range(0..settings.nodes - 1)) % settings.nodes + 1;
        *toll.lock().faults.entry(fault).or_default() += 1;
        trace.note(&format!("links: {} of {one} and {other}", fault.as_str()));
        let others: Vec<u64> = (1..=settings.nodes).filter(|node| *node != one).collect();
        let ways: Vec<(u64, u64)> = match fault {
            Fault::Cut => vec![(one, other), (other, one)],
            Fault::OneWay => vec![(one, other)],
            Fault::Isolation => others.into_iter().flat_map(|other| [(one, other), (other, one)]).collect(),
            _ => Vec::new(),
        };
        ether.change(|fabric| ways.iter().for_each(|&(from, to)| _ = fabric.cut(from, to)));
        match fault {
            Fault::SlowLink => {
                let more_us = one_of(&mut dice, &[50_000, 500_000, 5_000_000]);
                ether.change(|fabric| fabric.set_slow(one, other, more_us));
            }
            Fault::Storm => {
                let lost_permille = one_of(&mut dice, &[10, 100, 300]);
                let jitter_us = one_of(&mut dice, &[1_000, 20_000, 200_000]);
                ether.set_weather(Weather { lost_permille, twice_permille: 50, jitter_us, ..FAIR });
            }
            _ => {}
        }
        // No cut is so short that nobody notices.
        let for_ms = 1_000 + around(&mut dice, 15_000).min(90_000);
        sleep(Duration::from_millis(for_ms)).await;
        mend(&ether);
        trace.note("links: mended");
    }
}

/// Links as they are when nothing troubles them.
const FAIR: Weather = Weather { delay_us: 300, jitter_us: 1_000, lost_permille: 0, twice_permille: 0 };

/// Ends all trouble of links.
pub(crate) fn mend(ether: &Ether) {
    ether.change(|fabric| fabric.mend_all());
    ether.set_weather(FAIR);
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
        let kind = one_of(&mut fate.dice, &swarm.of_machines);
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
                let change = Duration::from_millis(one_of(&mut self.dice, &[5, 50, 500]));
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
            Fault::Cut | Fault::OneWay | Fault::Isolation | Fault::SlowLink | Fault::Storm => {
                unreachable!("{fault:?} befalls links")
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

/// Ends all trouble of a machine.
pub(crate) fn heal(machine: &Machine, toll: &Mutex<Toll>) {
    machine.disk.set_pace(Duration::ZERO);
    machine.disk.set_room(None);
    machine.disk.fail_syncs(false);
    machine.resume();
    // Trouble may have been cut short at any point: whatever process there is begins again.
    machine.power_cut();
    start(machine, toll);
}

//! What befalls the machines: which kinds of trouble a run has, and how rough, is drawn from its seed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{
    Rng,
    rngs::SmallRng,
    seq::{IndexedRandom, SliceRandom},
};
use tokio::time::sleep;

use crate::{
    curious,
    desk::Desk,
    dice::{around, dice},
    ether::Ether,
    fabric::Weather,
    machine::{Machine, Role},
    settings::Settings,
    town::Town,
    trace::Trace,
};

/// With fewer nodes nothing may be lost.
const OPERATED_MIN: u64 = 3;

/// The least time between two blackouts, in milliseconds.
const BLACKOUT_LEAST_MS: u64 = 20_000;

/// The least time between two settings of all clocks, in milliseconds: long enough to look at what is told by them.
const SET_LEAST_MS: u64 = 60_000;

/// Around twice as long lies between two outages, in milliseconds.
const OUTAGE_LEAST_MS: u64 = 25_000;

/// A node is killed when it has sent up to so many messages.
const AIMED_MESSAGES: u64 = 20;
/// Or a few of these.
const AIMED_AT: [Option<&str>; 8] =
    [None, None, Some("hold"), Some("granted"), Some("overdue"), Some("not mine"), Some("not mine"), Some("sell")];
/// It is killed anyway when it does not send so many within this, in milliseconds.
const AIMED_MS: u64 = 5_000;

/// What a slow link takes at the most, in milliseconds.
pub(crate) const SLOWEST_MS: u64 = 5_000;

/// Processes are looked at so often whether they have ended, in milliseconds.
const LOOK_MS: u64 = 500;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process is killed; what it wrote stays.
    Kill,
    /// The process is killed when it has just sent a message to another node, which arrives.
    AimedKill,
    /// The power goes: what was not synced may be lost.
    PowerCut,
    /// The power goes in the middle of writing.
    TornWrite,
    /// The power of all machines goes at once.
    Blackout,
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
    /// All wall clocks are set at once.
    ClocksSet,
    /// The power of all machines is gone for hours.
    Outage,
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
    /// A node comes.
    Join,
    /// A node is drained.
    Drain,
    /// A node dies for good.
    Remove,
    /// A node loses its disk and comes back.
    LostDisk,
    /// A node is started on a copy of its disk that is minutes old.
    OldCopy,
    /// A bit of a disk changes by itself.
    BitRot,
}

impl Fault {
    /// What befalls links.
    pub const OF_LINKS: [Fault; 5] = [Fault::Cut, Fault::OneWay, Fault::Isolation, Fault::SlowLink, Fault::Storm];

    /// What befalls machines.
    pub const OF_MACHINES: [Fault; 9] = [
        Fault::Kill,
        Fault::AimedKill,
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
            Fault::AimedKill => "kill after a message",
            Fault::PowerCut => "power cut",
            Fault::TornWrite => "torn write",
            Fault::Blackout => "blackout",
            Fault::Pause => "pause",
            Fault::SlowDisk => "slow disk",
            Fault::FailedSync => "failed sync",
            Fault::FullDisk => "full disk",
            Fault::ClockJump => "clock jump",
            Fault::ClocksSet => "all clocks set",
            Fault::Outage => "outage",
            Fault::Cut => "cut",
            Fault::OneWay => "one-way cut",
            Fault::Isolation => "isolation",
            Fault::SlowLink => "slow link",
            Fault::Storm => "storm",
            Fault::Join => "join",
            Fault::Drain => "drain",
            Fault::Remove => "removal",
            Fault::LostDisk => "lost disk",
            Fault::OldCopy => "old copy of a disk",
            Fault::BitRot => "bit rot",
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
    /// At times the power of all machines goes at once, now and then for hours.
    pub has_blackouts: bool,
    /// At times all machines are off for minutes or hours.
    pub has_outages: bool,
    /// At times all wall clocks are set at once.
    pub sets_clocks: bool,
    /// When everything is healed, processes that run go on as they are.
    pub goes_on: bool,
    /// An operator takes nodes in and out.
    pub is_operated: bool,
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
        let mean_ms = one_of(&mut dice, &[5_000, 20_000, 60_000]);
        let is_operated = settings.nodes >= OPERATED_MIN && dice.random_ratio(2, 5);
        let (has_blackouts, goes_on) = (dice.random_ratio(1, 4), dice.random());
        let (has_outages, sets_clocks) = (dice.random_ratio(1, 3), dice.random_ratio(1, 3));
        // As long as some clock is wrong, nobody can tell what is to be told.
        if (has_outages || sets_clocks) && of_machines.len() > 1 && dice.random_ratio(3, 4) {
            of_machines.retain(|fault| *fault != Fault::ClockJump);
        }
        Swarm { of_machines, of_links, mean_ms, has_blackouts, has_outages, sets_clocks, goes_on, is_operated }
    }
}

/// One of these.
pub(crate) fn one_of<T: Copy>(dice: &mut SmallRng, all: &[T]) -> T {
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
    (seed, nodes): (u64, u64),
    trace: Arc<Trace>,
    toll: Arc<Mutex<Toll>>,
) {
    let mut dice = dice(seed, "links", 0);
    loop {
        sleep(Duration::from_millis(around(&mut dice, swarm.mean_ms))).await;
        let _hand = ether.hand().lock().await;
        let fault = one_of(&mut dice, &swarm.of_links);
        let one = dice.random_range(1..=nodes);
        let other = (one + dice.random_range(0..nodes - 1)) % nodes + 1;
        *toll.lock().faults.entry(fault).or_default() += 1;
        trace.note(&format!("links: {} of {one} and {other}", fault.as_str()));
        let others: Vec<u64> = (1..=nodes).filter(|node| *node != one).collect();
        let ways: Vec<(u64, u64)> = match fault {
            Fault::Cut => vec![(one, other), (other, one)],
            Fault::OneWay => vec![(one, other)],
            Fault::Isolation => others.into_iter().flat_map(|other| [(one, other), (other, one)]).collect(),
            _ => Vec::new(),
        };
        ether.change(|fabric| ways.iter().for_each(|&(from, to)| _ = fabric.cut(from, to)));
        match fault {
            Fault::SlowLink => {
                let more_us = one_of(&mut dice, &[50_000, 500_000, 1_000 * SLOWEST_MS]);
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

/// What befalls all machines at once, until it is dropped: then [`heal`] is to follow.
pub(crate) async fn befall_all(desk: Arc<Desk>, swarm: Swarm, seed: u64, toll: Arc<Mutex<Toll>>) {
    let mut dice = dice(seed, "all", 0);
    loop {
        sleep(Duration::from_millis(BLACKOUT_LEAST_MS + around(&mut dice, swarm.mean_ms))).await;
        *toll.lock().faults.entry(Fault::Blackout).or_default() += 1;
        desk.trace.note("all: blackout");
        let members = desk.members();
        // What somebody else has in hand has its trouble already.
        let mut dark: Vec<_> = members
            .iter()
            .filter_map(|machine| Some((machine, machine.hand.try_lock().ok()?)))
            .filter(|(machine, _)| machine.is_member())
            .map(|(machine, hand)| (off_ms(&mut dice), machine, hand))
            .collect();
        dark.iter().for_each(|(_, machine, _)| machine.power_cut());
        dark.sort_by_key(|(off_ms, machine, _)| (*off_ms, machine.number));
        let since_ms = desk.trace.now_ms();
        // Nothing happens while everything is off, so hours of it take no time of the run.
        if desk.machines.iter().all(|machine| machine.is_off()) && dice.random_ratio(1, 3) {
            let for_ms = dice.random_range(60_000..4 * 3_600_000);
            *toll.lock().faults.entry(Fault::Outage).or_default() += 1;
            desk.trace.note(&format!("all: off for {for_ms} ms more than is told"));
            desk.walls.were_off(for_ms, since_ms);
        }
        for (off_ms, machine, _hand) in dark {
            let passed_ms = desk.trace.now_ms() - since_ms;
            sleep(Duration::from_millis(off_ms.saturating_sub(passed_ms))).await;
            start(machine, &toll);
        }
    }
}

/// Now and then all machines are off for a while that takes no time of the run, until it is dropped: then [`heal`] is to
/// follow.
pub(crate) async fn befall_outages(desk: Arc<Desk>, seed: u64, toll: Arc<Mutex<Toll>>) {
    let mut dice = dice(seed, "outages", 0);
    loop {
        sleep(Duration::from_millis(OUTAGE_LEAST_MS + around(&mut dice, OUTAGE_LEAST_MS))).await;
        let members = loop {
            let members = desk.members();
            let is_free = |machine: &Arc<Machine>| machine.hand.try_lock().is_ok();
            if members.iter().all(is_free) {
                break members;
            }
            sleep(Duration::from_millis(LOOK_MS)).await;
        };
        // Nobody else has run since they were looked at.
        let mut dark: Vec<_> =
            members.iter().filter_map(|machine| Some((machine, machine.hand.try_lock().ok()?))).collect();
        let is_planned = dice.random();
        for (machine, _) in &dark {
            // Who is sick says so before it is stopped.
            match is_planned && machine.failure().is_none() {
                true => machine.kill(),
                false => machine.power_cut(),
            }
            machine.disk().fail_syncs(false);
        }
        if desk.machines.iter().all(|machine| machine.is_off()) {
            let longest_ms = one_of(&mut dice, &[20_000, 300_000, 4 * 3_600_000]);
            let for_ms = dice.random_range(longest_ms / 10..longest_ms);
            *toll.lock().faults.entry(Fault::Outage).or_default() += 1;
            desk.trace.note(&format!("all: off for {for_ms} ms, planned: {is_planned}"));
            desk.walls.were_off(for_ms, desk.trace.now_ms());
        }
        dark.shuffle(&mut dice);
        for (machine, _hand) in dark {
            sleep(Duration::from_millis(dice.random_range(0..2_000))).await;
            start(machine, &toll);
        }
    }
}

/// Sets all wall clocks at once, now and then, until it is dropped.
pub(crate) async fn set_clocks(desk: Arc<Desk>, swarm: Swarm, seed: u64, toll: Arc<Mutex<Toll>>) {
    let mut dice = dice(seed, "walls", 0);
    loop {
        sleep(Duration::from_millis(SET_LEAST_MS + around(&mut dice, swarm.mean_ms))).await;
        let hour_ms = 3_600_000;
        let ahead_ms = one_of(&mut dice, &[-hour_ms, -90_000, -1_000, 0, 1_000, 90_000, hour_ms, 24 * hour_ms]);
        *toll.lock().faults.entry(Fault::ClocksSet).or_default() += 1;
        desk.trace.note(&format!("all: clocks are set to {ahead_ms} ms ahead"));
        desk.walls.set_all(ahead_ms, desk.trace.now_ms());
    }
}

/// How long a machine stays off: at times no longer than an election takes.
fn off_ms(dice: &mut SmallRng) -> u64 {
    match dice.random_ratio(1, 3) {
        true => dice.random_range(0..200),
        false => around(dice, 2_000).min(30_000),
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
    seed: u64,
    (desk, town, ether): (Arc<Desk>, Arc<Town>, Ether),
    toll: Arc<Mutex<Toll>>,
) {
    let (dice, trace) = (dice(seed, "fate", machine.number), Arc::clone(&desk.trace));
    let mut fate = Fate { dice, machine, desk, town, ether, trace, toll };
    loop {
        let rest_ms = around(&mut fate.dice, swarm.mean_ms);
        fate.rest(rest_ms).await;
        let machine = Arc::clone(&fate.machine);
        let _hand = machine.hand.lock().await;
        if !machine.is_member() {
            continue;
        }
        let kind = one_of(&mut fate.dice, &swarm.of_machines);
        fate.fall(kind).await;
    }
}

struct Fate {
    dice: SmallRng,
    machine: Arc<Machine>,
    desk: Arc<Desk>,
    town: Arc<Town>,
    ether: Ether,
    trace: Arc<Trace>,
    toll: Arc<Mutex<Toll>>,
}

impl Fate {
    /// Lets time go by, while others may have the machine in hand.
    async fn rest(&mut self, ms: u64) {
        let until_ms = self.trace.now_ms() + ms;
        let machine = Arc::clone(&self.machine);
        while self.trace.now_ms() < until_ms {
            let left_ms = until_ms - self.trace.now_ms();
            sleep(Duration::from_millis(left_ms.min(LOOK_MS))).await;
            if machine.failure().is_none() {
                continue;
            }
            let _hand = machine.hand.lock().await;
            if let Some(reason) = machine.failure() {
                self.ended(&reason, None).await;
            }
        }
    }

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
        if self.machine.role() == Role::Leaving && reason.contains("no member") {
            self.machine.set_role(Role::Gone);
            return self.machine.kill();
        }
        if because.is_none() {
            self.toll.lock().violations.push(format!("node {number} ended without a reason: {reason}"));
        }
        // What a failed sync has left on the disk is anybody's guess; as long as there is power the next process reads all of
        // it, and may lose it later.
        let reads_it = self.dice.random();
        match reads_it {
            true => self.machine.kill(),
            false => self.machine.power_cut(),
        }
        self.machine.disk().fail_syncs(false);
        self.restart().await;
        if reads_it && self.dice.random() {
            let for_ms = self.dice.random_range(0..5_000);
            sleep(Duration::from_millis(for_ms)).await;
            self.trace.note(&format!("node {number}: and the power goes"));
            self.machine.power_cut();
            self.restart().await;
        }
    }

    async fn restart(&mut self) {
        let off_ms = off_ms(&mut self.dice);
        sleep(Duration::from_millis(off_ms)).await;
        start(&self.machine, &self.toll);
    }

    /// A process that stood still goes on. What it reads first, of what others have sent meanwhile, is chance: it may hear
    /// of clients before it hears that it does not lead any more.
    async fn goes_on(&mut self) {
        if self.dice.random() {
            return self.machine.resume();
        }
        self.machine.go_on();
        for _ in 0..self.dice.random_range(1..4) {
            curious::look_at(&self.desk, &self.town, &self.machine);
            sleep(Duration::from_millis(self.dice.random_range(1..30))).await;
        }
        self.machine.hear();
    }

    async fn fall(&mut self, fault: Fault) {
        *self.toll.lock().faults.entry(fault).or_default() += 1;
        self.trace.note(&format!("node {}: {}", self.machine.number, fault.as_str()));
        match fault {
            Fault::Kill => {
                self.machine.kill();
                self.restart().await;
            }
            Fault::AimedKill => {
                let kind = one_of(&mut self.dice, &AIMED_AT);
                let messages = self.dice.random_range(0..if kind.is_some() { 3 } else { AIMED_MESSAGES });
                self.ether.aim(self.machine.number, kind, messages);
                let struck = tokio::select! {
                    biased;
                    () = self.ether.struck(self.machine.number) => true,
                    // It talks to nobody, or has ended.
                    _ = self.machine.failed() => false,
                    () = sleep(Duration::from_millis(AIMED_MS)) => false,
                };
                self.trace.note(&format!("node {}: after {kind:?}: {struck}", self.machine.number));
                self.machine.kill();
                self.machine.disk().fail_syncs(false);
                self.restart().await;
            }
            Fault::PowerCut => {
                self.machine.power_cut();
                self.restart().await;
            }
            Fault::TornWrite => {
                self.machine.disk().stop_after(self.dice.random_range(0..40));
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
                // Every third is over before anybody else is elected.
                let for_ms = match self.dice.random_ratio(1, 3) {
                    true => self.dice.random_range(1..900),
                    false => around(&mut self.dice, 10_000).min(90_000),
                };
                sleep(Duration::from_millis(for_ms)).await;
                self.goes_on().await;
            }
            Fault::SlowDisk => {
                let change = Duration::from_millis(one_of(&mut self.dice, &[5, 50, 500]));
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
                self.machine.disk().set_room(Some(self.dice.random_range(0..400_000)));
                if self.dice.random() {
                    self.machine.disk().cut_next_write(self.dice.random_range(0..5_000));
                }
                self.watch(20_000, Some(fault)).await;
                self.machine.disk().set_room(None);
            }
            Fault::ClockJump => {
                let hour_ms = 3_600_000;
                let skew = if self.dice.random() { 0 } else { self.dice.random_range(-hour_ms..=hour_ms) };
                self.machine.skew.set(skew);
                self.desk.walls.set_one(self.machine.number, skew, self.trace.now_ms());
            }
            Fault::Cut | Fault::OneWay | Fault::Isolation | Fault::SlowLink | Fault::Storm => {
                unreachable!("{fault:?} befalls links")
            }
            Fault::Blackout | Fault::Outage | Fault::ClocksSet => unreachable!("{fault:?} befalls all machines"),
            Fault::Join | Fault::Drain | Fault::Remove | Fault::LostDisk | Fault::OldCopy | Fault::BitRot => {
                unreachable!("{fault:?} is the operator's work")
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

/// Ends all trouble of a machine; [`revive`] is to follow.
pub(crate) fn heal(machine: &Machine) {
    let disk = machine.disk();
    disk.set_pace(Duration::ZERO);
    disk.set_room(None);
    disk.fail_syncs(false);
    disk.stop_after(u64::MAX);
    machine.resume();
}

/// Sees to it that a machine whose trouble is over has a process; one that runs and `goes_on` is left as it is.
pub(crate) fn revive(machine: &Machine, goes_on: bool, toll: &Mutex<Toll>) {
    // Whoever has it in hand starts it.
    let Ok(_hand) = machine.hand.try_lock() else { return };
    if !machine.is_member() || (goes_on && machine.runs()) {
        return;
    }
    // Trouble may have been cut short at any point.
    machine.power_cut();
    start(machine, toll);
}

//! The kinds and rates of a run's faults, drawn from its seed (swarm testing).

use rand::Rng;

use crate::{
    rng::{one_of, rng},
    settings::{Flips, Settings},
};

/// With fewer nodes no disk may be lost.
const OPERATED_MIN: u64 = 3;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process is killed. Its writes stay.
    Kill,
    /// The process is killed right after a message to another node, which arrives.
    AimedKill,
    /// The power is cut, and unsynced data may be lost.
    PowerCut,
    /// The power is cut in the middle of a write.
    TornWrite,
    /// The power is cut in the moment of an answer.
    CutAtAnswer,
    /// The power of all machines is cut at once.
    Blackout,
    /// The process is paused for a while.
    Pause,
    /// The disk is slow for a while.
    SlowDisk,
    /// Syncs fail, and the process must end.
    FailedSync,
    /// The disk is full for a while.
    FullDisk,
    /// The wall clock jumps.
    ClockJump,
    /// All wall clocks are set at once.
    ClocksSet,
    /// The power of all machines is gone for hours.
    Outage,
    /// The link of two nodes is interrupted for a while.
    Cut,
    /// One direction of a link is interrupted for a while.
    OneWay,
    /// All links of a node are interrupted for a while.
    Isolation,
    /// One direction of a link is slow for a while.
    SlowLink,
    /// Frames of consensus are lost, duplicated and reordered for a while.
    Storm,
    /// A node is added.
    Join,
    /// A node is drained.
    Drain,
    /// A dead node is removed.
    Remove,
    /// A node loses its disk and is replaced.
    LostDisk,
    /// A node is started on an old copy of its disk.
    OldCopy,
    /// A bit of a disk changes.
    BitRot,
    /// A node gets another program.
    OtherProgram,
    /// The version of the cluster is raised.
    FinishedUpgrade,
}

impl Fault {
    /// Faults of links.
    pub const OF_LINKS: [Fault; 5] = [Fault::Cut, Fault::OneWay, Fault::Isolation, Fault::SlowLink, Fault::Storm];

    /// Faults of machines.
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

    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::AimedKill => "kill after a message",
            Fault::PowerCut => "power cut",
            Fault::TornWrite => "torn write",
            Fault::CutAtAnswer => "power cut at an answer",
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
            Fault::OtherProgram => "other program",
            Fault::FinishedUpgrade => "finished upgrade",
        }
    }
}

/// The faults of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swarm {
    /// Kinds of faults of machines.
    pub of_machines: Vec<Fault>,
    /// Kinds of faults of links.
    pub of_links: Vec<Fault>,
    /// The mean time between two faults of a machine, or of the links, in milliseconds.
    pub mean_ms: u64,
    /// The power of all machines is cut at times, sometimes for hours.
    pub has_blackouts: bool,
    /// All machines are off at times, for minutes or hours.
    pub has_outages: bool,
    /// All wall clocks are set together at times.
    pub sets_clocks: bool,
    /// Running processes are not restarted when everything is healed.
    pub goes_on: bool,
    /// An operator adds and removes nodes.
    pub is_operated: bool,
    /// The nodes get the next program. Only a debug build has one, so only there a run has upgrades.
    pub upgrades: bool,
}

impl Swarm {
    /// Draws each kind with one chance in two, and at least one. A run of flips has nothing else.
    pub fn draw(settings: &Settings) -> Swarm {
        let mut rng = rng(settings.seed, "swarm", 0);
        let mut of_machines: Vec<Fault> = Fault::OF_MACHINES.into_iter().filter(|_| rng.random()).collect();
        let mut of_links: Vec<Fault> = Fault::OF_LINKS.into_iter().filter(|_| rng.random()).collect();
        if settings.nodes == 1 {
            of_links.clear();
        }
        if of_machines.is_empty() && of_links.is_empty() {
            of_machines.push(one_of(&mut rng, &Fault::OF_MACHINES));
        }
        let mean_ms = one_of(&mut rng, &[5_000, 20_000, 60_000]);
        let is_operated = settings.nodes >= OPERATED_MIN && rng.random_ratio(2, 5);
        let (has_blackouts, goes_on) = (rng.random_ratio(1, 4), rng.random());
        let (has_outages, sets_clocks) = (rng.random_ratio(1, 3), rng.random_ratio(1, 3));
        // The oracle cannot check times while a single clock is wrong.
        if (has_outages || sets_clocks) && of_machines.len() > 1 && rng.random_ratio(3, 4) {
            of_machines.retain(|fault| *fault != Fault::ClockJump);
        }
        if settings.flips != Flips::Drawn {
            return Swarm {
                of_machines: Vec::new(),
                of_links: Vec::new(),
                mean_ms,
                has_blackouts: false,
                has_outages: false,
                sets_clocks: false,
                goes_on,
                is_operated: true,
                upgrades: false,
            };
        }
        let upgrades = cfg!(debug_assertions) && self::rng(settings.seed, "upgrade", 0).random_ratio(1, 3);
        Swarm {
            upgrades,
            of_machines,
            of_links,
            mean_ms,
            has_blackouts,
            has_outages,
            sets_clocks,
            goes_on,
            is_operated,
        }
    }
}

//! The settings of a run, from which everything in it follows.

use boxoffice_core::{payment::OnDecline, rules::Rules};
use boxoffice_node::admission::OverloadSettings;
use rand::Rng;

use crate::rng::{one_of, rng};

/// Lives of carts, from shorter than most faults to longer than most.
const HOLD_TTLS_MS: [u64; 5] = [1_000, 2_000, 6_000, 20_000, 60_000];

/// A customer's limit of any quota.
pub(crate) const QUOTA_MAX: u32 = 6;

/// The codes, and how many uses each has.
pub(crate) const CODES: u64 = 3;
pub(crate) const CODE_USES: u32 = 12;

/// Changed bits on disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flips {
    /// As the seed says, beside all other faults.
    Drawn,
    /// One after the other, of any part of a disk, and no other faults. Each node is whole again before the next one.
    OneByOne,
    /// At two nodes at once, and no other faults.
    TwoAtOnce,
}

/// The settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Simulated minutes under faults. Healing and the final check come after.
    pub minutes: u64,
    /// Nodes, 1 to 5. 0 draws the number from the seed, mostly three.
    pub nodes: u64,
    /// Buyers.
    pub carts: u64,
    pub shards: u16,
    /// The life of an untouched cart in milliseconds. 0 draws it from the seed, from one second to a minute.
    pub hold_ttl_ms: u64,
    /// The mean of a buyer's longest pauses, in milliseconds.
    pub think_ms: u64,
    /// Nodes sync before they answer. Otherwise a power cut loses acknowledged changes, which the final check must
    /// find.
    pub syncs: bool,
    /// The power of a node is cut now and then in the moment in which it answers a change.
    pub cuts_at_answers: bool,
    /// Whether bits of disks change beside other faults, or nothing else happens.
    pub flips: Flips,
    /// The first violation ends the run.
    pub stop_at_first_violation: bool,
    /// Print the trace on stderr.
    pub trace: bool,
}

impl Settings {
    /// The defaults: 10 minutes, one node, 20 carts, 4 shards.
    pub fn new(seed: u64) -> Settings {
        Settings {
            seed,
            minutes: 10,
            nodes: 1,
            carts: 20,
            shards: 4,
            hold_ttl_ms: 0,
            think_ms: 3_000,
            syncs: true,
            cuts_at_answers: false,
            flips: Flips::Drawn,
            stop_at_first_violation: false,
            trace: false,
        }
    }

    /// Draws the number of nodes and the life of carts from the seed where they are 0.
    pub(crate) fn drawn(self) -> Settings {
        let nodes = match (self.nodes, rng(self.seed, "nodes", 0).random_range(0..10)) {
            (0, 0) => 1,
            (0, 1) => 4,
            (0, 2) => 5,
            (0, _) => 3,
            (nodes, _) => nodes,
        };
        let hold_ttl_ms = match self.hold_ttl_ms {
            0 => HOLD_TTLS_MS[rng(self.seed, "life", 0).random_range(0..HOLD_TTLS_MS.len())],
            ttl_ms => ttl_ms,
        };
        Settings { nodes, hold_ttl_ms, ..self }
    }

    /// The percentage of checkouts that are paid through the gateway.
    pub(crate) fn gateway_percent(&self) -> u32 {
        one_of(&mut rng(self.seed, "gateway", 0), &[0, 30, 80])
    }

    /// The limits of overload, as usual or so low that nodes often shed.
    pub(crate) fn overload(&self) -> OverloadSettings {
        let under_way_max = one_of(&mut rng(self.seed, "overload", 0), &[16_384, 16_384, 1, 3]);
        OverloadSettings { under_way_max, ..OverloadSettings::default() }
    }

    /// The rules of all nodes, with the usual times or such short ones that inventories often ask carts and calls to
    /// the gateway are often repeated.
    pub(crate) fn rules(&self) -> Rules {
        let mut rng = rng(self.seed, "rules", 0);
        Rules {
            hold_ttl_ms: self.hold_ttl_ms,
            grace_ms: one_of(&mut rng, &[200, 2_000]),
            confirm_ms: one_of(&mut rng, &[700, 3_000, 10_000]),
            ask_again_ms: one_of(&mut rng, &[300, 1_000]),
            payment_again_ms: one_of(&mut rng, &[500, 2_000]),
            on_decline: one_of(&mut rng, &[OnDecline::Release, OnDecline::Keep]),
            ..Rules::default()
        }
    }

    /// The command that repeats the run.
    pub fn replay(&self) -> String {
        let Settings { seed, minutes, nodes, carts, shards, .. } = self;
        let test = match self.flips {
            Flips::Drawn => None,
            Flips::OneByOne => Some("one_by_one"),
            Flips::TwoAtOnce => Some("two_at_once"),
        };
        if let Some(test) = test {
            return format!(
                "BOXOFFICE_TRACE=1 BOXOFFICE_SEEDS=1 BOXOFFICE_SEED={seed} BOXOFFICE_NODES={nodes} BOXOFFICE_MINUTES={minutes} \
                 cargo test -p boxoffice-sim --test seeds {test} -- --ignored"
            );
        }
        format!(
            "boxoffice sim --seed {seed} --minutes {minutes} --nodes {nodes} --carts {carts} --shards {shards} --trace"
        )
    }
}

//! What a run is: everything that happens in it follows from these.

use boxoffice_core::{payment::OnDecline, rules::Rules};
use boxoffice_node::admission::OverloadSettings;
use rand::Rng;

use crate::rng::{one_of, rng};

/// How long carts may live: so short that deadlines pass in the middle of everything, so short that most trouble
/// outlives them, or so long that most of them outlive it.
const HOLD_TTLS_MS: [u64; 5] = [1_000, 2_000, 6_000, 20_000, 60_000];

/// How much of any quota a customer may have.
pub(crate) const QUOTA_MAX: u32 = 6;

/// The settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What everything is drawn from.
    pub seed: u64,
    /// Simulated minutes under faults; healing and the last look come after.
    pub minutes: u64,
    /// Nodes, 1 to 5; 0: as the seed says, three in most runs.
    pub nodes: u64,
    /// Carts at a time.
    pub carts: u64,
    /// Shards.
    pub shards: u16,
    /// How long carts live untouched, in milliseconds; 0: as the seed says, from one second to a minute.
    pub hold_ttl_ms: u64,
    /// The longest pause of a buyer between two commands is around this, in milliseconds.
    pub think_ms: u64,
    /// Nodes sync before they answer. If not, a power cut takes what was answered, and the judge must see it.
    pub syncs: bool,
    /// The first thing that must not be ends the run: it is looked for, and nothing else matters any more.
    pub stop_at_first_violation: bool,
    /// Tell everything that happens on stderr.
    pub trace: bool,
}

impl Settings {
    /// The usual ones: 10 minutes, one node, 20 carts, 4 shards.
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
            stop_at_first_violation: false,
            trace: false,
        }
    }

    /// With the number of nodes and the life of carts that the seed says, where that is left to it.
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

    /// How many checkouts of a hundred are paid through the gateway.
    pub(crate) fn gateway_percent(&self) -> u32 {
        one_of(&mut rng(self.seed, "gateway", 0), &[0, 30, 80])
    }

    /// When nodes shed: as usual, or with so few commands under way that they often do.
    pub(crate) fn overload(&self) -> OverloadSettings {
        let under_way_max = one_of(&mut rng(self.seed, "overload", 0), &[16_384, 16_384, 1, 3]);
        OverloadSettings { under_way_max, ..OverloadSettings::default() }
    }

    /// The terms of time and of paying, the same for all nodes: as usual, or so short that inventories often ask carts
    /// about their holds, and a gateway is often asked again.
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

    /// The command that does it again.
    pub fn replay(&self) -> String {
        let Settings { seed, minutes, nodes, carts, shards, .. } = self;
        format!(
            "boxoffice sim --seed {seed} --minutes {minutes} --nodes {nodes} --carts {carts} --shards {shards} --trace"
        )
    }
}

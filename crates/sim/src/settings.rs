//! What a run is: everything that happens in it follows from these.

/// The settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What everything is drawn from.
    pub seed: u64,
    /// Simulated minutes under faults; healing and the last look come after.
    pub minutes: u64,
    /// Nodes.
    pub nodes: u64,
    /// Carts at a time.
    pub carts: u64,
    /// Shards.
    pub shards: u16,
    /// How long carts live untouched, in milliseconds.
    pub hold_ttl_ms: u64,
    /// The longest pause of a buyer between two commands is around this, in milliseconds.
    pub think_ms: u64,
    /// Nodes sync before they answer. If not, a power cut takes what was answered, and the judge must see it.
    pub syncs: bool,
    /// Tell everything that happens on stderr.
    pub told: bool,
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
            hold_ttl_ms: 60_000,
            think_ms: 3_000,
            syncs: true,
            told: false,
        }
    }

    /// The command that does it again.
    pub fn replay(&self) -> String {
        let Settings { seed, minutes, nodes, carts, shards, hold_ttl_ms: _, think_ms: _, syncs: _, told: _ } = self;
        format!(
            "boxoffice sim --seed {seed} --minutes {minutes} --nodes {nodes} --carts {carts} --shards {shards} --trace"
        )
    }
}

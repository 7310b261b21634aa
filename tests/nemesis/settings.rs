//! The settings of a run, read from the command line.

use std::time::Duration;

/// The duration of faults in a round of a short run, and of a long one.
const SHORT: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(25);

/// The seed of a run without arguments.
const SHORT_SEED: u64 = 11;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSettings {
    /// The least duration. There is at least one round.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    /// The duration of faults in a round.
    pub(crate) round: Duration,
    /// Whether the nodes stay up after a failure, for inspection.
    pub(crate) hold: bool,
    /// How often a node is killed, and how often one is stopped, to measure pauses. Nothing else happens then.
    pub(crate) failovers: Option<usize>,
}

impl RunSettings {
    /// Reads the arguments. `None` if they select only tests of other names.
    ///
    /// # Panics
    /// If an argument is invalid.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Option<RunSettings> {
        let seed = std::env::var("BOXOFFICE_SEED").ok().map(|seed| number(&seed));
        // The same short round every time without arguments. Other runs name their seed.
        let seed = seed.unwrap_or(SHORT_SEED);
        let mut settings =
            RunSettings { time: Duration::ZERO, seed, nodes: 3, round: SHORT, hold: false, failovers: None };
        while let Some(argument) = arguments.next() {
            let mut value = || number(&arguments.next().unwrap_or_else(|| panic!("{argument} needs a number")));
            match argument.as_str() {
                "--minutes" => {
                    settings.time = Duration::from_secs(value() * 60);
                    settings.round = LONG;
                }
                "--seed" => settings.seed = value(),
                "--nodes" => settings.nodes = usize::try_from(value()).expect("a small number"),
                "--failover" => settings.failovers = Some(usize::try_from(value()).expect("a small number")),
                "--hold" => settings.hold = true,
                "--list" => return None,
                // Flags of the standard test harness.
                "--test-threads" | "--format" | "--color" | "--skip" => drop(arguments.next()),
                flag if flag.starts_with('-') => {}
                name if !"nemesis".contains(name) => return None,
                _ => {}
            }
        }
        assert!((3..=5).contains(&settings.nodes), "--nodes is from 3 to 5");
        Some(settings)
    }

    /// Whether faults that need long rounds may be drawn.
    pub(crate) fn is_long(&self) -> bool {
        self.round >= LONG
    }

    /// The command that replays the run.
    pub(crate) fn command(&self) -> String {
        let minutes = self.time.as_secs() / 60;
        let time = match self.failovers {
            Some(rounds) => format!("--failover {rounds} "),
            None if minutes > 0 => format!("--minutes {minutes} "),
            None => String::new(),
        };
        format!("cargo test -p boxoffice --test nemesis -- {time}--seed {} --nodes {}", self.seed, self.nodes)
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

//! What a run is to be, as the command line says it.

use std::time::Duration;

/// How long faults go on in the one round of a short run, and in each of a long one.
const SHORT: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(25);

/// Of the round without arguments.
const SHORT_SEED: u64 = 11;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// How long it takes at least; at least one round.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    /// How long faults go on in a round.
    pub(crate) round: Duration,
    /// Whether a finding is left as it is, for inspection.
    pub(crate) hold: bool,
}

impl Wanted {
    /// What these arguments say; none if only tests of other names are wanted, as test programs are told by a word.
    ///
    /// # Panics
    /// If one cannot be read.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Option<Wanted> {
        let seed = std::env::var("BOXOFFICE_SEED").ok().map(|seed| number(&seed));
        // Without arguments it is the same short round again and again; what is looked for elsewhere is named.
        let seed = seed.unwrap_or(SHORT_SEED);
        let mut wanted = Wanted { time: Duration::ZERO, seed, nodes: 3, round: SHORT, hold: false };
        while let Some(argument) = arguments.next() {
            let mut value = || number(&arguments.next().unwrap_or_else(|| panic!("{argument} needs a number")));
            match argument.as_str() {
                "--minutes" => {
                    wanted.time = Duration::from_secs(value() * 60);
                    wanted.round = LONG;
                }
                "--seed" => wanted.seed = value(),
                "--nodes" => wanted.nodes = usize::try_from(value()).expect("a small number"),
                "--hold" => wanted.hold = true,
                "--list" => return None,
                // Of the usual harness: how it prints, how many threads it has.
                "--test-threads" | "--format" | "--color" | "--skip" => drop(arguments.next()),
                flag if flag.starts_with('-') => {}
                name if !"nemesis".contains(name) => return None,
                _ => {}
            }
        }
        assert!((3..=5).contains(&wanted.nodes), "--nodes is from 3 to 5");
        Some(wanted)
    }

    /// Whether there is time for what takes some.
    pub(crate) fn is_long(&self) -> bool {
        self.round >= LONG
    }

    /// The command that plays it again.
    pub(crate) fn command(&self) -> String {
        let minutes = self.time.as_secs() / 60;
        let time = if minutes > 0 { format!("--minutes {minutes} ") } else { String::new() };
        format!("cargo test -p boxoffice --test nemesis -- {time}--seed {} --nodes {}", self.seed, self.nodes)
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

//! `boxoffice sim`: runs of the simulation, and what came of them.

use std::thread::available_parallelism;

use boxoffice_sim::{Settings, run_many};

use crate::{
    args::Sim,
    failure::{Failure, Outcome},
};

/// Runs one seed, or many, and says what came of it.
pub fn run_it(args: &Sim) -> Outcome {
    let Sim { seed, seeds, minutes, nodes, carts, shards, trace } = *args;
    let settings = Settings { minutes, nodes, carts, shards, told: trace, ..Settings::new(seed) };
    let threads = available_parallelism().map_or(1, usize::from);
    let threads = if seeds == 1 { 1 } else { threads };
    let until = seed.checked_add(seeds).ok_or_else(|| Failure::Usage("there are no such seeds".into()))?;
    let summary = run_many(settings, seed..until, threads).map_err(Failure::Usage)?;
    print!("{summary}");
    match summary.failed.len() {
        0 => Ok(()),
        count => Err(Failure::Refused(format!("{count} runs broke a promise; see above"))),
    }
}

//! `boxoffice sim`: runs of the simulation, and their reports.

use std::{thread::available_parallelism, time::Instant};

use boxoffice_sim::{Settings, run_many};

use crate::{
    args::Sim,
    failure::{Failure, Outcome},
};

/// Runs one seed or many, and prints the report.
pub fn run_it(args: &Sim) -> Outcome {
    let Sim { seed, seeds, minutes, nodes, carts, shards, trace } = *args;
    let settings = Settings { minutes, nodes, carts, shards, trace, ..Settings::new(seed) };
    let threads = available_parallelism().map_or(1, usize::from);
    let threads = if seeds == 1 { 1 } else { threads };
    let until = seed.checked_add(seeds).ok_or_else(|| Failure::Usage("there are no such seeds".into()))?;
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let summary = run_many(settings, seed..until, threads).map_err(Failure::Usage)?;
    print!("{summary}");
    let cpu = cpu_seconds() - cpu;
    let (took, hours) = (began.elapsed().as_secs_f64(), summary.simulated_ms as f64 / 3_600_000.0);
    let a_second = hours / took.max(0.001);
    println!("took {took:.1} s: {a_second:.2} simulated hours a second, {:.2} CPU seconds a seed", cpu / seeds as f64);
    match summary.failed.len() {
        0 => Ok(()),
        count => Err(Failure::Refused(format!("{count} runs broke a promise; see above"))),
    }
}

/// The CPU time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

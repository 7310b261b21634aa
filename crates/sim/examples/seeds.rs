//! `boxoffice sim` without the rest of the program, which builds faster.
//! `cargo run --release -p boxoffice-sim --example seeds -- FIRST COUNT MINUTES NODES [THREADS]`. 0 nodes draws the number from
//! the seed.

use std::{process::ExitCode, time::Instant};

use boxoffice_sim::{Settings, run_many};
use rustix::time::{ClockId, clock_gettime};

/// As in the program, because a simulation allocates a lot.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The CPU time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

#[allow(clippy::disallowed_methods, reason = "it says how long it took")]
fn main() -> ExitCode {
    let args: Vec<u64> = std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let [first, count, minutes, nodes, threads @ ..] = &args[..] else {
        eprintln!("seeds FIRST COUNT MINUTES NODES [THREADS]");
        return ExitCode::from(2);
    };
    let threads = threads.first().map_or(1, |threads| *threads as usize);
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let settings = Settings { minutes: *minutes, nodes: *nodes, ..Settings::new(*first) };
    let summary = run_many(settings, *first..first + count, threads).expect("it can be simulated");
    print!("{summary}");
    let each = (cpu_seconds() - cpu) / *count as f64;
    println!("took {:.1} s, {each:.2} CPU seconds a seed", began.elapsed().as_secs_f64());
    if summary.clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

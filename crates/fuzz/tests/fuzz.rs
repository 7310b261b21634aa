//! Runs every target: with its corpus, with random changes to it, and under `cargo bolero` with whatever that finds.
//!
//! `FUZZ_MS` is how long the random search for a target takes, in milliseconds; `FUZZ_SEED` repeats one.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::{Duration, Instant},
};

use boxoffice_fuzz::{corpus, for_each_target, mutate::mutate, target};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// How long the random search for a target takes, in milliseconds.
const SEARCH_MS: u64 = 300;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Checks the whole corpus, then random changes to it.
fn search(name: &str) {
    let target = target(name);
    let seeds = corpus::of(name);
    assert!(!seeds.is_empty(), "{name} has no corpus");
    for seed in &seeds {
        explained(&format!("{} of {}", seed.name, corpus::path(name).display()), || (target.check)(&seed.bytes));
    }
    let inputs: Vec<Vec<u8>> = seeds.into_iter().map(|seed| seed.bytes).collect();
    let number = variable("FUZZ_SEED").unwrap_or_else(|| rand::rng().random());
    let mut rng = SmallRng::seed_from_u64(number);
    let (began, time) = (Instant::now(), Duration::from_millis(variable("FUZZ_MS").unwrap_or(SEARCH_MS)));
    let mut tries = 0_u64;
    while began.elapsed() < time {
        let input = mutate(&mut rng, &inputs);
        tries += 1;
        explained(&format!("FUZZ_SEED={number}: {}", input.escape_ascii()), || (target.check)(&input));
    }
    println!("{name}: {tries} inputs, FUZZ_SEED={number}");
}

/// Says which input it was before a panic goes on.
fn explained(what: &str, check: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(check)) {
        eprintln!("the input was {what}");
        resume_unwind(panic);
    }
}

macro_rules! tests {
    ($($name:ident)+) => {$(
        #[test]
        fn $name() {
            search(stringify!($name));
            bolero::check!().with_iterations(200).for_each(|input: &[u8]| (target(stringify!($name)).check)(input));
        }
    )+};
}

for_each_target!(tests);

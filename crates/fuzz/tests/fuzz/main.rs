//! Runs every target with its corpus, with random mutations of it, and under `cargo bolero` with the fuzzer's inputs.
//!
//! `FUZZ_MS` is the time of the random search for a target, in milliseconds. `FUZZ_SEED` repeats a search. `FUZZ_SEEDS` writes
//! the corpus of a target to that directory instead, one input per file, as fuzzers expect.
//!
//! All of the crate's tests are in this executable, because `cargo bolero` can only link one that uses bolero.

mod draw;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    time::{Duration, Instant},
};

use boxoffice_fuzz::{
    TARGETS,
    corpus::{self, Seed},
    for_each_target,
    mutate::mutate,
    target,
};
use boxoffice_links::decoders as links;
use boxoffice_node::decoders as node;
use boxoffice_shard::decoders as shard;
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// The time of the random search for a target, in milliseconds.
const SEARCH_MS: u64 = 300;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Checks the whole corpus, then random mutations of it.
fn search(name: &str) {
    let target = target(name);
    let seeds = corpus::of(name);
    assert!(!seeds.is_empty(), "{name} has no corpus");
    if let Some(directory) = std::env::var_os("FUZZ_SEEDS") {
        return write(Path::new(&directory), &seeds);
    }
    for seed in &seeds {
        with_input_printed(&format!("{} of {}", seed.name, corpus::path(name).display()), || {
            (target.check)(&seed.bytes)
        });
    }
    let inputs: Vec<Vec<u8>> = seeds.into_iter().map(|seed| seed.bytes).collect();
    let number = variable("FUZZ_SEED").unwrap_or_else(|| SmallRng::from_os_rng().random());
    let mut rng = SmallRng::seed_from_u64(number);
    let (began, time) = (Instant::now(), Duration::from_millis(variable("FUZZ_MS").unwrap_or(SEARCH_MS)));
    let mut tries = 0_u64;
    while began.elapsed() < time {
        let input = mutate(&mut rng, &inputs);
        tries += 1;
        with_input_printed(&format!("FUZZ_SEED={number}: {}", input.escape_ascii()), || (target.check)(&input));
    }
    println!("{name}: {tries} inputs, FUZZ_SEED={number}");
}

fn write(directory: &Path, seeds: &[Seed]) {
    fs::create_dir_all(directory).expect("the directory is made");
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(directory.join(format!("seed-{number}")), &seed.bytes).expect("the input is written");
    }
}

/// Prints the input if the check panics.
fn with_input_printed(what: &str, check: impl FnOnce()) {
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

#[test]
fn corpus_inputs_round_trip() {
    for bytes in [&b"GET / HTTP/1.1\r\n\x00\t\\\"'"[..], &[0, 1, 2, 0xff], b"", b"hex:00", b" = "] {
        let seed = Seed { name: "a name".into(), bytes: bytes.to_vec() };
        assert_eq!(corpus::read(corpus::write(&seed).trim_end_matches('\n')), seed);
    }
}

/// Inputs drawn before a format change find nothing any more.
#[test]
fn real_bytes_are_accepted() {
    for target in TARGETS {
        let stale = corpus::of(target.name).into_iter().filter(|seed| seed.name.starts_with("real "));
        let stale: Vec<String> =
            stale.filter(|seed| !accepts(target.name, &seed.bytes)).map(|seed| seed.name).collect();
        assert_eq!(stale, [""; 0], "{}: draw the corpus again, docs/internals/testing.md says how", target.name);
    }
}

/// Whether a decoder of a target accepts these bytes. True for targets without bytes of an encoder.
fn accepts(target: &str, bytes: &[u8]) -> bool {
    match target {
        "link_hello" => links::hello(bytes).is_some(),
        "link_claims" => links::claims(bytes).is_some(),
        "lane_consensus" => node::consensus(bytes).is_some(),
        "lane_calls" => node::call(bytes).is_some(),
        "lane_feeds" => node::feed(bytes).is_some(),
        "lane_bulk" => node::bulk(bytes).is_some() || shard::packed_snapshot(bytes).is_some(),
        "raft_message" => shard::message(bytes).is_some(),
        "log_entry" => shard::entry(bytes).is_some() || node::turn(bytes).is_some(),
        "snapshot_state" => node::snapshot(bytes).is_some() || node::state(bytes).is_some(),
        "stored" => node::stored(bytes).is_some(),
        _ => true,
    }
}

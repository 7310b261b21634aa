//! Runs every target: with its corpus, with random changes to it, and under `cargo bolero` with whatever that finds.
//!
//! `FUZZ_MS` is how long the random search for a target takes, in milliseconds; `FUZZ_SEED` repeats one. With `FUZZ_SEEDS` the corpus
//! of a target is written to that directory instead, an input a file, as fuzzers want it.
//!
//! All of the crate's tests are in this executable: `cargo bolero` can only link one that uses bolero.

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
    if let Some(directory) = std::env::var_os("FUZZ_SEEDS") {
        return write(Path::new(&directory), &seeds);
    }
    for seed in &seeds {
        explained(&format!("{} of {}", seed.name, corpus::path(name).display()), || (target.check)(&seed.bytes));
    }
    let inputs: Vec<Vec<u8>> = seeds.into_iter().map(|seed| seed.bytes).collect();
    let number = variable("FUZZ_SEED").unwrap_or_else(|| SmallRng::from_os_rng().random());
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

fn write(directory: &Path, seeds: &[Seed]) {
    fs::create_dir_all(directory).expect("the directory is made");
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(directory.join(format!("seed-{number}")), &seed.bytes).expect("the input is written");
    }
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

#[test]
fn what_is_written_to_the_corpus_is_read() {
    for bytes in [&b"GET / HTTP/1.1\r\n\x00\t\\\"'"[..], &[0, 1, 2, 0xff], b"", b"hex:00", b" = "] {
        let seed = Seed { name: "a name".into(), bytes: bytes.to_vec() };
        assert_eq!(corpus::read(corpus::write(&seed).trim_end_matches('\n')), seed);
    }
}

/// Bytes that were drawn before a format has changed find nothing any more.
#[test]
fn real_bytes_are_accepted() {
    for target in TARGETS {
        let stale = corpus::of(target.name).into_iter().filter(|seed| seed.name.starts_with("real "));
        let stale: Vec<String> =
            stale.filter(|seed| !accepts(target.name, &seed.bytes)).map(|seed| seed.name).collect();
        assert_eq!(stale, [""; 0], "{}: draw the corpus again, docs/internals/testing.md says how", target.name);
    }
}

/// Whether a decoder of a target takes these bytes; true for targets that have no bytes of an encoder.
fn accepts(target: &str, bytes: &[u8]) -> bool {
    match target {
        "link_hello" => links::hello(bytes).is_some(),
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

//! The test of the storms: bugs planted on purpose, one at a time. Every one must be found, and it is said after how many
//! storms and by what. `cargo test -p boxoffice-core --features planted --test rules planted -- --nocapture`.

use std::panic::catch_unwind;

use boxoffice_core::planted::plant;

use crate::{storm::aftermath, told::lives, tombstones::guests};

/// Storms, or lives, after which a bug that was not found counts as one that is not.
const STORMS_MAX: u64 = 900;

const BUGS: [(&str, fn(u64)); 9] = [
    ("an expiry that beats a sale", storm),
    ("a cart that expires early", storm),
    ("a sale dropped from the outbox", storm),
    ("a repeat taken for new", storm),
    ("a hold disowned by its owner", storm),
    ("a decline forgotten", storm),
    ("an expectation not looked at", storm),
    ("a deadline that was told and forgotten", lives),
    ("a tombstone that is kept nowhere", guests),
];

fn storm(seed: u64) {
    aftermath(seed);
}

/// After how many storms a bug was found, and what was said.
fn hunt(bug: &'static str, run: fn(u64)) -> Option<(u64, String)> {
    (0..STORMS_MAX).find_map(|seed| {
        plant(Some(bug));
        let ended = catch_unwind(|| run(seed));
        plant(None);
        let panic = ended.err()?;
        let said = panic.downcast_ref::<String>().cloned();
        Some((seed + 1, said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()))
    })
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for (bug, run) in BUGS {
        match hunt(bug, run) {
            Some((storms, said)) => {
                println!("{bug}: {storms} storms: {}", said.chars().take(140).collect::<String>());
            }
            None => missed.push(bug),
        }
    }
    assert_eq!(missed, [""; 0], "not found in {STORMS_MAX} storms");
}

//! Seeds: a handful of short runs, each of which must keep every promise, and the same run twice.

use boxoffice_sim::{Settings, run, run_many};

/// A number from the environment: how to run more of it.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn promises_are_kept_under_trouble() {
    let (first, minutes) = (number("BOXOFFICE_SEED", 1), number("BOXOFFICE_MINUTES", 3));
    let settings = Settings { minutes, ..Settings::new(0) };
    let seeds = first..first + number("BOXOFFICE_SEEDS", 8);
    let summary = run_many(settings, seeds, 2).expect("it can be simulated");
    println!("{summary}");
    assert!(summary.clean(), "{summary}");
    assert!(summary.changes > 1_000 && summary.orders > 100 && summary.unknown > 0, "{summary}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let settings = Settings { minutes: 2, ..Settings::new(7) };
    let [one, other] = [(); 2].map(|()| run(settings).expect("it can be simulated"));
    assert_eq!(one, other);
}

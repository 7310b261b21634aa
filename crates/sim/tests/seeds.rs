//! Seeds: a handful of short runs, each of which must keep every promise, and the same run twice.

use boxoffice_sim::{Settings, run, run_many};

#[test]
fn promises_are_kept_under_trouble() {
    let settings = Settings { minutes: 3, ..Settings::new(0) };
    let summary = run_many(settings, 1..9, 2).expect("it can be simulated");
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

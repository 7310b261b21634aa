//! Evenings of hoarders and of an office, on a cluster of three nodes in simulated time.

use boxoffice_sim::{Evening, Hoard, run_evening};

/// As in the program, because a simulation allocates a lot.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A number from the environment, for other evenings.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

fn passes(evening: &Evening) {
    let trace = std::env::var("BOXOFFICE_TRACE").is_ok();
    let report = run_evening(&Evening { trace, ..evening.clone() });
    println!("{evening:?}: {report}");
    assert_eq!(report.violations, [""; 0], "{report}");
    assert!(evening.hoards.is_empty() || (report.asks.0 > 200 && report.asks.1 > 2_000), "hoarders hardly asked: {report}");
}

#[test]
fn hoarders_of_all_kinds_leave_the_house_to_others() {
    passes(&Evening::of_hoarders(number("BOXOFFICE_SEED", 1)));
}

#[test]
fn an_office_behind_one_address_buys() {
    passes(&Evening::of_an_office(number("BOXOFFICE_SEED", 1)));
}

#[test]
#[ignore = "a quarter of a minute each"]
fn ten_hoarders_of_one_kind_leave_the_house_to_others() {
    let kinds = [Hoard::Greedy, Hoard::Scattered, Hoard::Again, Hoard::Growth];
    for hoard in kinds.into_iter().chain([8, 10, 12, 18].map(Hoard::Level)) {
        passes(&Evening { hoards: vec![hoard; 10], ..Evening::of_hoarders(number("BOXOFFICE_SEED", 1)) });
    }
}

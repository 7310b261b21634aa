//! Evenings of hoarders and of an office, on a cluster of three nodes in simulated time.

use boxoffice_sim::{Evening, EveningReport, Hoard, run_evening};

/// As in the program, because a simulation allocates a lot.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A number from the environment, for other evenings.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// An evening's report, printed.
fn told(evening: &Evening) -> EveningReport {
    let trace = std::env::var("BOXOFFICE_TRACE").is_ok();
    let report = run_evening(&Evening { trace, ..evening.clone() });
    println!("{evening:?}: {report}");
    report
}

fn passes(evening: &Evening) {
    let report = told(evening);
    assert_eq!(report.violations, [""; 0], "{report}");
    let (granted, refused) = report.asks;
    assert!(evening.hoards.is_empty() || (granted > 150 && refused > 2_000), "hoarders hardly asked: {report}");
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
#[ignore = "ten seconds each"]
fn ten_hoarders_of_one_kind_leave_the_house_to_others() {
    let kinds = [Hoard::Greedy, Hoard::Scattered, Hoard::Again, Hoard::Growth];
    let kinds = kinds.into_iter().chain([8, 10, 12, 18].map(Hoard::Level));
    let evenings =
        kinds.map(|hoard| Evening { hoards: vec![hoard; 10], ..Evening::of_hoarders(number("BOXOFFICE_SEED", 1)) });
    let reports: Vec<EveningReport> = evenings.map(|evening| told(&evening)).collect();
    let wrong: Vec<&String> = reports.iter().flat_map(|report| &report.violations).collect();
    assert_eq!(wrong, [""; 0]);
}

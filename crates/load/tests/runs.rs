//! Whole runs against a box office in memory: a right one passes, and no lie does.

mod common;

use std::path::Path;

use boxoffice_load::{Report, RunConfig, run};
use common::{BoxOffice, Lie};
use tempfile::TempDir;

/// 240 purchases of five seats by 16 clients, on 20 sessions of 80.
const CLOSED: &str = r#"
about = "small and closed"
[house]
groups = 2
venues = 2
sessions = 5
rows = 5
seats = 16
price = 1000
[flow]
seats = 5
pick = "next"
[closed_loop]
clients = 16
flows = 240
[connect]
connections = 3
deadline_ms = 300
setup_batch = 3
[expect]
done = 240
refused = 0
failed = 0
seats_sold = 1200
total = 1200000
"#;

/// 400 purchases of random seats of two sessions, most of them refused.
const CONTENDED: &str = r#"
about = "small and contended"
[house]
groups = 1
venues = 1
sessions = 2
rows = 5
seats = 16
price = 1000
[flow]
seats = 5
pick = "random"
retries = 1
abandon_percent = 20
[open_loop]
flows = 400
gap_us = 500
[connect]
connections = 2
deadline_ms = 300
"#;

fn run_against(lie: Lie, scenario: &str, out_dir: Option<&Path>, baseline: Option<&Path>) -> Report {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let address = runtime.block_on(BoxOffice::open(lie));
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("small.toml");
    std::fs::write(&file, scenario).expect("it can be written");
    let config = RunConfig {
        addresses: vec![address.to_string()],
        scenario: file.display().to_string(),
        overrides: vec!["audit.settle_ms=0".into()],
        out_dir: out_dir.map(Path::to_owned),
        baseline: baseline.map(Path::to_owned),
        seed: Some(1),
        quiet: true,
        ..RunConfig::default()
    };
    run(config).unwrap_or_else(|error| panic!("{lie:?}: {error}"))
}

#[track_caller]
fn fails_with(lie: Lie, scenario: &str, reason: &str) {
    let report = run_against(lie, scenario, None, None);
    assert!(report.flows.add_up(), "{:?}", report.flows);
    assert!(!report.verdict.passed, "{lie:?} passed: {}", report.verdict.line);
    let found = report.verdict.reasons.iter().any(|said| said.starts_with(reason));
    assert!(found, "{lie:?}: {:?}, not {reason}\n{:#?}", report.verdict.reasons, report.audit.findings.examples);
}

#[test]
fn a_right_run_passes_and_leaves_a_report_to_compare_with() {
    let directory = TempDir::new().expect("a directory");
    let report = run_against(Lie::None, CLOSED, Some(directory.path()), None);
    assert!(report.verdict.passed, "{:?}\n{:?}", report.verdict.reasons, report.audit.findings.examples);
    assert_eq!(report.verdict.line, "240 sold, 0 twice, 0 refused while free, 0 lost");
    assert_eq!((report.audit.findings.sessions, report.audit.sessions_used), (20, 20));
    assert_eq!(report.audit.findings.seats_sold, 1_200);
    assert_eq!((report.audit.node_orders, report.audit.node_seats_sold), (Some(240), Some(1_200)));
    assert_eq!(report.steps.values().map(|step| step.seed.count).collect::<Vec<_>>(), [240, 240, 240]);

    let json = directory.path().join("report.json");
    // Not compared as values: what JSON says of a fraction may differ in its last digit.
    let read = Report::read(&json).expect("it was written");
    assert_eq!((read.to_table(None), &read.scenario), (report.to_table(None), &report.scenario));
    let again = run_against(Lie::None, CLOSED, Some(directory.path()), Some(&json));
    assert!(again.to_table(Some(&report)).contains("earlier, ms"));
    let page = std::fs::read_to_string(directory.path().join("report.html")).expect("it was written");
    assert!(page.contains("99th percentile, earlier") && page.contains("Every promise holds"));
}

#[test]
fn a_contended_run_adds_up_and_every_refusal_was_true() {
    let report = run_against(Lie::None, CONTENDED, None, None);
    assert!(report.verdict.passed, "{:?}\n{:?}", report.verdict.reasons, report.audit.findings.examples);
    let flows = &report.flows;
    assert!(flows.add_up(), "{flows:?}");
    assert!(flows.refused["seats_taken"] > 300 && flows.done > 5 && flows.abandoned > 0, "{flows:?}");
    assert!(flows.retried > 300, "{flows:?}");
    assert_eq!(report.audit.findings.seats_held, flows.abandoned * 5);
}

#[test]
fn some_want_what_others_have_just_got_and_are_refused() {
    let open = "pick = \"next\"\ncontend_percent = 10\nabandon_percent = 30";
    let scenario = CONTENDED.replace("pick = \"random\"\nretries = 1\nabandon_percent = 20", open);
    let scenario = scenario.replace("sessions = 2", "sessions = 40");
    let report = run_against(Lie::None, &scenario, None, None);
    assert!(report.verdict.passed, "{:?}\n{:?}", report.verdict.reasons, report.audit.findings.examples);
    let flows = &report.flows;
    assert_eq!(flows.refused.keys().collect::<Vec<_>>(), ["seats_taken"], "{flows:?}");
    // 400 flows; the first ones find nobody to envy.
    assert!((20..70).contains(&flows.refused["seats_taken"]) && (80..160).contains(&flows.abandoned), "{flows:?}");
}

#[test]
fn nodes_that_others_started_are_not_harmed() {
    let config = RunConfig {
        addresses: vec!["127.0.0.1:1".into()],
        scenario: "one-seat".into(),
        overrides: vec!["faults.kill_at_ms=100".into()],
        quiet: true,
        ..RunConfig::default()
    };
    let error = run(config).expect_err("nobody keeps the nodes").to_string();
    assert!(error.starts_with("only nodes that the run started itself are killed or added"), "{error}");
}

#[test]
fn a_seat_sold_twice_fails_the_run() {
    fails_with(Lie::SellsTwice, CONTENDED, "twice: ");
}

#[test]
fn a_forgotten_order_fails_the_run() {
    fails_with(Lie::ForgetsOrders, CLOSED, "lost: ");
}

#[test]
fn a_seat_refused_while_free_fails_the_run() {
    fails_with(Lie::RefusesFree, CONTENDED, "refused while free: ");
}

#[test]
fn a_wrong_total_fails_the_run() {
    fails_with(Lie::Overcharges, CLOSED, "wrong order: ");
}

#[test]
fn wrong_counts_fail_the_run() {
    fails_with(Lie::Miscounts, CLOSED, "miscounted: ");
}

#[test]
fn silence_is_neither_a_sale_nor_a_loss_but_counted() {
    let report = run_against(Lie::KeepsSilent, CLOSED, None, None);
    let flows = &report.flows;
    assert!(flows.add_up(), "{flows:?}");
    assert!(flows.failed["unknown"] > 20, "{flows:?}");
    // The silent server did sell them: no promise is broken, but the scenario wanted them all answered.
    assert!(report.audit.findings.is_clean(), "{:?}", report.audit.findings.examples);
    assert_eq!(report.audit.unknown.get("done"), flows.failed.get("unknown"));
    assert!(report.verdict.reasons.iter().any(|reason| reason.starts_with("failed: ")), "{:?}", report.verdict);
}

#[test]
fn nobody_there_is_said() {
    let config = RunConfig {
        addresses: vec!["127.0.0.1:1".into()],
        scenario: "one-seat".into(),
        overrides: vec!["connect.deadline_ms=200".into()],
        quiet: true,
        ..RunConfig::default()
    };
    let error = run(config).expect_err("nobody is there").to_string();
    assert!(error.starts_with("cannot connect to 127.0.0.1:1: "), "{error}");
}

//! Whole runs against a stub server: a correct server passes, and each injected bug fails the run.

mod common;

use std::path::Path;

use boxoffice_load::{Report, RunConfig, run};
use common::{Bug, StubServer};
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

fn run_against(bug: Bug, scenario: &str, out_dir: Option<&Path>, baseline: Option<&Path>) -> Report {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let address = runtime.block_on(StubServer::start(bug));
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("small.toml");
    std::fs::write(&file, scenario).expect("the file can be written");
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
    run(config).unwrap_or_else(|error| panic!("{bug:?}: {error}"))
}

#[test]
fn a_pause_before_the_checkout_is_no_latency() {
    const THINK_S: f64 = 0.1;
    let scenario = CLOSED.replacen('\n', "\nthink_ms = 100\n", 1);
    let report = run_against(Bug::None, &scenario, None, None);
    assert!(report.verdict.passed, "{:?}", report.verdict.reasons);
    assert!(report.times.run_s > THINK_S * 240.0 / 16.0, "{:?}", report.times);
    let latencies = report.done.expect("flows that bought").intended.percentiles;
    assert!(latencies.p50 < THINK_S * 1_000.0, "{latencies:?}");
}

#[track_caller]
fn fails_with(bug: Bug, scenario: &str, reason: &str) {
    let report = run_against(bug, scenario, None, None);
    assert!(report.flows.adds_up(), "{:?}", report.flows);
    assert!(!report.verdict.passed, "{bug:?} passed: {}", report.verdict.line);
    let found = report.verdict.reasons.iter().any(|found| found.starts_with(reason));
    assert!(found, "{bug:?}: {:?}, not {reason}\n{:#?}", report.verdict.reasons, report.audit.findings.examples);
}

#[test]
fn a_correct_run_passes_and_writes_a_report_to_compare_with() {
    let directory = TempDir::new().expect("a directory");
    let report = run_against(Bug::None, CLOSED, Some(directory.path()), None);
    assert!(report.verdict.passed, "{:?}\n{:?}", report.verdict.reasons, report.audit.findings.examples);
    assert_eq!(report.verdict.line, "240 sold, 0 twice, 0 refused while free, 0 lost");
    assert_eq!((report.audit.findings.sessions, report.audit.sessions_used), (20, 20));
    assert_eq!(report.audit.findings.seats_sold, 1_200);
    assert_eq!((report.audit.node_orders, report.audit.node_seats_sold), (Some(240), Some(1_200)));
    assert_eq!(report.steps.values().map(|step| step.seed.count).collect::<Vec<_>>(), [240, 240, 240]);

    let json = directory.path().join("report.json");
    // The reports are compared as tables, because JSON may change the last digit of a fraction.
    let read = Report::read(&json).expect("it was written");
    assert_eq!((read.to_table(None), &read.scenario), (report.to_table(None), &report.scenario));
    let again = run_against(Bug::None, CLOSED, Some(directory.path()), Some(&json));
    assert!(again.to_table(Some(&report)).contains("earlier, ms"));
    let page = std::fs::read_to_string(directory.path().join("report.html")).expect("it was written");
    assert!(page.contains("99th percentile, earlier") && page.contains("Every promise holds"));
}

#[test]
fn a_contended_run_adds_up_and_every_refusal_is_correct() {
    let report = run_against(Bug::None, CONTENDED, None, None);
    assert!(report.verdict.passed, "{:?}\n{:?}", report.verdict.reasons, report.audit.findings.examples);
    let flows = &report.flows;
    assert!(flows.adds_up(), "{flows:?}");
    assert!(flows.refused["seats_taken"] > 300 && flows.done > 5 && flows.abandoned > 0, "{flows:?}");
    assert!(flows.retried > 300, "{flows:?}");
    assert_eq!(report.audit.findings.seats_held, flows.abandoned * 5);
}

#[test]
fn contending_flows_are_refused() {
    let open = "pick = \"next\"\ncontend_percent = 10\nabandon_percent = 30";
    let scenario = CONTENDED.replace("pick = \"random\"\nretries = 1\nabandon_percent = 20", open);
    let scenario = scenario.replace("sessions = 2", "sessions = 40");
    let report = run_against(Bug::None, &scenario, None, None);
    assert!(report.verdict.passed, "{:?}\n{:?}", report.verdict.reasons, report.audit.findings.examples);
    let flows = &report.flows;
    assert_eq!(flows.refused.keys().collect::<Vec<_>>(), ["seats_taken"], "{flows:?}");
    // Of the 400 flows, the first ones find no recent hold to contend for.
    assert!((20..70).contains(&flows.refused["seats_taken"]) && (80..160).contains(&flows.abandoned), "{flows:?}");
}

#[test]
fn faults_need_nodes_that_the_run_started() {
    let config = RunConfig {
        addresses: vec!["127.0.0.1:1".into()],
        scenario: "one-seat".into(),
        overrides: vec!["faults.kill_at_ms=100".into()],
        quiet: true,
        ..RunConfig::default()
    };
    let error = run(config).expect_err("the run has no node controller").to_string();
    assert!(error.starts_with("a run kills and adds only nodes that it started itself"), "{error}");
}

#[test]
fn a_seat_sold_twice_fails_the_run() {
    fails_with(Bug::SellsTwice, CONTENDED, "twice: ");
}

#[test]
fn a_lost_order_fails_the_run() {
    fails_with(Bug::LosesOrders, CLOSED, "lost: ");
}

#[test]
fn a_seat_refused_while_free_fails_the_run() {
    fails_with(Bug::RefusesFreeSeats, CONTENDED, "refused while free: ");
}

#[test]
fn a_wrong_total_fails_the_run() {
    fails_with(Bug::Overcharges, CLOSED, "wrong order: ");
}

#[test]
fn wrong_counts_fail_the_run() {
    fails_with(Bug::Miscounts, CLOSED, "miscounted: ");
}

#[test]
fn a_dropped_reply_leaves_the_outcome_unknown() {
    let report = run_against(Bug::DropsReplies, CLOSED, None, None);
    let flows = &report.flows;
    assert!(flows.adds_up(), "{flows:?}");
    assert!(flows.failed["unknown"] > 20, "{flows:?}");
    // The server did sell the seats without a reply. No promise is broken, but the scenario expected every flow to be
    // answered.
    assert!(report.audit.findings.is_clean(), "{:?}", report.audit.findings.examples);
    assert_eq!(report.audit.unknown.get("done"), flows.failed.get("unknown"));
    assert!(report.verdict.reasons.iter().any(|reason| reason.starts_with("failed: ")), "{:?}", report.verdict);
}

#[test]
fn an_unreachable_node_is_an_error() {
    let config = RunConfig {
        addresses: vec!["127.0.0.1:1".into()],
        scenario: "one-seat".into(),
        overrides: vec!["connect.deadline_ms=200".into()],
        quiet: true,
        ..RunConfig::default()
    };
    let error = run(config).expect_err("no node listens there").to_string();
    assert!(error.starts_with("cannot connect to 127.0.0.1:1: "), "{error}");
}

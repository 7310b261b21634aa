use boxoffice_workload::check::Breach;

use super::*;
use crate::scenario::names;

/// A small run of the seeds' scenario.
pub(crate) fn sample() -> Report {
    let mut us: Vec<u64> = (1..=100).map(|ms| ms * 100).collect();
    let latency = Latency::of(&mut us).expect("a hundred");
    Report {
        format: FORMAT,
        scenario: Scenario::load(names()[0], &[]).expect("it is built in"),
        started_at_ms: 1_700_000_000_000,
        prefix: "l1".into(),
        seed: 7,
        server: Server {
            addresses: vec!["127.0.0.1:7180".into()],
            cluster: "c".into(),
            version: "0.1.0".into(),
            nodes: vec!["n1".into()],
            replicas: 1,
            fsync: "always".into(),
        },
        times: Times { setup_s: 2.5, run_s: 25.0, audit_s: 1.0 },
        flows: Flows {
            offered: 25_000,
            done: 24_998,
            refused: [("seats_taken".to_owned(), 2)].into(),
            seats_sold: 124_990,
            total: 124_990_000,
            ..Flows::default()
        },
        done: Some(Latencies { intended: latency, actual: latency }),
        refused: None,
        steps: [("cart.open".to_owned(), latency)].into(),
        timeline: vec![
            Slice { at_s: 0.0, length_s: 1.0, done: 1_000, p50_ms: 0.9, p99_ms: 4.0, max_ms: 8.0, ..Slice::default() },
            Slice {
                at_s: 1.0,
                length_s: 1.0,
                done: 998,
                refused: 2,
                p50_ms: 1.1,
                p99_ms: 40.0,
                max_ms: 80.0,
                ..Slice::default()
            },
        ],
        histogram: vec![Bar { from_ms: 0.1, to_ms: 1.0, count: 10 }, Bar { from_ms: 1.0, to_ms: 10.0, count: 90 }],
        machine: Machine { processors: 2, client_processors: 0.25, ..Machine::default() },
        memory: None,
        storm: None,
        reads: None,
        watchers: None,
        outages: None,
        overload: None,
        hoarders: None,
        onsale: None,
        audit: Audit::default(),
        verdict: Verdict { passed: true, line: "24 998 sold".into(), reasons: Vec::new() },
    }
}

/// Checks that every opened tag is closed, in order.
#[track_caller]
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let tag = tag.split('>').next().expect("a tag ends");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !matches!(name, "!doctype" | "meta" | "br") {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn the_table_has_the_main_figures() {
    let table = sample().to_table(None);
    for line in [
        "  offered           25 000",
        "  refused                2  (seats_taken 2)",
        "  total       1 249 900.00 EUR",
        "  at 127.0.0.1:7180 (boxoffice 0.1.0; 1 node, 1 replica, fsync always)",
        "    mean                                   5.050",
        "    75 percentile                          7.550",
        "    p99.9                                 10.007",
        "PASSED: 24 998 sold",
    ] {
        assert!(table.lines().any(|printed| printed == line), "{line:?} is not in\n{table}");
    }
}

#[test]
fn the_report_compares_with_an_earlier_run() {
    let mut earlier = sample();
    let mut us = vec![10_100];
    let slow = Latency::of(&mut us).expect("one");
    earlier.done = Some(Latencies { intended: slow, actual: slow });
    let table = sample().to_table(Some(&earlier));
    let mean = table.lines().find(|line| line.trim_start().starts_with("mean ")).expect("a mean");
    assert_eq!(mean, "    mean                                   5.050          10.100    -50.0%");
    let page = sample().to_html(Some(&earlier));
    assert_well_formed(&page);
    assert!(page.contains("bought, intended start, earlier") && page.contains("done, earlier"));
}

#[test]
fn the_page_is_self_contained_and_well_formed() {
    let mut report = sample();
    report.audit.findings.add(Breach::Lost, || "order <b>1</b> & more".into());
    report.verdict = Verdict { passed: false, line: "1 lost".into(), reasons: vec!["lost: 1 times".into()] };
    let page = report.to_html(None);
    assert_well_formed(&page);
    assert!(page.contains("order &lt;b&gt;1&lt;/b&gt; &amp; more"), "text is escaped");
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
    assert_eq!(page.matches("<svg").count(), 4, "latency, histogram, throughput, refusals");
}

#[test]
fn numbers_are_grouped() {
    assert_eq!([grouped(0), grouped(999), grouped(25_000), grouped(-1_234_567)], ["0", "999", "25 000", "−1 234 567"]);
    assert_eq!([money(0), money(125_000_000), money(-1_05)], ["0.00", "1 250 000.00", "−1.05"]);
}

#[test]
fn only_a_report_of_this_version_is_a_baseline() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = directory.path().join("report.json");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("it can be written");
        Report::read(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(read("{}").expect_err("empty").starts_with("not a report: missing field"));
    let newer = sample().to_json().replacen("\"format\": 1", "\"format\": 2", 1);
    assert_eq!(read(&newer), Err("a report of version 2, not 1".into()));
    assert_eq!(read(&sample().to_json()), Ok(()));
}

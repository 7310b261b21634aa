//! `docs/reference/metrics.md`, made from `/metrics` of a real node.
//!
//! `UPDATE_EXPECT=1 cargo test -p boxoffice-edge --test all metrics` writes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::{api::test_node::TestNode, http_client::HttpClient};

/// The page up to the metrics.
const HEAD: &str = "# Metrics

<!-- Made of what /metrics answers by crates/edge/tests/all/api/metrics.rs. Change the text there, then run it with UPDATE_EXPECT=1. -->

`GET /metrics` answers these in Prometheus' text format, on the operators' port, and on the clients' port to callers with the role
`report`. Counters begin at 0 when the node starts. Look first at `boxoffice_payments_failed`, `boxoffice_shedding`,
`boxoffice_panics_contained_total` and `boxoffice_replica_checksums_different_total`. All four should be 0.

| metric | type | labels | what it is |
|---|---|---|---|
";

/// The page's row of a metric.
#[derive(Default)]
struct Metric {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

fn drawn(scraped: &str) -> String {
    let mut metrics: BTreeMap<&str, Metric> = BTreeMap::new();
    for line in scraped.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|line| line.split_once(' ')) {
            metrics.entry(name).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            metrics.entry(name).or_default().kind = kind.to_owned();
        } else if let Some((name, labels)) = line.split_once('{') {
            let labels = labels.split_once('}').expect("labels end").0;
            let names = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            // Buckets belong to their histogram.
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            metrics.get_mut(name).unwrap_or_else(|| panic!("{name} has no help")).labels.extend(names);
        }
    }
    let mut text = String::from(HEAD);
    for (name, Metric { kind, help, labels }) in metrics {
        assert!(!kind.is_empty() && help.ends_with('.'), "{name} has a type and a sentence: {kind}, {help}");
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        writeln!(text, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).expect("text");
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_metrics_matches_the_scrape() {
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let answer = http_client.ask("GET", "/metrics", &[], b"").await;
    assert_eq!(answer.status, 200);
    let drawn = drawn(&String::from_utf8_lossy(&answer.body));
    test_node.close().await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    if std::fs::read_to_string(path).is_ok_and(|page| page == drawn) {
        return;
    }
    assert!(std::env::var_os("UPDATE_EXPECT").is_some(), "docs/reference/metrics.md is not what /metrics answers");
    std::fs::write(path, drawn).expect("the page can be written");
}

//! The protocol's pages match the program.

use std::collections::BTreeSet;

use super::common::{other_requests, requests, server_frames};
use crate::{Op, hello::Limits, http, limits};

/// The pages of the protocol, one after the other.
fn document() -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
    let page = |name| std::fs::read_to_string(format!("{root}/{name}.md")).expect("the page is there");
    ["protocol", "ops"].map(page).join("\n")
}

#[test]
fn every_frame_in_the_document_is_a_real_one() {
    let (mut asked, sent_by_server) = (requests(), server_frames());
    asked.extend(other_requests());
    let known =
        |samples: &[super::common::Sample]| samples.iter().map(|sample| sample.json.clone()).collect::<BTreeSet<_>>();
    let (asked, sent_by_server) = (known(&asked), known(&sent_by_server));
    let document = document();
    let mut shown = 0;
    for line in document.lines() {
        let (frame, sent) = match line.split_once(' ') {
            // Examples over HTTP are checked against a real node in the tests of edge.
            Some(("→", request)) if request.starts_with("curl ") => {
                posted(request);
                continue;
            }
            Some(("←", response)) if !response.starts_with('{') => continue,
            Some(("→", frame)) => (frame, &asked),
            Some(("←", frame)) => (frame, &sent_by_server),
            _ => continue,
        };
        assert!(sent.contains(frame), "the document shows a frame that is never sent:\n{line}");
        shown += 1;
    }
    assert!(shown >= 25, "only {shown} frames are shown");
}

/// Checks that a posted body is a request of its op.
fn posted(request: &str) {
    let Some((head, body)) = request.split_once(" -d '") else { return };
    let name = head.split(['/', ' ', '?']).find(|part| Op::from_name(part).is_some());
    let op = name.and_then(Op::from_name).unwrap_or_else(|| panic!("not a request of an op: {request}"));
    let body = body.strip_suffix('\'').expect("a quote at the end").as_bytes();
    http::request(op, Some("c1-000042"), None, body).unwrap_or_else(|why| panic!("{why}: {request}"));
}

#[test]
fn every_op_is_described_and_marked_if_it_changes_something() {
    let document = document();
    for op in Op::ALL {
        let name = format!("`{}`", op.name());
        assert!(document.contains(&name), "{name} is not described");
        let marked = document.contains(&format!("{name}*"));
        assert_eq!(marked, op.changes(), "{name} has a wrong mark");
    }
}

#[test]
fn the_limits_are_as_documented() {
    let limits = Limits::default();
    let documented =
        (limits.frame_bytes / 1024, limits.import_frame_bytes / 1024 / 1024, limits.depth, limits.hold_seats);
    assert_eq!(documented, (64, 1, 16, 20));
    assert_eq!((limits.requests_under_way, limits.cart_lines, limits.batch_items), (256, 50, 1_000));
    assert_eq!(
        (limits::DEADLINE_MS, limits::DEADLINE_MS_MAX, limits::PING_MS, limits::PONG_MS),
        (10_000, 60_000, 15_000, 10_000)
    );
}

//! What is made of the table of refusals and failures: `docs/reference/refusals.md` with every code, the table of HTTP statuses in
//! `docs/reference/protocol.md`, and the page's words for buyers.
//!
//! `UPDATE_EXPECT=1 cargo test -p boxoffice-wire --lib codes` writes them.

use std::{collections::BTreeMap, fs};

use boxoffice_core::refusal::{Kind, Row, rows};

use super::page_tables;
use crate::schema::status;

/// The page up to the first code.
const HEAD: &str = "# Refusals and failures

<!-- Made of crates/core/src/refusal.rs by crates/wire/src/tests/codes.rs. Change the table, then run that with UPDATE_EXPECT=1. -->

A **refusal** is a normal answer. It comes as `no` with a code, a name, a message for people and, for some codes, fields that say more.
Nothing changed, with three exceptions. 601 and 603 say how a payment ended, and 602 that it is not known yet. Numbers and names are
never used again. Several lines of one request may be refused [at once](protocol.md#several-refusals).

A **failure** comes as `fail`. The request was not refused, it just did not work. Some failures say in `retry_after_ms` when to try
again.
";

/// The groups of codes by their hundreds.
const GROUPS: [(u16, &str); 9] = [
    (1, "Requests"),
    (2, "Seats and places"),
    (3, "Carts"),
    (4, "Stock"),
    (5, "Calendars"),
    (6, "Payments"),
    (7, "Catalogue"),
    (8, "Cluster"),
    (9, "Failures"),
];

/// Where the table of statuses begins and ends.
const STATUSES: (&str, &str) =
    ("<!-- The statuses of crates/core/src/refusal.rs. -->\n", "<!-- The end of the statuses. -->\n");

/// The words of the page up to the first.
const WORDS_HEAD: &str = "// The words for buyers, by the key that a translation uses. explain.js says how a template is read.
//
// Made of crates/core/src/refusal.rs by crates/wire/src/tests/codes.rs. Change the table, then run that with UPDATE_EXPECT=1.

export const WORDS = {
";

/// All rows by code.
fn by_code() -> BTreeMap<u16, &'static Row> {
    rows().map(|row| (row.code, row)).collect()
}

fn drawn_page() -> String {
    let mut text = String::from(HEAD);
    for (hundred, group) in GROUPS {
        text.push_str(&format!("\n## {group}\n"));
        for (code, row) in by_code().range(hundred * 100..hundred * 100 + 100) {
            text.push_str(&format!("\n### {code} {}\n\n{}\n\n**What to do.** {}\n\n", row.name, row.cause, row.advice));
            text.push_str(&format!("*HTTP {}.", row.http));
            let mut fields: Vec<String> = row.fields.iter().map(|name| format!("`{name}`")).collect();
            fields.sort();
            if !fields.is_empty() {
                text.push_str(&format!(" Fields {}.", fields.join(", ")));
            }
            match (row.kind, row.in_doubt) {
                (Kind::Failure, true) => text.push_str(" Whether it happened is not known."),
                (Kind::Failure, false) => text.push_str(" It did not happen."),
                (Kind::Refusal | Kind::Rejection, _) => {}
            }
            if let Some(wait) = row.retry_after_ms {
                text.push_str(&format!(" `retry_after_ms` is {wait} if nothing else is known."));
            }
            text.push_str("*\n");
        }
    }
    text
}

fn drawn_words() -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    let mut text = String::from(WORDS_HEAD);
    for row in by_code().values() {
        if let Some(words) = row.buyer {
            text.push_str(&format!("  '{}': '{}',\n", row.key(), quoted(words)));
        }
    }
    text.push_str("};\n");
    text
}

fn drawn_statuses() -> String {
    let mut codes: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    by_code().values().for_each(|row| codes.entry(row.http).or_default().push(row.code.to_string()));
    for status in [status::WRONG_METHOD, status::TOO_SLOW] {
        codes.entry(status).or_default().push("101".to_owned());
    }
    let mut text = String::from("| status | codes | meaning |\n|---|---|---|\n");
    text.push_str(&format!("| {} | `ok`, also of a `batch` with refused items | granted |\n", status::OK));
    for (status, codes) in codes {
        let meaning = status::meaning(status);
        let (_, meaning) = meaning.split_once(": ").expect("words after the kind of answer");
        text.push_str(&format!("| {status} | {} | {} |\n", codes.join(", "), meaning.trim_end_matches('.')));
    }
    text
}

/// Checks that a file has this content. Writes it if `UPDATE_EXPECT` is set.
fn check(path: &str, drawn: &str) {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    if fs::read_to_string(&path).is_ok_and(|file| file == drawn) {
        return;
    }
    assert!(std::env::var_os("UPDATE_EXPECT").is_some(), "{path} differs from crates/core/src/refusal.rs");
    fs::write(path, drawn).expect("the file can be written");
}

#[test]
fn the_page_of_refusals_matches_the_table() {
    check("docs/reference/refusals.md", &drawn_page());
}

#[test]
fn the_words_of_the_page_match_the_table() {
    check("crates/edge/page/js/words.js", &drawn_words());
}

#[test]
fn the_statuses_match_the_table() {
    let (begin, end) = STATUSES;
    page_tables::check("protocol.md", STATUSES, &format!("{begin}\n{}\n{end}", drawn_statuses()));
}

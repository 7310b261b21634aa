//! `docs/reference/refusals.md`: every code with its cause and what to do. It is made from the doc comments of the codes, the
//! frames that carry them, and their HTTP statuses.
//!
//! `UPDATE_EXPECT=1 cargo test -p boxoffice-wire --lib codes` writes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use bytes::BytesMut;
use serde_json::Value;

use super::common::{refusals, rejections};
use crate::{
    Encoding, Fail, FailKind,
    encode::{self, Verdict},
    schema::status,
};

/// The page up to the first code.
const HEAD: &str = "# Refusals and failures

<!-- Made of doc comments by crates/wire/src/tests/codes.rs. Change those, then run it with UPDATE_EXPECT=1. -->

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

/// The prefix of a code in the doc comment of a variant.
const INDENT: &str = "    /// ";

/// The page's entry of a code.
struct Code {
    name: &'static str,
    status: u16,
    fields: BTreeSet<String>,
    happened: Option<bool>,
    retry_after_ms: Option<u32>,
}

/// Rust files below a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The paragraphs of the doc comments that begin with a code. A code of the core counts before one of the wire.
fn comments() -> BTreeMap<u16, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    files.push(root.join("../core/src/refusal.rs"));
    let mut comments = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("sources are text");
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some((code, first)) = line.strip_prefix(INDENT).and_then(|line| line.split_once(": ")) else {
                continue;
            };
            let Ok(code @ 100..1_000) = code.parse::<u16>() else { continue };
            let mut paragraphs = vec![first.to_owned()];
            for line in lines.by_ref().map_while(|line| line.strip_prefix(INDENT.trim_end())) {
                match line.trim_start() {
                    "" => paragraphs.push(String::new()),
                    words => {
                        let paragraph = paragraphs.last_mut().expect("a paragraph");
                        paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
                        paragraph.push_str(words);
                    }
                }
            }
            // One refusal of the core is a failure on the wire.
            if !(code >= 900 && file.ends_with("refusal.rs")) {
                comments.insert(code, paragraphs);
            }
        }
    }
    comments
}

/// The details of a refusal.
fn fields(no: &Verdict) -> BTreeSet<String> {
    let mut frame = BytesMut::new();
    encode::verdict(Encoding::Json, &mut frame, 7, no);
    let frame: Value = serde_json::from_slice(&frame).expect("a frame in JSON");
    let fields = frame["no"].as_object().expect("a no").keys();
    fields.filter(|name| !matches!(name.as_str(), "code" | "name" | "message")).cloned().collect()
}

fn codes() -> BTreeMap<u16, Code> {
    let mut codes: BTreeMap<u16, Code> = BTreeMap::new();
    let mut add = |code: u16, name, fields: BTreeSet<String>| {
        let status = status::of_refusal(code, name);
        let new = Code { name, status, fields: BTreeSet::new(), happened: None, retry_after_ms: None };
        let of = codes.entry(code).or_insert(new);
        assert_eq!(of.name, name, "{code} is used twice");
        of.fields.extend(fields);
    };
    refusals().into_iter().for_each(|no| add(no.code(), no.name(), fields(&Verdict::No(no))));
    rejections().into_iter().for_each(|no| add(no.code(), no.name(), fields(&Verdict::Rejected(no))));
    codes.extend(FailKind::ALL.map(|kind| {
        let status = status::of_failure(kind);
        let retry_after_ms = Fail::new(kind).retry_after_ms;
        let happened = Some(kind.may_have_happened());
        (kind.code(), Code { name: kind.name(), status, fields: BTreeSet::new(), happened, retry_after_ms })
    }));
    codes
}

/// The expected page.
fn drawn() -> String {
    let (codes, comments) = (codes(), comments());
    let mut text = String::from(HEAD);
    for (hundred, group) in GROUPS {
        text.push_str(&format!("\n## {group}\n"));
        for (code, of) in codes.range(hundred * 100..hundred * 100 + 100) {
            let comment = comments.get(code).unwrap_or_else(|| panic!("{code} has no doc comment `{code}: …`"));
            let [cause, advice] = comment.as_slice() else {
                panic!(
                    "the doc comment of {code} has a paragraph for the cause and one for what to do, not {comment:?}"
                )
            };
            text.push_str(&format!("\n### {code} {}\n\n{cause}\n\n**What to do.** {advice}\n\n", of.name));
            let names: Vec<String> = of.fields.iter().map(|name| format!("`{name}`")).collect();
            text.push_str(&format!("*HTTP {}.", of.status));
            if !names.is_empty() {
                text.push_str(&format!(" Fields {}.", names.join(", ")));
            }
            match of.happened {
                Some(true) => text.push_str(" Whether it happened is not known."),
                Some(false) => text.push_str(" It did not happen."),
                None => {}
            }
            if let Some(wait) = of.retry_after_ms {
                text.push_str(&format!(" `retry_after_ms` is {wait} if nothing else is known."));
            }
            text.push_str("*\n");
        }
    }
    text
}

#[test]
fn the_page_of_refusals_matches_the_doc_comments() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/refusals.md");
    let drawn = drawn();
    if fs::read_to_string(path).is_ok_and(|page| page == drawn) {
        return;
    }
    assert!(std::env::var_os("UPDATE_EXPECT").is_some(), "{path} differs from the doc comments");
    fs::write(path, drawn).expect("the page can be written");
}

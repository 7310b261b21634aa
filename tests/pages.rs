//! The pages of the documentation: every link has a target, every named test exists, and prose reads well.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::prose::{Counts, faults, sentences};

/// Pages and directories whose sentences are counted by [`crate::prose`].
const COUNTED: [&str; 4] = ["README.md", "docs/architecture.md", "docs/concepts", "docs/reference/protocol.md"];

/// The most semicolons and colons in a hundred words of the other pages. Each of them joins what could be two sentences.
const MARKS_IN_100_WORDS: f64 = 1.5;

/// The least number of words that the measure assumes for a page.
const WORDS_MIN: usize = 200;

/// The most characters of a paragraph: four lines.
const PARAGRAPH_CHARS_MAX: usize = 4 * 130;

/// Pages that name tests.
const NAMING_TESTS: [&str; 12] = [
    "docs/concepts/carts.md",
    "docs/concepts/guarantees.md",
    "docs/concepts/holds.md",
    "docs/concepts/limits.md",
    "docs/concepts/offers.md",
    "docs/concepts/payments.md",
    "docs/internals/claims.md",
    "docs/internals/nemesis.md",
    "docs/internals/simulation.md",
    "docs/internals/testing.md",
    "docs/operate/proxy.md",
    "docs/operate/threat-model.md",
];

/// Words of those pages that look like names of tests.
const NO_TESTS: [&str; 41] = [
    "amount_off",
    "best_effort",
    "bought_as",
    "boxoffice_edge_denied_total",
    "boxoffice_edge_over_budget_total",
    "boxoffice_payments_failed",
    "boxoffice_payments_pending",
    "by_order",
    "cart_differs",
    "cart_not_active",
    "checkout_canceled",
    "checkout_withdrawn",
    "code_group",
    "code_not_valid",
    "customer_needed",
    "deadline_ms",
    "dry_run",
    "leaves_single",
    "list_price",
    "min_party",
    "no_single_seats",
    "not_sold_as",
    "opens_at",
    "party_too_small",
    "payment_pending",
    "payment_status",
    "payments_failed",
    "payments_pending",
    "per_customer",
    "per_order",
    "price_sold_out",
    "rate_limited",
    "rate_off",
    "release_at",
    "seat_blocked",
    "seats_taken",
    "sells_after_begin",
    "session_closed",
    "stale_ms",
    "terms_changed",
    "too_large",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root of the workspace")
}

/// The Markdown files below a directory.
fn markdown(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of pages") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            markdown(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Every page with its text.
fn pages() -> BTreeMap<PathBuf, String> {
    let root = root();
    let mut found =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "crates/bench/README.md"].map(|page| root.join(page)).to_vec();
    markdown(&root.join("docs"), &mut found);
    assert!(found.len() > 30, "{} pages", found.len());
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("pages are text"))).collect()
}

/// The paragraphs and list items of a page, without headings, tables, comments and blocks of code. Inline code counts as one
/// word, and a link as its words.
fn paragraphs(page: &str) -> Vec<String> {
    let (mut paragraphs, mut paragraph, mut fenced) = (Vec::new(), String::new(), false);
    let is_item = |line: &str| {
        let number = line.trim_start_matches(|char: char| char.is_ascii_digit());
        line.starts_with("- ") || number.len() < line.len() && number.starts_with(". ")
    };
    for line in page.lines().map(str::trim).chain([""]) {
        let is_fence = line.starts_with("```");
        let ends = is_fence || line.is_empty() || ["|", "#", "<!--"].iter().any(|mark| line.starts_with(mark));
        if (ends || is_item(line)) && !paragraph.is_empty() {
            paragraphs.push(std::mem::take(&mut paragraph));
        }
        fenced ^= is_fence;
        if !(fenced || ends) {
            paragraph.push_str(line);
            paragraph.push(' ');
        }
    }
    let spoken = |paragraph: String| {
        let plain: Vec<&str> =
            paragraph.split('`').enumerate().map(|(part, text)| if part % 2 == 0 { text } else { "code" }).collect();
        let mut text = String::new();
        let plain = plain.concat();
        let mut rest = plain.as_str();
        while let Some((before, target)) = rest.split_once("](") {
            text.push_str(before);
            text.push(']');
            rest = target.split_once(')').map_or("", |(_, rest)| rest);
        }
        text + rest
    };
    paragraphs.into_iter().map(spoken).collect()
}

/// Semicolons and colons at the end of a word.
fn marks(text: &str) -> usize {
    let ends = |word: &str| word.trim_end_matches(['*', '_', ')', '"', '”']).ends_with([';', ':']);
    text.split_whitespace().filter(|word| ends(word)).count()
}

/// Whether the sentences of a page are counted.
fn is_counted(path: &Path) -> bool {
    COUNTED.iter().any(|counted| path.starts_with(root().join(counted)))
}

#[test]
fn paragraphs_are_short() {
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        let paragraphs = paragraphs(&page);
        let words: usize = paragraphs.iter().map(|paragraph| paragraph.split_whitespace().count()).sum();
        let density =
            100.0 * paragraphs.iter().map(|text| marks(text)).sum::<usize>() as f64 / words.max(WORDS_MIN) as f64;
        if density > MARKS_IN_100_WORDS && !is_counted(&path) {
            wrong.push(format!("{}: {density:.1} `;` and `:` in 100 words", path.display()));
        }
        for paragraph in paragraphs.iter().filter(|paragraph| paragraph.chars().count() > PARAGRAPH_CHARS_MAX) {
            let begin: String = paragraph.chars().take(60).collect();
            wrong.push(format!("{}: more than four lines: {begin}…", path.display()));
        }
    }
    assert!(wrong.is_empty(), "split these:\n{}", wrong.join("\n"));
}

/// `--nocapture` shows the counts of each page.
#[test]
fn sentences_are_neither_telegrams_nor_too_long() {
    let mut wrong = Vec::new();
    for (path, page) in pages().into_iter().filter(|(path, _)| is_counted(path)) {
        let path = path.strip_prefix(root()).expect("a page of the workspace").display().to_string();
        let sentences = sentences(&page);
        assert!(sentences.len() > 10, "{path} has {} sentences", sentences.len());
        println!("{path}: {}", Counts::of(&sentences));
        wrong.extend(faults(&sentences).into_iter().map(|fault| format!("{path}:{fault}")));
    }
    assert!(wrong.is_empty(), "write these again:\n{}", wrong.join("\n"));
    assert!(COUNTED.iter().all(|counted| root().join(counted).exists()), "one of {COUNTED:?} is missing");
}

#[test]
fn the_readme_has_the_version() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let status = concat!("| status | ", env!("CARGO_PKG_VERSION"), ", ");
    assert!(readme.contains(status), "README.md does not have {status:?}");
}

/// The anchor that is generated from a heading.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

/// The anchors of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut anchors = BTreeSet::new();
    for line in page.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if !fenced && heading.len() < line.len() && heading.starts_with(' ') {
            anchors.insert(anchor(heading));
        }
        for id in line.split("<a id=\"").skip(1) {
            anchors.extend(id.split_once('"').map(|(id, _)| id.to_owned()));
        }
    }
    anchors
}

#[test]
fn every_link_has_a_target() {
    let pages = pages();
    let (mut links, mut dead) = (0, Vec::new());
    for (path, page) in &pages {
        let text: String = page.split("```").step_by(2).collect();
        let plain: String = text.split('`').step_by(2).collect();
        for target in plain.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
            if target.contains("://") {
                continue;
            }
            links += 1;
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            let directory = path.parent().expect("a page is in a directory");
            let there = if file.is_empty() { Ok(path.clone()) } else { directory.join(file).canonicalize() };
            let found = there.is_ok_and(|there| {
                part.is_empty() || pages.get(&there).is_some_and(|page| anchors(page).contains(part))
            });
            if !found {
                dead.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(links > 150 && dead.is_empty(), "{links} links; these have no target:\n{}", dead.join("\n"));
}

#[test]
fn every_page_is_in_the_index() {
    let docs = root().join("docs");
    let index = fs::read_to_string(docs.join("README.md")).expect("the index");
    let pages = pages();
    let names =
        pages.keys().filter_map(|path| path.strip_prefix(&docs).ok()?.to_str()).filter(|name| *name != "README.md");
    let missing: Vec<&str> = names.filter(|name| !index.contains(&format!("({name})"))).collect();
    assert_eq!(missing, [""; 0], "not in docs/README.md");
}

/// Names of the functions in the Rust files below a directory.
fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            // Planted bugs run some tests as stories.
            let lines = text.lines().map(|line| line.trim_start().trim_start_matches("pub(crate) "));
            let named = lines.filter_map(|line| line.trim_start_matches("async ").strip_prefix("fn ")?.split_once('('));
            found.extend(named.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn every_test_named_in_a_page_exists() {
    let root = root();
    let mut found = BTreeSet::new();
    functions(&root.join("crates"), &mut found);
    functions(&root.join("tests"), &mut found);
    let page =
        NAMING_TESTS.map(|page| fs::read_to_string(root.join(page)).expect("a page that names tests")).join("\n");
    // Words in backticks with underscores.
    let prose: String = page.split("```").step_by(2).collect();
    let is_name = |word: &&str| {
        word.contains('_') && word.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
    };
    let named: BTreeSet<&str> =
        prose.split('`').skip(1).step_by(2).filter(is_name).filter(|word| !NO_TESTS.contains(word)).collect();
    assert!(named.len() > 300, "{} tests are named", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !found.contains(*name)).collect();
    assert_eq!(missing, [""; 0], "named in {NAMING_TESTS:?}, but not defined");
}

#[test]
fn every_file_named_in_the_glossary_exists() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/reference/glossary.md")).expect("the glossary");
    let named: Vec<&str> = page.split('`').skip(1).step_by(2).filter(|name| name.contains('/')).collect();
    assert!(named.len() > 30, "{} files are named", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !root.join(name).is_file()).collect();
    assert_eq!(missing, [""; 0], "named in docs/reference/glossary.md, but missing");
}

